//! Solves for a drive's inside, one figure of the sheet after the other, by measuring the model.
//!
//! The order matters: what a later figure decides does not move an earlier one by much, and all are measured at the end.

use super::bench::{Load, run};
use super::layout::{lay_out, set_transfer_ns, transfer_ns};
use super::slc::solve_cache;
use super::{Sheet, SheetError, SheetInterface, SheetKind, sectors};
use raidlab_hardware::{
    CapModel, Catalog, CellModel, DriveHistory, DriveKind, DriveModel, FlashModel, FrontModel, LinkModel,
    SectorCount, SheetConditions, SheetMetric,
};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

/// Bytes of a request of the sheet's sequential figures.
const SEQUENTIAL_BYTES: u64 = 131_072;

/// Data that a die of the class holds: 512 Gbit.
const DIE_BYTES: f64 = 64e9;

/// Dies for each one that random reads keep busy, since chance does not keep all busy at once.
const DIES_PER_BUSY: f64 = 1.7;

/// The spare room that is looked for, in percent.
const SPARE_PCT: (f64, f64) = (2.0, 200.0);

/// How much faster programs are than an interface that hides their rate.
pub(super) const HIDDEN_ROOM: f64 = 1.1;

/// What a hypervisor's cap lets pass at once after a pause.
const CAP_BURST: NanoSpan = NanoSpan(5_000_000);

/// How many more short reads the interface has to carry than the sheet tells of.
const SHORT_ROOM: f64 = 1.03;

/// Steps of fixed-point iterations.
pub(super) const REFINEMENTS: usize = 4;

/// Steps in looking for the spare room, and how near to the rate is near enough, as a share of it.
const SEARCHES: usize = 12;
const CLOSE: f64 = 0.005;

/// The class with what was solved for, before it is written down.
#[derive(Clone, Debug)]
pub(super) struct Solved {
    pub(super) model: DriveModel,
    /// Random writes decided the spare room, and not the time of a program.
    pub(super) spare_is_fitted: bool,
    /// Latency decided the time of the class's pages, which are too slow for it.
    pub(super) pages_are_fitted: bool,
    /// Its inside is in proportion to its reads (`layout`).
    pub(super) is_in_proportion: bool,
}

impl Solved {
    /// The sheet of what is behind a pseudo-SLC cache: what whole rows do.
    pub(super) fn programmed(sheet: &Sheet) -> Sheet {
        match sheet.slc {
            None => sheet.clone(),
            Some(slc) => Sheet {
                seq_write: Some(slc.sustained),
                write_iops: None,
                write_latency: None,
                slc: None,
                ..sheet.clone()
            },
        }
    }

    pub(super) fn flash(&self) -> &FlashModel {
        of_flash(&self.model)
    }

    pub(super) fn flash_mut(&mut self) -> &mut FlashModel {
        let DriveKind::Flash(flash) = &mut self.model.kind else {
            unreachable!("classes have a translation layer")
        };
        flash
    }

    pub(super) fn measure(&self, load: &Load) -> f64 {
        run(&self.model, load).commands_per_sec
    }
}

pub(super) fn of_flash(model: &DriveModel) -> &FlashModel {
    let DriveKind::Flash(flash) = &model.kind else { unreachable!("classes have a translation layer") };
    flash
}

/// The figures that a sheet can have, and what each is measured with.
struct Loads {
    seq_write: Load,
    read: Load,
    write: Load,
    read_alone: Load,
    write_alone: Load,
}

impl Loads {
    fn of(class: &DriveModel, sheet: &Sheet) -> Self {
        let load = |metric| Load::new(class, metric, conditions(sheet, metric));
        Self {
            seq_write: load(SheetMetric::SeqWrite),
            read: load(SheetMetric::RandomRead),
            write: load(SheetMetric::RandomWrite),
            read_alone: load(SheetMetric::ReadLatency),
            write_alone: load(SheetMetric::WriteLatency),
        }
    }
}

