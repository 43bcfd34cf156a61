//! An estimate of the remaining time of a study.
//!
//! Real runs take their planned time plus the drain and the start of each; simulated ones take as long as earlier ones.
//! Both are measured: the time since the latest first run of a kind, over the runs finished since.

use crate::study::Study;
use raidlab_units::NanoSpan;
use raidlab_workload::World;
use std::time::Instant;

/// Simulated runs are taken for this long until the first few have ended.
const SIMULATED_GUESS: NanoSpan = NanoSpan::from_millis(100);

/// Runs of one kind.
#[derive(Debug)]
struct Kind {
    left: u64,
    finished: u64,
    /// Planned time of one run on average.
    guess: NanoSpan,
    /// When the first of them started, as near as is known.
    since: Option<Instant>,
}

/// Runs of all kinds.
#[derive(Debug)]
pub(super) struct Pace {
    measured: Kind,
    array: Kind,
    simulated: Kind,
    last: Instant,
}

impl Pace {
    pub(super) fn of(study: &Study) -> Self {
        let rounds = u64::from(study.repeats);
        let measured = study
            .measures
            .iter()
            .map(|section| (rounds * section.load.run_count(), section.load.run + section.load.ramp));
        let array = study
            .arrays
            .iter()
            .map(|section| (rounds * section.run_count(), section.load.run + section.load.ramp));
        let simulated = study.simulations.iter().map(|section| (section.run_count(), SIMULATED_GUESS));
        Self {
            measured: Kind::planned(measured),
            array: Kind::planned(array),
            simulated: Kind::planned(simulated),
            last: Instant::now(),
        }
    }

    /// Takes in that a run of `world` ended now.
    pub(super) fn finish(&mut self, world: World) {
        let started = std::mem::replace(&mut self.last, Instant::now());
        let kind = match world {
            World::Measured => &mut self.measured,
            World::Array => &mut self.array,
            World::Simulated => &mut self.simulated,
        };
        kind.since.get_or_insert(started);
        kind.finished += 1;
        kind.left = kind.left.saturating_sub(1);
    }

    pub(super) fn remaining(&self) -> NanoSpan {
        [&self.measured, &self.array, &self.simulated].into_iter().map(|kind| kind.remaining(self.last)).sum()
    }
}

impl Kind {
    fn planned(sections: impl Iterator<Item = (u64, NanoSpan)>) -> Self {
        let (runs, time) = sections
            .fold((0, NanoSpan::ZERO), |(runs, time), (count, span)| (runs + count, time + span * count));
        Self { left: runs, finished: 0, guess: time / runs.max(1), since: None }
    }

    fn remaining(&self, now: Instant) -> NanoSpan {
        let taken = self.since.map(|since| NanoSpan(now.duration_since(since).as_nanos() as u64));
        let each = taken.map_or(self.guess, |taken| taken / self.finished.max(1));
        each * self.left
    }
}
