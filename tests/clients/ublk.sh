#!/usr/bin/env bash
# An array as a block device (ublk) of Debian's kernel, in a guest: ext4, members failing, stops, a crash.
#
#   ublk.sh [RAIDLAB]      a binary with the feature (target/debug/raidlab)
#
# What happens in the guest, and what is verified there, is in ublk-guest.sh. Needs what bench/guest/lib.sh needs, and its
# kernel package, which it downloads once. Where this machine's own kernel has no ublk, the refusal is looked at, too.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "${1:-${RAIDLAB:-$here/../../target/debug/raidlab}}")
# shellcheck source=bench/guest/lib.sh
source "$here/../../bench/guest/lib.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/raidlab-ublk.XXXXXX")
# The histories of its arrays go away with it.
export STATE_DIRECTORY=$work/state
trap 'rm -rf "$work"' EXIT
fail() {
    echo "ublk: FAILED: $*" >&2
    exit 1
}

if [[ ! -e /dev/ublk-control ]]; then
    cd "$work"
    "$binary" array create u m0 m1 --level 1 --member-size 8MiB >/dev/null
    ! "$binary" array serve m0 m1 --ublk --control ./c >said 2>&1 || fail "there is no ublk here, and nothing is refused"
    grep -q 'no ublk.*modprobe ublk_drv' said || fail "it is refused without a way out: $(<said)"
    "$binary" array assemble m0 m1 | grep '^  clean, ' >/dev/null || fail "a refusal leaves the array open"
    cd "$here"
fi
strip -o "$work/raidlab" "$binary" 2>/dev/null || cp "$binary" "$work/raidlab"
programs=()
for program in mke2fs e2fsck blkdiscard; do
    path=$(PATH=$PATH:/sbin:/usr/sbin command -v "$program") || fail "$program is missing (e2fsprogs, util-linux)"
    programs+=(--program "$path")
done
# Takes less than a minute alone, and many beside tests that keep all processors busy.
guest_run --seconds 1500 --program "$work/raidlab" "${programs[@]}" "$here/ublk-guest.sh" ||
    fail "in the guest"
