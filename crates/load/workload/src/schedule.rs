//! The times at which requests may start: arrivals of an open loop, and the limits of a closed one.
//!
//! Both count time in whole nanoseconds and carry the fraction of a nanosecond exactly, so that after any number of
//! requests the mean rate is the requested one: request `k` of fixed arrivals is due `floor(k / rate)` after the first.
//! Poisson gaps are drawn as real numbers; the fraction is carried as well. Where the rate changes, all this is the time of the arrivals, and
//! a [`Tempo`] turns it into the clock's.
//!
//! **Workers:** of `n` workers that share a rate, worker `i` takes every n-th of the fixed arrivals, from number `i`
//! on, and a Poisson process of an n-th of the rate; together they are the requested process.
//!
//! **Limits** are leaky buckets: a loop that was delayed by its target (or woken late) may catch up on at most
//! [`CATCH_UP`] of its rate, so a late timer does not lower the mean and a long stall causes no long burst.

use crate::pacing::{ArrivalProcess, Arrivals, ClosedLoop, RequestRate};
use crate::rhythm::Tempo;
use crate::rng::Rng;
use raidlab_units::{ByteCount, NanoSpan, Nanos};

/// How much of its rate a limited loop may catch up on.
const CATCH_UP: NanoSpan = NanoSpan::from_millis(10);
const NANOS_PER_SEC: u128 = 1_000_000_000;

/// A point in time with its exact fraction of a nanosecond.
#[derive(Clone, Copy, Debug)]
struct ExactTime {
    at: Nanos,
    /// Above `at`, in parts of `parts_per_ns`.
    parts: u64,
    parts_per_ns: u64,
}

/// A length of time in whole nanoseconds and parts of one.
#[derive(Clone, Copy, Debug)]
struct ExactSpan {
    whole_ns: u64,
    parts: u64,
}

impl ExactSpan {
    /// `amount / per_second` seconds, in parts of `per_second` of a nanosecond.
    fn of(amount: u128, per_second: u64) -> Self {
        let total = amount * NANOS_PER_SEC;
        let per_second = u128::from(per_second);
        let whole_ns = u64::try_from(total / per_second).unwrap_or(u64::MAX);
        Self { whole_ns, parts: (total % per_second) as u64 }
    }
}

impl ExactTime {
    fn new(at: Nanos, parts_per_ns: u64) -> Self {
        Self { at, parts: 0, parts_per_ns }
    }

    #[inline]
    fn advance(&mut self, span: ExactSpan) {
        self.parts += span.parts;
        let carry = u64::from(self.parts >= self.parts_per_ns);
        self.parts -= carry * self.parts_per_ns;
        self.at = Nanos(self.at.get().saturating_add(span.whole_ns).saturating_add(carry));
    }
}

/// The arrivals of an open loop, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    process: ArrivalProcess,
    /// The next arrival, in the time of arrivals.
    exact: ExactTime,
    /// When that is.
    due: Nanos,
    /// What turns the one into the other, where they differ.
    tempo: Option<Box<Tempo>>,
    gap: ExactSpan,
    /// Between two bursts, for Poisson arrivals.
    gap_ns_mean: f64,
    /// Above the time of the next arrival, of Poisson ones.
    fraction_ns: f64,
    rng: Rng,
    burst: u32,
    /// Requests of the burst that are still to come.
    burst_left: u32,
}

impl Schedule {
    /// Returns the arrivals from `start` on that worker `worker` of `workers` takes.
    pub(crate) fn new(arrivals: &Arrivals, (worker, workers): (u32, u32), seed: u64, start: Nanos) -> Self {
        let millionths = arrivals.rate.millionths();
        let bursts = |count: u32| ExactSpan::of(requests(count) * u128::from(arrivals.burst), millionths);
        let mut schedule = Self {
            process: arrivals.process,
            exact: ExactTime::new(start, millionths),
            due: start,
            tempo: None,
            gap: bursts(workers),
            gap_ns_mean: f64::from(workers) * f64::from(arrivals.burst) * 1e9 / arrivals.rate.per_second(),
            fraction_ns: 0.0,
            rng: Rng::new(seed),
            burst: arrivals.burst,
            burst_left: arrivals.burst,
        };
        match arrivals.process {
            ArrivalProcess::Fixed => schedule.exact.advance(bursts(worker)),
            ArrivalProcess::Poisson => schedule.advance_poisson(),
        }
        schedule.due = schedule.exact.at;
        schedule
    }

    /// Returns the same arrivals at a rate that changes as `tempo` says.
    pub(crate) fn with_tempo(mut self, tempo: Option<Tempo>) -> Self {
        self.tempo = tempo.map(Box::new);
        self.look();
        self
    }

    /// Finds out when the next arrival is.
    #[inline]
    fn look(&mut self) {
        self.due = match &mut self.tempo {
            None => self.exact.at,
            Some(tempo) => tempo.real(self.exact.at),
        };
    }

