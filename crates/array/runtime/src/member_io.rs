//! Member I/O: from the controller's [`MemberIo`] to entries of the ring and back.
//!
//! An I/O of one piece of memory is one entry, on a registered buffer if there is one. An I/O of many pieces is one
//! vectored entry, or several if the pieces exceed one entry; it is done when all of them are. Adjacent pieces are
//! joined first. A write of the label or a state goes to the device's front and to its end, and is done when both are.
//!
//! On a device without FUA, a write that must be durable by itself is followed by a flush of the device: an NBD export
//! whose server has none, and a file whose file system is not known to honour it ([`Flushing`]).
//!
//! A write that finds no room on the device waits until there is some (`room`).
//!
//! On a member that is an NBD export the entries are parts, which its link sends as requests. A device has vanished if
//! it is an export whose server is gone or silent for too long, or a file or block device whose I/O does not end in
//! time (`hung`).
//!
//! Invariant: a slot of `slots` is in use from [`MemberPort::issue`] until [`MemberPort::take`] returns its I/O, and
//! its list of pieces stays in place for that time.

mod hung;
mod links;
mod null;
mod owing;
mod room;
mod slot;

use crate::copies::Reach;
use crate::device::{Device, Flushing, LocalDevice};
use crate::error::RingError;
use crate::link::Link;
use crate::memory::Memory;
use crate::ring::{Direction, Done, Ring};
use hung::Hung;
use owing::Owing;
use raidlab_controller::{Area, MemberError, MemberIo, MemberIoId, MemberOp, Segment};
use raidlab_format::{AreaLayout, Placement};
use raidlab_units::{BlockSize, MemberIndex, NanoSpan, Nanos};
use rustix::io::Errno;
use slot::{IoSlot, NUMBER_BITS, Transfer, gather};
use std::io;
use std::path::{Path, PathBuf};

/// The devices as the controller sees them: I/Os in, completions out.
#[derive(Debug)]
pub(crate) struct MemberPort {
    slots: Vec<IoSlot>,
    places: Vec<Place>,
    block_size: BlockSize,
    /// Links by their numbers. A number is used again when no entry names it.
    links: Vec<Option<Box<Link>>>,
    /// Links have something to send.
    is_queued: bool,
    /// How long a request may be unanswered, or an I/O of a file under way.
    member_timeout: NanoSpan,
    look_at: Nanos,
    /// Ends that no completion of an entry of their own tells of.
    ends: Vec<IoEnd>,
    /// Members whose links have broken.
    losses: Vec<MemberIndex>,
    /// Connections whose servers may still do what they were sent.
    owing: Owing,
    /// Entries of files that were given up while the kernel had them.
    hung: Hung,
    /// Writes that wait for room on their devices, by their numbers.
    waiting: Vec<u32>,
}

/// A device that lets so many I/Os time out, one after the other, is gone.
const TIMEOUTS_MAX: u32 = 3;
/// How often devices are looked at whether they answer, at least and at most.
const LOOK_EVERY_MIN: NanoSpan = NanoSpan::from_millis(10);
const LOOK_EVERY_MAX: NanoSpan = NanoSpan::from_millis(1000);

/// A device of the array, or the place of one.
#[derive(Debug, Default)]
struct Place {
    attached: Option<Attached>,
    in_flight: u32,
    /// The array uses what is there no more.
    is_left: bool,
    errors: u64,
    /// Those of them that were told as an event.
    errors_told: u64,
    /// Writes that began to wait for room and were not told as an event.
    waits_untold: u64,
    timeouts: u32,
    /// An I/O was found overdue; found so again it counts.
    is_suspect: bool,
    /// When it was given up because an I/O did not end.
    hung_since: Option<Nanos>,
    /// The worst error that was told of.
    told: Option<MemberError>,
}

/// A device at its place.
#[derive(Debug)]
struct Attached {
    path: PathBuf,
    carrier: Carrier,
    placement: Placement,
}

