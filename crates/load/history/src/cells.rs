//! Tables of text: lines of cells between separators, quoted where a cell holds one.

/// The cells of a line. A quote in a quoted cell is doubled.
pub(crate) fn cells(line: &str, separator: char) -> Vec<String> {
    let (mut list, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut rest = line.trim_end_matches(['\r', '\n']).chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if is_quoted && rest.peek() == Some(&'"') => cell.extend(rest.next()),
            '"' => is_quoted = !is_quoted,
            c if c == separator && !is_quoted => list.push(std::mem::take(&mut cell)),
            c => cell.push(c),
        }
    }
    list.push(cell);
    list
}

/// A number, with a comma or a point before its fraction; none of text. Thousands are not parted.
pub(crate) fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = text.parse::<f64>().ok();
    let comma = || {
        let is_decimal = text.matches(',').count() == 1 && !text.contains('.');
        is_decimal.then(|| text.replace(',', ".").parse::<f64>().ok()).flatten()
    };
    plain.or_else(comma).filter(|value| value.is_finite())
}

/// The part of `text` that an error shows.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(40).map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_separators() {
        assert_eq!(cells("a,\"b,\"\"c\"\"\",d\r\n", ','), ["a", "b,\"c\"", "d"]);
        assert_eq!(cells("", ','), [""]);
        assert_eq!(cells("a;;b", ';'), ["a", "", "b"]);
    }

    #[test]
    fn numbers_are_finite() {
        for (text, value) in
            [("1.5", Some(1.5)), (" 2,25 ", Some(2.25)), ("1,234.5", None), ("nan", None), ("", None)]
        {
            assert_eq!(number(text), value, "{text}");
        }
    }
}
