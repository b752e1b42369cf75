// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The bytes of an input as a source of decisions.

use superp_proto::Config;

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;

/// What is left of an input. Behind its end all values are 0.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn u8(&mut self) -> u8 {
        self.array::<1>()[0]
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    /// A small number of either sign.
    pub(crate) fn near(&mut self) -> i8 {
        i8::from_le_bytes(self.array())
    }

    pub(crate) fn bit(&mut self) -> bool {
        self.u8() & 1 != 0
    }

    /// A number below `n`, which is at most 256 times 256.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        let value = match n {
            0..=256 => self.u8().into(),
            _ => self.u16(),
        };
        usize::from(value) % n.max(1)
    }

    pub(crate) fn pick<T: Copy, const N: usize>(&mut self, from: [T; N]) -> T {
        from[self.below(N)]
    }

    /// The next `n` bytes, or what there is.
    pub(crate) fn take(&mut self, n: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(n.min(self.0.len()));
        self.0 = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        let taken = self.take(N);
        bytes[..taken.len()].copy_from_slice(taken);
        bytes
    }
}

/// A connection's configuration, as is common to both ends.
pub(crate) fn config(input: &mut Input<'_>) -> Config {
    let window = input.pick([16, 32, 33, 64, 100, 256]);
    let mtu = input.pick([128, 200, 528, 1484]);
    let ext = input.bit().into();
    let start_psn = input.pick([0, u32::MAX - 20, 1 << 31, (1 << 30) - 3]);
    let start_xid = input.pick([0, u16::MAX - 5, 1 << 15]);
    let pdl_receive_win = input.pick([window, window / 2, 4, 1]);
    // One byte for both, so that inputs of the corpora mean what they meant without the second.
    let (pdl_ack_every, pdl_congestion) =
        input.pick([(8, 0), (1, 0), (1000, 0), (8, 1), (1, 1), (1000, 1)]);
    Config {
        remote_cid: 7,
        mtu,
        ordered_tx: false,
        ordered_rx: false,
        ext,
        start_psn,
        start_xid,
        pdl_window_size: window,
        pdl_receive_win,
        pdl_ack_every,
        pdl_congestion,
        pdl_delayed_ack_time: input.pick([500 * US, 100, 100 * MS]),
        pdl_rtx_max_pkts: input.pick([8, 0, 64]),
        pdl_rtx_time_win: input.pick([0, MS]),
        tal_trans_window: input.pick([32, 1, 7, 256]),
        tal_max_pkt_per_trans: input.pick([32, 5, 100]),
        tal_max_ops_per_pkt: input.pick([8, 1, 15]),
        ..Config::default()
    }
}