/// How a device is reached.
#[derive(Debug)]
enum Carrier {
    /// Kept open and locked until the array uses it no more.
    File(LocalDevice),
    /// By the link of this number.
    Link(u32),
    /// It stores nothing.
    Null,
    /// Its link has broken, or its file was given up.
    Lost,
}

/// The end of a member I/O.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoEnd {
    /// Which.
    pub(crate) id: MemberIoId,
    /// How it ended.
    pub(crate) result: Result<(), MemberError>,
}

impl MemberPort {
    /// Makes places for `count` devices. One that leaves a request unanswered for `member_timeout` is gone.
    pub(crate) fn new(count: u16, block_size: BlockSize, member_timeout: NanoSpan) -> Self {
        Self {
            slots: Vec::new(),
            places: (0..count).map(|_| Place::default()).collect(),
            block_size,
            links: Vec::new(),
            is_queued: false,
            member_timeout,
            look_at: Nanos::ZERO,
            ends: Vec::new(),
            losses: Vec::new(),
            owing: Owing::default(),
            hung: Hung::default(),
            waiting: Vec::new(),
        }
    }

    /// Puts a device in its place, instead of one that nothing is in flight on any more (asserted).
    ///
    /// # Errors
    /// [`RingError`] if the kernel refuses.
    pub(crate) fn attach(
        &mut self,
        member: MemberIndex,
        device: Device,
        placement: Placement,
        ring: &mut Ring,
    ) -> Result<(), RingError> {
        let place = &mut self.places[member.index()];
        assert!(place.in_flight == 0, "a device is replaced under its I/O");
        if let Some(Attached { carrier: Carrier::Link(before), .. }) = &place.attached
            && let Some(link) = &mut self.links[*before as usize]
        {
            link.close();
        }
        let path = device.path().to_owned();
        let carrier = match device {
            Device::Local(device) => {
                ring.set_file(member.0, device.descriptor())?;
                if device.waits_in_submission() {
                    ring.hand_over_file(member.0);
                }
                Carrier::File(device)
            }
            Device::Remote(device) => {
                let free = self.links.iter().position(Option::is_none);
                let number = free.unwrap_or_else(|| {
                    self.links.push(None);
                    self.links.len() - 1
                });
                let link = Link::new(device.into_client(), number as u32, member.0);
                ring.set_file(member.0, link.descriptor())?;
                match link.flushing() {
                    Flushing::Whole | Flushing::WithoutFua => {}
                    Flushing::FuaOnly => {
                        tracing::info!(%member, path = %path.display(), "no flush: all writes have FUA");
                    }
                    Flushing::NoCache => tracing::warn!(
                        %member, path = %path.display(),
                        "the server offers no flush: what it acknowledges is taken for durable"
                    ),
                }
                self.links[number] = Some(Box::new(link));
                self.is_queued = true;
                Carrier::Link(number as u32)
            }
        };
        let place = &mut self.places[member.index()];
        *place = Place { attached: Some(Attached { path, carrier, placement }), ..Place::default() };
        Ok(())
    }

    /// True if nothing is in flight on a device.
    pub(crate) fn is_quiet(&self, member: MemberIndex) -> bool {
        self.places[member.index()].in_flight == 0
    }

    /// True if something is in flight on a device.
    pub(crate) fn is_busy(&self) -> bool {
        self.places.iter().any(|place| place.in_flight > 0)
    }

    /// Holds a device for work beside the ring, as an I/O does; none where the array has none there. What was held is given back by
    /// [`Self::release`].
    ///
    /// # Errors
    /// The system gives no descriptor.
    pub(crate) fn hold(&mut self, member: MemberIndex) -> io::Result<Option<Reach>> {
        let place = &mut self.places[member.index()];
        let Some(attached) = place.attached.as_ref().filter(|_| !place.is_left) else { return Ok(None) };
        let reach = match &attached.carrier {
            Carrier::File(device) => Reach::File(device.share()?),
            Carrier::Link(_) => Reach::Export(attached.path.clone()),
            Carrier::Null | Carrier::Lost => return Ok(None),
        };
        place.in_flight += 1;
        Ok(Some(reach))
    }

