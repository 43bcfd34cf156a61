//! What one line of a monitoring tool says of one device, and all of them by host and device.

use std::collections::BTreeMap;

/// What no figure of a device reaches: what does is damage.
const FIGURE_MAX: f64 = 1e15;

/// Rates of a device over an interval. What is not told is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Its end, in seconds since 1970 on the clock that wrote it.
    pub at_s: Option<f64>,
    /// Its length.
    pub interval_s: Option<f64>,
    /// Reads per second.
    pub reads: Option<f64>,
    /// Writes per second.
    pub writes: Option<f64>,
    /// Requests of both kinds per second, where they are not told apart.
    pub requests: Option<f64>,
    /// Bytes read per second.
    pub read_bytes: Option<f64>,
    /// Bytes written per second.
    pub write_bytes: Option<f64>,
    /// Bytes of both kinds per second, where they are not told apart.
    pub moved_bytes: Option<f64>,
    /// Requests in flight.
    pub in_flight: Option<f64>,
    /// Share of the time with any request in flight, in percent.
    pub busy_pct: Option<f64>,
    /// Mean time of a read, in milliseconds.
    pub read_ms: Option<f64>,
    /// Mean time of a write, in milliseconds.
    pub write_ms: Option<f64>,
    /// Mean time of a request of either kind, in milliseconds: it is that of neither kind alone.
    pub request_ms: Option<f64>,
    /// A figure was below zero, or beyond what any device reaches.
    pub(crate) is_damaged: bool,
}

/// A figure of a reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Figure {
    Reads,
    Writes,
    Requests,
    ReadBytes,
    WriteBytes,
    /// Of both kinds together.
    MovedBytes,
    InFlight,
    BusyPct,
    ReadMs,
    WriteMs,
    /// Of both kinds together.
    RequestMs,
    /// The rest of [`Figure::BusyPct`].
    IdlePct,
}

impl Reading {
    /// Sets a figure. What has come before stays.
    pub(crate) fn set(&mut self, figure: Figure, value: f64) {
        if !(0.0..FIGURE_MAX).contains(&value) {
            self.is_damaged = true;
            return;
        }
        let value = if figure == Figure::IdlePct { (100.0 - value).max(0.0) } else { value };
        self.place(figure).get_or_insert(value);
    }

    /// What an idle device tells that otherwise tells this.
    pub(crate) fn idle(&self) -> Self {
        let none = |figure: Option<f64>| figure.map(|_| 0.0);
        Self {
            reads: none(self.reads),
            writes: none(self.writes),
            requests: none(self.requests),
            read_bytes: none(self.read_bytes),
            write_bytes: none(self.write_bytes),
            moved_bytes: none(self.moved_bytes),
            in_flight: none(self.in_flight),
            busy_pct: none(self.busy_pct),
            ..Self::default()
        }
    }

    /// Whether a figure is told.
    pub(crate) fn has(&mut self, figure: Figure) -> bool {
        self.place(figure).is_some()
    }

    const fn place(&mut self, figure: Figure) -> &mut Option<f64> {
        match figure {
            Figure::Reads => &mut self.reads,
            Figure::Writes => &mut self.writes,
            Figure::Requests => &mut self.requests,
            Figure::ReadBytes => &mut self.read_bytes,
            Figure::WriteBytes => &mut self.write_bytes,
            Figure::MovedBytes => &mut self.moved_bytes,
            Figure::InFlight => &mut self.in_flight,
            Figure::BusyPct | Figure::IdlePct => &mut self.busy_pct,
            Figure::ReadMs => &mut self.read_ms,
            Figure::WriteMs => &mut self.write_ms,
            Figure::RequestMs => &mut self.request_ms,
        }
    }

    /// Requests per second; none where only bytes are told.
    pub fn iops(&self) -> Option<f64> {
        match (self.reads, self.writes) {
            (None, None) => self.requests,
            (reads, writes) => Some(reads.unwrap_or(0.0) + writes.unwrap_or(0.0)),
        }
    }

    /// Bytes per second.
    pub fn bytes(&self) -> Option<f64> {
        match (self.read_bytes, self.write_bytes) {
            (None, None) => self.moved_bytes,
            (read, written) => Some(read.unwrap_or(0.0) + written.unwrap_or(0.0)),
        }
    }

    /// What both kinds are together and what one of them is tell the other.
    fn tell_rest(&mut self) {
        let rest =
            |all: Option<f64>, one: &mut Option<f64>, other: &mut Option<f64>| match (all, &one, &other) {
                (Some(all), Some(known), None) => *other = Some((all - known).max(0.0)),
                (Some(all), None, Some(known)) => *one = Some((all - known).max(0.0)),
                _ => {}
            };
        rest(self.requests, &mut self.reads, &mut self.writes);
        rest(self.moved_bytes, &mut self.read_bytes, &mut self.write_bytes);
    }

    /// Whether it says what was moved.
    pub(crate) fn tells(&self) -> bool {
        self.iops().is_some() || self.bytes().is_some()
    }
}

/// The times of a table whose rows do not tell what time they cover: it is that since the row before.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowTimes {
    before_s: Option<f64>,
    now_s: Option<f64>,
}

impl RowTimes {
    /// A row or a head of `at_s`; several may have one time.
    pub(crate) fn at(&mut self, at_s: f64) {
        if self.now_s != Some(at_s) {
            (self.before_s, self.now_s) = (self.now_s, Some(at_s));
        }
    }

    /// What the last row covers; none of the first.
    pub(crate) fn covered_s(self) -> Option<f64> {
        Some(self.now_s? - self.before_s?).filter(|it| *it > 0.0)
    }
}

/// All readings, by host and device, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Readings {
    /// By host and device.
    pub by_device: BTreeMap<(String, String), Vec<Reading>>,
    /// What is to be known of them: sentences.
    pub notes: Vec<String>,
}

impl Readings {
    pub(crate) fn push(&mut self, host: &str, device: &str, mut reading: Reading) {
        if reading.is_damaged {
            return self
                .note("readings with figures below zero or beyond what any device reaches are left out");
        }
        reading.tell_rest();
        if reading.tells() {
            self.by_device.entry((host.to_owned(), device.to_owned())).or_default().push(reading);
        }
    }

    /// Gives what does not tell its time that of its successor, or of its predecessor: the first of a table has nothing before it.
    pub(crate) fn infer_intervals(&mut self) {
        for list in self.by_device.values_mut() {
            let mut known = None;
            for reading in list.iter_mut().rev() {
                reading.interval_s = reading.interval_s.or(known);
                known = reading.interval_s;
            }
            for reading in list {
                reading.interval_s = reading.interval_s.or(known);
                known = reading.interval_s;
            }
        }
    }

    /// Adds those of another file.
    pub fn merge(&mut self, other: Self) {
        for (key, list) in other.by_device {
            self.by_device.entry(key).or_default().extend(list);
        }
        for note in other.notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
    }

    pub(crate) fn note(&mut self, text: &str) {
        if self.notes.iter().all(|note| note != text) {
            self.notes.push(text.to_owned());
        }
    }
}
