//! Modelled arrays as studies and command lines describe them, with parts of the catalogue.
//!
//! They become the controller's [`ArrayConfig`] and are checked by the controller itself: an invalid array is refused
//! when it is described, not when it is run.

use crate::cache::{CacheSettings, STAGING_SIZE};
use crate::controllers::ModelledControllers;
use raidlab_advisor::plan::{place_takes, shelf_takes};
use raidlab_controller::{
    ArrayConfig, ArrayRules, BitmapPlace, CacheConfig, CacheMemory, CoalescingRule, ConfigError, Controller,
    FlushOrder, MemberCache, MetadataPolicy, ParityUpdate, ReadBalance, ReadPolicy, Resilience, StripeCache,
    WriteLogPlace, WritePolicy,
};
use raidlab_hardware::{
    BitmapLocation, Catalog, CatalogError, ConsistencyPolicy, ControllerModel, DriveKind, DriveModel,
    EnclosureModel, MdModel, PAGE_BYTES, RmwLevel,
};
use raidlab_raid::LevelVariant;
use raidlab_sim::{ControllerName, SimulatedVolume};
use raidlab_units::{BlockSize, ByteCount};
use raidlab_workload::ArrayFacts;
use serde::Serialize;

/// `RAID 5 x6 write-back`.
pub fn array_label(config: &ArrayConfig) -> String {
    format!("RAID {} x{} {}", config.level, config.members, config.cache.write_policy.name())
}

/// What results say about the array of `config`, whose members are `member_kind` behind `controller`.
///
/// # Errors
/// [`ConfigError`] when the controller refuses it.
pub fn array_facts(
    config: &ArrayConfig,
    controller: &str,
    member_kind: &str,
) -> Result<ArrayFacts, ConfigError> {
    let machine = Controller::new(config)?;
    let survived = machine.failures_survived();
    Ok(ArrayFacts {
        level: config.level.to_string(),
        members: config.members,
        member_kind: member_kind.to_owned(),
        controller: controller.to_owned(),
        strip_bytes: config.strip_size,
        write_policy: config.cache.write_policy.name().to_owned(),
        usable_bytes: config.block_size.bytes_of(machine.volume_blocks()),
        raw_bytes: ByteCount(config.member_size.get() * u64::from(config.members)),
        failures_survived_always: survived.always,
        failures_survived_at_best: survived.at_best,
    })
}

/// The parts of a modelled array by their names in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
pub struct Parts {
    /// The controller.
    pub controller: String,
    /// The enclosure; it says which drives fit, and its port may be slower than the controller's link.
    pub enclosure: Option<String>,
    /// The members.
    pub drive: String,
}

/// The models of an array's parts.
#[derive(Clone, Copy, Debug)]
pub struct Models<'a> {
    /// The controller.
    pub controller: &'a ControllerModel,
    /// The enclosure.
    pub enclosure: Option<&'a EnclosureModel>,
    /// The members.
    pub drive: &'a DriveModel,
    /// What stands beside the members, where the controller has that and names it: the drive of md's journal, or of its bitmap's file.
    pub beside: Option<&'a DriveModel>,
}

/// The drive beside the members of an array of `controller`, where it names one.
///
/// # Errors
/// [`CatalogError::UnknownId`] if `catalog` has none of this name.
pub fn drive_beside<'a>(
    catalog: &'a Catalog,
    controller: &ControllerModel,
) -> Result<Option<&'a DriveModel>, CatalogError> {
    let name = controller.md.as_ref().and_then(|md| md.journal_device.as_deref());
    name.map(|name| catalog.drive(name)).transpose()
}

