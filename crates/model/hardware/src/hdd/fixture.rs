//! A drive for the unit tests of this module; `tests/drives.rs` tests whole drives.

use super::model::HardDriveModel;
use crate::catalog::Catalog;
use crate::drive::{DriveKind, SectorCount};

/// The Cheetah 15K.7 of the catalogue and its capacity.
pub(super) fn cheetah() -> (HardDriveModel, SectorCount) {
    let catalog = Catalog::builtin();
    let model = catalog.drive("st3600057ss").expect("in the catalogue");
    let DriveKind::HardDrive(inside) = &model.kind else { panic!("a hard drive") };
    (HardDriveModel::clone(inside), model.capacity)
}
