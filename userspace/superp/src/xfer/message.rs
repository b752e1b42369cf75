// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Messages, sent and counted.

use super::args::{Peer, Source, Target};
use super::pattern::sizes;
use super::too_short;
use crate::failure::Failure;
use crate::out::{self, Out};
use crc32fast::Hasher;
use serde_json::{json, Value};
use std::time::{Duration, Instant};
use superp_netlink::Client;
use superp_proto::Code;
use superp_sys::Socket;

/// What both ends can compare.
#[derive(Default)]
pub(super) struct Tally {
    messages: u64,
    bytes: u64,
    /// CRC-32 of the sizes, 32 bits little endian each.
    sizes: Hasher,
    /// CRC-32 of all bytes.
    data: Hasher,
    /// How many came with immediate data, and the last one.
    immediates: u64,
    last_imm: Option<u32>,
}

impl Tally {
    pub(super) fn add(&mut self, message: &[u8], imm: Option<u32>) {
        self.immediates += u64::from(imm.is_some());
        self.last_imm = imm.or(self.last_imm);
        self.messages += 1;
        self.bytes += message.len() as u64;
        // Messages are under 16 MiB.
        self.sizes.update(&(message.len() as u32).to_le_bytes());
        self.data.update(message);
    }

    pub(super) fn messages(&self) -> u64 {
        self.messages
    }

    /// As an object.
    pub(super) fn object(&self, time: Duration) -> Value {
        let mut object = json!({
            "messages": self.messages,
            "bytes": self.bytes,
            "sizes_crc": self.sizes.clone().finalize(),
            "data_crc": self.data.clone().finalize(),
            "seconds": time.as_secs_f64(),
        });
        if let Some(imm) = self.last_imm {
            object["immediates"] = self.immediates.into();
            object["last_imm"] = imm.into();
        }
        object
    }

    /// As a line; `verb` is sent or received.
    pub(super) fn text(&self, verb: &str, time: Duration) -> String {
        let seconds = time.as_secs_f64();
        let imm = self.last_imm.map_or(String::new(), |imm| {
            let count = out::count(self.immediates);
            format!("; {count} with an immediate, the last {imm:#x}")
        });
        format!(
            "{verb} {} messages, {} in {seconds:.6} s, {}; CRC of sizes {:08x}, of data {:08x}{imm}",
            out::count(self.messages),
            out::bytes(self.bytes),
            out::rate(self.bytes, seconds),
            self.sizes.clone().finalize(),
            self.data.clone().finalize(),
        )
    }
}

/// Shortest message to a receive context on SUPERP-lite, bytes; on others it is 16.
const MIN_KEYED: u64 = 22;

/// `superp xfer send`.
pub(super) fn send(
    peer: &Peer,
    to: &Target,
    source: &Source,
    count: u64,
    imm: Option<u32>,
    out: &mut Out,
) -> Result<(), Failure> {
    let bytes = source.bytes()?;
    let total = bytes.len() as u64;
    let socket = peer.connect(to.qpn.unwrap_or(0))?;
    let info = socket
        .info()
        .map_err(|error| Failure::io("information on the socket", &error))?;
    let (least, most) = match to.key {
        // What every connection takes; one message is the caller's choice.
        Some(_) if count == 1 => (1, info.max_keyed.into()),
        Some(_) => (MIN_KEYED, info.max_keyed.into()),
        None => (info.min_message.into(), info.max_message.into()),
    };
    let sizes = if count == 1 {
        (least..=most).contains(&total).then(|| vec![total])
    } else {
        sizes(total, count, least, most, source.seed)
    };
    let sizes = sizes.ok_or_else(|| {
        // Each is shorter than the connection takes, not longer.
        if to.key.is_none() && !info.ext && total < least.saturating_mul(count) {
            let what = match count {
                1 => format!("message of {total} bytes"),
                _ => format!("{count} messages of {total} bytes in all"),
            };
            return too_short(what, info.cid, info.min_message);
        }
        let bytes = out::bytes(total);
        Failure::new(format!(
            "{bytes} cannot be cut into {count} messages of {least} to {most} bytes, which is what \
             the connection takes"
        ))
    })?;
    let mut tally = Tally::default();
    let mut left = &bytes[..];
    let mut place = to.key.map(|key| (key, to.offset));
    let start = Instant::now();
    for size in sizes {
        // They add up to what there is.
        let (message, rest) = left.split_at(size as usize);
        send_one(&socket, message, imm, place, peer.patience())?;
        if let Some((_, offset)) = &mut place {
            // The kernel refuses what goes beyond.
            *offset = offset.wrapping_add(size as u32);
        }
        tally.add(message, imm);
        left = rest;
    }
    drain(&socket, peer.patience())?;
    let time = start.elapsed();
    out.either(&tally.object(time), |out| {
        out.line(tally.text("sent", time))
    })
}

