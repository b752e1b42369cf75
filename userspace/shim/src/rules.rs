// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What verbs mean in SUPERp, in both directions.

use crate::ffi::abi::*;
use libc::c_int;
use std::net::{IpAddr, Ipv6Addr};
use superp_sys::Access;
use superp_verbs::uapi::{self, superp_sqe};
use superp_verbs::{AccessFault, Completion, CompletionError, Fault, Opcode, Part};

/// Requests that a program may have outstanding by the attributes of a queue pair. The rings allow more.
pub(crate) const MAX_READS: u8 = 128;

/// Operations of the extended interface.
pub(crate) const SEND_OPS: u32 = IBV_QP_EX_WITH_RDMA_WRITE
    | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | IBV_QP_EX_WITH_SEND
    | IBV_QP_EX_WITH_SEND_WITH_IMM
    | IBV_QP_EX_WITH_RDMA_READ
    | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
    | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

/// Flags that a device may ignore, `IBV_ACCESS_OPTIONAL_RANGE`.
const OPTIONAL_ACCESS: u32 = 0x3ff0_0000;

/// The rights of a region.
///
/// # Errors
///
/// EINVAL: peers may change what the owner may not. EOPNOTSUPP: other kinds of regions.
pub(crate) fn access(flags: u32) -> Result<Access, c_int> {
    let mut known = OPTIONAL_ACCESS;
    let mut access = Access::NONE;
    for (flag, right) in [
        (IBV_ACCESS_LOCAL_WRITE, Access::LOCAL_WRITE),
        (IBV_ACCESS_REMOTE_WRITE, Access::REMOTE_WRITE),
        (IBV_ACCESS_REMOTE_READ, Access::REMOTE_READ),
        (IBV_ACCESS_REMOTE_ATOMIC, Access::REMOTE_ATOMIC),
    ] {
        known |= flag;
        if flags & flag != 0 {
            access = access | right;
        }
    }
    let changes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if flags & !known != 0 {
        Err(libc::EOPNOTSUPP)
    } else if flags & changes != 0 && flags & IBV_ACCESS_LOCAL_WRITE == 0 {
        Err(libc::EINVAL)
    } else {
        Ok(access)
    }
}

/// Bits of an RMA address below the key.
const KEY_SHIFT: u32 = 40;

/// The RMA address of a key and an address of the peer's, in nodes without a global address space.
///
/// # Errors
///
/// EINVAL: keys have 24 bits.
pub(crate) fn rma_addr(rkey: u32, addr: u64) -> Result<u64, c_int> {
    if rkey >> (64 - KEY_SHIFT) != 0 {
        return Err(libc::EINVAL);
    }
    Ok(u64::from(rkey) << KEY_SHIFT | addr & ((1 << KEY_SHIFT) - 1))
}

/// The GID of an address, as in RoCE version 2.
pub(crate) fn gid(addr: IpAddr) -> [u8; 16] {
    match addr {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// The address that a GID is.
pub(crate) fn address(gid: [u8; 16]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(gid)).to_canonical()
}

/// The largest MTU of InfiniBand that is not above the device's.
pub(crate) fn mtu(bytes: u32) -> ibv_mtu {
    match bytes {
        4096.. => IBV_MTU_4096,
        2048.. => IBV_MTU_2048,
        1024.. => IBV_MTU_1024,
        512.. => IBV_MTU_512,
        _ => IBV_MTU_256,
    }
}

/// What a request does, without its local bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// With immediate data, as a number.
    Write {
        rkey: u32,
        addr: u64,
        imm: Option<u32>,
    },
    Read {
        rkey: u32,
        addr: u64,
    },
    /// With immediate data, as a number.
    Send {
        imm: Option<u32>,
    },
    FetchAdd {
        rkey: u32,
        addr: u64,
        add: u64,
    },
    CompareSwap {
        rkey: u32,
        addr: u64,
        compare: u64,
        swap: u64,
    },
}

impl Operation {
    /// Whether its bytes may be in the entry.
    pub(crate) fn can_be_inline(self) -> bool {
        matches!(self, Self::Write { .. } | Self::Send { .. })
    }

    /// Whether it takes a receive buffer.
    fn is_heard(self) -> bool {
        matches!(self, Self::Send { .. } | Self::Write { imm: Some(_), .. })
    }

