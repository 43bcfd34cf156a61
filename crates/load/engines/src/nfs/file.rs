//! An open file of an NFS server, with its own connection.
//!
//! Invariants: a context is used by one thread at a time; the memory that a call under way reads, writes or reports to
//! stays in place until the call has ended or the context is gone. So libnfs's own blocking calls are not used: when
//! the connection breaks they return at once, and the end of the context writes to their old place on the stack. Only
//! its mount avoids that.
#![allow(unsafe_code)]

use super::library::{Context, Handle, NfsLibrary, Stat, Url, nfs_library};
use crate::remote::{RemoteError, RemoteFile};
use ring::rand::{SecureRandom, SystemRandom};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::{BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

/// How long a call may take.
const ANSWER_MS_MAX: c_int = 15_000;
/// How often a connection on which a call is waited for is looked at, whatever came.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The most that is asked for in one call: libnfs's own limit (`NFS_MAX_XFER_SIZE`).
const CALL_BYTES_MAX: u64 = 1 << 20;

/// What a write over NFS 4 may have where libnfs has room for 4 KiB in all (its pull request 319, in libnfs 5).
const SHORT_WRITE_BYTES: u64 = 3072;

/// How a URI looks.
const FORM: &str = "nfs://host/export/file, and for NFS 4 '?version=4' behind it";

/// A call that ended: which slot it was of, and bytes moved or a negative error number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallEnd {
    pub(crate) slot: u32,
    pub(crate) result: i32,
}

/// What a call under way needs: whose it is, where what was read belongs, and where its end is told.
#[derive(Debug)]
pub(crate) struct Call {
    slot: u32,
    target: Cell<*mut u8>,
    target_bytes: Cell<usize>,
    ended: Rc<RefCell<Vec<CallEnd>>>,
}

impl Call {
    pub(crate) fn new(slot: u32, ended: &Rc<RefCell<Vec<CallEnd>>>) -> Self {
        Self { slot, target: Cell::new(null_mut()), target_bytes: Cell::new(0), ended: Rc::clone(ended) }
    }
}

/// Takes the end of a call from libnfs.
unsafe extern "C" fn ended(result: c_int, _: *mut Context, data: *mut c_void, call: *mut c_void) {
    // SAFETY: every call is made with a pointer to a `Call` that outlives the context.
    let call = unsafe { &*call.cast::<Call>() };
    let (target, room) = (call.target.get(), call.target_bytes.get());
    if result > 0 && !target.is_null() && !data.is_null() {
        let bytes = (result as usize).min(room);
        // SAFETY: libnfs has `result` bytes at `data`; the slot's buffer has room for that many, and is not libnfs's.
        unsafe { std::ptr::copy_nonoverlapping(data.cast::<u8>(), target, bytes) };
    }
    if let Ok(mut ended) = call.ended.try_borrow_mut() {
        ended.push(CallEnd { slot: call.slot, result });
    }
}

/// Where the answer to a call goes that is waited for. It stays in its place as long as the context.
#[derive(Debug, Default)]
struct Waited {
    /// Result and data, once they came; the data is good only for what outlives the callback.
    answer: Cell<Option<(c_int, *mut c_void)>>,
    /// Where what came belongs, and how much has room there; none for calls that bring no bytes, and when nobody waits.
    target: Cell<Option<(NonNull<u8>, usize)>>,
}

/// Takes the answer to a call that is waited for.
unsafe extern "C" fn answered(result: c_int, _: *mut Context, data: *mut c_void, waited: *mut c_void) {
    // SAFETY: every such call is made with a pointer to a `Waited` that outlives the context.
    let waited = unsafe { &*waited.cast::<Waited>() };
    if let Some((target, bytes)) = waited.target.take()
        && result >= 0
        && !data.is_null()
    {
        // SAFETY: whoever waits has room for so many, and asked for no more; libnfs has them at `data`.
        unsafe { std::ptr::copy_nonoverlapping(data.cast::<u8>(), target.as_ptr(), bytes) };
    }
    waited.answer.set(Some((result, data)));
}

