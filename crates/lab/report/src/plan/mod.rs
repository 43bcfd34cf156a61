//! A plan in tables, cards and words, which the page and the terminal share.
//!
//! A figure that rests on what somebody estimated or fitted of the parts has the mark `~`.

mod tiers;
mod words;

pub(crate) use tiers::tiers;
pub(crate) use words::{account, needs, score};

use crate::document::{Block, Card, Choice, Column, Fact, Table};
use crate::figures::{size, three_digits};
use raidlab_advisor::Bound;
use raidlab_advisor::plan::{Margins, Needs, Performance};
use raidlab_planning::{Alternative, PlanOutcome, Planned};
use raidlab_worlds::Estimates;

/// What the mark means.
const MARK_MEANS: &str = "~ marks what rests on estimated or fitted figures of the parts; the first reason counts them, --json names them.";

/// Some of the best arrays, who they are for, and what their prices are in.
#[derive(Clone, Copy)]
pub(crate) struct Best<'a> {
    pub(crate) arrays: &'a [&'a Planned],
    pub(crate) applications: &'a [&'a str],
    pub(crate) needs: &'a Needs,
    pub(crate) currency: &'a str,
}

/// Names of the applications of a plan.
pub(crate) fn applications(outcome: &PlanOutcome) -> Vec<&str> {
    outcome.applications.iter().map(|app| &app.name[..]).collect()
}

/// Which figures of an array rest on estimates: those that are simulated where any part's times or rates do, and what is worked out from
/// them with other figures where any of these do, too. Sums of what sheets say do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Estimated {
    /// Rates, latencies and the time of a rebuild.
    speed: bool,
    /// The chance of data loss: the rebuild takes its time.
    loss: bool,
    /// How long drives last: their flash takes what was simulated.
    life: bool,
}

impl Estimated {
    /// By the keys of the estimated figures of an array's parts.
    fn of(estimates: &[Estimates]) -> Self {
        const LIFE: &str = "reliability.rated_writes";
        let any = |is: &dyn Fn(&str) -> bool| estimates.iter().flat_map(|it| &it.keys).any(|key| is(key));
        let is_reliability = |key: &str| key.starts_with("reliability.");
        let speed = any(&|key| !is_reliability(key) && !key.starts_with("sheet."));
        Self {
            speed,
            loss: speed || any(&|key| is_reliability(key) && key != LIFE),
            life: speed || any(&|key| key == LIFE),
        }
    }

    /// The least margin in percent.
    fn least_margin(self, it: &Margins) -> String {
        let Self { speed, loss, life } = self;
        let all = [
            (Some(it.usable), false),
            (it.throughput, speed),
            (it.latency, speed),
            (it.degraded, speed),
            (it.life, life),
            (it.loss, loss),
            (it.budget, false),
            // Nobody says how much all parts take.
            (it.power, true),
            (it.rack_units, false),
        ];
        let known = all.into_iter().filter_map(|(margin, is_estimated)| Some((margin?, is_estimated)));
        let least = known.min_by(|a, b| a.0.total_cmp(&b.0));
        least.map_or("-".to_owned(), |(margin, is_estimated)| {
            marked(three_digits(100.0 * margin), is_estimated)
        })
    }
}

/// A figure, with the mark if it is an estimate.
fn marked(figure: String, is_estimated: bool) -> String {
    if is_estimated && figure != "-" { format!("~{figure}") } else { figure }
}

fn known(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), three_digits)
}

/// Number, level and members of an array.
fn short_name(index: usize, one: &Planned) -> String {
    let geometry = one.judged.geometry;
    let spares = if geometry.spares > 0 { format!("+{}", geometry.spares) } else { String::new() };
    format!("{} RAID {} x{}{spares}", index + 1, geometry.level, geometry.members)
}

/// Years until the first application has used up what may be written to the drives.
fn shortest_life(one: &Planned) -> Option<f64> {
    one.drive_life.iter().flatten().map(|life| life.years).reduce(f64::min)
}

/// Figures of an application: requests, bytes, latency and requests in flight.
fn figures(it: &Performance, is_estimated: bool) -> [String; 5] {
    let figure = |value: f64| marked(three_digits(value), is_estimated);
    // What comes by itself, or is held to a rate, seldom has as many in flight as it may.
    let in_flight = it.iops * it.lat_ns_mean / 1e9;
    let is_full = in_flight > 0.9 * f64::from(it.iodepth);
    [
        figure(it.iops),
        figure(it.bytes_per_sec / 1e6),
        figure(it.lat_ns_mean / 1e6),
        figure(it.tail.lat_ns_p99 as f64 / 1e6),
        if is_full { it.iodepth.to_string() } else { figure(in_flight) },
    ]
}

