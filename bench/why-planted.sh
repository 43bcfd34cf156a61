#!/bin/bash
# Plants what makes storage slow on real devices, in a guest whose drives are held to a few hundred requests a second, and asks `raidlab why`.
#
#   bench/why-planted.sh [RAIDLAB]    target/release/raidlab, if none is named
#
# Prints a line for each: what was planted, what was named. With `nothing` planted none is to be named. Takes some five minutes; a busy
# host makes the guest's processors busy, too. Needs what bench/guest/lib.sh says.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
raidlab=$(realpath "${1:-$root/target/release/raidlab}")
export GUEST_PROGRAMS="bash fio mdadm nbdkit nbdinfo nbdcopy qemu-nbd mkfs.xfs sfdisk wipefs fallocate filefrag"
# shellcheck source=bench/guest/lib.sh
source "$root/bench/guest/lib.sh"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
strip -o "$work/raidlab" "$raidlab"
for drive in a b c d e; do truncate -s 160M "$work/$drive"; done
truncate -s 400M "$work/e" "$work/f"

# run PART IOPS-OF-D
run() {
    local drives=() name iops
    for name in a b c d e; do
        iops=300
        [[ $name != d ]] || iops=$2
        drives+=(--drive "file=$work/$name,format=raw,cache=none,aio=threads,throttling.iops-total=$iops")
    done
    drives+=(--drive "file=$work/f,format=raw,cache=none,aio=threads")
    guest_run --seconds 900 --program "$work/raidlab" "${drives[@]}" "$root/bench/guest/why" "$1"
}

run slow 60
run others 300
