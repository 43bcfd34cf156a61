//! One process that leads, and helpers that come and go: what they need to know is the log of what was decided so far.
//!
//! ```text
//!   leader  ── {"count": 12} ──►  who pairs them  ── {"jobs": [3, 4]} ──►  helper    the same program with the same arguments, which
//!           ◄─ {"index": 3, ..} ─  (Python's      ◄─ {"index": 3, ..} ──             comes to the same point by the log alone
//!           ── {"said": ..} ───►    executors)    ── the log, a line each ─►
//! ```
//! Ranks of MPI are there from start to end, and a lost one ends the run. A helper is worth nothing to anybody: another one takes the log,
//! goes the same way without doing a job, and does the jobs of the round at which it ends. A line is a message in JSON.
//!
//! - The log has a line for each call, in order: `{"results": [..]}` of a round, `{"said": ..}` of what the leader decided.
//! - A job that fails has no result; whoever needs its error does it again.
//! - A helper ends when its input does.

use crate::{Hosts, HostsError, Jobs, Refusal, Stop};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{BufRead, Write};
use std::num::NonZeroUsize;

/// One end of it.
pub(crate) struct Rounds {
    input: Box<dyn BufRead + Send>,
    output: Box<dyn Write + Send>,
    leads: bool,
}

impl fmt::Debug for Rounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rounds").field("leads", &self.leads).finish_non_exhaustive()
    }
}

/// What is said. Results and what was decided are text of JSON within the text, which nobody between the ends reads.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// From the leader: so many jobs are to be done.
    Count(usize),
    /// To a helper: do these.
    Jobs(Vec<usize>),
    /// A job that was done; nothing where it failed.
    Done { index: usize, result: Option<String> },
    /// In the log: the results of a round, by their index.
    Results(Vec<Option<String>>),
    /// In the log: what the leader decided.
    Said(String),
}

impl Rounds {
    pub(crate) fn new(input: Box<dyn BufRead + Send>, output: Box<dyn Write + Send>, leads: bool) -> Self {
        Self { input, output, leads }
    }

    fn say(&mut self, line: &Line) -> Result<(), HostsError> {
        let mut text = serde_json::to_vec(line).expect("text and numbers always print");
        text.push(b'\n');
        let sent = self.output.write_all(&text).and_then(|()| self.output.flush());
        sent.map_err(|_| HostsError::NoRounds)
    }

    fn hear(&mut self) -> Result<Line, HostsError> {
        let mut text = String::new();
        match self.input.read_line(&mut text) {
            Ok(1..) => serde_json::from_str(&text).map_err(|_| HostsError::NoRounds),
            _ => Err(HostsError::NoRounds),
        }
    }

    /// What the leader makes of its own part, told to all.
    pub(crate) fn together<T, R: Serialize + DeserializeOwned>(
        &mut self,
        own: Result<T, Refusal>,
        merge: impl FnOnce(Vec<T>) -> R,
    ) -> Result<R, HostsError> {
        if !self.leads {
            let Line::Said(text) = self.hear()? else { return Err(HostsError::NoRounds) };
            return read(&text);
        }
        let host = || "this host".to_owned();
        let own = own.map_err(|refusal| match refusal {
            Refusal::Stopped => HostsError::Stopped { rank: 0, host: host() },
            Refusal::Failed(text) => HostsError::Failed { rank: 0, host: host(), text },
        })?;
        let said = merge(vec![own]);
        self.say(&Line::Said(written(&said)))?;
        Ok(said)
    }

    /// As [`crate::Hosts::share`], with nobody to cancel it.
    pub(crate) fn share<T, E, S>(
        &mut self,
        jobs: Jobs<'_>,
        job: &(impl Fn(usize) -> Result<T, E> + Sync),
        take: &mut impl FnMut(usize, Result<T, E>) -> Result<(), S>,
    ) -> Result<(), Stop<S>>
    where
        T: Send + Serialize + DeserializeOwned,
        E: Send,
    {
        if jobs.count == 0 {
            return Ok(());
        }
        let mut taken = |index: usize, result: Option<String>| {
            let result = match result {
                Some(text) => Ok(read(&text)?),
                None => job(index),
            };
            take(index, result).map_err(Stop::Failed)
        };
        if self.leads {
            self.say(&Line::Count(jobs.count))?;
            for _ in 0..jobs.count {
                let Line::Done { index, result } = self.hear()? else {
                    return Err(HostsError::NoRounds.into());
                };
                taken(index, result)?;
            }
            return Ok(());
        }
        loop {
            match self.hear()? {
                Line::Results(results) if results.len() == jobs.count => {
                    return results
                        .into_iter()
                        .enumerate()
                        .try_for_each(|(index, result)| taken(index, result));
                }
                Line::Jobs(these) if these.iter().all(|index| *index < jobs.count) => {
                    for (index, result) in done(&these, jobs.threads, job)? {
                        self.say(&Line::Done { index, result })?;
                    }
                }
                _ => return Err(HostsError::NoRounds.into()),
            }
        }
    }
}

