//! Valid and invalid claims.

use super::*;

const HEADER: &str = "id,paper,workload,a,b,ratio,kind";
const X: &str = "system=lsi-1068 raid=0 drives=2 drive=st373455ss";

fn parse(line: &str) -> Result<Claim, String> {
    let claims = parse_claims("c.csv", &format!("{HEADER}\n{line}\n"));
    claims.map(|mut claims| claims.remove(0)).map_err(|error| error.to_string())
}

fn workload(name: &str, kib: Option<u64>) -> ClaimWorkload {
    ClaimWorkload { name: name.into(), block: kib.map(ByteCount::from_kib) }
}

#[test]
fn a_claim_is_read_as_it_is_written() {
    let claim = parse(&format!("c1,p,alpha|beta,{X} best,{X} disk_cache=off,1.5,up-to")).unwrap();
    assert_eq!((claim.line, &*claim.id, &*claim.paper, claim.ratio), (2, "c1", "p", 1.5));
    assert_eq!(claim.kind, ClaimKind::UpTo);
    let names: Vec<&str> = claim.workloads.iter().map(|pair| &*pair.a.name).collect();
    assert_eq!(names, ["alpha", "beta"]);
    assert_eq!(claim.a.choice, Choice::Best);
    assert_eq!(claim.a.settings.len(), 4);
    let Against::Side(b) = claim.b else { panic!("{:?}", claim.b) };
    assert_eq!(b.choice, Choice::AsGiven);
    assert_eq!(b.settings.last(), Some(&("disk_cache".to_owned(), "off".to_owned())));
}

#[test]
fn what_a_is_compared_with_has_several_forms() {
    let rows = [
        ("alpha", "absolute mb_per_s", Against::Figure(PublishedMetric::MbPerS)),
        ("alpha", "absolute iops", Against::Figure(PublishedMetric::Iops)),
        ("alpha/beta", "same", Against::Same),
        ("alpha/beta", "system=x raid=5 same", Against::Same),
    ];
    for (workload, b, against) in rows {
        assert_eq!(parse(&format!("c,p,{workload},{X} any,{b},2,about")).unwrap().b, against, "{b}");
    }
    let pair = &parse(&format!("c,p,alpha/beta,{X},same,1,order")).unwrap().workloads[0];
    assert_eq!((&*pair.a.name, &*pair.b.name), ("alpha", "beta"));
}

#[test]
fn a_workload_may_carry_its_block_size_or_a_least_one() {
    let all = |text: &str| -> Vec<ClaimWorkload> {
        let claim = parse(&format!("c,p,{text},{X},absolute iops,1,about")).unwrap();
        claim.workloads.into_iter().map(|pair| pair.a).collect()
    };
    assert_eq!(all("fastt600-random-read 8k"), [workload("fastt600-random-read", Some(8))]);
    let sizes = [64, 128, 256, 512].map(|kib| workload("fastt600-streaming-read", Some(kib)));
    assert_eq!(all("fastt600-streaming-read >=64k"), sizes);
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let text = [
        HEADER,
        "c1,,alpha,sistem=x fastest,same,-1,abut",
        &format!("c2,p,alpha 8q,{X},absolute kings,1,about"),
        &format!("c3,p,alpha/beta,{X},{X},1,about"),
    ];
    let error = parse_claims("c.csv", &text.join("\n")).unwrap_err().to_string();
    for part in [
        "3 of its rows",
        "row 'c1', column paper: '' is empty",
        "column a: 'sistem=x' is no setting, nor best or any; nearest known: 'system'",
        "column a: 'fastest' is no setting",
        "column b: 'same' must be 'same' with a quotient",
        "column ratio: '-1' is not a number above zero",
        "column kind: 'abut' is none of about, up-to, order; nearest known: 'about'",
        "column workload: '8q' is no block size",
        "column b: 'absolute kings' is none of",
        "row 'c3', column b:",
    ] {
        assert!(error.contains(part), "'{part}' is not in\n{error}");
    }
}

#[test]
fn a_file_needs_its_columns_and_at_least_one_claim() {
    assert!(matches!(parse_claims("c.csv", HEADER), Err(PublishedError::Empty { .. })));
    let lacks = parse_claims("c.csv", "id,paper,workload,a,b,ratio\n");
    assert!(matches!(lacks, Err(PublishedError::MissingColumns { columns, .. }) if columns == ["kind"]));
    let stray = parse_claims("c.csv", "id,paper,workload,a,b,ratios,kind\n");
    assert!(matches!(stray, Err(PublishedError::UnknownColumn { nearest: Some("ratio"), .. })));
}
