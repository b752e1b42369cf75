// SPDX-License-Identifier: GPL-2.0

//! Generic netlink: requests with their attributes, replies, dumps and events; and the C entry
//! points of the family's operations.

use super::{bindings as c, net::Net};
use core::{ffi::CStr, marker::PhantomData, ptr, ptr::NonNull, slice};
use kernel::{
    error::{from_result, to_result},
    ffi,
    fmt::{Arguments, Write},
    prelude::*,
    str::NullTerminatedFormatter,
};

/// Numbers of the family, from `uapi/linux/superp_netlink.h`.
pub(crate) mod numbers {
    pub(crate) use super::c::*;
}

/// Stands for the registered family.
///
/// # Invariants
///
/// The family is registered, and this is the only value of this type.
pub(crate) struct Registration(());

impl Registration {
    /// Registers the family. Process context; once, when the module is loaded, after the
    /// namespaces' nodes exist.
    pub(crate) fn new() -> Result<Self> {
        // SAFETY: Called once.
        to_result(unsafe { c::superp_nl_register() })?;
        // INVARIANT: It was registered just now.
        Ok(Self(()))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { c::superp_nl_unregister() }
    }
}

/// A request, its attributes validated by the policy of its operation. Process context.
///
/// # Invariants
///
/// The pointer is a request that lives for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a>(NonNull<c::genl_info>, PhantomData<&'a ()>);

impl<'a> Request<'a> {
    /// The network namespace of the socket that asks.
    pub(crate) fn net(self) -> Net {
        // SAFETY: By the type invariant.
        let net = unsafe { c::superp_nl_net(self.0.as_ptr()) };
        // SAFETY: A request has a namespace.
        let net = unsafe { NonNull::new_unchecked(net) };
        // SAFETY: A request holds its socket, which holds the namespace; what is done for a request
        // ends before the request does.
        unsafe { Net::from_raw(net) }
    }

    /// The attributes of a type, in order.
    pub(crate) fn attrs(self, attr: u32) -> impl Iterator<Item = Attr<'a>> {
        let mut last = ptr::null();
        core::iter::from_fn(move || {
            // CAST: Attribute types are 14 bits.
            // SAFETY: By the type invariant; `last` is null or an attribute of the request.
            let next = unsafe { c::superp_nl_next(self.0.as_ptr(), last, attr as u16) };
            last = next;
            // INVARIANT: An attribute lives in its request.
            NonNull::new(next.cast_mut()).map(|attr| Attr(attr, PhantomData))
        })
        .fuse()
    }

    /// The attribute of a type: the last one if there are several, as everywhere in netlink.
    pub(crate) fn attr(self, attr: u32) -> Option<Attr<'a>> {
        self.attrs(attr).last()
    }

    /// Refuses the request with a sentence. `at` is the attribute at fault.
    pub(crate) fn refuse(self, at: Option<Attr<'_>>, error: Error, text: &'static CStr) -> Error {
        // SAFETY: By the type invariants; the text is static.
        unsafe { c::superp_nl_refuse(self.0.as_ptr(), Attr::ptr(at), text.as_char_ptr()) };
        error
    }

    /// As [`refuse`](Self::refuse), with a text of 79 bytes at most.
    pub(crate) fn refuse_fmt(
        self,
        at: Option<Attr<'_>>,
        error: Error,
        text: Arguments<'_>,
    ) -> Error {
        let mut buffer = [0; 80];
        if let Some(mut out) = NullTerminatedFormatter::new(&mut buffer) {
            // What does not fit is cut off.
            let _ = out.write_fmt(text);
        }
        // SAFETY: By the type invariants; the formatter ends the text by a zero byte.
        unsafe { c::superp_nl_refuse_text(self.0.as_ptr(), Attr::ptr(at), buffer.as_ptr().cast()) };
        error
    }

    /// Refuses the request because an attribute is missing.
    pub(crate) fn missing(self, attr: u32, text: &'static CStr) -> Error {
        // CAST: Attribute types are 14 bits.
        // SAFETY: By the type invariant; the text is static.
        unsafe { c::superp_nl_missing(self.0.as_ptr(), attr as u16, text.as_char_ptr()) };
        EINVAL
    }

    /// Answers the request with what `fill` puts into a message.
    pub(crate) fn reply(self, fill: impl FnOnce(&mut Message<'_>) -> Result) -> Result {
        let mut msg = ptr::null_mut();
        // SAFETY: By the type invariant; `msg` is valid for the call.
        let skb = unsafe { c::superp_nl_reply_new(self.0.as_ptr(), &mut msg) };
        let skb = NonNull::new(skb).ok_or(ENOMEM)?;
        // INVARIANT: It was made just now.
        if let Err(error) = fill(&mut Message(skb, PhantomData)) {
            // SAFETY: It is ours and not used any more.
            unsafe { c::superp_nl_free(skb.as_ptr()) };
            return Err(error);
        }
        // SAFETY: By the type invariant; the reply is ours and is consumed.
        to_result(unsafe { c::superp_nl_reply(self.0.as_ptr(), skb.as_ptr(), msg) })
    }
}

