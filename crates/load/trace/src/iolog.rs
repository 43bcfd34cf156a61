//! Records as an iolog that fio replays.
//!
//! It is version 3, because only that has times; they are microseconds, so smaller digits are dropped. Quirk: fio drops
//! the pause after a request at time 0 (`delay_since_ttime`), so all times are one microsecond later here, and the
//! files are added and opened at 0.
//!
//! Source: fio's `iolog.c`.

use crate::record::{TraceKind, TraceRecord};
use std::fmt::{self, Write};

/// Writes an iolog into a text.
#[derive(Clone, Debug)]
pub struct IologWriter {
    files: Vec<String>,
}

impl IologWriter {
    /// Returns the writer for requests to `files`, by the numbers of their devices. Blanks in names become `_`, because fio
    /// reads up to them.
    pub fn new(files: &[String]) -> Self {
        let plain = |name: &String| name.replace(|c: char| c.is_whitespace() || c.is_control(), "_");
        Self { files: files.iter().map(plain).collect() }
    }

    /// Writes what stands before the first request.
    ///
    /// # Errors
    /// Only those of `out`.
    pub fn head(&self, out: &mut impl Write) -> fmt::Result {
        writeln!(out, "{}", crate::format::fio::HEAD_3)?;
        self.files.iter().try_for_each(|file| writeln!(out, "0 {file} add"))?;
        self.files.iter().try_for_each(|file| writeln!(out, "0 {file} open"))
    }

    /// Writes a request.
    ///
    /// # Errors
    /// Only those of `out`.
    pub fn request(&self, record: &TraceRecord, out: &mut impl Write) -> fmt::Result {
        let action = match record.kind {
            TraceKind::Read => "read",
            // fio has nothing that zeroes a range; it writes there.
            TraceKind::Write | TraceKind::WriteZeroes => "write",
            TraceKind::Flush => "sync",
            TraceKind::Trim => "trim",
        };
        let Some(file) = self.files.get(usize::from(record.device)) else { return Ok(()) };
        let time_us = record.time_ns / 1000 + 1;
        writeln!(out, "{time_us} {file} {action} {} {}", record.offset_bytes, record.length_bytes)
    }

    /// Writes what stands behind the last request, which was at `time_ns`.
    ///
    /// # Errors
    /// Only those of `out`.
    pub fn tail(&self, time_ns: u64, out: &mut impl Write) -> fmt::Result {
        let time_us = time_ns / 1000 + 1;
        self.files.iter().try_for_each(|file| writeln!(out, "{time_us} {file} close"))
    }
}
