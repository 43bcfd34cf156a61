//! Text of other programs, whatever it is packed in: gzip and zstd are unpacked, UTF-16 becomes UTF-8.
//!
//! ```text
//! bytes ─► gzip, zstd ─► UTF-16 ─► UTF-8        each only where the first bytes say so
//! ```
//! Left out: archives of several files, and packed texts within packed texts.

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

/// What a file begins with that gzip wrote.
const GZIP: &[u8] = &[0x1f, 0x8b];
/// What a file begins with that zstd wrote.
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The text that is in `input`, unpacked as it is read.
///
/// # Errors
/// What reading the first bytes fails with.
pub fn as_text<'a>(mut input: impl BufRead + 'a) -> io::Result<Box<dyn BufRead + 'a>> {
    let first = input.fill_buf()?;
    let (is_gzip, is_zstd) = (first.starts_with(GZIP), first.starts_with(ZSTD));
    if !is_gzip && !is_zstd {
        return in_utf_8(Box::new(input));
    }
    let seen = Rc::new(Seen::default());
    let input = Counted { input, seen: Rc::clone(&seen) };
    let (form, reader): (_, Box<dyn Read + 'a>) = if is_gzip {
        ("gzip", Box::new(MultiGzDecoder::new(input)))
    } else {
        ("zstd", Box::new(Zstd { frame: None, input: Some(input) }))
    };
    in_utf_8(Box::new(BufReader::new(Unpacked { reader, form, seen })))
}

/// What was seen of a packed file.
#[derive(Default)]
struct Seen {
    bytes: Cell<u64>,
    has_ended: Cell<bool>,
    has_failed: Cell<bool>,
}

/// A packed file, counted as it is read.
struct Counted<R> {
    input: R,
    seen: Rc<Seen>,
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let filled = self.input.fill_buf();
        self.seen.has_failed.set(filled.is_err());
        self.seen.has_ended.set(filled.as_ref().is_ok_and(|bytes| bytes.is_empty()));
        filled
    }

    fn consume(&mut self, count: usize) {
        self.seen.bytes.set(self.seen.bytes.get() + count as u64);
        self.input.consume(count);
    }
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let filled = self.fill_buf()?;
        let count = filled.len().min(out.len());
        out[..count].copy_from_slice(&filled[..count]);
        self.consume(count);
        Ok(count)
    }
}

/// What is unpacked of a file; of one that is not whole an error that says where.
struct Unpacked<'a> {
    reader: Box<dyn Read + 'a>,
    form: &'static str,
    seen: Rc<Seen>,
}

impl Read for Unpacked<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.reader.read(out).map_err(|error| {
            let (form, at) = (self.form, self.seen.bytes.get());
            if self.seen.has_failed.get() {
                error
            } else if self.seen.has_ended.get() {
                let problem =
                    format!("its {form} data is cut off: the file ends at byte {at}, in the middle of it");
                io::Error::new(io::ErrorKind::UnexpectedEof, problem)
            } else {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("its {form} data is damaged before byte {at}"),
                )
            }
        })
    }
}

fn in_utf_8<'a>(mut input: Box<dyn BufRead + 'a>) -> io::Result<Box<dyn BufRead + 'a>> {
    let is_big = match input.fill_buf()? {
        // Without a mark, two plain letters tell.
        [0xff, 0xfe, ..] | [1..=127, 0, 1..=127, 0, ..] => false,
        [0xfe, 0xff, ..] | [0, 1..=127, 0, 1..=127, ..] => true,
        _ => return Ok(input),
    };
    Ok(Box::new(BufReader::new(Utf16 { input, is_big, high: None, ready: Vec::new() })))
}

/// The frames of a file of zstd, one after the other.
struct Zstd<R: BufRead> {
    frame: Option<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>,
    /// Between two frames.
    input: Option<R>,
}

impl<R: BufRead> Read for Zstd<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(mut input) = self.input.take() {
                if input.fill_buf()?.is_empty() {
                    self.input = Some(input);
                    return Ok(0);
                }
                let bad = |error| io::Error::new(io::ErrorKind::InvalidData, format!("zstd: {error}"));
                self.frame = Some(StreamingDecoder::new(input).map_err(bad)?);
            }
            let Some(frame) = &mut self.frame else { return Ok(0) };
            let count = frame.read(out)?;
            if count > 0 || out.is_empty() {
                return Ok(count);
            }
            self.input = self.frame.take().map(StreamingDecoder::into_inner);
        }
    }
}

/// UTF-16 as UTF-8; what is no character becomes the mark for that.
struct Utf16<R> {
    input: R,
    is_big: bool,
    /// The first half of a pair.
    high: Option<u16>,
    ready: Vec<u8>,
}

