// SPDX-License-Identifier: GPL-2.0 OR MIT
//! RDMA CM: event channels, identifiers, and the thread that hears what peers say.
//!
//! All is in one [`Manager`], behind one lock. It knows the structs of programs by their addresses, and refuses
//! with EINVAL what it does not know. A listener is a socket of messages that is bound to the number of its port
//! ([`number`](crate::cm::number)); each other identifier has one as well, for the answers.

mod calls;
mod dialogue;
mod endpoints;
mod identifier;
mod names;
mod queues;

use super::abi::*;
use super::eventfd::{add_one, event_fd};
use super::router::without_signals;
use super::{lock, tell};
use crate::cm::{self, reason, Kind, Message, Terms};
use identifier::{Id, Peer, State};
use libc::c_int;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::ErrorKind;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use superp_sys::Socket;
use superp_verbs::Address;

macro_rules! pointers {
    ($($name:ident $to:ty;)*) => {
        $(
            /// The struct of a program, by its address.
            #[derive(Clone, Copy, PartialEq, Eq, Hash)]
            struct $name(*mut $to);

            // SAFETY: It ends only with the lock of the manager held, as it is looked at by other threads.
            unsafe impl Send for $name {}
        )*
    };
}

pointers! {
    IdPointer rdma_cm_id;
    ChannelPointer rdma_event_channel;
    EventPointer rdma_cm_event;
}

/// How long a peer may take to answer: about what InfiniBand's connection manager waits.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the thread knows its own descriptor by; identifiers have higher numbers.
const WAKE: u64 = 0;

/// What a program has not asked for yet.
struct Pending {
    /// Of which it is, and which waits until it is acknowledged.
    id: IdPointer,
    kind: rdma_cm_event_type,
    status: c_int,
    terms: Terms,
    private: Vec<u8>,
    /// It asks for a connection, from this node.
    request: Option<(Message, Address)>,
}

struct Channel {
    waiting: VecDeque<Pending>,
    /// The descriptor that programs know: readable while anything waits.
    signal: OwnedFd,
}

/// `struct rdma_cm_event`, with its private data.
#[repr(C)]
struct Event {
    public: rdma_cm_event,
    private: [u8; 256],
}

/// The device as identifiers have it: one context of the process, and a domain for those who bring none.
#[derive(Clone, Copy)]
struct Opened {
    context: *mut ibv_context,
    pd: *mut ibv_pd,
}

// SAFETY: Both live as long as the process.
unsafe impl Send for Opened {}

#[derive(Default)]
struct Manager {
    ids: HashMap<IdPointer, Id>,
    /// By the numbers that the thread knows them by.
    serials: HashMap<u64, IdPointer>,
    last: u64,
    channels: HashMap<ChannelPointer, Channel>,
    /// Events that programs have, and whose they are.
    given: HashMap<EventPointer, IdPointer>,
    opened: Option<Opened>,
}

/// The manager of the process.
struct Shared {
    manager: Mutex<Manager>,
    /// An event was acknowledged.
    acked: Condvar,
    /// The sockets of all identifiers.
    poll: OwnedFd,
    wake: OwnedFd,
    /// The process that has the thread: one that it forks has the memory, and no thread.
    process: u32,
}

