// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp perf serve`: the end that is measured.

use super::args::PerfServe;
use super::receive::Receiver;
use super::talk::{Answer, Ask, Receive, What, LISTENER, LONGEST};
use super::{failed, registered};
use crate::failure::Failure;
use crate::out::{self, Out};
use crate::xfer::{not_bound, Stop};
use serde_json::json;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};
use superp_sys::{Address, Socket};
use superp_verbs::{Access, Context, Memory, MemoryRegion};

/// Senders of messages at a time.
const SESSIONS: usize = 16;

/// How often it is found out whether a sender is there, while nothing comes.
const AGAIN: Duration = Duration::from_secs(1);

pub(super) fn run(args: &PerfServe, out: &mut Out) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let bytes = usize::try_from(args.size.0).unwrap_or(usize::MAX);
    let memory = Memory::new(bytes).map_err(|error| Failure::io("--size", &error))?;
    let context = Context::open().map_err(failed("context"))?;
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let region = registered(&context, memory, access)?;
    let qpn = args.qpn.unwrap_or(LISTENER);
    let socket = Socket::new().map_err(|error| Failure::io("socket", &error))?;
    socket
        .bind(&Address::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), qpn))
        .map_err(|error| {
            let failure = not_bound(qpn, &error);
            match error.raw_os_error() {
                Some(libc::EADDRINUSE) => failure.hint(
                    "end that program, or take another number: --qpn NUMBER, here and where is measured",
                ),
                _ => failure,
            }
        })?;
    let mut server = Server {
        region,
        sessions: BTreeMap::new(),
        last: 0,
    };
    server.ready(qpn, out)?;

    let mut buffer = vec![0; LONGEST];
    while !stop.wanted() {
        server.look_round();
        let failed = |error| Failure::io("listening", &error);
        if !socket.wait_readable(Some(Stop::PERIOD)).map_err(failed)? {
            continue;
        }
        let Some(received) = socket.receive(&mut buffer).map_err(failed)? else {
            break;
        };
        // What is no question has nobody who waits for an answer.
        if let Ok(ask) = serde_json::from_slice(&buffer[..received.len]) {
            server.answer(ask, &received.from);
        }
    }
    Ok(())
}

/// What is offered.
struct Server {
    region: MemoryRegion,
    /// By number.
    sessions: BTreeMap<u64, Session>,
    /// Number of the last session.
    last: u64,
}

/// One who sends messages, and the receiver of them.
struct Session {
    receiver: Receiver,
    /// Where the sender waits for answers.
    sender: Address,
    /// A message that asks nothing, and when it was sent: it is refused when the sender is gone.
    asked: Option<(Socket, Instant)>,
}

impl Session {
    fn is_there(&mut self) -> bool {
        if self.receiver.has_ended() {
            return false;
        }
        match &self.asked {
            _ if !self.receiver.is_idle() => {
                self.asked = None;
                true
            }
            // The number of an error is that of the refusal, or tells that the connection has ended.
            Some((socket, since)) => {
                let done = socket.completion();
                let refused = done.map_or(true, |done| done.is_some_and(|done| done.errno != 0));
                if since.elapsed() > AGAIN {
                    self.asked = None;
                }
                !refused
            }
            None => {
                let sent = send(&self.sender, &Answer::Present);
                sent.map(|socket| self.asked = Some((socket, Instant::now())))
                    .is_ok()
            }
        }
    }
}

/// Sends an answer by a socket of its own.
fn send(to: &Address, answer: &Answer) -> std::io::Result<Socket> {
    let socket = Socket::new()?;
    socket.connect(to)?;
    socket.send(&serde_json::to_vec(answer)?)?;
    Ok(socket)
}

impl Server {
    fn ready(&self, qpn: u32, out: &mut Out) -> Result<(), Failure> {
        let (remote, length) = (self.region.rma_addr(), self.region.memory().len());
        let object = json!({
            "ready": true, "qpn": qpn, "rma_addr": remote, "remote": format!("{remote:#x}"),
            "length": length,
        });
        out.either(&object, |out| {
            let bytes = out::bytes(length as u64);
            out.line(format_args!(
                "memory of {bytes} at --remote {remote:#x}, which is told at queue pair {qpn}"
            ))
        })?;
        out.flush()
    }

    /// Ends the sessions of those who are gone: their queue pairs are of no use any more.
    fn look_round(&mut self) {
        let there = |session: &mut Session| session.is_there();
        let gone = self.sessions.iter_mut();
        let gone = gone.filter_map(|(number, session)| (!there(session)).then_some(*number));
        for number in gone.collect::<Vec<_>>() {
            // Nobody is left to be told how it was.
            let _ = self.end(number);
        }
    }

    fn answer(&mut self, ask: Ask, from: &Address) {
        let sender = Address {
            qpn: ask.answer_to,
            ..*from
        };
        let answer = match ask.what {
            What::Memory => Ok(Answer::Memory {
                remote: self.region.rma_addr(),
                length: self.region.memory().len() as u64,
            }),
            What::Receive(wanted) => self.begin(&wanted, sender),
            What::End { session } => self.end(session),
        };
        let answer = answer.unwrap_or_else(|failure| Answer::Refused {
            reason: failure.text().to_owned(),
        });
        // A peer that is gone needs none. What was sent outlives its socket.
        let _ = send(&sender, &answer);
    }

    fn begin(&mut self, wanted: &Receive, sender: Address) -> Result<Answer, Failure> {
        if self.sessions.len() >= SESSIONS {
            let mut sessions = self.sessions.iter();
            let idle = sessions.find(|(_, session)| session.receiver.is_idle());
            if let Some(number) = idle.map(|(number, _)| *number) {
                let _ = self.end(number);
            }
        }
        if self.sessions.len() >= SESSIONS {
            let text = format!("{SESSIONS} senders are served already");
            return Err(Failure::new(text));
        }
        let (receiver, queues) = Receiver::start(wanted, &sender)?;
        self.last += 1;
        let session = Session {
            receiver,
            sender,
            asked: None,
        };
        self.sessions.insert(self.last, session);
        Ok(Answer::Receiving {
            session: self.last,
            queues,
        })
    }

    fn end(&mut self, session: u64) -> Result<Answer, Failure> {
        let unknown = || Failure::new(format!("there is no session {session}, or it was given up"));
        let session = self.sessions.remove(&session).ok_or_else(unknown)?;
        let tally = session.receiver.end()?;
        Ok(Answer::Received {
            messages: tally.messages,
            wrong: tally.wrong,
        })
    }
}
