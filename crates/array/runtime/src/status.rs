//! The condition and history of an array: the snapshot behind status, metrics and JSON.

use crate::events::{Chronicle, event_of, scan_name};
use crate::operator::{
    ArrayStatus, CacheStatus, Condition, CounterStatus, DeviceCondition, DeviceStatus, OPERATOR_SCHEMA,
    ScanOutcome, ScanStatus, UndecidedStatus, ZeroedRanges,
};
use crate::world::ArrayWorld;
use raidlab_controller::{
    ArrayConfig, Controller, DeviceState, Health, HostOp, HostRequest, Notice, RecordedWrites, Scan, ScanEnd,
    ScanProgress, Undecided,
};
use raidlab_format::BadReason;
use raidlab_units::{BlockCount, BlockSize, ByteCount, MemberIndex, Nanos};

/// What was counted since the start, beside what the controller counts.
#[derive(Debug)]
pub(crate) struct Tally {
    host: CounterStatus,
    pub(crate) chronicle: Chronicle,
    /// Since when the rate of the running background scan is counted (it began, went on, or got a bound), and its progress then.
    rate_from: Option<(Nanos, ScanProgress)>,
    /// The latest background scan that has ended, other than a recovery, and the latest recovery.
    last_scan: Option<ScanStatus>,
    last_recovery: Option<ScanStatus>,
}

impl Tally {
    /// Nothing was counted yet; events are told by `chronicle`.
    pub(crate) fn new(chronicle: Chronicle) -> Self {
        Self {
            host: CounterStatus::default(),
            chronicle,
            rate_from: None,
            last_scan: None,
            last_recovery: None,
        }
    }

    /// Counts a request that has ended.
    #[inline]
    pub(crate) fn count(&mut self, request: &HostRequest, is_ok: bool, block_size: BlockSize) {
        let bytes = block_size.bytes_of(request.blocks).get();
        match request.op {
            HostOp::Read => {
                self.host.host_reads += 1;
                self.host.host_read_bytes += bytes;
            }
            HostOp::Write { .. } => {
                self.host.host_writes += 1;
                self.host.host_write_bytes += bytes;
            }
            HostOp::Flush => self.host.host_flushes += 1,
            HostOp::Discard => {}
        }
        self.host.host_errors += u64::from(!is_ok);
    }

    /// Takes in a notice, with the progress of the background scan that runs and where devices are.
    pub(crate) fn note(
        &mut self,
        now: Nanos,
        notice: &Notice,
        progress: Option<ScanProgress>,
        path: impl Fn(MemberIndex) -> Option<String>,
    ) {
        match notice {
            Notice::ScanStarted { .. } | Notice::ScanResumed { .. } => self.begin_rate(now, progress),
            Notice::ScanEnded { progress, end } => {
                let is_recovery = progress.scan == Scan::Recover;
                let last = if is_recovery { &mut self.last_recovery } else { &mut self.last_scan };
                *last = Some(ScanStatus { end: Some(outcome(*end)), ..scan_status(*progress) });
            }
            Notice::Stopped => self.chronicle.end_floods(now),
            _ => {}
        }
        self.chronicle.tell(now, event_of(notice, path));
    }

    /// Counts the rate of the background scan that runs from here on.
    pub(crate) fn begin_rate(&mut self, now: Nanos, progress: Option<ScanProgress>) {
        self.rate_from = progress.map(|progress| (now, progress));
    }
}

const fn outcome(end: ScanEnd) -> ScanOutcome {
    match end {
        ScanEnd::Through => ScanOutcome::Through,
        ScanEnd::Stopped => ScanOutcome::Stopped,
        ScanEnd::BrokenOff => ScanOutcome::BrokenOff,
    }
}

const fn zeroed_ranges(recorded: RecordedWrites) -> ZeroedRanges {
    match recorded {
        RecordedWrites::All => ZeroedRanges::Found,
        RecordedWrites::Later => ZeroedRanges::FoundIfWrittenLately,
        RecordedWrites::Lost => ZeroedRanges::RecordLost,
        RecordedWrites::None => ZeroedRanges::Believed,
    }
}

fn undecided(config: &ArrayConfig, found: &Undecided) -> UndecidedStatus {
    UndecidedStatus {
        offset_bytes: config.block_size.bytes_of(BlockCount(found.lba.0)).get(),
        bytes: config.block_size.bytes_of(found.blocks).get(),
        strips: found.strips,
    }
}

