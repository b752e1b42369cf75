// SPDX-License-Identifier: GPL-2.0 OR MIT

use super::super::{ExtFlags, ReadOp, ReadResponseOp, SendQpExtOp, SendQpOp, WriteExtOp, WriteOp};
use super::super::{Op, PdlHeader, TalHeader, FIXED_LEN, HEADERS_MAX};
use super::*;
use std::vec::Vec;

const SIZE: usize = 1024;

/// Headers of packet number `n` of a run with operation `op`.
fn headers(opcode: Opcode, op: Op, n: u16, eom: bool) -> Vec<u8> {
    let pdl = PdlHeader {
        dcid: 7,
        window: 32,
        psn: u32::MAX.wrapping_add(n.into()),
        ack_psn: 0xaabb_ccdd,
        sack: 0,
    };
    let tal = TalHeader {
        ext: false,
        ask: false,
        eom,
        num_ops: 1,
        opcode: opcode as u8,
        seqno: 100 + n,
        xid: 0xfedc,
        ack_xid: 0x1234,
    };
    let mut out = [0; HEADERS_MAX];
    let len = op.emit(&mut out[FIXED_LEN..]).unwrap();
    out[..PdlHeader::LEN].copy_from_slice(&pdl.bytes());
    out[PdlHeader::LEN..FIXED_LEN].copy_from_slice(&tal.bytes());
    out[..FIXED_LEN + len].to_vec()
}

/// The operation of packet number `n`, with a pad if the opcode has that field.
fn operation(opcode: Opcode, n: u16, pad: u8) -> Op {
    let by = u32::from(n) * SIZE as u32;
    match opcode {
        Opcode::Write => Op::Write(WriteOp {
            address: 0xffff_0000 + u64::from(by),
        }),
        Opcode::WriteExt => Op::WriteExt(WriteExtOp {
            address: 0xffff_ff00 + u64::from(by),
            qp: 0x00ab_cdef,
            flags: ExtFlags {
                pad,
                ..ExtFlags::default()
            },
            immediate: 0,
        }),
        Opcode::SendQpExt => Op::SendQpExt(SendQpExtOp {
            qp: 0x00ab_cdef,
            flags: ExtFlags {
                pad,
                immediate: true,
                solicited: true,
                ..ExtFlags::default()
            },
            immediate: 0x7654_3210,
            offset: 0x1_ff00 + by,
            message_len: 0x0800_0000,
        }),
        _ => Op::ReadResponse(ReadResponseOp {
            seqno: 3,
            opnum: 2,
            offset: 0x1000 + by,
        }),
    }
}

const OPCODES: [Opcode; 4] = [
    Opcode::Write,
    Opcode::WriteExt,
    Opcode::SendQpExt,
    Opcode::ReadResponse,
];

/// Offset of the pad in the headers, if the opcode has that field.
fn pad_at(opcode: Opcode) -> Option<usize> {
    match opcode {
        Opcode::WriteExt => Some(FIXED_LEN + 11),
        Opcode::SendQpExt => Some(FIXED_LEN + 3),
        _ => None,
    }
}

/// Headers of `count` packets. The last one has `eom`.
fn packets(opcode: Opcode, count: u16, pad: u8) -> Vec<u8> {
    let each = (0..count).map(|n| {
        let last = n + 1 == count;
        let op = operation(opcode, n, if last { pad } else { 0 });
        headers(opcode, op, n, last)
    });
    each.collect::<Vec<_>>().concat()
}

#[test]
fn headers_that_are_advanced_are_those_of_the_next_packet() {
    for opcode in OPCODES {
        let mut headers_now = headers(opcode, operation(opcode, 0, 0), 0, false);
        for n in 1..70 {
            Run::advance(&mut headers_now, SIZE).unwrap();
            let next = headers(opcode, operation(opcode, n, 0), n, false);
            assert_eq!(headers_now, next, "{opcode:?} {n}");
        }
    }
}

#[test]
fn what_is_in_no_run_is_not_advanced() {
    let read = Op::Read(ReadOp::default());
    let message = Op::SendQp(SendQpOp { qp: 7 });
    for (opcode, op) in [(Opcode::Read, read), (Opcode::SendQp, message)] {
        let mut bytes = headers(opcode, op, 0, false);
        assert_eq!(Run::advance(&mut bytes, SIZE), None, "{opcode:?}");
    }
    let mut last = headers(Opcode::Write, operation(Opcode::Write, 0, 0), 0, false);
    last[18..20].copy_from_slice(&u16::MAX.to_le_bytes());
    assert_eq!(Run::advance(&mut last, SIZE), None);
}

