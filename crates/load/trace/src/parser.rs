//! Lines in, records out.
//!
//! A [`TraceParser`] takes a trace line by line and returns a record for each line that is a request; other lines
//! (files opened, plugs, statistics at the end) return nothing. It keeps state between lines: device numbers, waits,
//! the version in an iolog's head.
//!
//! Invariant: its memory grows with the devices, and with requests that were requeued and not issued again yet.

use crate::error::LineProblem;
use crate::fields::decimal_ns;
use crate::format;
use crate::format::blkparse::Request;
use crate::record::{BlkAction, TimeUnit, TraceFormat, TraceKind, TraceRecord, WaitMeaning};
use std::collections::{BTreeMap, BTreeSet};

/// What to take of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParseOptions {
    /// Which event of a request counts, in blkparse's text.
    pub action: BlkAction,
    /// What `wait` says in an iolog of version 2.
    pub wait: WaitMeaning,
    /// Names of the devices whose requests are taken; all where there is none.
    pub devices: Vec<String>,
    /// The unit of times, where it is not that of the format.
    pub time_unit: Option<TimeUnit>,
}

/// Reads a trace of one format.
#[derive(Clone, Debug)]
pub struct TraceParser {
    format: TraceFormat,
    options: ParseOptions,
    devices: Devices,
    /// The time of lines that have none of their own.
    clock_ns: u64,
    /// Behind the head of an iolog; behind the events of blkparse.
    is_past_mark: bool,
    /// A line of the table that has a head has been seen.
    has_begun: bool,
    /// The request behind the first one of the last line.
    second: Option<TraceRecord>,
    /// Events that are no block request.
    others: u64,
    /// Requests without a length that have a place for one.
    empty: u64,
    /// All times so far were whole numbers.
    has_whole_times: bool,
    /// The event that counts, in texts that have several by name; that of the first lines, or the first that was seen.
    event: Option<String>,
    /// Lines of other events of requests: of blkparse, by the letter of their action.
    other_actions: [u64; 3],
    /// Requests that the device gave back, by device, kind and place: they come once more.
    requeued: BTreeSet<(String, TraceKind, u64)>,
}

/// A request as a format's own file makes it of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Parsed {
    pub(crate) time_ns: u64,
    pub(crate) kind: TraceKind,
    pub(crate) offset_bytes: u64,
    pub(crate) length_bytes: u64,
    pub(crate) response_ns: Option<u64>,
}

/// The devices that were named so far, by name and in order.
#[derive(Clone, Debug, Default)]
struct Devices {
    numbers: BTreeMap<String, u16>,
    names: Vec<String>,
}

impl Devices {
    fn number_of(&mut self, name: &str) -> Result<u16, LineProblem> {
        if let Some(number) = self.numbers.get(name) {
            return Ok(*number);
        }
        let number = u16::try_from(self.names.len()).map_err(|_| LineProblem::TooManyDevices)?;
        self.numbers.insert(name.to_owned(), number);
        self.names.push(name.to_owned());
        Ok(number)
    }
}

impl TraceParser {
    /// Returns the parser of a trace of `format` from its first line on.
    pub fn new(format: TraceFormat, options: ParseOptions) -> Self {
        Self {
            format,
            options,
            devices: Devices::default(),
            clock_ns: 0,
            is_past_mark: false,
            has_begun: false,
            second: None,
            others: 0,
            empty: 0,
            has_whole_times: true,
            event: None,
            other_actions: [0; 3],
            requeued: BTreeSet::new(),
        }
    }

