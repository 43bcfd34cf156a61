//! Member files: made, opened, checked, removed.
//!
//! A member is a file with a reserved area of [`DATA_OFFSET_BYTES`](crate::DATA_OFFSET_BYTES) and a data area
//! (layout in `mark`). Creation allocates the file, writes zeros over the whole data area and only then marks
//! it ready: later writes overwrite blocks in place, so that a run measures writes and not allocation. All zeros
//! are consistent for every RAID level: the XOR of zeros is zero, and so is Q.
//!
//! A file that lacks the mark is never replaced or removed. An open member is locked (`flock`), so that no two arrays
//! use it at once.

use crate::error::MembersError;
use crate::mark::{DATA_OFFSET_BYTES, MARK_BYTES, Mark, MarkState};
use crate::zero_fill;
use raidlab_units::{ByteCount, MemberIndex};
use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// Data areas are whole pages.
const UNIT_BYTES: u64 = 4096;

/// What to do with a file that is where a member should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Creation fails.
    Refuse,
    /// A scratch member that an earlier creation made is replaced; anything else makes creation fail.
    ReplaceScratch,
}

/// How to make members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateOptions {
    /// Data area of each member; a positive multiple of 4 KiB. Each file is
    /// [`DATA_OFFSET_BYTES`](crate::DATA_OFFSET_BYTES) longer.
    pub member_bytes: ByteCount,
    /// What to do with files in the way.
    pub existing: Existing,
}

/// The open members of one array, in order.
#[derive(Debug)]
pub struct Members {
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    path: PathBuf,
    file: File,
    data_bytes: ByteCount,
}

