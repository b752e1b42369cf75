// SPDX-License-Identifier: GPL-2.0 OR MIT
//! infiniband/verbs.h and rdma/rdma_cma.h, as build.rs translates it.

#![allow(
    clippy::all,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case
)]
#![allow(non_upper_case_globals, rust_2018_idioms, unreachable_pub)]

include!(concat!(env!("OUT_DIR"), "/verbs.rs"));

/// `_compat_ibv_port_attr`: the struct as it was before its last two fields.
pub(crate) const OLD_PORT_ATTR: usize = std::mem::offset_of!(ibv_port_attr, port_cap_flags2);

/// `__VERBS_ABI_IS_EXTENDED`, which bindgen does not see.
pub(crate) const EXTENDED: usize = usize::MAX;

/// Of `ibv_query_gid_type()`, in no installed header: RoCE version 2.
pub(crate) const GID_TYPE_SYSFS_ROCE_V2: std::ffi::c_uint = 1;
