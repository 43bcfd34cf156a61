//! The inside of an `NVMe` drive: reads in proportion to how many it works on at once, programs by the class of flash.
//!
//! ```text
//!  reads a second x time of one alone = reads at once (Little) = N
//!  commands inside: 2.5 N     channels: 0.38 N     dies: two a channel, or what writing keeps busy
//!  time of a read:  55 % sensing, 35 % on the channel
//!
//!  bytes written a second -> programs at once, each for the time T of the class, in rows of R bytes
//!  a read waits for them:  bytes x T^2 / (2 R x W)    W dies: the capacity's, or those of which writing keeps 65 % busy
//!  the model has D dies:   its programs take T x sqrt(D / W), and a read waits as long
//! ```
//! Reads wait for dies and channels long before the limit, and a program delays the reads of its die until its end.
//! Those keep their places in the drive meanwhile, so that few writes cost many reads. Latency matrices of two cloud
//! drives (AWS i3 and i3en) show all of this, and agree on these shares: chosen on one of them, they hold on the other.
//!
//! How long a program takes no figure of a sheet tells, so it is the class's. Dies that a model has for more reads must not
//! make reads wait longer: a drive that is as good in every figure as another would be slower where both read and write. So
//! what reads wait for programs depends on capacity and writes alone. By their matrices the two take 2.3 and 0.4 ms, by this
//! rule 1.2 and 0.6: the second has four times the capacity. The times are from sources, the form was chosen with both in view.
//!
//! A channel here is any unit that does one transfer after the other, decoders included; a row is what keeps one die
//! busy. Neither need be what a teardown finds.

use super::solve::{DIE_BYTES, rate_of_one};
use raidlab_hardware::{CellModel, FlashModel};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

/// Source of what is chosen here.
pub(super) const SOURCE: &str = "estimated: in proportion to reads a second times the latency of one, as two drives have it whose matrices are published";

/// Source of the time of a program.
pub(super) const PROGRAM_SOURCE: &str = "estimated: that of its class of flash (HP, Solid State Drive Technology, table 1; parts at ISSCC 2018 to 2021), and reads wait for programs as long as on the dies of its capacity";

/// Source of the buffer.
pub(super) const BUFFER_SOURCE: &str = "estimated: twice what is programmed at once";

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

/// Dies that program at the limit of writing in sequence, where the capacity has no more.
const PROGRAMMING_SHARE: f64 = 0.65;

/// Time to program a row, by bits of a cell. One to three: HP, Solid State Drive Technology, table 1 (200 to 300, 600 to 900,
/// 900 to 1350 us); three: the middle of six parts at ISSCC 2018 to 2021 (1.07 to 1.73 ms). Four: 64 KiB at the 30 MB/s of a
/// die at ISSCC 2020. Five: estimated, as much again.
const PROGRAM_NS: [f64; 5] = [250e3, 750e3, 1200e3, 2200e3, 4400e3];

/// What the buffer holds of writing at the limit, in times of a program: what is programmed, and as much that gathers.
const BUFFERED: f64 = 2.0;

/// Firmware time for a read, of what would limit reads by itself.
const FIRMWARE_SHARE: f64 = 0.4;

const MIB: u64 = 1 << 20;

/// What a read moves over a channel: one code word.
const CODE_WORD: ByteCount = ByteCount(4096);

/// What a sheet says of a drive's inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demands {
    pub(super) capacity: ByteCount,
    /// Reads a second, of which one alone takes `alone`.
    pub(super) iops: f64,
    pub(super) alone: NanoSpan,
    /// What programs take, in sequence.
    pub(super) programmed: Option<BytesPerSec>,
}

/// Gives `flash` the inside of a drive that does what is demanded. Times come near; they are refined by measuring.
pub(super) fn lay_out(flash: &mut FlashModel, demands: &Demands) {
    let (iops, alone) = (demands.iops, demands.alone);
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
    let program_ns = place_dies(cells, demands);
    if let Some(rate) = demands.programmed {
        let buffered = (rate.0 * program_ns / 1e9 * BUFFERED / MIB as f64).round() as u64 * MIB;
        flash.buffer.size = flash.buffer.size.max(ByteCount(buffered));
    }
}

/// As many dies as reads and writes need, and the time of a program with which reads wait for as long as on those of the
/// capacity. Returns that of the class.
fn place_dies(cells: &mut CellModel, demands: &Demands) -> f64 {
    let program_ns = PROGRAM_NS[(cells.bits_per_cell as usize - 1).min(PROGRAM_NS.len() - 1)];
    cells.program = NanoSpan(program_ns as u64);
    let channels = f64::from(cells.channels);
    // As many as write in time, with PROGRAMMING_SHARE of them.
    let writing = demands.programmed.map_or(0.0, |rate| rate.0 / rate_of_one(cells) / PROGRAMMING_SHARE);
    let whole = writing.max(demands.capacity.0 as f64 / DIE_BYTES);
    let needed = (writing * writing / whole / channels).round().clamp(0.0, 64.0) as u32;
    cells.dies_per_channel = needed.max(DIES_PER_CHANNEL);
    let dies = cells.dies();
    cells.parity_every = (dies - 1).min(PARITY_EVERY_MAX);
    cells.program = NanoSpan((program_ns * (f64::from(dies) / whole).sqrt()) as u64);
    if let Some(rate) = demands.programmed {
        let programs = (rate.0 / rate_of_one(cells)).round();
        cells.programs_at_once = programs.clamp(1.0, f64::from(dies)) as u32;
    }
    program_ns
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