/// Takes the answer to a read that is waited for: as many bytes as the result says.
unsafe extern "C" fn read(result: c_int, context: *mut Context, data: *mut c_void, waited: *mut c_void) {
    // SAFETY: as above.
    let target = unsafe { &(*waited.cast::<Waited>()).target };
    target.set(target.get().map(|(at, room)| (at, room.min(result.max(0) as usize))));
    // SAFETY: what libnfs gave is handed on.
    unsafe { answered(result, context, data, waited) };
}

/// An open file.
#[derive(Debug)]
pub(crate) struct NfsFile {
    library: &'static NfsLibrary,
    context: NonNull<Context>,
    /// None until it is open.
    handle: Option<NonNull<Handle>>,
    waited: Box<Waited>,
    /// Whether the connection is gone.
    is_broken: bool,
    name: CString,
    bytes: u64,
    read_max: u64,
    write_max: u64,
}

// SAFETY: a context is not tied to the thread that made it, and `NfsFile` lets only one use it.
unsafe impl Send for NfsFile {}

impl NfsFile {
    /// Opens the file that `uri` names, for reading or also for writing.
    ///
    /// # Errors
    /// [`RemoteError`]: no library, no URI, no server, no such file.
    pub(crate) fn open(uri: &Path, may_write: bool) -> Result<Self, RemoteError> {
        let mut file = Self::mount(uri)?;
        let flags = if may_write { libc::O_RDWR } else { libc::O_RDONLY };
        let name = file.name.as_ptr();
        // SAFETY: context and name are alive.
        let handle = file.wait("open the file", None, |library, context, waited| unsafe {
            (library.open_async)(context, name, flags, answered, waited)
        })?;
        file.opened(handle.1)
    }

    /// Makes the file that `uri` names, which must not be there.
    pub(crate) fn create(uri: &Path) -> Result<Self, RemoteError> {
        let mut file = Self::mount(uri)?;
        let name = file.name.as_ptr();
        let flags = libc::O_RDWR | libc::O_EXCL;
        // SAFETY: context and name are alive.
        let handle = file.wait("make the file", None, |library, context, waited| unsafe {
            (library.create_async)(context, name, flags, 0o644, answered, waited)
        })?;
        file.opened(handle.1)
    }

    fn opened(mut self, handle: *mut Handle) -> Result<Self, RemoteError> {
        self.handle = NonNull::new(handle);
        let handle = self.handle();
        let mut stat = Stat::default();
        let room = (NonNull::from(&mut stat).cast(), size_of::<Stat>());
        // SAFETY: the file is open, and the struct is what libnfs brings.
        self.wait("look at the file", Some(room), |library, context, waited| unsafe {
            (library.fstat_async)(context, handle, answered, waited)
        })?;
        self.bytes = stat.size;
        Ok(self)
    }

    /// Begins a call and serves the connection until it has ended; its result and data, if it did not fail. Bytes that
    /// come go to `target`, and nothing is written there any more once this has returned.
    fn wait(
        &mut self,
        op: &'static str,
        target: Option<(NonNull<u8>, usize)>,
        begin: impl FnOnce(&NfsLibrary, *mut Context, *mut c_void) -> c_int,
    ) -> Result<(c_int, *mut c_void), RemoteError> {
        if self.is_broken {
            return Err(self.broken(op));
        }
        self.waited.answer.set(None);
        self.waited.target.set(target);
        let begun = begin(self.library, self.context.as_ptr(), (&raw mut *self.waited).cast());
        // What could not be begun may be under way in part, so the connection is given up.
        self.is_broken = begun != 0;
        while self.waited.answer.get().is_none() && !self.is_broken {
            let came = self.waits_for().map_or(Err(Errno::NOTCONN), |(socket, events)| {
                let mut wait =
                    [PollFd::from_borrowed_fd(socket, PollFlags::from_bits_retain(events.cast_unsigned()))];
                poll(&mut wait, Some(&LOOK_EVERY)).map(|_| wait[0].revents())
            });
            match came {
                // Without events libnfs looks for calls that have had no answer in time.
                Ok(events) => self.service(events.bits().cast_signed()),
                Err(Errno::INTR) => true,
                Err(_) => {
                    self.is_broken = true;
                    false
                }
            };
        }
        self.waited.target.set(None);
        let Some((result, data)) = self.waited.answer.take() else { return Err(self.broken(op)) };
        self.check(op, result)?;
        Ok((result, data))
    }

