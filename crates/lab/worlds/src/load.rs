//! The load of a run, the same in every world, and the matrix of loads of a study's section.

use crate::feeding::accelerator;
use crate::text_file::{TextFileError, read_text};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::toml_file::TomlFileError;
use raidlab_workload::{
    Accelerator, AccessLine, AccessSpec, DriverConfig, LookupError, Metric, OfferedLoad, Pacing, SpecError,
    Workload, builtin_workload,
};
use serde::{Serialize, Serializer};
use std::path::Path;

/// A window that ends with its trace and not by time: 146 years.
pub const RUN_TO_THE_END: NanoSpan = NanoSpan(u64::MAX / 4);

/// Why a workload can't be had.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// It is no built-in one.
    #[error(transparent)]
    Lookup(#[from] LookupError),
    /// Its file can't be read.
    #[error("the workload file {0}")]
    Read(#[from] TextFileError),
    /// Its file is wrong.
    #[error(transparent)]
    Toml(#[from] TomlFileError),
}

/// Returns the workload called `name`: a built-in one by its full or short name, or the file of that path if it ends in
/// `.toml`, seen from `folder`.
///
/// # Errors
/// [`WorkloadError`] says what may have been meant, or what is wrong in the file and where.
pub fn find_workload(name: &str, folder: &Path) -> Result<Workload, WorkloadError> {
    if Path::new(name).extension().is_none_or(|extension| extension != "toml") {
        return Ok(builtin_workload(name)?);
    }
    let path = folder.join(name);
    let text = read_text(&path)?;
    Ok(Workload::from_toml(&path.display().to_string(), &text)?)
}

/// Every workload at every length of requests and every share of reads. Where a list is empty the workload's own is kept;
/// what is varied stands in the name, so that figures of different variants are never taken for each other.
///
/// # Errors
/// [`SpecError`] if a workload is a mix of sizes and lengths are given, or has actors, which have their own.
pub fn varied(
    workloads: &[Workload],
    block_sizes: &[u32],
    read_pcts: &[u8],
) -> Result<Vec<Workload>, SpecError> {
    let mut variants = Vec::new();
    for workload in workloads {
        let sizes: Vec<Option<u32>> = or_none(block_sizes);
        for (size, read_pct) in
            sizes.iter().flat_map(|size| or_none(read_pcts).into_iter().map(|pct| (*size, pct)))
        {
            let mut variant = workload.clone();
            if let Some(bytes) = size {
                variant.spec = variant.spec.with_block_bytes(bytes)?;
                variant.spec.name = format!("{} at {}", variant.spec.name, ByteCount(u64::from(bytes)));
            }
            if let Some(pct) = read_pct {
                variant.spec = variant.spec.with_read_pct(pct)?;
                variant.spec.name = format!("{} with {pct} % reads", variant.spec.name);
            }
            variants.push(variant);
        }
    }
    Ok(variants)
}

/// Numbers in flight were given, and none of the workloads takes one from its run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "workload {workloads} has its own number of requests in flight, which an iodepth does not change: leave it out"
)]
pub struct OwnIodepths {
    /// Names of the workloads, in quotes.
    pub workloads: String,
}

/// Checks that a number in flight changes any of `workloads`.
///
/// # Errors
/// [`OwnIodepths`] where all have their own.
pub fn check_iodepths<'a>(workloads: impl IntoIterator<Item = &'a Workload>) -> Result<(), OwnIodepths> {
    let mut own = Vec::new();
    for workload in workloads {
        if !workload.spec.has_own_iodepth() {
            return Ok(());
        }
        own.push(format!("'{}'", workload.name()));
    }
    own.dedup();
    if own.is_empty() { Ok(()) } else { Err(OwnIodepths { workloads: own.join(", ") }) }
}

/// Each of `values`, or nothing once.
fn or_none<T: Copy>(values: &[T]) -> Vec<Option<T>> {
    if values.is_empty() { vec![None] } else { values.iter().copied().map(Some).collect() }
}

