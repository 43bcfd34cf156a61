//! Whether two sets of repeated runs differ by more than chance.
//!
//! - **Welch** compares means without assuming equal variances: `t = (mean_a - mean_b) / sqrt(va/na + vb/nb)`, with the
//!   degrees of freedom of Welch and Satterthwaite, `(va/na + vb/nb)^2 / ((va/na)^2/(na-1) + (vb/nb)^2/(nb-1))`. The
//!   interval of the ratio of means is that of the difference over the mean of B.
//! - **Mann and Whitney** compare ranks and assume no distribution: `U` is the number of pairs in which A is greater,
//!   with half of the ties. Its distribution is exact without ties and with at most [`EXACT_MAX`] runs a side, else it
//!   is the normal one with correction for ties and continuity.
//!
//! - **Rounds** compare many configurations that were all run once in each round, as in a randomised block design.
//!   Noise is modelled as a factor of about equal size for all of them: `ln x_ij = m_i + b_j + e_ij` for configuration
//!   i in round j. The variance of e comes from all configurations together, `sum (ln x_ij - m_i - b_j)^2 /
//!   ((c-1)(r-1))`, so that three rounds of ten arrays leave 18 degrees of freedom where a pair by itself has two to
//!   four; and what slows down a whole round, `b_j`, is not noise between arrays. All are compared with the best one,
//!   as in Hsu's procedure: one-sided, with each p-value times the number of comparisons (Bonferroni).
//!
//! The first two are two-sided. Runs must be independent: windows of one run are not repeats. Left out of the first
//! two: corrections for many comparisons at once; of twenty cells, expect one below 0.05.
//!
//! Sources: B. L. Welch, "The generalization of Student's problem when several different population variances are involved",
//! Biometrika 34, 1947; F. E. Satterthwaite, Biometrics Bulletin 2, 1946; H. B. Mann and D. R. Whitney, "On a test of whether
//! one of two random variables is stochastically larger than the other", Annals of Mathematical Statistics 18, 1947;
//! R. A. Fisher, "The Design of Experiments", 1935 (randomised blocks); J. C. Hsu, "Multiple comparisons with the best", Annals of Statistics 9, 1981. The incomplete
//! beta function by its continued fraction (NIST Digital Library of Mathematical Functions, 8.17.22), the gamma
//! function by Lanczos, "A precision approximation of the gamma function", SIAM Journal on Numerical Analysis 1, 1964.

use serde::Serialize;

/// Runs a side for which the distribution of U is counted.
pub const EXACT_MAX: usize = 20;

/// What Welch's test says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Welch {
    /// Mean of A.
    pub mean_a: f64,
    /// Mean of B.
    pub mean_b: f64,
    /// The statistic.
    pub t: f64,
    /// Degrees of freedom.
    pub degrees: f64,
    /// Chance of a difference at least as large where there is none.
    pub p: f64,
    /// Difference of the means, A less B, that 95 % of such intervals hold: from, to.
    pub difference_95: (f64, f64),
}

impl Welch {
    /// Mean of A over mean of B, with the interval; none where B's mean is not above zero.
    pub fn ratio(&self) -> Option<(f64, (f64, f64))> {
        let of = |difference: f64| 1.0 + difference / self.mean_b;
        let (low, high) = self.difference_95;
        (self.mean_b > 0.0).then(|| (self.mean_a / self.mean_b, (of(low), of(high))))
    }
}

/// What Mann and Whitney's test says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MannWhitney {
    /// Pairs in which A is greater, ties for half.
    pub u: f64,
    /// Chance of ranks at least as lopsided where there is no difference.
    pub p: f64,
    /// Whether the distribution was counted, not approximated.
    pub is_exact: bool,
}

