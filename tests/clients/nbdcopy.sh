#!/usr/bin/env bash
# nbdcopy: the whole export is written and read back, over one connection and over four, and digests are compared.
#
# Verified: in and out, with and without extents, a second write over the first, a file that ends within a block. Left out: resuming, export to export.
# shellcheck source=tests/clients/common.sh
source "$(dirname "$0")/common.sh"
bytes=$(export_bytes)
for round in 1 2; do
    random_file "$work/in" "$bytes"
    want=$(digest "$work/in")
    if ((round == 1)); then
        quietly nbdcopy --flush --connections=4 --requests=32 "$work/in" "$uri"
    else
        quietly nbdcopy --flush --connections=1 --request-size=65536 --allocated "$work/in" "$uri"
    fi
    member_step fail "$( ((round == 2)) || echo "${FAIL_MEMBER:-}")"
    rm "$work/in"
    for options in --connections=4 "$( ((round == 1)) && echo --connections=1 || echo --no-extents)"; do
        rm -f "$work/out"
        quietly nbdcopy "$options" "$uri" "$work/out"
        got=$(digest "$work/out")
        [[ $got == "$want" ]] || fail "round $round, $options: digest $got, not $want"
    done
    ((round == 2)) || rm "$work/out"
    ((round == 2)) || { member_step replace "${REPLACE_MEMBER:-}" && member_step rebuild "${REBUILD_MEMBER:-}"; }
done
# A file that ends within a block: it is there, and what is behind it stays.
odd=$(((5 << 20) + 777))
random_file "$work/in" $odd
quietly nbdcopy --flush "$work/in" "$uri"
quietly nbdcopy "$uri" "$work/after"
cmp --bytes=$odd "$work/in" "$work/after" || fail "a file of $odd bytes is not there"
cmp --ignore-initial=$odd "$work/out" "$work/after" || fail "what is behind a file of $odd bytes was changed"
