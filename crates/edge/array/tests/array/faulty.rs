//! A file with faults, for the kernel and not beside it: a FUSE file system of one file, `m`, whose bytes are those of another.
//!
//! ```text
//! array ─► ring ─► kernel: FUSE ─► here: the file below, or an error, or no answer
//! ```
//! So the array is what it is in use: nothing in it knows of this. What is put off is done when the file wakes: late, as a drive
//! would that was only slow. Needs root and /dev/fuse; where these are missing [`Faulty::mount`] says so.
//!
//! Left out: anything of FUSE that an open file with direct I/O does not need; short reads and writes, which Linux 6.18 does wrong
//! itself: `io_uring` goes on with what is missing, and FUSE does that at the first byte again.
//! Source: `include/uapi/linux/fuse.h` of Linux, protocol 7.31.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;

const IN_HEAD_BYTES: usize = 40;
const FILE_NODE: u64 = 2;
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const WRITE: u32 = 16;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FSYNC: u32 = 20;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
/// `FUSE_BIG_WRITES | FUSE_MAX_PAGES`.
const FLAGS: u32 = 1 << 5 | 1 << 22;
const FOPEN_DIRECT_IO: u32 = 1;
const LONGEST: u32 = 1 << 20;

/// What is wrong with the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// Reads that touch these bytes end in EIO.
    pub(crate) unreadable: Range<u64>,
    /// Flushes end in this.
    pub(crate) sync_error: Option<i32>,
    /// Nothing is answered.
    pub(crate) is_silent: bool,
    /// What is put off ends when it is interrupted.
    pub(crate) heeds_interrupts: bool,
}

#[derive(Debug, Default)]
struct State {
    faults: Faults,
    put_off: Vec<Vec<u8>>,
    syncs: u64,
    is_over: bool,
}

/// The file system; gone when dropped.
pub(crate) struct Faulty {
    folder: PathBuf,
    connection: Arc<File>,
    below: Arc<File>,
    state: Arc<Mutex<State>>,
    thread: Option<JoinHandle<()>>,
}

