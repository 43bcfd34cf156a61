//! What was seen of devices in use: a row for each, what their requests were like, and how far a workload is from that.

use super::{TerminalOptions, broken, printable, table};
use crate::figures::three_digits;
use raidlab_observe::{DeviceFigures, Distance, RequestFigures, Source};
use raidlab_units::{ByteCount, NanoSpan};

/// A device, what was asked for, and the workload that is like it.
#[derive(Clone, Debug)]
pub struct ObservedDevice<'a> {
    /// The figures.
    pub figures: &'a DeviceFigures,
    /// The file that was asked for, where the device holds it.
    pub file: Option<String>,
    /// How far a workload is from what was seen.
    pub distances: &'a [Distance],
}

/// Prints what was seen.
pub fn observed(devices: &[ObservedDevice<'_>], options: TerminalOptions) -> String {
    let header =
        ["Device", "IOPS", "MB/s", "Reads %", "Random %", "KiB r/w", "In flight", "Busy %", "ms r/w"];
    let rows = devices.iter().map(|device| row(device.figures)).collect();
    let each: String = devices.iter().map(|device| details(device, options)).collect();
    table(&header, 1, vec![rows], options) + &each
}

fn known(figure: Option<f64>) -> String {
    figure.map_or_else(|| "-".to_owned(), three_digits)
}

fn row(figures: &DeviceFigures) -> Vec<String> {
    let both = |[reads, writes]: [Option<f64>; 2], unit: f64| {
        let [reads, writes] = [reads, writes].map(|figure| known(figure.map(|figure| figure / unit)));
        format!("{reads}/{writes}")
    };
    vec![
        figures.device.clone(),
        three_digits(figures.iops),
        three_digits(figures.mb_per_s),
        known(figures.read_pct),
        known(figures.random_pct),
        both([figures.mean_read_bytes, figures.mean_write_bytes], 1024.0),
        three_digits(figures.mean_in_flight),
        three_digits(figures.utilisation_pct),
        both([figures.latency.read_ns_mean, figures.latency.write_ns_mean], 1e6),
    ]
}

/// What stands below the table, device by device; nothing of one that was idle.
fn details(device: &ObservedDevice<'_>, options: TerminalOptions) -> String {
    let figures = device.figures;
    if figures.iops == 0.0 && device.file.is_none() {
        return String::new();
    }
    let mut text = format!("\n{}\n", printable(&figures.device));
    let mut line = |name: &str, words: String| {
        text += &broken(&format!("  {name:<12} {}", printable(&words)), options.width);
    };
    if let Some(file) = &device.file {
        line("holds", file.clone());
    }
    if let Some(it) = &figures.intervals {
        let (p50, p95, most) =
            (three_digits(it.iops_p50), three_digits(it.iops_p95), three_digits(it.iops_max));
        let length = NanoSpan(it.interval_ns);
        let spread = it
            .dispersion
            .map_or(String::new(), |it| format!("; variance over mean {} (Poisson: 1)", three_digits(it)));
        line(
            "rate",
            format!("in {length}: half of the time at most {p50} IOPS, 95 % {p95}, most {most}{spread}"),
        );
        line(
            "in flight",
            format!(
                "95 % of the time at most {}; idle {} %",
                three_digits(it.in_flight_p95),
                three_digits(it.idle_pct)
            ),
        );
    }
    if let Some(merged) = figures.merged_pct.filter(|pct| *pct >= 1.0) {
        line("merged", format!("{merged:.0} % with others before the device: neighbours came together"));
    }
    if figures.flushes_per_s + figures.discards_per_s > 0.0 {
        let (flushes, discards) = (three_digits(figures.flushes_per_s), three_digits(figures.discards_per_s));
        line("others", format!("{flushes} flushes/s, {discards} discards/s"));
    }
    for hour in &figures.hours {
        let (iops, mb) = (three_digits(hour.iops), three_digits(hour.mb_per_s));
        line(
            &format!("hour {}", hour.hour),
            format!("{iops} IOPS, {mb} MB/s, reads {} %", known(hour.read_pct)),
        );
    }
    match &figures.requests {
        Some(requests) => single_requests(requests, &mut line),
        None if figures.source == Source::Counters => {
            line(
                "not known",
                "random or in runs, single sizes, places, working set: counters don't tell".into(),
            );
        }
        None => {}
    }
    text + &distances(device.distances, options)
}

fn single_requests(requests: &RequestFigures, line: &mut dyn FnMut(&str, String)) {
    let size = |bytes: u64| ByteCount(bytes).to_string();
    let span = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| NanoSpan(ns).to_string());
    line("requests", format!("{} seen one by one", requests.requests));
    let sizes = requests.sizes.iter().take(6).map(|it| {
        format!(
            "{} {:.1} % (reads {:.0} %, random {:.0} %)",
            size(it.length_bytes),
            it.pct,
            it.read_pct,
            it.random_pct
        )
    });
    line("sizes", sizes.collect::<Vec<_>>().join(", "));
    if let (Some(mean), Some(p99)) = (requests.run_requests_mean, requests.run_bytes_p99) {
        line("runs", format!("{} requests on average; 99 % at most {}", three_digits(mean), size(p99)));
    }
    if let (Some(mean), Some(variation)) = (requests.gap_ns_mean, requests.gap_variation) {
        let mean = NanoSpan(mean as u64);
        line(
            "arrivals",
            format!("every {mean}; squared variation {} (even: 0, Poisson: 1)", three_digits(variation)),
        );
    }
    if let (Some(p50), Some(p99), Some(most)) = (requests.depth_p50, requests.depth_p99, requests.depth_max) {
        line("depth", format!("at arrivals half at most {p50}, 99 % {p99}, most {most}"));
    }
    let at_least = if requests.working_set_is_at_least { "at least " } else { "" };
    let reused =
        requests.reused_pct.map_or(String::new(), |it| format!("; {it:.0} % of the bytes touched before"));
    let hot = requests
        .hottest_tenth_pct
        .map_or(String::new(), |it| format!("; the hottest tenth has {it:.0} % of the requests"));
    line("working set", format!("{at_least}{}{reused}{hot}", size(requests.working_set_bytes)));
    let (reads, writes) =
        ((requests.read_ns_p50, requests.read_ns_p99), (requests.write_ns_p50, requests.write_ns_p99));
    line(
        "latency",
        format!(
            "reads p50 {}, p99 {}; writes p50 {}, p99 {}",
            span(reads.0),
            span(reads.1),
            span(writes.0),
            span(writes.1)
        ),
    );
}

