//! `raidlab net` on the real binary: two processes over loopback, their results, and refusals.

use crate::support::Bench;

#[test]
fn two_processes_over_loopback_give_figures_of_both() {
    let bench = Bench::new();
    let args =
        ["net", "--loopback", "--send", "10B,100k", "--connections", "1,2", "--direction", "send,both"];
    let rest = ["--seconds", "0.2", "--ramp", "20ms", "--report", "net.html"];
    let json = bench.done(&[&args[..], &rest, &["--json"]].concat()).json();
    let runs = json["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 2 * 2 * 2);
    for run in runs {
        let facts = &run["network"];
        let both = facts["direction"] == "both";
        assert!(run["write"]["bytes_per_sec"].as_f64().expect("a rate") > 0.0, "{run}");
        assert_eq!(run["read"]["bytes_per_sec"].as_f64().expect("a rate") > 0.0, both, "{run}");
        for side in ["near", "far"] {
            let machine = &facts[side]["machine"];
            assert!(machine["process_cpu_ns"].as_u64().expect("processor time") > 0, "{facts}");
            assert!(
                machine["interrupts_per_sec"].is_number() && machine["context_switches_per_sec"].is_number()
            );
        }
    }
    assert!(bench.read("net.html").contains("Network tests"));
    assert_eq!(bench.names(), ["net.html", "raidlab.sqlite"]);
    // What was measured is in the results file, and shown from there.
    bench.done(&["show", "8"]).says(&["network test of tcp://127.0.0.1"]);
}

#[test]
fn a_file_is_sent_and_what_can_not_be_is_refused() {
    let bench = Bench::new();
    bench.write("data", &"x".repeat(300_000));
    let quick = ["--seconds", "0.1", "--ramp", "0s", "--send", "100k"];
    let run = |more: &[&str]| bench.run(&[&["net"], more, &quick[..]].concat());
    for (more, method) in [(&[][..], "read and write"), (&["--zero-copy"], "sendfile")] {
        let ended = run(&[&["--loopback", "--from", "data"], more].concat()).well();
        assert!(ended.stdout.contains(method) && ended.stdout.contains("data from data"), "{}", ended.stdout);
    }
    run(&["--loopback", "--from", "data", "--direction", "both"]).assert(2, &["sent by this side only"]);
    run(&["--loopback", "--from", "nothing"]).assert(2, &["cannot open nothing"]);
    run(&["--loopback", "--connections", "1000"]).assert(2, &["1 to 256"]);
    run(&["--loopback", "--congestion", "no-such"]).assert(2, &["no-such"]);
    // Port 1 is nobody's.
    run(&["127.0.0.1:1"]).assert(1, &["raidlab net serve"]);
    bench.run(&["net", "serve", "--listen", "0.0.0.0:0"]).assert(2, &["--insecure"]);
}
