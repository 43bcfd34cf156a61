//! Measured requests, one at a time, each with its response time.
//!
//! `R|W  action  block  blocks  response_us  gap_us`: the block numbers are of 512 bytes; the next request is issued
//! `gap_us` after this one is complete. `action` is what the drive's buffer did, as far as its bus showed it, and is read
//! over: a model must find that out by itself.

use raidlab_hardware::{Sector, SectorCount};
use raidlab_units::NanoSpan;

/// Read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceOp {
    /// From the drive.
    Read,
    /// To the drive.
    Write,
}

/// One line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRequest {
    /// Read or write.
    pub op: TraceOp,
    /// First sector.
    pub start: Sector,
    /// Length, at least one.
    pub sectors: SectorCount,
    /// Measured response time.
    pub response: NanoSpan,
    /// From the end of this request to the issue of the next.
    pub gap: NanoSpan,
}

/// Why a text is no trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// A line that is no request.
    #[error("line {line}: expected 'R|W action block blocks response_us gap_us'")]
    BadLine {
        /// Which, the first being 1.
        line: usize,
    },
    /// No lines.
    #[error("the trace is empty")]
    Empty,
}

/// The requests in a text; empty lines are passed over.
///
/// # Errors
/// [`TraceError`] with the line.
pub fn parse_trace(text: &str) -> Result<Vec<TraceRequest>, TraceError> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let requests: Vec<TraceRequest> = lines
        .map(|(index, line)| request(line).ok_or(TraceError::BadLine { line: index + 1 }))
        .collect::<Result<_, _>>()?;
    if requests.is_empty() { Err(TraceError::Empty) } else { Ok(requests) }
}

fn request(line: &str) -> Option<TraceRequest> {
    /// An hour: no drive and no user pauses for longer.
    const US_MAX: f64 = 3.6e9;
    let mut words = line.split_whitespace();
    let op = match words.next()? {
        "R" => TraceOp::Read,
        "W" => TraceOp::Write,
        _ => return None,
    };
    let _action = words.next()?;
    let start = words.next()?.parse().ok().filter(|start| *start < 1 << 48)?;
    let sectors = words.next()?.parse().ok().filter(|sectors| (1..1 << 24).contains(sectors))?;
    let mut span = || {
        let us: f64 = words.next()?.parse().ok()?;
        (0.0..=US_MAX).contains(&us).then(|| NanoSpan((us * 1e3).round() as u64))
    };
    let (response, gap) = (span()?, span()?);
    Some(TraceRequest { op, start: Sector(start), sectors: SectorCount(sectors), response, gap })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_become_requests() {
        let trace =
            parse_trace("R Miss  564347     2     14095.370     13876.270\n\nW Doub 1 15 17221.000 0\n");
        let trace = trace.expect("sound");
        let first = TraceRequest {
            op: TraceOp::Read,
            start: Sector(564_347),
            sectors: SectorCount(2),
            response: NanoSpan(14_095_370),
            gap: NanoSpan(13_876_270),
        };
        assert_eq!((trace.len(), trace[0], trace[1].op), (2, first, TraceOp::Write));
    }

    #[test]
    fn what_is_no_request_is_named_by_its_line() {
        for line in [
            "X Hit 1 1 1 1",
            "R Hit 1 0 1 1",
            "R Hit 1 1 -1 1",
            "R Hit 1 1 1",
            "R Hit 1 1 1 nan",
            "R Hit -1 1 1 1",
        ] {
            let text = format!("R Hit 1 1 1 1\n{line}\n");
            assert_eq!(parse_trace(&text), Err(TraceError::BadLine { line: 2 }), "{line}");
        }
        assert_eq!(parse_trace("\n"), Err(TraceError::Empty));
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "[RWHit 0-9.e+\\-\n]{0,80}") {
            let _ = parse_trace(&text);
        }
    }
}
