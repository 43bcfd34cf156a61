//! Durability: what an acknowledgement promises to keep is where it must be at that moment.
//!
//! | acknowledged | promises to be on the members, when |
//! |---|---|
//! | write | writes go through, and the members' caches are off |
//! | write with forced unit access | writes go through, or the cache does not survive a power loss |
//! | flush | the same, for all that was acknowledged before the flush was asked for |
//!
//! While the cache survives a power loss, what it flushes, writes with forced unit access, and where the members' caches
//! are off all that it acknowledges, is promised to be on the members or in NVRAM. Promises raise the floors of `volume.rs`, so that every read after a power cut checks them.
//!
//! Verified: on every fit member that should hold the block, what is there now and everything that a power cut could
//! make of it (`members.rs`) is the promised write or one that may follow it; and that reads return the newest
//! acknowledged write or one in flight with it. What counts is the protection at the moment of the acknowledgement. Not verified: that parity would bring the promised data back (the redundancy
//! checker looks at that when all is quiet).

use crate::checkers::provenance::BlockFault;
use crate::host::HostInFlight;
use crate::violation::Violation;
use crate::volume::{Promise, Stale, Stamp, WriteNumber};
use crate::world::TortureWorld;
use raidlab_controller::{BatteryState, CacheMemory, HostOp, HostRequest, MemberCache, WritePolicy};
use raidlab_raid::StripUnit;
use raidlab_units::Lba;

impl TortureWorld {
    /// Checks what a successful request returned, or promised.
    pub(crate) fn check_succeeded(&mut self, host: &HostInFlight) -> Result<(), Box<Violation>> {
        let HostRequest { op, lba, blocks, .. } = host.request;
        let blocks = (lba.0..lba.0 + blocks.0).map(Lba);
        match (op, self.promise(host)) {
            (HostOp::Read, _) => self.check_read(host),
            (HostOp::Flush, _) if host.must_fail => {
                Err(Violation::LossNotTold { tag: host.request.tag }.into())
            }
            (HostOp::Discard, _) | (_, None) => Ok(()),
            (HostOp::Write { .. }, Some(promise)) => {
                self.look_at_states();
                for lba in blocks {
                    if promise == Promise::OnMembers {
                        self.check_on_members(host, lba, |lba, held| {
                            self.volume.check_arrived(lba, held, host.write)
                        })?;
                        self.check_healed((host.request.tag, host.started), lba)?;
                    }
                    self.volume.promise_write(lba, host.write, promise);
                }
                Ok(())
            }
            (HostOp::Flush, Some(promise)) => self.check_flushed(host, promise),
        }
    }

    /// What the success of a write or flush promises about where data is.
    fn promise(&self, host: &HostInFlight) -> Option<Promise> {
        let is_kept = self.keeps_memory();
        // What only this controller finds would be lost with it.
        let is_alone = self.config.cache.mirror
            && self.config.cache.write_policy == WritePolicy::WriteBack
            && !self.controller().is_mirroring();
        let write_through = is_alone || !self.controller().writes_back();
        // What went into a mirrored cache before its mirror was gone is kept until it is destaged.
        let may_hold_dirty =
            self.config.cache.mirror && self.config.cache.write_policy == WritePolicy::WriteBack;
        let is_flushed_to_kept = is_kept && may_hold_dirty && host.request.op == HostOp::Flush;
        let write_through = write_through && !is_flushed_to_kept;
        let member_cache = self.config.member_cache == MemberCache::On;
        let on_members = match host.request.op {
            HostOp::Read | HostOp::Discard => false,
            HostOp::Write { fua } => (write_through && (fua || !member_cache)) || (fua && !is_kept),
            HostOp::Flush => write_through || !is_kept,
        };
        // A plain write may go on from NVRAM into a member's volatile cache.
        let in_kept = match host.request.op {
            HostOp::Write { fua } => fua || !member_cache,
            HostOp::Read | HostOp::Flush | HostOp::Discard => true,
        };
        match (on_members, is_kept && !write_through && in_kept) {
            (true, _) => Some(Promise::OnMembers),
            (false, true) => Some(Promise::InNvram),
            _ => None,
        }
    }

    /// Whether what the cache memory holds is promised to be found after a power cut: the battery is good, and no device was
    /// lost before the devices could name the memory's incarnation.
    pub(crate) fn keeps_memory(&self) -> bool {
        let is_battery_good =
            self.config.cache.memory == CacheMemory::BatteryBacked && self.battery == BatteryState::Good;
        is_battery_good && (!self.has_lost() || self.controller().cache_survives_power_loss())
    }

