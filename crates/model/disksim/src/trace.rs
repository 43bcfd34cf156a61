//! Validation traces, whole: measured requests, one at a time, each with its response time.
//!
//! `raidlab_trace` parses the lines, as those of other trace formats.

use raidlab_trace::{LineProblem, ParseOptions, TraceFormat, TraceParser, TraceRecord};

/// Why a text is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line that is no request.
    #[error("line {line}: {problem}")]
    BadLine {
        /// Which, the first being 1.
        line: usize,
        /// What is wrong with it.
        problem: LineProblem,
    },
    /// No lines.
    #[error("the trace is empty")]
    Empty,
}

/// The requests in a text; empty lines are passed over.
///
/// # Errors
/// [`TraceError`] with the line.
pub fn parse_trace(text: &str) -> Result<Vec<TraceRecord>, TraceError> {
    let mut parser = TraceParser::new(TraceFormat::DisksimValidate, ParseOptions::default());
    let mut requests = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        requests.extend(parser.line(text).map_err(|problem| TraceError::BadLine { line, problem })?);
    }
    if requests.is_empty() { Err(TraceError::Empty) } else { Ok(requests) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_request_is_named_by_its_line() {
        for line in ["X Hit 1 1 1 1", "R Hit 1 0 1 1", "R Hit 1 1 -1 1", "R Hit 1 1 1", "R Hit -1 1 1 1"] {
            let text = format!("R Hit 1 1 1 1\n\n{line}\n");
            let Err(TraceError::BadLine { line: found, .. }) = parse_trace(&text) else {
                panic!("{line} is no request")
            };
            assert_eq!(found, 3, "{line}");
        }
        assert_eq!(parse_trace("\n"), Err(TraceError::Empty));
    }
}
