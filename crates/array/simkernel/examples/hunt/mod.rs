//! Hunting by child processes: a run that aborts, loops or overflows its stack ends its child, and is told with its seed.
//!
//! The child says what it does, a line each: `begin SEED`, `end SEED REQUESTS CRASHES CPU_NS`, `fail SEED CHECKER TEXT`.

use raidlab_simkernel::{Facts, Failure, Plan, read_plan, shrink, write_plan};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// A run that says nothing for so long loops.
const SILENCE_MAX: Duration = Duration::from_secs(90);

const USAGE: &str = "\
Usage: simkernel [--seconds N] [--seed N] [FILE]...
  --seconds N   CPU time in all (300)
  --seed N      the first seed (1)
  FILE          stored plans, run instead";

/// What a hunt came to.
#[derive(Debug, Default)]
pub(crate) struct Hunted {
    pub(crate) seeds: u64,
    pub(crate) answered: u64,
    pub(crate) crashes: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) failure: Option<Failure>,
}

/// What one child is to do.
#[derive(Clone, Debug)]
pub(crate) struct Errand {
    pub(crate) first_seed: u64,
    pub(crate) seeds: u64,
    pub(crate) seconds: u64,
    pub(crate) mutant: u32,
}

/// The program: a hunt, or a child of one. `plant` puts a deliberate defect to work.
pub(crate) fn main(args: &[String], plant: impl Fn(u32)) -> ExitCode {
    match run(args, plant) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(trouble) => {
            eprintln!("{trouble}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[String], plant: impl Fn(u32)) -> Result<bool, String> {
    if let Some((first, rest)) = args.split_first()
        && first == "--child"
    {
        return child(rest, plant);
    }
    let mut errand = Errand { first_seed: 1, seeds: u64::MAX, seconds: 300, mutant: 0 };
    let mut files = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || args.next().and_then(|text| text.parse().ok()).ok_or(USAGE.to_owned());
        match arg.as_str() {
            "--seconds" => errand.seconds = number()?,
            "--seed" => errand.first_seed = number()?,
            "--seeds" => errand.seeds = number()?,
            word if word.starts_with('-') => return Err(USAGE.to_owned()),
            file => files.push(file.to_owned()),
        }
    }
    if !files.is_empty() {
        return run_files(&files);
    }
    let hunted = hunt(&errand);
    let Hunted { seeds, answered, crashes, cpu_ns, failure } = hunted;
    let seconds = cpu_ns as f64 / 1e9;
    println!(
        "{seeds} seeds from {}, {answered} requests, {crashes} crashes, {seconds:.0} s",
        errand.first_seed
    );
    let Some(failure) = failure else { return Ok(true) };
    println!("{failure}");
    let (plan, failure) = shrink(&Plan::draw(failure.seed), &failure, |plan| run_apart(plan, 0));
    let file = format!("simkernel-{}.toml", failure.seed);
    let remark = format!("# {}\n", failure.to_string().replace('\n', " "));
    std::fs::write(&file, remark + &write_plan(&plan)).map_err(|error| format!("{file}: {error}"))?;
    println!("shrunk and stored in {file}: {failure}");
    Ok(false)
}

fn run_files(files: &[String]) -> Result<bool, String> {
    let mut is_well = true;
    for file in files {
        let text = std::fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        let plan = read_plan(&text).map_err(|error| format!("{file}: {error}"))?;
        match run_apart(&plan, 0) {
            None => println!("{file}: nothing is wrong"),
            Some(failure) => {
                is_well = false;
                println!("{file}: {failure}");
            }
        }
    }
    Ok(is_well)
}

/// Runs seeds in children until one fails or the time is over.
pub(crate) fn hunt(errand: &Errand) -> Hunted {
    let Errand { first_seed, seeds, seconds, mutant } = errand;
    let args = [first_seed.to_string(), seeds.to_string(), seconds.to_string(), mutant.to_string()];
    let mut hunted = Hunted::default();
    let said = said_by(&args, None, |line| {
        if let [seed, answered, crashes, cpu_ns] = numbers(line, "end ")[..] {
            hunted.seeds = seed + 1 - first_seed;
            hunted.answered += answered;
            hunted.crashes += crashes;
            hunted.cpu_ns = cpu_ns;
        }
    });
    hunted.failure = said;
    hunted
}

/// Runs a plan in a child.
pub(crate) fn run_apart(plan: &Plan, mutant: u32) -> Option<Failure> {
    said_by(&["plan".to_owned(), mutant.to_string()], Some(&write_plan(plan)), |_| {})
}

fn numbers(line: &str, mark: &str) -> Vec<u64> {
    line.strip_prefix(mark)
        .map(|rest| rest.split(' ').filter_map(|text| text.parse().ok()).collect())
        .unwrap_or_default()
}

/// Has a child work, and returns how it failed, if it did.
fn said_by(args: &[String], input: Option<&str>, mut hear: impl FnMut(&str)) -> Option<Failure> {
    let program = std::env::current_exe().expect("a program has a path");
    let mut command = Command::new(program);
    command.arg("--child").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().expect("a child can be started");
    let mut stdin = child.stdin.take().expect("it is piped");
    let _ = stdin.write_all(input.unwrap_or_default().as_bytes());
    drop(stdin);
    let lines = lines_of(&mut child);
    let mut seed = 0;
    let failure = |seed, checker: &str, text: &str| {
        Some(Failure { seed, checker: checker.to_owned(), text: text.to_owned() })
    };
    loop {
        let line = match lines.recv_timeout(SILENCE_MAX) {
            Ok(line) => line,
            Err(silence) => {
                let _ = child.kill();
                let status = child.wait().map(|status| status.to_string()).unwrap_or_default();
                let loops = silence == RecvTimeoutError::Timeout;
                return failure(seed, "abort", if loops { "it loops" } else { &status });
            }
        };
        if line == "done" {
            let _ = child.wait();
            return None;
        }
        if let [begun] = numbers(&line, "begin ")[..] {
            seed = begun;
        }
        if let Some(rest) = line.strip_prefix("fail ") {
            let _ = child.wait();
            let mut parts = rest.splitn(2, ' ');
            return failure(seed, parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        }
        hear(&line);
    }
}

/// Lines of a child; the channel ends with it.
fn lines_of(child: &mut Child) -> Receiver<String> {
    let stdout = child.stdout.take().expect("it is piped");
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

fn child(args: &[String], plant: impl Fn(u32)) -> Result<bool, String> {
    let number = |at: usize| args.get(at).and_then(|text| text.parse::<u64>().ok()).ok_or(USAGE.to_owned());
    if args.first().is_some_and(|first| first == "plan") {
        let text = std::io::read_to_string(std::io::stdin()).map_err(|error| error.to_string())?;
        let plan = read_plan(&text).map_err(|error| error.to_string())?;
        plant(number(1)? as u32);
        let is_well = tell(&plan).is_some();
        if is_well {
            say("done");
        }
        return Ok(is_well);
    }
    let (first_seed, seeds, seconds) = (number(0)?, number(1)?, number(2)?);
    plant(number(3)? as u32);
    let mut seed = first_seed;
    while seed - first_seed < seeds && cpu_ns() < seconds * 1_000_000_000 {
        let Some(Facts { answered, crashes, .. }) = tell(&Plan::draw(seed)) else { return Ok(false) };
        say(&format!("end {seed} {answered} {crashes} {}", cpu_ns()));
        seed += 1;
    }
    say("done");
    Ok(true)
}

/// Runs a plan and tells how it fails; a single one is done with that.
fn tell(plan: &Plan) -> Option<Facts> {
    say(&format!("begin {}", plan.seed));
    match plan.run() {
        Ok(facts) => Some(facts),
        Err(Failure { checker, text, .. }) => {
            say(&format!("fail {checker} {}", text.replace('\n', " ")));
            None
        }
    }
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody may be there any more to hear of it.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Processor time of this process, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
