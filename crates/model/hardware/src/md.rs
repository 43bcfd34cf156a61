//! Linux md on a current host: its settings by their own names, and the time of its stripe threads.
//!
//! ```text
//!  submitting processors ── reads within a chunk, RAID 0, 1, 10 ──────────────────────────► members
//!        │                  (raid5_read_one_chunk, raid0/1/10_make_request)                    ▲
//!        └─ writes of RAID 4, 5, 6: raid5_make_request ─► stripe threads: handle_stripe ──────┘
//!                                                         raid5d and group_thread_cnt workers
//! ```
//! Stripes are changed by rows: a page of 4 KiB of each member (`struct stripe_head`). Such a change takes a stripe
//! thread's time: `pass` for the row, `io` for each page that a member reads or writes, and copies and parity by their
//! rates.
//!
//! Settings of md that are not modelled are refused by name ([`MdSettingError::NotModelled`]); none is ignored. Source:
//! Linux drivers/md, as named at each.

use crate::catalog::{CatalogError, Section, from_keys};
use raidlab_units::{ByteCount, NanoSpan};

/// How programs ask the kernel for I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IoEngine {
    /// `io_submit`, `io_getevents`.
    Libaio,
    /// `io_uring` with interrupts.
    IoUring,
}

/// What md keeps on the members so that a crash can be put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsistencyPolicy {
    /// That the array is in use: nothing is written for a write.
    Resync,
    /// The write-intent bitmap.
    Bitmap,
    /// The partial parity log of RAID 5 (`raid5-ppl.c`).
    Ppl,
    /// A journal on a device of its own, written through (`raid5-cache.c`).
    Journal,
}

/// Where the write-intent bitmap stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitmapLocation {
    /// There is none.
    None,
    /// On all members, behind the superblock.
    Internal,
    /// In a file on the drive of [`MdModel::journal_device`].
    File,
}

/// When parity is changed from the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RmwLevel {
    /// 0, `PARITY_DISABLE_RMW`: never.
    Disabled,
    /// 1, `PARITY_ENABLE_RMW`: where that reads less.
    Enabled,
    /// 2, `PARITY_PREFER_RMW`: and where it reads as much.
    Preferred,
}

/// What md takes of processors and locks, beside the commands of [`crate::ControllerModel`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MdCosts {
    /// For a page of a write to RAID 4, 5 or 6 on the processor that submits it: `raid5_get_active_stripe`, `add_stripe_bio`.
    pub add_page: NanoSpan,
    /// For a row of pages that a stripe thread changes in part: `handle_stripe`, `analyse_stripe` until it is written.
    pub pass: NanoSpan,
    /// The same where the row is written whole, which batches of rows share: `stripe_add_to_batch_list`.
    pub pass_batched: NanoSpan,
    /// For a page that is read first: another `handle_stripe` for it.
    pub pass_read: NanoSpan,
    /// For a page of a member that is read or written: `ops_run_io`.
    pub io: NanoSpan,
    /// What each request to RAID 10 holds the one lock for, in kernels that have it (`resync_lock`).
    pub raid10_lock: NanoSpan,
    /// What a request takes more of the submitting processor through libaio than through `io_uring`.
    pub libaio: NanoSpan,
}

/// Linux md.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MdModel {
    /// Version of the kernel, major and minor.
    pub kernel: (u32, u32),
    /// Workers beside `raid5d` (`raid5_do_work`).
    pub group_thread_cnt: u32,
    /// Rows of pages that changes of stripes have under way at most, and that are held afterwards.
    pub stripe_cache_size: u32,
    /// Whole stripes that go before parts of stripes at most (`bypass_threshold`).
    pub preread_bypass_threshold: u32,
    /// KiB a second on each member that a rebuild or resync takes at most (`md_do_sync`).
    pub sync_speed_max: u64,
    /// KiB a second on each member above which a rebuild or resync makes way for the host (`md_do_sync`, `is_mddev_idle`).
    pub sync_speed_min: u64,
    /// Whether whole pages are written from where the host has them (`R5_SkipCopy`).
    pub skip_copy: bool,
    /// When parity is changed from the old one.
    pub rmw_level: RmwLevel,
    /// What is kept on the members.
    pub consistency_policy: ConsistencyPolicy,
    /// Where the bitmap stands, if there is one.
    pub bitmap_location: BitmapLocation,
    /// The catalogue's drive that has the journal, or the bitmap's file; one as the members are if none.
    pub journal_device: Option<String>,
    /// What a bit of the bitmap stands for on each member; what the bitmap has bits for where that is more.
    pub bitmap_chunk: ByteCount,
    /// How often the bitmap is looked through for bits to clear (`md_bitmap_daemon_work`).
    pub bitmap_delay: NanoSpan,
    /// How programs ask for I/O.
    pub io_engine: IoEngine,
    /// What it takes.
    pub costs: MdCosts,
}

