//! The history of an array: its events in a file of JSON lines that outlives the process.
//!
//! ```text
//! array's thread ─ line, if there is room ─► 1,024 lines ─► thread ─► FILE, 1 MiB, then FILE.1
//! ```
//! Nothing waits for the file. If it is slow, lines are dropped and counted; if it can't be written, the log says so
//! once, and each later line tries again. A torn line is skipped when it is read.
//!
//! In a folder each array has a file of its own, `NAME.UUID.events`: a new array that is called as one before it does not
//! go on with the history of that one. Version 0.1 before its release had one file for all arrays of a name, `NAME.events`;
//! such a file stays as it is, and an array's lines in it are read with its own.

use crate::events::EventStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Lines on their way to the file.
const LINES_MAX: usize = 1024;
/// A file that would be longer becomes the one before, in place of that.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Longest wait at the end for lines to be written.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Where the history of an array is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HistoryPlace {
    /// In this file.
    File(PathBuf),
    /// In this folder, in a file that is named after the array and its identity.
    Folder(PathBuf),
}

impl HistoryPlace {
    /// The file for the array `array_uuid` that is called `name`. A name that names no file is left out.
    pub fn file(&self, name: &str, array_uuid: &str) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Folder(folder) if is_plain(name) => folder.join(format!("{name}.{array_uuid}{ENDING}")),
            Self::Folder(folder) => folder.join(format!("{array_uuid}{ENDING}")),
        }
    }
}

/// Ending of histories in a folder.
const ENDING: &str = ".events";

fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains('/')
}

/// The file of all arrays called `name`, as version 0.1 kept it before its release.
fn shared_file(folder: &Path, name: &str) -> Option<PathBuf> {
    is_plain(name).then(|| folder.join(format!("{name}{ENDING}"))).filter(|path| path.exists())
}

/// A line of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct HistoryLine {
    /// Name of the array.
    pub array: String,
    /// Identity of the array.
    pub array_uuid: String,
    /// What happened.
    #[serde(flatten)]
    pub event: EventStatus,
}

/// A history that is written.
#[derive(Debug)]
pub(crate) struct History {
    path: PathBuf,
    lines: Option<SyncSender<Vec<u8>>>,
    left_out: Arc<AtomicU64>,
    ended: Receiver<()>,
}

impl History {
    /// A history in the file at `path`, which is made with its folder where they are not there.
    ///
    /// # Errors
    /// The system gives no thread.
    pub(crate) fn start(path: PathBuf) -> io::Result<Self> {
        let (lines, to_write) = sync_channel(LINES_MAX);
        let (end, ended) = sync_channel(1);
        let left_out = Arc::new(AtomicU64::new(0));
        let mut writer = Writer { path: path.clone(), file: None, bytes: 0, is_broken: false };
        let lacking = Arc::clone(&left_out);
        let work = move || {
            writer.write_all(&to_write, &lacking);
            let _ = end.send(());
        };
        std::thread::Builder::new().name("raidlab-history".to_owned()).spawn(work)?;
        Ok(Self { path, lines: Some(lines), left_out, ended })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line, unless too many are waiting already.
    pub(crate) fn append(&self, line: &HistoryLine) {
        let mut bytes = serde_json::to_vec(line).expect("a line can be written down");
        bytes.push(b'\n');
        let is_taken = self.lines.as_ref().is_some_and(|lines| lines.try_send(bytes).is_ok());
        if !is_taken {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.lines = None;
        // A disk that hangs does not keep the process from its end.
        let _ = self.ended.recv_timeout(END_LIMIT);
    }
}

/// The thread's end of a history.
struct Writer {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
    /// That it can't be written was said.
    is_broken: bool,
}

impl Writer {
    fn write_all(&mut self, lines: &Receiver<Vec<u8>>, left_out: &AtomicU64) {
        while let Ok(line) = lines.recv() {
            let mut count = 1;
            let mut written = self.write(&line);
            // What is waiting becomes durable together with it.
            while written.is_ok()
                && count < LINES_MAX as u64
                && let Ok(line) = lines.try_recv()
            {
                count += 1;
                written = self.write(&line);
            }
            let written = written.and_then(|()| self.sync());
            if let Err(error) = &written {
                self.file = None;
                left_out.fetch_add(count, Ordering::Relaxed);
                if !self.is_broken {
                    let path = self.path.display();
                    tracing::warn!(%path, %error, "the history of the array can't be written; the array goes on");
                }
            }
            self.is_broken = written.is_err();
            let lacking = if self.is_broken { 0 } else { left_out.swap(0, Ordering::Relaxed) };
            if lacking > 0 {
                tracing::warn!(path = %self.path.display(), lacking, "events are not in the history");
            }
        }
    }

    fn write(&mut self, line: &[u8]) -> io::Result<()> {
        if self.file.is_some() && self.bytes + line.len() as u64 > FILE_BYTES_MAX {
            self.sync()?;
            self.file = None;
            std::fs::rename(&self.path, before(&self.path))?;
        }
        let file = if let Some(file) = &mut self.file {
            file
        } else {
            let (file, bytes) = open(&self.path)?;
            self.bytes = bytes;
            self.file.insert(file)
        };
        file.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), File::sync_data)
    }
}

