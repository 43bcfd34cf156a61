//! The control socket: operators' commands in, answers out, one line of JSON each.
//!
//! Only root and the user who serves the array may use it: the socket's mode restricts it, and the kernel's credentials
//! of each peer are checked; others take no place. Each connection has a thread. A process may have at most
//! [`CONNECTIONS_PER_PROCESS`]. When all places are taken, the process with the most loses its longest idle connection
//! (`places.rs`), so that an operator is always heard. The first command, and any partly received one, must be complete
//! within [`COMMAND_LIMIT`]; a connection may idle between commands for [`IDLE_LIMIT`]; a client must take its answer
//! within [`MEMBER_TIMEOUT`]. An invalid or too long line is answered with the reason.
//!
//! Left out: more than one command under way on a connection.

use crate::error::ServeError;
use crate::place::prepare_folder;
use crate::places::{GRACE, LOOK_EVERY, NoPlace, Places, Seat};
use raidlab_runtime::{Answer, ArrayStopped, CLIENT_CAUSED, Command, Operator, listen_unix};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Connections served at once.
const CONNECTIONS_MAX: usize = 64;
/// Those of one process.
const CONNECTIONS_PER_PROCESS: usize = 32;
/// Time for a command, from its first byte on, or from when the client came.
const COMMAND_LIMIT: Duration = Duration::from_secs(5);
/// Time between two commands.
const IDLE_LIMIT: Duration = Duration::from_mins(5);
/// Time for the client to take an answer.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest wait at the end for answers to be sent.
const END_LIMIT: Duration = Duration::from_secs(2);
/// Longest command in bytes.
const COMMAND_BYTES_MAX: usize = 64 << 10;

/// The socket that operators talk to. Its file goes away with it.
#[derive(Debug)]
pub struct ControlServer {
    path: PathBuf,
    /// Commands that are not answered yet.
    pending: Arc<AtomicUsize>,
}

