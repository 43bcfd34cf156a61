//! The operator's end of the control socket: one command, one answer.

use crate::error::ServeError;
use raidlab_runtime::{Answer, Command};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for an array to say how it is; one whose thread waits for a device is asked again later.
const STATUS_LIMIT: Duration = Duration::from_secs(10);
/// Longest answer in bytes; a status of 256 devices with long paths is well below.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// A connection to an array that is served.
#[derive(Debug)]
pub struct ControlClient {
    path: PathBuf,
    stream: BufReader<UnixStream>,
}

impl ControlClient {
    /// Connects to the array behind `path`.
    ///
    /// # Errors
    /// [`ServeError::NotServed`] when nothing answers there, or the system's refusal.
    pub fn connect(path: &Path) -> Result<Self, ServeError> {
        match UnixStream::connect(path) {
            Ok(stream) => Ok(Self { path: path.to_owned(), stream: BufReader::new(stream) }),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {
                Err(ServeError::NotServed { path: path.to_owned() })
            }
            Err(error) => Err(ServeError::io("connect to", path)(error)),
        }
    }

    /// Asks, and waits for the answer, however long what is asked for takes; how it is, an array says within ten seconds.
    ///
    /// # Errors
    /// [`ServeError`]: the array ended, or what answers is no array.
    #[expect(clippy::missing_panics_doc, reason = "a command can be written down")]
    pub fn ask(&mut self, command: &Command) -> Result<Answer, ServeError> {
        let mut line = serde_json::to_vec(command).expect("a command can be written down");
        line.push(b'\n');
        // Who was turned away is told why before anything is asked; the end of the connection may be noticed first.
        let sent = self.stream.get_mut().write_all(&line);
        if let Err(error) = sent
            && error.kind() != ErrorKind::BrokenPipe
        {
            return Err(ServeError::io("send to", &self.path)(error));
        }
        let limit = (*command == Command::Status).then_some(STATUS_LIMIT);
        let limited = self.stream.get_ref().set_read_timeout(limit);
        limited.map_err(ServeError::io("hear from", &self.path))?;
        let mut answer = String::new();
        let read = self.stream.by_ref().take(ANSWER_BYTES_MAX).read_line(&mut answer);
        let read = read.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                ServeError::Silent { path: self.path.clone(), limit: STATUS_LIMIT }
            }
            _ => ServeError::io("hear from", &self.path)(error),
        });
        if read? == 0 {
            return Err(ServeError::NotServed { path: self.path.clone() });
        }
        serde_json::from_str(&answer)
            .map_err(|error| ServeError::NotAnAnswer { path: self.path.clone(), reason: error.to_string() })
    }
}