/// A background scan that is not said to have ended, without its rate.
fn scan_status(progress: ScanProgress) -> ScanStatus {
    let ScanProgress { number, scan, done, total, counts } = progress;
    ScanStatus {
        number,
        scan: scan_name(scan).to_owned(),
        target: if let Scan::Rebuild { target } = scan { Some(target.0) } else { None },
        done_stripes: done,
        total_stripes: total,
        bytes_per_sec: None,
        left_ns: None,
        mismatched_rows: counts.mismatched_rows,
        undecided_rows: counts.undecided_rows,
        rewritten_rows: counts.rewritten_rows,
        unreadable_rows: counts.unreadable_rows,
        recovered_rows: counts.recovered_rows,
        incomplete_stripes: counts.incomplete_stripes,
        end: None,
    }
}

/// What a snapshot says besides what the controller knows.
pub(crate) struct StatusFacts<'a> {
    pub(crate) now: Nanos,
    pub(crate) name: &'a str,
    pub(crate) array_uuid: String,
    pub(crate) is_stopping: bool,
    pub(crate) nvram: Option<String>,
    /// What is known of a device beside what the controller knows.
    pub(crate) device: &'a dyn Fn(MemberIndex) -> DeviceFacts,
}

/// What is known of a device beside what the controller knows.
#[derive(Default)]
pub(crate) struct DeviceFacts {
    path: Option<String>,
    has_lost_its_name: bool,
    errors: u64,
}

impl ArrayWorld {
    /// How the array is now.
    pub fn status(&self) -> ArrayStatus {
        let device = |device| DeviceFacts {
            path: self.members.path(device).map(|path| path.display().to_string()),
            has_lost_its_name: self.members.has_lost_its_name(device),
            errors: self.members.errors(device),
        };
        let facts = StatusFacts {
            now: self.now(),
            name: self.name(),
            array_uuid: self.commands.geometry().array_uuid.to_string(),
            is_stopping: self.commands.is_stopping,
            nvram: self.memory.nvram_path().map(|path| path.display().to_string()),
            device: &device,
        };
        self.tally.status(&self.controller, &facts)
    }
}

impl Tally {
    /// How an array is, whichever world it is in.
    pub(crate) fn status(&self, controller: &Controller, facts: &StatusFacts<'_>) -> ArrayStatus {
        let config = controller.config();
        let state = controller.array_state();
        let dirty = u64::from(controller.dirty_cache_blocks());
        let health = controller.health();
        ArrayStatus {
            schema: OPERATOR_SCHEMA,
            name: facts.name.to_owned(),
            array_uuid: facts.array_uuid.clone(),
            level: config.level.to_string(),
            condition: condition(controller, health, facts.is_stopping),
            volume_bytes: config.block_size.bytes_of(controller.volume_blocks()).get(),
            strip_bytes: config.strip_size.get(),
            block_bytes: config.block_size.bytes(),
            metadata: config.resilience.metadata.to_string(),
            integrity: config.resilience.integrity,
            zeroed_ranges: controller.recorded_writes().map(zeroed_ranges),
            generation: state.map_or(0, |state| state.generation),
            members: config.members,
            failures_left: health.failures_left,
            lost_blocks: health.lost_blocks.0,
            wrong_rows: controller.wrong_rows(),
            devices: device_statuses(controller, facts.device),
            scan: self.scan_status(controller, facts.now),
            parked_scan: controller.parked_scan_progress().map(scan_status),
            last_scan: self.last_scan.clone(),
            last_recovery: self.last_recovery.clone(),
            undecided: controller.undecided().iter().map(|found| undecided(config, found)).collect(),
            scan_bytes_per_sec_max: config.resilience.scan_bytes_per_sec.map(ByteCount::get),
            out_of_sync_stripes: controller.out_of_sync_stripes(),
            cache: CacheStatus {
                size_bytes: config.cache.size.get(),
                dirty_bytes: dirty * config.cache.block_size.get(),
                write_policy: config.cache.write_policy.name().to_owned(),
                writes_back: controller.writes_back() && controller.cache_has_room(),
                nvram: facts.nvram.clone(),
            },
            counters: self.counter_status(controller),
            events: self.chronicle.latest(),
            history: self.chronicle.history_path(),
            uptime_ns: facts.now.0,
        }
    }

    fn scan_status(&self, controller: &Controller, now: Nanos) -> Option<ScanStatus> {
        let progress = controller.scan_progress()?;
        let mut status = scan_status(progress);
        let rests = controller.config().resilience.scan_bytes_per_sec == Some(ByteCount::ZERO);
        let Some((from, before)) = self.rate_from.filter(|(_, before)| before.number == progress.number)
        else {
            return Some(status);
        };
        let ScanProgress { done, total, .. } = progress;
        let seconds = (now - from).get() as f64 / 1e9;
        let steps = done.saturating_sub(before.done);
        if steps > 0 && seconds > 0.0 && !rests {
            let step_bytes = controller.config().member_size.get() as f64 / total as f64;
            let per_sec = steps as f64 / seconds;
            status.bytes_per_sec = Some(per_sec * step_bytes);
            status.left_ns = Some((total.saturating_sub(done) as f64 / per_sec * 1e9) as u64);
        }
        Some(status)
    }