impl ControlServer {
    /// Listens on `path` for the array behind `operator`. A socket that a killed array left there is replaced.
    ///
    /// # Errors
    /// [`ServeError`]: an array that is served there, something else in the way, or the system's refusal.
    pub fn start(path: &Path, operator: Operator) -> Result<Self, ServeError> {
        prepare_folder(path)?;
        let listener = listen_unix(path)?;
        let server = Self { path: path.to_owned(), pending: Arc::default() };
        let spawned = std::thread::Builder::new().name("control".into());
        let pending = Arc::clone(&server.pending);
        let thread = spawned.spawn(move || accept(&listener, &operator, &pending));
        thread.map_err(ServeError::io("serve", path))?;
        Ok(server)
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // The threads end with the process; nobody finds the socket any more, and who has asked is answered.
        let _ = std::fs::remove_file(&self.path);
        let end = Instant::now() + END_LIMIT;
        while self.pending.load(Ordering::Acquire) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn accept(listener: &UnixListener, operator: &Operator, pending: &Arc<AtomicUsize>) {
    let places = Places::new(CONNECTIONS_MAX, CONNECTIONS_PER_PROCESS, GRACE);
    for stream in listener.incoming() {
        match stream {
            Ok(stream) => let_in(stream, &places, operator, pending),
            Err(error) => {
                tracing::warn!(target: CLIENT_CAUSED, %error, "an operator could not be let in");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }
}

/// Serves a connection on a thread of its own, if its process may ask and there is a place for it.
fn let_in(stream: UnixStream, places: &Arc<Places>, operator: &Operator, pending: &Arc<AtomicUsize>) {
    let Some(process) = process_of(&stream) else {
        tracing::warn!(target: CLIENT_CAUSED, "somebody who may not ask was turned away");
        return;
    };
    let stream = Arc::new(stream);
    let seat = loop {
        let ends = Arc::clone(&stream);
        // Its thread is woken, and finds the end of the stream.
        match places.enter(process, move || ends.shutdown(Shutdown::Both).unwrap_or_default()) {
            Ok(seat) => break seat,
            Err(NoPlace::AllNew(_)) => std::thread::sleep(LOOK_EVERY),
            Err(error) => {
                tracing::warn!(target: CLIENT_CAUSED, %error, "an operator was turned away");
                // The socket is new and has room for it.
                let _ = send(&stream, &refusal(error.to_string()));
                return;
            }
        }
    };
    let (operator, pending) = (operator.clone(), Arc::clone(pending));
    let serve = move || {
        if let Err(error) = serve(&stream, &seat, &operator, &pending) {
            tracing::debug!(%error, "a control connection ended");
        }
    };
    if let Err(error) = std::thread::Builder::new().name("operator".into()).spawn(serve) {
        tracing::warn!(target: CLIENT_CAUSED, %error, "no thread for an operator");
    }
}

/// The process that connected, if it belongs to this user or to root.
fn process_of(stream: &UnixStream) -> Option<u32> {
    let own = rustix::process::geteuid();
    let peer = rustix::net::sockopt::socket_peercred(stream).ok()?;
    (peer.uid.is_root() || peer.uid == own).then(|| peer.pid.as_raw_nonzero().get().cast_unsigned())
}

fn serve(stream: &UnixStream, seat: &Seat, operator: &Operator, pending: &AtomicUsize) -> io::Result<()> {
    let mut reader = LineReader { stream, came: Vec::new(), limit: COMMAND_LIMIT };
    while let Some(line) = reader.next()? {
        seat.works();
        pending.fetch_add(1, Ordering::AcqRel);
        let is_whole = line.last() == Some(&b'\n');
        let answer = match Command::parse(&line) {
            _ if !is_whole => refusal(format!("a command is a line of at most {COMMAND_BYTES_MAX} bytes")),
            Ok(command) => {
                operator.ask(command).unwrap_or_else(|ArrayStopped| refusal(ArrayStopped.to_string()))
            }
            Err(error) => refusal(error.to_string()),
        };
        let sent = send(stream, &answer);
        pending.fetch_sub(1, Ordering::AcqRel);
        sent?;
        if !is_whole {
            break;
        }
        seat.waits();
    }
    Ok(())
}

/// Takes lines off a stream, each within a limit of time for the whole of it.
struct LineReader<'a> {
    stream: &'a UnixStream,
    /// What came and is not taken.
    came: Vec<u8>,
    /// Time for the first byte of the next line.
    limit: Duration,
}

impl LineReader<'_> {
    /// The next line with its end; without it where the stream ended before, or the line is too long. None at the end.
    fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        let limit = if self.came.is_empty() { self.limit } else { COMMAND_LIMIT };
        let mut deadline = Instant::now() + limit;
        self.limit = IDLE_LIMIT;
        let mut searched = 0;
        let mut part = [0; 4096];
        loop {
            if let Some(place) = self.came[searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.came.split_off(searched + place + 1);
                return Ok(Some(std::mem::replace(&mut self.came, rest)));
            }
            searched = self.came.len();
            if searched >= COMMAND_BYTES_MAX {
                return Ok(Some(std::mem::take(&mut self.came)));
            }
            self.stream.set_read_timeout(Some(left_until(deadline)?))?;
            let length = self.stream.read(&mut part)?;
            if length == 0 {
                let rest = std::mem::take(&mut self.came);
                return Ok((!rest.is_empty()).then_some(rest));
            }
            if searched == 0 {
                deadline = deadline.min(Instant::now() + COMMAND_LIMIT);
            }
            self.came.extend_from_slice(&part[..length]);
        }
    }
}

fn send(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    let mut text = serde_json::to_vec(answer).map_err(io::Error::from)?;
    text.push(b'\n');
    let deadline = Instant::now() + MEMBER_TIMEOUT;
    let mut rest = &text[..];
    while !rest.is_empty() {
        stream.set_write_timeout(Some(left_until(deadline)?))?;
        rest = &rest[stream.write(rest)?..];
    }
    Ok(())
}

fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn refusal(reason: String) -> Answer {
    Answer::Refused { reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ControlClient;
    use raidlab_runtime::{UnixSocketError, operator_line};
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::MetadataExt;

    /// An array that says yes to `Check` and ends at `Stop`.
    fn array() -> (Operator, std::thread::JoinHandle<()>) {
        let (operator, queue) = operator_line().expect("descriptors can be had");
        let thread = std::thread::spawn(move || {
            loop {
                let Some(asked) = queue.poll_command() else {
                    std::thread::yield_now();
                    continue;
                };
                let done = Answer::Done { message: "yes".into() };
                match asked.command {
                    Command::Check => asked.answer(done),
                    Command::Stop => return asked.answer(done),
                    _ => asked.answer(refusal("no".into())),
                }
            }
        });
        (operator, thread)
    }

    #[test]
    fn commands_are_answered_in_turn_until_the_array_stops() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("a.sock");
        let (operator, array) = array();
        let server = ControlServer::start(&path, operator.clone()).expect("the socket is free");
        assert_eq!(std::fs::metadata(&path).expect("it is there").mode() & 0o777, 0o600);
        let taken = ControlServer::start(&path, operator).expect_err("it is taken");
        assert!(matches!(taken, ServeError::Socket(UnixSocketError::InUse { .. })), "{taken}");
        let mut client = ControlClient::connect(&path).expect("it listens");
        for (command, answer) in [
            (Command::Check, Answer::Done { message: "yes".into() }),
            (Command::Repair, refusal("no".into())),
            (Command::Stop, Answer::Done { message: "yes".into() }),
            (Command::Check, refusal("the array has stopped".into())),
        ] {
            assert_eq!(client.ask(&command).expect("it answers"), answer);
        }
        array.join().expect("the array ends");
        drop(server);
        assert!(!path.exists());
        let gone = ControlClient::connect(&path).expect_err("nobody listens");
        assert!(matches!(gone, ServeError::NotServed { .. }), "{gone}");
    }

    #[test]
    fn garbage_is_answered_with_the_reason_and_hurts_nobody() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("a.sock");
        let (operator, array) = array();
        let _server = ControlServer::start(&path, operator.clone()).expect("the socket is free");
        for garbage in [b"\n".to_vec(), b"{}\n".to_vec(), vec![0xff; 9], vec![b'['; 1 << 17]] {
            let mut stream = UnixStream::connect(&path).expect("it listens");
            // It may have had enough before all is sent.
            let _ = stream.write_all(&garbage);
            let _ = stream.shutdown(Shutdown::Write);
            let mut answer = String::new();
            if BufReader::new(stream).read_line(&mut answer).is_ok() && !answer.is_empty() {
                assert!(answer.contains("refused"), "{answer}");
            }
        }
        let mut client = ControlClient::connect(&path).expect("it listens");
        assert!(matches!(client.ask(&Command::Check), Ok(Answer::Done { .. })));
        operator.ask(Command::Stop).expect("it answers");
        array.join().expect("the array ends");
    }

