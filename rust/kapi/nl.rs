// SPDX-License-Identifier: GPL-2.0

//! Generic netlink: requests, attributes, replies, dumps and events, and the entry points of the
//! family's operations.

use super::{bindings as c, net::Net};
use core::{ffi::CStr, marker::PhantomData, ptr, ptr::NonNull, slice};
use kernel::{
    error::{from_result, to_result},
    ffi,
    fmt::{Arguments, Write},
    prelude::*,
    str::NullTerminatedFormatter,
};

/// Constants of the family, from `uapi/linux/superp_netlink.h`.
pub(crate) mod numbers {
    pub(crate) use super::c::*;
}

/// The registration of the netlink family.
///
/// # Invariants
///
/// The family is registered, and this is the only value of this type.
pub(crate) struct Registration(());

impl Registration {
    /// Registers the family. Process context.
    ///
    /// # Safety
    ///
    /// There is no other value of this type. A [`super::net::Registration`] exists, and is dropped
    /// after the result.
    pub(super) unsafe fn new() -> Result<Self> {
        // SAFETY: By this function's contract the family is not registered.
        to_result(unsafe { c::superp_nl_register() })?;
        // INVARIANT: `superp_nl_register()` has registered the family.
        Ok(Self(()))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: By the type invariant the family is registered.
        unsafe { c::superp_nl_unregister() }
    }
}

/// A request whose attributes the policy of its operation has validated. Process context.
///
/// # Invariants
///
/// The pointer is a request that is valid for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a>(NonNull<c::genl_info>, PhantomData<&'a ()>);

impl<'a> Request<'a> {
    /// Network namespace of the socket that sent the request.
    pub(crate) fn net(self) -> &'a Net {
        // SAFETY: By the type invariant the pointer is a valid request.
        let net = unsafe { c::superp_nl_net(self.0.as_ptr()) };
        // SAFETY: Every request has a namespace.
        let net = unsafe { NonNull::new_unchecked(net) };
        // SAFETY: The request holds its socket for `'a`, and the socket holds the namespace.
        unsafe { Net::from_raw(net) }
    }

    /// Whether the caller has `CAP_NET_ADMIN` in the namespace. Process context.
    pub(crate) fn may_administer(self) -> bool {
        // SAFETY: By the type invariant the pointer is a valid request.
        unsafe { c::superp_nl_may_administer(self.0.as_ptr()) }
    }

    /// The attributes of type `attr`, in order.
    pub(crate) fn attrs(self, attr: u32) -> impl Iterator<Item = Attr<'a>> {
        let mut last = ptr::null();
        core::iter::from_fn(move || {
            // CAST: Attribute types are 14 bits.
            // SAFETY: By the type invariant the pointer is a valid request. `last` is null or an
            // attribute of it.
            let next = unsafe { c::superp_nl_next(self.0.as_ptr(), last, attr as u16) };
            last = next;
            // INVARIANT: The attribute is part of the request, which is valid for `'a`.
            NonNull::new(next.cast_mut()).map(|attr| Attr(attr, PhantomData))
        })
        .fuse()
    }

    /// The attribute of type `attr`. If there are several, the last one counts, as elsewhere in
    /// netlink.
    pub(crate) fn attr(self, attr: u32) -> Option<Attr<'a>> {
        self.attrs(attr).last()
    }

    /// Refuses the request with `error` and a sentence for the user. `at` is the offending
    /// attribute. Returns `error`.
    pub(crate) fn refuse(self, at: Option<Attr<'_>>, error: Error, text: &'static CStr) -> Error {
        // SAFETY: By the type invariants request and attribute are valid; the text is static.
        unsafe { c::superp_nl_refuse(self.0.as_ptr(), Attr::ptr(at), text.as_char_ptr()) };
        error
    }

    /// As [`refuse`](Self::refuse), with a formatted text, which is cut off after 79 bytes.
    pub(crate) fn refuse_fmt(
        self,
        at: Option<Attr<'_>>,
        error: Error,
        text: Arguments<'_>,
    ) -> Error {
        let mut buffer = [0; 80];
        if let Some(mut out) = NullTerminatedFormatter::new(&mut buffer) {
            // An error says that the text was cut off, which is intended.
            let _ = out.write_fmt(text);
        }
        // SAFETY: By the type invariants request and attribute are valid. The formatter ends the
        // text with a zero byte.
        unsafe { c::superp_nl_refuse_text(self.0.as_ptr(), Attr::ptr(at), buffer.as_ptr().cast()) };
        error
    }

    /// Refuses the request because attribute `attr` is missing. Returns `EINVAL`.
    pub(crate) fn missing(self, attr: u32, text: &'static CStr) -> Error {
        // CAST: Attribute types are 14 bits.
        // SAFETY: By the type invariant the pointer is a valid request; the text is static.
        unsafe { c::superp_nl_missing(self.0.as_ptr(), attr as u16, text.as_char_ptr()) };
        EINVAL
    }

    /// Replies to the request with the attributes that `fill` puts into the message.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, the error of `fill`, or that of sending.
    pub(crate) fn reply(self, fill: impl FnOnce(&mut Message<'_>) -> Result) -> Result {
        let mut msg = ptr::null_mut();
        // SAFETY: By the type invariant the pointer is a valid request; `msg` is valid for writes.
        let skb = unsafe { c::superp_nl_reply_new(self.0.as_ptr(), &mut msg) };
        let skb = NonNull::new(skb).ok_or(ENOMEM)?;
        // INVARIANT: `superp_nl_reply_new()` has started the message.
        if let Err(error) = fill(&mut Message(skb, PhantomData)) {
            // SAFETY: This function owns the buffer, and nobody uses it afterwards.
            unsafe { c::superp_nl_free(skb.as_ptr()) };
            return Err(error);
        }
        // SAFETY: By the type invariant the pointer is a valid request. This function owns the
        // buffer and passes it on; `msg` is the message in it.
        to_result(unsafe { c::superp_nl_reply(self.0.as_ptr(), skb.as_ptr(), msg) })
    }
}

