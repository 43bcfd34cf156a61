//! The study file in TOML, before names are looked up and defaults filled in.
//!
//! Keys are those of [`super::Study`] in kebab-case. Values that TOML can't check (an unknown drive, a level with too
//! few members) carry their place in the text, so that a message can name the line.

use raidlab_controller::WritePolicy;
use raidlab_units::{BlockSize, ByteCount, NanoSpan};
use raidlab_worlds::CacheSettings;
use raidlab_worlds::ControllerSettings;
use serde::Deserialize;
use std::path::PathBuf;
use toml::Spanned;

/// A whole file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct StudyFile {
    #[serde(rename = "schema")]
    _schema: u32,
    pub(super) title: String,
    pub(super) question: String,
    pub(super) seed: u64,
    pub(super) repeats: Option<Spanned<u32>>,
    // Until version 0.2: its old spelling.
    #[serde(alias = "beside")]
    pub(super) compare_paper: Option<Spanned<String>>,
    #[serde(default)]
    pub(super) load: LoadFile,
    #[serde(default)]
    pub(super) measure: Vec<Spanned<MeasureFile>>,
    #[serde(default)]
    pub(super) array: Vec<Spanned<ArrayFile>>,
    #[serde(default)]
    pub(super) simulate: Vec<Spanned<SimulateFile>>,
}

/// `[load]`, for all sections or for one.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct LoadFile {
    pub(super) workloads: Option<Vec<Spanned<String>>>,
    pub(super) iodepths: Option<Spanned<SweepFile<u32>>>,
    pub(super) block_sizes: Option<Spanned<SweepFile<ByteCount>>>,
    pub(super) read_pcts: Option<Spanned<SweepFile<u8>>>,
    pub(super) workers: Option<Spanned<SweepFile<u32>>>,
    pub(super) ramp: Option<NanoSpan>,
    pub(super) run: Option<Spanned<NanoSpan>>,
}

/// Values as a list `[1, 8, 64]`, or as text that [`raidlab_worlds::sweep`] reads: `"1..64+8"`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum SweepFile<T> {
    List(Vec<T>),
    Text(String),
}

/// One value, or a list of them: each is tried.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> OneOrMore<T> {
    pub(super) fn as_slice(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::More(values) => values,
        }
    }
}

/// One `[[measure]]`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct MeasureFile {
    pub(super) path: PathBuf,
    pub(super) size: Spanned<ByteCount>,
    pub(super) direct: bool,
    #[serde(default)]
    pub(super) load: LoadFile,
}

/// One `[[array]]`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct ArrayFile {
    pub(super) directory: PathBuf,
    pub(super) levels: Vec<Spanned<String>>,
    pub(super) members: u16,
    pub(super) member_size: ByteCount,
    pub(super) strip_size: ByteCount,
    #[serde(default = "four_kib")]
    pub(super) block_size: BlockSize,
    pub(super) write_policies: Vec<WritePolicy>,
    pub(super) disk_cache: bool,
    pub(super) io_threads: Option<Spanned<i64>>,
    pub(super) parity_threads: Option<Spanned<i64>>,
    #[serde(default)]
    pub(super) cache: CacheSettings,
    pub(super) region: Option<Spanned<ByteCount>>,
    #[serde(default)]
    pub(super) load: LoadFile,
}

/// One `[[simulate]]`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct SimulateFile {
    pub(super) controller: Spanned<String>,
    pub(super) enclosure: Option<Spanned<String>>,
    pub(super) drive: Spanned<OneOrMore<String>>,
    pub(super) levels: Vec<Spanned<String>>,
    pub(super) members: Spanned<OneOrMore<u16>>,
    pub(super) strip_size: Option<Spanned<OneOrMore<ByteCount>>>,
    pub(super) write_policies: Vec<WritePolicy>,
    pub(super) disk_cache: Option<bool>,
    #[serde(default)]
    pub(super) cache: CacheSettings,
    pub(super) controllers: Option<Spanned<ControllerSettings>>,
    pub(super) region: Option<Spanned<ByteCount>>,
    pub(super) condition: Option<Spanned<String>>,
    pub(super) fill: Option<Spanned<u8>>,
    #[serde(default)]
    pub(super) load: LoadFile,
}

/// The page size, which every direct I/O target takes.
fn four_kib() -> BlockSize {
    BlockSize::B4096
}
