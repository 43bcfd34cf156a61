//! The page that a study becomes.
//!
//! Verified: that it loads nothing, that no name gets out of its place, that every profile, table and chart is there
//! once and the charts' data can be read. Not verified: what a browser makes of it.

mod common;

use common::{PROFILES, database_verdicts, report, study_runs};
use raidlab_advisor::{Comparison, ComparisonRow};
use raidlab_report::{PaperPlace, PaperReport, PaperRow, html};
use raidlab_workload::{RunResult, RunSeries, SeriesColumns};
use serde_json::Value;

/// The page without the text of plotly.js, which is not ours to check.
fn own_text(page: &str) -> String {
    let start = page.find("<script type=\"text/javascript\">").expect("plotly.js is in the page");
    let end = start + page[start..].find("</script>").expect("its element ends");
    page[..start].to_owned() + &page[end..]
}

fn charts(page: &str) -> Vec<Value> {
    let (_, rest) =
        page.split_once("<script type=\"application/json\" id=\"charts\">").expect("the page has charts");
    let (data, _) = rest.split_once("</script>").expect("their element ends");
    serde_json::from_str(data).expect("charts are JSON")
}

#[test]
fn the_page_loads_nothing() {
    let runs = study_runs();
    let page = html::study(&report(&runs, &database_verdicts(&runs)));
    let own = own_text(&page);
    for load in ["http://", "https://", "src=", "<link", "url(", "@import", "href="] {
        assert!(!own.contains(load), "the page has {load}");
    }
    assert!(own.contains("Content-Security-Policy\" content=\"default-src 'none';"));
    assert_eq!(page.matches("* plotly.js v").count(), 1, "plotly.js is embedded once");
    // For people: what no test can judge is how the page looks.
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/study.html"), &page)
        .expect("the build folder takes files");
}

#[test]
fn every_profile_has_its_section_charts_and_table() {
    let runs = study_runs();
    let page = html::study(&report(&runs, &database_verdicts(&runs)));
    for (workload, ..) in PROFILES {
        assert_eq!(page.matches(&format!("\">{workload}</h2>")).count(), 1, "{workload} has one section");
    }
    assert_eq!(page.matches("<figcaption>").count(), 4 * PROFILES.len());
    assert_eq!(page.matches("<details>").count(), 2 * PROFILES.len());
    let charts = charts(&page);
    assert_eq!(
        charts.len(),
        10 * PROFILES.len(),
        "bars, throughput, two latencies and their distribution, on two sides"
    );
    for chart in &charts {
        let id = chart["id"].as_str().expect("a chart has an id");
        assert_eq!(page.matches(&format!("id=\"{id}\"")).count(), 1, "{id} has one place");
        assert!(!chart["data"].as_array().expect("a chart has traces").is_empty(), "{id} shows something");
    }
}