impl Drop for Member {
    fn drop(&mut self) {
        // A ring that was just closed may hold its files a little longer, and their locks with them.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

impl Members {
    /// Returns the paths that members in `folder` have by custom: `member-00.raidlab` and so on.
    pub fn paths_in(folder: &Path, count: u16) -> Vec<PathBuf> {
        (0..count).map(|index| folder.join(format!("member-{index:02}.raidlab"))).collect()
    }

    /// Makes one member file per path, allocated and written with zeros. `progress` gets the bytes written so far and
    /// the bytes in all. What was made is removed again on failure.
    ///
    /// # Errors
    /// [`MembersError`]: a file in the way, no space, no direct I/O, the system's refusal, or `cancel`.
    pub fn create(
        paths: &[PathBuf],
        options: &CreateOptions,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(ByteCount, ByteCount),
    ) -> Result<Self, MembersError> {
        check_list(paths)?;
        let bytes = options.member_bytes;
        let too_long =
            bytes.get().checked_add(DATA_OFFSET_BYTES).is_none_or(|all| i64::try_from(all).is_err());
        if bytes == ByteCount::ZERO || !bytes.get().is_multiple_of(UNIT_BYTES) || too_long {
            return Err(MembersError::BadSize { bytes });
        }
        for path in paths {
            clear_the_way(path, options.existing)?;
        }
        check_space(paths, bytes)?;
        let mut made = Self { members: Vec::with_capacity(paths.len()) };
        match made.fill(paths, bytes, cancel, progress) {
            Ok(()) => Ok(made),
            Err(error) => {
                made.remove_quietly();
                Err(error)
            }
        }
    }

    /// Opens members that [`Members::create`] made, in the order in which they were made.
    ///
    /// # Errors
    /// [`MembersError`]: a missing file, one that is no whole member, a wrong order, no direct I/O.
    pub fn open(paths: &[PathBuf]) -> Result<Self, MembersError> {
        check_list(paths)?;
        let count = paths.len() as u16;
        let mut members: Vec<Member> = Vec::with_capacity(paths.len());
        let mut set = None;
        for (index, path) in (0_u16..).zip(paths) {
            let mark = read_mark(path)?;
            let wanted = *set.get_or_insert(mark.set);
            if (mark.index, mark.count, mark.set) != (index, count, wanted) {
                return Err(MembersError::WrongPlace {
                    path: path.clone(),
                    found_index: mark.index,
                    found_count: mark.count,
                    found_set: mark.set,
                    index,
                    count,
                    set: wanted,
                });
            }
            members.push(open_member(path, &mark)?);
        }
        Ok(Self { members })
    }

    /// Writes zeros over all data areas again, as after [`Members::create`]. An array of another level needs
    /// this first if it is to survive failures: redundancy left by one layout does not fit another.
    ///
    /// # Errors
    /// [`MembersError`]: the system's refusal, or `cancel`; then the data areas hold zeros in part.
    pub fn clear(
        &mut self,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(ByteCount, ByteCount),
    ) -> Result<(), MembersError> {
        zero_fill::write_zeros(self, cancel, progress)
    }

    /// Closes and removes the files.
    ///
    /// # Errors
    /// [`MembersError::Io`] for the first file that can't be removed; the others are removed all the same.
    pub fn remove(self) -> Result<(), MembersError> {
        let mut outcome = Ok(());
        for member in self.members {
            if let Err(source) = std::fs::remove_file(&member.path) {
                outcome =
                    outcome.and(Err(MembersError::Io { doing: "remove", path: member.path.clone(), source }));
            }
        }
        outcome
    }

    /// Number of members.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// The file of a member.
    pub fn path(&self, member: MemberIndex) -> &Path {
        &self.members[member.index()].path
    }

    /// Length of a member's data area.
    pub fn data_bytes(&self, member: MemberIndex) -> ByteCount {
        self.members[member.index()].data_bytes
    }

    /// All members by index.
    pub(crate) fn indexes(&self) -> impl Iterator<Item = MemberIndex> + use<> {
        (0..self.members.len() as u16).map(MemberIndex)
    }

    /// Makes everything written to all members durable.
    ///
    /// # Errors
    /// [`MembersError::Io`] for the first member that can't.
    pub(crate) fn sync(&self) -> Result<(), MembersError> {
        for member in &self.members {
            member.file.sync_all().map_err(|source| failed("sync", &member.path, source))?;
        }
        Ok(())
    }

    /// The descriptors of all members, in order; they stay open as long as `self`.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        self.members.iter().map(|member| member.file.as_raw_fd()).collect()
    }

    /// Smallest unit, in bytes, that direct I/O on a member can be done in, in its file and in memory; 512 where the
    /// filesystem does not say.
    pub(crate) fn direct_io_unit(&self, member: MemberIndex) -> ByteCount {
        use rustix::fs::{AtFlags, StatxFlags, statx};
        const UNKNOWN: u32 = 512;
        let file = &self.members[member.index()].file;
        let facts = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
        let unit = facts.map_or(UNKNOWN, |facts| facts.stx_dio_offset_align.max(facts.stx_dio_mem_align));
        ByteCount(u64::from(unit.max(UNKNOWN)))
    }

    fn fill(
        &mut self,
        paths: &[PathBuf],
        data_bytes: ByteCount,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(ByteCount, ByteCount),
    ) -> Result<(), MembersError> {
        for path in paths {
            let file = create_file(path)?;
            self.members.push(Member { path: path.clone(), file, data_bytes });
        }
        let set = new_set_number();
        self.write_marks(MarkState::BeingMade, set)?;
        for member in &self.members {
            allocate(member)?;
        }
        zero_fill::write_zeros(self, cancel, progress)?;
        self.write_marks(MarkState::Ready, set)
    }

    /// Writes every member's mark and makes it and all before it durable.
    fn write_marks(&self, state: MarkState, set: u64) -> Result<(), MembersError> {
        let mut block = PageBlock([0; MARK_BYTES]);
        for (index, member) in (0_u16..).zip(&self.members) {
            let count = self.members.len() as u16;
            Mark { state, set, index, count, data_bytes: member.data_bytes }.encode(&mut block.0);
            let written = rustix::io::pwrite(&member.file, &block.0, 0)
                .map_err(io::Error::from)
                .and_then(
                    |bytes| if bytes == MARK_BYTES { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) },
                )
                .and_then(|()| member.file.sync_all());
            written.map_err(|source| failed("write to", &member.path, source))?;
        }
        Ok(())
    }

    fn remove_quietly(self) {
        if let Err(error) = self.remove() {
            tracing::warn!(%error, "an unfinished member is left behind");
        }
    }
}

/// Memory that direct I/O takes.
#[repr(align(4096))]
struct PageBlock([u8; MARK_BYTES]);

/// A number that no other set has: the time of its making, in nanoseconds.
fn new_set_number() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |span| span.as_nanos() as u64)
}

fn check_list(paths: &[PathBuf]) -> Result<(), MembersError> {
    if paths.is_empty() {
        return Err(MembersError::NoMembers);
    }
    for (index, path) in paths.iter().enumerate() {
        if paths[..index].contains(path) {
            return Err(MembersError::NamedTwice { path: path.clone() });
        }
    }
    Ok(())
}

/// Removes a scratch member from where a new one goes, if that is allowed.
fn clear_the_way(path: &Path, existing: Existing) -> Result<(), MembersError> {
    let facts = match std::fs::symlink_metadata(path) {
        Ok(facts) => facts,
        Err(source) if source.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(failed("look at", path, source)),
    };
    if existing == Existing::Refuse {
        return Err(MembersError::Exists { path: path.to_owned() });
    }
    if !facts.is_file() {
        return Err(MembersError::Foreign { path: path.to_owned() });
    }
    let file = File::open(path).map_err(|source| failed("open", path, source))?;
    if Mark::decode(&read_block(&file, path)?).is_err() {
        return Err(MembersError::Foreign { path: path.to_owned() });
    }
    lock(&file, path)?;
    std::fs::remove_file(path).map_err(|source| failed("remove", path, source))
}

