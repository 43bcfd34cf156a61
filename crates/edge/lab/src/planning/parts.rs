//! The catalogue's parts as arithmetic takes them: capacities, fits, and what a drive does at best.
//!
//! What one drive does at random is simulated: [`DEPTH`] accesses of 4 KiB outstanding, its write cache on, on shares of its
//! capacity. No array gets more accesses out of it, since a controller keeps no more at a drive and they are no shorter.

use super::{Crew, PARTS_SHARE, PlanError, PlanOrder, Stage};
use raidlab_advisor::plan::estimate::{DriveRates, RandomRate};
use raidlab_advisor::plan::{ControllerPart, DrivePart, EnclosurePart, PartList, Settings};
use raidlab_hardware::{
    ControllerModel, Drive, DriveKind, DriveModel, DriveOp, DriveOptions, DriveRequest, EnclosureModel,
    FormFactor, Sector, SectorCount, YearRange,
};
use raidlab_raid::LevelVariant;
use raidlab_units::{ByteCount, Nanos};
use raidlab_workload::Rng;

/// Accesses outstanding at the drive.
const DEPTH: u32 = 64;
/// Accesses that a rate is counted over.
const ACCESSES: u64 = 1_500;

/// The same of drives with a write buffer.
const ACCESSES_BUFFERED: u64 = 60_000;
/// Shares of the capacity.
const SHARES: [f64; 9] = [0.0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0];

/// The levels that survive so many failures, as people use them; all that there are if `all`.
pub fn default_levels(survive: u16, all: bool) -> Vec<LevelVariant> {
    let usual = ["1", "5", "6", "10", "50:2-spans", "60:2-spans"];
    let more = ["1e", "3", "10:far", "10:offset", "50:3-spans", "50:4-spans", "60:3-spans", "60:4-spans"];
    let none = ["0"];
    let names = none.iter().filter(|_| survive == 0).chain(&usual).chain(more.iter().filter(|_| all));
    names.map(|name| name.parse().expect("these are levels")).collect()
}

/// Every strip with every policy.
pub fn default_settings(strips: &[ByteCount]) -> Vec<Settings> {
    let on_off = [false, true];
    let strips = std::iter::once(None).chain(strips.iter().copied().map(Some));
    let mut all = Vec::new();
    for strip in strips {
        for (write_back, read_ahead) in on_off.into_iter().flat_map(|a| on_off.map(|b| (a, b))) {
            all.extend(on_off.map(|disk_cache| Settings { strip, write_back, read_ahead, disk_cache }));
        }
    }
    all
}

pub(super) fn of_order(order: &PlanOrder<'_>, crew: &mut Crew<'_>) -> Result<PartList, PlanError> {
    let catalog = order.catalog;
    let wanted = |ids: &[String], era: YearRange, id: &str, year| {
        if ids.is_empty() { era.holds(year) } else { ids.iter().any(|one| one == id) }
    };
    for id in order.drives {
        if catalog.drive(id)?.is_host_managed() {
            return Err(PlanError::HostManaged { drive: id.clone() });
        }
    }
    for id in order.controllers {
        catalog.controller(id)?;
    }
    for id in order.enclosures {
        catalog.enclosure(id)?;
    }
    let usable = catalog.drives().filter(|model| !model.is_host_managed());
    let drives: Vec<&DriveModel> =
        usable.filter(|model| wanted(order.drives, order.era, &model.id, model.year)).collect();
    let stage = Stage { label: "measuring one drive of each kind", from: 0.0, to: PARTS_SHARE };
    let rates = crew.on_all(stage, drives.len(), |index| Ok(rates(drives[index])))?;
    let controllers =
        catalog.controllers().filter(|model| wanted(order.controllers, order.era, &model.id, model.year));
    // Old controllers go with old enclosures.
    let era = if order.controllers.is_empty() { order.era } else { YearRange::default() };
    let enclosures =
        catalog.enclosures().filter(|model| wanted(order.enclosures, era, &model.id, model.year));
    Ok(PartList {
        drives: drives.into_iter().zip(rates).map(|(model, rates)| drive(order, model, rates)).collect(),
        controllers: controllers.map(|model| controller(order, model)).collect(),
        enclosures: enclosures.map(|model| enclosure(order, model)).collect(),
    })
}

