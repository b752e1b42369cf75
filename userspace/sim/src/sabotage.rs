// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Faults of the simulator itself, to prove that the invariants can fail.

use clap::ValueEnum;

/// What the owner of a connection does wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Sabotage {
    /// Nothing.
    #[default]
    None,
    /// Every fifth piece of data is not placed.
    DropDelivery,
    /// Every fifth piece of data is placed twice.
    RepeatDelivery,
    /// A bit of every fifth piece of data is changed.
    DamageDelivery,
    /// Held packets are released in the wrong order.
    WrongRelease,
    /// A completion is not told to whoever submitted the request.
    LoseCompletion,
    /// A completion is told twice.
    RepeatCompletion,
    /// Timers never expire.
    NoTimer,
    /// The timer is taken to be due again and again.
    TimerStorm,
    /// Windows are twice as wide as was agreed.
    WideWindow,
    /// Barriers are not given to the connection.
    NoBarrier,
    /// Every fifth packet acknowledges what was never sent.
    ForgeAck,
    /// A connection that is reset gets the start values that it had.
    SameStart,
    /// The identifier of a connection that was removed is given out again at once.
    NoQuarantine,
}
