// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Golden packets [proto 9]: from the SUNH header, or from the UDP payload, to the end of the
//! frame.

use super::*;
use crate::proto::{DropReason, Payload, ReplyPayload, ReplyRead, ReqOp, RequestPayload, Transmit};
use alloc::vec::Vec;

const SUNH_A_TO_B: [u8; 8] = [0x00, 0xfd, 0xfa, 0xbc, 0x00, 0x02, 0x00, 0x01];
const SUNH_B_TO_A: [u8; 8] = [0x00, 0xfd, 0xfa, 0xbc, 0x00, 0x01, 0x00, 0x02];

const G1: [u8; 24] = [
    0x2f, 0x00, 0x1f, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00,
    0x00, //
    0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0xff, 0xff,
];
const G2: [u8; 36] = [
    0x2f, 0x00, 0x1f, 0x00, 0x01, 0x00, 0x00, 0x00, 0xff, 0xff, 0xff, 0xff, 0x00, 0x00, 0x00,
    0x00, //
    0x81, 0x08, 0x00, 0x00, 0x01, 0x00, 0xff, 0xff, //
    0xb0, 0x9a, 0x78, 0x56, 0x34, 0x12, 0x00, 0x00, 0x00, 0x10, 0x00, 0x00,
];
const G3: [u8; 48] = [
    0x40, 0x00, 0x1f, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, //
    0x81, 0x0a, 0x01, 0x00, 0x01, 0x00, 0x00, 0x00, //
    0x00, 0x00, 0x00, 0x00, 0x00, 0x08, 0x00, 0x00, //
    0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f,
];
const G4: [u8; 72] = [
    0x2f, 0x00, 0x07, 0x00, 0x04, 0x03, 0x02, 0x01, 0x0d, 0x0c, 0x0b, 0x0a, 0x16, 0x00, 0x00,
    0x00, //
    0x02, 0x09, 0x03, 0x00, 0x34, 0x12, 0xff, 0x00, //
    0x78, 0x56, 0x34, 0x12, 0x00, 0x00, 0x00, 0x00, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22,
    0x11, //
    0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa,
    0xaa, //
    0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb, 0xbb,
];
const G5: [u8; 48] = [
    0x2f, 0x00, 0x1f, 0x00, 0x02, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, //
    0x81, 0x0b, 0x00, 0x00, 0x02, 0x00, 0xff, 0xff, //
    0xef, 0xbe, 0xad, 0xde, 0x00, 0x10, 0x00, 0x00, //
    0x53, 0x55, 0x50, 0x45, 0x52, 0x70, 0x2d, 0x73, 0x65, 0x6e, 0x64, 0x2d, 0x30, 0x30, 0x30, 0x31,
];
const G6: [u8; 32] = [
    0x40, 0x00, 0x1f, 0x00, 0x02, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, //
    0x81, 0x02, 0x00, 0x00, 0x02, 0x00, 0x01, 0x00, //
    0x02, 0x00, 0x03, 0x00, 0x01, 0x00, 0x02, 0x00,
];
const G7: [u8; 48] = [
    0x2f, 0x00, 0x1f, 0x00, 0x04, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, //
    0x81, 0x09, 0x00, 0x00, 0x04, 0x00, 0xff, 0xff, //
    0x00, 0x00, 0xef, 0xbe, 0xad, 0xde, 0x00, 0x00, //
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f,
];
const G8: [u8; 24] = [
    0x2f, 0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, //
    0x80, 0x01, 0x00, 0x00, 0x06, 0x00, 0x00, 0x00,
];

fn pdl(dcid: u16, window: u32, psn: u32, ack_psn: u32, sack: u32) -> PdlHeader {
    PdlHeader {
        dcid,
        window,
        psn,
        ack_psn,
        sack,
    }
}

fn tal(eom: bool, num_ops: u8, opcode: Opcode, seqno: u16, xid: u16, ack_xid: u16) -> TalHeader {
    TalHeader {
        ext: false,
        ask: false,
        eom,
        num_ops,
        opcode: opcode as u8,
        seqno,
        xid,
        ack_xid,
    }
}

