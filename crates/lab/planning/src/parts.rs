//! The catalogue's parts in the form that arithmetic needs: capacities, fits, and upper bounds of drives.
//!
//! The random rate of one drive is simulated: 4 KiB accesses, several outstanding, its write cache on, on shares of its
//! capacity. No array gets more accesses out of it with as many outstanding, since they are no shorter.

use super::life::rated_flash;
use super::{Crew, PARTS_SHARE, PlanError, PlanOrder, Stage};
use raidlab_advisor::plan::estimate::{CommandSecs, DriveRates, RandomRate};
use raidlab_advisor::plan::{
    ControllerPart, DrivePart, DrivePlaces, EnclosurePart, Geometry, Judged, Kept, Make, Needs, PartList,
    Rating, Settings, Wear, check_layouts, survivable,
};
use raidlab_hardware::{
    CommandCost, ControllerModel, Drive, DriveKind, DriveModel, DriveOp, DriveOptions, DriveRequest,
    EnclosureModel, Sector, SectorCount, YearRange,
};
use raidlab_raid::LevelVariant;
use raidlab_units::{ByteCount, NanoSpan, Nanos};
use raidlab_workload::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// What names of entries begin with that stand for a class of drives.
const CLASS: &str = "generic-";

/// Accesses outstanding at a disk: for reads as many as that, for writes the most.
const DEPTHS_DISK: [u32; 4] = [1, 4, 16, 64];
/// The same at flash.
const DEPTHS_FLASH: [u32; 5] = [1, 4, 16, 64, 256];
/// Accesses that a rate is counted over.
const ACCESSES: u64 = 1_000;
/// The same of reads of flash.
const ACCESSES_FLASH: u64 = 5_000;
/// The same of writes of drives with a write buffer.
const ACCESSES_BUFFERED: u64 = 60_000;
/// Shares of a disk's capacity.
const SHARES: [f64; 6] = [0.0, 0.05, 0.15, 0.35, 0.6, 1.0];

/// The levels that survive so many failures, as people use them; all that there are if `all`.
#[expect(clippy::missing_panics_doc, reason = "these are levels")]
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

/// The parts that `order` offers; no bounds to what drives do are known before [`measure`].
pub(super) fn of_order(order: &PlanOrder<'_>) -> Result<PartList, PlanError> {
    order.check_rates()?;
    let catalog = order.catalog;
    let wanted = |ids: &[String], era: YearRange, id: &str, year| {
        if ids.is_empty() { era.holds(year) } else { ids.iter().any(|one| one == id) }
    };
    for id in order.drives.iter().chain(order.have.drives.keys()) {
        if catalog.drive(id)?.is_host_managed() {
            return Err(PlanError::HostManaged { drive: id.clone() });
        }
    }
    for id in order.controllers.iter().chain(&order.have.controllers) {
        catalog.controller(id)?;
    }
    for id in order.enclosures.iter().chain(order.have.enclosures.keys()) {
        catalog.enclosure(id)?;
    }
    order.prices.check(catalog)?;
    let usable = catalog.drives().filter(|model| !model.is_host_managed());
    let is_of_kind = |model: &DriveModel| {
        let is_it = |kind: &String| kind == model.class() || (kind == "ssd" && model.is_flash());
        order.kinds.is_empty() || order.kinds.iter().any(is_it)
    };
    let is_wanted = |model: &&DriveModel| {
        // A class of drives is nothing to buy.
        let is_for_sale = !order.drives.is_empty() || !model.id.starts_with(CLASS);
        let is_flash_today = model.is_flash() && order.era == YearRange::TODAY;
        let era = if is_flash_today { YearRange::FLASH_TODAY } else { order.era };
        let is_offered = is_for_sale && wanted(order.drives, era, &model.id, model.year) && is_of_kind(model);
        is_offered || order.have.drives.contains_key(&model.id)
    };
    let drives: Vec<&DriveModel> = usable.filter(is_wanted).collect();
    if drives.is_empty() {
        return Err(PlanError::NoDrive {
            drives: order.drives.join(", "),
            kinds: order.kinds.join(", "),
            era: order.era,
        });
    }
    check_layouts(&order.space)?;
    check_survivable(order, &drives)?;
    let is_offered = |model: &&ControllerModel| {
        let is_named = order.controllers.contains(&model.id) || order.have.controllers.contains(&model.id);
        is_named || !model.is_only_named && wanted(order.controllers, order.era, &model.id, model.year)
    };
    let controllers = catalog.controllers().filter(is_offered);
    // Old controllers go with old enclosures.
    let era = if order.controllers.is_empty() { order.era } else { YearRange::default() };
    let enclosures = catalog.enclosures().filter(|model| {
        wanted(order.enclosures, era, &model.id, model.year) || order.have.enclosures.contains_key(&model.id)
    });
    Ok(PartList {
        drives: drives.into_iter().map(|model| drive(order, model)).collect(),
        controllers: controllers.map(|model| controller(order, model)).collect(),
        enclosures: enclosures.map(|model| enclosure(order, model)).collect(),
        losses: BTreeMap::new(),
    })
}