impl<R: BufRead> Utf16<R> {
    fn push(&mut self, unit: u16) {
        let units = self.high.take().into_iter().chain([unit]);
        let is_high = (0xd800..0xdc00).contains(&unit);
        let whole: Vec<u16> = units.take_while(|it| !(is_high && *it == unit)).collect();
        self.high = is_high.then_some(unit);
        for c in char::decode_utf16(whole).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)) {
            self.ready.extend(c.encode_utf8(&mut [0; 4]).bytes());
        }
    }
}

impl<R: BufRead> Read for Utf16<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.ready.len() < out.len().min(1024) {
            let mut pair = Vec::with_capacity(2);
            if (&mut self.input).take(2).read_to_end(&mut pair)? == 0 {
                break;
            }
            let [one, two] = [pair[0], pair.get(1).copied().unwrap_or(0)];
            self.push(if self.is_big {
                u16::from_be_bytes([one, two])
            } else {
                u16::from_le_bytes([one, two])
            });
        }
        let count = self.ready.len().min(out.len());
        out[..count].copy_from_slice(&self.ready[..count]);
        self.ready.drain(..count);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn read(bytes: &[u8]) -> String {
        let mut text = String::new();
        as_text(bytes).unwrap().read_to_string(&mut text).unwrap();
        text
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn utf_16(text: &str, is_big: bool, mark: bool) -> Vec<u8> {
        let units = mark.then_some(0xfeff).into_iter().chain(text.encode_utf16());
        units.flat_map(|unit: u16| if is_big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
    }

    #[test]
    fn what_is_packed_is_unpacked() {
        let text = "0,2048,4096,w,0.0\n".repeat(5000);
        let parts = [gzip(text.as_bytes()), gzip(b"end")].concat();
        assert_eq!(read(&parts), format!("{text}end"), "files of gzip may be put together");
        let zstd =
            ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest);
        assert_eq!(read(&[&zstd[..], &zstd[..]].concat()), text.repeat(2));
        assert_eq!(read(text.as_bytes()), text);
        assert_eq!(read(b""), "");
    }

    #[test]
    fn utf_16_is_read_in_both_orders() {
        let text = "'Version\r\n1.1.0 \u{1f600}é\r\n".repeat(300);
        for (is_big, mark) in [(false, true), (true, true), (false, false), (true, false)] {
            let found = read(&utf_16(&text, is_big, mark));
            assert_eq!(found.trim_start_matches('\u{feff}'), text, "{is_big} {mark}");
        }
        assert_eq!(read(&gzip(&utf_16("ab", false, true))), "\u{feff}ab");
        assert_eq!(read(&[0xff, 0xfe, 0, 0xd8, b'a', 0]), "\u{feff}\u{fffd}a", "half of a pair");
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        let whole = gzip(b"some text that is long enough");
        let mut text = Vec::new();
        let said = |packed: &[u8], text: &mut Vec<u8>| {
            as_text(packed)
                .and_then(|mut input| input.read_to_end(text))
                .expect_err("it is cut off")
                .to_string()
        };
        let length = whole.len() - 9;
        let told = |form: &str, at: usize| {
            format!("its {form} data is cut off: the file ends at byte {at}, in the middle of it")
        };
        assert_eq!(said(&whole[..length], &mut text), told("gzip", length));
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zstd = ruzstd::encoding::compress_to_vec(&b"0,2048,4096,w,0.0\n".repeat(500)[..], level);
        for length in [4, zstd.len() / 2, zstd.len() - 1] {
            assert_eq!(said(&zstd[..length], &mut text), told("zstd", length));
        }
        let damaged = [ZSTD, &[0xff; 40]].concat();
        assert!(
            said(&damaged, &mut text).starts_with("its zstd data is damaged before byte "),
            "{}",
            said(&damaged, &mut text)
        );
    }

    #[test]
    fn damage_is_an_error_or_another_text() {
        let text = "0,2048,4096,w,0.000000\n0,4096,512,R,0.010000\n".repeat(20);
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        let zstd = ruzstd::encoding::compress_to_vec(text.as_bytes(), level);
        for packed in [gzip(text.as_bytes()), zstd, utf_16(&text, true, true)] {
            let mut opened = 0;
            for (at, bits) in (0..packed.len()).flat_map(|at| [(at, 1), (at, 0x80), (at, 0xff)]) {
                let mut damaged = packed.clone();
                damaged[at] ^= bits;
                if let Ok(input) = as_text(&damaged[..]) {
                    // It ends, in whichever way.
                    drop(input.take(1 << 16).read_to_end(&mut Vec::new()));
                    opened += 1;
                }
            }
            assert!(opened > 50, "{opened} damaged texts were opened");
        }
    }
}
