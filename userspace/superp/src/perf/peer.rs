// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The end that is measured, as the other sees it.

use super::args::Run;
use super::plan::Operation;
use super::slots::Slots;
use super::talk::{Answer, Receive, Server, What, LISTENER};
use crate::failure::{self, Failure};
use crate::partition;
use std::net::IpAddr;

/// Where requests go.
pub(super) struct Peer {
    pub(super) addr: IpAddr,
    /// Local ids of the connections, which queue pairs take in turn; one that is `None` is the lowest.
    pub(super) cids: Vec<Option<u16>>,
    /// RMA address of its memory, if it was asked for or given.
    pub(super) remote: u64,
    /// `perf serve`, if it is talked to.
    server: Option<Server>,
    /// Number of the session in which it receives messages.
    session: u64,
}

/// Local ids of the connections that a run uses.
fn cids(run: &Run) -> Result<Vec<Option<u16>>, Failure> {
    let wanted = run.connections as usize;
    if wanted == 1 {
        return Ok(vec![partition::conn_to(run.addr, run.cid)?]);
    }
    if run.connections > run.qps {
        return Err(Failure::new(
            "--connections: more than there are queue pairs (--qps)",
        ));
    }
    let mut found = partition::conns_to(run.addr)?;
    if found.len() < wanted {
        let (addr, found) = (run.addr, found.len());
        let text =
            format!("--connections: of {wanted} connections to {addr}, {found} are established");
        return Err(Failure::new(text).hint(failure::doctor(addr)));
    }
    found.truncate(wanted);
    Ok(found.into_iter().map(Some).collect())
}

/// A hint.
pub(super) const TOO_SMALL: &str =
    "size times depth times queue pairs must fit the memory of perf serve: see its --size";

/// Likewise, where there is no memory any more.
pub(super) const STALE: &str =
    "perf serve there has ended, or was started again and has other memory: \
     measure again, without --remote or with the one that it prints now";

/// Likewise, where the peer does not say which of both it is (`tal_error_detail`).
pub(super) const REFUSED: &str =
    "perf serve there has ended, or was started again and has other memory, or it has less: \
     measure again, without --remote or with the one that it prints now; see its --size";

/// Likewise, where messages go nowhere.
pub(super) const ENDED: &str =
    "perf serve there has ended, or was started again: measure again; superp perf serve starts it";

impl Peer {
    /// Asks `perf serve` where its memory is, unless that was given.
    pub(super) fn new(operation: Operation, run: &Run, slots: &Slots) -> Result<Self, Failure> {
        let mut peer = Self {
            addr: run.addr,
            cids: cids(run)?,
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