/// Simulates one drive of each kind that is `wanted`, by its number, for what it does at best.
pub(super) fn measure(
    order: &PlanOrder<'_>,
    parts: &mut PartList,
    crew: &mut Crew<'_>,
    wanted: impl Fn(u16) -> bool,
) -> Result<(), PlanError> {
    let wanted: Vec<usize> = (0..parts.drives.len()).filter(|index| wanted(*index as u16)).collect();
    let models: Vec<&DriveModel> =
        wanted.iter().map(|index| order.catalog.drive(&parts.drives[*index].id)).collect::<Result<_, _>>()?;
    let stage = Stage { label: "measuring one drive of each kind", from: 0.0, to: PARTS_SHARE };
    let found = crew.on_all(stage, models.len(), |index| Ok(rates(models[index])))?;
    for (index, rates) in wanted.into_iter().zip(found) {
        parts.drives[index].rates = rates;
    }
    Ok(())
}

/// The parts whose price is not known of `kept` that might be the best with one, each once: by usual ratios of prices they take less
/// than the best where the cheapest is asked for, and no run of them missed a need. Those of what takes least come first.
pub(super) fn unpriced(
    parts: &PartList,
    kept: &[Kept],
    (best, judged): (Option<&Judged>, &[Judged]),
    needs: &Needs,
) -> Vec<String> {
    let missed: BTreeSet<Geometry> =
        judged.iter().filter(|one| !one.keeps(needs)).map(|one| one.geometry).collect();
    let takes_less =
        |one: &Kept| !needs.wants_cheapest() || best.is_none_or(|best| one.assumed_cost < best.assumed_cost);
    let is_it = |one: &&Kept| one.cost.is_none() && takes_less(one) && !missed.contains(&one.geometry);
    let mut hopes: Vec<&Kept> = kept.iter().filter(is_it).collect();
    hopes.sort_by(|a, b| a.assumed_cost.total_cmp(&b.assumed_cost));
    let of_one = |kept: &Kept| {
        let Geometry { drive, controller, enclosure, .. } = kept.geometry;
        let drive = &parts.drives[usize::from(drive)];
        let controller = &parts.controllers[usize::from(controller)];
        let shelf = enclosure.map(|index| &parts.enclosures[usize::from(index)]);
        let all = [Some((&drive.id, drive.price)), Some((&controller.id, controller.price))];
        all.into_iter().chain([shelf.map(|it| (&it.id, it.price))]).flatten().collect::<Vec<_>>()
    };
    let without = hopes.into_iter().flat_map(of_one).filter(|(_, price)| price.is_none());
    let mut known = BTreeSet::new();
    without.filter(|(id, _)| known.insert(*id)).map(|(id, _)| id.clone()).collect()
}