/// How a figure of `sheet` is measured.
pub(super) fn conditions(sheet: &Sheet, metric: SheetMetric) -> SheetConditions {
    // Sheets name depths of 64 to 512 where they name any.
    let deep = if sheet.kind == SheetKind::SataSsd { 32 } else { 512 };
    let is_read = matches!(metric, SheetMetric::SeqRead | SheetMetric::RandomRead | SheetMetric::ReadLatency);
    let is_sequential = metric.is_sequential();
    let in_order = is_sequential || sheet.is_measured && metric != SheetMetric::RandomWrite;
    // Sheets of client drives tell what an empty one does.
    let is_fresh = sheet.slc.is_some() && !is_read;
    let short = match metric {
        SheetMetric::RandomWrite => sheet.write_block,
        _ if is_read => sheet.read_block,
        _ => ByteCount(4096),
    };
    SheetConditions {
        block: if is_sequential { ByteCount(SEQUENTIAL_BYTES) } else { short },
        iodepth: match metric {
            SheetMetric::RandomRead => deep,
            SheetMetric::RandomWrite => deep.min(128),
            _ if metric.is_time() => 1,
            _ => 32,
        },
        read_pct: if is_read { 100 } else { 0 },
        span_pct: 100,
        streams: 1,
        history: Some(match (is_fresh, in_order) {
            (true, _) => DriveHistory::Fresh,
            (_, true) => DriveHistory::Sequential,
            _ => DriveHistory::default(),
        }),
        write_cache: None,
    }
}

/// Solves for what `sheet` gives.
pub(super) fn solve(catalog: &Catalog, class: &DriveModel, sheet: &Sheet) -> Result<Solved, SheetError> {
    let behind = Solved::programmed(sheet);
    let mut solved = solve_programmed(catalog, class, &behind)?;
    let Some(cache) = &sheet.slc else { return Ok(solved) };
    let loads = Loads::of(class, sheet);
    solve_cache(&mut solved, sheet, cache, &loads.seq_write, &loads.write);
    if let Some(latency) = sheet.write_latency {
        solve_write_latency(&mut solved, latency, &loads.write_alone);
    }
    Ok(solved)
}

/// The same without a pseudo-SLC cache.
fn solve_programmed(catalog: &Catalog, class: &DriveModel, sheet: &Sheet) -> Result<Solved, SheetError> {
    let loads = Loads::of(class, sheet);
    let mut model = class.clone();
    model.capacity = SectorCount(sectors(sheet.capacity));
    if let DriveKind::Flash(flash) = &mut model.kind {
        flash.cells.bits_per_cell = sheet.bits_per_cell.unwrap_or(flash.cells.bits_per_cell);
        flash.translation.unit = sheet.unit.unwrap_or(flash.translation.unit);
        flash.caps = CapModel::default();
    }
    set_interface(catalog, &mut model, sheet)?;
    let is_capped = sheet.is_capped();
    let is_in_proportion = sheet.kind == SheetKind::Nvme && !is_capped;
    let iops = sheet.read_iops.filter(|_| is_in_proportion);
    let mut solved =
        Solved { model, spare_is_fitted: false, pages_are_fitted: false, is_in_proportion: iops.is_some() };
    let link = solved.model.interface.rate;
    let is_hidden = hides_programs(sheet, link);
    if let Some(iops) = iops {
        let usual = || NanoSpan(run(class, &loads.read_alone).response_ns_median as u64);
        let alone = sheet.read_latency.unwrap_or_else(usual);
        lay_out(solved.flash_mut(), iops, alone, sheet.seq_write);
        for _ in 0..2 {
            solve_read_latency(&mut solved, alone, &loads.read_alone);
            solve_transfers(&mut solved, iops, &loads.read);
        }
        solve_read_latency(&mut solved, alone, &loads.read_alone);
    } else if !is_behind_cap(sheet) {
        place_dies(solved.flash_mut(), sheet);
    }
    match sheet.seq_write {
        _ if is_capped => cap(&mut solved, sheet),
        Some(rate) if is_hidden => solved.flash_mut().caps.write_rate = Some(rate),
        Some(rate) => solve_programs(&mut solved, rate, &loads.seq_write),
        None => {}
    }
    if let Some(latency) = sheet.read_latency.filter(|_| !solved.is_in_proportion) {
        solve_read_latency(&mut solved, latency, &loads.read_alone);
    }
    if let Some(iops) = sheet.read_iops.filter(|_| !solved.is_in_proportion && !is_capped) {
        solve_commands(&mut solved, iops, &loads.read, |front| &mut front.read_command);
    }
    if is_hidden {
        solve_hidden_programs(&mut solved, sheet, &loads);
    } else if let Some(iops) = sheet.write_iops {
        solve_spare(&mut solved, iops, &loads.write);
    }
    if let Some(latency) = sheet.write_latency {
        solve_write_latency(&mut solved, latency, &loads.write_alone);
    }
    // The firmware's time per read is a part of its latency.
    if let Some(latency) =
        sheet.read_latency.filter(|_| sheet.read_iops.is_some() && !solved.is_in_proportion)
    {
        solve_read_latency(&mut solved, latency, &loads.read_alone);
    }
    Ok(solved)
}

