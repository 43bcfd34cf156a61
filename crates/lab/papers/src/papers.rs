//! Publications with figures in the program: their methods, and the figures themselves.
//!
//! Each is in `papers/<id>/`: `study.toml` has the method, `published.csv` the figures, `claims.csv` the relative
//! claims; a paper may have only one of the two. `fit.toml` says which figures of the catalogue may be fitted to it.
//! All are built in, so that `reproduce` and `fit` work anywhere.

use crate::claims::{Claim, ClaimMethod, parse_claims};
use crate::fit::{FitFile, parse_fit_file};
use crate::predict::PredictOptions;
use crate::published::{PublishedError, PublishedMetric, PublishedRow, parse_published};
use raidlab_controller::{ReadPolicy, WritePolicy};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::toml_file::{self, TomlFileError, meant};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the form of `study.toml`.
const SCHEMA: u32 = 1;

/// How figures were measured, and what is assumed where the publication does not say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Method {
    /// Version of the form of the file.
    pub schema: u32,
    /// Name of the paper in this program.
    pub id: String,
    /// Its title.
    pub title: String,
    /// Who wrote it, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authors: Option<String>,
    /// Who published it, and when.
    pub publisher: String,
    /// How it was measured, sentence by sentence.
    pub method: Vec<String>,
    /// What is assumed beyond that, sentence by sentence.
    pub assumed: Vec<String>,
    /// Length of a strip.
    pub strip_size: ByteCount,
    /// Drives of a volume, about, where two controllers share out the drives of a row in several volumes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drives_per_volume: Option<u16>,
    /// Virtual time before the measured window.
    pub ramp: NanoSpan,
    /// The same for write-through, which has no cache to fill.
    pub ramp_write_through: NanoSpan,
    /// The same for write-back, where the figures of a place are in their steady state sooner or later than after `ramp`.
    #[serde(default)]
    pub ramps: BTreeMap<String, NanoSpan>,
    /// Length of the measured window in virtual time.
    pub run: NanoSpan,
    /// Seed of everything random.
    pub seed: u64,
    /// Ids of the rows that the catalogue's fitted figures were fitted to: their errors prove nothing.
    pub fitted_rows: Vec<String>,
    /// Places whose figures count something else than their column says.
    #[serde(default)]
    pub corrections: Vec<MetricCorrection>,
    /// Settings that the publication does not state.
    #[serde(default)]
    pub not_stated: Vec<NotStated>,
    /// How the claims were measured, if it makes any.
    #[serde(default)]
    pub claims: Option<ClaimMethod>,
}

impl Method {
    /// Who wrote it, if that is known, and who published it.
    pub fn source(&self) -> String {
        let known = self.authors.as_ref().map(|authors| format!("{authors}, ")).unwrap_or_default();
        known + &self.publisher
    }

    /// How the figures of `place` are simulated.
    fn options_at(&self, place: &str) -> PredictOptions {
        let own = PredictOptions::from(self);
        PredictOptions { ramp: self.ramps.get(place).copied().unwrap_or(own.ramp), ..own }
    }
}

/// What is taken for the settings of the figures of one place, where a row does not say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct NotStated {
    /// The place, as the figures name it.
    pub place: String,
    /// The workload measured there.
    pub workload: String,
    /// When writes are acknowledged.
    pub write_policy: WritePolicy,
    /// Whether the controller reads ahead.
    pub read_policy: ReadPolicy,
    /// Why these.
    pub reason: String,
}

impl NotStated {
    fn fill(&self, row: &mut PublishedRow) {
        if self.place == row.place && self.workload == row.workload {
            row.write_policy = row.write_policy.or(Some(self.write_policy));
            row.read_policy = row.read_policy.or(Some(self.read_policy));
        }
    }
}

/// What the figures of one place really count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MetricCorrection {
    /// The place, as the figures name it.
    pub place: String,
    /// The workload measured there.
    pub workload: String,
    /// What its column says that they count; figures that say something else are left as they are.
    pub labelled: PublishedMetric,
    /// What its figures count.
    pub metric: PublishedMetric,
    /// How that is known.
    pub reason: String,
}

impl MetricCorrection {
    fn concerns(&self, row: &PublishedRow) -> bool {
        self.place == row.place && self.workload == row.workload && self.labelled == row.metric
    }
}

