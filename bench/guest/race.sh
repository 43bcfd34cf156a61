#!/bin/bash
# The part of bench/array-against-md.sh that runs in the guest: each contender in turn over the same throttled drives.
#
# Arguments: CONTENDERS LEVELS SECONDS CHUNK_KIB CREATE_OPTIONS SERVE_OPTIONS; the lists are blank-separated words.
# Prints `row LEVEL MEMBERS WORKLOAD CONTENDER IOPS MIB_PER_SEC` for each run.
set -euo pipefail
contenders=$1 levels=$2 seconds=$3 create_options=$5 serve_options=$6
export CHUNK_KIB=$4
socket=/tmp/race.sock
server=''

# workload name: fio's options
workloads=(
    'mixed-8k-d1:--rw=randrw --rwmixread=67 --bs=8k --iodepth=1'
    'mixed-8k-d32:--rw=randrw --rwmixread=67 --bs=8k --iodepth=32'
    'randwrite-8k-d1:--rw=randwrite --bs=8k --iodepth=1'
    'randwrite-8k-d32:--rw=randwrite --bs=8k --iodepth=32'
    'read-64k-d8:--rw=read --bs=64k --iodepth=8'
    'read-1m-d8:--rw=read --bs=1m --iodepth=8'
    'write-64k-d8:--rw=write --bs=64k --iodepth=8'
    'write-1m-d8:--rw=write --bs=1m --iodepth=8'
)

# The one place that knows raidlab's command line. raidlab_start LEVEL MEMBER...: makes an array whose redundancy needs
# no first resync (the drives are all zero), and serves it on $socket; the process is left in $server.
raidlab_start() {
    local level=$1 drive destroy=()
    shift
    for drive in "$@"; do destroy+=(--destroy-data "$drive"); done
    # shellcheck disable=SC2086 # options are words
    raidlab array create race "$@" --level "$level" "${destroy[@]}" $create_options
    # shellcheck disable=SC2086
    raidlab array serve "$@" --socket "$socket" $serve_options &
    server=$!
    for _ in $(seq 300); do
        [[ -S $socket ]] && return
        kill -0 "$server" || return
        sleep 0.1
    done
    echo "race: $socket did not appear" >&2
    return 1
}

raidlab_stop() {
    kill -TERM "$server"
    wait "$server" || echo "race: raidlab ended with $?"
    rm -f "$socket"
}

md_start() {
    local level=$1
    shift
    local options=()
    [[ $level == 1 ]] || options+=(--chunk="$CHUNK_KIB")
    [[ $level == 0 ]] || options+=(--assume-clean --bitmap=none)
    mdadm --quiet --create /dev/md0 --run --level="$level" "${options[@]}" --raid-devices=$# "$@"
}

md_stop() { mdadm --quiet --stop /dev/md0; }

# Gives the next contender empty drives: superblocks at both ends go, the data stays.
wipe() {
    local member blocks
    for member in "$@"; do
        blocks=$(($(blockdev --getsz "$member") / 2048))
        dd if=/dev/zero of="$member" bs=1M count=8 2>/dev/null
        dd if=/dev/zero of="$member" bs=1M count=8 seek=$((blocks - 8)) 2>/dev/null
    done
    sync
}

# Terse fields 7, 8 and 48, 49: rate (KiB/s) and IOPS of reads and writes.
measure() {
    local level=$1 members=$2 contender=$3 workload target
    target=(--ioengine=libaio --direct=1 --filename=/dev/md0)
    [[ $contender == md ]] || target=(--ioengine=nbd --uri="nbd+unix:///?socket=$socket")
    for workload in "${workloads[@]}"; do
        # shellcheck disable=SC2086
        fio --name=race "${target[@]}" ${workload#*:} --norandommap --randrepeat=1 --time_based --ramp_time=2 \
            --runtime="$seconds" --output-format=terse --terse-version=3 --output=/tmp/result >/tmp/errors 2>&1 ||
            { cat /tmp/errors && return 1; }
        awk -F';' -v name="row $level $members ${workload%%:*} $contender" '$1 == 3 {
            printf "%s %.0f %.1f\n", name, $8 + $49, ($7 + $48) / 1024 }' /tmp/result
    done
}

for level in $levels; do
    members=(/dev/vd?)
    [[ $level != 1 ]] || members=(/dev/vd[ab])
    for contender in $contenders; do
        wipe "${members[@]}"
        "${contender}_start" "$level" "${members[@]}"
        measure "$level" "${#members[@]}" "$contender"
        "${contender}_stop"
    done
done
