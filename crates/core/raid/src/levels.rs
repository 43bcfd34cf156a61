//! The levels, one file each, and the arithmetic they share.

mod grid;
mod jbod;
mod raid0;
mod raid1;
mod raid10;
mod raid1e;
mod raid3;
mod raid5;
mod raid50;
mod raid6;
mod raid60;
mod rotating;
mod rotation;
mod spans;

pub(crate) use jbod::Jbod;
pub(crate) use raid0::Raid0;
pub(crate) use raid1::Raid1;
pub(crate) use raid1e::Raid1e;
pub(crate) use raid3::Raid3;
pub(crate) use raid5::raid5;
pub(crate) use raid6::raid6;
pub(crate) use raid10::Raid10;
pub(crate) use raid50::raid50;
pub(crate) use raid60::raid60;