/// A publication.
#[derive(Clone, Debug, PartialEq)]
pub struct Paper {
    /// How it was measured.
    pub method: Method,
    /// Its figures.
    pub rows: Vec<PublishedRow>,
    /// Its relative claims.
    pub claims: Vec<Claim>,
    /// What may be fitted to it.
    pub fit: FitFile,
}

/// What became of figures from elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Adopted {
    /// The papers that some of them are taken as the figures of.
    pub papers: Vec<Method>,
    /// How many belong to none.
    pub strays: usize,
    /// The corrections that mattered.
    pub corrections: Vec<MetricCorrection>,
}

/// Why a paper can't be had.
#[derive(Debug, thiserror::Error)]
pub enum PaperError {
    /// There is none of that name.
    #[error("there is no paper '{id}'{}'raidlab reproduce list' shows those there are", nearest.map_or("; ".to_owned(), |near| format!(", did you mean '{near}'? ")))]
    Unknown {
        /// What was asked for.
        id: String,
        /// The id most like it.
        nearest: Option<&'static str>,
    },
    /// No row stands in the table asked for.
    #[error("paper '{id}' has no figures of '{table}': it has {}", if known.is_empty() { "claims alone".to_owned() } else { known.join(", ") })]
    UnknownTable {
        /// The paper.
        id: String,
        /// What was asked for.
        table: String,
        /// What there is.
        known: Vec<String>,
    },
    /// Its `study.toml` or `fit.toml` is wrong.
    #[error(transparent)]
    Method(#[from] TomlFileError),
    /// Its `published.csv` or `claims.csv` is wrong.
    #[error(transparent)]
    Published(#[from] PublishedError),
}

struct Files {
    id: &'static str,
    study: &'static str,
    published: Option<&'static str>,
    claims: Option<&'static str>,
    fit: &'static str,
}

/// The files of a paper: its study and its fit, and those that are named after its id.
macro_rules! paper {
    ($id:literal $(, published: $published:literal)? $(, claims: $claims:literal)?) => {
        Files {
            id: $id,
            study: include_str!(concat!("../papers/", $id, "/study.toml")),
            published: [$(include_str!(concat!("../papers/", $id, "/", $published)))?].first().copied(),
            claims: [$(include_str!(concat!("../papers/", $id, "/", $claims)))?].first().copied(),
            fit: include_str!(concat!("../papers/", $id, "/fit.toml")),
        }
    };
}

const FILES: [Files; 5] = [
    paper!("cdf-caf-2002", published: "published.csv"),
    paper!("crs4-2004", published: "published.csv"),
    paper!("fastt600-2004", published: "published.csv", claims: "claims.csv"),
    paper!("md1200-2011", published: "published.csv"),
    paper!("primergy-2008", claims: "claims.csv"),
];

/// The ids of all papers.
pub fn paper_ids() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|files| files.id)
}

impl Paper {
    /// The paper `id`.
    ///
    /// # Errors
    /// [`PaperError::Unknown`] if there is none.
    pub fn builtin(id: &str) -> Result<Self, PaperError> {
        let files = FILES.iter().find(|files| files.id == id);
        let files = files
            .ok_or_else(|| PaperError::Unknown { id: id.to_owned(), nearest: meant(id, paper_ids()) })?;
        let file = |name: &str| format!("papers/{id}/{name}");
        let method: Method = toml_file::parse(&file("study.toml"), files.study, SCHEMA)?;
        let mut rows = match files.published {
            Some(text) => parse_published(&file("published.csv"), text)?,
            None => Vec::new(),
        };
        for row in &mut rows {
            let correction = method.corrections.iter().find(|correction| correction.concerns(row));
            row.counts = correction.map_or(row.metric, |correction| correction.metric);
            row.metric = row.counts;
            method.not_stated.iter().for_each(|not_stated| not_stated.fill(row));
            row.options = method.ramps.contains_key(&row.place).then(|| method.options_at(&row.place));
        }
        let claims = match files.claims {
            Some(text) => parse_claims(&file("claims.csv"), text)?,
            None => Vec::new(),
        };
        let fit = parse_fit_file(&file("fit.toml"), files.fit)?;
        Ok(Self { method, rows, claims, fit })
    }