    /// The error of a call on a connection that is gone.
    fn broken(&self, op: &'static str) -> RemoteError {
        RemoteError::Call { op, errno: Errno::CONNRESET, said: self.said() }
    }

    /// Connects to the server and its export.
    fn mount(uri: &Path) -> Result<Self, RemoteError> {
        let library = nfs_library()?;
        let text = CString::new(uri.as_os_str().as_bytes());
        let text =
            text.map_err(|_| RemoteError::Uri { form: FORM, said: "it has a zero byte in it".into() })?;
        // SAFETY: the call takes nothing.
        let context = NonNull::new(unsafe { (library.init_context)() });
        let context = context.ok_or(RemoteError::Call {
            op: "begin",
            errno: Errno::NOMEM,
            said: "no memory".into(),
        })?;
        let mut file = Self {
            library,
            context,
            handle: None,
            waited: Box::default(),
            is_broken: false,
            name: CString::default(),
            bytes: 0,
            read_max: 0,
            write_max: 0,
        };
        // SAFETY: context and text are alive.
        let url = NonNull::new(unsafe { (library.parse_url)(context.as_ptr(), text.as_ptr()) });
        let Some(url) = url else { return Err(RemoteError::Uri { form: FORM, said: file.said() }) };
        let mounted = file.mount_url(url);
        // SAFETY: libnfs made it, and nothing points to it any more.
        unsafe { (library.destroy_url)(url.as_ptr()) };
        mounted?;
        // SAFETY: the context is alive.
        let maxima = unsafe { ((library.readmax)(context.as_ptr()), (library.writemax)(context.as_ptr())) };
        (file.read_max, file.write_max) = (limited(maxima.0), limited(maxima.1));
        if library.has_short_writes_of_nfs4() && is_nfs4(uri) {
            file.write_max = SHORT_WRITE_BYTES;
        }
        Ok(file)
    }

    fn mount_url(&mut self, url: NonNull<Url>) -> Result<(), RemoteError> {
        // SAFETY: libnfs made the struct, and has checked that all three are strings.
        let Url { server, path, file } = unsafe { url.read() };
        if server.is_null() || path.is_null() || file.is_null() {
            return Err(RemoteError::Uri { form: FORM, said: "a part is missing".into() });
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(file) }.clone_into(&mut self.name);
        let (client, verifier) = client_of_its_own()?;
        // SAFETY: the context is alive, and takes copies of the name and of the eight bytes; a server that goes is an error, and is not waited for without end.
        let result = unsafe {
            (self.library.set_timeout)(self.context.as_ptr(), ANSWER_MS_MAX);
            (self.library.set_autoreconnect)(self.context.as_ptr(), 0);
            (self.library.set_client_name)(self.context.as_ptr(), client.as_ptr());
            (self.library.set_verifier)(self.context.as_ptr(), verifier.as_ptr().cast());
            (self.library.mount)(self.context.as_ptr(), server, path)
        };
        self.check("mount the export", result)
    }

    /// Whether writes go in pieces that are shorter than any server's limit.
    pub(crate) fn has_short_writes(&self) -> bool {
        self.write_max == SHORT_WRITE_BYTES
    }

