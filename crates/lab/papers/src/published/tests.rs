//! Reading valid and invalid published figures.

use super::*;

const HEADER: &str = "id,system,raid,drives,drive,write_policy,read_policy,io_policy,disk_cache,workload,block_kib,\
                      queue_depth,streams,stroke_pct,metric,value";

fn parse(rows: &str) -> Result<Vec<PublishedRow>, PublishedError> {
    parse_published("mine.csv", &format!("{HEADER}\n{rows}\n"))
}

fn problems(rows: &str) -> Vec<RowProblem> {
    match parse(rows) {
        Err(PublishedError::Rows { problems, .. }) => problems,
        other => panic!("{rows}: {other:?}"),
    }
}

#[test]
fn a_row_is_read_as_it_stands() {
    let rows =
        parse("a,perc/md,10,12,d1,write-back,adaptive,direct,off,oltp,0.5,256,,8,mb_per_s,12.5").unwrap();
    let row = &rows[0];
    assert_eq!((row.line, row.id.as_str(), row.drives, row.queue_depth), (2, "a", 12, 256));
    assert_eq!(
        (row.write_policy, row.read_policy),
        (Some(WritePolicy::WriteBack), Some(ReadPolicy::Adaptive))
    );
    assert_eq!((row.io_policy, row.disk_cache), (Some(IoPolicy::Direct), Some(false)));
    assert_eq!((row.block, row.stroke_pct), (Some(ByteCount(512)), Some(8.0)));
    assert_eq!((row.metric, row.value), (PublishedMetric::MbPerS, 12.5));
}

#[test]
fn empty_cells_stay_unknown() {
    let rows = parse("a,perc,5,6,d1,,,,,oltp,,1,,,iops,1").unwrap();
    let row = &rows[0];
    assert_eq!((row.write_policy, row.read_policy, row.io_policy, row.disk_cache), (None, None, None, None));
    assert_eq!((row.block, row.stroke_pct), (None, None));
}

#[test]
fn what_cannot_be_read_is_named() {
    let rows = [
        ("a,perc,5,six,d1,,,,,oltp,8,1,,,iops,1", "drives", "six"),
        ("a,perc,5,6,d1,write-bakc,,,,oltp,8,1,,,iops,1", "write_policy", "write-bakc"),
        ("a,perc,5,6,d1,,,,,oltp,8,0,,,iops,1", "queue_depth", "0"),
        ("a,perc,5,6,d1,,,,,oltp,8,,,,iops,1", "queue_depth", ""),
        ("a,perc,5,6,d1,,,,,oltp,8,1,4,,iops,1", "streams", "4"),
        ("a,perc,5,6,d1,,,,,oltp,8,1,,101,iops,1", "stroke_pct", "101"),
        ("a,perc,5,6,d1,,,,,oltp,8,1,,,cpu,1", "metric", "cpu"),
        ("a,perc,5,6,d1,,,,,oltp,8,1,,,iops,-1", "value", "-1"),
        ("a,perc,5,6,d1,,,,,oltp,8,1,,,iops,", "value", ""),
        ("a,,5,6,d1,,,,,oltp,8,1,,,iops,1", "system", ""),
    ];
    for (row, column, value) in rows {
        let problems = problems(row);
        assert_eq!((problems[0].column, problems[0].value.as_str()), (column, value), "{row}");
        assert_eq!((problems[0].line, problems[0].row.as_str()), (2, "a"), "{row}");
    }
}

#[test]
fn a_figure_at_a_response_time_needs_no_queue_depth() {
    let parse = |depth: &str, limit: &str, mirroring: &str| {
        let header = HEADER.replace(",metric", ",response_limit_ms,cache_mirroring,metric");
        let text = format!("{header}\na,perc,5,6,d1,,,,,oltp,8,{depth},,,{limit},{mirroring},iops,1\n");
        parse_published("mine.csv", &text)
    };
    let row = parse("", "0.5", "on").unwrap().remove(0);
    assert_eq!(row.response_limit, Some(NanoSpan::from_micros(500)));
    assert_eq!((row.queue_depth, row.cache_mirroring), (0, Some(true)));
    for (depth, limit, column) in [
        ("16", "20", "queue_depth"),
        ("", "0", "response_limit_ms"),
        ("", "soon", "response_limit_ms"),
        ("", "", "queue_depth"),
    ] {
        let Err(PublishedError::Rows { problems, .. }) = parse(depth, limit, "off") else {
            panic!("{depth} {limit} was read");
        };
        assert_eq!(problems[0].column, column, "{depth} {limit}");
    }
}

#[test]
fn all_problems_come_together_with_what_is_near() {
    let found =
        problems("a,perc,5,6,d1,write-bakc,,,,oltp,8,1,,,iops,1\nb,perc,5,x,d1,,,,,oltp,8,1,,,iops,1");
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].nearest.as_deref(), Some("write-back"));
    assert_eq!((found[1].line, found[1].row.as_str()), (3, "b"));
    let text = PublishedError::Rows { file: "mine.csv".into(), problems: found }.to_string();
    assert!(text.contains("2 of its rows") && text.contains("line 3, row 'b', column drives: 'x'"), "{text}");
}

#[test]
fn headers_are_checked() {
    let unknown = parse_published("f.csv", "id,sistem\n").unwrap_err();
    assert!(
        matches!(&unknown, PublishedError::UnknownColumn { column, nearest: Some("system"), .. } if column == "sistem"),
        "{unknown}"
    );
    let missing = parse_published("f.csv", &HEADER.replace(",value", "")).unwrap_err();
    assert!(
        matches!(&missing, PublishedError::MissingColumns { columns, .. } if columns == &["value"]),
        "{missing}"
    );
    assert!(matches!(parse("").unwrap_err(), PublishedError::Empty { .. }));
}

#[test]
fn a_missing_file_is_named() {
    let error = read_published(Path::new("no-such-folder/figures.csv")).unwrap_err();
    assert!(error.to_string().starts_with("no-such-folder/figures.csv cannot be read"), "{error}");
}
