//! Random lives of records against what the head of the ring promises.

use super::*;
use crate::ids::OpId;

const BLOCKS: u64 = 24;
const FIRST: u64 = 100;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

fn record(stripe: u64, at_block: u64, blocks: u64, named_tail: u64) -> Record {
    Record {
        op: OpId(0),
        stripe: StripeIndex(stripe),
        phase: Phase::Writing,
        holds: RecordHolds::Rows,
        rows: Rows { first: 0, count: 1 },
        partial_of: None,
        at_block,
        header_blocks: 1,
        blocks,
        header: 0,
        shares_header: false,
        named_tail,
        batched: 1,
        replicas: [None; REPLICAS_MAX],
        pending: 0,
        found_by: FoundBy::Any,
    }
}

/// Brings a record that is drawn one step further. Only what is complete can be applied, and only that is retired.
fn step(ring: &mut Ring, random: &mut Random) {
    let sequences: Vec<u64> = (ring.first_sequence..).take(ring.records.len()).collect();
    let Some(&sequence) = sequences.get(random.below(BLOCKS) as usize) else { return };
    let record = ring.record_mut(sequence);
    record.phase = match record.phase {
        Phase::Digesting | Phase::Writing => Phase::Live,
        Phase::Live => Phase::Applied(0),
        Phase::Applied(_) | Phase::Retired => Phase::Retired,
    };
    if record.phase == Phase::Live {
        let tail = record.named_tail;
        ring.tail_is_kept(tail);
    }
}

/// No two records share a block, none wraps, and each begins where the one before it ends or at the start of the ring.
fn check_room(ring: &Ring) {
    let mut owners = [None; BLOCKS as usize];
    let mut head = None;
    for (sequence, record) in (ring.first_sequence..).zip(ring.records()) {
        assert!(record.at_block == 0 || head.is_none_or(|head| head == record.at_block), "{ring:?}");
        for block in record.at_block..record.at_block + record.blocks {
            assert_eq!(owners[block as usize].replace(sequence), None, "block {block} of {ring:?}");
        }
        head = Some(record.at_block + record.blocks);
    }
}

#[test]
fn room_goes_round_and_is_never_given_twice() {
    for seed in 0..200 {
        let (mut random, mut ring) = (Random(seed), Ring::new(BLOCKS, FIRST));
        let (mut begun, mut full, mut rounds) = (0, 0, 0);
        let mut places: Vec<Range<u64>> = Vec::new();
        for _ in 0..500 {
            let blocks = 1 + random.below(7);
            match ring.room_for(blocks) {
                Some(at_block) => {
                    let found = &places[(ring.kept_tail - FIRST) as usize..];
                    let is_hit = |it: &Range<u64>| it.start < at_block + blocks && at_block < it.end;
                    assert!(!found.iter().any(is_hit), "seed {seed}: a start still finds it: {ring:?}");
                    places.push(at_block..at_block + blocks);
                    rounds += u64::from(at_block == 0);
                    let sequence = ring.begin(record(begun, at_block, blocks, ring.named_tail()));
                    assert_eq!(sequence, FIRST + begun, "seed {seed}");
                    begun += 1;
                }
                None => full += 1,
            }
            check_room(&ring);
            (0..12).for_each(|_| step(&mut ring, &mut random));
            let oldest =
                (ring.first_sequence..).zip(ring.records()).find(|(_, it)| it.phase != Phase::Retired);
            assert_eq!(ring.tail(), oldest.map_or(FIRST + begun, |(sequence, _)| sequence), "seed {seed}");
            if random.below(2) == 0 {
                ring.name_tail();
                ring.forget_retired();
            }
            let is_complete = |record: &&Record| !matches!(record.phase, Phase::Digesting | Phase::Writing);
            let ever_complete = begun > 0 && ring.first_sequence > FIRST;
            assert!(!ever_complete || ring.records().any(|it| is_complete(&it)), "seed {seed}: {ring:?}");
        }
        assert!(full > 0 && rounds > 3, "seed {seed}: {full} times full, {rounds} rounds");
        let tail = ring.records().map(|record| record.named_tail).max().expect("it has records");
        ring.records_mut().for_each(|record| record.phase = Phase::Retired);
        ring.tail_is_kept(tail);
        ring.name_tail();
        ring.forget_retired();
        assert!(ring.room_for(BLOCKS / 3).is_some(), "seed {seed}: nobody will make room: {ring:?}");
    }
}