fn distances(distances: &[Distance], options: TerminalOptions) -> String {
    if distances.is_empty() {
        return String::new();
    }
    let row = |it: &Distance| {
        let far = it.largest_difference.map_or("-".to_owned(), |far| format!("{far:.2}"));
        vec![format!("{}, {}", it.of, it.unit), three_digits(it.seen_mean), three_digits(it.made_mean), far]
    };
    let rows = distances.iter().map(row).collect();
    let head = "  A workload like it, and how far it is (largest difference of the distributions, 0 to 1)";
    "\n".to_owned()
        + &broken(head, options.width)
        + &table(&["Of", "Seen, mean", "Workload", "Distance"], 1, vec![rows], options)
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_observe::{Interval, Intervals, Observed, imitate};
    use raidlab_workload::DeviceLoad;

    #[test]
    fn what_is_not_known_is_a_dash() {
        let load = DeviceLoad {
            name: "sda".into(),
            reads: 1000,
            read_bytes: 4_096_000,
            read_ns_mean: 2e6,
            in_flight_mean: 0.2,
            utilisation: 0.2,
            ..DeviceLoad::default()
        };
        let mut intervals = Intervals::default();
        intervals.push(Interval { length_ns: 10_000_000_000, reads: 1000, ..Interval::default() });
        let seen = Observed::new(load, 10_000_000_000, (0, 0), intervals, None);
        let (figures, made) = (seen.figures(), imitate("a", &seen).expect("requests"));
        let device =
            ObservedDevice { figures: &figures, file: Some("/a".into()), distances: &made.distances };
        let text = observed(std::slice::from_ref(&device), TerminalOptions { width: 120, colour: false });
        let row = text.lines().find(|line| line.starts_with("sda ")).expect("a row");
        let cells: Vec<_> = row.split_whitespace().collect();
        assert_eq!(cells, ["sda", "100", "0.410", "100", "-", "4.00/-", "0.200", "20.0", "2.00/-"]);
        assert!(text.contains("  holds        /a\n") && text.contains("  not known "), "{text}");
        assert!(text.contains("rate, requests/s"), "{text}");
        let narrow = observed(&[device], TerminalOptions { width: 80, colour: false });
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    }
}
