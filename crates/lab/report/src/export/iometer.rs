//! Runs in the format of Iometer 1.1.0's results file.
//!
//! ```text
//! 'Test Type,Test Description      once
//! 'Version
//! 'Time Stamp
//! 'Access specifications           for each run: the requested load,
//! ...
//! 'End access specifications
//! 'Results                         and a row each for all, the manager, its processors, its workers, its disks
//! 'Target Type,Target Name,...     80 columns
//! ALL,All,...
//! MANAGER,...
//! PROCESSOR,CPU 0,...
//! WORKER,Worker 1,...
//! DISK,...
//! 'Time Stamp
//! ```
//! raidlab is the manager. Response times are milliseconds, raw ones ticks of a nanosecond, as the processor speed
//! says. The largest response times are of the whole window. A transaction is a request, as with Iometer's disks
//! without replies. The classes of latency are filled from bins at most 12.5 % wide, by their upper ends.
//!
//! Left out (zero or empty): network figures, deferred procedure calls, single processors (there is a row for each,
//! with the mean of all), starting sectors other than 0. With several workers or targets each row of them has an even
//! share.
//!
//! Source: Iometer 1.1.0, `ManagerList.cpp`, `Manager.cpp` and `Worker.cpp` (`SaveResults`), `AccessSpecList.cpp`,
//! `PageSetup.cpp`.

use raidlab_workload::{AccessLine, LatencyBin, OpSummary, RunResult, Summaries};

/// The line of names: 59 columns and the classes of latency.
const HEADER: &str = "'Target Type,Target Name,Access Specification Name,# Managers,# Workers,# Disks,IOps,Read IOps,\
    Write IOps,MiBps (Binary),Read MiBps (Binary),Write MiBps (Binary),MBps (Decimal),Read MBps (Decimal),\
    Write MBps (Decimal),Transactions per Second,Connections per Second,Average Response Time,\
    Average Read Response Time,Average Write Response Time,Average Transaction Time,Average Connection Time,\
    Maximum Response Time,Maximum Read Response Time,Maximum Write Response Time,Maximum Transaction Time,\
    Maximum Connection Time,Errors,Read Errors,Write Errors,Bytes Read,Bytes Written,Read I/Os,Write I/Os,Connections,\
    Transactions per Connection,Total Raw Read Response Time,Total Raw Write Response Time,Total Raw Transaction Time,\
    Total Raw Connection Time,Maximum Raw Read Response Time,Maximum Raw Write Response Time,\
    Maximum Raw Transaction Time,Maximum Raw Connection Time,Total Raw Run Time,Starting Sector,Maximum Size,\
    Queue Depth,% CPU Utilization,% User Time,% Privileged Time,% DPC Time,% Interrupt Time,Processor Speed,\
    Interrupts per Second,CPU Effectiveness,Packets/Second,Packet Errors,Segments Retransmitted/Second,0 to 50 uS,\
    50 to 100 uS,100 to 200 uS,200 to 500 uS,0.5 to 1 mS,1 to 2 mS,2 to 5 mS,5 to 10 mS,10 to 15 mS,15 to 20 mS,\
    20 to 30 mS,30 to 50 mS,50 to 100 mS,100 to 200 mS,200 to 500 mS,0.5 to 1 S,1 to 2 s,2 to 4.7 s,4.7 to 5 s,\
    5 to 10 s, >= 10 s";
/// Upper ends of the classes of latency but the last, in microseconds.
const CLASSES_US: [u64; 20] = [
    50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 20_000, 30_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 4_700_000, 5_000_000, 10_000_000,
];
/// What Iometer writes where a figure has no one value.
const AMBIGUOUS: &str = "-1";

/// A run and when it began and ended, as `2026-01-31 12:00:00:000`.
#[derive(Clone, Copy, Debug)]
pub struct TimedRun<'a> {
    /// The run.
    pub run: &'a RunResult,
    /// Its start.
    pub started_at: &'a str,
    /// Its end.
    pub ended_at: &'a str,
}

