//! Write intent by itself: what goes to which devices before an operation may write, and what lets go of it.

use super::*;
use crate::api::{Action, MemberError, MemberOp, MemoryKind};
use crate::config::{CacheConfig, MemberCache, Resilience};
use crate::ids::OpId;
use crate::request::Rows;
use crate::rules::{ArrayRules, WriteLogPlace};
use raidlab_format::{
    ArrayUuid, LogHeader, LogRecord, LogRun, LogSource, PayloadPlace, RecordHolds, STATE_BYTES,
};
use raidlab_units::{BlockSize, MemberIndex};

const ROW: Rows = Rows { first: 2, count: 1 };

/// A RAID 5 of three members with volatile caches.
struct Array {
    geometry: Geometry,
    metadata: Metadata,
    ops: Slab<StripeOp, OpId>,
    own: OwnMemory,
    ios: MemberIos,
    tasks: MemoryTasks,
    outbox: Outbox,
    intent: WriteIntent,
}

fn array(metadata: MetadataPolicy, rules: ArrayRules) -> Array {
    array_with(Resilience { metadata, ..Resilience::default() }, rules)
}

fn array_with(resilience: Resilience, rules: ArrayRules) -> Array {
    let config = ArrayConfig {
        level: "5".parse().expect("it is a level"),
        members: 3,
        strip_size: ByteCount::from_kib(64),
        block_size: BlockSize::B4096,
        member_size: ByteCount::from_mib(64),
        member_cache: MemberCache::On,
        cache: CacheConfig { rules, ..CacheConfig::default() },
        staging_size: ByteCount::from_mib(1),
        resilience,
    };
    let checked = config.check().expect("it can be");
    let intent = WriteIntent::new(&config, &*checked.layout);
    let keeps_metadata = config.resilience.metadata != MetadataPolicy::None;
    let own = OwnMemory::new(keeps_metadata, config.header_bytes_max(&*checked.layout), 0);
    let state = keeps_metadata.then(|| config.new_state(3, ArrayUuid::default()));
    let ios = MemberIos::new(3, config.block_size, &config.cache);
    Array {
        metadata: Metadata::new(&*checked.layout, 0, state),
        geometry: Geometry::new(checked.layout, 4096, 1),
        ops: Slab::new(),
        own,
        ios,
        tasks: MemoryTasks::new(),
        outbox: Outbox::default(),
        intent,
    }
}

impl Array {
    fn parts(&mut self) -> (&mut WriteIntent, Surroundings<'_>) {
        let Self { geometry, metadata, ops, own, ios, tasks, outbox, intent } = self;
        let (now, log_place, has_peer) = (Nanos(1_000), LogPlace::Members, false);
        let around =
            Surroundings { now, geometry, metadata, ops, own, ios, tasks, outbox, log_place, has_peer };
        (intent, around)
    }

    /// An operation that writes a row of the first strip of a stripe, and its parity.
    fn op(&mut self, stripe: u64) -> OpId {
        let id = self.ops.take();
        self.ops[id].write_a_row(&self.geometry, StripeIndex(stripe), own_buffer(0));
        id
    }

    fn admit(&mut self, id: OpId) -> Admission {
        self.intent.admit(id, self.ops[id].stripe())
    }

    fn end_write(&mut self, id: OpId) -> bool {
        let Self { intent, ops, metadata, outbox, .. } = self;
        intent.end_write((id, ops[id].stripe()), true, (Nanos(1_000), metadata, outbox))
    }

    fn send_image(&mut self) -> bool {
        let (intent, mut around) = self.parts();
        intent.bitmap().expect("it has one").send(&mut around)
    }

    /// Takes the member I/Os asked for: devices and operations.
    fn ios(&mut self) -> Vec<(u16, MemberOp)> {
        let actions = std::iter::from_fn(|| self.outbox.poll());
        let io = |action| if let Action::Member(io) = action { Some((io.member.0, io.op)) } else { None };
        actions.filter_map(io).collect()
    }