/// Welch's test; none with fewer than two runs a side, or where no figure differs from any other on its side.
pub fn welch(a: &[f64], b: &[f64]) -> Option<Welch> {
    let ((mean_a, error_a), (mean_b, error_b)) = (mean_and_error(a)?, mean_and_error(b)?);
    let square = error_a + error_b;
    if square <= 0.0 {
        return None;
    }
    let degrees = square * square
        / (error_a * error_a / (a.len() as f64 - 1.0) + error_b * error_b / (b.len() as f64 - 1.0));
    let (difference, spread) = (mean_a - mean_b, square.sqrt());
    let t = difference / spread;
    let reach = student_quantile_95(degrees) * spread;
    Some(Welch {
        mean_a,
        mean_b,
        t,
        degrees,
        p: student_two_sided(t, degrees),
        difference_95: (difference - reach, difference + reach),
    })
}

/// The mean, and the square of its standard error.
pub(crate) fn mean_and_error(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    if values.len() < 2 || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some((mean, variance / count))
}

/// What repeats of several configurations tell of the noise between them; figures are taken as logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rounds {
    /// Variance of a figure within its configuration, less what a whole round shares.
    variance: f64,
    degrees: f64,
    /// The same with what a whole round shares.
    variance_of_all: f64,
    degrees_of_all: f64,
}

impl Rounds {
    /// The noise of `configurations`, each with its figures in the order of the rounds. Those with a figure that is not above zero
    /// are left out. Rounds are told apart only where at least three configurations were in all of them. None where nothing was
    /// repeated, or no figure differs.
    pub fn of(configurations: &[&[f64]]) -> Option<Self> {
        let repeated = configurations.iter().filter(|values| values.len() > 1);
        let deviations: Vec<Vec<f64>> = repeated.filter_map(|values| log_deviations(values)).collect();
        let count = deviations.len() as f64;
        let degrees_of_all = deviations.iter().map(|of_one| of_one.len() as f64 - 1.0).sum::<f64>();
        let squares = deviations.iter().flatten().map(|deviation| deviation * deviation).sum::<f64>();
        let rounds = deviations.first()?.len();
        let (mut rest, mut degrees) = (squares, degrees_of_all);
        if deviations.len() >= 3 && deviations.iter().all(|of_one| of_one.len() == rounds) {
            let shared = |round: usize| deviations.iter().map(|of_one| of_one[round]).sum::<f64>() / count;
            rest -= (0..rounds).map(|round| count * shared(round).powi(2)).sum::<f64>();
            degrees -= rounds as f64 - 1.0;
        }
        (rest > 0.0).then(|| Self {
            variance: rest / degrees,
            degrees,
            variance_of_all: squares / degrees_of_all,
            degrees_of_all,
        })
    }

    /// Chance that `other`, one of `others` that are compared with `best`, is not slower: its figures would be as far below by luck.
    pub fn chance_that_as_good(&self, other: &[f64], best: &[f64], others: usize) -> f64 {
        let mean = |values: &[f64]| values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64;
        let error = self.variance * (1.0 / other.len() as f64 + 1.0 / best.len() as f64);
        let t = (mean(best) - mean(other)) / error.sqrt();
        let beyond = student_two_sided(t, self.degrees) / 2.0;
        let is_below = t > 0.0;
        (others as f64 * if is_below { beyond } else { 1.0 - beyond }).min(1.0)
    }

    /// Half the width of the 95 % interval of a mean of `repeats` figures, as a share of it.
    pub fn half_width_95(&self, repeats: usize) -> f64 {
        student_quantile_95(self.degrees_of_all) * (self.variance_of_all / repeats as f64).sqrt()
    }
}

/// How far the logarithm of each figure is from their mean; none where one is not above zero.
fn log_deviations(values: &[f64]) -> Option<Vec<f64>> {
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    logs.iter().all(|log| log.is_finite()).then(|| logs.iter().map(|log| log - mean).collect())
}

