//! How fast parity is computed and missing strips are brought back: GB of source data per second for an array
//! of eight data strips.
//!
//! `parity_rate CASE STRIP_BYTES warm|cold` prints that one figure, for `bench/parity-against-isal.sh`, which
//! does the same through ISA-L. Cases `P` and `PQ` compute parity; `D`, `DP`, `DD` and `DQ` recover one data strip, one
//! with P, two, and one with Q, all with P and Q present at the start. *Warm* repeats one stripe; *cold* walks over
//! more stripes than the caches hold. The rate is the best of several slices of time, because other programs only slow
//! a slice down.
//!
//! Not verified: that the results are right, which the kernel tests do.

use raidlab_raid::StripUnit;
use raidlab_raid::code::{Damage, Recovery};
use raidlab_raid::kernel::combine;
use std::hint::black_box;

const DATA_STRIPS: usize = 8;
/// Larger than the last-level cache of any machine that this is likely to run on.
const COLD_BYTES: usize = 512 << 20;
const PAGE_BYTES: usize = 4096;
/// Slices are as short as a turn of the scheduler, so that some pass undisturbed on a busy machine.
const SLICES: usize = 64;
const SECONDS_PER_SLICE: f64 = 0.005;
/// Data between looks at the clock, at least.
const BYTES_PER_LOOK: usize = 8 << 20;

const D2: StripUnit = StripUnit::Data { strip: 2, copy: 0 };
const D5: StripUnit = StripUnit::Data { strip: 5, copy: 0 };
const P: StripUnit = StripUnit::Parity(0);
const Q: StripUnit = StripUnit::Parity(1);

fn main() {
    #[expect(clippy::disallowed_methods, reason = "an example is an edge, and may read its arguments")]
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, strip_bytes, cache] = &arguments[..] else {
        panic!("usage: parity_rate CASE STRIP_BYTES warm|cold")
    };
    let (parities, missing): (u16, &[StripUnit]) = match name.as_str() {
        "P" => (1, &[P]),
        "PQ" => (2, &[P, Q]),
        "D" => (2, &[D2]),
        "DP" => (2, &[D2, P]),
        "DD" => (2, &[D2, D5]),
        "DQ" => (2, &[D2, Q]),
        _ => panic!("no case {name}"),
    };
    let strip_bytes: usize = strip_bytes.parse().expect("STRIP_BYTES is a number");
    let job = Job::new(parities, missing);
    let stripes = if cache == "warm" { 1 } else { COLD_BYTES / (strip_bytes * job.width) };
    println!("{:.2}", job.rate(strip_bytes, stripes));
}

/// What a strip of the stripe is for.
#[derive(Clone, Copy)]
enum Role {
    Source(usize),
    First,
    Second,
    Unused,
}

/// What to compute.
struct Job {
    /// Strips of a stripe.
    width: usize,
    /// One for each strip: data strips, then P, then Q.
    roles: Vec<Role>,
    /// Destinations.
    rows: usize,
    coefficients: Vec<u8>,
}

impl Job {
    /// Sources are as many as there are data strips.
    fn new(parities: u16, missing: &[StripUnit]) -> Self {
        let units: Vec<StripUnit> = (0..DATA_STRIPS as u16)
            .map(|strip| StripUnit::Data { strip, copy: 0 })
            .chain((0..parities).map(StripUnit::Parity))
            .collect();
        let damage = Damage { data_strips: DATA_STRIPS as u16, parities, missing };
        let recovery = Recovery::new(&damage).expect("no more is missing than there are parities");
        let is_source = |unit: &StripUnit| match *unit {
            StripUnit::Data { .. } => !missing.contains(unit),
            StripUnit::Parity(parity) => !missing.contains(unit) && recovery.uses_parity(parity),
        };
        let sources: Vec<usize> = (0..units.len()).filter(|place| is_source(&units[*place])).collect();
        let coefficients = (0..missing.len())
            .flat_map(|row| sources.iter().map(move |source| (row, *source)))
            .map(|(row, source)| recovery.coefficient(row, units[source]))
            .collect();
        let role = |place: usize| match missing.iter().position(|unit| *unit == units[place]) {
            Some(0) => Role::First,
            Some(_) => Role::Second,
            None => sources.iter().position(|source| *source == place).map_or(Role::Unused, Role::Source),
        };
        let roles = (0..units.len()).map(role).collect();
        Self { width: units.len(), roles, rows: missing.len(), coefficients }
    }

    /// GB of source data per second over `stripes` stripes in turn.
    fn rate(&self, strip_bytes: usize, stripes: usize) -> f64 {
        let stripe_bytes = strip_bytes * self.width;
        // Written throughout, so that no page is the kernel's shared page of zeros.
        let mut memory: Vec<u8> =
            (0..stripes * stripe_bytes + PAGE_BYTES).map(|byte| ((byte * 31) >> 3) as u8).collect();
        let aligned = memory.as_ptr().align_offset(PAGE_BYTES);
        let memory = &mut memory[aligned..aligned + stripes * stripe_bytes];
        let stripes_per_look = (BYTES_PER_LOOK / stripe_bytes).max(1);
        let mut at = 0;
        let slices = (0..SLICES).map(|_| {
            let (mut done, mut seconds) = (0_u64, 0.0);
            #[expect(
                clippy::disallowed_methods,
                clippy::disallowed_types,
                reason = "a measurement needs the clock"
            )]
            let started = std::time::Instant::now();
            while seconds < SECONDS_PER_SLICE {
                for _ in 0..stripes_per_look {
                    self.run(&mut memory[at * stripe_bytes..][..stripe_bytes], strip_bytes);
                    at = (at + 1) % stripes;
                }
                done += stripes_per_look as u64;
                seconds = started.elapsed().as_secs_f64();
            }
            done as f64 * (strip_bytes * DATA_STRIPS) as f64 / seconds / 1e9
        });
        slices.fold(0.0, f64::max)
    }

    fn run(&self, stripe: &mut [u8], strip_bytes: usize) {
        let mut sources: [&[u8]; DATA_STRIPS] = [&[]; DATA_STRIPS];
        let [mut first, mut second]: [&mut [u8]; 2] = [&mut [], &mut []];
        for (strip, role) in stripe.chunks_exact_mut(strip_bytes).zip(&self.roles) {
            match *role {
                Role::Source(index) => sources[index] = strip,
                Role::First => first = strip,
                Role::Second => second = strip,
                Role::Unused => {}
            }
        }
        combine(&mut [first, second][..self.rows], &sources, &self.coefficients, false);
        black_box(&stripe);
    }
}
