//! The requests of a trace for one target, one after the other.

use super::DriverConfig;
use crate::op::IoOp;
use crate::replay::{BatchStep, Fit, Replay, ReplayError, Timing, TraceReader};
use crate::stream::Request;
use raidlab_trace::{TraceKind, TraceRecord};
use raidlab_units::NanoSpan;

/// The longest range that a request has.
const RANGE_BYTES_MAX: u64 = u32::MAX as u64;

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A request that is to start so long after the start of the run.
    At(NanoSpan),
    /// Its batch is not there yet.
    NotYet,
    /// Nothing: the trace has ended, or can't be read on.
    Ended,
}

/// Hands out what goes to one target.
#[derive(Debug)]
pub(super) struct TraceStream {
    reader: Box<dyn TraceReader>,
    batch: Vec<TraceRecord>,
    /// The next of the batch.
    next: usize,
    /// The request that comes next, where it is known.
    head: Option<(NanoSpan, Request)>,
    has_ended: bool,
    fault: Option<ReplayError>,
    timing: Timing,
    place: Place,
    /// Whether requests of each device go to this target.
    is_own: Vec<bool>,
    /// Requests of the trace that were looked at.
    taken: u64,
    /// Requests that the trace has, of all devices and kinds.
    total: u64,
}

/// Where requests go on the target.
#[derive(Clone, Copy, Debug)]
struct Place {
    fit: Fit,
    whole_blocks: bool,
    region_bytes: u64,
    block_bytes: u64,
    request_bytes_max: u64,
    /// Where the farthest request of the devices of this target ends.
    extent_bytes: u64,
}

/// A range of the trace's device.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
}

impl TraceStream {
    /// Begins `replay` on the target of `config`, whose number is that of its worker.
    pub(super) fn new(replay: &Replay, config: &DriverConfig) -> Result<Self, ReplayError> {
        let target = config.worker.index;
        replay.check(target, config.region, config.block_bytes)?;
        let is_own: Vec<bool> = replay.targets.iter().map(|to| *to == Some(target)).collect();
        let summary = replay.summary();
        let own = summary.devices.iter().zip(&is_own).filter(|(_, is_own)| **is_own);
        let place = Place {
            fit: replay.fit,
            whole_blocks: replay.whole_blocks,
            region_bytes: config.region.get(),
            block_bytes: u64::from(config.block_bytes),
            request_bytes_max: u64::from(replay.request_bytes_max()),
            extent_bytes: own.map(|(device, _)| device.extent_bytes()).max().unwrap_or(0),
        };
        Ok(Self {
            reader: replay.source.open(config).map_err(ReplayError::Read)?,
            batch: Vec::new(),
            next: 0,
            head: None,
            has_ended: false,
            fault: None,
            timing: replay.timing,
            place,
            is_own,
            taken: 0,
            total: summary.requests,
        })
    }

    /// Says what comes next, reading on where that is needed.
    #[inline]
    pub(super) fn peek(&mut self) -> Next {
        match &self.head {
            Some((due, _)) => Next::At(*due),
            None => self.read_on(),
        }
    }

    /// Hands out what [`TraceStream::peek`] found.
    #[inline]
    pub(super) fn take(&mut self) -> Request {
        let (_, request) = self.head.take().expect("a request is taken only after it was seen");
        request
    }

    /// Why the trace could not be read to its end.
    pub(super) fn fault(&self) -> Option<&ReplayError> {
        self.fault.as_ref()
    }

    /// Requests that were due before `until` and were not handed out, as far as they are in the batch at hand: at least so many.
    pub(super) fn due_before(&self, until: NanoSpan) -> u64 {
        let is_due = |due: &NanoSpan| *due < until;
        let rest = self.batch.get(self.next..).unwrap_or(&[]).iter();
        let dues = rest.map_while(|record| self.request_of(record).ok()).flatten().map(|(due, _)| due);
        self.head.map(|(due, _)| due).into_iter().chain(dues).take_while(is_due).count() as u64
    }

    /// Share of the trace that is over, from 0 to 1.
    pub(super) fn fraction(&self) -> f64 {
        if self.has_ended { 1.0 } else { self.taken as f64 / self.total.max(1) as f64 }
    }

