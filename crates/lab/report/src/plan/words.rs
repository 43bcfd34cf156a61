//! Needs, what was considered and left out, and which needs must give, in words.

use raidlab_advisor::Bound;
use raidlab_advisor::plan::{Need, Needs, OwnNeeds, Rejection, Relaxation};
use raidlab_hardware::DriveHistory;
use raidlab_planning::reliability::CHECK_DAYS;
use raidlab_planning::{
    Application, PlanOrder, PlanOutcome, Planned, Prices, SearchEnd, SimulatedArray, default_history,
};
use raidlab_units::{ByteCount, NanoSpan, counted, three_digits};

/// From this factor on a reader wonders why a degraded array is faster than a whole one.
const DOUBTFUL_GAIN: f64 = 1.02;
/// From here on a reader wonders why a rebuild takes longer than `risk` has it.
const DOUBTFUL_DELAY: f64 = 1.1;
/// From here on a reader wonders why a rebuild takes so long: three days.
const SLOW_REBUILD_HOURS: f64 = 72.0;

/// What is ranked, with its unit.
pub(crate) fn score(order: &PlanOrder<'_>) -> String {
    match order.applications {
        [only] => format!("{} in {}", only.workload.name(), only.workload.metric.unit()),
        several if order.together => {
            format!("product of the {} applications' figures, together", several.len())
        }
        several => format!("product of the {} applications' figures", several.len()),
    }
}

/// The needs in one sentence.
pub(crate) fn needs(order: &PlanOrder<'_>) -> String {
    let (needs, currency) = (&order.needs, &order.prices.currency);
    let failures = match needs.survive {
        0 => "no failure need be survived".to_owned(),
        1 => "any failed drive survived".to_owned(),
        several => format!("any {several} failed drives survived"),
    };
    let of_each = if order.applications.len() > 1 { " of each application" } else { "" };
    let of_load = |app: &Application| format!("{} ({})", app.workload.name(), app.accesses());
    let loads: Vec<String> = order.applications.iter().map(of_load).collect();
    let usable = format!("{} for {}", usable(needs), loads.join(" and "));
    let mut parts = vec![usable, failures];
    parts.extend(needs.iops.map(|iops| format!("{} requests/s{of_each}", rate(iops))));
    parts.extend(needs.bytes_per_sec.map(|rate| format!("{:.0} MB/s", rate / 1e6)));
    parts.extend(needs.latency.iter().map(Bound::to_string));
    parts.extend(order.applications.iter().zip(&needs.own).filter_map(|(app, own)| own_needs(app, own)));
    if order.together {
        parts.push(format!("{} applications at the same time", order.applications.len()));
    }
    parts.extend(needs.budget.map(|budget| format!("at most {budget} {currency}")));
    parts.extend(needs.power_watts.map(|watts| format!("at most {watts} W")));
    parts.extend(needs.slots.map(|slots| format!("at most {}", counted(slots, "drive"))));
    parts.extend(needs.loss_per_year.map(|share| {
        format!("any data lost in a year with a chance of {} % at most", (share * 1e4).round() / 100.0)
    }));
    parts.extend(needs.rack_units.map(|units| format!("at most {units} rack units")));
    parts.extend(needs.years.map(|years| format!("drives last {years} years")));
    parts.extend(needs.mean_iops.map(|iops| format!("{iops} requests/s on average")));
    let per_day = needs.written_per_day.map(|bytes| ByteCount(bytes as u64).decimal());
    let how = if needs.written_in_sequence { " in sequence" } else { "" };
    parts.extend(per_day.map(|size| format!("{size} written a day{how}")));
    parts.extend(
        needs.keep_degraded.map(|share| {
            format!("{:.0} % of the throughput left while degraded or rebuilding", 100.0 * share)
        }),
    );
    let mut text = parts.join(", ");
    if !needs.wants_cheapest() {
        text += "; the fastest is the best (--goal cheapest: the cheapest)";
    } else if !needs.wants_rate() {
        text += "; no throughput is needed, so the cheapest is the best (--goal fastest: the fastest)";
    }
    text
}

