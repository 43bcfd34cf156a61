//! Rules that hold for any bytes.
//!
//! ```text
//! structures   what decodes encodes to the same bytes
//! scan         records are whole, apart and in order of place
//! assembly     every candidate is in one list; those present may be; the newest state is the newest;
//!              quorum; records in order, within ring and array; doubt and regions out of sync agree; no refusal
//!              was skipped
//! order        candidates in reverse order give the same
//! options      what is accepted without options is accepted with them
//! ```
//! Each is derived again from the decoded structures, in the slowest way.

use super::mutate::Handed;
use raidlab_format::{
    AreaLayout, ArrayState, ArrayUuid, AssembleError, Assembly, DeviceState, LABEL_BYTES, Label, LogHeader,
    LogRecord, LogRun, LogSource, LogTrouble, NVRAM_ENTRY_BYTES, NVRAM_LABEL_BYTES, NvramEntry, NvramImage,
    NvramLabel, NvramVerdict, PayloadPlace, RecordHolds, Replay, STATE_BYTES, StartOptions, assemble,
    header_len, scan_log, seal_shared, set_payload_at, shared_len,
};
use raidlab_raid::Layout;
use raidlab_units::{BlockSize, ByteCount};
use std::ops::Range;

/// What became of a set: the name of the error, or what was assembled.
pub(crate) type Outcome = &'static str;

/// Checks all that must hold, and returns what became of the set.
pub(crate) fn check(handed: &Handed, options: StartOptions) -> Outcome {
    let candidates: Vec<Option<&[u8]>> = handed.areas.iter().map(Option::as_deref).collect();
    let kept = NvramImage { log: &handed.nvram_log, directory: &handed.directory };
    candidates.iter().flatten().for_each(|area| check_structures(area, handed));
    check_structures(&handed.nvram_log, handed);
    check_directory(&handed.directory);
    let result = assemble(&candidates, Some(kept), options);
    if let Ok(assembly) = &result {
        check_lists(assembly, candidates.len());
        check_present(assembly, &candidates);
        check_newest(assembly, &candidates);
        check_intent(assembly, &candidates, kept, options);
    }
    check_turned(&result, &candidates, kept, options);
    check_options(&result, &candidates, kept, options);
    outcome(&result)
}

fn check_structures(area: &[u8], handed: &Handed) {
    if let Ok(label) = Label::decode(area) {
        let mut bytes = vec![0xdd; LABEL_BYTES];
        label.encode(&mut bytes);
        assert!(bytes == in_our_version(&area[..LABEL_BYTES]), "a label encodes to other bytes");
    }
    for slot in AreaLayout::new(ByteCount::ZERO).state {
        let Some(bytes) = slot.of(area) else { continue };
        if let Ok(state) = ArrayState::decode(bytes) {
            let mut again = vec![0xdd; STATE_BYTES];
            state.encode(&mut again);
            assert!(again == in_our_version(bytes), "a state encodes to other bytes");
            check_scan(area, state.geometry.array_uuid, handed);
        }
    }
    if let Ok(label) = NvramLabel::decode(area) {
        let mut bytes = [0xdd; NVRAM_LABEL_BYTES];
        label.encode(&mut bytes);
        assert!(
            bytes[..] == in_our_version(&area[..NVRAM_LABEL_BYTES]),
            "a label of NVRAM encodes to other bytes"
        );
        check_scan(area, label.array_uuid, handed);
    }
}

/// The same structure as this raidlab writes it: what an older one wrote has another version.
fn in_our_version(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if (1..4).contains(&bytes[8]) {
        bytes[8] = 4;
        bytes[12..16].fill(0);
        let checksum = crc_fast::crc32_iscsi(&bytes);
        bytes[12..16].copy_from_slice(&checksum.to_le_bytes());
    }
    bytes
}

fn check_scan(area: &[u8], array_uuid: ArrayUuid, handed: &Handed) {
    let block_bytes = handed.block_size.bytes();
    let mut payloads: Vec<Range<u64>> = Vec::new();
    for found in scan_log(area, array_uuid, handed.block_size) {
        let is_data = payloads.iter().any(|payload| payload.contains(&found.at_block));
        assert!(!is_data, "a record is found within the payload of another");
        assert_eq!(found.header.array_uuid, array_uuid);
        let bytes = &area[(found.at_block * block_bytes) as usize..];
        check_headers(bytes, handed.block_size);
        let mut records = records_of(bytes, handed.block_size);
        let record = records.find(|record| record.checksum == found.checksum).expect("found");
        let place = found.payload_at_block..found.payload_at_block + record.payload_blocks();
        let payload = &area[(place.start * block_bytes) as usize..(place.end * block_bytes) as usize];
        let of_rows = payload.chunks_exact(block_bytes as usize).map(crc_fast::crc32_iscsi);
        assert!(
            payload.is_empty() || of_rows.eq(found.row_checksums.iter().copied()),
            "a payload that does not fit its header"
        );
        payloads.push(place);
    }
}

