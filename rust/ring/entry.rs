// SPDX-License-Identifier: GPL-2.0

//! Checks submission entries and turns them into operations.

use kernel::prelude::*;

use crate::{
    conn::Conn,
    kapi::{
        ring::{Operands, Segment, Sqe},
        uapi,
    },
    proto::{wire::AtomicKind, Code},
    qp::{
        work::{Local, Piece, WorkOp, INLINE_MAX},
        Lookup,
    },
};

/// Bytes that an atomic operation changes.
const ATOMIC_LEN: u32 = 8;

/// Returns `code` as error unless `holds`.
fn check(holds: bool, code: Code) -> Result<(), Code> {
    holds.then_some(()).ok_or(code)
}

/// Whether the entry has a completion also if it succeeds.
pub(super) fn is_signaled(entry: &Sqe) -> bool {
    u32::from(entry.flags) & uapi::SUPERP_SQE_SIGNALED != 0
}

/// Whether the entry waits for all earlier ones.
pub(super) fn is_fenced(entry: &Sqe) -> bool {
    u32::from(entry.flags) & uapi::SUPERP_SQE_FENCE != 0
}

/// Whether the entry wakes a receiver that waits for solicited completions only.
pub(super) fn is_solicited(entry: &Sqe) -> bool {
    u32::from(entry.flags) & uapi::SUPERP_SQE_SOLICITED != 0
}

/// Whether `entry` differs from `other` in the token, the addresses and the signaled flag only, so
/// that its region and length need no more checks than the bounds. `other` was parsed, and its
/// local bytes are in one region.
pub(super) fn can_merge(entry: &Sqe, other: &Sqe) -> bool {
    let flags = u32::from(entry.flags ^ other.flags) & !uapi::SUPERP_SQE_SIGNALED;
    flags == 0
        && entry.opcode == other.opcode
        && entry.length == other.length
        && entry.local_key == other.local_key
        && entry.imm == other.imm
        && entry.rsvd == other.rsvd
        && is_plain(&entry.operands())
}

/// Whether no operand but the local address is set.
fn is_plain(operands: &Operands) -> bool {
    operands.operand == 0 && operands.compare == 0 && operands.rsvd == 0
}

/// Parses an entry of a queue pair that is connected over `conn` to the peer's queue pair `qpn`.
/// Returns the operation and the local memory. `entry` is a private copy, and `segment` returns
/// private copies of its segments. Process context.
///
/// # Errors
///
/// The code that the entry completes with; `struct superp_sqe` lists them.
pub(super) fn parse(
    entry: &Sqe,
    segment: impl Fn(u32) -> Option<Segment>,
    regions: &mut Lookup<'_>,
    conn: &Conn,
    qpn: u32,
) -> Result<(WorkOp, Local), Code> {
    let flags = u32::from(entry.flags);
    let inline = flags & uapi::SUPERP_SQE_INLINE != 0;
    let list = flags & uapi::SUPERP_SQE_LIST != 0;
    let imm = (flags & uapi::SUPERP_SQE_IMM != 0).then_some(entry.imm);
    let well_formed = entry.rsvd == 0
        && flags & !uapi::SUPERP_SQE_MASK == 0
        && (imm.is_some() || entry.imm == 0)
        && (!inline || entry.local_key == 0 && !list);
    check(well_formed, Code::MALFORMED)?;

    let op = parse_op(entry, imm)?;
    let sends_local = matches!(op, WorkOp::Send { .. } | WorkOp::Write { .. });
    check(sends_local || (!inline && imm.is_none()), Code::MALFORMED)?;
    check(
        !list || !matches!(op, WorkOp::Atomic { .. }),
        Code::MALFORMED,
    )?;
    check(op.is_message() || !is_solicited(entry), Code::MALFORMED)?;
    check_length(entry.length, op, inline, conn)?;
    if imm.is_some() || is_solicited(entry) || matches!(op, WorkOp::Atomic { .. }) {
        check(conn.ext(), Code::EXTENSION_NOT_ENABLED)?;
    }
    check(!op.is_message() || qpn != 0, Code::NO_QUEUE_PAIR)?;

    let local = if inline {
        Local::Inline(entry.data())
    } else if list {
        check(entry.operands().local_addr == 0, Code::MALFORMED)?;
        parse_segments(entry, segment, regions, !sends_local)?
    } else if entry.length == 0 {
        Local::None
    } else {
        let addr = entry.operands().local_addr;
        let (region, offset) = regions.find(entry.local_key, addr, entry.length, !sends_local)?;
        Local::Region(region, offset)
    };
    Ok((op, local))
}

