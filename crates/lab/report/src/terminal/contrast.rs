//! Groups of runs side by side: a section per kind of run, a row per figure, a column per group.

use super::{TerminalOptions, printable, table};
use crate::document::{Cell, Text};
use crate::figures::three_digits;
use raidlab_advisor::{Contrast, ContrastFigure, ContrastValue};

/// Prints `contrast`, and what its marks mean.
pub fn contrast(contrast: &Contrast, options: TerminalOptions) -> String {
    let mut text = String::new();
    for (index, (group, configuration)) in contrast.groups.iter().zip(&contrast.configurations).enumerate() {
        let what = configuration.as_deref().unwrap_or("several configurations");
        let load = contrast.loads[index].as_deref().unwrap_or("several loads");
        text +=
            &format!("{}: {}, {}, {}\n", letter(index), printable(group), printable(load), printable(what));
    }
    if contrast.loads.windows(2).any(|pair| matches!(pair, [Some(one), Some(other)] if one != other)) {
        text += "The loads differ: a difference below may come from them alone.\n";
    }
    for cell in &contrast.cells {
        let mut header = vec![cell.name.clone(), letter(0)];
        for index in 1..contrast.groups.len() {
            header.extend([letter(index), format!("{} to A", letter(index))]);
            if has_tests(contrast, index) {
                header.extend(["p, Welch".to_owned(), "p, ranks".to_owned()]);
            }
        }
        let row = |figure: &ContrastFigure| {
            let mut row = vec![Cell::from(figure.name)];
            for (index, value) in figure.groups.iter().enumerate() {
                row.push(value.map_or("-".to_owned(), mean_and_spread).into());
                if index > 0 {
                    row.push(difference(*value));
                    if has_tests(contrast, index) {
                        let chance = |p: Option<f64>| p.map_or("-".to_owned(), |p| format!("{p:.4}"));
                        let welch = value.and_then(|value| value.welch).map(|test| test.p);
                        let ranks = value.and_then(|value| value.mann_whitney).map(|test| test.p);
                        row.extend([chance(welch), chance(ranks)].map(Cell::from));
                    }
                }
            }
            row
        };
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        text +=
            &("\n".to_owned() + &table(&header, 1, vec![cell.figures.iter().map(row).collect()], options));
    }
    text + legend(contrast)
}

/// `A`, `B`, and numbers after `Z`.
fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(index) if index < 26 => char::from(b'A' + index).to_string(),
        _ => format!("#{}", index + 1),
    }
}

/// Whether group `index` and the first one have repeats.
fn has_tests(contrast: &Contrast, index: usize) -> bool {
    let mut figures = contrast.cells.iter().flat_map(|cell| &cell.figures);
    figures
        .any(|figure| figure.groups.get(index).copied().flatten().is_some_and(|it| it.mann_whitney.is_some()))
}

fn mean_and_spread(value: ContrastValue) -> String {
    let mean = three_digits(value.spread.mean);
    match value.spread.ci95_half {
        Some(half) => format!("{mean} +- {}", three_digits(half)),
        None => mean,
    }
}

fn difference(value: Option<ContrastValue>) -> Cell {
    let Some(pct) = value.and_then(|value| value.difference_pct) else { return "-".into() };
    let is_apart = value.and_then(|value| value.is_apart);
    let mark = if is_apart == Some(false) { " ~" } else { "" };
    let text = format!("{pct:+.1} %{mark}");
    if is_apart == Some(true) { Text::strong(text).into() } else { text.into() }
}

/// What the marks mean, where there are any.
fn legend(contrast: &Contrast) -> &'static str {
    let values = contrast.cells.iter().flat_map(|cell| &cell.figures).flat_map(|figure| figure.groups.iter());
    let has_repeats = values.flatten().any(|value| value.spread.ci95_half.is_some());
    if has_repeats {
        "\n+- half of the 95 % confidence interval of the mean over the repeats\n\
         ~ the intervals touch: the difference may be chance\n\
         p: chance of such a difference where there is none, by Welch's test of means\n\
         and by Mann and Whitney's of ranks\n"
    } else {
        "\nOne run of each: only repeats (--until steady, other seeds) tell a difference\nfrom chance.\n"
    }
}
