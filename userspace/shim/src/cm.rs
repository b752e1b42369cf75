// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What the connection managers of two programs tell each other: one message each, to a queue pair whose number
//! is made of the port.
//!
//! | offset | bytes | |
//! |---|---|---|
//! | 0 | 4 | `scm1`: what this is, and its version |
//! | 4 | 1 | [`Kind`] |
//! | 5 | 1 | length of the private data |
//! | 6 | 1 | reads and atomic operations that the sender answers at a time |
//! | 7 | 1 | and that it has under way |
//! | 8 | 1 | bit 0: its queue pair takes buffers of a shared queue; bit 1: flow control |
//! | 9 | 1 | why it rejects |
//! | 10 | 1 | how often it repeats |
//! | 11 | 1 | and how often for want of a buffer |
//! | 12 | 2 | its port |
//! | 14 | 2 | the port of the receiver |
//! | 16 | 4 | number of the queue pair that takes its messages |
//! | 20 | 4 | number of the queue pair that is to be connected, or 0 |
//! | 24 | 4 | what tells this connection from others of the same ports: chosen by who requests it |
//! | 28 | | private data |
//!
//! Numbers are big endian.

use superp_verbs::uapi;

const MAGIC: [u8; 4] = *b"scm1";
const HEAD: usize = 28;
const SHARED: u8 = 1;
const FLOW_CONTROL: u8 = 2;

/// The longest message, and one byte more, which tells that one is longer.
pub(crate) const ROOM: usize = HEAD + 256;

/// Why a request is rejected, as InfiniBand's connection manager has it.
pub(crate) mod reason {
    pub(crate) const NO_RESOURCES: u8 = 3;
    /// The other end of this connection is no more, or another one.
    pub(crate) const NO_SUCH_CONNECTION: u8 = 6;
    pub(crate) const NOBODY_LISTENS: u8 = 8;
    /// The program says why.
    pub(crate) const PROGRAM: u8 = 28;
}

/// The number of the queue pair that takes requests to a port.
pub(crate) const fn number(port: u16) -> u32 {
    0xc0_0000 + port as u32
}

/// What a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A connection is wanted.
    Request,
    /// It may be.
    Reply,
    /// Both queue pairs are ready.
    Ready,
    /// It may not be.
    Reject,
    /// It ends.
    Disconnect,
}

impl Kind {
    const ALL: [(Self, u8); 5] = [
        (Self::Request, 1),
        (Self::Reply, 2),
        (Self::Ready, 3),
        (Self::Reject, 4),
        (Self::Disconnect, 5),
    ];

    /// Bytes that a program may send with it: what InfiniBand leaves to programs that name ports.
    pub(crate) const fn room(self) -> usize {
        match self {
            Self::Request => 56,
            Self::Reply => 196,
            Self::Reject => 148,
            Self::Ready | Self::Disconnect => 0,
        }
    }

    fn code(self) -> u8 {
        let of = Self::ALL.iter().find(|(kind, _)| *kind == self);
        of.map_or(0, |(_, code)| *code)
    }

    fn of_code(code: u8) -> Option<Self> {
        let of = Self::ALL.iter().find(|(_, known)| *known == code);
        of.map(|(kind, _)| *kind)
    }
}

/// What both ends tell of their queue pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// Reads and atomic operations that it answers at a time.
    pub(crate) responder_resources: u8,
    /// And that it has under way.
    pub(crate) initiator_depth: u8,
    pub(crate) shared: bool,
    pub(crate) flow_control: bool,
    pub(crate) retries: u8,
    pub(crate) rnr_retries: u8,
    /// Number of the queue pair.
    pub(crate) queue_pair: u32,
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: Kind,
    pub(crate) terms: Terms,
    pub(crate) reason: u8,
    pub(crate) source: u16,
    pub(crate) destination: u16,
    /// Number of the queue pair that takes the sender's messages.
    pub(crate) socket: u32,
    pub(crate) token: u32,
    pub(crate) private: Vec<u8>,
}