fn errno_of(error: &std::io::Error) -> c_int {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// A number that is not to be guessed.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl Shared {
    fn new() -> Result<Self, c_int> {
        // SAFETY: No pointers.
        let poll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if poll < 0 {
            return Err(super::errno_now());
        }
        let shared = Self {
            manager: Mutex::default(),
            acked: Condvar::new(),
            // SAFETY: It was made just now and is nobody else's.
            poll: unsafe { OwnedFd::from_raw_fd(poll) },
            wake: event_fd(libc::EFD_NONBLOCK)?,
            process: std::process::id(),
        };
        shared.watch(shared.wake.as_raw_fd(), WAKE)?;
        Ok(shared)
    }

    fn lock(&self) -> MutexGuard<'_, Manager> {
        lock(&self.manager)
    }

    /// Waits until something was acknowledged.
    fn wait<'a>(&self, manager: MutexGuard<'a, Manager>) -> MutexGuard<'a, Manager> {
        let waited = self.acked.wait(manager);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the thread hear of a descriptor.
    fn watch(&self, fd: c_int, serial: u64) -> Result<(), c_int> {
        let mut event = libc::epoll_event {
            events: libc::EPOLLIN as u32,
            u64: serial,
        };
        // SAFETY: The event is valid for the call.
        match unsafe { libc::epoll_ctl(self.poll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) }
        {
            0 => Ok(()),
            _ => Err(super::errno_now()),
        }
    }

    /// Has it hear no more. Closing would not do: a process that was forked may have the descriptor, too.
    fn unwatch(&self, fd: c_int) {
        // SAFETY: Nothing is read from the null pointer.
        unsafe {
            libc::epoll_ctl(
                self.poll.as_raw_fd(),
                libc::EPOLL_CTL_DEL,
                fd,
                ptr::null_mut(),
            )
        };
    }

    /// Has the thread look when the next peer has taken too long.
    fn wake(&self) {
        add_one(&self.wake);
    }

    fn run(&self) {
        const MOST: usize = 32;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        let mut timeout = -1;
        loop {
            let (fd, place) = (self.poll.as_raw_fd(), events.as_mut_ptr());
            // SAFETY: There is room for so many events.
            let count = unsafe { libc::epoll_wait(fd, place, MOST as c_int, timeout) };
            let mut manager = self.lock();
            for event in events.iter().take(usize::try_from(count).unwrap_or(0)) {
                match event.u64 {
                    WAKE => self.drain(),
                    serial => manager.hear(serial),
                }
            }
            timeout = manager.expire(Instant::now());
        }
    }

    fn drain(&self) {
        let mut count: u64 = 0;
        let to: *mut u64 = &mut count;
        // SAFETY: Eight bytes; it does not wait.
        unsafe { libc::read(self.wake.as_raw_fd(), to.cast(), 8) };
    }
}

/// The manager, which is started by whoever asks first.
///
/// # Errors
///
/// EOPNOTSUPP: it was started in the process that forked this one.
fn shared() -> Result<&'static Shared, c_int> {
    static SHARED: OnceLock<Result<Shared, c_int>> = OnceLock::new();
    static STARTED: OnceLock<Result<(), c_int>> = OnceLock::new();
    let shared = SHARED.get_or_init(Shared::new).as_ref().map_err(|e| *e)?;
    (*STARTED.get_or_init(|| {
        let builder = std::thread::Builder::new().name("superp-cm".into());
        let started = without_signals(|| builder.spawn(|| shared.run()));
        started.map(drop).map_err(|error| errno_of(&error))
    }))?;
    if shared.process != std::process::id() {
        tell("RDMA CM was used before this process was forked, which has no thread for it: use it only in the child");
        return Err(libc::EOPNOTSUPP);
    }
    Ok(shared)
}

/// Tells a requester that it gets no connection, from a socket of this moment.
fn reject(from: &Address, request: &Message, reason: u8) {
    let to = Address {
        qpn: request.socket,
        ..*from
    };
    let Ok(socket) = Socket::new() else { return };
    let Ok(own) = socket.connect(&to).and_then(|()| socket.local_address()) else {
        return;
    };
    let message = Message {
        kind: Kind::Reject,
        terms: Terms::default(),
        reason,
        source: request.destination,
        destination: request.source,
        socket: own.qpn,
        token: request.token,
        private: Vec::new(),
    };
    // Who does not get it stops waiting some time.
    let _ = socket.send(&message.encode());
}

impl Manager {
    /// EINVAL: it is no identifier, or was destroyed.
    fn id(&mut self, id: *mut rdma_cm_id) -> Result<&mut Id, c_int> {
        self.ids.get_mut(&IdPointer(id)).ok_or(libc::EINVAL)
    }

    fn new_channel(&mut self) -> Result<ChannelPointer, c_int> {
        let signal = event_fd(0)?;
        let public = rdma_event_channel {
            fd: signal.as_raw_fd(),
        };
        let pointer = ChannelPointer(Box::into_raw(Box::new(public)));
        let waiting = VecDeque::new();
        self.channels.insert(pointer, Channel { waiting, signal });
        Ok(pointer)
    }

    fn end_channel(&mut self, channel: ChannelPointer) -> Result<(), c_int> {
        self.channels.remove(&channel).ok_or(libc::EINVAL)?;
        // SAFETY: From `new_channel`, as it was known, and used no more.
        drop(unsafe { Box::from_raw(channel.0) });
        Ok(())
    }

