//! A bounded search: one value at a time, up or down by a step, and finer steps where neither helps.
//!
//! ```text
//! value  ├──────────┼────●────┼──────────┤      a step is a share of the way between the bounds, which is divided evenly
//!       from       down  best  up        to     in logarithms where the least value is above zero
//! ```
//! It needs no derivatives, which simulations don't have, and takes no step that makes things worse; it ends where no single
//! step of the finest size helps, or with its trials. Source: Hooke and Jeeves, "Direct search", Journal of the ACM 8(2),
//! 1961 (the exploratory moves).

use super::FitParameter;

/// The first step, as a share of the way between the bounds.
const FIRST_STEP: f64 = 0.125;
/// Steps are halved down to this one.
const LAST_STEP: f64 = 1.0 / 64.0;

/// The state of a search. [`Search::next_trial`] and [`Search::take`] take turns.
#[derive(Clone, Debug)]
pub struct Search {
    parameters: Vec<FitParameter>,
    best: Vec<f64>,
    best_error: Option<f64>,
    step: f64,
    /// Which value is moved next, and up or down.
    turn: usize,
    down: bool,
    /// Turns since the last step that helped.
    idle: usize,
    trial: Vec<f64>,
    /// Every set of values tried.
    known: Vec<Vec<f64>>,
    trials_max: u32,
}

impl Search {
    /// A search from `start`, which is tried first as it is.
    pub fn new(parameters: &[FitParameter], start: Vec<f64>, trials_max: u32) -> Self {
        assert_eq!(parameters.len(), start.len(), "every parameter has a value");
        Self {
            parameters: parameters.to_vec(),
            trial: start.clone(),
            best: start,
            best_error: None,
            step: FIRST_STEP,
            turn: 0,
            down: false,
            idle: 0,
            known: Vec::new(),
            trials_max,
        }
    }

    /// The values to try next, if any would tell more.
    pub fn next_trial(&mut self) -> Option<Vec<f64>> {
        if self.best_error.is_none() {
            return Some(self.trial.clone());
        }
        while !self.is_complete() && self.trials() < self.trials_max {
            let moved = self.moved();
            if !self.known.contains(&moved) {
                self.trial = moved;
                return Some(self.trial.clone());
            }
            self.go_on();
        }
        None
    }

    /// Takes in the error of the last trial, the less the better.
    pub fn take(&mut self, error: f64) {
        self.known.push(self.trial.clone());
        let Some(best) = self.best_error else {
            self.best_error = Some(error);
            return;
        };
        if error < best {
            // The same way again, from there.
            (self.best_error, self.best, self.idle) = (Some(error), self.trial.clone(), 0);
        } else {
            self.go_on();
        }
    }

    /// The best values so far.
    pub fn best(&self) -> &[f64] {
        &self.best
    }

    /// Their error, once one is known.
    pub fn best_error(&self) -> Option<f64> {
        self.best_error
    }

    /// Sets of values tried.
    pub fn trials(&self) -> u32 {
        self.known.len() as u32
    }

    /// Whether no step of the finest size helps.
    pub fn is_complete(&self) -> bool {
        self.step < LAST_STEP || self.parameters.is_empty()
    }

    /// The best values, one of them moved.
    fn moved(&self) -> Vec<f64> {
        let mut values = self.best.clone();
        let parameter = &self.parameters[self.turn];
        let way = if self.down { -self.step } else { self.step };
        let old = values[self.turn];
        let new = parameter.rounded(at(parameter, place(parameter, old) + way));
        // A whole number moves by one at least.
        let is_stuck = parameter.whole && new == old;
        values[self.turn] = if is_stuck { parameter.rounded(old + way.signum()) } else { new };
        values
    }

    /// The other way, then the next value, then a finer step.
    fn go_on(&mut self) {
        self.idle += 1;
        if self.down {
            self.turn = (self.turn + 1) % self.parameters.len();
        }
        self.down = !self.down;
        if self.idle >= 2 * self.parameters.len() {
            (self.step, self.idle) = (self.step / 2.0, 0);
        }
    }
}

/// Where `value` lies between the bounds: 0 at the lower one, 1 at the upper one.
fn place(parameter: &FitParameter, value: f64) -> f64 {
    let FitParameter { from, to, .. } = *parameter;
    let value = value.clamp(from, to);
    if from > 0.0 { (value / from).ln() / (to / from).ln() } else { (value - from) / (to - from) }
}

/// The value that lies at `place`.
fn at(parameter: &FitParameter, place: f64) -> f64 {
    let FitParameter { from, to, .. } = *parameter;
    let place = place.clamp(0.0, 1.0);
    if from > 0.0 { from * (to / from).powf(place) } else { from + (to - from) * place }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameter(from: f64, to: f64, whole: bool) -> FitParameter {
        FitParameter {
            entries: vec!["x".into()],
            keys: vec!["y".into()],
            unit: String::new(),
            from,
            to,
            whole,
            rows: Vec::new(),
        }
    }

    fn run(mut search: Search, error: impl Fn(&[f64]) -> f64) -> Search {
        while let Some(values) = search.next_trial() {
            search.take(error(&values));
        }
        search
    }

    #[test]
    fn a_bowl_is_found_to_a_finest_step_and_a_bound_is_kept() {
        let parameters =
            [parameter(0.1, 100.0, false), parameter(0.0, 10.0, false), parameter(1.0, 64.0, true)];
        let wanted = [7.0_f64, 2.5, 512.0];
        let error = |values: &[f64]| -> f64 {
            let off = (values[0] / wanted[0]).ln();
            off * off + (values[1] - wanted[1]).powi(2) + (values[2] - wanted[2]).powi(2) / 1e4
        };
        let found = run(Search::new(&parameters, vec![50.0, 9.0, 2.0], 500), error);
        let best = found.best();
        assert!(found.is_complete() && found.trials() < 200, "{} trials", found.trials());
        assert!((best[0] / 7.0).ln().abs() < 6.91 / 64.0, "{best:?}");
        assert!((best[1] - 2.5).abs() < 10.0 / 64.0, "{best:?}");
        assert!((best[2] - 64.0).abs() < f64::EPSILON, "the bound is the nearest: {best:?}");
    }

    #[test]
    fn it_stops_with_its_trials_and_is_never_worse_than_its_start() {
        let parameters = [parameter(1.0, 1000.0, false)];
        for trials in 1..12 {
            let found = run(Search::new(&parameters, vec![30.0], trials), |values| (values[0] - 500.0).abs());
            assert!(found.trials() <= trials);
            assert!(found.best_error() <= Some(470.0));
        }
        let stay = run(Search::new(&parameters, vec![30.0], 50), |values| (values[0] - 30.0).abs());
        assert!((stay.best()[0] - 30.0).abs() < f64::EPSILON);
    }

    #[test]
    fn no_set_of_values_is_tried_twice() {
        let parameters = [parameter(1.0, 4.0, true), parameter(1.0, 4.0, true)];
        let mut search = Search::new(&parameters, vec![2.0, 2.0], 1000);
        let mut seen = Vec::new();
        while let Some(values) = search.next_trial() {
            assert!(!seen.contains(&values), "{values:?}");
            search.take((values[0] - 3.0).abs() + (values[1] - 1.0).abs());
            seen.push(values);
        }
        assert_eq!(search.best(), [3.0, 1.0]);
    }
}
