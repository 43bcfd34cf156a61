#!/usr/bin/env bash
# A file system on the export (nbdfuse, a loop device, mkfs, mount): a tree of files, its digests, a clean fsck.
#
#   filesystem.sh NBD-URI ext4|xfs
#
# Verified after each step, on a fresh mount whose caches are empty: every file's digest, name and length, and that
# fsck -fn or xfs_repair -n finds nothing. The steps: write; write while a member is failed; write while it is replaced
# and rebuilt; fstrim and punched holes. Needs root. Left out: a crash of the server (postgres.sh, tests/attack).
# shellcheck source=tests/needs-root.sh
source "$(dirname "$0")/../needs-root.sh"
# shellcheck source=tests/clients/common.sh
source "$(dirname "$0")/common.sh"
kind=${2:-}
client=$kind
mount=$work/mount
mkdir "$mount"
detach_on_exit

check_clean() {
    case $kind in
        ext4) quietly fsck.ext4 -fn "$device" ;;
        xfs) quietly xfs_repair -n "$device" ;;
    esac
}

# write_tree NAME: files of many lengths; some written twice, cut, renamed or with a hole punched.
write_tree() {
    "$python" - "$mount/$1" <<'PY' || fail "the tree $1 can't be written"
import os, random, subprocess, sys

top = sys.argv[1]
draw = random.Random(top[-1])
os.makedirs(top)
for number in range(240):
    folder = f"{top}/{number % 12}"
    os.makedirs(folder, exist_ok=True)
    path = f"{folder}/{number}"
    with open(path, "wb") as file:
        file.write(draw.randbytes(draw.choice((0, 1, 511, 4096, 70_000, 300_000))))
        if number % 5 == 0:
            file.seek(draw.randrange(1_000_000))
            file.write(draw.randbytes(30_000))
        if number % 7 == 0:
            file.truncate(draw.randrange(200_000))
        if number % 20 == 0:
            file.flush()
            os.fsync(file.fileno())
    if number % 11 == 0:
        os.rename(path, path + "-renamed")
    elif number % 13 == 0:
        os.remove(path)
    elif number % 5 == 0:
        subprocess.run(["fallocate", "--punch-hole", "--offset", "4096", "--length", "65536", path], check=True)
os.symlink("0", f"{top}/link")
PY
    list_tree "$1" >"$work/tree-$1"
}

list_tree() { (cd "$mount/$1" && find . -printf '%p %y %s %l\n' | grep -v ' d ' | sort && find . -type f -print0 | sort -z | xargs -0 b2sum); }

# Detaches all, so that nothing cached is left, checks, mounts again and compares every tree.
remount_and_compare() {
    umount "$mount" || fail "umount ($1)"
    detach
    attach
    check_clean
    mount "$device" "$mount" || fail "mount ($1)"
    local tree
    for tree in "$work"/tree-*; do
        list_tree "${tree##*-}" >"$work/now" || fail "the tree ${tree##*-} can't be read ($1)"
        diff "$tree" "$work/now" >"$work/diff" || { head -n 5 "$work/diff" >&2 && fail "the tree ${tree##*-} differs ($1)"; }
    done
}

attach
case $kind in
    ext4) quietly mkfs.ext4 -q -F "$device" ;;
    xfs) quietly mkfs.xfs -q -f "$device" ;;
    *) fail "a file system of the kind '$kind' is not known" ;;
esac
mount "$device" "$mount" || fail "mount"
write_tree a
remount_and_compare 'after writing'
write_tree b &
writer=$!
member_step fail "${FAIL_MEMBER:-}"
wait "$writer" || fail "writing while a member was failed"
remount_and_compare 'with a member failed'
member_step replace "${REPLACE_MEMBER:-}"
(member_step rebuild "${REBUILD_MEMBER:-}") &
rebuild=$!
write_tree c
wait "$rebuild" || fail "rebuild"
remount_and_compare 'after the rebuild'
rm -rf "$mount/b" "$work/tree-b"
quietly fstrim "$mount"
write_tree d
remount_and_compare 'after a trim'
umount "$mount" || fail "umount"
