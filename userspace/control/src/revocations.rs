// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Certificates that are revoked.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `PUT /v1/revocations`. There is no term: the list has a signature and a number of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Revocations {
    /// The list that the authority has signed (X.509 CRL), PEM.
    pub list: String,
}

/// Its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Revoked {
    /// Number of the list in force: that of the request, or of a newer one.
    pub number: u64,
}
