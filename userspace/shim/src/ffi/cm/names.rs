// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Addresses as programs give and get them.

use super::super::abi::*;
use libc::{c_int, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Room for any address: `struct sockaddr_storage`.
pub(super) type Place = [u64; 16];

/// What is at a `struct sockaddr`.
///
/// # Errors
///
/// EINVAL: NULL, or of another family than IPv4 and IPv6.
///
/// # Safety
///
/// NULL, or an address as long as its family says.
pub(super) unsafe fn read(name: *const sockaddr) -> Result<SocketAddr, c_int> {
    if name.is_null() {
        return Err(libc::EINVAL);
    }
    // SAFETY: By the contract of this function.
    let family = unsafe { name.cast::<libc::sa_family_t>().read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET => {
            // SAFETY: As above.
            let name = unsafe { name.cast::<libc::sockaddr_in>().read_unaligned() };
            let addr = Ipv4Addr::from(u32::from_be(name.sin_addr.s_addr));
            Ok((addr, u16::from_be(name.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: As above.
            let name = unsafe { name.cast::<libc::sockaddr_in6>().read_unaligned() };
            let addr = Ipv6Addr::from(name.sin6_addr.s6_addr);
            Ok((addr, u16::from_be(name.sin6_port)).into())
        }
        _ => Err(libc::EINVAL),
    }
}

/// The length of a `struct sockaddr`.
pub(super) fn length(name: SocketAddr) -> usize {
    match name {
        SocketAddr::V4(_) => size_of::<libc::sockaddr_in>(),
        SocketAddr::V6(_) => size_of::<libc::sockaddr_in6>(),
    }
}

/// Puts an address where a `struct sockaddr_storage` is.
///
/// # Safety
///
/// There is one.
pub(super) unsafe fn write(place: *mut c_void, name: SocketAddr) {
    match name {
        SocketAddr::V4(name) => {
            let raw = libc::sockaddr_in {
                sin_family: libc::AF_INET as libc::sa_family_t,
                sin_port: name.port().to_be(),
                sin_addr: libc::in_addr {
                    s_addr: u32::from(*name.ip()).to_be(),
                },
                sin_zero: [0; 8],
            };
            // SAFETY: By the contract of this function.
            unsafe { place.cast::<libc::sockaddr_in>().write_unaligned(raw) };
        }
        SocketAddr::V6(name) => {
            let raw = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as libc::sa_family_t,
                sin6_port: name.port().to_be(),
                sin6_flowinfo: 0,
                sin6_addr: libc::in6_addr {
                    s6_addr: name.ip().octets(),
                },
                sin6_scope_id: 0,
            };
            // SAFETY: As above.
            unsafe { place.cast::<libc::sockaddr_in6>().write_unaligned(raw) };
        }
    }
}

/// An address in the family that the program speaks: IPv6 if it asked so, also of what is IPv4.
pub(super) fn in_family(addr: IpAddr, port: u16, six: bool) -> SocketAddr {
    match addr {
        IpAddr::V4(addr) if six => (addr.to_ipv6_mapped(), port).into(),
        addr => (addr, port).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_way() {
        for text in [
            "10.23.0.1:7471",
            "[fd23::1]:18515",
            "0.0.0.0:0",
            "[::]:65535",
        ] {
            let name: SocketAddr = text.parse().unwrap();
            let mut place: Place = [0; 16];
            // SAFETY: Room for any address.
            let read = unsafe {
                write(place.as_mut_ptr().cast(), name);
                read(place.as_ptr().cast())
            };
            assert_eq!(read, Ok(name));
        }
    }

    #[test]
    fn other_families_are_refused() {
        // SAFETY: NULL, and an address of no family.
        unsafe {
            assert_eq!(read(std::ptr::null()), Err(libc::EINVAL));
            let place: Place = [0; 16];
            assert_eq!(read(place.as_ptr().cast()), Err(libc::EINVAL));
        }
    }

    #[test]
    fn who_asks_for_ipv6_gets_it() {
        let four: IpAddr = "10.23.0.1".parse().unwrap();
        assert_eq!(in_family(four, 5, false).to_string(), "10.23.0.1:5");
        assert_eq!(in_family(four, 5, true).to_string(), "[::ffff:10.23.0.1]:5");
    }
}