/// Prints `runs` as one results file with the description `title`.
pub fn csv(title: &str, runs: &[TimedRun<'_>]) -> String {
    let started_at = runs.first().map_or("", |run| run.started_at);
    let mut text = format!(
        "'Test Type,Test Description\n0,{}\n'Version\n1.1.0\n'Time Stamp\n{started_at}\n",
        field(title)
    );
    for run in runs {
        text += &access(run.run);
        text += &format!("'Results\n{HEADER}\n");
        text += &rows(run.run);
        text += &format!("'Time Stamp\n{}\n", run.ended_at);
    }
    text
}

/// What was asked.
fn access(run: &RunResult) -> String {
    let mut text = format!(
        "'Access specifications\n'Access specification name,default assignment\n{},0\n\
         'size,% of size,% reads,% random,delay,burst,align,reply\n",
        field(&run.workload)
    );
    for line in &run.lines {
        let AccessLine { bytes, share_pct, read_pct, random_pct, delay, burst, align_bytes, reply_bytes } =
            line;
        let (delay_ms, align) = (delay.get() / 1_000_000, align_bytes.unwrap_or(*bytes));
        text += &format!(
            "{bytes},{share_pct},{read_pct},{random_pct},{delay_ms},{burst},{align},{reply_bytes},\n"
        );
    }
    text + "'End access specifications\n"
}

/// A row for all, the manager, each processor, each worker and each disk.
fn rows(run: &RunResult) -> String {
    let (workers, disks) = run.load.map_or((1, 1), |load| (load.workers, load.targets));
    let spec = field(&run.workload);
    let whole = Figures { run, share: 1.0 };
    let cpu = cpu_columns(run);
    let head = |kind: &str, name: &str, managers: &str| {
        [
            kind.to_owned(),
            name.to_owned(),
            spec.clone(),
            managers.to_owned(),
            workers.to_string(),
            disks.to_string(),
        ]
    };
    let mut lines = vec![
        [&head("ALL", "All", "1")[..], &whole.columns(), &cpu, &network(), &whole.latency_classes()].concat(),
        [&head("MANAGER", "raidlab", "")[..], &whole.columns(), &cpu, &network(), &whole.latency_classes()]
            .concat(),
    ];
    let cpus = run.machine.as_ref().map_or(0, |machine| machine.cpus);
    lines.extend((0..cpus).map(|index| {
        // A processor has no figures of I/O: its columns of them are empty, and so are those of latency.
        let blank = vec![String::new(); 4 + whole.columns().len()];
        [
            &["PROCESSOR".to_owned(), format!("CPU {index}")][..],
            &blank,
            &cpu[..7],
            &[String::new()],
            &vec![String::new(); 3],
        ]
        .concat()
    }));
    let no_cpu =
        [&vec![String::new(); 5][..], &[TICKS_PER_SEC.to_string()], &vec![String::new(); 2]].concat();
    let blank_net = vec![String::new(); 3];
    for worker in 1..=workers {
        let one = Figures { run, share: 1.0 / f64::from(workers) };
        let head = [
            "WORKER".into(),
            format!("Worker {worker}"),
            spec.clone(),
            String::new(),
            String::new(),
            disks.to_string(),
        ];
        lines.push([&head[..], &one.columns(), &no_cpu, &blank_net, &one.latency_classes()].concat());
        for disk in 1..=disks {
            let one = Figures { run, share: 1.0 / (f64::from(workers) * f64::from(disks)) };
            let name =
                if disks > 1 { format!("{} ({disk})", field(&run.target)) } else { field(&run.target) };
            let head = [&["DISK".into(), name][..], &vec![String::new(); 4]].concat();
            lines.push([&head[..], &one.columns(), &no_cpu, &blank_net, &one.latency_classes()].concat());
        }
    }
    lines.iter().map(|line| line.join(",") + "\n").collect()
}

/// Ticks of raw times: a nanosecond each.
const TICKS_PER_SEC: u64 = 1_000_000_000;

/// The figures of a row: those of the run, or an even share of what adds up.
struct Figures<'a> {
    run: &'a RunResult,
    share: f64,
}

