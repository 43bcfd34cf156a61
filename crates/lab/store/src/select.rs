//! How a user names runs: `12`, `3..7`, `study:2`, `plan:2`, `tag:baseline`.

use std::fmt;
use std::str::FromStr;

/// Names one run or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunSelector {
    /// The run with this number.
    Run(i64),
    /// The runs from the first number to the last, both included.
    Range(i64, i64),
    /// All runs of a study run.
    Study(i64),
    /// The same of one that predicted: a plan, or simulations.
    Plan(i64),
    /// All runs with a tag.
    Tag(String),
}

/// What names no runs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' names no runs: write a number 12, a range 3..7, study:2, plan:2 or tag:NAME, as 'raidlab runs' lists them"
)]
pub struct RunSelectorError {
    /// What was written.
    pub text: String,
}

impl FromStr for RunSelector {
    type Err = RunSelectorError;

    fn from_str(text: &str) -> Result<Self, RunSelectorError> {
        let wrong = || RunSelectorError { text: text.to_owned() };
        let number = |text: &str| match text.parse::<i64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(wrong()),
        };
        if let Some(tag) = text.strip_prefix("tag:") {
            return if tag.is_empty() { Err(wrong()) } else { Ok(Self::Tag(tag.to_owned())) };
        }
        if let Some(study) = text.strip_prefix("study:") {
            return number(study).map(Self::Study);
        }
        if let Some(plan) = text.strip_prefix("plan:") {
            return number(plan).map(Self::Plan);
        }
        let text = text.strip_prefix("run:").unwrap_or(text);
        match text.split_once("..") {
            None => number(text).map(Self::Run),
            Some((first, last)) => match (number(first)?, number(last)?) {
                (first, last) if first <= last => Ok(Self::Range(first, last)),
                _ => Err(wrong()),
            },
        }
    }
}

impl fmt::Display for RunSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(run) => write!(f, "{run}"),
            Self::Range(first, last) => write!(f, "{first}..{last}"),
            Self::Study(study) => write!(f, "study:{study}"),
            Self::Plan(plan) => write!(f, "plan:{plan}"),
            Self::Tag(tag) => write!(f, "tag:{tag}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RunSelector;

    #[test]
    fn selectors_are_read_and_printed_alike_and_others_are_refused() {
        for text in ["1", "12", "3..7", "4..4", "study:2", "plan:3", "tag:baseline", "tag:a..b"] {
            assert_eq!(text.parse::<RunSelector>().unwrap().to_string(), text);
        }
        assert_eq!("run:12".parse(), Ok(RunSelector::Run(12)));
        for text in
            ["", "0", "-1", "7..3", "..", "1..", "a", "study:", "study:x", "plan:", "run:", "tag:", "1,2"]
        {
            let error = text.parse::<RunSelector>().unwrap_err();
            assert_eq!(error.text, text);
        }
    }
}
