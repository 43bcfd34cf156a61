//! Drives with a pseudo-SLC cache: the sheet's writes go into the cache of an empty drive; the flash behind it writes
//! at the sustained rate.

use super::bench::Load;
use super::solve::{REFINEMENTS, Solved, scaled, solve_commands};
use super::{Sheet, SheetCache};
use raidlab_hardware::{SlcModel, WhenFull};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

/// How much sooner than the fastest page of all bits one of a single bit is sensed.
const READ_SHARE: f64 = 0.8;

/// The time of a program into the cache, and the firmware's of a write, with which `sheet` is met.
pub(super) fn solve_cache(
    solved: &mut Solved,
    sheet: &Sheet,
    cache: &SheetCache,
    seq_write: &Load,
    write: &Load,
) {
    let link = solved.model.interface.rate;
    let rate = sheet.seq_write.unwrap_or(cache.sustained);
    let is_hidden = rate.0 > 0.9 * link.0;
    let flash = solved.flash_mut();
    if is_hidden {
        flash.caps.write_rate = Some(rate);
    }
    let cells = &flash.cells;
    let row = f64::from(cells.planes) * cells.page.0 as f64;
    let load_ns = cells.channel.transfer_time(cells.page).0 as f64 * f64::from(cells.planes);
    let wanted = if is_hidden { rate.0 * super::solve::HIDDEN_ROOM } else { rate.0 };
    let each_ns = f64::from(cells.programs_at_once) * row / wanted * 1e9;
    flash.slc = Some(SlcModel {
        static_size: cache.fixed,
        dynamic_size: ByteCount(cache.size.0.saturating_sub(cache.fixed.0)),
        dynamic_until_pct: 100.0,
        when_full: WhenFull::Direct,
        program: NanoSpan((each_ns - load_ns).max(1e3) as u64),
        read: scaled(cells.read_fast, READ_SHARE),
    });
    if !is_hidden {
        refine_programs(solved, rate, seq_write);
    }
    if let Some(iops) = sheet.write_iops {
        // Writes that go to the cache wait for nothing but the firmware.
        solve_commands(solved, iops, write, |front| &mut front.write_command);
    }
}

fn refine_programs(solved: &mut Solved, rate: BytesPerSec, load: &Load) {
    for _ in 0..2 * REFINEMENTS {
        let ratio = solved.measure(load) * load.conditions.block.0 as f64 / rate.0;
        if let Some(slc) = &mut solved.flash_mut().slc {
            slc.program = scaled(slc.program, ratio);
        }
    }
}
