//! A file with faults below the kernel: a FUSE file system of one file, `m`, whose bytes are those of another.
//!
//! ```text
//! array ─► ring ─► kernel: FUSE ─► server, a process: the file below, or an error, or no answer
//! ```
//! It is apart from the test kit, because the faults come from the kernel: the array runs as in production and knows
//! nothing of this. Delayed I/O is done when the file wakes: late, as by a drive that was only slow. Needs root and
//! /dev/fuse; [`Faulty::mount`] reports if these are missing.
//!
//! The server is a separate process, this test program with the test [`serves`] alone, and no other has /dev/fuse open.
//! When it ends, the kernel ends all requests with an error. It ends when [`Faulty`] is dropped, when the test's thread
//! ends in any way, and after ten minutes: so no failed test leaves a thread that waits in the kernel for ever.
//!
//! Left out: everything of FUSE that an open file with direct I/O does not need; short reads and writes, which Linux
//! 6.18 handles wrongly within one entry of `io_uring` (docs/arrays.md has the proof).
//! Source: `include/uapi/linux/fuse.h` of Linux, protocol 7.31.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

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
const LONGEST_LIFE_SECONDS: u32 = 600;
const FOLDER: &str = "RAIDLAB_TEST_FAULTY_FOLDER";
const BELOW: &str = "RAIDLAB_TEST_FAULTY_BELOW";

/// What is wrong with the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// Reads that touch these bytes end in EIO.
    pub(crate) unreadable: Range<u64>,
    /// Writes that touch these bytes end in `write_error`.
    pub(crate) unwritable: Range<u64>,
    /// EIO, or what is said here.
    pub(crate) write_error: Option<i32>,
    /// Flushes end in this.
    pub(crate) sync_error: Option<i32>,
    /// Nothing is answered.
    pub(crate) is_silent: bool,
    /// What is put off ends when it is interrupted.
    pub(crate) heeds_interrupts: bool,
}

/// The file system; gone when dropped.
pub(crate) struct Faulty {
    folder: PathBuf,
    server: Child,
    link: UnixStream,
}

impl Faulty {
    /// Mounts the file `below` as `folder`/m, or says why that can't be.
    pub(crate) fn mount(folder: &Path, below: &Path) -> Option<Self> {
        std::fs::create_dir_all(folder).expect("a folder");
        let (link, servers) = UnixStream::pair().expect("two sockets");
        let server = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "faulty::serves", "--ignored", "--test-threads=1"])
            .env(FOLDER, folder)
            .env(BELOW, below)
            .stdin(OwnedFd::from(servers))
            .stdout(Stdio::null())
            .spawn()
            .expect("this program runs");
        let faulty = Self { folder: folder.to_owned(), server, link };
        let said = faulty.line();
        if said != "mounted" {
            // Root can mount wherever the kernel has FUSE; a test that passed without would hide that it does not run.
            let must = rustix::process::getuid().is_root() && Path::new("/dev/fuse").exists();
            assert!(!must, "root can't mount though there is /dev/fuse: {said}");
            eprintln!("skipped: no FUSE here: {said}");
            return None;
        }
        Some(faulty)
    }

    /// The file with faults.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.join("m")
    }

    /// From here on these faults, and no others.
    pub(crate) fn set(&self, faults: &Faults) {
        let Faults { unreadable, unwritable, .. } = faults;
        let (errno, silent) = (faults.sync_error.unwrap_or(0), u8::from(faults.is_silent));
        let (heeds, write_errno) = (u8::from(faults.heeds_interrupts), faults.write_error.unwrap_or(0));
        self.ask(&format!(
            "set {} {} {errno} {silent} {heeds} {} {} {write_errno}",
            unreadable.start, unreadable.end, unwritable.start, unwritable.end
        ));
    }

    /// Opens, reads, writes and flushes of the device that have no answer.
    pub(crate) fn put_off(&self) -> usize {
        self.ask("look").0
    }

    /// Flushes that were asked for.
    pub(crate) fn syncs(&self) -> u64 {
        self.ask("look").1
    }

    /// Does what was put off, and is silent no more.
    pub(crate) fn wake(&self) {
        self.ask("wake");
    }

    /// What is put off, and the flushes so far, once the server has done what it is told.
    fn ask(&self, order: &str) -> (usize, u64) {
        (&self.link).write_all(format!("{order}\n").as_bytes()).expect("the server is there");
        let said = self.line();
        let (put_off, syncs) = said.split_once(' ').expect("two numbers");
        (put_off.parse().expect("a number"), syncs.parse().expect("a number"))
    }

    fn line(&self) -> String {
        line(&self.link)
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        // The kernel ends what is in flight when /dev/fuse is closed.
        let _ = self.server.kill();
        let _ = self.server.wait();
        let place = CString::new(self.folder.as_os_str().as_bytes()).expect("no NUL");
        // SAFETY: a string that ends in NUL.
        unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) };
    }
}

