//! `random_distribution=zoned` and `zoned_abs`: shares of the accesses, in whole percents, to shares of the space.

use super::values::{percent, size};
use raidlab_units::ByteCount;
use raidlab_workload::{AccessLine, Places, Zone};

/// Zones of either kind, or how they are written.
pub(super) fn zoned(
    (kind, figures): (&str, &str),
    lines: &[AccessLine],
    base: u64,
    places: &mut Places,
) -> Result<Vec<Zone>, String> {
    if figures.is_empty() {
        return Err(format!("it has no zones: write {kind}:ACCESSES/SPACE:..."));
    }
    if kind == "zoned" {
        return zones(figures).ok_or_else(|| "write zoned:50/5:30/15:20/80, in whole percents".into());
    }
    zones_in_bytes(figures, base, places, lines.iter().all(|line| line.random_pct == 100))
}

/// Reads `50/5:30/15:20/80`; a share that is left out is what is left.
fn zones(text: &str) -> Option<Vec<Zone>> {
    let mut zones = Vec::new();
    let (mut accesses, mut space) = (100.0, 100.0);
    for part in text.split(':') {
        let (first, second) = part.split_once('/').unwrap_or((part, ""));
        let share = |text: &str, left: f64| {
            if text.is_empty() { Some(left) } else { percent(text).ok().map(f64::from) }
        };
        let zone = Zone { accesses_pct: share(first, accesses)?, space_pct: share(second, space)? };
        accesses -= zone.accesses_pct;
        space -= zone.space_pct;
        zones.push(zone);
    }
    Some(zones)
}

/// Reads `50/1g:30/3g:20/16g`. What lies behind the last zone is asked for by none: it is left out of the places where nothing else goes there.
fn zones_in_bytes(text: &str, base: u64, places: &mut Places, all_random: bool) -> Result<Vec<Zone>, String> {
    let zone = |part: &str| {
        let (accesses, bytes) = part.split_once('/')?;
        Some((accesses.parse::<u8>().ok()?, size(bytes, base).ok()?))
    };
    let zones: Option<Vec<(u8, u64)>> = text.split(':').map(zone).collect();
    let zones = zones.ok_or("write zoned_abs:50/1g:30/3g:20/16g")?;
    let end = zones.iter().fold(0u64, |end, zone| end.saturating_add(zone.1));
    let whole = match places.size.map(ByteCount::get) {
        _ if end == 0 => return Err("it has no space: write zoned_abs:50/1g:30/3g:20/16g".into()),
        Some(whole) if end > whole => {
            return Err(format!(
                "its zones end after {end} bytes, and the file after {whole}: fio can't run it"
            ));
        }
        Some(whole) if places.working_set_pct >= 100.0 => whole,
        None if all_random && places.working_set_pct >= 100.0 => end,
        _ => return Err("what share of the file its zones are is not known: add size in bytes".into()),
    };
    places.size = Some(ByteCount(whole));
    let pct = |bytes: u64| bytes as f64 * 100.0 / whole as f64;
    let rest = (end < whole).then(|| Zone { accesses_pct: 0.0, space_pct: pct(whole - end) });
    let zone =
        |(accesses, bytes): &(u8, u64)| Zone { accesses_pct: f64::from(*accesses), space_pct: pct(*bytes) };
    Ok(zones.iter().map(zone).chain(rest).collect())
}

/// The zones as fio reads them, and whether they are the same: zones end at whole percents, and those that are too short for one belong to
/// the next.
pub(super) fn text(zones: &[Zone]) -> (String, bool) {
    let (mut accesses, mut space) = (0.0, 0.0);
    let mut given = (0, 0);
    let mut shares: Vec<(u32, u32)> = Vec::new();
    for zone in zones {
        (accesses, space) = (accesses + zone.accesses_pct, space + zone.space_pct);
        let end = (accesses.round() as u32, space.round() as u32);
        match shares.last_mut() {
            _ if end.1 > given.1 => shares.push((end.0 - given.0, end.1 - given.1)),
            Some(last) if given.1 >= 100 => last.0 += end.0 - given.0,
            _ => continue,
        }
        given = end;
    }
    let is_same = shares.len() == zones.len()
        && shares.iter().zip(zones).all(|((accesses, space), zone)| {
            f64::from(*accesses) == zone.accesses_pct && f64::from(*space) == zone.space_pct
        });
    let texts: Vec<String> = shares.iter().map(|(accesses, space)| format!("{accesses}/{space}")).collect();
    (format!("zoned:{}", texts.join(":")), is_same)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_whole_percents_that_add_up() {
        let zone = |(accesses_pct, space_pct)| Zone { accesses_pct, space_pct };
        let written = |shares: &[(f64, f64)]| text(&shares.iter().copied().map(zone).collect::<Vec<_>>());
        assert_eq!(written(&[(60.0, 10.0), (40.0, 90.0)]), ("zoned:60/10:40/90".into(), true));
        assert_eq!(
            written(&[(33.4, 10.2), (33.3, 45.3), (33.3, 44.5)]),
            ("zoned:33/10:34/46:33/44".into(), false)
        );
        assert_eq!(
            written(&[(50.0, 0.4), (10.0, 9.6), (39.5, 89.9), (0.5, 0.1)]),
            ("zoned:60/10:40/90".into(), false)
        );
        assert_eq!(zones("60/10:/").map(|zones| text(&zones).0).as_deref(), Some("zoned:60/10:40/90"));
        assert_eq!(
            zones("50.5/10:49.5/90"),
            None,
            "fio drops what follows the point, and refuses 99 percent"
        );
    }
}
