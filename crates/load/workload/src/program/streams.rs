//! Results of parallel readers, as stored and shown: rates of all together and of each, and how far to trust them.
//!
//! | figure | meaning |
//! |---|---|
//! | aggregate | the bytes of all timed reads, divided by their mean time, as the publication counts |
//! | delivered | everything read, timed or not, from the first start to the end of the last timed read, divided by that time |
//! | fairness | Jain's index of the rates of the timed reads: 1 if all are equal, 1/N if one has everything |
//! | overlap | average share of that time during which readers were reading |
//!
//! Source of the index: R. Jain, D. Chiu, W. Hawe, DEC-TR-301 (1984).

use super::{LoadWindow, ReaderFigures, Readers};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};
use serde::{Deserialize, Serialize};

/// Below this overlap a result warns.
const OVERLAP_LEAST: f64 = 0.99;
/// Above this share of the files in memory a result that is to be cold warns.
const CACHED_MOST: f64 = 0.01;

/// What came of the timed read of one reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StreamFigures {
    /// Bytes read.
    pub bytes: u64,
    /// From opening to the end of the file.
    pub elapsed_ns: u64,
    /// Processor time of the reader.
    pub cpu_ns: u64,
}

/// How files were made cold, and whether they were.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ColdFacts {
    /// What was done: `drop`, `advise`, `direct` or `none`.
    pub how: String,
    /// Share of the files' pages that were in memory when the readers started, from 0 to 1; none where that can't be seen.
    pub cached_share: Option<f64>,
}

/// What came of readers that started at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct StreamsFigures {
    /// Length of a read.
    pub block_bytes: u64,
    /// Length of a file.
    pub file_bytes: u64,
    /// Each reader's timed read.
    pub readers: Vec<StreamFigures>,
    /// From the first start to the end of the last timed read.
    pub window_ns: u64,
    /// Bytes that all readers read in it, timed or not.
    pub delivered_bytes: u64,
    /// Share of it that readers were reading, on average, from 0 to 1.
    pub overlap: f64,
    /// Readers that ran out of files before the end of it.
    pub ran_out: u32,
    /// Whether files were cold; none where a model takes them to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<ColdFacts>,
}

impl From<ReaderFigures> for StreamFigures {
    fn from(figures: ReaderFigures) -> Self {
        Self { bytes: figures.bytes, elapsed_ns: figures.elapsed.0, cpu_ns: figures.cpu.0 }
    }
}

impl StreamsFigures {
    /// The figures of `readers`, which are done, with `files` of this length read in blocks of `block`.
    pub fn of(readers: &Readers, file: ByteCount, block: ByteCount, cold: Option<ColdFacts>) -> Self {
        let LoadWindow { span, bytes, overlap, ran_out, .. } = readers.window();
        Self {
            block_bytes: block.0,
            file_bytes: file.0,
            readers: readers.figures().flatten().map(StreamFigures::from).collect(),
            window_ns: span.0,
            delivered_bytes: bytes.0,
            overlap,
            ran_out,
            cold,
        }
    }

    /// The figures of readers on several hosts that started at once, of which the last timed read ended after `window`. What
    /// a host read between the end of its own last timed read and then does not count.
    ///
    /// # Panics
    /// If there is no host.
    pub fn together(hosts: &[Self], window: NanoSpan) -> Self {
        let first = hosts.first().expect("there is a host");
        let readers: Vec<StreamFigures> = hosts.iter().flat_map(|host| host.readers.clone()).collect();
        let reading = |host: &Self| host.overlap * host.readers.len() as f64 * host.window_ns as f64;
        let whole = readers.len() as f64 * window.get() as f64;
        let reading: f64 = hosts.iter().map(reading).sum();
        let cold = first.cold.clone().map(|cold| {
            let share = |host: &Self| host.cold.as_ref().and_then(|cold| cold.cached_share);
            let shares: Option<Vec<f64>> = hosts.iter().map(share).collect();
            let mean = shares.map(|shares| shares.iter().sum::<f64>() / shares.len() as f64);
            ColdFacts { cached_share: mean, ..cold }
        });
        Self {
            block_bytes: first.block_bytes,
            file_bytes: first.file_bytes,
            readers,
            window_ns: window.get(),
            delivered_bytes: hosts.iter().map(|host| host.delivered_bytes).sum(),
            overlap: if whole > 0.0 { (reading / whole).min(1.0) } else { 1.0 },
            ran_out: hosts.iter().map(|host| host.ran_out).sum(),
            cold,
        }
    }

    /// Mean time of a timed read.
    pub fn mean_time(&self) -> NanoSpan {
        let sum: u64 = self.readers.iter().map(|reader| reader.elapsed_ns).sum();
        NanoSpan(sum / self.readers.len().max(1) as u64)
    }

    /// Bytes of all timed reads by the mean time that one took.
    pub fn aggregate(&self) -> BytesPerSec {
        let bytes = self.readers.iter().map(|reader| reader.bytes).sum();
        BytesPerSec::of(ByteCount(bytes), self.mean_time())
    }

    /// All that was read by the time it took, timed or not.
    pub fn delivered(&self) -> BytesPerSec {
        BytesPerSec::of(ByteCount(self.delivered_bytes), NanoSpan(self.window_ns))
    }

    /// The rate of each timed read.
    pub fn rates(&self) -> Vec<BytesPerSec> {
        let rate =
            |reader: &StreamFigures| BytesPerSec::of(ByteCount(reader.bytes), NanoSpan(reader.elapsed_ns));
        self.readers.iter().map(rate).collect()
    }