impl Figures<'_> {
    /// The columns from `IOps` to `Queue Depth`.
    fn columns(&self) -> Vec<String> {
        let Summaries { read, write, total, .. } = &self.run.ops;
        let number = |value: f64| format!("{value:.6}");
        let rate = |value: f64| number(value * self.share);
        let count = |value: u64| ((value as f64 * self.share).round() as u64).to_string();
        let ms = |ns: f64| number(ns / 1e6);
        let raw = |op: &OpSummary| count((op.lat_ns_mean * op.requests as f64).round() as u64);
        let bytes =
            |op: &OpSummary| count((op.bytes_per_sec.0 * self.run.window_ns as f64 / 1e9).round() as u64);
        let three = |of: &dyn Fn(&OpSummary) -> String| [of(total), of(read), of(write)];
        let zero = || "0".to_owned();
        let mut columns = Vec::new();
        columns.extend(three(&|op| rate(op.iops.0)));
        columns.extend(three(&|op| rate(op.bytes_per_sec.0 / f64::from(1 << 20))));
        columns.extend(three(&|op| rate(op.bytes_per_sec.0 / 1e6)));
        columns.extend([rate(total.iops.0), zero()]);
        columns.extend(three(&|op| ms(op.lat_ns_mean)));
        columns.extend([ms(total.lat_ns_mean), zero()]);
        columns.extend(three(&|op| ms(op.lat_ns_max as f64)));
        columns.extend([ms(total.lat_ns_max as f64), zero()]);
        columns.extend([count(total.errors), count(read.errors), count(write.errors)]);
        columns.extend([bytes(read), bytes(write), count(read.requests), count(write.requests)]);
        columns.extend([zero(), AMBIGUOUS.to_owned()]);
        columns.extend([raw(read), raw(write), raw(total), zero()]);
        columns.extend([read, write, total].map(|op| op.lat_ns_max.to_string()));
        columns.extend([zero(), self.run.window_ns.to_string(), zero(), zero()]);
        let depth = self.run.load.map_or(self.run.iodepth, |load| load.iodepth_per_target);
        columns.push(depth.to_string());
        columns
    }

    /// How many requests fell into each class of latency.
    fn latency_classes(&self) -> Vec<String> {
        let mut counts = [0_u64; CLASSES_US.len() + 1];
        for LatencyBin { lat_ns, requests } in &self.run.ops.total.lat_bins {
            let class = CLASSES_US.iter().position(|us| *lat_ns <= us * 1000).unwrap_or(CLASSES_US.len());
            counts[class] += requests;
        }
        counts.iter().map(|count| ((*count as f64 * self.share).round() as u64).to_string()).collect()
    }
}

/// The columns from `% CPU Utilization` to `CPU Effectiveness`: of the machine as a whole.
fn cpu_columns(run: &RunResult) -> Vec<String> {
    let Some(machine) = &run.machine else {
        let zeros = vec!["0".to_owned(); 5];
        return [&zeros[..], &[TICKS_PER_SEC.to_string(), "0".into(), "0".into()]].concat();
    };
    let pct = |share: Option<f64>| share.unwrap_or(0.0) * 100.0;
    let (busy, system) = (pct(machine.cpu_busy), pct(machine.cpu_system));
    let effectiveness = if busy > 0.0 { run.ops.total.iops.0 / busy } else { 0.0 };
    let shares = [busy, (busy - system).max(0.0), system, 0.0, pct(machine.cpu_interrupts)];
    let mut columns: Vec<String> = shares.iter().map(|pct| format!("{pct:.6}")).collect();
    columns.push(TICKS_PER_SEC.to_string());
    columns.push(format!("{:.6}", machine.interrupts_per_sec.unwrap_or(0.0)));
    columns.push(format!("{effectiveness:.6}"));
    columns
}

fn network() -> Vec<String> {
    vec!["0".to_owned(); 3]
}

/// `text` without what would end a field: Iometer knows no quotation marks.
fn field(text: &str) -> String {
    text.chars().map(|c| if c == ',' || c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_columns_of_iometer() {
        assert_eq!(HEADER.split(',').count(), 80);
        assert!(!HEADER.contains("  "), "continued lines must not leave their indent behind");
    }
}
