// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Refusals (RFC 9457).

use crate::Outcome;
use serde::{Deserialize, Serialize};
use std::fmt;
use utoipa::ToSchema;

/// Why a request was refused, or failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Problem {
    /// What kind of problem.
    #[serde(rename = "type")]
    pub kind: ProblemKind,
    /// The same in words.
    pub title: String,
    /// Status of the HTTP answer.
    pub status: u16,
    /// What is wrong this time, and what would be right.
    pub detail: String,
    /// Every mistake that was found in the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// What became of each object, when the kernel was asked to change something.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<Outcome>,
    /// The term of the request, where that is the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub term: Option<u64>,
    /// The highest term that the agent has seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_term: Option<u64>,
    /// The generation in force, where that is the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
}

/// A mistake in a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Fault {
    /// Where: a JSON pointer into the body, `/configuration/connections/3/peer`.
    pub pointer: String,
    /// What is wrong, and what would be right.
    pub detail: String,
}

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ProblemKind {
    /// The body is no JSON, or not of the form that is asked for (400, 413, 415).
    #[serde(rename = "urn:superp:problem:malformed")]
    Malformed,
    /// The request makes no sense; nothing was changed (422).
    #[serde(rename = "urn:superp:problem:invalid")]
    Invalid,
    /// There is no such thing (404, 405).
    #[serde(rename = "urn:superp:problem:not-found")]
    NotFound,
    /// The role of who asks does not allow it (403).
    #[serde(rename = "urn:superp:problem:forbidden")]
    Forbidden,
    /// A newer manager has been seen (409).
    #[serde(rename = "urn:superp:problem:stale-term")]
    StaleTerm,
    /// Another generation is in force (409).
    #[serde(rename = "urn:superp:problem:generation")]
    Generation,
    /// The node or the connection is not in a state that allows it (409).
    #[serde(rename = "urn:superp:problem:state")]
    State,
    /// The kernel refused, and everything done was undone (422).
    #[serde(rename = "urn:superp:problem:kernel-refused")]
    KernelRefused,
    /// The kernel refused after something was done that cannot be undone: `outcomes` says what is
    /// in force; the same request again goes on (500).
    #[serde(rename = "urn:superp:problem:partial")]
    Partial,
    /// The kernel module is not loaded (503).
    #[serde(rename = "urn:superp:problem:no-module")]
    NoModule,
    /// The agent failed (500).
    #[serde(rename = "urn:superp:problem:failed")]
    Failed,
    /// The request took too long (408).
    #[serde(rename = "urn:superp:problem:timeout")]
    Timeout,
    /// A kind that this version does not know.
    #[serde(rename = "urn:superp:problem:other", other)]
    Other,
}

impl ProblemKind {
    /// In words.
    pub fn title(self) -> &'static str {
        match self {
            Self::Malformed => "The request is malformed",
            Self::Invalid => "The request is not valid",
            Self::NotFound => "There is no such thing",
            Self::Forbidden => "The role does not allow it",
            Self::StaleTerm => "The term is stale",
            Self::Generation => "The generation does not fit",
            Self::State => "The state does not allow it",
            Self::KernelRefused => "The kernel refused, nothing is changed",
            Self::Partial => "The kernel refused, a part is changed",
            Self::NoModule => "The kernel module is not loaded",
            Self::Failed => "The agent failed",
            Self::Timeout => "The request took too long",
            Self::Other => "Another problem",
        }
    }
}

impl Problem {
    /// A problem of this kind, told by a sentence.
    pub fn new(kind: ProblemKind, status: u16, detail: impl Into<String>) -> Self {
        Self {
            kind,
            title: kind.title().to_owned(),
            status,
            detail: detail.into(),
            faults: Vec::new(),
            outcomes: Vec::new(),
            term: None,
            highest_term: None,
            generation: None,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        for fault in &self.faults {
            write!(f, "; {}: {}", fault.pointer, fault.detail)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}