impl Message {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let terms = &self.terms;
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        let mut bytes = Vec::with_capacity(HEAD + self.private.len());
        bytes.extend(MAGIC);
        bytes.extend([
            self.kind.code(),
            self.private.len() as u8,
            terms.responder_resources,
            terms.initiator_depth,
            flag(terms.shared, SHARED) | flag(terms.flow_control, FLOW_CONTROL),
            self.reason,
            terms.retries,
            terms.rnr_retries,
        ]);
        bytes.extend(self.source.to_be_bytes());
        bytes.extend(self.destination.to_be_bytes());
        bytes.extend(self.socket.to_be_bytes());
        bytes.extend(terms.queue_pair.to_be_bytes());
        bytes.extend(self.token.to_be_bytes());
        bytes.extend(&self.private);
        bytes
    }

    /// `None`: it is none.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (head, private) = bytes.split_first_chunk::<HEAD>()?;
        let kind = Kind::of_code(head[4])?;
        let word =
            |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let (flags, socket, queue_pair) = (head[8], word(16), word(20));
        let whole = head[..4] == MAGIC
            && private.len() == usize::from(head[5])
            && private.len() <= kind.room()
            && flags & !(SHARED | FLOW_CONTROL) == 0
            && (1..=uapi::SUPERP_QPN_MAX).contains(&socket)
            && queue_pair <= uapi::SUPERP_QPN_MAX;
        // Who asks for a connection, or agrees, has a queue pair for it.
        let complete = queue_pair != 0 || !matches!(kind, Kind::Request | Kind::Reply);
        (whole && complete).then(|| Self {
            kind,
            terms: Terms {
                responder_resources: head[6],
                initiator_depth: head[7],
                shared: flags & SHARED != 0,
                flow_control: flags & FLOW_CONTROL != 0,
                retries: head[10],
                rnr_retries: head[11],
                queue_pair,
            },
            reason: head[9],
            source: half(12),
            destination: half(14),
            socket,
            token: word(24),
            private: private.to_vec(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: Kind, private: usize) -> Message {
        Message {
            kind,
            terms: Terms {
                responder_resources: 4,
                initiator_depth: 5,
                shared: true,
                flow_control: false,
                retries: 7,
                rnr_retries: 6,
                queue_pair: 0x9a_bcde,
            },
            reason: 28,
            source: 0x1234,
            destination: 0x5678,
            socket: 0xc0_1234,
            token: 0x0102_0304,
            private: (0..private).map(|byte| byte as u8).collect(),
        }
    }

    #[test]
    fn bytes_are_where_the_table_says() {
        let bytes = message(Kind::Reject, 2).encode();
        let expected = [
            b's', b'c', b'm', b'1', 4, 2, 4, 5, 1, 28, 7, 6, 0x12, 0x34, 0x56, 0x78, 0, 0xc0, 0x12,
            0x34, 0, 0x9a, 0xbc, 0xde, 1, 2, 3, 4, 0, 1,
        ];
        assert_eq!(bytes, expected);
    }

    #[test]
    fn messages_survive_the_way() {
        for (kind, _) in Kind::ALL {
            for private in [0, kind.room()] {
                let sent = message(kind, private);
                let bytes = sent.encode();
                assert!(bytes.len() < ROOM);
                assert_eq!(Message::parse(&bytes), Some(sent));
            }
        }
    }

    #[test]
    fn of_another_length_it_is_no_message() {
        let bytes = message(Kind::Request, 8).encode();
        for len in 0..bytes.len() {
            assert_eq!(Message::parse(&bytes[..len]), None, "{len}");
        }
        let mut longer = bytes;
        longer.push(0);
        assert_eq!(Message::parse(&longer), None);
    }

    #[test]
    fn more_private_data_than_there_is_room_for_is_refused() {
        for (kind, _) in Kind::ALL {
            let bytes = message(kind, kind.room() + 1).encode();
            assert_eq!(Message::parse(&bytes), None, "{kind:?}");
        }
    }

    #[test]
    fn wrong_fields_are_refused() {
        let good = message(Kind::Request, 0).encode();
        let wrong = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Message::parse(&bytes)
        };
        for (at, byte) in [(0, b'S'), (3, b'2'), (4, 0), (4, 6), (5, 1), (8, 4)] {
            assert_eq!(wrong(at, byte), None, "{at}");
        }
        // Numbers of queue pairs have 24 bits.
        for at in [16, 20] {
            assert_eq!(wrong(at, 1), None, "{at}");
        }
    }

    #[test]
    fn who_connects_has_a_queue_pair() {
        for (kind, needed) in [
            (Kind::Request, true),
            (Kind::Reply, true),
            (Kind::Ready, false),
            (Kind::Reject, false),
            (Kind::Disconnect, false),
        ] {
            let mut without = message(kind, 0);
            without.terms.queue_pair = 0;
            assert_eq!(
                Message::parse(&without.encode()).is_none(),
                needed,
                "{kind:?}"
            );
            without.socket = 0;
            assert_eq!(Message::parse(&without.encode()), None, "{kind:?}");
        }
    }

    #[test]
    fn ports_are_numbers_that_people_can_tell() {
        assert_eq!(number(0), 0xc0_0000);
        assert_eq!(number(18515), 12_601_427);
        assert!(number(u16::MAX) <= uapi::SUPERP_QPN_MAX);
    }
}
