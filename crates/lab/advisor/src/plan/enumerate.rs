//! Every candidate, and why it is rejected or kept.
//!
//! Settings other than the strip do not change the arithmetic, except for losses with the power ([`Hardware`]); they
//! are counted, and tried one by one when an array is simulated. So a kept candidate is a geometry, with its figures.
//!
//! For each level, drive and controller it is kept how near its nearest rejected array came, so that an answer can say
//! why there is none of them in it.

use super::assumed;
use super::estimate::{Throughput, TogetherAtBest};
use super::life::{years_at_best, years_expected};
use super::{
    Bulk, ControllerPart, DrivePart, DrivePlaces, EnclosurePart, Geometry, Hardware, Life, Needs, PartList,
    Rejection, Request, Settings, Wear,
};
use raidlab_raid::{Layout, LayoutError, LayoutSpec, Level, LevelVariant, StripeShape, build_layout};
use raidlab_units::{BlockCount, ByteCount, BytesPerSec};
use std::collections::BTreeMap;

/// What there is to choose from, apart from the parts.
#[derive(Clone, Debug)]
pub struct Space {
    /// Levels, with their spans.
    pub levels: Vec<LevelVariant>,
    /// Fewest members.
    pub members_min: u16,
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
    /// What has to be bought, by prices whose ratios are usual: terabytes of disk.
    pub assumed_cost: f64,
    /// Sum of the powers; what is not known is taken to be as usual.
    pub watts: f64,
    /// Height of all enclosures, where it is known; drives in the server itself take none.
    pub rack_units: Option<u32>,
    /// What there is besides drives.
    pub bulk: Bulk,
    /// Requests per second of each demand, at best.
    pub at_best: Vec<f64>,
    /// What all of them come to, at best.
    pub score_at_best: f64,
    /// How long its drives are expected to last, where they must; a guess.
    pub life_expected: Life,
}

/// How near the nearest rejected array came: the need that it fails at, and the share of it that it has, below one.
pub type Nearest = (Rejection, f64);

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Enumeration {
    /// Candidates looked at, settings included.
    pub candidates: u64,
    /// Of them, those that are out, by reason.
    pub rejected: BTreeMap<Rejection, u64>,
    /// Geometries that are left, in the order of the parts.
    pub kept: Vec<Kept>,
    /// Drives that fit no controller and enclosure.
    pub misfits: Vec<u16>,
    /// By level, how near its nearest rejected array came.
    pub nearest_levels: BTreeMap<LevelVariant, Nearest>,
    /// By drive.
    pub nearest_drives: BTreeMap<u16, Nearest>,
    /// By controller.
    pub nearest_controllers: BTreeMap<u16, Nearest>,
}

impl Enumeration {
    /// Drives that fit nothing, each with what it is plugged into: `samsung-pm9a3-7680 (NVMe)`.
    pub fn misfit_names(&self, parts: &PartList) -> Vec<String> {
        let name = |drive: &u16| {
            let DrivePart { id, bus, .. } = &parts.drives[usize::from(*drive)];
            bus.as_ref().map_or_else(|| id.clone(), |bus| format!("{id} ({bus})"))
        };
        self.misfits.iter().map(name).collect()
    }
}

