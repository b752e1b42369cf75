// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Remote writes and reads.

use super::args::{Cut, Notice, Peer, Source};
use super::{register, too_short};
use crate::failure::Failure;
use crate::out::{self, Out};
use crate::words::Size;
use serde_json::json;
use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};
use superp_proto::Code;
use superp_sys::{uapi, Access, Completion, Memory, Region, Socket, With};

/// Which way the bytes go.
#[derive(Clone, Copy)]
enum Way {
    Write,
    Read,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Write => "write",
            Way::Read => "read",
        }
    }
}

/// The next piece of `left` bytes: as long as asked for, but what remains is not too short to be
/// written alone.
fn piece(left: u64, chunk: u64, least: u64) -> u64 {
    let piece = left.min(chunk);
    match left - piece {
        rest if rest > 0 && rest < least && piece >= 2 * least => piece - least,
        _ => piece,
    }
}

/// A transfer between a region and the peer's memory.
struct Transfer<'a> {
    socket: &'a Socket,
    region: &'a Region,
    way: Way,
    remote: u64,
    chunk: u64,
    depth: usize,
    /// Goes with the last piece of a write, when the others are there.
    imm: Option<u32>,
    patience: Duration,
}

impl Transfer<'_> {
    /// Moves the whole region; gives the time it took.
    fn run(&self) -> Result<Duration, Failure> {
        let len = self.region.memory().len() as u64;
        let info = self.socket.info();
        let info = info.map_err(|error| Failure::io("information on the socket", &error))?;
        let least = u64::from(info.min_message);
        let start = Instant::now();
        let mut under_way = HashMap::new();
        let (mut at, mut token) = (0, 0);
        while at < len || !under_way.is_empty() {
            while at < len && under_way.len() < self.depth {
                let bytes = piece(len - at, self.chunk, least);
                let imm = self.imm.filter(|_| at + bytes == len);
                if imm.is_some() && !under_way.is_empty() {
                    break;
                }
                token += 1;
                if !self.post(at, bytes, token, imm, under_way.is_empty())? {
                    break;
                }
                under_way.insert(token, (at, bytes));
                at += bytes;
            }
            let done = self.wait()?;
            if let Some((offset, bytes)) = under_way.remove(&done.token) {
                self.check(offset, bytes, &done)?;
            }
        }
        Ok(start.elapsed())
    }

    /// Queues one request. `false`: no room now, ask again after a completion.
    fn post(
        &self,
        at: u64,
        bytes: u64,
        token: u64,
        imm: Option<u32>,
        alone: bool,
    ) -> Result<bool, Failure> {
        let remote = self.remote.wrapping_add(at);
        // Pieces fit: they are no longer than the region, and than SUPERP_MAX_RMA.
        let (offset, length) = (at as usize, bytes as u32);
        let (socket, region) = (self.socket, self.region);
        let with = With { fence: false, imm };
        let posted = match self.way {
            Way::Write => socket.write(region, offset, remote, length, token, with),
            Way::Read => socket.read(region, offset, remote, length, token, with),
        };
        match posted {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) && !alone => Ok(false),
            Err(error) => {
                let what = self.what(at, bytes);
                Err(match (error.raw_os_error(), socket.info()) {
                    (Some(libc::EMSGSIZE), Ok(info)) if length < info.min_message => {
                        too_short(what, info.cid, info.min_message)
                    }
                    (Some(libc::EOPNOTSUPP), _) => Failure::io(what, &error)
                        .hint("an immediate needs a connection with ext on, at both ends"),
                    _ => Failure::io(what, &error),
                })
            }
        }
    }

    fn wait(&self) -> Result<Completion, Failure> {
        let waited = self.socket.wait_completion(Some(self.patience));
        waited
            .map_err(|error| Failure::io(self.way.name(), &error))?
            .ok_or_else(|| {
                let seconds = self.patience.as_secs_f64();
                let text = format!("{}: nothing moved for {seconds} s", self.way.name());
                Failure::new(text).errno(libc::ETIMEDOUT)
            })
    }

    fn check(&self, offset: u64, bytes: u64, done: &Completion) -> Result<(), Failure> {
        if done.errno == 0 {
            return Ok(());
        }
        let (major, minor) = done.code;
        let what = self.what(offset, bytes);
        Err(Failure::refused(what, Code { major, minor }, done.errno))
    }

    fn what(&self, offset: u64, bytes: u64) -> String {
        let at = self.remote.wrapping_add(offset);
        format!("{} of {bytes} bytes at {at:#x}", self.way.name())
    }
}

fn chunk(cut: &Cut) -> Result<u64, Failure> {
    match cut.chunk {
        None => Ok(uapi::SUPERP_MAX_RMA.into()),
        Some(Size(bytes)) if (1..=uapi::SUPERP_MAX_RMA.into()).contains(&bytes) => Ok(bytes),
        Some(Size(bytes)) => Err(Failure::new(format!(
            "--chunk {bytes}: not in 1..{}",
            uapi::SUPERP_MAX_RMA
        ))),
    }
}

