//! Rules that a specification must satisfy on any target, and the messages of violations.

use super::{AccessLine, AccessSpec, MixPart};
use crate::actor::{Actor, Phase};
use crate::op::IoOp;
use crate::pacing::{FlushRule, Pacing};
use crate::places::{PlacedFiles, Places};
use crate::rhythm::Rhythm;
use raidlab_units::{ByteCount, NanoSpan};

/// Why a list of lines is no access specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// There is no line.
    #[error("workload '{spec}' has no line: give at least one with size, share, read and random percent")]
    NoLines {
        /// Name of the specification.
        spec: String,
    },
    /// The shares do not add up.
    #[error("the shares of workload '{spec}' add up to {sum_pct} percent: make them 100")]
    ShareSum {
        /// Name of the specification.
        spec: String,
        /// What they add up to.
        sum_pct: u32,
    },
    /// A percentage is above 100.
    #[error("line {line} of workload '{spec}' has {column} = {pct}: a percentage is 0 to 100")]
    Percentage {
        /// Name of the specification.
        spec: String,
        /// Which line, from 1.
        line: usize,
        /// Which column.
        column: &'static str,
        /// What was given.
        pct: u8,
    },
    /// A length or count that must be above zero is zero.
    #[error("line {line} of workload '{spec}' has {column} = 0: it must be at least 1")]
    Zero {
        /// Name of the specification.
        spec: String,
        /// Which line, from 1.
        line: usize,
        /// Which column.
        column: &'static str,
    },
    /// Lines and parts exclude each other.
    #[error("workload '{spec}' has lines and parts: put the lines into a part of their own")]
    LinesAndParts {
        /// Name of the specification.
        spec: String,
    },
    /// Some parts have a weight and others none.
    #[error("workload '{spec}' has parts with and without a weight: give all of them one, or none")]
    SomeWeights {
        /// Name of the specification.
        spec: String,
    },
    /// It is for more targets than there are, or for fewer.
    #[error(
        "workload '{spec}' has parts for {needs} targets, and here {}: give it as many, in the order of their numbers",
        if *count == 1 { "is one".to_owned() } else { format!("are {count}") }
    )]
    Targets {
        /// Name of the specification.
        spec: String,
        /// Targets that its parts are for.
        needs: u32,
        /// Targets that there are.
        count: u32,
    },
    /// Two parts have one name.
    #[error("workload '{spec}' has two parts called '{part}': give each a name of its own")]
    SameNames {
        /// Name of the specification.
        spec: String,
        /// The name.
        part: String,
    },
    /// A setting is wrong, or does not go with another.
    #[error("workload '{spec}': {key} {problem}")]
    Setting {
        /// Name of the specification, or of the part.
        spec: String,
        /// Which setting.
        key: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// An actor has a setting of its own, which no other can replace.
    #[error(
        "workload '{spec}': the {what} of its part '{part}' is that of its {kind}, and no other can replace it: leave it out, or give \
         a workload file of your own"
    )]
    OfActor {
        /// Name of the specification.
        spec: String,
        /// What was to be replaced.
        what: &'static str,
        /// The part.
        part: String,
        /// What makes its requests.
        kind: &'static str,
    },
    /// The size of a mix cannot be replaced by one size.
    #[error("workload '{spec}' mixes {sizes} sizes: one block size cannot replace them, leave it out")]
    MixedSizes {
        /// Name of the specification.
        spec: String,
        /// How many different sizes it has.
        sizes: usize,
    },
}

impl AccessLine {
    fn validate(&self, spec: &str, line: usize) -> Result<(), SpecError> {
        let percentages =
            [("share_pct", self.share_pct), ("read_pct", self.read_pct), ("random_pct", self.random_pct)];
        if let Some(&(column, pct)) = percentages.iter().find(|(_, pct)| *pct > 100) {
            return Err(SpecError::Percentage { spec: spec.into(), line, column, pct });
        }
        let counts = [("size", self.bytes), ("burst", self.burst)];
        match counts.iter().find(|(_, count)| *count == 0) {
            Some(&(column, _)) => Err(SpecError::Zero { spec: spec.into(), line, column }),
            None => Ok(()),
        }
    }
}

