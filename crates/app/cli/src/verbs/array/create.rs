//! `raidlab array create`: makes an array of devices, or of files that it creates.

use crate::failure::{Exit, Failure};
use crate::inputs::metadata_policy;
use crate::interrupt::cancel_flag;
use crate::output::{Output, print, print_answer};
use crate::progress::Progress;
use crate::schema::Form;
use raidlab::{ArrayConfig, ConfigError, MemberCache, MetadataPolicy, Resilience};
use raidlab_format::ArrayName;
use raidlab_raid::{LayoutError, LevelVariant};
use raidlab_runtime::{Contents, CreateError, CreateOptions, Created, create};
use raidlab_units::{BlockSize, ByteCount};
use raidlab_worlds::{SOFTWARE_CACHE, STAGING_SIZE};
use serde::Serialize;
use std::path::PathBuf;

/// Arguments of `raidlab array create`.
#[derive(Debug, clap::Args)]
#[command(after_help = SAFETY)]
pub(crate) struct Args {
    /// What to call the array
    #[arg(value_name = "NAME")]
    name: String,
    /// Members, in the order of their roles: block devices, files, names of files to be made, or NBD URIs
    #[arg(value_name = "MEMBER", required = true)]
    members: Vec<PathBuf>,
    /// RAID level: jbod, 0, 1, 1e, 3, 5, 6, 10, 10:far, 50:2-spans, 60:2-spans, ...
    #[arg(long)]
    level: LevelVariant,
    /// Hot spares
    #[arg(long, value_name = "PATH")]
    spare: Vec<PathBuf>,
    /// Slots for spares in all, so that spares can be added later
    #[arg(long, default_value_t = CreateOptions::SPARE_SLOTS, value_name = "N")]
    spare_slots: u16,
    /// Length of a strip
    #[arg(long, default_value = "64KiB", value_name = "SIZE")]
    strip_size: ByteCount,
    /// Length of a block: 512B or 4KiB
    #[arg(long, default_value = "4KiB", value_name = "SIZE")]
    block_size: ByteCount,
    /// Data area of each member, without what the array keeps about itself [default: all that the smallest has]
    #[arg(long, value_name = "SIZE")]
    member_size: Option<ByteCount>,
    /// What is kept on the members against crashes: log (no write hole), bitmap (resyncs what was being written), resync
    /// (resyncs everything), none (can't be started again with a member missing)
    #[arg(long, value_parser = metadata_policy, default_value = "log", value_name = "POLICY")]
    metadata: MetadataPolicy,
    /// Length of the intent log on each member
    #[arg(long, default_value = "16MiB", value_name = "SIZE")]
    log_size: ByteCount,
    /// Keep a checksum and the address of each block, so that silent corruption is found and healed
    #[arg(long)]
    integrity: bool,
    /// Make all members zeros first, instead of computing redundancy when the array starts
    #[arg(long)]
    zero: bool,
    /// Destroy what this device holds; must name it as it was named above
    #[arg(long, value_name = "NAME")]
    destroy_data: Vec<String>,
}

const SAFETY: &str = "\
Nothing is overwritten unless --destroy-data names it, and never while it is mounted or in use.
What a device holds is told by its signatures: file systems, partitions, md, LVM, swap, raidlab.";

/// Runs the verb.
pub(crate) fn run(args: &Args, output: &Output) -> Result<Exit, Failure> {
    let config = args.config()?;
    if let Some(size) = args.member_size.filter(|size| *size < args.strip_size) {
        let problem = anyhow::anyhow!(
            "a member of {} (--member-size) does not hold one strip of {}",
            size.beside(&args.strip_size),
            args.strip_size.beside(&size)
        );
        return Err(
            Failure::input(problem).with_hint("give a larger --member-size or a shorter --strip-size")
        );
    }
    let options = CreateOptions {
        name: name(&args.name)?,
        members: args.members.clone(),
        spares: args.spare.clone(),
        spare_slots: args.spare_slots,
        file_bytes: None,
        contents: if args.zero { Contents::Zeroed } else { Contents::AsFound },
        destroy_data: args.destroy_data.clone(),
        replace_own: false,
        member_timeout: None,
    };
    let cancelled = cancel_flag("stopping; what was made is removed again");
    let mut progress = Progress::start();
    let created = create(&config, &options, &cancelled, &mut |done, total| {
        let share = done.get() as f64 / total.get().max(1) as f64;
        progress.show(&format!("zeros: {done} of {total}"), share);
    });
    progress.end();
    match created {
        Ok(created) => tell(args, &created, output),
        Err(CreateError::Cancelled) => Ok(Exit::Interrupted),
        Err(error) => Err(refused(error)),
    }
}

