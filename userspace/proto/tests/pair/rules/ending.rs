// SPDX-License-Identifier: GPL-2.0 OR MIT
//! How a connection ends: by Last NULL at both ends, or at once.

use super::*;
use crate::pair::{A, B};
use superp_proto::{Code, Request, State, SubmitError};

#[test]
fn last_null_drains_both_ends() {
    let mut pair = Pair::clean(&Config::default());
    pair.link.config.loss = 200;
    for end in [A, B] {
        for _ in 0..10 {
            write(&mut pair, end, 3000);
        }
        pair.read(end, BASE, 3000);
        pair.submit(end, ReqOp::LastNull, Vec::new());
        let request = Request {
            op: ReqOp::Noop,
            count: 1,
            len: 0,
            token: 0,
        };
        let refused = pair.try_submit(end, request, Vec::new(), Vec::new());
        assert_eq!(refused, Err(SubmitError::Stopped));
        assert_eq!(pair.ends[end].conn.state(), State::ShuttingDown);
    }
    pair.settle();
    assert!(pair.ends[A].drained && pair.ends[B].drained);
}

#[test]
fn stop_completes_everything_with_an_error() {
    let mut pair = Pair::clean(&Config::default());
    let tokens = [write(&mut pair, A, 5000), pair.read(A, BASE, 5000)];
    pair.drive(A);
    pair.ends[A].conn.stop();
    pair.drive(A);
    for token in tokens {
        assert_eq!(pair.ends[A].completed[&token], Err(Code::ABORTED_STOPPED));
    }
    let conn = &mut pair.ends[A].conn;
    assert_eq!((conn.state(), conn.deadline()), (State::Stopped, None));
    assert_eq!(conn.poll_transmit(pair.now), None);
    assert!(conn.idle());
}

#[test]
fn end_is_drained_when_both_have_sent_their_last_null() {
    let mut pair = Pair::clean(&Config::default());
    pair.submit(B, ReqOp::LastNull, Vec::new());
    pair.settle();
    assert!(!pair.ends[A].drained && !pair.ends[B].drained);
    // The other end may still ask.
    let written = write(&mut pair, A, 3000);
    pair.submit(A, ReqOp::LastNull, Vec::new());
    pair.settle();
    assert_eq!(pair.ends[A].completed[&written], Ok(()));
    assert!(pair.ends[A].drained && pair.ends[B].drained);
}
