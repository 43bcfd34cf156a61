//! The end of a controller's life, and the start of the next one.
//!
//! At a cut each action under way has been carried out whole, in part by blocks, or not at all. Then a new controller
//! starts from the cache memory and its directory (the own ones after a power loss, the second controller's after a
//! failover), may be cut off again while it does, and in the end every block on every member is asked for what the
//! oracle allows.

use crate::history::Safe;
use crate::world::{Cut, Doing, World, entries, held};
use raidlab_controller::{BatteryState, Controller, MemberOp, PeerState};
use raidlab_raid::StripUnit;
use raidlab_testkit::{BLOCK, Memories};
use raidlab_units::Lba;

impl World {
    /// Ends the controller's life, starts another one from what is left, and checks all blocks.
    pub(crate) fn cut(&mut self, cut: Cut) {
        let mut next = Some(cut);
        let mut first = true;
        while let Some(cut) = next {
            self.cuts += 1;
            self.end_of_life(cut, first);
            first = false;
            next = self.start();
        }
        self.check_members();
    }

    fn end_of_life(&mut self, cut: Cut, first: bool) {
        let mirrored = self.controller.is_mirroring();
        if mirrored {
            self.note_mirrored();
        }
        let doing = core::mem::take(&mut self.doing);
        for doing in &doing {
            let share = self.random.pick(&[0, 50, 100]);
            match doing {
                Doing::Member(io, segments) if io.op != MemberOp::Flush => {
                    self.carry_out(io, segments, |random| random.below(100) < share);
                }
                Doing::Memory(_, steps) => self.memories.compute(steps, || self.random.below(100) < share),
                Doing::Member(..) => {}
            }
        }
        for write in self.history.blocks.iter_mut().flatten() {
            let safe = if cut == Cut::Power { write.power } else { write.failover };
            write.counts = write.acked.is_some() && safe != Safe::No && (first || write.counts);
            if write.failover == Safe::No && cut == Cut::Failover {
                write.power = Safe::No;
            }
        }
        match cut {
            Cut::Power => {
                self.lose_member_caches();
                if !self.kept() {
                    self.forget_memory();
                }
            }
            Cut::Failover if mirrored => {
                self.memories.cache.clone_from(&self.memories.peer_cache);
                self.directory.clone_from(&self.peer_directory);
            }
            Cut::Failover => self.forget_memory(),
        }
        self.memories.staging.fill_with(|| self.random.next() as u8);
    }

    /// The members' caches keep some of what was not flushed, and lose the rest.
    fn lose_member_caches(&mut self) {
        for (member, durable) in self.members.iter_mut().zip(&mut self.durable) {
            for (block, kept) in member.chunks_exact_mut(BLOCK).zip(durable.chunks_exact_mut(BLOCK)) {
                if block != kept && self.random.once_in(2) {
                    kept.copy_from_slice(block);
                }
                block.copy_from_slice(kept);
            }
        }
    }

    fn forget_memory(&mut self) {
        self.memories.cache.fill_with(|| self.random.next() as u8);
        self.directory.fill([0; 32]);
    }

    /// Starts a controller from NVRAM and sees what it holds to the members.
    fn start(&mut self) -> Option<Cut> {
        self.controller = Controller::new(&self.config).expect("it was possible before");
        self.hosts.clear();
        self.memories.hosts.clear();
        self.timer = None;
        self.battery = BatteryState::Good;
        self.peer = PeerState::Gone;
        self.lossy = false;
        self.controller.handle_peer(self.now, PeerState::Gone);
        let entries = entries(&self.directory);
        self.controller.restore_nvram(entries.into_iter()).unwrap_or_else(|error| panic!("{error}"));
        let mut cut = self.pump();
        if cut.is_none() {
            cut = self.destage_all();
        }
        while cut.is_none() && self.controller.restored_pending() > 0 {
            match self.step() {
                Ok(progress) => assert!(progress, "what was kept is never destaged"),
                Err(at) => cut = Some(at),
            }
        }
        // Only power can fail while there is no second controller.
        cut.map(|_| Cut::Power)
    }

    /// Asks every copy of every block for what the oracle allows, and takes it as settled.
    fn check_members(&mut self) {
        let layout = self.config.layout().expect("it was possible before");
        self.stamp += 1;
        for lba in 0..self.history.blocks.len() as u64 {
            let (stripe, strip, row) = layout.locate(Lba(lba));
            let mut numbers = Vec::new();
            for copy in 0..layout.shape().copies {
                let place = layout.place(stripe, StripUnit::Data { strip, copy });
                let start = (place.start.0 + row.0) as usize * BLOCK;
                let block = &self.members[place.member.index()][start..start + BLOCK];
                let number = held(block, lba).unwrap_or_else(|| panic!("block {lba} holds garbage"));
                let writes = &self.history.blocks[lba as usize];
                let allowed = self.history.allows(lba, number, |write| write.counts);
                assert!(allowed, "block {lba} holds write {number} of {writes:#?}");
                numbers.push(number);
            }
            numbers.dedup();
            self.history.settle(lba, &numbers, self.stamp);
        }
        // What members hold is checked, so it may as well be where it survives.
        self.durable.clone_from(&self.members);
    }

    /// Lets everything end, and checks that all that was acknowledged is on the members.
    pub(crate) fn finish_all(&mut self) -> Result<(), Cut> {
        while self.waiting() > 0 {
            assert!(self.step()?, "a request is never answered");
        }
        self.destage_all().map_or(Ok(()), Err)?;
        while !self.controller.is_idle() {
            assert!(self.step()?, "it never rests");
        }
        assert!(entries(&self.directory).is_empty(), "an entry of what is on the members");
        self.history.blocks.iter_mut().flatten().for_each(|write| write.counts = write.acked.is_some());
        self.check_members();
        Ok(())
    }
}
