//! The text of parameter files: blocks of `key = value`, and lists.
//!
//! ```text
//! dm_disk SOME_model {                 a block: type, name, parameters
//!    Block count = 2050860,            a number; keys have blanks and signs in them
//!    Layout Model = dm_layout_g1 {     a block as a value, without a name
//!       slips = [ 468, 526 ]           a list
//!    },
//!    Model = source other.model        another file
//! } # a remark
//! ```
//!
//! Text outside of blocks (instantiations, topologies) does not describe a drive and is skipped. Nesting is limited, so
//! that no text can exhaust the stack.

/// Blocks within blocks that any drive needs, and some more.
const DEPTH_MAX: u32 = 32;

/// What a key is set to.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number, whole or not.
    Number(f64),
    /// Anything else that is not in brackets.
    Word(String),
    /// `[ a, b ]`.
    List(Vec<Value>),
    /// `type { ... }`.
    Block(Block),
    /// `source file`.
    Source(String),
}

/// `key = value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Its words, one blank apart.
    pub key: String,
    /// What it is set to.
    pub value: Value,
    /// Line of the key, the first being 1.
    pub line: u32,
}

/// `type name { ... }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// What it describes, `dm_disk`.
    pub kind: String,
    /// Its name, if it has one.
    pub name: String,
    /// What stands in it, in order.
    pub params: Vec<Param>,
    /// Line on which it begins, the first being 1.
    pub line: u32,
}

/// Why a text is no parameter file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntaxError {
    /// Something else should stand there.
    #[error("line {line}: expected {wanted}")]
    Expected {
        /// Where.
        line: u32,
        /// What.
        wanted: &'static str,
    },
    /// Blocks in blocks in blocks.
    #[error("line {line}: blocks and lists are nested too deeply")]
    TooDeep {
        /// Where.
        line: u32,
    },
}

/// The blocks of a file that stand in no other.
///
/// # Errors
/// [`SyntaxError`] with the line.
pub fn parse_blocks(text: &str) -> Result<Vec<Block>, SyntaxError> {
    let mut reader = Reader { rest: text, line: 1 };
    let mut blocks = Vec::new();
    loop {
        reader.skip_blanks();
        if reader.rest.is_empty() {
            return Ok(blocks);
        }
        if let Some((kind, name)) = reader.block_head() {
            blocks.push(reader.block(kind, name, 0)?);
        } else {
            reader.skip_token();
        }
    }
}

struct Reader<'a> {
    rest: &'a str,
    line: u32,
}