    fn counter_status(&self, controller: &Controller) -> CounterStatus {
        let counted = controller.counters();
        let block = controller.config().block_size.bytes();
        CounterStatus {
            member_reads: counted.member_reads,
            member_writes: counted.member_writes,
            member_flushes: counted.member_flushes,
            cache_hit_bytes: counted.cache_hit_blocks * block,
            parity_bytes: counted.parity_bytes,
            metadata_writes: counted.metadata_writes,
            mismatched_blocks: counted.mismatched_blocks,
            ..self.host
        }
    }
}

/// Whether each role is played by a device whose state `counts`.
fn are_all_played(controller: &Controller, counts: impl Fn(&DeviceState) -> bool) -> bool {
    let played = |role| {
        let mut states = controller.device_states().filter(&counts);
        states.any(|state| described(state).1 == Some(MemberIndex(role)))
    };
    (0..controller.config().members).all(played)
}

fn condition(controller: &Controller, health: Health, is_stopping: bool) -> Condition {
    let states = || controller.device_states();
    if is_stopping {
        Condition::Stopping
    } else if states().any(|state| matches!(state, DeviceState::Lost { .. })) {
        Condition::Failed
    } else if !controller.is_serving() {
        Condition::Starting
    } else if health.lost_blocks > BlockCount(0) {
        Condition::DataLost
    } else if states().any(|state| matches!(state, DeviceState::Rebuilding { .. })) {
        Condition::Rebuilding
    } else if !are_all_played(controller, |state| matches!(state, DeviceState::InSync { .. })) {
        Condition::Degraded
    } else if controller.out_of_sync_stripes() > 0 {
        Condition::Resyncing
    } else if !controller.undecided().is_empty() {
        Condition::Undecided
    } else if controller.wrong_rows() > 0 {
        Condition::Mismatched
    } else {
        Condition::Optimal
    }
}

fn device_statuses(controller: &Controller, facts: &dyn Fn(MemberIndex) -> DeviceFacts) -> Vec<DeviceStatus> {
    let config = controller.config();
    let bad = |device, reasons: &[BadReason]| {
        let ranges =
            controller.bad_ranges().filter(|(it, .., reason)| *it == device && reasons.contains(reason));
        ranges.map(|(_, _, blocks, _)| blocks.0).sum()
    };
    // The kept state has the former roles; without one it is enough that all are played.
    let knows_roles = controller.array_state().is_some() || are_all_played(controller, |_| true);
    let states = (0..).map(MemberIndex).zip(controller.device_states());
    states
        .map(|(device, state)| {
            let uuid = controller.device_uuid(device);
            let (state, role, boundary) = described(state);
            let DeviceFacts { path, has_lost_its_name, errors } = facts(device);
            let role = role.or_else(|| controller.former_role(device));
            // Whatever was there has left: nothing is missing where another plays its role, or it had none.
            let is_free = state == DeviceCondition::Missing
                && role.is_none()
                && (knows_roles || device.0 >= config.members);
            DeviceStatus {
                device: device.0,
                path: path.filter(|_| !is_free),
                has_lost_its_name,
                device_uuid: (uuid.0 != [0; 16] && !is_free).then(|| uuid.to_string()),
                state: if is_free { DeviceCondition::Empty } else { state },
                role: role.map(|role| role.0),
                rebuilt_bytes: boundary.map(|blocks| blocks * config.block_size.bytes()),
                data_bytes: config.member_size.get(),
                errors,
                bad_blocks: bad(device, &BadReason::ALL),
                unreadable_blocks: bad(device, &[BadReason::Unreadable]),
            }
        })
        .collect()
}

/// A device's condition, its role, and while it is rebuilt its boundary in blocks.
fn described(state: DeviceState) -> (DeviceCondition, Option<MemberIndex>, Option<u64>) {
    match state {
        DeviceState::InSync { role } => (DeviceCondition::InSync, Some(role), None),
        DeviceState::Rebuilding { role, boundary } => {
            (DeviceCondition::Rebuilding, Some(role), Some(boundary.0))
        }
        DeviceState::Spare => (DeviceCondition::Spare, None, None),
        DeviceState::Missing => (DeviceCondition::Missing, None, None),
        DeviceState::Lost { role } => (DeviceCondition::Lost, Some(role), None),
    }
}
