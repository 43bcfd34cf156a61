//! The control socket: operators' commands in, answers out, a line of JSON each.
//!
//! Only the user who serves the array, and root, may talk to it: the socket's mode says so, and so does what the kernel
//! tells of whoever connects. A connection is a thread; more than [`CONNECTIONS_MAX`] wait. A line that is too long, or is
//! no command, is answered with the reason.
//!
//! Left out: more than one command under way on a connection.

use crate::error::ServeError;
use crate::place::prepare_folder;
use raidlab_array::{Answer, ArrayStopped, Command, Operator, listen_unix};
use std::fs::Permissions;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Connections served at once.
const CONNECTIONS_MAX: usize = 32;
/// Longest wait at the end for answers to be sent.
const ANSWER_LIMIT: Duration = Duration::from_secs(2);
/// Longest command in bytes.
const COMMAND_BYTES_MAX: u64 = 64 << 10;

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
        let closed = std::fs::set_permissions(path, Permissions::from_mode(0o600));
        closed.map_err(ServeError::io("close to others", path))?;
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
        let end = Instant::now() + ANSWER_LIMIT;
        while self.pending.load(Ordering::Acquire) > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn accept(listener: &UnixListener, operator: &Operator, pending: &Arc<AtomicUsize>) {
    let open = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "an operator could not be let in");
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        if !may_ask(&stream) || open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            tracing::warn!("an operator was turned away");
            continue;
        }
        let (operator, count, pending) = (operator.clone(), Arc::clone(&open), Arc::clone(pending));
        let serve = move || {
            if let Err(error) = serve(&stream, &operator, &pending) {
                tracing::debug!(%error, "a control connection ended");
            }
            count.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(error) = std::thread::Builder::new().name("operator".into()).spawn(serve) {
            tracing::warn!(%error, "no thread for an operator");
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Whether whoever connected is this user, or root.
fn may_ask(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid.is_root() || peer.uid == own)
}

fn serve(stream: &UnixStream, operator: &Operator, pending: &AtomicUsize) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = Vec::new();
        reader.by_ref().take(COMMAND_BYTES_MAX).read_until(b'\n', &mut line)?;
        let is_whole = line.last() == Some(&b'\n');
        if line.is_empty() {
            return Ok(());
        }
        pending.fetch_add(1, Ordering::AcqRel);
        let answer = match serde_json::from_slice::<Command>(&line) {
            _ if !is_whole => refusal(format!("a command is a line of at most {COMMAND_BYTES_MAX} bytes")),
            Ok(command) => {
                operator.ask(command).unwrap_or_else(|ArrayStopped| refusal(ArrayStopped.to_string()))
            }
            Err(error) => refusal(format!("that is no command: {error}")),
        };
        let sent = send(stream, &answer);
        pending.fetch_sub(1, Ordering::AcqRel);
        sent?;
        if !is_whole {
            return Ok(());
        }
    }
}

fn send(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    let mut text = serde_json::to_vec(answer).map_err(io::Error::from)?;
    text.push(b'\n');
    stream.write_all(&text)
}

fn refusal(reason: String) -> Answer {
    Answer::Refused { reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::ControlClient;
    use raidlab_array::{UnixSocketError, operator_line};
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
            let _ = stream.shutdown(std::net::Shutdown::Write);
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
