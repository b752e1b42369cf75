// SPDX-License-Identifier: GPL-2.0 OR MIT
//! On a path that loses nothing and keeps order, nothing is ever sent twice.

use crate::node::BASE;
use crate::pair::{Cpu, Pair, A, B};
use crate::{MS, US};
use superp_proto::{Config, ReqOp};

fn write(pair: &mut Pair, from: usize, len: usize) -> u64 {
    let data = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
    pair.submit(from, ReqOp::Write { address: BASE }, data)
}

#[test]
fn write_read_and_send_complete() {
    let mut pair = Pair::clean(&Config::default());
    let data: Vec<u8> = (0..5000).map(|i| i as u8).collect();
    pair.submit(A, ReqOp::Write { address: BASE + 77 }, data.clone());
    pair.run_until(MS, Pair::all_complete);
    assert_eq!(pair.ends[B].memory.bytes[77..5077], data);
    let token = pair.read(A, BASE + 77, 5000);
    pair.submit(A, ReqOp::SendQp { qp: 9 }, data.clone());
    pair.settle();
    let read: Vec<u8> = pair.ends[A].memory.reads[&token]
        .iter()
        .map(|b| b.unwrap())
        .collect();
    assert_eq!(read, data);
    assert_eq!(pair.ends[B].memory.messages[0].data, data);
    assert_eq!(pair.retransmits(), 0);
}
