//! Pages as Markdown, for wikis, papers and reviews.
//!
//! The page is the only source: its headings, paragraphs, lists, tables and figures are converted one by one, so
//! nothing is written twice. Charts become references to their files. Only the elements of this crate's pages are
//! understood; they are well formed by construction. A header cell that spans columns is put above the first of them,
//! joined with the names below.
//!
//! Markdown passes HTML and turns brackets into links, and names in results are untrusted. So text of the page stays
//! text here: special characters are escaped.
//!
//! Left out: colours, switches, and hidden text for screen readers.

use crate::html::Page;

/// The page's text, with a reference to `FOLDER/NAME.svg` for each chart.
pub fn of_page(page: &Page, folder: &str) -> String {
    let body = page.html.split_once("<body>").map_or(page.html.as_str(), |(_, body)| body);
    let body = body.split_once("<footer>").map_or(body, |(body, _)| body);
    let mut writer = Writer { folder, text: String::new(), line: String::new(), ..Writer::default() };
    let pieces = Pieces { rest: body };
    for piece in pieces {
        match piece {
            Piece::Tag(tag) => writer.tag(tag),
            Piece::Text(text) => writer.words(text),
        }
    }
    writer.end_line();
    writer.text.trim_start().to_owned()
}

/// A tag without its brackets, or the text between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Piece<'a> {
    Tag(&'a str),
    Text(&'a str),
}

struct Pieces<'a> {
    rest: &'a str,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        if let Some(after) = self.rest.strip_prefix('<') {
            let (tag, rest) = after.split_once('>').unwrap_or((after, ""));
            self.rest = rest;
            return Some(Piece::Tag(tag));
        }
        let end = self.rest.find('<').unwrap_or(self.rest.len());
        let (text, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(Piece::Text(text))
    }
}

/// What has been written, and what is being read.
#[derive(Debug, Default)]
struct Writer<'a> {
    folder: &'a str,
    text: String,
    /// The line under way.
    line: String,
    /// The element whose content is left out, and how deep it is.
    skipped: Option<(&'a str, u32)>,
    table: Option<Table>,
}

/// A table while it is read.
#[derive(Debug, Default)]
struct Table {
    head: Vec<Vec<String>>,
    rows: Vec<Vec<String>>,
    is_head: bool,
    /// Columns that the cell under way spans.
    span: usize,
}

impl<'a> Writer<'a> {
    fn words(&mut self, text: &str) {
        if self.skipped.is_none() {
            self.line += &escaped(&unescaped(&text.replace('\n', " ")));
        }
    }

    fn tag(&mut self, tag: &'a str) {
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or("");
        let (is_end, is_empty) = (tag.starts_with('/'), tag.ends_with('/'));
        if let Some((skipped, depth)) = &mut self.skipped {
            if name == *skipped && !is_empty {
                if is_end { *depth -= 1 } else { *depth += 1 }
            }
            if *depth == 0 {
                self.skipped = None;
            }
            return;
        }
        if is_end {
            self.close(name);
        } else {
            self.open(name, tag);
        }
    }

    fn open(&mut self, name: &'a str, tag: &str) {
        let is_hidden =
            tag.contains(r#"class="unseen""#) || tag.contains(r#"class="legend""#) || tag.contains(" hidden");
        match name {
            "svg" | "script" | "noscript" | "style" => self.skipped = Some((name, 1)),
            _ if is_hidden => self.skipped = Some((name, 1)),
            "h1" | "h2" | "h3" | "h4" | "summary" => {
                self.blank();
                self.line += match name {
                    "h1" => "# ",
                    "h2" => "## ",
                    "h3" => "### ",
                    _ => "#### ",
                };
            }
            "p" | "figcaption" | "dl" | "ul" | "table" if self.table.is_none() => {
                self.blank();
                if name == "table" {
                    self.table = Some(Table::default());
                }
            }
            "li" | "dt" => {
                self.end_line();
                self.line += "- ";
            }
            "dd" => self.line += ": ",
            "b" | "strong" => self.line += "**",
            "br" => self.line.push(' '),
            "div" => {
                if let Some(id) = tag.strip_prefix(r#"div class="plot" id=""#) {
                    self.blank();
                    let id = id.trim_end_matches('"');
                    self.line = format!("![{id}]({}/{id}.svg)", self.folder);
                }
            }
            "thead" | "tbody" | "tr" | "th" | "td" => self.open_in_table(name, tag),
            _ => {}
        }
    }

    fn open_in_table(&mut self, name: &str, tag: &str) {
        let Some(table) = &mut self.table else { return };
        match name {
            "thead" | "tbody" => table.is_head = name == "thead",
            "tr" => if table.is_head { &mut table.head } else { &mut table.rows }.push(Vec::new()),
            _ => {
                let span =
                    tag.split_once("colspan=\"").and_then(|(_, rest)| rest.split('"').next()?.parse().ok());
                table.span = span.unwrap_or(1);
                self.line.clear();
            }
        }
    }

    fn close(&mut self, name: &str) {
        match name {
            "h1" | "h2" | "h3" | "h4" | "summary" | "p" | "figcaption" | "ul" | "dl"
                if self.table.is_none() =>
            {
                self.blank();
            }
            "li" => self.end_line(),
            "b" | "strong" => self.line += "**",
            "caption" => self.blank(),
            "th" | "td" => {
                let cell = std::mem::take(&mut self.line).trim().replace('|', "\\|");
                if let Some(table) = &mut self.table {
                    table.push(cell);
                }
            }
            "table" => {
                if let Some(table) = self.table.take() {
                    self.line.clear();
                    self.text += &table.text();
                }
                self.blank();
            }
            _ => {}
        }
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if !line.is_empty() {
            self.text.push_str(&line);
            self.text.push('\n');
        }
    }

    /// Ends the line and leaves one free.
    fn blank(&mut self) {
        self.end_line();
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }
}

impl Table {
    fn push(&mut self, cell: String) {
        let row = if self.is_head { self.head.last_mut() } else { self.rows.last_mut() };
        let Some(row) = row else { return };
        // In the head what spans columns names all of them, in a row it stands before empty ones.
        let rest = if self.is_head { cell.clone() } else { String::new() };
        row.push(cell);
        row.extend(std::iter::repeat_n(rest, self.span.saturating_sub(1)));
    }

