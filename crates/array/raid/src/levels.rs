//! The levels, one file each, and the arithmetic they share.

mod filling;
mod grid;
mod in_order;
mod jbod;
mod narrow;
mod raid0;
mod raid1;
mod raid10;
mod raid1e;
mod raid3;
mod raid5;
mod raid50;
mod raid6;
mod raid60;
mod rotation;
mod shifted;
mod spans;

pub(crate) use jbod::jbod;
pub(crate) use narrow::Narrow;
pub(crate) use raid0::raid0;
pub(crate) use raid1::raid1;
pub(crate) use raid1e::raid1e;
pub(crate) use raid3::raid3;
pub(crate) use raid5::raid5;
pub(crate) use raid6::raid6;
pub(crate) use raid10::raid10;
pub(crate) use raid50::raid50;
pub(crate) use raid60::raid60;