/// The records whose headers stand in the block that `bytes` begin with.
fn records_of(bytes: &[u8], block_size: BlockSize) -> impl Iterator<Item = LogRecord<'_>> {
    std::iter::successors(LogHeader::decode(bytes, block_size).ok(), LogRecord::next_in_block)
}

/// Headers encode to the same bytes, unless what stands behind the last in their block is made up.
fn check_headers(bytes: &[u8], block_size: BlockSize) {
    let (mut again, mut used) = (Vec::new(), 0);
    for record in records_of(bytes, block_size) {
        let runs: Vec<LogRun> = record.runs().collect();
        let mut own = vec![
            0xdd;
            header_len(runs.len() as u16, record.header.holds.checksums(record.rows), block_size)
                as usize
        ];
        record.header.encode_into(&runs, record.row_checksums(), block_size, &mut own);
        set_payload_at(&mut own, record.payload_at);
        again.resize(own.len().max(again.len()), 0);
        let length = shared_len(&own);
        again[used..used + length].copy_from_slice(&own[..length]);
        used += length;
    }
    let bytes = &bytes[..again.len()];
    if bytes[used..].iter().all(|byte| *byte == 0) {
        seal_shared(&mut again);
        assert!(again == in_our_version(bytes), "log headers encode to other bytes");
    }
}

fn check_directory(directory: &[u8]) {
    for (slot, bytes) in (0..).zip(directory.chunks_exact(NVRAM_ENTRY_BYTES)) {
        let bytes: &[u8; NVRAM_ENTRY_BYTES] = bytes.try_into().expect("chunks are whole");
        if let Some(entry) = NvramEntry::decode(slot, bytes) {
            assert_eq!(entry.encode(slot), *bytes, "an entry encodes to other bytes");
        }
    }
}

fn check_lists(assembly: &Assembly, candidates: usize) {
    let mut all: Vec<usize> = assembly.present.iter().flatten().copied().collect();
    all.extend(assembly.stale.iter().map(|stale| stale.candidate));
    all.extend(assembly.foreign.iter().map(|foreign| foreign.candidate));
    all.extend(&assembly.blank);
    all.extend(assembly.unusable.iter().map(|unusable| unusable.candidate));
    all.sort_unstable();
    assert!(all.into_iter().eq(0..candidates), "a candidate is in no list, or in two");
}

/// Whether most devices that a state calls in sync have it, or one of them is not there to say that it has the one before.
fn may_be_complete(state: &ArrayState, candidates: &[Option<&[u8]>]) -> bool {
    let array_uuid = state.geometry.array_uuid;
    let (mut called, mut holders, mut witnesses) = (0, 0, 0);
    for (device, line) in
        state.devices.iter().enumerate().filter(|(_, line)| line.state == DeviceState::InSync)
    {
        let is_it = |area: &&&[u8]| {
            Label::decode(area).is_ok_and(|label| {
                (label.array_uuid, label.device.index(), label.device_uuid)
                    == (array_uuid, device, line.device_uuid)
            })
        };
        let areas = || candidates.iter().flatten().filter(is_it);
        let holds = areas().any(|area| own_states(area, array_uuid).any(|it| it.is_same(state)));
        let behind = areas().any(|area| own_states(area, array_uuid).any(|it| is_before(&it, state)));
        called += 1;
        holders += usize::from(holds);
        witnesses += usize::from(holds || behind);
    }
    holders * 2 > called || witnesses < called || called == 0
}

/// Whether a state is of the generation before, as the start that wrote the later one wrote or found it.
fn is_before(own: &ArrayState, state: &ArrayState) -> bool {
    own.generation.checked_add(1) == Some(state.generation) && own.knows(state.start)
}

/// The newest state of the array that stands in an area.
fn own_state(area: &[u8], array_uuid: ArrayUuid) -> Option<ArrayState> {
    own_states(area, array_uuid).max_by_key(|state| state.generation)
}

/// The states of the array that stand in an area.
fn own_states(area: &[u8], array_uuid: ArrayUuid) -> impl Iterator<Item = ArrayState> {
    let slots = (0..).zip(AreaLayout::new(ByteCount::ZERO).state);
    let states = slots.filter_map(|(slot, place)| Some((slot, ArrayState::decode(place.of(area)?).ok()?)));
    let in_place = states.filter(|(slot, state)| state.generation % 2 == *slot).map(|(_, state)| state);
    in_place.filter(move |state| state.geometry.array_uuid == array_uuid)
}

