//! The legend of a profile's charts, in HTML rather than in each chart, so that it never covers a line. Its buttons
//! switch levels and write policies on and off in all charts around them.

use super::charts::LineStyle;
use super::escaped;
use crate::chart::{DASHES, Marker, shape};
use crate::matrix::Matrix;

/// The key: storage without an array, the levels, the write policies.
pub(super) fn of(matrix: &Matrix, profile: usize) -> String {
    let shown =
        |index: &usize| (0..matrix.sides.len()).any(|side| !matrix.line(profile, *index, side).is_empty());
    let shown: Vec<usize> = (0..matrix.configurations.len()).filter(shown).collect();
    let mut entries = String::new();
    let mut seen = Vec::new();
    for index in &shown {
        let (name, _) = matrix.name(*index);
        if !seen.contains(&name) {
            entries +=
                &button(&name, &level_sample(&LineStyle { policy: 0, ..LineStyle::of(matrix, *index) }));
            seen.push(name);
        }
    }
    for (index, policy) in matrix.policies().iter().enumerate() {
        entries += &button(policy, &policy_sample(index));
    }
    format!(
        r#"<ul class="legend" aria-label="Key to the charts; press an entry to hide or show its lines">{entries}</ul>"#
    )
}

fn button(name: &str, sample: &str) -> String {
    let name = escaped(name);
    format!(
        r#"<li><button type="button" aria-pressed="true" data-name="{name}">{sample}{name}</button></li>"#
    )
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
