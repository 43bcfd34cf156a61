//! Independent jobs on several threads, with their results taken in on the caller's.
//!
//! Jobs are taken in order of their index; results come in whatever order they end. Whoever needs an order has the
//! index. The caller's thread takes results in while the others work, so storing and showing never race.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;

/// Why not all jobs were done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stop<E> {
    /// The caller asked to stop; results taken in so far stand.
    Cancelled,
    /// Taking a result in failed.
    Failed(E),
}

/// Number of threads that this machine runs at once.
pub(crate) fn all_processors() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Does jobs `0..count` on up to `threads` threads and hands each result to `take`.
///
/// # Errors
/// [`Stop::Cancelled`] once `cancel` is set and the jobs under way have ended; [`Stop::Failed`] with the first
/// error of `take`.
pub(crate) fn in_parallel<T: Send, E>(
    threads: NonZeroUsize,
    count: usize,
    cancel: &AtomicBool,
    job: impl Fn(usize) -> T + Sync,
    mut take: impl FnMut(usize, T) -> Result<(), E>,
) -> Result<(), Stop<E>> {
    let (next, halt) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.get().min(count) {
            let (sender, next, halt, job) = (sender.clone(), &next, &halt, &job);
            scope.spawn(move || {
                while !halt.load(Ordering::Relaxed) && !cancel.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    // A closed channel means that the receiver has failed and set `halt`.
                    if index >= count || sender.send((index, job(index))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let mut taken = 0;
        for (index, result) in results {
            if let Err(error) = take(index, result) {
                halt.store(true, Ordering::Relaxed);
                return Err(Stop::Failed(error));
            }
            taken += 1;
        }
        if taken == count { Ok(()) } else { Err(Stop::Cancelled) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    #[test]
    fn every_job_is_done_once_on_any_number_of_threads() {
        for count in [0, 1, 7, 100] {
            for workers in [1, 2, 5] {
                let mut results = vec![None; count];
                let take = |index: usize, result| {
                    assert_eq!(results[index].replace(result), None, "job {index} was done twice");
                    Ok::<(), ()>(())
                };
                in_parallel(threads(workers), count, &AtomicBool::new(false), |index| index * 3, take)
                    .unwrap();
                let expected: Vec<_> = (0..count).map(|index| Some(index * 3)).collect();
                assert_eq!(results, expected, "{count} jobs on {workers} threads");
            }
        }
    }

    #[test]
    fn a_cancelled_row_of_jobs_keeps_what_was_done() {
        let cancel = AtomicBool::new(false);
        let mut taken = Vec::new();
        let stopped = in_parallel(
            threads(1),
            10,
            &cancel,
            |index| {
                if index == 3 {
                    cancel.store(true, Ordering::Relaxed);
                }
                index
            },
            |index, _| {
                taken.push(index);
                Ok::<(), ()>(())
            },
        );
        assert_eq!(stopped, Err(Stop::Cancelled));
        assert_eq!(taken, [0, 1, 2, 3]);
    }

    #[test]
    fn the_first_error_stops_the_rest() {
        let stopped = in_parallel(
            threads(2),
            1_000,
            &AtomicBool::new(false),
            |index| index,
            |index, _| {
                if index == 5 { Err("five") } else { Ok(()) }
            },
        );
        assert_eq!(stopped, Err(Stop::Failed("five")));
    }
}
