//! Seek times by distance, from a `dm_mech_g1` block and the curve that it names.
//!
//! Sources of the formulas: Ruemmler and Wilkes 1994 (hpl); Worthington, Ganger and Patt, CSE-TR-194-94 (hplplus10: the
//! first ten distances by name); Lee and Katz 1993 (curve).

use crate::error::ImportError;
use crate::fields::Fields;
use raidlab_units::NanoSpan;

/// Seek times in milliseconds, by distance from 0 to `cylinders - 1`.
pub(crate) fn seek_table(
    fields: &mut Fields<'_>,
    cylinders: u32,
    fetch: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<Vec<NanoSpan>, ImportError> {
    let (kind, param) = fields.word("Seek type")?;
    let n = f64::from(cylinders);
    let at: Box<dyn Fn(f64) -> f64> = match kind {
        "extracted" => Box::new(extracted(fields, fetch)?),
        "hpl" | "hplplus10" => Box::new(hpl(fields, kind == "hplplus10")?),
        "linear" | "curve" => {
            let one = fields.number("Single cylinder seek time")?;
            let average = fields.number("Average seek time")?;
            let full = fields.number("Full strobe seek time")?;
            if kind == "linear" {
                Box::new(move |d| {
                    if d <= n / 3.0 {
                        one + 3.0 * (d - 1.0) / n * (average - one)
                    } else {
                        average + (3.0 * d - n) / (2.0 * n) * (full - average)
                    }
                })
            } else {
                let root = (-10.0 * one + 15.0 * average - 5.0 * full) / (3.0 * n.sqrt());
                let line = (7.0 * one - 15.0 * average + 8.0 * full) / (3.0 * n);
                Box::new(move |d| root * (d - 1.0).sqrt() + line * (d - 1.0) + one)
            }
        }
        "constant" => {
            let constant = fields.number("Constant seek time")?;
            Box::new(move |_| constant)
        }
        _ => return Err(fields.bad(param, "extracted, hplplus10, hpl, curve, linear or constant")),
    };
    let ms = |d: u32| if d == 0 { 0.0 } else { at(f64::from(d)) };
    if let Some(odd) = (1..cylinders).find(|d| !(0.0..=10_000.0).contains(&ms(*d))) {
        let wanted = format!("one that takes 0 to 10000 ms at any distance; at {odd} it is {} ms", ms(odd));
        return Err(fields.bad(param, &wanted));
    }
    Ok((0..cylinders).map(|d| NanoSpan::from_millis_f64(ms(d))).collect())
}

/// A curve through measured points, straight between them and beyond the last.
fn extracted(
    fields: &mut Fields<'_>,
    fetch: &mut dyn FnMut(&str) -> Option<String>,
) -> Result<impl Fn(f64) -> f64 + use<>, ImportError> {
    let (file, _) = fields.word("Full seek curve")?;
    let text =
        fetch(file).ok_or_else(|| ImportError::NoFile { file: file.into(), named_by: fields.file.into() })?;
    let points = curve_points(file, &text)?;
    Ok(move |d: f64| {
        let next = points.partition_point(|(distance, _)| *distance < d);
        let after = next.clamp(1, (points.len() - 1).max(1));
        let (before, Some(after)) = (points[after - 1], points.get(after)) else { return points[0].1 };
        if d <= before.0 {
            return before.1;
        }
        before.1 + (after.1 - before.1) * (d - before.0) / (after.0 - before.0)
    })
}

/// The lines `distance, milliseconds` of a seek curve, in order of distance.
fn curve_points(file: &str, text: &str) -> Result<Vec<(f64, f64)>, ImportError> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.starts_with("Seek distances measured") {
            continue;
        }
        let mut numbers = line.split([',', ' ', '\t']).filter(|word| !word.is_empty()).map(str::parse::<f64>);
        let point = match (numbers.next(), numbers.next()) {
            (Some(Ok(distance)), Some(Ok(ms)))
                if (0.0..=10_000.0).contains(&ms) && distance >= 0.0 && distance.is_finite() =>
            {
                (distance, ms)
            }
            _ => return Err(ImportError::BadSeekCurve { file: file.into(), line: index as u32 + 1 }),
        };
        points.push(point);
    }
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    points.dedup_by_key(|point| point.0);
    if points.is_empty() { Err(ImportError::BadSeekCurve { file: file.into(), line: 1 }) } else { Ok(points) }
}

