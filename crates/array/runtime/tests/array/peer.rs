//! An NBD server for tests of members that are exports: threads and a vector of bytes, with behaviour chosen by the
//! test.
//!
//! It is apart from the test kit, because it is written from the protocol's document and shares nothing with raidlab's
//! own server or client. It records violations of a client: requests beyond the end, not whole minimum blocks, too
//! long, with flags that were not offered. Left out: everything that a correct client of one export does not need.

use super::common::Random;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::ops::Range;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

pub(crate) const READ_ONLY: u16 = 1 << 1;
pub(crate) const FLUSH: u16 = 1 << 2;
pub(crate) const FUA: u16 = 1 << 3;
pub(crate) const ZEROES: u16 = 1 << 6;
const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH_NOW: u16 = 3;
const WRITE_ZEROES: u16 = 6;
const REQUEST_FUA: u16 = 1;
const EIO: u32 = 5;

/// How a server behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manners {
    /// Replies to reads are structured: in pieces out of order, zeros as holes.
    pub(crate) structured: bool,
    /// What is offered.
    pub(crate) flags: u16,
    /// Smallest block, preferred block and longest payload, if it says so.
    pub(crate) sizes: Option<[u32; 3]>,
}

pub(crate) const PLAIN: Manners = Manners { structured: false, flags: FLUSH | FUA, sizes: None };

/// What clients did.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) wrongs: Vec<String>,
    pub(crate) flushes: usize,
    pub(crate) writes: usize,
    pub(crate) fua_writes: usize,
    pub(crate) together: usize,
    pub(crate) goodbyes: usize,
}

struct Shared {
    manners: Manners,
    bytes: Mutex<Vec<u8>>,
    /// Bytes that can't be read.
    bad: Mutex<Range<u64>>,
    seen: Mutex<Seen>,
    is_silent: AtomicBool,
    /// What came while it was silent.
    put_off: Mutex<Vec<Request>>,
    is_gone: AtomicBool,
    breaks_off: AtomicBool,
    connections: Mutex<Vec<UnixStream>>,
}

/// A server.
pub(crate) struct Peer {
    socket: PathBuf,
    shared: Arc<Shared>,
}

struct Request {
    flags: u16,
    command: u16,
    cookie: u64,
    offset: u64,
    length: u32,
    payload: Vec<u8>,
}

