//! Compares a drive of the catalogue with its data sheet.

use super::bench::{Load, run};
use raidlab_hardware::{DriveModel, SheetFigure};

/// A deviation above this is one too many, for a rate and for a time.
const TOLERANCE_PCT: (f64, f64) = (5.0, 10.0);

/// A figure of the sheet beside what the model does.
#[derive(Clone, Debug, PartialEq)]
pub struct SheetRow {
    /// What the sheet says.
    pub figure: SheetFigure,
    /// What the model does, in the same unit.
    pub predicted: f64,
}

impl SheetRow {
    /// How far the model is off, in percent.
    pub fn error_pct(&self) -> f64 {
        (self.predicted / self.figure.value - 1.0) * 100.0
    }

    /// Whether the model is within 5 % of a rate or 10 % of a time.
    pub fn is_met(&self) -> bool {
        let (rate, time) = TOLERANCE_PCT;
        self.error_pct().abs() <= if self.figure.metric.is_time() { time } else { rate }
    }
}

/// Measures `model` from outside under the conditions of each figure of its sheet.
pub fn check_sheet(model: &DriveModel) -> Vec<SheetRow> {
    let row = |figure: &SheetFigure| {
        let load = Load::new(model, figure.metric, figure.conditions);
        SheetRow { figure: figure.clone(), predicted: load.value(model, &run(model, &load)) }
    };
    model.sheet.iter().map(row).collect()
}
