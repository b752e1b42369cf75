// SPDX-License-Identifier: GPL-2.0

//! Parameters of the module, fixed when it is loaded.

use super::bindings as c;

/// Number of the address family.
pub(crate) fn family() -> u16 {
    // SAFETY: No requirements.
    unsafe { c::superp_param_family() }
}

/// EtherType of SUNH.
pub(crate) fn ethertype() -> u16 {
    // SAFETY: No requirements.
    unsafe { c::superp_param_ethertype() }
}

/// EtherType of SUPERp-lite.
pub(crate) fn lite_ethertype() -> u16 {
    // SAFETY: No requirements.
    unsafe { c::superp_param_lite_ethertype() }
}

/// Next Header of SUPERp.
pub(crate) fn next_header() -> u8 {
    // SAFETY: No requirements.
    unsafe { c::superp_param_next_header() }
}