    /// Looks at the first lines, before they are taken in, where they tell what the others are.
    pub fn look_at<'a>(&mut self, lines: impl Iterator<Item = &'a str>) {
        if self.format == TraceFormat::Perf {
            self.event = format::perf::event_of(lines).map(str::to_owned);
        }
    }

    /// The action of blkparse that counts.
    pub const fn action(&self) -> &'static str {
        match self.options.action {
            BlkAction::Queued => "Q",
            BlkAction::Dispatched => "D",
            BlkAction::Completed => "C",
        }
    }

    /// The actions of blkparse that were seen instead of the one that was asked for.
    pub fn other_actions(&self) -> impl Iterator<Item = &'static str> {
        let seen = ["Q", "D", "C"].into_iter().zip(self.other_actions);
        seen.filter(|(_, count)| *count > 0).map(|(action, _)| action)
    }

    /// Takes in the next line, without its end. Returns the request in it, if there is one that is wanted.
    ///
    /// # Errors
    /// [`LineProblem`] says what is wrong with it; the parser may go on with the next line.
    pub fn line(&mut self, text: &str) -> Result<Option<TraceRecord>, LineProblem> {
        let text = text.trim_start_matches('\u{feff}').trim();
        if text.is_empty() {
            return Ok(None);
        }
        match self.format {
            TraceFormat::Fio2 | TraceFormat::Fio3 => format::fio::line(self, text),
            TraceFormat::Blkparse => format::blkparse::line(self, text),
            TraceFormat::Msr => format::msr::line(self, text),
            TraceFormat::Spc => format::spc::line(self, text),
            TraceFormat::Disksim => format::disksim::line(self, text),
            TraceFormat::DisksimValidate => format::disksim::validation_line(self, text),
            TraceFormat::Perf => format::perf::line(self, text),
            TraceFormat::Biosnoop => format::biosnoop::line(self, text),
            table => format::columns::line(self, table, text),
        }
    }

    /// The request behind the first one of the last line: the write behind a flush. It is taken once.
    pub fn second(&mut self) -> Option<TraceRecord> {
        self.second.take()
    }

    /// What is to be known of the trace beside its requests: sentences.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.empty > 0 {
            let which = counted(self.empty, "request has", "requests have");
            notes.push(format!("{which} no length: counted, and left out of a replay"));
        }
        if self.others > 0 {
            let which = counted(self.others, "event is", "events are");
            notes.push(format!("{which} of no block request, or of one without a place (commands, markers, beginnings that were missed), and left out"));
        }
        if self.event.as_deref().is_some_and(format::perf::is_end) {
            notes.push(
                "its events are ends of requests: times are those when they ended, not when they began"
                    .into(),
            );
        }
        if self.format == TraceFormat::OracleGeneral {
            notes.push(
                "it has no kinds of requests: all are taken for reads, and its objects for sectors".into(),
            );
        }
        let may_be_ns = self.format == TraceFormat::Disksim && self.options.time_unit.is_none();
        if may_be_ns && self.has_whole_times && !self.devices.names.is_empty() {
            notes.push(
                "its times are whole numbers and were taken for milliseconds, as DiskSim writes them: MQSim writes the same columns with \
                 nanoseconds, for which --time-unit ns is right"
                    .into(),
            );
        }
        notes
    }

    /// Names of the devices so far, by their numbers.
    pub fn devices(&self) -> &[String] {
        &self.devices.names
    }

    /// The format that is read.
    pub fn format(&self) -> TraceFormat {
        self.format
    }

    /// The devices that were asked for and not seen so far.
    pub fn devices_missing(&self) -> impl Iterator<Item = &str> {
        let asked = self.options.devices.iter();
        asked.map(String::as_str).filter(|name| !self.devices.numbers.contains_key(*name))
    }

    pub(crate) fn options(&self) -> &ParseOptions {
        &self.options
    }

    /// Whether requests of the device called `name` are wanted.
    pub(crate) fn is_wanted(&self, name: &str) -> bool {
        self.options.devices.is_empty() || self.options.devices.iter().any(|device| device == name)
    }

    /// Gives the device called `name` a number, if it has none.
    pub(crate) fn add_device(&mut self, name: &str) -> Result<u16, LineProblem> {
        self.devices.number_of(name)
    }

    pub(crate) fn has_device(&self, name: &str) -> bool {
        self.devices.numbers.contains_key(name)
    }

    /// Makes a record of what stands in a line for the device called `name`.
    pub(crate) fn record(&mut self, name: &str, parsed: Parsed) -> Result<Option<TraceRecord>, LineProblem> {
        let Parsed { time_ns, kind, offset_bytes, length_bytes, response_ns } = parsed;
        if !self.is_wanted(name) {
            return Ok(None);
        }
        if offset_bytes.checked_add(length_bytes).is_none() {
            return Err(LineProblem::Range { offset_bytes, length_bytes });
        }
        let device = self.devices.number_of(name)?;
        self.empty += u64::from(length_bytes == 0 && kind != TraceKind::Flush);
        Ok(Some(TraceRecord { time_ns, device, kind, offset_bytes, length_bytes, response_ns }))
    }

    /// The time in `text`, of a format whose unit has `unit_digits` digits of nanoseconds.
    pub(crate) fn time_ns(
        &mut self,
        field: &'static str,
        text: &str,
        unit_digits: u32,
    ) -> Result<u64, LineProblem> {
        self.has_whole_times &= !text.contains('.');
        decimal_ns(field, text, self.options.time_unit.map_or(unit_digits, TimeUnit::digits))
    }

    pub(crate) fn set_second(&mut self, record: Option<TraceRecord>) {
        self.second = record;
    }

    pub(crate) fn count_other(&mut self) {
        self.others += 1;
    }

    pub(crate) fn count_action(&mut self, action: &str) {
        if let Some(place) = ["Q", "D", "C"].iter().position(|it| *it == action) {
            self.other_actions[place] += 1;
        }
    }

    /// Notes that the device gave `request` back.
    pub(crate) fn requeue(&mut self, device: &str, request: &Request) {
        self.requeued.insert(place_of(device, request));
    }

    pub(crate) fn has_requeued(&self) -> bool {
        !self.requeued.is_empty()
    }

    /// Whether `request` is one that was given back and comes once more; it is, once.
    pub(crate) fn take_requeued(&mut self, device: &str, request: &Request) -> bool {
        self.has_requeued() && self.requeued.remove(&place_of(device, request))
    }

    /// Whether `event` is the one that counts: the first that is seen.
    pub(crate) fn is_event(&mut self, event: &str) -> bool {
        self.event.get_or_insert_with(|| event.to_owned()) == event
    }

    pub(crate) fn clock_ns(&self) -> u64 {
        self.clock_ns
    }

    pub(crate) fn set_clock_ns(&mut self, clock_ns: u64) {
        self.clock_ns = clock_ns;
    }

    /// Notes that the mark of the format (the head of an iolog, the statistics of blkparse) has been passed.
    pub(crate) fn pass_mark(&mut self) {
        self.is_past_mark = true;
    }

    pub(crate) fn is_past_mark(&self) -> bool {
        self.is_past_mark
    }

    /// Whether this is the first line that is not empty.
    pub(crate) fn is_first_line(&mut self) -> bool {
        !std::mem::replace(&mut self.has_begun, true)
    }
}

