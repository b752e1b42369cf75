// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp perf serve`: the end that is measured.

use super::args::PerfServe;
use super::failed;
use super::receive::Receiver;
use super::talk::{Answer, Ask, Receive, What, LISTENER, LONGEST};
use crate::failure::Failure;
use crate::out::{self, Out};
use crate::xfer::Stop;
use serde_json::json;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use superp_sys::{Address, Socket};
use superp_verbs::{Access, Context, Memory, MemoryRegion};

/// Senders of messages at a time.
const SESSIONS: usize = 16;

pub(super) fn run(args: &PerfServe, out: &mut Out) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let bytes = usize::try_from(args.size.0).unwrap_or(usize::MAX);
    let memory = Memory::new(bytes).map_err(|error| Failure::io("--size", &error))?;
    let context = Context::open().map_err(failed("context"))?;
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE | Access::REMOTE_ATOMIC;
    let region = context
        .register(memory, access, None)
        .map_err(failed("registering the memory"))?;
    let qpn = args.qpn.unwrap_or(LISTENER);
    let socket = Socket::new().map_err(|error| Failure::io("socket", &error))?;
    socket
        .bind(&Address::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), qpn))
        .map_err(|error| {
            Failure::io(format_args!("queue pair {qpn}"), &error)
                .hint("take another number: --qpn NUMBER, here and where is measured")
        })?;
    let mut server = Server {
        region,
        sessions: BTreeMap::new(),
        last: 0,
        answered: VecDeque::new(),
    };
    server.ready(qpn, out)?;

    let mut buffer = vec![0; LONGEST];
    while !stop.wanted() {
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
    /// Those who receive messages, by number.
    sessions: BTreeMap<u64, Receiver>,
    /// Number of the last session.
    last: u64,
    /// The last sockets that answers went out by: what one has to send would end with it.
    answered: VecDeque<Socket>,
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

    fn answer(&mut self, ask: Ask, from: &Address) {
        let answer = match ask.what {
            What::Memory => Ok(Answer::Memory {
                remote: self.region.rma_addr(),
                length: self.region.memory().len() as u64,
            }),
            What::Receive(wanted) => self.begin(&wanted, from),
            What::End { session } => self.end(session),
        };
        let answer = answer.unwrap_or_else(|failure| Answer::Refused {
            reason: failure.text().to_owned(),
        });
        // A peer that is gone needs none.
        let _ = self.send(ask.answer_to, &answer, from);
    }

    fn send(&mut self, qpn: u32, answer: &Answer, from: &Address) -> std::io::Result<()> {
        let socket = Socket::new()?;
        socket.connect(&Address { qpn, ..*from })?;
        socket.send(&serde_json::to_vec(answer)?)?;
        self.answered.push_back(socket);
        if self.answered.len() > SESSIONS {
            self.answered.pop_front();
        }
        Ok(())
    }

    fn begin(&mut self, wanted: &Receive, from: &Address) -> Result<Answer, Failure> {
        self.sessions.retain(|_, receiver| !receiver.has_ended());
        if self.sessions.len() >= SESSIONS {
            let idle = self
                .sessions
                .iter()
                .find(|(_, receiver)| receiver.is_idle());
            if let Some(receiver) = idle
                .map(|(number, _)| *number)
                .and_then(|n| self.sessions.remove(&n))
            {
                let _ = receiver.end();
            }
        }
        if self.sessions.len() >= SESSIONS {
            let text = format!("{SESSIONS} senders are served already");
            return Err(Failure::new(text));
        }
        let (receiver, queues) = Receiver::start(wanted, from)?;
        self.last += 1;
        self.sessions.insert(self.last, receiver);
        Ok(Answer::Receiving {
            session: self.last,
            queues,
        })
    }

    fn end(&mut self, session: u64) -> Result<Answer, Failure> {
        let unknown = || Failure::new(format!("there is no session {session}"));
        let receiver = self.sessions.remove(&session).ok_or_else(unknown)?;
        let tally = receiver.end()?;
        Ok(Answer::Received {
            messages: tally.messages,
            wrong: tally.wrong,
        })
    }
}
