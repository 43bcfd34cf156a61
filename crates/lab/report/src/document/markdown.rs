//! Documents as Markdown, for wikis, papers and reviews.
//!
//! Charts become references to their files. A header cell that spans columns is put above each of them, joined with the names below.
//! Markdown passes HTML and turns brackets into links, and names in results are untrusted. So text stays text here: special
//! characters are escaped.
//!
//! Left out: colours, switches, pictures within lines, the contents.

use super::html::{WARNINGS, set, shown};
use super::{Block, Choice, Column, Document, Fact, Figure, Row, Span, Table, Text};

impl Document {
    /// Its text, with a reference to `FOLDER/NAME.svg` for each chart.
    pub fn to_markdown(&self, folder: &str) -> String {
        let mut writer = Writer { folder, figures: 0, text: String::new() };
        writer.part(&escaped(self.kicker));
        writer.part(&format!("# {}", escaped(&self.title)));
        writer.part(&escaped(&self.question));
        writer.part(&facts(&self.facts));
        writer.blocks(&self.body);
        writer.text
    }
}

struct Writer<'a> {
    folder: &'a str,
    figures: usize,
    text: String,
}

impl Writer<'_> {
    /// Adds a part and a free line.
    fn part(&mut self, part: &str) {
        if !part.trim().is_empty() {
            self.text += &format!("{}\n\n", part.trim());
        }
    }

    fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            match block {
                Block::Section { title, body, .. } => {
                    self.part(&format!("## {}", escaped(title)));
                    self.blocks(body);
                }
                Block::Heading(title) => self.part(&format!("### {}", escaped(title))),
                Block::Paragraph { text, .. } => self.part(&line(text)),
                Block::List(items) => self.part(&list(items.iter().map(line))),
                Block::Warnings(warnings) => {
                    self.part(&format!("## {WARNINGS}"));
                    self.part(&list(warnings.iter().map(|warning| escaped(warning))));
                }
                Block::Setup(setup) => self.part(&facts(setup)),
                Block::Cards(cards) => {
                    for card in cards {
                        let level = if card.title.is_some() { "####" } else { "###" };
                        self.part(
                            &card
                                .title
                                .as_ref()
                                .map_or_else(String::new, |it| format!("### {}", escaped(it))),
                        );
                        card.choices.iter().for_each(|choice| self.choice(level, choice));
                    }
                }
                Block::Table(it) => self.part(&table(it)),
                Block::Figure(it) => self.figure(it),
                Block::Folded { title, body, .. } => {
                    self.part(&format!("#### {}", escaped(title)));
                    self.blocks(body);
                }
                Block::Legend(_) | Block::Verbatim(_) => {}
            }
        }
    }

    fn choice(&mut self, level: &str, choice: &Choice) {
        self.part(&escaped(&choice.kicker));
        self.part(&format!("{level} {}", escaped(&choice.title)));
        self.part(&escaped(&choice.settings));
        self.part(&facts(&choice.facts));
        if let [finding, grounds @ ..] = &choice.reasons[..] {
            self.part(&escaped(finding));
            self.part(&list(grounds.iter().map(|ground| escaped(ground))));
        }
    }

    fn figure(&mut self, figure: &Figure) {
        self.figures += 1;
        for chart in figure.charts(self.figures) {
            self.part(&escaped(&chart.heading));
            self.part(&format!("![{0}]({1}/{0}.svg)", chart.id, self.folder));
        }
        let (title, caption) = (escaped(&figure.title), escaped(&figure.caption));
        self.part(&format!("**Figure {}. {title}** {caption}", self.figures));
    }
}

fn list(items: impl Iterator<Item = String>) -> String {
    items.map(|item| format!("- {item}\n")).collect()
}

fn facts(facts: &[Fact]) -> String {
    list(facts.iter().map(|(name, value)| format!("{}: {}", escaped(name), escaped(&set(value)))))
}

