//! Histories of arrays, drawn from seeds, against an oracle that knows which device holds what was acknowledged.
//!
//! ```text
//! start: find (nonce on each device) ─► generation ─► serve: acknowledge, lose a member, renew NVRAM ─► stop, or crash at any write
//! pool of devices: the array's own; copies of them, from any moment; a second set that is used apart
//! ```
//! Verified: no start uses a device that lacks what was acknowledged, or has what another set was told; none leaves out a state
//! by which NVRAM has its label; a set of all own devices always starts. Not verified: a copy that was taken under the start that wrote
//! the newest state, which nothing tells from the device (it may be used here); logs and bitmaps, which the controller's and torture's
//! tests have.

use super::*;

/// Members, all of one mirror: half of them are enough for a generation.
const MEMBERS: [u16; 4] = [2, 3, 4, 5];

/// `SplitMix64` (G. Steele, D. Lea, C. Flood, 2014).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_in(&mut self, chance: usize) -> bool {
        self.below(chance) == 0
    }
}

/// A device, and what was acknowledged when its data was written last.
#[derive(Clone)]
struct Member {
    area: Vec<u8>,
    holds: u64,
    /// A copy of the device, taken when this start had written this generation; of a device that was not in sync or not served, no
    /// start.
    copied_under: Option<(StartNonce, u64)>,
}

/// Devices that one controller uses, and what it has acknowledged.
#[derive(Clone)]
struct Set {
    members: Vec<Member>,
    /// No device was ever replaced by a copy: one that nothing tells from the device may have been used, and be left behind by those
    /// that were absent.
    is_own: bool,
    acknowledged: u64,
    /// The incarnation of NVRAM by its label.
    label: u64,
}

struct History {
    draw: Draw,
    sets: [Set; 2],
    /// Counts starts and acknowledgements.
    count: u64,
    /// Writes left until power fails.
    fuse: usize,
    copies: Vec<(usize, Member)>,
}

/// Power has failed.
struct Cut;

impl History {
    fn new(seed: u64) -> Self {
        let mut draw = Draw(seed);
        let members = MEMBERS[draw.below(MEMBERS.len())];
        let array = raid("1", members, 0, MetadataPolicy::Resync);
        let member = |area: &Vec<u8>| Member { area: area.clone(), holds: 0, copied_under: None };
        let set = Set {
            members: array.areas.iter().map(member).collect(),
            is_own: true,
            acknowledged: 0,
            label: 5,
        };
        Self { draw, sets: [set.clone(), set], count: 0, fuse: usize::MAX, copies: Vec::new() }
    }

