//! Every candidate, and why it is rejected or kept.
//!
//! Settings other than the strip do not change the arithmetic, except for losses with the power ([`Hardware`]); they
//! are counted, and tried one by one when an array is simulated. So a kept candidate is a geometry, with its figures.

use super::estimate::{Throughput, TogetherAtBest};
use super::{
    Bulk, ControllerPart, DrivePart, DrivePlaces, EnclosurePart, Geometry, Hardware, Needs, PartList,
    Rejection, Request, Settings,
};
use raidlab_raid::{LayoutSpec, LevelVariant, StripeShape, build_layout};
use raidlab_units::{BlockCount, ByteCount, BytesPerSec};
use std::collections::BTreeMap;

/// What there is to choose from, apart from the parts.
#[derive(Clone, Debug)]
pub struct Space {
    /// Levels, with their spans.
    pub levels: Vec<LevelVariant>,
    /// Most members, where no enclosure and no need says less.
    pub members_max: u16,
    /// Enclosures of one kind behind a controller at most.
    pub enclosures_max: u16,
    /// Hot spares.
    pub spares: Vec<u16>,
    /// Settings.
    pub settings: Vec<Settings>,
    /// Whether settings that lose acknowledged writes with the power are tried.
    pub allows_volatile: bool,
}

/// A geometry that arithmetic keeps.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The hardware.
    pub geometry: Geometry,
    /// What the host sees.
    pub usable: ByteCount,
    /// Failures survived, always and at best.
    pub survives: (u16, u16),
    /// Sum of the prices, where all are known.
    pub cost: Option<f64>,
    /// Sum of the powers, where all are known.
    pub watts: Option<f64>,
    /// What there is besides drives.
    pub bulk: Bulk,
    /// Requests per second of each demand, at best.
    pub at_best: Vec<f64>,
    /// What all of them come to, at best.
    pub score_at_best: f64,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Enumeration {
    /// Candidates looked at, settings included.
    pub candidates: u64,
    /// Of them, those that are out, by reason.
    pub rejected: BTreeMap<Rejection, u64>,
    /// Geometries that are left, in the order of the parts.
    pub kept: Vec<Kept>,
}

/// Tries everything that `request` allows.
pub fn enumerate(request: &Request<'_>) -> Enumeration {
    let mut walk = Walk {
        request,
        found: Enumeration::default(),
        layouts: BTreeMap::new(),
        settings: request.space.settings.len() as u64,
    };
    let enclosures: Vec<Option<u16>> =
        std::iter::once(None).chain((0..request.parts.enclosures.len() as u16).map(Some)).collect();
    for drive in 0..request.parts.drives.len() as u16 {
        for controller in 0..request.parts.controllers.len() as u16 {
            for enclosure in &enclosures {
                walk.hardware(drive, controller, *enclosure);
            }
        }
    }
    walk.found
}

/// What a layout comes to, whatever the drives.
#[derive(Clone, Copy)]
struct LayoutFacts {
    shape: StripeShape,
    survives: (u16, u16),
    /// Blocks of the volume over blocks of one member.
    usable_members: f64,
}

struct Walk<'a> {
    request: &'a Request<'a>,
    found: Enumeration,
    layouts: BTreeMap<(LevelVariant, u16), Option<LayoutFacts>>,
    settings: u64,
}

