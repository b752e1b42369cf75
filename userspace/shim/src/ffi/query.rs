// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What is asked of the device, its port and its addresses.

use super::abi::*;
use super::device::{guid, set_text};
use super::{code, errno, minus_one};
use crate::rules;
use libc::{c_int, c_uint, size_t, ssize_t};
use superp_verbs::uapi;
use superp_verbs::{Device, Port};

/// What the kernel's software devices say, which have no vendor.
const NO_VENDOR: u32 = 0xff_ffff;

/// The one partition key, in either byte order.
pub(super) const PKEY: u16 = 0xffff;

fn page_size() -> u64 {
    // SAFETY: It reads a constant of the system.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(4096)
}

fn device_attributes() -> Result<ibv_device_attr, c_int> {
    let device = Device::current().map_err(errno)?;
    let guid = guid(device.ports());
    let mut found = ibv_device_attr {
        node_guid: guid,
        sys_image_guid: guid,
        vendor_id: NO_VENDOR,
        max_mr_size: 1 << 40,
        page_size_cap: page_size(),
        max_qp: uapi::SUPERP_MAX_RING_QPS as c_int,
        max_qp_wr: uapi::SUPERP_MAX_SQ_ENTRIES as c_int,
        max_sge: uapi::SUPERP_MAX_SEGMENTS as c_int,
        max_sge_rd: uapi::SUPERP_MAX_SEGMENTS as c_int,
        max_cq: uapi::SUPERP_MAX_RING_CQS as c_int,
        max_cqe: uapi::SUPERP_MAX_CQ_ENTRIES as c_int,
        // Keys have 24 bits; domains are of the process alone.
        max_mr: (1 << 24) - 1,
        max_srq: uapi::SUPERP_MAX_RING_SRQS as c_int,
        max_srq_wr: uapi::SUPERP_MAX_SRQ_ENTRIES as c_int,
        max_srq_sge: uapi::SUPERP_MAX_SEGMENTS as c_int,
        max_pd: c_int::MAX,
        max_qp_rd_atom: rules::MAX_READS.into(),
        max_res_rd_atom: c_int::MAX,
        max_qp_init_rd_atom: rules::MAX_READS.into(),
        atomic_cap: IBV_ATOMIC_GLOB,
        max_pkeys: 1,
        phys_port_cnt: 1,
        ..Default::default()
    };
    set_text(&mut found.fw_ver, device.module_version());
    Ok(found)
}

