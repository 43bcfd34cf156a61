//! The page of a study.
//!
//! Verified: it loads nothing, names are escaped everywhere, every profile, table and chart is there once and shows the
//! figures of its runs. Not verified: how a browser renders it.

mod common;

use common::{PROFILES, compared_table, database_verdicts, report, study_runs};
use raidlab_advisor::{Comparison, ComparisonRow, PlaceSummary};
use raidlab_report::{
    Document, Palette, PaperPlace, PaperReport, PaperRow, Picture, Quantity, StudyReport, page,
};
use raidlab_units::{BytesPerSec, Iops};
use raidlab_workload::{
    LagSummary, OpSummary, OtherSummaries, PartSummary, RunResult, RunSeries, SeriesColumns, Summaries,
};

/// Every chart of a page as a document of its own.
fn svgs(page: &Document) -> Vec<String> {
    page.pictures().iter().map(|picture| picture.svg(Palette::Light)).collect()
}

#[test]
fn a_study_compared_with_a_paper_has_its_tables_with_its_own_rows_marked() {
    let tables = [compared_table()];
    let html = page::study(&StudyReport { compared: &tables, ..report(&[], &[]) }).to_html();
    for expected in [
        "Table 4: &lt;IOPS&gt;",
        "<th scope=\"row\" class=\"name first\">RAID 5 x4</th><td>1230</td><td>–</td>",
        "<tr class=\"own\"><th scope=\"row\" class=\"name first\">/dev/mine</th><td>10.0<small> (iodepth 64)</small></td><td>0.500</td>",
    ] {
        assert!(html.contains(expected), "{expected}");
    }
    assert!(!page::study(&report(&[], &[])).to_html().contains("with these runs"));
}

#[test]
fn the_page_loads_nothing() {
    let runs = study_runs();
    let page = page::study(&report(&runs, &database_verdicts(&runs))).to_html();
    // The names of an XML language are no addresses to load from.
    let own = page.replace("http://www.w3.org/2000/svg", "").replace("href=\"#", "");
    for load in ["http://", "https://", "src=", "<link", "@import", "href="] {
        assert!(!own.contains(load), "the page has {load}");
    }
    for (at, _) in own.match_indices("url(") {
        assert!(own[at..].starts_with("url(#figure-"), "{}", &own[at..at + 40]);
    }
    assert!(own.contains("Content-Security-Policy\" content=\"default-src 'none';"));
    // For people: what no test can judge is how the page looks.
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/study.html"), &page)
        .expect("the build folder takes files");
}

#[test]
fn every_profile_has_its_section_charts_and_table() {
    let runs = study_runs();
    let page = page::study(&report(&runs, &database_verdicts(&runs)));
    for (workload, ..) in PROFILES {
        let heading = format!("\">{workload}</h2>");
        assert_eq!(page.to_html().matches(&heading).count(), 1, "{workload} has one section");
        let link = format!("\">{workload}</a>");
        assert_eq!(page.to_html().matches(&link).count(), 1, "{workload} is in the contents");
    }
    assert_eq!(page.to_html().matches("<figcaption>").count(), 6 * PROFILES.len());
    assert_eq!(page.to_html().matches("<details>").count(), 2 * PROFILES.len());
    assert_eq!(
        page.pictures().len(),
        13 * PROFILES.len(),
        "bars, throughput, a map, two latencies and their distribution, on two sides, and any against any"
    );
    for Picture { name, .. } in &page.pictures() {
        assert_eq!(page.to_html().matches(&format!("id=\"{name}\"")).count(), 1, "{name} has one place");
    }
    for (picture, svg) in page.pictures().iter().zip(svgs(&page)) {
        let is_drawn = ["<path class=\"stroke\"", "<rect x="].iter().any(|mark| svg.contains(mark));
        assert!(is_drawn && !svg.contains("NaN") && !svg.contains("var("), "{}: {svg}", picture.name);
    }
    assert_eq!(page.to_html().matches("<h2 id=\"conclusion\">").count(), 1);
    assert!(open_plots(&page.to_html()) <= 12, "{} charts are open", open_plots(&page.to_html()));
    let (answer, why) = (page.to_html().find("id=\"answer\""), page.to_html().find("id=\"recommendations\""));
    assert!(answer.is_some() && answer < why && why < page.to_html().find("id=\"figure-1"));
}

