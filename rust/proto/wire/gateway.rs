// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Conversion between SUNH and UDP/IP headers, at a gateway [proto 2.7].

use super::Sunh;

/// First dynamic UDP port. The bits below it in a source port are the entropy of a flow.
pub const DYNAMIC_PORTS: u16 = 0xc000;

/// Fields of the IP and UDP headers of a SUPERp packet. Addresses are IPv6 or IPv4-mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpIp {
    /// Source address.
    pub source: [u8; 16],
    /// Destination address.
    pub destination: [u8; 16],
    /// Traffic Class; in IPv4 the Type of Service.
    pub traffic_class: u8,
    /// Hop Limit; in IPv4 the Time to Live.
    pub hop_limit: u8,
    /// Flow Label, 20 bits; 0 for IPv4, which has none.
    pub flow_label: u32,
    /// UDP source port.
    pub source_port: u16,
}

/// Common prefix of the IP addresses in a SUPERp subnet [proto 2.1].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// The prefix, with a host part of 0.
    base: [u8; 16],
    /// Mask of the host part in the low 16 bits of an address.
    host: u16,
}

impl Prefix {
    /// Creates a prefix of `bits` bits, of 32 for IPv4 and 128 for IPv6. `None` unless the host
    /// part has 1 to 16 bits, which are 0 in `base`.
    pub const fn new(base: [u8; 16], bits: u32) -> Option<Self> {
        let host = match Self::width(&base).saturating_sub(bits) {
            host_bits @ 1..=16 => u16::MAX >> (16 - host_bits),
            _ => return None,
        };
        let [.., high, low] = base;
        match u16::from_be_bytes([high, low]) & host {
            0 => Some(Self { base, host }),
            _ => None,
        }
    }

    /// Number of bits in an address: 32 for an IPv4-mapped one, else 128.
    const fn width(address: &[u8; 16]) -> u32 {
        match address {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ..] => 32,
            _ => 128,
        }
    }

    /// The prefix, with a host part of 0.
    pub const fn base(&self) -> [u8; 16] {
        self.base
    }

    /// Length of the prefix in bits, of 32 for IPv4 and 128 for IPv6.
    pub const fn bits(&self) -> u32 {
        Self::width(&self.base).saturating_sub(self.host_bits())
    }

    /// Length of the host part in bits, 1 to 16.
    pub const fn host_bits(&self) -> u32 {
        self.host.count_ones()
    }

    /// Whether this is an IPv4 prefix.
    pub const fn is_v4(&self) -> bool {
        Self::width(&self.base) == 32
    }

    /// Uncompressed IP address of the node with SUNH address `sunh`. `None` if `sunh` has bits
    /// outside the host part.
    pub const fn address(&self, sunh: u16) -> Option<[u8; 16]> {
        if sunh & !self.host != 0 {
            return None;
        }
        let [high, low] = sunh.to_be_bytes();
        let mut address = self.base;
        address[14] |= high;
        address[15] |= low;
        Some(address)
    }

    /// SUNH address of an IP address. `None` if the address does not have this prefix.
    pub fn host(&self, address: &[u8; 16]) -> Option<u16> {
        let [.., high, low] = *address;
        let host = u16::from_be_bytes([high, low]) & self.host;
        (self.address(host)? == *address).then_some(host)
    }
}

impl Sunh {
    /// Expands the header to those of UDP/IP. `None` if an address has bits outside the host part.
    pub fn to_udp_ip(&self, prefix: &Prefix) -> Option<UdpIp> {
        let label = self.flow_label & 0xfff;
        Some(UdpIp {
            source: prefix.address(self.source)?,
            destination: prefix.address(self.destination)?,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            flow_label: match prefix.is_v4() {
                true => 0,
                false => label.into(),
            },
            source_port: DYNAMIC_PORTS | label,
        })
    }

