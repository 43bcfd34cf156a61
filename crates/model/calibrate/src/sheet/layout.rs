//! The inside of an `NVMe` drive in proportion to its performance: how many reads it works on at once.
//!
//! ```text
//!  reads a second x time of one alone = reads at once (Little) = N
//!  commands inside: 2.5 N     channels: 0.38 N     dies: two a channel     dies that program at the limit of writing: 65 %
//!  time of a read:  55 % sensing, 35 % on the channel
//! ```
//! Reads wait for dies and channels long before the limit, and a program delays the reads of its die until its end.
//! Those keep their places in the drive meanwhile, so that few writes cost many reads. Latency matrices of two cloud
//! drives (AWS i3 and i3en) show all of this, and agree on these shares: chosen on one of them, they hold on the other.
//! They do not agree on the time of a program, which is solved for: 2.3 and 0.4 ms by their matrices, 1.1 and 0.6 ms by
//! this rule.
//!
//! A channel here is any unit that does one transfer after the other, decoders included; a row is what keeps one die
//! busy. Neither need be what a teardown finds.

use raidlab_hardware::{CellModel, FlashModel};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

/// Source of what is chosen here.
pub(super) const SOURCE: &str = "estimated: in proportion to reads a second times the latency of one, as two drives have it whose matrices are published";

/// Commands inside the drive, for each read that it works on at once.
const COMMANDS: f64 = 2.5;

/// The most of them: what a queue pair or a few hold.
const COMMANDS_MAX: f64 = 4096.0;

/// Programs for each one of parity, at most.
const PARITY_EVERY_MAX: u32 = 63;

/// Share of a read's time on the channel, and how busy the channels are at the limit.
const CHANNEL_SHARE: f64 = 0.35;
const CHANNEL_BUSY: f64 = 0.92;

const DIES_PER_CHANNEL: u32 = 2;

/// Share of a read's time that sensing takes, by kind of page, fastest and slowest.
const SENSE_SHARES: (f64, f64) = (0.37, 0.73);

/// Dies that program at the limit of writing in sequence.
const PROGRAMMING_SHARE: f64 = 0.65;

/// Firmware time for a read, of what would limit reads by itself.
const FIRMWARE_SHARE: f64 = 0.4;

/// A program shorter than this is none of a row of TLC: there are more dies then.
const PROGRAM_MIN_NS: f64 = 300e3;

/// What a read moves over a channel: one code word.
const CODE_WORD: ByteCount = ByteCount(4096);

/// Gives `flash` the inside of a drive that does `iops` reads a second of which one alone takes `alone`, and that writes
/// `seq_write` in sequence. Times come near; they are refined by measuring.
pub(super) fn lay_out(flash: &mut FlashModel, iops: f64, alone: NanoSpan, seq_write: Option<BytesPerSec>) {
    let at_once = iops * alone.as_secs_f64();
    let (front, cells) = (&mut flash.front, &mut flash.cells);
    front.queue_depth = (at_once * COMMANDS).ceil().clamp(8.0, COMMANDS_MAX) as u32;
    front.read_command = NanoSpan((f64::from(front.cores) / iops * 1e9 * FIRMWARE_SHARE) as u64);
    cells.channels = (at_once * CHANNEL_SHARE / CHANNEL_BUSY).round().clamp(1.0, 512.0) as u32;
    cells.planes = 1;
    cells.suspensions_max = 0;
    let [fast, slow] =
        [SENSE_SHARES.0, SENSE_SHARES.1].map(|share| NanoSpan((alone.0 as f64 * share) as u64));
    (cells.read_fast, cells.read_slow) = (fast, slow);
    set_transfer_ns(cells, f64::from(cells.channels) * CHANNEL_BUSY / iops * 1e9);
    place_dies(cells, DIES_PER_CHANNEL);
    if let Some(rate) = seq_write {
        // A row's time at this rate.
        let each_ns = f64::from(cells.programs_at_once) * cells.program_bytes().0 as f64 / rate.0 * 1e9;
        let least_ns = PROGRAM_MIN_NS + cells.load_time().0 as f64;
        let more = (least_ns / each_ns).ceil().clamp(1.0, 64.0) as u32;
        place_dies(cells, DIES_PER_CHANNEL * more);
    }
}

fn place_dies(cells: &mut CellModel, per_channel: u32) {
    cells.dies_per_channel = per_channel;
    let dies = cells.dies();
    cells.programs_at_once = (f64::from(dies) * PROGRAMMING_SHARE).round().clamp(1.0, 1024.0) as u32;
    cells.parity_every = (dies - 1).min(PARITY_EVERY_MAX);
}

/// Time that a short read takes the channel.
pub(super) fn transfer_ns(cells: &CellModel) -> f64 {
    cells.channel.transfer_time(CODE_WORD).0 as f64
}

/// Sets it, as far as it is more than the bytes take.
pub(super) fn set_transfer_ns(cells: &mut CellModel, wanted_ns: f64) {
    let bytes_ns = cells.channel.rate.time_for(CODE_WORD).0 as f64;
    cells.channel.per_transfer = NanoSpan((wanted_ns - bytes_ns).max(0.0) as u64);
}