fn told(
    way: Way,
    bytes: u64,
    time: Duration,
    verified: bool,
    out: &mut Out,
) -> Result<(), Failure> {
    let seconds = time.as_secs_f64();
    let mut object = json!({ "op": way.name(), "bytes": bytes, "seconds": seconds });
    if verified {
        object["verified"] = true.into();
    }
    out.either(&object, |out| {
        let verb = match way {
            Way::Write => "written",
            Way::Read => "read",
        };
        let also = if verified {
            ", read back and compared"
        } else {
            ""
        };
        let (bytes, rate) = (out::bytes(bytes), out::rate(bytes, seconds));
        out.line(format_args!(
            "{verb} {bytes} in {seconds:.6} s, {rate}{also}"
        ))
    })
}

/// `superp xfer write`.
pub(super) fn write(
    peer: &Peer,
    remote: u64,
    source: &Source,
    cut: &Cut,
    notice: &Notice,
    verify: bool,
    out: &mut Out,
) -> Result<(), Failure> {
    let memory = source.load()?;
    let bytes = memory.len() as u64;
    let socket = peer.connect(notice.qpn.unwrap_or(0))?;
    let region = register(&socket, memory, Access::NONE, 0)?;
    let transfer = Transfer {
        socket: &socket,
        region: &region,
        way: Way::Write,
        remote,
        chunk: chunk(cut)?,
        depth: cut.depth as usize,
        imm: notice.imm,
        patience: peer.patience(),
    };
    let time = transfer.run()?;
    if verify {
        let memory = Memory::new(region.memory().len())
            .map_err(|error| Failure::io("memory to compare with", &error))?;
        let copy = register(&socket, memory, Access::LOCAL_WRITE, 0)?;
        Transfer {
            way: Way::Read,
            region: &copy,
            imm: None,
            ..transfer
        }
        .run()?;
        compare(region.memory(), copy.memory())?;
    }
    told(Way::Write, bytes, time, verify, out)
}

/// Fails at the first byte that differs.
fn compare(written: &Memory, read: &Memory) -> Result<(), Failure> {
    let mut parts = (vec![0; 65536], vec![0; 65536]);
    let mut at = 0;
    while at < written.len() {
        let n = parts.0.len().min(written.len() - at);
        let (a, b) = (&mut parts.0[..n], &mut parts.1[..n]);
        written
            .read(at, a)
            .and_then(|()| read.read(at, b))
            .map_err(|error| Failure::io("comparing", &error))?;
        if let Some(first) = a.iter().zip(&*b).position(|(a, b)| a != b) {
            return Err(Failure::new(format!(
                "verification failed: byte {} was written as {:#04x} and read as {:#04x}",
                at + first,
                a[first],
                b[first]
            )));
        }
        at += n;
    }
    Ok(())
}

/// `superp xfer read`.
pub(super) fn read(
    peer: &Peer,
    remote: u64,
    length: Size,
    file: Option<&Path>,
    cut: &Cut,
    out: &mut Out,
) -> Result<(), Failure> {
    let memory = super::size(length.0)
        .and_then(Memory::new)
        .map_err(|error| Failure::io("--length", &error))?;
    let socket = peer.connect(0)?;
    let region = register(&socket, memory, Access::LOCAL_WRITE, 0)?;
    let time = Transfer {
        socket: &socket,
        region: &region,
        way: Way::Read,
        remote,
        chunk: chunk(cut)?,
        depth: cut.depth as usize,
        imm: None,
        patience: peer.patience(),
    }
    .run()?;
    if let Some(path) = file {
        save(region.memory(), path)?;
    }
    told(Way::Read, length.0, time, false, out)
}

/// Writes all of a memory to a file.
pub(super) fn save(memory: &Memory, path: &Path) -> Result<(), Failure> {
    let written = File::create(path).and_then(|mut file| {
        memory.drain(0, memory.len(), &mut file)?;
        file.flush()
    });
    written.map_err(|error| Failure::io(path.display(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(mut left: u64, chunk: u64, least: u64) -> Vec<u64> {
        let mut pieces = Vec::new();
        while left > 0 {
            pieces.push(piece(left, chunk, least));
            left -= pieces.last().unwrap();
        }
        pieces
    }

    #[test]
    fn pieces_leave_no_rest_that_is_too_short() {
        assert_eq!(pieces(100, 1000, 16), [100]);
        assert_eq!(pieces(4096, 1024, 16), [1024; 4]);
        assert_eq!(pieces(1025, 1024, 16), [1008, 17]);
        assert_eq!(pieces(1039, 1024, 16), [1008, 31]);
        assert_eq!(pieces(1040, 1024, 16), [1024, 16]);
        assert_eq!(pieces(1025, 1024, 0), [1024, 1]);
        for left in 16..300 {
            for chunk in 32..64 {
                let pieces = pieces(left, chunk, 16);
                assert_eq!(pieces.iter().sum::<u64>(), left);
                assert!(pieces.iter().all(|piece| *piece >= 16), "{left} {chunk}");
            }
        }
    }

    #[test]
    fn comparison_finds_the_first_difference() {
        let (a, b) = (Memory::new(200_000).unwrap(), Memory::new(200_000).unwrap());
        assert!(compare(&a, &b).is_ok());
        b.write(131_073, &[1]).unwrap();
        let failure = format!("{:?}", compare(&a, &b).unwrap_err());
        assert!(failure.contains("byte 131073 was written as 0x00 and read as 0x01"));
    }
}
