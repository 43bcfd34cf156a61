//! The function that a fit minimises: rows and claims predicted with other values of the catalogue.
//!
//! ```text
//! point ─► changes ─► catalogue ─► setups ─► those not simulated with these values yet ─► all processors ─► figures ─► mean
//! ```
//! Simulations are kept under the setup and the written values of the figures that they depend on. So a batch of points
//! costs only what is new in it, two points with the same written values are one, and going back costs nothing.

use super::{FitEffort, FitError, FitParameter, FitTask, huber};
use crate::claims::{Claim, ClaimPlan};
use crate::predict::{
    FittedFigure, PredictOptions, PredictTask, Setup, Simulated, distinct_setups, fitted_figures, set_up_rows,
};
use crate::published::{PublishedError, PublishedRow};
use raidlab_hardware::{Catalog, CatalogChange};
use raidlab_hosts::{Hosts, Jobs};
use raidlab_units::NanoSpan;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// A row or claim, predicted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figure {
    pub(super) id: String,
    pub(super) metric: String,
    pub(super) fitted: bool,
    pub(super) published: f64,
    pub(super) predicted: f64,
}

/// All rows and claims, predicted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) rows: Vec<Figure>,
}

impl Figures {
    /// The mean of Huber's function over the rows that may be fitted to.
    fn objective(&self) -> f64 {
        let fitted: Vec<f64> = self
            .rows
            .iter()
            .filter(|row| row.fitted)
            .map(|row| huber(row.predicted, row.published))
            .collect();
        fitted.iter().sum::<f64>() / fitted.len().max(1) as f64
    }
}

/// A setup, and the written values of all figures that it depends on.
type Key = (usize, Vec<String>);

/// Predicts the same rows again and again.
pub(super) struct Evaluator<'a> {
    task: &'a FitTask<'a>,
    options: PredictOptions,
    parameters: &'a [FitParameter],
    rows: Vec<PublishedRow>,
    claims: Vec<Claim>,
    /// The first setup of each distinct simulation.
    distinct: Vec<usize>,
    of_setup: Vec<usize>,
    /// For each distinct simulation the parameters that it depends on.
    depends_on: Vec<Vec<usize>>,
    /// What was simulated; none where it failed.
    known: BTreeMap<Key, Option<Simulated>>,
    /// Simulations done.
    pub(super) simulations: u64,
    /// What failed first.
    pub(super) problem: Option<String>,
}

/// The fitted figures of all hardware of the paper.
pub(super) fn figures_in_use(task: &FitTask<'_>, catalog: &Catalog) -> Result<Vec<FittedFigure>, FitError> {
    let (rows, claims) = (&task.paper.rows, &task.paper.claims);
    let setups = set_up(task, PredictOptions::from(&task.paper.method), catalog, rows, claims)?;
    Ok(fitted_figures(&setups.all(), catalog))
}

/// How many rows and claims depend on `parameters`.
pub(super) fn touched(
    task: &FitTask<'_>,
    parameters: &[FitParameter],
    catalog: &Catalog,
) -> Result<usize, FitError> {
    let all = Evaluator::of_all(task, parameters, catalog)?;
    Ok(all.rows.len() + all.claims.len())
}

/// What is to be simulated for rows, and after that for claims.
struct Setups<'a> {
    rows: Vec<Setup>,
    claims: Option<ClaimPlan<'a>>,
}

impl Setups<'_> {
    fn all(&self) -> Vec<Setup> {
        let claims = self.claims.iter().flat_map(|plan| &plan.setups);
        self.rows.iter().chain(claims).cloned().collect()
    }
}

fn set_up<'a>(
    task: &'a FitTask<'_>,
    options: PredictOptions,
    catalog: &Catalog,
    rows: &[PublishedRow],
    claims: &'a [Claim],
) -> Result<Setups<'a>, PublishedError> {
    let method = &task.paper.method;
    let file = format!("papers/{}/published.csv", method.id);
    let mut predict = PredictTask {
        file: &file,
        rows,
        fitted_rows: &method.fitted_rows,
        options,
        catalog,
        threads: task.threads,
        finds_bottleneck: false,
    };
    let rows = set_up_rows(&predict)?;
    let file = format!("papers/{}/claims.csv", method.id);
    predict.file = &file;
    let claims = match &method.claims {
        Some(method) if !claims.is_empty() => Some(ClaimPlan::of(&predict, claims, method)?),
        _ => None,
    };
    Ok(Setups { rows, claims })
}