impl AccessSpec {
    /// Checks all that holds for any target.
    ///
    /// # Errors
    /// [`SpecError`] names the line and column, or the setting, that is wrong.
    pub fn validate(&self) -> Result<(), SpecError> {
        let setting = |key, problem| Err(SpecError::Setting { spec: self.name.clone(), key, problem });
        if self.data.compressible_pct > 100 || self.data.dedupe_pct > 100 {
            return setting("data", "has a percentage above 100");
        }
        if self.trace.is_some() {
            return self.check_trace();
        }
        if self.parts.is_empty() {
            check_rhythm(&self.name, self.pacing, &self.rhythm)?;
            return check_stream(&self.name, &self.lines, &self.places, self.pacing, self.iodepth);
        }
        if !self.lines.is_empty() {
            return Err(SpecError::LinesAndParts { spec: self.name.clone() });
        }
        let has_weights = self.has_weights();
        if self.parts.iter().any(|part| part.weight.is_some() != has_weights) {
            return Err(SpecError::SomeWeights { spec: self.name.clone() });
        }
        if self.places != Places::default() {
            return setting("places", "are those of each part: write them there");
        }
        let is_steady = self.rhythm.is_steady();
        if !has_weights && (has_loop_keys(self.pacing, self.iodepth, self.flush) || !is_steady) {
            return setting(LOOP_KEYS, "are those of each part without weights");
        }
        for (index, part) in self.parts.iter().enumerate() {
            if self.parts[..index].iter().any(|other| other.name == part.name) {
                return Err(SpecError::SameNames { spec: self.name.clone(), part: part.name.clone() });
            }
            self.check_part(part)?;
        }
        let is_idle =
            |target: &u32| !self.parts.iter().any(|part| part.target.is_none_or(|own| own.get() == *target));
        // No more are looked at than there are parts.
        let looked_at = self.targets().unwrap_or(0).min(self.parts.len() as u32 + 1);
        if (1..=looked_at).any(|target| is_idle(&target)) {
            return setting("target", "leaves out a target with a smaller number: number them from 1");
        }
        check_rhythm(&self.name, self.pacing, &self.rhythm)?;
        if has_weights { check_loop(&self.name, self.pacing, self.iodepth) } else { Ok(()) }
    }

    /// Says what is wrong with the part of an actor, if anything is: the key, and why.
    fn check_actor(&self, part: &MixPart, actor: &Actor) -> Option<(&'static str, &'static str)> {
        if !part.lines.is_empty() || part.weight.is_some() {
            return Some(("line and weight", "have no place beside an actor: give them a part of their own"));
        }
        if has_loop_keys(part.pacing, part.iodepth, part.flush) {
            return Some((LOOP_KEYS, "are those of lines: the actor has its own"));
        }
        let other = actor.other_part();
        let writes = |other: &MixPart| match &other.actor {
            Some(actor) => actor.ops().iter().any(IoOp::changes_data),
            None => other.lines.iter().any(|line| line.read_pct < 100),
        };
        let is_kind = |other: &MixPart, key| match key {
            "pauses" => matches!(other.actor, Some(Actor::Accelerator(_))),
            _ => other.name != part.name && writes(other),
        };
        if part.places.files != PlacedFiles::default() {
            return Some(("files", "are those of lines: the actor has its own"));
        }
        if let Some((key, name)) = other {
            let mut likely = self.parts.iter().filter(|other| other.name == name && is_kind(other, key));
            match likely.next() {
                None if key == "pauses" => {
                    return Some((key, "must be the name of a part with accelerators"));
                }
                None => return Some((key, "must be the name of another part, one that writes")),
                Some(other) if other.target != part.target => {
                    return Some((key, "must be the name of a part for the same target"));
                }
                Some(_) => {}
            }
        }
        part.places.complaint().or_else(|| actor.complaint())
    }

    /// A trace has nothing beside it but what writes carry.
    fn check_trace(&self) -> Result<(), SpecError> {
        let Self { name, data, trace, .. } = self;
        let alone = Self { name: name.clone(), data: *data, trace: trace.clone(), ..Self::default() };
        if *self == alone {
            return Ok(());
        }
        let (spec, key) =
            (name.clone(), "lines, parts, places, arrival, limit, think, iodepth and flush_every");
        Err(SpecError::Setting { spec, key, problem: "are those of the trace: leave them out" })
    }

