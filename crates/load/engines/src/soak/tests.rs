//! Soaks of small files, with faults injected from outside.

use super::*;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

const SIZE: u64 = 1 << 20;
const CHUNK: u64 = 64 << 10;

struct Place {
    _folder: TempDir,
    path: PathBuf,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("soaked");
    Place { _folder: folder, path }
}

fn options(passes: u64) -> SoakOptions {
    SoakOptions {
        size: Some(ByteCount(SIZE)),
        direct: false,
        chunk: ByteCount(CHUNK),
        rate: None,
        limit: SoakLimit { passes: Some(passes), ..SoakLimit::default() },
        write: false,
        rewrite: false,
        power_cut: None,
        health: HealthSources { sysfs: "/nonexistent".into(), ..HealthSources::default() },
        destroy_data: None,
        records: None,
    }
}

impl Place {
    fn soak(&self, options: &SoakOptions) -> Result<SoakRecord, SoakError> {
        let cancel = AtomicBool::new(false);
        soak(std::slice::from_ref(&self.path), options, &cancel, &mut |_| {}).remove(0)
    }

    fn bytes(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        OpenOptions::new().read(true).open(&self.path).unwrap().read_exact_at(&mut bytes, at).unwrap();
        bytes
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        OpenOptions::new().write(true).open(&self.path).unwrap().write_all_at(bytes, at).unwrap();
    }
}

#[test]
fn passes_and_bits_add_up_over_soaks() {
    let place = place();
    let first = place.soak(&options(2)).unwrap();
    assert_eq!((first.passes, first.bytes_read, first.bytes_written), (2, 2 * SIZE, SIZE));
    assert_eq!(first.faults, FaultCounts::default());
    let part = SoakOptions {
        limit: SoakLimit { volume: Some(ByteCount(3 * CHUNK)), ..SoakLimit::default() },
        ..options(1)
    };
    let second = place.soak(&part).unwrap();
    assert_eq!((second.passes, second.bytes_read), (2, 2 * SIZE + 3 * CHUNK));
    assert_eq!(second.phase, SoakPhase::Reading { next_byte: 3 * CHUNK });
    let third = place.soak(&options(1)).unwrap();
    assert_eq!((third.passes, third.bytes_read), (3, 3 * SIZE), "it went on where the second stopped");
    assert!(third.seconds >= second.seconds && second.seconds >= first.seconds);
    let bound = third.fault_rate_upper_bound(0.95).unwrap();
    assert!((bound * third.bits_read() as f64 - 2.9957).abs() < 1e-3, "the rule of three: {bound}");
}

#[test]
fn a_file_without_its_record_is_known_by_its_stamps() {
    let place = place();
    let before = place.soak(&options(1)).unwrap();
    std::fs::remove_file(RecordPlace::of(&place.path, None).record()).unwrap();
    let after = place.soak(&options(1)).unwrap();
    assert_eq!((after.content, after.passes), (before.content, 1));
    assert_eq!(after.faults.total(), 0);
}

#[test]
fn changed_bits_and_data_in_a_wrong_place_are_told_apart_and_counted() {
    let place = place();
    place.soak(&options(1)).unwrap();
    let changed = place.bytes(5000, 2);
    place.put(5000, &[changed[0] ^ 0b101, changed[1] ^ 1]);
    place.put(CHUNK + 512, &place.bytes(3 * CHUNK, 512));
    place.put(7 * CHUNK, &[0; 512]);
    let record = place.soak(&options(1)).unwrap();
    let wanted = FaultCounts { changed: 1, wrong_place: 1, foreign: 1, ..FaultCounts::default() };
    assert_eq!((record.faults, record.bits_changed), (wanted, 3));
    let notes: Vec<_> =
        record.notes.iter().map(|note| (note.byte, note.what.as_str(), note.passing)).collect();
    assert_eq!(
        notes,
        [
            (4608, "3 bits have changed", false),
            (CHUNK + 512, "data in a wrong place: they belong at byte 196608", false),
            (7 * CHUNK, "other data than were written", false),
        ]
    );
}

#[test]
fn each_pass_can_be_written_anew_and_a_lost_write_is_seen() {
    let place = place();
    let rewriting = SoakOptions { rewrite: true, ..options(2) };
    let record = place.soak(&rewriting).unwrap();
    assert_eq!((record.passes, record.faults.total()), (2, 0));
    let SoakContent::Stamped { sequence, .. } = record.content else { panic!("stamped") };
    assert_eq!((sequence, record.phase), (3, SoakPhase::Writing { next_byte: 0 }));
    assert_eq!(record.bytes_written, 2 * SIZE);
    let old = place.bytes(2 * CHUNK, 512);
    // The third writing is done though it is not asked for again: it had begun.
    place.soak(&options(1)).unwrap();
    place.put(2 * CHUNK, &old);
    let record = place.soak(&options(1)).unwrap();
    assert_eq!(record.faults, FaultCounts { old: 1, ..FaultCounts::default() });
    assert_eq!(record.notes[0].what, "a write is lost: the data are those of write 2");
}

