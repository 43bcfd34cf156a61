#!/usr/bin/env bash
# raidlab's array beside Linux md: the same drives, each held to 500 I/Os a second, in one guest, one after the other.
#
# Idea: throttled drives make the figure a count of member I/Os for each host I/O, so a slow emulated processor does
# not matter; `limit` is what the level's arithmetic allows (read 1; write 1, 2, 4, 6 for levels 0, 10 and 1, 5, 6).
# md is measured on its block device (libaio, O_DIRECT), raidlab over NBD on a Unix socket (fio's nbd engine).
#
#   bench/array-against-md.sh                       md only, or both if the raidlab binary has `array`
#   RAIDLAB=bench/guest/md-behind-nbd bench/array-against-md.sh      md behind qemu-nbd in raidlab's place
#
# Environment: LEVELS, SECONDS_EACH, IOPS and MIB_PER_SEC (of each drive), CHUNK_KIB (md's), CREATE_OPTIONS and
# SERVE_OPTIONS (more words for raidlab's `array create` and `array serve`; name the same strip size there), CONTENDERS.
# raidlab's command line is in one function, `raidlab_start` in bench/guest/race.sh.
# Needs: what bench/guest/lib.sh needs, 2.5 GiB below target/. Takes some 20 minutes with both contenders.
# The emulator passes 1000 to 2500 NBD requests a second: compare the two at IOPS=100 MIB_PER_SEC=2, and not at depth 1.
# Left out: the drives' flushes cost nothing (qemu's cache=unsafe), for both; seek and transfer times of real drives.
set -euo pipefail
cd "$(dirname "$0")/.."
# shellcheck source=bench/guest/lib.sh
source bench/guest/lib.sh
raidlab=${RAIDLAB:-target/release/raidlab}
iops=${IOPS:-500}
mib_per_sec=${MIB_PER_SEC:-32}
contenders=${CONTENDERS:-}
if [[ -z $contenders ]]; then
    contenders=md
    if [[ -n ${RAIDLAB:-} ]] || "$raidlab" array --help >/dev/null 2>&1; then contenders='md raidlab'; fi
fi

guest_build
# Named so that guest_run takes it away if this script is killed.
work=$guest_cache/run.drives.$$
mkdir "$work"
trap 'rm -rf "$work"' EXIT
options=()
for drive in 0 1 2 3 4 5 6 7; do
    truncate -s 256M "$work/$drive"
    options+=(--drive "file=$work/$drive,format=raw,cache=unsafe,throttling.iops-total=$iops,throttling.bps-total=$((mib_per_sec << 20))")
done
[[ $contenders != *raidlab* ]] || { cp "$raidlab" "$work/raidlab" && options+=(--program "$work/raidlab"); }
guest_run "${options[@]}" bench/guest/race.sh "$contenders" "${LEVELS:-0 1 10 5 6}" "${SECONDS_EACH:-10}" \
    "${CHUNK_KIB:-64}" "${CREATE_OPTIONS:-}" "${SERVE_OPTIONS:-}" > >(tee "$work/rows" >&2) ||
    { echo "error: the run in the guest failed" >&2 && exit 1; }
wait $!
awk -v iops="$iops" -v contenders="$contenders" '
    BEGIN {
        split("0 1 1 2 10 2 5 4 6 6", pairs, " ")
        for (i = 1; i < 10; i += 2) write_cost[pairs[i]] = pairs[i + 1]
        count = split(contenders, names, " ")
        printf "%-8s %-16s", "level", "workload"
        for (i = 1; i <= count; i++) printf " %9s %8s", names[i], "MiB/s"
        printf " %9s%s\n", "limit", count == 2 ? "  second/first" : ""
    }
    $1 == "row" {
        key = $2 " x " $3 " " $4
        if (!(key in seen)) { order[++keys] = key; seen[key] = 1 }
        rate[key, $5] = $6; mib[key, $5] = $7
    }
    END {
        for (k = 1; k <= keys; k++) {
            split(order[k], part, " ")
            printf "%-8s %-16s", part[1] " x " part[3], part[4]
            for (i = 1; i <= count; i++) printf " %9d %8.1f", rate[order[k], names[i]], mib[order[k], names[i]]
            limit = "-"
            if (part[4] == "mixed-8k-d32") limit = sprintf("%d", part[3] * iops / (0.67 + 0.33 * write_cost[part[1]]))
            if (part[4] == "randwrite-8k-d32") limit = sprintf("%d", part[3] * iops / write_cost[part[1]])
            printf " %9s", limit
            if (count == 2) printf "  %.2f", rate[order[k], names[2]] / rate[order[k], names[1]]
            printf "\n"
        }
    }' "$work/rows"
