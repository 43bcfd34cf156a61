//! Jobs on any number of ranks and threads: each once, results in one order, errors, stops and lost ranks.

use super::*;
use crate::tests::{LONG, on_ranks};
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

fn threads(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

#[test]
fn every_job_is_done_once_and_every_rank_takes_all_results_in_one_order() {
    for (ranks, count, of_rank) in
        [(1, 0, 1), (1, 7, 1), (1, 100, 5), (2, 0, 2), (2, 1, 3), (3, 100, 2), (5, 3, 1)]
    {
        let done: Vec<AtomicUsize> = (0..count).map(|_| AtomicUsize::new(0)).collect();
        let ends = on_ranks(ranks, LONG, |hosts| {
            let mut hosts = hosts.unwrap();
            let mut order = Vec::new();
            // Twice: no word of a round is left over for the next one.
            for round in 0..2 {
                let cancel = AtomicBool::new(false);
                let jobs = Jobs { count, threads: threads(of_rank), cancel: &cancel };
                let job = |index: usize| {
                    done[index].fetch_add(1, Ordering::Relaxed);
                    Ok::<f64, ()>(index as f64 / 3.0)
                };
                let take = |index: usize, result: Result<f64, ()>| {
                    assert_eq!(result, Ok(index as f64 / 3.0), "the very number");
                    order.push((round, index));
                    Ok::<(), ()>(())
                };
                hosts.share(jobs, job, take).unwrap();
            }
            (order, hosts.jobs_done().iter().sum::<u64>(), hosts.leads())
        });
        assert!(done.iter().all(|times| times.load(Ordering::Relaxed) == 2), "{ranks} ranks, {count} jobs");
        let (order, ..) = &ends[0];
        let mut sorted = order.clone();
        sorted.sort_unstable();
        let all: Vec<_> = (0..2).flat_map(|round| (0..count).map(move |index| (round, index))).collect();
        assert_eq!(sorted, all, "{ranks} ranks, {count} jobs");
        assert!(ends.iter().all(|(theirs, ..)| theirs == order), "{ends:?}");
        assert!(ends.iter().all(|(_, done, leads)| !leads || *done == 2 * count as u64), "{ends:?}");
    }
}

#[test]
fn no_rank_stands_idle_while_another_has_a_long_job() {
    let others_done = AtomicUsize::new(0);
    on_ranks(2, LONG, |hosts| {
        let cancel = AtomicBool::new(false);
        let jobs = Jobs { count: 40, threads: threads(1), cancel: &cancel };
        let job = |index| {
            // Whoever has the first waits until the other has done all the rest.
            while index == 0 && others_done.load(Ordering::Relaxed) < 39 {
                sleep(LOOK_EVERY);
            }
            others_done.fetch_add(1, Ordering::Relaxed);
            Ok::<usize, ()>(index)
        };
        hosts.unwrap().share(jobs, job, |_, _| Ok::<(), ()>(())).unwrap();
    });
}

#[test]
fn what_fails_fails_on_every_rank_with_its_own_error() {
    let ends = on_ranks(3, LONG, |hosts| {
        let cancel = AtomicBool::new(false);
        let jobs = Jobs { count: 12, threads: threads(1), cancel: &cancel };
        let mut errors = Vec::new();
        let job = |index| if index % 4 == 1 { Err(format!("no {index}")) } else { Ok(index) };
        let take = |_, result: Result<usize, String>| {
            errors.extend(result.err());
            Ok::<(), ()>(())
        };
        hosts.unwrap().share(jobs, job, take).unwrap();
        errors.sort_unstable();
        errors
    });
    assert_eq!(ends, [["no 1", "no 5", "no 9"]; 3]);
}

#[test]
fn a_stop_on_any_rank_ends_all_with_the_same_results() {
    for stopped in 0..3 {
        let ends = on_ranks(3, LONG, |hosts| {
            let mut hosts = hosts.unwrap();
            let own = hosts.rank() == stopped;
            let cancel = AtomicBool::new(false);
            let jobs = Jobs { count: 10_000, threads: threads(1), cancel: &cancel };
            let mut taken = Vec::new();
            let job = |index| {
                cancel.fetch_or(own, Ordering::Relaxed);
                sleep(Duration::from_millis(2));
                Ok::<usize, ()>(index)
            };
            let take = |index, _| {
                taken.push(index);
                Ok::<(), ()>(())
            };
            assert_eq!(hosts.share(jobs, job, take), Err(Stop::Cancelled));
            hosts.barrier(Ok(())).unwrap();
            taken
        });
        assert!(ends[0].len() < 10_000 && ends.iter().all(|taken| *taken == ends[0]), "{ends:?}");
    }
}

#[test]
fn one_thread_alone_stops_where_it_is_told_to() {
    let (cancel, mut taken) = (AtomicBool::new(false), Vec::new());
    let jobs = Jobs { count: 10, threads: threads(1), cancel: &cancel };
    let job = |index| {
        cancel.fetch_or(index == 3, Ordering::Relaxed);
        Ok::<usize, ()>(index)
    };
    let take = |index, _| {
        taken.push(index);
        Ok::<(), ()>(())
    };
    assert_eq!(Hosts::alone().share(jobs, job, take), Err(Stop::Cancelled));
    assert_eq!(taken, [0, 1, 2, 3]);
}

#[test]
fn the_first_error_of_who_takes_results_in_stops_the_rest() {
    let ends = on_ranks(2, LONG, |hosts| {
        let cancel = AtomicBool::new(false);
        let jobs = Jobs { count: 1_000, threads: threads(2), cancel: &cancel };
        let mut hosts = hosts.unwrap();
        let leads = hosts.leads();
        let take = |index, _| if index == 5 && leads { Err("five") } else { Ok(()) };
        hosts.share(jobs, Ok::<usize, ()>, take)
    });
    assert_eq!(ends, [Err(Stop::Failed("five")), Err(Stop::Cancelled)]);
}

#[test]
fn a_job_that_panics_takes_its_rank_along() {
    let cancel = AtomicBool::new(false);
    let jobs = Jobs { count: 4, threads: threads(2), cancel: &cancel };
    let job = |index: usize| {
        assert_ne!(index, 2, "the third job");
        Ok::<usize, ()>(index)
    };
    let mut hosts = Hosts::alone();
    let ended = catch_unwind(AssertUnwindSafe(|| hosts.share(jobs, job, |_, _| Ok::<(), ()>(()))));
    assert!(ended.is_err());
}

#[test]
fn a_rank_that_is_lost_ends_the_round_with_its_name() {
    let ends = on_ranks(2, Duration::from_secs(3), |hosts| {
        let mut hosts = hosts.unwrap();
        if hosts.rank() == 1 {
            return "gone".to_owned();
        }
        let cancel = AtomicBool::new(false);
        let jobs = Jobs { count: 3, threads: threads(1), cancel: &cancel };
        match hosts.share(jobs, Ok::<usize, ()>, |_, _| Ok::<(), ()>(())) {
            Err(Stop::Hosts(error)) => error.to_string(),
            other => format!("{other:?}"),
        }
    });
    assert!(ends[0].starts_with("rank 1 on host h1 gave no sign of life"), "{ends:?}");
}

#[test]
fn ranks_that_are_in_another_call_are_found_out() {
    let ends = on_ranks(2, Duration::from_secs(4), |hosts| {
        let mut hosts = hosts.unwrap();
        if hosts.rank() == 1 {
            return hosts.barrier(Ok(())).map_err(Stop::Hosts);
        }
        let cancel = AtomicBool::new(false);
        let jobs = Jobs { count: 3, threads: threads(1), cancel: &cancel };
        hosts.share(jobs, Ok::<usize, ()>, |_, _| Ok::<(), ()>(()))
    });
    assert!(matches!(&ends[0], Err(Stop::Hosts(HostsError::Garbled { rank: 1, .. }))), "{ends:?}");
}
