//! A plan of up to two arrays in one enclosure: the answer, what each application gets, then array by array.

use super::{Best, Estimated, FIGURES, figures, known, marked, words};
use crate::document::{Block, Column, Table};
use raidlab_planning::{Missing, Placement, PlanOrder, Planned, SearchEnd, Tier, TiersOutcome};
use raidlab_units::counted;

/// The answer with all that supports it.
pub(crate) fn tiers(outcome: &TiersOutcome, order: &PlanOrder<'_>) -> Vec<Block> {
    let best = outcome.best();
    let answer = match best {
        Some(one) if one.arrays.len() == 1 => {
            format!("Best: one array for all, {}", takes(one, outcome, order))
        }
        Some(two) => format!("Best: two arrays in one enclosure, {}", takes(two, outcome, order)),
        None => "Nothing that was looked at keeps all needs.".to_owned(),
    };
    let mut blocks = vec![Block::Heading(answer)];
    let tiers = || best.iter().flat_map(|best| &best.arrays).enumerate();
    for (index, tier) in tiers() {
        let text =
            format!("{}. {}, for {}", index + 1, tier.planned.label, names(outcome, &tier.applications));
        blocks.push(Block::Paragraph { text: text.into(), indent: 3 });
    }
    blocks.push(Block::paragraph(format!("Needs: {}.", words::needs(order))));
    blocks.extend(best.map(|best| Block::table(everyone(best, outcome))));
    let arrays: Vec<&Planned> = tiers().map(|(_, tier)| &tier.planned).collect();
    let all =
        Best { arrays: &arrays, applications: &[], needs: &order.needs, currency: &order.prices.currency };
    blocks.extend(all.marks());
    if !arrays.is_empty() {
        blocks.extend([all.cards(), Block::table(all.worth())]);
    }
    blocks.extend(account(outcome, order).into_iter().map(Block::paragraph));
    blocks
}

/// What each application gets of its array, and with all others at work.
fn everyone(best: &Placement, outcome: &TiersOutcome) -> Table {
    let mut columns = vec![Column::text("Application")];
    columns.extend(["Array"].into_iter().chain(FIGURES).chain(["Alone"]).map(Column::number));
    let mut rows = Vec::new();
    for (index, Tier { applications, planned }) in best.arrays.iter().enumerate() {
        let is_estimated = Estimated::of(&planned.estimates).speed;
        for (place, app) in applications.iter().enumerate() {
            let mut row = vec![outcome.applications[*app].name.clone(), (index + 1).to_string()];
            row.extend(figures(&best.performance[*app], is_estimated));
            row.push(marked(known(planned.alone.get(place).map(|it| it.iops)), is_estimated));
            rows.push(row);
        }
    }
    Table::new("What each application gets", columns).section(rows).without_empty_columns()
}

fn names(outcome: &TiersOutcome, apps: &[usize]) -> String {
    apps.iter().map(|app| &outcome.applications[*app].name[..]).collect::<Vec<_>>().join(" and ")
}

/// What a placement takes.
fn takes(placement: &Placement, outcome: &TiersOutcome, order: &PlanOrder<'_>) -> String {
    let drives = counted(placement.drives, "drive");
    if !placement.effort.is_finite() {
        format!("{drives}, without a known price")
    } else if outcome.has_prices {
        format!("{drives}, {:.0} {}", placement.effort, order.prices.currency).trim_end().to_owned()
    } else {
        drives
    }
}

/// What else was found, sentence by sentence.
fn account(outcome: &TiersOutcome, order: &PlanOrder<'_>) -> Vec<String> {
    let mut lines = Vec::new();
    let label = |placement: &Placement| {
        let each = placement.arrays.iter().map(|tier| tier.planned.label.as_str());
        each.collect::<Vec<_>>().join(" and ")
    };
    let is_two = outcome.best().is_some_and(|best| best.arrays.len() == 2);
    lines.push(match (&outcome.one, is_two) {
        (Some(one), true) => {
            format!("One array for all takes {}: {}.", takes(one, outcome, order), label(one))
        }
        (None, true) => "No single array that was looked at keeps the needs of all.".to_owned(),
        (Some(_), false) => "No two arrays that were looked at keep the needs of all for less.".to_owned(),
        (None, false) => "Neither one array nor two that were looked at keep the needs of all.".to_owned(),
    });
    lines.extend(outcome.nearest.iter().map(nearest));
    let best = outcome.best();
    lines
        .extend(best.iter().flat_map(|best| &best.arrays).flat_map(|tier| words::md_settings(&tier.planned)));
    for search in &outcome.searches {
        let apps = names(outcome, &search.applications);
        let end = match search.end {
            SearchEnd::Proven => "it is complete".to_owned(),
            SearchEnd::Time => {
                format!("--search-time ended it with {} that could be better", search.left_out)
            }
            SearchEnd::Simulations => {
                format!("--simulations ended it with {} that could be better", search.left_out)
            }
        };
        lines.push(format!(
            "Search for {apps}: {} left by arithmetic, {}; {end}.",
            counted(search.kept, "array"),
            counted(search.simulated, "run")
        ));
        lines.extend(search.nearest.iter().map(nearest));
    }
    lines
}

/// What came nearest, and what it misses.
fn nearest(it: &Missing) -> String {
    let verb = if it.arrays.len() == 1 { "misses" } else { "miss" };
    format!(
        "Nothing keeps the needs; nearest: {}, which {verb} {}.",
        it.arrays.join(" and "),
        it.misses.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A search that found nothing left nothing to go on with.
    #[test]
    fn what_came_nearest_is_told_with_what_it_misses() {
        let arrays = vec!["RAID 1 x2 of a-drive, md".to_owned(), "RAID 5 x8 of a-disk, md".to_owned()];
        let one = Missing { arrays: arrays[..1].to_vec(), misses: vec!["latency by 30 %".to_owned()] };
        assert!(nearest(&one).ends_with("nearest: RAID 1 x2 of a-drive, md, which misses latency by 30 %."));
        let two = Missing { arrays, ..one };
        assert!(nearest(&two).contains("a-drive, md and RAID 5 x8") && nearest(&two).contains("which miss "));
    }
}
