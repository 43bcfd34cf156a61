//! The key to a profile's charts, in HTML rather than in each chart, so that it never covers a line. Its buttons switch
//! levels and write policies on and off in all charts around them.

use super::charts::LineStyle;
use super::escaped;
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
    let marker = match style.level.map(|level| level % super::charts::MARKERS.len()) {
        None => r#"<path d="M11 3l6 6M17 3l-6 6" stroke-width="1.5"/>"#,
        Some(0) => r#"<circle cx="14" cy="6" r="4"/>"#,
        Some(1) => r#"<path d="M10 2h8v8h-8z"/>"#,
        Some(2) => r#"<path d="M14 1l5 5-5 5-5-5z"/>"#,
        Some(3) => r#"<path d="M14 1l5 9H9z"/>"#,
        Some(4) => r#"<path d="M14 11L9 2h10z"/>"#,
        Some(_) => {
            r#"<path d="M14 0l1.5 4.2H20l-3.6 2.7L17.800 11.500 14 8.700l-3.800 2.800 1.400-4.600L8 4.200h4.500z"/>"#
        }
    };
    let dash = if style.level.is_none() { "2 3" } else { "none" };
    sample(&style.colour(), dash, marker)
}

/// A piece of line dashed as a write policy is.
fn policy_sample(policy: usize) -> String {
    let dash = ["none", "6 4", "2 3", "7 3 2 3"][policy % 4];
    let marker = if policy == 0 {
        r#"<circle cx="14" cy="6" r="3.500"/>"#
    } else {
        r#"<circle cx="14" cy="6" r="3.500" fill="var(--panel)" stroke-width="1.5"/>"#
    };
    sample("var(--ink)", dash, marker)
}

fn sample(colour: &str, dash: &str, marker: &str) -> String {
    let style =
        format!(r#"style="color:{colour}" fill="currentColor" stroke="currentColor" stroke-width="0""#);
    let line = format!(r#"<path d="M0 6h28" stroke-width="2" stroke-dasharray="{dash}"/>"#);
    format!(r#"<svg width="28" height="12" aria-hidden="true" {style}>{line}{marker}</svg>"#)
}