/// Opens a history to go on with it, and says how long it is. What a crash has torn off becomes a line of its own.
fn open(path: &Path) -> io::Result<(File, u64)> {
    if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) {
        DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
    }
    let mut file = OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let mut bytes = file.seek(SeekFrom::End(0))?;
    if bytes > 0 {
        let mut last = [0];
        file.seek(SeekFrom::Start(bytes - 1))?;
        file.read_exact(&mut last)?;
        if last != *b"\n" {
            file.write_all(b"\n")?;
            bytes += 1;
        }
    }
    Ok((file, bytes))
}

/// The file before this one.
fn before(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// Checks that nothing but a history is in the file at `path`, to which lines are to be added, and in the one before it, whose place it
/// will take.
///
/// # Errors
/// The file that holds something else.
pub(crate) fn check_history(path: &Path) -> Result<(), PathBuf> {
    for path in [path.to_owned(), before(path)] {
        let Ok(facts) = std::fs::metadata(&path) else { continue };
        let is_line = |line: &[u8]| serde_json::from_slice::<HistoryLine>(line).is_ok();
        let has_lines = |bytes: Vec<u8>| bytes.is_empty() || bytes.split(|byte| *byte == b'\n').any(is_line);
        let is_other = facts.is_dir() || facts.file_type().is_block_device();
        if is_other || facts.is_file() && !read_file(&path).is_ok_and(has_lines) {
            return Err(path);
        }
    }
    Ok(())
}

/// What is in a history.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HistoryRead {
    /// Its lines, oldest first.
    pub lines: Vec<HistoryLine>,
    /// Lines that are damaged.
    pub damaged: u64,
}

/// Reads the history in the file at `path`, and what was there before it.
///
/// # Errors
/// What the system said; there is no such file.
pub fn read_history(path: &Path) -> io::Result<HistoryRead> {
    let mut read = HistoryRead::default();
    let old = match read_file(&before(path)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    let new = match read_file(path) {
        // Between one file and the next.
        Err(error) if error.kind() == io::ErrorKind::NotFound && !old.is_empty() => Vec::new(),
        read => read?,
    };
    for line in old.split(|byte| *byte == b'\n').chain(new.split(|byte| *byte == b'\n')) {
        match serde_json::from_slice(line) {
            Ok(line) => read.lines.push(line),
            Err(_) => read.damaged += u64::from(!line.is_empty()),
        }
    }
    Ok(read)
}

impl HistoryRead {
    /// Keeps the lines of one array. Damaged ones are nobody's, and stay counted.
    fn of_array(mut self, array_uuid: &str) -> Self {
        self.lines.retain(|line| line.array_uuid == array_uuid);
        self
    }
}

/// Reads the history of the array `array_uuid` called `name` from the file at `path`, and from one beside it that was kept for
/// all arrays of this name.
///
/// # Errors
/// What the system said; there is no such file.
pub fn read_history_of(path: &Path, name: &str, array_uuid: &str) -> io::Result<HistoryRead> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let is_in_folder = HistoryPlace::Folder(folder.to_owned()).file(name, array_uuid) == path;
    let shared = shared_file(folder, name).filter(|_| is_in_folder);
    let Some(shared) = shared else { return Ok(read_history(path)?.of_array(array_uuid)) };
    let mut read = read_history(&shared)?.of_array(array_uuid);
    match read_history(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !read.lines.is_empty() => {}
        own => {
            let own = own?.of_array(array_uuid);
            read.lines.extend(own.lines);
            read.damaged += own.damaged;
        }
    }
    Ok(read)
}

/// An array that has a history in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptHistory {
    /// Identity of the array.
    pub array_uuid: String,
    /// Its file, which is not there if all of its history is in one that arrays of this name share.
    pub path: PathBuf,
    /// Its name.
    pub name: String,
    /// When its latest event was, in UTC; empty if there is none.
    pub latest: String,
}

