// SPDX-License-Identifier: GPL-2.0 OR MIT
//! How two ends of `superp connect` meet and what they say: lines of JSON over TCP. The end with the lower
//! address listens, the other one calls until somebody is there.

use super::args::{Connect, Kind};
use crate::failure::Failure;
use crate::xfer::Stop;
use serde::{Deserialize, Serialize};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// Of what is said here.
pub(super) const VERSION: u32 = 1;
/// How long the peer may take for an answer once it is there.
const PATIENCE: Duration = Duration::from_secs(10);
/// From one look at the peer to the next.
const PERIOD: Duration = Duration::from_millis(200);
/// Bytes of a line at most: of somebody who has all connection ids in use with us.
const LONGEST: u64 = 4 << 20;

/// An end of a connection with the peer that is there already.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Existing {
    pub(super) kind: Kind,
    /// It is as this command makes them, and works as far as this end knows.
    pub(super) plain: bool,
    pub(super) cid: u16,
    pub(super) peer_cid: u16,
    pub(super) start_psn: u32,
}

impl Existing {
    /// Whether this and that are the ends of one connection.
    pub(super) fn fits(&self, other: &Self) -> bool {
        (self.cid, self.peer_cid, self.start_psn) == (other.peer_cid, other.cid, other.start_psn)
    }
}

/// What an end has to say of itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Hello {
    pub(super) version: u32,
    /// The id that it gives a new connection.
    pub(super) cid: u16,
    /// What it can, the best first.
    pub(super) kinds: Vec<Kind>,
    /// It knows the extension opcodes.
    pub(super) ext: bool,
    /// The start value of a new connection, if this end listens.
    pub(super) start_psn: u32,
    pub(super) conns: Vec<Existing>,
}

/// What ends say after that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "said")]
pub(super) enum Said {
    Hello(Hello),
    /// The connection is there, with packets of `mtu` bytes at most.
    Made {
        mtu: u32,
    },
    Started,
    Failed {
        text: String,
    },
}

/// What both ends find out of both hellos.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) kind: Kind,
    pub(super) ext: bool,
    pub(super) start_psn: u32,
}

/// What a new connection is like. Both ends come to the same.
pub(super) fn agree(mine: &Hello, theirs: &Hello, listens: bool) -> Result<Agreed, Failure> {
    let (listener, caller) = if listens {
        (mine, theirs)
    } else {
        (theirs, mine)
    };
    let both = listener
        .kinds
        .iter()
        .find(|kind| caller.kinds.contains(kind));
    let kind = both.ok_or_else(|| {
        let names = |kinds: &[Kind]| {
            let names: Vec<String> = kinds.iter().map(Kind::to_string).collect();
            names.join(" or ")
        };
        Failure::new(format!(
            "this end would use {}, the peer {}",
            names(&mine.kinds),
            names(&theirs.kinds)
        ))
        .hint("give --encap udp at both ends: it works wherever IP does")
    })?;
    Ok(Agreed {
        kind: *kind,
        ext: mine.ext && theirs.ext,
        start_psn: listener.start_psn,
    })
}

/// Whether an end that is there already is what both ask for. Both find the same.
pub(super) fn serves(end: &Existing, mine: &Hello, theirs: &Hello) -> bool {
    let wanted = |hello: &Hello| hello.kinds.contains(&end.kind);
    let other = theirs.conns.iter().find(|other| other.fits(end));
    end.plain && wanted(mine) && wanted(theirs) && other.is_some_and(|other| other.plain)
}

/// The other end of the command.
#[derive(Debug)]
pub(super) struct Peer {
    addr: IpAddr,
    stream: BufReader<TcpStream>,
    listens: bool,
}

impl Peer {
    fn new(addr: IpAddr, stream: TcpStream, listens: bool) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            addr,
            stream: BufReader::new(stream),
            listens,
        })
    }

    /// Whether this end is the one that listened.
    pub(super) fn listens(&self) -> bool {
        self.listens
    }

    pub(super) fn greet(&mut self, hello: &Hello) -> Result<Hello, Failure> {
        self.say(&Said::Hello(hello.clone()))?;
        match self.hear()? {
            Said::Hello(theirs) if theirs.version == VERSION => Ok(theirs),
            Said::Hello(theirs) => Err(Failure::new(format!(
                "{} speaks version {} of this, we speak {VERSION}: install the same superp at both ends",
                self.addr, theirs.version
            ))),
            other => Err(self.surprised(&other)),
        }
    }

    pub(super) fn hear_mtu(&mut self) -> Result<u32, Failure> {
        match self.hear()? {
            Said::Made { mtu } => Ok(mtu),
            other => Err(self.surprised(&other)),
        }
    }

    pub(super) fn hear_started(&mut self) -> Result<(), Failure> {
        match self.hear()? {
            Said::Started => Ok(()),
            other => Err(self.surprised(&other)),
        }
    }

    pub(super) fn say(&mut self, said: &Said) -> Result<(), Failure> {
        let mut line = serde_json::to_vec(said).unwrap_or_default();
        line.push(b'\n');
        let sent = self.stream.get_mut().write_all(&line);
        sent.map_err(|error| Failure::io(self.addr, &error))
    }

    /// Tells the peer why this end gives up. It may have done so before.
    pub(super) fn fail(&mut self, text: &str) {
        let _ = self.say(&Said::Failed { text: text.into() });
    }

    fn hear(&mut self) -> Result<Said, Failure> {
        let mut line = Vec::new();
        let mut limited = (&mut self.stream).take(LONGEST);
        let read = limited.read_until(b'\n', &mut line);
        read.map_err(|error| Failure::io(self.addr, &error))?;
        if line.is_empty() {
            return Err(Failure::new(format!(
                "superp connect at {} ended",
                self.addr
            )));
        }
        match serde_json::from_slice(&line) {
            Ok(Said::Failed { text }) => Err(Failure::new(text).at(self.addr)),
            Ok(said) => Ok(said),
            Err(_) => Err(Failure::new(format!(
                "what answers at {} is not superp connect of this version",
                self.addr
            ))),
        }
    }

    fn surprised(&self, said: &Said) -> Failure {
        Failure::new(format!(
            "{} says what does not belong here: {said:?}",
            self.addr
        ))
    }
}