fn request(op: ReqOp, xid: u16, count: u16, len: u32) -> Payload {
    Payload::Request(RequestPayload {
        xid,
        token: 0,
        op,
        count,
        first_op: 0,
        offset: 0,
        len,
        pad: 0,
        has_data: op.opcode().has_data(),
        last: true,
    })
}

/// Checks that a golden packet is parsed and written. `padding`: bytes that Ethernet appends.
fn golden(
    bytes: &[u8],
    padding: usize,
    pdl: PdlHeader,
    tal: TalHeader,
    payload: Payload,
    addresses: &[u64],
    ops: &[Op],
) {
    let mut frame = bytes.to_vec();
    frame.resize(bytes.len() + padding, 0);
    let packet = Packet::parse(&frame, frame.len()).unwrap();
    assert_eq!((*packet.pdl(), *packet.tal()), (pdl, tal));
    assert_eq!(packet.ops().collect::<Vec<_>>(), ops);

    let transmit = Transmit {
        psn: pdl.psn,
        retransmit: false,
        lite: false,
        pdl,
        tal,
        payload,
    };
    // A reply answers one read, at the start of its request.
    let read = |_: &ReplyPayload| core::iter::once(ReplyRead::default());
    let mut out = [0xee; HEADERS_MAX];
    let len = transmit
        .emit(&mut out, read, |index| addresses[index as usize])
        .unwrap();
    let data = bytes.len() - len;
    assert_eq!(out[..len], bytes[..len]);
    assert_eq!(transmit.data_len(), data);
    for (index, _) in ops.iter().enumerate().filter(|_| data > 0) {
        let block = Block {
            offset: len + index * data / ops.len(),
            len: data / ops.len(),
        };
        assert_eq!(packet.block(index), Some(block));
    }
    assert_eq!(packet.block(if data > 0 { ops.len() } else { 0 }), None);
    // The headers are enough to parse the packet; one byte less is not.
    assert!(Packet::parse(&bytes[..len], frame.len()).is_ok());
    assert_eq!(
        Packet::parse(&bytes[..len - 1], frame.len()).unwrap_err(),
        Malformed::TooShort
    );
    assert_eq!(transmit.emit(&mut out[..len - 1], read, |_| 0), None);

    // A SUPERp-lite packet differs only in that it has no Packet Delivery header [proto 6].
    let frame = &frame[PdlHeader::LEN..];
    let packet = Packet::parse_lite(frame, frame.len()).unwrap();
    assert_eq!((*packet.pdl(), *packet.tal()), (PdlHeader::default(), tal));
    assert_eq!(packet.ops().collect::<Vec<_>>(), ops);
    let first = packet.block(0).map(|block| block.offset);
    assert_eq!(first, (data > 0).then_some(len - PdlHeader::LEN));
    let transmit = Transmit {
        lite: true,
        ..transmit
    };
    let lite = transmit
        .emit(&mut out, read, |index| addresses[index as usize])
        .unwrap();
    assert_eq!(out[..lite], bytes[PdlHeader::LEN..len]);
    let needed = Packet::headers_len_lite(frame);
    assert_eq!(needed, lite);
}

#[test]
fn sunh_header_of_the_golden_packets() {
    let a_to_b = Sunh {
        traffic_class: 0,
        next_header: 253,
        hop_limit: 15,
        flow_label: 0xabc,
        source: 2,
        destination: 1,
    };
    let b_to_a = Sunh {
        source: 1,
        destination: 2,
        ..a_to_b
    };
    assert_eq!(Sunh::parse(&SUNH_A_TO_B), a_to_b);
    assert_eq!(a_to_b.bytes(), SUNH_A_TO_B);
    assert_eq!(Sunh::parse(&SUNH_B_TO_A), b_to_a);
    assert_eq!(b_to_a.bytes(), SUNH_B_TO_A);
    // G4 has traffic class 0x2b.
    let marked = Sunh {
        traffic_class: 0x2b,
        ..a_to_b
    };
    assert_eq!(marked.bytes()[0], 0x2b);
    assert_eq!(Sunh::parse(&marked.bytes()), marked);
    // The Hop Limit has four bits, the Flow Label twelve.
    let near = Sunh {
        hop_limit: 0x32,
        flow_label: 0x5111,
        ..a_to_b
    };
    assert_eq!(near.bytes()[2..4], [0x21, 0x11]);
}

