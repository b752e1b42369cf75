// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Requests of others, passed on to the manager that leads.

use super::{ManagerClient, ManagerError, Problem, NOT_LEADING};
use reqwest::header::HeaderMap;
use reqwest::{Body, Method, Response, StatusCode};

/// A request of somebody else.
#[derive(Clone, Debug)]
pub struct Forward {
    /// What is done.
    pub method: Method,
    /// Path, from the manager's root.
    pub path: String,
    /// What follows the question mark.
    pub query: Option<String>,
    /// All that the manager is to see.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Vec<u8>,
}

/// What the manager says to it.
#[derive(Debug)]
pub struct Forwarded {
    /// Status, which may be a refusal.
    pub status: StatusCode,
    /// All that the manager says.
    pub headers: HeaderMap,
    /// The body, as it comes.
    pub body: Body,
}

impl ManagerClient {
    /// Passes a request on to the manager that answered last, and to the others if it is not there or does not lead.
    pub async fn forward(&self, request: &Forward) -> Result<Forwarded, ManagerError> {
        let mut left = self.bases.len();
        loop {
            let mut url = self.parsed(self.base())?;
            let path = format!("{}{}", url.path().trim_end_matches('/'), request.path);
            url.set_path(&path);
            url.set_query(request.query.as_deref());
            let asked = self
                .http
                .request(request.method.clone(), url)
                .headers(request.headers.clone())
                .body(request.body.clone());
            let answer = match superp_tls::send(asked).await {
                Ok(response) => self.leading(response).await,
                Err(error) => Err(self.failed(&error)),
            };
            left -= 1;
            match answer {
                Err(ManagerError::Unreachable(_)) if left > 0 => self.advance(),
                answer => return answer,
            }
        }
    }

    /// The answer, if it is not that of a manager that does not lead.
    async fn leading(&self, mut response: Response) -> Result<Forwarded, ManagerError> {
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        if status != StatusCode::SERVICE_UNAVAILABLE {
            let body = response.into();
            return Ok(Forwarded {
                status,
                headers,
                body,
            });
        }
        let text = response.text().await.map_err(|error| self.failed(&error))?;
        match serde_json::from_str::<Problem>(&text) {
            Ok(problem) if problem.title == NOT_LEADING => Err(self.not_leading(&problem)),
            _ => Ok(Forwarded {
                status,
                headers,
                body: text.into(),
            }),
        }
    }
}
