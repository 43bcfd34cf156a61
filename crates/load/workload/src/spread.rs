//! Mean and standard deviation of a figure measured in several rounds.
//!
//! The standard deviation is that of a sample (n - 1); the interval is Student's, for independent rounds with a nearly
//! normal distribution: mean ± t(n - 1) · deviation / √n contains the true mean in 95 of 100 cases.
//!
//! Source of t: Student (1908), its quantiles as tabulated; beyond the table the expansion of Cornish and Fisher, which
//! is correct to four digits there.

use serde::{Deserialize, Serialize};

/// Quantiles of Student's t at 97.5 % for 1 to 30 degrees of freedom.
const T_975: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// Mean and spread of some values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Spread {
    /// How many there are.
    pub count: u32,
    /// Their mean; zero without any.
    pub mean: f64,
    /// Their standard deviation; zero where there are fewer than two.
    pub stddev: f64,
    /// Half of the width of the 95 % confidence interval of the mean; none where there are fewer than two.
    pub ci95_half: Option<f64>,
}

impl Spread {
    /// The spread of `values`.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len();
        if count == 0 {
            return Self::default();
        }
        let mean = values.iter().sum::<f64>() / count as f64;
        let squares: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
        let stddev = if count > 1 { (squares / (count - 1) as f64).sqrt() } else { 0.0 };
        let ci95_half = (count > 1).then(|| t_975(count - 1) * stddev / (count as f64).sqrt());
        Self { count: count as u32, mean, stddev, ci95_half }
    }

    /// The standard deviation in percent of the mean; zero where the mean is.
    pub fn stddev_pct(&self) -> f64 {
        if self.mean == 0.0 { 0.0 } else { self.stddev / self.mean.abs() * 100.0 }
    }
}

fn t_975(freedom: usize) -> f64 {
    const Z: f64 = 1.959_964;
    if let Some(t) = T_975.get(freedom - 1) {
        return *t;
    }
    let n = freedom as f64;
    Z + (Z.powi(3) + Z) / (4.0 * n) + (5.0 * Z.powi(5) + 16.0 * Z.powi(3) + 3.0 * Z) / (96.0 * n * n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sample_by_hand() {
        let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]);
        assert_eq!((spread.count, spread.mean), (8, 5.0));
        assert!((spread.stddev - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        let half = spread.ci95_half.expect("there are eight");
        assert!((half - 2.365 * spread.stddev / 8.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(Spread::of(&[3.0]), Spread { count: 1, mean: 3.0, stddev: 0.0, ci95_half: None });
        assert_eq!(Spread::of(&[]), Spread::default());
    }

    #[test]
    fn the_expansion_goes_on_where_the_table_ends() {
        // As tabulated for 40, 60 and 120 degrees of freedom.
        for (freedom, t) in [(40, 2.0211), (60, 2.0003), (120, 1.9799)] {
            assert!((t_975(freedom) - t).abs() < 1e-4, "{freedom}: {}", t_975(freedom));
        }
        assert!((1..200).all(|freedom| t_975(freedom) > t_975(freedom + 1)));
    }

    proptest! {
        #[test]
        fn shifting_moves_the_mean_and_scaling_all(
            values in proptest::collection::vec(-1e3_f64..1e3, 2..40),
            shift in -1e3_f64..1e3,
            times in 0.1_f64..10.0,
        ) {
            let (plain, moved) =
                (Spread::of(&values), Spread::of(&values.iter().map(|it| it * times + shift).collect::<Vec<_>>()));
            prop_assert!((moved.mean - (plain.mean * times + shift)).abs() < 1e-6);
            prop_assert!((moved.stddev - plain.stddev * times).abs() < 1e-6);
        }
    }
}