/// An attribute of a request.
///
/// # Invariants
///
/// The pointer is an attribute of a validated request that lives for `'a`.
#[derive(Clone, Copy)]
pub(crate) struct Attr<'a>(NonNull<c::nlattr>, PhantomData<&'a ()>);

impl<'a> Attr<'a> {
    fn ptr(attr: Option<Self>) -> *const c::nlattr {
        attr.map_or(ptr::null(), |attr| attr.0.as_ptr())
    }

    /// The payload.
    pub(crate) fn bytes(self) -> &'a [u8] {
        // SAFETY: By the type invariant.
        let (data, len) = unsafe {
            (
                c::superp_nl_data(self.0.as_ptr()),
                c::superp_nl_len(self.0.as_ptr()),
            )
        };
        // SAFETY: The kernel has checked that the payload lies inside the request, which nobody
        // writes to.
        unsafe { slice::from_raw_parts(data.cast(), len.into()) }
    }

    /// The payload, if it is `N` bytes.
    pub(crate) fn array<const N: usize>(self) -> Result<[u8; N]> {
        self.bytes().try_into().map_err(|_| EINVAL)
    }

    /// An integer of 1, 2, 4 or 8 bytes.
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

    /// A string, without the zero byte at its end.
    pub(crate) fn text(self) -> &'a [u8] {
        let bytes = self.bytes();
        bytes.split(|byte| *byte == 0).next().unwrap_or(bytes)
    }

    /// An attribute inside this one, which the policy says is nested.
    pub(crate) fn nested(self, attr: u32) -> Option<Attr<'a>> {
        // CAST: Attribute types are 14 bits.
        // SAFETY: By the type invariant.
        let found = unsafe { c::superp_nl_nested(self.0.as_ptr(), attr as u16) };
        // INVARIANT: It lives in the same request.
        NonNull::new(found.cast_mut()).map(|attr| Attr(attr, PhantomData))
    }
}

/// A message that is being filled. Every `put` fails with `EMSGSIZE` when it is full.
///
/// # Invariants
///
/// The pointer carries a message that was started and not ended, for `'a`.
pub(crate) struct Message<'a>(NonNull<c::sk_buff>, PhantomData<&'a mut ()>);