    /// Ends all writes of the image that is under way. Returns who was in line for it.
    fn end_image(&mut self, devices: usize) -> Vec<OpId> {
        let bitmap = self.intent.bitmap().expect("it has one");
        let ends = (0..devices).map(|_| bitmap.image_done()).collect::<Vec<_>>();
        assert_eq!(ends.iter().position(|&is_last| is_last), Some(devices - 1));
        std::iter::from_fn(|| bitmap.next_in_line()).collect()
    }
}

const FORCED: MemberOp = MemberOp::Write { fua: true };

#[test]
fn a_region_is_marked_on_all_devices_before_the_first_write_in_it() {
    let mut array = array(MetadataPolicy::Bitmap, ArrayRules::OWN);
    let (first, second) = (array.op(5), array.op(5));
    assert_eq!(array.admit(first), Admission::WithImage);
    assert!(!array.send_image(), "it is on its way");
    assert_eq!(array.ios(), [(0, FORCED), (1, FORCED), (2, FORCED)]);
    assert_eq!(array.admit(second), Admission::WithImage, "it is not there yet");
    assert!(!array.send_image(), "one at a time, and no other is wanted");
    assert_eq!(array.end_image(3), [first, second]);
    assert_eq!([array.admit(first), array.admit(second)], [Admission::Now, Admission::Now]);
    assert!(array.ios().is_empty());
}

#[test]
fn a_region_is_cleared_after_a_look_without_a_write_and_a_flush_of_all_members() {
    let mut array = array(MetadataPolicy::Bitmap, ArrayRules::OWN);
    let op = array.op(5);
    array.admit(op);
    array.send_image();
    array.end_image(3);
    assert_eq!(array.admit(op), Admission::Now);
    assert!(!array.end_write(op), "nobody waits for room");
    array.ios();
    for is_cleared in [false, true] {
        let (intent, mut around) = array.parts();
        let bitmap = intent.bitmap().expect("it has one");
        assert!(!bitmap.clear_timer_due(&mut around), "members are flushed first");
        let ends = [0, 1, 2].map(|_| bitmap.flush_done(&mut around));
        assert_eq!(ends, [false, false, true]);
        assert_eq!(array.ios(), [0, 1, 2].map(|device| (device, MemberOp::Flush)));
        assert!(!array.send_image());
        assert_eq!(array.ios().len(), if is_cleared { 3 } else { 0 }, "it was written since the last look");
    }
    assert_eq!(array.admit(op), Admission::WithImage, "it is being cleared");
}

/// Has the record digested that is begun now, and sent if it need not wait. Returns the I/Os for it.
fn send_record(array: &mut Array, sequence: u64) -> Vec<(u16, MemberOp)> {
    let (intent, mut around) = array.parts();
    let log = intent.log().expect("it has one");
    assert_eq!(log.begin_records(&mut around), None);
    let Some(Action::Memory(task)) = around.outbox.poll() else { panic!("the payload is digested") };
    assert_eq!((task.kind, task.bytes_in), (MemoryKind::Digest, 2 * 4096), "data and parity");
    assert!(log.digested(sequence, &[1, 2], &mut around), "it goes to the members");
    assert_eq!(log.send_batches(&mut around), None);
    array.ios()
}

#[test]
fn a_write_goes_on_when_its_record_is_on_one_device_more_than_there_are_parities() {
    let mut array = array(MetadataPolicy::Log, ArrayRules::OWN);
    let op = array.op(5);
    assert_eq!(array.admit(op), Admission::WithRecord);
    assert_eq!(send_record(&mut array, 1), [(2, FORCED), (0, FORCED)]);
    let (intent, mut around) = array.parts();
    let log = intent.log().expect("it has one");
    assert!(!log.replica_done(1, None, &mut around));
    assert!(log.replica_done(1, None, &mut around));
    assert_eq!(log.end_batch(1), 1..2);
    assert_eq!(log.record_live(1, around.own), op);
    assert!(intent.may_be_replayed(StripeIndex(5)));
    assert!(array.end_write(op), "there may be room");
    let (intent, mut around) = array.parts();
    let log = intent.log().expect("it has one");
    assert!(!log.drain(&mut around), "members may lose what was written");
    assert_eq!([0, 1, 2].map(|_| log.flush_done(around.metadata)), [false, false, true]);
    assert!(log.drain(&mut around));
    assert_eq!(array.ios(), [0, 1, 2].map(|device| (device, MemberOp::Flush)));
}

