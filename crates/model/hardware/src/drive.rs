//! The one interface of every drive model, and the description a drive is made from.
//!
//! A world calls the four methods of [`Drive`] in this way: [`Drive::handle_request`] whenever it has a
//! request; then, and after every [`Drive::handle_deadline`], it empties [`Drive::poll_completion`] and asks
//! [`Drive::poll_deadline`] when to come back. Times never run backwards. Nothing is allocated for a command
//! once the queues have grown to the load.

use crate::catalog::{CatalogError, FigureSource, Section, from_keys};
use crate::faster::{FastClock, FasterPct};
use crate::hdd::{HardDrive, HardDriveModel, RestingWrites, ShingleModel, TwoArms};
use crate::link::LinkModel;
use crate::own::{OwnMachine, OwnModel};
use crate::reliability::Reliability;
use crate::sheet::SheetFigure;
use crate::ssd::{DriveCondition, FlashCounters, FlashDrive, FlashModel, SolidState, SolidStateModel};
use raidlab_units::{ByteCount, NanoSpan, Nanos};

/// Address of a 512-byte sector on a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sector(pub u64);

/// A number of 512-byte sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SectorCount(pub u64);

/// Bytes in a [`Sector`].
pub(crate) const SECTOR_BYTES: u64 = 512;

impl SectorCount {
    /// In bytes.
    #[inline]
    pub const fn bytes(self) -> ByteCount {
        ByteCount(self.0 * SECTOR_BYTES)
    }
}

/// What a drive is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveOp {
    /// From the media.
    Read,
    /// To the media.
    Write {
        /// Complete only when it is on the media.
        fua: bool,
    },
    /// Write the volatile cache out. Has no range.
    Flush,
    /// Forget what is in the range, which the host has no use for: trim, unmap, deallocate. Only for drives that know it
    /// ([`DriveModel::knows_trim`]).
    Trim,
}

/// One command to a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveRequest {
    /// The caller's name for it, given back with the completion.
    pub id: u32,
    /// What to do.
    pub op: DriveOp,
    /// First sector.
    pub start: Sector,
    /// Length; at least one but for [`DriveOp::Flush`].
    pub sectors: SectorCount,
}

/// A finished command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveCompletion {
    /// The caller's name for it.
    pub id: u32,
}

/// Where the time of a command in a drive went; what is left of it, it waited for its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveTimes {
    /// The arm moved for it.
    pub arm: NanoSpan,
    /// It waited for its sectors to come round, and they passed under the head.
    pub platters: NanoSpan,
    /// Dies worked for it: they sensed its page, or programmed what it had to see on flash.
    pub dies: NanoSpan,
    /// It waited for a die, or for room in the write buffer that programs make.
    pub dies_waiting: NanoSpan,
    /// A channel carried its page, which was corrected.
    pub channels: NanoSpan,
    /// It waited for the channel.
    pub channels_waiting: NanoSpan,
    /// Of the waiting for dies that program, the share that garbage collection has of what they program.
    pub collection: NanoSpan,
    /// Firmware, rate limits and interface, waiting for them included; all time of what the buffer answers.
    pub front: NanoSpan,
}

raidlab_units::named! {
    /// Shape of a drive, or of the place for one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum FormFactor {
        /// 3.5 inch.
        Large = "3.5 inch",
        /// 2.5 inch, U.2 and U.3 included.
        Small = "2.5 inch",
        /// SFF-TA-1006: a short ruler.
        E1S = "E1.S",
        /// SFF-TA-1008: the size of a 2.5 inch drive, with another plug.
        E3S = "E3.S",
        /// A card on the mainboard, which fits no bay.
        M2 = "M.2",
    }
}

/// What is inside.
#[derive(Clone, Debug, PartialEq)]
pub enum DriveKind {
    /// Rotating platters.
    HardDrive(Box<HardDriveModel>),
    /// Flash without a write buffer, its write amplification given.
    SolidState(SolidStateModel),
    /// Flash behind a write buffer and a translation layer.
    Flash(Box<FlashModel>),
}