    /// Issue 23, defect 2: who was turned away was counted for ever, and the operator found no place any more.
    #[test]
    fn idle_connections_never_lock_the_operator_out() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("a.sock");
        let (operator, array) = array();
        let _server = ControlServer::start(&path, operator.clone()).expect("the socket is free");
        let connect = || UnixStream::connect(&path).expect("it listens");
        for _ in 0..3 {
            drop((0..70).map(|_| connect()).collect::<Vec<_>>());
        }
        // Some are not let in while the server has not noticed that others have gone.
        let mut client = (0..200).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            let mut client = ControlClient::connect(&path).ok()?;
            matches!(client.ask(&Command::Check), Ok(Answer::Done { .. })).then_some(client)
        });
        let client = client.as_mut().expect("there is a place again");
        // One process has its share and is told so; those that have places keep them.
        // Each is known to have its place before the next one comes, however late the server notices that others have gone.
        let mut idle = Vec::new();
        let answer = (0..2 * CONNECTIONS_PER_PROCESS).find_map(|_| {
            let mut next = ControlClient::connect(&path).expect("it listens");
            let answer = next.ask(&Command::Check).expect("it answers, or says why not");
            idle.push(next);
            (!matches!(answer, Answer::Done { .. })).then_some(answer)
        });
        assert_eq!(answer, Some(refusal("this process has 32 connections already".into())));
        assert!(matches!(client.ask(&Command::Check), Ok(Answer::Done { .. })));
        operator.ask(Command::Stop).expect("it answers");
        array.join().expect("the array ends");
    }

    #[test]
    fn who_does_not_end_a_command_in_time_is_let_go() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("a.sock");
        let (operator, array) = array();
        let _server = ControlServer::start(&path, operator.clone()).expect("the socket is free");
        let silent = UnixStream::connect(&path).expect("it listens");
        let slow = UnixStream::connect(&path).expect("it listens");
        let begin = Instant::now();
        let dripping = std::thread::spawn(move || {
            // A byte each 100 ms, for ever.
            while (&slow).write_all(b" ").is_ok() {
                assert!(begin.elapsed() < 10 * COMMAND_LIMIT, "a command may come for ever");
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        assert_eq!((&silent).read(&mut [0; 1]).expect("the server ends it"), 0);
        dripping.join().expect("the server ends it");
        assert!(begin.elapsed() >= COMMAND_LIMIT);
        operator.ask(Command::Stop).expect("it answers");
        array.join().expect("the array ends");
    }

    #[test]
    fn what_is_no_socket_is_left_alone_and_a_dead_socket_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let (operator, _queue) = operator_line().expect("descriptors can be had");
        let file = folder.path().join("file");
        std::fs::write(&file, "precious").expect("a file can be written");
        let refused = ControlServer::start(&file, operator.clone()).expect_err("it is in the way");
        assert!(matches!(refused, ServeError::Socket(UnixSocketError::NoSocket { .. })), "{refused}");
        assert_eq!(std::fs::read(&file).expect("it is there"), b"precious");
        let dead = folder.path().join("dead.sock");
        drop(UnixListener::bind(&dead).expect("a socket can be made"));
        ControlServer::start(&dead, operator).expect("nobody listens there");
    }
}
