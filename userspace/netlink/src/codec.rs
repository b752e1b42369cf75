// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Generic netlink messages as bytes: a header, a generic header, attributes.

/// Bytes of `struct nlmsghdr`.
pub(crate) const HEADER: usize = 16;
/// Bytes of `struct genlmsghdr`.
pub(crate) const GENERIC_HEADER: usize = 4;
/// Bytes of `struct nlattr`.
const ATTR_HEADER: usize = 4;

/// Bits of an attribute's type that are not its number: nested, network byte order.
const ATTR_FLAGS: u16 = 0xc000;
const ATTR_NESTED: u16 = 0x8000;

/// `len` and what follows it up to the next multiple of 4.
pub(crate) fn align(len: usize) -> usize {
    len.div_ceil(4) * 4
}

/// A request that is being written.
pub(crate) struct Writer {
    bytes: Vec<u8>,
    too_long: bool,
}

impl Writer {
    /// A message of this type with the flags and number of its header, for a command.
    pub(crate) fn new(kind: u16, flags: u16, sequence: u32, command: u8) -> Self {
        let mut bytes = vec![0; 4];
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend([command, 1, 0, 0]);
        Self {
            bytes,
            too_long: false,
        }
    }

    /// An attribute with these bytes; 65531 at most, see [`finish`](Self::finish).
    pub(crate) fn put(&mut self, attr: u16, data: &[u8]) {
        let len = self.len(ATTR_HEADER + data.len());
        self.bytes.extend(len.to_ne_bytes());
        self.bytes.extend(attr.to_ne_bytes());
        self.bytes.extend(data);
        self.bytes.resize(align(self.bytes.len()), 0);
    }

    /// The length of an attribute, if it fits its field.
    fn len(&mut self, len: usize) -> u16 {
        u16::try_from(len).unwrap_or_else(|_| {
            self.too_long = true;
            0
        })
    }

    pub(crate) fn put_u8(&mut self, attr: u16, value: u8) {
        self.put(attr, &[value]);
    }

    pub(crate) fn put_u16(&mut self, attr: u16, value: u16) {
        self.put(attr, &value.to_ne_bytes());
    }

    pub(crate) fn put_u32(&mut self, attr: u16, value: u32) {
        self.put(attr, &value.to_ne_bytes());
    }

    /// An attribute of type uint: 4 bytes if they suffice.
    pub(crate) fn put_uint(&mut self, attr: u16, value: u64) {
        match u32::try_from(value) {
            Ok(short) => self.put_u32(attr, short),
            Err(_) => self.put(attr, &value.to_ne_bytes()),
        }
    }

    /// A string; the kernel wants the zero byte.
    pub(crate) fn put_text(&mut self, attr: u16, text: &str) {
        self.put(attr, &[text.as_bytes(), &[0]].concat());
    }

    pub(crate) fn put_flag(&mut self, attr: u16) {
        self.put(attr, &[]);
    }

    /// An attribute that holds attributes.
    pub(crate) fn nest(&mut self, attr: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.put(attr | ATTR_NESTED, &[]);
        fill(self);
        let len = self.len(self.bytes.len() - start);
        self.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes());
    }

    /// The message, its length filled in. `None` if an attribute is too long for its header.
    pub(crate) fn finish(mut self) -> Option<Vec<u8>> {
        let len = u32::try_from(self.bytes.len()).ok()?;
        self.bytes[..4].copy_from_slice(&len.to_ne_bytes());
        (!self.too_long).then_some(self.bytes)
    }
}

/// A received attribute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attr<'a> {
    /// Its number.
    pub(crate) number: u16,
    /// Its payload.
    pub(crate) data: &'a [u8],
}

impl<'a> Attr<'a> {
    /// An integer of 1, 2, 4 or 8 bytes.
    pub(crate) fn integer(self) -> Option<u64> {
        Some(match self.data {
            [byte] => (*byte).into(),
            [_, _] => u16::from_ne_bytes(self.data.try_into().ok()?).into(),
            [_, _, _, _] => u32::from_ne_bytes(self.data.try_into().ok()?).into(),
            _ => u64::from_ne_bytes(self.data.try_into().ok()?),
        })
    }

    /// A string up to its zero byte; what is not UTF-8 becomes replacement characters.
    pub(crate) fn text(self) -> String {
        let end = self.data.iter().position(|byte| *byte == 0);
        String::from_utf8_lossy(&self.data[..end.unwrap_or(self.data.len())]).into_owned()
    }

    /// The attributes inside.
    pub(crate) fn nested(self) -> Attrs<'a> {
        Attrs(self.data)
    }
}

/// Attributes in a row. Ends at the first that is cut off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attrs<'a>(pub(crate) &'a [u8]);

impl<'a> Attrs<'a> {
    /// The attribute of this number; the last if there are several.
    pub(crate) fn get(self, number: u16) -> Option<Attr<'a>> {
        self.filter(|attr| attr.number == number).last()
    }
}

impl<'a> Iterator for Attrs<'a> {
    type Item = Attr<'a>;

