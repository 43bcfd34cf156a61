//! What is replayed: records of the log, and NVRAM.

use super::*;

fn sequences(assembly: &Assembly) -> Vec<u64> {
    assembly.records.iter().map(|record| record.sequence).collect()
}

#[test]
fn records_not_below_the_tail_are_replayed_in_order_and_once() {
    let mut array = raid5();
    array.change_state(|state| state.dirty = true);
    let [old, first, second, third, ninth] =
        [TAIL - 1, TAIL, TAIL + 1, TAIL + 5, TAIL + 9].map(|at| array.record(at));
    array.write_record(0, 40, &second);
    array.write_record(0, 8, &old);
    array.write_record(1, 0, &second);
    array.write_record(1, 4, &third);
    array.write_record(2, 59, &first);
    array.write_record(3, 20, &first);
    // A spare's log is nobody's.
    array.write_record(4, 0, &ninth);
    let assembly = start_all(&array).expect("a whole array");
    let place = |device, block| PayloadPlace { source: LogSource::Device(MemberIndex(device)), block };
    let replay = |record: &TestRecord, copies| Replay {
        sequence: record.header.sequence,
        stripe: record.header.stripe,
        runs: record.runs.clone(),
        holds: RecordHolds::Rows,
        row_checksums: record.row_checksums(array.state.geometry.block_size),
        superseded: Vec::new(),
        payload_at: 1,
        copies,
    };
    let expected = [
        replay(&first, vec![place(2, 60), place(3, 21)]),
        replay(&second, vec![place(0, 41), place(1, 1)]),
        replay(&third, vec![place(1, 5)]),
    ];
    assert_eq!(assembly.records, expected);
    assert_eq!(assembly.next_log_sequence, TAIL + 6);
    assert_eq!(assembly.doubt, None);
}

#[test]
fn the_tail_is_the_highest_that_state_or_records_name() {
    let mut array = raid5();
    array.change_state(|state| state.dirty = true);
    let record = |sequence, tail_sequence| {
        let mut record = array.record(sequence);
        record.header.tail_sequence = tail_sequence;
        record
    };
    let records = [record(TAIL + 1, TAIL), record(TAIL + 3, TAIL + 3), record(TAIL + 4, TAIL + 2)];
    for (device, record) in records.iter().enumerate() {
        array.write_record(device, 0, record);
    }
    let assembly = start_all(&array).expect("a whole array");
    assert_eq!(sequences(&assembly), [TAIL + 3, TAIL + 4]);
    array.change_state(|state| state.log_tail = TAIL + 4);
    assert_eq!(sequences(&start_all(&array).expect("a whole array")), [TAIL + 4]);
    array.change_state(|state| state.log_tail = TAIL + 40);
    let assembly = start_all(&array).expect("a whole array");
    assert_eq!((sequences(&assembly), assembly.next_log_sequence), (vec![], TAIL + 40));
}

/// Rows are not written again where a later record names them, nor compared where one has them.
#[test]
fn records_of_checksums_come_last_and_later_ones_supersede() {
    let mut array = raid5();
    array.change_state(|state| state.dirty = true);
    let of = |stripe, mut record: TestRecord| {
        record.header.stripe = StripeIndex(stripe);
        record
    };
    let [before, beside, after] =
        [(4, 0), (5, 1), (4, 2)].map(|(stripe, at)| of(stripe, array.record(TAIL + 3 * at)));
    let [first, second] = [(1, 3), (5, 2)].map(|(at, rows)| array.record_of_checksums(TAIL + at, 4, rows));
    let mut block = 0;
    for record in [&before, &first, &beside, &second, &after] {
        block = array.write_record(0, block, record);
    }
    let records = start_all(&array).expect("a whole array").records;
    let found: Vec<_> = records.iter().map(|it| (it.sequence - TAIL, it.superseded.clone())).collect();
    let later =
        |records: &[&TestRecord]| records.iter().flat_map(|it| it.runs.clone()).collect::<Vec<LogRun>>();
    let expected = vec![
        (0, later(&[&after, &second, &first])),
        (3, vec![]),
        (6, vec![]),
        (1, later(&[&after, &second])),
        (5, after.runs.clone()),
    ];
    assert_eq!(found, expected);
    assert_eq!(records[3].row_checksums.len(), 12);
}

