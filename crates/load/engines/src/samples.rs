//! A folder of sample files, as training reads them: laid out by raidlab, a file for each sample or for so many.
//!
//! ```text
//! FOLDER/raidlab-samples/made-of       what the files are of; its last line says whether all are there
//!                        000/0000000   file number 0, of the length that the law of lengths drew for it
//!                        000/0000001
//!                        001/0001000   a thousand files in a folder
//! ```
//! Only a folder of this name is written to, and one that is there already must have such a note. Files are written whole, made durable and
//! dropped from the page cache, and the note says so last: a lay-out that was stopped is known and done again.

use crate::error::{LoadError, errno_of};
use crate::lay_out::LayOutProgress;
use crate::noise;
use raidlab_units::ByteCount;
use raidlab_workload::{Accelerator, SampleFiles};
use rustix::fs::{Advice, OFlags, fadvise, fstatvfs};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The folder of the files, and the note in it.
const FOLDER: &str = "raidlab-samples";
const NOTE: &str = "made-of";
const COMPLETE: &str = "complete";
/// Files in a folder, and the length of a write.
const FILES_PER_FOLDER: u64 = 1000;
const CHUNK_BYTES: usize = 4 << 20;
const SEED: u64 = 0x7261_6964_7361_6d70;

/// Sample files that are there.
#[derive(Debug)]
pub struct SampleFolder {
    folder: PathBuf,
    files: SampleFiles,
    is_direct: bool,
}

/// What the note says.
struct Note {
    made_of: String,
    bytes: ByteCount,
    is_complete: bool,
}

impl SampleFolder {
    /// Where the sample files in `parent` are.
    pub fn place_in(parent: &Path) -> PathBuf {
        parent.join(FOLDER)
    }

    /// Opens the sample files of `it` in `parent`; with `lay_out` bytes they are laid out if they are not there.
    ///
    /// # Errors
    /// [`LoadError::NoSamples`], [`LoadError::OtherSamples`], [`LoadError::SamplesSize`], [`LoadError::NoSpace`], [`LoadError::Cancelled`],
    /// and what the system answers.
    pub(crate) fn open(
        parent: &Path,
        it: &Accelerator,
        (lay_out, is_direct): (Option<ByteCount>, bool),
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(LayOutProgress),
    ) -> Result<Self, LoadError> {
        let folder = Self::place_in(parent);
        let made_of = made_of(it);
        let note = Note::read(&folder)?;
        let of = |bytes: ByteCount| {
            let files = SampleFiles::of(it, bytes, SEED);
            files.ok_or_else(|| {
                let (least, most) = SampleFiles::sizes(it);
                LoadError::SamplesSize { path: folder.clone(), bytes, least, most }
            })
        };
        let fits = |note: &Note| note.is_complete && note.made_of == made_of;
        let files = match (note, lay_out) {
            (Some(note), None) if fits(&note) => of(note.bytes)?,
            (Some(note), Some(bytes)) if fits(&note) && note.bytes == bytes => of(bytes)?,
            (Some(note), None) => {
                let problem = if note.is_complete { "of another kind" } else { "not complete" };
                return Err(LoadError::OtherSamples { path: folder, problem });
            }
            (None, None) => return Err(LoadError::NoSamples { path: parent.to_owned() }),
            (note, Some(bytes)) => {
                let files = of(bytes)?;
                if note.is_none() && folder.exists() {
                    return Err(LoadError::OtherSamples { path: folder, problem: "not raidlab's" });
                }
                let work = LayOutSamples { folder: &folder, files: &files, cancel };
                work.write_all(&Note { made_of, bytes, is_complete: false }, progress)?;
                files
            }
        };
        Ok(Self { folder, files, is_direct })
    }

    /// The files, and where they lie among the target's offsets.
    pub fn files(&self) -> &SampleFiles {
        &self.files
    }

    /// Opens the file with `number` for reading.
    pub(crate) fn open_file(&self, number: u64) -> Result<File, Errno> {
        let direct = if self.is_direct { OFlags::DIRECT } else { OFlags::empty() };
        let path = path_of(&self.folder, number);
        let open = |flags: OFlags| {
            OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(&path)
        };
        // Only an owner may leave the time of the last access alone.
        let opened = open(direct | OFlags::NOATIME).or_else(|error| match Errno::from_io_error(&error) {
            Some(Errno::PERM) => open(direct),
            _ => Err(error),
        });
        opened.map_err(|error| errno_of(&error))
    }

    /// Drops the files from the page cache, so that reads come from storage.
    pub fn drop_from_cache(&self) {
        for number in 0..self.files.lengths.len() as u64 {
            if let Ok(file) = File::open(path_of(&self.folder, number)) {
                drop_from_cache(&file);
            }
        }
    }

    /// Removes all of it.
    ///
    /// # Errors
    /// What the system answers.
    pub fn remove(&self) -> std::io::Result<()> {
        std::fs::remove_dir_all(&self.folder)
    }
}

