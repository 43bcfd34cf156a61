//! Creates an array from devices, and prepares a device to join one.
//!
//! ```text
//! open, judge ─► wipe metadata areas and second copies ─► zeros, if wanted ─► states, maps ─► labels
//!                           sync                               sync              sync         sync
//! ```
//! The labels come last, so an interrupted creation leaves devices that are blank, or, while labels are being written,
//! an array that is complete on those that have theirs. The same creation can be repeated: `unfinished` knows what one that
//! was killed has left.
//!
//! Files that do not exist are created, allocated and zeroed, so any redundancy agrees. The data areas of existing
//! devices have unknown contents: either they are zeroed, or the array is resynced when it starts.
//!
//! `overwrite` decides what may be overwritten.

mod overwrite;
mod unfinished;

use crate::device::{Device, LocalDevice, Purpose, Watched, failed, folder_of, is_there, space_of};
use crate::error::{CreateError, DeviceError};
use crate::null::is_null;
use crate::random::random_bytes;
use crate::zero_fill::{self, Range};
use overwrite::{open_to_destroy, open_whatever_it_holds};
use raidlab_controller::{ArrayConfig, MetadataPolicy, NewArray, create_metadata, new_written_map};
use raidlab_format::{
    AreaLayout, ArrayName, ArrayUuid, DEVICES_MAX, DeviceUuid, Geometry, LABEL_BYTES, Label, Placement,
};
use raidlab_units::{ByteCount, MemberIndex, NanoSpan};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Data areas that are as large as the devices allow are whole units of this, so that a device that is a little smaller
/// can take another's place.
const DATA_UNIT_BYTES: u64 = 1 << 20;
/// Zeros are asked for in pieces of this, so that a stop is heard.
const ZERO_PIECE_BYTES: u64 = 64 << 20;

/// What is done about the data areas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Contents {
    /// Files that are made are zeros. If anything else takes part, redundancy is computed when the array starts.
    #[default]
    AsFound,
    /// All are made zeros, by the devices themselves where they can.
    Zeroed,
    /// All are written with zeros, block by block, so that later writes never allocate any: what measurements need.
    Written,
}

/// How to make an array.
#[derive(Clone, Debug, Default)]
pub struct CreateOptions {
    /// What people call it.
    pub name: ArrayName,
    /// The members, in the order of their roles.
    pub members: Vec<PathBuf>,
    /// Hot spares.
    pub spares: Vec<PathBuf>,
    /// Slots for spares in all; those without one are empty, and spares can be added there later. There are never fewer
    /// than spares.
    pub spare_slots: u16,
    /// Length of files that are made where a path names nothing, unless the length of data areas says it.
    pub file_bytes: Option<ByteCount>,
    /// What is done about the data areas.
    pub contents: Contents,
    /// Names of what may be destroyed; see [`raidlab_device::safety`].
    pub destroy_data: Vec<String>,
    /// Files that belong to an array of the same name are replaced without being named. For arrays that are made for a
    /// measurement and taken away again.
    pub replace_own: bool,
    /// How long a call of the system on a device may take; [`CreateOptions::MEMBER_TIMEOUT`] unless it is said.
    pub member_timeout: Option<NanoSpan>,
}

impl CreateOptions {
    /// Slots for spares, unless someone says otherwise.
    pub const SPARE_SLOTS: u16 = 4;
    /// How long a device may take for what is asked of it while an array is made: what Linux gives a task before it calls it hung
    /// (`kernel.hung_task_timeout_secs`).
    pub const MEMBER_TIMEOUT: NanoSpan = NanoSpan::from_millis(120_000);
}

/// An array that was made.
#[derive(Clone, Debug)]
pub struct Created {
    /// Its configuration: with the slots for spares, and the length of data areas.
    pub config: ArrayConfig,
    /// Its identity.
    pub array_uuid: ArrayUuid,
    /// Redundancy is computed when it starts.
    pub needs_resync: bool,
}

