//! A file server: its kernel's work between a volume and the readers of its files.
//!
//! ```text
//!  reader ◄─ copy ─ [ processors, page cache, read-ahead window ] ◄═ bus ═ controllers ◄═ volumes
//!  client ◄═ network ═ [ nfsd threads, remembered read-aheads ] ◄┘
//! ```
//! The kernel is Linux 2.4: a window of [`FileServerModel::read_ahead`] is requested when a reader touches the first
//! page of the previous window, so that a reader has one window under way while it copies the last. An NFS server keeps
//! these windows for a few files only ([`NfsServerModel::remembered_files`]); reading more files at once loses them.
//!
//! Left out: writing, page reclaim, programs beside the readers.
//! Source of the kernel's behaviour: Linux 2.4.18, `mm/filemap.c`, `fs/nfsd/vfs.c`, `drivers/md/md.c`.

use crate::catalog::{CatalogError, FigureSource, Section, from_keys};
use crate::link::LinkModel;
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

/// A file server.
#[derive(Clone, Debug, PartialEq)]
pub struct FileServerModel {
    /// Name in the catalogue, `asa`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Processors.
    pub processors: u32,
    /// The bus that controllers and network adapters share.
    pub bus: LinkModel,
    /// Rate of copies from the page cache to a program.
    pub copy: BytesPerSec,
    /// Processor time for a request to a volume: driver, interrupt, waking its reader.
    pub per_request: NanoSpan,
    /// Longest request to a volume.
    pub request_max: ByteCount,
    /// Longest read-ahead window of a file.
    pub read_ahead: ByteCount,
    /// A window on a software stripe is so many chunks for each volume in it.
    pub stripe_window_chunks: u32,
    /// How far apart the starts of two files are that were written one after the other.
    pub file_spacing: ByteCount,
    /// What is on it where nothing else is said, if that is known.
    pub served: Option<ServedDefaults>,
    /// What it does for clients on the network, if it is known.
    pub nfs: Option<NfsServerModel>,
    /// Every figure with its source.
    pub sources: Vec<FigureSource>,
}

/// What a server has, by names of the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedDefaults {
    /// Its controllers.
    pub controller: String,
    /// The drives behind each.
    pub drive: String,
    /// RAID level of the array behind each.
    pub level: String,
    /// Drives of that array.
    pub drives: u16,
    /// What is on it.
    pub filesystem: String,
    /// How clients reach it.
    pub network: String,
}

/// An NFS server and its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NfsServerModel {
    /// Threads that serve calls, one each at a time.
    pub threads: u32,
    /// Files whose read-ahead windows are remembered between calls.
    pub remembered_files: u32,
    /// Calls of a client to one volume at once, at most.
    pub client_calls: u32,
    /// Calls over UDP that it begins with when it has mounted the volume; there are more only after a while.
    pub client_calls_first: u32,
    /// Longest read-ahead window of a client.
    pub client_read_ahead: ByteCount,
    /// Windows of a file that a client has asked for at once: with two it asks for the next one when it takes in the first
    /// part of the last, with one when it takes in the last part.
    pub client_windows: u32,
    /// Processors of the client. All calls of one reader are taken in by one of them, readers having them in turn.
    pub client_processors: u32,
    /// Time of the client for each call over UDP.
    pub client_call_udp: NanoSpan,
    /// What it takes more for each packet of an answer over UDP that does not fit in one.
    pub client_fragment: NanoSpan,
    /// Time of the client for each call over TCP.
    pub client_call_tcp: NanoSpan,
    /// Time of the server for each call.
    pub server_call: NanoSpan,
}

impl FileServerModel {
    /// Reads the rest of a file server's file.
    pub(crate) fn read(mut root: Section<'_>, id: &str) -> Result<Self, CatalogError> {
        let model = from_keys!(root, Self {
            id = id.into(), name: text, processors,
            bus = LinkModel::read(root.section("bus")?)?,
            copy, per_request, request_max, read_ahead, stripe_window_chunks, file_spacing,
            served = root.optional_section("served")?.map(ServedDefaults::read).transpose()?,
            nfs = root.optional_section("nfs")?.map(NfsServerModel::read).transpose()?,
            sources = root.figures(),
        });
        root.refuse_if(model.processors == 0, "processors", "at least 1")?;
        root.refuse_if(model.stripe_window_chunks == 0, "stripe_window_chunks", "at least 1")?;
        for (key, size) in [
            ("request_max", model.request_max),
            ("read_ahead", model.read_ahead),
            ("file_spacing", model.file_spacing),
        ] {
            if size.0 < PAGE_BYTES || !size.0.is_multiple_of(PAGE_BYTES) {
                return Err(root.bad_value(key, "whole pages of 4 KiB, at least one"));
            }
        }
        root.finish(model)
    }
}

impl ServedDefaults {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let served = from_keys!(section, Self {
            controller: text, drive: text, level: text,
            drives = u16::from(section.figure::<u8>("drives")?),
            filesystem: text, network: text,
        });
        section.finish(served)
    }
}

impl NfsServerModel {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let model = from_keys!(
            section,
            Self {
                threads,
                remembered_files,
                client_calls,
                client_calls_first,
                client_read_ahead,
                client_windows,
                client_processors,
                client_call_udp,
                client_fragment,
                client_call_tcp,
                server_call,
            }
        );
        for (key, count) in [
            ("threads", model.threads),
            ("client_calls", model.client_calls),
            ("client_calls_first", model.client_calls_first),
            ("client_processors", model.client_processors),
        ] {
            section.refuse_if(count == 0, key, "at least 1")?;
        }
        section.refuse_if(!(1..=2).contains(&model.client_windows), "client_windows", "1 or 2")?;
        let size = model.client_read_ahead;
        if size.0 < PAGE_BYTES || !size.0.is_multiple_of(PAGE_BYTES) {
            return Err(section.bad_value("client_read_ahead", "whole pages of 4 KiB, at least one"));
        }
        section.finish(model)
    }
}

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;