    /// A new identifier, on a channel or on one of its own.
    fn new_id(
        &mut self,
        channel: Option<ChannelPointer>,
        context: *mut libc::c_void,
    ) -> Result<&mut Id, c_int> {
        let sync = channel.is_none();
        let channel = match channel {
            Some(channel) if !self.channels.contains_key(&channel) => return Err(libc::EINVAL),
            Some(channel) => channel,
            None => self.new_channel()?,
        };
        self.last += 1;
        let id = Id::new(self.last, channel, sync, context);
        let pointer = id.public;
        self.serials.insert(id.serial, pointer);
        Ok(self.ids.entry(pointer).or_insert(id))
    }

    fn push(&mut self, pending: Pending) {
        let Some(id) = self.ids.get_mut(&pending.id) else {
            return;
        };
        if let Some(channel) = self.channels.get_mut(&id.channel) {
            channel.push(pending);
        }
    }

    /// Takes in what has come to the socket of an identifier.
    fn hear(&mut self, serial: u64) {
        let Some(&pointer) = self.serials.get(&serial) else {
            return;
        };
        // Others want to be heard, too.
        for _ in 0..64 {
            let Some(id) = self.ids.get_mut(&pointer) else {
                return;
            };
            let Some(socket) = &id.socket else { return };
            let mut bytes = [0; cm::ROOM];
            let pending = match socket.receive(&mut bytes) {
                Ok(Some(received)) => Message::parse(&bytes[..received.len])
                    .and_then(|message| id.hear(message, &received.from)),
                Ok(None) => break,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => id.lose(errno_of(&error)),
            };
            if let Some(pending) = pending {
                self.push(pending);
            }
        }
        if let Some(socket) = self.ids.get(&pointer).and_then(|id| id.socket.as_ref()) {
            // What fails is told by the error; the rest would keep the descriptor ready.
            while let Ok(Some(_)) = socket.completion() {}
        }
    }

    /// Gives up on peers that do not answer; milliseconds until that is to be done again, or -1.
    fn expire(&mut self, now: Instant) -> c_int {
        let late = |id: &Id| id.deadline.is_some_and(|deadline| deadline <= now);
        let late: Vec<_> = self.ids.values().filter(|id| late(id)).collect();
        let late: Vec<_> = late.iter().map(|id| id.public).collect();
        for pointer in late {
            let lost = self.ids.get_mut(&pointer).and_then(|id| {
                id.deadline = None;
                id.lose(libc::ETIMEDOUT)
            });
            if let Some(pending) = lost {
                self.push(pending);
            }
        }
        let next = self.ids.values().filter_map(|id| id.deadline).min();
        next.map_or(-1, |next| {
            let left = next.saturating_duration_since(now).as_millis();
            c_int::try_from(left)
                .unwrap_or(c_int::MAX)
                .saturating_add(1)
        })
    }

    /// The next event of a channel, if there is one.
    fn take(&mut self, channel: ChannelPointer) -> Result<Option<EventPointer>, c_int> {
        loop {
            let from = self.channels.get_mut(&channel).ok_or(libc::EINVAL)?;
            let Some(pending) = from.pop() else {
                return Ok(None);
            };
            let (mut id, mut listener) = (pending.id, ptr::null_mut());
            if let Some((message, from)) = &pending.request {
                listener = id.0;
                id = match self.accept_request(id, message, from) {
                    Ok(child) => child,
                    Err(errno) => {
                        tell(format_args!(
                            "a connection that {} asks for cannot be made: {}",
                            from.addr,
                            std::io::Error::from_raw_os_error(errno)
                        ));
                        reject(from, message, reason::NO_RESOURCES);
                        continue;
                    }
                };
            }
            let event = pending.to_event(id.0, listener);
            if let Some(owner) = self.ids.get_mut(&pending.id) {
                owner.outstanding += 1;
            }
            self.given.insert(event, pending.id);
            return Ok(Some(event));
        }
    }

