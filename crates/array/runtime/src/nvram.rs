//! NVRAM as a mapped file: the cache, its directory, the log, and their label.
//!
//! Data stored in the mapping belongs to the file at once: it survives the end of this process at any instruction.
//! Whether it survives the end of the machine depends on where the file is:
//!
//! | the file is on | the process is killed | the machine stops |
//! |---|---|---|
//! | persistent memory (DAX), or the host has a battery | kept | kept |
//! | a disk's file system | kept | lost, except pages written back by chance |
//! | tmpfs | kept | lost |
//!
//! The state on the devices names the epoch of the NVRAM, and NVRAM of another epoch is not used. An old file of the
//! *same* epoch can't be told from the present one; nothing here makes one.
//!
//! The lock of the file outlives a killed process while a device has not answered a read into the mapping: the ring
//! holds the lock, and the kernel holds the ring until that read ends.
//!
//! A directory entry, and a cache block, is stored so that it is old or new after any store: see
//! `raidlab_format::redo_line`.

use crate::arena::Arena;
use crate::device::Purpose;
use crate::error::{NvramError, RingError};
use crate::kernel::{self, Kernel, NvramStore};
use crate::ring::Ring;
use raidlab_controller::{ArrayConfig, MemoryNeeds};
use raidlab_format::{
    NVRAM_ENTRY_BYTES, NVRAM_FILE_HEADER_BYTES, NvramFileHeader, NvramImage, REDO_BLOCK_AT, REDO_LINE_AT,
    REDO_LINE_WORDS, REDO_PLACE_AT, entry_words, read_redo_line, redo_line,
};
use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const PAGE_BYTES: u64 = 4096;

/// An NVRAM file, open and mapped.
#[derive(Debug)]
pub(crate) struct Nvram {
    path: PathBuf,
    header: NvramFileHeader,
    /// The pages with header, redo line and redo block.
    line: Words,
    log: Arena,
    directory: Words,
    /// Until the array's memory takes it.
    cache: Option<Arena>,
    /// Keeps the lock.
    file: File,
    /// The kernel may still write to it.
    is_left: bool,
}

/// Pages that words are stored to, one by one.
#[derive(Debug)]
struct Words {
    arena: Arena,
    /// What is told of each store before it, if anything is.
    kernel: Option<Arc<dyn Kernel>>,
}

impl Words {
    fn of(arena: Arena) -> Self {
        Self { arena, kernel: kernel::in_place() }
    }

    #[inline]
    fn tell(&self, store: NvramStore) {
        if let Some(kernel) = &self.kernel {
            kernel.before_store(store);
        }
    }

    fn store_word(&self, offset: u64, word: u64) {
        self.tell(NvramStore::Word);
        self.arena.store_word(offset, word);
    }
}

impl Drop for Nvram {
    fn drop(&mut self) {
        if !self.is_left {
            // A ring that was just closed may hold its files a little longer, and their locks with them.
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        }
    }
}

/// What NVRAM an array of `config` needs.
pub(crate) fn wanted(config: &ArrayConfig, needs: &MemoryNeeds) -> NvramFileHeader {
    NvramFileHeader {
        cache_bytes: needs.cache_bytes,
        cache_block_bytes: config.cache.block_size,
        block_bytes: raidlab_units::ByteCount(config.block_size.bytes()),
        log_bytes: needs.nvram_log_bytes,
        entries: needs.directory_entries,
    }
}

