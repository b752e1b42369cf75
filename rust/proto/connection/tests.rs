// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Tests that need private fields.

use super::super::slab::test::Heap;
use super::super::DropReason;
use super::*;

/// A test cannot send four billion packets in two seconds, so it sets the state of `reuse`.
#[test]
fn psn_used_again_too_soon_is_reported() {
    for (age, reported) in [(1_999_999_999, true), (2_000_000_000, false)] {
        let now = 10_000_000_000;
        let mut conn = Connection::<Heap>::new(&Config::default(), now).unwrap();
        conn.reuse = PsnReuse::wrapped(now - age);
        let noop = Request {
            op: ReqOp::Noop,
            count: 1,
            len: 0,
            token: 0,
        };
        conn.submit(now, noop).unwrap();
        let sent = conn.poll_transmit(now).expect("reported, not held back");
        assert_eq!(sent.psn, 0);
        let report = Event::Report(Report {
            reason: DropReason::PsnReused,
            value: 0,
            low: 0,
            high: 0,
        });
        assert_eq!(conn.poll_event(), reported.then_some(report));
    }
}
