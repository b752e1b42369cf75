// SPDX-License-Identifier: GPL-2.0 OR MIT
//! One rule of the protocol each, seen from outside.

mod answers;
mod delivery;
mod ending;
mod messages;
mod numbers;
mod packing;
mod transactions;

use crate::node::BASE;
use crate::pair::Pair;
use superp_proto::wire::{Opcode, PdlHeader, TalHeader};
use superp_proto::{Config, Received, ReqOp};

fn ext() -> Config {
    Config {
        ext: true.into(),
        ..Config::default()
    }
}

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 256) as u8).collect()
}

fn write(pair: &mut Pair, from: usize, len: usize) -> u64 {
    pair.submit(from, ReqOp::Write { address: BASE }, bytes(len))
}

fn send_ext(len: u32) -> ReqOp {
    ReqOp::SendQpExt {
        qp: 5,
        offset: 0,
        message_len: len,
        imm: Some(0xfeed),
        solicited: true,
        start: false,
    }
}

/// Loses each transmission of `who` for which `lose(number)` holds.
fn lose(pair: &mut Pair, who: usize, mut lose: impl FnMut(u32) -> bool + 'static) {
    let mut number = 0;
    pair.filter = Some(Box::new(move |_, from, _| {
        number += u32::from(from == who);
        from == who && lose(number - 1)
    }));
}

/// A packet as a peer could make it, given to `to`.
fn inject(pair: &mut Pair, to: usize, pdl: PdlHeader, tal: TalHeader, rest: &[u8]) -> Received {
    let mut bytes = pdl.bytes().to_vec();
    bytes.extend(tal.bytes());
    bytes.extend(rest);
    let now = pair.now;
    let received = pair.ends[to].take(now, &bytes).expect("well-formed");
    pair.drive(to);
    received
}

fn pdl(psn: u32, ack_psn: u32) -> PdlHeader {
    PdlHeader {
        dcid: 0,
        window: 32,
        psn,
        ack_psn,
        sack: 0,
    }
}

fn tal(opcode: Opcode, eom: bool, num_ops: u8, seqno: u16, xid: u16) -> TalHeader {
    TalHeader {
        ext: false,
        ask: false,
        eom,
        num_ops,
        opcode: opcode as u8,
        seqno,
        xid,
        ack_xid: u16::MAX,
    }
}

/// Header and block of a write of 16 bytes.
fn write_op(address: u64) -> Vec<u8> {
    let mut op = address.to_le_bytes().to_vec();
    op.extend([0x5a; 16]);
    op
}