    fn check_flushed(&mut self, host: &HostInFlight, promise: Promise) -> Result<(), Box<Violation>> {
        self.look_at_states();
        let list = self.volume.take_unpromised();
        for lba in &list {
            if promise == Promise::OnMembers {
                self.check_on_members(host, *lba, |lba, held| self.volume.check(lba, held, host.started))?;
            }
            self.volume.promise_flush(*lba, host.started, host.newest, promise);
        }
        let promised = if promise == Promise::OnMembers { host.started } else { Stamp::default() };
        self.volume.keep_unpromised(list, promised);
        Ok(())
    }

    fn check_read(&mut self, host: &HostInFlight) -> Result<(), Box<Violation>> {
        let block_bytes = self.config.block_size.bytes() as usize;
        let HostRequest { tag, lba, blocks, .. } = host.request;
        self.look_at_states();
        let firsts = self.first_copies(lba, blocks);
        let stripes = self.stripes();
        // While a device is lost nobody writes down that another is missing: that one comes back, too.
        let is_kept = self.controller().is_state_kept();
        // Of copies in doubt only those are read that come before one on a lost device: what they hold stays (told.rs).
        let has_parity = stripes.shape().parities > 0;
        let may_change = |stripe| {
            (has_parity && stripes.awaits_device(stripe)) || (!is_kept && stripes.lacks_holder(stripe))
        };
        let for_good = !self.has_lost() || !stripes.of_range(lba, blocks).any(may_change);
        let buffer = self.memories.host_mut(tag);
        for (index, content) in buffer.chunks_exact(block_bytes).enumerate() {
            let lba = Lba(lba.0 + index as u64);
            if self.volume.is_undefined(lba, host.started) {
                continue;
            }
            let checked = self.volume.copies.write_of(content, lba).and_then(|held| {
                self.volume.check(lba, held, host.started).map_err(|stale| stale.fault(held))?;
                Ok(held)
            });
            if checked.is_err() && self.torn.allow(&self.volume, lba, content, host.started) {
                continue;
            }
            let held = checked.map_err(|fault| Box::new(Violation::WrongRead { lba, fault }))?;
            self.volume.settle(lba, held, host.started, for_good);
            self.trace.mix(held.0);
        }
        self.note_told(firsts);
        Ok(())
    }

    /// Checks a block on each fit member that holds it, as it is and as a power cut could leave it.
    fn check_on_members(
        &self,
        host: &HostInFlight,
        lba: Lba,
        check: impl Fn(Lba, WriteNumber) -> Result<(), Stale>,
    ) -> Result<(), Box<Violation>> {
        if self.volume.is_undefined(lba, host.started) {
            return Ok(());
        }
        let stripes = self.stripes();
        let (stripe, strip, block) = self.layout.locate(lba);
        // Of copies in doubt the first tells what a resync will make of the others; until then nothing is promised of them.
        let is_first_only = self.volume.is_open(lba) && self.was_in_doubt(stripe, self.stamp);
        for copy in 0..stripes.shape().copies {
            let place = self.layout.place(stripe, StripUnit::Data { strip, copy });
            let Some((member, device)) = stripes.fit_holder(place) else { continue };
            let at = place.start.0 + block.0;
            if device.data.is_spoiled(at, 1) {
                // A write to it failed; redundancy has it.
                continue;
            }
            let check_bytes = |bytes: &[u8]| {
                let held = match self.volume.copies.write_of(bytes, lba) {
                    Err(_) if self.torn.allow(&self.volume, lba, bytes, host.started) => return Ok(()),
                    held => held?,
                };
                check(lba, held).map_err(|stale| stale.fault(held))
            };
            let checked = check_bytes(device.data.block(at))
                .and_then(|()| device.data.older(at).try_for_each(check_bytes));
            if let Err(fault) = checked
                && !self.is_bad(member, at)
            {
                let tag = host.request.tag;
                return Err(Violation::NotOnMember { tag, member, lba, fault }.into());
            }
            if is_first_only {
                break;
            }
        }
        Ok(())
    }
}

impl Stale {
    fn fault(self, held: WriteNumber) -> BlockFault {
        BlockFault::Stale { held, possible: self.possible }
    }
}
