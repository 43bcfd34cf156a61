#!/bin/bash
# The part of tests/clients/ublk.sh that runs in the guest: one array on files, served as /dev/ublkb0 again and again.
#
# Verified: size, block sizes, cache and limits as the block layer sees them; fio's crc32c at depth 32; zeros; discard refused;
# ext4 with a tree of files whose digests hold over fresh mounts, with a member failed under load and rebuilt, and a clean fsck;
# a stop by command, under a mounted file system, by SIGTERM, and a SIGKILL, after each of which the device is gone and the next start serves the same
# bytes; that a crash loses nothing that was synced; a read-only device.
set -euo pipefail
cd /tmp
fail() {
    echo "ublk: FAILED: $*"
    tail -n 5 server.log
    exit 1
}
device=/dev/ublkb0
server=''
array() { raidlab array "$@"; }

# await WHAT COMMAND...: until the command succeeds.
await() {
    local what=$1 tries=0
    shift
    until "$@" >/dev/null 2>&1; do
        ((++tries < 300)) || fail "$what"
        sleep 0.1
    done
}

serve() {
    rm -f server.log
    raidlab array serve m* --ublk --control ./control "$@" >server.log 2>&1 &
    server=$!
    await 'the array is not served' grep -q "served on $device," server.log
    [[ -b $device ]] || fail "$device is no block device"
}

# Waits for the end of the server and of its device.
gone() {
    local status=0
    wait "$server" 2>/dev/null || status=$?
    [[ $status == "$1" ]] || fail "the server ended with $status"
    await "$device is still there" test ! -e "$device"
}

# How far it came, for one that is stopped or hangs.
step() { echo "ublk: $(cut -d' ' -f1 /proc/uptime) s: $*"; }

limit() { cat "/sys/block/ublkb0/queue/$1"; }
is() { [[ $2 == "$3" ]] || fail "$1 is $2 and not $3"; }
digests() { (cd mount && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

write_tree() {
    local number
    for number in $(seq 40); do
        mkdir -p "mount/$1/$((number % 7))"
        head -c $((number * number * 41)) /dev/urandom >"mount/$1/$((number % 7))/$number"
    done
    rm "mount/$1/3/10"
    mv "mount/$1/4/11" "mount/$1/11"
}

remount_and_compare() {
    umount mount
    e2fsck -fn "$device" >fsck.log 2>&1 || { cat fsck.log && fail "fsck ($1)"; }
    mount -t ext4 "$device" mount
    digests >now
    diff tree now >/dev/null || fail "files differ ($1)"
}

array create u m0 m1 m2 m3 --level 5 --member-size 48MiB --zero 2>/dev/null
serve
is size "$(blockdev --getsize64 $device)" $((3 * 48 << 20))
is 'logical block' "$(limit logical_block_size)" 4096
is cache "$(limit write_cache)" 'write back'
is fua "$(limit fua)" 1
is discard "$(limit discard_max_bytes)" 0
is 'write zeroes' "$(limit write_zeroes_max_bytes)" $((512 << 10))
is 'longest request' "$(limit max_hw_sectors_kb)" 512
! blkdiscard $device 2>/dev/null || fail "discard is not refused"

step 'requests of fio, zeros'
fio --name=raw --filename=$device --ioengine=libaio --direct=1 --rw=randrw --bsrange=4k-256k --blockalign=4k --iodepth=32 \
    --size=96m --io_size=16m --verify=crc32c --verify_fatal=1 --do_verify=1 --verify_state_save=0 --randseed=2026 \
    --serialize_overlap=1 --fsync=32 >fio.log 2>&1 || { tail fio.log && fail "fio"; }
blkdiscard -z -o $((1 << 20)) -l $((3 << 20)) $device || fail "zeros can't be written"
cmp -n $((3 << 20)) $device /dev/zero $((1 << 20)) 0 || fail "what was to be zeros is not"

step 'ext4, a member failed and rebuilt'
mke2fs -q -t ext4 -F $device
mkdir mount
mount -t ext4 $device mount
write_tree a
digests >tree
remount_and_compare 'after writing'
write_tree b &
writer=$!
array fail ./control 1 >/dev/null
wait $writer
sync
digests >tree
remount_and_compare 'with a member failed'
(array replace ./control 1 mnew && array rebuild ./control) >/dev/null 2>&1 &
rebuild=$!
write_tree c
wait $rebuild || fail "the rebuild"
mv m1 old
digests >tree
remount_and_compare 'after the rebuild'
array check ./control >/dev/null 2>&1 || fail "check"
umount mount

array stop ./control >/dev/null
gone 0
array assemble m* | grep '^  clean, ' >/dev/null || fail "the stop was not clean"

step 'a crash'
# A crash: what was synced is there, the device is gone, and what is left of it is taken away by the next start.
serve
mount -t ext4 $device mount
write_tree d
digests >tree
sync
kill -KILL $server
gone 137
umount mount 2>/dev/null || true
[[ -e /dev/ublkc0 ]] || echo "ublk: the driver leaves nothing behind on this kernel"
serve
mount -t ext4 $device mount
digests | diff tree - >/dev/null || fail "what was synced is lost by a crash"
umount mount
e2fsck -fn $device >fsck.log 2>&1 || { cat fsck.log && fail "fsck after a crash"; }

step 'a stop under a mounted file system'
# A stop under a mounted file system and an open file: nothing waits for ever, and what was synced is there.
mount -t ext4 $device mount
write_tree e
digests >tree
sync
sleep 100 <mount/a/11 &
user=$!
began=$(cut -d. -f1 /proc/uptime)
array stop ./control >/dev/null
gone 0
(($(cut -d. -f1 /proc/uptime) - began < 8)) || fail "the stop waits for those who use the device"
kill $user
umount mount 2>/dev/null || umount -l mount
await 'the driver still knows a device' test ! -e /dev/ublkc0
serve
mount -t ext4 $device mount
digests | diff tree - >/dev/null || fail "files differ after a stop under a mounted file system"
umount mount
kill -TERM $server
gone 0

step 'read only'
serve --read-only
is read-only "$(blockdev --getro $device)" 1
! dd if=/dev/zero of=$device bs=4096 count=1 2>/dev/null || fail "a read-only device is written"
mount -t ext4 -o ro $device mount
digests | diff tree - >/dev/null || fail "files differ read-only"
umount mount
kill -TERM $server
gone 0
echo "ublk: ext4 on RAID 5, a member failed and rebuilt, stops, a crash; all verified"
