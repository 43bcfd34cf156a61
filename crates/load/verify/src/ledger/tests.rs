//! The ledger against single cases, and against the definition on random histories of overlapping requests.

use super::*;
use proptest::prelude::*;

const BLOCK: usize = 1024;
const RUN: u64 = 99;

fn ledger(blocks: u64) -> Ledger {
    Ledger::new(RUN, blocks, BLOCK as u32, 8, 4)
}

/// Writes that end at once; returns what they wrote.
fn write(ledger: &mut Ledger, block: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK];
    ledger.begin_write(0, block, &mut bytes);
    ledger.end_write(0, true);
    bytes
}

fn read(ledger: &mut Ledger, block: u64, bytes: &[u8]) -> Vec<FaultKind> {
    let mut kinds = Vec::new();
    ledger.begin_read(1, block, bytes.len());
    ledger.end_read(1, bytes, &mut |fault| kinds.push(fault.kind));
    kinds
}

#[test]
fn each_kind_of_fault_is_told_from_the_others() {
    let mut ledger = ledger(10);
    let old = write(&mut ledger, 3);
    let new = write(&mut ledger, 3);
    let elsewhere = write(&mut ledger, 7);
    assert_eq!(read(&mut ledger, 3, &new), []);
    assert_eq!(read(&mut ledger, 3, &old), [FaultKind::Lost { found: Some(1) }]);
    assert_eq!(read(&mut ledger, 3, &[0; BLOCK]), [FaultKind::Lost { found: None }]);
    assert_eq!(read(&mut ledger, 3, &[5; BLOCK]), [FaultKind::Lost { found: None }]);
    assert_eq!(read(&mut ledger, 3, &elsewhere), [FaultKind::WrongPlace { meant_for: 7, sequence: 5 }]);
    let torn = [&new[..512], &old[512..]].concat();
    assert_eq!(read(&mut ledger, 3, &torn), [FaultKind::Torn { sector: 1 }]);
    let mut damaged = new.clone();
    damaged[700] ^= 1;
    assert_eq!(read(&mut ledger, 3, &damaged), [FaultKind::Damaged { sector: 1 }]);
    assert_eq!(ledger.checked(), Checked { good: 1, unjudged: 0, faulty: 6 });
}

#[test]
fn what_this_run_has_not_written_is_not_judged_but_its_own_data_do_not_belong_there() {
    let mut ledger = ledger(10);
    let mut of_another_run = vec![0; BLOCK];
    stamp_sectors(&mut of_another_run, RUN + 1, 8, 17);
    assert_eq!(read(&mut ledger, 4, &of_another_run), []);
    assert_eq!(read(&mut ledger, 4, &[0; BLOCK]), []);
    assert_eq!(ledger.checked().unjudged, 2);
    let stray = write(&mut ledger, 5);
    assert_eq!(read(&mut ledger, 4, &stray), [FaultKind::WrongPlace { meant_for: 5, sequence: 1 }]);
    write(&mut ledger, 4);
    assert_eq!(read(&mut ledger, 4, &of_another_run), [FaultKind::Lost { found: None }]);
}

#[test]
fn a_failed_write_may_be_there_or_not_until_another_one_replaces_it() {
    let mut ledger = ledger(1);
    let old = write(&mut ledger, 0);
    let mut failed = vec![0; BLOCK];
    ledger.begin_write(0, 0, &mut failed);
    ledger.end_write(0, false);
    let half = [&failed[..512], &old[512..]].concat();
    for bytes in [&old, &failed, &half] {
        assert_eq!(read(&mut ledger, 0, bytes), []);
    }
    let new = write(&mut ledger, 0);
    assert_eq!(read(&mut ledger, 0, &new), []);
    assert_eq!(read(&mut ledger, 0, &failed), [FaultKind::Lost { found: Some(3) }]);
}

#[test]
fn a_sector_in_pieces_is_damage_unless_requests_overlapped() {
    let mut ledger = ledger(2);
    let old = write(&mut ledger, 0);
    // What a write put there, but for the end of its first sector.
    let in_pieces = |new: &[u8]| [&new[..200], &old[200..512], &new[512..]].concat();
    let judge = |ledger: &mut Ledger, bytes: &[u8]| {
        let mut faults = 0;
        ledger.end_read(1, &in_pieces(bytes), &mut |_| faults += 1);
        faults
    };
    let mut new = vec![0; BLOCK];
    ledger.begin_write(0, 0, &mut new);
    ledger.begin_read(1, 0, BLOCK);
    ledger.end_write(0, true);
    assert_eq!(judge(&mut ledger, &new), 0, "it was being written when the read began");
    ledger.begin_read(1, 0, BLOCK);
    assert_eq!(judge(&mut ledger, &new), 1);
    ledger.begin_read(1, 0, BLOCK);
    ledger.begin_write(0, 0, &mut new);
    assert_eq!(judge(&mut ledger, &new), 0, "the write began during the read");
    ledger.begin_write(2, 0, &mut new);
    ledger.end_write(2, true);
    ledger.end_write(0, true);
    ledger.begin_read(1, 0, BLOCK);
    assert_eq!(judge(&mut ledger, &new), 0, "two writes were in flight at once");
    let last = write(&mut ledger, 0);
    ledger.begin_read(1, 0, BLOCK);
    assert_eq!(judge(&mut ledger, &last), 1, "a later one has replaced both");
}