impl<'a> Evaluator<'a> {
    /// An evaluator of the rows and claims that may be fitted to and depend on `parameters`, with the search's settings.
    pub(super) fn of_fitted(
        task: &'a FitTask<'a>,
        parameters: &'a [FitParameter],
        catalog: &Catalog,
    ) -> Result<Self, FitError> {
        let paper = task.paper;
        let FitEffort { ramp_max, run } = task.effort;
        let shorter = |ramp: NanoSpan| ramp_max.map_or(ramp, |most| ramp.min(most));
        let quicker = |own: PredictOptions| PredictOptions {
            ramp: shorter(own.ramp),
            ramp_write_through: shorter(own.ramp_write_through),
            run: run.unwrap_or(own.run),
            ..own
        };
        let options = quicker(PredictOptions::from(&paper.method));
        let rows = paper.rows.iter().filter(|row| is_fitted_row(task, row));
        let rows =
            rows.map(|row| PublishedRow { options: row.options.map(quicker), ..row.clone() }).collect();
        let claims = paper.claims.iter().filter(|claim| is_fitted_claim(task, claim)).cloned().collect();
        let evaluator = Self::of(task, options, parameters, catalog, rows, claims)?;
        if evaluator.rows.is_empty() && evaluator.claims.is_empty() {
            return Err(FitError::NoRows { paper: paper.method.id.clone() });
        }
        Ok(evaluator)
    }

    /// An evaluator of all rows and claims that depend on `parameters`, with the paper's settings.
    pub(super) fn of_all(
        task: &'a FitTask<'a>,
        parameters: &'a [FitParameter],
        catalog: &Catalog,
    ) -> Result<Self, FitError> {
        let paper = task.paper;
        let options = PredictOptions::from(&paper.method);
        Self::of(task, options, parameters, catalog, paper.rows.clone(), paper.claims.clone())
    }

    fn of(
        task: &'a FitTask<'a>,
        options: PredictOptions,
        parameters: &'a [FitParameter],
        catalog: &Catalog,
        mut rows: Vec<PublishedRow>,
        mut claims: Vec<Claim>,
    ) -> Result<Self, FitError> {
        let depends = |setup: &Setup| depends_on(setup, parameters, catalog);
        // One by one: what a row or a claim does not need of the others is not simulated.
        let mut kept_rows = Vec::new();
        for row in rows.drain(..) {
            let setups = set_up(task, options, catalog, core::slice::from_ref(&row), &[])?.all();
            if setups.iter().any(|setup| !depends(setup).is_empty()) {
                kept_rows.push(row);
            }
        }
        let mut kept_claims = Vec::new();
        for claim in claims.drain(..) {
            let setups = set_up(task, options, catalog, &[], core::slice::from_ref(&claim))?.all();
            if setups.iter().any(|setup| !depends(setup).is_empty()) {
                kept_claims.push(claim);
            }
        }
        let setups = set_up(task, options, catalog, &kept_rows, &kept_claims)?.all();
        let (distinct, of_setup) = distinct_setups(&setups);
        Ok(Self {
            task,
            options,
            parameters,
            depends_on: distinct.iter().map(|first| depends(&setups[*first])).collect(),
            rows: kept_rows,
            claims: kept_claims,
            distinct,
            of_setup,
            known: BTreeMap::new(),
            simulations: 0,
            problem: None,
        })
    }

