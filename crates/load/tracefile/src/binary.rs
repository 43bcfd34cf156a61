//! Binary traces as text, while they are read.

use raidlab_trace::BinaryTrace;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};

/// Bytes that are read in one turn.
const TURN_BYTES: u64 = 256 << 10;

/// The text of `input`, and its form: of a binary trace, which its first bytes or `form` tell, the lines that say the same.
///
/// # Errors
/// What reading the first bytes fails with.
pub(crate) fn trace_text<'a>(
    mut input: impl BufRead + 'a,
    form: Option<BinaryTrace>,
) -> io::Result<(Box<dyn BufRead + 'a>, Option<BinaryTrace>)> {
    let form = match form {
        Some(form) => Some(form),
        None => BinaryTrace::detect(input.fill_buf()?),
    };
    let text: Box<dyn BufRead + 'a> = match form {
        Some(form) => {
            Box::new(BufReader::new(Lines { input, form, raw: Vec::new(), offset: 0, text: Vec::new() }))
        }
        None => Box::new(input),
    };
    Ok((text, form))
}

/// Lines of a binary trace.
struct Lines<R> {
    input: R,
    form: BinaryTrace,
    /// What was read and is not used up.
    raw: Vec<u8>,
    /// Where that is in the file.
    offset: u64,
    /// Lines that nobody has taken.
    text: Vec<u8>,
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.text.is_empty() {
            let bad = |offset: u64, what: &str| {
                Err(io::Error::new(ErrorKind::InvalidData, format!("{what} at byte {offset}")))
            };
            let count = (&mut self.input).take(TURN_BYTES).read_to_end(&mut self.raw)?;
            let mut lines = String::new();
            match self.form.lines(&self.raw, &mut lines) {
                Ok(used) => {
                    self.raw.drain(..used);
                    self.offset += used as u64;
                }
                Err(at) => return bad(self.offset + at as u64, "there is no event of blktrace"),
            }
            self.text = lines.into_bytes();
            if count == 0 && self.text.is_empty() {
                return if self.raw.is_empty() {
                    Ok(0)
                } else {
                    bad(self.offset, "the trace is cut off in the request")
                };
            }
        }
        let count = self.text.len().min(out.len());
        out[..count].copy_from_slice(&self.text[..count]);
        self.text.drain(..count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], form: Option<BinaryTrace>) -> io::Result<String> {
        let mut found = String::new();
        trace_text(bytes, form)?.0.read_to_string(&mut found).map(|_| found)
    }

    #[test]
    fn text_stays_and_binary_becomes_text() {
        assert_eq!(text(b"8,0 a line\n", None).expect("it can be read"), "8,0 a line\n");
        let request = [&7u32.to_le_bytes()[..], &1u64.to_le_bytes(), &512u32.to_le_bytes(), &[0; 8]].concat();
        let two = [&request[..], &request].concat();
        let oracle = Some(BinaryTrace::OracleGeneral);
        assert_eq!(text(&two, oracle).expect("it is whole"), "0,R,512,512,7000000\n".repeat(2));
        let error = text(&two[..30], oracle).expect_err("it is cut off").to_string();
        assert_eq!(error, "the trace is cut off in the request at byte 24");
    }
}