impl Faulty {
    /// Mounts the file `below` as `folder`/m, or says why that can't be.
    pub(crate) fn mount(folder: &Path, below: &Path) -> Option<Self> {
        std::fs::create_dir_all(folder).expect("a folder");
        let opened = OpenOptions::new().read(true).write(true).open("/dev/fuse");
        let connection = match opened {
            Ok(file) => Arc::new(file),
            Err(error) => return skipped(&error),
        };
        let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", connection.as_raw_fd());
        let text = |text: &[u8]| CString::new(text).expect("no NUL");
        let (kind, place, options) =
            (text(b"fuse"), text(folder.as_os_str().as_bytes()), text(options.as_bytes()));
        // SAFETY: four strings that end in NUL, and live as long as the call.
        let mounted =
            unsafe { libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast()) };
        if mounted != 0 {
            return skipped(&std::io::Error::last_os_error());
        }
        let below = OpenOptions::new().read(true).write(true).open(below).expect("a file below");
        let (below, state) = (Arc::new(below), Arc::new(Mutex::new(State::default())));
        let server = Server {
            connection: Arc::clone(&connection),
            below: Arc::clone(&below),
            state: Arc::clone(&state),
        };
        let thread = Some(std::thread::spawn(move || server.run()));
        Some(Self { folder: folder.to_owned(), connection, below, state, thread })
    }

    /// The file with faults.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join("m")
    }

    /// From here on these faults, and no others.
    pub(crate) fn set(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Reads, writes and flushes of the device that have no answer.
    pub(crate) fn put_off(&self) -> usize {
        self.state().put_off.iter().filter(|late| word(late, 4) != FLUSH).count()
    }

    /// Flushes that were asked for.
    pub(crate) fn syncs(&self) -> u64 {
        self.state().syncs
    }

    /// Does what was put off, and is silent no more.
    pub(crate) fn wake(&self) {
        let late = {
            let mut state = self.state();
            state.faults = Faults::default();
            std::mem::take(&mut state.put_off)
        };
        let server = Server {
            connection: Arc::clone(&self.connection),
            below: Arc::clone(&self.below),
            state: Arc::clone(&self.state),
        };
        for request in &late {
            server.answer(request);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("the server has not panicked")
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        // Answers, so that no thread of the kernel stays in a request.
        self.wake();
        self.state().is_over = true;
        let place = CString::new(self.folder.as_os_str().as_bytes()).expect("no NUL");
        // SAFETY: a string that ends in NUL.
        unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) };
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn skipped(error: &std::io::Error) -> Option<Faulty> {
    eprintln!("skipped: no FUSE here: {error}");
    None
}

struct Server {
    connection: Arc<File>,
    below: Arc<File>,
    state: Arc<Mutex<State>>,
}

impl Server {
    fn run(&self) {
        let mut buffer = vec![0; LONGEST as usize + (64 << 10)];
        loop {
            let mut poll = libc::pollfd { fd: self.connection.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one structure, which lives as long as the call.
            unsafe { libc::poll(&raw mut poll, 1, 50) };
            if self.state.lock().expect("no panic").is_over {
                return;
            }
            if poll.revents == 0 {
                continue;
            }
            match (&*self.connection).read(&mut buffer) {
                Ok(bytes) => self.take(&buffer[..bytes]),
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return,
                Err(_) => {}
            }
        }
    }

    fn take(&self, request: &[u8]) {
        let opcode = word(request, 4);
        let mut state = self.state.lock().expect("no panic");
        if opcode == INTERRUPT {
            let whose = &request[IN_HEAD_BYTES..IN_HEAD_BYTES + 8];
            let at = state.put_off.iter().position(|late| &late[8..16] == whose);
            if let Some(at) = at.filter(|_| state.faults.heeds_interrupts) {
                let late = state.put_off.swap_remove(at);
                drop(state);
                self.reply(&late, Err(libc::EINTR));
            }
            return;
        }
        if state.faults.is_silent && matches!(opcode, READ | WRITE | FSYNC | FLUSH) {
            state.put_off.push(request.to_vec());
            return;
        }
        drop(state);
        self.answer(request);
    }

    fn answer(&self, request: &[u8]) {
        let (opcode, node, body) = (word(request, 4), long(request, 16), &request[IN_HEAD_BYTES..]);
        let result = match opcode {
            INIT => Ok(init()),
            LOOKUP if body == b"m\0" => {
                let mut entry = numbers(&[FILE_NODE, 0, 3600, 3600, 0]);
                entry.extend(self.attributes(FILE_NODE));
                Ok(entry)
            }
            LOOKUP => Err(libc::ENOENT),
            GETATTR => {
                let mut found = numbers(&[3600, 0]);
                found.extend(self.attributes(node));
                Ok(found)
            }
            OPEN => Ok(numbers(&[0, u64::from(FOPEN_DIRECT_IO)])),
            READ => self.read(body),
            WRITE => self.write(body),
            FSYNC => self.sync(),
            // Nothing is known of it but its kind, which the kernel knows.
            STATFS => Ok(vec![0; 80]),
            FLUSH | RELEASE => Ok(Vec::new()),
            FORGET | BATCH_FORGET => return,
            _ => Err(libc::ENOSYS),
        };
        self.reply(request, result);
    }

    fn attributes(&self, node: u64) -> Vec<u8> {
        let bytes = self.below.metadata().expect("it is there").len();
        let (bytes, mode) =
            if node == FILE_NODE { (bytes, libc::S_IFREG | 0o600) } else { (0, libc::S_IFDIR | 0o700) };
        let mut out = numbers(&[node, bytes, bytes / 512, 0, 0, 0]);
        for number in [0, 0, 0, mode, 1, 0, 0, 0, 4096, 0] {
            out.extend(u32::to_ne_bytes(number));
        }
        out
    }

    fn read(&self, body: &[u8]) -> Result<Vec<u8>, i32> {
        let (offset, bytes) = (long(body, 8), word(body, 16) as usize);
        let bad = self.state.lock().expect("no panic").faults.unreadable.clone();
        if offset < bad.end && offset + bytes as u64 > bad.start {
            return Err(libc::EIO);
        }
        let mut data = vec![0; bytes];
        let mut done = 0;
        while done < bytes {
            match self.below.read_at(&mut data[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(moved) => done += moved,
                Err(_) => return Err(libc::EIO),
            }
        }
        data.truncate(done);
        Ok(data)
    }

    fn write(&self, body: &[u8]) -> Result<Vec<u8>, i32> {
        let (offset, bytes) = (long(body, 8), word(body, 16) as usize);
        self.below.write_all_at(&body[40..40 + bytes], offset).map_err(|_| libc::EIO)?;
        Ok(numbers(&[bytes as u64]))
    }

    fn sync(&self) -> Result<Vec<u8>, i32> {
        let mut state = self.state.lock().expect("no panic");
        state.syncs += 1;
        state.faults.sync_error.map_or(Ok(Vec::new()), Err)
    }

    fn reply(&self, request: &[u8], result: Result<Vec<u8>, i32>) {
        let (error, body) = result.map_or_else(|errno| (-errno, Vec::new()), |body| (0, body));
        let mut out = Vec::with_capacity(16 + body.len());
        out.extend((16 + body.len() as u32).to_ne_bytes());
        out.extend(error.to_ne_bytes());
        out.extend(&request[8..16]);
        out.extend(body);
        // Who asked may be gone.
        let _ = (&*self.connection).write(&out);
    }
}

/// The answer to the kernel's first request.
fn init() -> Vec<u8> {
    let mut out = Vec::new();
    for number in [7, 31, 0, FLAGS, 0, LONGEST, 1, 256] {
        out.extend(u32::to_ne_bytes(number));
    }
    out.resize(64, 0);
    out
}

fn numbers(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
