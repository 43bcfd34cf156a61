#!/usr/bin/env bash
# Builds a coverage-guided campaign with the stable compiler and runs it; arguments go to libFuzzer.
#
#   fuzz/run.sh format -max_total_time=1800     fuzzes the on-disk format for half an hour
#   fuzz/run.sh nbd -max_total_time=1800        fuzzes the NBD protocol
#   fuzz/run.sh imports -max_total_time=600     fuzzes what reads others' files, from those of the tests on
#   fuzz/run.sh torture -max_total_time=1800    tortures the controller (docs/torture.md), from the stored plans on
#   fuzz/run.sh torture store                   stores the fewest plans that reach what was reached so far
#   fuzz/run.sh nbd fuzz/crash-...              repeats one input
#
# What is learnt stays in fuzz/target/corpus-*. Needs a C++ compiler for libFuzzer. The coverage flags are those of
# cargo-fuzz, which need no nightly compiler as long as no sanitizer is asked for.
set -euo pipefail
what="${1:-}"
if [[ "$what" != format && "$what" != nbd && "$what" != torture && "$what" != imports ]]; then
    echo "usage: fuzz/run.sh format|nbd|torture|imports [libFuzzer arguments]" >&2
    exit 2
fi
shift
cd "$(dirname "$0")"
# A target of its own keeps the flags away from build scripts and macros.
target="$(rustc -vV | sed -n 's/^host: //p')"
build=(cargo build --release --locked --target "$target" --bin "raidlab-fuzz-$what")
built="target/$target/release"
lengths=(-max_len=512 -len_control=0)
if [[ "$what" == torture ]]; then
    # Only the controller's decisions count, and comparisons tell a mutator of plans nothing.
    export RUSTC_WRAPPER="$PWD/rustc.sh" COUNTED="raidlab_controller raidlab_format"
    build+=(--target-dir target/torture)
    built="target/torture/$target/release"
    lengths=(-max_len=8192 -len_control=0)
else
    export RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
     -Cllvm-args=-sanitizer-coverage-trace-compares --cfg=fuzzing -Ccodegen-units=1"
    RUSTFLAGS="${RUSTFLAGS//$'\n'/}"
fi
"${build[@]}"
fuzzer="$built/raidlab-fuzz-$what"
corpus="target/corpus-$what"
mkdir -p "$corpus"
if [[ " $* " == *" crash-"* || " $* " == *"/crash-"* ]]; then
    exec "$fuzzer" "$@"
fi
if [[ "$what" == imports ]]; then
    # Each file for each reader: the first byte chooses it.
    lengths=(-max_len=8192)
    for file in ../crates/load/history/tests/data/* ../crates/lab/report/tests/data/*; do
        # Each reader, and that of results for each family of tools.
        for reader in 00 01 02 03 04 05 0b 11 17; do
            printf "\\x$reader" | cat - "$file" >"$corpus/stored-$reader-$(basename "$file")"
        done
    done
fi
[[ "$what" == torture ]] || exec "$fuzzer" "${lengths[@]}" "$@" "$corpus"

# A campaign begins with the stored plans, each in a file of its own.
stored=../crates/array/torture/tests/torture/corpus.toml
awk -v to="$corpus/stored-" '/^\[\[plan\]\]/ { close(file); file = to (++n); print "schema = 1\n" > file }
    file { print > file }' "$stored"
[[ "${1:-}" == store ]] || exec "$fuzzer" "${lengths[@]}" "$@" "$corpus"
fewest=target/fewest-torture
rm -rf "$fewest"
mkdir "$fewest"
"$fuzzer" "${lengths[@]}" -use_counters=0 -merge=1 "$fewest" "$corpus"
{
    echo "# The fewest plans that reach what a guided campaign reached, replayed by tests. Renewed by: fuzz/run.sh torture store"
    echo "schema = 1"
    for plan in "$fewest"/*; do tail -n +2 "$plan"; done
} >"$stored"
