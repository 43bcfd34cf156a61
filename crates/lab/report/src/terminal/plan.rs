//! Results of `plan`: the best arrays with margins, degraded and rebuilding, the reasons, and what was left out.

use super::TerminalOptions;
use crate::document::{Block, render};
use crate::plan::{self, Best, account, applications, needs, why_not_words};
use raidlab_planning::{PlanOrder, PlanOutcome, Planned, TiersOutcome};

/// Prints a plan: the answer, figures, then the reasons.
pub fn plan(outcome: &PlanOutcome, order: &PlanOrder<'_>, options: TerminalOptions) -> String {
    let (arrays, names): (Vec<&Planned>, _) = (outcome.top.iter().collect(), applications(outcome));
    let best =
        Best { arrays: &arrays, applications: &names, needs: &order.needs, currency: &order.prices.currency };
    let mut blocks = Vec::new();
    if let Some(first) = outcome.top.first() {
        let verdict = if first.keeps_needs { "Best" } else { "Nothing keeps all needs; nearest" };
        blocks.push(Block::Heading(format!("{verdict}: {}", first.label)));
        let adds = first.adds.as_ref().map(|adds| format!("To add: {adds}."));
        let lines = std::iter::once(first.settings_label.clone()).chain(adds);
        blocks.extend(lines.map(|line| Block::Paragraph { text: line.into(), indent: 3 }));
    }
    blocks.push(Block::paragraph(format!("Needs: {}.", needs(order))));
    if !arrays.is_empty() {
        let tables = [best.parts(), best.service(), best.faults(), best.worth()];
        blocks.extend(tables.into_iter().filter(|table| !table.is_empty()).map(Block::table));
        blocks.extend(best.marks());
        blocks.push(best.cards());
    }
    let others = why_not_words(outcome);
    if !others.is_empty() {
        blocks.extend([Block::Heading("Why not another".into()), Block::list(&others)]);
    }
    blocks.extend(account(outcome, order).into_iter().map(Block::paragraph));
    render(blocks, options)
}

/// Prints arrays that share an enclosure: the answer, what each application gets, then array by array.
pub fn tiers(outcome: &TiersOutcome, order: &PlanOrder<'_>, options: TerminalOptions) -> String {
    render(plan::tiers(outcome, order), options)
}