    /// When the next request arrives.
    #[inline]
    pub(crate) fn due(&self) -> Nanos {
        self.due
    }

    /// Goes on to the request after the next.
    #[inline]
    pub(crate) fn advance(&mut self) {
        self.burst_left -= 1;
        if self.burst_left > 0 {
            return;
        }
        self.burst_left = self.burst;
        match self.process {
            ArrivalProcess::Fixed => self.exact.advance(self.gap),
            ArrivalProcess::Poisson => self.advance_poisson(),
        }
        self.look();
    }

    fn advance_poisson(&mut self) {
        // The logarithm of a number above 0 and up to 1.
        let gap_ns = self.fraction_ns - (1.0 - self.rng.unit_f64()).ln() * self.gap_ns_mean;
        let whole_ns = gap_ns.floor();
        self.fraction_ns = gap_ns - whole_ns;
        self.exact.at = Nanos(self.exact.at.get().saturating_add(whole_ns as u64));
    }

    /// How many requests are due before `end`. Counts them one by one, and from a million on by the rate.
    pub(crate) fn count_before(&self, end: Nanos) -> u64 {
        const COUNTED_MAX: u64 = 1 << 20;
        let mut rest = self.clone();
        let mut count = 0;
        while rest.due() < end {
            if count == COUNTED_MAX {
                let end = rest.tempo.as_ref().map_or(end, |tempo| tempo.base(end));
                let bursts = end.saturating_since(rest.exact.at).get() as f64 / self.gap_ns_mean;
                return count + (bursts * f64::from(self.burst)).round() as u64;
            }
            rest.advance();
            count += 1;
        }
        count
    }
}

/// So many requests in millionths.
fn requests(count: u32) -> u128 {
    u128::from(count) * 1_000_000
}

/// What keeps a closed loop below its limits.
#[derive(Clone, Debug)]
pub(crate) struct Throttle {
    requests: Option<(ExactTime, ExactSpan)>,
    bytes: Option<ExactTime>,
    workers: u32,
}

impl Throttle {
    /// Returns the limits of `closed` from `start` on, of which one of `workers` has its share.
    pub(crate) fn new(closed: &ClosedLoop, workers: u32, start: Nanos) -> Self {
        let of_rate = |rate: RequestRate| {
            let millionths = rate.millionths();
            (ExactTime::new(start, millionths), ExactSpan::of(requests(workers), millionths))
        };
        let of_bytes = |rate: ByteCount| ExactTime::new(start, rate.get());
        Self {
            requests: closed.rate_max.map(of_rate),
            bytes: closed.bytes_per_sec_max.map(of_bytes),
            workers,
        }
    }

    /// When the next request may start.
    #[inline]
    pub(crate) fn due(&self) -> Nanos {
        let requests = self.requests.as_ref().map_or(Nanos::ZERO, |(time, _)| time.at);
        requests.max(self.bytes.as_ref().map_or(Nanos::ZERO, |time| time.at))
    }

    /// Takes in that a request of `bytes` starts at `now`.
    #[inline]
    pub(crate) fn advance(&mut self, now: Nanos, bytes: u32) {
        if let Some((time, span)) = &mut self.requests {
            catch_up(time, now);
            time.advance(*span);
        }
        if let Some(time) = &mut self.bytes {
            catch_up(time, now);
            time.advance(ExactSpan::of(u128::from(bytes) * u128::from(self.workers), time.parts_per_ns));
        }
    }
}

