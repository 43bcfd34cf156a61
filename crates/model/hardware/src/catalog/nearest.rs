//! The known name nearest to a misspelt one.

/// Letters that may differ, one for so many of the word, and two in a short one.
const LETTERS_PER_MISTAKE: usize = 4;
const MISTAKES_OF_A_SHORT_WORD: usize = 2;

/// The name of `known` that differs from `wanted` in the fewest letters, if those are few, or that has all its parts.
///
/// A likeness of whole words won't do here: names of one maker begin alike, and any of them is like any other.
pub fn nearest<'a>(wanted: &str, known: impl Iterator<Item = &'a str>) -> Option<String> {
    let allowed = MISTAKES_OF_A_SHORT_WORD.max(wanted.chars().count() / LETTERS_PER_MISTAKE);
    let wanted = wanted.to_lowercase();
    // So long a word is none of them, and takes a table of its letters times theirs.
    let is_longer = |name: &str| wanted.len() > 2 * name.len();
    let mistakes = |name: &str| {
        if is_longer(name) { usize::MAX } else { strsim::damerau_levenshtein(&wanted, &name.to_lowercase()) }
    };
    let has_all_parts = |name: &str| {
        wanted.len() > MISTAKES_OF_A_SHORT_WORD && wanted.split('-').all(|part| name.contains(part))
    };
    known
        .map(|name| (mistakes(name), name))
        .filter(|&(count, name)| count <= allowed.min(name.chars().count() / 2) || has_all_parts(name))
        .min_by_key(|(count, _)| *count)
        .map(|(_, name)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_meant_is_suggested() {
        let known = ["st3600057ss", "samsung-pm9a3-7680", "perc-h730p", "exos-x24-24tb", "rope", "shelf"];
        let rows = [
            ("st3600057s", Some("st3600057ss")),
            ("ST3600057SS", Some("st3600057ss")),
            ("samsung-pm9a3-3840", Some("samsung-pm9a3-7680")),
            ("exos-24tb", Some("exos-x24-24tb")),
            ("pm9a3", Some("samsung-pm9a3-7680")),
            ("rop", Some("rope")),
            ("samsung-hd103uj", None),
            ("perc-9999", None),
            ("floppy", None),
            ("x", None),
            (&"x".repeat(10_000_000)[..], None),
        ];
        for (wanted, expected) in rows {
            assert_eq!(nearest(wanted, known.into_iter()).as_deref(), expected, "{wanted}");
        }
    }
}