/// Refuses what no level gives, before anything is simulated.
fn check_survivable(order: &PlanOrder<'_>, drives: &[&DriveModel]) -> Result<(), PlanError> {
    let Needs { survive, usable, .. } = order.needs;
    let largest = drives.iter().map(|model| model.capacity.bytes()).max();
    match largest.and_then(|largest| survivable(&order.space, largest, usable)) {
        Some(most) if most < survive => {
            Err(PlanError::TooManyFailures { survive, most, usable, members_max: order.space.members_max })
        }
        _ => Ok(()),
    }
}

fn drive(order: &PlanOrder<'_>, model: &DriveModel) -> DrivePart {
    let own = order.prices.drives.get(&model.id);
    DrivePart {
        id: model.id.clone(),
        family: drive_family(&model.id).to_owned(),
        kind: model.class().to_owned(),
        wear: wear(model),
        make: make(model),
        owned: order.have.drives.get(&model.id).copied().unwrap_or(0),
        capacity: model.capacity.bytes(),
        forms: model.form_factors.iter().map(|form| form.name()).collect(),
        bus: model.bus.clone(),
        volatile_cache: model.volatile_cache(),
        rates: DriveRates { random: Vec::new(), media: f64::INFINITY },
        price: own.and_then(|part| part.price).or(model.price_usd.filter(|_| order.prices.is_in_dollars())),
        watts: own.and_then(|part| part.watts).or(model.power_active_watts),
    }
}

fn controller(order: &PlanOrder<'_>, model: &ControllerModel) -> ControllerPart {
    let own = order.prices.controllers.get(&model.id);
    let member = model.cut_through.map_or(model.member_command, |way| way.cost);
    let words = |buses: &String| buses.split_whitespace().map(str::to_owned).collect();
    ControllerPart {
        id: model.id.clone(),
        family: controller_family(&model.id).to_owned(),
        is_owned: order.have.controllers.contains(&model.id),
        buses: model.buses.as_ref().map(words).unwrap_or_default(),
        ports: model.ports,
        processors: model.processors,
        host_command: command_secs(model.host_command, model.host_command),
        member_command: command_secs(model.member_command, member),
        host_rate: model.host_link.rate,
        member_rate: model.member_link.rate,
        slot_rate: model.bay_link_of(None).map(|slot| slot.rate),
        nvme_slot_rate: model.bay_link_of(Some("NVMe")).map(|slot| slot.rate),
        strip: model.strip_size,
        cache: model.cache.size,
        is_battery_backed: model.cache.battery_backed,
        reads_ahead: model.cache.read_ahead.0 > 0,
        places: match (model.is_software, model.is_external) {
            (true, _) if model.buses.as_deref() == Some("SATA") => DrivePlaces::Mainboard,
            (true, _) => DrivePlaces::Either,
            (false, true) => DrivePlaces::Enclosures,
            (false, false) => DrivePlaces::Server,
        },
        price: own.and_then(|part| part.price),
        watts: own.and_then(|part| part.watts),
    }
}

fn enclosure(order: &PlanOrder<'_>, model: &EnclosureModel) -> EnclosurePart {
    let own = order.prices.enclosures.get(&model.id);
    EnclosurePart {
        id: model.id.clone(),
        owned: order.have.enclosures.get(&model.id).copied().unwrap_or(0),
        rack_units: model.rack_units,
        slots: model.slots as u16,
        form: model.form_factor.name(),
        bus: model.bus.clone(),
        is_server: model.is_server,
        port_rate: model.port.rate,
        slot_rate: model.bay_link.map(|slot| slot.rate),
        price: own.and_then(|part| part.price),
        watts: own.and_then(|part| part.watts).or(model.power_watts),
    }
}

/// What siblings of other capacities are called, too: the name without a number at its end, or one with its unit.
fn drive_family(id: &str) -> &str {
    let is_capacity = |text: &str| {
        let digits = text.strip_suffix("tb").unwrap_or(text);
        !digits.is_empty() && digits.bytes().all(|it| it.is_ascii_digit())
    };
    id.rsplit_once('-').filter(|(_, last)| is_capacity(last)).map_or(id, |(family, _)| family)
}

