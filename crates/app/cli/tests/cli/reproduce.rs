//! `raidlab reproduce` on the real binary: figures and claims of files, papers, changes of the catalogue.

use crate::support::Bench;

const CSV: &str = "id,place,system,raid,drives,drive,write_policy,read_policy,io_policy,workload,block_kib,\
                   queue_depth,metric,value\n\
                   a,T1,perc-h800/md1200,5,6,st3600057ss,write-back,adaptive,direct,md1200-oltp,8,16,iops,1200\n\
                   b,T1,perc-h800/md1200,5,6,st3600057ss,write-back,adaptive,direct,md1200-oltp,8,16,mb_per_s,9.8\n";

#[test]
fn reproduce_compares_figures_of_a_file() {
    let bench = Bench::new();
    bench.write("mine.csv", CSV);
    let args = ["reproduce", "--published", "mine.csv", "--ramp", "100ms", "--run", "300ms", "--json"];
    let json = bench.done(&args).json();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["configurations"].as_array().map(Vec::len), Some(1), "both rows are one configuration");
    for (index, (id, metric, published)) in
        [("a", "iops", 1200.0), ("b", "mb_per_s", 9.8)].into_iter().enumerate()
    {
        let row = &json["rows"][index];
        assert_eq!((row["id"].as_str(), row["metric"].as_str()), (Some(id), Some(metric)));
        assert_eq!(row["published"].as_f64(), Some(published));
        let predicted = row["predicted"].as_f64().expect("a number");
        let error = row["error_pct"].as_f64().expect("a number");
        assert!((error - 100.0 * (predicted - published) / published).abs() < 1e-6);
        assert_eq!(row["fitted"], false);
    }
    for name in ["median_abs_error_pct", "p90_abs_error_pct"] {
        assert!(json["summary"][name].is_number(), "{name}");
    }
    assert_eq!(json["summary"]["rows"], 2);
    assert_eq!(json["places"][0]["summary"]["rows"], 2);
    assert!(json["places"][0]["kendall_tau"].is_null(), "two metrics of one row each have no order");
    let words = bench.run(&[&args[..args.len() - 1], &["--report", "mine.html"]].concat());
    words.assert(0, &["report: mine.html"]);
    words.says(&["Kendall's tau"]);
    let page = bench.read("mine.html");
    assert!(page.contains("id=\"figure-1b\""), "every place has two charts");
    let named = bench.run(&[&["reproduce", "md1200-2011"], &args[1..]].concat());
    assert_eq!(named.json()["rows"], json["rows"], "the system is of that paper anyway");
    assert_eq!(named.json()["papers"], serde_json::json!(["md1200-2011"]));
    bench.run(&[&["reproduce", "md1200-2012"], &args[1..]].concat()).assert(2, &["'md1200-2011'"]);
    for odd in ["nan", "inf"] {
        bench.run(&[&args[..], &["--max-median-error", odd]].concat()).assert(2, &["is no bound on errors"]);
    }
    let bounded = bench.run(&[&args[..], &["--max-median-error", "0.0001"]].concat());
    bounded.assert(3, &["bound missed", "median"]);
}

/// `--bottleneck on` tells what set the pace of each figure, and changes nothing else; without it nothing is looked for.
#[test]
fn reproduce_names_the_bottleneck_of_each_figure() {
    let bench = Bench::new();
    bench.write("mine.csv", CSV);
    let args = ["reproduce", "--published", "mine.csv", "--ramp", "100ms", "--run", "300ms"];
    let run = |more: &[&str]| bench.run(&[&args[..], more].concat());
    let (without, with) = (run(&["--json"]).json(), run(&["--json", "--bottleneck", "on"]).json());
    let named = |json: &serde_json::Value| json["configurations"][0]["result"]["bottleneck"]["name"].clone();
    assert!(named(&without).is_null());
    let name = named(&with).as_str().map(str::to_owned).expect("it is named");
    assert_eq!(with["rows"], without["rows"]);
    let words = run(&["--bottleneck", "on", "--report", "mine.html"]).well();
    for id in ["a", "b"] {
        words.says(&[&format!("bottleneck of {id}: {name}")]);
    }
    let page = bench.read("mine.html");
    assert!(page.contains(&format!("bottleneck: {name}")), "{name}");
}

