// SPDX-License-Identifier: GPL-2.0 OR MIT
//! What `superp run` preloads: the public functions of libibverbs, which present the SUPERp node of the
//! network namespace as a device beside those of the real library. Objects of other devices go to the real
//! functions.
//!
//! RDMA CM (librdmacm) is there, too, for this device alone: [`cm`] is what two programs tell each other.
//!
//! [`rules`] says what a request of verbs is in SUPERp, without `unsafe`; `ffi` has the functions and the
//! pointers of C.

mod cm;
#[allow(missing_docs)]
mod ffi;
mod rules;
