// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The connection manager: from a fabric file to a running fabric.

#![forbid(unsafe_code)]

pub mod api;
pub mod decide;
pub mod engine;
pub mod enrolment;
pub mod fabric;
pub mod plan;
pub mod state;
pub mod store;
