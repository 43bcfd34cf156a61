//! A minimum without derivatives: the pattern search of Hooke and Jeeves, in the logarithm of each value, within bounds.
//!
//! The function is the caller's and slow. The search returns points and takes their values, so that the caller may
//! compute those of a batch in any order and on any number of threads:
//! ```text
//! poll_batch ─► points ─► values ─► handle_values ─► poll_batch ─► ... ─► None
//!
//! scan:   value 1 all over its range │ value 2 │ ...                              once, before the first round
//! round:  value 1 up, down │ value 2 up, down │ ... │ all of them once more as far as this round moved them
//! ```
//! The scan finds what steps cannot see: a rate that limits nothing over a wide range, and everything beyond. Each
//! value has its own step. A step that gains is taken and grows by half; if neither side gains, it is halved. A gain
//! below [`SearchConfig::least_gain`] does not count: the functions here are simulations, whose noise a search would
//! follow. A value without effect stays where it was.
//!
//! Invariants: no point is outside the bounds; the best value never rises; the points depend only on the values. Left
//! out: models of the function, restarts from other places. It finds a local minimum near the start, as suits a
//! correction of known values. Source: R. Hooke and T. A. Jeeves, *"Direct Search" Solution of Numerical and
//! Statistical Problems*, Journal of the ACM 8, 1961.

/// Where one value may lie; all three are above zero, in any unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchRange {
    /// The least that it may be.
    pub low: f64,
    /// The most.
    pub high: f64,
    /// Where the search begins.
    pub start: f64,
}

impl SearchRange {
    /// Whether the three are in order and above zero.
    pub fn is_sound(&self) -> bool {
        let finite = self.low.is_finite() && self.high.is_finite();
        finite && self.low > 0.0 && self.low <= self.start && self.start <= self.high
    }
}

/// How far and how finely to search.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchConfig {
    /// Rounds over all values at most.
    pub rounds: u32,
    /// First step, as a natural logarithm: 0.2 is 22 % up or 18 % down.
    pub first_step: f64,
    /// The search ends when all steps are below this.
    pub least_step: f64,
    /// What a better value must be better by, at least.
    pub least_gain: f64,
    /// Points to try all over the range of each value before the first round, evenly apart in the logarithm. One of them is
    /// taken only for ten times the least gain: what was known before is not given up for little.
    pub scan_points: u32,
}

/// How many times the least gain a point of the scan must gain.
const SCAN_GAINS: f64 = 10.0;

impl Default for SearchConfig {
    fn default() -> Self {
        Self { rounds: 8, first_step: 0.2, least_step: 0.02, least_gain: 0.0003, scan_points: 0 }
    }
}

/// What the next batch is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The value at the start.
    Start,
    /// One value all over its range.
    Scan(usize),
    /// One value up and down.
    Along(usize),
    /// All values on, as far as the round moved them.
    Onward,
    Done,
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct PatternSearch {
    /// Logarithms of the bounds.
    bounds: Vec<(f64, f64)>,
    config: SearchConfig,
    stage: Stage,
    /// Rounds that have ended.
    rounds: u32,
    steps: Vec<f64>,
    /// Logarithms of the best values so far.
    best: Vec<f64>,
    best_value: f64,
    /// The same when the round began.
    round_start: Vec<f64>,
    /// Logarithms of the points handed out last.
    batch: Vec<Vec<f64>>,
}

impl PatternSearch {
    /// Begins a search over `ranges`, each of which must be sound.
    ///
    /// # Panics
    /// If a range is not sound.
    pub fn new(ranges: &[SearchRange], config: SearchConfig) -> Self {
        assert!(ranges.iter().all(SearchRange::is_sound), "a range that is not sound: {ranges:?}");
        let start: Vec<f64> = ranges.iter().map(|range| range.start.ln()).collect();
        Self {
            bounds: ranges.iter().map(|range| (range.low.ln(), range.high.ln())).collect(),
            config,
            stage: Stage::Start,
            rounds: 0,
            steps: vec![config.first_step; ranges.len()],
            round_start: start.clone(),
            best: start,
            best_value: f64::INFINITY,
            batch: Vec::new(),
        }
    }

    /// The points whose values are wanted next, in the ranges' units; none when the search has ended.
    ///
    /// Asking again before the values are in gives the same points.
    pub fn poll_batch(&mut self) -> Option<Vec<Vec<f64>>> {
        loop {
            self.batch = match self.stage {
                Stage::Done => return None,
                Stage::Start => vec![self.best.clone()],
                Stage::Scan(index) => self.across(index),
                Stage::Along(index) => self.beside(index),
                Stage::Onward => self.onward(),
            };
            if !self.batch.is_empty() {
                return Some(self.batch.iter().map(|point| values(point)).collect());
            }
            self.advance();
        }
    }

