# shellcheck shell=bash
# What the scripts of this folder share: complaints, a scratch folder, clean-up on every exit, the export as a block device.
#
# A script gets the export's NBD URI as its first argument and may destroy what is on it. It exits 0 only if all that it
# looked at was right; else it says what differed. Members are failed and mended by commands in the environment, run by
# `bash -c`: FAIL_MEMBER, REPLACE_MEMBER and REBUILD_MEMBER, each of which returns when its step is done (the rebuild:
# when redundancy is back). Where they are unset those steps are left out.
# postgres.sh starts the server itself, by SERVER_COMMAND, and kills it.
# Left out: making the array, which is the caller's.
set -euo pipefail
export LC_ALL=C
client=$(basename "$0" .sh)
# Debian's Python, the one that has libnbd's binding; another may come first in PATH.
# shellcheck disable=SC2034
python=/usr/bin/python3
uri=${1:-}
[[ -n $uri ]] || { echo "usage: $0 NBD-URI" >&2 && exit 2; }

fail() {
    echo "$client: FAILED: $*" >&2
    exit 1
}

# Runs a command; its output is shown only if it fails.
quietly() {
    "$@" >"$work/said" 2>&1 || { tail -n 20 "$work/said" >&2 && fail "'$*' ended with an error"; }
}

# The clean-up of what on_exit was given, the last first.
clean_ups=()
on_exit() { clean_ups=("$*" "${clean_ups[@]}"); }
clean_up() {
    local status=$? step
    trap - EXIT
    set +e
    for step in "${clean_ups[@]}"; do eval "$step" >/dev/null 2>&1; done
    exit "$status"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

work=$(mktemp -d "${TMPDIR:-/tmp}/raidlab-clients.XXXXXX")
on_exit "rm -rf '$work'"

export_bytes() { nbdinfo --size "$uri" || fail "no size can be had from $uri"; }

# random_file PATH BYTES: noise with a hole of zeros in its middle third, so that both paths of a copy are taken.
random_file() {
    local third=$(($2 / 3 / 65536 * 65536))
    truncate -s "$2" "$1"
    head -c "$third" /dev/urandom | dd of="$1" conv=notrunc iflag=fullblock bs=1M status=none
    head -c "$(($2 - 2 * third))" /dev/urandom |
        dd of="$1" conv=notrunc iflag=fullblock bs=64K seek=$((2 * third / 65536)) status=none
}

digest() { b2sum "$1" | cut -d' ' -f1; }

# member_step NAME COMMAND: fails, replaces or rebuilds a member, if the caller said how.
member_step() {
    [[ -n $2 ]] || return 0
    bash -c "$2" >"$work/member" 2>&1 || { cat "$work/member" >&2 && fail "the step '$1' ended with an error: $2"; }
}

# attach: serves the export as a file (nbdfuse) and that as a loop device, left in $device. detach undoes it.
device=''
nbdfuse_id=''
attach() {
    mkdir -p "$work/nbd"
    nbdfuse "$work/nbd/export" "$uri" >"$work/nbdfuse.log" 2>&1 &
    nbdfuse_id=$!
    # Some releases abort when the server dies; bash need not tell.
    disown "$nbdfuse_id"
    local tries=0
    until [[ -f $work/nbd/export ]]; do
        kill -0 "$nbdfuse_id" 2>/dev/null || { cat "$work/nbdfuse.log" >&2 && fail "nbdfuse ended"; }
        ((++tries < 200)) || fail "nbdfuse shows no file"
        sleep 0.05
    done
    device=$(losetup --find --show --sector-size 512 "$work/nbd/export") || fail "losetup"
}

detach() {
    [[ -z $device ]] || losetup --detach "$device" || true
    device=''
    fusermount3 -u "$work/nbd" 2>/dev/null || fusermount3 -uz "$work/nbd" 2>/dev/null || true
    [[ -z $nbdfuse_id ]] || timeout 20 tail --pid="$nbdfuse_id" -f /dev/null || kill -KILL "$nbdfuse_id" 2>/dev/null || true
    nbdfuse_id=''
}

# To be called once by a script that uses attach: nothing stays mounted, whatever happens.
detach_on_exit() {
    on_exit "fusermount3 -uz '$work/nbd'; kill \$nbdfuse_id"
    on_exit "[[ -z \$device ]] || losetup --detach \"\$device\""
    on_exit "umount '$work/mount' || umount -l '$work/mount'"
}

# server_start: runs SERVER_COMMAND, which must serve the URI and stay in the foreground, until server_kill.
server_id=''
server_start() {
    setsid bash -c "$SERVER_COMMAND" >"$work/server.log" 2>&1 </dev/null &
    server_id=$!
    local tries=0
    until nbdinfo --size "$uri" >/dev/null 2>&1; do
        kill -0 "$server_id" 2>/dev/null || { tail "$work/server.log" >&2 && fail "the server ended at its start"; }
        ((++tries < 600)) || fail "the server does not answer at $uri"
        sleep 0.1
    done
}

# Kills the server and its children (its process group) at once.
server_kill() {
    kill -KILL -- "-$server_id" || fail "the server was gone before it was killed: $(tail -n 3 "$work/server.log")"
    wait "$server_id" 2>/dev/null || true
}