#[test]
fn forwarder_discards_at_hop_limit_zero_and_one() {
    let sunh = Sunh::parse(&SUNH_A_TO_B);
    let hops = |hop_limit| Sunh { hop_limit, ..sunh }.forwarded();
    assert_eq!(hops(15).unwrap().hop_limit, 14);
    assert_eq!(hops(2).unwrap().hop_limit, 1);
    assert_eq!((hops(1), hops(0)), (None, None));
}

#[test]
fn g1_noop() {
    golden(
        &G1,
        14,
        pdl(47, 32, 0, u32::MAX, 0),
        tal(true, 0, Opcode::Noop, 0, 0, u16::MAX),
        request(ReqOp::Noop, 0, 1, 0),
        &[],
        &[],
    );
}

#[test]
fn g2_read() {
    let address = 0x1234_5678_9ab0;
    let length = 4096;
    golden(
        &G2,
        2,
        pdl(47, 32, 1, u32::MAX, 0),
        tal(true, 1, Opcode::Read, 0, 1, u16::MAX),
        request(ReqOp::Read { address }, 1, 1, length),
        &[],
        &[Op::Read(ReadOp { address, length })],
    );
}

#[test]
fn g3_read_response() {
    golden(
        &G3,
        0,
        pdl(64, 32, 1, 1, 0),
        tal(true, 1, Opcode::ReadResponse, 1, 1, 0),
        Payload::Reply(ReplyPayload {
            xid: 1,
            read: 0,
            count: 1,
            offset: 2048,
            len: 16,
            pad: 0,
        }),
        &[],
        &[Op::ReadResponse(ReadResponseOp {
            seqno: 0,
            opnum: 0,
            offset: 2048,
        })],
    );
}

#[test]
fn g4_write_of_two_operations_with_sack() {
    let addresses = [0x1234_5678, 0x1122_3344_5566_7788];
    let mut payload = request(ReqOp::Write { address: 0 }, 0x1234, 2, 16);
    if let Payload::Request(request) = &mut payload {
        request.last = false;
    }
    golden(
        &G4,
        0,
        pdl(47, 8, 0x0102_0304, 0x0a0b_0c0d, 1 << 1 | 1 << 2 | 1 << 4),
        tal(false, 2, Opcode::Write, 3, 0x1234, 255),
        payload,
        &addresses,
        &addresses.map(|address| Op::Write(WriteOp { address })),
    );
}

#[test]
fn g5_send() {
    let (key, offset) = (0xdead_beef, 0x1000);
    golden(
        &G5,
        0,
        pdl(47, 32, 2, 1, 0),
        tal(true, 1, Opcode::Send, 0, 2, u16::MAX),
        request(ReqOp::Send { key, offset }, 2, 1, 16),
        &[],
        &[Op::Send(SendOp { key, offset })],
    );
}

#[test]
fn g6_transaction_error() {
    let error = TransactionErrorOp {
        seqno: 2,
        opnum: 3,
        major: 1,
        minor: 2,
    };
    golden(
        &G6,
        6,
        pdl(64, 32, 2, 3, 0),
        tal(true, 1, Opcode::TransactionError, 0, 2, 1),
        Payload::Error(error),
        &[],
        &[Op::TransactionError(error)],
    );
}

#[test]
fn g7_write() {
    let address = 0xdead_beef_0000;
    golden(
        &G7,
        0,
        pdl(47, 32, 4, 1, 0),
        tal(true, 1, Opcode::Write, 0, 4, u16::MAX),
        request(ReqOp::Write { address }, 4, 1, 16),
        &[],
        &[Op::Write(WriteOp { address })],
    );
}

#[test]
fn g8_last_null_with_a_window_of_one() {
    golden(
        &G8,
        14,
        pdl(47, 1, 5, 2, 0),
        tal(true, 0, Opcode::LastNull, 0, 6, 0),
        request(ReqOp::LastNull, 6, 1, 0),
        &[],
        &[],
    );
}

