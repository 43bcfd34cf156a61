#!/usr/bin/env bash
# Applies the diffs of docs/extending/ to a copy of the sources, builds it, and runs the tests that they bring.
#
#   extending.sh [--fit]    with --fit they are only applied
#
# Verified: all four apply, without an offset in what they change, and their tests pass together. Not verified: each on its own.
set -euo pipefail
cd "$(dirname "$0")/.."
copy=$PWD/target/extending/sources
rm -rf "$copy"
mkdir -p "$copy"
git ls-files -z -- . ':!docs' ':!tests' ':!bench' | tar --null --files-from=- --create | tar --extract --directory="$copy"
for name in level cache-policy write-log fault; do
    # The copy is not this repository's.
    GIT_CEILING_DIRECTORIES=${copy%/*} git -C "$copy" apply "$PWD/docs/extending/$name.diff" ||
        { echo "docs/extending/$name.diff does not fit: renew it" >&2; exit 1; }
done
[[ ${1:-} != --fit ]] || exit 0
# What is the same as outside is not built again.
export CARGO_TARGET_DIR=$PWD/target
run() { (cd "$copy" && cargo test --quiet --locked "$@"); }
run -p raidlab-raid --test layouts
run -p raidlab-controller --test member_io --test md_rules
run -p raidlab-torture --test level_10t
run -p raidlab-torture --test torture each_kind_of_fault
