//! How fast parity is computed: GB of data per second for 8+1 and 8+2, warm and cold, by strip size.
//!
//! Prints a line per case, `parities strip_bytes cache GB_per_s`, for `bench/parity-against-isal.sh`, which runs the
//! same cases through ISA-L. *Warm* repeats one stripe; *cold* walks over more stripes than the caches hold.
//!
//! Not verified: that the results are right, which the kernel tests do.

use raidlab_raid::code::generate;
use raidlab_raid::kernel::combine;
use std::hint::black_box;

const DATA_STRIPS: u16 = 8;
/// Larger than the last-level cache of any machine that this is likely to run on.
const COLD_BYTES: usize = 512 << 20;
const PAGE_BYTES: usize = 4096;
const SECONDS_PER_CASE: f64 = 0.4;

fn main() {
    for parities in [1, 2] {
        for strip_bytes in [16 << 10, 64 << 10, 256 << 10, 1 << 20] {
            let stripe_bytes = strip_bytes * usize::from(DATA_STRIPS + parities);
            for (cache, stripes) in [("warm", 1), ("cold", COLD_BYTES / stripe_bytes)] {
                let rate = rate(parities, strip_bytes, stripes);
                println!("{parities} {strip_bytes} {cache} {rate:.2}");
            }
        }
    }
}

/// GB of data per second over `stripes` stripes in turn.
fn rate(parities: u16, strip_bytes: usize, stripes: usize) -> f64 {
    let coefficients: Vec<u8> =
        (0..parities).flat_map(|parity| (0..DATA_STRIPS).map(move |strip| generate(parity, strip))).collect();
    let stripe_bytes = strip_bytes * usize::from(DATA_STRIPS + parities);
    // Written throughout, so that no page is the kernel's shared page of zeros.
    let mut memory: Vec<u8> =
        (0..stripes * stripe_bytes + PAGE_BYTES).map(|byte| ((byte * 31) >> 3) as u8).collect();
    let aligned = memory.as_ptr().align_offset(PAGE_BYTES);
    let memory = &mut memory[aligned..aligned + stripes * stripe_bytes];
    let (mut done, mut seconds) = (0_u64, 0.0);
    #[expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "a measurement needs the clock")]
    let started = std::time::Instant::now();
    while seconds < SECONDS_PER_CASE {
        for stripe in memory.chunks_exact_mut(stripe_bytes) {
            let (data, parity) = stripe.split_at_mut(strip_bytes * usize::from(DATA_STRIPS));
            let sources: [&[u8]; DATA_STRIPS as usize] =
                std::array::from_fn(|strip| &data[strip * strip_bytes..(strip + 1) * strip_bytes]);
            let (p, q) = parity.split_at_mut(strip_bytes);
            if parities == 1 {
                combine(&mut [p], &sources, &coefficients, false);
            } else {
                combine(&mut [p, q], &sources, &coefficients, false);
            }
            black_box(&stripe);
            done += 1;
        }
        seconds = started.elapsed().as_secs_f64();
    }
    done as f64 * (strip_bytes * usize::from(DATA_STRIPS)) as f64 / seconds / 1e9
}