    fn check_part(&self, part: &MixPart) -> Result<(), SpecError> {
        let name = format!("{}/{}", self.name, part.name);
        let wrong = |key, problem| Err(SpecError::Setting { spec: name.clone(), key, problem });
        if part.weight == Some(0) {
            return wrong("weight", "must be at least 1");
        }
        if part.weight.is_some() && has_loop_keys(part.pacing, part.iodepth, part.flush) {
            return wrong(LOOP_KEYS, "are those of all parts where they have weights");
        }
        if part.weight.is_some() && part.target.is_some() {
            return wrong(
                "target",
                "has no place beside weight: parts with weights share one loop, on each target",
            );
        }
        if let Some((key, problem)) = part.phase.complaint() {
            return wrong(key, problem);
        }
        if part.phase != Phase::default() && (part.weight.is_some() || part.pacing.is_open()) {
            return wrong("phase", "goes with closed loops and actors: leave out weight and arrival");
        }
        check_rhythm(&name, part.pacing, &part.rhythm)?;
        if let Some(actor) = &part.actor {
            return self.check_actor(part, actor).map_or(Ok(()), |(key, problem)| wrong(key, problem));
        }
        if part.weight.is_some() && self.pacing.is_open() && has_delay(&part.lines) {
            return wrong("delay", "has no meaning where requests arrive at a rate: leave it out");
        }
        check_stream(&name, &part.lines, &part.places, part.pacing, part.iodepth)
    }
}

/// What belongs to a loop, by its keys.
const LOOP_KEYS: &str = "arrival, limit, think, iodepth and flush_every";

fn has_loop_keys(pacing: Pacing, iodepth: Option<u32>, flush: Option<FlushRule>) -> bool {
    pacing != Pacing::default() || iodepth.is_some() || flush.is_some()
}

fn has_delay(lines: &[AccessLine]) -> bool {
    lines.iter().any(|line| line.delay > NanoSpan::ZERO)
}

/// What holds for one stream of requests, called `name` in errors.
fn check_stream(
    name: &str,
    lines: &[AccessLine],
    places: &Places,
    pacing: Pacing,
    iodepth: Option<u32>,
) -> Result<(), SpecError> {
    if lines.is_empty() {
        return Err(SpecError::NoLines { spec: name.into() });
    }
    for (index, line) in lines.iter().enumerate() {
        line.validate(name, index + 1)?;
    }
    let sum_pct = lines.iter().map(|line| u32::from(line.share_pct)).sum();
    if sum_pct != 100 {
        return Err(SpecError::ShareSum { spec: name.into(), sum_pct });
    }
    let setting = |key, problem| Err(SpecError::Setting { spec: name.into(), key, problem });
    if pacing.is_open() && has_delay(lines) {
        return setting("delay", "has no meaning where requests arrive at a rate: leave it out");
    }
    match places.complaint() {
        Some((key, problem)) => setting(key, problem),
        None => check_loop(name, pacing, iodepth),
    }
}

/// What holds for a rate that changes.
fn check_rhythm(name: &str, pacing: Pacing, rhythm: &Rhythm) -> Result<(), SpecError> {
    let wrong = |(key, problem)| Err(SpecError::Setting { spec: name.into(), key, problem });
    match pacing {
        _ if rhythm.is_steady() => Ok(()),
        Pacing::Open(arrivals) => rhythm.complaint(arrivals.rate).map_or(Ok(()), wrong),
        Pacing::Closed(_) => wrong(("rhythm", "is that of arrivals: give it an arrival with a rate")),
    }
}