impl Message<'_> {
    /// Bytes as they are.
    pub(crate) fn put(&mut self, attr: u32, data: &[u8]) -> Result {
        // CAST: Attribute types are 14 bits.
        // SAFETY: By the type invariant; the data are valid for the call.
        to_result(unsafe {
            c::superp_nl_put(
                self.0.as_ptr(),
                attr as u16,
                data.as_ptr().cast(),
                data.len(),
            )
        })
    }

    /// An attribute of type u8.
    pub(crate) fn put_u8(&mut self, attr: u32, value: u8) -> Result {
        self.put(attr, &[value])
    }

    /// An attribute of type u16.
    pub(crate) fn put_u16(&mut self, attr: u32, value: u16) -> Result {
        self.put(attr, &value.to_ne_bytes())
    }

    /// An attribute of type u32.
    pub(crate) fn put_u32(&mut self, attr: u32, value: u32) -> Result {
        self.put(attr, &value.to_ne_bytes())
    }

    /// An attribute of type uint: 4 bytes if they suffice, else 8.
    pub(crate) fn put_uint(&mut self, attr: u32, value: u64) -> Result {
        match u32::try_from(value) {
            Ok(short) => self.put_u32(attr, short),
            Err(_) => self.put(attr, &value.to_ne_bytes()),
        }
    }

    /// An attribute of type string.
    pub(crate) fn put_text(&mut self, attr: u32, text: impl AsRef<[u8]>) -> Result {
        let text = text.as_ref();
        // CAST: Attribute types are 14 bits.
        // SAFETY: By the type invariant; the text is valid for the call.
        to_result(unsafe {
            c::superp_nl_put_text(self.0.as_ptr(), attr as u16, text.as_ptr(), text.len())
        })
    }

    /// An attribute of type flag.
    pub(crate) fn put_flag(&mut self, attr: u32) -> Result {
        self.put(attr, &[])
    }

    /// An attribute that holds what `fill` puts.
    pub(crate) fn nest(
        &mut self,
        attr: u32,
        fill: impl FnOnce(&mut Message<'_>) -> Result,
    ) -> Result {
        // CAST: Attribute types are 14 bits.
        // SAFETY: By the type invariant.
        let nest = unsafe { c::superp_nl_nest_start(self.0.as_ptr(), attr as u16) };
        if nest.is_null() {
            return Err(EMSGSIZE);
        }
        // On failure the whole message is dropped, the open attribute with it.
        fill(self)?;
        // SAFETY: By the type invariant; `nest` was started in this message just now.
        unsafe { c::superp_nl_nest_end(self.0.as_ptr(), nest) };
        Ok(())
    }
}

/// A call of a dump: fills one buffer with messages.
///
/// # Invariants
///
/// The pointers are what the kernel gave to a dump callback, valid for `'a`.
pub(crate) struct Dump<'a> {
    skb: NonNull<c::sk_buff>,
    cb: NonNull<c::netlink_callback>,
    _request: PhantomData<&'a ()>,
}

impl<'a> Dump<'a> {
    /// What started the dump.
    pub(crate) fn request(&self) -> Request<'a> {
        // SAFETY: By the type invariant.
        let info = unsafe { c::superp_nl_dump_info(self.cb.as_ptr()) };
        // SAFETY: A dump has a request.
        let info = unsafe { NonNull::new_unchecked(info.cast_mut()) };
        // INVARIANT: It lives as long as the dump.
        Request(info, PhantomData)
    }

    /// Dumps objects in the order of their numbers: `next` gives the one with the lowest number
    /// from its argument on, with its number.
    pub(crate) fn each<T>(
        self,
        next: impl Fn(u64) -> Option<(u64, T)>,
        fill: impl Fn(&mut Message<'_>, &T) -> Result,
    ) -> Result {
        // SAFETY: By the type invariant; one call of a dump runs at a time.
        let position = unsafe { &mut *c::superp_nl_dump_position(self.cb.as_ptr()) };
        while let Some((number, object)) = next(*position) {
            // SAFETY: By the type invariant.
            let msg =
                unsafe { c::superp_nl_dump_put(self.skb.as_ptr(), self.request().0.as_ptr()) };
            if msg.is_null() {
                return Err(EMSGSIZE);
            }
            // INVARIANT: It was started just now.
            if let Err(error) = fill(&mut Message(self.skb, PhantomData), &object) {
                // SAFETY: It is the last message of the buffer.
                unsafe { c::superp_nl_cancel(self.skb.as_ptr(), msg) };
                return Err(error);
            }
            // SAFETY: As above.
            unsafe { c::superp_nl_end(self.skb.as_ptr(), msg) };
            *position = number.saturating_add(1);
        }
        Ok(())
    }
}