/// Regression (plan `97878-beyond`): the record was on one device only, which was absent at the next start, while that which had
/// left was back: the stripe was torn and not in doubt.
#[test]
fn a_record_is_on_as_many_devices_as_before_until_the_devices_know_who_has_left() {
    for (is_known, expected) in [(false, &[(2, FORCED), (0, FORCED)][..]), (true, &[(2, FORCED)])] {
        let mut array = array(MetadataPolicy::Log, ArrayRules::OWN);
        let op = array.op(5);
        array.admit(op);
        array.metadata.fail(&array.geometry, MemberIndex(1), &mut array.outbox);
        assert!(matches!(array.outbox.poll(), Some(Action::Notice(_))));
        if is_known {
            array.metadata.make_generation(None, &mut [0; STATE_BYTES]);
            assert!(array.metadata.end_superblock_write(), "the hand-out was all");
        }
        assert_eq!(send_record(&mut array, 1), expected);
    }
}

/// Regression (plan `136735-beyond`): the log moved to NVRAM while a device was lost, and the cache no longer counted as mirrored
/// under writes that were on their way into it, although the second controller lacked no record.
#[test]
fn records_on_members_are_found_by_a_second_controller_after_the_log_has_moved_to_nvram() {
    let mut array = array(MetadataPolicy::Log, ArrayRules::OWN);
    let op = array.op(5);
    array.admit(op);
    send_record(&mut array, 1);
    // No superblock names a tail behind it before the devices know who has failed.
    array.metadata.fail(&array.geometry, MemberIndex(1), &mut array.outbox);
    let Array { intent, metadata, own, .. } = &mut array;
    let log = intent.log().expect("it has one");
    log.record_live(1, own);
    log.is_named(LogPlace::Nvram);
    log.superblock_written(metadata);
    log.forget_mirrored();
    assert!(log.is_mirrored());
}

#[test]
fn records_that_wait_for_others_share_a_write() {
    let mut array = array(MetadataPolicy::Log, ArrayRules::OWN);
    for (sequence, stripe) in [(1, 5), (2, 6), (3, 7)] {
        let op = array.op(stripe);
        assert_eq!(array.admit(op), Admission::WithRecord, "nobody is in line");
        let ios = send_record(&mut array, sequence).len();
        assert_eq!(ios, if sequence == 1 { 2 } else { 0 }, "the first is on its way");
    }
    let (intent, mut around) = array.parts();
    let log = intent.log().expect("it has one");
    for is_last in [false, true] {
        assert_eq!(log.replica_done(1, None, &mut around), is_last);
    }
    assert_eq!(log.end_batch(1), 1..2);
    log.record_live(1, around.own);
    assert_eq!(log.send_batches(&mut around), None);
    assert_eq!(array.ios().len(), 2, "the others go together");
    let mut segments = Vec::new();
    let io = IntentIo::Records { first: 2 };
    array.intent.segments(io, 0, (&array.geometry, &array.ops, &array.own), &mut segments);
    assert_eq!(segments.iter().map(|it| it.bytes / 4096).collect::<Vec<_>>(), [1, 1, 1, 1, 1]);
    let block = &array.own.bytes()[segments[0].buffer.offset as usize..];
    let headers =
        std::iter::successors(LogHeader::decode(block, BlockSize::B4096).ok(), LogRecord::next_in_block);
    let headers: Vec<_> = headers.map(|it| (it.header.sequence, it.payload_at)).collect();
    assert_eq!(headers, [(2, 1), (3, 3)], "headers first, then the rows of each");
    assert_eq!(array.intent.log().expect("it has one").end_batch(2), 2..4);
}