#[test]
fn a_power_cut_that_loses_nothing_is_counted_and_the_pass_is_written_to_its_end() {
    let place = place();
    // The file is gone for a while, as a device is whose power is cut.
    let command = "mv \"$RAIDLAB_TARGET\" \"$RAIDLAB_TARGET.off\"; sleep 0.3; mv \"$RAIDLAB_TARGET.off\" \"$RAIDLAB_TARGET\"";
    let cutting = SoakOptions { rewrite: true, power_cut: Some(command.into()), ..options(3) };
    let record = place.soak(&cutting).unwrap();
    // Between the first pass and the second, and between the second and the third; each reading after a cut is one more.
    assert_eq!((record.passes, record.power_cuts, record.faults.total()), (3, 2, 0), "{:?}", record.notes);
    assert_eq!(record.bytes_read, 5 * SIZE);
    let sequence_at = |byte| match raidlab_verify::read_sector(&place.bytes(byte, 512)) {
        raidlab_verify::SectorState::Stamped(stamp) => stamp.sequence,
        other => panic!("{other:?}"),
    };
    assert_eq!((sequence_at(0), sequence_at(SIZE - 512)), (3, 3));
}

#[test]
fn a_write_that_was_acknowledged_and_is_lost_in_a_power_cut_is_found() {
    let place = place();
    place.soak(&options(1)).unwrap();
    let old = place.path.with_extension("old");
    std::fs::copy(&place.path, &old).unwrap();
    // The first chunk is always acknowledged before the cut; what was in it before comes back.
    let command =
        format!("dd if='{}' of=\"$RAIDLAB_TARGET\" bs={CHUNK} count=1 conv=notrunc 2>&1", old.display());
    let cutting = SoakOptions { rewrite: true, power_cut: Some(command), ..options(2) };
    let record = place.soak(&cutting).unwrap();
    let lost = CHUNK / 512;
    let (in_cut, later): (Vec<_>, Vec<_>) = record.notes.iter().partition(|note| note.after_power_cut);
    assert_eq!((record.power_cuts, in_cut.len() as u64, later.len() as u64), (1, lost, lost));
    assert_eq!(record.faults, FaultCounts { old: 2 * lost, ..FaultCounts::default() });
    assert!(in_cut.iter().all(|note| note.byte < CHUNK && note.what.contains("a write is lost")));
}

#[test]
fn a_command_that_fails_to_cut_the_power_ends_the_soak_and_the_next_goes_on() {
    let place = place();
    let cutting = SoakOptions { rewrite: true, power_cut: Some("exit 3".into()), ..options(2) };
    let error = place.soak(&cutting).unwrap_err().to_string();
    assert!(error.contains("'exit 3', failed: exit status: 3"), "{error}");
    let record = place.soak(&options(1)).unwrap();
    assert_eq!((record.faults.total(), record.power_cuts), (0, 0), "what was begun was written to its end");
}

#[test]
fn data_that_were_there_are_compared_by_digest() {
    let place = place();
    let data: Vec<u8> = (0..SIZE).map(|index| (index / 7 % 251) as u8 ^ (index >> 16) as u8).collect();
    std::fs::write(&place.path, &data).unwrap();
    let record = place.soak(&options(1)).unwrap();
    assert_eq!((record.content, record.passes, record.faults.total()), (SoakContent::Digests, 1, 0));
    assert_eq!(record.bytes_read, SIZE, "the first reading compares nothing");
    place.put(10, b"x");
    place.put(4 * CHUNK, &place.bytes(9 * CHUNK, CHUNK as usize));
    let record = place.soak(&options(1)).unwrap();
    assert_eq!(record.faults, FaultCounts { changed: 1, wrong_place: 1, ..FaultCounts::default() });
    assert_eq!(record.notes[1].what, format!("data in a wrong place: they belong at byte {}", 9 * CHUNK));
    let refused = place.soak(&SoakOptions { rewrite: true, ..options(1) });
    assert!(refused.is_err(), "what is not ours is not written over");
    assert_eq!(place.bytes(20, 100), data[20..120]);
}

#[test]
fn what_can_not_be_soaked_is_refused_with_the_reason() {
    let place = place();
    let text = |refused: Result<SoakRecord, SoakError>| refused.map(|_| ()).unwrap_err().to_string();
    assert!(text(place.soak(&SoakOptions { size: None, ..options(1) })).contains("--size"));
    place.soak(&options(1)).unwrap();
    let other = text(place.soak(&SoakOptions { chunk: ByteCount(2 * CHUNK), ..options(1) }));
    assert!(other.contains("in reads of 64 KiB") && other.contains("128 KiB at a time"), "{other}");
    assert!(text(place.soak(&SoakOptions { chunk: ByteCount(1000), ..options(1) })).contains("multiple"));
    let record = RecordPlace::of(&place.path, None);
    let whole = std::fs::read_to_string(record.record()).unwrap();
    for cut in [0, 1, whole.len() / 2, whole.len() - 2] {
        std::fs::write(record.record(), &whole[..cut]).unwrap();
        assert!(text(place.soak(&options(1))).contains("is not a soak record"), "{cut} bytes of it");
    }
    std::fs::write(record.record(), whole.replace("\"schema\": 1", "\"schema\": 2")).unwrap();
    assert!(text(place.soak(&options(1))).contains("version 2"));
}

#[test]
fn a_stop_keeps_what_was_read_and_a_rate_is_kept() {
    let place = place();
    place.soak(&options(1)).unwrap();
    let slow = SoakOptions { rate: Some(BytesPerSec(4.0 * CHUNK as f64)), ..options(1000) };
    let cancel = AtomicBool::new(false);
    let began = std::time::Instant::now();
    let record = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(600));
            cancel.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        soak(std::slice::from_ref(&place.path), &slow, &cancel, &mut |_| {}).remove(0).unwrap()
    });
    let chunks = (record.bytes_read - SIZE) / CHUNK;
    // A chunk each quarter of a second, the first at once.
    assert!((1..=1 + (began.elapsed().as_millis() / 250) as u64).contains(&chunks), "{chunks} chunks");
    assert_eq!(RecordPlace::of(&place.path, None).load().unwrap(), Some(record));
}
