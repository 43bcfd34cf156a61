//! `raidlab model validate` on the real binary, with the drives that come with the source.

use crate::support::Bench;

fn drive(name: &str) -> String {
    format!("{}/../../../validation/disksim-4.0/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn a_drive_is_validated_in_words_and_json() {
    let bench = Bench::new();
    let path = drive("hp_c3323a");
    let ended = bench.run(&["model", "validate", &path, "--json"]);
    ended.assert(0, &["which is what counts"]);
    let json = ended.json();
    let keys: Vec<_> = json.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, ["demerit_pct", "disk", "mean_measured_ms", "mean_predicted_ms", "requests"]);
    assert_eq!((json["disk"].as_str(), json["requests"].as_u64()), (Some("hp_c3323a"), Some(9074)));
    let mean = json["mean_measured_ms"].as_f64().expect("a number");
    assert!((mean - 15.765).abs() < 0.001, "{mean}");
    let words = bench.run(&["model", "validate", &path]);
    words.assert(0, &[]);
    assert!(
        words.stdout.contains("demerit:") && words.stdout.contains("Requests within"),
        "{}",
        words.stdout
    );
    assert!(bench.names().is_empty(), "a validation writes nothing");
}

#[test]
fn what_is_no_drive_is_said() {
    let bench = Bench::new();
    bench.run(&["model", "validate", "nothing"]).assert(2, &["nothing.diskspecs", "without an extension"]);
    bench.write("odd.diskspecs", "disksim_disk odd { Model = source odd.model }");
    bench.run(&["model", "validate", "odd"]).assert(2, &["odd.model", "odd.diskspecs names"]);
    bench.write("odd.model", "dm_disk odd { Block count = }");
    bench.write("odd.trace", "X Hit 1 1 1 1\n");
    // What is wrong with the specification, the model and the trace, in one round.
    let wanted = ["odd.model: line 1", "has no 'Segment size (in blks)'", "odd.trace is no trace", "line 1"];
    bench.run(&["model", "validate", "odd"]).assert(2, &wanted);
}
