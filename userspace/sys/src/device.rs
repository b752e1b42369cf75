// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Names of network devices.

use std::ffi::{CStr, CString};
use std::io::{Error, ErrorKind, Result};

/// The index of the network device of this name in the current network namespace.
///
/// # Errors
///
/// `NotFound` without such a device.
pub fn device_index(name: &str) -> Result<u32> {
    let text = CString::new(name).map_err(|_| ErrorKind::InvalidInput)?;
    // SAFETY: The name is a C string.
    match unsafe { libc::if_nametoindex(text.as_ptr()) } {
        0 => Err(Error::new(
            ErrorKind::NotFound,
            format!("no network device {name}"),
        )),
        index => Ok(index),
    }
}

/// The name of the network device of this index in the current network namespace.
pub fn device_name(index: u32) -> Option<String> {
    let mut name = [0; libc::IF_NAMESIZE];
    // SAFETY: The buffer has the size that the function asks for.
    if unsafe { libc::if_indextoname(index, name.as_mut_ptr().cast()) }.is_null() {
        return None;
    }
    let name = CStr::from_bytes_until_nul(&name).ok()?;
    Some(name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_by_name_and_index() {
        let index = device_index("lo").unwrap();
        assert_eq!(device_name(index).as_deref(), Some("lo"));
        assert!(device_index("no-such-device").is_err());
        assert!(device_index("nul\0").is_err());
        assert_eq!(device_name(u32::MAX), None);
    }
}
