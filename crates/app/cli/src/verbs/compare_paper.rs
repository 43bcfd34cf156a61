//! A paper's tables with the user's runs: which paper, and which of its rows.

use crate::failure::Failure;
use raidlab_advisor::ComparedTable;
use raidlab_papers::{Paper, paper_ids};
use raidlab_workload::RunResult;

/// A paper, and the text that its rows must have in their system or id.
#[derive(Debug)]
pub(crate) struct ComparedPaper {
    paper: Paper,
    text: String,
}

impl ComparedPaper {
    /// `PAPER` or `PAPER:TEXT`.
    pub(crate) fn find(name: &str) -> Result<Self, Failure> {
        let (id, text) = name.split_once(':').unwrap_or((name, ""));
        let paper = Paper::builtin(id).map_err(|error| {
            let known = paper_ids().collect::<Vec<_>>().join(", ");
            Failure::input(error).with_hint(format!("papers are {known}"))
        })?;
        let has_text = |id: &str| id.contains(text);
        let is_known = paper.rows.iter().any(|row| has_text(&row.system) || has_text(&row.id))
            || paper.claims.iter().any(|claim| has_text(&claim.id));
        if !is_known {
            let error = anyhow::anyhow!("'{id}' publishes no figures for '{text}'");
            let hint = format!("'raidlab reproduce {id}' shows what it says");
            return Err(Failure::input(error).with_hint(hint));
        }
        Ok(Self { paper, text: text.to_owned() })
    }

    /// Its tables with `runs` in them; none where they have no figure of `runs`.
    pub(crate) fn tables(&self, runs: &[RunResult]) -> Vec<ComparedTable> {
        self.paper.compared_with(runs, &self.text)
    }
}
