//! Readers of single arguments, and the lookups that several verbs share.

use crate::failure::Failure;
use raidlab_controller::{IoPolicy, MetadataPolicy, ReadPolicy, WritePolicy};
use raidlab_lab::{Owner, WorkloadError, find_workload, sweep};
use raidlab_units::NanoSpan;
use raidlab_workload::Workload;
use std::path::Path;

/// Queue depths to run at, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Iodepths(pub(crate) Vec<u32>);

/// Lengths of requests in bytes, in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockSizes(pub(crate) Vec<u32>);

/// Shares of reads in percent, in the order given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadPcts(pub(crate) Vec<u8>);

/// Numbers of threads, in the order given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Workers(pub(crate) Vec<u32>);

impl std::str::FromStr for Workers {
    type Err = sweep::SweepError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        sweep::workers(text).map(Self)
    }
}

impl std::str::FromStr for Iodepths {
    type Err = sweep::SweepError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        sweep::iodepths(text).map(Self)
    }
}

impl std::str::FromStr for BlockSizes {
    type Err = sweep::SweepError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        sweep::block_sizes(text).map(Self)
    }
}

impl std::str::FromStr for ReadPcts {
    type Err = sweep::SweepError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        sweep::read_pcts(text).map(Self)
    }
}

/// Reads `write-through`, `write-back` or `write-back-bad-battery`.
pub(crate) fn write_policy(text: &str) -> Result<WritePolicy, String> {
    one_of(
        text,
        &[
            ("write-through", WritePolicy::WriteThrough),
            ("write-back", WritePolicy::WriteBack),
            ("write-back-bad-battery", WritePolicy::WriteBackBadBattery),
        ],
    )
}

/// Reads `none`, `resync`, `bitmap` or `log`.
pub(crate) fn metadata_policy(text: &str) -> Result<MetadataPolicy, String> {
    one_of(text, &MetadataPolicy::ALL.map(|policy| (policy.name(), policy)))
}

/// Reads `no-read-ahead`, `read-ahead` or `adaptive`.
pub(crate) fn read_policy(text: &str) -> Result<ReadPolicy, String> {
    one_of(
        text,
        &[
            ("no-read-ahead", ReadPolicy::NoReadAhead),
            ("read-ahead", ReadPolicy::ReadAhead),
            ("adaptive", ReadPolicy::Adaptive),
        ],
    )
}

/// Reads `direct` or `cached`.
pub(crate) fn io_policy(text: &str) -> Result<IoPolicy, String> {
    one_of(text, &[("direct", IoPolicy::Direct), ("cached", IoPolicy::Cached)])
}

/// Reads how long something may be silent.
pub(crate) fn answer_limit(text: &str) -> Result<NanoSpan, String> {
    const LEAST: NanoSpan = NanoSpan::from_millis(100);
    match text.parse::<NanoSpan>() {
        Ok(limit) if limit < LEAST => Err(format!("{LEAST} is the least")),
        Ok(limit) => Ok(limit),
        Err(error) => Err(error.to_string()),
    }
}

/// Reads `A` or `B`.
pub(crate) fn owner(text: &str) -> Result<Owner, String> {
    one_of(text, &[("A", Owner::A), ("B", Owner::B)])
}

/// Reads `on` or `off`.
pub(crate) fn on_or_off(text: &str) -> Result<bool, String> {
    one_of(text, &[("on", true), ("off", false)])
}

fn one_of<T: Copy>(text: &str, known: &[(&str, T)]) -> Result<T, String> {
    let found = known.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
    found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("'{text}' is none of {}", names.join(", "))
    })
}

/// Looks up each of `names`: a built-in workload by its full or short name, or the path of a workload file.
pub(crate) fn workloads(names: &[String]) -> Result<Vec<Workload>, Failure> {
    names.iter().map(|name| workload(name)).collect()
}

/// Looks up one workload.
pub(crate) fn workload(name: &str) -> Result<Workload, Failure> {
    find_workload(name, Path::new("")).map_err(|error| {
        let is_unknown = matches!(error, WorkloadError::Lookup(_));
        let failure = Failure::input(error);
        if is_unknown { failure.with_hint("'raidlab workloads' lists them all") } else { failure }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_exactly() {
        assert_eq!(write_policy("write-back"), Ok(WritePolicy::WriteBack));
        assert_eq!(read_policy("adaptive"), Ok(ReadPolicy::Adaptive));
        assert_eq!(io_policy("cached"), Ok(IoPolicy::Cached));
        assert_eq!(on_or_off("off"), Ok(false));
        assert_eq!(on_or_off("no"), Err("'no' is none of on, off".into()));
    }
}