/// A bar of one configuration tells nothing; its loads do.
#[test]
fn one_configuration_is_seen_load_by_load() {
    let all = study_runs();
    let is_first = |run: &&RunResult| run.target == all[0].target && run.workload == all[0].workload;
    let runs: Vec<RunResult> = all.iter().filter(is_first).cloned().collect();
    let page = page::study(&report(&runs, &[])).to_html();
    assert_eq!(open_plots(&page), 1);
    let (first, folded) = (page.find("against iodepth."), page.find("More charts"));
    assert!(first.is_some() && first < folded, "{first:?} {folded:?}");
    assert!(!page.contains("Solid bars"));
}

/// Charts that are seen without a click: those outside of everything that is folded.
fn open_plots(html: &str) -> usize {
    let (mut depth, mut open) = (0_usize, 0);
    for part in html.split_inclusive('<') {
        if part.starts_with("details") {
            depth += 1;
        } else if part.starts_with("/details>") {
            depth -= 1;
        } else if depth == 0 && part.starts_with("div class=\"plot\"") {
            open += 1;
        }
    }
    open
}

#[test]
fn lines_carry_the_figures_of_their_runs() {
    let runs = study_runs();
    let page = page::study(&report(&runs, &[]));
    let is_shown = |run: &&RunResult| {
        run.workload == PROFILES[2].0
            && run.configuration_label() == "RAID 10 write-back"
            && run.array.as_ref().is_some_and(|array| array.controller == "raidlab")
    };
    let expected: Vec<u32> = runs.iter().filter(is_shown).map(|run| run.iodepth).collect();
    assert_eq!(expected, [1, 2, 4, 8, 16, 32, 64]);
    let svgs = svgs(&page);
    let chart = page
        .pictures()
        .iter()
        .position(|picture| {
            let label = picture.label();
            label.starts_with(&format!("{}, measured", PROFILES[2].0))
                && label.contains("IOPS against iodepth")
        })
        .expect("throughput is drawn");
    let line = svgs[chart]
        .split("<g class=\"line\"")
        .find(|line| line.contains("data-names=\"RAID 10\nwrite-back\""))
        .expect("it has a line");
    assert_eq!(line.matches("<g class=\"point\"").count(), 7);
    for run in runs.iter().filter(is_shown) {
        let title = format!("IOPS\niodepth {}</title>", run.iodepth);
        assert_eq!(line.matches(&title).count(), 1, "{title}: {line}");
    }
    // More requests per second stand higher, which is a smaller number in a picture.
    let heights: Vec<f64> = line
        .split("translate(")
        .skip(1)
        .filter_map(|point| point.split([' ', ')']).nth(1)?.parse().ok())
        .collect();
    assert!(heights.len() == 7 && heights.is_sorted_by(|a, b| a >= b), "{heights:?}");
}

#[test]
fn a_page_has_the_axes_that_are_asked_for() {
    let runs = study_runs();
    let axes: (Quantity, Quantity) = ("member-ios".parse().unwrap(), "p99.9".parse().unwrap());
    let mut study = report(&runs, &[]);
    study.axes = Some(axes);
    let page = page::study(&study);
    let chosen = page.to_html().matches("<option selected>member I/Os per request</option>").count();
    assert_eq!(chosen, PROFILES.len());
    let with_title =
        svgs(&page).iter().filter(|svg| svg.contains(">99.9th percentile of latency ms</text>")).count();
    assert_eq!(with_title, PROFILES.len());
    let html = page.to_html();
    let data = html.split("<script type=\"application/json\">").nth(1).expect("places of the points");
    let data: serde_json::Value =
        serde_json::from_str(data.split("</script>").next().unwrap()).expect("they are JSON");
    assert_eq!(data["box"].as_array().map(Vec::len), Some(4));
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
    let page = page::study(&study);
    let (svgs, page) = (svgs(&page), page.to_html());
    let scripts = 1 + PROFILES.len();
    assert_eq!(page.matches("<script").count(), scripts, "the page's own, and the places of points");
    assert_eq!(page.matches("</script").count(), scripts);
    assert!(!page.contains("<img"));
    assert_eq!(page.matches("\"use strict\";").count(), 1, "a name in braces stays a name");
    assert!(svgs.iter().all(|svg| !svg.contains("<img") && !svg.contains("<script")));
    assert!(svgs.iter().any(|svg| svg.contains("&lt;img")), "names are there");
}

