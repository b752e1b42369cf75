// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Messages to queue pairs, and where they are in their transactions.

use super::*;
use crate::node::Message;
use crate::pair::{A, B};
use crate::MS;
use superp_proto::{DropReason, Payload};

fn message(op: ReqOp, len: usize) -> Message {
    let (qp, part, imm) = match op {
        ReqOp::SendQp { qp } => (qp, None, None),
        ReqOp::SendQpExt {
            qp,
            offset,
            message_len,
            imm,
            ..
        } => (qp, Some((offset, message_len)), imm),
        _ => unreachable!("not a message"),
    };
    Message {
        qp,
        data: bytes(len),
        part,
        imm,
    }
}

#[test]
fn messages_of_every_short_length_arrive_exactly() {
    let mut pair = Pair::clean(&ext());
    let mut expected = Vec::new();
    for len in (0..40).chain([1451, 1452, 1453, 1460, 5000]) {
        let op = send_ext(len as u32);
        expected.push(message(op, len));
        pair.submit(A, op, bytes(len));
        pair.run_until(MS, Pair::all_complete);
    }
    pair.settle();
    assert_eq!(pair.ends[B].memory.messages, expected);
    let room = pair.ends[A].conn.config().mtu as usize - 24 - 16;
    let lengths = expected.iter().map(|message| message.data.len());
    let alone: Vec<usize> = lengths.filter(|len| *len <= room).collect();
    assert!(alone.len() < expected.len());
    assert_eq!(pair.ends[B].memory.whole, alone);
}

#[test]
fn message_is_whole_only_if_its_packet_has_nothing_else_of_its_transaction() {
    let plain = [5, 0, 0, 0].repeat(2);
    let part = [5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0];
    let bytes = [1; 32];
    for (opcode, eom, num_ops, seqno, op, whole) in [
        (Opcode::SendQp, true, 1, 0, &plain[..4], true),
        (Opcode::SendQp, false, 1, 0, &plain[..4], false),
        (Opcode::SendQp, true, 1, 1, &plain[..4], false),
        (Opcode::SendQp, true, 2, 0, &plain[..], false),
        (Opcode::SendQpExt, true, 1, 0, &part[..], true),
        (Opcode::SendQpExt, false, 1, 0, &part[..], false),
    ] {
        let mut pair = Pair::clean(&ext());
        let header = tal(opcode, eom, num_ops, seqno, 0);
        let packet = [op, &bytes].concat();
        let received = inject(&mut pair, B, pdl(0, u32::MAX), header, &packet);
        assert_eq!(received, Received::Delivered);
        assert_eq!(pair.ends[B].memory.whole.len(), usize::from(whole));
    }
}

#[test]
fn message_over_several_transactions_is_told_its_place() {
    let mut pair = Pair::clean(&ext());
    let len = 100_000u32;
    let step = pair.ends[A].conn.max_request_len(&send_ext(len)) as u32;
    assert!(step < len);
    let data = bytes(len as usize);
    let mut offset = 0;
    while offset < len {
        let end = (offset + step).min(len);
        let op = ReqOp::SendQpExt {
            qp: 5,
            offset,
            message_len: len,
            imm: None,
            solicited: false,
            start: offset == 0,
        };
        pair.submit(A, op, data[offset as usize..end as usize].to_vec());
        offset = end;
    }
    pair.settle();
    let parts = &pair.ends[B].memory.messages;
    let mut got: Vec<u8> = Vec::new();
    for part in parts {
        assert_eq!(part.part, Some((got.len() as u32, len)));
        got.extend(&part.data);
    }
    assert_eq!(got, data);
}

#[test]
fn contradictory_message_length_is_malformed() {
    let mut pair = Pair::clean(&ext());
    pair.trace = true;
    let segment = |offset: u32, len: u32, pad: u8| {
        let mut op = vec![5, 0, 0, pad, 0, 0, 0, 0];
        op.extend(offset.to_le_bytes());
        op.extend(len.to_le_bytes());
        op.extend([1; 16]);
        op
    };
    let cases = [(0, 10, 0), (11, 10, 15), (4, 10, 9), (u32::MAX, 10, 0)];
    for (xid, (offset, len, pad)) in (0u16..).zip(cases) {
        let header = tal(Opcode::SendQpExt, true, 1, 0, xid);
        let op = segment(offset, len, pad);
        let received = inject(&mut pair, B, pdl(xid.into(), u32::MAX), header, &op);
        assert_eq!(received, Received::Dropped(DropReason::TransactionFailed));
    }
    let header = tal(Opcode::SendQpExt, true, 1, 0, 4);
    let op = segment(4, 10, 10);
    let received = inject(&mut pair, B, pdl(4, u32::MAX), header, &op);
    assert_eq!(received, Received::Delivered);
    let codes = pair.log.iter().filter_map(|entry| match entry.2.payload {
        Payload::Error(op) => Some((op.major, op.minor)),
        _ => None,
    });
    assert_eq!(codes.collect::<Vec<_>>(), [(1, 1); 4]);
}