    /// Its entry, without local bytes.
    ///
    /// # Errors
    ///
    /// EINVAL: the key is none, or a flag.
    pub(crate) fn entry(self, id: u64, flags: u32) -> Result<superp_sqe, c_int> {
        let known = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;
        if flags & !known != 0 {
            return Err(libc::EINVAL);
        }
        let mut entry = superp_sqe {
            token: id,
            ..Default::default()
        };
        for (flag, own) in [
            (IBV_SEND_FENCE, uapi::SUPERP_SQE_FENCE),
            (IBV_SEND_SIGNALED, uapi::SUPERP_SQE_SIGNALED),
            (IBV_SEND_SOLICITED, uapi::SUPERP_SQE_SOLICITED),
        ] {
            // Of what the receiver does not hear of it means nothing.
            let heard = own != uapi::SUPERP_SQE_SOLICITED || self.is_heard();
            if flags & flag != 0 && heard {
                entry.flags |= own;
            }
        }
        (entry.opcode, entry.remote_addr) = match self {
            Self::Write { rkey, addr, imm } => {
                set_imm(&mut entry, imm);
                (uapi::SUPERP_OP_WRITE, rma_addr(rkey, addr)?)
            }
            Self::Read { rkey, addr } => (uapi::SUPERP_OP_READ, rma_addr(rkey, addr)?),
            Self::FetchAdd { rkey, addr, add } => {
                entry.operand = add;
                (uapi::SUPERP_OP_FETCH_ADD, rma_addr(rkey, addr)?)
            }
            Self::CompareSwap {
                rkey,
                addr,
                compare,
                swap,
            } => {
                (entry.operand, entry.compare) = (swap, compare);
                (uapi::SUPERP_OP_COMPARE_SWAP, rma_addr(rkey, addr)?)
            }
            Self::Send { imm } => {
                set_imm(&mut entry, imm);
                (uapi::SUPERP_OP_SEND, 0)
            }
        };
        Ok(entry)
    }
}

fn set_imm(entry: &mut superp_sqe, imm: Option<u32>) {
    if let Some(imm) = imm {
        entry.flags |= uapi::SUPERP_SQE_IMM;
        entry.imm = imm;
    }
}

/// Puts the local bytes into an entry.
pub(crate) fn set_part(entry: &mut superp_sqe, part: Part) {
    entry.length = part.length;
    entry.local_key = part.key;
    entry.local_addr = part.addr;
}

fn opcode(opcode: Opcode) -> ibv_wc_opcode {
    match opcode {
        Opcode::Write => IBV_WC_RDMA_WRITE,
        Opcode::Read => IBV_WC_RDMA_READ,
        Opcode::FetchAdd => IBV_WC_FETCH_ADD,
        Opcode::CompareSwap => IBV_WC_COMP_SWAP,
        Opcode::Receive => IBV_WC_RECV,
        Opcode::ReceiveWrite => IBV_WC_RECV_RDMA_WITH_IMM,
        // Nothing else is posted.
        Opcode::Send | Opcode::Swap | Opcode::Unknown(_) => IBV_WC_SEND,
    }
}

/// The status of a request that failed. Local memory was checked when it was posted, so that what is said
/// of memory afterwards comes from the peer, except of a message.
fn status(opcode: Opcode, error: &CompletionError) -> ibv_wc_status {
    let receive = opcode == Opcode::Receive;
    let message = receive || opcode == Opcode::Send;
    match error.fault {
        Fault::Aborted if error.errno == libc::ETIMEDOUT => IBV_WC_RETRY_EXC_ERR,
        Fault::Aborted => IBV_WC_WR_FLUSH_ERR,
        Fault::Access(AccessFault::Rights) if receive => IBV_WC_LOC_ACCESS_ERR,
        Fault::Access(_) if message => IBV_WC_LOC_PROT_ERR,
        Fault::Access(_) => IBV_WC_REM_ACCESS_ERR,
        Fault::NoBuffer if receive => IBV_WC_LOC_LEN_ERR,
        // It was not too short: there was none, and the queue pair could not wait for one any more.
        Fault::NoBuffer if error.code.1 != 1 => IBV_WC_RNR_RETRY_EXC_ERR,
        Fault::NoBuffer | Fault::Unsupported => IBV_WC_REM_INV_REQ_ERR,
        Fault::Length => IBV_WC_LOC_LEN_ERR,
        Fault::Malformed => IBV_WC_LOC_QP_OP_ERR,
        Fault::NoQueuePair | Fault::Resources => IBV_WC_REM_OP_ERR,
        Fault::Other => IBV_WC_GENERAL_ERR,
    }
}