const FAULTS: [&str; 2] = ["Degraded", "Rebuilding"];

const FIGURES: [&str; 5] = ["IOPS", "MB/s", "Mean ms", "p99 ms", "Depth"];

impl Best<'_> {
    fn each(&self) -> impl Iterator<Item = (usize, &Planned)> {
        self.arrays.iter().copied().enumerate()
    }

    /// What the mark means, if any figure has it.
    pub(crate) fn marks(&self) -> Option<Block> {
        let none = Estimated { speed: false, loss: false, life: false };
        let has_marks = self.each().any(|(_, one)| Estimated::of(&one.estimates) != none);
        has_marks.then(|| Block::paragraph(MARK_MEANS))
    }

    /// Which arrays there are, and what each is shown for.
    pub(crate) fn parts(&self) -> Table {
        let row = |(index, one): (usize, &Planned)| {
            // More than two would be a list.
            let roles: Vec<&str> = one.roles.iter().take(2).map(|role| role.name()).collect();
            let adds = one.adds.as_deref().unwrap_or("-").to_owned();
            let parts = &one.parts;
            vec![
                short_name(index, one),
                parts.drive.clone(),
                parts.controller.clone(),
                roles.join(", "),
                adds,
            ]
        };
        let mut columns = ["Array", "Drives", "Controller", "Shown for"].map(Column::text).to_vec();
        // On a terminal it stands with the reasons.
        columns.push(Column::text("To add").detail());
        Table::new("The best arrays", columns).section(self.each().map(row)).without_empty_columns()
    }

    /// What each application gets.
    pub(crate) fn service(&self) -> Table {
        let several = self.applications.len() > 1;
        let any_misses = self.each().any(|(_, one)| !one.keeps_needs);
        let mut columns = ["Array", "Application", "Needs"].map(Column::text).to_vec();
        columns.extend(FIGURES.into_iter().chain(["Alone"]).map(Column::number));
        let rows = |(index, one): (usize, &Planned)| {
            let speed = Estimated::of(&one.estimates).speed;
            let of_app = |(app, it): (usize, &Performance)| {
                // Of several its own: what else is missed is the array's.
                let is_kept = if several { self.needs.are_kept_for(app, it) } else { one.keeps_needs };
                let kept = match is_kept {
                    _ if !any_misses => "-",
                    true => "kept",
                    false => "missed",
                };
                let name = if several { self.applications[app] } else { "-" };
                let mut row = vec![short_name(index, one), name.to_owned(), kept.to_owned()];
                row.extend(figures(it, speed));
                row.push(marked(known(one.alone.get(app).map(|it| it.iops)), speed));
                row
            };
            one.judged.performance.iter().enumerate().map(of_app).collect::<Vec<_>>()
        };
        let table = Table::new("What each application gets", columns);
        self.each().fold(table, |table, one| table.section(rows(one))).without_empty_columns()
    }

    /// What each application gets with a member missing, and while it is rebuilt; a table of its own, or a page would have to be scrolled
    /// sideways.
    pub(crate) fn faults(&self) -> Table {
        let several = self.applications.len() > 1;
        let mut columns = ["Array", "Application"].map(Column::text).to_vec();
        let bounded = self.bounded();
        for fault in FAULTS {
            columns.extend([Column::number(fault), Column::number(format!("{fault} ms"))]);
        }
        for bound in &bounded {
            let name = |fault| Column::number(format!("{fault} {} ms", bound.figure_name()));
            columns.extend(FAULTS.map(name));
        }
        let rows = |(index, one): (usize, &Planned)| {
            let speed = Estimated::of(&one.estimates).speed;
            let of_app = |app: usize| {
                let name = if several { self.applications[app] } else { "-" };
                let mut row = vec![short_name(index, one), name.to_owned()];
                let faults = [&one.degraded, &one.rebuilding].map(|list| list.get(app));
                for fault in faults {
                    row.push(marked(known(fault.map(|it| it.iops)), speed));
                    row.push(marked(known(fault.map(|it| it.lat_ns_mean / 1e6)), speed));
                }
                for bound in &bounded {
                    let figure =
                        |fault: Option<&Performance>| known(fault.map(|it| bound.figure_in(it) / 1e6));
                    row.extend(faults.map(|fault| marked(figure(fault), speed)));
                }
                row
            };
            (0..one.degraded.len()).map(of_app).collect::<Vec<_>>()
        };
        let table = Table::new("What is left with a member missing, and while it is rebuilt", columns);
        let sections = self.each().map(rows).filter(|rows| !rows.is_empty());
        sections.fold(table, Table::section).without_empty_columns()
    }

    /// The first bound on each figure of latency but the mean that any application needs.
    fn bounded(&self) -> Vec<&Bound> {
        let own = self.needs.own.iter().flat_map(|own| &own.latency);
        let mut bounds: Vec<&Bound> = Vec::new();
        for bound in self.needs.latency.iter().chain(own).filter(|it| !it.is_on_mean()) {
            if bounds.iter().all(|it| it.figure_name() != bound.figure_name()) {
                bounds.push(bound);
            }
        }
        bounds
    }

    /// What an array costs; where no price is known, how many times as much as the first by usual ratios.
    fn cost(&self, one: &Planned) -> String {
        let first = self.arrays[0].judged.assumed_cost;
        match one.judged.cost {
            _ if one.is_owned => "owned".to_owned(),
            Some(cost) => format!("{} {}", three_digits(cost), self.currency),
            None if self.arrays.iter().all(|it| it.judged.cost.is_none()) && first > 0.0 => {
                format!("~{:.2} x", one.judged.assumed_cost / first)
            }
            // Nothing to be multiplied: in prices of a terabyte of disk.
            None if self.arrays.iter().all(|it| it.judged.cost.is_none() || it.is_owned) => {
                format!("~{} TB of disk", three_digits(one.judged.assumed_cost))
            }
            None => "-".to_owned(),
        }
    }

    /// What an array holds, risks and takes.
    pub(crate) fn worth(&self) -> Table {
        let header = ["Array", "Margin %", "TB", "Survives", "Rebuild h", "Loss/year", "Years", "Cost", "W"];
        let row = |index: usize, one: &Planned| {
            let estimated = Estimated::of(&one.estimates);
            let Estimated { speed, loss, life } = estimated;
            vec![
                short_name(index, one),
                estimated.least_margin(&one.margins),
                three_digits(one.judged.usable_bytes / 1e12),
                one.judged.survives_always.to_string(),
                marked(known(one.rebuild_hours), speed),
                one.risk.map_or("-".to_owned(), |risk| marked(format!("{:.1e}", risk.per_year), loss)),
                marked(known(shortest_life(one)), life),
                self.cost(one),
                format!("~{}", three_digits(one.judged.watts)),
            ]
        };
        let table = Table::plain("What each array holds, risks and takes", &header, 1);
        self.each()
            .fold(table, |table, (index, one)| table.section([row(index, one)]))
            .without_empty_columns()
    }

    /// Each array with its settings, and why it stands where it stands.
    pub(crate) fn cards(&self) -> Block {
        let choice = |(index, one): (usize, &Planned)| {
            let kept = if one.keeps_needs { "keeps all needs" } else { "misses a need" };
            let roles = one.roles.iter().map(|role| role.name());
            // That of the first stands above all.
            let adds = one.adds.iter().filter(|_| index > 0).map(|adds| format!("To add: {adds}."));
            Choice {
                kicker: std::iter::once(kept).chain(roles).collect::<Vec<_>>().join(", "),
                title: format!("{}. {}", index + 1, one.label),
                settings: one.settings_label.clone(),
                facts: self.facts(one),
                reasons: adds.chain(one.reason.lines().map(str::to_owned)).collect(),
            }
        };
        let card = |choice: Choice| Card { title: None, choices: vec![choice] };
        Block::Cards(self.each().map(choice).map(card).collect())
    }

    fn facts(&self, one: &Planned) -> Vec<Fact> {
        let margin = |value: Option<f64>| value.map(|value| format!("{:+.0} %", 100.0 * value));
        let Estimated { speed, loss, life } = Estimated::of(&one.estimates);
        let (margins, judged) = (one.margins, &one.judged);
        let known = [
            ("usable", Some(format!("{} TB", three_digits(judged.usable_bytes / 1e12)))),
            ("survives", Some(judged.survives_always.to_string())),
            (
                "rebuild under load",
                one.rebuild_hours.map(|hours| marked(format!("{} h", three_digits(hours)), speed)),
            ),
            ("data loss in a year", one.risk.map(|risk| marked(format!("{:.1e}", risk.per_year), loss))),
            ("bytes lost in a year", one.risk.map(|risk| marked(size(risk.bytes_per_year()), loss))),
            (
                "drives last",
                shortest_life(one).map(|years| marked(format!("{} years", three_digits(years)), life)),
            ),
            (
                "cost",
                match judged.cost {
                    _ if one.is_owned => Some("owned".to_owned()),
                    cost => cost.map(|cost| format!("{} {}", three_digits(cost), self.currency)),
                },
            ),
            ("power", Some(format!("~{} W", three_digits(judged.watts)))),
            ("margin: capacity", margin(Some(margins.usable))),
            ("throughput", margin(margins.throughput).map(|text| marked(text, speed))),
            ("latency", margin(margins.latency).map(|text| marked(text, speed))),
            ("budget", margin(margins.budget)),
            ("power bound", margin(margins.power).map(|text| marked(text, true))),
        ];
        known.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}

