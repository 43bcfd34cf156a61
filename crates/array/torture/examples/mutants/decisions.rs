//! Decisions: which branches of the controller's recovery and of the format plans reach, and a hunt that aims at those seldom reached.
//!
//! ```text
//! copy of the sources ─► each branch counts itself ─► plans of seeds, and changes of plans that reached what few do ─► table
//! ```
//! Counted are the blocks of `if`, `else` and `let ... else`, and the arms of `match`, in the files of [`COUNTED`], named by file, function
//! and text. The sources know nothing of it: as with deliberate defects, only the copy has counters (`plant.rs`). This relies on
//! `rustfmt`'s layout, and leaves out what that spreads over lines in other ways, `const` functions, and parts of a condition.

use crate::aims::Aims;
use crate::begun::Begun;
use crate::hunt::cpu_ns;
use crate::plans::plan_of;
use crate::switch;
use raidlab_torture::{TorturePlan, write_plans};
use raidlab_workload::{Rng, derived_seed};
use std::collections::BTreeMap;
use std::path::Path;

/// Files whose branches are decisions, or their folders, below `crates/array`.
const COUNTED: [&str; 13] = [
    "controller/src/cache/nvram",
    "controller/src/cache/protection",
    "controller/src/checksums",
    "controller/src/controller/checks",
    "controller/src/controller/scan",
    "controller/src/controller/start",
    "controller/src/controller/superblock",
    "controller/src/controller/write_intent",
    "controller/src/metadata",
    "controller/src/scan",
    "controller/src/start",
    "controller/src/write_intent",
    "format/src/assemble",
];

/// Counts in them what only arrays have that are like Linux md's, which torture does not try.
const OF_MD: &str = "controller/src/write_intent/write_log";

/// Whether the branches of a file are decisions.
pub(crate) fn is_counted(file: &str) -> bool {
    let is_source = Path::new(file).extension().is_some_and(|it| it == "rs") && !file.contains("/tests");
    is_source && COUNTED.iter().any(|counted| file.starts_with(counted)) && !file.starts_with(OF_MD)
}

/// Gives each decision of a file its counter, and adds its name to `names`.
pub(crate) fn count(text: &str, file: &str, names: &mut Vec<String>) -> String {
    let mut counted = String::new();
    let mut function = String::new();
    let mut const_indent = None;
    let mut is_over = false;
    for line in text.lines() {
        let (own, indent) = (line.trim_start(), line.len() - line.trim_start().len());
        is_over |= own == "#[cfg(test)]" || own.starts_with("macro_rules!");
        if let Some((before, rest)) = own.split_once("fn ").filter(|(before, _)| !before.contains("//"))
            && (before.is_empty() || before.ends_with(' '))
        {
            rest.split(['(', '<']).next().unwrap_or_default().clone_into(&mut function);
            if before.contains("const ") {
                const_indent = Some(indent);
            }
        }
        let is_left_out = is_over || const_indent.is_some() || own.starts_with("//");
        if const_indent == Some(indent) && own == "}" {
            const_indent = None;
        }
        let mark = format!("raidlab_units::mutant::reached({});", names.len());
        let marked = if is_left_out { None } else { with_mark(line, &mark) };
        if marked.is_some() {
            names.push(format!("{file} {function}: {own}"));
        }
        counted += marked.as_deref().unwrap_or(line);
        counted.push('\n');
    }
    counted
}

/// The line with a mark in the branch that it begins, if it begins one.
fn with_mark(line: &str, mark: &str) -> Option<String> {
    let own = line.trim_start();
    let is_condition = own.starts_with("if ") || own.starts_with("} else") || own.ends_with(" else {");
    if own.ends_with("=> {") || (is_condition && own.ends_with('{') && !own.ends_with("({")) {
        return Some(format!("{line} {mark}"));
    }
    if let Some((before, after)) = line.split_once(" else { ") {
        return Some(format!("{before} else {{ {mark} {after}"));
    }
    let (pattern, value) = line.strip_suffix(',')?.split_once(" => ")?;
    let is_whole = |open, close| value.matches(open).count() == value.matches(close).count();
    let is_arm = is_whole('(', ')') && is_whole('{', '}') && is_whole('[', ']') && !pattern.contains('!');
    is_arm.then(|| format!("{pattern} => {{ {mark} {value} }}"))
}