fn drop_from_cache(file: &File) {
    if let Err(errno) = fadvise(file, 0, None, Advice::DontNeed) {
        tracing::debug!(%errno, "a sample stays in the page cache");
    }
}

fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{:03}", number / FILES_PER_FOLDER)).join(format!("{number:07}"))
}

/// What the files are of, in a line.
fn made_of(it: &Accelerator) -> String {
    let table: Vec<String> =
        it.sample.table.iter().map(|(bytes, pct)| format!("{}:{pct}", bytes.get())).collect();
    let law = if table.is_empty() {
        format!("mean {} deviation {}", it.sample.mean.get(), it.sample.deviation.get())
    } else {
        format!("table {}", table.join(" "))
    };
    format!("samples {law}, {} in a file", it.samples_per_file)
}

impl Note {
    /// Reads the note in `folder`; none where there is none.
    fn read(folder: &Path) -> Result<Option<Self>, LoadError> {
        let path = folder.join(NOTE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LoadError::io(&path, "read")(error)),
        };
        let mut lines = text.lines();
        let made_of = lines.next().unwrap_or("").to_owned();
        let bytes = lines.next().and_then(|bytes| bytes.parse().ok()).map_or(ByteCount::ZERO, ByteCount);
        Ok(Some(Self { made_of, bytes, is_complete: lines.next() == Some(COMPLETE) }))
    }

    fn write(&self, folder: &Path) -> Result<(), LoadError> {
        let path = folder.join(NOTE);
        let state = if self.is_complete { COMPLETE } else { "being laid out" };
        let text = format!("{}\n{}\n{state}\n", self.made_of, self.bytes.get());
        std::fs::write(&path, text).map_err(LoadError::io(&path, "write"))
    }
}

/// A lay-out under way.
struct LayOutSamples<'a> {
    folder: &'a Path,
    files: &'a SampleFiles,
    cancel: &'a AtomicBool,
}

impl LayOutSamples<'_> {
    /// Writes all files anew, in place of those that are there.
    fn write_all(&self, note: &Note, progress: &mut dyn FnMut(LayOutProgress)) -> Result<(), LoadError> {
        let failed = |op: &'static str| LoadError::io(self.folder, op);
        if self.folder.exists() {
            std::fs::remove_dir_all(self.folder).map_err(failed("remove"))?;
        }
        let parent = self.folder.parent().unwrap_or(self.folder);
        let total = ByteCount(self.files.lengths.iter().sum());
        self.check_space(parent, total)?;
        std::fs::create_dir_all(self.folder).map_err(failed("create"))?;
        note.write(self.folder)?;
        let written = self.write_files(total, progress);
        if written.is_err() {
            // The note says that it is not complete, if this fails, too.
            drop(std::fs::remove_dir_all(self.folder));
        }
        written?;
        let folder = File::open(self.folder).map_err(failed("open"))?;
        rustix::fs::syncfs(&folder).map_err(LoadError::system(self.folder, "make durable"))?;
        let all =
            SampleFolder { folder: self.folder.to_owned(), files: self.files.clone(), is_direct: false };
        all.drop_from_cache();
        Note { made_of: note.made_of.clone(), is_complete: true, ..*note }.write(self.folder)
    }

    fn check_space(&self, parent: &Path, needed: ByteCount) -> Result<(), LoadError> {
        let folder = File::open(parent).map_err(LoadError::io(parent, "open"))?;
        let system = fstatvfs(&folder).map_err(LoadError::system(parent, "find the free space for"))?;
        let available = ByteCount(system.f_bavail.saturating_mul(system.f_frsize));
        if available < needed {
            return Err(LoadError::NoSpace { path: self.folder.to_owned(), needed, available });
        }
        Ok(())
    }

    fn write_files(
        &self,
        total: ByteCount,
        progress: &mut dyn FnMut(LayOutProgress),
    ) -> Result<(), LoadError> {
        let mut chunk = vec![0; CHUNK_BYTES];
        let mut written = 0u64;
        for (number, length) in (0u64..).zip(self.files.lengths.iter().copied()) {
            let path = path_of(self.folder, number);
            let failed = |op: &'static str| LoadError::io(&path, op);
            if number.is_multiple_of(FILES_PER_FOLDER) {
                let parent = path.parent().unwrap_or(self.folder);
                std::fs::create_dir_all(parent).map_err(failed("create the folder of"))?;
            }
            let file = File::create(&path).map_err(failed("create"))?;
            let mut at = 0;
            while at < length {
                if self.cancel.load(Ordering::Relaxed) {
                    return Err(LoadError::Cancelled { path: self.folder.to_owned() });
                }
                let part = &mut chunk[..(length - at).min(CHUNK_BYTES as u64) as usize];
                noise::fill(SEED, written / 8, part);
                file.write_all_at(part, at).map_err(failed("write"))?;
                (at, written) = (at + part.len() as u64, written + part.len() as u64);
                progress(LayOutProgress { written: ByteCount(written), total });
            }
        }
        Ok(())
    }
}
