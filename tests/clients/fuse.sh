#!/usr/bin/env bash
# An array whose members are files on FUSE: a write that is to be durable when it ends must be so in the server under it.
#
#   fuse.sh [RAIDLAB]      the binary (target/release/raidlab); needs root
#
# RAID 1 of two files, each an nbdfuse over an nbdkit that logs what reaches it. Linux sends FUSE no flush for an asynchronous
# direct write with RWF_DSYNC, so the array must send one of its own. Verified, of one write after the other: with FUA it ends
# when both servers have it and have flushed; without FUA no server flushes; with --disk-cache off every write is flushed. fio
# verifies the data. `measure --fua` by io_uring is refused there.
set -euo pipefail
# shellcheck source=tests/needs-root.sh
source "$(dirname "$0")/../needs-root.sh"
. "$(dirname "$0")/served.sh"
await_tries=200 iodepth=16
ids=() server=
clean_up() {
    [[ -z $server ]] || { kill -KILL "$server" && wait "$server"; } 2>/dev/null || true
    for name in a b c; do fusermount3 -uz "$work/$name.fuse" 2>/dev/null || true; done
    for id in "${ids[@]}"; do kill -KILL "$id" && wait "$id"; done 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# member NAME: a file of 64 MiB on FUSE, NAME.fuse/disk; what reaches its server is in NAME.log.
member() {
    local tries=0
    nbdkit --foreground --unix "$work/$1.nbd" --filter=log memory 64M logfile="$work/$1.log" >"$1.said" 2>&1 &
    ids+=($!)
    until [[ -S $1.nbd ]]; do ((++tries < 200)) || fail "nbdkit shows no socket: $(<"$1.said")"; sleep 0.05; done
    mkdir "$1.fuse"
    nbdfuse "$work/$1.fuse/disk" "nbd+unix:///?socket=$work/$1.nbd" >>"$1.said" 2>&1 &
    ids+=($!)
    until [[ -f $1.fuse/disk ]]; do ((++tries < 400)) || fail "nbdfuse shows no file: $(<"$1.said")"; sleep 0.05; done
    [[ $(stat -f -c %t "$1.fuse/disk") == 65735546 ]] || fail "$1.fuse is not on FUSE"
}
serve() {
    rm -f nbd control
    "$RAIDLAB" array serve a.fuse/disk b.fuse/disk --socket nbd --control ./control "$@" >server.log 2>&1 &
    server=$!
    await_server
}
stop() { array stop ./control >/dev/null && wait "$server" && server='' || fail "the stop"; }
# flushed FUA: writes 16 blocks one by one, with FUA (1) or without (0). Prints of how many of them each server had been sent a
# flush, and had ended it, when they ended.
flushed() {
    /usr/bin/python3 - "$work" "$1" <<'PYTHON'
import nbd, sys

work, fua = sys.argv[1], sys.argv[2] == "1"
logs = [open(f"{work}/{name}.log") for name in "ab"]
disk = nbd.NBD()
disk.connect_uri(f"nbd+unix:///m?socket={work}/nbd")
counts = [0, 0]
for log in logs:
    log.read()
for number in range(16):
    disk.pwrite(bytes([number + 1]) * 4096, number << 20, nbd.CMD_FLAG_FUA if fua else 0)
    for server, log in enumerate(logs):
        # A request is a line when it comes (" Write id=1 ...") and one when it ends ("...Write id=1 ...").
        lines = [line for line in log if "Write id=" in line or "Flush id=" in line]
        if not any("...Write id=" in line for line in lines):
            sys.exit(f"a write has ended that server {server} has not done: {lines}")
        counts[server] += "...Flush id=" in lines[-1]
print(*counts)
PYTHON
}
# expect WHAT COUNTS FUA
expect() {
    local got
    got=$(flushed "$3") || fail "$1: $got"
    [[ $got == "$2" ]] || fail "$1: of 16 writes the two servers had flushed $got, expected $2"
}

member a
member b
array create m a.fuse/disk b.fuse/disk --level 1 --metadata none --destroy-data={a,b}.fuse/disk >/dev/null
serve
await None "['scan']"
expect "writes without FUA" "0 0" 0
expect "writes with FUA" "16 16" 1
load plain --rw=randrw --bsrange=4k-64k --io_size=16m
stop
serve --disk-cache off
expect "writes past the members' caches" "16 16" 0
load durable --rw=randwrite --bs=8k --io_size=4m
array check ./control >/dev/null 2>&1 || fail "check"
stop
# Without an array nobody sends that flush: a measurement of such writes is refused, and shown the engine that can.
member c
measure() {
    "$RAIDLAB" measure c.fuse/disk --workload database --run 100ms --ramp 0s --destroy-data c.fuse/disk "$@" >measured 2>&1
}
! measure --fua || fail "measure --fua by io_uring was to be refused"
grep -q -- '--engine psync' measured || fail "no word of what to do: $(<measured)"
measure --fua --engine psync || fail "measure --fua by psync: $(<measured)"
measure || fail "measure: $(<measured)"
echo "fuse: an array of files on FUSE: each write that is to be durable is followed by a flush; all verified"