    /// Gives a device back that was held.
    ///
    /// # Errors
    /// [`RingError`] if the array has left it meanwhile and the kernel refuses to let it go.
    pub(crate) fn release(&mut self, member: MemberIndex, ring: &mut Ring) -> Result<(), RingError> {
        self.places[member.index()].in_flight -= 1;
        self.leave(member, ring)
    }

    /// Where a device is, if there is or was one.
    pub(crate) fn path(&self, member: MemberIndex) -> Option<&Path> {
        self.places[member.index()].attached.as_ref().map(|attached| attached.path.as_path())
    }

    /// Whether a device is a file that is not at its path any more.
    pub(crate) fn has_lost_its_name(&self, member: MemberIndex) -> bool {
        let attached = self.places[member.index()].attached.as_ref();
        attached.is_some_and(|it| matches!(&it.carrier, Carrier::File(device) if device.has_lost_its_name()))
    }

    /// I/Os that failed on a device since it came.
    pub(crate) fn errors(&self, member: MemberIndex) -> u64 {
        self.places[member.index()].errors
    }

    /// I/Os that failed on a device since this was asked last.
    pub(crate) fn take_new_errors(&mut self, member: MemberIndex) -> u64 {
        let place = &mut self.places[member.index()];
        place.errors - std::mem::replace(&mut place.errors_told, place.errors)
    }

    /// Places of devices.
    pub(crate) fn members(&self) -> impl Iterator<Item = MemberIndex> + use<> {
        (0..self.places.len() as u16).map(MemberIndex)
    }