/// Tries everything that `request` allows.
pub fn enumerate(request: &Request<'_>) -> Enumeration {
    let mut walk = Walk {
        request,
        found: Enumeration::default(),
        layouts: BTreeMap::new(),
        settings: request.space.settings.len() as u64,
        written_per_day: request.needs.written_per_day_at_least(request.demands, request.together),
    };
    let enclosures: Vec<Option<u16>> =
        std::iter::once(None).chain((0..request.parts.enclosures.len() as u16).map(Some)).collect();
    for drive in 0..request.parts.drives.len() as u16 {
        walk.found.misfits.push(drive);
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
    /// Bytes that the host writes in a day, at least.
    written_per_day: f64,
}

impl Walk<'_> {
    fn reject(&mut self, reason: Rejection, geometries: u64) {
        let count = geometries * self.settings;
        self.found.candidates += count;
        *self.found.rejected.entry(reason).or_default() += count;
    }

    fn hardware(&mut self, drive: u16, controller: u16, enclosure: Option<u16>) {
        let space = self.request.space;
        let members = space.members_min.max(1)..=space.members_max;
        let layouts = space.levels.len() as u64 * members.len() as u64 * space.spares.len() as u64;
        if !fits(self.request.parts, drive, controller, enclosure) {
            return self.reject(Rejection::Misfit, layouts);
        }
        self.found.misfits.pop_if(|last| *last == drive);
        for level in &space.levels {
            for members in members.clone() {
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
            Err((reason, share)) => {
                self.reject(reason, 1);
                self.found.note(geometry, (reason, share));
            }
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

    fn kept(&self, geometry: Geometry, facts: &LayoutFacts) -> Result<Kept, Nearest> {
        let Request { needs, demands, space, parts, together } = *self.request;
        let drive = &parts.drives[usize::from(geometry.drive)];
        let controller = &parts.controllers[usize::from(geometry.controller)];
        at_least(f64::from(needs.survive), f64::from(facts.survives.0), Rejection::Failures)?;
        let shelves = shelves(parts, geometry);
        self.has_places(geometry, shelves)?;
        let usable = ByteCount((drive.capacity.0 as f64 * facts.usable_members) as u64);
        at_least(needs.usable.0 as f64, usable.0 as f64, Rejection::Capacity)?;
        let bill = Bill { parts, geometry, shelves };
        let cost = bill.cost();
        bound(needs.budget, cost, (Rejection::PriceUnknown, Rejection::Budget))?;
        let watts = bill.watts();
        at_most(needs.power_watts, watts, Rejection::Power)?;
        let enclosure = enclosure_of(parts, geometry);
        // Drives in the server take none, whether its bays are an entry of the catalogue or not.
        let shelf = enclosure.filter(|it| !it.is_server);
        let rack_units = shelf.map_or(Some(0), |it| Some(it.rack_units? * u32::from(shelves)));
        let units = (needs.rack_units.map(f64::from), rack_units.map(f64::from));
        bound(units.0, units.1, (Rejection::HeightUnknown, Rejection::RackUnits))?;
        let losses =
            needs.loss_per_year.and_then(|most| Some((most, *parts.losses.get(&geometry.on_paper())?)));
        losses.map_or(Ok(()), |(most, loss)| at_most(Some(most), loss, Rejection::Loss))?;
        let life_expected = self.lasts(drive.wear, facts.shape, geometry)?;
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
        for (at_best, needed) in at_best.iter().zip(&needed) {
            at_least(*needed, *at_best, Rejection::Throughput)?;
        }
        let (survives, assumed_cost) = (facts.survives, bill.assumed_cost());
        Ok(Kept {
            geometry,
            usable,
            survives,
            cost,
            assumed_cost,
            watts,
            rack_units,
            bulk,
            at_best,
            score_at_best,
            life_expected,
        })
    }

    /// Whether there are places for all drives: of the needs, at the controller, in so many `shelves` or in the server.
    fn has_places(&self, geometry: Geometry, shelves: u16) -> Result<(), Nearest> {
        let Request { needs, space, parts, .. } = self.request;
        let drive = &parts.drives[usize::from(geometry.drive)];
        let controller = &parts.controllers[usize::from(geometry.controller)];
        let drives = f64::from(geometry.members + geometry.spares);
        at_most(controller.ports.map(f64::from), drives, Rejection::Slots)?;
        at_most(needs.slots.map(f64::from), drives, Rejection::Slots)?;
        let own = if is_card(drive) { SERVER_CARDS } else { SERVER_BAYS };
        at_most(geometry.enclosure.is_none().then_some(own), drives, Rejection::Slots)?;
        // A host is one server.
        let is_server = enclosure_of(parts, geometry).is_some_and(|it| it.is_server);
        let shelves_max = if is_server { 1 } else { space.enclosures_max };
        at_most(Some(f64::from(shelves_max)), f64::from(shelves), Rejection::Slots)
    }

    /// How long drives are expected to last, if they may last as long as they must.
    fn lasts(&self, wear: Wear, shape: StripeShape, geometry: Geometry) -> Result<Life, Nearest> {
        let Some(years) = self.request.needs.years else { return Ok(Life::Endless) };
        match wear {
            Wear::None => Ok(Life::Endless),
            Wear::Unknown => Err((Rejection::LifeUnknown, 0.0)),
            Wear::Rated(rated) => {
                let at_best = years_at_best(rated, shape, geometry, self.written_per_day);
                at_least(years, at_best, Rejection::Endurance)?;
                let shares = self.request.demands.iter().map(|demand| demand.random_share);
                let written = (self.written_per_day, shares.fold(0.0, f64::max));
                Ok(Life::Years(years_expected(rated, shape, geometry, written)))
            }
        }
    }

    fn layout(&mut self, level: LevelVariant, members: u16) -> Option<LayoutFacts> {
        *self.layouts.entry((level, members)).or_insert_with(|| layout_facts(level, members))
    }
}

// Enough rows that what an odd last strip takes is nothing.
const ROWS: u64 = 1 << 20;

const fn spec(level: LevelVariant, members: u16) -> LayoutSpec {
    LayoutSpec { level, members, strip_blocks: BlockCount(1), member_blocks: BlockCount(ROWS) }
}

/// Checks that some array in `space` can be laid out.
///
/// # Errors
/// Why the first can't, where none can.
pub fn check_layouts(space: &Space) -> Result<(), LayoutError> {
    let counts = space.members_min.max(1)..=space.members_max;
    let layouts = space.levels.iter().flat_map(|level| counts.clone().map(|count| spec(*level, count)));
    let mut first = None;
    for spec in layouts {
        match sold_layout(&spec) {
            Ok(_) => return Ok(()),
            Err(error) => first = first.or(Some(error)),
        }
    }
    first.map_or(Ok(()), Err)
}

/// Strips of data in a stripe, and how many members' worth of data an array holds; none of one that can't be laid out.
pub fn data_held(level: LevelVariant, members: u16) -> Option<(u16, f64)> {
    let facts = layout_facts(level, members)?;
    Some((facts.shape.data_strips, facts.usable_members))
}

/// The layout, if Linux md and controllers make it: each span of RAID 60 is a RAID 6, of four members and more, which arithmetic does not
/// ask for.
fn sold_layout(spec: &LayoutSpec) -> Result<Box<dyn Layout>, LayoutError> {
    const LEAST: u16 = 4;
    let LayoutSpec { level: LevelVariant { level, spans, .. }, members, .. } = *spec;
    if level == Level::Raid60 && members < LEAST * spans {
        return Err(LayoutError::SpanMembers { level, members, spans, minimum: LEAST, maximum: 256 });
    }
    build_layout(spec)
}

fn layout_facts(level: LevelVariant, members: u16) -> Option<LayoutFacts> {
    let layout = sold_layout(&spec(level, members)).ok()?;
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
        if is_card(drive) {
            return takes(&drive.bus) && controller.places == DrivePlaces::Either;
        }
        return takes(&drive.bus)
            && controller.places != DrivePlaces::Enclosures
            && !needs_backplane(parts, drive, controller);
    };
    if matches!(controller.places, DrivePlaces::Server | DrivePlaces::Mainboard) {
        return false;
    }
    let enclosure = &parts.enclosures[usize::from(enclosure)];
    if controller.places == DrivePlaces::Enclosures && enclosure.is_server {
        return false;
    }
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

/// Bays of a server that is no entry of the catalogue, as many as usual ones of two rack units have. More drives are in shelves.
const SERVER_BAYS: f64 = 24.0;
/// Drives of M.2 that go onto a mainboard, or onto a card in one slot of 16 lanes.
const SERVER_CARDS: f64 = 4.0;

/// Whether a drive is a card that fits no bay.
fn is_card(drive: &DrivePart) -> bool {
    !drive.forms.is_empty() && drive.forms.iter().all(|form| *form == "M.2")
}

fn enclosure_of(parts: &PartList, geometry: Geometry) -> Option<&EnclosurePart> {
    geometry.enclosure.map(|index| &parts.enclosures[usize::from(index)])
}

/// Enclosures that the drives need.
fn shelves(parts: &PartList, geometry: Geometry) -> u16 {
    let drives = geometry.members + geometry.spares;
    geometry.enclosure.map_or(0, |enclosure| drives.div_ceil(parts.enclosures[usize::from(enclosure)].slots))
}

/// All parts of an array.
struct Bill<'a> {
    parts: &'a PartList,
    geometry: Geometry,
    shelves: u16,
}

impl Bill<'_> {
    fn drives(&self) -> u16 {
        self.geometry.members + self.geometry.spares
    }

    fn of_all(&self) -> (&DrivePart, &ControllerPart, Option<&EnclosurePart>) {
        let enclosure = self.geometry.enclosure.map(|index| &self.parts.enclosures[usize::from(index)]);
        let drive = &self.parts.drives[usize::from(self.geometry.drive)];
        (drive, &self.parts.controllers[usize::from(self.geometry.controller)], enclosure)
    }

    /// Drives, controllers and enclosures that are not there already.
    fn to_buy(&self) -> (u16, u16, u16) {
        let (drive, controller, enclosure) = self.of_all();
        let shelves = enclosure.map_or(0, |it| self.shelves.saturating_sub(it.owned));
        (self.drives().saturating_sub(drive.owned), u16::from(!controller.is_owned), shelves)
    }

    /// Sum of the prices of what is to be bought; none where one is not known.
    fn cost(&self) -> Option<f64> {
        let (drive, controller, enclosure) = self.of_all();
        self.sum([drive.price, controller.price, enclosure.and_then(|it| it.price)])
    }

    /// The same by prices whose ratios are usual.
    fn assumed_cost(&self) -> f64 {
        let (drive, controller, enclosure) = self.of_all();
        let prices = [assumed::drive(drive), assumed::controller(controller)].map(Some);
        let shelf = enclosure.map(assumed::enclosure);
        self.sum([prices[0], prices[1], shelf]).unwrap_or(f64::INFINITY)
    }

    /// Of what is to be bought, by the prices of a drive, a controller and an enclosure.
    fn sum(&self, prices: [Option<f64>; 3]) -> Option<f64> {
        let (drives, controllers, shelves) = self.to_buy();
        let of = |(count, price): (u16, Option<f64>)| match count {
            0 => Some(0.0),
            _ => price.map(|price| f64::from(count) * price),
        };
        [drives, controllers, shelves].into_iter().zip(prices).map(of).sum()
    }

    /// Sum of the powers; what is not known is taken to be as usual.
    fn watts(&self) -> f64 {
        let (drive, controller, enclosure) = self.of_all();
        let drives = drive.watts.unwrap_or_else(|| assumed::drive_watts(drive));
        let shelf = enclosure.map_or(0.0, |it| it.watts.unwrap_or_else(|| assumed::enclosure_watts(it)));
        f64::from(self.drives()) * drives
            + controller.watts.unwrap_or_else(|| assumed::controller_watts(controller))
            + f64::from(self.shelves) * shelf
    }
}

/// Parts of one kind that an array takes and that are not there already.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Purchase<'a> {
    /// How many.
    pub count: u16,
    /// Name in the catalogue.
    pub id: &'a str,
    /// Price of all of them, where it is known.
    pub price: Option<f64>,
    /// The same by usual ratios of prices, in the price of a terabyte of disk; 0 of software and of the bays of a server.
    pub assumed: f64,
}

