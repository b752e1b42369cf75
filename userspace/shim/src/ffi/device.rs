// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The device, and lists of devices.

use super::abi::*;
use libc::{c_char, c_int};
use std::ptr;
use std::sync::OnceLock;
use superp_verbs::Port;

/// The device. Libraries of providers look behind the public struct for what is theirs and must find
/// nothing.
#[repr(C)]
struct Device {
    public: ibv_device,
    beyond: [u64; 128],
}

struct DevicePointer(*mut ibv_device);

// SAFETY: The device does not change any more.
unsafe impl Send for DevicePointer {}
// SAFETY: As above.
unsafe impl Sync for DevicePointer {}

static DEVICE: OnceLock<DevicePointer> = OnceLock::new();

/// Puts a text into an array that keeps a 0 behind it.
pub(super) fn set_text(place: &mut [c_char], text: &str) {
    let room = place.len().saturating_sub(1);
    for (to, from) in place.iter_mut().take(room).zip(text.bytes()) {
        *to = from as c_char;
    }
}

/// The one device of the process.
fn the_device(name: &str) -> *mut ibv_device {
    let made = DEVICE.get_or_init(|| {
        let mut public = ibv_device {
            node_type: IBV_NODE_CA,
            transport_type: IBV_TRANSPORT_IB,
            ..Default::default()
        };
        set_text(&mut public.name, name);
        set_text(&mut public.dev_name, name);
        let device = Device {
            public,
            beyond: [0; 128],
        };
        // It stays: programs may use a device after they have freed the list.
        DevicePointer(Box::into_raw(Box::new(device)).cast())
    });
    made.0
}

/// The own device.
///
/// # Errors
///
/// ENODEV: the node has no SUPERp; what netlink says.
pub(super) fn own_device() -> Result<*mut ibv_device, c_int> {
    let own = superp_verbs::devices().map_err(super::errno)?;
    let own = own.first().ok_or(libc::ENODEV)?;
    Ok(the_device(own.name()))
}

/// Whether it is the own device. Never touches it.
pub(super) fn is_own(device: *mut ibv_device) -> bool {
    DEVICE.get().is_some_and(|own| own.0 == device)
}

/// A list of devices, which ends with NULL. In memory the list of the real library is before it.
pub(super) struct Devices(Vec<*mut ibv_device>);

impl Devices {
    /// The own device if there is one, and those of a list of the real library or NULL.
    ///
    /// # Errors
    ///
    /// ENOSYS: there is neither; what netlink says.
    ///
    /// # Safety
    ///
    /// The list is one.
    pub(super) unsafe fn new(others: *mut *mut ibv_device) -> Result<Self, c_int> {
        let own = match superp_verbs::devices() {
            Ok(own) => own,
            Err(error) if others.is_null() => return Err(super::errno(error)),
            // Others are there all the same.
            Err(_) => Vec::new(),
        };
        if own.is_empty() && others.is_null() {
            return Err(libc::ENOSYS);
        }
        let mut list = vec![others.cast()];
        list.extend(own.iter().map(|device| the_device(device.name())));
        if !others.is_null() {
            let mut at = others;
            // SAFETY: By the contract of this function; it ends with NULL.
            unsafe {
                while !(*at).is_null() {
                    list.push(*at);
                    at = at.add(1);
                }
            }
        }
        list.push(ptr::null_mut());
        Ok(Self(list))
    }

    pub(super) fn len(&self) -> c_int {
        self.0.len() as c_int - 2
    }

    pub(super) fn into_raw(self) -> *mut *mut ibv_device {
        let list = Box::into_raw(self.0.into_boxed_slice());
        // SAFETY: There are at least two elements.
        unsafe { list.cast::<*mut ibv_device>().add(1) }
    }

    /// Frees a list; gives the one of the real library.
    ///
    /// # Safety
    ///
    /// It is from `into_raw`, and freed once.
    pub(super) unsafe fn free(list: *mut *mut ibv_device) -> *mut *mut ibv_device {
        // SAFETY: As `into_raw` made it: one element before, and NULL at the end.
        unsafe {
            let first = list.sub(1);
            let mut len = 2;
            while !(*first.add(len - 1)).is_null() {
                len += 1;
            }
            let list = Box::from_raw(ptr::slice_from_raw_parts_mut(first, len));
            list.first().copied().unwrap_or(ptr::null_mut()).cast()
        }
    }
}

pub(super) unsafe fn device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: The own device.
    unsafe { (*device).name.as_ptr() }
}

/// The EUI-64 of the first port, big endian.
pub(super) fn guid(ports: &[Port]) -> u64 {
    let text = |port: &Port| {
        let path = format!("/sys/class/net/{}/address", port.name);
        std::fs::read_to_string(path).ok()
    };
    let mac: Vec<u8> = ports
        .first()
        .and_then(text)
        .unwrap_or_default()
        .trim()
        .split(':')
        .filter_map(|byte| u8::from_str_radix(byte, 16).ok())
        .collect();
    match mac[..] {
        [a, b, c, d, e, f] => u64::from_ne_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]),
        _ => 0,
    }
}

pub(super) unsafe fn device_guid(_device: *mut ibv_device) -> u64 {
    superp_verbs::Device::current().map_or(0, |device| guid(device.ports()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_the_devices_of_the_real_library_and_give_its_list_back() {
        let mut devices = [ibv_device::default(); 2];
        let [a, b] = &mut devices;
        let mut others: [*mut ibv_device; 3] = [a, b, ptr::null_mut()];
        // SAFETY: A list that ends with NULL.
        let list = unsafe { Devices::new(others.as_mut_ptr()) }.unwrap();
        let len = list.len() as usize;
        assert!(len >= 2);
        let raw = list.into_raw();
        // SAFETY: The list has `len` elements and NULL.
        unsafe {
            assert_eq!(*raw.add(len - 2), others[0]);
            assert_eq!(*raw.add(len - 1), others[1]);
            assert!((*raw.add(len)).is_null());
            assert_eq!(Devices::free(raw), others.as_mut_ptr());
        }
        assert!(!is_own(others[0]));
    }

    #[test]
    fn texts_are_cut_before_the_last_byte() {
        let mut place = [0; 4];
        set_text(&mut place, "superp");
        assert_eq!(place.map(|byte| byte as u8), *b"sup\0");
    }
}