/// An attribute of a request.
///
/// # Invariants
///
/// The pointer is an attribute of a validated request that is valid for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Attr<'a>(NonNull<c::nlattr>, PhantomData<&'a ()>);

impl<'a> Attr<'a> {
    fn ptr(attr: Option<Self>) -> *const c::nlattr {
        attr.map_or(ptr::null(), |attr| attr.0.as_ptr())
    }

    /// The payload.
    pub(crate) fn bytes(self) -> &'a [u8] {
        // SAFETY: By the type invariant the pointer is a valid attribute.
        let (data, len) = unsafe {
            (
                c::superp_nl_data(self.0.as_ptr()),
                c::superp_nl_len(self.0.as_ptr()),
            )
        };
        // SAFETY: Netlink has checked that the payload is inside of the request. Nobody writes to
        // the request.
        unsafe { slice::from_raw_parts(data.cast(), len.into()) }
    }

    /// The payload, if it has `N` bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL`: it has another length.
    pub(crate) fn array<const N: usize>(self) -> Result<[u8; N]> {
        self.bytes().try_into().map_err(|_| EINVAL)
    }

    /// The value of an integer of 1, 2, 4 or 8 bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL`: the payload has another length.
    pub(crate) fn integer(self) -> Result<u64> {
        let bytes = self.bytes();
        match bytes.len() {
            1 => self.array().map(|b| u8::from_ne_bytes(b).into()),
            2 => self.array().map(|b| u16::from_ne_bytes(b).into()),
            4 => self.array().map(|b| u32::from_ne_bytes(b).into()),
            8 => self.array().map(u64::from_ne_bytes),
            _ => Err(EINVAL),
        }
    }

    /// The text of a string, without the terminating zero.
    pub(crate) fn text(self) -> &'a [u8] {
        let bytes = self.bytes();
        bytes.split(|byte| *byte == 0).next().unwrap_or(bytes)
    }

    /// The first attribute of type `attr` in this one, which the policy declares as nested.
    pub(crate) fn nested(self, attr: u32) -> Option<Attr<'a>> {
        // CAST: Attribute types are 14 bits.
        // SAFETY: By the type invariant the pointer is a valid attribute, which is nested.
        let found = unsafe { c::superp_nl_nested(self.0.as_ptr(), attr as u16) };
        // INVARIANT: The attribute is part of the same request.
        NonNull::new(found.cast_mut()).map(|attr| Attr(attr, PhantomData))
    }
}

/// A message under construction. Every `put` fails with `EMSGSIZE` if the buffer is full.
///
/// # Invariants
///
/// The pointer is a buffer with a message that was started and is not finished, for `'a`.
pub(crate) struct Message<'a>(NonNull<c::sk_buff>, PhantomData<&'a mut ()>);