    fn read_on(&mut self) -> Next {
        while !self.has_ended {
            if let Some(record) = self.batch.get(self.next).copied() {
                self.next += 1;
                self.taken += 1;
                match self.request_of(&record) {
                    Ok(Some(head)) => {
                        self.head = Some(head);
                        return Next::At(head.0);
                    }
                    Ok(None) => {}
                    Err(problem) => self.fail(&record, problem),
                }
                continue;
            }
            self.next = 0;
            self.batch.clear();
            match self.reader.next_batch(&mut self.batch) {
                BatchStep::Ready => {}
                BatchStep::NotYet => return Next::NotYet,
                BatchStep::End => self.has_ended = true,
                BatchStep::Failed(problem) => {
                    self.fault = Some(ReplayError::Read(problem));
                    self.has_ended = true;
                }
            }
        }
        Next::Ended
    }

    fn fail(&mut self, record: &TraceRecord, problem: &'static str) {
        let (number, offset_bytes, length_bytes) = (self.taken, record.offset_bytes, record.length_bytes);
        self.fault = Some(ReplayError::Request { number, offset_bytes, length_bytes, problem });
        self.has_ended = true;
    }

    /// The request to make of `record`, and when; none if it is not for this target, or not replayed.
    #[inline]
    fn request_of(&self, record: &TraceRecord) -> Result<Option<(NanoSpan, Request)>, &'static str> {
        let op = match record.kind {
            TraceKind::Read => IoOp::Read,
            TraceKind::Write => IoOp::Write,
            TraceKind::Flush => IoOp::FlushData,
            TraceKind::Trim => IoOp::Trim,
            TraceKind::WriteZeroes => IoOp::WriteZeroes,
        };
        let is_own = self.is_own.get(usize::from(record.device)).copied().unwrap_or(false);
        if !is_own {
            return Ok(None);
        }
        let place = match op {
            IoOp::Flush | IoOp::FlushData => Some((0, 0)),
            _ => self.place.of(op, record.offset_bytes, record.length_bytes)?,
        };
        let Some((offset_bytes, bytes)) = place else { return Ok(None) };
        let due_ns = match self.timing {
            Timing::Original => record.time_ns,
            // A multiplication keeps the order; beyond the largest number all are at the end.
            Timing::Scaled(factor) => (record.time_ns as f64 * factor) as u64,
            Timing::None => 0,
        };
        let request = Request { op, offset_bytes, bytes, delay_after: NanoSpan::ZERO };
        Ok(Some((NanoSpan(due_ns), request)))
    }
}

impl Place {
    /// Where `length_bytes` from byte `offset_bytes` on of the trace's device go, and how long they are there; nowhere if
    /// there are none.
    #[inline]
    fn of(&self, op: IoOp, offset_bytes: u64, length_bytes: u64) -> Result<Option<(u64, u32)>, &'static str> {
        let (block, region) = (self.block_bytes, self.region_bytes);
        let end = offset_bytes.checked_add(length_bytes).ok_or("it ends beyond 2^64")?;
        let Range { start, end } = self.in_blocks(op, Range { start: offset_bytes, end })?;
        if start >= end {
            return Ok(None);
        }
        let length = end - start;
        if op.moves_bytes() && length > self.request_bytes_max {
            return Err("it is longer than the summary of the trace says");
        }
        if length > RANGE_BYTES_MAX {
            return Err("it is of 4 GiB or more");
        }
        let room = region.checked_sub(length).ok_or("it is longer than the target")?;
        let room = room - room % block;
        let placed = match self.fit {
            Fit::Refuse if start > room => return Err("it lies beyond the target"),
            Fit::Refuse => start,
            Fit::Wrap => start % (room + block),
            Fit::Clip => start.min(room),
            Fit::Scale if self.extent_bytes <= region => start.min(room),
            Fit::Scale => {
                let scaled = u128::from(start) * u128::from(region) / u128::from(self.extent_bytes);
                let scaled = scaled as u64;
                (scaled - scaled % block).min(room)
            }
        };
        Ok(Some((placed, length as u32)))
    }

    /// The whole blocks of a range. What moves bytes is widened to them; what gives data up is narrowed, so that nothing goes
    /// that was to stay.
    #[inline]
    fn in_blocks(&self, op: IoOp, Range { start, end }: Range) -> Result<Range, &'static str> {
        let block = self.block_bytes;
        if start.is_multiple_of(block) && end.is_multiple_of(block) {
            return Ok(Range { start, end });
        }
        if !self.whole_blocks {
            return Err("it is not of whole blocks of the target");
        }
        let (before, after) = (start - start % block, end.checked_next_multiple_of(block));
        if op.moves_bytes() {
            return Ok(Range { start: before, end: after.ok_or("it ends beyond 2^64")? });
        }
        let start = start.checked_next_multiple_of(block).ok_or("it ends beyond 2^64")?;
        Ok(Range { start, end: end - end % block })
    }
}

#[cfg(test)]
mod tests;