/// Whether a character can be part of a word.
fn is_word(c: char) -> bool {
    !c.is_whitespace() && !"{}[],=#".contains(c)
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        self.line += taken.matches('\n').count() as u32;
        self.rest = rest;
        taken
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let bytes = self.rest.find(|c| !accept(c)).unwrap_or(self.rest.len());
        self.take(bytes)
    }

    /// Passes over blanks, commas and remarks.
    fn skip_blanks(&mut self) {
        loop {
            self.take_while(|c| c.is_whitespace() || c == ',');
            if self.peek() != Some('#') {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    fn skip_token(&mut self) {
        if self.take_while(is_word).is_empty() {
            self.take(self.peek().map_or(0, char::len_utf8));
        }
    }

    fn eat(&mut self, wanted: char) -> bool {
        self.skip_blanks();
        let found = self.peek() == Some(wanted);
        if found {
            self.take(wanted.len_utf8());
        }
        found
    }

    /// `type {` or `type name {`, if that is what follows; the brace is taken, too.
    fn block_head(&mut self) -> Option<(String, String)> {
        let mut ahead = Reader { rest: self.rest, line: self.line };
        let kind = ahead.take_while(is_word);
        ahead.take_while(char::is_whitespace);
        let name = ahead.take_while(is_word);
        if kind.is_empty() || !ahead.eat('{') {
            return None;
        }
        (self.rest, self.line) = (ahead.rest, ahead.line);
        Some((kind.to_owned(), name.to_owned()))
    }

    fn block(&mut self, kind: String, name: String, depth: u32) -> Result<Block, SyntaxError> {
        let line = self.line;
        self.check_depth(depth)?;
        let mut params = Vec::new();
        loop {
            if self.eat('}') {
                return Ok(Block { kind, name, params, line });
            }
            let line = self.line;
            let key = self.take_while(|c| !"{}[],=#".contains(c));
            let key: Vec<&str> = key.split_whitespace().collect();
            if key.is_empty() || !self.eat('=') {
                return Err(self.expected("'key = value' or the closing brace of a block"));
            }
            let value = self.value(depth + 1)?;
            params.push(Param { key: key.join(" "), value, line });
        }
    }

    fn value(&mut self, depth: u32) -> Result<Value, SyntaxError> {
        self.check_depth(depth)?;
        if self.eat('[') {
            let mut values = Vec::new();
            while !self.eat(']') {
                values.push(self.value(depth + 1)?);
            }
            return Ok(Value::List(values));
        }
        if let Some((kind, name)) = self.block_head() {
            return Ok(Value::Block(self.block(kind, name, depth + 1)?));
        }
        let word = self.take_while(is_word);
        if word.is_empty() {
            return Err(self.expected("a value"));
        }
        if word == "source" {
            self.skip_blanks();
            let file = self.take_while(is_word);
            return if file.is_empty() {
                Err(self.expected("a file"))
            } else {
                Ok(Value::Source(file.into()))
            };
        }
        let number = word.parse().ok().filter(|number: &f64| number.is_finite());
        Ok(number.map_or_else(|| Value::Word(word.to_owned()), Value::Number))
    }

    fn check_depth(&self, depth: u32) -> Result<(), SyntaxError> {
        if depth > DEPTH_MAX { Err(SyntaxError::TooDeep { line: self.line }) } else { Ok(()) }
    }

    fn expected(&self, wanted: &'static str) -> SyntaxError {
        SyntaxError::Expected { line: self.line, wanted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn blocks_lists_and_remarks_are_read() {
        let text = "# remark\ninstantiate [ a ] as B\ntopology x y [ z q [] ]\nkind the-name {\n  Low (write) mark = 0.5, # more\n\
                    # Old = [ 1,\n  Zones = [ zone { A = 1 }, zone { A = -2e1 } ], Model = source a_b.model,\n  Word = x.seek }\n";
        let blocks = parse_blocks(text).expect("sound");
        assert_eq!(blocks.len(), 1);
        let block = &blocks[0];
        assert_eq!((block.kind.as_str(), block.name.as_str(), block.line), ("kind", "the-name", 4));
        assert_eq!(block.params[0].key, "Low (write) mark");
        assert_eq!((&block.params[0].value, block.params[0].line), (&Value::Number(0.5), 5));
        let Value::List(zones) = &block.params[1].value else { panic!("a list") };
        let Value::Block(second) = &zones[1] else { panic!("a block") };
        assert_eq!(second.params[0].value, Value::Number(-20.0));
        assert_eq!(block.params[2].value, Value::Source("a_b.model".into()));
        assert_eq!(block.params[3].value, Value::Word("x.seek".into()));
    }

    #[test]
    fn faults_are_named_with_their_line() {
        let rows =
            [("a {\n b = 1,\n c }", 3), ("a {\n b = [ 1, 2", 2), ("a { b = source }", 1), ("a {\n\n", 3)];
        for (text, wanted) in rows {
            let Err(SyntaxError::Expected { line, .. }) = parse_blocks(text) else {
                panic!("{text} is wrong")
            };
            assert_eq!(line, wanted, "{text}");
        }
        let deep = format!("a {{ b = {} }}", "[".repeat(1000));
        assert_eq!(parse_blocks(&deep), Err(SyntaxError::TooDeep { line: 1 }));
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "(a |b|\\{|\\}|\\[|\\]|=|,|#|\n|source |1|-|é){0,60}") {
            let _ = parse_blocks(&text);
        }
    }
}
