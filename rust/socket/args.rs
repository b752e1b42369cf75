// SPDX-License-Identifier: GPL-2.0

//! Addresses and control messages of the family: their form.

use kernel::{prelude::*, transmute::FromBytes};

use crate::{
    kapi::{
        errno::eafnosupport,
        params,
        sock::{AtomicRma, ControlMessage, Key, Meta, Name, Received, Rma, SendRequest},
        uapi,
    },
    qp::Origin,
};

// CAST: Small constants of the ABI; `struct cmsghdr` has them as `int`.
const LEVEL: i32 = uapi::SOL_SUPERP as i32;
const RMA: i32 = uapi::SUPERP_CMSG_RMA as i32;
const ATOMIC: i32 = uapi::SUPERP_CMSG_ATOMIC as i32;
const IMM: i32 = uapi::SUPERP_CMSG_IMM as i32;
const KEY: i32 = uapi::SUPERP_CMSG_KEY as i32;

/// Destination and control messages of a sendmsg() call.
#[derive(Default)]
pub(super) struct SendArgs {
    /// The destination, if the call names one.
    pub(super) name: Option<Name>,
    /// The remote memory request, if there is one.
    pub(super) rma: Option<Rma>,
    /// Operand and comparison value, if the request is an atomic operation.
    pub(super) atomic: Option<(u64, u64)>,
    /// The receive context of the peer and the offset in it, if the message goes there.
    pub(super) key: Option<Key>,
    /// The immediate data, if there is any.
    pub(super) imm: Option<u32>,
}

impl SendArgs {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    ///
    /// - `EINVAL`: a control message is unknown, malformed, or the second of its kind; or as
    ///   [`check_name`].
    /// - `EAFNOSUPPORT`: as [`check_name`].
    pub(super) fn read(request: &SendRequest<'_>) -> Result<Self> {
        let mut args = Self::default();
        if let Some(name) = request.name()? {
            check_name(&name)?;
            args.name = Some(name);
        }
        for message in request.control() {
            args.take(&message?)?;
        }
        Ok(args)
    }

    fn take(&mut self, message: &ControlMessage<'_>) -> Result {
        if message.level != LEVEL {
            return Err(EINVAL);
        }
        let data = message.data;
        match message.kind {
            RMA => set(&mut self.rma, data),
            ATOMIC => {
                let atomic = AtomicRma::from_bytes_copy(data).ok_or(EINVAL)?;
                if self.rma.replace(atomic.rma).is_some() {
                    return Err(EINVAL);
                }
                self.atomic = Some((atomic.operand, atomic.compare));
                Ok(())
            }
            IMM => set(&mut self.imm, data),
            KEY => set(&mut self.key, data),
            _ => Err(EINVAL),
        }
    }
}

/// Reads a control message. `EINVAL` for a wrong length, and for the second one.
fn set<T: FromBytes>(to: &mut Option<T>, data: &[u8]) -> Result {
    let value = T::from_bytes_copy(data).ok_or(EINVAL)?;
    match to.replace(value) {
        Some(_) => Err(EINVAL),
        None => Ok(()),
    }
}

/// Checks an address of the user. Nothing else checks its family, its flags and its range.
///
/// # Errors
///
/// - `EAFNOSUPPORT`: another family.
/// - `EINVAL`: a reserved field, or the queue pair number has over 24 bits.
pub(super) fn check_name(name: &Name) -> Result {
    if name.ssp_family != params::family() {
        return Err(eafnosupport());
    }
    if name.ssp_flags != 0 || name.ssp_qpn > uapi::SUPERP_QPN_MAX {
        return Err(EINVAL);
    }
    Ok(())
}

/// Returns the control messages of a received message, and the address of its sender.
pub(super) fn describe(meta: &Meta, reply: &mut Received<'_>) -> Name {
    let origin = Origin::of(meta);
    if let Some(imm) = &origin.imm {
        reply.put_control(LEVEL, IMM, imm);
    }
    if let Some(placed) = &origin.placed {
        reply.put_control(LEVEL, KEY, placed);
    }
    Name {
        ssp_family: params::family(),
        ssp_flags: 0,
        ssp_qpn: 0,
        ssp_addr: origin.addr,
        ssp_cid: origin.cid,
    }
}