#[test]
fn packets_that_continue_one_another_are_a_run() {
    for opcode in OPCODES {
        for count in [1, 2, 70] {
            let pad = pad_at(opcode).map_or(0, |_| 5);
            let all = packets(opcode, count, pad);
            let data = SIZE * usize::from(count - 1) + 16;
            let run = Run::parse(&all, count.into(), SIZE, data);
            // A single packet has a full block.
            let run = match count {
                1 => Run::parse(&all, 1, SIZE, SIZE).unwrap(),
                _ => run.unwrap(),
            };
            let data = if count == 1 { SIZE } else { data };
            let offset = all.len() / usize::from(count);
            assert_eq!(run.count(), count);
            assert_eq!(
                run.op(),
                operation(opcode, 0, if count == 1 { pad } else { 0 })
            );
            let len = data - usize::from(pad);
            assert_eq!(run.data(), Block { offset, len });
            assert_eq!((run.tal().seqno, run.tal().eom), (100, true));
            assert_eq!(run.first().pdl().psn, u32::MAX);
        }
    }
}

#[test]
fn any_other_bit_makes_it_none() {
    for opcode in OPCODES {
        let all = packets(opcode, 3, 0);
        let len = all.len() / 3;
        let data = 2 * SIZE + 16;
        assert!(Run::parse(&all, 3, SIZE, data).is_some());
        // Flip each bit of the second and of the last packet.
        for bit in len * 8..all.len() * 8 {
            let mut wrong = all.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            // Only the last packet may differ, in `eom` and pad.
            let in_last = bit / 8 % len;
            let last = bit / 8 / len == 2;
            let eom = bit % 8 == 7 && in_last == PdlHeader::LEN;
            let pad = bit % 8 < 4 && pad_at(opcode) == Some(in_last);
            let run = Run::parse(&wrong, 3, SIZE, data);
            assert_eq!(run.is_some(), last && (eom || pad), "{opcode:?} {bit}");
        }
    }
}

#[test]
fn lengths_that_cannot_be_make_it_none() {
    let all = packets(Opcode::Write, 3, 0);
    let parse = |count, size, data| Run::parse(&all, count, size, data).is_some();
    assert!(parse(3, SIZE, 3 * SIZE));
    assert!(!parse(3, SIZE, 3 * SIZE + 1));
    assert!(!parse(3, SIZE, 2 * SIZE + 15));
    assert!(!parse(3, SIZE, 2 * SIZE));
    assert!(!parse(3, 8, 24));
    assert!(!parse(0, SIZE, SIZE));
    assert!(!parse(2, SIZE, 2 * SIZE));
    assert!(!parse(3, usize::MAX, 3 * SIZE));
    assert!(!parse(usize::MAX, SIZE, SIZE));
}

#[test]
fn offset_in_a_message_does_not_change_its_length() {
    let op = |offset, message_len| {
        Op::SendQpExt(SendQpExtOp {
            offset,
            message_len,
            ..SendQpExtOp::default()
        })
    };
    let near = u32::MAX - 15;
    let mut first = headers(Opcode::SendQpExt, op(near, 5), 0, false);
    let second = headers(Opcode::SendQpExt, op(SIZE as u32 - 16, 6), 1, true);
    let all = [first.clone(), second].concat();
    assert!(Run::parse(&all, 2, SIZE, 2 * SIZE).is_none());
    assert_eq!(Run::advance(&mut first, SIZE), None);
}

#[test]
fn what_tells_of_a_write_and_an_empty_message_are_in_no_run() {
    let send = SendQpExtOp {
        message_len: 1 << 20,
        ..SendQpExtOp::default()
    };
    let written = ExtFlags {
        written: true,
        immediate: true,
        ..ExtFlags::default()
    };
    let parses = |send| {
        let all = headers(Opcode::SendQpExt, Op::SendQpExt(send), 0, true);
        Run::parse(&all, 1, SIZE, SIZE).is_some()
    };
    assert!(parses(send));
    assert!(!parses(SendQpExtOp {
        flags: written,
        ..send
    }));
    assert!(!parses(SendQpExtOp {
        message_len: 0,
        ..send
    }));
}
