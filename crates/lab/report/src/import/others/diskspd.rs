//! diskspd's XML (`-Rxml`), a run for each time span.
//!
//! Left out: single threads and targets, of which several are added up.

use super::super::ForeignError;
use super::{Direction, Test};

/// What stands between `<name>` and `</name>`, one after the other; elements of one name are not nested in this file, except time spans.
fn inside<'a>(text: &'a str, name: &str) -> impl Iterator<Item = &'a str> {
    let (open, close) = (format!("<{name}>"), format!("</{name}>"));
    let mut rest = text;
    std::iter::from_fn(move || {
        let from = rest.find(&open)? + open.len();
        let length = rest[from..].find(&close)?;
        let found = &rest[from..from + length];
        rest = &rest[from + length + close.len()..];
        Some(found)
    })
}

fn first<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    inside(text, name).next()
}

fn number(text: &str, name: &str) -> Option<f64> {
    first(text, name)?.trim().parse().ok()
}

fn sum(text: &str, name: &str) -> f64 {
    inside(text, name).filter_map(|it| it.trim().parse::<f64>().ok()).sum()
}

pub(super) fn tests(text: &str) -> Result<Vec<Test>, ForeignError> {
    if !text.contains("</Results>") {
        return Err(ForeignError::Malformed("its XML is not whole: there is no </Results>".into()));
    }
    let profile = first(text, "Profile").unwrap_or("");
    let behind = text.split_once("</Profile>").map_or(text, |(_, behind)| behind);
    let plans: Vec<&str> = inside(profile, "TimeSpan").collect();
    let version = first(text, "VersionString").or_else(|| first(text, "Version")).unwrap_or("");
    let test = |(index, span): (usize, &str)| {
        let seconds = number(span, "TestTimeSeconds").filter(|it| *it > 0.0)?;
        let plan = plans.get(index).copied().unwrap_or(profile);
        let threads = inside(span, "Thread").collect::<Vec<_>>().concat();
        let latency = first(span, "Latency").unwrap_or("");
        let direction = |kind: &str| Direction {
            iops: sum(&threads, &format!("{kind}Count")) / seconds,
            bytes_per_sec: sum(&threads, &format!("{kind}Bytes")) / seconds,
            mean_ms: number(latency, &format!("Average{kind}Milliseconds")),
            max_ms: None,
        };
        let random = number(plan, "RandomRatio").or_else(|| number(plan, "Random").map(|_| 100.0));
        let each = number(plan, "RequestCount").map(|it| it.max(1.0));
        let workers = number(span, "ThreadCount").or_else(|| number(plan, "ThreadsPerFile"));
        let percentile =
            |bucket: &str| Some((number(bucket, "Percentile")?, number(bucket, "TotalMilliseconds")?));
        Some(Test {
            name: if plans.len() > 1 { format!("diskspd, span {}", index + 1) } else { "diskspd".into() },
            target: first(plan, "Path").unwrap_or("").to_owned(),
            version: version.to_owned(),
            seconds: Some(seconds),
            iodepth: each.zip(workers).map(|(each, workers)| (each * workers) as u32),
            block_bytes: number(plan, "BlockSize").map(|it| it as u64),
            random_pct: Some(random.unwrap_or(0.0).clamp(0.0, 100.0) as u8),
            read: direction("Read"),
            write: direction("Write"),
            all: Direction { mean_ms: number(latency, "AverageTotalMilliseconds"), ..Direction::default() },
            percentiles_ms: inside(latency, "Bucket").filter_map(percentile).collect(),
        })
    };
    Ok(inside(behind, "TimeSpan").enumerate().filter_map(test).collect())
}