    /// The function at each of `points`: infinite where it can't be simulated. None if stopped. `tell` gets the simulations done
    /// so far.
    pub(super) fn objectives(
        &mut self,
        points: &[Vec<f64>],
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(u64),
    ) -> Option<Vec<f64>> {
        let catalogs: Vec<Option<(Catalog, Vec<Setup>)>> =
            points.iter().map(|point| self.at(point)).collect();
        let mut jobs: Vec<(Key, &Catalog, &Setup)> = Vec::new();
        for (point, found) in points.iter().zip(&catalogs) {
            let Some((catalog, setups)) = found else { continue };
            for (index, first) in self.distinct.iter().enumerate() {
                let key = self.key(index, point);
                if !self.known.contains_key(&key) && jobs.iter().all(|(other, ..)| *other != key) {
                    jobs.push((key, catalog, &setups[*first]));
                }
            }
        }
        tell(self.simulations);
        let simulated = Hosts::alone().share(
            Jobs { count: jobs.len(), threads: self.task.threads, cancel },
            |index| jobs[index].2.simulate(jobs[index].1),
            |index, result| {
                if let Err(error) = &result {
                    self.problem.get_or_insert_with(|| error.to_string());
                }
                self.known.insert(jobs[index].0.clone(), result.ok());
                self.simulations += 1;
                tell(self.simulations);
                Ok::<(), ()>(())
            },
        );
        simulated.ok()?;
        Some(
            points
                .iter()
                .map(|point| self.known(point).map_or(f64::INFINITY, |known| known.objective()))
                .collect(),
        )
    }

    /// The figures at `point`, if all of them were simulated.
    pub(super) fn known(&self, point: &[f64]) -> Option<Figures> {
        let (catalog, _) = self.at(point)?;
        let results: Option<Vec<&Simulated>> = (0..self.distinct.len())
            .map(|index| self.known.get(&self.key(index, point)).and_then(Option::as_ref))
            .collect();
        let results = results?;
        let rows = self.rows.iter().zip(&self.of_setup).map(|(row, configuration)| Figure {
            id: row.id.clone(),
            metric: row.metric.name().to_owned(),
            fitted: is_fitted_row(self.task, row),
            published: row.value,
            predicted: results[*configuration].figure(row.counts, &row.workload),
        });
        let mut rows: Vec<Figure> = rows.collect();
        let setups = set_up(self.task, self.options, &catalog, &[], &self.claims).ok()?;
        if let Some(plan) = &setups.claims {
            let figure = |configuration: usize, metric| results[configuration].figure(metric, "");
            let judged = plan.judged(&self.of_setup[self.rows.len()..], &figure);
            // A claim of order alone has no error.
            let claims = self.claims.iter().zip(judged).filter(|(_, judged)| judged.row.error_pct.is_some());
            rows.extend(claims.map(|(claim, judged)| Figure {
                id: claim.id.clone(),
                metric: "ratio".to_owned(),
                fitted: is_fitted_claim(self.task, claim),
                published: judged.row.published,
                predicted: judged.row.predicted,
            }));
        }
        Some(Figures { rows })
    }

    /// The catalogue at `point`, and what is to be simulated; none if there can be no such hardware.
    fn at(&self, point: &[f64]) -> Option<(Catalog, Vec<Setup>)> {
        let changes = self.parameters.iter().zip(point);
        let changes = changes.flat_map(|(parameter, value)| parameter.changes_at(*value));
        let all: Vec<CatalogChange> = self.task.changes.iter().cloned().chain(changes).collect();
        let catalog = Catalog::builtin_with(&all).ok()?;
        let setups = set_up(self.task, self.options, &catalog, &self.rows, &self.claims).ok()?.all();
        Some((catalog, setups))
    }

    fn key(&self, index: usize, point: &[f64]) -> Key {
        let written = |parameter: &usize| {
            self.parameters[*parameter].keys_at(point[*parameter]).into_iter().map(|key| key.value)
        };
        (index, self.depends_on[index].iter().flat_map(written).collect())
    }
}

/// The parameters that `setup` depends on.
fn depends_on(setup: &Setup, parameters: &[FitParameter], catalog: &Catalog) -> Vec<usize> {
    let entries = setup.entries(catalog);
    let depends = |parameter: &FitParameter| entries.iter().any(|(entry, _)| parameter.is_of(entry));
    (0..parameters.len()).filter(|index| depends(&parameters[*index])).collect()
}

fn is_fitted_row(task: &FitTask<'_>, row: &PublishedRow) -> bool {
    task.paper.method.fitted_rows.contains(&row.id)
}

fn is_fitted_claim(task: &FitTask<'_>, claim: &Claim) -> bool {
    task.paper.method.claims.as_ref().is_some_and(|method| method.fitted.contains(&claim.id))
}
