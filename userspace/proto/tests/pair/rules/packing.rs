// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Several operations in a packet.

use super::*;
use crate::node::{pattern, MEMORY};
use crate::pair::{A, B};
use crate::SECOND;
use superp_proto::{Code, Payload, Request, Transmit};

fn several(op: ReqOp, count: u16, len: u32) -> Request {
    Request {
        op,
        count,
        len,
        token: 0,
    }
}

#[test]
fn writes_of_a_packet_are_carried_out_up_to_the_first_that_is_refused() {
    for failing in 0..4 {
        let mut pair = Pair::clean(&Config::default());
        let mut places: Vec<u64> = (0..4).map(|i| BASE + i * 1000).collect();
        places[failing] = BASE + MEMORY - 63;
        let request = several(ReqOp::Write { address: BASE }, 4, 64);
        let token = pair
            .try_submit(A, request, bytes(256), places.clone())
            .unwrap();
        pair.settle();
        assert_eq!(
            pair.ends[A].completed[&token],
            Err(Code::ACCESS_BOUNDS),
            "{failing}"
        );
        assert_eq!(pair.ends[A].failed_op[&token], failing as u32);
        for (i, place) in places.iter().enumerate().filter(|(i, _)| *i != failing) {
            let at = (place - BASE) as usize;
            let found = &pair.ends[B].memory.bytes[at..at + 64];
            let written: Vec<u8> = bytes(256)[i * 64..(i + 1) * 64].to_vec();
            let before: Vec<u8> = (*place..place + 64).map(pattern).collect();
            let expected = if i < failing { written } else { before };
            assert_eq!(found, expected, "operation {i}, {failing} refused");
        }
    }
}

#[test]
fn read_that_is_refused_among_several_is_named() {
    let mut pair = Pair::clean(&Config::default());
    let places = vec![BASE, BASE + MEMORY, BASE];
    let request = several(ReqOp::Read { address: BASE }, 3, 100);
    let token = pair.try_submit(A, request, Vec::new(), places).unwrap();
    let alone = pair.read(A, BASE + MEMORY, 100);
    pair.settle();
    assert_eq!(pair.ends[A].failed_op.get(&token), Some(&1));
    // Where there is one operation there is nothing to tell.
    assert_eq!(pair.ends[A].completed[&alone], Err(Code::ACCESS_BOUNDS));
    assert_eq!(pair.ends[A].failed_op.get(&alone), None);
}

#[test]
fn operations_per_packet_fill_one_packet() {
    let write_ext = ReqOp::WriteExt {
        address: BASE,
        qp: 0,
        imm: None,
        solicited: false,
    };
    let read = ReqOp::Read { address: BASE };
    for max_ops in [1, 8, 15] {
        for (op, len) in [
            (ReqOp::Write { address: BASE }, 16),
            (ReqOp::Write { address: BASE }, 300),
            (write_ext, 1),
            (read, 1),
            (read, 400),
            (read, 2000),
            (read, 20_000),
            (read, 45_000),
        ] {
            let mut pair = Pair::clean(&Config {
                tal_max_ops_per_pkt: max_ops,
                ..ext()
            });
            let count = pair.ends[A].conn.per_packet(&op, len);
            assert!((1..=max_ops).contains(&count));
            let count = count as u16;
            if count < 2 {
                continue;
            }
            pair.trace = true;
            let data = match op {
                ReqOp::Read { .. } => Vec::new(),
                _ => bytes(usize::from(count) * len as usize),
            };
            let places: Vec<u64> = (0..u64::from(count)).map(|i| BASE + i * 500).collect();
            let token = pair
                .try_submit(A, several(op, count, len), data, places.clone())
                .unwrap();
            pair.settle();
            assert_eq!(pair.ends[A].completed[&token], Ok(()));
            let with_data = pair.log.iter().filter(|(_, _, transmit)| {
                matches!(transmit.payload, Payload::Request(_) | Payload::Reply(_))
            });
            let packets = match op {
                ReqOp::Read { .. } => {
                    let room = pair.ends[A].conn.config().mtu - 24;
                    1 + match (room / (8 + len)).min(max_ops) {
                        0 => u32::from(count) * len.div_ceil((room - 8) & !7),
                        each => u32::from(count).div_ceil(each),
                    }
                }
                _ => 1,
            };
            assert_eq!(
                with_data.count() as u32,
                packets,
                "{op:?}, {count} of {len}"
            );
            if op == read {
                let came = pair.ends[A].memory.reads[&token].iter().copied();
                let there = places.iter().flat_map(|at| *at..at + u64::from(len));
                assert!(came.eq(there.map(|at| Some(pattern(at)))));
            }
        }
    }
    let mut pair = Pair::clean(&ext());
    let max_ops = pair.ends[A].conn.config().tal_max_ops_per_pkt;
    assert_eq!(pair.ends[A].conn.per_packet(&read, 16), max_ops);
    assert_eq!(pair.ends[A].conn.per_packet(&send_ext(16), 16), 1);
    assert_eq!(pair.ends[A].conn.per_packet(&ReqOp::Noop, 0), 1);
    assert!(pair.ends[A].conn.ready());
}