/// What holds for one loop.
fn check_loop(name: &str, pacing: Pacing, iodepth: Option<u32>) -> Result<(), SpecError> {
    let zero = |key| Err(SpecError::Setting { spec: name.into(), key, problem: "must be at least 1" });
    match pacing {
        _ if iodepth == Some(0) => zero("iodepth"),
        Pacing::Open(arrivals) if arrivals.burst == 0 => zero("burst"),
        Pacing::Closed(closed) if closed.bytes_per_sec_max == Some(ByteCount::ZERO) => zero("bytes_per_sec"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    fn spec(lines: Vec<AccessLine>) -> AccessSpec {
        AccessSpec::new("made-up", lines)
    }

    #[test]
    fn what_is_wrong_is_named() {
        let good = AccessLine::plain(4096, 67, 100);
        let half = AccessLine { share_pct: 50, ..good };
        let table = [
            (vec![good], "ok"),
            (vec![half, half], "ok"),
            (vec![half, half, AccessLine { share_pct: 0, ..good }], "ok"),
            (
                vec![],
                "workload 'made-up' has no line: give at least one with size, share, read and random percent",
            ),
            (vec![half], "the shares of workload 'made-up' add up to 50 percent: make them 100"),
            (vec![good, half], "the shares of workload 'made-up' add up to 150 percent: make them 100"),
            (
                vec![half, AccessLine { read_pct: 101, ..half }],
                "line 2 of workload 'made-up' has read_pct = 101: a percentage is 0 to 100",
            ),
            (
                vec![AccessLine { random_pct: 200, ..good }],
                "line 1 of workload 'made-up' has random_pct = 200: a percentage is 0 to 100",
            ),
            (
                vec![AccessLine { bytes: 0, ..good }],
                "line 1 of workload 'made-up' has size = 0: it must be at least 1",
            ),
            (
                vec![AccessLine { burst: 0, ..good }],
                "line 1 of workload 'made-up' has burst = 0: it must be at least 1",
            ),
        ];
        for (lines, expected) in table {
            let said =
                spec(lines.clone()).validate().map_or_else(|error| error.to_string(), |()| "ok".into());
            assert_eq!(said, expected, "{lines:?}");
        }
    }

    #[test]
    fn parts_and_settings_that_make_no_sense_are_named() {
        let lines = || vec![AccessLine::plain(4096, 100, 100)];
        let part =
            |name: &str, weight| MixPart { name: name.into(), weight, lines: lines(), ..MixPart::default() };
        let mix = |parts| AccessSpec { name: "mix".into(), parts, ..AccessSpec::default() };
        let rate = crate::pacing::RequestRate::new(10.0).unwrap();
        let process = crate::pacing::ArrivalProcess::Fixed;
        let open = Pacing::Open(crate::pacing::Arrivals { process, rate, burst: 1 });
        let delayed = vec![AccessLine { delay: NanoSpan(1), ..AccessLine::plain(4096, 100, 100) }];
        let good = mix(vec![part("a", None), part("b", None)]);
        assert_eq!(good.validate(), Ok(()));
        assert_eq!((good.iodepth(3), good.has_own_iodepth(), good.is_open()), (6, false, false));
        let on = |name: &str, target| MixPart { target: NonZeroU32::new(target), ..part(name, None) };
        let open_part = mix(vec![MixPart { pacing: open, iodepth: Some(9), ..part("a", None) }]);
        assert_eq!((open_part.iodepth(3), open_part.has_own_iodepth(), open_part.is_open()), (9, true, true));
        let table = [
            (
                AccessSpec { lines: lines(), ..good.clone() },
                "workload 'mix' has lines and parts: put the lines into a part of their own",
            ),
            (
                mix(vec![part("a", Some(1)), part("b", None)]),
                "workload 'mix' has parts with and without a weight: give all of them one, or none",
            ),
            (
                mix(vec![part("a", None), part("a", None)]),
                "workload 'mix' has two parts called 'a': give each a name of its own",
            ),
            (mix(vec![part("a", Some(0))]), "workload 'mix/a': weight must be at least 1"),
            (
                mix(vec![on("a", 1), on("b", 3)]),
                "workload 'mix': target leaves out a target with a smaller number: number them from 1",
            ),
            (
                mix(vec![on("a", u32::MAX)]),
                "workload 'mix': target leaves out a target with a smaller number: number them from 1",
            ),
            (
                mix(vec![MixPart { weight: Some(1), ..on("a", 1) }]),
                "workload 'mix/a': target has no place beside weight: parts with weights share one loop, on each target",
            ),
            (
                mix(vec![MixPart { iodepth: Some(0), ..part("a", None) }]),
                "workload 'mix/a': iodepth must be at least 1",
            ),
            (
                mix(vec![MixPart { iodepth: Some(1), ..part("a", Some(1)) }]),
                "workload 'mix/a': arrival, limit, think, iodepth and flush_every are those of all parts where they have weights",
            ),
            (
                AccessSpec { iodepth: Some(1), ..good },
                "workload 'mix': arrival, limit, think, iodepth and flush_every are those of each part without weights",
            ),
            (
                AccessSpec { pacing: open, ..spec(delayed) },
                "workload 'made-up': delay has no meaning where requests arrive at a rate: leave it out",
            ),
            (
                AccessSpec { places: Places { working_set_pct: 0.0, ..Places::default() }, ..spec(lines()) },
                "workload 'made-up': working_set_pct must be above 0 and up to 100",
            ),
        ];
        for (spec, expected) in table {
            assert_eq!(spec.validate().unwrap_err().to_string(), expected);
        }
    }
}