#[test]
fn window_is_told_as_what_is_above_one() {
    let encoded = |window| {
        let b = pdl(0, window, 0, 0, 0).bytes();
        u16::from_le_bytes([b[2], b[3]])
    };
    let windows = [0, 1, 2, 0x1_0000, 0x1_0001, u32::MAX];
    assert_eq!(windows.map(encoded), [0, 0, 1, 0xffff, 0xffff, 0xffff]);
}

#[test]
fn opcodes_have_names_of_their_own() {
    let names: Vec<_> = (0..=u8::MAX)
        .filter_map(Opcode::from_u8)
        .map(Opcode::name)
        .collect();
    for (i, name) in names.iter().enumerate() {
        assert!(!name.is_empty() && !names[..i].contains(name), "{name}");
    }
}

#[test]
fn send_to_qp_has_a_24_bit_number_and_a_4_byte_header() {
    let mut bytes = G5[..32].to_vec();
    bytes[17] = 12;
    bytes.truncate(24);
    bytes.extend([0x56, 0x34, 0x12, 0xff]);
    bytes.extend([7; 16]);
    let packet = Packet::parse(&bytes, bytes.len()).unwrap();
    let op = SendQpOp { qp: 0x12_3456 };
    assert_eq!(packet.ops().collect::<Vec<_>>(), [Op::SendQp(op)]);
    assert_eq!(
        packet.block(0),
        Some(Block {
            offset: 28,
            len: 16
        })
    );
    assert_eq!(op.bytes(), [0x56, 0x34, 0x12, 0]);
}

#[test]
fn extension_headers_both_ways() {
    let flags = ExtFlags {
        pad: 9,
        immediate: true,
        solicited: true,
        ..ExtFlags::default()
    };
    let write = WriteExtOp {
        address: 0x0807_0605_0403_0201,
        qp: 0x0b_0a09,
        flags,
        immediate: 0x100f_0e0d,
    };
    let bytes = [
        1, 2, 3, 4, 5, 6, 7, 8, 0x09, 0x0a, 0x0b, 0x39, 0x0d, 0x0e, 0x0f, 0x10,
    ];
    assert_eq!(write.bytes(), bytes);
    assert_eq!(WriteExtOp::parse(&bytes), write);
    let send = SendQpExtOp {
        qp: 0x03_0201,
        flags: ExtFlags {
            start: true,
            ..flags
        },
        immediate: 0x0807_0605,
        offset: 0x0c0b_0a09,
        message_len: 0x100f_0e0d,
    };
    let bytes = [
        1, 2, 3, 0x79, 5, 6, 7, 8, 9, 0x0a, 0x0b, 0x0c, 0x0d, 0x0e, 0x0f, 0x10,
    ];
    assert_eq!(send.bytes(), bytes);
    assert_eq!(SendQpExtOp::parse(&bytes), send);
    let written = SendQpExtOp {
        flags: ExtFlags {
            written: true,
            ..send.flags
        },
        ..send
    };
    let mut bytes = bytes;
    bytes[3] |= 0x80;
    assert_eq!(written.bytes(), bytes);
    assert_eq!(SendQpExtOp::parse(&bytes), written);
}

