//! `raidlab fit` on the real binary: a drive's media rate, which a few short simulations determine, from the search to
//! its use.

use crate::support::Bench;
use std::path::Path;

/// One figure of a drive that is far off, so that there is something to find, and short windows.
const QUICK: [&str; 13] = [
    "fit",
    "primergy-2008",
    "--only",
    "st973451ss:mechanics.outer_rate",
    "--set",
    "st973451ss:mechanics.outer_rate=90 MB/s",
    "--ramp",
    "200ms",
    "--run",
    "300ms",
    "--no-check",
    "--threads",
    "2",
];

fn fit(more: &[&'static str]) -> Vec<&'static str> {
    QUICK.iter().chain(more).copied().collect()
}

#[test]
fn a_fit_is_stored_with_its_residuals_and_used_by_reproduce() {
    let bench = Bench::new();
    let ended = bench.run(&fit(&["--rounds", "2", "--out", "mine.toml", "--json"]));
    ended.assert(0, &["stored: mine.toml"]);
    let found = &ended.json()["fit"];
    assert!(found["objective_after"].as_f64() < found["objective_before"].as_f64(), "{found}");
    let key = &found["parameters"][0]["keys"][0];
    assert_eq!((key["entry"].as_str(), key["was"].as_str()), (Some("st973451ss"), Some("90 MB/s")));
    let value = key["value"].as_str().expect("it has a value").to_owned();
    assert_ne!(value, "90 MB/s");

    let text = bench.read("mine.toml");
    assert!(text.contains("id = \"p.disk.1\", fitted = true"), "{text}");
    let rows = "id,place,system,raid,drives,drive,workload,block_kib,queue_depth,write_policy,read_policy,io_policy,\
                metric,value\n\
                x,,lsi-1078-512,0,2,st973451ss,storagebench-streaming,64,8,write-through,read-ahead,direct,mb_per_s,200\n";
    bench.write("mine.csv", rows);
    let predicted = |more: &[&'static str]| {
        let mut words =
            vec!["reproduce", "--published", "mine.csv", "--ramp", "200ms", "--run", "300ms", "--json"];
        words.extend(more);
        let ended = bench.done(&words);
        ended.json()
    };
    let (plain, fitted) = (predicted(&[]), predicted(&["--fitted", "mine.toml"]));
    assert_ne!(plain["rows"][0]["predicted"], fitted["rows"][0]["predicted"]);
    let figures = fitted["fitted_figures"].as_array().expect("figures are listed");
    let used = figures.iter().find(|figure| figure["key"] == "mechanics.outer_rate").expect("it is in use");
    assert_eq!(used["value"].as_str(), Some(value.as_str()));
    assert!(
        used["source"].as_str().is_some_and(|source| source.contains("raidlab fit primergy-2008")),
        "{used}"
    );
}

#[test]
fn values_go_into_a_catalogue_with_their_source() {
    let bench = Bench::new();
    let catalog = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../catalog/drives/st973451ss.toml");
    let text = std::fs::read_to_string(catalog).expect("the catalogue is there");
    let far = text.replace("outer_rate = { value = \"104 MB/s\"", "outer_rate = { value = \"90 MB/s\"");
    assert!(far.contains("\"90 MB/s\""), "{far}");
    for folder in ["mine/controllers", "mine/drives"] {
        std::fs::create_dir_all(bench.path().join(folder)).expect("the folder can be made");
    }
    bench.write("mine/drives/st973451ss.toml", &far);
    let ended = bench.run(&fit(&["--rounds", "2", "--write", "mine"]));
    ended.assert(
        0,
        &["written: mine/drives/st973451ss.toml mechanics.outer_rate", "stored: primergy-2008-fitted.toml"],
    );
    ended.says(&["Fitted to"]);
    let written = bench.read("mine/drives/st973451ss.toml");
    assert!(written.contains("fitted: by 'raidlab fit primergy-2008'"), "{written}");
    assert!(!written.contains("\"90 MB/s\""), "{written}");
    bench.run(&fit(&["--write", "."])).assert(2, &["is no catalogue"]);
}

#[test]
fn a_dry_run_says_what_there_is_and_stores_nothing() {
    let bench = Bench::new();
    let named = ["fit", "primergy-2008", "--only", "drive/st973451ss.mechanics.outer_rate", "--dry-run"];
    bench.done(&[&named[..], &["--ramp", "200ms", "--run", "300ms"]].concat()).says(&[
        "st973451ss:mechanics.outer_rate",
        "not searched: st973402ss: ",
        "nothing is stored",
    ]);
    assert!(bench.names().is_empty(), "{:?}", bench.names());
    bench.run(&["fit", "cdf-caf-2003"]).assert(2, &["did you mean 'cdf-caf-2002'?"]);
    bench.run(&["fit", "primergy-2008", "--only", "st9"]).assert(2, &["st973451ss:mechanics.outer_rate"]);
}