    /// Jain's index of the rates; 1 where there is no reader.
    pub fn fairness(&self) -> f64 {
        let rates = self.rates();
        let sum: f64 = rates.iter().map(|rate| rate.0).sum();
        let squares: f64 = rates.iter().map(|rate| rate.0 * rate.0).sum();
        if squares > 0.0 { sum * sum / (rates.len() as f64 * squares) } else { 1.0 }
    }

    /// Processor time of the readers by the mean time of a timed read, in percent: 100 is one processor all the time.
    pub fn cpu_pct(&self) -> f64 {
        let sum: u64 = self.readers.iter().map(|reader| reader.cpu_ns).sum();
        sum as f64 / self.mean_time().get().max(1) as f64 * 100.0
    }

    /// What is to be known before the figures are trusted: sentences.
    pub fn warnings(&self) -> Vec<String> {
        let count = self.readers.len();
        let mut warnings = Vec::new();
        if self.overlap < OVERLAP_LEAST {
            warnings.push(format!(
                "the load of {count} streams fell short: {:.1} of them were reading on average until the last timed read \
                 ended ({:.1} %), {} ran out of files; raise --reads-per-stream",
                self.overlap * count as f64,
                self.overlap * 100.0,
                self.ran_out
            ));
        }
        let cold = self.cold.as_ref().filter(|cold| cold.how != "direct");
        match cold.map(|cold| (cold.how.as_str(), cold.cached_share)) {
            Some((_, Some(share))) if share > CACHED_MOST => warnings.push(format!(
                "the files of {count} streams were not cold: {:.1} % of their pages were in memory when reading started",
                share * 100.0
            )),
            Some((_, None)) => {
                warnings.push(format!("nobody can say here whether the files of {count} streams were cold"));
            }
            _ => {}
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn figures(rates: &[u64]) -> StreamsFigures {
        let reader = |rate: &u64| StreamFigures {
            bytes: 1_000_000,
            elapsed_ns: 1_000_000_000_000 / rate,
            cpu_ns: 500_000,
        };
        StreamsFigures {
            block_bytes: 1_000,
            file_bytes: 1_000_000,
            readers: rates.iter().map(reader).collect(),
            window_ns: 2_000_000_000,
            delivered_bytes: 6_000_000,
            overlap: 1.0,
            ran_out: 0,
            cold: None,
        }
    }

    #[test]
    fn rates_of_all_and_of_each() {
        // In MB per 1000 s: times of 1 s and 0.5 s.
        let two = figures(&[1_000, 2_000]);
        assert_eq!(two.rates(), [BytesPerSec(1e6), BytesPerSec(2e6)]);
        assert_eq!(two.mean_time(), NanoSpan(750_000_000));
        assert!((two.aggregate().0 - 2e6 / 0.75).abs() < 1e-6);
        assert_eq!(two.delivered(), BytesPerSec(3e6));
        assert!((two.fairness() - 0.9).abs() < 1e-12);
        // A millisecond in 0.75 s.
        assert!((two.cpu_pct() - 0.1 / 0.75).abs() < 1e-9);
    }

    #[test]
    fn hosts_that_end_at_different_times_fall_short_by_what_one_waits() {
        let cold = |share| Some(ColdFacts { how: "drop".into(), cached_share: share });
        let quick =
            StreamsFigures { window_ns: 1_000_000_000, cold: cold(Some(0.0)), ..figures(&[2_000; 3]) };
        let slow = StreamsFigures { ran_out: 1, cold: cold(Some(0.5)), ..figures(&[500]) };
        let both = StreamsFigures::together(&[quick.clone(), slow.clone()], NanoSpan(2_000_000_000));
        assert_eq!((both.readers.len(), both.ran_out, both.delivered_bytes), (4, 1, 12_000_000));
        // Three read for half of the time, one for all of it.
        assert!((both.overlap - 2.5 / 4.0).abs() < 1e-12, "{}", both.overlap);
        assert_eq!(both.cold, cold(Some(0.25)));
        let unseen = StreamsFigures { cold: cold(None), ..slow };
        assert_eq!(StreamsFigures::together(&[quick, unseen], NanoSpan(1)).cold, cold(None));
    }

    #[test]
    fn what_falls_short_or_is_warm_is_told_with_its_figure() {
        let good = figures(&[1_000; 4]);
        assert_eq!(good.warnings(), [""; 0]);
        let short = StreamsFigures { overlap: 0.75, ran_out: 2, ..good.clone() };
        assert!(
            short.warnings()[0].contains("3.0 of them were reading on average"),
            "{:?}",
            short.warnings()
        );
        let cold = |how: &str, cached_share| {
            let cold = Some(ColdFacts { how: how.into(), cached_share });
            StreamsFigures { cold, ..good.clone() }.warnings()
        };
        assert!(cold("advise", Some(0.25))[0].contains("25.0 % of their pages"));
        assert!(cold("none", None)[0].contains("nobody can say"));
        assert_eq!((cold("drop", Some(0.0)).len(), cold("direct", None).len()), (0, 0));
    }

    proptest! {
        #[test]
        fn fairness_is_within_its_bounds_and_blind_to_scale(
            rates in proptest::collection::vec(1_u64..1_000_000, 1..50),
            times in 1_u64..1_000,
        ) {
            let index = figures(&rates).fairness();
            prop_assert!(index <= 1.0 + 1e-9);
            prop_assert!(index >= 1.0 / rates.len() as f64 - 1e-9);
            let mut scaled = figures(&rates);
            for reader in &mut scaled.readers {
                reader.elapsed_ns *= times;
            }
            prop_assert!((scaled.fairness() - index).abs() < 1e-9);
            prop_assert!((figures(&vec![rates[0]; rates.len()]).fairness() - 1.0).abs() < 1e-9);
        }
    }
}