impl PartList {
    /// Whether what arrays take is money: the price of all that is to be bought for any of `kept` is known. What is there already costs
    /// nothing, and says nothing of prices.
    pub fn has_priced(&self, kept: &[Kept]) -> bool {
        self.has_prices()
            && kept.iter().any(|one| one.cost.is_some() && !self.purchases(one.geometry).is_empty())
    }

    /// Whether the price of any part is known.
    pub fn has_prices(&self) -> bool {
        let drives = self.drives.iter().map(|it| it.price);
        let controllers = self.controllers.iter().map(|it| it.price);
        let all = drives.chain(controllers).chain(self.enclosures.iter().map(|it| it.price));
        all.flatten().next().is_some()
    }

    /// What has to be bought for an array.
    pub fn purchases(&self, geometry: Geometry) -> Vec<Purchase<'_>> {
        let bill = Bill { parts: self, geometry, shelves: shelves(self, geometry) };
        let (drives, controllers, enclosures) = bill.to_buy();
        let (drive, controller, enclosure) = (
            &self.drives[usize::from(geometry.drive)],
            &self.controllers[usize::from(geometry.controller)],
            enclosure_of(self, geometry),
        );
        let of = |count: u16, id, price: Option<f64>, assumed: f64| Purchase {
            count,
            id,
            price: price.map(|price| f64::from(count) * price),
            assumed: f64::from(count) * assumed,
        };
        let shelf = enclosure.map(|it| of(enclosures, &it.id, it.price, assumed::enclosure(it)));
        let all = [
            of(drives, &drive.id, drive.price, assumed::drive(drive)),
            of(controllers, &controller.id, controller.price, assumed::controller(controller)),
        ];
        all.into_iter().chain(shelf).filter(|it| it.count > 0).collect()
    }

    /// What the controller and one enclosure of an array cost, in money, or by usual ratios of prices; nothing what is there already.
    pub fn shared_cost(&self, geometry: Geometry, has_prices: bool) -> f64 {
        let controller = Some(&self.controllers[usize::from(geometry.controller)]).filter(|it| !it.is_owned);
        let enclosure = geometry.enclosure.map(|index| &self.enclosures[usize::from(index)]);
        let enclosure = enclosure.filter(|it| it.owned == 0);
        let costs = if has_prices {
            [controller.and_then(|it| it.price), enclosure.and_then(|it| it.price)]
        } else {
            [controller.map(assumed::controller), enclosure.map(assumed::enclosure)]
        };
        costs.into_iter().flatten().sum()
    }
}

