// SPDX-License-Identifier: GPL-2.0 OR MIT
//! `superp ping`: round trips that touch no memory.

use crate::failure::{self, Failure};
use crate::out::{self, Out};
use crate::xfer::{connect, Stop};
use crate::{host, words};
use clap::Args;
use serde_json::json;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use superp_proto::Code;

#[derive(Args)]
pub(crate) struct Ping {
    /// Address or host name of the peer.
    #[arg(value_parser = host::peer)]
    pub(crate) peer: IpAddr,
    /// Probes to send; without end if left out.
    #[arg(short, long, value_parser = words::times)]
    pub(crate) count: Option<u64>,
    /// Time from one probe to the next: seconds, or a time such as 500us.
    #[arg(short, long, default_value_t = 1.0, value_parser = superp_units::seconds)]
    pub(crate) interval: f64,
    /// How long to wait for an answer: seconds, or a time such as 500ms.
    #[arg(short = 'W', long, default_value_t = 2.0, value_parser = superp_units::seconds)]
    pub(crate) timeout: f64,
    /// Local id of the connection to use; if left out the lowest to the peer, in the partition
    /// SUPERP_PARTITION if that is in the environment.
    #[arg(long)]
    pub(crate) cid: Option<u16>,
    /// Print only the summary.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// Round trips so far.
#[derive(Debug, Default)]
struct Times {
    ns: Vec<u64>,
    sent: u64,
}

impl Times {
    fn min(&self) -> u64 {
        self.ns.iter().copied().min().unwrap_or(0)
    }

    fn max(&self) -> u64 {
        self.ns.iter().copied().max().unwrap_or(0)
    }

    fn average(&self) -> u64 {
        match self.ns.len() as u64 {
            0 => 0,
            n => self.ns.iter().sum::<u64>() / n,
        }
    }

    /// Mean distance from the average.
    fn deviation(&self) -> u64 {
        let average = self.average();
        let sum: u64 = self.ns.iter().map(|ns| ns.abs_diff(average)).sum();
        sum.checked_div(self.ns.len() as u64).unwrap_or(0)
    }
}

pub(crate) fn run(args: &Ping, out: &mut Out) -> Result<(), Failure> {
    measure(args, out).map_err(|failure| failure.towards(args.peer))
}

fn measure(args: &Ping, out: &mut Out) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let socket = connect(args.peer, args.cid, 0)?;
    let info = socket
        .info()
        .map_err(|error| Failure::io("information on the socket", &error))?;
    let cid = info.cid.map_or("?".into(), |cid| cid.to_string());
    if !out.is_json() && !args.quiet {
        out.line(format_args!("ping {} over connection {cid}", args.peer))?;
        out.flush()?;
    }
    let timeout = Duration::from_secs_f64(args.timeout);
    let interval = Duration::from_secs_f64(args.interval);
    let mut times = Times::default();
    while !stop.wanted() && args.count.is_none_or(|count| times.sent < count) {
        let start = Instant::now();
        times.sent += 1;
        let token = times.sent;
        let failed = |error| Failure::io(format_args!("ping {}", args.peer), &error);
        socket.round_trip(token).map_err(failed)?;
        let answer = loop {
            let left = timeout.saturating_sub(start.elapsed());
            match socket
                .wait_completion(Some(left.min(Stop::PERIOD)))
                .map_err(failed)?
            {
                // An answer that came too late for an earlier probe.
                Some(done) if done.token != token => {}
                Some(done) => break Some(done),
                None if left.is_zero() || stop.wanted() => break None,
                None => {}
            }
        };
        let taken = start.elapsed();
        match answer {
            Some(done) if done.errno != 0 => {
                let (major, minor) = done.code;
                let what = format!("ping {}", args.peer);
                return Err(Failure::refused(what, Code { major, minor }, done.errno));
            }
            Some(_) => {
                let ns = u64::try_from(taken.as_nanos()).unwrap_or(u64::MAX);
                times.ns.push(ns);
                if !out.is_json() && !args.quiet {
                    let (peer, time) = (args.peer, out::time(ns));
                    out.line(format_args!("answer of {peer}: seq {token} time {time}"))?;
                }
            }
            None if stop.wanted() => times.sent -= 1,
            None => {
                if !out.is_json() && !args.quiet {
                    out.line(format_args!("no answer of {}: seq {token}", args.peer))?;
                }
            }
        }
        out.flush()?;
        if args.count != Some(times.sent) {
            stop.sleep(interval.saturating_sub(start.elapsed()));
        }
    }
    summary(args, &times, info.cid, out)?;
    if (times.ns.len() as u64) < times.sent || times.sent == 0 {
        out.flush()?;
        let lost = times.sent - times.ns.len() as u64;
        let text = format!("{lost} of {} probes were not answered", times.sent);
        return Err(Failure::new(text)
            .hint(failure::doctor(args.peer))
            .without_json());
    }
    Ok(())
}

fn summary(args: &Ping, times: &Times, cid: Option<u16>, out: &mut Out) -> Result<(), Failure> {
    let mut object = json!({
        "peer": args.peer, "local-cid": cid, "sent": times.sent, "received": times.ns.len(),
    });
    if !times.ns.is_empty() {
        object["min-ns"] = times.min().into();
        object["avg-ns"] = times.average().into();
        object["max-ns"] = times.max().into();
        object["mdev-ns"] = times.deviation().into();
    }
    out.either(&object, |out| {
        let answered = format!("{} sent, {} answered", times.sent, times.ns.len());
        if times.ns.is_empty() {
            return out.line(answered);
        }
        out.line(format_args!(
            "{answered}; round trip min/avg/max/mdev = {}/{}/{}/{}",
            out::time(times.min()),
            out::time(times.average()),
            out::time(times.max()),
            out::time(times.deviation()),
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_of_times() {
        let times = Times {
            ns: vec![10, 20, 60],
            sent: 4,
        };
        assert_eq!((times.min(), times.average(), times.max()), (10, 30, 60));
        assert_eq!(times.deviation(), (20 + 10 + 30) / 3);
        let none = Times::default();
        assert_eq!((none.min(), none.average(), none.deviation()), (0, 0, 0));
    }
}
