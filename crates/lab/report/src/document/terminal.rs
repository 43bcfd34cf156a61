//! Blocks as text for a terminal: tables of one line a row, text wrapped at the terminal's width, names that can't steer it.
//!
//! Tables, cards and lines as they are stand apart from what is around them; paragraphs and lists follow each other, and a heading
//! stands directly above what it is of. What is folded, figures and keys are left to pages.

use super::{Block, Card, Choice};
use crate::terminal::{TerminalOptions, heading, wrapped};

/// Prints `blocks`.
pub(crate) fn render(blocks: impl IntoIterator<Item = Block>, options: TerminalOptions) -> String {
    let mut writer = Writer { options, text: String::new(), last: None };
    blocks.into_iter().for_each(|block| writer.block(block));
    writer.text
}

/// How a block keeps its distance.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Heading,
    Flow,
    Apart,
}

struct Writer {
    options: TerminalOptions,
    text: String,
    last: Option<Kind>,
}

impl Writer {
    /// Leaves a line free where `kind` stands apart from what came before.
    fn begin(&mut self, kind: Kind) {
        let is_apart = match (self.last, kind) {
            (None, _) => false,
            (Some(Kind::Heading), kind) => kind == Kind::Heading,
            (Some(Kind::Flow), kind) => kind != Kind::Flow,
            (Some(Kind::Apart), _) => true,
        };
        if is_apart {
            self.text.push('\n');
        }
        self.last = Some(kind);
    }

    fn heading(&mut self, title: &str) {
        self.begin(Kind::Heading);
        self.text += &(heading(title, self.options) + "\n");
    }

    fn block(&mut self, block: Block) {
        let width = self.options.width;
        match block {
            Block::Section { title, body, .. } => {
                self.heading(&title);
                for block in body {
                    self.block(block);
                }
            }
            Block::Heading(title) => self.heading(&title),
            Block::Paragraph { text, indent } => {
                self.begin(Kind::Flow);
                self.text += &hanging(&text.plain(), width, indent);
            }
            Block::List(items) => {
                self.begin(Kind::Flow);
                let items = items.iter().map(|item| hanging(&format!("- {}", item.plain()), width, 2));
                self.text.extend(items);
            }
            Block::Warnings(warnings) => {
                self.heading("Warnings");
                self.block(Block::list(&warnings));
            }
            Block::Setup(facts) => {
                self.begin(Kind::Flow);
                let lines = facts.iter().map(|(name, value)| wrapped(&format!("{name}: {value}"), width, 2));
                self.text.extend(lines);
            }
            Block::Cards(cards) => {
                if cards.iter().any(|card| card.title.is_none()) {
                    self.begin(Kind::Apart);
                }
                for card in &cards {
                    self.card(card);
                }
                self.last = Some(Kind::Apart);
            }
            Block::Table(table) => {
                for part in table.for_terminal().within(usize::from(width)) {
                    self.begin(Kind::Apart);
                    self.text += &part.render(self.options);
                }
            }
            Block::Verbatim(text) => {
                self.begin(Kind::Apart);
                self.text += &text;
            }
            Block::Figure(_) | Block::Folded { .. } | Block::Legend(_) => {}
        }
    }

    /// What is recommended: for something, each side with its reason; else each with its reasons as a list.
    fn card(&mut self, card: &Card) {
        let options = self.options;
        if let Some(title) = &card.title {
            self.text += &format!("\n  {}\n", heading(title, options));
            for Choice { kicker, title, reasons, .. } in &card.choices {
                let head = heading(&format!("{kicker}: {title}"), options);
                self.text += &format!("    {head}\n{}", wrapped(&reasons.join(" "), options.width, 6));
            }
            return;
        }
        for choice in &card.choices {
            self.text += &(heading(&choice.title, options) + "\n");
            self.text += &wrapped(&choice.settings, options.width, 3);
            let reasons = choice.reasons.iter().map(|it| hanging(&format!("- {it}"), options.width, 3));
            self.text.extend(reasons);
        }
    }
}

/// `text` within `width`; what continues an item of a list stands behind its dash.
fn hanging(text: &str, width: u16, indent: usize) -> String {
    match text.strip_prefix("- ") {
        Some(item) => format!("{:indent$}- {}", "", wrapped(item, width, indent + 2).trim_start()),
        None => wrapped(text, width, indent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Table;

    #[test]
    fn what_continues_an_item_stands_behind_its_dash() {
        let table = [
            ("one two three four five six seven", "one two three four five\nsix seven\n"),
            ("- one two three four five six seven", "- one two three four\n  five six seven\n"),
        ];
        for (line, expected) in table {
            assert_eq!(hanging(line, 24, 0), expected);
        }
    }

    /// Lines of 137 characters were folded by a terminal of 80 columns wherever they stood.
    #[test]
    fn a_table_that_is_too_wide_stands_in_parts_with_what_tells_its_rows_apart() {
        let cells = |name: &str| {
            let figures = ["1.5", "2.5", "3.5", "4.5"].map(str::to_owned);
            [vec!["RAID 5 x8".to_owned(), name.to_owned()], figures.to_vec()].concat()
        };
        let columns = ["Array", "Application", "IOPS", "MB/s", "Mean ms", "p99 ms"];
        let table = |rows: &[&str]| {
            Block::table(Table::plain("t", &columns, 2).section(rows.iter().map(|name| cells(name))))
        };
        let widest = |text: &str| text.lines().map(str::len).max();
        let one = render([table(&["oltp"])], TerminalOptions { width: 40, colour: false });
        assert!(widest(&one) <= Some(40) && one.matches("Application").count() == 1, "{one}");
        let two = render([table(&["oltp", "log"])], TerminalOptions { width: 40, colour: false });
        assert!(widest(&two) <= Some(40) && two.matches("Application").count() > 1, "{two}");
        assert!(["IOPS", "MB/s", "Mean ms", "p99 ms"].iter().all(|name| two.matches(name).count() == 1));
        let wide = render([table(&["oltp", "log"])], TerminalOptions { width: 80, colour: false });
        assert_eq!(wide.matches("Array").count(), 1, "{wide}");
    }

    #[test]
    fn tables_stand_apart_and_headings_above_what_they_are_of() {
        let table = || Block::table(Table::plain("t", &["a"], 1).section([vec!["1".to_owned()]]));
        let blocks = [
            Block::Heading("H".into()),
            Block::paragraph("one"),
            Block::paragraph("two"),
            table(),
            table(),
            Block::Heading("I".into()),
            table(),
            Block::List(vec!["x".into()]),
        ];
        let text = render(blocks, TerminalOptions { width: 40, colour: false });
        assert_eq!(text, "H\none\ntwo\n\na\n-\n1\n\na\n-\n1\n\nI\na\n-\n1\n\n  - x\n");
    }
}
