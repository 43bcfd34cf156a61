//! A clean stop: everything reaches the members, and the devices know that they agree.
//!
//! ```text
//! Draining ─► Flushing ─► Clearing ─► Keeping ─► Stopped
//!  cache,      members     log and     state says
//!  requests    if cached,  bitmap      "not dirty"
//!              one more
//!              state
//! ```
//! The state is written once more while members are flushed. So a copy of a member that was taken before all had reached it is two
//! generations behind the state that says "not dirty", and stale.
//!
//! An array that is stopped while stripes are out of sync keeps saying so. A host request after the stop puts the array in
//! use again.

/// How far a stop is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stop {
    #[default]
    NotAsked,
    Draining,
    /// Waits for so many member flushes.
    Flushing(u32),
    Clearing,
    Keeping,
    Stopped,
}

/// What a stop asks for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopStep {
    /// Nothing, before something that is under way has ended.
    Wait,
    /// What the members have taken is to become durable, and the superblock to be written once more.
    Flush,
    ClearBitmap,
    /// The log is to be drained, and the superblock to say "not dirty".
    Clean,
    /// The operator is to be told.
    Tell,
}

impl Stop {
    /// Begins a stop.
    pub(crate) const fn begin(&mut self) {
        *self = Self::Draining;
    }

    /// Takes it back. Returns true if there was one.
    pub(crate) fn end(&mut self) -> bool {
        core::mem::take(self) != Self::NotAsked
    }

    /// True if a stop was asked for.
    pub(crate) fn is_asked(self) -> bool {
        self != Self::NotAsked
    }

    /// True while it has something to do.
    #[inline]
    pub(crate) const fn is_under_way(self) -> bool {
        !matches!(self, Self::NotAsked | Self::Stopped)
    }

    /// Says what is next. The array `is_drained` when nothing is under way that would write to the members; its superblock
    /// `is_settled` when the devices keep it, or never will.
    pub(crate) const fn next(&mut self, is_drained: bool, is_settled: bool) -> StopStep {
        match self {
            Self::Draining if is_drained => StopStep::Flush,
            Self::Flushing(0) if is_settled => {
                *self = Self::Clearing;
                StopStep::ClearBitmap
            }
            Self::Clearing => StopStep::Clean,
            Self::Keeping if is_settled => {
                *self = Self::Stopped;
                StopStep::Tell
            }
            _ => StopStep::Wait,
        }
    }

    /// Notes that it waits for so many member flushes.
    pub(crate) const fn begin_flushes(&mut self, flushes: u32) {
        *self = Self::Flushing(flushes);
    }

    /// Takes in the end of a member flush of a stop.
    pub(crate) fn end_flush(&mut self) {
        let Self::Flushing(pending) = self else { unreachable!("flushes are counted in this phase") };
        *pending -= 1;
    }

    /// Notes that the superblock is to say "not dirty".
    pub(crate) const fn keep(&mut self) {
        *self = Self::Keeping;
    }
}
