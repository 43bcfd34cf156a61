//! Two systems on one workload, corrected for the number and generation of their drives.
//!
//! ```text
//! as measured:                 A / B
//! per drive:                   (A / drives of A) / (B / drives of B)
//! per rate of a drive:         the same, each over the rate of one of its drives on this workload
//! ```
//! The rest is due to controllers, levels and caches. A drive's rate is computed from its data sheet: a random request
//! takes the average seek, half a rotation, the command's overhead and its bytes at the mean media rate; a sequential
//! one takes its bytes at that rate. The rate is the inverse of the mean time. Each step is a sentence with its
//! figures, so that a reader can check it.
//!
//! Left out: queues, caches and strokes, which belong to the system; simulate both systems for these. Source of the
//! service time: Ruemmler and Wilkes, "An introduction to disk drive modeling", Computer 27, 1994.

use serde::Serialize;

/// What one drive of a system does, by its data sheet.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DriveSpeed {
    /// Name in the catalogue.
    pub id: String,
    /// Average seek, or a flash page's time, in nanoseconds.
    pub seek_ns: f64,
    /// Half a turn, in nanoseconds; zero where nothing turns.
    pub half_turn_ns: f64,
    /// Of a command, in nanoseconds.
    pub overhead_ns: f64,
    /// Bytes per second of its media, mean over the drive.
    pub bytes_per_sec: f64,
}

/// One side.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ComparedSide {
    /// Name, for the sentences.
    pub name: String,
    /// What was found, in the unit that both sides share.
    pub value: f64,
    /// Drives, where that is known.
    pub drives: Option<u16>,
    /// What one of them does, where that is known.
    pub drive: Option<DriveSpeed>,
}

/// What the requests look like.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RequestShape {
    /// Share of requests that jump, 0 to 1.
    pub random_share: f64,
    /// Mean length.
    pub bytes_mean: f64,
}

/// A ratio and how it came about.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Corrected {
    /// A over B, as measured.
    pub ratio_measured: f64,
    /// Per drive, where both numbers are known and differ.
    pub ratio_per_drive: Option<f64>,
    /// Per what a drive can do, where both kinds are known and differ.
    pub ratio_per_drive_rate: Option<f64>,
    /// Each step with its figures.
    pub steps: Vec<String>,
}

impl Corrected {
    /// The ratio after all corrections.
    pub fn ratio(&self) -> f64 {
        self.ratio_per_drive_rate.or(self.ratio_per_drive).unwrap_or(self.ratio_measured)
    }
}

impl DriveSpeed {
    /// Requests per second of one drive, one at a time.
    pub fn requests_per_sec(&self, shape: &RequestShape) -> f64 {
        let moves_ns = shape.bytes_mean / self.bytes_per_sec * 1e9;
        let jump_ns = self.seek_ns + self.half_turn_ns + self.overhead_ns;
        1e9 / (shape.random_share * jump_ns + moves_ns)
    }

    fn words(&self, shape: &RequestShape) -> String {
        let ms = |ns: f64| format!("{:.2}", ns / 1e6);
        format!(
            "{}: {:.0} % of requests jump in {} ms (seek {} + half a turn {} + overhead {}), {:.0} bytes at {:.0} MB/s take {} ms: {:.1} per second",
            self.id,
            100.0 * shape.random_share,
            ms(self.seek_ns + self.half_turn_ns + self.overhead_ns),
            ms(self.seek_ns),
            ms(self.half_turn_ns),
            ms(self.overhead_ns),
            shape.bytes_mean,
            self.bytes_per_sec / 1e6,
            ms(shape.bytes_mean / self.bytes_per_sec * 1e9),
            self.requests_per_sec(shape)
        )
    }
}

/// Compares `a` with `b`; none where B's figure is not above zero.
pub fn corrected(a: &ComparedSide, b: &ComparedSide, shape: &RequestShape) -> Option<Corrected> {
    if !(b.value > 0.0 && a.value.is_finite()) {
        return None;
    }
    let measured = a.value / b.value;
    let mut steps =
        vec![format!("as measured: {} {:.4} / {} {:.4} = {measured:.3}", a.name, a.value, b.name, b.value)];
    let mut ratio = measured;
    let mut ratio_per_drive = None;
    if let (Some(of_a), Some(of_b)) = (a.drives, b.drives)
        && of_a != of_b
        && of_a.min(of_b) > 0
    {
        ratio *= f64::from(of_b) / f64::from(of_a);
        ratio_per_drive = Some(ratio);
        steps.push(format!("per drive, {of_a} and {of_b}: x {of_b} / {of_a} = {ratio:.3}"));
    }
    let mut ratio_per_drive_rate = None;
    if let (Some(of_a), Some(of_b)) = (&a.drive, &b.drive)
        && of_a.id != of_b.id
    {
        let (rate_a, rate_b) = (of_a.requests_per_sec(shape), of_b.requests_per_sec(shape));
        ratio *= rate_b / rate_a;
        ratio_per_drive_rate = Some(ratio);
        steps.push(of_a.words(shape));
        steps.push(of_b.words(shape));
        steps.push(format!("per what a drive does: x {rate_b:.1} / {rate_a:.1} = {ratio:.3}"));
    }
    Some(Corrected { ratio_measured: measured, ratio_per_drive, ratio_per_drive_rate, steps })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(value: f64, drives: u16, seek_ms: f64) -> ComparedSide {
        let drive = DriveSpeed {
            id: format!("seek-{seek_ms}"),
            seek_ns: seek_ms * 1e6,
            half_turn_ns: 2e6,
            overhead_ns: 0.0,
            bytes_per_sec: 100e6,
        };
        ComparedSide { name: "it".into(), value, drives: Some(drives), drive: Some(drive) }
    }

    #[test]
    fn twice_the_drives_of_twice_the_speed_are_no_merit() {
        let shape = RequestShape { random_share: 1.0, bytes_mean: 100.0 };
        // 4 + 2 ms against 1 + 2 ms: half the time of a request, but for its 1 us of bytes.
        let found = corrected(&side(4000.0, 20, 1.0), &side(1000.0, 10, 4.0), &shape).expect("comparable");
        assert!((found.ratio_measured - 4.0).abs() < 1e-12);
        assert!((found.ratio_per_drive.expect("counts differ") - 2.0).abs() < 1e-12);
        let want = 2.0 * (1000.0 / 6.001) / (1000.0 / 3.001);
        assert!((found.ratio() - want).abs() < 1e-9, "{found:?}");
        assert_eq!(found.steps.len(), 5);
    }

    #[test]
    fn what_is_equal_or_unknown_is_left_alone() {
        let shape = RequestShape { random_share: 0.0, bytes_mean: 65_536.0 };
        let found = corrected(&side(3.0, 8, 1.0), &side(2.0, 8, 1.0), &shape).expect("comparable");
        assert_eq!((found.ratio_per_drive, found.ratio_per_drive_rate), (None, None));
        assert_eq!(found.ratio(), 1.5);
        let unknown = ComparedSide { drives: None, drive: None, ..side(2.0, 8, 1.0) };
        assert_eq!(corrected(&side(3.0, 4, 1.0), &unknown, &shape).expect("comparable").ratio(), 1.5);
        assert_eq!(corrected(&side(3.0, 4, 1.0), &side(0.0, 4, 1.0), &shape), None);
    }
}
