// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp xfer`: real data through the sockets.

mod args;
mod message;
mod pattern;
mod rma;
mod serve;

pub(crate) use args::Xfer;
pub(crate) use pattern::Pattern;

use crate::failure::{doctor, Failure};
use crate::memlock;
use crate::out::Out;
use crate::partition;
use args::{Peer, Source};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use superp_netlink::Client;
use superp_sys::{Access, Address, Memory, Region, Socket};

pub(crate) fn run(what: Xfer, out: &mut Out) -> Result<(), Failure> {
    let to = match &what {
        Xfer::Serve(_) => None,
        Xfer::Write { peer, .. } | Xfer::Read { peer, .. } | Xfer::Send { peer, .. } => {
            Some(peer.addr)
        }
    };
    carry_out(what, out).map_err(|failure| match to {
        Some(peer) => failure.towards(peer),
        None => failure,
    })
}

fn carry_out(what: Xfer, out: &mut Out) -> Result<(), Failure> {
    match what {
        Xfer::Serve(args) => serve::run(&args, out),
        Xfer::Write {
            peer,
            remote,
            source,
            cut,
            notice,
            verify,
        } => rma::write(&peer, remote, &source, &cut, &notice, verify, out),
        Xfer::Read {
            peer,
            remote,
            length,
            out: file,
            cut,
        } => rma::read(&peer, remote, length, file.as_deref(), &cut, out),
        Xfer::Send {
            peer,
            to,
            source,
            count,
            imm,
        } => message::send(&peer, &to, &source, count, imm, out),
    }
}

/// A wish to end, by SIGINT or SIGTERM.
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// How often a wait looks for the wish.
    pub(crate) const PERIOD: Duration = Duration::from_millis(100);

    /// From now on these signals do not kill the process.
    pub(crate) fn on_signals() -> Result<Self, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, flag.clone())
                .map_err(|error| Failure::io("signal handler", &error))?;
        }
        Ok(Self(flag))
    }

    pub(crate) fn wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sleeps, but not beyond a wish to end.
    pub(crate) fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.wanted() {
            match end.saturating_duration_since(Instant::now()) {
                Duration::ZERO => break,
                left => std::thread::sleep(left.min(Self::PERIOD)),
            }
        }
    }
}

/// A socket that is connected to a queue pair of a peer (0: to none of them).
pub(crate) fn connect(addr: IpAddr, cid: Option<u16>, qpn: u32) -> Result<Socket, Failure> {
    let cid = partition::conn_to(addr, cid)?;
    let socket = Socket::new().map_err(|error| Failure::io("socket", &error))?;
    socket
        .connect(&Address { addr, qpn, cid })
        .map_err(|error| match error.raw_os_error() {
            Some(errno @ (libc::EHOSTUNREACH | libc::ENOTCONN)) => unconnected(addr).errno(errno),
            _ => Failure::io(format_args!("connect to {addr}"), &error),
        })?;
    Ok(socket)
}

/// There is no way for requests to a peer.
pub(crate) fn unconnected(addr: IpAddr) -> Failure {
    Failure::new(format!("no established connection leads to {addr}")).hint(doctor(addr))
}

/// A queue pair number that cannot be had.
pub(crate) fn not_bound(qpn: u32, error: &std::io::Error) -> Failure {
    let failure = Failure::io(format_args!("queue pair {qpn}"), error);
    let qps = Client::open().and_then(|mut client| client.qps());
    let holder = qps.into_iter().flatten().find(|qp| qp.qpn == qpn);
    match (error.raw_os_error(), holder) {
        (Some(libc::EADDRINUSE), Some(qp)) => {
            let failure = match (&qp.command, qp.pid) {
                (Some(command), Some(pid)) => failure.by(format_args!("{command}, process {pid}")),
                _ => failure,
            };
            failure.hint("superp qp lists the queue pairs and their programs")
        }
        _ => failure,
    }
}

/// A request, `what`, that a connection without extensions does not take. It takes `least` bytes and more.
pub(crate) fn too_short(what: impl std::fmt::Display, cid: Option<u16>, least: u32) -> Failure {
    let conn = cid.map_or("the connection".into(), |cid| format!("connection {cid}"));
    Failure::new(format!(
        "{what}: too short for {conn}, which has ext off and takes {least} bytes and more"
    ))
    .errno(libc::EMSGSIZE)
    .hint("with ext on, at both ends, a connection takes any length")
}

/// Registers memory in a partition (0: any).
fn register(
    socket: &Socket,
    memory: Memory,
    access: Access,
    partition: u32,
) -> Result<Region, Failure> {
    let bytes = memory.len() as u64;
    socket.register(memory, access, partition).map_err(|error| {
        let limit = memlock::limit();
        memlock::failure("registering the region", Some(bytes), &error, limit)
    })
}

impl Peer {
    fn connect(&self, qpn: u32) -> Result<Socket, Failure> {
        connect(self.addr, self.cid, qpn)
    }

    fn patience(&self) -> Duration {
        Duration::from_secs_f64(self.timeout)
    }
}

impl Source {
    fn name(&self) -> String {
        let path = self.file.as_ref().map(|path| path.display().to_string());
        path.unwrap_or("--length".into())
    }

    /// Bytes of the pattern.
    fn length(&self) -> u64 {
        self.length.map_or(0, |length| length.0)
    }

    /// All bytes, in memory that can be registered; at least one.
    fn load(&self) -> Result<Memory, Failure> {
        let memory = match &self.file {
            Some(path) => load_file(path),
            None => load_pattern(self.length(), self.seed),
        };
        memory.map_err(|error| Failure::io(self.name(), &error))
    }

    /// All bytes.
    fn bytes(&self) -> Result<Vec<u8>, Failure> {
        let mut bytes = Vec::new();
        let read = match &self.file {
            Some(path) => File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)),
            None => Pattern::new(self.seed)
                .take(self.length())
                .read_to_end(&mut bytes),
        };
        read.map_err(|error| Failure::io(self.name(), &error))?;
        Ok(bytes)
    }
}

fn load_pattern(bytes: u64, seed: u64) -> std::io::Result<Memory> {
    let memory = Memory::new(size(bytes)?)?;
    memory.fill(&mut Pattern::new(seed))?;
    Ok(memory)
}

/// A file in memory.
fn load_file(path: &std::path::Path) -> std::io::Result<Memory> {
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    let memory = Memory::new(size(len)?)?;
    if memory.fill(&mut file)? < memory.len() {
        let text = "the file became shorter while it was read";
        return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, text));
    }
    Ok(memory)
}

/// A length that fits the address space; 0 is told apart by name.
fn size(bytes: u64) -> std::io::Result<usize> {
    match usize::try_from(bytes) {
        Ok(0) => Err(std::io::Error::new(
            std::io::ErrorKind::InvalidInput,
            "nothing to transfer: 0 bytes",
        )),
        Ok(bytes) => Ok(bytes),
        Err(_) => Err(std::io::ErrorKind::OutOfMemory.into()),
    }
}