    /// The published figures of the paper `id` as they stand in its file: comma-separated values; nothing if it has none.
    pub fn published_text(id: &str) -> Option<&'static str> {
        FILES.iter().find(|files| files.id == id).and_then(|files| files.published)
    }

    /// The ids of all rows, of all papers, that fitted figures of the catalogue were fitted to.
    ///
    /// # Errors
    /// [`PaperError`] if a built-in paper can't be read.
    pub fn all_fitted_rows() -> Result<Vec<String>, PaperError> {
        let mut ids = Vec::new();
        for id in paper_ids() {
            ids.extend(Self::builtin(id)?.method.fitted_rows);
        }
        Ok(ids)
    }

    /// Takes figures from elsewhere as a paper's own: as those of the paper `id`, or else each as that paper's which measured its
    /// system, or at least its workload. It is simulated as that paper is; one of the same place and workload counts the
    /// same, and what it leaves out is taken to be the same. The rows keep their metric's name.
    ///
    /// # Errors
    /// [`PaperError`] if there is no paper `id`, or a built-in one can't be read.
    pub fn adopt(rows: &mut [PublishedRow], id: Option<&str>) -> Result<Adopted, PaperError> {
        let papers = match id {
            Some(id) => vec![Self::builtin(id)?],
            None => paper_ids().map(Self::builtin).collect::<Result<_, _>>()?,
        };
        let mut adopted = Adopted { papers: Vec::new(), strays: 0, corrections: Vec::new() };
        let mut adopters = vec![false; papers.len()];
        for row in &mut *rows {
            let of_system = |paper: &Self| paper.rows.iter().any(|own| own.system == row.system);
            let of_workload = |paper: &Self| paper.rows.iter().any(|own| own.workload == row.workload);
            let by_itself =
                || papers.iter().position(of_system).or_else(|| papers.iter().position(of_workload));
            let Some(paper) = id.map_or_else(by_itself, |_| Some(0)) else {
                adopted.strays += 1;
                continue;
            };
            adopters[paper] = true;
            let method = &papers[paper].method;
            method.not_stated.iter().for_each(|not_stated| not_stated.fill(row));
            row.options = Some(method.options_at(&row.place));
            if let Some(correction) = method.corrections.iter().find(|correction| correction.concerns(row)) {
                row.counts = correction.metric;
                if !adopted.corrections.contains(correction) {
                    adopted.corrections.push(correction.clone());
                }
            }
        }
        let adopters = papers.into_iter().zip(adopters).filter(|(_, adopts)| *adopts);
        adopted.papers = adopters.map(|(paper, _)| paper.method).collect();
        Ok(adopted)
    }

    /// The places (tables) its figures stand in, in the order of the file.
    pub fn places(&self) -> Vec<&str> {
        let mut places: Vec<&str> = self.rows.iter().map(|row| row.place.as_str()).collect();
        places.dedup();
        places
    }

    /// Keeps the figures of one table only, and no claims; `table` is its full name or its number.
    ///
    /// # Errors
    /// [`PaperError::UnknownTable`] if there are none.
    pub fn keep_table(&mut self, table: &str) -> Result<(), PaperError> {
        let known: Vec<String> = self.places().into_iter().map(str::to_owned).collect();
        let numbered = format!("Table {table}");
        self.claims.clear();
        self.rows.retain(|row| row.place.eq_ignore_ascii_case(table) || row.place == numbered);
        if self.rows.is_empty() {
            return Err(PaperError::UnknownTable {
                id: self.method.id.clone(),
                table: table.to_owned(),
                known,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_paper_is_sound() {
        for id in paper_ids() {
            let paper = Paper::builtin(id).unwrap();
            assert_eq!(paper.method.id, id);
            let has = |fitted: &&String| paper.rows.iter().any(|row| row.id == **fitted);
            let strays: Vec<_> = paper.method.fitted_rows.iter().filter(|fitted| !has(fitted)).collect();
            assert!(strays.is_empty(), "{id} names fitted rows that it lacks: {strays:?}");
            for correction in &paper.method.corrections {
                let mut rows = paper.rows.iter().filter(|row| row.place == correction.place).peekable();
                assert!(rows.peek().is_some(), "{id} corrects a place that it lacks: {correction:?}");
                assert!(rows.all(|row| row.metric == correction.metric), "{correction:?} is not applied");
            }
        }
    }

    #[test]
    fn figures_from_elsewhere_are_corrected_where_place_and_workload_are_known() {
        let header = "id,place,system,raid,drives,drive,workload,block_kib,queue_depth,write_policy,read_policy,\
                      io_policy,metric,value";
        let row = |id, place, workload, metric| {
            format!(
                "{id},{place},perc-h800/md1200,5,12,st3600057ss,{workload},64,256,write-back,,,{metric},1000"
            )
        };
        let text = [
            header.to_owned(),
            row("a", "Table 8", "md1200-sql-log", "iops"),
            row("b", "Table 8", "md1200-oltp", "iops"),
            row("c", "", "md1200-sql-log", "iops"),
            row("d", "Table 8", "md1200-sql-log", "mib_per_s"),
            row("e", "Table 8", "md1200-sql-log", "mb_per_s"),
        ]
        .join("\n");
        let mut rows = parse_published("rows.csv", &text).unwrap();
        let adopted = Paper::adopt(&mut rows, None).unwrap();
        assert_eq!(adopted.corrections.len(), 1);
        let counts: Vec<_> = rows.iter().map(|row| (row.metric, row.counts)).collect();
        let (iops, mib, mb) = (PublishedMetric::Iops, PublishedMetric::MibPerS, PublishedMetric::MbPerS);
        assert_eq!(counts, [(iops, mib), (iops, iops), (iops, iops), (mib, mib), (mb, mb)]);
    }

    #[test]
    fn figures_from_elsewhere_are_simulated_as_their_own_paper_is() {
        let header = "id,place,system,raid,drives,drive,workload,block_kib,queue_depth,write_policy,read_policy,\
                      io_policy,metric,value";
        let text = [
            header,
            "a,Table 4,perc-h800/md1200,5,12,st3600057ss,md1200-oltp,8,256,write-back,,,iops,1000",
            "b,Table 4,dual-fastt600,5,20,fc-15k-18gb,fastt600-oltp,8,20,write-back,,,iops,1000",
            // Its system is in no paper, its workload is.
            "c,Table 4,dual-fastt200,5,20,fc-15k-18gb,fastt600-oltp,8,20,write-back,,,iops,1000",
            "d,Table 4,perc-h700/md1200,5,12,st3600057ss,file-server,8,256,write-back,,,iops,1000",
        ];
        let rows = parse_published("rows.csv", &text.join("\n")).unwrap();
        let ramps = |rows: &[PublishedRow]| -> Vec<_> {
            rows.iter().map(|row| row.options.map(|options| options.ramp.as_secs_f64())).collect()
        };
        let mut by_themselves = rows.clone();
        let adopted = Paper::adopt(&mut by_themselves, None).unwrap();
        // Table 4 has a ramp of its own in one of the two papers.
        assert_eq!(ramps(&by_themselves), [Some(30.0), Some(80.0), Some(80.0), None]);
        assert_eq!(by_themselves[2].options.unwrap().drives_per_volume, Some(10));
        let ids: Vec<_> = adopted.papers.iter().map(|method| method.id.as_str()).collect();
        assert_eq!((ids, adopted.strays), (vec!["fastt600-2004", "md1200-2011"], 1));
        let mut told = rows;
        let adopted = Paper::adopt(&mut told, Some("fastt600-2004")).unwrap();
        assert_eq!(ramps(&told), [Some(80.0); 4]);
        assert_eq!((adopted.papers.len(), adopted.strays), (1, 0));
        assert!(matches!(Paper::adopt(&mut told, Some("none")), Err(PaperError::Unknown { .. })));
    }

    #[test]
    fn a_table_is_kept_by_name_or_number() {
        for table in ["Table 6", "table 6", "6"] {
            let mut paper = Paper::builtin("md1200-2011").unwrap();
            paper.keep_table(table).unwrap();
            assert_eq!(paper.places(), ["Table 6"], "{table}");
        }
        let mut paper = Paper::builtin("md1200-2011").unwrap();
        assert!(
            matches!(paper.keep_table("99"), Err(PaperError::UnknownTable { known, .. }) if known.len() > 1)
        );
        let claims = Paper::builtin("primergy-2008").unwrap().keep_table("4").unwrap_err();
        assert!(claims.to_string().ends_with("it has claims alone"), "{claims}");
    }

    #[test]
    fn an_unknown_paper_names_the_nearest() {
        let error = Paper::builtin("md1200-2012").unwrap_err();
        assert!(matches!(&error, PaperError::Unknown { nearest: Some("md1200-2011"), .. }), "{error}");
        let error = Paper::builtin("nothing").unwrap_err();
        assert!(matches!(&error, PaperError::Unknown { nearest: None, .. }), "{error}");
    }
}
