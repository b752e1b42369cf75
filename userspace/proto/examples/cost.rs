// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the core costs: a stream of writes, from one connection to another, to be run under callgrind, and the
//! bytes that a connection takes. See selftests/cost/run.
//!
//! `cost state WINDOW` prints bytes; `cost stream WINDOW LOSS EACH` sends `PACKETS` packets, in writes of EACH,
//! of which each LOSS-th packet is lost, none if that is 0.

#[path = "../tests/sink/mod.rs"]
mod sink;

use sink::Sink;
use std::cell::Cell;
use std::collections::VecDeque;
use superp_proto::wire::HEADERS_MAX;
use superp_proto::*;

/// Packets of the stream.
const PACKETS: u64 = 20_000;
/// Packets that an end takes, or gives to its link, at a time.
const BATCH: usize = 8;
/// Time from one batch to the next, in ns.
const STEP: u64 = 10_000;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

/// A heap that counts.
struct Counting;

impl Slabs for Counting {
    type Slab<T> = Vec<T>;

    fn slab<T: Clone + Default>(n: usize) -> Option<Vec<T>> {
        BYTES.set(BYTES.get() + n * size_of::<T>());
        Some(vec![T::default(); n])
    }
}

type Subject = Connection<Counting>;

/// A packet: its headers, and its length with the data.
struct Bytes {
    head: [u8; HEADERS_MAX],
    len: usize,
}

/// What is counted: each function with all that it calls.
mod counted {
    use super::*;

    #[inline(never)]
    pub(super) fn submit(conn: &mut Subject, now: u64, request: Request) -> bool {
        conn.submit(now, request).is_ok()
    }

    #[inline(never)]
    pub(super) fn transmit(
        conn: &mut Subject,
        now: u64,
        transmit: &mut Transmit,
        bytes: &mut Bytes,
    ) -> bool {
        build(conn, now, transmit, bytes)
    }

    #[inline(never)]
    pub(super) fn receive(conn: &mut Subject, now: u64, bytes: &Bytes) -> Option<Received> {
        take(conn, now, bytes)
    }

    #[inline(never)]
    pub(super) fn release(conn: &mut Subject, now: u64, bytes: &Bytes) -> Option<Received> {
        let packet = Packet::parse(&bytes.head, bytes.len).ok()?;
        Some(conn.release(now, &packet, &mut Sink))
    }

    // The compiler must not make one function of these and those above.

    #[inline(never)]
    pub(super) fn transmit_ack(conn: &mut Subject, now: u64, bytes: &mut Bytes) -> bool {
        build(conn, now, &mut Transmit::default(), bytes)
    }

    #[inline(never)]
    pub(super) fn receive_ack(conn: &mut Subject, now: u64, bytes: &Bytes) -> u32 {
        take(conn, now, bytes);
        conn.unacked_psn()
    }

    #[inline(never)]
    pub(super) fn event(conn: &mut Subject) -> Option<Event> {
        conn.poll_event()
    }

    #[inline(never)]
    pub(super) fn timer(conn: &mut Subject, now: u64) -> Option<u64> {
        if conn.deadline()? <= now {
            conn.expire(now);
        }
        conn.deadline()
    }

    #[inline(always)]
    fn build(conn: &mut Subject, now: u64, transmit: &mut Transmit, bytes: &mut Bytes) -> bool {
        if !conn.next_transmit(now, transmit) {
            return false;
        }
        let len = conn.emit(transmit, &mut bytes.head, |_| 0);
        bytes.len = len.expect("there is room") + transmit.data_len();
        true
    }

    #[inline(always)]
    fn take(conn: &mut Subject, now: u64, bytes: &Bytes) -> Option<Received> {
        let packet = Packet::parse(&bytes.head, bytes.len).ok()?;
        Some(conn.receive(now, &packet, &mut Sink))
    }
}

fn config(window: u32) -> Config {
    Config {
        pdl_window_size: window,
        pdl_receive_win: window,
        tal_trans_window: window,
        ..Config::default()
    }
}

fn connection(window: u32) -> Subject {
    Subject::new(&config(window), 0).expect("a legal configuration")
}

fn empty() -> Bytes {
    Bytes {
        head: [0; HEADERS_MAX],
        len: 0,
    }
}

fn stream(window: u32, loss: u64, each: u64) {
    let (mut from, mut to) = (connection(window), connection(window));
    let longest = from.max_request_len(&ReqOp::Write { address: 0 });
    let block = longest / u64::from(from.config().tal_max_pkt_per_trans);
    let writes = PACKETS / each;
    let mut held: Vec<Option<Bytes>> = (0..to.psn_slots()).map(|_| None).collect();
    let mut link: VecDeque<Bytes> = VecDeque::new();
    let (mut now, mut submitted, mut completed) = (0, 0, 0);
    let (mut sent, mut lost, mut acks) = (0u64, 0u64, 0u64);
    while completed < writes {
        now += STEP;
        while submitted < writes {
            let request = Request {
                op: ReqOp::Write { address: submitted },
                count: 1,
                len: (block * each) as u32,
                token: submitted,
            };
            if !counted::submit(&mut from, now, request) {
                break;
            }
            submitted += 1;
        }
        counted::timer(&mut from, now);
        let mut transmit = Transmit::default();
        loop {
            let mut bytes = empty();
            if !counted::transmit(&mut from, now, &mut transmit, &mut bytes) {
                break;
            }
            sent += 1;
            if loss != 0 && !transmit.retransmit && u64::from(transmit.psn) % loss == loss - 1 {
                lost += 1;
            } else {
                link.push_back(bytes);
            }
        }
        // The window is in flight, but for what the peer is about to take.
        for _ in 0..BATCH {
            let Some(bytes) = link.pop_front() else {
                break;
            };
            if let Some(Received::Held { slot }) = counted::receive(&mut to, now, &bytes) {
                held[slot] = Some(bytes);
            }
            while let Some(slot) = to.next_release() {
                let bytes = held[slot].take().expect("it is held");
                counted::release(&mut to, now, &bytes);
            }
        }
        counted::timer(&mut to, now);
        let mut ack = empty();
        while counted::transmit_ack(&mut to, now, &mut ack) {
            acks += 1;
            counted::receive_ack(&mut from, now, &ack);
        }
        while let Some(event) = counted::event(&mut from) {
            if let Event::Completed { result, .. } = event {
                assert_eq!(result, Ok(()));
                completed += 1;
            }
        }
        let told = counted::event(&mut to);
        assert_eq!(told, None, "the receiver has nothing to tell");
    }
    assert_eq!(sent, writes * each + lost);
    println!("packets {sent} lost {lost} acks {acks}");
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |at: usize| -> u32 { arguments[at].parse().expect("a number") };
    match arguments.get(1).map(String::as_str) {
        Some("state") => {
            drop(connection(number(2)));
            println!("{} {}", size_of::<Subject>(), BYTES.get());
        }
        Some("stream") => stream(number(2), number(3).into(), number(4).into()),
        _ => panic!("cost state WINDOW, or cost stream WINDOW LOSS EACH"),
    }
}