fn place_of(device: &str, request: &Request) -> (String, TraceKind, u64) {
    let (kind, offset_bytes, _) = request.moves.unwrap_or((TraceKind::Flush, 0, 0));
    (device.to_owned(), kind, offset_bytes)
}

fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// The format that `line`, one of the first of a trace, is of; none if it does not tell.
pub fn detect(line: &str) -> Option<TraceFormat> {
    let line = line.trim_start_matches('\u{feff}').trim();
    let is = |format: &TraceFormat| match format {
        TraceFormat::Fio2 => line.starts_with(format::fio::HEAD_2),
        TraceFormat::Fio3 => line.starts_with(format::fio::HEAD_3),
        TraceFormat::Blkparse => format::blkparse::is_event(line),
        TraceFormat::Msr => format::msr::is_line(line),
        TraceFormat::Spc => format::spc::is_line(line),
        TraceFormat::Disksim => format::disksim::is_line(line),
        TraceFormat::DisksimValidate => format::disksim::is_validation_line(line),
        TraceFormat::Perf => format::perf::is_line(line),
        TraceFormat::Biosnoop => format::biosnoop::is_line(line),
        table => format::columns::is_line(*table, line),
    };
    TraceFormat::ALL.into_iter().find(is)
}

#[cfg(test)]
mod tests;
