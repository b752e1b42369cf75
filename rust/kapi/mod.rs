// SPDX-License-Identifier: GPL-2.0

//! Safe Rust over the kernel interfaces that the `kernel` crate lacks, with the C half beside it.

mod bindings;

/// Whether this kernel was built with UDP tunnels.
pub(crate) fn udp_tunnel_available() -> bool {
    // SAFETY: The function reads nothing but a constant.
    unsafe { bindings::superp_udp_tunnel_available() }
}