#[test]
fn connection_is_ready_while_packets_do_not_wait_for_room() {
    let mut pair = Pair::clean(&Config {
        pdl_window_size: 16,
        tal_trans_window: 64,
        ..Config::default()
    });
    // Nothing comes back.
    pair.filter = Some(Box::new(|_, from, _| from == B));
    let mut taken = 0;
    while pair.ends[A].conn.ready() {
        write(&mut pair, A, 64);
        pair.drive(A);
        taken += 1;
        assert!(taken < 64);
    }
    // The window, and one that waits for room in it.
    assert!((16..=17).contains(&taken), "{taken}");
    pair.filter = None;
    pair.run_until(SECOND, |pair| pair.ends[A].completed.len() == taken);
    assert!(pair.ends[A].conn.ready());
    // The window of transactions counts, too.
    while pair.ends[A].conn.ready() {
        write(&mut pair, A, 64);
        taken += 1;
        assert!(taken < 100);
    }
    pair.settle();
    assert!(pair.ends[A].conn.ready());
}

#[test]
fn packet_that_was_not_sent_is_checked_again() {
    let mut pair = Pair::clean(&Config::default());
    // The target refuses it when the first of its packets has come.
    pair.submit(A, ReqOp::Write { address: BASE - 1 }, bytes(20_000));
    write(&mut pair, A, 64);
    let conn = &mut pair.ends[A].conn;
    let packets: Vec<_> = std::iter::from_fn(|| conn.poll_transmit(0)).collect();
    assert!(packets.len() > 3);
    for packet in &packets {
        assert_eq!(conn.recheck(packet), Some(*packet));
    }
    let error = TalHeader {
        eom: true,
        num_ops: 1,
        opcode: Opcode::TransactionError as u8,
        ack_xid: u16::MAX,
        ..TalHeader::default()
    };
    let mut bytes = pdl(0, u32::MAX).bytes().to_vec();
    bytes.extend(error.bytes());
    bytes.extend([0, 0, 0, 0, 3, 0, 1, 0]);
    assert_eq!(pair.ends[A].take(0, &bytes), Some(Received::Delivered));
    let conn = &mut pair.ends[A].conn;
    let (last, others) = packets.split_last().unwrap();
    // The places of the others in the order of packets must be filled all the same.
    for packet in others {
        assert_eq!(conn.recheck(packet), Some(packet.without_payload()));
    }
    assert_eq!(conn.recheck(last), Some(*last));
    conn.stop();
    assert_eq!(conn.recheck(last), None);
}

#[test]
fn packet_that_has_arrived_is_not_sent_again() {
    let mut pair = Pair::clean(&Config::default());
    write(&mut pair, A, 40_000);
    let conn = &mut pair.ends[A].conn;
    let packets: Vec<_> = std::iter::from_fn(|| conn.poll_transmit(0)).collect();
    assert!(packets.len() > 3);
    // The first is acknowledged, the third selectively.
    let ack = PdlHeader {
        sack: 1 << 1,
        ..pdl(0, 0)
    };
    let header = tal(Opcode::Write, true, 1, 0, 0);
    let packet = [&ack.bytes()[..], &header.bytes(), &write_op(BASE)].concat();
    assert_eq!(pair.ends[A].take(0, &packet), Some(Received::Delivered));
    let conn = &pair.ends[A].conn;
    let left: Vec<_> = packets.iter().map(|packet| conn.recheck(packet)).collect();
    assert_eq!(left[..4], [None, Some(packets[1]), None, Some(packets[3])]);
    let never_sent = Transmit {
        psn: packets.len() as u32,
        ..packets[0]
    };
    assert_eq!(conn.recheck(&never_sent), None);
}