    /// Begins to read up to `bytes` from `offset` on to `target`; what was asked for, or that it could not be.
    ///
    /// # Safety
    /// `target` has room for `bytes`; it and `call` stay in their places until the end was told or this file is gone.
    pub(crate) unsafe fn begin_read(
        &self,
        call: &Call,
        offset: u64,
        bytes: u64,
        target: *mut u8,
    ) -> Option<u64> {
        let asked = bytes.min(self.read_max);
        call.target.set(target);
        call.target_bytes.set(asked as usize);
        let call = std::ptr::from_ref(call).cast_mut().cast();
        // SAFETY: the file is open, and the caller keeps what the call needs.
        let result = unsafe {
            (self.library.pread_async)(self.context.as_ptr(), self.handle(), offset, asked, ended, call)
        };
        (result == 0).then_some(asked)
    }

    /// Begins to write up to `bytes` from `source` at `offset`.
    ///
    /// # Safety
    /// As for [`NfsFile::begin_read`].
    pub(crate) unsafe fn begin_write(
        &self,
        call: &Call,
        offset: u64,
        bytes: u64,
        source: *const u8,
    ) -> Option<u64> {
        let asked = bytes.min(self.write_max);
        call.target.set(null_mut());
        let call = std::ptr::from_ref(call).cast_mut().cast();
        // SAFETY: the file is open, and the caller keeps what the call needs.
        let result = unsafe {
            (self.library.pwrite_async)(
                self.context.as_ptr(),
                self.handle(),
                offset,
                asked,
                source.cast(),
                ended,
                call,
            )
        };
        (result == 0).then_some(asked)
    }

    /// Begins to have the server make durable what was written. False if that could not be asked for.
    ///
    /// # Safety
    /// As for [`NfsFile::begin_read`].
    pub(crate) unsafe fn begin_commit(&self, call: &Call) -> bool {
        call.target.set(null_mut());
        let call = std::ptr::from_ref(call).cast_mut().cast();
        // SAFETY: the file is open, and the caller keeps what the call needs.
        unsafe { (self.library.fsync_async)(self.context.as_ptr(), self.handle(), ended, call) == 0 }
    }

    /// Whether the connection is gone.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The socket and what to wait for on it, as poll(2) has it; none without a connection.
    pub(crate) fn waits_for(&self) -> Option<(BorrowedFd<'_>, i16)> {
        // SAFETY: the context is alive.
        let (fd, events) = unsafe {
            ((self.library.get_fd)(self.context.as_ptr()), (self.library.which_events)(self.context.as_ptr()))
        };
        // SAFETY: the socket is the context's, which this borrows.
        (fd >= 0).then(|| (unsafe { BorrowedFd::borrow_raw(fd as RawFd) }, events as i16))
    }

    /// Does what can be done now that `events` came, ends of calls included. False when the connection is gone.
    pub(crate) fn service(&mut self, events: i16) -> bool {
        // SAFETY: the context is alive.
        self.is_broken |= unsafe { (self.library.service)(self.context.as_ptr(), c_int::from(events)) < 0 };
        !self.is_broken
    }

    fn handle(&self) -> *mut Handle {
        self.handle.expect("the file is open").as_ptr()
    }

    fn check(&self, op: &'static str, result: c_int) -> Result<(), RemoteError> {
        if result >= 0 {
            return Ok(());
        }
        Err(RemoteError::Call { op, errno: errno_of(result), said: self.said() })
    }