    fn text(&self) -> String {
        let all = || self.head.iter().chain(&self.rows);
        let columns = all().map(Vec::len).max().unwrap_or(0);
        let name = |column: usize| {
            let parts = self.head.iter().filter_map(|row| row.get(column)).filter(|part| !part.is_empty());
            parts.cloned().collect::<Vec<_>>().join(", ")
        };
        let head: Vec<String> = (0..columns).map(name).collect();
        let line = |cells: &[String]| {
            let cells = (0..columns).map(|column| cells.get(column).map_or("", String::as_str));
            format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
        };
        let rule = vec!["---".to_owned(); columns];
        line(&head) + &line(&rule) + &self.rows.iter().map(|row| line(row)).collect::<String>()
    }
}

fn unescaped(text: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&nbsp;", " "), ("&amp;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

/// Text that Markdown shows as it is.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '&' => safe += "&amp;",
            '\\' | '`' | '*' | '[' | ']' => safe.extend(['\\', character]),
            _ => safe.push(character),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::of_page;
    use crate::html::Page;

    fn markdown(body: &str) -> String {
        let html = format!("<!doctype html><head>x</head><body>{body}<footer>end</footer></body>");
        of_page(&Page { html, pictures: Vec::new() }, "charts")
    }

    #[test]
    fn words_lists_and_headings_are_taken_over() {
        let text = markdown(
            "<h1>A &lt;b&gt;</h1><p class=\"lead\">One\n two</p><ul><li>x</li><li><b>y</b> z</li></ul>\
             <dl><div><dt>Runs</dt><dd>3</dd></div></dl><ul class=\"legend\"><li>no</li><ul></ul></ul>",
        );
        assert_eq!(text, "# A &lt;b&gt;\n\nOne two\n\n- x\n- **y** z\n\n- Runs: 3\n\n");
    }

    /// Issue 23, defect 6: a workload's name could bring a script, or a picture from elsewhere, into the report.
    #[test]
    fn what_is_text_on_the_page_is_text_here() {
        let text = markdown(
            "<p>&lt;script&gt;alert(1)&lt;/script&gt; &amp;lt; ![x](http://evil.example/p) `*a*` b\\c 3 &gt; 2</p>\
             <table><tbody><tr><td>&lt;img src=x&gt;|\\|</td></tr></tbody></table>",
        );
        let expected = "&lt;script&gt;alert(1)&lt;/script&gt; &amp;lt; !\\[x\\](http://evil.example/p) \\`\\*a\\*\\` b\\\\c 3 &gt; 2\n\n\
             |  |\n| --- |\n| &lt;img src=x&gt;\\|\\\\\\| |\n\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn tables_have_one_line_of_names() {
        let text = markdown(
            "<table><caption><span>All of it.</span></caption><thead><tr><th colspan=\"2\"></th><th colspan=\"2\">near</th></tr>\
             <tr><th>a</th><th>b</th><th>c</th><th>d</th></tr></thead><tbody><tr><th colspan=\"4\">part</th></tr>\
             <tr><th>1</th><td>2|3</td><td>4<span class=\"unseen\"> best</span></td><td>5</td></tr></tbody></table>",
        );
        let expected = "All of it.\n\n| a | b | near, c | near, d |\n| --- | --- | --- | --- |\n| part |  |  |  |\n| 1 | 2\\|3 | 4 | 5 |\n\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn charts_are_files() {
        let text = markdown(
            "<figure><div class=\"panels\"><div class=\"panel\"><p>measured</p><div class=\"plot\" id=\"figure-1a\"><svg role=\"img\"><text>no</text>\
             </svg></div></div></div><figcaption><b>Figure 1. Rate.</b> More.</figcaption></figure>",
        );
        assert_eq!(text, "measured\n\n![figure-1a](charts/figure-1a.svg)\n\n**Figure 1. Rate.** More.\n\n");
    }
}
