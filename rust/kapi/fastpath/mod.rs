// SPDX-License-Identifier: GPL-2.0

//! Shortcuts through the network stack. The module works without each of them.
//! Documentation/fastpath.md says what each saves, what it takes from the stack, and how to switch
//! it off.

pub(crate) mod run;