/// The room of a batch is kept until the next is complete; beside it the longest record must have room.
#[test]
fn a_batch_takes_a_third_of_a_small_log() {
    let log_size = ByteCount(3 * 49 * 4096);
    let resilience = Resilience { metadata: MetadataPolicy::Log, log_size, ..Resilience::default() };
    let mut array = array_with(resilience, ArrayRules::OWN);
    for sequence in 1..=30 {
        let op = array.op(4 + sequence);
        array.admit(op);
        send_record(&mut array, sequence);
    }
    let (intent, mut around) = array.parts();
    let log = intent.log().expect("it has one");
    log.replica_done(1, None, &mut around);
    log.replica_done(1, None, &mut around);
    log.end_batch(1);
    assert_eq!(log.send_batches(&mut around), None);
    assert_eq!(log.end_batch(2), 2..18, "16 records of 3 blocks");
}

/// A record of one row that stands on device 0.
fn record() -> raidlab_format::Replay {
    raidlab_format::Replay {
        sequence: 9,
        stripe: StripeIndex(5),
        runs: vec![LogRun { unit: 0, first_row: ROW.first, rows: ROW.count }],
        holds: RecordHolds::Rows,
        row_checksums: vec![77],
        superseded: Vec::new(),
        payload_at: 1,
        copies: vec![PayloadPlace { source: LogSource::Device(MemberIndex(0)), block: 11 }],
    }
}

#[test]
fn a_record_is_read_made_whole_and_written_again() {
    let mut array = array(MetadataPolicy::Log, ArrayRules::OWN);
    let place = array.geometry.unit_place(StripeIndex(5), 0);
    let (intent, mut around) = array.parts();
    let replay = intent.replay();
    assert_eq!(replay.begin(record(), vec![7], &mut around), ReplayStep::Waits);
    assert_eq!(replay.read_done(Ok(()), &mut around), ReplayStep::Waits, "header and row are read");
    assert_eq!(replay.read_done(Ok(()), &mut around), ReplayStep::Waits, "they are compared");
    assert_eq!(replay.digested(&[77], &mut around), ReplayStep::Waits, "one more device gets it");
    let write = (IntentIo::ReplayWrite { run: 0, skipped: 0 }, place, ROW);
    assert_eq!(replay.copy_done(None, &mut around), ReplayStep::Waits, "its header, and its row");
    assert_eq!(
        replay.copy_done(None, &mut around),
        ReplayStep::Write { writes: vec![write], unreadable: vec![] }
    );
    assert!(!replay.write_done());
    assert!(replay.write_done());
    assert_eq!(replay.end(around.own), [7], "its staging place is free again");
    assert!(!intent.is_replaying());
    assert_eq!(array.ios(), [(0, MemberOp::Read), (0, MemberOp::Read), (1, FORCED), (1, FORCED)]);
}

/// A record of partial parity for three rows of the first strip.
fn record_of_partial_parity(superseded: &[LogRun]) -> raidlab_format::Replay {
    raidlab_format::Replay {
        runs: [0, 2].map(|unit| LogRun { unit, first_row: ROW.first, rows: 3 }).to_vec(),
        holds: RecordHolds::PartialParity,
        row_checksums: vec![77, 78, 79],
        superseded: superseded.to_vec(),
        ..record()
    }
}