    /// The identifier of a connection that a peer asks for.
    fn accept_request(
        &mut self,
        listener: IdPointer,
        message: &Message,
        from: &Address,
    ) -> Result<IdPointer, c_int> {
        let opened = self.open()?;
        let id = self.id(listener.0)?;
        id.requests = id.requests.saturating_sub(1);
        let channel = (!id.sync).then_some(id.channel);
        // SAFETY: A known identifier.
        let context = unsafe { (*listener.0).context };
        let peer = Peer {
            addr: from.addr,
            cid: from.cid.ok_or(libc::EHOSTUNREACH)?,
            port: message.source,
            socket: message.socket,
        };
        let socket = Socket::new().map_err(|error| errno_of(&error))?;
        let bound = socket.connect(&peer.address());
        let bound = bound.and_then(|()| socket.set_nonblocking(true));
        bound.map_err(|error| errno_of(&error))?;
        let child = self.new_id(channel, context)?;
        child.state = State::Requested;
        child.port = message.destination;
        child.token = message.token;
        child.theirs = message.terms;
        child.peer = Some(peer);
        let pointer = child.public;
        let made = child.set_route(&opened, false);
        if let Err(errno) = made.and_then(|()| child.keep(socket)) {
            self.forget(pointer);
            return Err(errno);
        }
        self.id(pointer.0)?.set_path();
        Ok(pointer)
    }

    /// EINVAL: it was not given to a program, or was acknowledged.
    fn acknowledge(&mut self, event: EventPointer) -> Result<(), c_int> {
        let owner = self.given.remove(&event).ok_or(libc::EINVAL)?;
        if let Some(id) = self.ids.get_mut(&owner) {
            id.outstanding -= 1;
        }
        // SAFETY: From `to_event`, as it was known, and used no more.
        drop(unsafe { Box::from_raw(event.0.cast::<Event>()) });
        Ok(())
    }

    /// Acknowledges the event that an identifier keeps for calls that wait.
    fn acknowledge_kept(&mut self, id: IdPointer) {
        // SAFETY: A known identifier.
        let event = unsafe { ptr::replace(&raw mut (*id.0).event, ptr::null_mut()) };
        if !event.is_null() {
            // The program may have done it.
            let _ = self.acknowledge(EventPointer(event));
        }
    }

    /// Takes away what the program has not asked for; who asked for a connection is told no.
    fn take_back(&mut self, id: &Id) {
        let Some(channel) = self.channels.get_mut(&id.channel) else {
            return;
        };
        for pending in channel.forget(id.public) {
            if let Some((message, from)) = pending.request {
                reject(&from, &message, reason::NOBODY_LISTENS);
            }
        }
    }

    /// Ends an identifier, whose events are all acknowledged.
    fn forget(&mut self, pointer: IdPointer) {
        let Some(id) = self.ids.remove(&pointer) else {
            return;
        };
        self.serials.remove(&id.serial);
        self.take_back(&id);
        if id.sync {
            let _ = self.end_channel(id.channel);
        }
        id.free();
    }
}

impl Channel {
    fn push(&mut self, pending: Pending) {
        self.waiting.push_back(pending);
        add_one(&self.signal);
    }

    fn pop(&mut self) -> Option<Pending> {
        let first = self.waiting.pop_front()?;
        self.quiet();
        Some(first)
    }

    /// Takes all of an identifier away.
    fn forget(&mut self, id: IdPointer) -> Vec<Pending> {
        let all = std::mem::take(&mut self.waiting);
        let any = !all.is_empty();
        let (of, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|pending| pending.id == id);
        self.waiting = others.into();
        if any {
            self.quiet();
        }
        of
    }

    /// If nothing waits any more, the descriptor is not readable.
    fn quiet(&mut self) {
        if !self.waiting.is_empty() {
            return;
        }
        let mut count: u64 = 0;
        let to: *mut u64 = &mut count;
        // It does not wait: the descriptor is readable.
        // SAFETY: Eight bytes.
        unsafe { libc::read(self.signal.as_raw_fd(), to.cast(), 8) };
    }
}

impl Pending {
    fn new(id: IdPointer, kind: rdma_cm_event_type, status: c_int) -> Self {
        Self {
            id,
            kind,
            status,
            terms: Terms::default(),
            private: Vec::new(),
            request: None,
        }
    }

    /// With what a peer has told.
    fn of(id: IdPointer, kind: rdma_cm_event_type, status: c_int, message: &Message) -> Self {
        Self {
            terms: message.terms,
            private: message.private.clone(),
            ..Self::new(id, kind, status)
        }
    }