/// A type of drive, as the catalogue describes it.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveModel {
    /// Name in the catalogue, `st3600057ss`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Shapes that it is sold in, which do the same; at least one.
    pub form_factors: Vec<FormFactor>,
    /// What it is plugged into, `SAS`, where the entry says so.
    pub bus: Option<String>,
    /// Year from which it was sold; none for what stands for a class.
    pub year: Option<u32>,
    /// Addressable sectors.
    pub capacity: SectorCount,
    /// The drive's link to what it is plugged into.
    pub interface: LinkModel,
    /// What is inside.
    pub kind: DriveKind,
    /// Power while working in watts, where a source is known.
    pub power_active_watts: Option<f64>,
    /// Power while idle in watts, where a source is known.
    pub power_idle_watts: Option<f64>,
    /// Acoustic power while idle in bels, where a source is known.
    pub noise_idle_bels: Option<f64>,
    /// Street price in US dollars, where a source is known.
    pub price_usd: Option<f64>,
    /// Bits read per unrecoverable read error, where a source is known.
    pub bits_per_read_error: Option<f64>,
    /// Annualized failure rate in percent, where a source is known.
    pub annual_failure_pct: Option<f64>,
    /// How long it tries to read a sector before it reports that it can't (ERC, TLER), where a source is known.
    pub recovery_limit: Option<NanoSpan>,
    /// What its data sheet says it does; nothing in the model reads this.
    pub sheet: Vec<SheetFigure>,
    /// How it fails.
    pub reliability: Reliability,
    /// Who says how long commands take instead of what is inside; nobody but where that is somebody's own.
    pub own: Option<OwnModel>,
    /// How much faster than that all of it is: zero but where it is asked what a faster one would do.
    pub faster: FasterPct,
    /// Every figure with its source.
    pub sources: Vec<FigureSource>,
}

/// How one drive is set up; the default is the drive as delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveOptions {
    /// Commands the drive holds at once, if not its own depth; 1 makes it first come, first served.
    pub queue_depth: Option<u32>,
    /// Whether the volatile write cache is on, if not as delivered.
    pub write_cache: Option<bool>,
}

/// A model of one drive, running in virtual time.
#[derive(Clone, Debug)]
pub struct Drive {
    capacity: SectorCount,
    machine: Machine,
}

#[derive(Clone, Debug)]
enum Machine {
    HardDrive(Box<HardDrive>),
    SolidState(Box<SolidState>),
    Flash(Box<FlashDrive>),
    Rare(Box<Rare>),
}

/// What is kept out of the way of all others.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "it is always boxed")]
enum Rare {
    TwoArms(TwoArms),
    Own(OwnMachine),
    Faster(FastClock, Machine),
}

impl Drive {
    /// A drive of this model, idle, its caches empty.
    pub fn new(model: &DriveModel, options: DriveOptions) -> Self {
        let machine = match (&model.own, &model.kind) {
            (Some(own), _) => Machine::Rare(Box::new(Rare::Own(OwnMachine::new(own)))),
            (None, DriveKind::HardDrive(hard)) => match hard.modern.actuators {
                None => Machine::HardDrive(Box::new(HardDrive::new(
                    hard,
                    model.capacity,
                    model.interface,
                    options,
                ))),
                Some(arms) => Machine::Rare(Box::new(Rare::TwoArms(TwoArms::new(
                    hard,
                    arms,
                    model.capacity,
                    model.interface,
                    options,
                )))),
            },
            (None, DriveKind::SolidState(solid)) => {
                Machine::SolidState(Box::new(SolidState::new(solid, model.interface, options)))
            }
            (None, DriveKind::Flash(flash)) => {
                Machine::Flash(Box::new(FlashDrive::new(flash, model.capacity, model.interface, options)))
            }
        };
        let machine = if model.faster == FasterPct::default() {
            machine
        } else {
            Machine::Rare(Box::new(Rare::Faster(FastClock::new(model.faster), machine)))
        };
        Self { capacity: model.capacity, machine }
    }

    /// Makes flash another one of its model, whose dies erase their blocks at other times; before the first command. Where a platter
    /// stands follows from the clock instead.
    pub fn stagger(&mut self, seed: u64) {
        if let Machine::Flash(drive) = &mut self.machine {
            drive.stagger(seed);
        }
    }

    /// Follows from now on where the time of commands goes; before the first of them. Whoever asks for this takes
    /// [`Drive::poll_times`] after each completion.
    pub fn follow_times(&mut self) {
        self.machine.follow_times();
    }