    /// Takes in the values of the batch handed out last, in its order. What is no number counts as infinite.
    ///
    /// # Panics
    /// If there are not as many values as the batch has points.
    pub fn handle_values(&mut self, found: &[f64]) {
        assert_eq!(found.len(), self.batch.len(), "every point of the batch has a value");
        let number = |value: &f64| if value.is_nan() { f64::INFINITY } else { *value };
        let best = found.iter().map(number).enumerate().min_by(|(_, a), (_, b)| a.total_cmp(b));
        let (index, value) = best.expect("a batch has a point");
        let least = match self.stage {
            Stage::Scan(_) => SCAN_GAINS * self.config.least_gain,
            _ => self.config.least_gain,
        };
        let gains = self.stage == Stage::Start || value < self.best_value - least;
        if gains {
            self.best.clone_from(&self.batch[index]);
            self.best_value = value;
        }
        if let Stage::Along(moved) = self.stage {
            let grown = (self.steps[moved] * 1.5).min(self.config.first_step);
            self.steps[moved] = if gains { grown } else { self.steps[moved] / 2.0 };
        }
        self.advance();
    }

    /// The best values so far, in the ranges' units, and the function's value there: infinite before the first.
    pub fn best(&self) -> (Vec<f64>, f64) {
        (values(&self.best), self.best_value)
    }

    /// Rounds that have ended.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Which value the next batch moves; none where it moves all or has ended.
    pub fn moving(&self) -> Option<usize> {
        match self.stage {
            Stage::Scan(index) | Stage::Along(index) => Some(index),
            Stage::Start | Stage::Onward | Stage::Done => None,
        }
    }

    /// Points all over the range of one value.
    fn across(&self, index: usize) -> Vec<Vec<f64>> {
        let ((low, high), count) = (self.bounds[index], self.config.scan_points);
        let place = |point: u32| low + (high - low) * (f64::from(point) + 0.5) / f64::from(count);
        (0..count).map(|point| self.with(index, place(point))).collect()
    }

    /// The best point with another value at `index`.
    fn with(&self, index: usize, value: f64) -> Vec<f64> {
        let mut point = self.best.clone();
        point[index] = value;
        point
    }

    /// The points on both sides of the best, as far as the bounds leave room.
    fn beside(&self, index: usize) -> Vec<Vec<f64>> {
        let step = self.steps[index];
        if step < self.config.least_step {
            return Vec::new();
        }
        let (low, high) = self.bounds[index];
        let moved = [step, -step].map(|step| (self.best[index] + step).clamp(low, high));
        let moved = moved.into_iter().filter(|to| (to - self.best[index]).abs() > step / 1e6);
        moved.map(|to| self.with(index, to)).collect()
    }

    /// The point as far beyond the best as the best is beyond where the round began; none where it did not move.
    fn onward(&self) -> Vec<Vec<f64>> {
        if self.best == self.round_start {
            return Vec::new();
        }
        let moved = self.best.iter().zip(&self.round_start).zip(&self.bounds);
        vec![moved.map(|((best, start), (low, high))| (2.0 * best - start).clamp(*low, *high)).collect()]
    }

    fn advance(&mut self) {
        self.stage = match self.stage {
            Stage::Start => Stage::Scan(0),
            Stage::Scan(index) => Stage::Scan(index + 1),
            Stage::Along(index) => Stage::Along(index + 1),
            Stage::Onward => {
                self.rounds += 1;
                self.round_start.clone_from(&self.best);
                let is_fine = self.steps.iter().all(|step| *step < self.config.least_step);
                if is_fine || self.rounds >= self.config.rounds { Stage::Done } else { Stage::Along(0) }
            }
            Stage::Done => Stage::Done,
        };
        if self.stage == Stage::Scan(self.steps.len()) {
            self.round_start.clone_from(&self.best);
            self.stage = Stage::Along(0);
        }
        if self.stage == Stage::Along(self.steps.len()) {
            self.stage = Stage::Onward;
        }
        if self.config.rounds == 0 {
            self.stage = Stage::Done;
        }
    }
}