impl Message<'_> {
    /// Appends an attribute with payload `data`.
    pub(crate) fn put(&mut self, attr: u32, data: &[u8]) -> Result {
        // CAST: Attribute types are 14 bits.
        // SAFETY: By the type invariant the buffer has an unfinished message; `data` is readable.
        to_result(unsafe {
            c::superp_nl_put(
                self.0.as_ptr(),
                attr as u16,
                data.as_ptr().cast(),
                data.len(),
            )
        })
    }

    /// Appends an attribute of type u8.
    pub(crate) fn put_u8(&mut self, attr: u32, value: u8) -> Result {
        self.put(attr, &[value])
    }

    /// Appends an attribute of type u16.
    pub(crate) fn put_u16(&mut self, attr: u32, value: u16) -> Result {
        self.put(attr, &value.to_ne_bytes())
    }

    /// Appends an attribute of type u32.
    pub(crate) fn put_u32(&mut self, attr: u32, value: u32) -> Result {
        self.put(attr, &value.to_ne_bytes())
    }

    /// Appends an attribute of type uint: 4 bytes if the value fits, otherwise 8.
    pub(crate) fn put_uint(&mut self, attr: u32, value: u64) -> Result {
        match u32::try_from(value) {
            Ok(short) => self.put_u32(attr, short),
            Err(_) => self.put(attr, &value.to_ne_bytes()),
        }
    }

    /// Appends an attribute of type string.
    pub(crate) fn put_text(&mut self, attr: u32, text: impl AsRef<[u8]>) -> Result {
        let text = text.as_ref();
        // CAST: Attribute types are 14 bits.
        // SAFETY: By the type invariant the buffer has an unfinished message; `text` is readable.
        to_result(unsafe {
            c::superp_nl_put_text(self.0.as_ptr(), attr as u16, text.as_ptr(), text.len())
        })
    }

    /// Appends an attribute of type flag.
    pub(crate) fn put_flag(&mut self, attr: u32) -> Result {
        self.put(attr, &[])
    }

    /// Appends a nested attribute with the attributes that `fill` puts.
    pub(crate) fn nest(
        &mut self,
        attr: u32,
        fill: impl FnOnce(&mut Message<'_>) -> Result,
    ) -> Result {
        // CAST: Attribute types are 14 bits.
        // SAFETY: By the type invariant the buffer has an unfinished message.
        let nest = unsafe { c::superp_nl_nest_start(self.0.as_ptr(), attr as u16) };
        if nest.is_null() {
            return Err(EMSGSIZE);
        }
        // If this fails, the caller drops the whole message with the unfinished nest.
        fill(self)?;
        // SAFETY: By the type invariant the buffer has an unfinished message, in which `nest` was
        // started.
        unsafe { c::superp_nl_nest_end(self.0.as_ptr(), nest) };
        Ok(())
    }
}

/// One call of a dump, which fills one buffer with messages.
///
/// # Invariants
///
/// The pointers are those that netlink passed to a dump callback, valid for `'a`.
pub(crate) struct Dump<'a> {
    skb: NonNull<c::sk_buff>,
    cb: NonNull<c::netlink_callback>,
    _request: PhantomData<&'a ()>,
}

impl<'a> Dump<'a> {
    /// The request that started the dump.
    pub(crate) fn request(&self) -> Request<'a> {
        // SAFETY: By the type invariant `cb` is a valid dump.
        let info = unsafe { c::superp_nl_dump_info(self.cb.as_ptr()) };
        // SAFETY: Every dump has a request.
        let info = unsafe { NonNull::new_unchecked(info.cast_mut()) };
        // INVARIANT: The request is valid as long as the dump.
        Request(info, PhantomData)
    }

    /// Dumps objects in the order of their numbers. `next(n)` returns the object with the lowest
    /// number that is at least `n`, and that number.
    ///
    /// # Errors
    ///
    /// `EMSGSIZE` if the buffer is full; the next call of the dump then begins with that object.
    /// Otherwise the error of `fill`.
    pub(crate) fn each<T>(
        self,
        next: impl Fn(u64) -> Option<(u64, T)>,
        fill: impl Fn(&mut Message<'_>, &T) -> Result,
    ) -> Result {
        // SAFETY: By the type invariant `cb` is a valid dump. Netlink runs one call of a dump at a
        // time, so the reference is the only one.
        let position = unsafe { &mut *c::superp_nl_dump_position(self.cb.as_ptr()) };
        while let Some((number, object)) = next(*position) {
            // SAFETY: By the type invariant buffer and request are valid.
            let msg =
                unsafe { c::superp_nl_dump_put(self.skb.as_ptr(), self.request().0.as_ptr()) };
            if msg.is_null() {
                return Err(EMSGSIZE);
            }
            // INVARIANT: `superp_nl_dump_put()` has started the message.
            if let Err(error) = fill(&mut Message(self.skb, PhantomData), &object) {
                // SAFETY: `msg` is the last message in the buffer.
                unsafe { c::superp_nl_cancel(self.skb.as_ptr(), msg) };
                return Err(error);
            }
            // SAFETY: `msg` is the last message in the buffer.
            unsafe { c::superp_nl_end(self.skb.as_ptr(), msg) };
            *position = number.saturating_add(1);
        }
        Ok(())
    }
}