#[test]
fn the_newest_epoch_wins_among_records_of_one_number() {
    let mut array = raid5();
    array.change_state(|state| state.epoch = 9);
    let mut old = array.record(TAIL);
    let new = array.record(TAIL);
    old.header.epoch = 8;
    old.header.stripe = StripeIndex(1);
    array.write_record(0, 0, &old);
    array.write_record(1, 0, &new);
    array.write_record(2, 0, &old);
    let assembly = start_all(&array).expect("a whole array");
    let copies = vec![PayloadPlace { source: LogSource::Device(MemberIndex(1)), block: 1 }];
    let expected = Replay {
        sequence: TAIL,
        stripe: new.header.stripe,
        holds: RecordHolds::Rows,
        row_checksums: new.row_checksums(array.state.geometry.block_size),
        runs: new.runs,
        superseded: Vec::new(),
        payload_at: 1,
        copies,
    };
    assert_eq!(assembly.records, [expected]);
}

#[test]
fn a_log_that_is_not_the_states_is_refused_unless_the_hole_is_accepted() {
    type Change = fn(&mut TestRecord);
    let source_log = LogSource::Device(MemberIndex(1));
    let misfit = LogTrouble::Misfit { source_log, sequence: TAIL };
    let cases: [(Change, LogTrouble); 8] = [
        (
            |record| record.header.epoch = 4,
            LogTrouble::Ahead { source_log, sequence: TAIL, epoch: 4, state_epoch: 3 },
        ),
        (|record| record.header.stripe = StripeIndex(1), LogTrouble::Conflict { source_log, sequence: TAIL }),
        (|record| record.runs[1].first_row += 1, LogTrouble::Conflict { source_log, sequence: TAIL }),
        (|record| record.header.stripe = StripeIndex(128), misfit),
        (|record| record.runs[0].unit = 4, misfit),
        (|record| record.runs[0].first_row = 15, misfit),
        (|record| record.header.holds = RecordHolds::Checksums, misfit),
        (|record| record.header.holds = RecordHolds::PartialParity, misfit),
    ];
    for (change, trouble) in cases {
        let mut array = raid5();
        let mut record = array.record(TAIL);
        array.write_record(0, 0, &record);
        change(&mut record);
        array.write_record(1, 0, &record);
        assert_eq!(start_all(&array), Err(AssembleError::Log { trouble, is_enough: true }));
        let accept = StartOptions { accept_write_hole: true, ..StartOptions::default() };
        let assembly = assemble(&array.candidates(), None, accept).expect("accepted");
        assert_eq!((assembly.doubt, assembly.records), (Some(Doubt::Log(trouble)), vec![]));
        assert_eq!(assembly.next_log_sequence, TAIL + 1, "what is left out must not come back");
        assert_eq!(assembly.out_of_sync.marked_count(), u32::from(assembly.out_of_sync.regions()));
    }
}

#[test]
fn a_log_is_incomplete_when_all_copies_may_be_absent() {
    // Level, members, missing, absent, whether a dirty start is refused for the log's sake.
    for (level, members, missing, absent, incomplete) in [
        ("5", 5, &[][..], &[0][..], false),
        ("5", 6, &[], &[0, 1], true),
        ("5", 6, &[0], &[], false),
        ("5", 6, &[0], &[1], true),
        ("6", 6, &[], &[0, 1], false),
        ("6", 6, &[0], &[1], false),
        ("6", 7, &[], &[0, 1, 2], true),
        ("6", 7, &[0], &[1, 2], true),
        // Both copies of a record are on devices of its stripe, and so in one span.
        ("50:2-spans", 6, &[], &[0, 3], false),
        ("50:2-spans", 6, &[0], &[3], false),
        ("50:2-spans", 6, &[0], &[1, 3], true),
        ("50:2-spans", 6, &[0, 3], &[], false),
    ] {
        let case = format!("{level} of {members}, missing {missing:?}, absent {absent:?}");
        let mut array = raid(level, members, 0, MetadataPolicy::Log);
        array.change_state(|state| {
            state.dirty = true;
            for device in missing {
                set_missing(state, *device);
            }
        });
        let candidates = without(&array, absent);
        match start(&candidates) {
            Ok(_) => assert!(!incomplete, "{case}"),
            Err(AssembleError::DirtyDegraded { doubt, .. }) => {
                assert!(incomplete, "{case}");
                assert_eq!(doubt, Doubt::LogIncomplete, "{case}");
            }
            Err(error) => panic!("{case}: {error}"),
        }
    }
}