#[test]
fn atomic_headers_both_ways() {
    let atomic = AtomicOp {
        address: 0x0807_0605_0403_0201,
        kind: AtomicKind::CompareSwap as u8,
        operand: 0x1817_1615_1413_1211,
        compare: 0x2827_2625_2423_2221,
    };
    let response = AtomicResponseOp {
        seqno: 0x0201,
        opnum: 3,
        original: 0x1817_1615_1413_1211,
    };
    let (first, second): (Vec<u8>, Vec<u8>) = ((0x11..0x19).collect(), (0x21..0x29).collect());
    let request = [
        &[1, 2, 3, 4, 5, 6, 7, 8, 2, 0, 0, 0, 0, 0, 0, 0],
        &first[..],
        &second,
    ]
    .concat();
    let reply = [
        &[1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &first[..],
        &[0; 8],
    ]
    .concat();
    assert_eq!(atomic.bytes()[..], request);
    assert_eq!(response.bytes()[..], reply);
    for (opcode, bytes, op) in [
        (0xc2, request, Op::Atomic(atomic)),
        (0xc3, reply, Op::AtomicResponse(response)),
    ] {
        let mut packet = G7[..24].to_vec();
        packet[17] = opcode;
        packet.extend(&bytes);
        let parsed = Packet::parse(&packet, packet.len()).unwrap();
        assert_eq!(parsed.ops().collect::<Vec<_>>(), [op]);
        assert_eq!((parsed.block(0), parsed.block_len()), (None, 0));
        assert_eq!(Packet::headers_len(&packet), packet.len());
        // Reserved bytes are ignored.
        let reserved = if opcode == 0xc2 { 24 + 9 } else { 24 + 3 };
        packet[reserved] = 0xff;
        let parsed = Packet::parse(&packet, packet.len()).unwrap();
        assert_eq!(parsed.ops().collect::<Vec<_>>(), [op]);
        // The block has its 16 bytes, no more and no less.
        for len in 24..packet.len() {
            assert_eq!(refused(&packet[..len]), Malformed::TooShort);
        }
        packet.push(0);
        assert_eq!(refused(&packet), Malformed::UnevenBlocks);
        packet.resize(24 + 16 + 32, 0);
        assert_eq!(refused(&packet), Malformed::UnevenBlocks);
    }
}

#[test]
fn kinds_of_atomics_are_1_to_3() {
    for kind in 0..=u8::MAX {
        let known = AtomicKind::from_u8(kind);
        assert_eq!(
            known.map(|known| known as u8),
            (1..=3).contains(&kind).then_some(kind)
        );
    }
}

fn refused(bytes: &[u8]) -> Malformed {
    Packet::parse(bytes, bytes.len()).unwrap_err()
}

#[test]
fn data_that_does_not_divide_is_refused() {
    assert_eq!(refused(&G4[..71]), Malformed::UnevenBlocks);
}

#[test]
fn block_of_15_bytes_is_short() {
    let short = |bytes: &[u8]| {
        Packet::parse(bytes, bytes.len())
            .unwrap()
            .has_short_blocks()
    };
    assert!(!short(&G5));
    assert!(short(&G5[..47]));
    // The packet has no block.
    assert!(short(&G5[..32]));
    // A Read needs no block.
    assert!(!short(&G2));
}

#[test]
fn number_of_operations_must_fit_the_opcode() {
    for opcode in [2, 8, 9, 10, 11, 12, 0xc0, 0xc1] {
        let mut bytes = G7;
        bytes[16] = 0x80;
        bytes[17] = opcode;
        assert_eq!(refused(&bytes), Malformed::NumOps, "opcode {opcode}");
    }
    let mut noop = G7;
    noop[17] = 0;
    assert_eq!(refused(&noop), Malformed::NumOps);
    // A Transaction Error is one operation in one packet.
    let mut error = G6;
    error[16] = 0x01;
    assert_eq!(refused(&error), Malformed::NumOps);
    error[16] = 0x82;
    assert_eq!(refused(&error), Malformed::NumOps);
    // An atomic and its response are one operation in one packet, too.
    for opcode in [0xc2, 0xc3] {
        for first in [0x80, 0x82, 0x8f, 0x01] {
            let mut atomic = G7[..24].to_vec();
            atomic[16] = first;
            atomic[17] = opcode;
            atomic.resize(24 + 15 * 32, 0);
            assert_eq!(refused(&atomic), Malformed::NumOps);
            assert!(Packet::headers_len(&atomic) <= HEADERS_MAX);
        }
    }
}

#[test]
fn packet_cut_inside_its_headers_is_refused() {
    // G2 cut to 57 bytes of frame, Ethernet and SUNH headers included.
    assert_eq!(refused(&G2[..57 - 22]), Malformed::TooShort);
    for bytes in [&G1[..], &G2, &G6] {
        for len in 0..bytes.len() {
            assert_eq!(refused(&bytes[..len]), Malformed::TooShort);
        }
    }
    // A packet with data is refused, or has short blocks.
    for bytes in [&G3[..], &G4, &G5, &G7] {
        for len in 0..bytes.len() {
            let packet = Packet::parse(&bytes[..len], len);
            assert!(packet.is_err() || packet.unwrap().has_short_blocks());
        }
    }
}

#[test]
fn unknown_opcode_is_laid_out_to_the_transaction_header() {
    for opcode in [3u8, 7, 13, 0x80, 0xc4, 0xff] {
        let mut bytes = G7;
        bytes[17] = opcode;
        let packet = Packet::parse(&bytes, bytes.len()).unwrap();
        assert_eq!(packet.opcode(), None);
        assert_eq!(packet.tal().num_ops, 1);
        assert_eq!((packet.ops().count(), packet.block(0)), (0, None));
    }
}

#[test]
fn reserved_bit_of_the_transaction_header_is_ignored_and_sent_as_zero() {
    let mut bytes = G7;
    bytes[16] |= 0x40;
    let packet = Packet::parse(&bytes, bytes.len()).unwrap();
    assert_eq!(packet.tal().bytes()[0], 0x81);
    bytes[16] |= 0x10;
    let packet = Packet::parse(&bytes, bytes.len()).unwrap();
    assert!(packet.tal().ext && !packet.tal().ask);
    assert_eq!(packet.tal().bytes()[0], 0x91);
    bytes[16] |= 0x20;
    let packet = Packet::parse(&bytes, bytes.len()).unwrap();
    assert!(packet.tal().ext && packet.tal().ask);
    assert_eq!(packet.tal().bytes()[0], 0xb1);
}

#[test]
fn window_is_one_more_than_the_wire_says() {
    for (wire, window) in [(0u16, 1), (31, 32), (u16::MAX, 65_536)] {
        let mut bytes = [0; PdlHeader::LEN];
        bytes[2..4].copy_from_slice(&wire.to_le_bytes());
        let pdl = PdlHeader::parse(&bytes);
        assert_eq!(pdl.window, window);
        assert_eq!(pdl.bytes(), bytes);
    }
}

#[test]
fn headers_of_one_operation_fit_into_64_bytes_of_frame() {
    let opcodes = (0..=u8::MAX).filter_map(Opcode::from_u8);
    for opcode in opcodes {
        // The block of an atomic and of its response counts as header.
        let block = match opcode {
            Opcode::Atomic | Opcode::AtomicResponse => BLOCK_MIN as usize,
            _ => 0,
        };
        assert!(14 + Sunh::LEN + FIXED_LEN + opcode.header_len() - block <= 64);
    }
}

#[test]
fn fifteen_operations_of_the_largest_header_are_parsed() {
    let mut bytes = Vec::from(&G7[..16]);
    bytes.extend([0x8f, 0xc1, 0, 0, 0, 0, 0xff, 0xff]);
    bytes.resize(HEADERS_MAX + 15 * 16, 0);
    let packet = Packet::parse(&bytes[..HEADERS_MAX], bytes.len()).unwrap();
    assert_eq!(packet.ops().count(), 15);
    assert_eq!(packet.block(14).unwrap().offset, HEADERS_MAX + 14 * 16);
    assert_eq!(packet.block(15), None);
}

#[test]
fn any_bytes_parse_or_are_refused() {
    let mut state = 1u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    let mut parsed = 0;
    for _ in 0..100_000 {
        let len = usize::from(random()) % 120;
        let mut bytes: Vec<u8> = (0..len).map(|_| random()).collect();
        if len > 17 {
            bytes[17] =
                [0, 1, 2, 8, 9, 10, 11, 12, 0xc0, 0xc1, 0xc2, 0xc3, 99][usize::from(random()) % 13];
        }
        let packet_len = len + usize::from(random() % 4) * 16;
        let Ok(packet) = Packet::parse(&bytes, packet_len) else {
            continue;
        };
        parsed += 1;
        let ops = packet.ops().count();
        assert!(packet.opcode().is_none() || ops == usize::from(packet.tal().num_ops));
        for index in 0..16 {
            if let Some(block) = packet.block(index) {
                assert!(index < ops && block.offset + block.len <= packet_len);
            }
        }
    }
    assert!(parsed > 1000);
}

#[test]
fn malformed_kinds_have_their_drop_reason() {
    for (malformed, reason) in [
        (Malformed::TooShort, DropReason::TooShort),
        (Malformed::NumOps, DropReason::NumOps),
        (Malformed::UnevenBlocks, DropReason::UnevenBlocks),
    ] {
        assert_eq!(DropReason::from(malformed), reason);
    }
}
