// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the two ends of a measurement say to each other: messages between sockets, in JSON.

use crate::failure::Failure;
use crate::xfer;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;
use superp_sys::Socket;

/// The queue pair where `perf serve` listens unless it is told another.
pub(super) const LISTENER: u32 = 5001;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of a message at most.
pub(super) const LONGEST: usize = 64 << 10;

/// A question, and the queue pair that waits for the answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Ask {
    pub(super) answer_to: u32,
    #[serde(flatten)]
    pub(super) what: What,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "kebab-case")]
pub(super) enum What {
    /// Where the memory is.
    Memory,
    /// To receive messages of these queue pairs.
    Receive(Receive),
    /// That was all; how it was.
    End {
        /// What [`Answer::Receiving`] told.
        session: u64,
    },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Receive {
    /// Numbers of the sender's queue pairs.
    pub(super) queues: Vec<u32>,
    /// Bytes of a message.
    pub(super) size: u32,
    /// Messages of a queue pair under way at once.
    pub(super) depth: u32,
    /// Of the pattern that the messages have; without it they are not looked at.
    pub(super) salt: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub(super) enum Answer {
    Memory {
        /// RMA address.
        remote: u64,
        /// Bytes.
        length: u64,
    },
    Receiving {
        session: u64,
        /// Numbers of the receiver's queue pairs, in the order of the sender's.
        queues: Vec<u32>,
    },
    Received {
        messages: u64,
        /// The first that was not as it should be.
        wrong: Option<String>,
    },
    Refused {
        reason: String,
    },
    /// None: of a sender of whom nothing comes, it finds out whether it is still there.
    Present,
}

/// `perf serve` at the peer.
pub(super) struct Server {
    name: String,
    own: u32,
    socket: Socket,
}

impl Server {
    pub(super) fn connect(addr: IpAddr, cid: Option<u16>, qpn: u32) -> Result<Self, Failure> {
        let socket = xfer::connect(addr, cid, qpn)?;
        let own = socket.local_address();
        Ok(Self {
            name: format!("perf serve at {addr}, queue pair {qpn}"),
            own: own.map_err(|error| Failure::io("own address", &error))?.qpn,
            socket,
        })
    }

    /// Asks, and waits for the answer.
    pub(super) fn ask(&self, what: What) -> Result<Answer, Failure> {
        let failed = |error: std::io::Error| {
            let failure = Failure::io(&self.name, &error);
            match error.raw_os_error() {
                Some(libc::ECONNREFUSED) => failure.hint(ABSENT),
                _ => failure,
            }
        };
        let ask = Ask {
            answer_to: self.own,
            what,
        };
        let text = serde_json::to_vec(&ask).unwrap_or_default();
        self.socket.send(&text).map_err(failed)?;
        let mut buffer = vec![0; LONGEST];
        loop {
            if !self.socket.wait_readable(Some(PATIENCE)).map_err(failed)? {
                return Err(Failure::new(format!("{}: no answer", self.name)).hint(ABSENT));
            }
            let received = self.socket.receive(&mut buffer).map_err(failed)?;
            let bytes = &buffer[..received.map_or(0, |received| received.len)];
            return match serde_json::from_slice(bytes) {
                Ok(Answer::Present) => continue,
                Ok(Answer::Refused { reason }) => {
                    Err(Failure::new(format!("{}: {reason}", self.name)))
                }
                Ok(answer) => Ok(answer),
                Err(_) => Err(self.surprised()),
            };
        }
    }

    /// The answer is none to what was asked.
    pub(super) fn surprised(&self) -> Failure {
        let text = format!("{}: an answer that is not understood", self.name);
        Failure::new(text).hint("both ends need the same version of superp")
    }
}

const ABSENT: &str = "start it there: superp perf serve; or give --remote, and no messages";