fn check_present(assembly: &Assembly, candidates: &[Option<&[u8]>]) {
    let state = &assembly.state;
    assert_eq!(assembly.present.len(), state.devices.len());
    for (device, candidate) in assembly.present.iter().enumerate() {
        let Some(area) =
            candidate.map(|candidate| candidates[candidate].expect("a present device can be read"))
        else {
            continue;
        };
        let (label, record) =
            (Label::decode(area).expect("a present device has a label"), &state.devices[device]);
        assert_eq!(label.array_uuid, state.geometry.array_uuid, "a present device is of the array");
        assert_eq!(label.device.index(), device, "a present device is in its place");
        assert_eq!(label.device_uuid, record.device_uuid, "a present device was not replaced");
        assert_ne!(record.state, DeviceState::Missing, "a present device is not called missing");
        let own = own_state(area, label.array_uuid).expect("a present device has a state");
        let is_passed_over = own.generation == state.generation && !own.is_same(state);
        assert!(
            own.is_same(state)
                || is_before(&own, state)
                || is_passed_over && own_states(area, label.array_uuid).any(|it| is_before(&it, state)),
            "a present device is stale"
        );
        assert!(!is_passed_over || !may_be_complete(&own, candidates), "a state that counts was passed over");
        assert!(area.len() as u64 >= AreaLayout::of(&state.geometry).total_bytes);
    }
}

fn check_newest(assembly: &Assembly, candidates: &[Option<&[u8]>]) {
    let array_uuid = assembly.state.geometry.array_uuid;
    for area in candidates.iter().flatten() {
        if Label::decode(area).is_ok_and(|label| label.array_uuid != array_uuid) {
            continue;
        }
        let own = own_state(area, array_uuid).map_or(0, |state| state.generation);
        assert!(own <= assembly.state.generation, "a newer state was passed over");
    }
}

fn check_intent(
    assembly: &Assembly,
    candidates: &[Option<&[u8]>],
    kept: NvramImage<'_>,
    options: StartOptions,
) {
    let state = &assembly.state;
    let layout = state.check().expect("an assembled state is possible");
    let in_sync = |device: usize| state.devices[device].state == DeviceState::InSync;
    let called: Vec<usize> = (0..state.devices.len()).filter(|device| in_sync(*device)).collect();
    let there = called.iter().filter(|device| assembly.present[**device].is_some()).count();
    assert_eq!(assembly.minority_accepted, there * 2 <= called.len());
    assert!(!assembly.minority_accepted || options.accept_minority, "too few members");
    assert_eq!(
        assembly.doubt.is_none(),
        assembly.out_of_sync.is_clear(),
        "doubt and out of sync regions disagree"
    );
    assert_eq!(assembly.out_of_sync.stripes(), layout.stripe_count());
    let plays = |role: u16| {
        called
            .iter()
            .any(|device| assembly.present[*device].is_some() && state.devices[*device].role == Some(role))
    };
    let degraded = !(0..state.geometry.members).all(plays);
    let hole = degraded && layout.shape().parities > 0 && assembly.doubt.is_some();
    assert_eq!(assembly.write_hole_accepted, hole);
    assert!(!hole || options.accept_write_hole, "dirty and degraded");
    let used = assembly.kept == NvramVerdict::Used;
    assert!(used || assembly.nvram_entries.is_empty(), "entries of memory that is not the array's");
    assert!(assembly.nvram_entries.is_sorted_by_key(|(slot, entry)| (entry.sequence, *slot)));
    check_records(assembly, layout.as_ref(), candidates, kept);
}

fn check_records(
    assembly: &Assembly,
    layout: &dyn Layout,
    candidates: &[Option<&[u8]>],
    kept: NvramImage<'_>,
) {
    let (state, shape) = (&assembly.state, layout.shape());
    let order = |record: &Replay| (record.holds == RecordHolds::Checksums, record.sequence);
    assert!(assembly.records.is_sorted_by(|one, next| order(one) < order(next)), "records out of order");
    for record in &assembly.records {
        assert!(record.sequence >= state.log_tail, "a retired record is replayed");
        assert!(record.sequence < assembly.next_log_sequence);
        assert!(record.stripe.0 < layout.stripe_count().0);
        for run in &record.runs {
            assert!(run.unit < shape.data_strips + shape.parities);
            assert!(u64::from(run.first_row) + u64::from(run.rows) <= shape.strip_blocks.0);
        }
        check_superseded(record, &assembly.records);
        let rows = record.holds.payload_blocks(record.runs.iter().map(|run| run.rows).sum());
        let payload = |place: &PayloadPlace| {
            let ring = match place.source {
                LogSource::Kept => kept.ring(),
                LogSource::Device(device) => {
                    assert_eq!(state.devices[device.index()].state, DeviceState::InSync);
                    let candidate = assembly.present[device.index()].expect("a log of a present device");
                    let log = AreaLayout::new(state.geometry.log_bytes).log;
                    log.of(candidates[candidate].expect("readable")).expect("long enough")
                }
            };
            let block_bytes = state.geometry.block_size.bytes();
            ring[(place.block * block_bytes) as usize..((place.block + rows) * block_bytes) as usize].to_vec()
        };
        let payloads: Vec<Vec<u8>> = record.copies.iter().map(payload).collect();
        assert!(!payloads.is_empty(), "a record without a copy");
        assert!(payloads.windows(2).all(|pair| pair[0] == pair[1]), "copies differ");
    }
}

