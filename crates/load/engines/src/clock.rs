//! The clock of a run, and the processor time of the running thread so far.

use raidlab_units::{NanoSpan, Nanos};
use rustix::time::{ClockId, Timespec, clock_gettime};

/// Monotonic time since the clock was made. A reading takes about 20 ns: it makes no system call (vDSO); the
/// loops have a quicker one ([`crate::ticks`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin_ns: u64,
}

impl Clock {
    /// Returns a clock that starts now.
    pub(crate) fn start() -> Self {
        Self { origin_ns: nanoseconds(clock_gettime(ClockId::Monotonic)) }
    }

    /// Returns the time since the clock's start.
    #[inline]
    pub(crate) fn now(self) -> Nanos {
        Nanos(nanoseconds(clock_gettime(ClockId::Monotonic)) - self.origin_ns)
    }
}

/// Processor time and context switches of the calling thread since it began.
///
/// The clocks count whole nanoseconds, where `getrusage` may count in ticks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadReading {
    pub(crate) cpu: NanoSpan,
    /// Voluntary and involuntary, where `/proc` tells.
    pub(crate) switches: Option<(u64, u64)>,
}

impl ThreadReading {
    pub(crate) fn now() -> Self {
        Self {
            cpu: thread_cpu(),
            switches: std::fs::read_to_string("/proc/thread-self/status")
                .ok()
                .and_then(|status| parse_switches(&status)),
        }
    }
}

/// Returns the processor time of the calling thread, user and system, since it began.
pub(crate) fn thread_cpu() -> NanoSpan {
    NanoSpan(nanoseconds(clock_gettime(ClockId::ThreadCPUTime)))
}

/// Returns the processor time of all threads of this process, those included that the kernel runs for it.
pub(crate) fn process_cpu() -> NanoSpan {
    NanoSpan(nanoseconds(clock_gettime(ClockId::ProcessCPUTime)))
}

/// Returns the context switches, voluntary and involuntary, of all threads that this process has now, where `/proc` tells.
/// What threads did that have ended is not in it.
pub(crate) fn process_switches() -> Option<(u64, u64)> {
    let mut sum = (0, 0);
    for task in std::fs::read_dir("/proc/self/task").ok()? {
        // A thread may end while this looks.
        let Ok(status) = std::fs::read_to_string(task.ok()?.path().join("status")) else { continue };
        let (waited, made) = parse_switches(&status)?;
        sum = (sum.0 + waited, sum.1 + made);
    }
    Some(sum)
}

/// Reads the context switches from the text of `/proc/thread-self/status`.
fn parse_switches(status: &str) -> Option<(u64, u64)> {
    let number = |key: &str| {
        status.lines().find_map(|line| line.strip_prefix(key)).and_then(|rest| rest.trim().parse().ok())
    };
    Some((number("voluntary_ctxt_switches:")?, number("nonvoluntary_ctxt_switches:")?))
}

/// Waits until the monotonic clock shows `monotonic_ns` and returns how long after that it is: the system wakes a thread up
/// late, so that the last of the time is waited for awake. Zero is no time to wait for.
pub(crate) fn wait_until(monotonic_ns: u64) -> NanoSpan {
    const AWAKE_NS: u64 = 300_000;
    if monotonic_ns == 0 {
        return NanoSpan::ZERO;
    }
    loop {
        let now = nanoseconds(clock_gettime(ClockId::Monotonic));
        match monotonic_ns.checked_sub(now) {
            None | Some(0) => return NanoSpan(now - monotonic_ns),
            Some(left) if left > AWAKE_NS => {
                std::thread::sleep(std::time::Duration::from_nanos(left - AWAKE_NS));
            }
            Some(_) => std::thread::yield_now(),
        }
    }
}

#[inline]
fn nanoseconds(time: Timespec) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_are_read_from_status() {
        let rows = [
            ("Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n", Some((12, 3))),
            ("voluntary_ctxt_switches:\t12\n", None),
            ("voluntary_ctxt_switches:\tx\nnonvoluntary_ctxt_switches:\t3\n", None),
        ];
        for (text, expected) in rows {
            assert_eq!(parse_switches(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_moment_is_waited_for_and_never_ends_early() {
        assert_eq!(wait_until(0), NanoSpan::ZERO);
        let at = nanoseconds(clock_gettime(ClockId::Monotonic)) + 3_000_000;
        let late = wait_until(at);
        assert!(nanoseconds(clock_gettime(ClockId::Monotonic)) >= at + late.get());
        assert!(wait_until(at) >= late, "a moment that is over is not waited for");
    }

    #[test]
    fn time_and_cost_go_forward() {
        let (clock, before, all_before) = (Clock::start(), ThreadReading::now(), process_cpu());
        let mut sum = 0_u64;
        while clock.now() < Nanos(5_000_000) {
            sum = std::hint::black_box(sum + 1);
        }
        let (after, all_after) = (ThreadReading::now(), process_cpu());
        assert!(after.cpu > before.cpu);
        assert!(after.switches >= before.switches);
        assert!(all_after > all_before);
    }
}
