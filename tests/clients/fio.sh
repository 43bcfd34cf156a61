#!/usr/bin/env bash
# fio's nbd engine with verify=crc32c: what was written is read back whole, at depth 32, in random order and size.
#
# Verified: fixed 4 KiB, sizes that overlap earlier writes (overlaps in flight are serialised: fio could not know who
# won), sequential 1 MiB, and reads mixed into the writes. Left out: rates.
# shellcheck source=tests/clients/common.sh
source "$(dirname "$0")/common.sh"
span=$(export_bytes)
((span <= 256 << 20)) || span=$((256 << 20))
run() {
    local name=$1
    shift
    (cd "$work" && quietly fio --name="$name" --ioengine=nbd --uri="$uri" --size="$span" --iodepth=32 --verify=crc32c \
        --do_verify=1 --verify_fatal=1 --verify_state_save=0 --randseed="${SEED:-2026}" --allrandrepeat=1 "$@")
}
run random --rw=randwrite --bs=4k --io_size=64m
run overlapping --rw=randwrite --bsrange=4k-256k --blockalign=4k --norandommap --serialize_overlap=1 --io_size=256m \
    --fsync=64
member_step fail "${FAIL_MEMBER:-}"
run sequential --rw=write --bs=1m
run mixed --rw=randrw --rwmixread=67 --bssplit=4k/40:8k/40:64k/20 --io_size=64m --verify_backlog=256
member_step replace "${REPLACE_MEMBER:-}"
member_step rebuild "${REBUILD_MEMBER:-}"
run again --rw=randwrite --bs=8k --io_size=64m
