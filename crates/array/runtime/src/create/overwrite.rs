//! Opening existing files and devices to overwrite them: examined, judged, and opened only if nothing has changed
//! since.
//!
//! ```text
//! file, block device   look (read only) ─► judge ─► open for use ─► the same file? ─► Device
//! export               open for use, which holds it ─► look ─► judge ────────────────► Device
//! ```
//! Left out: the rules, which are in [`raidlab_device::safety`].

use crate::device::{Device, LocalDevice, Purpose, RemoteDevice, begin, failed, is_nbd_uri};
use crate::error::{CreateError, DeviceError};
use crate::examine::array_on;
use raidlab_device::safety::{self, SafetyError};
use std::fs::File;
use std::path::Path;

/// Opens a device that may be overwritten under one of the names given.
pub(super) fn open_to_destroy(path: &Path, names: &[String]) -> Result<Device, CreateError> {
    let (verdict, device) = judge(path, |permit| {
        let mut verdict = permit(None);
        for name in names {
            if verdict.is_ok() {
                break;
            }
            let named = permit(Some(name));
            // The reason that is given names nothing that was said of another device.
            if named.is_ok() {
                verdict = named;
            }
        }
        verdict
    })?;
    verdict.map_err(|error| of_an_array(path, error))?;
    device.open()
}

/// A refusal that names the array that the file is a device of, where its label can be read.
fn of_an_array(path: &Path, error: SafetyError) -> SafetyError {
    let SafetyError::NotNamed { path: refused, holds, name, given } = error else { return error };
    let holds = array_on(path).map_or(holds, |array| format!("{array}, and its data"));
    SafetyError::NotNamed { path: refused, holds, name, given }
}

/// Opens a device whose data may be destroyed, whatever it is, as long as nobody uses it.
pub(super) fn open_whatever_it_holds(path: &Path) -> Result<Device, CreateError> {
    let (verdict, device) = judge(path, |permit| permit(None))?;
    match verdict {
        // What would have to be named for it was said with the command.
        Ok(()) | Err(SafetyError::NotNamed { .. }) => device.open(),
        Err(error) => Err(error.into()),
    }
}

/// A device that was looked at, and is still the same when it is opened for use.
enum Judged<'a> {
    Local(&'a Path, File),
    Remote(Box<RemoteDevice>),
}

impl Judged<'_> {
    fn open(self) -> Result<Device, CreateError> {
        match self {
            Self::Local(path, look) => open_same(path, &look),
            Self::Remote(device) => Ok(Device::Remote(device)),
        }
    }
}

/// Says whether a device may be overwritten under a name, or without one.
type Permit<'a> = &'a dyn Fn(Option<&str>) -> Result<(), SafetyError>;

/// Has `verdict` judge a device before it is opened for writing; it is held from then on.
fn judge(
    path: &Path,
    verdict: impl Fn(Permit<'_>) -> Result<(), SafetyError>,
) -> Result<(Result<(), SafetyError>, Judged<'_>), CreateError> {
    if is_nbd_uri(path) {
        let device = RemoteDevice::open(path, Purpose::Use)?;
        let image = device.look()?;
        let verdict = verdict(&|name| safety::permit_write_export(path, &image, name));
        return Ok((verdict, Judged::Remote(Box::new(device))));
    }
    let look = look(path)?;
    let verdict = verdict(&|name| safety::permit_write(path, &look, name));
    Ok((verdict, Judged::Local(path, look)))
}

/// Opens a device to look at what it holds, through the page cache.
fn look(path: &Path) -> Result<File, CreateError> {
    // It is known to be no pipe, which would wait for its other end, when this has gone well.
    drop(LocalDevice::open(path, Purpose::Look)?);
    begin("look at", path)?;
    Ok(File::open(path).map_err(|source| failed("open", path, source))?)
}

fn open_same(path: &Path, look: &File) -> Result<Device, CreateError> {
    let device = LocalDevice::open(path, Purpose::Use)?;
    if !device.is_file(look) {
        return Err(DeviceError::InUse { path: path.to_owned() }.into());
    }
    Ok(Device::Local(device))
}
