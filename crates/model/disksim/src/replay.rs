//! The trace on the model, and the demerit figure.
//!
//! One request is in flight at a time: the next is issued the trace's gap after the completion by the *model*, so that
//! the drive's work in between (reading ahead, writing its buffer out) has the same time. The demerit figure is the
//! root mean square of the horizontal distance between the two cumulative distributions of response times, as a
//! percentage of the mean measured response. With equally many requests on both sides, the distance at a height is that
//! of the two response times of one rank.
//!
//! Source: Ruemmler and Wilkes, "An introduction to disk drive modeling", IEEE Computer 27(3), 1994.

use raidlab_hardware::{Drive, DriveModel, DriveOp, DriveOptions, DriveRequest, Sector, SectorCount};
use raidlab_trace::{TraceKind, TraceRecord};
use raidlab_units::{NanoSpan, Nanos};

/// Sectors of the drives and of the traces.
const SECTOR_BYTES: u64 = 512;

/// Why a trace can't be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// Nothing to compare with.
    #[error("all response times of the trace are 0: it has nothing measured to compare with")]
    NothingMeasured,
    /// A request goes beyond the drive.
    #[error("request {request} of the trace is for sectors {start}+{sectors}; the drive has {capacity}", start = start.0, sectors = sectors.0, capacity = capacity.0)]
    OutOfRange {
        /// Which, the first being 1.
        request: usize,
        /// Its first sector.
        start: Sector,
        /// Its length.
        sectors: SectorCount,
        /// What the drive has.
        capacity: SectorCount,
    },
}

/// How a model did on a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Validation {
    /// Response times as measured, in the order of the trace.
    pub measured: Vec<NanoSpan>,
    /// As predicted, in the same order.
    pub predicted: Vec<NanoSpan>,
    /// The demerit figure in percent of the mean measured response.
    pub demerit_pct: f64,
}

/// Replays `trace` on a drive of this model, idle and empty at first.
///
/// # Errors
/// [`ReplayError::OutOfRange`] names the first request that the drive does not have; [`ReplayError::NothingMeasured`] where
/// no request took any time.
pub fn validate(model: &DriveModel, trace: &[TraceRecord]) -> Result<Validation, ReplayError> {
    let measured: Vec<NanoSpan> = trace.iter().map(response).collect();
    if measured.iter().all(|span| span.0 == 0) {
        return Err(ReplayError::NothingMeasured);
    }
    let predicted = replay(model, trace)?;
    let demerit_pct = demerit_pct(&measured, &predicted);
    Ok(Validation { measured, predicted, demerit_pct })
}

/// The measured response time of a request.
fn response(request: &TraceRecord) -> NanoSpan {
    NanoSpan(request.response_ns.unwrap_or(0))
}

/// Response times of the model, in the order of the trace. They are of the validation format: reads and writes of whole
/// sectors, each with its response time.
///
/// # Errors
/// As [`validate`].
pub fn replay(model: &DriveModel, trace: &[TraceRecord]) -> Result<Vec<NanoSpan>, ReplayError> {
    let mut drive = Drive::new(model, DriveOptions::default());
    let mut now = Nanos::ZERO;
    let mut responses = Vec::with_capacity(trace.len());
    for (index, request) in trace.iter().enumerate() {
        let start = Sector(request.offset_bytes / SECTOR_BYTES);
        let sectors = SectorCount(request.length_bytes / SECTOR_BYTES);
        let capacity = drive.capacity();
        if start.0 + sectors.0 > capacity.0 {
            return Err(ReplayError::OutOfRange { request: index + 1, start, sectors, capacity });
        }
        while let Some(deadline) = drive.poll_deadline().filter(|deadline| *deadline <= now) {
            drive.handle_deadline(deadline);
        }
        let op = match request.kind {
            TraceKind::Read => DriveOp::Read,
            _ => DriveOp::Write { fua: false },
        };
        drive.handle_request(now, DriveRequest { id: 0, op, start, sectors });
        let done = completion(&mut drive, now);
        responses.push(done.saturating_since(now));
        // From the end of this request to the issue of the next, as it was measured.
        let ended_ns = request.time_ns.saturating_add(response(request).get());
        let next_ns = trace.get(index + 1).map_or(ended_ns, |next| next.time_ns);
        now = done + NanoSpan(next_ns.saturating_sub(ended_ns));
    }
    Ok(responses)
}

/// When the one outstanding request is complete.
fn completion(drive: &mut Drive, mut now: Nanos) -> Nanos {
    while drive.poll_completion().is_none() {
        now = drive.poll_deadline().expect("a request is outstanding");
        drive.handle_deadline(now);
    }
    now
}

/// The demerit figure of `predicted` against `measured`, in percent. Both must be of one length, and not empty.
///
/// # Panics
/// If there are not as many of both.
pub fn demerit_pct(measured: &[NanoSpan], predicted: &[NanoSpan]) -> f64 {
    assert_eq!(measured.len(), predicted.len(), "both are of one trace");
    assert!(!measured.is_empty(), "a trace has requests");
    let sorted = |spans: &[NanoSpan]| {
        let mut sorted = spans.to_vec();
        sorted.sort_unstable();
        sorted
    };
    let (measured, predicted) = (sorted(measured), sorted(predicted));
    let n = measured.len() as f64;
    let square = |(a, b): (&NanoSpan, &NanoSpan)| (a.0 as f64 - b.0 as f64).powi(2);
    let mean_square = measured.iter().zip(&predicted).map(square).sum::<f64>() / n;
    let mean = measured.iter().map(|span| span.0 as f64).sum::<f64>() / n;
    100.0 * mean_square.sqrt() / mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demerit_is_the_distance_of_ranks_over_the_mean() {
        let spans = |ms: &[u64]| ms.iter().map(|ms| NanoSpan::from_millis(*ms)).collect::<Vec<_>>();
        let measured = spans(&[10, 20, 30]);
        assert!(demerit_pct(&measured, &spans(&[30, 10, 20])).abs() < 1e-12, "order does not count");
        assert!(
            (demerit_pct(&measured, &spans(&[32, 22, 12])) - 10.0).abs() < 1e-9,
            "2 ms at every height, of 20"
        );
        let one_off = demerit_pct(&measured, &spans(&[10, 20, 36]));
        assert!((one_off - 100.0 * 12f64.sqrt() / 20.0).abs() < 1e-9, "{one_off}");
    }
}