    /// Where the time of the command went whose completion was handed out last; all zero where that is not followed.
    pub fn poll_times(&mut self) -> DriveTimes {
        self.machine.poll_times().unwrap_or_default()
    }

    /// Addressable sectors.
    pub fn capacity(&self) -> SectorCount {
        self.capacity
    }

    /// Queues `request` at `now`. Its range must lie within the drive, and not be empty but for a flush.
    ///
    /// # Panics
    /// If the request reaches beyond the drive.
    #[inline]
    pub fn handle_request(&mut self, now: Nanos, request: DriveRequest) {
        assert!(
            request.start.0 + request.sectors.0 <= self.capacity.0,
            "sectors {}+{} are outside a drive of {} sectors",
            request.start.0,
            request.sectors.0,
            self.capacity.0
        );
        assert!(request.sectors.0 > 0 || request.op == DriveOp::Flush, "only a flush has no range");
        self.machine.handle_request(now, request);
    }

    /// When the drive next has something to do by itself, if it has.
    #[inline]
    pub fn poll_deadline(&self) -> Option<Nanos> {
        self.machine.poll_deadline()
    }

    /// Does what is due at `now`.
    #[inline]
    pub fn handle_deadline(&mut self, now: Nanos) {
        self.machine.handle_deadline(now);
    }

    /// What it has done to its flash; none for drives that do not follow it.
    pub fn flash_counters(&self) -> Option<FlashCounters> {
        self.machine.flash_counters()
    }

    /// Hands out the next finished command.
    #[inline]
    pub fn poll_completion(&mut self) -> Option<DriveCompletion> {
        self.machine.poll_completion()
    }
}

/// The methods of [`Drive`] by kind.
impl Machine {
    fn follow_times(&mut self) {
        match self {
            Self::HardDrive(drive) => drive.follow_times(),
            Self::SolidState(drive) => drive.follow_times(),
            Self::Flash(drive) => drive.follow_times(),
            Self::Rare(drive) => drive.follow_times(),
        }
    }

    fn poll_times(&mut self) -> Option<DriveTimes> {
        match self {
            Self::HardDrive(drive) => drive.poll_times(),
            Self::SolidState(drive) => drive.poll_times(),
            Self::Flash(drive) => drive.poll_times(),
            Self::Rare(drive) => drive.poll_times(),
        }
    }

    #[inline]
    fn handle_request(&mut self, now: Nanos, request: DriveRequest) {
        match self {
            Self::HardDrive(drive) => drive.handle_request(now, request),
            Self::SolidState(drive) => drive.handle_request(now, request),
            Self::Flash(drive) => drive.handle_request(now, request),
            Self::Rare(drive) => drive.handle_request(now, request),
        }
    }

    #[inline]
    fn poll_deadline(&self) -> Option<Nanos> {
        match self {
            Self::HardDrive(drive) => drive.poll_deadline(),
            Self::SolidState(drive) => drive.poll_deadline(),
            Self::Flash(drive) => drive.poll_deadline(),
            Self::Rare(drive) => drive.poll_deadline(),
        }
    }

    #[inline]
    fn handle_deadline(&mut self, now: Nanos) {
        match self {
            Self::HardDrive(drive) => drive.handle_deadline(now),
            Self::SolidState(drive) => drive.handle_deadline(now),
            Self::Flash(drive) => drive.handle_deadline(now),
            Self::Rare(drive) => drive.handle_deadline(now),
        }
    }

    #[inline]
    fn poll_completion(&mut self) -> Option<DriveCompletion> {
        match self {
            Self::HardDrive(drive) => drive.poll_completion(),
            Self::SolidState(drive) => drive.poll_completion(),
            Self::Flash(drive) => drive.poll_completion(),
            Self::Rare(drive) => drive.poll_completion(),
        }
    }

    fn flash_counters(&self) -> Option<FlashCounters> {
        match self {
            Self::Flash(drive) => Some(drive.counters()),
            Self::Rare(drive) => drive.flash_counters(),
            Self::HardDrive(_) | Self::SolidState(_) => None,
        }
    }
}

impl Rare {
    #[cold]
    fn follow_times(&mut self) {
        match self {
            Self::TwoArms(drive) => drive.follow_times(),
            Self::Own(_) => {}
            Self::Faster(_, machine) => machine.follow_times(),
        }
    }