#[test]
fn reproduce_reports_every_row_that_it_cannot_predict() {
    let bench = Bench::new();
    let bad = CSV.replacen("st3600057ss", "st360057ss", 1).replacen(
        "T1,perc-h800/md1200,5,6,st3600057ss",
        "T1,perc-h700/md1200,5,6,st3600057ss",
        1,
    );
    bench.write("mine.csv", &bad);
    let ended = bench.run(&["reproduce", "--published", "mine.csv"]);
    ended.assert(
        2,
        &[
            "2 of its rows",
            "row 'a', column drive: 'st360057ss'",
            "nearest known: 'st3600057ss'",
            "row 'b', column system: 'perc-h700'",
            "nearest known: 'perc-h800'",
        ],
    );
    assert!(ended.stdout.is_empty());
}

#[test]
fn reproduce_lists_papers_and_knows_their_tables() {
    let bench = Bench::new();
    bench.done(&["reproduce", "list"]).says(&["md1200-2011", "Table 4"]);
    bench.run(&["reproduce", "md1200-2012"]).assert(2, &["'md1200-2011'"]);
    bench.run(&["reproduce", "md1200-2011", "--table", "99"]).assert(2, &["Table 4"]);
    let args = ["reproduce", "md1200-2011", "--table", "8", "--ramp", "50ms", "--run", "100ms"];
    bench.done(&args).says(&["md1200.t8.r5.md1200.sas", "assumed:", "seed 2011"]);
}

#[test]
fn a_change_of_the_catalogue_that_cannot_be_is_named() {
    let bench = Bench::new();
    let set = |change: &str| ["reproduce", "md1200-2011", "--set", change].map(str::to_owned);
    for (change, said) in [
        ("perc-h800:copy.rate", "is no change"),
        ("perc-h8000:copy.rate=1GB/s", "did you mean 'perc-h800'?"),
        ("perc-h800:copy.rat=1GB/s", "did you mean 'rate'?"),
        ("perc-h800:copy.rate=fast", "must be a rate"),
    ] {
        let args = set(change);
        bench.run(&args.each_ref().map(String::as_str)).assert(2, &[said]);
    }
}

#[test]
fn reproduce_judges_the_claims_of_a_file() {
    let bench = Bench::new();
    let system = "system=lsi-1068 raid=jbod drives=1 drive=wd1600aajs";
    let claims = format!(
        "id,paper,workload,a,b,ratio,kind\n\
         c1,primergy-2008,storagebench-restore,{system} disk_cache=on,{system} disk_cache=off,11,up-to\n\
         c2,primergy-2008,storagebench-restore,{system} disk_cache=off,{system} disk_cache=on,11,about\n\
         c3,another,storagebench-restore,{system},absolute mb_per_s,11,about\n"
    );
    bench.write("mine.csv", &claims);
    let args = ["reproduce", "primergy-2008", "--claims", "mine.csv", "--ramp", "300ms", "--run", "1s"];
    let text = bench.done(&args);
    for (id, verdict) in [("c1 ", "within 10 %"), ("c2 ", "missed")] {
        let line = text.stdout.lines().find(|line| line.starts_with(id));
        assert!(line.is_some_and(|line| line.contains(verdict)), "{id}: {verdict}\n{}", text.stdout);
    }
    assert!(!text.stdout.contains("c3 "), "a claim of another paper\n{}", text.stdout);
    let json = bench.done(&[&args[..], &["--json"]].concat()).json();
    assert!(json.get("rows").is_none(), "the paper has claims only");
    assert_eq!(json["claims"]["summary"]["claims"], 2);
    assert_eq!(json["claims"]["claims"][1]["verdict"], "missed");
    assert_eq!(json["claims"]["claims"][0]["parts"][0]["a_configurations"].as_array().map(Vec::len), Some(4));
    bench.run(&[&args[..], &["--max-median-error", "1"]].concat()).assert(3, &["bound missed"]);
    let nothing = bench.run(&["reproduce", "md1200-2011", "--claims", "mine.csv"]);
    nothing.assert(2, &["holds no claims of paper 'md1200-2011'"]);
}
