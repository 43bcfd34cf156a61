//! Whether predictions have the order of the published figures: Kendall's rank correlation.
//!
//! Every pair of figures counts by its order: the result is 1 if all pairs have the published order, -1 if all have the
//! opposite. Ties count by tau-b: a pair that is equal on one side only counts for neither order and shortens the
//! scale, so a table with many equal published figures can still reach 1 if the predictions are equal, too.
//!
//! Left out: its significance. Source: M. G. Kendall, *The Treatment of Ties in Ranking Problems*, Biometrika 33, 1945.

/// Kendall's tau-b of pairs of published and predicted figures, from -1 to 1.
///
/// None where there is no order to keep: fewer than two figures, or all of them equal on one side.
pub fn kendall_tau(pairs: impl IntoIterator<Item = (f64, f64)>) -> Option<f64> {
    let pairs: Vec<(f64, f64)> = pairs.into_iter().collect();
    let (mut score, mut published_apart, mut predicted_apart) = (0_i64, 0_u64, 0_u64);
    for (index, a) in pairs.iter().enumerate() {
        for b in &pairs[index + 1..] {
            let published = a.0.total_cmp(&b.0) as i64;
            let predicted = a.1.total_cmp(&b.1) as i64;
            score += published * predicted;
            published_apart += published.unsigned_abs();
            predicted_apart += predicted.unsigned_abs();
        }
    }
    let scale = (published_apart as f64 * predicted_apart as f64).sqrt();
    (scale > 0.0).then(|| score as f64 / scale)
}

#[cfg(test)]
mod tests {
    use super::kendall_tau;

    #[test]
    fn the_order_counts_and_nothing_else() {
        let tau = |published: &[f64], predicted: &[f64]| {
            kendall_tau(published.iter().copied().zip(predicted.iter().copied()))
        };
        let rows: [(&[f64], &[f64], Option<f64>); 8] = [
            (&[1.0, 2.0, 3.0], &[10.0, 20.0, 900.0], Some(1.0)),
            (&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0], Some(-1.0)),
            (&[1.0, 2.0, 3.0, 4.0], &[1.0, 3.0, 2.0, 4.0], Some(4.0 / 6.0)),
            // Ties on both sides, as Kendall's own example has them.
            (
                &[1.0, 2.5, 2.5, 4.5, 4.5, 6.5, 6.5, 8.0, 9.5, 9.5],
                &[1.0, 2.0, 4.5, 4.5, 4.5, 4.5, 8.0, 8.0, 8.0, 10.0],
                Some(33.0 / (41.0_f64 * 36.0).sqrt()),
            ),
            (&[1.0, 1.0, 2.0], &[5.0, 5.0, 6.0], Some(1.0)),
            (&[1.0], &[1.0], None),
            (&[], &[], None),
            (&[1.0, 2.0], &[3.0, 3.0], None),
        ];
        for (published, predicted, expected) in rows {
            let found = tau(published, predicted);
            let same = match (found, expected) {
                (Some(found), Some(expected)) => (found - expected).abs() < 1e-12,
                (found, expected) => found == expected,
            };
            assert!(same, "{published:?} and {predicted:?}: {found:?}, not {expected:?}");
        }
    }
}