    fn next(&mut self) -> Option<Attr<'a>> {
        let len = u16::from_ne_bytes(self.0.get(..2)?.try_into().ok()?).into();
        let kind = u16::from_ne_bytes(self.0.get(2..4)?.try_into().ok()?);
        let data = self.0.get(ATTR_HEADER..len)?;
        self.0 = self.0.get(align(len)..).unwrap_or_default();
        Some(Attr {
            number: kind & !ATTR_FLAGS,
            data,
        })
    }
}

/// A received message.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// What follows the header.
    pub(crate) payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// The command, and the attributes behind the generic header.
    pub(crate) fn generic(&self) -> Option<(u8, Attrs<'a>)> {
        let attrs = self.payload.get(GENERIC_HEADER..)?;
        Some((*self.payload.first()?, Attrs(attrs)))
    }
}

/// The messages of a datagram. Ends at the first that is cut off.
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let word = |at: usize| -> Option<u32> {
            Some(u32::from_ne_bytes(self.0.get(at..at + 4)?.try_into().ok()?))
        };
        let half = |at: usize| -> Option<u16> {
            Some(u16::from_ne_bytes(self.0.get(at..at + 2)?.try_into().ok()?))
        };
        let len = usize::try_from(word(0)?).ok()?;
        let message = Message {
            kind: half(4)?,
            flags: half(6)?,
            sequence: word(8)?,
            payload: self.0.get(HEADER..len)?,
        };
        self.0 = self.0.get(align(len)..).unwrap_or_default();
        Some(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_written_is_read_back() {
        let mut writer = Writer::new(0x1d, 5, 7, 3);
        writer.put_u8(1, 0xab);
        writer.put_uint(2, 1 << 40);
        writer.put_uint(3, 9);
        writer.put_text(4, "veth0");
        writer.put_flag(5);
        writer.nest(6, |nest| {
            nest.put_u16(1, 47);
            nest.put_u32(2, 64);
        });
        let bytes = writer.finish().unwrap();
        let messages: Vec<_> = Messages(&bytes).collect();
        let [message] = &messages[..] else {
            panic!("{messages:?}")
        };
        assert_eq!(
            (message.kind, message.flags, message.sequence),
            (0x1d, 5, 7)
        );
        let (command, attrs) = message.generic().unwrap();
        assert_eq!(command, 3);
        assert_eq!(attrs.get(1).unwrap().integer(), Some(0xab));
        assert_eq!(attrs.get(2).unwrap().integer(), Some(1 << 40));
        assert_eq!(attrs.get(2).unwrap().data.len(), 8);
        assert_eq!(attrs.get(3).unwrap().data.len(), 4);
        assert_eq!(attrs.get(4).unwrap().text(), "veth0");
        assert!(attrs.get(5).unwrap().data.is_empty());
        let nest = attrs.get(6).unwrap().nested();
        assert_eq!(nest.get(1).unwrap().integer(), Some(47));
        assert_eq!(nest.get(2).unwrap().integer(), Some(64));
        assert!(attrs.get(7).is_none());
    }

    /// The bytes that the kernel documents for one attribute of one byte.
    #[test]
    fn message_bytes() {
        let mut writer = Writer::new(16, 1, 2, 3);
        writer.put_u8(4, 5);
        let mut expected = Vec::new();
        expected.extend(28u32.to_ne_bytes());
        expected.extend(16u16.to_ne_bytes());
        expected.extend(1u16.to_ne_bytes());
        expected.extend(2u32.to_ne_bytes());
        expected.extend(0u32.to_ne_bytes());
        expected.extend([3, 1, 0, 0]);
        expected.extend(5u16.to_ne_bytes());
        expected.extend(4u16.to_ne_bytes());
        expected.extend([5, 0, 0, 0]);
        assert_eq!(writer.finish().unwrap(), expected);
    }

    #[test]
    fn message_with_an_attribute_over_64_kib_is_none() {
        for data in [65_531, 65_532, 200_000] {
            let mut writer = Writer::new(0, 0, 0, 0);
            writer.nest(1, |nest| nest.put_u8(1, 1));
            writer.put(2, &vec![0; data]);
            assert_eq!(writer.finish().is_some(), data == 65_531);
        }
    }

    #[test]
    fn attributes_cut_off_anywhere_end_the_walk() {
        let mut writer = Writer::new(0, 0, 0, 0);
        writer.put_u32(1, 2);
        writer.put_text(2, "abc");
        let bytes = writer.finish().unwrap();
        let attrs = &bytes[HEADER + GENERIC_HEADER..];
        for len in 0..attrs.len() {
            assert!(Attrs(&attrs[..len]).count() < 2, "{len}");
        }
        // A length below that of its own header.
        assert_eq!(Attrs(&[3, 0, 1, 0, 0, 0, 0, 0]).count(), 0);
        assert_eq!(Attrs(&[0, 0, 1, 0]).count(), 0);
    }

    #[test]
    fn messages_of_wrong_length_end_the_walk() {
        let bytes = Writer::new(1, 0, 0, 0).finish().unwrap();
        for len in 0..bytes.len() {
            assert_eq!(Messages(&bytes[..len]).count(), 0, "{len}");
        }
        let mut short = bytes.clone();
        short[..4].copy_from_slice(&8u32.to_ne_bytes());
        assert_eq!(Messages(&short).count(), 0);
        let twice = [bytes.clone(), bytes].concat();
        assert_eq!(Messages(&twice).count(), 2);
    }
}