/// Sends an event to those who listen in a namespace; costs next to nothing when nobody does. Any
/// context.
pub(crate) fn event(net: Net, fill: impl FnOnce(&mut Message<'_>) -> Result) {
    let mut msg = ptr::null_mut();
    // SAFETY: `msg` is valid for the call.
    let Some(skb) = NonNull::new(unsafe { c::superp_nl_event_new(&mut msg) }) else {
        return;
    };
    // INVARIANT: It was made just now.
    if fill(&mut Message(skb, PhantomData)).is_ok() {
        // SAFETY: By the type invariant of `net`; the event is ours and is consumed.
        unsafe { c::superp_nl_event_send(net.as_ptr(), skb.as_ptr(), msg) };
    } else {
        // SAFETY: It is ours and not used any more.
        unsafe { c::superp_nl_free(skb.as_ptr()) };
    }
}

/// Whether anyone listens to the events of a namespace. Any context.
pub(crate) fn event_wanted(net: Net) -> bool {
    // SAFETY: By the type invariant of `net`.
    unsafe { c::superp_nl_event_wanted(net.as_ptr()) }
}

/// The name of a device. Any context.
pub(crate) fn with_device_name<T>(
    net: Net,
    ifindex: u32,
    with: impl FnOnce(&str) -> T,
) -> Option<T> {
    let mut name = [0; 16];
    // SAFETY: By the type invariant of `net`; the buffer is valid for the call.
    let found = unsafe { c::superp_nl_device_name(net.as_ptr(), ifindex, name.as_mut_ptr()) };
    let name = CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?;
    found.then(|| with(name))
}

/// The addresses of a device, link-local ones excepted; IPv4 is mapped into IPv6. Any context.
pub(crate) fn device_addresses(net: Net, ifindex: u32) -> impl Iterator<Item = [u8; 16]> {
    (0..=u32::MAX).map_while(move |nth| {
        let mut addr = [0; 16];
        // SAFETY: By the type invariant of `net`; the buffer is valid for the call.
        unsafe { c::superp_nl_device_address(net.as_ptr(), ifindex, nth, addr.as_mut_ptr()) }
            .then_some(addr)
    })
}

/// A request, for the handler that it is for.
///
/// # Safety
///
/// Called by generic netlink, with a validated request.
pub(crate) unsafe fn doit(
    info: *mut c::genl_info,
    handler: fn(Request<'_>) -> Result,
) -> ffi::c_int {
    from_result(|| {
        let info = NonNull::new(info).ok_or(EINVAL)?;
        // INVARIANT: The request lives until this returns.
        handler(Request(info, PhantomData))?;
        Ok(0)
    })
}

/// A call of a dump, for the handler that it is for.
///
/// # Safety
///
/// Called by generic netlink, with a buffer and a dump whose request is validated.
pub(crate) unsafe fn dumpit(
    skb: *mut c::sk_buff,
    cb: *mut c::netlink_callback,
    handler: fn(Dump<'_>) -> Result,
) -> ffi::c_int {
    from_result(|| {
        // INVARIANT: Both live until this returns.
        handler(Dump {
            skb: NonNull::new(skb).ok_or(EINVAL)?,
            cb: NonNull::new(cb).ok_or(EINVAL)?,
            _request: PhantomData,
        })?;
        Ok(0)
    })
}

/// Defines the C functions that the generated tables name.
macro_rules! operations {
    (do { $($doit:ident => $do_handler:path,)* } dump { $($dumpit:ident => $dump_handler:path,)* }) => {
        $(
            /// # Safety
            ///
            /// As [`nl::doit`]($crate::kapi::nl::doit).
            #[no_mangle]
            unsafe extern "C" fn $doit(
                _skb: *mut $crate::kapi::bindings::sk_buff,
                info: *mut $crate::kapi::bindings::genl_info,
            ) -> ::kernel::ffi::c_int {
                // SAFETY: By this function's contract.
                unsafe { $crate::kapi::nl::doit(info, $do_handler) }
            }
        )*
        $(
            /// # Safety
            ///
            /// As [`nl::dumpit`]($crate::kapi::nl::dumpit).
            #[no_mangle]
            unsafe extern "C" fn $dumpit(
                skb: *mut $crate::kapi::bindings::sk_buff,
                cb: *mut $crate::kapi::bindings::netlink_callback,
            ) -> ::kernel::ffi::c_int {
                // SAFETY: By this function's contract.
                unsafe { $crate::kapi::nl::dumpit(skb, cb, $dump_handler) }
            }
        )*
    };
}

pub(crate) use operations;