/// Mann and Whitney's test; none where a side has no run.
pub fn mann_whitney(a: &[f64], b: &[f64]) -> Option<MannWhitney> {
    if a.is_empty() || b.is_empty() || a.iter().chain(b).any(|value| !value.is_finite()) {
        return None;
    }
    let pair = |x: &f64, y: &f64| match x.total_cmp(y) {
        _ if x == y => 0.5,
        std::cmp::Ordering::Greater => 1.0,
        _ => 0.0,
    };
    let u: f64 = a.iter().flat_map(|x| b.iter().map(move |y| pair(x, y))).sum();
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    all.sort_by(f64::total_cmp);
    let ties: Vec<f64> = all.chunk_by(|x, y| x == y).map(|run| run.len() as f64).collect();
    let is_exact = ties.iter().all(|run| *run == 1.0) && a.len().max(b.len()) <= EXACT_MAX;
    let p = if is_exact { exact_p(u, a.len(), b.len()) } else { normal_p(u, a.len(), b.len(), &ties) };
    Some(MannWhitney { u, p, is_exact })
}

/// Counts in how many of all orders of `a` and `b` figures U is as far from its mean as `u`.
fn exact_p(u: f64, a: usize, b: usize) -> f64 {
    // ways[i][j]: orders of i of A and some of B in which U is j; the last one placed is of A (j grows by the Bs) or of B.
    let most = a * b;
    let mut ways = vec![vec![0.0; most + 1]; a + 1];
    ways[0][0] = 1.0;
    let mut by_b = vec![ways];
    for placed_b in 0..=b {
        let mut table = if placed_b == 0 { by_b[0].clone() } else { vec![vec![0.0; most + 1]; a + 1] };
        for of_a in 0..=a {
            for at in 0..=most {
                let last_is_b = if placed_b > 0 { by_b[placed_b - 1][of_a][at] } else { 0.0 };
                let last_is_a = if of_a > 0 && at >= placed_b { table[of_a - 1][at - placed_b] } else { 0.0 };
                if of_a > 0 || placed_b > 0 {
                    table[of_a][at] = last_is_b + last_is_a;
                }
            }
        }
        if placed_b == 0 {
            by_b[0] = table;
        } else {
            by_b.push(table);
        }
    }
    let counts = &by_b[b][a];
    let low = u.min(most as f64 - u) as usize;
    let tail: f64 = counts[..=low].iter().sum();
    (2.0 * tail / counts.iter().sum::<f64>()).min(1.0)
}

