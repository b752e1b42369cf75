// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Ends that find out whether both have the extensions [proto 7].

use crate::link::LinkConfig;
use crate::node::BASE;
use crate::pair::{Pair, A, B};
use crate::SECOND;
use superp_proto::{Code, Config, Extensions, Payload, ReqOp, Request, SubmitError, Transmit};

fn with(ext: Extensions) -> Config {
    Config {
        ext,
        ..Config::default()
    }
}

fn pair(a: Extensions, b: Extensions) -> Pair {
    let link = LinkConfig {
        delay: 20_000,
        ..LinkConfig::default()
    };
    let mut pair = Pair::new([with(a), with(b)], link, 0);
    pair.trace = true;
    pair
}

/// A message of four bytes, which version 0.4 has no way for.
const SHORT: ReqOp = ReqOp::SendQpExt {
    qp: 5,
    offset: 0,
    message_len: 4,
    imm: None,
    solicited: false,
    start: false,
};

fn short(pair: &mut Pair, end: usize) -> Result<u64, SubmitError> {
    let request = Request {
        op: SHORT,
        count: 1,
        len: 4,
        token: 0,
    };
    pair.try_submit(end, request, vec![1, 2, 3, 4], Vec::new())
}

fn said(pair: &Pair, who: usize) -> Vec<bool> {
    let of = pair.log.iter().filter(|(_, from, _)| *from == who);
    of.map(|(_, _, transmit)| transmit.tal.ext).collect()
}

#[test]
fn ends_that_both_have_them_use_them() {
    use Extensions::{Auto, On};
    for (a, b) in [(Auto, Auto), (Auto, On), (On, Auto)] {
        let mut pair = pair(a, b);
        pair.settle();
        assert_eq!(
            (pair.ends[A].conn.ext(), pair.ends[B].conn.ext()),
            (Some(true), Some(true))
        );
        let token = short(&mut pair, A).unwrap();
        pair.settle();
        assert_eq!(pair.ends[A].completed[&token], Ok(()));
        assert!(said(&pair, A).iter().chain(&said(&pair, B)).all(|&ext| ext));
    }
}

#[test]
fn end_whose_peer_has_none_speaks_version_0_4() {
    let mut pair = pair(Extensions::Auto, Extensions::Off);
    pair.settle();
    assert_eq!(
        (pair.ends[A].conn.ext(), pair.ends[B].conn.ext()),
        (Some(false), Some(false))
    );
    assert_eq!(short(&mut pair, A), Err(SubmitError::NeedsExt));
    let token = pair.submit(A, ReqOp::Write { address: BASE }, vec![7; 100]);
    pair.settle();
    assert_eq!(pair.ends[A].completed[&token], Ok(()));
    assert!(said(&pair, B).iter().all(|&ext| !ext));
}

#[test]
fn requests_wait_until_the_peer_has_been_heard_and_are_told_of() {
    let mut pair = pair(Extensions::Auto, Extensions::Auto);
    pair.filter = Some(Box::new(|now, _, _| now < 30 * SECOND));
    assert_eq!(short(&mut pair, A), Err(SubmitError::WindowFull));
    assert!(!pair.ends[A].conn.ready());
    pair.drive(A);
    while pair.step(29 * SECOND) {}
    assert_eq!(pair.ends[A].conn.ext(), None);
    assert_eq!(pair.ends[A].writable, 0);
    pair.settle();
    assert_eq!(pair.ends[A].conn.ext(), Some(true));
    assert_eq!(pair.ends[A].writable, 1);
    assert!(pair.ends[A].conn.ready());
    let token = short(&mut pair, A).unwrap();
    pair.settle();
    assert_eq!(pair.ends[A].completed[&token], Ok(()));
}

#[test]
fn asking_takes_no_sequence_number() {
    let mut pair = pair(Extensions::Auto, Extensions::Off);
    pair.settle();
    let asked = |(_, from, transmit): &&(u64, usize, Transmit)| *from == A && transmit.tal.eom;
    let asked: Vec<_> = pair.log.iter().filter(asked).collect();
    assert_eq!(asked.len(), 1);
    let (_, _, transmit) = asked[0];
    assert_eq!(
        transmit.psn,
        pair.ends[A].conn.config().start_psn.wrapping_sub(1)
    );
    assert!(matches!(transmit.payload, Payload::None));
}

#[test]
fn lite_ends_cannot_ask() {
    let config = Config {
        lite: true,
        tal_transaction_timeout: 1_000_000,
        ..with(Extensions::Auto)
    };
    let mut pair = Pair::clean(&config);
    pair.settle();
    assert_eq!(pair.ends[A].conn.ext(), Some(false));
}

/// What B answers to a request of an end with the extensions, over SUPERp-lite.
fn lite_outcome(b: Extensions) -> Result<(), Code> {
    let lite = |ext| Config {
        lite: true,
        tal_transaction_timeout: 1_000_000,
        ..with(ext)
    };
    let configs = [lite(Extensions::On), lite(b)];
    let mut pair = Pair::new(configs, LinkConfig::default(), 0);
    let token = short(&mut pair, A).unwrap();
    pair.settle();
    pair.ends[A].completed[&token]
}

#[test]
fn lite_ends_that_may_ask_have_none() {
    assert_eq!(lite_outcome(Extensions::On), Ok(()));
    let refused = lite_outcome(Extensions::Off);
    assert!(refused.is_err());
    assert_eq!(lite_outcome(Extensions::Auto), refused);
}
