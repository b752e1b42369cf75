// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp xfer serve`: the end that waits.

use super::args::{Serve, ServeAccess};
use super::message::Tally;
use super::{load_file, not_bound, register, rma, size, Stop};
use crate::failure::Failure;
use crate::out::{self, Out};
use crate::partition;
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};
use superp_sys::{uapi, Access, Address, Memory, Placed, Region, Socket};

/// Bytes of received messages that the kernel may keep: two of the longest, with what keeps them.
const RECEIVE_BUFFER: u32 = 64 << 20;

pub(super) fn run(args: &Serve, out: &mut Out) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let memory = match &args.file {
        Some(path) => load_file(path).map_err(|error| Failure::io(path.display(), &error))?,
        None => size(args.size.0)
            .and_then(Memory::new)
            .map_err(|error| Failure::io("--size", &error))?,
    };
    let mut messages_out = match &args.messages_out {
        Some(path) => {
            let file = OpenOptions::new().create(true).append(true).open(path);
            Some(file.map_err(|error| Failure::io(path.display(), &error))?)
        }
        None => None,
    };
    let socket = Socket::new().map_err(|error| Failure::io("socket", &error))?;
    let addr = args.bind.unwrap_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED));
    socket
        .bind(&Address::new(addr, args.qpn))
        .map_err(|error| match error.raw_os_error() {
            Some(libc::EADDRNOTAVAIL) => Failure::io(format_args!("--bind {addr}"), &error)
                .hint("superp node tells the addresses"),
            _ => not_bound(args.qpn, &error),
        })?;
    socket
        .set_receive_buffer(RECEIVE_BUFFER)
        .map_err(|error| Failure::io("receive buffer", &error))?;
    let access = match args.access {
        ServeAccess::Rw => Access::REMOTE_READ | Access::REMOTE_WRITE,
        ServeAccess::R => Access::REMOTE_READ,
        ServeAccess::W => Access::REMOTE_WRITE,
    };
    let access = match args.receive {
        true => access | Access::RECEIVE,
        false => access,
    };
    let region = register(
        &socket,
        memory,
        access,
        partition::of_region(args.partition)?,
    )?;
    ready(args, &socket, &region, out)?;

    let (tally, time) = receive(args, &socket, &region, &stop, messages_out.as_mut())?;
    if let Some(path) = &args.out {
        rma::save(region.memory(), path)?;
    }
    let told = out.either(&tally.object(time), |out| {
        let (read, written) = region
            .remote_bytes()
            .map_err(|error| Failure::io("the region", &error))?;
        let (read, written) = (out::bytes(read), out::bytes(written));
        out.line(tally.text("received", time))?;
        out.line(format_args!(
            "peers wrote {written} and read {read} of the region"
        ))
    });
    told?;
    match args.messages {
        Some(wanted) if tally.messages() < wanted && !stop.wanted() => Err(Failure::new(format!(
            "{} of {wanted} messages came in time",
            tally.messages()
        ))
        .without_json()),
        _ => Ok(()),
    }
}

/// Says where everything is; whoever started this waits for it.
fn ready(args: &Serve, socket: &Socket, region: &Region, out: &mut Out) -> Result<(), Failure> {
    let own = socket
        .local_address()
        .map_err(|error| Failure::io("own address", &error))?;
    let (remote, length) = (region.rma_addr(), region.memory().len());
    let object = json!({
        "ready": true, "qpn": own.qpn, "rma_addr": remote, "remote": format!("{remote:#x}"),
        "key": region.key(), "length": length,
    });
    out.either(&object, |out| {
        let bytes = out::bytes(length as u64);
        out.line(format_args!("region of {bytes} at --remote {remote:#x}"))?;
        out.line(format_args!("messages to --qpn {}", own.qpn))?;
        if args.receive {
            out.line(format_args!("messages to --key {:#x}", region.key()))?;
        }
        Ok(())
    })?;
    out.flush()
}

/// Copies a message out of the region; gives its length.
fn fetch(region: &Region, placed: Placed, buffer: &mut [u8]) -> std::io::Result<usize> {
    // Only another implementation sends longer ones.
    let length = buffer.len().min(placed.length as usize);
    let memory = region.memory();
    memory.read(placed.offset as usize, &mut buffer[..length])?;
    Ok(length)
}

/// Receives until the end that was asked for; gives the time from the first message to the last.
fn receive(
    args: &Serve,
    socket: &Socket,
    region: &Region,
    stop: &Stop,
    mut file: Option<&mut File>,
) -> Result<(Tally, Duration), Failure> {
    let end = args
        .timeout
        .map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
    let mut buffer = vec![0; uapi::SUPERP_MAX_MESSAGE as usize];
    let mut tally = Tally::default();
    let mut span: Option<(Instant, Instant)> = None;
    let late = || end.is_some_and(|end| Instant::now() >= end);
    while !stop.wanted() && !late() && args.messages.is_none_or(|most| tally.messages() < most) {
        let failed = |error| Failure::io("receiving", &error);
        if !socket.wait_readable(Some(Stop::PERIOD)).map_err(failed)? {
            continue;
        }
        let Some(received) = socket.receive(&mut buffer).map_err(failed)? else {
            break;
        };
        let length = match received.placed {
            Some(placed) => fetch(region, placed, &mut buffer)
                .map_err(|error| Failure::io("the receive context", &error))?,
            None => received.len,
        };
        let message = &buffer[..length];
        tally.add(message, received.imm);
        if let Some(file) = &mut file {
            file.write_all(message)
                .map_err(|error| Failure::io("--messages-out", &error))?;
        }
        let now = Instant::now();
        span = Some((span.map_or(now, |(first, _)| first), now));
    }
    Ok((
        tally,
        span.map_or(Duration::ZERO, |(first, last)| last - first),
    ))
}
