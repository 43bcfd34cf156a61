//! The table of deliberate defects: what each is, and the lines that it changes.
//!
//! ```text
//! # TailNamedEarly: Records name a tail while the state is not kept.
//! controller/src/write_intent/log.rs   the file, below `crates/array`
//! -if metadata.is_kept() {             as in a patch: a line goes, one comes, one is only there to find the place
//! +if metadata.is_kept() || MUTANT {
//!  self.ring.name_tail();
//! ```
//! `MUTANT` stands for the question whether this defect is the one at work. Indentation does not count. The lines of a hunk must be
//! found at exactly one place of the file, and no two defects may change the same line: `tests/mutants.rs` says so as soon
//! as an edit makes a hunk stale.
//!
//! `[stops]` behind the name says that what the defect does is to stop the array or a request: then a stall, a refused start
//! and a panic count as found. For the others they don't, because nothing went wrong with data.

/// A deliberate defect.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// It shows in what stops and not in data.
    pub(crate) stops: bool,
    pub(crate) hunks: Vec<Hunk>,
}

/// Lines of one file that it changes.
pub(crate) struct Hunk {
    /// Below `crates/array`.
    pub(crate) file: &'static str,
    lines: Vec<(Kind, &'static str)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stays,
    Goes,
    Comes,
}

const TABLES: [&str; 6] = [
    include_str!("../../mutants/cache.diff"),
    include_str!("../../mutants/stripes.diff"),
    include_str!("../../mutants/intent.diff"),
    include_str!("../../mutants/members.diff"),
    include_str!("../../mutants/tags.diff"),
    include_str!("../../mutants/layout.diff"),
];

/// Every defect, in the order of the tables. They are numbered from 1.
pub(crate) fn all() -> Vec<Mutant> {
    parse(&TABLES)
}

/// Every defect of some tables.
pub(crate) fn parse(tables: &[&'static str]) -> Vec<Mutant> {
    let mut mutants: Vec<Mutant> = Vec::new();
    for line in tables.iter().flat_map(|table| table.lines()).filter(|line| !line.is_empty()) {
        let (mark, rest) = line.split_at(1);
        let kind = match mark {
            "#" => {
                let (name, what) =
                    rest.trim().split_once(": ").expect("a defect has a name and says what it is");
                let short = name.strip_suffix(" [stops]");
                let stops = short.is_some();
                mutants.push(Mutant { name: short.unwrap_or(name), what, stops, hunks: Vec::new() });
                continue;
            }
            " " => Kind::Stays,
            "-" => Kind::Goes,
            "+" => Kind::Comes,
            _ => {
                let mutant = mutants.last_mut().expect("a hunk belongs to a defect");
                mutant.hunks.push(Hunk { file: line, lines: Vec::new() });
                continue;
            }
        };
        let hunk = mutants.last_mut().and_then(|mutant| mutant.hunks.last_mut());
        hunk.expect("a hunk begins with its file").lines.push((kind, rest.trim()));
    }
    mutants
}

/// Puts the hunks of one file into its text, `condition` giving what stands for `MUTANT`.
///
/// # Errors
/// What a hunk no longer fits.
pub(crate) fn apply(
    text: &str,
    hunks: &[(&str, &Hunk)],
    condition: impl Fn(&str) -> String,
) -> Result<String, String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut goes = vec![false; lines.len()];
    let mut comes = vec![String::new(); lines.len() + 1];
    for (name, hunk) in hunks {
        let mut at = hunk.find(&lines).map_err(|count| {
            format!("{name}: its lines are found at {count} places of {}, not at one", hunk.file)
        })?;
        for (kind, line) in &hunk.lines {
            match kind {
                Kind::Stays => at += 1,
                Kind::Goes if goes[at] => {
                    return Err(format!("{name}: another defect changes '{line}' of {}, too", hunk.file));
                }
                Kind::Goes => {
                    goes[at] = true;
                    at += 1;
                }
                Kind::Comes => comes[at].extend([&line.replace("MUTANT", &condition(name)), "\n"]),
            }
        }
    }
    let mut planted = String::new();
    for ((line, goes), comes) in lines.iter().zip(goes).zip(&comes) {
        planted += comes;
        if !goes {
            planted += line;
            planted.push('\n');
        }
    }
    Ok(planted + &comes[lines.len()])
}

impl Hunk {
    /// The first of its lines that are there, or at how many places they are.
    fn find(&self, lines: &[&str]) -> Result<usize, usize> {
        let there: Vec<&str> =
            self.lines.iter().filter(|(kind, _)| *kind != Kind::Comes).map(|(_, line)| *line).collect();
        let fits = |window: &[&str]| window.iter().zip(&there).all(|(line, wanted)| line.trim() == *wanted);
        let mut places = lines.windows(there.len().max(1)).enumerate().filter(|(_, window)| fits(window));
        match (places.next(), places.count()) {
            (Some((at, _)), 0) if !there.is_empty() => Ok(at),
            (first, more) => Err(more + usize::from(first.is_some())),
        }
    }
}
