//! One request of a trace, and the names of its parts.

use serde::{Deserialize, Serialize};
use std::str::FromStr;

raidlab_units::named! {
    /// What a request asks for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum TraceKind {
        /// Data from the device.
        Read = "read",
        /// Data to the device.
        Write = "write",
        /// What was written before is to be kept; it moves no data.
        Flush = "flush",
        /// The range is no longer needed.
        Trim = "trim",
        /// The range is to read as zeroes; it moves no data.
        WriteZeroes = "write-zeroes",
    }
}

/// One request, whatever tool saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// When it was issued: from the parser on the trace's own clock, behind [`crate::Ordering`] from the first request.
    pub time_ns: u64,
    /// Number of the device, dense from 0 in the order in which the trace names them.
    pub device: u16,
    /// What it asks for.
    pub kind: TraceKind,
    /// First byte on the device.
    pub offset_bytes: u64,
    /// Length; `offset_bytes + length_bytes` never overflows.
    pub length_bytes: u64,
    /// How long it took, where the trace says so.
    pub response_ns: Option<u64>,
}

raidlab_units::named! {
    /// The formats that are read.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum TraceFormat {
        /// fio's iolog, version 2.
        Fio2 = "fio2",
        /// fio's iolog, version 3.
        Fio3 = "fio3",
        /// What blkparse prints by default.
        Blkparse = "blkparse",
        /// The CSV of the MSR Cambridge traces (SNIA IOTTA).
        Msr = "msr",
        /// The Storage Performance Council's trace file format.
        Spc = "spc",
        /// `DiskSim`'s default ASCII format.
        Disksim = "disksim",
        /// `DiskSim`'s validation traces, one request at a time with measured response times.
        DisksimValidate = "disksim-validate",
        /// What `perf script` and the kernel's trace file print of block events.
        Perf = "perf",
        /// The traces of Florida International University (SNIA IOTTA).
        Fiu = "fiu",
        /// What `biosnoop` of bcc prints.
        Biosnoop = "biosnoop",
        /// The CSV of Alibaba's block traces of 2020.
        Alibaba = "alibaba",
        /// The CSV of Tencent's block storage of 2018 (SNIA IOTTA).
        Tencent = "tencent",
        /// The CSV of the traces of SYSTOR '17 (SNIA IOTTA).
        Systor = "systor",
        /// `oracleGeneral` of `libCacheSim`, as the lines that are made of it: it has no kinds of requests.
        OracleGeneral = "oracle-general",
    }
}

/// Which event of a request is taken as its time, where a trace has several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BlkAction {
    /// The request came to the queue, as the application made it.
    #[default]
    Queued,
    /// It was sent to the device, merged and split by then.
    Dispatched,
    /// It ended.
    Completed,
}

/// What the `wait` of an iolog of version 2 says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitMeaning {
    /// Milliseconds from the start of the run to the next request: what fio does.
    #[default]
    AsFioDoes,
    /// Microseconds from the `wait` before: what fio's manual says.
    AsManualSays,
}

impl TraceKind {
    /// Its place in [`TraceKind::ALL`].
    pub const fn code(self) -> usize {
        self as usize
    }
}

impl TraceFormat {
    /// A line of it, as its fields are called.
    pub const fn line_form(self) -> &'static str {
        match self {
            Self::Fio2 => "'file action' or 'file action offset length'",
            Self::Fio3 => "'time file action' or 'time file action offset length'",
            Self::Blkparse => "'major,minor cpu sequence time pid action rwbs [sector + blocks] [process]'",
            Self::Msr => "'timestamp,hostname,disk,Read|Write,offset,size,response'",
            Self::Spc => "'asu,lba,size,r|w,timestamp'",
            Self::Disksim => "'arrival_ms device block blocks flags'",
            Self::DisksimValidate => "'R|W action block blocks response_us gap_us'",
            Self::Perf => {
                "'process pid [cpu] seconds: block_EVENT: major,minor rwbs ... sector + blocks [process]'"
            }
            Self::Biosnoop => "'seconds process pid disk R|W sector bytes [queued_ms] latency_ms'",
            Self::Alibaba | Self::OracleGeneral => "'device,R|W,offset,length,timestamp_us'",
            Self::Tencent => "'timestamp_s,sector,sectors,0|1,volume'",
            Self::Systor => "'timestamp_s,response_s,R|W,lun,offset,size'",
            Self::Fiu => "'timestamp_ns pid process sector sectors R|W major minor hash'",
        }
    }
}

raidlab_units::named! {
    /// A unit of times.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TimeUnit {
        /// Nanoseconds.
        Nanoseconds = "ns",
        /// Microseconds.
        Microseconds = "us",
        /// Milliseconds.
        Milliseconds = "ms",
        /// Seconds.
        Seconds = "s",
    }
}

impl TimeUnit {
    /// Its nanoseconds are a one with so many zeroes.
    pub const fn digits(self) -> u32 {
        match self {
            Self::Nanoseconds => 0,
            Self::Microseconds => 3,
            Self::Milliseconds => 6,
            Self::Seconds => 9,
        }
    }
}

impl TraceFormat {
    /// Whether its times can be said to be of another unit.
    pub const fn takes_time_unit(self) -> bool {
        matches!(
            self,
            Self::Spc
                | Self::Disksim
                | Self::Biosnoop
                | Self::Alibaba
                | Self::Tencent
                | Self::Systor
                | Self::Fiu
        )
    }
}

/// A name that is none of those there are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{given}' is none of {known}")]
pub struct UnknownName {
    given: String,
    known: String,
}

impl FromStr for TraceFormat {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::named(text).ok_or_else(|| UnknownName {
            given: text.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}