/// A line without its end, or what there is of it.
fn line(mut link: &UnixStream) -> String {
    let mut said = Vec::new();
    let mut byte = [0];
    while link.read(&mut byte).is_ok_and(|bytes| bytes == 1) && byte != *b"\n" {
        said.extend(byte);
    }
    String::from_utf8(said).expect("text")
}

/// The server of a [`Faulty`], which starts it; alone it does nothing.
#[test]
#[ignore = "the server of other tests' file system, which they start themselves"]
fn serves() {
    let (Some(folder), Some(below)) = (std::env::var_os(FOLDER), std::env::var_os(BELOW)) else { return };
    // SAFETY: neither touches memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::alarm(LONGEST_LIFE_SECONDS);
    }
    let link = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().expect("a socket"));
    match mounted(Path::new(&folder)) {
        Ok(connection) => {
            (&link).write_all(b"mounted\n").expect("the test is there");
            let below = OpenOptions::new().read(true).write(true).open(below).expect("a file below");
            Server { connection, below, faults: Faults::default(), put_off: Vec::new(), syncs: 0 }.run(&link);
        }
        Err(error) => writeln!(&link, "{error}").expect("the test is there"),
    }
}

/// Of before: the server was a thread beside the I/O that waited for it, and a test that failed left a process that nothing could end.
#[test]
fn io_of_a_test_that_has_ended_ends_in_an_error() {
    let folder = super::folder();
    let (place, below) = (folder.path().join("fuse"), folder.path().join("below"));
    std::fs::write(&below, [7; 4096]).expect("a file");
    let of_the_test = std::thread::spawn(move || {
        let faulty = Faulty::mount(&place, &below)?;
        let file = File::open(faulty.path()).expect("it is there");
        faulty.set(&Faults { is_silent: true, ..Faults::default() });
        let reader = std::thread::spawn(move || file.read_at(&mut [0; 512], 0));
        while faulty.put_off() == 0 {
            std::thread::yield_now();
        }
        Some((faulty, reader))
    });
    let Some((faulty, reader)) = of_the_test.join().expect("it ends") else { return };
    assert!(reader.join().expect("it ends").is_err());
    drop(faulty);
}

fn mounted(folder: &Path) -> std::io::Result<File> {
    let connection = OpenOptions::new().read(true).write(true).open("/dev/fuse")?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0", connection.as_raw_fd());
    let text = |text: &[u8]| CString::new(text).expect("no NUL");
    let (kind, place, options) =
        (text(b"fuse"), text(folder.as_os_str().as_bytes()), text(options.as_bytes()));
    // SAFETY: four strings that end in NUL, and live as long as the call.
    let mounted =
        unsafe { libc::mount(kind.as_ptr(), place.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast()) };
    if mounted == 0 { Ok(connection) } else { Err(std::io::Error::last_os_error()) }
}

