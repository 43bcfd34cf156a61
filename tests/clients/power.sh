#!/usr/bin/env bash
# Power cuts under writes: an array whose members are drives with a volatile cache, and everything dies at once.
#
#   power.sh [RAIDLAB]      the binary (target/release/raidlab)
#
# A drive is a file of nbdfuse over `nbdkit --filter=cache cache=writeback`: what was written lies in a file that nobody finds
# again, until a flush or FUA. A power cut is SIGKILL of the array and of all drives. Long I/O is done by threads of the kernel
# (--io-threads), short I/O by the array's own, so that a write and the flush that must cover it may be done by different ones.
# Verified, by kill.py, after each of $ROUNDS (6) cuts: every block holds a version that a flush or FUA of the client covered, or a
# later one, whole; the array starts.
# The same must fail with drives that lie about flushes: CACHE=unsafe.
# Needs root or fusermount. Left out: a cut of the machine's own power; block devices.
set -euo pipefail
. "$(dirname "$0")/served.sh"
here=$(cd "$OLDPWD" && cd "$(dirname "$0")" && pwd)
await_tries=200 iodepth=32
rounds=${ROUNDS:-6} count=4
ids=()
cut() {
    # All at once, so that nobody can write down what another has lost.
    kill -KILL "${ids[@]}" 2>/dev/null || true
    wait "${ids[@]}" 2>/dev/null || true
    ids=()
    for ((at = 0; at < count; at++)); do fusermount3 -uz "drive$at" 2>/dev/null || umount -l "drive$at" 2>/dev/null || true; done
}
clean_up() {
    cut
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# drives CACHE: puts them under power.
drives() {
    local at tries
    for ((at = 0; at < count; at++)); do
        rm -f "wire$at"
        nbdkit --foreground --unix "$work/wire$at" --filter=cache file "$work/platter$at" cache="$1" >"drive$at.log" 2>&1 &
        ids+=($!)
        tries=0
        until [[ -S wire$at ]]; do ((++tries < 200)) || fail "nbdkit: $(<"drive$at.log")"; sleep 0.02; done
        mkdir -p "drive$at"
        nbdfuse "drive$at/disk" "nbd+unix:///?socket=$work/wire$at" >>"drive$at.log" 2>&1 &
        ids+=($!)
        tries=0
        until [[ -f drive$at/disk ]]; do ((++tries < 200)) || fail "nbdfuse: $(<"drive$at.log")"; sleep 0.02; done
    done
}

serve() {
    "$RAIDLAB" array serve drive*/disk --socket nbd --control ./control --io-threads 2 >server.log 2>&1 &
    server=$!
    ids+=("$server")
    await_server
}

# cuts CACHE: rounds of writes and cuts. Returns 1 when something is lost.
cuts() {
    local at round writer
    rm -f model*
    for ((at = 0; at < count; at++)); do rm -f "platter$at" && truncate -s 40M "platter$at"; done
    drives "$1"
    array create m drive*/disk --level 5 --log-size 4MiB >/dev/null
    serve
    for ((round = 0; round <= rounds; round++)); do
        if ((round == rounds)); then
            /usr/bin/python3 "$here/kill.py" "nbd+unix:///m?socket=$work/nbd" "$work/model" "$round" last || return 1
            break
        fi
        /usr/bin/python3 "$here/kill.py" "nbd+unix:///m?socket=$work/nbd" "$work/model" "$round" 2>"writer$round.log" &
        writer=$!
        until [[ -e model.writing ]] || ! kill -0 "$writer" 2>/dev/null; do sleep 0.05; done
        sleep "0.$(printf %03d $((200 + RANDOM % 800)))"
        cut
        wait "$writer" || { tail -n 3 "writer$round.log" >&2 && return 1; }
        rm -f model.writing
        drives "$1"
        serve 2>/dev/null
    done
    array stop ./control >/dev/null && wait "$server"
    cut
}

cuts "${CACHE:-writeback}" || fail "something that a flush covered is lost"
writes=$(grep -ohP '\d+(?= writes)' writer*.log | paste -sd+ | bc)
((writes > 20 * rounds)) || fail "only $writes writes in $rounds rounds"
echo "power: $rounds cuts, $writes writes: nothing lost"
