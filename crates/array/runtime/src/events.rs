//! Events of an array, reported once to three listeners: the log, the status, and a history that outlives the process.
//!
//! ```text
//! notices, devices ─► Event ─► of a kind that comes in floods? ─ no ─► reported
//!                                   └ yes ─► the first of 10 s is reported, the others are counted and reported as one
//! reported ─► log, target `raidlab::event`, with fields
//!      ├► the latest, for status
//!      └► history (`history`)
//! ```
//! Everything that a device or a client can cause again and again is of such a kind.

use crate::history::{History, HistoryLine};
use chrono::{DateTime, SecondsFormat, Utc};
use raidlab_controller::{Notice, Scan, ScanEnd, ScanProgress, Undecided};
use raidlab_format::BadReason;
use raidlab_units::{BlockCount, MemberIndex, NanoSpan, Nanos, counted};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Events that status has.
const LATEST_MAX: usize = 64;
/// Floods are told once in this time.
const FLOOD_SPAN: NanoSpan = NanoSpan::from_millis(10_000);

raidlab_units::named! {
    /// How much an operator has to do with an event.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum EventLevel {
        /// A milestone.
        #[default]
        Info = "info",
        /// Something is not as it should be.
        Warn = "warn",
        /// Redundancy or data is lost.
        Error = "error",
    }
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct EventStatus {
    /// When, in UTC, as RFC 3339 has it.
    pub time: String,
    /// Time since the start in nanoseconds.
    pub at_ns: u64,
    /// How much an operator has to do with it.
    pub level: EventLevel,
    /// What it is, in a word for programs.
    pub kind: String,
    /// The device that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u16>,
    /// Where that device is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Blocks that it is about, or I/Os of a device that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// In words.
    pub text: String,
}

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) kind: Kind,
    pub(crate) level: EventLevel,
    pub(crate) device: Option<MemberIndex>,
    pub(crate) path: Option<String>,
    pub(crate) count: Option<u64>,
    pub(crate) text: String,
}

impl Event {
    /// An event that is about the whole array.
    pub(crate) const fn new(kind: Kind, level: EventLevel, text: String) -> Self {
        Self { kind, level, device: None, path: None, count: None, text }
    }

    /// The same about a device.
    pub(crate) fn of_device(self, device: MemberIndex, path: Option<String>) -> Self {
        Self { device: Some(device), path, ..self }
    }

    /// The same about so many blocks or I/Os.
    pub(crate) fn with_count(self, count: u64) -> Self {
        Self { count: Some(count), ..self }
    }
}

raidlab_units::named! {
    /// What an event is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Kind {
        MemberFailed = "member-failed",
        MemberRolledBack = "member-rolled-back",
        MemberAdded = "member-added",
        ScanBegun = "scan-begun",
        ScanParked = "scan-parked",
        ScanResumed = "scan-resumed",
        ScanEnded = "scan-ended",
        BlocksHealed = "blocks-healed",
        BlocksCorrupt = "blocks-corrupt",
        BlocksUndecided = "blocks-undecided",
        BlocksLost = "blocks-lost",
        BlocksUnreadable = "blocks-unreadable",
        BlocksReadAgain = "blocks-read-again",
        WritesLost = "writes-lost",
        DeviceErrors = "device-errors",
        NoRoom = "no-room",
        MetadataDamaged = "metadata-damaged",
        Serving = "serving",
        Stopped = "stopped",
        NvramLost = "nvram-lost",
        WrittenMapLost = "written-map-lost",
    }
}