fn refused(error: CreateError) -> Failure {
    let hint = match &error {
        CreateError::NoSize { .. } => Some("--member-size makes files of that size and a little more"),
        _ => None,
    };
    let is_count = matches!(
        &error,
        CreateError::Config(ConfigError::Layout(
            LayoutError::TooFewMembers { .. }
                | LayoutError::TooManyMembers { .. }
                | LayoutError::OddMembers { .. }
        ))
    );
    let failure = Failure::input(error);
    let failure = if is_count { failure.with_option("<MEMBER>") } else { failure };
    failure.with_any_hint(hint)
}

fn name(text: &str) -> Result<ArrayName, Failure> {
    if text.is_empty() || text.starts_with('.') || text.contains('/') {
        return Err(Failure::input(anyhow::anyhow!(
            "'{text}' can't be the name of an array: its control socket is named after it, so it must not be empty, begin \
             with a dot or contain a slash"
        )));
    }
    ArrayName::new(text).map_err(Failure::input)
}

/// The form of its answer.
pub(crate) const FORM: Form = Form::whole::<CreatedAnswer<'_>>();

/// An array that was made, as JSON.
#[derive(Serialize, schemars::JsonSchema)]
struct CreatedAnswer<'a> {
    name: &'a str,
    array_uuid: String,
    level: String,
    members: u16,
    spare_slots: u16,
    member_bytes: u64,
    needs_resync: bool,
}

fn tell(args: &Args, created: &Created, output: &Output) -> Result<Exit, Failure> {
    let config = &created.config;
    if output.is_json() {
        print_answer(&CreatedAnswer {
            name: &args.name,
            array_uuid: created.array_uuid.to_string(),
            level: config.level.to_string(),
            members: config.members,
            spare_slots: config.resilience.spares,
            member_bytes: config.member_size.get(),
            needs_resync: created.needs_resync,
        })?;
        return Ok(Exit::Done);
    }
    let resync = if created.needs_resync { "; redundancy is computed when it is first served" } else { "" };
    print(&format!(
        "array {} made: RAID {} of {} members of {}, {} slots for spares, {}{resync}",
        args.name,
        config.level,
        config.members,
        config.member_size,
        config.resilience.spares,
        created.array_uuid
    ))?;
    Ok(Exit::Done)
}

impl Args {
    fn config(&self) -> Result<ArrayConfig, Failure> {
        let block_size = match self.block_size.get() {
            512 => BlockSize::B512,
            4096 => BlockSize::B4096,
            _ => {
                let size = self.block_size;
                let problem = anyhow::anyhow!("a block of {size} is not possible: use 512B or 4KiB");
                return Err(Failure::input(problem).with_option("--block-size"));
            }
        };
        Ok(ArrayConfig {
            level: self.level,
            members: u16::try_from(self.members.len()).unwrap_or(u16::MAX),
            strip_size: self.strip_size,
            block_size,
            member_size: self.member_size.unwrap_or(ByteCount::ZERO),
            member_cache: MemberCache::On,
            cache: SOFTWARE_CACHE,
            staging_size: STAGING_SIZE,
            resilience: Resilience {
                metadata: self.metadata,
                log_size: self.log_size,
                integrity: self.integrity,
                ..Resilience::default()
            },
        })
    }
}
