//! The host's side of the world: requests with their patterns, and their ends.

use super::trace::TraceEvent;
use super::violation::{Failure, Violation};
use super::volume::{Stamp, WriteNumber};
use super::world::TortureWorld;
use raidlab_controller::{HostCompletion, HostError, HostOp, HostRequest, HostTag};
use raidlab_units::{BlockCount, Lba};

/// Writes that wait to be repeated, at most.
const AGAIN_MAX: usize = 64;

/// A host request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct HostInFlight {
    pub(super) request: HostRequest,
    pub(super) started: Stamp,
    pub(super) write: WriteNumber,
    /// The newest write that had begun when this request did.
    pub(super) newest: WriteNumber,
    /// A flush that must fail, because data was lost that no flush has failed for.
    pub(super) must_fail: bool,
}

/// All of them, by tag.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    slots: Vec<Option<HostInFlight>>,
    free: Vec<u32>,
    /// Writes that failed or were not answered and are to be repeated, where the host does that.
    pub(super) again: Option<Vec<HostRequest>>,
}

impl Hosts {
    fn take_tag(&mut self) -> HostTag {
        HostTag(self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            (self.slots.len() - 1) as u32
        }))
    }

    fn take(&mut self, tag: HostTag) -> Option<HostInFlight> {
        let taken = self.slots.get_mut(tag.0 as usize)?.take()?;
        self.free.push(tag.0);
        Some(taken)
    }

    /// All writes that have no answer.
    fn writes(&self) -> impl Iterator<Item = HostRequest> {
        let requests = self.slots.iter().flatten().map(|host| host.request);
        requests.filter(|request| matches!(request.op, HostOp::Write { .. }))
    }

    /// True if a write to the block has no answer.
    pub(super) fn is_being_written(&self, lba: Lba) -> bool {
        self.writes().any(|write| (write.lba.0..write.lba.0 + write.blocks.0).contains(&lba.0))
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.free.clear();
    }

    pub(super) fn waiting_count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// True while a flush is in flight.
    pub(super) fn any_flush(&self) -> bool {
        self.slots.iter().flatten().any(|host| host.request.op == HostOp::Flush)
    }

    fn oldest(&self) -> Option<Stamp> {
        self.slots.iter().flatten().map(|host| host.started).min()
    }
}

impl TortureWorld {
    /// Gives the controller a request. A write carries a pattern that names it; a range outside the volume is the
    /// caller's mistake (asserted).
    ///
    /// # Errors
    /// [`Failure`] if the controller breaks a rule.
    pub fn submit(&mut self, op: HostOp, lba: Lba, blocks: BlockCount) -> Result<HostTag, Failure> {
        let tag = self.hand_in(op, lba, blocks);
        self.pump()?;
        Ok(tag)
    }

    /// The same, without asking the controller what to do: more requests may be handed in before.
    pub(super) fn hand_in(&mut self, op: HostOp, lba: Lba, blocks: BlockCount) -> HostTag {
        assert!(lba.0 + blocks.0 <= self.volume_blocks.0, "the range must be in the volume");
        let tag = self.hosts.take_tag();
        let request = HostRequest { tag, op, lba, blocks };
        self.tick(TraceEvent::Request(request));
        let write = self.begin_host(&request);
        let newest = WriteNumber(self.writes);
        let must_fail = op == HostOp::Flush && core::mem::take(&mut self.losses.must_be_told);
        let started = self.stamp;
        self.hosts.slots[tag.0 as usize] = Some(HostInFlight { request, started, write, newest, must_fail });
        self.report.host_ops += 1;
        self.controller.handle_host_request(self.now, request);
        tag
    }

    /// Notes the writes that will never be answered.
    pub(super) fn note_unanswered(&mut self) {
        let unanswered: Vec<_> = self.hosts.writes().collect();
        for request in unanswered {
            self.do_again(request);
        }
    }

    /// Has a write repeated, if the host does that.
    fn do_again(&mut self, request: HostRequest) {
        if let Some(again) = self.hosts.again.as_mut().filter(|again| again.len() < AGAIN_MAX) {
            again.push(request);
        }
    }

    /// Prepares the request's buffer and the reference.
    fn begin_host(&mut self, request: &HostRequest) -> WriteNumber {
        let HostRequest { tag, op, lba, blocks } = *request;
        let block_bytes = self.config.block_size.bytes();
        let len_bytes = blocks.0 * block_bytes;
        self.claims.set_host(tag, len_bytes);
        let buffer = self.memories.host_mut(tag);
        if !matches!(op, HostOp::Write { .. }) {
            // A read must overwrite all of it.
            buffer.clear();
            buffer.resize(len_bytes as usize, 0xa5);
            return WriteNumber(0);
        }
        buffer.resize(len_bytes as usize, 0);
        self.writes += 1;
        let write = WriteNumber(self.writes);
        let oldest = self.hosts.oldest().unwrap_or(self.stamp);
        for lba in (lba.0..lba.0 + blocks.0).map(Lba) {
            self.volume.begin_write(lba, write, self.stamp, oldest);
        }
        let mut buffer = core::mem::take(self.memories.host_mut(tag));
        self.fill_write(&mut buffer, block_bytes as usize, lba, write);
        *self.memories.host_mut(tag) = buffer;
        write
    }

    pub(super) fn complete(&mut self, completion: HostCompletion) -> Result<(), Failure> {
        let HostCompletion { tag, result } = completion;
        let Some(host) = self.hosts.take(tag).filter(|_| self.claims.is_host_idle(tag)) else {
            return Err(self.failure(Violation::UntimelyCompletion { completion }));
        };
        self.last_progress = self.stamp;
        self.moments.answered = Some(host.request.op);
        if result.is_err() && matches!(host.request.op, HostOp::Write { .. }) {
            self.do_again(host.request);
        }
        self.end_write(&host, result.is_ok());
        let checked = match result {
            Ok(()) => self.check_succeeded(&host),
            Err(error) => {
                self.count_error(error);
                self.check_failed(&host, error)
            }
        };
        checked.map_err(|violation| self.failure(violation))
    }

    fn count_error(&mut self, error: HostError) {
        match error {
            HostError::DataLost { lba } => {
                self.report.data_lost_errors += 1;
                self.told_lost.push(lba);
            }
            HostError::ArrayFailed { .. } => self.report.array_failed_errors += 1,
            HostError::OutOfRange { .. } => unreachable!("no request is outside the volume"),
        }
    }

    fn end_write(&mut self, host: &HostInFlight, succeeded: bool) {
        if matches!(host.request.op, HostOp::Write { .. }) {
            for lba in host.request.lba.0..host.request.lba.0 + host.request.blocks.0 {
                self.volume.end_write(Lba(lba), host.write, self.stamp, succeeded);
            }
        }
    }
}
