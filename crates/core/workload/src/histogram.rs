//! Latency histogram.
/// Latency histogram.
#[derive(Clone, Debug, Default)]
pub struct LatencyHistogram;