/// The local memory of an entry that is a list of segments. `write`: the bytes will be written.
fn parse_segments(
    entry: &Sqe,
    segment: impl Fn(u32) -> Option<Segment>,
    regions: &mut Lookup<'_>,
    write: bool,
) -> Result<Local, Code> {
    let count = entry.local_key;
    check(
        (1..=uapi::SUPERP_MAX_SEGMENTS).contains(&count),
        Code::MALFORMED,
    )?;
    let mut pieces =
        KVec::with_capacity(count as usize, GFP_KERNEL_ACCOUNT).map_err(|_| Code::RESOURCES)?;
    let mut remaining = entry.length;
    for number in 0..count {
        let Segment { addr, key, length } = segment(number).ok_or(Code::MALFORMED)?;
        remaining = remaining
            .checked_sub(length)
            .ok_or(Code::MALFORMED_LENGTH)?;
        if length == 0 {
            continue;
        }
        let (region, offset) = regions.find(key, addr, length, write)?;
        let piece = Piece {
            region,
            offset,
            len: length,
        };
        pieces
            .push_within_capacity(piece)
            .map_err(|_| Code::RESOURCES)?;
    }
    check(remaining == 0, Code::MALFORMED_LENGTH)?;
    Ok(Local::List(pieces))
}

/// The operation of an entry, with its operands checked.
fn parse_op(entry: &Sqe, imm: Option<u32>) -> Result<WorkOp, Code> {
    let remote = entry.remote_addr;
    let operands = entry.operands();
    let inline = u32::from(entry.flags) & uapi::SUPERP_SQE_INLINE != 0;
    let plain = is_plain(&operands);
    let kind = match u32::from(entry.opcode) {
        uapi::SUPERP_OP_WRITE => {
            check(inline || plain, Code::MALFORMED)?;
            return Ok(WorkOp::Write { remote, imm });
        }
        uapi::SUPERP_OP_SEND => {
            check((inline || plain) && remote == 0, Code::MALFORMED)?;
            return Ok(WorkOp::Send { imm });
        }
        uapi::SUPERP_OP_READ => {
            check(plain, Code::MALFORMED)?;
            return Ok(WorkOp::Read { remote });
        }
        uapi::SUPERP_OP_FETCH_ADD => AtomicKind::FetchAdd,
        uapi::SUPERP_OP_COMPARE_SWAP => AtomicKind::CompareSwap,
        uapi::SUPERP_OP_SWAP => AtomicKind::Swap,
        _ => return Err(Code::UNKNOWN_OPCODE),
    };
    let compare_allowed = kind == AtomicKind::CompareSwap || operands.compare == 0;
    check(compare_allowed && operands.rsvd == 0, Code::MALFORMED)?;
    check(remote & 7 == 0, Code::MALFORMED_ATOMIC)?;
    Ok(WorkOp::Atomic {
        remote,
        kind,
        operand: operands.operand,
        compare: operands.compare,
    })
}

/// Checks the length of an entry for its operation and connection.
fn check_length(len: u32, op: WorkOp, inline: bool, conn: &Conn) -> Result<(), Code> {
    let fits = match op {
        WorkOp::Send { .. } => len >= conn.min_message() && len <= conn.max_message(),
        WorkOp::Write { .. } => {
            len == 0 || len <= uapi::SUPERP_MAX_RMA && len >= conn.min_message()
        }
        WorkOp::Read { .. } => len <= uapi::SUPERP_MAX_RMA,
        WorkOp::Atomic { .. } => len == ATOMIC_LEN,
        // Rings have no such opcode.
        WorkOp::SendKeyed { .. } => false,
    };
    check(
        fits && (!inline || len as usize <= INLINE_MAX),
        Code::MALFORMED_LENGTH,
    )
}
