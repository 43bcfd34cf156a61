//! An array's volume as a block device, `/dev/ublkbN`, in the array's own event loop.
//!
//! ```text
//! block layer ─► ublk_drv ── io_uring commands, one for each tag ──► UblkServer: HostPort ◄──► ArrayWorld (raidlab-runtime)
//!                   ▲                                                     │
//!                   └──── /dev/ublk-control, a ring of its own: add, start, stop, delete ◄──┘
//! ```
//! The driver copies a write's data into the host buffer of its tag before the server sees the request, and a read's
//! data out of it when the server completes the request: the array works directly on the driver's buffer.
//!
//! The device has a volatile cache, flush and force unit access, with the array's meaning. Write zeroes writes zeros.
//! Discard is refused.
//!
//! Left out: several queues, which one thread would serve anyway; recovery of a device whose server has died: it is
//! removed, its users get errors, and the next start removes what is left of it.
//!
//! Source: `Documentation/block/ublk.rst` and `include/uapi/linux/ublk_cmd.h` of Linux 6.12.
#![deny(unsafe_code)]

mod control;
mod error;
mod queue;
mod server;
mod uapi;

pub use error::UblkError;
pub use server::{UblkOptions, UblkServer, WhenLive};