impl Kind {
    /// What many events of a kind that comes in floods are counted as.
    const fn flood(self) -> Option<&'static str> {
        match self {
            Self::BlocksHealed => Some("corrupt or unreadable blocks healed"),
            Self::BlocksCorrupt => Some("blocks with a checksum mismatch, or that disagreed with all else"),
            Self::BlocksUndecided => Some("blocks of which nothing says whether they are wrong"),
            Self::BlocksLost => Some("blocks lost until they are written again"),
            Self::BlocksUnreadable => Some("blocks that can't be read nor made up"),
            Self::BlocksReadAgain => Some("blocks that can be read again"),
            Self::WritesLost => Some("acknowledged blocks that could not be stored"),
            Self::DeviceErrors => Some("failed I/Os"),
            Self::NoRoom => Some("writes that wait for room"),
            _ => None,
        }
    }
}

/// Events of a kind about a device that were not told yet.
#[derive(Debug)]
struct Flood {
    kind: Kind,
    level: EventLevel,
    device: Option<MemberIndex>,
    path: Option<String>,
    count: u64,
    /// When they are told, or, where there are none, the flood is over.
    until: Nanos,
}

/// Tells events.
#[derive(Debug)]
pub(crate) struct Chronicle {
    array: String,
    array_uuid: String,
    latest: VecDeque<EventStatus>,
    floods: Vec<Flood>,
    history: Option<History>,
}

impl Chronicle {
    /// Tells the events of an array, to a history if there is one.
    pub(crate) const fn new(array: String, array_uuid: String, history: Option<History>) -> Self {
        Self { array, array_uuid, latest: VecDeque::new(), floods: Vec::new(), history }
    }

    /// The latest events, oldest first.
    pub(crate) fn latest(&self) -> Vec<EventStatus> {
        self.latest.iter().cloned().collect()
    }

    /// The file of the history.
    pub(crate) fn history_path(&self) -> Option<String> {
        self.history.as_ref().map(|history| history.path().display().to_string())
    }

    /// Tells an event, or counts it where others of its kind were told a moment ago.
    pub(crate) fn tell(&mut self, now: Nanos, event: Event) {
        if event.kind.flood().is_none() {
            return self.tell_now(now, event);
        }
        let count = event.count.unwrap_or(1);
        let is_same = |flood: &&mut Flood| (flood.kind, flood.device) == (event.kind, event.device);
        if let Some(flood) = self.floods.iter_mut().find(is_same) {
            flood.count += count;
            return;
        }
        let Event { kind, level, device, ref path, .. } = event;
        let path = path.clone();
        self.floods.push(Flood { kind, level, device, path, count: 0, until: now + FLOOD_SPAN });
        self.tell_now(now, event);
    }

    /// When [`Self::poll`] has something to do.
    pub(crate) fn due(&self) -> Nanos {
        self.floods.iter().map(|flood| flood.until).min().unwrap_or(Nanos::FAR_FUTURE)
    }

    /// Tells the floods that are due.
    pub(crate) fn poll(&mut self, now: Nanos) {
        let floods = std::mem::take(&mut self.floods);
        for mut flood in floods {
            if flood.until > now {
                self.floods.push(flood);
            } else if flood.count > 0 {
                self.tell_flood(now, &flood);
                (flood.count, flood.until) = (0, now + FLOOD_SPAN);
                self.floods.push(flood);
            }
        }
    }

    /// Tells all that was counted.
    pub(crate) fn end_floods(&mut self, now: Nanos) {
        for flood in std::mem::take(&mut self.floods) {
            if flood.count > 0 {
                self.tell_flood(now, &flood);
            }
        }
    }

    fn tell_flood(&mut self, now: Nanos, flood: &Flood) {
        let Flood { kind, level, device, path, count, until } = flood;
        let what = kind.flood().expect("floods are of kinds that come in floods");
        let place = device.map_or(String::new(), |device| format!(" on device {}", device.0));
        let began = Nanos(until.0.saturating_sub(FLOOD_SPAN.get()));
        let seconds = now.saturating_since(began).as_secs_f64().ceil();
        let text = format!("{what}{place}: {count} more in {seconds} s");
        let (kind, level, device, path) = (*kind, *level, *device, path.clone());
        self.tell_now(now, Event { kind, level, device, path, count: Some(*count), text });
    }