impl Peer {
    /// Serves `bytes` zeros on a socket in `folder`.
    pub(crate) fn new(folder: &Path, name: &str, bytes: usize, manners: Manners) -> Self {
        let socket = folder.join(name);
        let listener = UnixListener::bind(&socket).expect("a socket can be made");
        let shared = Arc::new(Shared {
            manners,
            bytes: Mutex::new(vec![0; bytes]),
            bad: Mutex::new(0..0),
            seen: Mutex::default(),
            is_silent: AtomicBool::new(false),
            put_off: Mutex::default(),
            is_gone: AtomicBool::new(false),
            breaks_off: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                if shared.is_gone.load(Ordering::SeqCst) {
                    return;
                }
                shared.connections.lock().expect("no panic").push(stream.try_clone().expect("a descriptor"));
                std::thread::spawn(move || shared.serve(stream));
            }
        });
        Self { socket, shared }
    }

    /// The URI of its export, under a name: it has one export by all names.
    pub(crate) fn uri(&self, export: &str) -> PathBuf {
        format!("nbd+unix:///{export}?socket={}", self.socket.display()).into()
    }

    /// Changes what it holds.
    pub(crate) fn edit(&self, edit: impl FnOnce(&mut Vec<u8>)) {
        edit(&mut self.shared.bytes.lock().expect("no panic"));
    }

    /// Makes a range unreadable.
    pub(crate) fn spoil(&self, range: Range<u64>) {
        *self.shared.bad.lock().expect("no panic") = range;
    }

    /// Takes requests and answers none.
    pub(crate) fn fall_silent(&self) {
        self.shared.is_silent.store(true, Ordering::SeqCst);
    }

    /// Does all that it was asked for while it was silent, answers none of it, and ends the connections. Returns how many
    /// there were.
    pub(crate) fn wake(&self) -> usize {
        let shared = &self.shared;
        let put_off = std::mem::take(&mut *shared.put_off.lock().expect("no panic"));
        for request in &put_off {
            drop(shared.answer(request, false, &mut Random(1)));
        }
        shared.is_silent.store(false, Ordering::SeqCst);
        for stream in shared.connections.lock().expect("no panic").drain(..) {
            // One whose client is gone is at its end already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        put_off.len()
    }

    /// Says something to all clients that is no reply.
    pub(crate) fn babble(&self) {
        for stream in self.shared.connections.lock().expect("no panic").iter_mut() {
            // Connections that have ended hear nothing.
            let _ = stream.write_all(&[0x42; 64]);
        }
    }

    /// Ends a connection in the middle of its next reply to a read.
    pub(crate) fn break_off(&self) {
        self.shared.breaks_off.store(true, Ordering::SeqCst);
    }

    /// Ends all connections and takes no more.
    pub(crate) fn vanish(&self) {
        self.shared.is_gone.store(true, Ordering::SeqCst);
        for stream in self.shared.connections.lock().expect("no panic").drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// What clients did; nothing of it is wrong (asserted).
    pub(crate) fn seen(&self) -> Seen {
        let seen = std::mem::take(&mut *self.shared.seen.lock().expect("no panic"));
        assert!(seen.wrongs.is_empty(), "{:?}", seen.wrongs);
        seen
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.vanish();
        // The listener hears of it when somebody comes.
        let _ = UnixStream::connect(&self.socket);
    }
}

impl Shared {
    fn serve(&self, mut stream: UnixStream) {
        // A client that is gone is no failure of the test.
        let _ = self.shake_hands(&mut stream).and_then(|structured| self.transmit(&mut stream, structured));
    }

    fn shake_hands(&self, stream: &mut UnixStream) -> io::Result<bool> {
        let mut structured = false;
        stream.write_all(b"NBDMAGICIHAVEOPT\0\x03")?;
        take(stream, 4)?;
        loop {
            let head = take(stream, 16)?;
            let (option, length) = (u32_at(&head, 8), u32_at(&head, 12));
            take(stream, length as usize)?;
            let mut answer = |kind: u32, data: &[u8]| {
                let mut message = 0x0003_e889_0455_65a9_u64.to_be_bytes().to_vec();
                for field in [option, kind, data.len() as u32] {
                    message.extend(field.to_be_bytes());
                }
                message.extend(data);
                stream.write_all(&message)
            };
            match option {
                8 if self.manners.structured => {
                    structured = true;
                    answer(1, &[])?;
                }
                7 => {
                    let size = self.bytes.lock().expect("no panic").len() as u64;
                    let mut info = vec![0, 0];
                    info.extend(size.to_be_bytes());
                    info.extend((self.manners.flags | 1).to_be_bytes());
                    answer(3, &info)?;
                    if let Some(sizes) = self.manners.sizes {
                        let mut info = vec![0, 3];
                        info.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
                        answer(3, &info)?;
                    }
                    answer(1, &[])?;
                    return Ok(structured);
                }
                _ => answer(0x8000_0001, &[])?,
            }
        }
    }

    /// Takes a few requests at a time, as many as are there, and answers them out of order.
    fn transmit(&self, stream: &mut UnixStream, structured: bool) -> io::Result<()> {
        let mut random = Random(9);
        loop {
            let mut requests = Vec::new();
            while let Some(request) = self.request(stream, requests.is_empty())? {
                requests.push(request);
            }
            if self.is_silent.load(Ordering::SeqCst) {
                self.put_off.lock().expect("no panic").append(&mut requests);
                continue;
            }
            let mut seen = self.seen.lock().expect("no panic");
            seen.together = seen.together.max(requests.len());
            drop(seen);
            for left in (1..=requests.len()).rev() {
                let request = requests.swap_remove(random.below(left as u64) as usize);
                if request.command == DISCONNECT {
                    self.seen.lock().expect("no panic").goodbyes += 1;
                    return Ok(());
                }
                let answer = self.answer(&request, structured, &mut random);
                if request.command == READ && self.breaks_off.load(Ordering::SeqCst) {
                    stream.write_all(&answer[..answer.len() / 2])?;
                    return stream.shutdown(Shutdown::Both);
                }
                stream.write_all(&answer)?;
            }
        }
    }

    /// Reads the next request; the first is waited for, others are taken if they come at once.
    fn request(&self, stream: &mut UnixStream, is_first: bool) -> io::Result<Option<Request>> {
        let mut first = [0];
        stream.set_nonblocking(!is_first)?;
        let came = stream.read(&mut first);
        stream.set_nonblocking(false)?;
        match came {
            Ok(1) => {}
            // What came before the end is answered first.
            Ok(_) | Err(_) if !is_first => return Ok(None),
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => return Err(error),
        }
        let mut head = first.to_vec();
        head.extend(take(stream, 27)?);
        let request = Request {
            flags: u16_at(&head, 4),
            command: u16_at(&head, 6),
            cookie: u64_at(&head, 8),
            offset: u64_at(&head, 16),
            length: u32_at(&head, 24),
            payload: Vec::new(),
        };
        let payload = if request.command == WRITE { request.length as usize } else { 0 };
        self.judge(&request);
        Ok(Some(Request { payload: take(stream, payload)?, ..request }))
    }

    fn judge(&self, request: &Request) {
        let Manners { flags, sizes, .. } = self.manners;
        let [minimum, _, longest] = sizes.unwrap_or([512, 4096, 1 << 25]);
        let Request { command, offset, length, .. } = *request;
        let size = self.bytes.lock().expect("no panic").len() as u64;
        let offered = |flag: u16| flags & flag != 0;
        let is_right = match command {
            READ | WRITE | WRITE_ZEROES => {
                let within = offset + u64::from(length) <= size && length > 0;
                let whole = offset.is_multiple_of(minimum.into()) && length.is_multiple_of(minimum);
                let short = command == WRITE_ZEROES || length <= longest;
                within && whole && short && (command != WRITE_ZEROES || offered(ZEROES))
            }
            FLUSH_NOW => offered(FLUSH) && offset == 0 && length == 0,
            DISCONNECT => true,
            _ => false,
        };
        let fua = request.flags & REQUEST_FUA != 0;
        let mut seen = self.seen.lock().expect("no panic");
        seen.flushes += usize::from(command == FLUSH_NOW);
        seen.writes += usize::from(command == WRITE);
        seen.fua_writes += usize::from(command == WRITE && fua);
        if !is_right || fua && !offered(FUA) {
            let words = format!("command {command}, flags {}, {length} bytes at {offset}", request.flags);
            seen.wrongs.push(words);
        }
    }

    /// Does a request and returns the reply's bytes.
    fn answer(&self, request: &Request, structured: bool, random: &mut Random) -> Vec<u8> {
        let range = request.offset as usize..request.offset as usize + request.length as usize;
        let mut bytes = self.bytes.lock().expect("no panic");
        match request.command {
            WRITE => bytes[range].copy_from_slice(&request.payload),
            WRITE_ZEROES => bytes[range].fill(0),
            READ => {
                let bad = self.bad.lock().expect("no panic").clone();
                let end = request.offset + u64::from(request.length);
                let fails = request.offset < bad.end && bad.start < end;
                return read_reply(request, &bytes[range], fails, structured, random);
            }
            _ => {}
        }
        simple(request.cookie, 0)
    }
}

fn read_reply(
    request: &Request,
    bytes: &[u8],
    fails: bool,
    structured: bool,
    random: &mut Random,
) -> Vec<u8> {
    if !structured {
        let mut reply = simple(request.cookie, if fails { EIO } else { 0 });
        reply.extend(if fails { &[] } else { bytes });
        return reply;
    }
    // Pieces of 512 bytes or more, the later half first.
    let middle = 512 * (1 + random.below((bytes.len() as u64 / 512).max(2) - 1)) as usize;
    let mut reply = Vec::new();
    for part in [middle..bytes.len(), 0..middle.min(bytes.len())] {
        let (offset, data) = (request.offset + part.start as u64, &bytes[part.clone()]);
        let mut body = offset.to_be_bytes().to_vec();
        if part.is_empty() {
            continue;
        }
        if data.iter().all(|byte| *byte == 0) {
            body.extend((part.len() as u32).to_be_bytes());
            reply.extend(chunk(request.cookie, 2, 0, &body));
        } else {
            body.extend(data);
            reply.extend(chunk(request.cookie, 1, 0, &body));
        }
        if fails {
            // Some data, and then why there is no more.
            let error = [&EIO.to_be_bytes()[..], &[0, 3], b"bad"].concat();
            reply.extend(chunk(request.cookie, 0x8001, 1, &error));
            return reply;
        }
    }
    reply.extend(chunk(request.cookie, 0, 1, &[]));
    reply
}

fn simple(cookie: u64, error: u32) -> Vec<u8> {
    [&0x6744_6698_u32.to_be_bytes()[..], &error.to_be_bytes(), &cookie.to_be_bytes()].concat()
}

fn chunk(cookie: u64, kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let (flags, kind) = (flags.to_be_bytes(), kind.to_be_bytes());
    let (cookie, length) = (cookie.to_be_bytes(), (body.len() as u32).to_be_bytes());
    [&0x668e_33ef_u32.to_be_bytes()[..], &flags, &kind, &cookie, &length, body].concat()
}

fn take(stream: &mut UnixStream, bytes: usize) -> io::Result<Vec<u8>> {
    let mut taken = vec![0; bytes];
    stream.read_exact(&mut taken)?;
    Ok(taken)
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(bytes[at..at + 2].try_into().expect("two bytes"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
