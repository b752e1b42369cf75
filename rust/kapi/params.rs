// SPDX-License-Identifier: GPL-2.0

//! Parameters of the module. They are fixed when it is loaded.

use super::bindings as c;

/// Number of the address family. Any context.
pub(crate) fn family() -> u16 {
    // SAFETY: `superp_param_family()` has no requirements.
    unsafe { c::superp_param_family() }
}

/// EtherType of SUNH, in host byte order. Any context.
pub(crate) fn ethertype() -> u16 {
    // SAFETY: `superp_param_ethertype()` has no requirements.
    unsafe { c::superp_param_ethertype() }
}

/// EtherType of SUNH with SUPERp-lite, in host byte order. Any context.
pub(crate) fn lite_ethertype() -> u16 {
    // SAFETY: `superp_param_lite_ethertype()` has no requirements.
    unsafe { c::superp_param_lite_ethertype() }
}

/// SUNH Next Header of SUPERp. Any context.
pub(crate) fn next_header() -> u8 {
    // SAFETY: `superp_param_next_header()` has no requirements.
    unsafe { c::superp_param_next_header() }
}