/// What one run asks of its target.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// What to ask, and how to judge the answer.
    pub workload: Workload,
    /// Requests in flight, of each worker on each target.
    pub iodepth: u32,
    /// Threads that make the load, on real targets; 1 everywhere else.
    pub workers: u32,
    /// Time before the measured window.
    pub ramp: NanoSpan,
    /// Length of the measured window.
    pub run: NanoSpan,
    /// Seed of everything random.
    pub seed: u64,
    /// Ends with as many requests of the greatest length as the region holds, if the window is not over before.
    pub once: bool,
    /// On an array the ramp is made as long as its write-back cache takes to get into its steady state; `ramp` is the least. In virtual
    /// time so is the window, where a cache fills and empties in cycles; `run` is the least.
    pub settles: bool,
}

impl Load {
    /// A load that writes all of a target once, in sequence: 128 KiB each, 32 in flight.
    pub fn filling(seed: u64) -> Self {
        const BYTES: u32 = 128 << 10;
        let spec = AccessSpec::new("preconditioning", vec![AccessLine::plain(BYTES, 0, 0)]);
        let workload = Workload {
            title: "Preconditioning".into(),
            source: "SNIA Solid State Storage Performance Test Specification".into(),
            metric: Metric::MbPerS,
            notes: String::new(),
            block_bytes_published: Vec::new(),
            spec,
        };
        // The end of the target ends it, not the time.
        let run = NanoSpan::from_secs(7 * 86_400);
        Self {
            workload,
            iodepth: 32,
            workers: 1,
            ramp: NanoSpan::ZERO,
            run,
            seed,
            once: true,
            settles: false,
        }
    }

    /// The driver's settings for this load on the first `region` of a target with blocks of `block_bytes`.
    pub fn driver_config(&self, region: ByteCount, block_bytes: u32) -> DriverConfig {
        let request_bytes = u64::from(self.workload.spec.request_bytes_max());
        DriverConfig {
            region,
            block_bytes,
            iodepth: self.iodepth,
            seed: self.seed,
            ramp: self.ramp,
            run: self.run,
            max_requests: self.once.then(|| (region.get() / request_bytes.max(1)).max(1)),
            ..DriverConfig::default()
        }
    }

    /// The load in a few words.
    pub fn label(&self) -> String {
        let spec = &self.workload.spec;
        let accelerators = accelerator(spec).map(|it| OfferedLoad::Accelerators(it.count));
        let load = match (accelerators, spec.pacing, self.workers) {
            (Some(count), ..) => count.to_string(),
            (None, Pacing::Open(arrivals), _) => format!("{} requests/s", arrivals.rate.per_second()),
            (None, Pacing::Closed(_), 0 | 1) => format!("iodepth {}", spec.iodepth(self.iodepth)),
            (None, Pacing::Closed(_), n) if spec.has_own_iodepth() => {
                format!("iodepth {} of {n} workers together", spec.iodepth(self.iodepth))
            }
            (None, Pacing::Closed(_), n) => {
                format!("iodepth {} of each of {n} workers", spec.iodepth(self.iodepth))
            }
        };
        format!("{} at {load}", self.workload.name())
    }

    /// Time that a real run takes by plan.
    pub fn duration(&self) -> NanoSpan {
        self.ramp + self.run
    }
}

/// The loads of a section: every workload with every number of workers at every iodepth that makes a difference to it.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct LoadPlan {
    /// Workloads.
    #[serde(serialize_with = "names_only")]
    #[schemars(with = "Vec<String>")]
    pub workloads: Vec<Workload>,
    /// Requests in flight, of each worker on each target.
    pub iodepths: Vec<u32>,
    /// Threads that make the load, on real targets; 1 alone everywhere else.
    pub workers: Vec<u32>,
    /// Time before each measured window.
    pub ramp: NanoSpan,
    /// Length of each measured window.
    pub run: NanoSpan,
    /// On arrays the ramp is as long as write-back caches take to get into their steady state; `ramp` is the least.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub settles: bool,
    /// Whether windows may be longer where accelerators need that: nobody said how long they are.
    #[serde(skip)]
    pub may_lengthen: bool,
}

