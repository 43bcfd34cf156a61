//! `raidlab array serve --ublk`: the volume as a block device, if this binary was built with it and the kernel supports
//! it.

use super::operator::Announcement;
use crate::failure::{Exit, Failure};
use raidlab_runtime::ArrayWorld;
use std::sync::atomic::AtomicBool;

/// Serves the volume as a block device until an operator or a signal ends it, then stops the array cleanly.
#[cfg(feature = "ublk")]
pub(super) fn serve(
    world: &mut ArrayWorld,
    read_only: bool,
    announcement: Announcement,
    cancel: &AtomicBool,
) -> Result<Exit, Failure> {
    use raidlab_ublk::{UblkOptions, UblkServer};
    use raidlab_units::ByteCount;

    let optimal = ByteCount(world.status().strip_bytes);
    let options = UblkOptions { read_only, optimal, ..UblkOptions::default() };
    let announce = Box::new(move |device: &std::path::Path| announcement.say(&[], Some(device)));
    let server = UblkServer::new(options, world.block_size(), world.volume_bytes(), announce);
    let mut server = match server {
        Ok(server) => server,
        Err(error) => {
            // It was started, and is left as it was found.
            super::serve::stop(world)?;
            return Err(Failure::run(error));
        }
    };
    super::serve::serve_port(world, &mut server, cancel)?;
    let failure = server.take_failure();
    drop(server);
    super::serve::stop(world)?;
    failure.map_or(Ok(Exit::Done), |error| Err(Failure::run(error)))
}

/// Says that this binary has no block devices.
#[cfg(not(feature = "ublk"))]
pub(super) fn serve(
    world: &mut ArrayWorld,
    _read_only: bool,
    _announcement: Announcement,
    _cancel: &AtomicBool,
) -> Result<Exit, Failure> {
    super::serve::stop(world)?;
    Err(Failure::input(anyhow::anyhow!("this raidlab was built without block devices"))
        .with_hint("cargo build --release -p raidlab-cli --features ublk"))
}
