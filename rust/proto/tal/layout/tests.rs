// SPDX-License-Identifier: GPL-2.0 OR MIT
use super::*;

fn limits(mtu: u32, max_packets: u32) -> Limits {
    Limits {
        payload_max: mtu - FIXED_LEN as u32,
        lite: false,
        max_packets,
        max_ops: 8,
    }
}

fn request(op: ReqOp, count: u16, len: u32) -> Request {
    Request {
        op,
        count,
        len,
        token: 0,
    }
}

const WRITE: ReqOp = ReqOp::Write { address: 0 };
const WRITE_EXT: ReqOp = ReqOp::WriteExt {
    address: 0,
    qp: 0,
    imm: None,
    solicited: false,
};

fn send_ext(offset: u32, message_len: u32) -> ReqOp {
    ReqOp::SendQpExt {
        qp: 0,
        offset,
        message_len,
        imm: None,
        solicited: false,
        start: false,
    }
}

/// Bytes of data in each packet.
fn blocks(layout: &Layout, len: u32) -> alloc::vec::Vec<u32> {
    let mut remaining = len;
    (0..layout.packets)
        .map(|packet| {
            let last = packet + 1 == layout.packets;
            let bytes = if last { remaining } else { layout.block };
            remaining -= bytes;
            bytes
        })
        .collect()
}

#[test]
fn every_length_up_to_the_limit_is_cut_into_legal_blocks() {
    for (mtu, max_packets) in [
        (128, 5),
        (128, 4096),
        (552, 32),
        (552, 4096),
        (1484, 1),
        (1484, 3),
    ] {
        let limits = limits(mtu, max_packets);
        let max = limits.max_len(&WRITE) as u32;
        let lens = (16..3000).chain(max.saturating_sub(3000)..=max);
        for len in lens.filter(|&len| (16..=max).contains(&len)) {
            let layout = limits.layout(&request(WRITE, 1, len)).unwrap();
            let blocks = blocks(&layout, len);
            assert!(u32::from(layout.packets) <= max_packets);
            assert!(
                blocks.iter().all(|&block| (16..=mtu - 32).contains(&block)),
                "{len}: {blocks:?}"
            );
            assert!(
                blocks.iter().all(|&block| block <= layout.block),
                "{len}: {blocks:?}"
            );
            assert_eq!(blocks.iter().sum::<u32>(), len);
        }
        let refused = limits.layout(&request(WRITE, 1, max + 1));
        assert_eq!(refused, Err(SubmitError::TooLong { max: max.into() }));
    }
}

#[test]
fn one_packet_takes_the_whole_mtu() {
    let layout = limits(1484, 32)
        .layout(&request(WRITE, 1, 1484 - 32))
        .unwrap();
    assert_eq!((layout.packets, layout.block), (1, 1452));
}

#[test]
fn tail_under_16_bytes_is_filled_up_from_the_other_blocks() {
    let limits = limits(24 + 8 + 160, 32);
    let layout = limits.layout(&request(WRITE, 1, 3 * 160 + 1)).unwrap();
    assert_eq!(blocks(&layout, 481), [155, 155, 155, 16]);
}

#[test]
fn short_data_is_padded_by_extensions_and_refused_without() {
    let limits = limits(1484, 32);
    let short = limits.layout(&request(WRITE, 1, 15));
    assert_eq!(short, Err(SubmitError::TooShort { min: 16 }));
    let layout = limits.layout(&request(WRITE_EXT, 1, 1)).unwrap();
    assert_eq!((layout.block, layout.pad), (1, 15));
    let empty = limits.layout(&request(WRITE_EXT, 1, 0));
    assert_eq!(empty, Err(SubmitError::TooShort { min: 1 }));
    let layout = limits.layout(&request(send_ext(0, 0), 1, 0)).unwrap();
    assert_eq!((layout.block, layout.pad), (0, 16));
    let layout = limits
        .layout(&request(ReqOp::Read { address: 0 }, 1, 0))
        .unwrap();
    assert_eq!((layout.packets, layout.pad), (1, 0));
}

#[test]
fn segment_beyond_its_message_is_refused() {
    let limits = limits(1484, 32);
    let refused = limits.layout(&request(send_ext(90, 100), 1, 11));
    assert_eq!(refused, Err(SubmitError::TooLong { max: 10 }));
    let refused = limits.layout(&request(send_ext(101, 100), 1, 1));
    assert_eq!(refused, Err(SubmitError::TooLong { max: 0 }));
    assert!(limits.layout(&request(send_ext(90, 100), 1, 10)).is_ok());
    let empty = limits.layout(&request(send_ext(0, 100), 1, 0));
    assert_eq!(empty, Err(SubmitError::TooShort { min: 1 }));
}

#[test]
fn several_operations_are_packed() {
    let limits = limits(24 + 3 * (8 + 64) + 7, 4);
    let layout = limits.layout(&request(WRITE, 10, 64)).unwrap();
    assert_eq!((layout.packets, layout.ops), (4, 3));
    let refused = limits.layout(&request(WRITE, 13, 64));
    assert_eq!(refused, Err(SubmitError::BadCount { max: 12 }));
    let refused = limits.layout(&request(WRITE, 2, 300));
    assert_eq!(
        refused,
        Err(SubmitError::TooLong {
            max: 24 + 3 * (8 + 64) + 7 - 32
        })
    );
    let refused = limits.layout(&request(WRITE, 0, 64));
    assert_eq!(refused, Err(SubmitError::BadCount { max: 1 }));
}

#[test]
fn several_reads_fit_one_request_and_a_legal_reply() {
    let limits = limits(128, 4);
    let read = ReqOp::Read { address: 0 };
    let layout = limits.layout(&request(read, 8, 16)).unwrap();
    assert_eq!((layout.packets, layout.ops), (1, 8));
    let refused = limits.layout(&request(read, 9, 16));
    assert_eq!(refused, Err(SubmitError::BadCount { max: 8 }));
    let refused = limits.layout(&request(read, 5, 90));
    assert_eq!(refused, Err(SubmitError::BadCount { max: 4 }));
    let layout = limits.layout(&request(read, 2, 97)).unwrap();
    assert_eq!((layout.packets, layout.ops), (1, 2));
    let refused = limits.layout(&request(read, 2, 193));
    assert_eq!(refused, Err(SubmitError::BadCount { max: 1 }));
    let refused = limits.layout(&request(read, 2, 385));
    assert_eq!(refused, Err(SubmitError::TooLong { max: 384 }));
}

#[test]
fn operations_without_data_take_neither_count_nor_length() {
    let limits = limits(1484, 32);
    assert!(limits.layout(&request(ReqOp::Noop, 1, 0)).is_ok());
    let long = limits.layout(&request(ReqOp::LastNull, 1, 1));
    assert_eq!(long, Err(SubmitError::TooLong { max: 0 }));
    let many = limits.layout(&request(ReqOp::Noop, 2, 0));
    assert_eq!(many, Err(SubmitError::BadCount { max: 1 }));
}