impl Walk<'_> {
    fn reject(&mut self, reason: Rejection, geometries: u64) {
        let count = geometries * self.settings;
        self.found.candidates += count;
        *self.found.rejected.entry(reason).or_default() += count;
    }

    fn hardware(&mut self, drive: u16, controller: u16, enclosure: Option<u16>) {
        let space = self.request.space;
        let members_max = space.members_max;
        let layouts = space.levels.len() as u64 * u64::from(members_max) * space.spares.len() as u64;
        if !fits(self.request.parts, drive, controller, enclosure) {
            return self.reject(Rejection::Misfit, layouts);
        }
        for level in &space.levels {
            for members in 1..=members_max {
                for spares in &space.spares {
                    let geometry =
                        Geometry { drive, controller, enclosure, level: *level, members, spares: *spares };
                    self.geometry(geometry);
                }
            }
        }
    }

    fn geometry(&mut self, geometry: Geometry) {
        let Some(facts) = self.layout(geometry.level, geometry.members) else {
            return self.reject(Rejection::NoLayout, 1);
        };
        match self.kept(geometry, &facts) {
            Err(reason) => self.reject(reason, 1),
            Ok(kept) => {
                let (space, hardware) = (self.request.space, Hardware::of(self.request.parts, geometry));
                self.found.candidates += self.settings;
                let mut left = self.settings;
                let out = space.settings.iter().filter_map(|it| hardware.rejects(*it, space.allows_volatile));
                for reason in out {
                    *self.found.rejected.entry(reason).or_default() += 1;
                    left -= 1;
                }
                if left > 0 {
                    self.found.kept.push(kept);
                }
            }
        }
    }

    fn kept(&self, geometry: Geometry, facts: &LayoutFacts) -> Result<Kept, Rejection> {
        let Request { needs, demands, space, parts, together } = *self.request;
        let drive = &parts.drives[usize::from(geometry.drive)];
        let controller = &parts.controllers[usize::from(geometry.controller)];
        let drives = geometry.members + geometry.spares;
        if facts.survives.0 < needs.survive {
            return Err(Rejection::Failures);
        }
        let shelves = shelves(parts, geometry);
        let has_ports = controller.ports.is_none_or(|ports| u32::from(drives) <= ports);
        if !has_ports || drives > needs.slots.unwrap_or(u16::MAX) || shelves > space.enclosures_max {
            return Err(Rejection::Slots);
        }
        let usable = ByteCount((drive.capacity.0 as f64 * facts.usable_members) as u64);
        if usable < needs.usable {
            return Err(Rejection::Capacity);
        }
        let cost =
            sum(parts, geometry, shelves, |drive| drive.price, |other| other.price, |shelf| shelf.price);
        bound(needs.budget, cost, (Rejection::PriceUnknown, Rejection::Budget))?;
        let watts =
            sum(parts, geometry, shelves, |drive| drive.watts, |other| other.watts, |shelf| shelf.watts);
        bound(needs.power_watts, watts, (Rejection::PowerUnknown, Rejection::Power))?;
        let enclosure = geometry.enclosure.map(|index| &parts.enclosures[usize::from(index)]);
        let bulk = Bulk {
            places: enclosure.map_or(0, |it| u32::from(it.slots) * u32::from(shelves)),
            enclosures: shelves,
            cache_bytes: controller.cache.0,
        };
        let throughput = Throughput {
            shape: facts.shape,
            members: geometry.members,
            strip: longest_strip(space, controller),
            share: needs.usable.0 as f64 / usable.0 as f64,
            rates: &drive.rates,
            controller,
            port: enclosure.map(|it| it.port_rate),
            slot: slot_rate(drive, controller, enclosure),
        };
        let needed: Vec<f64> = demands
            .iter()
            .enumerate()
            .map(|(app, demand)| needs.requests_per_sec(app, demand.bytes_mean).unwrap_or(0.0))
            .collect();
        let TogetherAtBest { iops: at_best, score: score_at_best } = if together {
            throughput.together(demands, &needed)
        } else {
            let iops: Vec<f64> = demands.iter().map(|demand| throughput.requests_per_sec(demand)).collect();
            let score = demands.iter().zip(&iops).map(|(demand, iops)| demand.merit_at_best(*iops)).product();
            TogetherAtBest { iops, score }
        };
        if at_best.iter().zip(&needed).any(|(at_best, needed)| at_best < needed) {
            return Err(Rejection::Throughput);
        }
        Ok(Kept { geometry, usable, survives: facts.survives, cost, watts, bulk, at_best, score_at_best })
    }

    fn layout(&mut self, level: LevelVariant, members: u16) -> Option<LayoutFacts> {
        *self.layouts.entry((level, members)).or_insert_with(|| layout_facts(level, members))
    }
}

fn layout_facts(level: LevelVariant, members: u16) -> Option<LayoutFacts> {
    // Enough rows that what an odd last strip takes is nothing.
    const ROWS: u64 = 1 << 20;
    let spec = LayoutSpec { level, members, strip_blocks: BlockCount(1), member_blocks: BlockCount(ROWS) };
    let layout = build_layout(&spec).ok()?;
    let survived = layout.failures_survived();
    Some(LayoutFacts {
        shape: layout.shape(),
        survives: (survived.always, survived.at_best),
        usable_members: layout.volume_blocks().0 as f64 / ROWS as f64,
    })
}

/// The most failures that an array in `space` survives always, of members of `largest` at most, with so much for the host; nothing
/// where no array has so much.
pub fn survivable(space: &Space, largest: ByteCount, usable: ByteCount) -> Option<u16> {
    let layouts =
        space.levels.iter().flat_map(|level| (1..=space.members_max).map(move |count| (*level, count)));
    let facts = layouts.filter_map(|(level, members)| layout_facts(level, members));
    let has_room = |facts: &LayoutFacts| largest.0 as f64 * facts.usable_members >= usable.0 as f64;
    facts.filter(has_room).map(|facts| facts.survives.0).max()
}

/// What the lanes of one drive carry: the narrower of the controller's and of the bay's.
pub(super) fn slot_rate(
    drive: &DrivePart,
    controller: &ControllerPart,
    enclosure: Option<&EnclosurePart>,
) -> Option<BytesPerSec> {
    let is_nvme = drive.bus.as_deref() == Some("NVMe");
    let of_controller = if is_nvme { controller.nvme_slot_rate } else { controller.slot_rate };
    let slots = [of_controller, enclosure.and_then(|it| it.slot_rate)];
    slots.into_iter().flatten().min_by(|one, other| one.0.total_cmp(&other.0))
}