/// What is written by that record when those rows of the strip can't be read: parity, and rows to be restored.
fn updated(superseded: &[LogRun], unreadable: impl Fn(Rows) -> bool) -> (Vec<Rows>, Vec<Rows>) {
    let mut array = array(MetadataPolicy::Log, ArrayRules::OWN);
    let [strip, parity] = [0, 2].map(|unit| array.geometry.unit_place(StripeIndex(5), unit));
    let (intent, mut around) = array.parts();
    let replay = intent.replay();
    assert_eq!(
        replay.begin(record_of_partial_parity(superseded), vec![7, 8], &mut around),
        ReplayStep::Waits
    );
    assert_eq!(replay.read_done(Ok(()), &mut around), ReplayStep::Waits, "header and rows are read");
    assert_eq!(replay.read_done(Ok(()), &mut around), ReplayStep::Waits, "rows are compared");
    assert_eq!(replay.digested(&[77, 78, 79], &mut around), ReplayStep::Waits, "one more device gets it");
    assert_eq!(replay.copy_done(None, &mut around), ReplayStep::Waits, "its header, and its rows");
    let mut next = replay.copy_done(None, &mut around);
    while let ReplayStep::Read(reads) = next {
        for (io, place, rows) in reads {
            let IntentIo::ReplayCheck { run: 0, skipped } = io else { panic!("{io:?}") };
            assert_eq!(place, strip, "parity is not read");
            replay.rows_read(unreadable(rows).then_some((0, skipped)), &mut around);
        }
        next = replay.rows_read(None, &mut around);
    }
    if next == ReplayStep::Waits {
        next = replay.strip_added(&around);
    }
    let ReplayStep::Write { writes, unreadable } = next else { panic!("{next:?}") };
    let written = writes.into_iter().map(|(_, place, rows)| {
        assert_eq!(place, parity);
        rows
    });
    let restored = unreadable.into_iter().map(|(place, rows)| {
        assert_eq!(place, strip);
        rows
    });
    (written.collect(), restored.collect())
}

#[test]
fn parity_is_made_to_agree_with_what_can_be_read_of_a_strip() {
    let rows = |first, count| vec![Rows { first, count }];
    assert_eq!(updated(&[], |_| false), (rows(2, 3), vec![]));
    let middle = |rows: Rows| rows.overlaps(Rows { first: 3, count: 1 });
    let around_it = [rows(2, 1), rows(4, 1)].concat();
    assert_eq!(updated(&[], middle), (around_it, rows(3, 1)), "row by row where reading fails");
    assert_eq!(updated(&[], |_| true), (vec![], [2, 3, 4].map(|first| Rows { first, count: 1 }).to_vec()));
    let later = [0, 2].map(|unit| LogRun { unit, first_row: 2, rows: 2 });
    assert_eq!(updated(&later, |_| false), (rows(4, 1), vec![]), "a later record tells better");
}

#[test]
fn a_torn_record_that_cannot_be_read_takes_no_data_with_it() {
    let mut array = array(MetadataPolicy::Log, ArrayRules::OWN);
    let (intent, mut around) = array.parts();
    let replay = intent.replay();
    replay.begin(record(), vec![7], &mut around);
    assert_eq!(replay.read_done(Err(MemberError::Medium), &mut around), ReplayStep::Waits);
    let step = replay.read_done(Ok(()), &mut around);
    assert_eq!(
        step,
        ReplayStep::GiveUp { stripe: StripeIndex(5), lost: vec![] },
        "it began nothing in place"
    );
}

/// A record of the checksums 10 and on, 20 and on, 30 and on of `rows` of both data strips and of parity.
fn record_of_checksums(rows: u32, superseded: &[LogRun]) -> raidlab_format::Replay {
    raidlab_format::Replay {
        runs: (0..3).map(|unit| LogRun { unit, first_row: ROW.first, rows }).collect(),
        holds: RecordHolds::Checksums,
        row_checksums: [10, 20, 30].into_iter().flat_map(|first| first..first + rows).collect(),
        superseded: superseded.to_vec(),
        ..record()
    }
}

