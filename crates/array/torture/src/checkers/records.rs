//! Records: the log gives up a record's room, and leaves rows out, only when nobody can need them.
//!
//! ```text
//!  record ─► applied ─► flushed: retired ─► its room ─► a later record or a state that says so is on a device ─► room free
//! ```
//! A record that power tears where an older one stood must not take what a start would look for. And while a device is lost, no
//! state can tell who is missing next, so a record made then holds its rows.
//!
//! Verified: each write to the ring of a member that is handed out goes where no record stands that a start might still count, whichever
//! devices it finds; records that surely began while a device was lost hold rows. Not verified: the ring in NVRAM; that enough devices
//! say what is retired (losses and durability show that after a cut).

use crate::flights::{Flight, Work};
use crate::violation::Violation;
use crate::world::TortureWorld;
use core::ops::Range;
use raidlab_controller::{Area, MemberIo, MemberOp, MetadataPolicy};
use raidlab_format::{AreaLayout, ArrayState, LogHeader, RecordHolds};
use raidlab_units::ByteCount;

/// What the devices' logs hold, as far as the world has seen it written.
#[derive(Debug, Default)]
pub(crate) struct Records {
    /// The highest tail that a device was told.
    tail: u64,
    /// Records from that on, and where they stand in the ring, in blocks.
    found: Vec<(u64, Range<u64>)>,
    /// The highest number seen.
    latest: u64,
    /// While a device is lost: records from this one on began after that.
    begun_since_loss: Option<u64>,
}

impl Records {
    fn take_tail(&mut self, tail: u64) {
        if tail > self.tail {
            self.tail = tail;
            self.found.retain(|(sequence, _)| *sequence >= tail);
        }
    }
}

impl TortureWorld {
    /// Looks at a write of metadata that is handed out, and notes the tail that it names. Its segments must be in place.
    pub(crate) fn look_at_records(
        &mut self,
        io: &MemberIo,
        flight: &mut Flight,
    ) -> Result<(), Box<Violation>> {
        if self.config.resilience.metadata != MetadataPolicy::Log || !matches!(io.op, MemberOp::Write { .. })
        {
            return Ok(());
        }
        let block_bytes = self.config.block_size.bytes();
        let mut bytes = core::mem::take(&mut self.record_bytes);
        bytes.resize((io.blocks.0 * block_bytes) as usize, 0);
        self.memories.gather(self.controller.own_memory(), &mut bytes, &flight.segments);
        let at = io.lba.0 * block_bytes;
        let checked = if at >= AreaLayout::FRONT_BYTES {
            let first = (at - AreaLayout::FRONT_BYTES) / block_bytes;
            self.look_at_headers(&bytes, first..first + io.blocks.0, flight)
        } else {
            let is_state = AreaLayout::new(ByteCount(0)).state.iter().any(|slot| slot.offset_bytes == at);
            if let Some(state) = ArrayState::decode(&bytes).ok().filter(|_| is_state) {
                flight.named_tail = state.log_tail;
            }
            Ok(())
        };
        self.record_bytes = bytes;
        checked
    }

    fn look_at_headers(
        &mut self,
        bytes: &[u8],
        place: Range<u64>,
        flight: &mut Flight,
    ) -> Result<(), Box<Violation>> {
        let has_lost = self.has_lost();
        let margin = self.config.staging_size.0 / self.config.strip_size.0;
        let records = &mut self.records;
        let mut written: Vec<(u64, Range<u64>)> = Vec::new();
        // Headers share a block as far as they fit; the next stands behind the rows of those.
        let (mut at, block_bytes) = (0, self.config.block_size.bytes());
        while let Some(mut record) =
            bytes.get(at..).and_then(|bytes| LogHeader::decode(bytes, self.config.block_size).ok())
        {
            // Of several in one write each may be copied alone later, as far as they share no block of headers.
            let (first, start) = (written.len(), place.start + at as u64 / block_bytes);
            let payload_end = loop {
                let LogHeader { sequence, tail_sequence, holds, stripe, .. } = record.header;
                flight.named_tail = flight.named_tail.max(tail_sequence);
                records.latest = records.latest.max(sequence);
                written.push((sequence, start..start));
                let since = records.begun_since_loss.get_or_insert(records.latest + margin);
                if has_lost && sequence > *since && holds != RecordHolds::Rows {
                    return Err(Violation::BareWithoutDevice { stripe }.into());
                }
                match record.next_in_block() {
                    Some(next) => record = next,
                    None => break u64::from(record.payload_at) + record.payload_blocks(),
                }
            };
            // A copy may come in two writes: the block of headers, then the rows.
            let end = place.end.min(start + payload_end);
            written[first..].iter_mut().for_each(|(_, at)| at.end = end);
            at += (payload_end * block_bytes) as usize;
        }
        if !has_lost {
            records.begun_since_loss = None;
        }
        let is_written = |number: &u64| written.iter().any(|(sequence, _)| sequence == number);
        let is_other = |(sequence, at): &&(u64, Range<u64>)| {
            !is_written(sequence) && at.start < place.end && place.start < at.end
        };
        if let Some(&(sequence, _)) = records.found.iter().find(is_other) {
            return Err(Violation::RoomReused { sequence }.into());
        }
        records.found.retain(|(sequence, _)| !is_written(sequence));
        records.found.extend(written);
        Ok(())
    }

    /// Takes note of a write of metadata that has arrived on a device.
    pub(crate) fn note_metadata_written(&mut self, flight: &Flight) {
        if matches!(flight.work, Work::Member(io) if io.area == Area::Metadata) {
            self.records.take_tail(flight.named_tail);
        }
    }
}