    /// Compresses the headers of UDP/IP. `None` if an address does not have the prefix.
    pub fn from_udp_ip(udp: &UdpIp, prefix: &Prefix, next_header: u8) -> Option<Self> {
        // A sender that leaves the label 0 distinguishes flows by the port alone [RFC 6438].
        let entropy = match udp.flow_label {
            0 => udp.source_port.into(),
            label => label,
        };
        Some(Self {
            traffic_class: udp.traffic_class,
            next_header,
            hop_limit: match udp.hop_limit {
                hops @ 0..=15 => hops,
                _ => 15,
            },
            flow_label: (entropy & 0xfff) as u16,
            source: prefix.host(&udp.source)?,
            destination: prefix.host(&udp.destination)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn v4(a: u8, b: u8, c: u8, d: u8) -> [u8; 16] {
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
    }

    const fn v6(high: u8, low: u8) -> [u8; 16] {
        [0xfd, 0x23, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, high, low]
    }

    /// Header of the golden packets, with another Traffic Class, Hop Limit and source.
    const SUNH: Sunh = Sunh {
        traffic_class: 0x2b,
        next_header: 253,
        hop_limit: 9,
        flow_label: 0xabc,
        source: 0x102,
        destination: 1,
    };

    #[test]
    fn a_prefix_is_what_is_before_the_host_part() {
        let prefix = Prefix::new(v4(10, 23, 0, 0), 16).unwrap();
        assert_eq!(prefix.address(0x102), Some(v4(10, 23, 1, 2)));
        assert_eq!(prefix.host(&v4(10, 23, 1, 2)), Some(0x102));
        for other in [v4(10, 24, 1, 2), v6(1, 2), [0; 16]] {
            assert_eq!(prefix.host(&other), None);
        }
        assert_eq!(
            (prefix.host_bits(), prefix.bits(), prefix.is_v4()),
            (16, 16, true)
        );
        assert_eq!(prefix.base(), v4(10, 23, 0, 0));

        let narrow = Prefix::new(v6(0x10, 0), 116).unwrap();
        assert_eq!(narrow.address(0xfff), Some(v6(0x1f, 0xff)));
        assert_eq!(narrow.address(0x1000), None);
        assert_eq!(narrow.host(&v6(0x1f, 0xff)), Some(0xfff));
        assert_eq!(narrow.host(&v6(0x0f, 0xff)), None);
        assert_eq!(
            (narrow.host_bits(), narrow.bits(), narrow.is_v4()),
            (12, 116, false)
        );

        for bits in [0, 16, 111, 128, 129, u32::MAX] {
            assert_eq!(Prefix::new([0; 16], bits), None);
        }
        for bits in [0, 15, 32, 33, 112] {
            assert_eq!(Prefix::new(v4(0, 0, 0, 0), bits), None);
        }
        assert_eq!(Prefix::new(v4(10, 23, 0, 1), 16), None);
        assert_eq!(Prefix::new(v6(0x10, 0), 115), None);
    }

    #[test]
    fn sunh_is_expanded_to_udp_ip() {
        let prefix = Prefix::new(v4(10, 23, 0, 0), 16).unwrap();
        let expanded = UdpIp {
            source: v4(10, 23, 1, 2),
            destination: v4(10, 23, 0, 1),
            traffic_class: 0x2b,
            hop_limit: 9,
            flow_label: 0,
            // The port of golden packet G7.
            source_port: 51900,
        };
        assert_eq!(SUNH.to_udp_ip(&prefix), Some(expanded));
        let prefix = Prefix::new(v6(0, 0), 112).unwrap();
        let expanded = UdpIp {
            source: v6(1, 2),
            destination: v6(0, 1),
            flow_label: 0xabc,
            ..expanded
        };
        assert_eq!(SUNH.to_udp_ip(&prefix), Some(expanded));
        // An address outside the subnet must not become that of another node.
        let narrow = Prefix::new(v6(0, 0), 120).unwrap();
        assert_eq!(SUNH.to_udp_ip(&narrow), None);
    }

    #[test]
    fn udp_ip_is_compressed_to_what_it_was() {
        for (base, bits) in [(v4(10, 23, 0, 0), 16), (v6(0, 0), 112)] {
            let prefix = Prefix::new(base, bits).unwrap();
            let udp = SUNH.to_udp_ip(&prefix).unwrap();
            assert_eq!(Sunh::from_udp_ip(&udp, &prefix, 253), Some(SUNH));
            for (hop_limit, expected) in [(0, 0), (1, 1), (15, 15), (16, 15), (255, 15)] {
                let udp = UdpIp { hop_limit, ..udp };
                let sunh = Sunh::from_udp_ip(&udp, &prefix, 253).unwrap();
                assert_eq!(sunh.hop_limit, expected);
            }
        }
    }

    #[test]
    fn the_label_of_ipv6_goes_before_the_port() {
        let prefix = Prefix::new(v6(0, 0), 112).unwrap();
        let udp = SUNH.to_udp_ip(&prefix).unwrap();
        for (flow_label, source_port, expected) in [
            (0xf_f123, 0xc456, 0x123),
            (0, 0xc456, 0x456),
            (0, 50, 50),
            (0x1_2000, 0xc456, 0),
        ] {
            let udp = UdpIp {
                flow_label,
                source_port,
                ..udp
            };
            let sunh = Sunh::from_udp_ip(&udp, &prefix, 253).unwrap();
            assert_eq!(sunh.flow_label, expected);
        }
    }

    #[test]
    fn addresses_of_another_subnet_are_not_compressed() {
        let prefix = Prefix::new(v4(10, 23, 0, 0), 16).unwrap();
        let udp = SUNH.to_udp_ip(&prefix).unwrap();
        let [mut source, mut destination] = [udp, udp];
        source.source = v4(10, 22, 1, 2);
        destination.destination = v4(11, 23, 0, 1);
        for foreign in [source, destination] {
            assert_eq!(Sunh::from_udp_ip(&foreign, &prefix, 253), None);
        }
    }
}
