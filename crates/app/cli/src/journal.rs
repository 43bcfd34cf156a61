//! The log as entries of systemd's journal, with fields, if standard error leads there.
//!
//! An entry is one datagram of fields: `NAME\n`, the length of the value as 8 little-endian bytes, the value, `\n`.
//! Fields of events are
//! `RAIDLAB_KIND`, `RAIDLAB_DEVICE` and so on, so that `journalctl RAIDLAB_KIND=member-failed` finds them.
//!
//! Nothing waits for the journal: an entry that it does not take at once is lost, and the next one that it takes gives
//! the number of lost entries. That is why the socket is our own and not that of `tracing-journald`, which blocks.
//!
//! Source: systemd's "Native Journal Protocol"; `systemd.exec(5)` on `$JOURNAL_STREAM`.

use std::fmt::{Debug, Write as _};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// Where the journal listens.
const SOCKET: &str = "/run/systemd/journal/socket";
/// Syslog's priorities, as the journal has them.
const WARNING: u8 = 4;

/// The journal.
#[derive(Debug)]
pub(crate) struct Journal {
    socket: UnixDatagram,
    path: PathBuf,
    lost: AtomicU64,
}

impl Journal {
    /// The journal, if standard error leads there.
    pub(crate) fn of_process() -> Option<Self> {
        let stream = std::env::var("JOURNAL_STREAM").ok()?;
        let facts = rustix::fs::fstat(std::io::stderr()).ok()?;
        let is_journal = stream == format!("{}:{}", facts.st_dev, facts.st_ino);
        is_journal.then(|| Self::at(Path::new(SOCKET))).flatten()
    }

    /// The journal that listens at `path`.
    fn at(path: &Path) -> Option<Self> {
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Self { socket, path: path.to_owned(), lost: AtomicU64::new(0) })
    }

    fn send(&self, entry: &[u8]) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            let said = Entry::new(
                WARNING,
                &format!("{lost} entries of the log are lost: the journal did not take them"),
            );
            if self.socket.send_to(&said.bytes, &self.path).is_err() {
                self.lost.fetch_add(lost + 1, Ordering::Relaxed);
                return;
            }
        }
        if self.socket.send_to(entry, &self.path).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<S: Subscriber> Layer<S> for Journal {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let facts = event.metadata();
        let mut entry = Entry::new(priority(*facts.level()), &fields.message);
        entry.add("TARGET", facts.target());
        for (name, value) in &fields.others {
            entry.add(
                &format!(
                    "RAIDLAB_{}",
                    name.to_ascii_uppercase().replace(|it: char| !it.is_ascii_alphanumeric(), "_")
                ),
                value,
            );
        }
        self.send(&entry.bytes);
    }
}

fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => WARNING,
        Level::INFO => 6,
        _ => 7,
    }
}

/// An entry that is made.
struct Entry {
    bytes: Vec<u8>,
}

impl Entry {
    fn new(priority: u8, message: &str) -> Self {
        let mut entry = Self { bytes: Vec::new() };
        entry.add("PRIORITY", &priority.to_string());
        entry.add("SYSLOG_IDENTIFIER", "raidlab");
        entry.add("MESSAGE", message);
        entry
    }

    fn add(&mut self, name: &str, value: &str) {
        self.bytes.extend(name.as_bytes());
        self.bytes.push(b'\n');
        self.bytes.extend((value.len() as u64).to_le_bytes());
        self.bytes.extend(value.as_bytes());
        self.bytes.push(b'\n');
    }
}

/// The fields of an event.
#[derive(Default)]
struct Fields {
    /// The text, with the other fields behind it where it does not stand for itself.
    message: String,
    others: Vec<(&'static str, String)>,
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        } else {
            self.others.push((field.name(), format!("{value:?}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use tracing_subscriber::layer::SubscriberExt;

    /// The fields of the next entry.
    fn next_entry(journal: &UnixDatagram) -> BTreeMap<String, String> {
        let mut bytes = vec![0; 1 << 16];
        let length = journal.recv(&mut bytes).expect("an entry comes");
        let mut rest = &bytes[..length];
        let mut fields = BTreeMap::new();
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let name = String::from_utf8(rest[..end].to_vec()).expect("text");
            let (head, behind) = rest[end + 1..].split_at(8);
            let value = &behind[..u64::from_le_bytes(head.try_into().expect("8 bytes")) as usize];
            fields.insert(name, String::from_utf8(value.to_vec()).expect("text"));
            assert_eq!(behind[value.len()], b'\n');
            rest = &behind[value.len() + 1..];
        }
        fields
    }

    #[test]
    fn entries_have_fields_and_a_journal_that_hangs_costs_entries_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal");
        let server = UnixDatagram::bind(&path).expect("a socket");
        let log = tracing_subscriber::registry().with(Journal::at(&path).expect("a socket"));
        tracing::subscriber::with_default(log, || {
            tracing::error!(
                kind = "member-failed",
                device = Some(3_u16),
                path = None::<&str>,
                "gone\nfor good"
            );
            let entry = next_entry(&server);
            for (name, value) in [
                ("MESSAGE", "gone\nfor good"),
                ("PRIORITY", "3"),
                ("SYSLOG_IDENTIFIER", "raidlab"),
                ("RAIDLAB_KIND", "member-failed"),
                ("RAIDLAB_DEVICE", "3"),
            ] {
                assert_eq!(entry.get(name).map(String::as_str), Some(value), "{entry:?}");
            }
            assert!(!entry.contains_key("RAIDLAB_PATH"), "{entry:?}");
            // Nobody reads: the socket's queue is full sooner or later.
            (0..2000).for_each(|number| tracing::info!(number, "one of many"));
            while next_entry(&server)["RAIDLAB_NUMBER"] != "0" {}
            server.set_nonblocking(true).expect("it can be");
            while server.recv(&mut [0; 9]).is_ok() {}
            server.set_nonblocking(false).expect("it can be");
            tracing::warn!("after them");
            assert!(next_entry(&server)["MESSAGE"].ends_with("the journal did not take them"));
            assert_eq!(next_entry(&server)["MESSAGE"], "after them");
        });
    }
}
