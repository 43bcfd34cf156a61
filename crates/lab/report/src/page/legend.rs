//! The legend of a profile's charts, beside them rather than in each, so that it never covers a line. Its buttons
//! switch levels and write policies on and off in all charts around them.

use super::charts::LineStyle;
use crate::chart::{DASHES, Marker, shape};
use crate::document::Block;
use crate::matrix::Matrix;

/// The key: storage without an array, the levels, the write policies.
pub(super) fn of(matrix: &Matrix, profile: usize) -> Block {
    let shown =
        |index: &usize| (0..matrix.sides.len()).any(|side| !matrix.line(profile, *index, side).is_empty());
    let shown: Vec<usize> = (0..matrix.configurations.len()).filter(shown).collect();
    let mut entries: Vec<(String, String)> = Vec::new();
    for index in &shown {
        let (name, _) = matrix.name(*index);
        if !entries.iter().any(|(known, _)| *known == name) {
            entries.push((name, level_sample(&LineStyle { policy: 0, ..LineStyle::of(matrix, *index) })));
        }
    }
    let policies = matrix.policies();
    let policies =
        policies.iter().enumerate().map(|(index, policy)| ((*policy).to_owned(), policy_sample(index)));
    entries.extend(policies);
    Block::Legend(entries)
}

/// A piece of a level's line with its marker.
fn level_sample(style: &LineStyle) -> String {
    sample(&style.colour().on_page(), style.dash(), style.marker())
}

/// A piece of line dashed as a write policy is.
fn policy_sample(policy: usize) -> String {
    sample("var(--ink)", policy, Marker { is_hollow: policy > 0, ..Marker::number(0) })
}

fn sample(colour: &str, dash: usize, marker: Marker) -> String {
    let fill = if marker.is_hollow { r#" fill="var(--panel)""# } else { "" };
    format!(
        r#"<svg width="28" height="12" aria-hidden="true" stroke="{colour}" fill="{colour}"><path d="M0 6h28" stroke-width="2" stroke-dasharray="{}"/><g transform="translate(14 6)"{fill} stroke-width="1.5">{}</g></svg>"#,
        DASHES[dash % DASHES.len()],
        shape(marker)
    )
}