#[test]
fn lines_carry_the_figures_of_their_runs() {
    let runs = study_runs();
    let page = html::study(&report(&runs, &[]));
    let is_shown = |run: &&RunResult| {
        run.workload == PROFILES[2].0
            && run.configuration_label() == "RAID 10 write-back"
            && run.array.as_ref().is_some_and(|array| array.controller == "raidlab")
    };
    let expected: Vec<f64> = runs.iter().filter(is_shown).map(|run| run.total.iops.0).collect();
    assert_eq!(expected.len(), 7);
    let has_line = |chart: &Value| {
        let traces = chart["data"].as_array().into_iter().flatten();
        traces.filter(|trace| trace["meta"] == serde_json::json!(["RAID 10", "write-back"])).any(|trace| {
            let y: Vec<f64> = trace["y"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
            y == expected && trace["x"] == serde_json::json!([1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
        })
    };
    assert_eq!(charts(&page).iter().filter(|chart| has_line(chart)).count(), 1);
}

#[test]
fn no_name_gets_out_of_its_place() {
    let hostile = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"' {{script}}";
    let mut runs = study_runs();
    for run in &mut runs {
        run.workload = format!("{}{hostile}", run.workload);
        run.target = hostile.to_owned();
        if let Some(array) = &mut run.array {
            array.level = format!("{}{hostile}", array.level);
            array.write_policy = format!("{}{hostile}", array.write_policy);
            array.controller = hostile.to_owned();
            array.member_kind = hostile.to_owned();
        }
    }
    let mut verdicts = raidlab_advisor::verdicts(&runs);
    verdicts[0].reason = hostile.to_owned();
    let mut study = report(&runs, &verdicts);
    (study.title, study.question) = (hostile, hostile);
    study.method = vec![hostile.to_owned()];
    study.setup = vec![(hostile.to_owned(), hostile.to_owned())];
    study.warnings = vec![hostile.to_owned()];
    study.notes = vec![hostile.to_owned()];
    let page = html::study(&study);
    assert_eq!(page.matches("<script").count(), 3, "plotly.js, the charts and the page's own script");
    assert_eq!(page.matches("</script").count(), 3);
    assert!(!own_text(&page).contains("<img"));
    assert_eq!(page.matches("const charts = JSON.parse").count(), 1, "a name in braces stays a name");
    // In a chart, plotly.js would take markup for its own; only the names to switch lines by are left as they are.
    for chart in charts(&page) {
        for mut trace in chart["data"].as_array().cloned().unwrap_or_default() {
            trace.as_object_mut().expect("a trace is an object").remove("meta");
            assert!(!trace.to_string().contains("<img"), "{trace}");
        }
    }
    assert!(
        charts(&page).iter().any(|chart| chart["data"].to_string().contains("&lt;img")),
        "names are there"
    );
}

#[test]
fn tables_and_charts_can_be_read_aloud() {
    let runs = study_runs();
    let page = own_text(&html::study(&report(&runs, &[])));
    for (start, needs) in
        [("<th ", "scope="), ("role=\"img\"", "aria-label=\"storagebench-"), ("<table", "<caption>")]
    {
        for at in page.match_indices(start).map(|(at, _)| at) {
            let element: String = page[at..].chars().take(60).collect();
            assert!(
                element.contains(needs) || element.contains("colspan=\"2\" class=\"first\"></th>"),
                "{element}"
            );
        }
    }
    assert!(
        page.contains("At iodepth 64, the highest is RAID 0, write-back with 26000 IOPS"),
        "charts have words"
    );
}

#[test]
fn a_study_without_runs_is_a_page_without_charts() {
    let page = html::study(&report(&[], &[]));
    assert!(page.contains("No run was finished."));
    assert!(charts(&page).is_empty());
    assert!(!page.contains("plotly.js v"));
}

/// Eleven intervals of a second and a stump, with a stall in the sixth.
fn series() -> RunSeries {
    let requests: Vec<u64> = (0..12).map(|second| if second == 5 { 10 } else { 1000 + second }).collect();
    let lat_ns: Vec<u64> = (0..12).map(|second| if second == 5 { 800_000_000 } else { 2_000_000 }).collect();
    let total = SeriesColumns {
        bytes: requests.iter().map(|count| count * 8192).collect(),
        errors: vec![0; 12],
        requests,
        lat_ns_mean: lat_ns.clone(),
        lat_ns_p50: lat_ns.clone(),
        lat_ns_p99: lat_ns.clone(),
        lat_ns_p999: lat_ns.clone(),
        lat_ns_max: lat_ns,
    };
    RunSeries { interval_ns: 1_000_000_000, last_ns: 100_000_000, total, ..RunSeries::default() }
}

#[test]
fn runs_with_a_series_are_drawn_over_time() {
    let mut runs = study_runs();
    runs.retain(|run| run.workload == PROFILES[0].0);
    for run in &mut runs {
        run.series = Some(series());
    }
    let page = html::study(&report(&runs, &[]));
    assert_eq!(
        page.matches("<figcaption>").count(),
        6,
        "throughput and latency over time beside the four others"
    );
    let charts = charts(&page);
    assert_eq!(charts.len(), 10 + 8, "one figure of throughput and three of latency, on two sides");
    let over_time: Vec<&Value> = charts
        .iter()
        .filter(|chart| chart["layout"]["xaxis"]["title"]["text"] == "seconds into the window")
        .collect();
    assert_eq!(over_time.len(), 8);
    let trace = &over_time[0]["data"][0];
    let x: Vec<f64> = trace["x"].as_array().into_iter().flatten().filter_map(Value::as_f64).collect();
    assert_eq!((x.len(), x[0], x[10]), (11, 0.5, 10.5), "the stump is left out");
    assert_eq!(trace["y"][5], 0.08192, "ten requests of 8 KiB in a second, in MB/s");
}

/// A publication with a table of two metrics, whose names would do harm if they were not escaped.
fn publication() -> PaperReport<'static> {
    let row = |id: &str, metric: &str, published: f64, predicted: f64, fitted: bool| PaperRow {
        comparison: ComparisonRow::of(id.to_owned(), metric.to_owned(), published, predicted).unwrap(),
        fitted,
        note: "<b>".to_owned(),
    };
    let rows = vec![
        row("paper.t1.<i>", "iops", 10_000.0, 11_000.0, true),
        row("paper.t1.b", "iops", 500.0, 400.0, false),
        row("paper.t1.c", "mb_per_s", 80.0, 80.0, false),
    ];
    let summary = Comparison::of(rows.iter().map(|row| row.comparison.clone()).collect()).summary;
    let place =
        |name, rows| PaperPlace { name, rows, summary, summary_not_fitted: summary, kendall_tau: Some(0.5) };
    PaperReport {
        title: "A <paper>",
        source: "Somebody",
        method: vec!["Measured.".to_owned()],
        assumed: vec!["Guessed.".to_owned()],
        notes: vec![],
        summary,
        summary_not_fitted: summary,
        places: vec![place("Table <1>", rows), place("Table 2", vec![])],
    }
}

#[test]
fn a_publication_is_a_page_with_two_charts_for_each_place() {
    let page = html::paper(&publication());
    let (own, charts) = (own_text(&page), charts(&page));
    assert_eq!(charts.len(), 4);
    for text in ["<paper>", "<i>", "Table <1>", "<td class=\"text\"><b>"] {
        assert!(!own.contains(text), "{text} is not escaped");
    }
    for chart in &charts {
        let id = format!("id=\"{}\"", chart["id"].as_str().unwrap());
        assert_eq!(own.matches(&id).count(), 1, "{id}");
    }
    // Three lines to go by; then a trace for each metric, and for rows that were fitted to.
    assert_eq!(charts[0]["data"].as_array().map(Vec::len), Some(6));
    assert_eq!(charts[0]["data"][3]["y"], serde_json::json!([400.0]));
    let names = &charts[1]["layout"]["yaxis"]["ticktext"];
    assert_eq!(names, &serde_json::json!(["&lt;i&gt;", "b", "c"]), "what all names begin with is left out");
    let errors = charts[1]["data"][0]["x"].as_array().unwrap();
    let errors: Vec<f64> = errors.iter().map(|error| error.as_f64().unwrap()).collect();
    assert!((errors[0] - 10.0).abs() < 1e-9 && (errors[1] + 20.0).abs() < 1e-9, "{errors:?}");
    // One error that is far beyond the others is cut, and says so.
    let mut far = publication();
    let row = PaperRow {
        comparison: ComparisonRow::of("paper.t1.far".into(), "iops".into(), 10.0, 90.0).unwrap(),
        ..far.places[0].rows[1].clone()
    };
    far.places[0].rows.push(row);
    let bars = &self::charts(&html::paper(&far))[1]["data"][0];
    assert_eq!((bars["x"][3].as_f64(), bars["text"][3].as_str()), (Some(60.0), Some("+800, cut")));
    assert!(own.contains("Kendall’s tau") && own.contains("<td class=\"start\">0.50</td>"));
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/paper.html"), &page)
        .expect("the build folder takes files");
}