pub(super) unsafe fn query_device(_context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int {
    // SAFETY: The caller's.
    code(device_attributes().map(|found| unsafe { attr.write(found) }))
}

/// Of the additional attributes only the number of ports is not 0.
pub(super) unsafe extern "C" fn query_device_ex(
    _context: *mut ibv_context,
    _input: *const ibv_query_device_ex_input,
    attr: *mut ibv_device_attr_ex,
    size: size_t,
) -> c_int {
    let found = device_attributes().map(|orig_attr| ibv_device_attr_ex {
        orig_attr,
        phys_port_cnt_ex: 1,
        ..Default::default()
    });
    // SAFETY: The caller's struct has so many bytes.
    code(found.map(|found| unsafe { put_struct(attr, &found, size) }))
}

/// Puts a struct where one of `size` bytes is, whose declaration may be older or newer.
///
/// # Safety
///
/// There are so many bytes.
unsafe fn put_struct<T>(to: *mut T, found: &T, size: usize) {
    let from: *const T = found;
    // SAFETY: By the contract of this function.
    unsafe {
        to.cast::<u8>().write_bytes(0, size);
        let size = size.min(size_of::<T>());
        to.cast::<u8>().copy_from(from.cast(), size);
    }
}

/// The device, if the port is its port.
fn of_port(port: u32) -> Result<Device, c_int> {
    match port {
        1 => Device::current().map_err(errno),
        _ => Err(libc::EINVAL),
    }
}

/// All ports of the node are one here, with the addresses of all.
fn port_attributes(device: &Device) -> ibv_port_attr {
    let up = device.ports().iter().any(|port| port.up);
    let usable = |port: &&Port| port.up || !up;
    let smallest = device
        .ports()
        .iter()
        .filter(usable)
        .map(|port| port.mtu)
        .min();
    ibv_port_attr {
        state: [IBV_PORT_DOWN, IBV_PORT_ACTIVE][usize::from(up)],
        max_mtu: IBV_MTU_4096,
        active_mtu: rules::mtu(smallest.unwrap_or(0)),
        gid_tbl_len: device.addresses().len() as c_int,
        port_cap_flags: IBV_PORT_IP_BASED_GIDS,
        // One number for all operations.
        max_msg_sz: uapi::SUPERP_MAX_RMA,
        pkey_tbl_len: 1,
        // "LinkUp" or "Disabled".
        phys_state: [3, 5][usize::from(up)],
        // One lane at 2.5 Gbit/s, as the kernel's software devices say where they know no rate.
        active_width: 1,
        active_speed: 1,
        link_layer: IBV_LINK_LAYER_ETHERNET as u8,
        ..Default::default()
    }
}

pub(super) unsafe extern "C" fn query_port(
    _context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
    size: size_t,
) -> c_int {
    let found = match of_port(port.into()) {
        Ok(device) => port_attributes(&device),
        Err(errno) => return code(Err(errno)),
    };
    // SAFETY: The caller's struct has so many bytes.
    unsafe { put_struct(attr, &found, size) };
    0
}

pub(super) unsafe fn query_port_old(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: The same contract, with the older struct.
    unsafe { query_port(context, port, attr, OLD_PORT_ATTR) }
}

fn entry(device: &Device, index: u32) -> Option<ibv_gid_entry> {
    let addr = *device.addresses().get(index as usize)?;
    let mut ports = device.ports().iter();
    let port = ports.find(|port| port.addresses.contains(&addr));
    Some(ibv_gid_entry {
        gid: ibv_gid {
            raw: rules::gid(addr),
        },
        gid_index: index,
        port_num: 1,
        gid_type: IBV_GID_TYPE_ROCE_V2,
        ndev_ifindex: port.map_or(0, |port| port.ifindex),
    })
}

fn find_entry(port: u32, index: u32) -> Result<ibv_gid_entry, c_int> {
    entry(&of_port(port)?, index).ok_or(libc::EINVAL)
}

pub(super) unsafe fn query_gid(
    _context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    let found = u32::try_from(index).map_err(|_| libc::EINVAL);
    let found = found.and_then(|index| find_entry(port.into(), index));
    // SAFETY: The caller's.
    minus_one(found.map(|entry| unsafe { gid.write(entry.gid) }))
}

pub(super) unsafe fn query_gid_type(
    _context: *mut ibv_context,
    port: u8,
    index: c_uint,
    kind: *mut c_uint,
) -> c_int {
    let found = find_entry(port.into(), index);
    // SAFETY: The caller's.
    minus_one(found.map(|_| unsafe { kind.write(GID_TYPE_SYSFS_ROCE_V2) }))
}

/// Puts an entry into an array of entries that may be longer than those of this header.
unsafe fn put(entries: *mut ibv_gid_entry, at: usize, size: usize, entry: &ibv_gid_entry) {
    let from: *const ibv_gid_entry = entry;
    // SAFETY: There is room for `at + 1` entries of `size` bytes, which is no less than an entry.
    unsafe {
        let place = entries.byte_add(at * size);
        place.cast::<u8>().write_bytes(0, size);
        place.copy_from(from, 1);
    }
}

/// What both queries refuse.
fn check(flags: u32, size: size_t) -> Result<(), c_int> {
    match flags == 0 && size >= size_of::<ibv_gid_entry>() {
        true => Ok(()),
        false => Err(libc::EOPNOTSUPP),
    }
}

pub(super) unsafe fn query_gid_ex(
    _context: *mut ibv_context,
    port: u32,
    index: u32,
    place: *mut ibv_gid_entry,
    flags: u32,
    size: size_t,
) -> c_int {
    let found = check(flags, size).and_then(|()| find_entry(port, index));
    // SAFETY: The caller's struct has so many bytes.
    code(found.map(|entry| unsafe { put(place, 0, size, &entry) }))
}

pub(super) unsafe fn query_gid_table(
    _context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    most: size_t,
    flags: u32,
    size: size_t,
) -> ssize_t {
    let device = check(flags, size).and_then(|()| of_port(1));
    let device = match device {
        Ok(device) => device,
        Err(errno) => return -(errno as ssize_t),
    };
    let count = device.addresses().len();
    if count > most {
        return -(libc::EINVAL as ssize_t);
    }
    for (at, entry) in (0..).map_while(|index| entry(&device, index)).enumerate() {
        // SAFETY: The caller's array has room for `most` entries of so many bytes.
        unsafe { put(entries, at, size, &entry) };
    }
    count as ssize_t
}

pub(super) unsafe fn query_pkey(
    _context: *mut ibv_context,
    port: u8,
    index: c_int,
    pkey: *mut u16,
) -> c_int {
    let found = match (port, index) {
        (1, 0) => Ok(PKEY),
        _ => Err(libc::EINVAL),
    };
    // SAFETY: The caller's.
    minus_one(found.map(|found| unsafe { pkey.write(found) }))
}