impl LoadPlan {
    /// The accelerators of a plan that has nothing else: they read sample files where they can.
    pub fn accelerators_alone(&self) -> Option<&Accelerator> {
        let [workload] = &self.workloads[..] else { return None };
        accelerator(&workload.spec).filter(|_| workload.spec.parts.len() == 1)
    }

    /// Number of loads.
    pub fn run_count(&self) -> u64 {
        let depths: usize = self.workloads.iter().map(|workload| self.iodepths_of(workload).len()).sum();
        (depths * self.workers.len()) as u64
    }

    /// The numbers in flight at which a workload is run: one run is all there is to a workload with numbers of its own.
    fn iodepths_of(&self, workload: &Workload) -> &[u32] {
        let is_one = workload.spec.has_own_iodepth();
        if is_one { &self.iodepths[..self.iodepths.len().min(1)] } else { &self.iodepths }
    }

    /// Every load: workload first, then workers, then iodepth.
    pub fn loads(&self, seed: u64) -> impl Iterator<Item = Load> {
        let depths = move |workload, workers: u32| {
            self.iodepths_of(workload).iter().map(move |iodepth| (workers, *iodepth))
        };
        self.workloads.iter().flat_map(move |workload| {
            self.workers.iter().flat_map(move |workers| depths(workload, *workers)).map(
                move |(workers, iodepth)| Load {
                    workload: workload.clone(),
                    iodepth,
                    workers,
                    ramp: self.ramp,
                    run: self.run,
                    seed,
                    once: false,
                    settles: self.settles && workload.spec.trace.is_none() && !workload.spec.has_actors(),
                },
            )
        })
    }

    /// Checks that `region` holds a request of every workload, and what its actors work on.
    ///
    /// # Errors
    /// Says in words what does not fit.
    pub fn check_region(&self, region: ByteCount) -> Result<(), String> {
        let request = |spec: &AccessSpec| ("a request", ByteCount(u64::from(spec.request_bytes_max())));
        let all = |workload: &Workload| {
            let of_actors = workload.spec.actors().map(|(_, actor)| actor.room(1)).collect::<Vec<_>>();
            of_actors.into_iter().chain([request(&workload.spec)]).find(|(_, needs)| *needs > region)
        };
        let too_large = |workload| Some((workload, all(workload)?));
        match self.workloads.iter().find_map(too_large) {
            Some((workload, (what, needs))) => Err(format!(
                "is {}, smaller than {what} of workload '{}', which takes {}: make it larger",
                region.beside(&needs),
                workload.name(),
                needs.beside(&region)
            )),
            None => Ok(()),
        }
    }
}

/// Writes workloads by their names, which the results carry too.
fn names_only<S: Serializer>(workloads: &[Workload], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(workloads.iter().map(Workload::name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_the_cross_product_and_say_what_they_are() {
        let database = find_workload("storagebench-database", Path::new("")).unwrap();
        let names = |sizes: &[u32], pcts: &[u8]| -> Vec<String> {
            let variants = varied(std::slice::from_ref(&database), sizes, pcts).unwrap();
            variants.iter().map(|variant| variant.name().to_owned()).collect()
        };
        assert_eq!(names(&[], &[]), ["storagebench-database"]);
        assert_eq!(
            names(&[4096, 65_536], &[0, 100]),
            [
                "storagebench-database at 4 KiB with 0 % reads",
                "storagebench-database at 4 KiB with 100 % reads",
                "storagebench-database at 64 KiB with 0 % reads",
                "storagebench-database at 64 KiB with 100 % reads",
            ]
        );
        let reads = varied(&[database], &[], &[100]).unwrap();
        assert!(!reads[0].spec.writes() && reads[0].spec.reads());
        let mix = find_workload("fastt600-file-server", Path::new("")).unwrap();
        assert!(varied(&[mix], &[4096], &[]).is_err(), "a mix of sizes has no one size to replace");
    }
}