/// What comes of comparing a stripe with that record of two rows, when the units of `unreadable` can't be read and digests are those.
fn compared(superseded: &[LogRun], unreadable: &[u16], digests: &[u32]) -> Compared {
    compared_with(record_of_checksums(2, superseded), |unit, _| unreadable.contains(&unit), digests)
}

/// The same with `record`, when those rows of a unit can't be read that are so.
fn compared_with(
    record: raidlab_format::Replay,
    is_unreadable: impl Fn(u16, Rows) -> bool,
    digests: &[u32],
) -> Compared {
    let mut array = array(MetadataPolicy::Log, ArrayRules::OWN);
    let (intent, mut around) = array.parts();
    let replay = intent.replay();
    assert_eq!(replay.begin(record, vec![7, 8, 9], &mut around), ReplayStep::Waits);
    assert_eq!(replay.read_done(Ok(()), &mut around), ReplayStep::Waits, "the header alone is read");
    let ReplayStep::Read(reads) = replay.copy_done(None, &mut around) else { panic!("all are read") };
    let mut next = ReplayStep::Read(reads);
    while let ReplayStep::Read(reads) = next {
        for (io, _, rows) in reads {
            let IntentIo::ReplayCheck { run, skipped } = io else { panic!("{io:?}") };
            replay.rows_read(is_unreadable(run, rows).then_some((run, skipped)), &mut around);
        }
        next = replay.rows_read(None, &mut around);
    }
    let ReplayStep::Compared(compared) = replay.digested(digests, &mut around) else { panic!("it is over") };
    compared
}

#[test]
fn a_stripe_is_made_to_agree_or_given_up_where_it_differs_from_its_record() {
    let geometry = array(MetadataPolicy::Log, ArrayRules::OWN).geometry;
    let rows = |unit, first, count| vec![(geometry.unit_place(StripeIndex(5), unit), Rows { first, count })];
    let nothing = Compared::default;
    let anew = |first, count| Compared { differs: vec![Rows { first, count }], ..nothing() };
    let lost = |first, count| Compared { spoilt: rows(2, first, count), ..nothing() };
    let made_up = |unit, first, count| Compared { unreadable: rows(unit, first, count), ..nothing() };
    assert_eq!(compared(&[], &[], &[10, 11, 20, 21, 30, 31]), nothing(), "it has arrived");
    assert_eq!(compared(&[], &[], &[10, 11, 20, 21, 30, 0]), anew(3, 1), "only parity has not");
    assert_eq!(compared(&[], &[], &[0, 11, 20, 21, 30, 31]), anew(2, 1), "a block has not");
    assert_eq!(compared(&[], &[1], &[10, 11, 30, 31]), made_up(1, 2, 2), "from the others");
    let half = Compared { spoilt: rows(2, 3, 1), unreadable: rows(1, 2, 1), ..nothing() };
    assert_eq!(compared(&[], &[1], &[10, 0, 30, 31]), half, "not in the second row");
    assert_eq!(compared(&[], &[1], &[0, 0, 30, 31]), lost(2, 2));
    assert_eq!(compared(&[], &[0], &[20, 21, 0, 0]), lost(2, 2), "parity is torn");
    assert_eq!(compared(&[], &[2], &[0, 0, 20, 21]), anew(2, 2), "parity itself is missing");
    let later = [0, 2].map(|unit| LogRun { unit, first_row: 3, rows: 1 });
    assert_eq!(compared(&later, &[], &[10, 20, 21, 30]), nothing(), "a later record has a block and parity");
    assert_eq!(
        compared(&later, &[], &[10, 20, 0, 30]),
        anew(3, 1),
        "but the other strip lacks what parity tells"
    );
}

