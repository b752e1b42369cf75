// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Roles, and whose certificate it is.

use std::fmt;
use std::str::FromStr;
use x509_parser::prelude::{FromDer, GeneralName, ParsedExtension, X509Certificate};

/// What the URI begins with by which a certificate says its role, among its alternative names.
const PREFIX: &str = "superp:role:";

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Ask the manager, and agents, for what there is.
    Viewer,
    /// Everything that the manager can be asked.
    Operator,
    /// Be the agent of a host.
    Agent,
    /// Be the manager: command agents.
    Manager,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Operator, Self::Agent, Self::Manager];

    /// Whether who has it serves others, under a name or address that they know.
    pub fn serves(self) -> bool {
        matches!(self, Self::Agent | Self::Manager)
    }

    #[cfg(feature = "authority")]
    pub(crate) fn uri(self) -> String {
        format!("{PREFIX}{self}")
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Viewer => "viewer",
            Self::Operator => "operator",
            Self::Agent => "agent",
            Self::Manager => "manager",
        })
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|role| role.to_string() == text);
        found.ok_or_else(|| format!("{text:?} is no role: viewer, operator, agent or manager"))
    }
}

/// Whose certificate it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// Its role.
    pub role: Role,
    /// When the certificate expires, seconds since 1970.
    pub until: i64,
    /// Its serial number, hexadecimal.
    pub serial: String,
}

impl Identity {
    /// Reads a certificate in DER. Who made it is not looked at.
    pub fn read(der: &[u8]) -> Result<Self, String> {
        let (_, parsed) =
            X509Certificate::from_der(der).map_err(|_| "it is no X.509 certificate".to_owned())?;
        let mut names = parsed.subject().iter_common_name();
        let name = match (names.next().map(|name| name.as_str()), names.next()) {
            (Some(Ok(name)), None) => name.to_owned(),
            _ => return Err("the certificate does not have one name".into()),
        };
        let extensions = parsed.extensions().iter();
        let uris = extensions.filter_map(|extension| match extension.parsed_extension() {
            ParsedExtension::SubjectAlternativeName(names) => Some(&names.general_names),
            _ => None,
        });
        let mut roles = uris.flatten().filter_map(|name| match name {
            GeneralName::URI(uri) => uri.strip_prefix(PREFIX),
            _ => None,
        });
        match (roles.next().map(str::parse), roles.next()) {
            (Some(Ok(role)), None) => Ok(Self {
                name,
                role,
                until: parsed.validity().not_after.timestamp(),
                serial: format!("{:x}", parsed.serial),
            }),
            _ => Err(format!(
                "the certificate of {name} does not say one role ({PREFIX}… as an alternative name)"
            )),
        }
    }
}

/// A certificate of the authority that does not have the role that is asked for.
#[derive(Debug)]
pub(crate) struct WrongRole(pub(crate) String);

impl fmt::Display for WrongRole {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WrongRole {}