/// Whether an interface of this rate hides what the flash could write in sequence.
pub(super) fn hides_programs(sheet: &Sheet, interface: BytesPerSec) -> bool {
    sheet.seq_write.is_some_and(|rate| rate.0 > 0.9 * interface.0)
}

/// The link with its lanes, at the rate that makes the sheet's sequential reads.
fn set_interface(catalog: &Catalog, model: &mut DriveModel, sheet: &Sheet) -> Result<(), SheetError> {
    let usual = match sheet.kind {
        SheetKind::Nvme => ("pcie-4", 4),
        SheetKind::SataSsd => ("sata-6g", 1),
        SheetKind::SasSsd => ("sas-12g", 2),
    };
    let usual = SheetInterface { link: usual.0.to_owned(), lanes: usual.1 };
    let interface = sheet.interface.clone().unwrap_or(usual);
    let standard = catalog.link(&interface.link)?;
    let lanes = f64::from(interface.lanes);
    if let DriveKind::Flash(flash) = &mut model.kind {
        // Each lane of SAS is a port with connections of its own.
        flash.front.ports = if sheet.kind == SheetKind::SasSsd { interface.lanes.into() } else { 1 };
    }
    let ports = of_flash(model).front.ports;
    model.interface.per_transfer = standard.usual.per_transfer;
    model.interface.rate = BytesPerSec(standard.usual.rate.0 * lanes);
    // What is capped goes through the link at the link's own rate.
    if let Some(given) = sheet.seq_read.filter(|rate| !sheet.is_capped() || rate.0 > model.interface.rate.0) {
        let on_one_port = SEQUENTIAL_BYTES as f64 * f64::from(ports);
        let each = on_one_port / given.0 - standard.usual.per_transfer.as_secs_f64();
        let most = standard.wire.0 * lanes;
        let rate = on_one_port / each;
        if each <= 0.0 || rate > most {
            let (given, predicted) = (given.0 / 1e6, most / 1e6);
            return Err(SheetError::OutOfReach { figure: "seq_read_mb_per_s", given, predicted });
        }
        model.interface.rate = BytesPerSec(rate.round());
        let short = sheet.read_block.0 as f64 * f64::from(ports);
        let shorts_per_sec = 1.0 / (short / rate + standard.usual.per_transfer.as_secs_f64());
        if sheet.read_iops.is_some_and(|iops| iops * SHORT_ROOM > shorts_per_sec) {
            // Short reads fill the interface as well as long ones: a transfer takes no time beside its bytes.
            model.interface = LinkModel { rate: given, per_transfer: NanoSpan::ZERO };
        }
    }
    Ok(())
}

/// As many dies as the capacity takes, or as random reads and programs keep busy.
fn place_dies(flash: &mut FlashModel, sheet: &Sheet) {
    let of_capacity = sheet.capacity.0 as f64 * (1.0 + flash.translation.spare_pct / 100.0) / DIE_BYTES;
    let cells = &mut flash.cells;
    let read_secs = cells.read_fast.as_secs_f64().midpoint(cells.read_slow.as_secs_f64());
    let reading = sheet.read_iops.map_or(0.0, |iops| iops * read_secs * DIES_PER_BUSY);
    let programming = sheet.seq_write.map_or(1.0, |rate| rate.0 / rate_of_one(cells));
    let dies = of_capacity.max(reading).max(programming * 1.2).ceil().clamp(4.0, 4096.0) as u32;
    cells.channels = cells.channels.min(dies);
    cells.dies_per_channel = dies.div_ceil(cells.channels);
    let dies = cells.dies();
    cells.programs_at_once = cells.programs_at_once.min(dies);
    cells.parity_every = (dies - 1).min(cells.parity_every);
}

