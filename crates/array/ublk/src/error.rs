//! Why a block device can't be made.

use std::io;
use std::path::PathBuf;

/// Why there can't be a block device.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The kernel has no ublk, or its driver is not loaded.
    #[error(
        "this kernel has no ublk: {} is missing. It needs Linux 6.4 or later with CONFIG_BLK_DEV_UBLK; try 'modprobe ublk_drv'",
        path.display()
    )]
    NotThere {
        /// The control device.
        path: PathBuf,
    },
    /// Only a privileged user may make block devices.
    #[error("a block device can only be made by root (CAP_SYS_ADMIN): {} says so", path.display())]
    NotPermitted {
        /// What refused.
        path: PathBuf,
    },
    /// The volume is no whole sectors, or its blocks are longer than a page.
    #[error("a volume of {bytes} bytes in blocks of {block_bytes} can't be a block device")]
    Geometry {
        /// Length of the volume.
        bytes: u64,
        /// Length of a block.
        block_bytes: u64,
    },
    /// The system refused.
    #[error("can't {doing}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
}
