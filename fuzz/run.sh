#!/usr/bin/env bash
# Builds the coverage-guided campaign with the stable compiler and runs it; arguments go to libFuzzer.
#
#   fuzz/run.sh -max_total_time=1800        fuzzes for half an hour; what it learns stays in fuzz/target/corpus
#   fuzz/run.sh fuzz/crash-...              repeats one input
#
# Needs a C++ compiler for libFuzzer. The coverage flags are those of cargo-fuzz, which need no nightly compiler as long
# as no sanitizer is asked for.
set -euo pipefail
cd "$(dirname "$0")"
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
 -Cllvm-args=-sanitizer-coverage-trace-compares --cfg=fuzzing -Ccodegen-units=1"
RUSTFLAGS="${RUSTFLAGS//$'\n'/}"
# A target of its own keeps the flags away from build scripts and macros.
target="$(rustc -vV | sed -n 's/^host: //p')"
cargo build --release --locked --target "$target"
mkdir -p target/corpus
if [[ " $* " == *" crash-"* || " $* " == *"/crash-"* ]]; then
    exec "target/$target/release/raidlab-fuzz" "$@"
fi
exec "target/$target/release/raidlab-fuzz" -max_len=512 -len_control=0 "$@" target/corpus
