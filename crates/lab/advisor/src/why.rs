//! Why storage is slow: facts in, causes with evidence out.
//!
//! The decision is a table of rules over a snapshot of facts, each a name, what must be seen, and what to do next. A rule speaks only if all
//! that it needs is known, and only of a device that is in use; a figure that is not known accuses nobody. Causes are told in the order of
//! the table: what explains others stands before them (a scrub before a full queue).
//!
//! | cause | seen |
//! |---|---|
//! | saturated processors | processors busy 95 %, the device is not, and a process that uses storage waits for a processor |
//! | competing scrub | the array checks, resyncs or rebuilds |
//! | slow member | one member three times as slow as the middle one |
//! | tiny stripe cache | nine tenths of the stripe cache in use, and it is small |
//! | full device | the file system is 95 % full, and writes to it are slow or keep it busy |
//! | misaligned partition | it starts within a page of 4 KiB or a physical block, and is written to |
//! | sync per write | many flushes a second, one for four writes at least |
//! | fragmented file | its extents are short, and it is read in sequence |
//! | read-ahead off | short reads one at a time, in sequence, without read-ahead |
//! | depth 1 | the device is busy with one request at a time |
//! | saturated device | several requests wait at all times, and take long |
//!
//! Left out: what a device's cache and its firmware do; for that, measure (`raidlab measure`, `raidlab calibrate`).

use serde::Serialize;

/// What is known of a device in use. What is not known is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Facts {
    /// Its name.
    pub device: String,
    /// Reads per second.
    pub reads_per_s: f64,
    /// Writes per second.
    pub writes_per_s: f64,
    /// Flushes per second.
    pub flushes_per_s: f64,
    /// Mean length of a read.
    pub mean_read_bytes: Option<f64>,
    /// Share of the requests that begin a run.
    pub random_pct: Option<f64>,
    /// Requests in flight, on average.
    pub in_flight_mean: f64,
    /// Share of the time with any request in flight, in percent.
    pub busy_pct: f64,
    /// Mean time of a read.
    pub read_ms: Option<f64>,
    /// Mean time of a write.
    pub write_ms: Option<f64>,
    /// Whether it turns.
    pub is_rotational: Option<bool>,
    /// How far the kernel reads ahead.
    pub read_ahead_bytes: Option<u64>,
    /// Length of its physical blocks.
    pub physical_block_bytes: Option<u64>,
    /// Where the partition starts on the whole device.
    pub start_bytes: Option<u64>,
    /// Share of the file system's room that is taken.
    pub filesystem_used_pct: Option<f64>,
    /// Mean length of the pieces of the file that was named.
    pub extent_bytes_mean: Option<f64>,
    /// Share of the time of all processors that was busy.
    pub cpu_busy_pct: Option<f64>,
    /// Share of the time that a process which uses storage was ready and had no processor, of the one that had least of them.
    pub cpu_wait_pct: Option<f64>,
    /// What the array on it is doing (`check`, `resync`, `recover`), if it is one and not idle.
    pub sync_action: Option<String>,
    /// Stripes that the array may keep.
    pub stripe_cache_size: Option<u64>,
    /// Stripes that it keeps.
    pub stripe_cache_active: Option<u64>,
    /// The members.
    pub members: Vec<MemberFacts>,
}

/// What is known of a member of an array.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MemberFacts {
    /// Its name.
    pub device: String,
    /// Requests per second.
    pub iops: f64,
    /// Mean time of a request.
    pub mean_ms: Option<f64>,
    /// Share of the time with any request in flight, in percent.
    pub busy_pct: f64,
}