fn send_one(
    socket: &Socket,
    message: &[u8],
    imm: Option<u32>,
    place: Option<(u32, u32)>,
    patience: Duration,
) -> Result<(), Failure> {
    let bytes = message.len();
    let what = || format!("message of {bytes} bytes");
    let ready = socket.wait_writable(Some(patience));
    if !ready.map_err(|error| Failure::io(what(), &error))? {
        // An earlier one may have failed, which also ends the wait.
        failed_message(socket)?;
        let seconds = patience.as_secs_f64();
        return Err(Failure::new(format!(
            "{}: no room for {seconds} s, the peer does not take messages",
            what()
        )));
    }
    let sent = match (place, imm) {
        (Some((key, offset)), _) => socket.send_key(message, key, offset),
        (None, Some(imm)) => socket.send_imm(message, imm),
        (None, None) => socket.send(message),
    };
    match sent {
        Ok(()) => Ok(()),
        Err(error) => {
            failed_message(socket)?;
            Err(match error.raw_os_error() {
                Some(libc::EMSGSIZE) if place.is_some() && bytes < MIN_KEYED as usize => {
                    let text = format!("{}: too short for a receive context", what());
                    Failure::new(text)
                        .errno(libc::EMSGSIZE)
                        .hint("it takes 16 bytes and more, over a lite connection 22")
                }
                _ => Failure::io(what(), &error),
            })
        }
    }
}

/// Fails if a message that was accepted has failed since.
fn failed_message(socket: &Socket) -> Result<(), Failure> {
    let done = socket.completion();
    match done.map_err(|error| Failure::io("completions", &error))? {
        Some(done) if done.errno != 0 => {
            let (major, minor) = done.code;
            let what = format!("message of {} bytes", done.length);
            Err(Failure::refused(what, Code { major, minor }, done.errno))
        }
        _ => Ok(()),
    }
}

/// Waits until the peer has taken everything: nothing of this queue pair is pending.
fn drain(socket: &Socket, patience: Duration) -> Result<(), Failure> {
    let own = socket
        .local_address()
        .map_err(|error| Failure::io("own address", &error))?;
    let mut client = Client::open()?;
    let mut moved = (u32::MAX, Instant::now());
    let mut pause = Duration::from_micros(50);
    loop {
        failed_message(socket)?;
        let qps = client.qps()?;
        let pending = qps
            .iter()
            .find(|qp| qp.qpn == own.qpn)
            .map_or(0, |qp| qp.pending);
        if pending == 0 {
            // A failure is told before the message stops being pending.
            return failed_message(socket);
        }
        if pending != moved.0 {
            moved = (pending, Instant::now());
        } else if moved.1.elapsed() > patience {
            let seconds = patience.as_secs_f64();
            let text =
                format!("{pending} messages are not acknowledged, nothing moved for {seconds} s");
            return Err(Failure::new(text).errno(libc::ETIMEDOUT));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tally_tells_sizes_from_data() {
        let object = |messages: &[&[u8]]| {
            let mut tally = Tally::default();
            for message in messages {
                tally.add(message, None);
            }
            tally.object(Duration::from_secs(2))
        };
        let one = object(&[b"ab", b"", b"c"]);
        assert_eq!((&one["messages"], &one["bytes"]), (&json!(3), &json!(3)));
        assert_eq!(one["seconds"], 2.0);
        // CRC-32 of "abc", as everyone computes it.
        assert_eq!(one["data_crc"], 0x3524_41c2);
        let other = object(&[b"a", b"bc"]);
        assert_eq!(one["data_crc"], other["data_crc"]);
        assert_ne!(one["sizes_crc"], other["sizes_crc"]);
    }

    #[test]
    fn tally_tells_immediates_where_there_are_any() {
        let mut tally = Tally::default();
        tally.add(b"a", None);
        assert_eq!(tally.object(Duration::ZERO).get("immediates"), None);
        tally.add(b"b", Some(7));
        tally.add(b"c", None);
        let object = tally.object(Duration::ZERO);
        assert_eq!(
            (&object["immediates"], &object["last_imm"]),
            (&json!(1), &json!(7))
        );
        let text = tally.text("received", Duration::from_secs(1));
        assert!(
            text.ends_with("; 1 with an immediate, the last 0x7"),
            "{text}"
        );
    }
}