impl Models<'_> {
    /// The controller, with its members behind the enclosure's port.
    pub fn controller_in_place(&self) -> ControllerModel {
        match self.enclosure {
            Some(enclosure) => self.controller.clone().behind(enclosure),
            None => self.controller.clone(),
        }
    }

    /// The drive in its place: no faster than the lanes that its bay and the controller have for one drive.
    pub fn drive_in_place(&self) -> DriveModel {
        let of_controller = self.controller.bay_link_of(self.drive.bus.as_deref());
        let links = [of_controller, self.enclosure.and_then(|enclosure| enclosure.bay_link)];
        let interface =
            links.into_iter().flatten().fold(self.drive.interface, |link, bay| link.within(bay.rate));
        DriveModel { interface, ..self.drive.clone() }
    }

    /// A volume of `config` as a simulation takes it.
    pub fn volume(&self, config: &ArrayConfig, owner: ControllerName) -> SimulatedVolume {
        let (config, beside) = (config.clone(), self.beside.cloned());
        SimulatedVolume { config, drive: self.drive_in_place(), owner, beside }
    }

    /// Checks that the drives fit the enclosure's places.
    ///
    /// # Errors
    /// Says in words what does not fit.
    pub fn check_fit(&self) -> Result<(), String> {
        let Some(EnclosureModel { id, form_factor: place, .. }) = self.enclosure else { return Ok(()) };
        let forms: Vec<&str> = self.drive.form_factors.iter().map(|form| form.name()).collect();
        if forms.iter().any(|form| place_takes(place.name(), form)) {
            return Ok(());
        }
        Err(format!(
            "drive '{}' is of {}, enclosure '{id}' has places for {place}: use another of either",
            self.drive.id,
            forms.join(" or ")
        ))
    }

    /// What could not be plugged together of `array`'s drives and these parts, a sentence each. A model does not need plugs, and
    /// what drives would do elsewhere is worth asking; it is only to be known.
    pub fn misfits(&self, array: &ModelledArray) -> Vec<String> {
        let Self { controller, enclosure, drive, .. } = self;
        let drives = array.drives();
        let mut found = Vec::new();
        if let (Some(bus), Some(buses)) = (&drive.bus, &controller.buses)
            && buses.split_whitespace().all(|one| one != bus)
        {
            found.push(format!(
                "drive '{}' is for {bus}, controller '{}' takes {buses}",
                drive.id, controller.id
            ));
        }
        if let Some(enclosure) = enclosure
            && let (Some(bus), Some(places)) = (&drive.bus, &enclosure.bus)
            && !shelf_takes(places, bus)
        {
            found.push(format!(
                "drive '{}' is for {bus}, enclosure '{}' has places for {places}",
                drive.id, enclosure.id
            ));
        }
        if let Some(ports) = controller.ports.filter(|ports| drives > *ports) {
            found.push(format!("controller '{}' has {ports} ports for {drives} drives", controller.id));
        }
        if let Some(EnclosureModel { id, slots, .. }) = enclosure.filter(|enclosure| drives > enclosure.slots)
        {
            found.push(format!("enclosure '{id}' has {slots} places for {drives} drives"));
        }
        found
    }
}

impl Parts {
    /// Looks the parts up.
    ///
    /// # Errors
    /// [`UnknownParts`] has all that `catalog` lacks.
    pub fn look_up<'a>(&self, catalog: &'a Catalog) -> Result<Models<'a>, UnknownParts> {
        let controller = catalog.controller(&self.controller);
        let enclosure = self.enclosure.as_deref().map(|id| catalog.enclosure(id)).transpose();
        let beside = controller.as_ref().map_or(Ok(None), |controller| drive_beside(catalog, controller));
        match (controller, enclosure, catalog.drive(&self.drive), beside) {
            (Ok(controller), Ok(enclosure), Ok(drive), Ok(beside)) => {
                Ok(Models { controller, enclosure, drive, beside })
            }
            (controller, enclosure, drive, beside) => {
                let errors = [controller.err(), enclosure.err(), drive.err(), beside.err()];
                Err(UnknownParts(errors.into_iter().flatten().collect()))
            }
        }
    }
}

/// What the catalogue lacks of an array's parts: one [`CatalogError::UnknownId`] or more.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n    "))]
pub struct UnknownParts(pub Vec<CatalogError>);

/// A modelled array: every setting that decides its timing, and the part of the volume in use. Where an enclosure has
/// several volumes, each of them is such an array.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ModelledArray {
    /// The hardware.
    pub parts: Parts,
    /// Level, members, cache. Blocks are the drives' sectors.
    pub config: ArrayConfig,
    /// What the host sees.
    pub usable: ByteCount,
    /// Part of the volume in use, from its start.
    pub region: ByteCount,
    /// Its controllers and volumes, if there are more than one of either, or there might be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controllers: Option<ModelledControllers>,
    /// Settings that the controller is not delivered with and that a name tells.
    #[serde(skip)]
    #[schemars(skip)]
    pub unusual: Vec<String>,
}

/// What people may say about a modelled array; the rest is as the controller is delivered.
#[derive(Clone, Debug)]
pub struct ModelledSettings {
    /// RAID level.
    pub level: LevelVariant,
    /// Number of members.
    pub members: u16,
    /// When writes are acknowledged.
    pub write_policy: WritePolicy,
    /// Length of a strip.
    pub strip_size: Option<ByteCount>,
    /// Whether the members' own write caches are on.
    pub disk_cache: Option<bool>,
    /// The cache.
    pub cache: CacheSettings,
    /// What it does about faults.
    pub resilience: Resilience,
}