fn drive(order: &PlanOrder<'_>, model: &DriveModel, rates: DriveRates) -> DrivePart {
    let own = order.prices.drives.get(&model.id);
    DrivePart {
        id: model.id.clone(),
        capacity: model.capacity.bytes(),
        is_small: model.form_factor == FormFactor::Small,
        bus: model.bus.clone(),
        rates,
        price: own.and_then(|part| part.price).or(model.price_usd.filter(|_| order.prices.is_in_dollars())),
        watts: own.and_then(|part| part.watts).or(model.power_active_watts),
    }
}

fn controller(order: &PlanOrder<'_>, model: &ControllerModel) -> ControllerPart {
    let own = order.prices.controllers.get(&model.id);
    let least = model.host_command.read.min(model.host_command.write).as_secs_f64();
    let words = |buses: &String| buses.split_whitespace().map(str::to_owned).collect();
    ControllerPart {
        id: model.id.clone(),
        buses: model.buses.as_ref().map(words).unwrap_or_default(),
        ports: model.ports,
        commands_per_sec: if least > 0.0 { f64::from(model.processors) / least } else { f64::INFINITY },
        host_rate: model.host_link.rate,
        member_rate: model.member_link.rate,
        strip: model.strip_size,
        is_battery_backed: model.cache.battery_backed,
        reads_ahead: model.cache.read_ahead.0 > 0,
        is_external: model.is_external,
        price: own.and_then(|part| part.price),
        watts: own.and_then(|part| part.watts),
    }
}

fn enclosure(order: &PlanOrder<'_>, model: &EnclosureModel) -> EnclosurePart {
    let own = order.prices.enclosures.get(&model.id);
    EnclosurePart {
        id: model.id.clone(),
        slots: model.slots as u16,
        is_small: model.form_factor == FormFactor::Small,
        bus: model.bus.clone(),
        port_rate: model.port.rate,
        price: own.and_then(|part| part.price),
        watts: own.and_then(|part| part.watts).or(model.power_watts),
    }
}

fn rates(model: &DriveModel) -> DriveRates {
    let rate = |share| RandomRate {
        share,
        reads: accesses_per_sec(model, share, DriveOp::Read),
        writes: accesses_per_sec(model, share, DriveOp::Write { fua: false }),
    };
    let media = match &model.kind {
        DriveKind::HardDrive(hard) => hard.mechanics.data_sheet().map(|sheet| sheet.outer_rate.0),
        DriveKind::SolidState(_) | DriveKind::Flash(_) => None,
    };
    // A translation layer puts data anywhere: what part of the drive is in use is no matter, or one of less collecting.
    let random = if model.condition().is_some() {
        let whole = rate(1.0);
        SHARES.map(|share| RandomRate { share, ..whole }).to_vec()
    } else {
        SHARES.map(rate).to_vec()
    };
    DriveRates { random, media: media.unwrap_or(f64::INFINITY).min(model.interface.rate.0) }
}

/// Accesses per second on the first `share` of a drive.
fn accesses_per_sec(model: &DriveModel, share: f64, op: DriveOp) -> f64 {
    const SECTORS: u64 = 8;
    let options = DriveOptions { write_cache: Some(true), ..DriveOptions::default() };
    let mut drive = Drive::new(model, options);
    let places = ((model.capacity.0 as f64 * share.max(0.001)) as u64 / SECTORS).max(1);
    let mut random = Rng::new(1);
    let mut request = |id| DriveRequest {
        id,
        op,
        start: Sector(random.below(places) * SECTORS),
        sectors: SectorCount(SECTORS),
    };
    // A write buffer takes the first ones in without a wait.
    let accesses = if model.condition().is_some() { ACCESSES_BUFFERED } else { ACCESSES };
    let (mut now, mut done) = (Nanos::ZERO, 0);
    for id in 0..DEPTH {
        drive.handle_request(now, request(id));
    }
    while done < accesses {
        while let Some(completion) = drive.poll_completion() {
            done += 1;
            drive.handle_request(now, request(completion.id));
        }
        // With commands outstanding there is always something due.
        let Some(due) = drive.poll_deadline() else { break };
        now = now.max(due);
        drive.handle_deadline(now);
    }
    done as f64 / (now - Nanos::ZERO).as_secs_f64().max(1e-9)
}