/// Settings by md's own names (sysfs, mdadm), and the key of each in the entry.
const SETTINGS: [(&str, &str); 18] = [
    ("group_thread_cnt", "md.group_thread_cnt"),
    ("stripe_cache_size", "md.stripe_cache_size"),
    ("preread_bypass_threshold", "md.preread_bypass_threshold"),
    ("skip_copy", "md.skip_copy"),
    ("rmw_level", "md.rmw_level"),
    ("sync_speed_min", "md.sync_speed_min"),
    ("sync_speed_max", "md.sync_speed_max"),
    ("consistency_policy", "md.consistency_policy"),
    ("journal_mode", "md.journal_mode"),
    ("journal_device", "md.journal_device"),
    ("bitmap_location", "md.bitmap_location"),
    ("bitmap_chunk", "md.bitmap_chunk"),
    ("bitmap_delay", "md.bitmap_delay"),
    ("io_engine", "md.io_engine"),
    ("kernel", "md.kernel"),
    ("chunk_size", "strip_size"),
    ("processors", "processors"),
    ("queue_depth", "member_queue_depth"),
];

/// Settings of md that are not modelled, and why.
const NOT_MODELLED: [(&str, &str); 8] = [
    ("scheduler", "requests reach drives in md's order, and drives order their own queues"),
    ("read_ahead_kb", "it is the page cache's, and requests here are on the volume"),
    ("stripe_size", "stripes of the cache are handled by pages of 4 KiB"),
    ("ppl_write_hint", "drives are told nothing of how long what they write lives"),
    ("reshape_position", "arrays are not reshaped in virtual time"),
    ("writemostly", "all members are alike"),
    ("write_behind", "all members are alike"),
    ("io_poll", "md has no queues to poll: its requests lose that flag"),
];

/// Why there is no such setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MdSettingError {
    /// md has none of this name.
    #[error("md has no setting '{name}': it has {}", names())]
    Unknown {
        /// What was asked for.
        name: String,
    },
    /// md has it, the model has not.
    #[error("md's '{name}' is not modelled: {reason}")]
    NotModelled {
        /// What was asked for.
        name: String,
        /// Why it would change nothing.
        reason: &'static str,
    },
}

fn names() -> String {
    SETTINGS.map(|(name, _)| name).join(", ")
}

/// The key of md's setting `name` in the entry of its controller.
///
/// # Errors
/// [`MdSettingError`] for what md has not, and for what is not modelled.
pub fn md_setting_key(name: &str) -> Result<&'static str, MdSettingError> {
    if let Some((_, key)) = SETTINGS.iter().find(|(own, _)| *own == name) {
        return Ok(key);
    }
    let name = name.to_owned();
    match NOT_MODELLED.iter().find(|(own, _)| *own == name) {
        Some((_, reason)) => Err(MdSettingError::NotModelled { name, reason }),
        None => Err(MdSettingError::Unknown { name }),
    }
}

/// First kernel whose RAID 10 takes no lock that all requests share: "md/raid10: convert `resync_lock` to use seqlock".
const RAID10_SEQLOCK: (u32, u32) = (6, 2);

impl MdModel {
    /// How long each request to RAID 10 holds the lock that all share; zero where there is none.
    pub fn raid10_lock(&self) -> NanoSpan {
        if self.kernel < RAID10_SEQLOCK { self.costs.raid10_lock } else { NanoSpan::ZERO }
    }

    /// Where the bitmap stands, if one is kept: internal where only the policy says so, as mdadm has it.
    pub fn bitmap(&self) -> BitmapLocation {
        match (self.bitmap_location, self.consistency_policy) {
            (BitmapLocation::None, ConsistencyPolicy::Bitmap) => BitmapLocation::Internal,
            (location, _) => location,
        }
    }