    /// The struct for the program, of which `acknowledge` takes it back.
    fn to_event(&self, id: *mut rdma_cm_id, listen_id: *mut rdma_cm_id) -> EventPointer {
        let mut event = Box::new(Event {
            public: rdma_cm_event {
                id,
                listen_id,
                event: self.kind,
                status: self.status,
                ..Default::default()
            },
            private: [0; 256],
        });
        for (to, from) in event.private.iter_mut().zip(&self.private) {
            *to = *from;
        }
        let event = Box::into_raw(event);
        let private_data = match self.private.is_empty() {
            true => ptr::null(),
            // SAFETY: Made just now.
            false => unsafe { (&raw const (*event).private).cast() },
        };
        let terms = &self.terms;
        // What the peer answers is what may be under way here, and the other way round.
        let conn = rdma_conn_param {
            private_data,
            private_data_len: self.private.len() as u8,
            responder_resources: terms.initiator_depth,
            initiator_depth: terms.responder_resources,
            flow_control: terms.flow_control.into(),
            retry_count: terms.retries,
            rnr_retry_count: terms.rnr_retries,
            srq: terms.shared.into(),
            qp_num: terms.queue_pair,
        };
        // SAFETY: As above.
        unsafe { (*event).public.param.conn = conn };
        EventPointer(event.cast())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(channel: ChannelPointer) -> bool {
        // SAFETY: A channel that has not ended.
        let fd = unsafe { (*channel.0).fd };
        let mut one = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: One descriptor, valid for the call.
        unsafe { libc::poll(&mut one, 1, 0) == 1 }
    }

    fn manager() -> (Manager, ChannelPointer, IdPointer) {
        let mut manager = Manager::default();
        let channel = manager.new_channel().unwrap();
        let id = manager.new_id(Some(channel), ptr::null_mut()).unwrap();
        let id = id.public;
        (manager, channel, id)
    }

    fn end(mut manager: Manager, channel: ChannelPointer, id: IdPointer) {
        manager.forget(id);
        assert!(!readable(channel));
        manager.end_channel(channel).unwrap();
        assert_eq!(manager.end_channel(channel), Err(libc::EINVAL));
    }

    #[test]
    fn who_does_not_answer_is_given_up() {
        let (mut manager, channel, id) = manager();
        let now = Instant::now();
        assert_eq!(manager.expire(now), -1);
        let known = manager.id(id.0).unwrap();
        known.state = State::Connecting;
        known.deadline = Some(now + Duration::from_secs(2));
        assert_eq!(manager.expire(now), 2001);
        assert!(!readable(channel));
        assert_eq!(manager.expire(now + Duration::from_secs(2)), -1);
        assert!(readable(channel));
        let event = manager.take(channel).unwrap().unwrap();
        // SAFETY: Not acknowledged yet.
        let (kind, status) = unsafe { ((*event.0).event, (*event.0).status) };
        assert_eq!(kind, RDMA_CM_EVENT_UNREACHABLE);
        assert_eq!(status, -libc::ETIMEDOUT);
        manager.acknowledge(event).unwrap();
        end(manager, channel, id);
    }

    #[test]
    fn events_are_acknowledged_once_and_counted() {
        let (mut manager, channel, id) = manager();
        let mut pending = Pending::new(id, RDMA_CM_EVENT_ESTABLISHED, 0);
        pending.private = vec![1, 2, 3];
        manager.push(pending);
        let event = manager.take(channel).unwrap().unwrap();
        assert!(manager.take(channel).unwrap().is_none());
        assert_eq!(manager.id(id.0).unwrap().outstanding, 1);
        // SAFETY: Not acknowledged yet; the private data is in it.
        let private = unsafe {
            let conn = (*event.0).param.conn;
            assert_eq!((*event.0).id, id.0);
            std::slice::from_raw_parts(conn.private_data.cast::<u8>(), conn.private_data_len.into())
        };
        assert_eq!(private, [1, 2, 3]);
        manager.acknowledge(event).unwrap();
        assert_eq!(manager.acknowledge(event), Err(libc::EINVAL));
        assert_eq!(manager.id(id.0).unwrap().outstanding, 0);
        end(manager, channel, id);
    }

    #[test]
    fn events_of_one_are_taken_away_and_others_stay() {
        let (mut manager, channel, id) = manager();
        let other = manager.new_id(Some(channel), ptr::null_mut()).unwrap();
        let other = other.public;
        for of in [id, other, id] {
            manager.push(Pending::new(of, RDMA_CM_EVENT_DISCONNECTED, 0));
        }
        manager.forget(id);
        assert!(manager.id(id.0).is_err());
        assert!(readable(channel));
        let event = manager.take(channel).unwrap().unwrap();
        // SAFETY: Not acknowledged yet.
        assert_eq!(unsafe { (*event.0).id }, other.0);
        assert!(!readable(channel));
        manager.acknowledge(event).unwrap();
        end(manager, channel, other);
    }
}
