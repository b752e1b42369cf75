// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Scale Up Network Header: 8 bytes, big endian [proto 2.1].

/// A decoded SUNH header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sunh {
    /// DSCP in bits 7..2, ECN in bits 1..0.
    pub traffic_class: u8,
    /// Protocol of the payload, from the IP protocol numbers.
    pub next_header: u8,
    /// Hop Limit, 0..=15. [`Self::bytes`] writes the low 4 bits.
    pub hop_limit: u8,
    /// Flow Label, 0..=0xfff. [`Self::bytes`] writes the low 12 bits.
    pub flow_label: u16,
    /// Host part of the sender's address.
    pub source: u16,
    /// Host part of the receiver's address.
    pub destination: u16,
}

impl Sunh {
    /// Bytes on the wire.
    pub const LEN: usize = 8;

    /// Decodes a header. Every bit pattern is valid. A destination accepts Hop Limit 0.
    pub const fn parse(b: &[u8; Self::LEN]) -> Self {
        let hop_flow = u16::from_be_bytes([b[2], b[3]]);
        Self {
            traffic_class: b[0],
            next_header: b[1],
            hop_limit: (hop_flow >> 12) as u8,
            flow_label: hop_flow & 0xfff,
            source: u16::from_be_bytes([b[4], b[5]]),
            destination: u16::from_be_bytes([b[6], b[7]]),
        }
    }

    /// Encodes the header.
    pub const fn bytes(&self) -> [u8; Self::LEN] {
        let hop_flow = ((self.hop_limit as u16 & 0xf) << 12) | (self.flow_label & 0xfff);
        let [h0, h1] = hop_flow.to_be_bytes();
        let [s0, s1] = self.source.to_be_bytes();
        let [d0, d1] = self.destination.to_be_bytes();
        [self.traffic_class, self.next_header, h0, h1, s0, s1, d0, d1]
    }

    /// Header that a forwarder sends on. `None` if the forwarder must drop the packet, because its
    /// Hop Limit is 0 or becomes 0 [proto 2.1].
    pub const fn forwarded(&self) -> Option<Self> {
        match self.hop_limit {
            0 | 1 => None,
            hops => Some(Self {
                hop_limit: hops.wrapping_sub(1),
                ..*self
            }),
        }
    }
}