/// The capacity, and what it grew from.
fn usable(needs: &Needs) -> String {
    let grown = needs.growth.map(|growth| {
        let today = terabytes(ByteCount((needs.usable.0 as f64 / growth.times()).round() as u64));
        format!(" ({today} TB today, {} % more each year for {} years)", growth.pct_per_year, growth.years)
    });
    format!("{} TB usable{}", terabytes(needs.usable), grown.unwrap_or_default())
}

/// As it was asked for, to a gigabyte; of what is more than a thousand terabytes, whole ones.
fn terabytes(size: ByteCount) -> String {
    let value = size.0 as f64 / 1e12;
    if value >= 1e3 {
        return format!("{value:.0}");
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// What one application needs besides.
fn own_needs(app: &Application, own: &OwnNeeds) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(own.usable.map(|size| format!("{} TB", terabytes(size))));
    parts.extend(own.iops.map(|iops| format!("{} requests/s", rate(iops))));
    parts.extend(own.bytes_per_sec.map(|rate| format!("{:.0} MB/s", rate / 1e6)));
    parts.extend(own.latency.iter().map(Bound::to_string));
    (!parts.is_empty()).then(|| format!("{} for {}", parts.join(" and "), app.workload.name()))
}

/// Requests per second: whole where they are many.
fn rate(iops: f64) -> String {
    if iops >= 10.0 { format!("{iops:.0}") } else { format!("{iops:.2}") }
}

/// What was looked at and left out, sentence by sentence.
pub(crate) fn account(outcome: &PlanOutcome, order: &PlanOrder<'_>) -> Vec<String> {
    let mut lines: Vec<String> = outcome.relaxations.iter().map(|it| relaxation(it, order)).collect();
    if !outcome.fits() {
        lines.insert(0, "Nothing that was looked at keeps all needs.".to_owned());
    }
    lines.push(format!(
        "{}, {} of them rejected by arithmetic in {}; {} left, {} of them simulated, in {}.",
        counted(outcome.candidates, "candidate"),
        outcome.rejected.values().sum::<u64>(),
        whole_seconds(outcome.arithmetic_secs),
        counted(outcome.kept, "array"),
        outcome.others.len(),
        counted(outcome.simulated, "run"),
    ));
    lines.push(searched(outcome));
    let rejected = outcome.rejected.iter().map(|(reason, count)| format!("{count} {reason}"));
    let rejected: Vec<String> = rejected.collect();
    if !rejected.is_empty() {
        lines.push(format!("Rejected: {}.", rejected.join(", ")));
    }
    if !outcome.misfits.is_empty() {
        lines.push(format!("No controller or enclosure to choose from takes {}.", listed(&outcome.misfits)));
    }
    if outcome.rejected.contains_key(&Rejection::Volatile) {
        lines.push(
            "Settings that lose acknowledged writes with the power were not tried: --allow-volatile does."
                .to_owned(),
        );
    }
    lines.extend(assumed(outcome, order));
    if let Some(first) = outcome.top.first() {
        lines.extend(md_settings(first));
    }
    lines.extend(prices(outcome, order.prices));
    let effort = outcome.effort();
    let efficient = outcome.pareto.iter().filter(|point| point.is_efficient);
    let mut efficient: Vec<_> = efficient.filter_map(|point| Some((point.effort?, point.index))).collect();
    efficient.sort_by(|a, b| a.0.total_cmp(&b.0));
    // One array alone is compared with nothing.
    if !efficient.is_empty() && outcome.others.len() > 1 {
        lines.push(front_of(outcome));
        for (value, index) in efficient {
            let SimulatedArray { label, settings_label, .. } = &outcome.others[index];
            lines.push(format!("- {label}, {settings_label} ({effort} {}).", three_digits(value)));
        }
    }
    lines.extend(with_faults(outcome));
    lines
}

/// What the list of arrays below it is.
fn front_of(outcome: &PlanOutcome) -> String {
    format!(
        "Of the {} that were simulated, faster than any of less {} (the Pareto front):",
        counted(outcome.others.len() as u64, "array"),
        outcome.effort()
    )
}

/// How arrays are compared by what they cost, where that is not known of all.
fn prices(outcome: &PlanOutcome, prices: &Prices) -> Option<String> {
    if !outcome.has_prices {
        let (why, advice) = if prices.are_given() {
            ("No array has a price for each of its parts", "")
        } else {
            ("No prices were given", " --prices takes yours.")
        };
        return Some(format!(
            "{why}: what arrays cost is compared by usual ratios of prices (a terabyte of disk 1, of flash 6; docs/planning.md).{advice}"
        ));
    }
    // Speed is looked at first where the fastest is the best, and a price only among equals.
    let rule = if outcome.needs.wants_cheapest() {
        "ranked after all that have one, and may take less"
    } else {
        "ranked by speed as all others, and after those that are as fast and have one"
    };
    (!outcome.unpriced.is_empty()).then(|| {
        format!(
            "Without a price, {rule}: arrays with {}. The price file sets prices; 0 is one, too.",
            listed(&outcome.unpriced)
        )
    })
}

/// The first of `names`, and how many more there are.
fn listed(names: &[String]) -> String {
    const MOST: usize = 8;
    let first = names[..names.len().min(MOST)].join(", ");
    match names.len().saturating_sub(MOST) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// What a reader may doubt of the figures with a member missing and of the time of its rebuild.
fn with_faults(outcome: &PlanOutcome) -> Vec<String> {
    let is_faster = |one: &&Planned| {
        let both = one.judged.performance.iter().zip(&one.degraded);
        both.into_iter().any(|(whole, degraded)| degraded.iops > DOUBTFUL_GAIN * whole.iops)
    };
    let mut lines = Vec::new();
    if outcome.top.iter().any(|one| is_faster(&one)) {
        lines.push(
            "Degraded may be faster than whole: what was on the missing member is not written, and writes in its \
             place are what a load of writes waits for."
                .to_owned(),
        );
    }
    let differing = outcome.top.iter().find_map(|one| {
        let both = one.rebuild_hours.zip(one.rebuild_hours_by_drive);
        both.filter(|(simulated, by_drive)| *simulated > DOUBTFUL_DELAY * by_drive).map(|both| (one, both))
    });
    if let Some((one, (simulated, by_drive))) = differing {
        lines.push(format!(
            "Times of rebuilds are simulated beside the load: each slice of a rebuild first waits for the requests under way, and goes no \
             faster than the array recomputes. That of {} takes {} h; 'raidlab risk' has {} h, for it counts the drive alone.",
            one.label,
            three_digits(simulated),
            three_digits(by_drive)
        ));
    }
    let is_slow = |hours: f64| hours > SLOW_REBUILD_HOURS;
    for one in outcome.top.iter().filter(|one| one.rebuild_hours.is_some_and(is_slow)) {
        lines.push(format!(
            "{}: a rebuild takes {:.0} days. It has 30 % of the time beside a load that never ends; it is faster when the load is \
             lower.",
            one.label,
            one.rebuild_hours.unwrap_or_default() / 24.0
        ));
    }
    if outcome.top.iter().any(|one| one.risk.is_some()) {
        lines.push(format!(
            "Chances of loss count a check of all every {CHECK_DAYS} days and a replacement within a day; 'raidlab risk' takes others."
        ));
    }
    lines
}

/// How Linux md is to be set on an array, and what its defaults would cost.
pub(super) fn md_settings(first: &Planned) -> Vec<String> {
    let Some(md) = &first.md else { return Vec::new() };
    let mut lines = vec![format!("Linux md of {} (names of devices are yours):", first.label)];
    lines.extend(md.lines.iter().map(|line| format!("- {line}")));
    if md.lines.iter().any(|line| line.contains("/sys/")) {
        lines.push("What is written to /sys is gone after a restart: a rule of udev or a unit of systemd writes it again.".to_owned());
    }
    if let Some(memory) = md.memory {
        lines.push(format!("Its stripe cache takes {memory} of memory."));
    }
    if let Some(defaults) = &md.defaults {
        let rates: Vec<String> = defaults.performance.iter().map(|it| three_digits(it.iops)).collect();
        let needs = match (defaults.keeps_needs, defaults.members) {
            (true, _) => "which keeps the needs, too".to_owned(),
            (false, Some(members)) => {
                format!("and {members} drives would be needed instead of {}", first.judged.geometry.members)
            }
            (false, None) => "too few with any number of these drives".to_owned(),
        };
        lines.push(format!(
            "At the kernel's defaults it does {} requests/s, {needs}; these lines make it {:.2} times as much.",
            rates.join(" and "),
            defaults.gain
        ));
    }
    for (setting, times) in &md.others {
        lines.push(format!("With {setting} it does {times:.2} times as much."));
    }
    lines
}

/// How the search ended.
fn searched(outcome: &PlanOutcome) -> String {
    let option = match outcome.end {
        SearchEnd::Proven if outcome.beaten == 0 => return "The search is complete.".to_owned(),
        SearchEnd::Proven => {
            return format!(
                "The search is complete: what was not simulated can't beat the first, even at best ({}).",
                counted(outcome.beaten, "array")
            );
        }
        SearchEnd::Time => "--search-time",
        SearchEnd::Simulations => "--simulations",
    };
    format!(
        "The search was ended by {option}: {} could still be better than the first, {} can't.",
        counted(outcome.left_out, "array"),
        outcome.beaten
    )
}

/// What the best arrays are taken to be like where that decides how fast they are, and what became of trims.
fn assumed(outcome: &PlanOutcome, order: &PlanOrder<'_>) -> Vec<String> {
    let specs = order.applications.iter().map(|app| &app.workload.spec);
    let is_sequential = default_history(specs, false) == DriveHistory::Sequential;
    let is_training = order.applications.iter().all(|app| app.workload.spec.is_training());
    let mut lines = Vec::new();
    let mut add = |line: String| {
        if !lines.contains(&line) {
            lines.push(line);
        }
    };
    for one in &outcome.top {
        if let Some(condition) = one.setting("drive condition") {
            let why = match (is_sequential, condition.starts_with("sequential")) {
                (true, true) if is_training => ", since all writes are sequential",
                (true, true) => {
                    ", since all writes are sequential ('simulate' takes drives of which nobody says it to be random:3)"
                }
                (true, false) => " (all writes are sequential: --condition sequential is what they lead to)",
                (false, _) => "",
            };
            add(format!(
                "Solid-state drives are taken to be {condition}{why}: --condition and --fill say otherwise."
            ));
        }
    }
    for one in &outcome.top {
        if let Some(trims) = one.setting("trims") {
            add(format!("Trims, {}: {trims}.", one.label));
        }
    }
    lines
}

fn relaxation(it: &Relaxation, order: &PlanOrder<'_>) -> String {
    let currency = &order.prices.currency;
    let show = |value: f64| match it.need {
        Need::Usable => format!("{} TB", terabytes(ByteCount(value as u64))),
        Need::Survive => format!("{} survived", counted(value as u64, "failure")),
        Need::Throughput if it.is_bytes => format!("{:.1} MB/s", value / 1e6),
        Need::Throughput => format!("{value:.0} requests/s"),
        Need::Latency => NanoSpan(value as u64).to_string(),
        Need::Budget => format!("{value} {currency}").trim_end().to_owned(),
        Need::Power => format!("{value:.0} W"),
        Need::Slots => format!("{value} places"),
        Need::RackUnits => format!("{value} rack units"),
        Need::Life => format!("{value:.1} years"),
        Need::Degraded => format!("{:.0} %", 100.0 * value),
        Need::Loss => format!("{} %", three_digits(100.0 * value)),
    };
    let name = match it.need {
        Need::Usable => "capacity",
        Need::Survive => "failures",
        Need::Throughput => "throughput",
        Need::Latency => it.bound.as_ref().map_or("latency", Bound::text),
        Need::Budget => "budget",
        Need::Power => "power",
        Need::Slots => "places",
        Need::RackUnits => "rack units",
        Need::Life => "the life of drives",
        Need::Degraded => "service while degraded or rebuilding",
        Need::Loss => "the chance of losing data in a year",
    };
    let several = order.applications.len() > 1;
    let app = it
        .application
        .filter(|_| several)
        .map(|app| format!(" of {}", order.applications[app].workload.name()));
    let app = app.unwrap_or_default();
    format!(
        "Something would fit if only {name}{app} gave by {}: {} instead of {} ({}).",
        share_text(it.share()),
        show(it.to),
        show(it.from),
        counted(it.fitting, "array")
    )
}

/// A share in percent; what nearly all gives way is not told as all of it.
fn share_text(share: f64) -> String {
    if share > 0.99 && share < 1.0 { "more than 99 %".into() } else { format!("{:.0} %", 100.0 * share) }
}

/// To the second: who runs a plan twice may compare the answers.
fn whole_seconds(secs: f64) -> String {
    if secs < 1.0 { "less than a second".into() } else { format!("{secs:.0} s") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_advisor::plan::{Goal, Growth};
    use raidlab_planning::PartPrice;

    fn outcome(end: SearchEnd, count: u64) -> PlanOutcome {
        PlanOutcome {
            applications: Vec::new(),
            together: false,
            needs: Needs::default(),
            candidates: count,
            rejected: [].into(),
            misfits: Vec::new(),
            kept: count,
            arithmetic_secs: 0.1,
            simulated: count,
            end,
            left_out: count,
            beaten: count,
            top: Vec::new(),
            alternatives: Vec::new(),
            others: Vec::new(),
            pareto: Vec::new(),
            has_prices: false,
            unpriced: Vec::new(),
            relaxations: Vec::new(),
        }
    }

    /// "Ranked after all that have a price" stood below an array without one that was first, as the fastest was asked for.
    #[test]
    fn the_note_on_prices_says_what_arrays_are_ranked_by() {
        let told = |goal| {
            let needs = Needs { goal: Some(goal), ..Needs::default() };
            let unpriced = vec!["a-drive".to_owned()];
            let outcome = PlanOutcome { needs, unpriced, has_prices: true, ..outcome(SearchEnd::Proven, 1) };
            prices(&outcome, &Prices::default())
        };
        assert!(told(Goal::Cheapest).is_some_and(|text| text.contains("ranked after all that have one")));
        assert!(told(Goal::Fastest).is_some_and(|text| text.contains("ranked by speed as all others")));
        let price = PartPrice { price: Some(9.0), watts: None };
        let some = Prices { drives: [("a-drive".to_owned(), price)].into(), ..Prices::default() };
        let of = |given| prices(&outcome(SearchEnd::Proven, 1), given).expect("no array has a price");
        assert!(of(&some).starts_with("No array has a price"), "{}", of(&some));
        assert!(of(&Prices::default()).starts_with("No prices were given"));
    }

    /// "34.56 TB usable" was needed by who had asked for 20 TB.
    #[test]
    fn what_data_grow_from_is_told() {
        let growth = Growth { pct_per_year: 20.0, years: 3.0 };
        let needs = Needs { usable: ByteCount(34_560_000_000_000), growth: Some(growth), ..Needs::default() };
        assert_eq!(usable(&needs), "34.56 TB usable (20 TB today, 20 % more each year for 3 years)");
        assert_eq!(usable(&Needs { growth: None, ..needs }), "34.56 TB usable");
    }

    /// "Faster than anything of less assumed cost" was told of sixteen among thousands.
    #[test]
    fn the_front_is_of_what_was_simulated() {
        let mut one = outcome(SearchEnd::Time, 9);
        assert_eq!(
            front_of(&one),
            "Of the 0 arrays that were simulated, faster than any of less assumed cost (the Pareto front):"
        );
        one.has_prices = true;
        assert!(front_of(&one).contains("less cost"));
    }

    /// "1 geometries were not simulated" was told.
    #[test]
    fn one_array_is_no_plural() {
        for (end, one, two) in [
            (SearchEnd::Proven, "even at best (1 array)", "even at best (2 arrays)"),
            (SearchEnd::Time, "1 array could", "2 arrays could"),
            (SearchEnd::Simulations, "1 array could", "2 arrays could"),
        ] {
            assert!(searched(&outcome(end, 1)).contains(one), "{end:?}");
            assert!(searched(&outcome(end, 2)).contains(two), "{end:?}");
        }
    }
}
