//! What counted errors say about the error rate.
//!
//! Independent single errors in `n` bits follow the Poisson distribution with mean `n p`. The upper bound at confidence
//! `c` is the rate at which the observed number of errors, or fewer, has a probability of `1 - c`:
//!
//! ```text
//!   sum over i = 0..k of  exp(-m) m^i / i!  =  1 - c          bound = m / n
//!   without an error: m = -ln(1 - c), which is 3.0 at 95 %: "the rule of three"
//! ```
//! Source: Garwood, "Fiducial limits for the Poisson distribution", Biometrika 28 (1936). For more than a thousand
//! errors the equal quantile of the chi-squared distribution is computed by Wilson and Hilferty's approximation (1931).

/// Above this the sum is long, and the approximation better than four digits.
const EXACT_ERRORS_MAX: u64 = 1000;

/// The largest rate per bit that goes with `errors` in `bits` at a `confidence` between 0 and 1; none without bits.
///
/// # Panics
/// If the confidence is not between 0 and 1.
pub fn error_rate_upper_bound(bits: u128, errors: u64, confidence: f64) -> Option<f64> {
    assert!(confidence > 0.0 && confidence < 1.0, "a confidence is between 0 and 1");
    (bits > 0).then(|| poisson_upper_mean(errors, 1.0 - confidence) / bits as f64)
}

/// The mean at which `errors` or fewer have a chance of `chance`.
fn poisson_upper_mean(errors: u64, chance: f64) -> f64 {
    if errors > EXACT_ERRORS_MAX {
        return wilson_hilferty(errors, chance);
    }
    let (mut low, mut high) = (errors as f64, errors as f64 + 10.0);
    while cumulative(errors, high) > chance {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = low.midpoint(high);
        if cumulative(errors, middle) > chance { low = middle } else { high = middle }
    }
    low.midpoint(high)
}

/// The chance of `errors` or fewer where `mean` are expected, summed from logarithms so that nothing overflows.
fn cumulative(errors: u64, mean: f64) -> f64 {
    let mut log_term = -mean;
    let mut sum = log_term.exp();
    for i in 1..=errors {
        log_term += mean.ln() - (i as f64).ln();
        sum += log_term.exp();
    }
    sum
}

fn wilson_hilferty(errors: u64, chance: f64) -> f64 {
    let half_degrees = errors as f64 + 1.0;
    let ninth = 1.0 / (9.0 * half_degrees);
    half_degrees * (1.0 - ninth - normal_quantile(chance) * ninth.sqrt()).powi(3)
}

/// The value below which a normal variable is with the chance `p`. Source: Abramowitz and Stegun 26.2.23, error below 4.5e-4.
fn normal_quantile(p: f64) -> f64 {
    let (p, sign) = if p < 0.5 { (p, -1.0) } else { (1.0 - p, 1.0) };
    let t = (-2.0 * p.ln()).sqrt();
    let above = 0.010_328f64.mul_add(t, 0.802_853).mul_add(t, 2.515_517);
    let below = 0.001_308f64.mul_add(t, 0.189_269).mul_add(t, 1.432_788).mul_add(t, 1.0);
    sign * (t - above / below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_are_those_of_the_tables() {
        // Upper one-sided limits at 95 %, as in the tables of the chi-squared distribution (half of the quantile).
        for (errors, mean) in [(0, 2.9957), (1, 4.7439), (2, 6.2958), (10, 16.9622), (50, 63.287)] {
            let bound = error_rate_upper_bound(1, errors, 0.95).expect("there are bits");
            assert!((bound / mean - 1.0).abs() < 1e-4, "{errors} errors: {bound}, not {mean}");
        }
        let nines = error_rate_upper_bound(1, 0, 0.99).expect("there are bits");
        assert!((nines - 100f64.ln()).abs() < 1e-9);
    }

    #[test]
    fn many_errors_join_up_with_few() {
        let few = poisson_upper_mean(EXACT_ERRORS_MAX, 0.05);
        let many = wilson_hilferty(EXACT_ERRORS_MAX, 0.05);
        assert!((few / many - 1.0).abs() < 1e-4, "{few} and {many}");
    }

    #[test]
    fn more_bits_say_more_and_none_say_nothing() {
        assert_eq!(error_rate_upper_bound(0, 0, 0.95), None);
        let bound = |bits| error_rate_upper_bound(bits, 0, 0.95).expect("there are bits");
        assert!((bound(1_000_000) / bound(1_000) - 1e-3).abs() < 1e-12);
        // The paper's disks: 6e14 bits without an error are below 5e-15.
        assert!((bound(600_000_000_000_000) / 4.993e-15 - 1.0).abs() < 1e-3);
    }
}