/// Makes an array of `config`. Data areas are as large as the smallest device allows where `member_size` is 0. `progress`
/// gets the bytes made zeros so far and the bytes in all.
///
/// # Errors
/// [`CreateError`]: no possible array, a device that may not be overwritten or is too short, the system's refusal, or
/// `cancel`. Files that were made are removed again.
pub fn create(
    config: &ArrayConfig,
    options: &CreateOptions,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(ByteCount, ByteCount),
) -> Result<Created, CreateError> {
    let mut config = config.clone();
    let is_kept = config.resilience.metadata != MetadataPolicy::None;
    let slots = if is_kept { options.spare_slots } else { 0 }.max(options.spares.len() as u16);
    config.resilience.spares = slots;
    if options.members.len() != usize::from(config.members) {
        return Err(CreateError::MemberCount { wanted: config.members, found: options.members.len() });
    }
    let devices = options.members.len() + usize::from(slots);
    if devices > DEVICES_MAX {
        return Err(CreateError::TooManyDevices { devices });
    }
    let path = options.members.iter().chain(&options.spares).next().cloned().unwrap_or_default();
    let limit = options.member_timeout.unwrap_or(CreateOptions::MEMBER_TIMEOUT);
    let relay =
        Arc::new(Relay { cancel: AtomicBool::new(cancel.load(Ordering::Relaxed)), ..Relay::default() });
    let (for_it, options) = (Arc::clone(&relay), options.clone());
    let making = Watched::start(&path, limit, move || make(config, &options, &for_it))?;
    making.wait(|| {
        relay.cancel.store(cancel.load(Ordering::Relaxed), Ordering::Relaxed);
        if let Some((done, total)) = relay.progress.lock().unwrap_or_else(PoisonError::into_inner).take() {
            progress(done, total);
        }
    })?
}

/// What goes between the caller and the thread that makes an array.
#[derive(Debug, Default)]
struct Relay {
    cancel: AtomicBool,
    progress: Mutex<Option<(ByteCount, ByteCount)>>,
}

fn make(mut config: ArrayConfig, options: &CreateOptions, relay: &Relay) -> Result<Created, CreateError> {
    let mut progress = |done, total| {
        *relay.progress.lock().unwrap_or_else(PoisonError::into_inner) = Some((done, total));
    };
    let array_uuid = ArrayUuid(random_uuid()?);
    let mut site = Site { array_uuid, devices: Vec::new(), made: Vec::new(), empty: Vec::new() };
    let made = site
        .prepare(&mut config, options)
        .and_then(|()| site.build(&config, options, &relay.cancel, &mut progress));
    if made.is_err() {
        site.clear_away();
    }
    made
}

/// The devices of an array that is being made.
struct Site {
    /// The array's identity.
    array_uuid: ArrayUuid,
    devices: Vec<Device>,
    /// Those that were made.
    made: Vec<PathBuf>,
    /// Those that hold nothing, since the same creation was killed when it had labelled them: they need not be named with what they
    /// hold now.
    empty: Vec<PathBuf>,
}

impl Site {
    fn prepare(&mut self, config: &mut ArrayConfig, options: &CreateOptions) -> Result<(), CreateError> {
        if config.resilience.integrity {
            config.resilience.log_size = AreaLayout::log_with_map(config.resilience.log_size);
        }
        let log = log_bytes(config);
        let paths: Vec<&PathBuf> = options.members.iter().chain(&options.spares).collect();
        let is_sized = config.member_size > ByteCount::ZERO;
        let file_bytes = if is_sized {
            Some(Placement::needed_bytes(log, config.member_size))
        } else {
            options.file_bytes
        };
        let wanted = unfinished::Wanted { name: options.name, config, file_bytes };
        self.empty = unfinished::clear_left_over(&paths, &wanted)?;
        check_space(&paths, file_bytes)?;
        for path in paths {
            // It is locked by now, so to open it once more would only say that it is in use.
            if self.devices.iter().any(|other| other.is_at(path)) {
                return Err(CreateError::NamedTwice { path: path.clone() });
            }
            let device = self.open_or_make(path, file_bytes, options)?;
            if self.devices.iter().any(|other| other.is_same(&device)) {
                return Err(CreateError::NamedTwice { path: path.clone() });
            }
            check_unit(&device, config)?;
            self.devices.push(device);
        }
        if !is_sized {
            let room = |device: &Device| Placement::data_bytes_max(log, device.bytes()).get();
            let least = self.devices.iter().map(room).min().unwrap_or_default();
            let rest = if least > DATA_UNIT_BYTES { least % DATA_UNIT_BYTES } else { 0 };
            config.member_size = ByteCount(least - rest);
        }
        let needed = Placement::needed_bytes(log, config.member_size);
        match self.devices.iter().find(|device| device.bytes() < needed) {
            Some(short) => {
                let (path, found) = (short.path().to_owned(), short.bytes());
                Err(CreateError::TooShort { path, needed, found })
            }
            None => Ok(()),
        }
    }