fn normal_p(u: f64, a: usize, b: usize, ties: &[f64]) -> f64 {
    let (a, b) = (a as f64, b as f64);
    let n = a + b;
    let tied: f64 = ties.iter().map(|run| run.powi(3) - run).sum();
    let variance = a * b / 12.0 * (n + 1.0 - tied / (n * (n - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let beyond = ((u - a * b / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    // A normal variable is Student's with infinitely many degrees of freedom; a million come to it within 1e-6.
    student_two_sided(beyond, 1e6)
}

/// Chance that a variable of Student's distribution is at least as far from zero as `t`.
pub fn student_two_sided(t: f64, degrees: f64) -> f64 {
    incomplete_beta(degrees / 2.0, 0.5, degrees / (degrees + t * t))
}

/// The value that a variable of Student's distribution stays within, either side of zero, with a chance of 95 %.
pub(crate) fn student_quantile_95(degrees: f64) -> f64 {
    student_quantile(0.05, degrees)
}

/// The value that a variable of Student's distribution is at least as far from zero as with the chance `beyond`.
pub(crate) fn student_quantile(beyond: f64, degrees: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1e4);
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if student_two_sided(middle, degrees) > beyond { low = middle } else { high = middle }
    }
    high
}

/// The regularized incomplete beta function `I_x(a, b)`.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges fast on one side of the mean; the other side follows by symmetry.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(b, a, 1.0 - x);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    front * beta_fraction(a, b, x)
}

/// The continued fraction by Lentz's method: the ratios of successive numerators and of successive denominators are carried on.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const STEPS: u32 = 10_000;
    const TINY: f64 = 1e-300;
    let away = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut above = 1.0;
    let mut below = 1.0 / away(1.0 - (a + b) * x / (a + 1.0));
    let mut result = below;
    for step in (1..STEPS).map(f64::from) {
        let twice = a + 2.0 * step;
        let even = step * (b - step) * x / ((twice - 1.0) * twice);
        let odd = -(a + step) * (a + b + step) * x / (twice * (twice + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            below = 1.0 / away(1.0 + term * below);
            above = away(1.0 + term / above);
            change = above * below;
            result *= change;
        }
        if (change - 1.0).abs() < 1e-14 {
            break;
        }
    }
    result
}

/// The logarithm of the gamma function for `x > 0`, within 1e-13 of its value.
fn ln_gamma(x: f64) -> f64 {
    const G: f64 = 7.0;
    const C: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    let x = x - 1.0;
    let mut sum = C[0];
    for (index, factor) in C.iter().enumerate().skip(1) {
        sum += factor / (x + index as f64);
    }
    let t = x + G + 0.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quantiles of Student's distribution as every table has them: degrees, t, two-sided chance.
    #[test]
    fn student_agrees_with_the_tables() {
        let rows = [
            (1.0, 12.706, 0.05),
            (2.0, 4.303, 0.05),
            (5.0, 2.571, 0.05),
            (10.0, 3.169, 0.01),
            (30.0, 2.042, 0.05),
            (120.0, 1.980, 0.05),
            (1e6, 1.960, 0.05),
        ];
        for (degrees, t, p) in rows {
            let got = student_two_sided(t, degrees);
            assert!((got / p - 1.0).abs() < 2e-3, "{degrees} degrees, t {t}: {got}");
            if p == 0.05 {
                assert!((student_quantile_95(degrees) / t - 1.0).abs() < 1e-3);
            }
        }
        // One degree of freedom is Cauchy's distribution, which has a closed form.
        for t in [0.1_f64, 1.0, 7.0] {
            let want = 1.0 - 2.0 / std::f64::consts::PI * t.atan();
            assert!((student_two_sided(t, 1.0) - want).abs() < 1e-12);
        }
    }

    #[test]
    fn welch_follows_its_formula() {
        let (a, b) = ([20.0, 22.0, 24.0, 26.0], [10.0, 11.0, 12.0]);
        let test = welch(&a, &b).expect("both sides have runs");
        let (va, vb): (f64, f64) = (20.0 / 3.0 / 4.0, 1.0 / 3.0);
        assert!((test.t - 12.0 / (va + vb).sqrt()).abs() < 1e-12);
        let degrees = (va + vb).powi(2) / (va * va / 3.0 + vb * vb / 2.0);
        assert!((test.degrees - degrees).abs() < 1e-12);
        assert!(test.p < 0.01 && test.difference_95.0 > 0.0, "{test:?}");
        let (ratio, (low, high)) = test.ratio().expect("B is above zero");
        assert!((ratio - 23.0 / 11.0).abs() < 1e-12 && low < ratio && ratio < high);
        assert_eq!(welch(&[1.0], &b), None);
        assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0]), None, "no spread, nothing to compare it with");
    }

    #[test]
    fn rounds_follow_their_formula() {
        // ln x = m_i + b_j + e_ij with m = 0, 1, 2; b = -1, 0, 1; and e, whose rows and columns sum to zero.
        let e = [[0.1, -0.2, 0.1], [-0.1, 0.2, -0.1], [0.0, 0.0, 0.0]];
        let figures: Vec<Vec<f64>> = e
            .iter()
            .zip(0..)
            .map(|(row, m)| (0..3).map(|j| (f64::from(m) + j as f64 - 1.0 + row[j]).exp()).collect())
            .collect();
        let all: Vec<&[f64]> = figures.iter().map(Vec::as_slice).collect();
        let rounds = Rounds::of(&all).expect("they differ");
        assert!((rounds.variance - 0.12 / 4.0).abs() < 1e-12 && rounds.degrees == 4.0, "{rounds:?}");
        assert!((rounds.variance_of_all - 6.12 / 6.0).abs() < 1e-12 && rounds.degrees_of_all == 6.0);
        let t = 1.0 / (0.03_f64 * 2.0 / 3.0).sqrt();
        let chance = rounds.chance_that_as_good(all[0], all[1], 2);
        assert!((chance - student_two_sided(t, 4.0)).abs() < 1e-12, "{chance}");
        assert_eq!(rounds.chance_that_as_good(all[1], all[0], 2), 1.0, "it is faster");
        // Two alone, or of unequal length, have no rounds.
        let pair = Rounds::of(&all[..2]).expect("they differ");
        assert!((pair.variance - 4.12 / 4.0).abs() < 1e-12 && pair.degrees == 4.0, "{pair:?}");
        let ragged = Rounds::of(&[all[0], all[1], &all[2][..2], &[5.0]]).expect("they differ");
        assert_eq!((ragged.degrees, ragged.degrees_of_all), (5.0, 5.0));
        for nothing in [&[&[1.0][..], &[2.0]][..], &[&[1.0, 1.0]], &[&[0.0, 1.0]], &[]] {
            assert_eq!(Rounds::of(nothing), None, "{nothing:?}");
        }
    }

    /// All orders of the figures, one by one: the slow oracle.
    fn slow_p(a: usize, b: usize, u: f64) -> f64 {
        let (mut as_far, mut all) = (0_u32, 0_u32);
        let mean = (a * b) as f64 / 2.0;
        for mask in 0_u32..1 << (a + b) {
            if mask.count_ones() as usize == a {
                let places: Vec<bool> = (0..a + b).map(|bit| mask >> bit & 1 == 1).collect();
                let below = |at: usize| places[..at].iter().filter(|is_a| !**is_a).count();
                let own: usize = (0..a + b).filter(|at| places[*at]).map(below).sum();
                all += 1;
                as_far += u32::from((own as f64 - mean).abs() >= (u - mean).abs() - 1e-9);
            }
        }
        f64::from(as_far) / f64::from(all)
    }

    #[test]
    fn u_is_counted_as_by_hand() {
        for (a, b) in [(1, 1), (2, 3), (4, 4), (5, 3), (6, 6)] {
            for u in 0..=a * b {
                let (got, want) = (exact_p(u as f64, a, b), slow_p(a, b, u as f64));
                assert!((got - want.min(1.0)).abs() < 1e-12, "{a} and {b} with U {u}: {got}, not {want}");
            }
        }
        let test = mann_whitney(&[5.0, 6.0, 7.0, 8.0], &[1.0, 2.0, 3.0, 4.0]).expect("both sides have runs");
        assert_eq!((test.u, test.is_exact), (16.0, true));
        assert!((test.p - 2.0 / 70.0).abs() < 1e-12);
        assert_eq!(mann_whitney(&[], &[1.0]), None);
    }

    #[test]
    fn ties_and_many_runs_are_taken_as_normal() {
        let tied = mann_whitney(&[1.0, 1.0, 2.0], &[1.0, 2.0, 2.0]).expect("both sides have runs");
        assert!(!tied.is_exact && tied.p > 0.5, "{tied:?}");
        let same = mann_whitney(&[1.0, 1.0], &[1.0, 1.0]).expect("both sides have runs");
        assert_eq!(same.p, 1.0);
        // At the edge of what is counted, counting and the normal curve agree.
        let a: Vec<f64> = (0..20).map(|i| f64::from(i) * 1.7).collect();
        let b: Vec<f64> = (0..20).map(|i| f64::from(i) * 1.1 + 0.3).collect();
        let counted = mann_whitney(&a, &b).expect("both sides have runs");
        let curve = normal_p(counted.u, 20, 20, &[1.0; 40]);
        assert!(counted.is_exact && (counted.p - curve).abs() < 0.01, "{counted:?} and {curve}");
    }
}