/// Multicasts event `cmd` to the listeners in a namespace. Costs little if there are none. Without
/// memory the event is lost. Any context up to softirq.
pub(crate) fn event(net: &Net, cmd: u8, fill: impl FnOnce(&mut Message<'_>) -> Result) {
    let mut msg = ptr::null_mut();
    // SAFETY: `msg` is valid for writes.
    let Some(skb) = NonNull::new(unsafe { c::superp_nl_event_new(cmd, &mut msg) }) else {
        return;
    };
    // INVARIANT: `superp_nl_event_new()` has started the message.
    if fill(&mut Message(skb, PhantomData)).is_ok() {
        // SAFETY: `net` is a valid namespace. This function owns the buffer
        // and passes it on; `msg` is the message in it.
        unsafe { c::superp_nl_event_send(net.as_ptr(), skb.as_ptr(), msg) };
    } else {
        // SAFETY: This function owns the buffer, and nobody uses it afterwards.
        unsafe { c::superp_nl_free(skb.as_ptr()) };
    }
}

/// Whether anyone listens to the events of a namespace. Any context.
pub(crate) fn event_wanted(net: &Net) -> bool {
    // SAFETY: `net` is a valid namespace.
    unsafe { c::superp_nl_event_wanted(net.as_ptr()) }
}

/// Calls `with` with the name of a device. `None` if there is no such device. Any context.
pub(crate) fn with_device_name<T>(
    net: &Net,
    ifindex: u32,
    with: impl FnOnce(&str) -> T,
) -> Option<T> {
    let mut name = [0; 16];
    // SAFETY: `net` is a valid namespace; `name` is `IFNAMSIZ` bytes.
    let found = unsafe { c::superp_nl_device_name(net.as_ptr(), ifindex, name.as_mut_ptr()) };
    let name = CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?;
    found.then(|| with(name))
}

/// The IP addresses of a device, v4-mapped or IPv6, without link-local ones. Any context up to
/// softirq.
pub(crate) fn device_addresses(net: &Net, ifindex: u32) -> impl Iterator<Item = [u8; 16]> + '_ {
    (0..=u32::MAX).map_while(move |nth| {
        let mut addr = [0; 16];
        // SAFETY: `net` is a valid namespace; `addr` is 16 bytes.
        unsafe { c::superp_nl_device_address(net.as_ptr(), ifindex, nth, addr.as_mut_ptr()) }
            .then_some(addr)
    })
}

/// Calls the handler of a request.
///
/// # Safety
///
/// Generic netlink calls this with a validated request.
pub(crate) unsafe fn doit(
    info: *mut c::genl_info,
    handler: fn(Request<'_>) -> Result,
) -> ffi::c_int {
    from_result(|| {
        let info = NonNull::new(info).ok_or(EINVAL)?;
        // INVARIANT: Generic netlink keeps the request until this function returns.
        handler(Request(info, PhantomData))?;
        Ok(0)
    })
}

/// Calls the handler of a dump.
///
/// # Safety
///
/// Generic netlink calls this with a buffer and with a dump whose request is validated.
pub(crate) unsafe fn dumpit(
    skb: *mut c::sk_buff,
    cb: *mut c::netlink_callback,
    handler: fn(Dump<'_>) -> Result,
) -> ffi::c_int {
    from_result(|| {
        // INVARIANT: Netlink keeps both until this function returns.
        handler(Dump {
            skb: NonNull::new(skb).ok_or(EINVAL)?,
            cb: NonNull::new(cb).ok_or(EINVAL)?,
            _request: PhantomData,
        })?;
        Ok(0)
    })
}

/// Defines the entry points of the operations, whose names the generated tables contain.
macro_rules! operations {
    (do { $($doit:ident => $do_handler:path,)* } dump { $($dumpit:ident => $dump_handler:path,)* }) => {
        $(
            /// # Safety
            ///
            /// The requirements are those of [`nl::doit`]($crate::kapi::nl::doit).
            #[no_mangle]
            unsafe extern "C" fn $doit(
                _skb: *mut $crate::kapi::bindings::sk_buff,
                info: *mut $crate::kapi::bindings::genl_info,
            ) -> ::kernel::ffi::c_int {
                // SAFETY: The caller meets the requirements of `doit`.
                unsafe { $crate::kapi::nl::doit(info, $do_handler) }
            }
        )*
        $(
            /// # Safety
            ///
            /// The requirements are those of [`nl::dumpit`]($crate::kapi::nl::dumpit).
            #[no_mangle]
            unsafe extern "C" fn $dumpit(
                skb: *mut $crate::kapi::bindings::sk_buff,
                cb: *mut $crate::kapi::bindings::netlink_callback,
            ) -> ::kernel::ffi::c_int {
                // SAFETY: The caller meets the requirements of `dumpit`.
                unsafe { $crate::kapi::nl::dumpit(skb, cb, $dump_handler) }
            }
        )*
    };
}

pub(crate) use operations;