/// Three writes to the same rows end before a flush: no record names a tail behind the first. A record that the crash cuts off must not
/// take the second one's place while a start would find the first.
#[test]
fn a_retired_record_keeps_its_room_until_the_devices_know() {
    let mut ring = Ring::new(BLOCKS, FIRST);
    for sequence in FIRST..FIRST + 3 {
        let at_block = ring.room_for(5).expect("there is room");
        ring.begin(Record { phase: Phase::Retired, ..record(7, at_block, 5, FIRST) });
        assert_eq!(at_block, 5 * (sequence - FIRST));
    }
    assert_eq!(ring.room_for(5), None, "what names the next tail would find no room behind it");
    ring.name_tail();
    ring.forget_retired();
    let at_block = ring.room_for(8).expect("it names the next tail");
    assert_eq!((at_block, ring.records.len()), (15, 3), "behind the records that a start finds");
    ring.begin(record(7, at_block, 8, ring.named_tail()));
    ring.tail_is_kept(FIRST + 3);
    ring.forget_retired();
    assert_eq!((ring.room_for(7), ring.records.len()), (Some(0), 1));
    assert_eq!(ring.room_for(8), None, "behind the end of that the longest has none");
}

/// The headers of all stand in the first block.
#[test]
fn records_of_a_batch_lose_their_room_together() {
    let mut ring = Ring::new(BLOCKS, FIRST);
    for (at_block, phase) in [(0, Phase::Retired), (2, Phase::Live), (4, Phase::Live), (6, Phase::Writing)] {
        ring.begin(Record { phase, ..record(7, at_block, 2, FIRST) });
    }
    ring.record_mut(FIRST).batched = 2;
    let rows = [(0, Phase::Retired, 4), (1, Phase::Retired, 2), (2, Phase::Retired, 1), (3, Phase::Live, 1)];
    for (record, phase, kept) in rows {
        ring.record_mut(FIRST + record).phase = phase;
        ring.name_tail();
        ring.tail_is_kept(ring.tail());
        ring.forget_retired();
        assert_eq!(ring.records.len(), kept);
    }
}

#[test]
fn a_stripe_may_be_replayed_until_a_tail_behind_its_records_is_kept() {
    let mut ring = Ring::new(BLOCKS, FIRST);
    for stripe in [7, 8, 7] {
        let at_block = ring.room_for(2).expect("there is room");
        ring.begin(record(stripe, at_block, 2, ring.named_tail()));
    }
    let rows = [
        (FIRST, [true, true]),
        (FIRST + 1, [true, true]),
        (FIRST + 2, [true, false]),
        (FIRST + 3, [false, false]),
    ];
    for (tail, expected) in rows {
        ring.tail_is_kept(tail);
        assert_eq!([7, 8].map(|stripe| ring.may_be_replayed(StripeIndex(stripe))), expected, "tail {tail}");
    }
}

#[test]
fn a_stripe_is_to_be_compared_until_its_record_of_checksums_is_retired() {
    for (holds, phase, expected) in [
        (RecordHolds::Checksums, Phase::Live, true),
        (RecordHolds::Checksums, Phase::Applied(0), true),
        (RecordHolds::Checksums, Phase::Retired, false),
        (RecordHolds::Rows, Phase::Applied(0), false),
    ] {
        let mut ring = Ring::new(BLOCKS, FIRST);
        ring.begin(Record { phase, holds, ..record(7, 0, 2, FIRST) });
        assert_eq!(ring.is_to_be_compared(StripeIndex(7)), expected, "{holds:?}, {phase:?}");
        assert!(!ring.is_to_be_compared(StripeIndex(8)), "another stripe");
    }
}

#[test]
fn what_a_start_does_first_counts_until_it_is_retired() {
    use DoneBefore::{LeftAsFound, Nothing, Rewritten};
    let rows = |first, count| Rows { first, count };
    for (phase, partial_of, expected) in [
        (Phase::Live, Some(1), [LeftAsFound, LeftAsFound, Nothing]),
        (Phase::Applied(0), Some(1), [LeftAsFound, LeftAsFound, Nothing]),
        (Phase::Retired, Some(1), [Nothing; 3]),
        (Phase::Applied(0), None, [Rewritten; 3]),
        (Phase::Retired, None, [Nothing; 3]),
    ] {
        let mut ring = Ring::new(BLOCKS, FIRST);
        ring.begin(Record { phase, rows: rows(4, 2), partial_of, ..record(7, 0, 2, FIRST) });
        let done = |own| ring.done_before(StripeIndex(7), rows(5, 3), own);
        assert_eq!([None, Some(0), Some(1)].map(done), expected, "{phase:?}, {partial_of:?}");
        assert_eq!(ring.done_before(StripeIndex(7), rows(6, 3), None), Nothing, "other rows");
        assert_eq!(ring.done_before(StripeIndex(8), rows(5, 3), None), Nothing, "another stripe");
    }
}

#[test]
fn sequential_writes_side_by_side_are_recognised() {
    let mut ring = Ring::new(BLOCKS, FIRST);
    for stripe in [50, 7, 20, 30, 40] {
        ring.begin(record(stripe, 0, 2, FIRST));
    }
    let goes_on = |stripe| ring.goes_on_in(StripeIndex(stripe));
    assert_eq!([7, 8, 40, 41].map(goes_on), [true; 4], "in the stripe, or in the next");
    assert_eq!([6, 9, 50, 51].map(goes_on), [false; 4], "elsewhere, or too long ago");
}
