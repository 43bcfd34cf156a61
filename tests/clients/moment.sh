#!/usr/bin/env bash
# Errors that last a moment: a degraded array whose other members answer reads with EIO for a while.
#
#   moment.sh [RAIDLAB]      the binary (target/release/raidlab)
#
# RAID 5 over three nbdkit servers under --filter=error, one failed, with block checksums and without. Verified: an outage shorter than
# the array tries again fails no read and lists no block; a longer one fails a read and lists its blocks, which come back by the next
# read, by `array recover`, and by a start; a block whose write failed meanwhile stays lost until it is written, and then
# `array recover` exits with 1.
set -euo pipefail
. "$(dirname "$0")/served.sh"
await_tries=200
servers=()
clean_up() {
    for id in "${servers[@]}"; do kill -KILL "$id" && wait "$id"; done 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# member NAME: starts an nbdkit whose reads fail while the file NAME.reads exists, and writes while NAME.writes does.
member() {
    local tries=0
    truncate -s 48M "$1.data"
    nbdkit --foreground --unix "$work/$1" --filter=error file "$1.data" error=EIO error-pread-rate=100% error-pread-file="$work/$1.reads" \
        error-pwrite-rate=100% error-pwrite-file="$work/$1.writes" >"$1.log" 2>&1 &
    servers+=($!)
    until [[ -S $1 ]]; do ((++tries < 200)) || fail "nbdkit shows no socket $1: $(<"$1.log")"; sleep 0.02; done
}
uri() { echo "nbd+unix:///?socket=$work/$1"; }
serve() {
    "$RAIDLAB" array serve "$(uri a)" "$(uri b)" "$(uri c)" --socket nbd --control ./control --history none >server.log 2>&1 &
    server=$!
    servers+=("$server")
    await_server
}
# io COMMAND: what qemu-io does with the volume; fails where the request fails.
io() {
    local said
    said=$(qemu-io -f raw -c "$1" "nbd+unix:///?socket=$work/nbd" 2>&1) && ! grep -qi 'error\|failed' <<<"$said"
}
listed() { array status ./control --json | python3 -c "import json, sys; print(sum(it['bad_blocks'] for it in json.load(sys.stdin)['arrays'][0]['devices']))"; }

for options in "" --integrity; do
    for name in a b c; do member $name; done
    named=()
    for name in a b c; do named+=(--destroy-data "$(uri $name)"); done
    # shellcheck disable=SC2086
    array create m "$(uri a)" "$(uri b)" "$(uri c)" --level 5 $options "${named[@]}" >said 2>&1 || fail "create: $(<said)"
    serve
    io "write -P 7 0 1M" || fail "a write"
    io flush || fail "a flush"
    await optimal "['condition']"
    array fail ./control 1 >/dev/null

    touch a.reads
    (sleep 0.25 && rm a.reads) &
    io "read -P 7 0 64k" || fail "a read in an outage that is short"
    wait $!
    [[ $(listed) == 0 ]] || fail "blocks are listed after an outage that is short"

    touch a.reads
    ! io "read -P 7 0 64k" || fail "a read succeeded in an outage"
    [[ $(listed) -gt 0 ]] || fail "no block is listed after an outage that is long"
    ! array recover ./control >said 2>&1 || fail "what can't be read came back: $(<said)"
    rm a.reads
    io "read -P 7 0 4k" || fail "a read after an outage"
    array recover ./control >said || fail "not all came back: $(array status ./control)"
    grep -q 'blocks came back' said || fail "it does not say what came back: $(<said)"
    [[ $(listed) == 0 ]] || fail "blocks are listed after all came back"
    io "read -P 7 0 1M" || fail "what came back is not what was written"

    # A start tries them, too.
    touch a.reads
    ! io "read -P 7 0 64k" || fail "a read succeeded in an outage"
    rm a.reads
    array stop ./control >/dev/null && wait "$server"
    serve
    sleep 1
    [[ $(listed) == 0 ]] || fail "blocks are listed after a start"
    io "read -P 7 0 1M" || fail "what came back is not what was written"

    # What could not be written is not there to come back.
    touch a.writes c.writes
    ! io "write -P 8 0 4k" || fail "a write succeeded in an outage"
    rm a.writes c.writes
    ! array recover ./control >said 2>&1 || fail "a block came back whose write had failed"
    array stop ./control >/dev/null && wait "$server"
    for id in "${servers[@]}"; do kill -KILL "$id" && wait "$id"; done 2>/dev/null || true
    servers=()
    rm -f ./*
done
echo "moment: ok"