/// Forgets what `time` is behind `now` by more than may be caught up on.
fn catch_up(time: &mut ExactTime, now: Nanos) {
    let earliest = Nanos(now.get().saturating_sub(CATCH_UP.get()));
    if time.at < earliest {
        *time = ExactTime::new(earliest, time.parts_per_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrivals(process: ArrivalProcess, per_second: f64, burst: u32) -> Arrivals {
        Arrivals { process, rate: RequestRate::new(per_second).unwrap(), burst }
    }

    fn take(schedule: &mut Schedule, count: usize) -> Vec<u64> {
        (0..count)
            .map(|_| {
                let due = schedule.due().get();
                schedule.advance();
                due
            })
            .collect()
    }

    proptest! {
        #[test]
        fn fixed_arrivals_are_those_of_the_formula_for_any_rate_and_any_number_of_workers(
            millionths in 1_000u64..3_000_000_000_000,
            workers in 1u32..5,
            burst in 1u32..4,
            start in 0u64..1_000_000,
        ) {
            let rate = RequestRate::new(millionths as f64 / 1e6).unwrap();
            let arrivals = Arrivals { process: ArrivalProcess::Fixed, rate, burst };
            let mut all = Vec::new();
            for worker in 0..workers {
                let mut schedule = Schedule::new(&arrivals, (worker, workers), 1, Nanos(start));
                all.extend(take(&mut schedule, 300 * burst as usize));
            }
            all.sort_unstable();
            for (number, due) in all.into_iter().enumerate() {
                let before = number as u128 / u128::from(burst) * u128::from(burst);
                let exact = before * 1_000_000 * NANOS_PER_SEC / u128::from(rate.millionths());
                prop_assert_eq!(u128::from(due - start), exact, "request {}", number);
            }
        }

        #[test]
        fn limits_are_kept_over_any_stretch_but_for_what_may_be_caught_up(
            per_second in 1.0f64..2e6,
            bytes_per_sec in 1_000_000u64..2_000_000_000,
            stalls in proptest::collection::vec((0u64..400, 0u64..50_000_000), 0..5),
        ) {
            let closed = ClosedLoop {
                think: NanoSpan::ZERO,
                rate_max: RequestRate::new(per_second),
                bytes_per_sec_max: Some(ByteCount(bytes_per_sec)),
            };
            let mut throttle = Throttle::new(&closed, 1, Nanos::ZERO);
            let mut now = Nanos::ZERO;
            let mut starts = Vec::new();
            for number in 0..400 {
                now = now.max(throttle.due());
                if let Some((_, stall)) = stalls.iter().find(|(at, _)| *at == number) {
                    now = Nanos(now.get() + stall);
                }
                throttle.advance(now, 4096);
                starts.push(now.get());
            }
            let cost_ns = (1e9 / per_second).max(4096e9 / bytes_per_sec as f64);
            for from in (0..400).step_by(37) {
                for to in (from + 1..400).step_by(41) {
                    let least = (to - from) as f64 * cost_ns - CATCH_UP.get() as f64 - cost_ns - 2.0;
                    let took = (starts[to] - starts[from]) as f64;
                    prop_assert!(took >= least, "{from} to {to} took {took} of {least}");
                }
            }
        }
    }

    #[test]
    fn a_limited_loop_that_is_never_kept_waiting_has_exactly_its_rate() {
        let closed = ClosedLoop { rate_max: RequestRate::new(3.0), ..ClosedLoop::default() };
        let mut throttle = Throttle::new(&closed, 1, Nanos::ZERO);
        for number in 0..3000u64 {
            let due = throttle.due();
            assert_eq!(due.get(), number * 1_000_000_000 / 3);
            // The timer is 1 ms late each time, and the rate stays.
            throttle.advance(due + NanoSpan::from_millis(1), 512);
        }
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_gaps_of_their_definition() {
        let rate = 12_345.678;
        for (worker, workers) in [(0, 1), (2, 3)] {
            let arrivals = arrivals(ArrivalProcess::Poisson, rate, 1);
            let count = 200_000;
            let dues = take(&mut Schedule::new(&arrivals, (worker, workers), 7, Nanos::ZERO), count);
            let mean_ns = f64::from(workers) * 1e9 / rate;
            let last = *dues.last().unwrap() as f64;
            // The sum of n exponential gaps is off by its mean over the root of n, one time in three; the seed is fixed.
            let sigma = (last - count as f64 * mean_ns) / (mean_ns * (count as f64).sqrt());
            assert!(sigma.abs() < 3.0, "{sigma} standard deviations");
            // Ten classes of gaps that are equally likely by the definition.
            let mut classes = [0u64; 10];
            for pair in dues.windows(2) {
                let share = 1.0 - (-((pair[1] - pair[0]) as f64 + 0.5) / mean_ns).exp();
                classes[((share * 10.0) as usize).min(9)] += 1;
            }
            let expected = (count - 1) as f64 / 10.0;
            let chi2: f64 = classes.iter().map(|&n| (n as f64 - expected).powi(2) / expected).sum();
            // Nine degrees of freedom: above 27.9 once in a thousand.
            assert!(chi2 < 27.9, "chi square {chi2}: {classes:?}");
        }
    }

    #[test]
    fn bursts_arrive_at_once_and_the_rest_is_counted() {
        let mut schedule = Schedule::new(&arrivals(ArrivalProcess::Fixed, 1000.0, 3), (0, 1), 1, Nanos(500));
        assert_eq!(schedule.count_before(Nanos(500)), 0);
        assert_eq!(schedule.count_before(Nanos(501)), 3);
        assert_eq!(schedule.count_before(Nanos(9_000_501)), 12);
        assert_eq!(take(&mut schedule, 4), [500, 500, 500, 3_000_500]);
        assert_eq!(schedule.count_before(Nanos(3_000_501)), 2);
        let fast = Schedule::new(&arrivals(ArrivalProcess::Fixed, 1e6, 1), (0, 1), 1, Nanos::ZERO);
        assert_eq!(fast.count_before(Nanos(5_000_000_000)), 5_000_000);
    }
}
