//! The reason for a verdict in words, each sentence built from figures of the runs.
//!
//! The cost of a small write follows from the level: a mirror writes every copy, parity reads and rewrites the data and
//! each parity. Whether that decided the verdict is not assumed but read from the counted member I/Os:
//! ```text
//! expected per host I/O = reads * 1 + writes * cost       cost: 2 RAID 10, 4 RAID 5, 6 RAID 6
//! counted about that  -> small writes decide;  counted far less -> the cache coalesced whole stripes
//! ```
//! Source: the write costs are those of `md1200-2011` (RAID 5 2R+2W, RAID 6 3R+3W, RAID 10 2W).

use crate::{Choice, Verdict};
use raidlab_units::NanoSpan;
use raidlab_workload::{ArrayFacts, World};

/// Below this share of writes a workload counts as reading.
const WRITES_MATTER_SHARE: f64 = 0.1;
/// Counted member I/Os from this share of the expected ones on show that small writes were paid for one by one.
const PAID_SHARE: f64 = 0.8;
/// Two write policies that differ by less are called alike.
const ALIKE_RATIO: f64 = 1.1;
/// From here on one level is ahead of another.
const AHEAD_RATIO: f64 = 1.02;

/// How a level keeps its data safe.
enum Redundancy {
    None,
    Mirror,
    Parity,
}

/// Returns why the verdict is what it is.
pub(crate) fn of(verdict: &Verdict) -> String {
    let sentences = match &verdict.recommended {
        Some(best) => [
            headline(verdict, best),
            price(verdict, best),
            mechanism(verdict, best),
            parity_ahead(verdict, best),
            write_policy(verdict, best),
            without_redundancy(verdict, best),
            once(verdict, best),
            filling(verdict),
        ],
        None => [(); 8].map(|()| String::new()),
    };
    let nothing = verdict.recommended.is_none().then(|| nothing_to_recommend(verdict));
    let spoken = nothing.into_iter().chain(sentences).filter(|sentence| !sentence.is_empty());
    spoken.collect::<Vec<String>>().join(" ")
}

/// What it delivers, where that was judged, and how far it is ahead.
fn headline(verdict: &Verdict, best: &Choice) -> String {
    let limit = NanoSpan(verdict.lat_ns_mean_limit);
    let depth = if best.keeps_limit {
        format!("the highest load run that stays within a mean of {limit}")
    } else {
        format!("the lowest load run, as none stays within a mean of {limit}")
    };
    let close = match &verdict.too_close[..] {
        [] => String::new(),
        others => format!(
            "Too close to call: {} tell {} from {}; of these the one that costs least stands first. ",
            if best.metric_repeats.len() > 1 {
                "repeats do not"
            } else {
                "rates vary too much within the windows to"
            },
            best.label,
            others.join(", ")
        ),
    };
    let lead = match &verdict.runner_up {
        Some(second) => format!(
            "; the runner-up, {}, delivers {} at {} ({})",
            second.label,
            second.metric_text(verdict.metric),
            second.offered_load().in_words(),
            comparison(best, second),
        ),
        None => "; nothing else that survives a failure was run".to_owned(),
    };
    format!(
        "{close}{} delivers {} at {}, {depth} (mean {}, p99 {}){lead}.",
        best.label,
        best.metric_text(verdict.metric),
        best.offered_load().in_words(),
        NanoSpan(best.lat_ns_mean.round() as u64),
        NanoSpan(best.lat_ns_p99),
    )
}

/// How far `best` is ahead of `second`, or why it is preferred though it is not.
fn comparison(best: &Choice, second: &Choice) -> String {
    let ratio = best.metric_value / second.metric_value;
    if best.keeps_limit && !second.keeps_limit {
        return "outside the latency limit".to_owned();
    }
    if ratio >= 1.005 {
        return format!("a factor of {ratio:.2} behind");
    }
    let merit = if best.array.usable_fraction() > second.array.usable_fraction() {
        "leaves more capacity"
    } else if best.array.failures_survived_always > second.array.failures_survived_always {
        "survives more failures"
    } else {
        "is at least as safe"
    };
    format!("as good as equal, and the recommended one {merit}")
}

/// Capacity and failures survived, beside those of the other redundant levels.
fn price(verdict: &Verdict, best: &Choice) -> String {
    let others: Vec<String> = best_per_level(verdict)
        .filter(|choice| choice.is_redundant() && choice.array.level != best.array.level)
        .map(|choice| format!("RAID {} {}", choice.array.level, terms(&choice.array)))
        .collect();
    let compared = if others.is_empty() { String::new() } else { format!(", against {}", others.join(", ")) };
    format!("It leaves {} usable, {}{compared}.", best.array.usable_bytes.decimal(), terms(&best.array))
}

