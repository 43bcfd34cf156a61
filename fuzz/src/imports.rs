//! Coverage-guided fuzzing of what reads other programs' files: job files, traces, histories and results.
//!
//! `readers.rs` has what is done with the bytes; a test of the command line compiles it, too (`fuzzed.rs`). `fuzz/run.sh` begins with the
//! files of the tests.

#![no_main]

mod readers;

libfuzzer_sys::fuzz_target!(|input: &[u8]| readers::read(input));
