// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Connections of clients, and what they may cost.

use axum::Router;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Most clients at a time; more wait.
const CLIENTS: usize = 256;

/// Longest time for the head of a request, and between requests.
const HEAD_TIME: Duration = Duration::from_secs(30);

/// Serves clients of a socket.
pub(crate) async fn serve(listener: TcpListener, router: Router) {
    let clients = Arc::new(Semaphore::new(CLIENTS));
    loop {
        // The semaphore is never closed.
        let Ok(place) = clients.clone().acquire_owned().await else {
            return;
        };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Mostly there are no descriptors left: give some time to come back.
                tracing::warn!(%error, "a client cannot be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut http = hyper::server::conn::http1::Builder::new();
            http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME);
            if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
                tracing::debug!(%error, "a client");
            }
            drop(place);
        });
    }
}
