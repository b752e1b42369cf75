// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Whether a connection uses the extension opcodes, as `true`, `false` or `"auto"`.

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::openapi::RefOr;
use utoipa::{PartialSchema, ToSchema};

/// Whether a connection uses the extension opcodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Extensions {
    /// `false`: not used, and refused from the peer.
    Off,
    /// `true`: used, whatever the peer has.
    On,
    /// `"auto"`: used if the peer has them.
    #[default]
    Auto,
}

const AUTO: &str = "auto";
const EXPECTED: &str = "true, false or \"auto\"";

impl From<bool> for Extensions {
    fn from(on: bool) -> Self {
        if on {
            Self::On
        } else {
            Self::Off
        }
    }
}

impl Extensions {
    /// The default is left out of a configuration, so that an agent that does not know it takes its
    /// own.
    pub(crate) fn is_auto(&self) -> bool {
        *self == Self::Auto
    }

    /// The fixed choice; none if the ends find it out.
    pub fn fixed(self) -> Option<bool> {
        match self {
            Self::Off => Some(false),
            Self::On => Some(true),
            Self::Auto => None,
        }
    }
}

impl FromStr for Extensions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "true" => Ok(Self::On),
            "false" => Ok(Self::Off),
            AUTO => Ok(Self::Auto),
            _ => Err("write true, false or auto".to_owned()),
        }
    }
}

impl Serialize for Extensions {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.fixed() {
            Some(on) => to.serialize_bool(on),
            None => to.serialize_str(AUTO),
        }
    }
}

struct Choice;

impl Visitor<'_> for Choice {
    type Value = Extensions;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(EXPECTED)
    }

    fn visit_bool<E: Error>(self, on: bool) -> Result<Extensions, E> {
        Ok(on.into())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Extensions, E> {
        // "true" in quotes is a mistake: the document allows one spelling of each choice.
        if text == AUTO {
            Ok(Extensions::Auto)
        } else {
            Err(E::invalid_value(Unexpected::Str(text), &self))
        }
    }
}

impl<'de> Deserialize<'de> for Extensions {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Choice)
    }
}

impl PartialSchema for Extensions {
    fn schema() -> RefOr<Schema> {
        let word = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some([AUTO]));
        OneOfBuilder::new()
            .item(ObjectBuilder::new().schema_type(Type::Boolean))
            .item(word)
            .description(Some(
                "Whether a connection uses the extension opcodes; `auto`: if the peer has them.",
            ))
            .into()
    }
}

impl ToSchema for Extensions {
    fn name() -> Cow<'static, str> {
        "Extensions".into()
    }
}