/// Does the jobs `these` on `threads` threads.
fn done<T: Serialize, E: Send>(
    these: &[usize],
    threads: NonZeroUsize,
    job: &(impl Fn(usize) -> Result<T, E> + Sync),
) -> Result<Vec<(usize, Option<String>)>, HostsError> {
    // Of one type whatever the jobs are, or the compiler would make `share_all` of its own closures without end.
    let job: &(dyn Fn(usize) -> Result<String, E> + Sync) = &|at| job(these[at]).map(|it| written(&it));
    let results = Hosts::alone().share_all((these.len(), threads), job, |_, _| {})?;
    Ok(these.iter().copied().zip(results.into_iter().map(Result::ok)).collect())
}

fn written(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("messages have no map keys other than text")
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, HostsError> {
    serde_json::from_str(text).map_err(|_| HostsError::NoRounds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, PipeReader, PipeWriter, pipe};
    use std::thread::JoinHandle;

    type Answer = Result<Vec<u64>, HostsError>;

    /// A search in rounds: what each brings says how many jobs the next one has, until the leader says that it is enough.
    fn search(hosts: &mut Hosts, enough: &dyn Fn(u64) -> bool) -> Answer {
        let (mut found, mut count) = (Vec::new(), 5);
        loop {
            let job =
                |index: usize| if index == 2 { Err("no") } else { Ok(found.len() as u64 * 7 + index as u64) };
            let results = hosts.share_all((count, NonZeroUsize::MIN), job, |_, _| {})?;
            let sum: u64 = results.iter().map(|it| it.unwrap_or(1000)).sum();
            found.push(sum);
            let own = enough(sum);
            if hosts.together(Ok(own), |all| all[0])? {
                return Ok(found);
            }
            count = 1 + (sum % 6) as usize;
        }
    }

    /// Somebody who searches, and the pipes to it.
    struct Other {
        answers: BufReader<PipeReader>,
        asks: PipeWriter,
        thread: JoinHandle<Answer>,
    }

    impl Other {
        fn start(leads: bool) -> Self {
            let ((input, asks), (answers, output)) = (pipe().unwrap(), pipe().unwrap());
            let rounds = Rounds::new(Box::new(BufReader::new(input)), Box::new(output), leads);
            // What a helper would decide makes no difference.
            let thread =
                std::thread::spawn(move || search(&mut Hosts::in_rounds(rounds), &|sum| leads && sum > 1300));
            Self { answers: BufReader::new(answers), asks, thread }
        }

        fn ask(&mut self, line: &str) {
            writeln!(self.asks, "{line}").unwrap();
        }

        fn answer(&mut self) -> Option<String> {
            let mut line = String::new();
            (self.answers.read_line(&mut line).unwrap() > 0).then(|| line.trim_end().to_owned())
        }
    }

    /// The leader's answer where each helper does `each` jobs and is then lost.
    fn with_helpers(each: usize) -> Answer {
        let (mut leader, mut log) = (Other::start(true), Vec::<String>::new());
        while let Some(said) = leader.answer() {
            let Ok(Line::Count(count)) = serde_json::from_str(&said) else {
                log.push(said);
                continue;
            };
            let (mut results, all) = (vec![None; count], (0..count).collect::<Vec<_>>());
            for jobs in all.chunks(each) {
                let mut helper = Other::start(false);
                for line in &log {
                    helper.ask(line);
                }
                helper.ask(&serde_json::to_string(&Line::Jobs(jobs.to_vec())).unwrap());
                for _ in jobs {
                    let line = helper.answer().unwrap();
                    leader.ask(&line);
                    let Ok(Line::Done { index, result }) = serde_json::from_str(&line) else {
                        panic!("{line}")
                    };
                    results[index] = result;
                }
                drop(helper.asks);
                assert_eq!(helper.thread.join().unwrap(), Err(HostsError::NoRounds));
            }
            log.push(serde_json::to_string(&Line::Results(results)).unwrap());
        }
        leader.thread.join().unwrap()
    }

    #[test]
    fn a_search_with_helpers_that_are_lost_is_the_search_alone() {
        let alone = search(&mut Hosts::alone(), &|sum| sum > 1300).unwrap();
        assert!(alone.len() > 2, "{alone:?}");
        for each in [1, 2, 100] {
            assert_eq!(with_helpers(each).unwrap(), alone, "{each} jobs of each helper");
        }
    }

    #[test]
    fn what_makes_no_sense_ends_it() {
        for line in ["", "nonsense", r#"{"results":["1"]}"#, r#"{"jobs":[99]}"#, r#"{"said":"true"}"#] {
            let mut helper = Other::start(false);
            helper.ask(line);
            assert_eq!(helper.thread.join().unwrap(), Err(HostsError::NoRounds), "{line}");
        }
    }
}
