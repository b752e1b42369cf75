// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The structs of `superp/verbs.h`; `tests/header.rs` compares the two.

use libc::{c_char, c_int, c_void};

macro_rules! structs {
    ($($c:literal $name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            #[doc = concat!("`struct ", $c, "`")]
            #[repr(C)]
            #[derive(Clone, Copy)]
            #[allow(missing_docs)]
            pub struct $name { $(pub $field: $type,)* }
        )*

        /// Name, size, and each field with offset and size, of every struct: for tests.
        #[doc(hidden)]
        pub const LAYOUT: &[(&str, usize, &[(&str, usize, usize)])] = &[
            $(($c, size_of::<$name>(), &[
                $((stringify!($field), std::mem::offset_of!($name, $field), size_of::<$type>()),)*
            ]),)*
        ];
    };
}

structs! {
    "superp_port_attr" PortAttr {
        ifindex: u32,
        mtu: u32,
        up: u32,
        name: [c_char; 20],
    }

    "superp_mr" Mr {
        context: *mut c_void,
        addr: *mut c_void,
        length: usize,
        rma_addr: u64,
        lkey: u32,
    }

    "superp_srq_init_attr" SrqInitAttr {
        srq_context: *mut c_void,
        max_wr: u32,
        max_sge: u32,
    }

    "superp_qp_init_attr" QpInitAttr {
        qp_context: *mut c_void,
        send_cq: *mut c_void,
        recv_cq: *mut c_void,
        max_send_wr: u32,
        max_recv_wr: u32,
        qp_num: u32,
        max_send_sge: u32,
        max_recv_sge: u32,
        max_inline_data: u32,
        srq: *mut c_void,
    }

    "superp_conn_attr" ConnAttr {
        cid: u32,
        flags: u32,
        max_message: u32,
        min_message: u32,
    }

    "superp_qp_attr" QpAttr {
        qp_state: u32,
    }

    "superp_sge" Sge {
        addr: u64,
        length: u32,
        lkey: u32,
    }

    "superp_send_wr" SendWr {
        wr_id: u64,
        next: *mut SendWr,
        sg_list: *mut Sge,
        num_sge: c_int,
        opcode: u32,
        send_flags: u32,
        imm_data: u32,
        remote_addr: u64,
        operand: u64,
        compare: u64,
    }

    "superp_recv_wr" RecvWr {
        wr_id: u64,
        next: *mut RecvWr,
        sg_list: *mut Sge,
        num_sge: c_int,
    }

    "superp_wc" Wc {
        wr_id: u64,
        status: u32,
        minor: u32,
        error: u32,
        opcode: u32,
        byte_len: u32,
        imm_data: u32,
        wc_flags: u32,
        qp_index: u32,
    }
}

/// The state of a queue pair.
pub const SUPERP_QP_STATE: u32 = 1 << 0;
/// Bytes of inline data that a queue pair can be made for.
pub const SUPERP_INLINE_LIMIT: u32 = superp_verbs::MAX_INLINE;
/// The request has a completion also if it succeeds.
pub const SUPERP_SEND_SIGNALED: u32 = 1 << 0;
/// The bytes are copied now.
pub const SUPERP_SEND_INLINE: u32 = 1 << 1;
/// With immediate data.
pub const SUPERP_SEND_IMM: u32 = 1 << 2;
/// The request starts when all before it on the queue pair is complete.
pub const SUPERP_SEND_FENCE: u32 = 1 << 3;
/// The receiver is woken even if it waits for such messages alone.
pub const SUPERP_SEND_SOLICITED: u32 = 1 << 4;
/// The completion has immediate data.
pub const SUPERP_WC_WITH_IMM: u32 = 1 << 0;

impl PortAttr {
    pub(crate) fn new(port: &superp_verbs::Port) -> Self {
        let mut name = [0; 20];
        // The last byte stays 0; names of network devices have at most 15.
        for (to, from) in name.iter_mut().take(19).zip(port.name.bytes()) {
            *to = from as c_char;
        }
        Self {
            ifindex: port.ifindex,
            mtu: port.mtu,
            up: port.up.into(),
            name,
        }
    }
}
