// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The end that is measured, as the other sees it.

use super::args::Run;
use super::slots::Slots;
use super::talk::{Answer, Receive, Server, What, LISTENER};
use super::work::Operation;
use crate::failure::Failure;
use std::net::IpAddr;

/// Where requests go.
pub(super) struct Peer {
    pub(super) addr: IpAddr,
    /// Local id of the connection; `None`: the lowest.
    pub(super) cid: Option<u16>,
    /// RMA address of its memory, if it was asked for or given.
    pub(super) remote: u64,
    /// `perf serve`, if it is talked to.
    server: Option<Server>,
    /// Number of the session in which it receives messages.
    session: u64,
}

/// A hint.
pub(super) const TOO_SMALL: &str =
    "size times depth times queue pairs must fit the memory of perf serve: see its --size";

impl Peer {
    /// Asks `perf serve` where its memory is, unless that was given.
    pub(super) fn new(operation: Operation, run: &Run, slots: &Slots) -> Result<Self, Failure> {
        let mut peer = Self {
            addr: run.addr,
            cid: run.cid,
            remote: run.remote.unwrap_or(0),
            server: None,
            session: 0,
        };
        let sends = operation == Operation::Send;
        if !sends && run.remote.is_some() {
            return Ok(peer);
        }
        let server = Server::connect(run.addr, run.cid, run.qpn.unwrap_or(LISTENER))?;
        if !sends {
            let Answer::Memory { remote, length } = server.ask(What::Memory)? else {
                return Err(server.surprised());
            };
            let needed = match operation {
                Operation::Atomic => Some(8),
                _ => slots.span().map(|span| span as u64),
            };
            if needed.is_none_or(|needed| needed > length) {
                let text = format!("the peer has {length} bytes of memory");
                return Err(Failure::new(text).hint(TOO_SMALL));
            }
            peer.remote = remote;
        }
        peer.server = Some(server);
        Ok(peer)
    }

    /// Has messages of these queue pairs received; gives the numbers of those that do.
    pub(super) fn receive(
        &mut self,
        queues: Vec<u32>,
        slots: &Slots,
        verify: bool,
    ) -> Result<Vec<u32>, Failure> {
        let Some(server) = &self.server else {
            return Ok(Vec::new());
        };
        let wanted = queues.len();
        let answer = server.ask(What::Receive(Receive {
            queues,
            size: slots.size,
            depth: slots.depth,
            salt: verify.then_some(slots.salt),
        }))?;
        match answer {
            Answer::Receiving { session, queues } if queues.len() == wanted => {
                self.session = session;
                Ok(queues)
            }
            _ => Err(server.surprised()),
        }
    }

    /// Ends the session; what the peer has received must be all of `sent` messages.
    pub(super) fn end(&self, sent: u64) -> Result<(), Failure> {
        let Some(server) = &self.server else {
            return Ok(());
        };
        let session = self.session;
        match server.ask(What::End { session })? {
            Answer::Received {
                wrong: Some(wrong), ..
            } => Err(Failure::new(format!("verification: {wrong}"))),
            Answer::Received { messages, .. } if messages != sent => Err(Failure::new(format!(
                "verification: of {sent} messages {messages} were received"
            ))),
            Answer::Received { .. } => Ok(()),
            _ => Err(server.surprised()),
        }
    }
}