/// A completion of the queue pair with this number in the node.
pub(crate) fn completion(completion: &Completion, qp_num: u32) -> ibv_wc {
    let mut wc = ibv_wc {
        wr_id: completion.token,
        opcode: opcode(completion.opcode),
        byte_len: completion.length,
        qp_num,
        ..Default::default()
    };
    if let Err(error) = &completion.result {
        wc.status = status(completion.opcode, error);
        wc.vendor_err = u32::from(error.code.0) << 16 | u32::from(error.code.1);
    }
    if let Some(imm) = completion.immediate {
        wc.wc_flags = IBV_WC_WITH_IMM;
        wc.__bindgen_anon_1.imm_data = imm.to_be();
    }
    wc
}

/// What a queue pair lacks for being what verbs call reliable connected.
pub(crate) fn unfit(ordered: bool, ext: bool) -> Option<&'static str> {
    match (ordered, ext) {
        (true, true) => None,
        (false, _) => Some("is not ordered, which programs for RDMA rely on"),
        (true, false) => Some("has no extensions (ext on), so that not every length is possible"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::imm_data;

    #[test]
    fn rights_are_translated_or_refused() {
        assert_eq!(access(0), Ok(Access::NONE));
        let all = Access::LOCAL_WRITE | Access::REMOTE_WRITE | Access::REMOTE_READ;
        assert_eq!(access(7), Ok(all));
        assert_eq!(access(7 | IBV_ACCESS_RELAXED_ORDERING), Ok(all));
        assert_eq!(access(15), Ok(all | Access::REMOTE_ATOMIC));
        assert_eq!(access(IBV_ACCESS_REMOTE_WRITE), Err(libc::EINVAL));
        for kind in [
            IBV_ACCESS_MW_BIND,
            IBV_ACCESS_ON_DEMAND,
            IBV_ACCESS_ZERO_BASED,
            1 << 31,
        ] {
            assert_eq!(access(IBV_ACCESS_LOCAL_WRITE | kind), Err(libc::EOPNOTSUPP));
        }
    }

    #[test]
    fn addresses_are_keys_and_low_bits() {
        assert_eq!(
            rma_addr(0xbb_92d3, 0x7f12_3456_789a),
            Ok(0xbb92_d312_3456_789a)
        );
        assert_eq!(rma_addr(0xff_ffff, 1), Ok(0xffff_ff00_0000_0001));
        assert_eq!(rma_addr(0x100_0000, 1), Err(libc::EINVAL));
    }

    #[test]
    fn gids_are_addresses() {
        for text in ["10.23.0.1", "fd23::1"] {
            let addr: IpAddr = text.parse().unwrap();
            assert_eq!(address(gid(addr)), addr);
        }
        let mapped = gid("10.23.0.1".parse().unwrap());
        assert_eq!(mapped[10..], [0xff, 0xff, 10, 23, 0, 1]);
    }

    #[test]
    fn requests_become_entries() {
        let (rkey, addr) = (7, 0x1000);
        let imm = None;
        let write = Operation::Write { rkey, addr, imm };
        let flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
        let mut entry = write.entry(9, flags).unwrap();
        set_part(
            &mut entry,
            Part {
                key: 3,
                addr: 64,
                length: 5,
            },
        );
        assert_eq!(
            (entry.opcode, entry.token, entry.length),
            (uapi::SUPERP_OP_WRITE, 9, 5)
        );
        assert_eq!(
            entry.flags,
            uapi::SUPERP_SQE_SIGNALED | uapi::SUPERP_SQE_FENCE
        );
        assert_eq!((entry.local_key, entry.local_addr), (3, 64));
        assert_eq!(entry.remote_addr, 7 << 40 | 0x1000);
        assert_eq!(write.entry(9, IBV_SEND_IP_CSUM).err(), Some(libc::EINVAL));

        let (compare, swap) = (1, 2);
        let change = Operation::CompareSwap {
            rkey,
            addr,
            compare,
            swap,
        };
        let entry = change.entry(0, 0).unwrap();
        assert_eq!((entry.operand, entry.compare, entry.flags), (2, 1, 0));
        let entry = Operation::Send { imm: Some(5) }.entry(0, 0).unwrap();
        assert_eq!(
            (entry.imm, entry.flags, entry.remote_addr),
            (5, uapi::SUPERP_SQE_IMM, 0)
        );
        let imm = Some(6);
        let told = Operation::Write { rkey, addr, imm };
        let entry = told.entry(0, IBV_SEND_SOLICITED).unwrap();
        assert_eq!(
            (entry.imm, entry.flags, entry.remote_addr),
            (
                6,
                uapi::SUPERP_SQE_IMM | uapi::SUPERP_SQE_SOLICITED,
                7 << 40 | 0x1000
            )
        );
        let entry = write.entry(0, IBV_SEND_SOLICITED).unwrap();
        assert_eq!((entry.imm, entry.flags), (0, 0));
    }

    fn done(opcode: Opcode, result: Result<(), CompletionError>) -> Completion {
        Completion {
            token: 4,
            queue_pair: 0,
            opcode,
            length: 100,
            immediate: Some(0x0102_0304),
            result,
        }
    }

    #[test]
    fn completions_become_those_of_verbs() {
        let wc = completion(&done(Opcode::Receive, Ok(())), 77);
        assert_eq!(
            (wc.wr_id, wc.status, wc.byte_len, wc.qp_num),
            (4, IBV_WC_SUCCESS, 100, 77)
        );
        assert_eq!((wc.opcode, wc.wc_flags), (IBV_WC_RECV, IBV_WC_WITH_IMM));
        assert_eq!(imm_data(&wc), 0x0102_0304u32.to_be());
        let wc = completion(&done(Opcode::ReceiveWrite, Ok(())), 77);
        assert_eq!(
            (wc.opcode, wc.wc_flags),
            (IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM)
        );
        assert_eq!((wc.byte_len, imm_data(&wc)), (100, 0x0102_0304u32.to_be()));
    }

    #[test]
    fn failures_have_the_status_of_the_side_that_is_to_blame() {
        let of_code = |opcode, fault, code: (u16, u16), errno| {
            let error = CompletionError { fault, code, errno };
            let wc = completion(&done(opcode, Err(error)), 1);
            assert_eq!(wc.vendor_err, u32::from(code.0) << 16 | u32::from(code.1));
            wc.status
        };
        let of = |opcode, fault, errno| of_code(opcode, fault, (3, 2), errno);
        let bounds = Fault::Access(AccessFault::Bounds);
        assert_eq!(
            of(Opcode::Write, bounds, libc::EACCES),
            IBV_WC_REM_ACCESS_ERR
        );
        assert_eq!(of(Opcode::Send, bounds, libc::EACCES), IBV_WC_LOC_PROT_ERR);
        assert_eq!(
            of(Opcode::Receive, Fault::NoBuffer, libc::ENOBUFS),
            IBV_WC_LOC_LEN_ERR
        );
        for (code, status) in [
            ((4, 0), IBV_WC_RNR_RETRY_EXC_ERR),
            ((4, 1), IBV_WC_REM_INV_REQ_ERR),
            ((4, 2), IBV_WC_RNR_RETRY_EXC_ERR),
        ] {
            assert_eq!(
                of_code(Opcode::Send, Fault::NoBuffer, code, libc::ENOBUFS),
                status
            );
        }
        assert_eq!(
            of(Opcode::Send, Fault::Aborted, libc::ECONNRESET),
            IBV_WC_WR_FLUSH_ERR
        );
        assert_eq!(
            of(Opcode::Read, Fault::Aborted, libc::ETIMEDOUT),
            IBV_WC_RETRY_EXC_ERR
        );
    }

    #[test]
    fn only_ordered_connections_with_extensions_will_do() {
        assert_eq!(unfit(true, true), None);
        assert!(unfit(false, true).unwrap().contains("ordered"));
        assert!(unfit(true, false).unwrap().contains("ext on"));
    }
}
