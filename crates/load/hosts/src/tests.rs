//! Ranks as threads, with channels between them: agreement, refusals, lost ranks, clocks and starts.

use super::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// A rank that is a thread.
#[derive(Debug)]
struct Threads {
    rank: u32,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
}

impl Peers for Threads {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn count(&self) -> u32 {
        self.to.len() as u32
    }

    fn send(&mut self, to: u32, message: &[u8], _: Duration) -> bool {
        // Whoever is gone takes nothing, and nobody learns of it: as over a network.
        let _ = self.to[to as usize].send(message.to_vec());
        true
    }

    fn poll(&mut self, from: u32) -> Option<Vec<u8>> {
        self.from[from as usize].try_recv().ok()
    }

    fn abort(&mut self, code: u8) -> ! {
        panic!("aborted with {code}")
    }
}

/// Runs `work` on `count` ranks side by side and returns what came of each.
pub(crate) fn on_ranks<R: Send>(
    count: u32,
    limit: Duration,
    work: impl Fn(Result<Hosts, HostsError>) -> R + Sync,
) -> Vec<R> {
    let mut ends: Vec<Threads> =
        (0..count).map(|rank| Threads { rank, to: Vec::new(), from: Vec::new() }).collect();
    for to in 0..count as usize {
        for from in 0..count as usize {
            let (sender, receiver) = channel();
            ends[from].to.push(sender);
            ends[to].from.push(receiver);
        }
    }
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = ends
            .into_iter()
            .map(|end| {
                scope.spawn(move || {
                    let name = format!("h{}", end.rank);
                    work(Hosts::meet(Box::new(end), name, limit))
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

pub(crate) const LONG: Duration = Duration::from_mins(1);

#[test]
fn parts_come_together_by_rank_and_all_get_the_same() {
    for count in [1, 2, 5] {
        let ends = on_ranks(count, LONG, |hosts| {
            let mut hosts = hosts.unwrap();
            hosts.barrier(Ok(())).unwrap();
            let own = hosts.rank() * 10;
            let merged = hosts.together(Ok(own), |parts: Vec<u32>| parts).unwrap();
            (hosts.names().to_vec(), merged)
        });
        let names: Vec<String> = (0..count).map(|rank| format!("h{rank}")).collect();
        let merged: Vec<u32> = (0..count).map(|rank| rank * 10).collect();
        assert!(ends.iter().all(|end| *end == (names.clone(), merged.clone())), "{ends:?}");
    }
}

#[test]
fn alone_is_the_same_without_messages() {
    let mut hosts = Hosts::alone();
    assert!(hosts.leads() && hosts.is_alone());
    hosts.beat().unwrap();
    assert_eq!(hosts.together(Ok(7), |parts: Vec<u32>| parts).unwrap(), [7]);
    assert_eq!(hosts.start(Ok(())).unwrap().at_monotonic_ns, None);
    let refused = hosts.barrier(Err(Refusal::Failed("no".into()))).unwrap_err();
    assert_eq!(refused.to_string(), "rank 0 on host this host: no");
}

#[test]
fn a_refusal_is_told_to_all_with_the_name_of_the_rank() {
    let table = [
        (vec![(2, Refusal::Failed("no such file".into()))], "rank 2 on host h2: no such file"),
        (vec![(0, Refusal::Stopped)], "rank 0 on host h0 was stopped"),
        (
            vec![(0, Refusal::Stopped), (1, Refusal::Failed("disk full".into()))],
            "rank 1 on host h1: disk full",
        ),
    ];
    for (refusals, expected) in table {
        let ends = on_ranks(3, LONG, |hosts| {
            let mut hosts = hosts.unwrap();
            let own = refusals.iter().find(|(rank, _)| *rank == hosts.rank());
            let refused = hosts.barrier(own.map_or(Ok(()), |(_, refusal)| Err(refusal.clone()))).unwrap_err();
            // All go on with the next call.
            hosts.barrier(Ok(())).unwrap();
            refused.to_string()
        });
        assert_eq!(ends, [expected; 3]);
    }
}

#[test]
fn a_rank_that_is_silent_is_lost_by_name_and_one_that_is_slow_is_not() {
    let limit = Duration::from_secs(3);
    let ends = on_ranks(3, limit, |hosts| {
        let mut hosts = hosts.unwrap();
        match hosts.rank() {
            // Gone: its ends of the channels stay silent.
            2 => return "gone".to_owned(),
            // Slow, beyond the limit, with heartbeats.
            1 => {
                let begun_at = Instant::now();
                let cancel = AtomicBool::new(false);
                while begun_at.elapsed() < limit * 3 / 2 {
                    hosts.watch(&cancel);
                    std::thread::sleep(Duration::from_millis(20));
                }
                assert!(!cancel.load(Ordering::Relaxed), "rank 0 was there all the time");
            }
            _ => {}
        }
        hosts.barrier(Ok(())).map_or_else(|error| error.to_string(), |()| "here".into())
    });
    assert!(ends[0].starts_with("rank 2 on host h2 gave no sign of life"), "{ends:?}");
    assert!(ends[1].starts_with("rank 0 on host h0 gave no sign of life"), "{ends:?}");
}

#[test]
fn work_is_cancelled_when_a_rank_is_lost() {
    let ends = on_ranks(2, Duration::from_secs(1), |hosts| {
        let mut hosts = hosts.unwrap();
        if hosts.rank() == 1 {
            return "gone".to_owned();
        }
        let cancel = AtomicBool::new(false);
        while !cancel.load(Ordering::Relaxed) {
            hosts.watch(&cancel);
            std::thread::sleep(Duration::from_millis(20));
        }
        hosts.barrier(Ok(())).unwrap_err().to_string()
    });
    assert!(ends[0].starts_with("rank 1 on host h1 gave no sign of life"), "{ends:?}");
}

#[test]
fn starts_are_at_one_moment_and_clocks_of_one_machine_agree() {
    let ends = on_ranks(3, LONG, |hosts| {
        let mut hosts = hosts.unwrap();
        let start = hosts.start(Ok(())).unwrap();
        (start.at_monotonic_ns.unwrap(), start.clocks)
    });
    let clocks = &ends[0].1;
    for (rank, (at, theirs)) in ends.iter().enumerate() {
        assert_eq!(theirs, clocks);
        let clock = clocks[rank];
        assert!(clock.monotonic_ns.unsigned_abs() <= clock.error_ns, "{clock:?}");
        assert!(at.abs_diff(ends[0].0) <= clock.error_ns, "{at} and {}", ends[0].0);
    }
}

#[test]
fn a_start_waits_for_nobody_who_is_not_ready() {
    let ends = on_ranks(2, LONG, |hosts| {
        let mut hosts = hosts.unwrap();
        let ready = if hosts.rank() == 1 { Err(Refusal::Failed("no memory".into())) } else { Ok(()) };
        hosts.start(ready).unwrap_err().to_string()
    });
    assert_eq!(ends, ["rank 1 on host h1: no memory"; 2]);
}

#[test]
fn ranks_that_do_different_things_are_found_out() {
    let ends = on_ranks(2, Duration::from_secs(4), |hosts| {
        let mut hosts = hosts.unwrap();
        if hosts.rank() == 0 {
            hosts.together(Ok(1), |parts: Vec<u32>| parts).map(|_| ())
        } else {
            hosts.together(Ok("text".to_owned()), |parts: Vec<String>| parts).map(|_| ())
        }
    });
    assert!(matches!(&ends[0], Err(HostsError::Garbled { rank: 1, .. })), "{ends:?}");
}

#[test]
fn what_mpirun_started_is_counted() {
    assert!(COUNT_VARIABLES.iter().all(|name| is_launcher_variable(name)) && !is_launcher_variable("PATH"));
    let table = [
        (vec![], 1),
        (vec![("OMPI_COMM_WORLD_SIZE", "4")], 4),
        (vec![("PMI_SIZE", "1")], 1),
        (vec![("SLURM_STEP_NUM_TASKS", "x"), ("PMI_SIZE", "3")], 3),
    ];
    for (variables, expected) in table {
        let look =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        assert_eq!(started_count(look), expected, "{variables:?}");
    }
}
