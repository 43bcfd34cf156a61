//! Arrays under loads.

use crate::array::{Array, Catalog};
use crate::errors::{refused, refused_argument, refused_array};
use crate::own::OwnFault;
use crate::run::Run;
use crate::waiting::waited_for;
use crate::workload::Workload;
use pyo3::prelude::*;
use raidlab::{NanoSpan, SetupError, SweepOptions, WINDOW_DEFAULT, Window};
use serde_json::{Map, Value};
use std::num::NonZeroUsize;
use std::sync::Arc;

/// Every array under every workload with every number of requests in flight.
#[pyclass(frozen, module = "raidlab._raidlab")]
pub(crate) struct Sweep {
    asked: Arc<raidlab::Sweep>,
    catalog: Arc<raidlab::Catalog>,
    /// The arguments of each array that is described in Python, and by no file.
    given: Vec<Option<Arc<Map<String, Value>>>>,
    /// What the caller's own workloads and drives raise.
    own: Arc<OwnFault>,
}

#[pymethods]
impl Sweep {
    /// Times are texts with a unit; without `ramp` the ramp is as long as write caches take.
    #[new]
    fn new(
        py: Python<'_>,
        catalog: &Catalog,
        arrays: Vec<PyRef<'_, Array>>,
        workloads: Vec<PyRef<'_, Workload>>,
        iodepths: Vec<u32>,
        window: (Option<String>, Option<String>, u64),
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let (ramp, run, seed) = window;
        let span =
            |name, text: &Option<String>| text.as_deref().map(|text| parsed_span(name, text)).transpose();
        let (settles, ramp) = (ramp.is_none(), span("ramp", &ramp)?.unwrap_or(WINDOW_DEFAULT));
        let measured = span("run", &run)?.unwrap_or(WINDOW_DEFAULT);
        if measured == NanoSpan::ZERO {
            return Err(refused_argument(
                "run",
                format_args!("'{}'", run.unwrap_or_default()),
                "nothing is measured in no time: write a time such as 5s",
            ));
        }
        let of_threads = |count| {
            NonZeroUsize::new(count)
                .ok_or_else(|| refused_argument("threads", count, "it takes at least one"))
        };
        let own = OwnFault::of_sweep();
        let sweep = raidlab::Sweep {
            arrays: arrays.iter().map(|array| array.array.clone()).collect(),
            workloads: workloads.iter().map(|workload| workload.of_sweep(&own)).collect(),
            iodepths,
            window: Window { iodepth: None, ramp, run: measured, settles, seed },
            threads: threads.map(of_threads).transpose()?,
        };
        let given = arrays.iter().map(|array| array.given.clone()).collect();
        Ok(Self { asked: Arc::new(sweep), catalog: catalog.of_sweep(py, &own)?, given, own })
    }

    /// Runs of one array.
    fn runs_of_array(&self) -> usize {
        self.asked.loads().len()
    }

    /// Refuses arrays that can't be, and numbers in flight that change nothing; `arrays` stands before the number of an array.
    fn check(&self) -> PyResult<()> {
        self.asked.check_iodepths().map_err(refused)?;
        for (index, array) in self.asked.arrays.iter().enumerate() {
            let named = |error: SetupError| {
                let text = match (&error, &self.given[index]) {
                    (SetupError::Array(of_array), Some(given)) => refused_array(of_array, given),
                    _ => error.to_string(),
                };
                match self.asked.arrays.len() {
                    1 => refused(text),
                    _ => refused(format!("arrays[{index}]: {text}")),
                }
            };
            raidlab::Simulation::sharing(&self.catalog, array.clone()).map(drop).map_err(named)?;
        }
        Ok(())
    }

    /// Runs those from `first` to before `last`; `progress` is called with how many are done and of how many.
    fn run(
        &self,
        py: Python<'_>,
        part: (usize, usize),
        finds_bottleneck: bool,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Vec<Run>> {
        let (sweep, catalog) = (Arc::clone(&self.asked), Arc::clone(&self.catalog));
        let result = waited_for(py, progress, move |cancel, tell| {
            sweep.run_part(&catalog, part.0..part.1, SweepOptions { finds_bottleneck, cancel }, tell)
        });
        let result = result.inspect_err(|_| self.own.leave(py))?;
        if let Some(raised) = self.own.take() {
            return Err(raised);
        }
        Ok(result.map_err(refused)?.into_iter().map(|it| Run::from(it.run)).collect())
    }
}

/// A time with a unit; `name` is the argument's.
fn parsed_span(name: &str, text: &str) -> PyResult<NanoSpan> {
    text.parse().map_err(|error| refused_argument(name, format_args!("'{text}'"), error))
}