    fn tell_now(&mut self, now: Nanos, event: Event) {
        let Event { kind, level, device, path, count, text } = event;
        let (kind, device) = (kind.name(), device.map(|device| device.0));
        let (array, array_uuid) = (self.array.as_str(), self.array_uuid.as_str());
        macro_rules! log {
            ($level:ident) => {
                tracing::event!(
                    target: EVENT_TARGET, tracing::Level::$level, array, array_uuid, kind, device, path, count, "{text}"
                )
            };
        }
        match level {
            EventLevel::Info => log!(INFO),
            EventLevel::Warn => log!(WARN),
            EventLevel::Error => log!(ERROR),
        }
        let told = EventStatus {
            time: utc_text(SystemTime::now()),
            at_ns: now.0,
            level,
            kind: kind.to_owned(),
            device,
            path,
            count,
            text,
        };
        if let Some(history) = &self.history {
            history.append(&HistoryLine {
                array: self.array.clone(),
                array_uuid: self.array_uuid.clone(),
                event: told.clone(),
            });
        }
        if self.latest.len() == LATEST_MAX {
            self.latest.pop_front();
        }
        self.latest.push_back(told);
    }
}

/// The target of events in the log, for filters.
pub const EVENT_TARGET: &str = "raidlab::event";

/// A time in UTC, to the millisecond, as RFC 3339 has it; the last that the calendar has for any behind it.
pub(crate) fn utc_text(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let time = DateTime::from_timestamp(seconds, since.subsec_nanos()).unwrap_or(DateTime::<Utc>::MAX_UTC);
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// What a notice of the controller is to an operator.
pub(crate) fn event_of(notice: &Notice, path: impl Fn(MemberIndex) -> Option<String>) -> Event {
    let (kind, level) = kind_of(notice);
    let event = Event::new(kind, level, words(notice));
    match *notice {
        Notice::MemberFailed { member } | Notice::MemberAdded { member } => {
            event.of_device(member, path(member))
        }
        Notice::Restored { member, blocks, .. }
        | Notice::Mismatch { member, blocks, .. }
        | Notice::BlocksLost { member, blocks, .. }
        | Notice::ReadAgain { member, blocks, .. } => {
            event.of_device(member, path(member)).with_count(blocks.0)
        }
        Notice::WriteLost { blocks, .. } => event.with_count(blocks.0),
        Notice::ScanStarted { scan: Scan::Rebuild { target } }
        | Notice::ScanEnded { progress: ScanProgress { scan: Scan::Rebuild { target }, .. }, .. } => {
            event.of_device(target, path(target))
        }
        _ => event,
    }
}

const fn kind_of(notice: &Notice) -> (Kind, EventLevel) {
    match notice {
        Notice::MemberFailed { .. } => (Kind::MemberFailed, EventLevel::Error),
        Notice::MemberAdded { .. } => (Kind::MemberAdded, EventLevel::Info),
        Notice::ScanStarted { .. } => (Kind::ScanBegun, EventLevel::Info),
        Notice::ScanParked { .. } => (Kind::ScanParked, EventLevel::Info),
        Notice::ScanResumed { .. } => (Kind::ScanResumed, EventLevel::Info),
        Notice::ScanEnded { progress, end } => {
            let counts = &progress.counts;
            let is_well = counts.mismatched_rows + counts.unreadable_rows + counts.incomplete_stripes == 0;
            let is_through = matches!(end, ScanEnd::Through | ScanEnd::Stopped);
            (Kind::ScanEnded, if is_well && is_through { EventLevel::Info } else { EventLevel::Warn })
        }
        Notice::Restored { .. } => (Kind::BlocksHealed, EventLevel::Warn),
        Notice::Mismatch { .. } | Notice::Outvoted { .. } => (Kind::BlocksCorrupt, EventLevel::Warn),
        Notice::Undecided(_) => (Kind::BlocksUndecided, EventLevel::Error),
        Notice::BlocksLost { reason: BadReason::Lost, .. } => (Kind::BlocksLost, EventLevel::Error),
        Notice::BlocksLost { reason: BadReason::Unreadable, .. } => {
            (Kind::BlocksUnreadable, EventLevel::Error)
        }
        Notice::ReadAgain { .. } => (Kind::BlocksReadAgain, EventLevel::Warn),
        Notice::Serving => (Kind::Serving, EventLevel::Info),
        Notice::NvramLost => (Kind::NvramLost, EventLevel::Error),
        Notice::WrittenMapLost => (Kind::WrittenMapLost, EventLevel::Warn),
        Notice::Stopped => (Kind::Stopped, EventLevel::Info),
        Notice::WriteLost { .. } => (Kind::WritesLost, EventLevel::Error),
    }
}

/// A notice in words.
fn words(notice: &Notice) -> String {
    let many = |blocks: BlockCount| counted(blocks.0, "block");
    match *notice {
        Notice::MemberFailed { member: MemberIndex(member) } => format!("device {member} has left the array"),
        Notice::MemberAdded { member: MemberIndex(member) } => format!("device {member} has joined the array"),
        Notice::ScanStarted { scan } => format!("{} has begun", scan_words(scan)),
        Notice::ScanParked { scan } => format!("{} waits for a rebuild", scan_words(scan)),
        Notice::ScanResumed { scan } => format!("{} goes on", scan_words(scan)),
        Notice::ScanEnded { progress, end } => end_words(progress, end),
        Notice::Restored { member: MemberIndex(member), lba, blocks } => {
            format!("{} from {lba} on device {member} restored", many(blocks))
        }
        Notice::Mismatch { member: MemberIndex(member), lba, blocks } => {
            format!("block checksum mismatch: {} from {lba} on device {member}", many(blocks))
        }
        Notice::Outvoted { member: MemberIndex(member), lba, blocks } => {
            format!("{} from {lba} on device {member} found wrong: all else that tells of them agrees", many(blocks))
        }
        Notice::Undecided(Undecided { lba, blocks, strips }) => {
            let beside = match strips {
                1 => "its copies disagree".to_owned(),
                strips => format!("parity disagrees with them and those below them in {strips} strips"),
            };
            format!("{} from {lba} of the volume may be wrong: {beside}, and nothing says which is right", many(blocks))
        }
        Notice::BlocksLost { member: MemberIndex(member), lba, blocks, reason: BadReason::Lost } => {
            format!("{} from {lba} on device {member} lost until written again", many(blocks))
        }
        Notice::BlocksLost { member: MemberIndex(member), lba, blocks, reason: BadReason::Unreadable } => {
            format!(
                "{} from {lba} on device {member} can't be read nor made up; 'raidlab array recover' tries again",
                many(blocks)
            )
        }
        Notice::ReadAgain { member: MemberIndex(member), lba, blocks } => {
            format!("{} from {lba} on device {member} can be read again, after errors", many(blocks))
        }
        Notice::Serving => "the array is served".to_owned(),
        Notice::NvramLost => {
            "the array was not stopped cleanly and its NVRAM is not there: what was acknowledged from the cache \
             and not yet on the members is lost"
                .to_owned()
        }
        Notice::WrittenMapLost => {
            "no device knows of parts of the array whether they were written: a range of zeros there is told from one that nobody \
             wrote only by the checksums of what was written beside it; a check settles that everywhere"
                .to_owned()
        }
        Notice::Stopped => "the array is stopped".to_owned(),
        Notice::WriteLost { lba, blocks, is_kept } => {
            let hope = if is_kept { "; the cache memory keeps them for a start with all devices" } else { "" };
            format!("{} from {lba} of the volume could not be stored{hope}", counted(blocks.0, "acknowledged block"))
        }
    }
}

/// How a scan ended, in words.
fn end_words(ScanProgress { scan, done, total, counts, .. }: ScanProgress, end: ScanEnd) -> String {
    if scan == Scan::Recover {
        return format!("the recovery has ended: {} came back", counted(counts.recovered_rows, "block"));
    }
    let how = match end {
        ScanEnd::Through => "has ended".to_owned(),
        ScanEnd::Stopped => format!("was stopped after {done} of {total} stripes"),
        ScanEnd::BrokenOff => format!("was broken off after {done} of {total} stripes"),
    };
    let lacking = match counts.incomplete_stripes {
        0 => String::new(),
        many => format!(", {many} stripes were not compared in full because a member is missing"),
    };
    let undecided = match counts.undecided_rows {
        0 => String::new(),
        many => format!(", in {many} nothing says what is wrong"),
    };
    format!(
        "{} {how}: {} rows disagreed, {} were rewritten, {} could not be read{undecided}{lacking}",
        scan_words(scan),
        counts.mismatched_rows,
        counts.rewritten_rows,
        counts.unreadable_rows
    )
}

fn scan_words(scan: Scan) -> String {
    match scan {
        Scan::Rebuild { target: MemberIndex(target) } => format!("the rebuild of device {target}"),
        other => format!("the {}", scan_name(other)),
    }
}

/// The name of a background scan.
pub(crate) const fn scan_name(scan: Scan) -> &'static str {
    match scan {
        Scan::Rebuild { .. } => "rebuild",
        Scan::Resync => "resync",
        Scan::Check => "check",
        Scan::Repair => "repair",
        Scan::RepairFromData => "repair-trust-data",
        Scan::Recover => "recovery",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_units::{BlockCount, MemberLba};

    #[test]
    fn times_are_those_of_the_calendar() {
        let rows = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_868_799_000, "2000-02-29T23:59:59.000Z"),
            (1_709_251_200_007, "2024-03-01T00:00:00.007Z"),
            (4_107_542_399_000, "2100-02-28T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (millis, text) in rows {
            assert_eq!(utc_text(UNIX_EPOCH + Duration::from_millis(millis)), text);
        }
    }

    /// A device that is rotten all over is told of at once, and then in one line per 10 s.
    #[test]
    fn floods_are_told_as_one() {
        let mut chronicle = Chronicle::new("a".into(), "u".into(), None);
        let healed = |member: u16| {
            let (member, lba) = (MemberIndex(member), MemberLba(7));
            event_of(&Notice::Restored { member, lba, blocks: BlockCount(2) }, |_| Some("/dev/x".into()))
        };
        for step in 0..1000 {
            chronicle.tell(Nanos(step * 1_000_000), healed(1));
        }
        chronicle.tell(Nanos(1_000_000_000), healed(3));
        assert_eq!(chronicle.latest().len(), 2, "{:?}", chronicle.latest());
        assert_eq!(chronicle.due(), Nanos(10_000_000_000));
        chronicle.poll(Nanos(9_999_999_999));
        assert_eq!(chronicle.latest().len(), 2);
        chronicle.poll(Nanos(10_000_000_000));
        let told = chronicle.latest();
        assert_eq!(told.len(), 3, "{told:?}");
        assert_eq!(told[2].text, "corrupt or unreadable blocks healed on device 1: 1998 more in 10 s");
        assert_eq!((told[2].count, told[2].device, told[2].level), (Some(1998), Some(1), EventLevel::Warn));
        // Nothing more comes: the next is told at once again.
        chronicle.poll(Nanos(30_000_000_000));
        assert_eq!((chronicle.latest().len(), chronicle.due()), (3, Nanos::FAR_FUTURE));
        chronicle.tell(Nanos(31_000_000_000), healed(1));
        chronicle.tell(Nanos(31_000_000_001), healed(1));
        assert_eq!(chronicle.latest().len(), 4);
        chronicle.end_floods(Nanos(32_000_000_000));
        assert!(chronicle.latest()[4].text.ends_with("2 more in 1 s"), "{:?}", chronicle.latest());
    }
}