raidlab_units::named! {
    /// What makes storage slow.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Cause {
        /// Processors have no time left.
        SaturatedCpu = "saturated-cpu",
        /// A scrub, resync or rebuild shares the members.
        CompetingScrub = "competing-scrub",
        /// One member holds the others up.
        SlowMember = "slow-member",
        /// Stripes wait for room.
        TinyStripeCache = "tiny-stripe-cache",
        /// There is hardly any room.
        FullDevice = "full-device",
        /// Requests lie across blocks.
        MisalignedPartition = "misaligned-partition",
        /// Each write waits for a flush.
        SyncPerWrite = "sync-per-write",
        /// A file lies in pieces.
        FragmentedFile = "fragmented-file",
        /// Reads in sequence wait for the device one by one.
        ReadAheadOff = "read-ahead-off",
        /// The application asks for one thing at a time.
        DepthOne = "depth-one",
        /// The device does all it can.
        SaturatedDevice = "saturated-device",
    }
}

/// A cause, with what was seen and what to do next.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// What was seen, as a sentence.
    pub evidence: String,
    /// What to measure or change next.
    pub next: &'static str,
}

/// A device is in use from so many requests per second.
const IN_USE_PER_S: f64 = 1.0;
/// A device is busy from here.
const BUSY_PCT: f64 = 50.0;
/// Writes per second from which their places matter.
const WRITES_PER_S: f64 = 10.0;
/// Flash writes pages, and most file systems blocks, of so many bytes.
const PAGE_BYTES: u64 = 4096;