/// A root up to a distance, and a line from there on.
fn hpl(fields: &mut Fields<'_>, plus_ten: bool) -> Result<impl Fn(f64) -> f64 + use<>, ImportError> {
    let values = fields.numbers("HPL seek equation values")?;
    let Ok([division, root_base, root, line_base, line, one]) = <[f64; 6]>::try_from(values) else {
        let (_, param) = fields.list("HPL seek equation values")?;
        return Err(fields.bad(param, "a list of six numbers"));
    };
    let ten = if plus_ten { fields.numbers("First ten seek times")? } else { Vec::new() };
    if plus_ten && ten.len() != 10 {
        let (_, param) = fields.list("First ten seek times")?;
        return Err(fields.bad(param, "a list of ten numbers"));
    }
    // Minus one stands for "by the equation, too".
    let one = (!plus_ten && one >= 0.0).then_some(one);
    Ok(move |d: f64| match (ten.get(d as usize - 1), one) {
        (Some(ms), _) => *ms,
        (None, Some(ms)) if d < 1.5 => ms,
        _ if d < division => root_base + root * d.sqrt(),
        _ => line_base + line * d,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse_blocks;

    fn table(body: &str, curve: &str) -> Result<Vec<f64>, ImportError> {
        let blocks = parse_blocks(&format!("dm_mech_g1 m {{ {body} }}")).expect("sound");
        let mut fields = Fields::new("x.model", &blocks[0]);
        let spans = seek_table(&mut fields, 601, &mut |_| Some(curve.into()))?;
        Ok(spans.iter().map(|span| span.as_millis_f64()).collect())
    }

    #[test]
    fn every_kind_of_curve_gives_its_times() {
        let ten = "First ten seek times = [1,2,3,4,5,6,7,8,9,10]";
        let hpl = "HPL seek equation values = [300, 3.5, 0.5, 8.0, 0.01, -1.0]";
        let three = "Single cylinder seek time = 1, Average seek time = 5, Full strobe seek time = 10";
        let curve = "Seek distances measured: 3\n1, 1.5\n10,\t6.0\n100, 15.0, 0.1\n";
        let rows: [(String, &[(usize, f64)]); 6] = [
            (
                "Seek type = extracted, Full seek curve = a.seek".into(),
                &[(0, 0.0), (1, 1.5), (4, 3.0), (10, 6.0), (55, 10.5), (100, 15.0), (200, 25.0)],
            ),
            (format!("Seek type = hplplus10, {hpl}, {ten}"), &[(1, 1.0), (10, 10.0), (16, 5.5), (300, 11.0)]),
            (format!("Seek type = hpl, {hpl}"), &[(1, 4.0), (4, 4.5), (299, 3.5 + 0.5 * 299f64.sqrt())]),
            (format!("Seek type = linear, {three}"), &[(1, 1.0), (200, 4.98), (600, 9.99)]),
            (format!("Seek type = curve, {three}"), &[(1, 1.0), (600, 9.99)]),
            ("Seek type = constant, Constant seek time = 7".into(), &[(0, 0.0), (1, 7.0), (600, 7.0)]),
        ];
        for (body, wanted) in rows {
            let table = table(&body, curve).expect("sound");
            for (distance, ms) in wanted {
                assert!(
                    (table[*distance] - ms).abs() < 0.02,
                    "{body}: {distance} takes {} ms",
                    table[*distance]
                );
            }
        }
    }

    #[test]
    fn curves_that_are_none_are_refused() {
        for curve in ["", "1, x\n", "1\n", "1, -0.5\n", "-1, 0.5\n", "1, nan\n"] {
            let got = table("Seek type = extracted, Full seek curve = a.seek", curve);
            assert!(matches!(got, Err(ImportError::BadSeekCurve { .. })), "{curve}");
        }
        assert!(matches!(table("Seek type = odd", ""), Err(ImportError::BadValue { .. })));
        // What goes down beyond the last point must not come to less than nothing: it was taken as no time at all.
        let falling = table("Seek type = extracted, Full seek curve = a.seek", "1, 5\n10, 4\n");
        assert!(
            falling.is_err_and(|error| error.to_string().contains("at 47 it is -0.1")),
            "it falls below 0"
        );
        let constant = table("Seek type = constant, Constant seek time = -7", "");
        assert!(matches!(constant, Err(ImportError::BadValue { .. })));
    }
}
