// SPDX-License-Identifier: GPL-2.0 OR MIT
//! A generic netlink socket that speaks to one family.

use crate::codec::{Attrs, Message, Messages, Writer};
use crate::error::{acknowledged, done};
use crate::{uapi, Error, Result};
use netlink_sys::{protocols::NETLINK_GENERIC, Socket, SocketAddr};

/// Types of messages: `NLMSG_ERROR`, `NLMSG_DONE`, and that of the family of families.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const CONTROLLER: u16 = 0x10;

/// Flags of a request.
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;

/// The controller's command and attributes that are used here (`linux/genetlink.h`).
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const GROUPS: u16 = 7;
const GROUP_NAME: u16 = 1;
const GROUP_ID: u16 = 2;

const ENOENT: i32 = 2;
const EINTR: i32 = 4;

/// A socket, and the number of the family.
#[derive(Debug)]
pub(crate) struct Transport {
    socket: Socket,
    family: u16,
    events: Option<u32>,
    sequence: u32,
}

impl Transport {
    /// Opens a socket in the current network namespace and looks the family up.
    pub(crate) fn open() -> Result<Self> {
        let mut socket = Socket::new(NETLINK_GENERIC)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        socket.set_ext_ack(true)?;
        socket.set_cap_ack(true)?;
        let mut transport = Self {
            socket,
            family: CONTROLLER,
            events: None,
            sequence: 0,
        };
        transport.resolve()?;
        Ok(transport)
    }

    fn resolve(&mut self) -> Result<()> {
        let mut found = (None, None);
        let asked = self.request(
            GET_FAMILY,
            &[],
            |writer| writer.put_text(FAMILY_NAME, uapi::FAMILY),
            |attrs| {
                found.0 = attrs.get(FAMILY_ID).and_then(|id| id.integer());
                let groups = attrs.filter(|attr| attr.number == GROUPS);
                found.1 = groups
                    .flat_map(|groups| groups.nested())
                    .map(|group| group.nested())
                    .find(|group| {
                        let name = group.get(GROUP_NAME).map(|name| name.text());
                        name.as_deref() == Some(uapi::GROUP_EVENTS)
                    })
                    .and_then(|group| group.get(GROUP_ID)?.integer());
                Ok(())
            },
        );
        match asked {
            Err(Error::Refused(refusal)) if refusal.errno == ENOENT => {
                return Err(Error::NotLoaded)
            }
            asked => asked?,
        }
        self.family = found
            .0
            .and_then(|id| u16::try_from(id).ok())
            .ok_or(Error::Answer("the family has no number"))?;
        self.events = found.1.and_then(|id| u32::try_from(id).ok());
        Ok(())
    }

    /// Sends a command whose attributes, of the set `set`, are written by `fill`, gives each reply
    /// to `reply`, and waits for the acknowledgement.
    pub(crate) fn request(
        &mut self,
        command: u8,
        set: &[uapi::Attr],
        fill: impl FnOnce(&mut Writer),
        reply: impl FnMut(Attrs<'_>) -> Result<()>,
    ) -> Result<()> {
        self.exchange(command, REQUEST | ACK, set, fill, reply)
    }

    /// As [`request`](Self::request), for a dump.
    pub(crate) fn dump(
        &mut self,
        command: u8,
        set: &[uapi::Attr],
        fill: impl FnOnce(&mut Writer),
        reply: impl FnMut(Attrs<'_>) -> Result<()>,
    ) -> Result<()> {
        self.exchange(command, REQUEST | ACK | DUMP, set, fill, reply)
    }

    fn exchange(
        &mut self,
        command: u8,
        flags: u16,
        set: &[uapi::Attr],
        fill: impl FnOnce(&mut Writer),
        mut reply: impl FnMut(Attrs<'_>) -> Result<()>,
    ) -> Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut writer = Writer::new(self.family, flags, self.sequence, command);
        fill(&mut writer);
        let request = writer
            .finish()
            .ok_or(std::io::Error::from(std::io::ErrorKind::InvalidInput))?;
        self.socket.send(&request, 0)?;
        // An answer that cannot be used does not end the exchange: the rest would be taken for
        // the answer to the next request.
        let mut result = Ok(());
        loop {
            let datagram = self.receive()?;
            for message in Messages(&datagram) {
                if message.sequence != self.sequence {
                    continue;
                }
                match message.kind {
                    ERROR => {
                        acknowledged(&message, &request, set)?;
                        // A dump ends by DONE.
                        if flags & DUMP == 0 {
                            return result;
                        }
                    }
                    DONE => {
                        done(&message, &request, set)?;
                        return result;
                    }
                    _ => {
                        if let Some((_, attrs)) = message.generic() {
                            result = result.and_then(|()| reply(attrs));
                        }
                    }
                }
            }
        }
    }

    fn receive(&self) -> Result<Vec<u8>> {
        loop {
            match self.socket.recv_from_full() {
                Ok((datagram, _)) => return Ok(datagram),
                Err(error) if error.raw_os_error() == Some(EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Joins the group of events.
    pub(crate) fn join(&mut self) -> Result<()> {
        let group = self
            .events
            .ok_or(Error::Answer("the family has no group of events"))?;
        self.socket.add_membership(group)?;
        Ok(())
    }

    /// Waits for the next events. A socket that joined asks for nothing else.
    pub(crate) fn wait(&self, mut event: impl FnMut(u8, Attrs<'_>)) -> Result<()> {
        let datagram = self.receive()?;
        let ours = |message: &Message<'_>| message.kind == self.family;
        for message in Messages(&datagram).filter(ours) {
            if let Some((command, attrs)) = message.generic() {
                event(command, attrs);
            }
        }
        Ok(())
    }
}
