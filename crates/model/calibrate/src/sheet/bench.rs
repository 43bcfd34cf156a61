//! Measures a drive's model from outside, like the figures of a data sheet.

use raidlab_hardware::{
    Drive, DriveCondition, DriveKind, DriveModel, DriveOp, DriveOptions, DriveRequest, Sector, SectorCount,
    SheetConditions, SheetMetric,
};
use raidlab_units::{NanoSpan, Nanos};
use raidlab_workload::Rng;

const SECTOR_BYTES: u64 = 512;

/// What a data sheet's figure is measured with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) metric: SheetMetric,
    pub(super) conditions: SheetConditions,
    /// Commands that do not count, and those that do.
    ramp: u64,
    commands: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) commands_per_sec: f64,
    pub(super) response_ns_median: f64,
    response_ns_mean: f64,
}

impl Load {
    /// As many commands as such a drive takes to settle, and to be measured.
    pub(super) fn new(model: &DriveModel, metric: SheetMetric, conditions: SheetConditions) -> Self {
        let (ramp, commands) = match &model.kind {
            DriveKind::Flash(_) | DriveKind::SolidState(_) => flash_commands(metric),
            DriveKind::HardDrive(_) if metric.is_sequential() => (3_000, 6_000),
            // So few that a write cache takes them.
            DriveKind::HardDrive(_) if metric == SheetMetric::WriteLatency => (4, 16),
            DriveKind::HardDrive(hard) if conditions.read_pct < 100 => {
                // Enough of the first commands that a write cache is full don't count.
                (u64::from(hard.buffer.write_extents) * 4 + 100, 6_000)
            }
            DriveKind::HardDrive(_) => (100, 6_000),
        };
        Self { metric, conditions, ramp, commands }
    }

    /// The metric's value of what was seen on `model`.
    pub(super) fn value(&self, model: &DriveModel, seen: &Seen) -> f64 {
        let metric = self.metric;
        if metric.is_sequential() {
            seen.commands_per_sec * self.conditions.block.0 as f64 / 1e6
        } else if metric.is_seek() {
            (seen.response_ns_mean - beside_seek_ns(model)) / 1e3
        } else if metric.is_time() {
            seen.response_ns_median / 1e3
        } else {
            seen.commands_per_sec
        }
    }
}

fn flash_commands(metric: SheetMetric) -> (u64, u64) {
    match metric {
        SheetMetric::SeqRead | SheetMetric::SeqReadInner => (2_000, 4_000),
        SheetMetric::SeqWrite | SheetMetric::SeqWriteInner => (3_000, 6_000),
        SheetMetric::RandomRead => (20_000, 40_000),
        SheetMetric::RandomWrite | SheetMetric::RandomMixed => (40_000, 80_000),
        SheetMetric::ReadLatency | SheetMetric::SeekRead => (500, 1_000),
        SheetMetric::WriteLatency | SheetMetric::SeekWrite => (100, 200),
    }
}

/// Half a turn and the command's overhead.
fn beside_seek_ns(model: &DriveModel) -> f64 {
    let DriveKind::HardDrive(hard) = &model.kind else { return 0.0 };
    let rpm = hard.mechanics.data_sheet().map_or(f64::INFINITY, |sheet| f64::from(sheet.rpm));
    30e9 / rpm + hard.firmware.overheads.read_miss.read.0 as f64
}

/// Where the next command goes.
struct Places {
    random: Rng,
    /// Length of a command.
    sectors: u64,
    /// Commands that fit into what each stream has of the drive, or into all of what is used.
    count: u64,
    streams: u64,
    /// Of each stream the first command.
    first: u64,
    is_random: bool,
    issued: u64,
}

impl Places {
    fn new(model: &DriveModel, load: &Load) -> Self {
        let sectors = load.conditions.block.0 / SECTOR_BYTES;
        let used = model.capacity.0 / 100 * u64::from(load.conditions.span_pct);
        let streams = u64::from(load.conditions.streams);
        let count = (used / sectors / streams).max(1);
        let is_inner = matches!(load.metric, SheetMetric::SeqReadInner | SheetMetric::SeqWriteInner);
        let all = (load.ramp + load.commands + u64::from(load.conditions.iodepth)) / streams + 1;
        Self {
            random: Rng::new(1),
            sectors,
            count,
            streams,
            first: if is_inner { count.saturating_sub(all) } else { 0 },
            is_random: !load.metric.is_sequential(),
            issued: 0,
        }
    }

    fn next(&mut self) -> Sector {
        let place = if self.is_random {
            self.random.below(self.count)
        } else {
            let (stream, index) = (self.issued % self.streams, self.issued / self.streams);
            stream * self.count + (self.first + index) % self.count
        };
        self.issued += 1;
        Sector(place * self.sectors)
    }
}

/// Runs `load` in a closed loop.
pub(super) fn run(model: &DriveModel, load: &Load) -> Seen {
    let conditions = &load.conditions;
    let condition = conditions.history.map(|history| DriveCondition { history, ..DriveCondition::default() });
    let conditioned = condition.and_then(|condition| model.clone().in_condition(condition).ok());
    let model = conditioned.as_ref().unwrap_or(model);
    let options = DriveOptions { write_cache: conditions.write_cache, ..DriveOptions::default() };
    let mut drive = Drive::new(model, options);
    let mut places = Places::new(model, load);
    let mut mix = Rng::new(2);
    let fua = load.metric == SheetMetric::SeekWrite;
    let mut request = |id| {
        let is_read = mix.below(100) < u64::from(conditions.read_pct);
        let op = if is_read { DriveOp::Read } else { DriveOp::Write { fua } };
        DriveRequest { id, op, start: places.next(), sectors: SectorCount(places.sectors) }
    };
    let mut started = vec![Nanos::ZERO; conditions.iodepth as usize];
    let mut responses = Vec::with_capacity(load.commands as usize);
    let (mut now, mut counted_from) = (Nanos::ZERO, Nanos::ZERO);
    for id in 0..conditions.iodepth {
        drive.handle_request(now, request(id));
    }
    let mut done = 0;
    while done < load.ramp + load.commands {
        now = drive.poll_deadline().expect("commands are outstanding");
        drive.handle_deadline(now);
        while let Some(completion) = drive.poll_completion() {
            let start = core::mem::replace(&mut started[completion.id as usize], now);
            done += 1;
            if done == load.ramp {
                counted_from = now;
            }
            if done > load.ramp {
                responses.push((now - start).0);
            }
            drive.handle_request(now, request(completion.id));
        }
    }
    seen(&mut responses, now.saturating_since(counted_from).max(NanoSpan(1)))
}

fn seen(responses: &mut [u64], window: NanoSpan) -> Seen {
    let count = responses.len() as f64;
    let response_ns_mean = responses.iter().sum::<u64>() as f64 / count;
    let (_, median, _) = responses.select_nth_unstable(responses.len() / 2);
    let response_ns_median = *median as f64;
    Seen { commands_per_sec: count / window.as_secs_f64(), response_ns_median, response_ns_mean }
}
