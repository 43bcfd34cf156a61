#!/usr/bin/env bash
# Builds a coverage-guided campaign with the stable compiler and runs it; arguments go to libFuzzer.
#
#   fuzz/run.sh format -max_total_time=1800     fuzzes the on-disk format for half an hour
#   fuzz/run.sh nbd -max_total_time=1800        fuzzes the NBD protocol
#   fuzz/run.sh nbd fuzz/crash-...              repeats one input
#
# What is learnt stays in fuzz/target/corpus-*. Needs a C++ compiler for libFuzzer. The coverage flags are those of
# cargo-fuzz, which need no nightly compiler as long as no sanitizer is asked for.
set -euo pipefail
what="${1:-}"
if [[ "$what" != format && "$what" != nbd ]]; then
    echo "usage: fuzz/run.sh format|nbd [libFuzzer arguments]" >&2
    exit 2
fi
shift
cd "$(dirname "$0")"
export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
 -Cllvm-args=-sanitizer-coverage-trace-compares --cfg=fuzzing -Ccodegen-units=1"
RUSTFLAGS="${RUSTFLAGS//$'\n'/}"
# A target of its own keeps the flags away from build scripts and macros.
target="$(rustc -vV | sed -n 's/^host: //p')"
cargo build --release --locked --target "$target" --bin "raidlab-fuzz-$what"
corpus="target/corpus-$what"
mkdir -p "$corpus"
if [[ " $* " == *" crash-"* || " $* " == *"/crash-"* ]]; then
    exec "target/$target/release/raidlab-fuzz-$what" "$@"
fi
exec "target/$target/release/raidlab-fuzz-$what" -max_len=512 -len_control=0 "$@" "$corpus"