/// Why not another level, other drives, another controller, each in a line; none where nothing else was looked at.
pub(crate) fn why_not(outcome: &PlanOutcome) -> Option<Table> {
    let columns = vec![
        Column::text(""),
        // It wraps, or the page had to be scrolled for the last column.
        Column::prose("Nearest"),
        Column::number("IOPS"),
        Column::number("p99 ms"),
        Column::prose("Why not"),
    ];
    let row = |one: &Alternative| {
        let figure = |of: &dyn Fn(&Performance) -> f64| known(one.performance.as_ref().map(of));
        let nearest = one.array.as_deref().map_or("-", |label| label.split(',').next().unwrap_or(label));
        vec![
            one.name.clone(),
            nearest.replace(" of ", " "),
            figure(&|it| it.iops),
            figure(&|it| it.tail.lat_ns_p99 as f64 / 1e6),
            one.verdict.clone(),
        ]
    };
    let kinds = outcome.alternatives.chunk_by(|a, b| a.kind == b.kind);
    let table = Table::new("Why not another array", columns);
    let table = kinds.fold(table, |table, kind| table.section(kind.iter().map(row)));
    (!table.is_empty()).then(|| table.without_empty_columns())
}

/// The same as sentences, for where a table would be too wide.
pub(crate) fn why_not_words(outcome: &PlanOutcome) -> Vec<String> {
    let words = |one: &Alternative| {
        let nearest = one.array.as_deref().and_then(|label| label.split(',').next());
        let figures = one.performance.as_ref().map(|it| {
            let p99_ms = three_digits(it.tail.lat_ns_p99 as f64 / 1e6);
            format!(", {} requests/s, p99 {p99_ms} ms", three_digits(it.iops))
        });
        let array = nearest.map(|label| format!(" ({label}{})", figures.unwrap_or_default()));
        format!("{}: {}{}", one.name, one.verdict, array.unwrap_or_default())
    };
    outcome.alternatives.iter().map(words).collect()
}

#[cfg(test)]
mod tests {
    use super::{Estimated, Estimates, Margins};

    #[test]
    fn the_mark_stands_at_what_rests_on_estimates() {
        let told = |key: &str| {
            let part = Estimates { part: "a-drive".into(), keys: vec![key.into()], ranged: 0, figures: 9 };
            let Estimated { speed, loss, life } = Estimated::of(&[part]);
            (speed, loss, life)
        };
        assert_eq!(told("flash.program"), (true, true, true), "both are worked out from what is simulated");
        assert_eq!(told("reliability.sheet_afr_pct"), (false, true, false));
        assert_eq!(told("reliability.rated_writes"), (false, false, true));
        assert_eq!(told("sheet.random_read"), (false, false, false));
    }

    /// 15 % more space than was needed had the mark of the rates.
    #[test]
    fn an_exact_margin_has_no_mark() {
        let estimated = Estimated { speed: true, loss: true, life: true };
        let of = |usable, throughput| {
            estimated.least_margin(&Margins { usable, throughput: Some(throughput), ..Margins::default() })
        };
        assert_eq!([of(0.15, 0.4), of(0.4, 0.15)], ["15.0", "~15.0"]);
    }
}