    /// Whether rows that are written whole are handled in batches: not where they are written down first.
    ///
    /// Source: `stripe_can_batch`: `raid5_has_log(conf) || raid5_has_ppl(conf)`.
    pub const fn batches(&self) -> bool {
        matches!(self.consistency_policy, ConsistencyPolicy::Resync | ConsistencyPolicy::Bitmap)
    }

    /// What a request takes of the submitting processor beside its command.
    pub const fn engine_cost(&self) -> NanoSpan {
        match self.io_engine {
            IoEngine::Libaio => self.costs.libaio,
            IoEngine::IoUring => NanoSpan::ZERO,
        }
    }

    /// Reads the table.
    pub(crate) fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let md = from_keys!(section, Self {
            kernel = version(&section.text("kernel")?)
                .ok_or_else(|| section.bad_value("kernel", "a version such as \"6.8\", from 5.0 on"))?,
            group_thread_cnt, stripe_cache_size, preread_bypass_threshold, sync_speed_min,
            sync_speed_max,
            skip_copy = match section.figure::<u8>("skip_copy")? {
                0 => false,
                1 => true,
                _ => return Err(section.bad_value("skip_copy", "0 or 1")),
            },
            rmw_level = match section.figure::<u8>("rmw_level")? {
                0 => RmwLevel::Disabled,
                1 => RmwLevel::Enabled,
                2 => RmwLevel::Preferred,
                _ => return Err(section.bad_value("rmw_level", "0, 1 or 2")),
            },
            consistency_policy = consistency_policy(&mut section)?,
            bitmap_location = bitmap_location(&mut section)?,
            journal_device = Some(section.text("journal_device")?).filter(|name| name != "member"),
            bitmap_chunk, bitmap_delay,
            io_engine = io_engine(&mut section)?,
            costs = MdCosts::read(section.section("costs")?)?,
        });
        md.check(&mut section)?;
        section.finish(md)
    }

    /// Refuses what md refuses, and what is not modelled.
    fn check(&self, section: &mut Section<'_>) -> Result<(), CatalogError> {
        if section.text("journal_mode")? != "write-through" {
            let expected = "\"write-through\"; a journal that is written back is not modelled";
            return Err(section.bad_value("journal_mode", expected));
        }
        // ppl_init_log, r5l_init_log: neither goes with a bitmap. mdadm makes the policy that of the bitmap where one is asked for.
        if self.bitmap_location != BitmapLocation::None
            && matches!(self.consistency_policy, ConsistencyPolicy::Ppl | ConsistencyPolicy::Journal)
        {
            return Err(
                section.bad_value("bitmap_location", "\"none\" beside a partial parity log or a journal")
            );
        }
        // The bounds of raid5_store_group_thread_cnt and raid5_set_cache_size.
        section.refuse_if(self.group_thread_cnt > 8192, "group_thread_cnt", "from 0 to 8192")?;
        if !(17..=32768).contains(&self.stripe_cache_size) {
            return Err(section.bad_value("stripe_cache_size", "from 17 to 32768"));
        }
        // raid5_store_preread_threshold
        if self.preread_bypass_threshold > self.stripe_cache_size {
            return Err(section.bad_value("preread_bypass_threshold", "from 0 to stripe_cache_size"));
        }
        section.refuse_if(self.sync_speed_max == 0, "sync_speed_max", "above zero")?;
        if self.sync_speed_min > self.sync_speed_max {
            return Err(section.bad_value("sync_speed_min", "from 0 to sync_speed_max"));
        }
        section.refuse_if(self.bitmap_delay == NanoSpan::ZERO, "bitmap_delay", "above zero")?;
        Ok(())
    }
}

fn consistency_policy(section: &mut Section<'_>) -> Result<ConsistencyPolicy, CatalogError> {
    Ok(match section.text("consistency_policy")?.as_str() {
        "resync" => ConsistencyPolicy::Resync,
        "bitmap" => ConsistencyPolicy::Bitmap,
        "ppl" => ConsistencyPolicy::Ppl,
        "journal" => ConsistencyPolicy::Journal,
        _ => {
            let expected = "\"resync\", \"bitmap\", \"ppl\" or \"journal\"";
            return Err(section.bad_value("consistency_policy", expected));
        }
    })
}

