#!/usr/bin/env bash
# An array of block devices: compressed memory (zram) where the kernel has it, and loop devices over files.
#
#   devices.sh [RAIDLAB]      the binary (target/release/raidlab); needs root
#
# RAID 6 over two zram and two loop devices, with a fifth at hand. Verified: a device that is mounted is refused, and one that
# carries a filesystem or partitions until it is named; fio's crc32c over NBD, also while a member is failed, replaced and
# rebuilt; SIGKILL of the server and a start with the devices in another order; check after each; a member that is served is
# held against others. Left out: rates (bench/), devices that go away.
set -euo pipefail
# shellcheck source=tests/needs-root.sh
source "$(dirname "$0")/../needs-root.sh"
. "$(dirname "$0")/served.sh"
await_tries=600 iodepth=16
loops=() zrams=() server=
clean_up() {
    [[ -z $server ]] || { kill -KILL "$server" && wait "$server"; } 2>/dev/null || true
    mountpoint -q "$work/mounted" && umount "$work/mounted"
    for device in "${loops[@]}"; do losetup -d "$device" || true; done
    for device in "${zrams[@]}"; do
        # A ring that has just ended may hold it a moment longer.
        for _ in {1..50}; do
            echo "${device#/dev/zram}" 2>/dev/null >/sys/class/zram-control/hot_remove && break
            sleep 0.1
        done
    done
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# loop_device NAME: a loop device of 64 MiB, its name left in $NAME.
loop_device() {
    truncate -s 64M "$1.file"
    printf -v "$1" %s "$(losetup --find --show "$1.file")"
    loops+=("${!1}")
}
# memory_device NAME: a zram device of that size, or a loop device where the kernel has no zram.
memory_device() {
    if [[ ! -e /sys/class/zram-control/hot_add ]]; then
        loop_device "$1"
        return
    fi
    printf -v "$1" %s "/dev/zram$(cat /sys/class/zram-control/hot_add)"
    zrams+=("${!1}")
    echo 64M >"/sys/block/${!1#/dev/}/disksize"
    # Without udev nobody makes the node.
    [[ -b ${!1} ]] || mknod "${!1}" b $(tr : ' ' <"/sys/block/${!1#/dev/}/dev")
}
serve() {
    rm -f nbd control
    "$RAIDLAB" array serve "$@" --socket nbd --control ./control >server.log 2>&1 &
    server=$!
    await_server
}
refused() {
    local word=$1
    shift
    ! array create x "$@" --level 6 >refused 2>&1 || fail "this was to be refused ($word): $*"
    grep -qi -- "$word" refused || fail "no word of $word: $(<refused)"
}

memory_device a
memory_device b
loop_device c
loop_device d
loop_device e

# A device is written only when it is named, one that holds something only by the name of that, one in use never.
named=(--destroy-data "$a" --destroy-data "$b")
mkfs.ext4 -q "$c"
refused "destroy-data '$a'" "$a" "$b" "$c" "$d"
refused "destroy-data '$c:ext4'" "$a" "$b" "$c" "$d" "${named[@]}"
named+=(--destroy-data "$c:ext4")
mkdir mounted && mount "$c" mounted
refused mounted "$a" "$b" "$c" "$d" "${named[@]}"
umount mounted
printf 'label: gpt\n,32M\n,,\n' | sfdisk --quiet --no-reread --no-tell-kernel "$d" 2>/dev/null
refused "destroy-data '$d:gpt'" "$a" "$b" "$c" "$d" "${named[@]}"
array create m "$a" "$b" "$c" "$d" --level 6 "${named[@]}" --destroy-data "$d:gpt" >/dev/null

serve "$d" "$a" "$c" "$b"
refused "in use" "$e" "$a" "$b" "$c" --destroy-data "$e" --destroy-data "$a:raidlab" --destroy-data "$b:raidlab"
await None "['scan']"
load plain --rw=randrw --bsrange=4k-64k --io_size=32m
array fail ./control "$a" >/dev/null
await degraded "['condition']"
load degraded --rw=randrw --bs=16k --io_size=16m &
writer=$!
array replace ./control "$a" "$e" --destroy-data "$e" >/dev/null
array rebuild ./control >/dev/null 2>&1
wait "$writer" || exit 1
await optimal "['condition']"
array check ./control >/dev/null 2>&1 || fail "check after the rebuild"

# The server is killed under load; devices come back in another order.
load killed --rw=randwrite --bs=8k --io_size=48m --verify=0 --do_verify=0 >/dev/null 2>&1 & 
writer=$!
sleep 0.3
kill -KILL "$server" && wait "$server" 2>/dev/null || true
wait "$writer" 2>/dev/null || true
serve "$b" "$c" "$e" "$d"
await optimal "['condition']"
await None "['scan']"
array check ./control >/dev/null 2>&1 || fail "check after the kill"
load again --rw=randrw --bs=32k --io_size=16m
array stop ./control >/dev/null && wait "$server" || fail "the stop"
server=
echo "devices: an array of ${#zrams[@]} zram and ${#loops[@]} loop devices: refusals, a rebuild, a kill; all verified"
