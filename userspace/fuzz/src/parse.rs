// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Any bytes as a packet.

use superp_proto::wire::{Malformed, Opcode, PdlHeader, Sunh, BLOCK_MIN, FIXED_LEN, HEADERS_MAX};
use superp_proto::{Block, Packet};

/// Parses the bytes behind the first as a packet with that many more bytes behind them.
///
/// The result is compared with that of a parser written from the tables of the protocol alone. What
/// parses is laid out again: it must be what came, but for bits that are reserved.
pub fn parse(bytes: &[u8]) {
    if let Some((sunh, _)) = bytes.split_first_chunk() {
        check_sunh(sunh);
    }
    let Some((&behind, bytes)) = bytes.split_first() else {
        return;
    };
    let packet_len = bytes.len() + usize::from(behind);
    let parsed = Packet::parse(bytes, packet_len);
    match (parsed, expected(bytes, packet_len)) {
        (Ok(packet), Ok(layout)) => check_packet(&packet, bytes, packet_len, &layout),
        (Err(malformed), Err(expected)) => assert_eq!(malformed, expected),
        (parsed, expected) => panic!("{parsed:?}, expected {expected:?}"),
    }
    check_lite(bytes, packet_len);
    // Bytes behind the packet are not looked at.
    let cut = bytes.len() / 2;
    let shorter = Packet::parse(&bytes[..cut], cut);
    assert_eq!(shorter.err(), Packet::parse(bytes, cut).err());
}

/// SUPERp-lite is the same without the first header.
fn check_lite(bytes: &[u8], packet_len: usize) {
    let Some(rest) = bytes.get(PdlHeader::LEN..) else {
        return;
    };
    let parsed = Packet::parse(bytes, packet_len);
    let lite = Packet::parse_lite(rest, packet_len - PdlHeader::LEN);
    let (packet, lite) = match (parsed, lite) {
        (Ok(packet), Ok(lite)) => (packet, lite),
        (parsed, lite) => return assert_eq!(parsed.err(), lite.err()),
    };
    assert_eq!((packet.tal(), packet.opcode()), (lite.tal(), lite.opcode()));
    assert!(packet.ops().eq(lite.ops()));
    for index in 0..=16 {
        let block = lite.block(index).map(|block| Block {
            offset: block.offset + PdlHeader::LEN,
            ..block
        });
        assert_eq!(packet.block(index), block);
    }
}

fn check_sunh(bytes: &[u8; Sunh::LEN]) {
    let sunh = Sunh::parse(bytes);
    assert_eq!(sunh.bytes(), *bytes);
    match sunh.forwarded() {
        None => assert!(bytes[2] >> 4 <= 1),
        Some(forwarded) => {
            let mut expected = *bytes;
            expected[2] -= 0x10;
            assert_eq!(forwarded.bytes(), expected);
        }
    }
}

/// What a packet is made of.
#[derive(Debug)]
struct Layout {
    header: usize,
    ops: usize,
    block: usize,
}

/// The table of operation headers: code, bytes, whether blocks of any size follow, bits that are not
/// reserved in the first bytes; all are in the others.
const TABLE: [(u8, usize, bool, &[u8]); 10] = [
    (2, 8, false, &[0xff, 0xff, 0xff, 0]),
    (8, 12, false, &[]),
    (9, 8, true, &[]),
    (10, 8, true, &[0xff, 0xff, 0xff, 0]),
    (11, 8, true, &[]),
    (12, 4, true, &[0xff, 0xff, 0xff, 0]),
    (
        0xc0,
        16,
        true,
        &[
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        ],
    ),
    (0xc1, 16, true, &[0xff, 0xff, 0xff, 0xff]),
    (
        0xc2,
        32,
        false,
        &[
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0,
        ],
    ),
    (
        0xc3,
        32,
        false,
        &[
            0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff,
            0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0,
        ],
    ),
];

fn expected(bytes: &[u8], packet_len: usize) -> Result<Layout, Malformed> {
    if bytes.len() < 24 {
        return Err(Malformed::TooShort);
    }
    let (eom, ops, code) = (
        bytes[16] & 0x80 != 0,
        usize::from(bytes[16] & 15),
        bytes[17],
    );
    let none = Layout {
        header: 0,
        ops: 0,
        block: 0,
    };
    let Some(&(_, header, data, _)) = TABLE.iter().find(|row| row.0 == code) else {
        return match (code, ops) {
            (0 | 1, 1..) => Err(Malformed::NumOps),
            _ => Ok(none),
        };
    };
    if ops == 0 || (matches!(code, 2 | 0xc2 | 0xc3) && (ops > 1 || !eom)) {
        return Err(Malformed::NumOps);
    }
    let end = 24 + ops * header;
    if bytes.len() < end {
        return Err(Malformed::TooShort);
    }
    let rest = packet_len - end;
    if code >= 0xc2 && rest > 0 || data && rest % ops != 0 {
        return Err(Malformed::UnevenBlocks);
    }
    let block = if data { rest / ops } else { 0 };
    Ok(Layout { header, ops, block })
}

fn check_packet(packet: &Packet<'_>, bytes: &[u8], packet_len: usize, layout: &Layout) {
    let code = bytes[17];
    assert_eq!(packet.opcode().map(|opcode| opcode as u8), {
        let known = code < 2 || TABLE.iter().any(|row| row.0 == code);
        known.then_some(code)
    });
    assert_eq!(packet.opcode(), Opcode::from_u8(code));
    assert_eq!(packet.block_len(), layout.block);
    let data = TABLE.iter().any(|row| row.0 == code && row.2);
    let short = data && layout.block < BLOCK_MIN as usize;
    assert_eq!(packet.has_short_blocks(), short);
    let end = FIXED_LEN + layout.ops * layout.header;
    assert_eq!(Packet::headers_len(bytes), end);
    assert!(end <= HEADERS_MAX);

    let mut emitted = packet.pdl().bytes().to_vec();
    emitted.extend(packet.tal().bytes());
    let mut ops = 0;
    for op in packet.ops() {
        let mut out = [0xee; 32];
        let len = op.emit(&mut out).expect("room for one header");
        assert_eq!(len, layout.header);
        assert_eq!(op.emit(&mut out[..len - 1]), None);
        emitted.extend_from_slice(&out[..len]);
        ops += 1;
    }
    assert_eq!(ops, layout.ops);
    let mut canonical = bytes[..end].to_vec();
    canonical[PdlHeader::LEN] &= 0xbf;
    let reserved = TABLE.iter().find(|row| row.0 == code);
    for header in canonical[FIXED_LEN..].chunks_mut(layout.header.max(1)) {
        for (byte, mask) in header.iter_mut().zip(reserved.map_or(&[][..], |row| row.3)) {
            *byte &= mask;
        }
    }
    assert_eq!(emitted, canonical);

    for index in 0..=16 {
        let block = (layout.block > 0 && index < layout.ops).then(|| Block {
            offset: end + index * layout.block,
            len: layout.block,
        });
        assert_eq!(packet.block(index), block);
        assert!(block.is_none_or(|block| block.offset + block.len <= packet_len));
    }
    // The headers are all that is needed.
    let short = Packet::parse(&bytes[..end], packet_len).expect("parsed with more bytes");
    assert!(short.ops().eq(packet.ops()));
}