impl Nvram {
    /// Opens the file at `path`, if there is one. What is stored in one that is only looked at stays in this process.
    ///
    /// # Errors
    /// [`NvramError`]: another kind of file, one that is in use, or the system's refusal.
    pub(crate) fn open(path: &Path, purpose: Purpose) -> Result<Option<Self>, NvramError> {
        let file = match OpenOptions::new().read(true).write(purpose == Purpose::Use).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed("open", path, source)),
        };
        lock(&file, path)?;
        if purpose == Purpose::Look {
            // Nobody has it: whoever opens it next must not find it locked by this look.
            let _ = rustix::fs::flock(&file, FlockOperation::Unlock);
        }
        let facts = file.metadata().map_err(|source| failed("look at", path, source))?;
        if facts.is_file() && facts.len() == 0 {
            return Ok(None);
        }
        let mut bytes = [0; NVRAM_FILE_HEADER_BYTES];
        file.read_exact_at(&mut bytes, 0).map_err(|source| failed("read", path, source))?;
        let not_one = |source| NvramError::NotOne { path: path.to_owned(), source };
        let header = NvramFileHeader::decode(&bytes).map_err(not_one)?;
        if facts.len() < header.total_bytes() {
            let (found, wanted) = (facts.len(), header.total_bytes());
            return Err(NvramError::Cut { path: path.to_owned(), found, wanted });
        }
        let mut kept = Self::map(path, file, header, purpose)?;
        kept.redo();
        Ok(Some(kept))
    }

    /// Makes a file at `path` for what `header` says, where there is none or an empty one. It is made under another name
    /// first, so that it is there whole or not at all.
    ///
    /// # Errors
    /// [`NvramError`]: the system's refusal, for lack of space for example.
    pub(crate) fn make(path: &Path, header: NvramFileHeader) -> Result<Self, NvramError> {
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".new");
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&unfinished).map_err(|source| failed("make", path, source))?;
        // Whoever has it is about to give it its name.
        lock(&file, path)?;
        let filled = fill(&file, path, header).and_then(|()| {
            std::fs::rename(&unfinished, path).map_err(|source| failed("write to", path, source))
        });
        if filled.is_err() {
            // The first error is the one to tell.
            let _ = std::fs::remove_file(&unfinished);
        }
        filled?;
        Self::map(path, file, header, Purpose::Use)
    }

    fn map(path: &Path, file: File, header: NvramFileHeader, purpose: Purpose) -> Result<Self, NvramError> {
        let area = |offset: u64, bytes: u64| {
            Arena::of_file(&file, offset, bytes.next_multiple_of(PAGE_BYTES), purpose)
                .map_err(|source| failed("map", path, source))
        };
        let line = area(0, header.log_at())?;
        let log = area(header.log_at(), header.log_bytes.get())?;
        let directory = area(header.directory_at(), header.directory_bytes())?;
        let cache = Some(area(header.cache_at(), header.cache_bytes.get())?);
        let (line, directory) = (Words::of(line), Words::of(directory));
        Ok(Self { path: path.to_owned(), header, line, log, directory, cache, file, is_left: false })
    }

    /// Checks that the file was made for what `wanted` says.
    ///
    /// # Errors
    /// [`NvramError::Other`] names the first thing that differs.
    pub(crate) fn check(&self, wanted: &NvramFileHeader) -> Result<(), NvramError> {
        let fields = |it: &NvramFileHeader| {
            [
                ("cache size", it.cache_bytes.get()),
                ("size of cache blocks", it.cache_block_bytes.get()),
                ("block size", it.block_bytes.get()),
                ("log size", it.log_bytes.get()),
                ("number of entries", u64::from(it.entries)),
            ]
        };
        let pairs = fields(&self.header).into_iter().zip(fields(wanted));
        match pairs.into_iter().find(|((_, found), (_, wanted))| found != wanted) {
            Some(((what, found), (_, wanted))) => {
                Err(NvramError::Other { path: self.path.clone(), what, found, wanted })
            }
            None => Ok(()),
        }
    }

    /// Has `ring` hold the file, at `place`, and its lock with it, until all I/O of the ring has ended: a device that does not answer
    /// may still write to it when this process is gone, and the next one must not have it before.
    ///
    /// # Errors
    /// [`RingError`] if the kernel refuses.
    pub(crate) fn is_held_by(&self, ring: &mut Ring, place: u16) -> Result<(), RingError> {
        ring.set_file(place, self.file.as_raw_fd())
    }

    /// Leaves the lock to the ring.
    pub(crate) const fn leave(&mut self) {
        self.is_left = true;
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Label and ring, and the directory.
    pub(crate) fn image(&self) -> NvramImage<'_> {
        NvramImage {
            log: self.log.slice(0..self.header.log_bytes.get()),
            directory: self.directory.arena.slice(0..self.header.directory_bytes()),
        }
    }

    /// Length of the array's block.
    pub(crate) const fn block_bytes(&self) -> u64 {
        self.header.block_bytes.get()
    }

    /// Label and ring.
    pub(crate) const fn log(&self) -> &Arena {
        &self.log
    }

    /// Hands the cache out, once.
    pub(crate) fn take_cache(&mut self) -> Option<Arena> {
        self.cache.take()
    }

    /// Stores the entry of `slot`.
    pub(crate) fn store(&self, slot: u32, entry: &[u8; NVRAM_ENTRY_BYTES]) {
        let line = redo_line(slot, entry);
        let place = |word: usize| REDO_LINE_AT + 8 * word as u64;
        let last = REDO_LINE_WORDS - 1;
        self.line.store_word(place(last), 0);
        for (word, value) in line.iter().enumerate() {
            self.line.store_word(place(word), *value);
        }
        self.put(slot, entry);
    }

    fn put(&self, slot: u32, entry: &[u8; NVRAM_ENTRY_BYTES]) {
        let start = u64::from(slot) * NVRAM_ENTRY_BYTES as u64;
        for (word, value) in (0..).zip(entry_words(entry)) {
            self.directory.store_word(start + 8 * word, value);
        }
    }

    /// Where a block is put before it goes to its place in the cache.
    pub(crate) fn redo_block(&self) -> *mut u8 {
        self.line.arena.address(REDO_BLOCK_AT, self.header.block_bytes.get())
    }

    /// Notes that the redo block is on its way to `offset` of the cache.
    pub(crate) fn begin_block(&self, offset: u64) {
        self.line.tell(NvramStore::BlockBegins);
        self.line.store_word(REDO_PLACE_AT, offset / self.header.block_bytes.get() + 1);
    }

    /// Notes that the redo block is where it belongs.
    pub(crate) fn end_block(&self) {
        self.line.tell(NvramStore::BlockEnds);
        self.line.store_word(REDO_PLACE_AT, 0);
    }

    /// Does once more what may have been on its way when the array ended: the last entry, and a block.
    fn redo(&mut self) {
        let bytes = self.line.arena.slice(REDO_LINE_AT..REDO_LINE_AT + 8 * REDO_LINE_WORDS as u64);
        let (words, _) = bytes.as_chunks();
        let line = std::array::from_fn(|word| u64::from_le_bytes(words[word]));
        if let Some((slot, entry)) = read_redo_line(&line).filter(|(slot, _)| *slot < self.header.entries) {
            self.put(slot, &entry);
        }
        let (place, _) = self.line.arena.slice(REDO_PLACE_AT..REDO_PLACE_AT + 8).as_chunks();
        let block_bytes = self.header.block_bytes.get();
        let offset =
            u64::from_le_bytes(place[0]).checked_sub(1).and_then(|block| block.checked_mul(block_bytes));
        let end = self.header.cache_bytes.get();
        let within = |offset: &u64| offset.checked_add(block_bytes).is_some_and(|after| after <= end);
        if let (Some(offset), Some(cache)) = (offset.filter(within), &mut self.cache) {
            let block = self.line.arena.slice(REDO_BLOCK_AT..REDO_BLOCK_AT + block_bytes);
            cache.slice_mut(offset..offset + block_bytes).copy_from_slice(block);
        }
        self.end_block();
    }
}

