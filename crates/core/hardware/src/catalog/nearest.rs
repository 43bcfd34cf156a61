//! The known name that somebody most likely meant.

/// The name of `known` most like `wanted`, if any is like it at all.
pub(crate) fn nearest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    // 0.75 lets a swapped or missing letter through and keeps unrelated words out.
    const LIKE_ENOUGH: f64 = 0.75;
    known
        .map(|name| (strsim::jaro_winkler(wanted, name), name))
        .filter(|(likeness, _)| *likeness >= LIKE_ENOUGH)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name.to_owned())
}