    /// Queues one member I/O. `segments` are its memory, in member block order.
    ///
    /// # Errors
    /// [`RingError`] if a full queue can't be submitted.
    pub(crate) fn issue(
        &mut self,
        now: Nanos,
        io: &MemberIo,
        segments: &[Segment],
        memory: &Memory,
        ring: &mut Ring,
    ) -> Result<(), RingError> {
        let index = io.id.0 as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, IoSlot::default);
        }
        let slot = &mut self.slots[index];
        assert!(slot.entries == 0, "member I/O {index} is in flight already");
        let place = &mut self.places[io.member.index()];
        let placement = place.attached.as_ref().expect("a device that is missing gets no I/O").placement;
        place.in_flight += 1;
        assert!(index < 1 << NUMBER_BITS, "member I/O {index} has no name");
        slot.member = io.member;
        (slot.attempts, slot.at, slot.since, slot.stays, slot.waited) = (0, None, now, false, false);
        gather(segments, memory, &mut slot.pieces);
        let bytes = self.block_size.bytes_of(io.blocks).get();
        let gathered: u64 = slot.pieces.iter().map(|piece| piece.bytes as u64).sum();
        assert!(gathered == bytes, "segments of {gathered} bytes for an I/O of {bytes}");
        let direction = match io.op {
            MemberOp::Read => Some(Direction::Read),
            MemberOp::Write { fua } => Some(Direction::Write { durable: fua }),
            MemberOp::Flush => None,
            MemberOp::Discard => unreachable!("only worlds that pass discards on are asked for them"),
        };
        let within = io.lba.0 * self.block_size.bytes();
        let is_write = matches!(io.op, MemberOp::Write { .. });
        let (offset, copy_offset) = match io.area {
            Area::Data => (placement.data_at + within, None),
            Area::Metadata => {
                let is_copied = is_write && within < AreaLayout::TAIL_BYTES;
                (within, is_copied.then_some(placement.tail_at + within))
            }
        };
        let buffer = match slot.pieces[..] {
            [_] => memory.registered_buffer(segments[0].buffer, bytes),
            _ => None,
        };
        let block_bytes = self.block_size.bytes();
        let transfer = |direction| Transfer { direction, offset, copy_offset, bytes, block_bytes, buffer };
        slot.transfer = direction.map(transfer);
        self.start(io.id.0, ring)
    }

    /// Begins an I/O, or begins it again.
    fn start(&mut self, number: u32, ring: &mut Ring) -> Result<(), RingError> {
        let slot = &mut self.slots[number as usize];
        let place = &mut self.places[slot.member.index()];
        let attached = place.attached.as_ref().expect("a device that is missing gets no I/O");
        let ended = match attached.carrier {
            Carrier::File(_) if place.hung_since.is_some() => Err(MemberError::Gone),
            Carrier::File(ref device) => return slot.push(number, device.flushing(), ring),
            Carrier::Lost => Err(MemberError::Gone),
            Carrier::Null => {
                slot.read_zeros();
                Ok(())
            }
            Carrier::Link(link) => {
                let link = self.links[link as usize].as_mut().expect("a link that is used is there");
                slot.queue(number, link);
                self.is_queued = true;
                if slot.entries > 0 {
                    return Ok(());
                }
                Ok(())
            }
        };
        place.in_flight -= 1;
        place.errors += u64::from(ended.is_err());
        self.ends.push(IoEnd { id: MemberIoId(number), result: ended });
        Ok(())
    }

    /// Makes durable what was written.
    fn flush_after(&mut self, number: u32, ring: &mut Ring) -> Result<(), RingError> {
        let slot = &mut self.slots[number as usize];
        let attached = self.places[slot.member.index()].attached.as_ref();
        match attached.expect("it was written to").carrier {
            Carrier::File(_) => slot.push_flush(number, ring),
            Carrier::Link(link) => {
                let link = self.links[link as usize].as_mut().expect("a link that is used is there");
                slot.queue_flush(number, link);
                self.is_queued = true;
                Ok(())
            }
            Carrier::Null | Carrier::Lost => {
                unreachable!("entries of a link that is lost fail, and null members have none")
            }
        }
    }

    /// Takes in a completion. Returns how the I/O ended, if it was its last.
    ///
    /// # Errors
    /// [`RingError`] if an interrupted I/O can't be queued again.
    pub(crate) fn take(&mut self, done: Done, ring: &mut Ring) -> Result<Option<IoEnd>, RingError> {
        let number = done.number & ((1 << NUMBER_BITS) - 1);
        if self.slots[number as usize].name(number) != done.number {
            self.hung.end(done.number);
            return Ok(None);
        }
        self.take_entry(number, done.result, ring)
    }

    #[inline]
    fn take_entry(
        &mut self,
        number: u32,
        ended: Result<u32, Errno>,
        ring: &mut Ring,
    ) -> Result<Option<IoEnd>, RingError> {
        let lacks_room = ended.is_err_and(|errno| self.lacks_room(number, errno));
        let slot = &mut self.slots[number as usize];
        let place = &mut self.places[slot.member.index()];
        slot.entries -= 1;
        match ended {
            Ok(bytes) => {
                slot.move_on(bytes.into());
                place.timeouts = 0;
            }
            // Neither is tried again: what the one did not keep is lost, the other was taken back.
            Err(_) if slot.is_flushing || place.hung_since.is_some() => slot.error = Some(MemberError::Gone),
            Err(_) if lacks_room => slot.lacks_room = true,
            Err(Errno::INTR | Errno::AGAIN | Errno::NOMEM) => slot.interrupted = true,
            Err(errno) => slot.error = Some(worse(slot.error, place.judge(errno))),
        }
        if slot.entries > 0 {
            return Ok(None);
        }
        if slot.lacks_room && slot.error.is_none() {
            self.wait_for_room(number);
            return Ok(None);
        }
        let Some(result) = slot.outcome() else { return self.start(number, ring).map(|()| None) };
        if result.is_ok() && std::mem::take(&mut slot.flush_after) {
            return self.flush_after(number, ring).map(|()| None);
        }
        place.in_flight -= 1;
        if std::mem::take(&mut slot.stays) {
            self.hung.end_staying();
        }
        if let Err(error) = result {
            place.errors += 1;
            place.tell(slot.member, error, ended.err());
        }
        if place.is_left {
            let member = slot.member;
            self.leave(member, ring)?;
        }
        Ok(Some(IoEnd { id: MemberIoId(number), result }))
    }
}