    fn count(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Writes a state to one device of a set; it may be the last that power allows.
    fn write(&mut self, set: usize, device: usize, state: &ArrayState) -> Result<(), Cut> {
        if self.fuse == 0 {
            return Err(Cut);
        }
        self.fuse -= 1;
        let slot = AreaLayout::new(state.geometry.log_bytes).state_slot(state.generation);
        state.encode(
            &mut self.sets[set].members[device].area[slot.offset_bytes as usize..slot.end_bytes() as usize],
        );
        Ok(())
    }

    fn write_all(&mut self, set: usize, devices: &[usize], state: &ArrayState) -> Result<(), Cut> {
        devices.iter().try_for_each(|device| self.write(set, *device, state))
    }

    /// Starts a set of devices, some of them absent, and lets it serve until it stops or power fails.
    fn run(&mut self, set: usize, absent: &[usize]) -> Result<(), Cut> {
        let members = &self.sets[set].members;
        let devices: Vec<usize> = (0..members.len()).filter(|device| !absent.contains(device)).collect();
        let candidates: Vec<_> = devices.iter().map(|device| Some(&*members[*device].area)).collect();
        let assembly = match start(&candidates) {
            Ok(assembly) => assembly,
            Err(error) => {
                assert!(!(absent.is_empty() && self.sets[set].is_own), "all its own devices: {error}");
                return Ok(());
            }
        };
        let present: Vec<usize> =
            assembly.present.iter().flatten().map(|candidate| devices[*candidate]).collect();
        let mut state = assembly.state;
        self.check(set, &present, &state);
        let nonce = StartNonce::new(self.count());
        state.note_found_by(nonce);
        self.write_all(set, &present, &state)?;
        let in_sync: Vec<usize> = present
            .into_iter()
            .filter(|device| state.devices[*device].state == DeviceState::InSync)
            .collect();
        if 2 * in_sync.len() < state.devices.len() {
            // Parts that are started one after the other, each with its own quorum: see "Not found" in docs/on-disk-format.md.
            return Ok(());
        }
        (state.start, state.found_by) = (nonce, Vec::new());
        state.generation += 1;
        for device in 0..state.devices.len() {
            if !in_sync.contains(&device) {
                state.devices[device].state = DeviceState::Missing;
            }
        }
        self.write_all(set, &in_sync, &state)?;
        self.serve(set, in_sync, state)
    }

    fn serve(&mut self, set: usize, mut in_sync: Vec<usize>, mut state: ArrayState) -> Result<(), Cut> {
        for _ in 0..=self.draw.below(4) {
            let acknowledged = self.count();
            self.sets[set].acknowledged = acknowledged;
            for device in &in_sync {
                self.sets[set].members[*device].holds = acknowledged;
            }
            self.copy_one(set, Some((&in_sync, &state)));
            match self.draw.below(6) {
                // A member leaves; the rest are half of those in sync, or more.
                0 if in_sync.len() > 1 => {
                    let gone = in_sync.remove(self.draw.below(in_sync.len()));
                    state.generation += 1;
                    state.devices[gone].state = DeviceState::Missing;
                    self.write_all(set, &in_sync, &state)?;
                }
                1 => return self.renew_nvram(set, &in_sync, state),
                _ => {}
            }
        }
        // A clean stop.
        for dirty in [true, false] {
            state.generation += 1;
            state.dirty = dirty && self.draw.one_in(2);
            self.write_all(set, &in_sync, &state)?;
        }
        self.sets[set].members.iter_mut().for_each(|member| member.copied_under = None);
        Ok(())
    }

    /// Ends the incarnation of NVRAM while half of the members are lost, or fewer: NVRAM gets its label when the others have the
    /// generation.
    fn renew_nvram(&mut self, set: usize, in_sync: &[usize], mut state: ArrayState) -> Result<(), Cut> {
        state.generation += 1;
        state.nvram_epoch = (state.nvram_epoch | 1) + 1;
        let reached = in_sync.len() - self.draw.below(in_sync.len() / 2 + 1);
        self.write_all(set, &in_sync[..reached], &state)?;
        self.sets[set].label = state.nvram_epoch | 1;
        Err(Cut)
    }

    /// Checks what a start has found. A copy that it can't know from the device is the device from now on, and where only copies are
    /// left that agree, they are the array as it was.
    fn check(&mut self, set: usize, present: &[usize], state: &ArrayState) {
        let Set { members, is_own, acknowledged, label } = &mut self.sets[set];
        let in_sync = present.iter().filter(|device| state.devices[**device].state == DeviceState::InSync);
        let is_latest = |(start, generation)| start == state.start && generation + 1 >= state.generation;
        let is_unknowable = |member: &Member| member.copied_under.is_some_and(is_latest);
        let (unknown, known): (Vec<usize>, Vec<usize>) =
            in_sync.copied().partition(|device| is_unknowable(&members[*device]));
        let held: Vec<u64> = known.iter().map(|device| members[*device].holds).collect();
        assert!(held.windows(2).all(|two| two[0] == two[1]), "{known:?} hold {held:?}");
        if *is_own {
            assert_eq!(held[0], *acknowledged, "{known:?} are out of date");
            // Before its label an incarnation has ended whose data are on the members.
            assert!(state.nvram_epoch | 1 >= *label, "what NVRAM holds would be lost");
        }
        *acknowledged = held.first().copied().unwrap_or(*acknowledged);
        *label = (*label).min(state.nvram_epoch | 1);
        for device in unknown {
            (members[device].holds, members[device].copied_under) = (*acknowledged, None);
        }
    }

    /// Now and then takes a copy of a device, of an array that serves from those in sync or is at rest.
    fn copy_one(&mut self, set: usize, serves: Option<(&[usize], &ArrayState)>) {
        if self.draw.one_in(3) {
            let device = self.draw.below(self.sets[set].members.len());
            let member = &self.sets[set].members[device];
            let served = serves.filter(|(in_sync, _)| in_sync.contains(&device));
            let copied_under = served
                .map_or(member.copied_under.unwrap_or((StartNonce::NONE, 0)), |(_, state)| {
                    (state.start, state.generation)
                });
            self.copies.push((device, Member { copied_under: Some(copied_under), ..member.clone() }));
        }
    }

    /// Now and then puts a copy in its device's place.
    fn put_back(&mut self, set: usize) {
        if !self.copies.is_empty() && self.draw.one_in(3) {
            let (device, copy) = self.copies.swap_remove(self.draw.below(self.copies.len()));
            self.sets[set].members[device] = copy;
            self.sets[set].is_own = false;
        }
    }

    fn step(&mut self, has_copies: bool) {
        let set = if has_copies { self.draw.below(2) } else { 0 };
        if has_copies {
            self.copy_one(set, None);
            self.put_back(set);
        }
        let members = self.sets[set].members.len();
        let absent: Vec<usize> = (0..members).filter(|_| self.draw.one_in(3)).collect();
        self.fuse = if self.draw.one_in(4) { usize::MAX } else { self.draw.below(4 * members) };
        let _ = self.run(set, &absent);
    }
}

fn play(seeds: core::ops::Range<u64>, has_copies: bool) {
    for seed in seeds {
        let played = std::panic::catch_unwind(|| {
            let mut history = History::new(seed);
            (0..12).for_each(|_| history.step(has_copies));
        });
        assert!(played.is_ok(), "seed {seed}");
    }
}

#[test]
fn own_devices_always_start_and_never_with_one_that_is_out_of_date() {
    play(0..1_500, false);
}

#[test]
fn copies_are_never_used_with_what_they_lack() {
    play(0..1_500, true);
}