fn bitmap_location(section: &mut Section<'_>) -> Result<BitmapLocation, CatalogError> {
    Ok(match section.text("bitmap_location")?.as_str() {
        "none" => BitmapLocation::None,
        "internal" => BitmapLocation::Internal,
        "file" => BitmapLocation::File,
        _ => return Err(section.bad_value("bitmap_location", "\"none\", \"internal\" or \"file\"")),
    })
}

fn io_engine(section: &mut Section<'_>) -> Result<IoEngine, CatalogError> {
    Ok(match section.text("io_engine")?.as_str() {
        "libaio" => IoEngine::Libaio,
        "io_uring" => IoEngine::IoUring,
        _ => {
            let expected = "\"libaio\" or \"io_uring\"; md has no queues to poll";
            return Err(section.bad_value("io_engine", expected));
        }
    })
}

impl MdCosts {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let costs =
            from_keys!(section, Self { add_page, pass, pass_batched, pass_read, io, raid10_lock, libaio });
        section.finish(costs)
    }
}

/// Major and minor of a kernel from 5.0 on.
fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    let version = (major.parse().ok()?, minor.parse().ok()?);
    (version >= (5, 0)).then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Catalog, CatalogChange};

    fn with(name: &str, value: &str) -> Result<MdModel, String> {
        let key = md_setting_key(name).map_err(|error| error.to_string())?.to_owned();
        let change = CatalogChange { entry: "linux-md-nvme".into(), key, value: value.into(), source: None };
        let catalog = Catalog::builtin_with(&[change]).map_err(|error| error.to_string())?;
        let controller = catalog.controller("linux-md-nvme").map_err(|error| error.to_string())?;
        controller.md.clone().ok_or_else(|| "no table [md]".to_owned())
    }

    #[test]
    fn settings_have_the_names_that_md_gives_them() {
        assert_eq!(with("group_thread_cnt", "4").map(|md| md.group_thread_cnt), Ok(4));
        assert_eq!(with("skip_copy", "1").map(|md| md.skip_copy), Ok(true));
        assert_eq!(with("rmw_level", "2").map(|md| md.rmw_level), Ok(RmwLevel::Preferred));
        assert_eq!(with("kernel", "5.15").map(|md| md.raid10_lock() > NanoSpan::ZERO), Ok(true));
        assert_eq!(with("kernel", "6.2").map(|md| md.raid10_lock()), Ok(NanoSpan::ZERO));
        assert_eq!(with("bitmap_location", "file").map(|md| md.bitmap()), Ok(BitmapLocation::File));
        assert_eq!(with("consistency_policy", "bitmap").map(|md| md.bitmap()), Ok(BitmapLocation::Internal));
        assert_eq!(with("consistency_policy", "ppl").map(|md| md.batches()), Ok(false));
        assert_eq!(
            with("journal_device", "solidigm-p5810-1600").map(|md| md.journal_device),
            Ok(Some("solidigm-p5810-1600".into()))
        );
        assert_eq!(with("io_engine", "io_uring").map(|md| md.engine_cost()), Ok(NanoSpan::ZERO));
        for (name, key) in SETTINGS {
            assert_eq!(md_setting_key(name), Ok(key));
        }
    }

    #[test]
    fn what_md_or_the_model_lacks_is_refused() {
        let rows = [
            ("group_threads", "4", "it has group_thread_cnt, stripe_cache_size"),
            ("sync_speed_min", "300000", "from 0 to sync_speed_max"),
            ("journal_mode", "write-back", "is not modelled"),
            ("bitmap_location", "+8", "\"internal\" or \"file\""),
            ("sync_speed_max", "0", "above zero"),
            ("io_poll", "1", "no queues to poll"),
            ("scheduler", "none", "drives order their own queues"),
            ("read_ahead_kb", "4096", "the page cache's"),
            ("consistency_policy", "raid", "\"ppl\" or \"journal\""),
            ("stripe_cache_size", "16", "from 17 to 32768"),
            ("group_thread_cnt", "8193", "from 0 to 8192"),
            ("preread_bypass_threshold", "257", "from 0 to stripe_cache_size"),
            ("rmw_level", "3", "0, 1 or 2"),
            ("skip_copy", "2", "0 or 1"),
            ("kernel", "4.19", "from 5.0 on"),
            ("io_engine", "polled", "no queues to poll"),
        ];
        for (name, value, expected) in rows {
            let error = with(name, value).expect_err(name);
            assert!(error.contains(expected), "{name}={value}: {error}");
        }
    }
}
