//! Coverage-guided fuzzing of what reads other programs' files: job files, traces and histories.
//!
//! `readers.rs` has what is done with the bytes; a test of the command line compiles it, too (`fuzzed.rs`). `fuzz/run.sh` begins with the
//! files of the tests. Left out: results, whose crate draws pictures and is long to build; its tests damage them at random.

#![no_main]

mod readers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| readers::read(input));