/// A maker's line of controllers: the name up to the first number; all of Linux md is one.
fn controller_family(id: &str) -> &str {
    let until = id.split('-').take_while(|word| !word.bytes().any(|it| it.is_ascii_digit()));
    let length: usize = until.map(|word| word.len() + 1).sum();
    match &id[..length.saturating_sub(1)] {
        "" => id,
        family if family.starts_with("linux-md") => "linux-md",
        family => family,
    }
}

/// What wears a drive out: a maker's rating is of host writes at random places, which the flash takes amplified.
fn wear(model: &DriveModel) -> Wear {
    match rated_flash(model) {
        _ if !model.is_flash() => Wear::None,
        Some(rated) => {
            Wear::Rated(Rating { host_bytes: rated.rated_bytes, amplification: rated.amplification() })
        }
        None => Wear::Unknown,
    }
}

/// How a drive is made.
fn make(model: &DriveModel) -> Make {
    match &model.kind {
        DriveKind::HardDrive(hard) => Make::Arms(if hard.modern.actuators.is_some() { 2 } else { 1 }),
        DriveKind::SolidState(_) | DriveKind::Flash(_) => Make::Bits(model.bits_per_cell()),
    }
}

/// The lesser times of two ways of commands.
fn command_secs(one: CommandCost, other: CommandCost) -> CommandSecs {
    let secs = |a: NanoSpan, b: NanoSpan| a.min(b).as_secs_f64();
    CommandSecs {
        read: secs(one.read, other.read),
        write: secs(one.write, other.write),
        page: secs(one.per_page, other.per_page),
    }
}

fn rates(model: &DriveModel) -> DriveRates {
    let depths: &[u32] = if model.is_flash() { &DEPTHS_FLASH } else { &DEPTHS_DISK };
    let rate = |share| RandomRate {
        share,
        reads: depths
            .iter()
            .map(|depth| (*depth, accesses_per_sec(model, share, (DriveOp::Read, *depth))))
            .collect(),
        writes: accesses_per_sec(model, share, (DriveOp::Write { fua: false }, depths[depths.len() - 1])),
    };
    let media = match &model.kind {
        DriveKind::HardDrive(hard) => hard.mechanics.data_sheet().map(|sheet| sheet.outer_rate.0),
        DriveKind::SolidState(_) | DriveKind::Flash(_) => None,
    };
    // Flash holds data anywhere: what part of the drive is in use is no matter, or one of less collecting.
    let random = if model.is_flash() {
        vec![RandomRate { share: 0.0, ..rate(1.0) }]
    } else {
        SHARES.map(rate).to_vec()
    };
    DriveRates { random, media: media.unwrap_or(f64::INFINITY).min(model.interface.rate.0) }
}

/// Accesses per second on the first `share` of a drive, with so many outstanding.
fn accesses_per_sec(model: &DriveModel, share: f64, (op, depth): (DriveOp, u32)) -> f64 {
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
    let accesses = match (model.condition().is_some(), op) {
        (true, DriveOp::Write { .. }) => ACCESSES_BUFFERED,
        _ if model.is_flash() => ACCESSES_FLASH,
        _ => ACCESSES,
    };
    let (mut now, mut done) = (Nanos::ZERO, 0);
    for id in 0..depth {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn siblings_have_one_family() {
        let drives = [
            ("samsung-pm9a3-7680", "samsung-pm9a3"),
            ("exos-x24-24tb", "exos-x24"),
            ("wd-hc570-22000", "wd-hc570"),
            ("st3600057ss", "st3600057ss"),
            ("generic-nvme", "generic-nvme"),
        ];
        for (id, family) in drives {
            assert_eq!(drive_family(id), family);
        }
        let controllers = [
            ("perc-h755n", "perc"),
            ("megaraid-9670w-16i", "megaraid"),
            ("linux-md-nvme", "linux-md"),
            ("linux-md", "linux-md"),
            ("hba-9500-16i", "hba"),
            ("smart-array-p408i-a", "smart-array"),
            ("raidlab", "raidlab"),
            ("3ware-7850", "3ware-7850"),
        ];
        for (id, family) in controllers {
            assert_eq!(controller_family(id), family);
        }
    }
}