/// Rate at which one die programs.
fn rate_of_one(cells: &CellModel) -> f64 {
    CellModel { programs_at_once: 1, ..*cells }.program_rate().0
}

fn solve_programs(solved: &mut Solved, rate: BytesPerSec, load: &Load) {
    provide_programs(solved, rate);
    for _ in 0..REFINEMENTS - 1 {
        let ratio = solved.measure(load) * load.conditions.block.0 as f64 / rate.0;
        let cells = &mut solved.flash_mut().cells;
        cells.program = scaled(cells.program, ratio);
    }
}

fn solve_read_latency(solved: &mut Solved, latency: NanoSpan, load: &Load) {
    for _ in 0..REFINEMENTS {
        let seen = run(&solved.model, load).response_ns_median;
        let flash = solved.flash_mut();
        let wanted = flash.front.read_latency.0 as f64 + latency.0 as f64 - seen;
        flash.front.read_latency = NanoSpan(wanted.max(0.0) as u64);
        if wanted < 0.0 {
            // Less than the class's pages take: they are faster. What a hypervisor caches takes no channel of flash either.
            let is_capped = flash.caps.burst > NanoSpan::ZERO;
            let cells = &mut flash.cells;
            let transfer = if is_capped { cells.channel.per_transfer.0 as f64 } else { 0.0 };
            let pages = f64::midpoint(cells.read_fast.0 as f64, cells.read_slow.0 as f64) + transfer;
            let ratio = ((pages + wanted) / pages).clamp(0.1, 1.0);
            cells.read_fast = scaled(cells.read_fast, ratio);
            cells.read_slow = scaled(cells.read_slow, ratio);
            if is_capped {
                cells.channel.per_transfer = scaled(cells.channel.per_transfer, ratio);
            }
            solved.pages_are_fitted = true;
        }
    }
}

/// Time on the channel with which the drive does `iops`. Where its commands are too few for that, it takes more.
fn solve_transfers(solved: &mut Solved, iops: f64, load: &Load) {
    for _ in 0..2 * REFINEMENTS {
        let ratio = solved.measure(load) / iops;
        if (ratio - 1.0).abs() < CLOSE {
            return;
        }
        let flash = solved.flash_mut();
        let wanted_ns = transfer_ns(&flash.cells) * ratio;
        set_transfer_ns(&mut flash.cells, wanted_ns);
        if transfer_ns(&flash.cells) > wanted_ns + 1.0 {
            flash.front.queue_depth += flash.front.queue_depth / 8 + 1;
        }
    }
}

/// What the hypervisor lets through; the drive behind it is that of its class, and quick enough.
fn cap(solved: &mut Solved, sheet: &Sheet) {
    let caps = &mut solved.flash_mut().caps;
    caps.burst = CAP_BURST;
    (caps.read_iops, caps.write_rate) = (sheet.read_iops, sheet.seq_write);
    (caps.write_iops, caps.read_rate) = (sheet.write_iops, sheet.seq_read);
    (caps.iops, caps.rate) = (sheet.shared.iops, sheet.shared.rate);
    (caps.credits, caps.burst_iops) = (sheet.shared.credits, sheet.shared.burst_iops);
    if let Some(rate) = sheet.seq_write.filter(|_| !is_behind_cap(sheet)) {
        provide_programs(solved, BytesPerSec(rate.0 * HIDDEN_ROOM));
    }
}

/// Whether what a cap lets through is a part of an `NVMe` drive of the class, which is whole behind it.
fn is_behind_cap(sheet: &Sheet) -> bool {
    sheet.kind == SheetKind::Nvme && sheet.is_capped()
}

/// The firmware's time per command, which `of` names, where commands wait for nothing else.
pub(super) fn solve_commands(
    solved: &mut Solved,
    iops: f64,
    load: &Load,
    of: fn(&mut FrontModel) -> &mut NanoSpan,
) {
    let cores = f64::from(solved.flash().front.cores);
    *of(&mut solved.flash_mut().front) = NanoSpan((cores / iops * 1e9) as u64);
    for _ in 0..REFINEMENTS {
        let ratio = solved.measure(load) / iops;
        let command = of(&mut solved.flash_mut().front);
        *command = scaled(*command, ratio);
    }
}