/// Checks that each filesystem has room for all members that go there.
fn check_space(paths: &[PathBuf], data_bytes: ByteCount) -> Result<(), MembersError> {
    let each = data_bytes.get() + DATA_OFFSET_BYTES;
    let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
    for path in paths {
        let folder = folder_of(path);
        let (device, available) =
            space_of(folder).map_err(|error| failed("use the folder", folder, error.into()))?;
        let needed = wanted.entry(device).or_default();
        *needed = needed.saturating_add(each);
        if *needed > available {
            let (needed, available) = (ByteCount(*needed), ByteCount(available));
            return Err(MembersError::NoSpace { path: path.clone(), needed, available });
        }
    }
    Ok(())
}

/// Returns the device that holds `folder`, and the bytes it has left for this user.
fn space_of(folder: &Path) -> Result<(u64, u64), Errno> {
    let device = rustix::fs::stat(folder)?.st_dev;
    let space = rustix::fs::statvfs(folder)?;
    Ok((device, space.f_bavail.saturating_mul(space.f_frsize)))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn create_file(path: &Path) -> Result<File, MembersError> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::DIRECT;
    match rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR) {
        Ok(descriptor) => {
            let file = raidlab_load::with_inline_io(descriptor.into());
            lock(&file, path)?;
            Ok(file)
        }
        Err(Errno::EXIST) => Err(MembersError::Exists { path: path.to_owned() }),
        Err(Errno::INVAL) => {
            // The file itself was made before the flag was refused.
            let _ = std::fs::remove_file(path);
            Err(MembersError::NoDirectIo { path: path.to_owned() })
        }
        Err(error) => Err(failed("create", path, error.into())),
    }
}

/// Keeps every other array away from the file as long as it is open here.
fn lock(file: &File, path: &Path) -> Result<(), MembersError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        // A filesystem without locks can't keep anybody away, which is no reason not to work on it.
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NOLCK) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(MembersError::InUse { path: path.to_owned() }),
        Err(error) => Err(failed("lock", path, error.into())),
    }
}

/// Allocates all of a member's blocks. Where the filesystem can't do that ahead, writing the zeros does.
fn allocate(member: &Member) -> Result<(), MembersError> {
    let needed = member.data_bytes.get() + DATA_OFFSET_BYTES;
    match rustix::fs::fallocate(member.file.as_fd(), FallocateFlags::empty(), 0, needed) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(allocation_failed(&member.path, ByteCount(needed), error)),
    }
}

/// Says what a refused allocation or write of new blocks means.
pub(crate) fn allocation_failed(path: &Path, needed: ByteCount, error: Errno) -> MembersError {
    match error {
        Errno::NOSPC | Errno::DQUOT => {
            let available = space_of(folder_of(path)).map_or(0, |(_, available)| available);
            MembersError::NoSpace { path: path.to_owned(), needed, available: ByteCount(available) }
        }
        _ => failed("allocate", path, error.into()),
    }
}

pub(crate) fn failed(doing: &'static str, path: &Path, source: io::Error) -> MembersError {
    MembersError::Io { doing, path: path.to_owned(), source }
}

/// Reads the first [`MARK_BYTES`] of a file, or what there is of them.
fn read_block(file: &File, path: &Path) -> Result<Vec<u8>, MembersError> {
    use std::io::Read;
    let mut block = Vec::with_capacity(MARK_BYTES);
    file.take(MARK_BYTES as u64).read_to_end(&mut block).map_err(|source| failed("read", path, source))?;
    Ok(block)
}

/// Reads the mark of a member that is whole.
fn read_mark(path: &Path) -> Result<Mark, MembersError> {
    let refuse = |reason| MembersError::NotAMember { path: path.to_owned(), reason };
    let file = File::open(path).map_err(|source| failed("open", path, source))?;
    let mark = Mark::decode(&read_block(&file, path)?).map_err(refuse)?;
    if mark.state == MarkState::BeingMade {
        return Err(refuse("its creation was interrupted; create the members again"));
    }
    Ok(mark)
}

fn open_member(path: &Path, mark: &Mark) -> Result<Member, MembersError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::DIRECT;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(descriptor) => raidlab_load::with_inline_io(descriptor.into()),
        Err(Errno::INVAL) => return Err(MembersError::NoDirectIo { path: path.to_owned() }),
        Err(error) => return Err(failed("open", path, error.into())),
    };
    lock(&file, path)?;
    let facts = file.metadata().map_err(|source| failed("look at", path, source))?;
    let (found, expected) = (ByteCount(facts.len()), mark.data_bytes + ByteCount(DATA_OFFSET_BYTES));
    if found != expected {
        return Err(MembersError::WrongLength { path: path.to_owned(), found, expected });
    }
    Ok(Member { path: path.to_owned(), file, data_bytes: mark.data_bytes })
}