/// A rule: what was seen, as a sentence, if the cause is there.
type Rule = (Cause, fn(&Facts) -> Option<String>, &'static str);

const RULES: [Rule; 11] = [
    (
        Cause::SaturatedCpu,
        saturated_cpu,
        "find who uses the processors ('top'), and observe again without it",
    ),
    (
        Cause::CompetingScrub,
        competing_scrub,
        "bound its rate (sync_speed_max, 'raidlab array rebuild --rate') or let it run at night",
    ),
    (
        Cause::SlowMember,
        slow_member,
        "look at that member alone: 'raidlab observe MEMBER', 'smartctl -a'; replace it",
    ),
    (
        Cause::TinyStripeCache,
        tiny_stripe_cache,
        "raise it: 'echo 8192 > /sys/block/DEVICE/md/stripe_cache_size', and observe again",
    ),
    (Cause::FullDevice, full_device, "free a tenth of it, trim it ('fstrim'), and observe again"),
    (
        Cause::MisalignedPartition,
        misaligned,
        "let it start at a multiple of 1 MiB, and measure both: 'raidlab measure'",
    ),
    (
        Cause::SyncPerWrite,
        sync_per_write,
        "commit several writes at once, or give the log a device with protected cache",
    ),
    (
        Cause::FragmentedFile,
        fragmented,
        "copy the file, and read the copy: 'filefrag FILE' counts its pieces",
    ),
    (Cause::ReadAheadOff, read_ahead_off, "'blockdev --setra 256 DEVICE', and observe again"),
    (
        Cause::DepthOne,
        depth_one,
        "let the application ask for more at once; 'raidlab measure TARGET --iodepth 1..32' shows what that brings",
    ),
    (
        Cause::SaturatedDevice,
        saturated_device,
        "'raidlab simulate' with its model says whether that is normal; 'raidlab plan' what would do",
    ),
];

impl Facts {
    /// Whether the device had anything to do: of one that had not, nothing can be said.
    pub fn is_in_use(&self) -> bool {
        self.reads_per_s + self.writes_per_s + self.flushes_per_s >= IN_USE_PER_S
    }
}

/// The causes that the facts name, the first first; empty where all seems well, and of a device that was idle.
pub fn why(facts: &Facts) -> Vec<Finding> {
    let found =
        |(cause, seen, next): &Rule| seen(facts).map(|evidence| Finding { cause: *cause, evidence, next });
    if facts.is_in_use() { RULES.iter().filter_map(found).collect() } else { Vec::new() }
}

fn saturated_cpu(facts: &Facts) -> Option<String> {
    const FULL_PCT: f64 = 95.0;
    const WAITS_PCT: f64 = 10.0;
    let busy = facts.cpu_busy_pct.filter(|pct| *pct >= FULL_PCT && facts.busy_pct < BUSY_PCT)?;
    let waits = facts.cpu_wait_pct.filter(|pct| *pct >= WAITS_PCT)?;
    Some(format!(
        "processors are busy for {busy:.0} % of their time, the device for {:.0} %, and a process that uses storage waits for a processor \
         for {waits:.0} %",
        facts.busy_pct
    ))
}

fn competing_scrub(facts: &Facts) -> Option<String> {
    let action =
        facts.sync_action.as_deref().filter(|action| !["idle", "frozen", "none", ""].contains(action))?;
    Some(format!("the array runs a {action} beside the load"))
}

fn slow_member(facts: &Facts) -> Option<String> {
    const TIMES: f64 = 3.0;
    const MS_MORE: f64 = 1.0;
    let used: Vec<(&MemberFacts, f64)> = facts
        .members
        .iter()
        .filter(|member| member.iops >= IN_USE_PER_S)
        .filter_map(|member| Some((member, member.mean_ms?)))
        .collect();
    let mut times: Vec<f64> = used.iter().map(|(_, ms)| *ms).collect();
    times.sort_by(f64::total_cmp);
    // Of two nobody knows which is the normal one, so the faster is.
    let middle = *times.get(times.len().checked_sub(1)? / 2)?;
    let (slowest, ms) = used.into_iter().max_by(|one, other| one.1.total_cmp(&other.1))?;
    let is_slow = times.len() >= 2 && ms >= middle * TIMES && ms - middle >= MS_MORE;
    is_slow.then(|| {
        format!(
            "{} takes {ms:.1} ms for a request, the middle one of the members {middle:.1} ms",
            slowest.device
        )
    })
}

fn tiny_stripe_cache(facts: &Facts) -> Option<String> {
    const SMALL: u64 = 1024;
    let (size, active) = facts.stripe_cache_size.zip(facts.stripe_cache_active)?;
    let is_full = size > 0 && active * 10 >= size * 9 && size <= SMALL && facts.writes_per_s >= WRITES_PER_S;
    is_full.then(|| format!("{active} of {size} stripes of the stripe cache are in use"))
}

/// Milliseconds from which a request is slow.
fn slow_ms(facts: &Facts) -> f64 {
    if facts.is_rotational == Some(true) { 40.0 } else { 5.0 }
}

/// A drive without room takes longer for writes: where they are quick, its state is none of the causes.
fn full_device(facts: &Facts) -> Option<String> {
    const FULL_PCT: f64 = 95.0;
    let used =
        facts.filesystem_used_pct.filter(|pct| *pct >= FULL_PCT && facts.writes_per_s >= WRITES_PER_S)?;
    let is_slow = facts.busy_pct >= BUSY_PCT || facts.write_ms.is_some_and(|ms| ms >= slow_ms(facts));
    is_slow.then(|| {
        format!(
            "the file system is {used:.0} % full, and its writes keep the device busy for {:.0} %",
            facts.busy_pct
        )
    })
}

fn misaligned(facts: &Facts) -> Option<String> {
    let start = facts.start_bytes.filter(|_| facts.writes_per_s >= WRITES_PER_S)?;
    let block = facts.physical_block_bytes.unwrap_or(PAGE_BYTES).max(PAGE_BYTES);
    (start % block != 0)
        .then(|| format!("it starts at byte {start}, {} bytes behind a block of {block}", start % block))
}

/// An `fsync` behind each write is one flush for one write on a raw device, and for three on a file system with a journal (data, descriptor,
/// commit): 0.34 to 0.36 flushes a write were seen on ext4, one for four has room for one more. Applications that commit now and then were
/// seen with up to 0.29, at 15 to 20 flushes a second; those that wait for each write had 170 and more. So few flushes accuse only where
/// they are nearly as many as writes.
fn sync_per_write(facts: &Facts) -> Option<String> {
    const SHARE: f64 = 0.25;
    const MANY_PER_S: f64 = 50.0;
    const SHARE_OF_FEW: f64 = 0.4;
    let flushes = facts.flushes_per_s;
    let share = if flushes >= MANY_PER_S { SHARE } else { SHARE_OF_FEW };
    let is_seen = flushes >= WRITES_PER_S
        && flushes >= share * facts.writes_per_s
        && facts.writes_per_s >= facts.reads_per_s;
    is_seen.then(|| format!("{flushes:.0} flushes for {:.0} writes a second", facts.writes_per_s))
}

fn is_read(facts: &Facts) -> bool {
    facts.reads_per_s >= WRITES_PER_S && facts.reads_per_s > facts.writes_per_s
}

fn fragmented(facts: &Facts) -> Option<String> {
    const SHORT: f64 = 524_288.0;
    // Where places are not known: what reads in sequence has few requests in flight, by read-ahead, or as many as one read has pieces.
    const FEW: f64 = 4.0;
    const ALIKE: f64 = 0.05;
    let extent = facts.extent_bytes_mean.filter(|bytes| *bytes < SHORT && is_read(facts))?;
    let is_cut = facts.mean_read_bytes.is_some_and(|bytes| (bytes / extent - 1.0).abs() <= ALIKE);
    let pieces = facts.read_ahead_bytes.filter(|_| is_cut).map_or(0.0, |bytes| bytes as f64 / extent);
    let is_in_sequence = facts.random_pct.map_or(facts.in_flight_mean <= FEW.max(pieces), |pct| pct <= 90.0);
    let fills = facts.mean_read_bytes.is_none_or(|bytes| bytes >= extent / 4.0);
    (is_in_sequence && fills && facts.busy_pct >= BUSY_PCT)
        .then(|| format!("the file's pieces are {:.0} KiB long on average", extent / 1024.0))
}

fn read_ahead_off(facts: &Facts) -> Option<String> {
    const LITTLE: u64 = 8192;
    const SHORT: f64 = 32_768.0;
    let ahead = facts.read_ahead_bytes.filter(|bytes| *bytes <= LITTLE)?;
    let short = facts.mean_read_bytes.filter(|bytes| *bytes <= SHORT && is_read(facts))?;
    let is_in_sequence = facts.random_pct.is_none_or(|pct| pct <= 50.0);
    (is_in_sequence && is_one_by_one(facts)).then(|| {
        format!(
            "the kernel reads {ahead} bytes ahead, and reads of {:.0} KiB come one by one",
            short / 1024.0
        )
    })
}

/// Whether requests come one after the other, at nearly all times.
fn is_one_by_one(facts: &Facts) -> bool {
    const NEARLY_ALL_PCT: f64 = 70.0;
    const ONE: f64 = 1.25;
    facts.busy_pct >= NEARLY_ALL_PCT && facts.in_flight_mean <= ONE * facts.busy_pct / 100.0
}

fn depth_one(facts: &Facts) -> Option<String> {
    is_one_by_one(facts).then(|| {
        format!(
            "the device is busy for {:.0} % of the time with {:.2} requests in flight: each waits for the one before",
            facts.busy_pct, facts.in_flight_mean
        )
    })
}

fn saturated_device(facts: &Facts) -> Option<String> {
    const SEVERAL: f64 = 4.0;
    const FULL_PCT: f64 = 90.0;
    let ms = facts.read_ms.into_iter().chain(facts.write_ms).fold(0.0, f64::max);
    let is_seen = facts.busy_pct >= FULL_PCT && facts.in_flight_mean >= SEVERAL && ms >= slow_ms(facts);
    is_seen.then(|| format!("{:.1} requests wait at all times, and take {ms:.1} ms", facts.in_flight_mean))
}

#[cfg(test)]
mod tests;