/// `50% of the raw capacity with any 1 failure survived (3 at best)`.
fn terms(array: &ArrayFacts) -> String {
    let (always, at_best) = (array.failures_survived_always, array.failures_survived_at_best);
    let luck = if at_best > always { format!(" and {at_best} at best") } else { String::new() };
    format!("{:.0}% of the members' space with any {always} failed{luck}", 100.0 * array.usable_fraction())
}

/// Why the levels differ, as the counted member I/Os show it; nothing is said without them.
fn mechanism(verdict: &Verdict, best: &Choice) -> String {
    let evidence: Vec<(&Choice, f64)> = best_per_level(verdict)
        .filter_map(|choice| choice.member_ios_per_host_io.map(|ios| (choice, ios)))
        .collect();
    if evidence.is_empty() {
        return String::new();
    }
    let counted = evidence
        .iter()
        .map(|(choice, ios)| format!("{ios:.2} for {}", choice.label))
        .collect::<Vec<_>>()
        .join(", ");
    let parity = evidence.iter().find(|(choice, _)| matches!(redundancy(&choice.array), Redundancy::Parity));
    let cause = match parity {
        _ if best.write_share < WRITES_MATTER_SHARE => {
            "Reads need no parity work at any level, so what counts is how many members share them".to_owned()
        }
        _ if best.request_bytes_mean > best.array.strip_bytes.get() as f64 => {
            "The requests are longer than a strip, so each keeps several members busy".to_owned()
        }
        Some((choice, ios)) if *ios >= PAID_SHARE * expected_ios(choice) => write_costs(&evidence),
        Some((choice, ios)) => {
            let how = match choice.array.write_policy.as_str() {
                "write-through" => "Writes that are in flight together are gathered into stripes",
                _ => "The cache gathers writes",
            };
            format!(
                "{how}: alone, each would have cost {} {:.2} member I/Os per host I/O, not {ios:.2}",
                choice.label,
                expected_ios(choice),
            )
        }
        None => write_costs(&evidence),
    };
    format!("{cause}; counted member I/Os per host I/O: {counted}.")
}

/// Why parity is ahead of mirroring, where it is: a reader who knows what a small write costs doubts it.
fn parity_ahead(verdict: &Verdict, best: &Choice) -> String {
    let is_mirror = |choice: &&Choice| matches!(redundancy(&choice.array), Redundancy::Mirror);
    let mirror = choices(verdict).filter(|choice| choice.is_sound()).find(is_mirror);
    let mirror = mirror.filter(|mirror| !verdict.too_close.contains(&mirror.label));
    let is_behind = |mirror: &&Choice| best.metric_value > AHEAD_RATIO * mirror.metric_value;
    let Some(mirror) = mirror.filter(is_behind) else { return String::new() };
    if !matches!(redundancy(&best.array), Redundancy::Parity) {
        return String::new();
    }
    let strips = |array: &ArrayFacts| (array.usable_fraction() * f64::from(array.members)).round();
    let (members, own_strips, its_strips) = (best.array.members, strips(&best.array), strips(&mirror.array));
    let counted = best.member_ios_per_host_io.zip(mirror.member_ios_per_host_io);
    let why = match counted.filter(|_| best.write_share >= WRITES_MATTER_SHARE) {
        Some((own, its)) if own > its => format!(
            "Not by its member I/Os, of which it takes {own:.2} per host I/O against {its:.2}: something else than the members \
             sets the pace, or chance does."
        ),
        Some((own, its)) => format!(
            "Its writes fill whole stripes, {own:.2} member I/Os per host I/O against {its:.2}, and a stripe of {members} members \
             carries {own_strips} strips of data, not {its_strips}."
        ),
        None => format!(
            "Of each row of {members} strips {own_strips} hold data of their own, not {its_strips}, so a stream is spread over \
             more members."
        ),
    };
    format!("Why is parity ahead of mirroring ({})? {why}", mirror.label)
}

/// What one small write costs each level in member I/Os.
fn write_costs(evidence: &[(&Choice, f64)]) -> String {
    let costs: Vec<String> = evidence
        .iter()
        .map(|(choice, _)| format!("RAID {} {}", choice.array.level, small_write_ios(&choice.array)))
        .collect();
    format!(
        "A write within a strip costs so many member I/Os: {} \
         (mirrors write every copy, parity is read and written along with the data)",
        costs.join(", ")
    )
}

fn small_write_ios(array: &ArrayFacts) -> u64 {
    let spares = u64::from(array.failures_survived_always);
    match redundancy(array) {
        Redundancy::None => 1,
        Redundancy::Mirror => 1 + spares,
        Redundancy::Parity => 2 * (1 + spares),
    }
}

/// Member I/Os per host I/O if every write were small and alone.
fn expected_ios(choice: &Choice) -> f64 {
    (1.0 - choice.write_share) + choice.write_share * small_write_ios(&choice.array) as f64
}