/// Gives a new file its room and its header.
fn fill(file: &File, path: &Path, header: NvramFileHeader) -> Result<(), NvramError> {
    let total = header.total_bytes();
    // A page that has no room on its disk would end this process when it is stored to.
    match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, total) {
        Ok(()) => {}
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            file.set_len(total).map_err(|source| failed("make", path, source))?;
        }
        Err(errno) => return Err(failed("make room for", path, errno.into())),
    }
    let mut bytes = [0; NVRAM_FILE_HEADER_BYTES];
    header.encode(&mut bytes);
    let written = file.write_all_at(&bytes, 0).and_then(|()| file.sync_all());
    written.map_err(|source| failed("write to", path, source))
}

fn lock(file: &File, path: &Path) -> Result<(), NvramError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(NvramError::InUse { path: path.to_owned() }),
        Err(errno) => Err(failed("lock", path, errno.into())),
    }
}

fn failed(doing: &'static str, path: &Path, source: io::Error) -> NvramError {
    NvramError::Io { doing, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Call, KernelRing, put_in_place};
    use raidlab_units::{ByteCount, NanoSpan, Nanos};
    use std::sync::Mutex;

    const HEADER: NvramFileHeader = NvramFileHeader {
        cache_bytes: ByteCount(4096),
        cache_block_bytes: ByteCount(1024),
        block_bytes: ByteCount(512),
        log_bytes: ByteCount(4096),
        entries: 4,
    };

    /// Keeps what the file holds before each store.
    #[derive(Debug)]
    struct Kept {
        path: PathBuf,
        images: Mutex<Vec<Vec<u8>>>,
    }

    impl Kept {
        fn keep(&self) {
            let image = std::fs::read(&self.path).expect("the file can be read");
            self.images.lock().expect("nobody panics with it").push(image);
        }

        fn take(&self) -> Vec<Vec<u8>> {
            std::mem::take(&mut self.images.lock().expect("nobody panics with it"))
        }
    }

    impl Kernel for Kept {
        fn before_store(&self, _: NvramStore) {
            self.keep();
        }

        fn ring(&self, _: u16) -> Box<dyn KernelRing> {
            unreachable!("there is no array")
        }

        fn now(&self) -> Nanos {
            unreachable!("there is no array")
        }

        fn pause(&self, _: NanoSpan) {}

        fn begin_call(&self, _: &Call<'_>) -> io::Result<()> {
            Ok(())
        }

        fn keeps_dsync(&self) -> bool {
            true
        }
    }

    /// NVRAM in a new folder, of which every image is kept.
    fn watched() -> (tempfile::TempDir, Arc<Kept>, Nvram) {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("nvram");
        let kept = Arc::new(Kept { path: path.clone(), images: Mutex::default() });
        put_in_place(Some(Arc::clone(&kept) as Arc<dyn Kernel>));
        let nvram = Nvram::make(&path, HEADER).expect("there is room for it");
        put_in_place(None);
        (folder, kept, nvram)
    }

    /// What a start after a kill finds.
    fn opened(folder: &Path, image: &[u8]) -> Nvram {
        let path = folder.join("killed");
        std::fs::write(&path, image).expect("the folder can be written");
        Nvram::open(&path, Purpose::Use).expect("it can be opened").expect("it is there")
    }

    /// True if all bytes are `old`, or all `new`.
    fn is_one_of(bytes: &[u8], [old, new]: [u8; 2]) -> bool {
        bytes.iter().all(|byte| *byte == old) || bytes.iter().all(|byte| *byte == new)
    }

    /// The process is killed before each store of an entry that has been there before.
    #[test]
    fn an_entry_is_old_or_new_after_any_store() {
        const BYTES: usize = NVRAM_ENTRY_BYTES;
        let (folder, kept, nvram) = watched();
        for (slot, before) in [(1, 1), (2, 2)] {
            nvram.store(slot, &[before; BYTES]);
        }
        kept.take();
        nvram.store(1, &[3; BYTES]);
        kept.keep();
        let images = kept.take();
        assert!(images.len() > BYTES / 8, "it is stored word by word");
        for (store, image) in images.iter().enumerate() {
            let found = opened(folder.path(), image);
            let entries: Vec<&[u8]> = found.image().directory.chunks_exact(BYTES).collect();
            assert!(is_one_of(entries[1], [1, 3]), "store {store}: {:?}", entries[1]);
            assert_eq!(entries[2], [2; BYTES], "store {store}");
        }
        assert_eq!(
            opened(folder.path(), &images[images.len() - 1]).image().directory[BYTES..][..BYTES],
            [3; BYTES]
        );
    }

    /// The process is killed while a block goes to its place, before that, or after it.
    #[test]
    fn a_block_is_old_or_new_after_any_store() {
        let block_bytes = HEADER.block_bytes.get();
        let (folder, kept, mut nvram) = watched();
        let mut cache = nvram.take_cache().expect("nobody has it");
        let blocks = 0..HEADER.cache_bytes.get() / block_bytes;
        for block in blocks {
            let place = block * block_bytes..(block + 1) * block_bytes;
            cache.slice_mut(place.clone()).fill(1);
            nvram.line.arena.slice_mut(REDO_BLOCK_AT..REDO_BLOCK_AT + block_bytes).fill(2);
            nvram.begin_block(place.start);
            for byte in place.clone() {
                if byte % 64 == 0 {
                    kept.keep();
                }
                cache.slice_mut(byte..byte + 1).fill(2);
            }
            nvram.end_block();
            kept.keep();
            for (store, image) in kept.take().iter().enumerate() {
                let mut found = opened(folder.path(), image);
                let cache = found.take_cache().expect("nobody has it");
                assert!(is_one_of(cache.slice(place.clone()), [1, 2]), "block {block}, store {store}");
            }
        }
    }
}
