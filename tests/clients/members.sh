#!/usr/bin/env bash
# An array whose members are NBD servers that raidlab's authors did not write: nbdkit, with its filters under the array.
#
#   members.sh [RAIDLAB]      the binary (target/release/raidlab)
#
# RAID 5 over three `nbdkit memory`, one under --filter=error, whose errors a file switches on, and --filter=delay, later one
# under --filter=delay alone and one on TCP. Verified, each with fio's crc32c and no failed request: plain service; reads that fail at random, after which the
# member is still there and a check finds nothing; a server killed in mid load, and a rebuild onto another; a server that is
# stopped (SIGSTOP) and counted lost after --member-timeout, refused while it might still do what it was sent, and taken again
# after that; a start with the members in another order; what create refuses.
# Left out: rates.
set -euo pipefail
. "$(dirname "$0")/served.sh"
await_tries=200 iodepth=32
servers=()
clean_up() {
    # Both: one that is stopped hears of its end only then.
    for id in "${servers[@]}"; do kill -KILL "$id" && wait "$id"; done 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# member NAME WORD...: starts an nbdkit on the socket NAME, its process left in $NAME_id.
member() {
    local name=$1 tries=0
    shift
    nbdkit --foreground --unix "$work/$name" "$@" >"$name.log" 2>&1 &
    servers+=($!)
    printf -v "${name}_id" %s $!
    until [[ -S $name ]]; do ((++tries < 200)) || fail "nbdkit shows no socket $name: $(<"$name.log")"; sleep 0.02; done
}

uri() { echo "nbd+unix:///?socket=$work/$1"; }
serve() {
    "$RAIDLAB" array serve "$@" --socket nbd --control ./control --member-timeout 3s >server.log 2>&1 &
    server=$!
    servers+=("$server")
    await_server
}
stop() { array stop ./control >/dev/null && wait "$server"; }

size=64M
member a memory $size
member b --filter=error --filter=delay memory $size error-pread-rate=3% error-file="$work/errors" rdelay=1ms wdelay=1ms
# One thread in the one that is to be stopped: nbdkit 1.32 may abort when a client goes that it owes several replies.
member c --threads 1 memory $size
member d memory $size
member e --filter=delay memory $size delay-read=2ms
# The kernel's choice of a port that is free now.
port=$(python3 -c 'import socket; it = socket.socket(); it.bind(("127.0.0.1", 0)); print(it.getsockname()[1])')
nbdkit --foreground --ipaddr 127.0.0.1 --port "$port" memory $size >tcp.log 2>&1 &
servers+=($!)
named=()
for name in a b c; do named+=(--destroy-data "$(uri $name)"); done
array create m "$(uri a)" "$(uri b)" "$(uri c)" --level 5 "${named[@]}" >/dev/null

# What holds data, or can't be written, is refused and says what would help.
refused() {
    local word=$1
    shift
    ! array create x "$@" --level 5 >refused 2>&1 || fail "this was to be refused ($word): $*"
    grep -q -- "$word" refused || fail "no word of $word: $(<refused)"
}
member r --readonly memory $size
member f --filter=offset data ' @0x10438 0x53 0xef ' size=64M offset=64K range=60M
refused --destroy-data "$(uri a)" "$(uri d)" "$(uri e)"
refused read-only "$(uri r)" "$(uri d)" "$(uri e)"
refused ':ext' "$(uri f)" "$(uri d)" "$(uri e)"
refused TLS "nbds://localhost/" "$(uri d)" "$(uri e)"
refused connect "nbd+unix:///?socket=$work/nobody" "$(uri d)" "$(uri e)"

serve "$(uri c)" "$(uri a)" "$(uri b)"
load plain --rw=randrw --bsrange=4k-64k --io_size=32m
await None "['scan']"

# Reads of one member fail at random: nobody notices, and it stays.
touch errors
load errors --rw=randrw --bs=4k --io_size=12m
rm errors
[[ $(field "['devices'][1]['errors']") -gt 0 ]] || fail "the error filter did nothing"
[[ $(field "['devices'][1]['state']") == in-sync ]] || fail "a member that fails some requests is gone: $(array status ./control)"
array check ./control --repair >/dev/null 2>&1 || fail "repair after errors"
array check ./control >/dev/null 2>&1 || fail "check after the repair"

# One is killed in mid load; another takes its place under load.
load killed --rw=randwrite --bs=8k --io_size=24m &
writer=$!
sleep 0.3
kill -KILL "$a_id" && disown "$a_id"
await degraded "['condition']"
wait "$writer" || exit 1
load degraded --rw=randrw --bs=16k --io_size=16m &
writer=$!
array replace ./control "$(uri a)" "nbd://127.0.0.1:$port/" --destroy-data "nbd://127.0.0.1:$port/" >/dev/null
array rebuild ./control >/dev/null 2>&1
wait "$writer" || exit 1
await optimal "['condition']"
array check ./control >/dev/null 2>&1 || fail "check after the rebuild"

# One is silent: it is counted lost after the limit, and clients go on.
kill -STOP "$c_id"
began=${EPOCHREALTIME/./}
load silent --rw=randwrite --bs=8k --io_size=8m
took=$(((${EPOCHREALTIME/./} - began) / 1000))
await degraded "['condition']"
((took > 2500)) || fail "a silent member was not waited for ($took ms)"
replace() { array replace ./control 2 "$(uri "$1")" --destroy-data "$(uri "$1")" >said 2>&1; }
! replace c || fail "a server was taken again that has writes of a broken connection before it"
grep -q 'has not answered' said || fail "it was refused, but not for that: $(<said)"
array replace ./control 2 "$(uri e)" --destroy-data "$(uri e)" >/dev/null
array rebuild ./control >/dev/null 2>&1
array check ./control >/dev/null 2>&1 || fail "check after the second rebuild"

# It wakes, does what it was sent, and ends the connection; then it is as good as any other.
kill -CONT "$c_id"
array fail ./control 2 >/dev/null
tries=0
until replace c; do ((++tries < 100)) || fail "it is never taken again: $(<said)"; sleep 0.05; done
array rebuild ./control >/dev/null 2>&1
load returned --rw=randrw --bs=8k --io_size=8m
array check ./control >/dev/null 2>&1 || fail "check after the one that was silent came back"
array fail ./control 2 >/dev/null
replace e || fail "$(<said)"
array rebuild ./control >/dev/null 2>&1
load last --rw=randrw --bs=32k --io_size=16m
stop || fail "the stop"

# The one that was silent is stale by now, and is left out.
array assemble "$(uri b)" "$(uri c)" "nbd://127.0.0.1:$port/" "$(uri e)" >found || fail "assemble"
grep -q stale found && grep -q '^  clean, ' found || fail "assemble says: $(<found)"
serve "$(uri e)" "$(uri c)" "nbd://127.0.0.1:$port/" "$(uri b)"
await optimal "['condition']"
load again --rw=randread --bs=64k --io_size=16m --do_verify=0 --verify=0
stop || fail "the second stop"
echo "members: an array over nbdkit's filters: errors, a kill, silence, two rebuilds; all verified"
