//! Arrays over members that store nothing: what the array, its export and its clients cost without any device.
//!
//! ```text
//! null:1TiB null:1TiB null:1TiB ─► an array that keeps no metadata ─► reads give zeros, writes are dropped
//! ```
//! Zeros are consistent at every level, so a check finds nothing and reads with a member missing give zeros as well.
//! Nothing is written anywhere, so such an array is described anew at each start, and one that would keep something on its
//! members is refused. Source: `nbdkit-null-plugin(1)`.

use crate::begin::{Parts, RunSettings, check_settings, chronicle, workers};
use crate::command::Commands;
use crate::error::ArrayError;
use crate::member_io::MemberPort;
use crate::memory::Memory;
use crate::ring::Ring;
use crate::status::Tally;
use crate::world::ArrayWorld;
use raidlab_controller::{ArrayConfig, Controller, MetadataPolicy};
use raidlab_device::null_size_text;
use raidlab_format::{ArrayName, ArrayUuid};
use raidlab_units::{ByteCount, MemberIndex};
use std::path::{Path, PathBuf};

/// Whether a name is that of a member that stores nothing.
pub fn is_null(path: &Path) -> bool {
    null_size_text(path).is_some()
}

impl ArrayWorld {
    /// Starts an array over members that store nothing, each spelled `null:SIZE`; the shortest bounds them all. `config` says level,
    /// strip and block; its members and their size are those of `members`.
    ///
    /// # Errors
    /// [`ArrayError::KeepsOnNull`] if it would keep metadata on its members, [`ArrayError::NotNull`] for a member with
    /// another name, and what an array without members can meet.
    pub fn start_null(
        name: ArrayName,
        members: &[PathBuf],
        config: &ArrayConfig,
        settings: &RunSettings,
    ) -> Result<Self, ArrayError> {
        let config = null_config(members, config)?;
        check_settings(&config, settings)?;
        let mut controller = Controller::new(&config)?;
        let mut ring = Ring::new(config.members + 1, settings.busy_poll)?;
        let mut ports = MemberPort::new(config.members, config.block_size, settings.member_timeout);
        for (member, path) in (0..).map(MemberIndex).zip(members) {
            ports.attach_null(member, path, config.member_size);
        }
        let geometry = config.geometry(ArrayUuid::default());
        Ok(Self::of_parts(Parts {
            memory: Memory::new(&mut controller, None, &mut ring)?,
            workers: workers(settings, &ring)?,
            tally: Tally::new(chronicle(settings, name.as_str(), &geometry)),
            commands: Commands::new(geometry)?,
            members: ports,
            ring,
            controller,
            name,
        }))
    }
}

/// `config` for these members.
fn null_config(members: &[PathBuf], config: &ArrayConfig) -> Result<ArrayConfig, ArrayError> {
    let metadata = config.resilience.metadata;
    if metadata != MetadataPolicy::None {
        return Err(ArrayError::KeepsOnNull { metadata });
    }
    let sizes: Result<Vec<_>, _> = members.iter().map(|path| null_size(path)).collect();
    let shortest = sizes?.into_iter().min().unwrap_or_default();
    let member_size = ByteCount(shortest.get() - shortest.get() % config.strip_size.get().max(1));
    let count = u16::try_from(members.len()).unwrap_or(u16::MAX);
    Ok(ArrayConfig { members: count, member_size, ..config.clone() })
}

fn null_size(path: &Path) -> Result<ByteCount, ArrayError> {
    let size = null_size_text(path).and_then(|text| text.parse().ok());
    size.ok_or_else(|| ArrayError::NotNull { path: path.to_owned() })
}
