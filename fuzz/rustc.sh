#!/usr/bin/env bash
# Compiles as told, with counters in the crates that COUNTED names: what the rest does would only be noise.
set -euo pipefail
flags=(-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table)
while read -r crate; do
    [[ " $* " == *" --crate-name $crate "* ]] && exec "$@" "${flags[@]}" -Ccodegen-units=1
done < <(tr ' ' '\n' <<<"$COUNTED")
exec "$@"