#[test]
fn faults_read_well() {
    let fault = |kind| Fault { block: 3, block_bytes: 4096, expected: 9, kind }.to_string();
    let lost = fault(FaultKind::Lost { found: Some(4) });
    assert_eq!(lost, "block 3 (from byte 12288): write 9 is lost; the block holds write 4");
    let stray = fault(FaultKind::WrongPlace { meant_for: 8, sequence: 5 });
    assert_eq!(stray, "block 3 (from byte 12288): it holds write 5, which was meant for block 8");
}

/// A write of a history: its slot, when it began and ended, and whether it succeeded.
#[derive(Clone, Copy, Debug)]
struct Past {
    sequence: u64,
    first: u64,
    blocks: u64,
    ended: Option<u64>,
    succeeded: bool,
}

impl Past {
    fn covers(&self, block: u64) -> bool {
        (self.first..self.first + self.blocks).contains(&block)
    }
}

/// The definition: no successful write of the block began after `held` had ended and ended before the read began.
fn may_hold(past: &[Past], block: u64, held: Option<&Past>, read_began: u64) -> bool {
    let held_ended = held.map_or(Some(0), |held| held.ended);
    !past.iter().filter(|write| write.covers(block) && write.succeeded).any(|write| {
        write.ended.is_some_and(|ended| ended <= read_began)
            && held_ended.is_some_and(|held_ended| write.sequence > held_ended)
    })
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Begin { slot: u32, first: u64, blocks: u64 },
    End { slot: u32, succeeded: bool },
    Read { block: u64, during: bool },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0u32..6, 0u64..3, 1u64..3).prop_map(|(slot, first, blocks)| Step::Begin { slot, first, blocks }),
        3 => (0u32..6, prop::bool::weighted(0.9)).prop_map(|(slot, succeeded)| Step::End { slot, succeeded }),
        2 => (0u64..4, any::<bool>()).prop_map(|(block, during)| Step::Read { block, during }),
    ];
    prop::collection::vec(step, 1..60)
}

struct World {
    ledger: Ledger,
    past: Vec<Past>,
    in_flight: [Option<usize>; 6],
    ticks: u64,
}

impl World {
    fn begin(&mut self, slot: u32, first: u64, blocks: u64) {
        if self.in_flight[slot as usize].is_some() {
            return;
        }
        self.ticks += 1;
        let mut bytes = vec![0; blocks as usize * BLOCK];
        let sequence = self.ledger.begin_write(slot, first, &mut bytes);
        assert_eq!(sequence, self.ticks);
        self.in_flight[slot as usize] = Some(self.past.len());
        self.past.push(Past { sequence, first, blocks, ended: None, succeeded: false });
    }

    fn end(&mut self, slot: u32, succeeded: bool) {
        let Some(index) = self.in_flight[slot as usize].take() else { return };
        self.ticks += 1;
        self.ledger.end_write(slot, succeeded);
        self.past[index].ended = Some(self.ticks);
        self.past[index].succeeded = succeeded;
    }

    /// Shows the ledger each write that the block might hold, and nothing, and compares its verdicts.
    fn read(&mut self, block: u64, during: bool) -> Result<(), TestCaseError> {
        let began = self.ticks;
        let newest_before = self.ledger.newest[block as usize];
        self.ledger.begin_read(7, block, BLOCK);
        if during {
            // A write ends while the read is under way.
            if let Some(slot) = self.in_flight.iter().position(Option::is_some) {
                self.end(slot as u32, true);
            }
        }
        let changed = self.ledger.newest[block as usize] != newest_before;
        let covering: Vec<Past> = self.past.iter().filter(|write| write.covers(block)).copied().collect();
        for held in covering.iter().map(Some).chain([None]) {
            let mut bytes = vec![0; BLOCK];
            if let Some(held) = held {
                stamp_sectors(&mut bytes, RUN, block * 2, held.sequence);
            }
            let before = self.ledger.checked();
            let mut faults = 0;
            self.ledger.end_read(7, &bytes, &mut |_| faults += 1);
            let unjudged = self.ledger.checked().unjudged > before.unjudged;
            let may = may_hold(&self.past, block, held, began);
            if unjudged {
                let is_unwritten = held.is_none() && newest_before == 0;
                prop_assert!(is_unwritten || changed, "{held:?} of {:?} is not judged", self.past);
            } else {
                prop_assert_eq!(faults == 0, may, "{:?} of {:?}, read at {}", held, self.past, began);
            }
        }
        Ok(())
    }
}

proptest! {
    /// Nothing is accused that the definition allows, and nothing is let pass that it does not.
    #[test]
    fn verdicts_are_those_of_the_definition(steps in steps()) {
        let mut world = World { ledger: ledger(4), past: Vec::new(), in_flight: [None; 6], ticks: 0 };
        for step in steps {
            match step {
                Step::Begin { slot, first, blocks } => world.begin(slot, first, blocks),
                Step::End { slot, succeeded } => world.end(slot, succeeded),
                Step::Read { block, during } => world.read(block, during)?,
            }
        }
    }
}