/// Programs behind an interface that hides their rate: with the class's spare room they decide random writes, unless they were
/// too slow for sequential ones then.
fn solve_hidden_programs(solved: &mut Solved, sheet: &Sheet, loads: &Loads) {
    let Some(rate) = sheet.seq_write else { return };
    let enough = BytesPerSec(rate.0 * HIDDEN_ROOM);
    let Some(iops) = sheet.write_iops else { return provide_programs(solved, enough) };
    for _ in 0..2 * REFINEMENTS {
        let ratio = solved.measure(&loads.write) / iops;
        let cells = &mut solved.flash_mut().cells;
        cells.program = scaled(cells.program, ratio);
    }
    if solved.measure(&loads.seq_write) * (SEQUENTIAL_BYTES as f64) < 0.985 * rate.0 {
        provide_programs(solved, enough);
        solve_spare(solved, iops, &loads.write);
    }
}

/// Makes programs take `rate`, by the arithmetic of the model.
fn provide_programs(solved: &mut Solved, rate: BytesPerSec) {
    let is_in_proportion = solved.is_in_proportion;
    let cells = &mut solved.flash_mut().cells;
    if !is_in_proportion {
        let wanted = (rate.0 / rate_of_one(cells)).ceil();
        cells.programs_at_once = wanted.clamp(1.0, f64::from(cells.dies())) as u32;
    }
    cells.program = scaled(cells.program, cells.program_rate().0 / rate.0);
}

/// Looks for the spare room with which random writes are as fast as the sheet's.
fn solve_spare(solved: &mut Solved, iops: f64, load: &Load) {
    solved.spare_is_fitted = true;
    // The firmware must not be in the way.
    let front = &mut solved.flash_mut().front;
    let most = NanoSpan((f64::from(front.cores) / iops * 0.5e9) as u64);
    front.write_command = front.write_command.min(most);
    // Spare room and rate as logarithms, in which they are nearly in proportion.
    let mut ends = [(SPARE_PCT.0.ln(), f64::NEG_INFINITY), (SPARE_PCT.1.ln(), f64::INFINITY)];
    let mut seen = 0.0;
    for _ in 0..SEARCHES {
        let [(low, below), (high, above)] = ends;
        let part = if (above - below).is_finite() { -below / (above - below) } else { 0.5 };
        let middle = low + (high - low) * part.clamp(0.05, 0.95);
        solved.flash_mut().translation.spare_pct = (middle.exp() * 100.0).round() / 100.0;
        seen = (solved.measure(load) / iops).ln();
        if seen.abs() < CLOSE {
            return;
        }
        ends[usize::from(seen > 0.0)] = (middle, seen);
    }
    if look_around(solved, iops, load, ends[0].0) {
        return;
    }
    let too_fast = seen.exp();
    if too_fast > 1.02 {
        // With hardly any spare room it is still faster than the sheet: its firmware is what limits it.
        let front = &mut solved.flash_mut().front;
        front.write_command = NanoSpan((f64::from(front.cores) / iops * 1e9) as u64);
    }
}

/// Tries spare rooms near `middle`, a logarithm: what garbage collection moves jumps a little with the number of superblocks.
fn look_around(solved: &mut Solved, iops: f64, load: &Load, middle: f64) -> bool {
    if middle <= SPARE_PCT.0.ln() {
        return false;
    }
    for step in 1..=SEARCHES {
        for side in [-1.0, 1.0] {
            let near = middle + side * step as f64 * CLOSE;
            solved.flash_mut().translation.spare_pct = (near.exp() * 100.0).round() / 100.0;
            if (solved.measure(load) / iops).ln().abs() < 2.0 * CLOSE {
                return true;
            }
        }
    }
    solved.flash_mut().translation.spare_pct = (middle.exp() * 100.0).round() / 100.0;
    false
}

fn solve_write_latency(solved: &mut Solved, latency: NanoSpan, load: &Load) {
    for _ in 0..2 {
        let seen = run(&solved.model, load).response_ns_median;
        let front = &mut solved.flash_mut().front;
        let wanted = front.write_latency.0 as f64 + latency.0 as f64 - seen;
        front.write_latency = NanoSpan(wanted.max(0.0) as u64);
    }
}

pub(super) fn scaled(span: NanoSpan, ratio: f64) -> NanoSpan {
    NanoSpan(((span.0 as f64 * ratio) as u64).max(1))
}