fn values(logarithms: &[f64]) -> Vec<f64> {
    logarithms.iter().map(|x| x.exp()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(low: f64, high: f64, start: f64) -> SearchRange {
        SearchRange { low, high, start }
    }

    fn fine(rounds: u32) -> SearchConfig {
        SearchConfig { rounds, first_step: 0.5, least_step: 1e-5, least_gain: 0.0, scan_points: 0 }
    }

    /// Searches to the end; returns the best point, its value, and how many were tried.
    fn minimum(
        ranges: &[SearchRange],
        config: SearchConfig,
        function: impl Fn(&[f64]) -> f64,
    ) -> (Vec<f64>, f64, usize) {
        let mut search = PatternSearch::new(ranges, config);
        let (mut tried, mut last) = (0, f64::INFINITY);
        while let Some(batch) = search.poll_batch() {
            for point in &batch {
                let within = point.iter().zip(ranges);
                let slack = 1.0 + 1e-12;
                assert!(
                    within.clone().all(|(x, range)| *x >= range.low / slack && *x <= range.high * slack),
                    "{point:?} is outside of {ranges:?}"
                );
            }
            tried += batch.len();
            assert!(tried < 100_000, "the search does not end");
            search.handle_values(&batch.iter().map(|point| function(point)).collect::<Vec<_>>());
            assert!(search.best().1 <= last, "the best value rose");
            last = search.best().1;
        }
        let (point, value) = search.best();
        (point, value, tried)
    }

    #[test]
    fn known_minima_are_found() {
        type Function = fn(&[f64]) -> f64;
        let rows: [(&str, Function, &[f64]); 4] = [
            ("bowl", |x| (x[0] / 3.0).ln().powi(2) + (x[1] / 0.02).ln().powi(2), &[3.0, 0.02]),
            ("edges", |x| (x[0] / 5.0).ln().abs() + 2.0 * (x[1] / 7.0).ln().abs(), &[5.0, 7.0]),
            // A valley across both axes, where steps along one alone are short.
            (
                "valley",
                |x| (x[0] * x[1] / 6.0).ln().powi(2) + 0.1 * (x[0] / x[1] / 1.5).ln().powi(2),
                &[3.0, 2.0],
            ),
            // Rosenbrock's, whose valley is bent.
            ("bend", |x| (1.0 - x[0]).powi(2) + 100.0 * (x[1] - x[0] * x[0]).powi(2), &[1.0, 1.0]),
        ];
        for (name, function, expected) in rows {
            let ranges = [range(0.01, 100.0, 0.5), range(0.001, 100.0, 1.9)];
            let (point, _, tried) = minimum(&ranges, fine(2_000), function);
            for (found, expected) in point.iter().zip(expected) {
                assert!((found / expected).ln().abs() < 0.01, "{name}: {point:?} after {tried} points");
            }
        }
    }

    #[test]
    fn a_minimum_outside_is_met_at_the_bound() {
        let (point, _, _) = minimum(&[range(1.0, 4.0, 2.0)], fine(100), |x| (x[0] - 9.0).powi(2));
        assert!((point[0] - 4.0).abs() < 1e-9, "{point:?}");
    }

    #[test]
    fn what_changes_nothing_stays_where_it_was() {
        let noise = |x: &[f64]| (x[0] / 2.0).ln().powi(2) + 1e-5 * (x[1] * 1e4).sin();
        let config = SearchConfig { rounds: 20, ..SearchConfig::default() };
        let (point, _, _) = minimum(&[range(0.1, 10.0, 1.0), range(0.1, 10.0, 1.25)], config, noise);
        assert!((point[0] / 2.0).ln().abs() < 0.05, "{point:?}");
        assert!((point[1] - 1.25).abs() < 1e-12, "{point:?}");
    }

    #[test]
    fn values_that_are_none_are_avoided() {
        let cliff = |x: &[f64]| if x[0] > 2.0 { f64::NAN } else { -x[0] };
        let (point, value, _) = minimum(&[range(0.5, 50.0, 1.0)], fine(100), cliff);
        assert!(point[0] <= 2.0 && point[0] > 1.99 && value < -1.99, "{point:?}");
    }

    #[test]
    fn a_scan_sees_beyond_a_plateau() {
        let plateau = |x: &[f64]| if x[0] > 60.0 { 1.0 } else { (x[0] / 40.0).ln().abs() };
        let ranges = [range(10.0, 400.0, 250.0), range(1.0, 9.0, 2.0)];
        let found = |scan_points| {
            let config = SearchConfig { scan_points, rounds: 30, ..SearchConfig::default() };
            minimum(&ranges, config, plateau).0
        };
        assert!((found(0)[0] - 250.0).abs() < 1e-9, "steps find nothing there");
        assert!((found(8)[0] / 40.0).ln().abs() < 0.05, "{:?}", found(8));
        assert!((found(8)[1] - 2.0).abs() < 1e-9, "what changes nothing stays");
    }

    #[test]
    fn rounds_are_counted_and_none_tries_the_start_alone() {
        let bowl = |x: &[f64]| (x[0] / 50.0).ln().abs();
        let ranges = [range(0.1, 100.0, 1.0)];
        let tried = |rounds| minimum(&ranges, SearchConfig { rounds, ..fine(0) }, bowl).2;
        assert_eq!(tried(0), 1);
        assert!(tried(1) >= 3 && tried(1) < tried(5));
        assert_eq!(minimum(&[], fine(3), |_| 7.0), (vec![], 7.0, 1));
    }
}
