//! Access specifications: what a workload asks of storage, with Iometer's meaning of every column.
//!
//! A specification is a list of lines. For every burst one line is drawn, by share; for every I/O of the burst
//! the line's percentages decide whether it reads or writes, and whether it jumps or goes on:
//! ```text
//! size   share  read  random  delay  burst  align
//! 8 KiB   100%   67%   100%    0 s      1    8 KiB      one line: StorageBench "database"
//! ```
//! - **sequential** goes on where the last I/O of this driver ended, whatever that I/O was (Iometer keeps one
//!   position per worker and target), rounded up to the alignment; at the end of the region it starts over.
//! - **random** takes every aligned place in the region with the same chance.
//! - **delay** is waited after the last I/O of a burst was issued (not completed) before the next burst starts;
//!   the delay is that of the line whose burst just ended.
//! - **reply** is the answer's size on network targets; storage targets refuse it.
//!
//! Source: Iometer User's Guide, "Access Specifications tab".

use raidlab_units::NanoSpan;

/// One line of an access specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessLine {
    /// Length of an I/O.
    pub bytes: u32,
    /// Share of all bursts, in percent; the lines add up to 100.
    pub share_pct: u8,
    /// Share of its I/Os that read; the others write.
    pub read_pct: u8,
    /// Share of its I/Os that go to a random place; the others go on from the last.
    pub random_pct: u8,
    /// Wait between the last I/O of a burst and the first of the next.
    pub delay: NanoSpan,
    /// I/Os per burst; at least 1.
    pub burst: u32,
    /// Offsets are multiples of this; `None` is the length of the I/O.
    pub align_bytes: Option<u32>,
    /// Length of the reply; only network targets have one.
    pub reply_bytes: u32,
}

/// An access specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessSpec {
    /// Name, as in the workload files and the published tables.
    pub name: String,
    /// Lines; at least one.
    pub lines: Vec<AccessLine>,
}

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
    /// Returns a line of full share, without delay, in bursts of one, aligned to its own length.
    pub const fn plain(bytes: u32, read_pct: u8, random_pct: u8) -> Self {
        Self {
            bytes,
            share_pct: 100,
            read_pct,
            random_pct,
            delay: NanoSpan::ZERO,
            burst: 1,
            align_bytes: None,
            reply_bytes: 0,
        }
    }

    /// Offsets of this line are multiples of so many bytes.
    pub fn alignment_bytes(&self) -> u32 {
        self.align_bytes.unwrap_or(self.bytes)
    }

    fn validate(&self, spec: &str, line: usize) -> Result<(), SpecError> {
        let percentages =
            [("share_pct", self.share_pct), ("read_pct", self.read_pct), ("random_pct", self.random_pct)];
        if let Some(&(column, pct)) = percentages.iter().find(|(_, pct)| *pct > 100) {
            return Err(SpecError::Percentage { spec: spec.into(), line, column, pct });
        }
        let counts = [("size", self.bytes), ("burst", self.burst), ("align", self.alignment_bytes())];
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
    /// [`SpecError`] names the line and column that is wrong.
    pub fn validate(&self) -> Result<(), SpecError> {
        if self.lines.is_empty() {
            return Err(SpecError::NoLines { spec: self.name.clone() });
        }
        for (index, line) in self.lines.iter().enumerate() {
            line.validate(&self.name, index + 1)?;
        }
        match self.lines.iter().map(|line| u32::from(line.share_pct)).sum() {
            100 => Ok(()),
            sum_pct => Err(SpecError::ShareSum { spec: self.name.clone(), sum_pct }),
        }
    }

    /// Returns the same specification with I/Os of `bytes`. An explicit alignment stays.
    ///
    /// # Errors
    /// [`SpecError::MixedSizes`] when the lines differ in size, [`SpecError::Zero`] for no bytes.
    pub fn with_block_bytes(&self, bytes: u32) -> Result<Self, SpecError> {
        let sizes: std::collections::BTreeSet<u32> = self.lines.iter().map(|line| line.bytes).collect();
        if sizes.len() > 1 {
            return Err(SpecError::MixedSizes { spec: self.name.clone(), sizes: sizes.len() });
        }
        if bytes == 0 {
            return Err(SpecError::Zero { spec: self.name.clone(), line: 1, column: "size" });
        }
        let lines = self.lines.iter().map(|line| AccessLine { bytes, ..*line }).collect();
        Ok(Self { name: self.name.clone(), lines })
    }

    /// Returns the same specification with `read_pct` of each line's I/Os reading, and all others writing.
    #[must_use]
    pub fn with_read_pct(&self, read_pct: u8) -> Self {
        assert!(read_pct <= 100, "{read_pct} percent");
        let mut varied = self.clone();
        varied.lines.iter_mut().for_each(|line| line.read_pct = read_pct);
        varied
    }

    /// Length of the largest I/O; zero without lines.
    pub fn request_bytes_max(&self) -> u32 {
        self.lines.iter().map(|line| line.bytes).max().unwrap_or(0)
    }

    /// Whether any I/O writes.
    pub fn writes(&self) -> bool {
        self.lines.iter().any(|line| line.share_pct > 0 && line.read_pct < 100)
    }

    /// Whether any I/O reads.
    pub fn reads(&self) -> bool {
        self.lines.iter().any(|line| line.share_pct > 0 && line.read_pct > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(lines: Vec<AccessLine>) -> AccessSpec {
        AccessSpec { name: "made-up".into(), lines }
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
            (
                vec![AccessLine { align_bytes: Some(0), ..good }],
                "line 1 of workload 'made-up' has align = 0: it must be at least 1",
            ),
        ];
        for (lines, expected) in table {
            let said =
                spec(lines.clone()).validate().map_or_else(|error| error.to_string(), |()| "ok".into());
            assert_eq!(said, expected, "{lines:?}");
        }
    }

    #[test]
    fn one_size_can_be_replaced_and_a_mix_cannot() {
        let small = AccessLine { share_pct: 40, ..AccessLine::plain(4096, 100, 0) };
        let large = AccessLine { share_pct: 60, ..AccessLine::plain(65536, 100, 0) };
        let replaced =
            spec(vec![small, AccessLine { share_pct: 60, ..small }]).with_block_bytes(8192).unwrap();
        assert!(replaced.lines.iter().all(|line| line.bytes == 8192));
        assert_eq!(replaced.lines[0].alignment_bytes(), 8192);
        let mixed = spec(vec![small, large]).with_block_bytes(8192);
        assert_eq!(mixed, Err(SpecError::MixedSizes { spec: "made-up".into(), sizes: 2 }));
        assert!(spec(vec![small]).with_block_bytes(0).is_err());
        assert_eq!(spec(vec![small, large]).request_bytes_max(), 65536);
    }

    #[test]
    fn directions_are_those_of_lines_that_are_drawn() {
        let never = AccessLine { share_pct: 0, ..AccessLine::plain(512, 0, 0) };
        let table = [(100, true, false), (0, false, true), (67, true, true)];
        for (read_pct, reads, writes) in table {
            let spec = spec(vec![AccessLine::plain(512, read_pct, 0), never]);
            assert_eq!((spec.reads(), spec.writes()), (reads, writes), "{read_pct}");
        }
    }
}
