// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What happened, as a hash and on request as text.

/// Everything that happened, in order.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    hash: u64,
    events: u64,
    print: bool,
}

impl Trace {
    /// An empty trace, which with `print` also goes to standard output.
    pub(crate) fn new(print: bool) -> Self {
        // FNV-1a.
        let hash = 0xcbf2_9ce4_8422_2325;
        Self {
            hash,
            events: 0,
            print,
        }
    }

    /// Notes that `what` happened to number `who`, with `bytes` of a packet.
    pub(crate) fn note(&mut self, now: u64, what: &str, who: usize, bytes: &[u8]) {
        self.events += 1;
        let numbers = [now.to_le_bytes(), (who as u64).to_le_bytes()];
        let all = numbers.iter().flatten().chain(what.as_bytes()).chain(bytes);
        for byte in all {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
        if self.print {
            println!("{now:>12} {what:<9} {who:<3} {}", headers(bytes));
        }
    }

    /// Hash of everything so far: equal hashes, equal runs.
    pub(crate) fn hash(&self) -> u64 {
        self.hash
    }

    /// How much happened.
    pub(crate) fn events(&self) -> u64 {
        self.events
    }
}

/// The headers of a packet for people.
fn headers(bytes: &[u8]) -> String {
    match superp_proto::Packet::parse(bytes, bytes.len()) {
        _ if bytes.is_empty() => String::new(),
        Err(malformed) => format!("{malformed:?} {} bytes", bytes.len()),
        Ok(packet) => {
            let (pdl, tal) = (packet.pdl(), packet.tal());
            format!(
                "psn {} ack {} sack {:#x} win {} op {} xid {} seqno {}{} x{} ack_xid {} {} bytes",
                pdl.psn,
                pdl.ack_psn,
                pdl.sack,
                pdl.window,
                tal.opcode,
                tal.xid,
                tal.seqno,
                if tal.eom { " eom" } else { "" },
                tal.num_ops,
                tal.ack_xid,
                bytes.len()
            )
        }
    }
}