/// Finds the histories in `folder` of arrays whose name, or identity, is `wanted`, in order of their latest events.
///
/// # Errors
/// What the system said when a file could not be read.
pub fn find_histories(folder: &Path, wanted: &str) -> io::Result<Vec<KeptHistory>> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let stem = file_name.to_str().and_then(|name| name.strip_suffix(ENDING));
        let Some(stem) = stem else { continue };
        let (name, array_uuid) = stem.rsplit_once('.').unwrap_or(("", stem));
        if name == wanted || array_uuid.eq_ignore_ascii_case(wanted) {
            found.insert((name.to_owned(), array_uuid.to_owned()));
        }
    }
    if let Some(shared) = shared_file(folder, wanted) {
        found.extend(read_history(&shared)?.lines.into_iter().map(|line| (line.array, line.array_uuid)));
        // Its own name may look as that of an array without one.
        found.remove(&(String::new(), wanted.to_owned()));
    }
    let place = HistoryPlace::Folder(folder.to_owned());
    let kept = |(name, array_uuid): (String, String)| {
        let path = place.file(&name, &array_uuid);
        let read = read_history_of(&path, &name, &array_uuid)?;
        let latest = read.lines.last().map_or(String::new(), |line| line.event.time.clone());
        Ok(KeptHistory { array_uuid, path, name, latest })
    };
    let mut kept = found.into_iter().map(kept).collect::<io::Result<Vec<_>>>()?;
    kept.sort_by(|one, other| one.latest.cmp(&other.latest));
    Ok(kept)
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A line may make it a little longer than it is to be.
    File::open(path)?.take(2 * FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64) -> HistoryLine {
        let event = EventStatus { at_ns: number, text: "x".repeat(200), ..EventStatus::default() };
        HistoryLine { array: "a".into(), array_uuid: "u".into(), event }
    }

    fn numbers(read: &HistoryRead) -> Vec<u64> {
        read.lines.iter().map(|line| line.event.at_ns).collect()
    }

    #[test]
    fn a_history_goes_on_after_a_torn_line_and_is_bounded() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("new").join("a.events");
        let history = History::start(path.clone()).expect("a thread");
        history.append(&line(1));
        drop(history);
        let mut file = OpenOptions::new().append(true).open(&path).expect("it was made");
        file.write_all(b"{\"array\":\"a").expect("it can be written");
        drop(file);
        let history = History::start(path.clone()).expect("a thread");
        history.append(&line(2));
        drop(history);
        let read = read_history(&path).expect("it is there");
        assert_eq!((numbers(&read), read.damaged), (vec![1, 2], 1));

        for round in 0..30 {
            let history = History::start(path.clone()).expect("a thread");
            (0..500).for_each(|number| history.append(&line(10 + 500 * round + number)));
            drop(history);
        }
        let read = read_history(&path).expect("it is there");
        let found = numbers(&read);
        assert_eq!(found.last(), Some(&(10 + 500 * 30 - 1)), "the latest are kept");
        assert!(found.windows(2).all(|pair| pair[0] + 1 == pair[1]), "none is lacking among them");
        for file in [path.clone(), before(&path)] {
            assert!(
                std::fs::metadata(&file).expect("it is there").len() <= FILE_BYTES_MAX,
                "{}",
                file.display()
            );
        }
    }

    /// Losing the history never stops the array.
    #[test]
    fn a_history_that_can_not_be_written_is_gone_on_without() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "x").expect("a file can be written");
        for path in [file.join("a.events"), PathBuf::from("/dev/full")] {
            let history = History::start(path.clone()).expect("a thread");
            let left_out = Arc::clone(&history.left_out);
            (0..10).for_each(|number| history.append(&line(number)));
            drop(history);
            assert_eq!(left_out.load(Ordering::Relaxed), 10, "{}: every line is counted", path.display());
        }
        assert_eq!(std::fs::read(&file).expect("it is there"), b"x", "what was in the way is as it was");
    }

    /// Defect: a new array showed the events of the one before it that had its name.
    #[test]
    fn arrays_of_one_name_have_histories_of_their_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = HistoryPlace::Folder(folder.path().to_owned());
        let line_of = |array_uuid: &str, second: u64| {
            let event = EventStatus { time: format!("2026-01-01T00:00:{second:02}Z"), ..line(second).event };
            HistoryLine { array: "vault".into(), array_uuid: array_uuid.into(), event }
        };
        let write = |path: PathBuf, lines: &[HistoryLine]| {
            let history = History::start(path).expect("a thread");
            for line in lines {
                history.append(line);
            }
        };
        // As it was kept before: one file for all of this name, which nobody writes to any more.
        write(folder.path().join("vault.events"), &[line_of("old", 1), line_of("both", 2)]);
        write(place.file("vault", "both"), &[line_of("both", 3)]);
        write(place.file("vault", "new"), &[line_of("new", 4)]);
        write(place.file("vault.2", "other"), &[line_of("other", 5)]);
        let found = find_histories(folder.path(), "vault").expect("all can be read");
        let uuids: Vec<&str> = found.iter().map(|it| it.array_uuid.as_str()).collect();
        assert_eq!(uuids, ["old", "both", "new"], "in order of their latest events");
        let read =
            |it: &KeptHistory| read_history_of(&it.path, &it.name, &it.array_uuid).expect("it can be read");
        let seconds: Vec<Vec<u64>> = found.iter().map(|it| numbers(&read(it))).collect();
        assert_eq!(seconds, [vec![1], vec![2, 3], vec![4]], "nothing is lost, and each has its own");
        for uuid in ["new", "NEW"] {
            let by_uuid = find_histories(folder.path(), uuid).expect("all can be read");
            assert_eq!(by_uuid, found[2..], "it is found by its identity, too, however that is written");
        }
        assert_eq!(find_histories(folder.path(), "nobody").expect("all can be read"), []);
    }

    #[test]
    fn a_history_is_named_after_its_array() {
        let folder = HistoryPlace::Folder("/s".into());
        assert_eq!(folder.file("a", "u"), Path::new("/s/a.u.events"));
        for odd in ["", ".a", "../a"] {
            assert_eq!(folder.file(odd, "u"), Path::new("/s/u.events"));
        }
    }
}