#[test]
fn tables_and_charts_can_be_read_aloud() {
    let runs = study_runs();
    let page = page::study(&report(&runs, &[])).to_html();
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
fn an_open_loop_is_named_by_its_rate() {
    let mut runs = study_runs();
    for run in &mut runs {
        run.arrivals_per_sec = Some(100.0 * f64::from(run.iodepth));
    }
    let page = page::study(&report(&runs, &[])).to_html();
    for words in
        ["in IOPS at 6400 requests/s.", "against offered requests/s", "At 6400 requests/s, the highest"]
    {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("at iodepth "), "all is named by rates");
}

#[test]
fn a_study_without_runs_is_a_page_without_charts() {
    let page = page::study(&report(&[], &[]));
    assert!(page.to_html().contains("No run was finished."));
    assert!(page.pictures().is_empty());
}

#[test]
fn requests_that_started_late_have_a_table() {
    let mut runs = study_runs();
    runs.truncate(2);
    assert!(!page::study(&report(&runs, &[])).to_html().contains("started late by"));
    runs[0].lag = Some(LagSummary {
        started: 1234,
        unserved: 56,
        lag_ns_mean: 7.5e6,
        lag_ns_p99: 250_000_000,
        ..LagSummary::default()
    });
    let page = page::study(&report(&runs, &[])).to_html();
    assert_eq!(page.matches("started late by").count(), 1);
    assert!(
        page.contains("<td>1234</td><td>56</td><td class=\"start\">7.50</td><td>0</td><td>250</td>"),
        "the figures of the run"
    );
}

#[test]
fn what_moves_no_bytes_has_a_table_and_is_in_the_markdown() {
    let mut runs = study_runs();
    runs.truncate(2);
    assert!(!page::study(&report(&runs, &[])).to_html().contains("moves no bytes"));
    let flush = OpSummary {
        requests: 40,
        iops: Iops(8.0),
        lat_ns_mean: 2e6,
        lat_ns_p50: 1_500_000,
        lat_ns_p99: 9_000_000,
        lat_ns_max: 12_000_000,
        ..OpSummary::default()
    };
    let zeroes = OpSummary { errors: 3, bytes_per_sec: BytesPerSec(1e8), ..OpSummary::default() };
    runs[0].ops.others.flush = Some(Box::new(flush.clone()));
    let ops = Summaries {
        others: OtherSummaries { write_zeroes: Some(Box::new(zeroes)), ..OtherSummaries::default() },
        ..Summaries::default()
    };
    runs[0].parts.push(PartSummary { name: "<log>".into(), ops, lag: None });
    let page = page::study(&report(&runs, &[]));
    assert_eq!(page.to_html().matches("what moves no bytes").count(), 1);
    let text = page.to_markdown("charts");
    let rows = [
        "all | flush | 40 | 0 | 8.00 | – | 2.00 | 1.50 | 9.00 | 12.0 |",
        "&lt;log&gt; | write-zeroes | 0 | 3 | 0 | 100 | – | – | – | – |",
    ];
    for row in rows {
        assert!(text.contains(row), "{row} in {text}");
    }
}

#[test]
fn a_page_is_markdown_too() {
    let runs = study_runs();
    let page = page::study(&report(&runs, &database_verdicts(&runs)));
    let text = page.to_markdown("charts");
    for (workload, ..) in PROFILES {
        assert_eq!(text.matches(&format!("\n## {workload}\n")).count(), 1, "{workload}");
    }
    for Picture { name, .. } in &page.pictures() {
        assert_eq!(text.matches(&format!("](charts/{name}.svg)")).count(), 1, "{name}");
    }
    assert!(!text.contains("</") && !text.contains("&lt;"), "no markup is left");
    for table in text.split("\n\n").filter(|block| block.starts_with('|')) {
        let columns: Vec<usize> = table.lines().map(|line| line.matches(" | ").count()).collect();
        assert!(columns.iter().all(|count| *count == columns[0]), "{table}");
    }
    assert!(text.contains("measured: raidlab, file, IOPS"), "groups of columns stand with their names");
}

#[test]
fn pictures_become_pixels() {
    let runs = study_runs();
    let page = page::study(&report(&runs, &[]));
    match raidlab_report::png::of_svg(&page.pictures()[0].svg(Palette::Dark), 2.0) {
        Ok(png) => {
            assert!(png.starts_with(b"\x89PNG"));
            let width = u32::from_be_bytes(png[16..20].try_into().unwrap());
            assert_eq!(width, 1120, "two pixels for each unit of 560");
        }
        Err(error) => assert!(error.to_string().contains("fonts-dejavu-core"), "{error}"),
    }
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
    let page = page::study(&report(&runs, &[]));
    assert_eq!(
        page.to_html().matches("<figcaption>").count(),
        8,
        "throughput and latency over time beside the six others"
    );
    assert_eq!(page.pictures().len(), 13 + 8, "one figure of throughput and three of latency, on two sides");
    let over_time: Vec<String> =
        svgs(&page).into_iter().filter(|svg| svg.contains(">seconds into the window</text>")).collect();
    assert_eq!(over_time.len(), 8);
    let line = over_time[0].split("<g class=\"line\"").nth(1).expect("a line");
    let path = line.split("d=\"").nth(1).and_then(|path| path.split('"').next()).expect("a path");
    assert_eq!(path.matches('L').count(), 10, "eleven points: the stump is left out");
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
    let place = |name: &str, rows| PaperPlace {
        summary: PlaceSummary {
            place: name.to_owned(),
            summary,
            summary_not_fitted: summary,
            kendall_tau: Some(0.5),
        },
        rows,
        fed: Vec::new(),
    };
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
fn a_publication_is_a_page_with_two_charts_for_each_place_that_has_rows() {
    let page = page::paper(&publication());
    let charts = svgs(&page);
    assert_eq!(charts.len(), 2);
    for text in ["<paper>", "<i>", "Table <1>", "<td class=\"text\"><b>"] {
        assert!(!page.to_html().contains(text), "{text} is not escaped");
    }
    // Three lines to go by; then one for each metric, and for rows that were fitted to.
    assert_eq!(charts[0].matches("<g class=\"line\"").count(), 6);
    assert!(
        charts[0].contains("b\npublished 500 IOPS\npredicted 400 IOPS\n-20.0 %</title>"),
        "{}",
        charts[0]
    );
    for name in ["&lt;i&gt;", "b", "c"] {
        let tick = format!("text-anchor=\"end\">{name}</text>");
        assert_eq!(charts[1].matches(&tick).count(), 1, "what all names begin with is left out: {name}");
    }
    assert!(charts[1].contains(">+10</text>") && charts[1].contains(">-20</text>"), "{}", charts[1]);
    // One error that is far beyond the others is cut, and says so.
    let mut far = publication();
    let row = PaperRow {
        comparison: ComparisonRow::of("paper.t1.far".into(), "iops".into(), 10.0, 90.0).unwrap(),
        ..far.places[0].rows[1].clone()
    };
    far.places[0].rows.push(row);
    assert!(svgs(&page::paper(&far))[1].contains(">+800, cut</text>"));
    assert!(
        page.to_html().contains("Kendall’s tau") && page.to_html().contains("<td class=\"start\">0.50</td>")
    );
    std::fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/paper.html"), page.to_html())
        .expect("the build folder takes files");
}