    fn open_or_make(
        &mut self,
        path: &Path,
        file_bytes: Option<ByteCount>,
        options: &CreateOptions,
    ) -> Result<Device, CreateError> {
        if is_null(path) {
            let reason =
                "it stores nothing: 'array serve --level' makes an array over null members".to_owned();
            return Err(DeviceError::Refused { path: path.to_owned(), reason }.into());
        }
        if options.replace_own
            && let Some(own) = open_own(path, options.name)?
        {
            if Some(own.bytes()) == file_bytes {
                return Ok(own);
            }
            std::fs::remove_file(path).map_err(|source| failed("remove", path, source))?;
        }
        if is_there(path) {
            let device =
                if self.empty.iter().any(|empty| empty == path) && is_named(path, &options.destroy_data) {
                    open_whatever_it_holds(path)?
                } else {
                    open_to_destroy(path, &options.destroy_data)?
                };
            if !unfinished::is_unmarked(&device) {
                return Ok(device);
            }
            std::fs::remove_file(path).map_err(|source| failed("remove", path, source))?;
        }
        let bytes = file_bytes.ok_or_else(|| CreateError::NoSize { path: path.to_owned() })?;
        let device = LocalDevice::make(path, bytes, &unfinished::mark(self.array_uuid))?;
        self.made.push(path.to_owned());
        Ok(Device::Local(device))
    }

    fn build(
        &self,
        config: &ArrayConfig,
        options: &CreateOptions,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(ByteCount, ByteCount),
    ) -> Result<Created, CreateError> {
        let array_uuid = self.array_uuid;
        let all_made = self.made.len() == self.devices.len();
        let needs_resync = !all_made && options.contents == Contents::AsFound;
        let empty = usize::from(config.members + config.resilience.spares) - self.devices.len();
        let mut device_uuids = Vec::new();
        for _ in &self.devices {
            device_uuids.push(Some(DeviceUuid(random_uuid()?)));
        }
        device_uuids.extend(std::iter::repeat_n(None, empty));
        let new = NewArray { array_uuid, name: options.name, device_uuids: &device_uuids, needs_resync };
        let fronts = create_metadata(config, &new)?;
        let geometry = config.geometry(array_uuid);
        for device in &self.devices {
            let is_made = self.made.iter().any(|path| path == device.path());
            wipe(device, &geometry, if is_made { LABEL_BYTES as u64 } else { 0 })?;
        }
        self.clear_data(&geometry, options.contents, cancel, progress)?;
        if let Some((at, map)) = new_written_map(config, array_uuid) {
            self.devices.iter().try_for_each(|device| device.write(at, &map))?;
        }
        for (device, front) in self.devices.iter().zip(&fronts) {
            write_behind_label(device, front)?;
        }
        for (device, front) in self.devices.iter().zip(&fronts) {
            write_label(device, &front[..LABEL_BYTES])?;
        }
        self.check_labels(&fronts)?;
        Ok(Created { config: config.clone(), array_uuid, needs_resync })
    }

    /// Two names may lead to one export, which nothing but its contents tells: each device must hold its own label now.
    fn check_labels(&self, fronts: &[Vec<u8>]) -> Result<(), CreateError> {
        for (device, front) in self.devices.iter().zip(fronts) {
            if device.read(0, LABEL_BYTES as u64)? != front[..LABEL_BYTES] {
                return Err(CreateError::NamedTwice { path: device.path().to_owned() });
            }
        }
        Ok(())
    }

