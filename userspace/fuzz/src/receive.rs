// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Packets of a hostile peer, whose numbers lie about the windows.

use crate::end::End;
use crate::input::{config, Input, MS, US};
use crate::layout::{BAD, BASE, COUNTER, END};
use superp_proto::wire::{
    AtomicOp, AtomicResponseOp, ExtFlags, Op, PdlHeader, ReadOp, ReadResponseOp, SendOp,
    SendQpExtOp, SendQpOp, TalHeader, TransactionErrorOp, WriteExtOp, WriteOp, FIXED_LEN,
};
use superp_proto::{Barrier, Code, Config, Packet, Run};

/// The end of a request or answer, in the first byte of the Transaction header.
const EOM: u8 = 0x80;

/// A time that is not reached; behind it is room for the sums of what inputs can add.
const FOREVER: u64 = u64::MAX - (1 << 60);

/// Drives an open connection with packets, requests and time as the input has them. What its owner is
/// asked for must be what the packets say, within their bytes, and once. How many packets were taken in runs.
pub fn receive(bytes: &[u8]) -> usize {
    let mut input = Input::new(bytes);
    let input = &mut input;
    let first = input.u8();
    let lite = first & 4 != 0;
    let config = Config {
        lite,
        ordered_rx: first & 1 != 0,
        ordered_tx: first & 2 != 0,
        tal_transaction_timeout: input.pick([u64::from(lite), 1000, u64::MAX]),
        pdl_retrans_time_out: input.pick([10 * MS, 100, u64::MAX]),
        pdl_dead_time: input.pick([5000 * MS, MS, u64::MAX]),
        pdl_max_rtx: input.pick([4, 1, 8]),
        ..config(input)
    };
    let mut now = input.pick([0, 1 << 40, FOREVER - (1 << 50)]);
    let mut end = End::new(&config, now);
    while !input.is_empty() {
        let action = input.u8();
        match action & 0x3f {
            0..=7 => {
                let conn = &end.conn;
                let max = |op: &_| conn.max_request_len(op);
                if let Some(request) =
                    end.places
                        .request(input, config.ext == superp_proto::Extensions::On, max)
                {
                    end.submit(now, request);
                }
            }
            8 => {
                let deadline = end.conn.deadline();
                now = deadline.filter(|&at| at < FOREVER).unwrap_or(now).max(now);
                end.expire(now);
            }
            9 => {
                now += US << input.below(30);
                end.expire(now);
            }
            10 => {
                let barrier = input.pick([Barrier::All, Barrier::Writes]);
                end.conn.barrier(barrier);
            }
            11 => {
                let limit = input.u8();
                end.conn.set_receive_limit(now, limit.into());
            }
            12 => {
                let last = end.answered.last().copied().unwrap_or(0);
                end.conn.refuse_reply(last, Code::ACCESS);
            }
            13 => {
                let len = input.u8();
                let bytes = input.take(len.into());
                end.receive(now, bytes);
            }
            14 => end.conn.stop(),
            60 => end.memory.refuses_runs = !end.memory.refuses_runs,
            61.. => {
                let packets = hostile_run(&end, input);
                end.receive_all(now, &packets);
            }
            _ => {
                let packet = hostile(&end, input);
                end.receive(now, &packet);
            }
        }
        // The owner may take several packets before it looks at what there is to send.
        if action & 0x40 == 0 {
            end.drain(now);
        }
    }
    end.drain(now);
    end.stop(now);
    end.in_runs
}

/// A packet as a peer might send it next, but for those of its fields that the input chooses.
fn hostile(end: &End, input: &mut Input<'_>) -> Vec<u8> {
    let chosen = input.u8();
    let mut pdl = PdlHeader {
        dcid: 0,
        window: 32,
        psn: end.ack_psn.wrapping_add(1),
        ack_psn: end.last_psn,
        sack: 0,
    };
    if chosen & 1 != 0 {
        pdl.psn = pdl.psn.wrapping_add_signed(input.near().into());
    }
    if chosen & 2 != 0 {
        pdl.ack_psn = pdl.ack_psn.wrapping_add_signed(input.near().into());
    }
    if chosen & 4 != 0 {
        pdl.sack = input.u32();
    }
    if chosen & 8 != 0 {
        pdl.window = u32::from(input.u16()) + 1;
    }
    let code = input.pick([9, 0, 10, 8, 2, 11, 12, 0xc0, 0xc1, 0xc2, 0xc3, 1, 99]);
    let reply = matches!(code, 2 | 10 | 0xc3);
    let last = end.submitted.last();
    let last_xid = last.map_or(end.conn.config().start_xid.wrapping_sub(1), |last| last.xid);
    let mut tal = TalHeader {
        eom: true,
        ext: false,
        ask: false,
        num_ops: u8::from(code > 1),
        opcode: code,
        seqno: 0,
        xid: match reply {
            true => last_xid,
            false => end.ack_xid.wrapping_add(1),
        },
        ack_xid: last_xid,
    };
    if chosen & 0x10 != 0 {
        tal.xid = tal.xid.wrapping_add_signed(input.near().into());
    }
    if chosen & 0x20 != 0 {
        tal.ack_xid = tal.ack_xid.wrapping_add_signed(input.near().into());
    }
    if chosen & 0x40 != 0 {
        tal.seqno = input.u8().into();
    }
    if chosen & 0x80 != 0 {
        let byte = input.u8();
        tal.eom = byte & 0x80 != 0;
        tal.num_ops = byte & 15;
    }
    let mut bytes = match end.conn.config().lite {
        true => tal.bytes().to_vec(),
        false => [&pdl.bytes()[..], &tal.bytes()].concat(),
    };
    for _ in 0..tal.num_ops {
        let Some(op) = operation(code, input) else {
            bytes.extend_from_slice(input.take(8));
            continue;
        };
        let start = bytes.len();
        bytes.resize(start + 32, 0);
        let len = op.emit(&mut bytes[start..]).expect("room for one header");
        bytes.truncate(start + len);
    }
    let data = matches!(code, 9..=12 | 0xc0 | 0xc1);
    if data {
        // Now and then blocks that are too short, or not equal for a byte more.
        let byte = input.u8();
        let block = match byte {
            254 => 15,
            _ => 16 + usize::from(byte),
        };
        let odd = usize::from(byte == 255);
        let len = bytes.len() + block * usize::from(tal.num_ops) + odd;
        bytes.resize(len, 0x5a);
    }
    bytes
}