/// Waits until the peer's command is there.
pub(super) fn meet(
    args: &Connect,
    local: IpAddr,
    ifindex: u32,
    stop: &Stop,
) -> Result<Peer, Failure> {
    let whole = |addr: IpAddr, port: u16| {
        let mut whole = SocketAddr::new(addr, port);
        if let SocketAddr::V6(v6) = &mut whole {
            if v6.ip().is_unicast_link_local() {
                v6.set_scope_id(ifindex);
            }
        }
        whole
    };
    let own = whole(local, args.port);
    let listener = match local < args.peer {
        true => Some(listen(own)?),
        false => None,
    };
    let start = Instant::now();
    let mut told = false;
    loop {
        let met = match &listener {
            Some(listener) => accept(listener, args.peer)?,
            None => TcpStream::connect_timeout(&whole(args.peer, args.port), PERIOD * 5).ok(),
        };
        if let Some(stream) = met {
            return Peer::new(args.peer, stream, listener.is_some())
                .map_err(|error| Failure::io(args.peer, &error));
        }
        let waited = start.elapsed();
        if stop.wanted() {
            return Err(Failure::new(format!(
                "interrupted before {} came",
                args.peer
            )));
        }
        if args
            .timeout
            .is_some_and(|limit| waited.as_secs_f64() >= limit)
        {
            let text = format!(
                "{} did not come within {:.0} s",
                args.peer,
                waited.as_secs_f64()
            );
            let failure = Failure::new(text);
            return Err(failure.hint("run superp connect there, too, with this node's address"));
        }
        if !told && waited > PERIOD {
            told = true;
            eprintln!(
                "waiting for {}: run there: superp connect {local}",
                args.peer
            );
        }
        stop.sleep(PERIOD);
    }
}

fn listen(own: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(own).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    listener.map_err(|error| {
        let failure = Failure::io(
            format_args!("TCP port {} of {}", own.port(), own.ip()),
            &error,
        );
        match error.raw_os_error() {
            Some(libc::EADDRINUSE) => {
                failure.hint("another superp connect waits there, or give --port at both ends")
            }
            _ => failure,
        }
    })
}

/// The peer, if it has called. Others are hung up on.
fn accept(listener: &TcpListener, peer: IpAddr) -> Result<Option<TcpStream>, Failure> {
    loop {
        match listener.accept() {
            Ok((stream, from)) if from.ip() == peer => return Ok(Some(stream)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(Failure::io("accept", &error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(cid: u16, kinds: &[Kind]) -> Hello {
        Hello {
            version: VERSION,
            cid,
            kinds: kinds.to_vec(),
            ext: true,
            start_psn: cid.into(),
            conns: Vec::new(),
        }
    }

    #[test]
    fn both_ends_come_to_the_same() {
        let near = hello(1, &[Kind::Sunh, Kind::Udp]);
        for far in [
            hello(2, &[Kind::Sunh, Kind::Udp]),
            hello(2, &[Kind::Udp]),
            hello(2, &[Kind::Udp, Kind::Sunh]),
        ] {
            let agreed = agree(&near, &far, true).unwrap();
            assert_eq!(agreed, agree(&far, &near, false).unwrap());
            assert_eq!((agreed.ext, agreed.start_psn), (true, 1));
        }
    }

    #[test]
    fn extensions_are_used_where_both_have_them() {
        let kinds = [Kind::Udp];
        let strict = Hello {
            ext: false,
            ..hello(2, &kinds)
        };
        assert!(!agree(&hello(1, &kinds), &strict, true).unwrap().ext);
    }

    #[test]
    fn ends_that_have_nothing_in_common_say_what_each_would_use() {
        let failure = agree(&hello(1, &[Kind::Sunh]), &hello(2, &[Kind::Udp]), true).unwrap_err();
        assert_eq!(failure.text(), "this end would use sunh, the peer udp");
    }

    #[test]
    fn ends_of_one_connection_are_known() {
        let end = Existing {
            kind: Kind::Sunh,
            plain: true,
            cid: 1,
            peer_cid: 7,
            start_psn: 5,
        };
        let other = Existing {
            cid: 7,
            peer_cid: 1,
            ..end.clone()
        };
        let later = Existing {
            start_psn: 6,
            ..other.clone()
        };
        assert!(end.fits(&other) && other.fits(&end));
        assert!(!end.fits(&end) && !end.fits(&later));
        // One end asks for UDP, the other for anything.
        let with = |kinds: &[Kind], conn: &Existing| Hello {
            conns: vec![conn.clone()],
            ..hello(1, kinds)
        };
        let (any, udp) = ([Kind::Sunh, Kind::Udp], [Kind::Udp]);
        assert!(serves(&end, &with(&any, &end), &with(&any, &other)));
        assert!(!serves(&end, &with(&any, &end), &with(&udp, &other)));
        assert!(!serves(&other, &with(&udp, &other), &with(&any, &end)));
    }
}