/// Added to the switch in the copy.
pub(crate) fn counters(count: usize) -> String {
    format!(
        "
thread_local! {{
    static REACHED: [Cell<u64>; {words}] = const {{ [const {{ Cell::new(0) }}; {words}] }};
}}

/// Takes note of a decision.
#[inline]
pub fn reached(number: usize) {{
    REACHED.with(|reached| {{
        let word = &reached[number / 64];
        word.set(word.get() | 1 << (number % 64));
    }});
}}

/// The decisions that were reached on this thread since the last time.
pub fn take_reached() -> Vec<usize> {{
    let bits = REACHED.with(|reached| reached.each_ref().map(|word| word.replace(0)));
    (0..{count}).filter(|number| bits[number / 64] >> (number % 64) & 1 == 1).collect()
}}
",
        words = count.div_ceil(64).max(1)
    )
}

/// How often a decision was reached, and by which plans.
#[derive(Default)]
struct Reached {
    plans: u64,
    kept: Vec<TorturePlan>,
}

/// Plans kept for a decision, and how many may have reached it for that.
const KEPT_MAX: usize = 8;
const RARE_MAX: u64 = 200;

/// Runs plans for so long, every second one a change of one that reached a rare decision, and prints how many reached what. Returns how many
/// failed.
///
/// # Errors
/// The list of decisions can't be read.
pub(crate) fn hunt(first_seed: u64, seconds: u64, begun: &Begun) -> Result<u64, String> {
    let names =
        std::fs::read_to_string("decisions.txt").map_err(|error| format!("decisions.txt: {error}"))?;
    let names: Vec<&str> = names.lines().collect();
    let mut table: BTreeMap<usize, Reached> = BTreeMap::new();
    let mut random = Rng::new(derived_seed(first_seed, 80));
    let (mut failed, mut plans, mut seed) = (0, 0, first_seed);
    let began = cpu_ns();
    while cpu_ns() - began < seconds * 1_000_000_000 {
        let aimed = if plans % 2 == 1 { aim(&table, &mut random) } else { None };
        let plan = aimed.unwrap_or_else(|| {
            seed += 1;
            plan_of(seed - 1).0
        });
        begun.note("decisions", || plan.clone());
        switch::take_reached();
        let result = plan.run();
        plans += 1;
        for number in switch::take_reached() {
            let reached = table.entry(number).or_default();
            reached.plans += 1;
            if reached.plans <= RARE_MAX && reached.kept.len() < KEPT_MAX {
                reached.kept.push(plan.clone());
            }
        }
        if let Err(failure) = result {
            failed += 1;
            let file = format!("decisions-{failed}.toml");
            let written = std::fs::write(&file, write_plans(&[plan]));
            println!("{file}{}: {}", if written.is_ok() { "" } else { " (not written)" }, failure.violation);
        }
    }
    let seeds = seed - first_seed;
    println!("{plans} plans, {seeds} of them of seeds; {} decisions, never reached:", names.len());
    let never = (0..names.len()).filter(|number| !table.contains_key(number));
    never.for_each(|number| println!("      - {}", names[number]));
    println!("seldom reached:");
    let mut seldom: Vec<_> = table.iter().map(|(number, reached)| (reached.plans, names[*number])).collect();
    seldom.sort_unstable();
    seldom.iter().take(60).for_each(|(plans, name)| println!("{plans:>7} {name}"));
    Ok(failed)
}

/// A change of a plan that reached a rare decision: the rarest of a few drawn.
fn aim(table: &BTreeMap<usize, Reached>, random: &mut Rng) -> Option<TorturePlan> {
    let rare: Vec<&Reached> = table.values().filter(|reached| reached.plans <= RARE_MAX).collect();
    let drawn = (0..4).filter_map(|_| rare.get(random.below(rare.len().max(1) as u64) as usize));
    let rarest = drawn.min_by_key(|reached| reached.plans)?;
    let mut aims = Aims::new(random.next_u64());
    rarest.kept.iter().for_each(|plan| aims.add(plan.clone()));
    aims.any().then(|| aims.next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_branch_is_counted_once() {
        let text = "fn one() {\n    if a {\n        b();\n    } else {\n        c();\n    }\n    match d {\n        1 => 2,\n        _ => {\n        }\n    }\n    let Some(e) = f else { return };\n}\nconst fn two() {\n    if a {\n    }\n}\n";
        let mut names = Vec::new();
        let counted = count(text, "file", &mut names);
        assert_eq!(names.len(), 5, "{names:?}");
        assert!(names.iter().all(|name| name.starts_with("file one: ")), "{names:?}");
        assert!(counted.contains("1 => { raidlab_units::mutant::reached(2); 2 }"), "{counted}");
    }
}