struct Server {
    connection: File,
    below: File,
    faults: Faults,
    put_off: Vec<Vec<u8>>,
    syncs: u64,
}

impl Server {
    /// Until the test's end of the link is closed.
    fn run(&mut self, link: &UnixStream) {
        let mut buffer = vec![0; LONGEST as usize + (64 << 10)];
        let polled = |fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        loop {
            let mut polls = [polled(self.connection.as_raw_fd()), polled(link.as_raw_fd())];
            // SAFETY: two structures, which live as long as the call.
            unsafe { libc::poll(polls.as_mut_ptr(), 2, -1) };
            if polls[1].revents != 0 && !self.obey(link) {
                return;
            }
            if polls[0].revents != 0 {
                match (&self.connection).read(&mut buffer) {
                    Ok(bytes) => self.take(&buffer[..bytes]),
                    Err(error) if error.raw_os_error() == Some(libc::ENODEV) => return,
                    Err(_) => {}
                }
            }
        }
    }

    /// Does what the test asks for; false if it is gone.
    fn obey(&mut self, mut link: &UnixStream) -> bool {
        let order = line(link);
        if let Some(faults) = order.strip_prefix("set ") {
            let numbers: Vec<u64> = faults.split(' ').map(|word| word.parse().expect("a number")).collect();
            self.faults = Faults {
                unreadable: numbers[0]..numbers[1],
                sync_error: i32::try_from(numbers[2]).ok().filter(|errno| *errno != 0),
                is_silent: numbers[3] == 1,
                heeds_interrupts: numbers[4] == 1,
                unwritable: numbers[5]..numbers[6],
                write_error: i32::try_from(numbers[7]).ok().filter(|errno| *errno != 0),
            };
        } else if order == "wake" {
            self.faults = Faults::default();
            for request in std::mem::take(&mut self.put_off) {
                self.answer(&request);
            }
        }
        let put_off = self.put_off.iter().filter(|late| word(late, 4) != FLUSH).count();
        !order.is_empty() && writeln!(link, "{put_off} {}", self.syncs).is_ok()
    }

    fn take(&mut self, request: &[u8]) {
        let opcode = word(request, 4);
        if opcode == INTERRUPT {
            let whose = &request[IN_HEAD_BYTES..IN_HEAD_BYTES + 8];
            let at = self.put_off.iter().position(|late| &late[8..16] == whose);
            if let Some(at) = at.filter(|_| self.faults.heeds_interrupts) {
                let late = self.put_off.swap_remove(at);
                self.reply(&late, Err(libc::EINTR));
            }
        } else if self.faults.is_silent && matches!(opcode, OPEN | READ | WRITE | FSYNC | FLUSH) {
            self.put_off.push(request.to_vec());
        } else {
            self.answer(request);
        }
    }

    fn answer(&mut self, request: &[u8]) {
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
        let bad = &self.faults.unreadable;
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
        let bad = &self.faults.unwritable;
        if offset < bad.end && offset + bytes as u64 > bad.start {
            return Err(self.faults.write_error.unwrap_or(libc::EIO));
        }
        self.below.write_all_at(&body[40..40 + bytes], offset).map_err(|_| libc::EIO)?;
        Ok(numbers(&[bytes as u64]))
    }

    fn sync(&mut self) -> Result<Vec<u8>, i32> {
        self.syncs += 1;
        self.faults.sync_error.map_or(Ok(Vec::new()), Err)
    }

    fn reply(&self, request: &[u8], result: Result<Vec<u8>, i32>) {
        let (error, body) = result.map_or_else(|errno| (-errno, Vec::new()), |body| (0, body));
        let mut out = Vec::with_capacity(16 + body.len());
        out.extend((16 + body.len() as u32).to_ne_bytes());
        out.extend(error.to_ne_bytes());
        out.extend(&request[8..16]);
        out.extend(body);
        // Who asked may be gone.
        let _ = (&self.connection).write(&out);
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