fn redundancy(array: &ArrayFacts) -> Redundancy {
    let name_end = array.level.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(array.level.len());
    match &array.level[..name_end] {
        _ if array.failures_survived_always == 0 => Redundancy::None,
        "1" | "1E" | "1e" | "10" => Redundancy::Mirror,
        _ => Redundancy::Parity,
    }
}

/// What the other write policy does at the recommended level.
fn write_policy(verdict: &Verdict, best: &Choice) -> String {
    let other = choices(verdict).find(|choice| {
        let same = (&choice.array.level, choice.array.members) == (&best.array.level, best.array.members);
        same && choice.array.write_policy != best.array.write_policy && choice.metric_value > 0.0
    });
    let Some(other) = other.filter(|_| best.write_share >= WRITES_MATTER_SHARE) else {
        return String::new();
    };
    let (name, other_name) = (&best.array.write_policy, &other.array.write_policy);
    let ratio = best.metric_value / other.metric_value;
    if ratio.max(1.0 / ratio) < ALIKE_RATIO {
        return format!("At this level {name} and {other_name} differ by less than 10%.");
    }
    let caution = if name.starts_with("write-back") {
        ": it acknowledges a write once the cache has it, so the cache needs its battery"
    } else {
        ""
    };
    format!("At this level {name} delivers {ratio:.2} times what {other_name} does{caution}.")
}

/// What giving up redundancy would bring.
fn without_redundancy(verdict: &Verdict, best: &Choice) -> String {
    let Some(fastest) = &verdict.fastest_without_redundancy else {
        return String::new();
    };
    format!(
        "Without redundancy {} delivers {}, {:.2} times as much, and loses data with the first failed member.",
        fastest.label,
        fastest.metric_text(verdict.metric),
        fastest.metric_value / best.metric_value,
    )
}

/// That a lead has nothing behind it that tells it from chance.
fn once(verdict: &Verdict, best: &Choice) -> String {
    let is_known = |choice: &Choice| choice.metric_repeats.len() > 1 || choice.metric_batches.is_some();
    match &verdict.runner_up {
        Some(second) if best.metric_repeats.len() > 1 && second.metric_repeats.len() > 1 => String::new(),
        Some(second) if verdict.world == World::Simulated && is_known(best) && is_known(second) => {
            String::new()
        }
        Some(_) if verdict.world == World::Simulated => {
            "Not all were run long enough to tell a lead from chance: a window \
             of 5 s is the shortest that does."
                .to_owned()
        }
        Some(_) => "Not all were run more than once, and only repeats tell a lead from chance.".to_owned(),
        None => String::new(),
    }
}

/// Which arrays were left out because their caches were still filling.
fn filling(verdict: &Verdict) -> String {
    let labels: Vec<&str> =
        choices(verdict).filter(|choice| choice.is_filling).map(|choice| &choice.label[..]).collect();
    match &labels[..] {
        [] => String::new(),
        labels => format!(
            "Not ranked, because the write cache was still filling in the window: {}.",
            labels.join(", ")
        ),
    }
}

fn nothing_to_recommend(verdict: &Verdict) -> String {
    let failing = choices(verdict).filter(|choice| choice.is_redundant()).count();
    let filling = choices(verdict).filter(|choice| choice.is_redundant() && choice.is_filling).count();
    let why = if failing == 0 {
        "none of the arrays run survives a failed member".to_owned()
    } else if filling > 0 {
        format!(
            "of the {failing} arrays run that survive a failed member {filling} had a write cache that was still filling \
             in the window, and the rest had failed requests or completed none"
        )
    } else {
        format!("the {failing} arrays run that survive a failed member had failed requests or completed none")
    };
    let fastest = verdict.fastest_without_redundancy.as_ref().map_or_else(String::new, |choice| {
        format!(" Fastest was {} with {}.", choice.label, choice.metric_text(verdict.metric))
    });
    format!("Nothing is recommended: {why}.{fastest}")
}

fn choices(verdict: &Verdict) -> impl Iterator<Item = &Choice> {
    verdict.alternatives.iter().map(|alternative| &alternative.choice)
}

/// The recommended configuration, and the best of each other level without failed requests, best first.
fn best_per_level(verdict: &Verdict) -> impl Iterator<Item = &Choice> {
    let recommended = verdict.recommended.as_ref();
    choices(verdict).enumerate().filter_map(move |(rank, choice)| {
        let first = |other: &Choice| other.array.level == choice.array.level && other.is_sound();
        let is_recommended = recommended.is_some_and(|best| best.array == choice.array);
        let level_is_taken = recommended.is_some_and(|best| best.array.level == choice.array.level);
        let leads_its_level = !level_is_taken && choices(verdict).position(first) == Some(rank);
        (is_recommended || leads_its_level).then_some(choice)
    })
}