/// Whether drives for one bus go into an enclosure with places for another: one for SAS takes SATA drives, too, and the
/// controller then decides.
pub fn shelf_takes(shelf_bus: &str, drive_bus: &str) -> bool {
    drive_bus == shelf_bus || (drive_bus == "SATA" && shelf_bus == "SAS")
}

/// Whether a drive of this shape goes into a place for that one: a drive of 2.5 inch fits a place for 3.5 inch with a carrier.
pub fn place_takes(place: &str, drive: &str) -> bool {
    drive == place || (drive, place) == ("2.5 inch", "3.5 inch")
}

/// Whether the parts can be plugged together; what is not known is no hindrance.
fn fits(parts: &PartList, drive: u16, controller: u16, enclosure: Option<u16>) -> bool {
    let drive = &parts.drives[usize::from(drive)];
    let controller = &parts.controllers[usize::from(controller)];
    let takes = |bus: &Option<String>| {
        bus.as_ref().is_none_or(|bus| controller.buses.is_empty() || controller.buses.contains(bus))
    };
    let Some(enclosure) = enclosure else {
        return takes(&drive.bus)
            && controller.places != DrivePlaces::Enclosures
            && !needs_backplane(parts, drive, controller);
    };
    if controller.places == DrivePlaces::Server {
        return false;
    }
    let enclosure = &parts.enclosures[usize::from(enclosure)];
    let in_shelf = match (&drive.bus, &enclosure.bus) {
        (Some(drive), Some(shelf)) => shelf_takes(shelf, drive),
        _ => true,
    };
    let has_place = drive.forms.iter().any(|form| place_takes(enclosure.form, form));
    takes(&drive.bus) && takes(&enclosure.bus) && in_shelf && has_place
}

/// Whether the drives are `NVMe` ones of the host itself, without a controller's own plugs for them: they have places where there is
/// a backplane or a shelf for them, if there is one at all.
fn needs_backplane(parts: &PartList, drive: &DrivePart, controller: &ControllerPart) -> bool {
    const NVME: Option<&str> = Some("NVMe");
    let has_places = parts.enclosures.iter().any(|it| it.bus.as_deref() == NVME);
    controller.places == DrivePlaces::Either && drive.bus.as_deref() == NVME && has_places
}

/// Enclosures that the drives need.
fn shelves(parts: &PartList, geometry: Geometry) -> u16 {
    let drives = geometry.members + geometry.spares;
    geometry.enclosure.map_or(0, |enclosure| drives.div_ceil(parts.enclosures[usize::from(enclosure)].slots))
}

/// The sum of a figure over all parts; none where one lacks it.
fn sum(
    parts: &PartList,
    geometry: Geometry,
    shelves: u16,
    of_drive: impl Fn(&DrivePart) -> Option<f64>,
    of_controller: impl Fn(&ControllerPart) -> Option<f64>,
    of_enclosure: impl Fn(&EnclosurePart) -> Option<f64>,
) -> Option<f64> {
    let drives = f64::from(geometry.members + geometry.spares);
    let drives = drives * of_drive(&parts.drives[usize::from(geometry.drive)])?;
    let controller = of_controller(&parts.controllers[usize::from(geometry.controller)])?;
    let shelves = match geometry.enclosure {
        Some(enclosure) => f64::from(shelves) * of_enclosure(&parts.enclosures[usize::from(enclosure)])?,
        None => 0.0,
    };
    Some(drives + controller + shelves)
}

fn bound(limit: Option<f64>, value: Option<f64>, reasons: (Rejection, Rejection)) -> Result<(), Rejection> {
    match (limit, value) {
        (Some(_), None) => Err(reasons.0),
        (Some(limit), Some(value)) if value > limit => Err(reasons.1),
        _ => Ok(()),
    }
}

/// The strip that cuts requests into the fewest pieces, so that the bound stays one.
fn longest_strip(space: &Space, controller: &ControllerPart) -> ByteCount {
    let strips = space.settings.iter().map(|settings| settings.strip.unwrap_or(controller.strip));
    strips.max().unwrap_or(controller.strip)
}

impl Needs {
    /// The needs without one of them; see [`super::relaxations`].
    pub(super) fn without(&self, need: super::relax::Need) -> Self {
        use super::relax::Need;
        let mut other = self.clone();
        match need {
            Need::Usable => other.usable = ByteCount(1),
            Need::Survive => other.survive = 0,
            Need::Throughput => {
                (other.iops, other.bytes_per_sec) = (None, None);
                other.own.iter_mut().for_each(|own| (own.iops, own.bytes_per_sec) = (None, None));
            }
            Need::Latency => {
                other.latency.clear();
                other.own.iter_mut().for_each(|own| own.latency.clear());
            }
            Need::Budget => other.budget = None,
            Need::Power => other.power_watts = None,
            Need::Slots => other.slots = None,
        }
        other
    }
}