    #[cold]
    fn poll_times(&mut self) -> Option<DriveTimes> {
        match self {
            Self::TwoArms(drive) => drive.poll_times(),
            Self::Own(_) => None,
            Self::Faster(_, machine) => machine.poll_times(),
        }
    }

    #[cold]
    fn handle_request(&mut self, now: Nanos, request: DriveRequest) {
        match self {
            Self::TwoArms(drive) => drive.handle_request(now, request),
            Self::Own(drive) => drive.handle_request(now, request),
            Self::Faster(clock, machine) => machine.handle_request(clock.own(now), request),
        }
    }

    #[cold]
    fn poll_deadline(&self) -> Option<Nanos> {
        match self {
            Self::TwoArms(drive) => drive.poll_deadline(),
            Self::Own(drive) => drive.poll_deadline(),
            Self::Faster(clock, machine) => machine.poll_deadline().map(|own| clock.world(own)),
        }
    }

    #[cold]
    fn handle_deadline(&mut self, now: Nanos) {
        match self {
            Self::TwoArms(drive) => drive.handle_deadline(now),
            Self::Own(drive) => drive.handle_deadline(now),
            Self::Faster(clock, machine) => machine.handle_deadline(clock.own(now)),
        }
    }

    #[cold]
    fn poll_completion(&mut self) -> Option<DriveCompletion> {
        match self {
            Self::TwoArms(drive) => drive.poll_completion(),
            Self::Own(drive) => drive.poll_completion(),
            Self::Faster(_, machine) => machine.poll_completion(),
        }
    }

    fn flash_counters(&self) -> Option<FlashCounters> {
        match self {
            Self::TwoArms(_) | Self::Own(_) => None,
            Self::Faster(_, machine) => machine.flash_counters(),
        }
    }
}

/// A drive has no translation layer, and therefore no condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("drive '{drive}' is as fast in every condition: only drives with a translation layer have one")]
pub struct NoCondition {
    /// Name in the catalogue.
    pub drive: String,
}

impl DriveModel {
    /// The same after what `condition` says was done to it.
    ///
    /// # Errors
    /// [`NoCondition`] for a drive that has none.
    pub fn in_condition(mut self, condition: DriveCondition) -> Result<Self, NoCondition> {
        match &mut self.kind {
            DriveKind::Flash(flash) => flash.condition = condition,
            DriveKind::HardDrive(_) | DriveKind::SolidState(_) => return Err(NoCondition { drive: self.id }),
        }
        Ok(self)
    }

    /// Has the drive begin with `writes` in its write cache where that is on; nothing changes where such a cache takes no time to fill.
    pub fn rest_writes(&mut self, writes: RestingWrites) {
        if let DriveKind::HardDrive(hard) = &mut self.kind
            && let Some(pool) = &mut hard.modern.pool
        {
            pool.resting = Some(writes);
        }
    }

    /// What was done to it before; none for a drive whose speed does not depend on it.
    pub fn condition(&self) -> Option<DriveCondition> {
        match &self.kind {
            DriveKind::Flash(flash) => Some(flash.condition),
            DriveKind::HardDrive(_) | DriveKind::SolidState(_) => None,
        }
    }

    /// Whether trims make a difference to it, as they do to drives with a translation layer. The hard drives here refuse them,
    /// and so do drives whose write amplification is given.
    pub fn knows_trim(&self) -> bool {
        matches!(self.kind, DriveKind::Flash(_))
    }

    /// Room for data beyond the capacity, as a share of it; none for drives whose translation layer is not followed.
    pub fn spare_room(&self) -> Option<f64> {
        match &self.kind {
            DriveKind::Flash(flash) => Some(flash.translation.spare_pct / 100.0),
            DriveKind::HardDrive(_) | DriveKind::SolidState(_) => None,
        }
    }

    /// Bits in a cell of its flash; the usual three where it does not tell.
    pub fn bits_per_cell(&self) -> u32 {
        match &self.kind {
            DriveKind::Flash(flash) => flash.cells.bits_per_cell,
            DriveKind::HardDrive(_) | DriveKind::SolidState(_) => 3,
        }
    }

