// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Server-Sent Events, as the HTML standard has them (9.2): bytes to messages.

use std::mem::take;

/// Longest line and longest data of a message, bytes.
const LONGEST: usize = 1 << 20;

/// A message.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// Its name; empty for the usual ones.
    pub(super) event: String,
    /// What it says.
    pub(super) data: String,
}

/// A stream that is read.
#[derive(Default)]
pub(super) struct Parser {
    line: Vec<u8>,
    /// The last line ended with CR: an LF now belongs to it.
    after_cr: bool,
    message: Message,
    has_data: bool,
    /// The number that the message names, if it names one.
    id: Option<u64>,
    /// The number of the last message that was complete.
    last_id: Option<u64>,
}

/// A line or a message is longer than it may be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Parser {
    /// What to tell by `Last-Event-ID` to go on after the last message that was complete.
    pub(super) fn last_id(&self) -> Option<u64> {
        self.last_id
    }

    /// Takes the next bytes, and hands out the messages that are complete with them.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<Vec<Message>, TooLong> {
        let mut messages = Vec::new();
        for &byte in bytes {
            let after_cr = std::mem::replace(&mut self.after_cr, byte == b'\r');
            match byte {
                b'\n' if after_cr => {}
                b'\n' | b'\r' => messages.extend(self.line()),
                byte => self.line.push(byte),
            }
            if self.line.len() > LONGEST || self.message.data.len() > LONGEST {
                return Err(TooLong);
            }
        }
        Ok(messages)
    }

    /// A line is complete, and maybe a message.
    fn line(&mut self) -> Option<Message> {
        let line = take(&mut self.line);
        if line.is_empty() {
            let message = take(&mut self.message);
            // Also one that says nothing else.
            self.last_id = self.id.take().or(self.last_id);
            return take(&mut self.has_data).then_some(message);
        }
        let line = String::from_utf8_lossy(&line);
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => self.message.event = value.to_owned(),
            "data" => {
                if self.has_data {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
                self.has_data = true;
            }
            "id" => self.id = value.parse().ok(),
            // A comment has no name.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        b": hello\n\nid: 7\ndata: {\"a\":\ndata: 1}\n\nevent: lost\r\ndata:3\r\n\r\n\
        event: nothing to say\n\nnonsense\ndata\rdata:  x\r\rdata: not complete";

    fn messages() -> Vec<Message> {
        let message = |event: &str, data: &str| Message {
            event: event.into(),
            data: data.into(),
        };
        vec![
            message("", "{\"a\":\n1}"),
            message("lost", "3"),
            message("", "\n x"),
        ]
    }

    #[test]
    fn messages_are_the_same_however_the_bytes_are_cut() {
        for size in 1..=STREAM.len() {
            let mut parser = Parser::default();
            let cut = STREAM
                .chunks(size)
                .flat_map(|piece| parser.feed(piece).unwrap());
            assert_eq!(cut.collect::<Vec<_>>(), messages(), "pieces of {size}");
        }
    }

    #[test]
    fn number_of_a_message_counts_when_it_is_complete() {
        let mut parser = Parser::default();
        for (piece, last) in [
            ("id: 7\n", None),
            ("\n", Some(7)),
            ("id: 8\ndata: x\n", Some(7)),
            ("\n", Some(8)),
            ("id: none\ndata: x\n\n", Some(8)),
        ] {
            parser.feed(piece.as_bytes()).unwrap();
            assert_eq!(parser.last_id(), last, "{piece}");
        }
    }

    #[test]
    fn line_and_message_without_end_are_refused() {
        let piece = [b'x'; 1 << 16];
        let mut parser = Parser::default();
        assert!((0..17).any(|_| parser.feed(&piece).is_err()));
        let mut parser = Parser::default();
        let line = [b"data:".as_slice(), &piece, b"\n"].concat();
        assert!((0..17).any(|_| parser.feed(&line).is_err()));
    }
}
