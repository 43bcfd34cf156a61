//! What monitoring kept of storage in use: its formats, one series type for all, and the figures that plans need.
//!
//! ```text
//! sar, iostat   (JSON, text) ┐
//! PCP           (CSV, text)  │
//! node_exporter (JSON)       ├─► Reading: host, device, time, rates ─► Series ─► History (history.toml)
//! pg_stat_io    (CSV, psql)  │
//! esxtop, perfmon (CSV)      ┘
//! ```
//! | module | idea |
//! |---|---|
//! | `format` | a file for each family of formats, and their detection |
//! | `reading` | what one line says of one device |
//! | `history` | what is told of each device, as a file |
//! | `course` | figures over time: what each reading weighs, hours of the day, growth |
//! | `layers` | devices that lie on others of their host, whose requests are those of the others once more |
//! | `clock` | dates and times of all formats, as seconds |
//! | `cells` | tables of text, cell by cell |
//!
//! What a format does not say stays empty: `sar` does not tell reads from writes, and then no share of reads is invented.
//!
//! No file is opened here: the caller passes text.
#![forbid(unsafe_code)]

mod cells;
mod clock;
mod course;
mod error;
mod format;
mod history;
mod layers;
mod reading;

pub use clock::DateOrder;
pub use course::Percentiles;
pub use error::{HistoryError, HistoryProblem};
pub use format::{HistoryFormat, Told, detect, read};
pub use history::{DeviceHistory, History};
pub use reading::{Reading, Readings};