    /// What people call its kind: `nvme`, `sata-ssd`, `sas-ssd`, `ssd` on another bus, `hdd`.
    pub fn class(&self) -> &'static str {
        match self.bus.as_deref() {
            _ if !self.is_flash() => "hdd",
            Some("NVMe") => "nvme",
            Some("SATA") => "sata-ssd",
            Some("SAS") => "sas-ssd",
            _ => "ssd",
        }
    }

    /// Whether there is flash inside.
    pub fn is_flash(&self) -> bool {
        !matches!(self.kind, DriveKind::HardDrive(_))
    }

    /// What a loss of power takes of acknowledged writes where the write cache is on: zero where the drive has none, or keeps it
    /// alive until it is written.
    pub fn volatile_cache(&self) -> ByteCount {
        match &self.kind {
            DriveKind::HardDrive(hard) => match hard.modern.pool {
                Some(pool) if pool.protected => ByteCount(0),
                Some(pool) => pool.size,
                // As the drive's memory is divided where nothing is said of its write cache.
                None => ByteCount(hard.buffer.size.0 / 2),
            },
            DriveKind::SolidState(_) => ByteCount(0),
            DriveKind::Flash(flash) if flash.buffer.protected => ByteCount(0),
            DriveKind::Flash(flash) => flash.buffer.size,
        }
    }

    /// Whether the host has to write each zone in sequence, because the drive does not see to it: no member of an array.
    pub fn is_host_managed(&self) -> bool {
        match &self.kind {
            DriveKind::HardDrive(hard) => matches!(hard.modern.shingles, Some(ShingleModel::Host { .. })),
            DriveKind::Flash(flash) => flash.zone.is_some(),
            DriveKind::SolidState(_) => false,
        }
    }

    /// Reads the rest of a drive's file.
    pub(crate) fn read(mut root: Section<'_>, id: &str, kind: &str) -> Result<Self, CatalogError> {
        let name = root.text("name")?;
        let form_factors = FormFactor::read_all(&mut root)?;
        let bus = root.optional_text("bus")?;
        let capacity = SectorCount(root.figure("capacity_sectors")?);
        root.refuse_if(capacity.0 == 0, "capacity_sectors", "above zero")?;
        let interface = LinkModel::read(root.section("interface")?)?;
        let inside = if kind == "hard-drive" {
            DriveKind::HardDrive(Box::new(HardDriveModel::read(&mut root, capacity)?))
        } else if root.has("translation") {
            DriveKind::Flash(Box::new(FlashModel::read(&mut root, capacity)?))
        } else {
            DriveKind::SolidState(SolidStateModel::read(&mut root)?)
        };
        let sheet = root.optional_section("sheet")?;
        let sheet = sheet.map(|sheet| SheetFigure::read_all(sheet, &inside)).transpose()?;
        let model = from_keys!(root, Self {
            id = id.into(), name = name, form_factors = form_factors, bus = bus, year: optional_figure,
            capacity = capacity, interface = interface, kind = inside,
            power_active_watts: optional_figure, power_idle_watts: optional_figure,
            noise_idle_bels: optional_figure, price_usd: optional_figure,
            bits_per_read_error: optional_figure, annual_failure_pct: optional_figure,
            recovery_limit: optional_figure,
            sheet = sheet.unwrap_or_default(),
            reliability = root
                .optional_section("reliability")?
                .map(Reliability::read)
                .transpose()?
                .unwrap_or_default(),
            own = None, faster = FasterPct::default(), sources = root.figures(),
        });
        root.finish(model)
    }
}

impl FormFactor {
    /// Reads the `form_factor` of a place.
    pub(crate) fn read(root: &mut Section<'_>) -> Result<Self, CatalogError> {
        let text = root.text("form_factor")?;
        Self::named(&text)
            .ok_or_else(|| root.bad_value("form_factor", "\"3.5 inch\", \"2.5 inch\", \"E1.S\" or \"E3.S\""))
    }

    /// Reads the `form_factor` of a drive: one or more, with commas between them.
    fn read_all(root: &mut Section<'_>) -> Result<Vec<Self>, CatalogError> {
        let text = root.text("form_factor")?;
        let all: Option<Vec<Self>> = text.split(',').map(|one| Self::named(one.trim())).collect();
        let allowed = "\"3.5 inch\", \"2.5 inch\", \"E1.S\" or \"E3.S\", more than one with commas";
        all.ok_or_else(|| root.bad_value("form_factor", allowed))
    }
}