/// Packets that continue one another, the first as `hostile` has it, but for what the input chooses of one of them.
fn hostile_run(end: &End, input: &mut Input<'_>) -> Vec<Vec<u8>> {
    let mut first = hostile(end, input);
    let len = Packet::headers_len(&first);
    if end.conn.config().lite || first.len() < len {
        return vec![first];
    }
    let shape = input.u8();
    first[PdlHeader::LEN] &= !EOM;
    let size = first.len() - len;
    let mut packets = vec![first];
    for _ in 0..=shape & 7 {
        let mut next = packets[packets.len() - 1].clone();
        if Run::advance(&mut next[..len], size).is_none() {
            break;
        }
        packets.push(next);
    }
    let last = packets.len() - 1;
    if shape & 8 != 0 {
        packets[last][PdlHeader::LEN] |= EOM;
    }
    if shape & 0x10 != 0 {
        let cut = input.below(size);
        packets[last].truncate(len + size - cut);
    }
    if shape & 0x20 != 0 {
        // The flags of an extended operation.
        let flags = match packets[last][PdlHeader::LEN + 1] {
            0xc0 => FIXED_LEN + 11,
            _ => FIXED_LEN + 3,
        };
        if let Some(flags) = packets[last].get_mut(flags) {
            *flags ^= input.u8() & 15;
        }
    }
    if shape & 0x40 != 0 {
        let which = input.below(packets.len());
        let at = input.below(len);
        packets[which][at] ^= input.u8();
    }
    packets
}

/// An operation at a place that may or may not be legal; `None` for a code without operations.
fn operation(code: u8, input: &mut Input<'_>) -> Option<Op> {
    let edge = input.u8();
    let address = match edge & 3 {
        0 => COUNTER + 8 * u64::from(edge >> 2),
        1 => BASE + u64::from(edge >> 2),
        2 => END.wrapping_sub((edge >> 2).into()),
        _ => u64::MAX - u64::from(edge >> 2),
    };
    let small = u32::from(edge >> 2);
    Some(match code {
        2 => Op::TransactionError(TransactionErrorOp {
            seqno: small as u16,
            opnum: 0,
            major: input.u8().into(),
            minor: 0,
        }),
        8 => Op::Read(ReadOp {
            address,
            length: input.u16().into(),
        }),
        9 => Op::Write(WriteOp { address }),
        10 => Op::ReadResponse(ReadResponseOp {
            seqno: small as u16 & 3,
            opnum: (small >> 2) as u8,
            offset: input.u16().into(),
        }),
        11 => Op::Send(SendOp {
            key: if edge & 1 != 0 { BAD } else { 1 },
            offset: address as u32,
        }),
        12 => Op::SendQp(SendQpOp {
            qp: if edge & 3 == 3 { BAD } else { small },
        }),
        0xc0 => Op::WriteExt(WriteExtOp {
            address,
            qp: if edge & 7 == 7 { BAD } else { small },
            flags: flags(input.u8()),
            immediate: small,
        }),
        0xc1 => Op::SendQpExt(SendQpExtOp {
            qp: if edge & 3 == 3 { BAD } else { small },
            flags: flags(input.u8()),
            immediate: small,
            offset: input.u16().into(),
            message_len: input.u16().into(),
        }),
        0xc2 => Op::Atomic(AtomicOp {
            address,
            kind: input.below(5) as u8,
            operand: small.into(),
            compare: 0,
        }),
        0xc3 => Op::AtomicResponse(AtomicResponseOp {
            seqno: small as u16 & 1,
            opnum: (small >> 1) as u8 & 1,
            original: small.into(),
        }),
        _ => return None,
    })
}

fn flags(byte: u8) -> ExtFlags {
    ExtFlags {
        pad: byte & 15,
        immediate: byte & 0x10 != 0,
        solicited: byte & 0x20 != 0,
        start: byte & 0x40 != 0,
        written: byte & 0x80 != 0,
    }
}