fn line(text: &Text) -> String {
    let span = |span: &Span| match span {
        Span::Plain(text) | Span::Small(text) => escaped(text),
        Span::Strong(text) => format!("**{}**", escaped(text)),
        Span::Drawn(_) => String::new(),
    };
    text.0.iter().map(span).collect()
}

fn table(table: &Table) -> String {
    let name = |(index, column): (usize, &Column)| {
        let group = table.groups.iter().find(|group| group.columns.contains(&index));
        let parts = group.map(|group| &group.name).into_iter().chain([&column.name]);
        escaped(&parts.filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join(", "))
    };
    let row = |cells: Vec<String>| {
        let cells = cells.into_iter().map(|cell| cell.replace('|', "\\|"));
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let mut text = row(table.columns.iter().enumerate().map(name).collect());
    text += &row(vec!["---".to_owned(); table.columns.len()]);
    let cells = |it: &Row| {
        let both = table.columns.iter().zip(&it.cells);
        let cell = both.map(|(column, cell)| line(&shown(column, cell)));
        row(cell.collect())
    };
    for section in &table.sections {
        if let Some(title) = &section.title {
            let rest = table.columns.iter().skip(1).map(|_| String::new());
            text += &row(std::iter::once(line(title)).chain(rest).collect());
        }
        text.extend(section.rows.iter().map(cells));
    }
    let caption = escaped(&table.caption);
    if caption.is_empty() { text } else { format!("{caption}\n\n{text}") }
}

/// Text that Markdown shows as it is, in one line.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '&' => safe += "&amp;",
            '\\' | '`' | '*' | '[' | ']' => safe.extend(['\\', character]),
            c if c.is_control() && c.is_ascii_whitespace() => safe.push(' '),
            c if c.is_control() => safe.push(char::REPLACEMENT_CHARACTER),
            _ => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Group;

    fn markdown(body: Vec<Block>) -> String {
        Document { body, title: "A <b>".into(), ..Document::default() }.to_markdown("charts")
    }

    #[test]
    fn words_lists_and_headings_are_taken_over() {
        let strong = Text::strong("y").and(Span::Plain(" z".into()));
        let body = vec![
            Block::paragraph("One\n two"),
            Block::List(vec!["x".into(), strong]),
            Block::Setup(vec![("Runs".into(), "3".into())]),
            Block::Legend(vec![("no".into(), String::new())]),
        ];
        let text = markdown(body);
        assert_eq!(text, "# A &lt;b&gt;\n\nOne  two\n\n- x\n- **y** z\n\n- Runs: 3\n\n");
    }

    /// Issue 23, defect 6: a workload's name could bring a script, or a picture from elsewhere, into the report.
    #[test]
    fn names_stay_text() {
        let table = Table::plain("t", &["Name"], 1).section([vec!["<img src=x>|\\|".to_owned()]]);
        let name = "<script>alert(1)</script> ![x](http://evil.example/p) `*a*` b\\c 3 > 2";
        let text = markdown(vec![Block::paragraph(name), Block::table(table)]);
        let expected = "&lt;script&gt;alert(1)&lt;/script&gt; !\\[x\\](http://evil.example/p) \\`\\*a\\*\\` b\\\\c 3 &gt; 2\n\n\
             | Name |\n| --- |\n| &lt;img src=x&gt;\\|\\\\\\| |\n\n";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn tables_have_one_line_of_names() {
        let row = ["RAID 5", "12300", "-"].map(str::to_owned).to_vec();
        let mut table = Table::plain("t", &["Array", "IOPS", "ms"], 1).captioned("All of it.").section([row]);
        table.groups = vec![Group { columns: 1..3, name: "near".into() }];
        assert!(markdown(vec![Block::table(table)]).ends_with(
            "All of it.\n\n| Array | near, IOPS | near, ms |\n| --- | --- | --- |\n| RAID 5 | 12\u{202f}300 | – |\n\n"
        ));
    }
}