    fn clear_data(
        &self,
        geometry: &Geometry,
        contents: Contents,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(ByteCount, ByteCount),
    ) -> Result<(), CreateError> {
        let devices: Vec<&Device> = self.devices.iter().take(usize::from(geometry.members)).collect();
        let Some(first) = devices.first() else { return Ok(()) };
        let offset = place(first, geometry)?.data_at;
        let bytes = geometry.member_bytes.get().next_multiple_of(raidlab_format::AREA_UNIT_BYTES);
        match contents {
            Contents::AsFound => return Ok(()),
            Contents::Written => {
                let (mut files, mut exports) = (Vec::new(), Vec::new());
                for device in &devices {
                    match device {
                        Device::Local(file) => files.push(file),
                        Device::Remote(export) => exports.push(export),
                    }
                }
                if !files.is_empty() {
                    zero_fill::write_zeros(&files, Range { offset, bytes }, cancel, progress)?;
                }
                // Zeros that leave no hole are allocated.
                exports.iter().try_for_each(|export| export.zero(offset, bytes))?;
            }
            Contents::Zeroed => {
                let total = ByteCount(bytes * devices.len() as u64);
                let mut done = 0;
                for device in &devices {
                    for at in (0..bytes).step_by(ZERO_PIECE_BYTES as usize) {
                        if cancel.load(Ordering::Relaxed) {
                            return Err(CreateError::Cancelled);
                        }
                        let piece = ZERO_PIECE_BYTES.min(bytes - at);
                        device.zero(offset + at, piece)?;
                        done += piece;
                        progress(ByteCount(done), total);
                    }
                }
            }
        }
        devices.iter().try_for_each(|device| device.sync()).map_err(CreateError::from)
    }

    fn clear_away(self) {
        for path in self.made {
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "an unfinished member is left behind");
            }
        }
    }
}

/// A device that may join an array: it is open, empty and labelled.
#[derive(Debug)]
pub(crate) struct Newcomer {
    /// The device.
    pub(crate) device: Device,
    /// The identity on its label.
    pub(crate) device_uuid: DeviceUuid,
}

/// The place that a device is to take.
#[derive(Clone, Debug)]
pub(crate) struct Vacancy {
    /// Of the array.
    pub(crate) geometry: Geometry,
    /// Of the array.
    pub(crate) name: ArrayName,
    /// Number of the place.
    pub(crate) number: MemberIndex,
    /// Devices that the array has now.
    pub(crate) taken: Vec<DeviceUuid>,
}

/// Makes the device at `path` ready for a place; it is made as a file if there is nothing.
///
/// # Errors
/// [`CreateError`]: it may not be overwritten, is too short, or the system refuses.
pub(crate) fn make_newcomer(
    path: &Path,
    vacancy: &Vacancy,
    destroy_data: bool,
) -> Result<Newcomer, CreateError> {
    let Vacancy { geometry, name, number, taken } = vacancy;
    let needed = Placement::needed_bytes(geometry.log_bytes, geometry.member_bytes);
    let device = match (!is_there(path), destroy_data) {
        (true, _) => Device::Local(LocalDevice::make(path, needed, &[])?),
        (false, true) => open_whatever_it_holds(path)?,
        (false, false) => open_to_destroy(path, &[])?,
    };
    let label = device.read(0, LABEL_BYTES as u64)?;
    let is_own =
        |label: &Label| label.array_uuid == geometry.array_uuid && taken.contains(&label.device_uuid);
    // An export has no lock, and may have two names.
    if Label::decode(&label).is_ok_and(|label| is_own(&label)) {
        return Err(DeviceError::InUse { path: path.to_owned() }.into());
    }
    let (needed_unit, block) = (device.io_unit(), ByteCount(geometry.block_size.bytes()));
    if needed_unit > block {
        return Err(CreateError::BlockTooSmall { path: path.to_owned(), block, needed: needed_unit });
    }
    wipe(&device, geometry, 0)?;
    let device_uuid = DeviceUuid(random_uuid()?);
    let mut label = vec![0; LABEL_BYTES];
    Label { array_uuid: geometry.array_uuid, device_uuid, device: *number, name: *name }.encode(&mut label);
    write_label(&device, &label)?;
    Ok(Newcomer { device, device_uuid })
}