/// Regression (plan `402249-bounded`): parity was made anew in a row between two that differ, too, and the block that could not be read
/// there was lost.
#[test]
fn a_row_between_two_that_differ_is_left_alone() {
    let is_unreadable =
        |unit, rows: Rows| unit == 1 && rows.overlaps(Rows { first: ROW.first + 1, count: 1 });
    let digests = [0, 11, 12, 30, 31, 0, 20, 22];
    let Compared { differs, spoilt, unreadable } =
        compared_with(record_of_checksums(3, &[]), is_unreadable, &digests);
    assert_eq!(differs, [0, 2].map(|row| Rows { first: ROW.first + row, count: 1 }));
    assert_eq!((spoilt.len(), unreadable[0].1), (0, Rows { first: ROW.first + 1, count: 1 }));
}

#[test]
fn a_write_of_whole_rows_is_recorded_by_checksums_unless_a_device_is_missing() {
    for is_degraded in [false, true] {
        let mut array = array(MetadataPolicy::Log, ArrayRules::OWN);
        let op = array.op(5);
        array.ops[op].write_whole_rows(&array.geometry);
        if is_degraded {
            array.metadata.fail(&array.geometry, MemberIndex(1), &mut array.outbox);
        }
        array.admit(op);
        let (intent, mut around) = array.parts();
        let log = intent.log().expect("it has one");
        assert_eq!(log.begin_records(&mut around), None);
        log.digested(1, &[1, 2, 3], &mut around);
        log.send_batches(&mut around);
        let io = IntentIo::Records { first: 1 };
        let mut segments = Vec::new();
        array.intent.segments(io, 0, (&array.geometry, &array.ops, &array.own), &mut segments);
        let bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        assert_eq!(bytes, if is_degraded { 4 * 4096 } else { 4096 }, "a header, and perhaps three rows");
    }
}

#[test]
fn a_payload_that_is_read_otherwise_than_the_start_found_it_counts_as_one_that_can_t_be_read() {
    let mut array = array(MetadataPolicy::Log, ArrayRules::OWN);
    let (intent, mut around) = array.parts();
    let replay = intent.replay();
    replay.begin(record(), vec![7], &mut around);
    replay.read_done(Ok(()), &mut around);
    replay.read_done(Ok(()), &mut around);
    let step = replay.digested(&[78], &mut around);
    assert_eq!(step, ReplayStep::GiveUp { stripe: StripeIndex(5), lost: vec![] });
}

#[test]
fn units_of_a_journal_go_on_in_their_order() {
    let rules = ArrayRules { write_log: Some(WriteLogPlace::Journal), ..ArrayRules::OWN };
    let mut array = array(MetadataPolicy::None, rules);
    let ops = [array.op(5), array.op(6)];
    let (intent, mut around) = array.parts();
    let log = intent.write_log().expect("it has one");
    for op in ops {
        assert!(log.takes_in(op, &mut around) && log.is_due(), "nothing else is computed");
        assert_eq!(log.send(&mut around), None);
    }
    log.unit_written(1, around.ios, around.outbox);
    assert_eq!(log.journal_flushed(), 0, "the one before is not written");
    log.unit_written(0, around.ios, around.outbox);
    assert_eq!(log.journal_flushed(), 2);
    for (unit, op) in (0..).zip(ops) {
        assert_eq!(log.next_flushed(), unit);
        assert_eq!(log.begin_run(unit), [op]);
    }
    assert!(!log.takes_in(ops[0], &mut around), "it is written down");
    let beside = MemberOp::Write { fua: false };
    assert_eq!(array.ios(), [(3, beside), (3, beside), (3, MemberOp::Flush)]);
}

#[test]
fn io_of_the_bitmap_lies_in_own_memory() {
    let array = array(MetadataPolicy::Bitmap, ArrayRules::OWN);
    let mut segments = Vec::new();
    array.intent.segments(IntentIo::Bitmap, 1, (&array.geometry, &array.ops, &array.own), &mut segments);
    assert_eq!(segments, [Segment { buffer: own_buffer(own::BITMAP_AT), bytes: 4096 }]);
    segments.clear();
    array.intent.segments(IntentIo::LogFlush, 0, (&array.geometry, &array.ops, &array.own), &mut segments);
    assert!(segments.is_empty());
}