/// Every run of a later record of the stripe, and no other.
fn check_superseded(record: &Replay, all: &[Replay]) {
    let is_later = |other: &&Replay| other.stripe == record.stripe && other.sequence > record.sequence;
    let mut later: Vec<&Replay> = all.iter().filter(is_later).collect();
    later.sort_by_key(|other| std::cmp::Reverse(other.sequence));
    let runs: Vec<LogRun> = later.iter().flat_map(|other| other.runs.clone()).collect();
    assert_eq!(record.superseded, runs);
}

fn check_turned(
    result: &Result<Assembly, AssembleError>,
    candidates: &[Option<&[u8]>],
    kept: NvramImage<'_>,
    options: StartOptions,
) {
    let turned: Vec<_> = candidates.iter().rev().copied().collect();
    let last = candidates.len().saturating_sub(1);
    match (result, assemble(&turned, Some(kept), options)) {
        (Ok(assembly), Ok(again)) => {
            let present =
                again.present.iter().map(|candidate| candidate.map(|candidate| last - candidate)).collect();
            let Assembly { stale, foreign, blank, unusable, .. } = assembly.clone();
            let again = Assembly { present, stale, foreign, blank, unusable, ..again };
            assert_eq!(*assembly, again, "the order of the candidates counts");
        }
        (Err(error), Err(again)) => {
            let same = std::mem::discriminant(error) == std::mem::discriminant(&again);
            assert!(same, "the order of the candidates counts: {error}; {again}");
        }
        (one, other) => panic!("the order of the candidates counts: {one:?}; {other:?}"),
    }
}

fn check_options(
    result: &Result<Assembly, AssembleError>,
    candidates: &[Option<&[u8]>],
    kept: NvramImage<'_>,
    options: StartOptions,
) {
    let all = StartOptions { accept_minority: true, accept_write_hole: true, ..options };
    match (result, assemble(candidates, Some(kept), all)) {
        (Ok(assembly), again) => {
            assert_eq!(Ok(assembly), again.as_ref(), "accepting more changes what is accepted");
        }
        (Err(error), Ok(_)) => {
            use AssembleError::{DirtyDegraded, Log, NoQuorum};
            let may_be = matches!(error, NoQuorum { .. } | DirtyDegraded { .. } | Log { .. });
            assert!(may_be, "the options pass over: {error}");
        }
        (Err(_), Err(error)) => assert!(error.to_string().len() > 40, "a message that helps nobody: {error}"),
    }
}

fn outcome(result: &Result<Assembly, AssembleError>) -> Outcome {
    match result {
        Ok(assembly) if assembly.write_hole_accepted => "started, write hole accepted",
        Ok(assembly) if assembly.minority_accepted => "started, minority accepted",
        Ok(assembly) if !assembly.records.is_empty() => "started with records",
        Ok(assembly) if assembly.doubt.is_some() => "started out of sync",
        Ok(_) => "started",
        Err(AssembleError::NoDevices { .. }) => "no devices",
        Err(AssembleError::OtherArraysOnly { .. }) => "other arrays only",
        Err(AssembleError::SeveralArrays { .. }) => "several arrays",
        Err(AssembleError::NewerVersion { .. }) => "newer version",
        Err(AssembleError::NoState { .. }) => "no state",
        Err(AssembleError::Diverged { .. }) => "diverged",
        Err(AssembleError::Duplicate { .. }) => "duplicate",
        Err(AssembleError::NoQuorum { .. }) => "no quorum",
        Err(AssembleError::DirtyDegraded { .. }) => "dirty and degraded",
        Err(AssembleError::Log { trouble: LogTrouble::Ahead { .. }, .. }) => "log ahead",
        Err(AssembleError::Log { trouble: LogTrouble::Conflict { .. }, .. }) => "log conflict",
        Err(AssembleError::Log { trouble: LogTrouble::Misfit { .. }, .. }) => "log misfit",
    }
}

/// Every outcome, so that a campaign can tell what it never reached.
pub(crate) const OUTCOMES: [Outcome; 17] = [
    "started, write hole accepted",
    "started, minority accepted",
    "started with records",
    "started out of sync",
    "started",
    "no devices",
    "other arrays only",
    "several arrays",
    "newer version",
    "no state",
    "diverged",
    "duplicate",
    "no quorum",
    "dirty and degraded",
    "log ahead",
    "log conflict",
    "log misfit",
];
