//! Plans as text, so that a run that once failed stays what it was when seeds come to mean other plans.

use crate::plan::Plan;

/// Why a file of a plan can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is no plan of a simulated kernel: {reason}")]
pub struct PlanFileError {
    /// In words.
    pub reason: String,
}

/// A plan as a file.
///
/// # Panics
/// Never: every plan has a form as text.
pub fn write_plan(plan: &Plan) -> String {
    toml::to_string(plan).expect("a plan has a form as text")
}

/// The plan of a file.
///
/// # Errors
/// [`PlanFileError`].
pub fn read_plan(text: &str) -> Result<Plan, PlanFileError> {
    toml::from_str(text).map_err(|error: toml::de::Error| PlanFileError { reason: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_come_back_as_they_were() {
        for seed in 0..200 {
            let plan = Plan::draw(seed);
            assert_eq!(read_plan(&write_plan(&plan)).as_ref(), Ok(&plan), "{seed}");
        }
        assert!(read_plan("seed = 1").is_err());
    }
}