impl ModelledArray {
    /// The array of `models` with `settings`, and what the controller is delivered with where they say nothing. The
    /// whole volume is in use.
    ///
    /// # Errors
    /// [`ConfigError`] when the controller refuses it.
    pub fn new(models: &Models<'_>, settings: &ModelledSettings) -> Result<Self, ConfigError> {
        let mut config = ArrayConfig {
            level: settings.level,
            members: settings.members,
            strip_size: settings.strip_size.unwrap_or(models.controller.strip_size),
            member_cache: member_cache(settings.disk_cache.unwrap_or(models.controller.member_write_cache)),
            block_size: BlockSize::B512,
            member_size: models.drive.capacity.bytes(),
            cache: settings.cache.over(delivered_cache(models.controller), settings.write_policy),
            staging_size: STAGING_SIZE,
            resilience: settings.resilience,
        };
        if config.cache.is_passed_by()
            && settings.cache.stream_lead.is_none()
            && let Some(way) = models.controller.cut_through
        {
            config.cache.stream_lead = way.stream_lead;
        }
        if let Some(md) = &models.controller.md {
            follow_md(&mut config, md, models.drive)?;
        }
        config.member_size = config.member_size - config.metadata_bytes().min(config.member_size);
        let usable = config.block_size.bytes_of(Controller::new(&config)?.volume_blocks());
        let parts = Parts {
            controller: models.controller.id.clone(),
            enclosure: models.enclosure.map(|enclosure| enclosure.id.clone()),
            drive: models.drive.id.clone(),
        };
        let unusual = unusual(&config, models.controller);
        Ok(Self { parts, config, usable, region: usable, controllers: None, unusual })
    }

    /// The array with the first `region` of its volume in use.
    ///
    /// # Errors
    /// [`RegionTooLarge`] when the volume is smaller.
    pub fn with_region(self, region: ByteCount) -> Result<Self, RegionTooLarge> {
        if region > self.usable {
            return Err(RegionTooLarge { region, usable: self.usable });
        }
        Ok(Self { region, ..self })
    }

    /// The array in a few words.
    pub fn label(&self) -> String {
        let (array, drive) = (array_label(&self.config), &self.parts.drive);
        let usual = format!("{array} on {drive} behind {}", self.controller_label());
        [usual].into_iter().chain(self.unusual.iter().cloned()).collect::<Vec<_>>().join(", ")
    }
}

/// Settings of `config` that `controller` is not delivered with, as names of arrays tell them.
fn unusual(config: &ArrayConfig, controller: &ControllerModel) -> Vec<String> {
    let (cache, delivered) = (&config.cache, delivered_cache(controller));
    let member_cache = member_cache(controller.member_write_cache);
    let settings = [
        (config.strip_size != controller.strip_size, format!("strip {}", config.strip_size)),
        (cache.size != delivered.size, format!("cache {}", cache.size)),
        (cache.read_policy != delivered.read_policy, cache.read_policy.name().to_owned()),
        (cache.io_policy != delivered.io_policy, format!("{} I/O", cache.io_policy.name())),
        (
            (cache.flush_start_pct, cache.flush_stop_pct)
                != (delivered.flush_start_pct, delivered.flush_stop_pct),
            format!("flush from {} to {} %", cache.flush_start_pct, cache.flush_stop_pct),
        ),
        (
            config.member_cache != member_cache,
            format!("disk cache {}", if config.member_cache == MemberCache::On { "on" } else { "off" }),
        ),
    ];
    settings.into_iter().filter_map(|(differs, text)| differs.then_some(text)).collect()
}

/// A region that the volume can't hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is {}, but the array holds only {}: make it smaller", region.beside(usable), usable.beside(region))]
pub struct RegionTooLarge {
    /// What was asked for.
    pub region: ByteCount,
    /// What the host sees of the array.
    pub usable: ByteCount,
}

/// Whether the members' own write caches are in use.
pub const fn member_cache(is_on: bool) -> MemberCache {
    if is_on { MemberCache::On } else { MemberCache::Off }
}

