#!/usr/bin/env bash
# How fast an idle array rebuilds a member, as a share of what its members can do.
#
#   bench/rebuild-rate.sh [MIB_PER_SEC] [MEMBER_MIB] [LEVEL...]
#
# Members are six loop devices over files on tmpfs, each held to MIB_PER_SEC of reads and as much of writes by a control
# group, so the limit of a rebuild is known: the new member takes MIB_PER_SEC and no other needs to read faster. A member is
# failed and replaced by a seventh; the time is from the array's own list of events. 0 as MIB_PER_SEC lifts the bound: the
# rate is then that of one processor. SCAN_IODEPTH is the number of stripes under way. Needs root and losetup.
set -euo pipefail
bound=${1:-48} size=${2:-384}
levels=("${@:3}")
((${#levels[@]})) || levels=(1 5 6 10)
cd "$(dirname "$0")/.."
cargo build --release --locked -q -p raidlab-cli
raidlab=$PWD/target/release/raidlab
folder=$(mktemp -d -p /dev/shm)
loops=()
if [[ -d /sys/fs/cgroup/blkio ]]; then group=/sys/fs/cgroup/blkio/raidlab-rebuild-rate; else
    group=/sys/fs/cgroup/raidlab-rebuild-rate
    echo +io >/sys/fs/cgroup/cgroup.subtree_control
fi
mkdir -p "$group"
leave() {
    "$raidlab" array stop bench-rebuild >/dev/null 2>&1 || true
    wait
    for loop in "${loops[@]}"; do losetup -d "$loop" || true; done
    rmdir "$group" || true
    rm -rf "$folder"
}
trap leave EXIT
for number in 0 1 2 3 4 5 6; do
    truncate -s "${size}M" "$folder/$number"
    loops+=("$(losetup --find --show --direct-io=on "$folder/$number")")
done

# Holds every device to $1 bytes per second in either direction; 0 lifts the bound.
hold() {
    local loop device
    for loop in "${loops[@]}"; do
        device=$(lsblk -ndo MAJ:MIN "$loop" | tr -d ' ')
        if [[ -e $group/blkio.throttle.read_bps_device ]]; then
            echo "$device $1" >"$group/blkio.throttle.read_bps_device"
            echo "$device $1" >"$group/blkio.throttle.write_bps_device"
        else
            local limit=$1
            ((limit)) || limit=max
            echo "$device rbps=$limit wbps=$limit" >"$group/io.max"
        fi
    done
}

# Rebuilds one member of an array of level $1 and prints the rate in MiB of the member per second.
rebuild() {
    local destroy=() loop
    for loop in "${loops[@]}"; do
        blkdiscard -f "$loop" 2>/dev/null
        destroy+=(--destroy-data "$loop")
    done
    "$raidlab" array create bench-rebuild --level "$1" --zero "${destroy[@]:0:12}" "${loops[@]:0:6}" >/dev/null 2>"$folder/log" || { cat "$folder/log" >&2; exit 1; }
    (echo "$BASHPID" >"$group/cgroup.procs"
        exec "$raidlab" array serve --socket "$folder/nbd" --scan-iodepth "${SCAN_IODEPTH:-8}" \
            "${loops[@]:0:6}" >/dev/null 2>"$folder/log") &
    for _ in $(seq 100); do "$raidlab" array status bench-rebuild >/dev/null 2>&1 && break || sleep 0.1; done
    "$raidlab" array status bench-rebuild >/dev/null || { cat "$folder/log" >&2; exit 1; }
    "$raidlab" array fail bench-rebuild "${loops[1]}" >/dev/null
    "$raidlab" array replace bench-rebuild "${loops[1]}" "${loops[6]}" --destroy-data "${loops[6]}" >/dev/null
    "$raidlab" array rebuild bench-rebuild >/dev/null 2>&1
    "$raidlab" array status bench-rebuild --json >"$folder/status"
    "$raidlab" array stop bench-rebuild >/dev/null
    wait
    python3 - "$folder/status" <<'PYTHON'
import json, sys
array = json.load(open(sys.argv[1]))["arrays"][0]
begun, ended = (next(event["at_ns"] for event in array["events"] if word in event["text"])
                for word in ("rebuild of device 1 has begun", "rebuild of device 1 has ended"))
print(f"{array['devices'][0]['data_bytes'] / 2**20 / ((ended - begun) / 1e9):.1f}")
PYTHON
}

printf '%-8s %14s %14s %8s\n' level 'rebuild MiB/s' 'limit MiB/s' share
for level in "${levels[@]}"; do
    hold $((bound << 20))
    rate=$(rebuild "$level")
    share=-
    ((!bound)) || share=$(awk "BEGIN { printf \"%.2f\", $rate / $bound }")
    printf '%-8s %14s %14s %8s\n' "$level" "$rate" "$bound" "$share"
done