#[test]
fn a_log_of_no_length_is_no_log() {
    let mut geometry = geometry("5", 4, 0, MetadataPolicy::Log);
    geometry.log_bytes = ByteCount(0);
    let mut array = TestArray::new(state(geometry));
    array.change_state(|state| state.dirty = true);
    let assembly = start_all(&array).expect("all members are there");
    assert_eq!(assembly.doubt, Some(Doubt::LogIncomplete));
}

#[test]
fn nvram_is_used_only_if_it_is_this_arrays_and_of_this_life() {
    type Change = fn(&mut TestArray);
    let cases: [(Change, NvramVerdict); 7] = [
        (|_| (), NvramVerdict::Used),
        (
            |array| array.change_state(|state| state.nvram_epoch = 6),
            NvramVerdict::OtherLife { found: 5, expected: 7 },
        ),
        // The label of the epoch is written, and the state that names it is not.
        (|array| array.change_state(|state| state.nvram_epoch = 4), NvramVerdict::Used),
        (
            |array| array.change_state(|state| state.nvram_epoch = 3),
            NvramVerdict::OtherLife { found: 5, expected: 3 },
        ),
        (
            |array| {
                let label = NvramLabel { array_uuid: array_uuid(7), ..newest_label(&array.state) };
                label.encode(&mut array.nvram_log[..64]);
            },
            NvramVerdict::OtherArray { found: array_uuid(7) },
        ),
        (
            |array| array.nvram_log.fill(0),
            NvramVerdict::NoLabel(DecodeError::BadMagic { part: Part::NvramLabel }),
        ),
        (
            |array| array.nvram_log.truncate(9),
            NvramVerdict::NoLabel(DecodeError::TooShort { part: Part::NvramLabel, needed: 64, found: 9 }),
        ),
    ];
    for (change, verdict) in cases {
        let mut array = raid5();
        array.change_state(|state| (state.dirty, state.log_place) = (true, LogPlace::Nvram));
        array.write_kept_record(7, &array.record(TAIL + 2));
        // The devices' logs are from before.
        array.write_record(1, 0, &array.record(TAIL + 1));
        array.write_entry(3, NvramEntry { sequence: 20, block: 1, dirty: 1 });
        array.write_entry(5, NvramEntry { sequence: 10, block: 2, dirty: 2 });
        change(&mut array);
        let used = verdict == NvramVerdict::Used;
        let kept = Some(array.kept());
        let assembly = assemble(&array.candidates(), kept, StartOptions::default()).expect("all are there");
        assert_eq!(assembly.kept, verdict);
        assert_eq!(sequences(&assembly), if used { vec![TAIL + 2] } else { vec![] });
        let slots: Vec<u32> = assembly.nvram_entries.iter().map(|(slot, _)| *slot).collect();
        assert_eq!(slots, if used { vec![5, 3] } else { vec![] });
        assert_eq!(assembly.doubt, (!used).then(|| Doubt::NvramLog(verdict.clone())));
        let degraded = assemble(&without(&array, &[2]), kept, StartOptions::default());
        assert_eq!(degraded.is_ok(), used, "{verdict}");
    }
}

#[test]
fn a_directory_is_read_wherever_the_log_is() {
    let mut array = raid5();
    array.write_entry(0, NvramEntry { sequence: 1, block: 2, dirty: 4 });
    array.directory.truncate(40);
    let assembly = assemble(&array.candidates(), Some(array.kept()), StartOptions::default()).expect("whole");
    assert_eq!(assembly.nvram_entries, [(0, NvramEntry { sequence: 1, block: 2, dirty: 4 })]);
}
