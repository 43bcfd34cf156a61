# shellcheck shell=bash
# What the scripts share that make arrays of their own and serve them: members.sh and devices.sh. A script is called with the
# binary, or has it in $RAIDLAB; sourced, this makes a scratch folder ($work) and goes there. The array's control socket is
# ./control and its NBD socket ./nbd. A script sets `await_tries` (of 50 ms) and `iodepth`, and cleans up.
client=$(basename "$0" .sh)
RAIDLAB=$(realpath "${1:-${RAIDLAB:-$(dirname "$0")/../../target/release/raidlab}}")
work=$(mktemp -d "${TMPDIR:-/tmp}/raidlab-$client.XXXXXX")
# The histories of its arrays go away with it.
export STATE_DIRECTORY=$work/state
cd "$work"

fail() {
    echo "$client: FAILED: $*" >&2
    tail -n 5 server.log >&2 2>/dev/null || true
    exit 1
}

array() { "$RAIDLAB" array "$@"; }
# field PATH: a value of the array's status, by its place in the JSON.
field() { array status ./control --json | python3 -c "import json, sys; print(json.load(sys.stdin)['arrays'][0]$1)"; }
# await TEXT PATH: waits until a value of the status is this.
await() {
    local tries=0
    until [[ $(field "$2") == "$1" ]]; do
        ((++tries < await_tries)) || fail "$2 is never $1 but $(field "$2")"
        sleep 0.05
    done
}
# load NAME OPTION...: a job of fio whose every block is verified.
load() {
    local name=$1
    shift
    fio --name="$name" --ioengine=nbd --uri="nbd+unix:///m?socket=$work/nbd" --size=48m --iodepth="$iodepth" --verify=crc32c \
        --do_verify=1 --verify_fatal=1 --verify_state_save=0 --randseed=2026 --allrandrepeat=1 "$@" >"$name.fio" 2>&1 ||
        { tail -n 15 "$name.fio" >&2 && fail "fio ($name)"; }
}
# await_server: waits until the server in $server answers its operators.
await_server() {
    local tries=0
    # 4 and 5 are of arrays that are not optimal.
    until array status ./control >/dev/null 2>&1 || (($? >= 4)); do
        kill -0 "$server" 2>/dev/null && ((++tries < 200)) || fail "the array is not served"
        sleep 0.05
    done
}