impl MemberPort {
    /// Gives up devices that do not answer.
    ///
    /// # Errors
    /// [`RingError`] if what follows can't be queued.
    #[inline]
    pub(crate) fn look(&mut self, now: Nanos, ring: &mut Ring) -> Result<(), RingError> {
        if now < self.look_at {
            return Ok(());
        }
        self.look_at = now + (self.member_timeout / 8).clamp(LOOK_EVERY_MIN, LOOK_EVERY_MAX);
        self.look_at_links(now, ring)?;
        self.look_at_files(now, ring)?;
        self.look_for_room(now, ring)
    }
}

impl Place {
    /// What an error of the system means for the array.
    fn judge(&mut self, errno: Errno) -> MemberError {
        if errno != Errno::TIMEDOUT {
            return classify(errno);
        }
        self.timeouts += 1;
        if self.timeouts < TIMEOUTS_MAX { MemberError::Medium } else { MemberError::Gone }
    }

    /// Says once that a device has such errors.
    fn tell(&mut self, member: MemberIndex, error: MemberError, errno: Option<Errno>) {
        let is_news = self.told.is_none_or(|told| worse(Some(told), error) != told);
        let path = self.attached.as_ref().map(|attached| attached.path.display().to_string());
        let (path, errno) =
            (path.unwrap_or_default(), errno.map(|errno| errno.to_string()).unwrap_or_default());
        if is_news {
            tracing::warn!(%member, path, errno, "{error}: this is said once for each device");
            self.told = Some(error);
        } else {
            tracing::debug!(%member, path, errno, "{error}");
        }
    }
}

/// What an error of the system means for the array. Only errors that say that the device itself is no more make
/// the member gone; all others leave it in the array, and the array repairs or reports the blocks concerned.
/// Source: `block/blk-core.c` of Linux, the table `blk_errors`, says which error a device's answer becomes.
fn classify(errno: Errno) -> MemberError {
    match errno {
        Errno::NXIO
        | Errno::NODEV
        | Errno::BADF
        | Errno::NOLINK
        | Errno::STALE
        | Errno::REMOTEIO
        | Errno::SHUTDOWN
        | Errno::NOMEDIUM => MemberError::Gone,
        _ => MemberError::Medium,
    }
}

/// A member that is gone is worse than one that can't read some blocks.
fn worse(first: Option<MemberError>, second: MemberError) -> MemberError {
    if first == Some(MemberError::Gone) { MemberError::Gone } else { second }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_become_errors_of_members() {
        let rows = [
            (Errno::IO, MemberError::Medium),
            (Errno::NODATA, MemberError::Medium),
            (Errno::ILSEQ, MemberError::Medium),
            (Errno::NXIO, MemberError::Gone),
            (Errno::NODEV, MemberError::Gone),
            (Errno::BADF, MemberError::Gone),
            (Errno::REMOTEIO, MemberError::Gone),
            (Errno::TIMEDOUT, MemberError::Medium),
        ];
        for (errno, expected) in rows {
            assert_eq!(classify(errno), expected, "{errno}");
        }
        let mut place = Place::default();
        let judged = [Errno::TIMEDOUT, Errno::TIMEDOUT, Errno::TIMEDOUT].map(|errno| place.judge(errno));
        assert_eq!(judged, [MemberError::Medium, MemberError::Medium, MemberError::Gone]);
        assert_eq!(worse(Some(MemberError::Gone), MemberError::Medium), MemberError::Gone);
        assert_eq!(worse(Some(MemberError::Medium), MemberError::Gone), MemberError::Gone);
        assert_eq!(worse(None, MemberError::Medium), MemberError::Medium);
    }
}