/// A need from below.
fn at_least(need: f64, has: f64, reason: Rejection) -> Result<(), Nearest> {
    if has < need { Err((reason, has / need)) } else { Ok(()) }
}

/// A need from above.
fn at_most(limit: Option<f64>, has: f64, reason: Rejection) -> Result<(), Nearest> {
    match limit {
        Some(limit) if has > limit => Err((reason, limit / has)),
        _ => Ok(()),
    }
}

fn bound(limit: Option<f64>, value: Option<f64>, reasons: (Rejection, Rejection)) -> Result<(), Nearest> {
    match (limit, value) {
        (Some(_), None) => Err((reasons.0, 0.0)),
        (_, value) => at_most(limit, value.unwrap_or(0.0), reasons.1),
    }
}

impl Enumeration {
    /// Keeps how near a rejected array came, where it came nearer than others: the later the need that it fails at, and the more of
    /// that it has.
    fn note(&mut self, geometry: Geometry, nearest: Nearest) {
        fn keep<K: Ord>(all: &mut BTreeMap<K, Nearest>, key: K, nearest: Nearest) {
            let is_nearer = |old: &Nearest| nearest.0 > old.0 || (nearest.0 == old.0 && nearest.1 > old.1);
            match all.get_mut(&key) {
                Some(old) if !is_nearer(old) => {}
                Some(old) => *old = nearest,
                None => drop(all.insert(key, nearest)),
            }
        }
        keep(&mut self.nearest_levels, geometry.level, nearest);
        keep(&mut self.nearest_drives, geometry.drive, nearest);
        keep(&mut self.nearest_controllers, geometry.controller, nearest);
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
            Need::RackUnits => other.rack_units = None,
            Need::Life => other.years = None,
            Need::Degraded => other.keep_degraded = None,
            Need::Loss => other.loss_per_year = None,
        }
        other
    }
}