/// Gives an array the rules of Linux md, and room for the stripes that its stripe cache may have under way.
fn follow_md(config: &mut ArrayConfig, md: &MdModel, drive: &DriveModel) -> Result<(), ConfigError> {
    if md.bitmap() != BitmapLocation::None && config.resilience.metadata == MetadataPolicy::None {
        config.resilience.metadata = MetadataPolicy::Bitmap;
    }
    config.cache.rules = ArrayRules {
        coalescing: CoalescingRule::Prereads,
        parity_update: match md.rmw_level {
            RmwLevel::Disabled => ParityUpdate::NeverModify,
            RmwLevel::Enabled => ParityUpdate::FewestReads,
            RmwLevel::Preferred => ParityUpdate::PreferModify,
        },
        read_balance: match drive.kind {
            DriveKind::HardDrive(_) => ReadBalance::IdleThenNearest,
            DriveKind::SolidState(_) | DriveKind::Flash(_) => ReadBalance::FewestInFlight,
        },
        row: Some(ByteCount(PAGE_BYTES)).filter(|_| config.cache.size == ByteCount(0)),
        stripe_cache: match config.cache.size {
            ByteCount(0) if md.skip_copy => StripeCache::HeldWithoutWrites,
            ByteCount(0) => StripeCache::Held,
            _ => StripeCache::None,
        },
        preread_bypass: Some(md.preread_bypass_threshold),
        stripe_pages_max: Some(md.stripe_cache_size),
        bitmap_chunk: Some(md.bitmap_chunk),
        bitmap_delay: Some(md.bitmap_delay),
        bitmap_place: match md.bitmap() {
            BitmapLocation::File => BitmapPlace::Beside,
            BitmapLocation::Internal => BitmapPlace::MembersFlushed,
            BitmapLocation::None => BitmapPlace::Members,
        },
        write_log: match md.consistency_policy {
            ConsistencyPolicy::Ppl => Some(WriteLogPlace::PartialParity),
            ConsistencyPolicy::Journal => Some(WriteLogPlace::Journal),
            ConsistencyPolicy::Resync | ConsistencyPolicy::Bitmap => None,
        },
        scan_floor: Some(ByteCount::from_kib(md.sync_speed_min)),
        scan_share_pct: None,
    };
    // Source: drivers/md/raid5.c, `raid5_sync_request`: it asks for stripes as long as the stripe cache has any.
    let resilience = &mut config.resilience;
    resilience.scan_bytes_per_sec =
        resilience.scan_bytes_per_sec.or(Some(ByteCount::from_kib(md.sync_speed_max)));
    resilience.scan_iodepth = resilience.scan_iodepth.max(md.stripe_cache_size);
    // In virtual time it is a number. Each change of a stripe has a page of the stripe cache at least, and takes places for
    // all units of its stripe at most.
    let shape = config.layout()?.shape();
    let units = u64::from(shape.data_strips) + u64::from(shape.parities);
    let places = units.saturating_mul(md.stripe_cache_size.into()).min(STRIPE_PLACES_MAX);
    let strip = config.block_size.bytes_of(shape.strip_blocks);
    config.staging_size = config.staging_size.max(ByteCount(places * strip.0));
    Ok(())
}

/// Places for units of stripes at most.
const STRIPE_PLACES_MAX: u64 = 1 << 20;

/// The controller's cache as delivered. The write policy is the caller's to set.
fn delivered_cache(controller: &ControllerModel) -> CacheConfig {
    let cache = &controller.cache;
    CacheConfig {
        size: cache.size,
        block_size: cache.block_size,
        memory: if cache.battery_backed { CacheMemory::BatteryBacked } else { CacheMemory::Volatile },
        read_policy: if cache.read_ahead.0 == 0 { ReadPolicy::NoReadAhead } else { ReadPolicy::Adaptive },
        flush_start_pct: cache.flush_start_pct,
        flush_stop_pct: cache.flush_stop_pct,
        flush_after: cache.flush_after,
        flush_iodepth: cache.flush_iodepth,
        flush_partial_bytes: cache.flush_partial_bytes,
        coalesce_writes: cache.coalesce_writes,
        parity_after_data: cache.parity_after_data,
        stream_lead: cache.stream_lead,
        flush_order: if cache.flush_by_address { FlushOrder::Address } else { FlushOrder::Age },
        read_ahead: cache.read_ahead,
        read_ahead_on_miss: cache.read_ahead_on_miss,
        // As an array of raidlab's own does, whose threads the model has.
        read_ahead_with_queue: controller.first_thread.is_some(),
        ..CacheConfig::default()
    }
}
