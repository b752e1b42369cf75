// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Division of random requests into packets, in random configurations.

use super::super::super::prop;
use super::*;
use crate::proto::AtomicKind;
use proptest::prelude::*;

fn op() -> impl Strategy<Value = ReqOp> {
    let message = prop_oneof![0..5000u32, any::<u32>()];
    prop_oneof![
        Just(ReqOp::Noop),
        Just(ReqOp::LastNull),
        Just(ReqOp::Read { address: 0 }),
        Just(ReqOp::Write { address: 0 }),
        Just(ReqOp::WriteExt {
            address: 0,
            qp: 0,
            imm: Some(1),
            solicited: false
        }),
        Just(ReqOp::Send { key: 0, offset: 0 }),
        Just(ReqOp::SendQp { qp: 0 }),
        (message.clone(), message).prop_map(|(offset, message_len)| ReqOp::SendQpExt {
            qp: 0,
            offset,
            message_len,
            imm: None,
            solicited: false,
            start: false,
        }),
        Just(ReqOp::Atomic {
            address: 0,
            kind: AtomicKind::Swap,
            operand: 0,
            compare: 0
        }),
    ]
}

proptest! {
    #![proptest_config(prop::config())]

    /// A request is divided into packets that fit the MTU. Its blocks are equal except for the
    /// last, have at least 16 bytes, and hold all of its data. Otherwise the request is refused for
    /// a limit that it exceeds. The reply to a read has the computed number of packets
    /// [proto 2.5, 2.6, 4.10, 4.14].
    #[test]
    fn any_request_is_cut_by_the_rules(
        mtu in prop_oneof![128..600u32, 128..9000u32, 128..=65_535u32],
        lite: bool,
        max_packets in prop_oneof![1..40u32, 1..=4096u32],
        max_ops in 1..=15u32,
        op in op(),
        count in prop_oneof![3 => Just(1u16), 2 => 0..40u16, 1 => any::<u16>()],
        len in prop_oneof![0..100u32, 0..10_000u32, 0..20_000_000u32, any::<u32>()],
    ) {
        let config = Config {
            mtu,
            lite,
            tal_max_pkt_per_trans: max_packets,
            tal_max_ops_per_pkt: max_ops,
            ..Config::default()
        };
        let limits = Limits::new(&config);
        let opcode = op.opcode();
        let header = opcode.header_len() as u32;
        let fixed = if lite { 8 } else { 24 };
        let layout = match limits.layout(&Request { op, count, len, token: 0 }) {
            Ok(layout) => layout,
            Err(SubmitError::TooShort { min }) => {
                prop_assert!(len < min && min == limits.min_len(&op));
                return Ok(());
            }
            Err(SubmitError::TooLong { max }) => {
                let outside = matches!(op, ReqOp::SendQpExt { offset, message_len, .. } if offset > message_len);
                prop_assert!(outside || u64::from(len) * u64::from(count) > max);
                return Ok(());
            }
            Err(SubmitError::BadCount { max }) => {
                prop_assert!(count == 0 || count > max);
                return Ok(());
            }
            Err(error) => panic!("{error:?}"),
        };
        prop_assert!(layout.packets >= 1 && u32::from(layout.packets) <= max_packets);
        prop_assert!(u32::from(layout.ops) <= max_ops);
        if count == 1 {
            prop_assert!(u64::from(len) <= limits.max_len(&op));
        }
        let each = len + u32::from(layout.pad);
        let room = mtu - fixed;
        match op {
            ReqOp::Noop | ReqOp::LastNull | ReqOp::Atomic { .. } => {
                prop_assert_eq!((layout.packets, layout.block), (1, 0));
                return Ok(());
            }
            ReqOp::Read { .. } => {
                prop_assert_eq!((layout.packets, u16::from(layout.ops)), (1, count));
                prop_assert!(u32::from(count) * header <= room);
                // The reply.
                let (mut offset, mut packets) = (0, 0);
                loop {
                    let (block, ops) = limits.reply_block(len, offset);
                    prop_assert!(block + 8 <= room && (1..=max_ops).contains(&ops));
                    prop_assert!(ops == 1 || ops * (8 + block.max(16)) <= room);
                    packets += 1;
                    offset += block;
                    if offset >= len {
                        break;
                    }
                    prop_assert_eq!(block % 8, 0);
                }
                prop_assert_eq!(offset, len);
                prop_assert_eq!(packets, limits.reply_packets(len));
                let each = limits.reply_block(len, 0).1;
                prop_assert!(packets * u32::from(count).div_ceil(each) <= max_packets);
                return Ok(());
            }
            _ => {}
        }
        let packets = u32::from(layout.packets);
        if count > 1 {
            prop_assert_eq!(layout.block, len);
            let ops = u32::from(layout.ops);
            prop_assert_eq!(packets, u32::from(count).div_ceil(ops));
            prop_assert!(ops * (header + each) <= room);
        } else {
            let tail = len - layout.block * (packets - 1);
            prop_assert!(layout.block + u32::from(layout.pad) + header <= room);
            prop_assert!(tail <= layout.block && (packets == 1 || tail > 0));
            let least = tail + u32::from(layout.pad);
            prop_assert!(least >= 16, "a block of {}", least);
            if lite && layout.pad == 0 {
                prop_assert!(8 + 8 + header + least >= 46);
            }
        }
        let ext = matches!(op, ReqOp::WriteExt { .. } | ReqOp::SendQpExt { .. });
        prop_assert!(layout.pad == 0 || ext);
        prop_assert!(each >= 16 || packets > 1);
    }

    /// A request of the largest length is accepted. One byte more is refused.
    #[test]
    fn longest_request_is_the_longest(
        mtu in 128..9000u32,
        max_packets in 1..=4096u32,
        op in op(),
    ) {
        let config = Config { mtu, tal_max_pkt_per_trans: max_packets, ..Config::default() };
        let limits = Limits::new(&config);
        let max = limits.max_len(&op);
        if let ReqOp::SendQpExt { offset, message_len, .. } = op {
            prop_assert!(max <= message_len.saturating_sub(offset).into());
        }
        let request = |len: u64| u32::try_from(len).ok().map(|len| Request { op, count: 1, len, token: 0 });
        if let Some(longest) = request(max).filter(|longest| longest.len >= limits.min_len(&op)) {
            let outside = matches!(op, ReqOp::SendQpExt { offset, message_len, .. } if offset > message_len);
            prop_assert_eq!(limits.layout(&longest).is_ok(), !outside);
        }
        if let Some(longer) = request(max + 1).filter(|longer| longer.len >= limits.min_len(&op)) {
            prop_assert_eq!(limits.layout(&longer), Err(SubmitError::TooLong { max }));
        }
    }

    /// As many operations as `per_packet` returns fit one packet, and for reads one reply. One more
    /// does not fit.
    #[test]
    fn operations_of_a_packet_are_as_many_as_fit(
        mtu in 128..9000u32,
        max_packets in 1..=40u32,
        max_ops in 1..=15u32,
        op in op(),
        len in prop_oneof![16..100u32, 16..2000u32, 16..400_000u32],
    ) {
        let config = Config {
            mtu,
            tal_max_pkt_per_trans: max_packets,
            tal_max_ops_per_pkt: max_ops,
            ..Config::default()
        };
        let limits = Limits::new(&config);
        let fit = limits.per_packet(&op, len);
        let packets = |count: u32| {
            let request = Request { op, count: count as u16, len, token: 0 };
            limits.layout(&request).map(|layout| layout.packets)
        };
        match op {
            ReqOp::Read { .. } => {
                let block = (mtu - 24 - 8) & !7;
                let least = max_packets.min((mtu - 24 - 8) / 2);
                let fits = |ops: u32| {
                    let reply = match ((mtu - 24) / (8 + len)).min(max_ops) {
                        0 => ops * len.div_ceil(block),
                        each => ops.div_ceil(each),
                    };
                    ops <= max_ops && 24 + 12 * ops <= mtu && reply <= least
                };
                prop_assert!(fit == 0 || fits(fit));
                prop_assert!(!fits(fit + 1));
                prop_assert!(fit == 0 || packets(fit) == Ok(1));
                prop_assert!(packets(fit + 1).is_err());
            }
            ReqOp::Write { .. } | ReqOp::WriteExt { .. } | ReqOp::Send { .. } => {
                prop_assert!(fit < 2 || packets(fit) == Ok(1));
                prop_assert!(fit == 0 || fit == max_ops || max_packets == 1 || packets(fit + 1) == Ok(2));
                prop_assert!(fit <= max_ops);
            }
            _ => prop_assert_eq!(fit, 1),
        }
    }
}