    /// What libnfs says of the last error.
    fn said(&self) -> String {
        // SAFETY: the context is alive; the text is a string, or there is none.
        let text: *const c_char = unsafe { (self.library.get_error)(self.context.as_ptr()) };
        if text.is_null() {
            return "no reason given".into();
        }
        // SAFETY: as above.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }
}

impl RemoteFile for NfsFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read_at(&mut self, offset: u64, into: &mut [u8]) -> Result<usize, RemoteError> {
        let handle = self.handle();
        let mut at = 0;
        while at < into.len() {
            let rest = &mut into[at..];
            let length = (rest.len() as u64).min(self.read_max);
            let room = (NonNull::from(rest).cast(), length as usize);
            let from = offset + at as u64;
            // SAFETY: the file is open, and the rest has room for `length` bytes.
            let (moved, _) = self.wait("read the file", Some(room), |library, context, waited| unsafe {
                (library.pread_async)(context, handle, from, length, read, waited)
            })?;
            if moved == 0 {
                break;
            }
            at += moved as usize;
        }
        Ok(at)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), RemoteError> {
        let handle = self.handle();
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let length = (rest.len() as u64).min(self.write_max);
            let to = offset + at as u64;
            // SAFETY: the file is open, and the rest has `length` bytes; a connection that is given up is not served any
            // more, so nothing reads them later.
            let (moved, _) = self.wait("write the file", None, |library, context, waited| unsafe {
                (library.pwrite_async)(context, handle, to, length, rest.as_ptr().cast(), answered, waited)
            })?;
            self.check("write the file", if moved == 0 { -libc::EIO } else { moved })?;
            at += moved as usize;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), RemoteError> {
        let handle = self.handle();
        // SAFETY: the file is open.
        self.wait("make the file durable", None, |library, context, waited| unsafe {
            (library.fsync_async)(context, handle, answered, waited)
        })
        .map(|_| ())
    }

    fn unlink(&mut self) -> Result<(), RemoteError> {
        let name = self.name.as_ptr();
        // SAFETY: context and name are alive.
        self.wait("remove the file", None, |library, context, waited| unsafe {
            (library.unlink_async)(context, name, answered, waited)
        })
        .map(|_| ())
    }
}

impl Drop for NfsFile {
    fn drop(&mut self) {
        // SAFETY: the context is alive.
        let has_calls = unsafe { (self.library.queue_length)(self.context.as_ptr()) > 0 };
        // A handle with calls under way must not go before them, and ends with the server's lease.
        if let Some(handle) = self.handle.take()
            && !has_calls
        {
            let handle = handle.as_ptr();
            // SAFETY: the file is open, and nothing uses it after this. There is nobody to tell of a failure.
            let _ = self.wait("close the file", None, |library, context, waited| unsafe {
                (library.close_async)(context, handle, answered, waited)
            });
        }
        // SAFETY: nothing uses the context after this; calls under way are ended by it, and what they report to is alive.
        unsafe { (self.library.destroy_context)(self.context.as_ptr()) };
    }
}

/// A name for an NFS 4 client, and the verifier of its one life. libnfs names all that a process makes within a second alike,
/// and a server takes the second of them for the first one's restart, which ends what that had open.
fn client_of_its_own() -> Result<(CString, [u8; 8]), RemoteError> {
    let mut bytes = [0; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    let none = |_| RemoteError::Call {
        op: "begin",
        errno: Errno::IO,
        said: "the system gives no random numbers".into(),
    };
    filled.map_err(none)?;
    let name = format!("raidlab {:032x}", u128::from_le_bytes(bytes));
    let verifier = *bytes.first_chunk().expect("there are more");
    Ok((CString::new(name).expect("digits and letters"), verifier))
}

/// Whether the URI asks for NFS 4.
fn is_nfs4(uri: &Path) -> bool {
    let text = uri.to_string_lossy();
    text.split_once('?').is_some_and(|(_, arguments)| arguments.split('&').any(|it| it == "version=4"))
}

fn limited(bytes: u64) -> u64 {
    if bytes == 0 { CALL_BYTES_MAX } else { bytes.min(CALL_BYTES_MAX) }
}

/// The error number of a negative result.
pub(crate) fn errno_of(result: i32) -> Errno {
    match result.checked_neg() {
        Some(number) if (1..4096).contains(&number) => Errno::from_raw_os_error(number),
        _ => Errno::IO,
    }
}