/// Whether a device was named, with whatever it held before.
fn is_named(path: &Path, names: &[String]) -> bool {
    let own = path.display().to_string();
    let is_own =
        |name: &String| name.strip_prefix(&own).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
    names.iter().any(is_own)
}

fn check_unit(device: &Device, config: &ArrayConfig) -> Result<(), CreateError> {
    let (needed, block) = (device.io_unit(), ByteCount(config.block_size.bytes()));
    if needed > block {
        return Err(CreateError::BlockTooSmall { path: device.path().to_owned(), block, needed });
    }
    Ok(())
}

/// Checks that each file system has room for all files that are to be made there.
fn check_space(paths: &[&PathBuf], file_bytes: Option<ByteCount>) -> Result<(), CreateError> {
    let mut wanted: BTreeMap<u64, u64> = BTreeMap::new();
    for path in paths.iter().filter(|path| !is_there(path)) {
        let Some(each) = file_bytes else { return Err(CreateError::NoSize { path: (*path).clone() }) };
        let folder = folder_of(path);
        let (device, available) =
            space_of(folder).map_err(|errno| failed("use the folder", folder, errno.into()))?;
        let needed = wanted.entry(device).or_default();
        *needed = needed.saturating_add(each.get());
        if *needed > available {
            let (needed, available) = (ByteCount(*needed), ByteCount(available));
            return Err(DeviceError::NoSpace { path: (*path).clone(), needed, available }.into());
        }
    }
    Ok(())
}

/// Length of the log, which does not depend on that of the data areas.
fn log_bytes(config: &ArrayConfig) -> ByteCount {
    // Any possible array of this level says it.
    let member_size = ByteCount(config.strip_size.get().saturating_mul(64));
    ArrayConfig { member_size, ..config.clone() }.geometry(ArrayUuid::default()).log_bytes
}

/// Opens a file that belongs to an array called `name`, if it is one.
fn open_own(path: &Path, name: ArrayName) -> Result<Option<Device>, CreateError> {
    let is_file = std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_file());
    if !is_file {
        return Ok(None);
    }
    let device = Device::open(path, Purpose::Use)?;
    let front = device.read(0, LABEL_BYTES as u64)?;
    Ok(Label::decode(&front).is_ok_and(|label| label.name == name).then_some(device))
}

fn place(device: &Device, geometry: &Geometry) -> Result<Placement, CreateError> {
    Placement::new(geometry, device.bytes()).map_err(|short| CreateError::TooShort {
        path: device.path().to_owned(),
        needed: short.needed,
        found: short.found,
    })
}

/// Makes all from `first_byte` to the data area, and the place of the second copy, zeros.
fn wipe(device: &Device, geometry: &Geometry, first_byte: u64) -> Result<(), CreateError> {
    let Placement { data_at, tail_at, .. } = place(device, geometry)?;
    device.zero(first_byte, data_at - first_byte)?;
    device.zero(tail_at, AreaLayout::TAIL_BYTES)?;
    Ok(device.sync()?)
}

/// Writes what stands behind the label, to both places.
fn write_behind_label(device: &Device, front: &[u8]) -> Result<(), CreateError> {
    let tail_at = Placement::tail_at(device.bytes()).expect("checked when the device was wiped");
    let label = LABEL_BYTES as u64;
    device.write(label, &front[LABEL_BYTES..])?;
    device.write(tail_at + label, &front[LABEL_BYTES..AreaLayout::TAIL_BYTES as usize])?;
    Ok(device.sync()?)
}

/// Writes the label, to both places.
fn write_label(device: &Device, label: &[u8]) -> Result<(), CreateError> {
    let tail_at = Placement::tail_at(device.bytes()).expect("checked when the device was wiped");
    device.write(tail_at, label)?;
    device.write(0, label)?;
    Ok(device.sync()?)
}

/// Draws an identity: 122 random bits (RFC 9562, version 4).
fn random_uuid() -> Result<[u8; 16], CreateError> {
    let mut bytes: [u8; 16] = random_bytes().map_err(|source| CreateError::NoRandom { source })?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(bytes)
}
