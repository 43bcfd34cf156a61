#!/usr/bin/env bash
# What fio sees of emulated arrays, beside the simulation of the same array under the same load, and how late requests end.
#
# Idea: `raidlab emulate` over a Unix socket, fio's nbd engine on it, and `raidlab simulate` of the same file at the same depth.
# The time of the socket is part of what fio sees, so the ratio is below one by its share of the latency: largest for
# solid-state drives at depth 1.
#
#   bench/emulated-against-simulated.sh             RAIDLAB=binary, SECONDS_EACH=10, ROWS="array:depth ..."
#
# Needs: fio with its nbd engine, two processors without other work. Takes SECONDS_EACH and a little for each row.
set -euo pipefail
cd "$(dirname "$0")/.."
raidlab=$(realpath "${RAIDLAB:-target/release/raidlab}")
seconds=${SECONDS_EACH:-10}
rows=${ROWS:-"7k2-r5:1 7k2-r5:16 15k-r5:16 15k-r10:1 15k-r10:16 15k-r10:64 15k-r10-wb:16 ssd-r10:1 ssd-r10:16 ssd-r5:16"}
work=$(mktemp -d)
trap 'kill %1 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"

describe() {
    local drive level policy=write-through
    case $1 in 7k2-*) drive=st32000444ss ;; 15k-*) drive=st3600057ss ;; ssd-*) drive=pliant-lb150 ;; esac
    case $1 in *-r5*) level=5 ;; *-r10*) level=10 ;; esac
    case $1 in *-wb) policy=write-back ;; esac
    printf 'schema = 1\nlevel = "%s"\nmembers = 8\ndrive = "%s"\ncontroller = "perc-h800"\nwrite-policy = "%s"\nregion = "16 GiB"\n' \
        "$level" "$drive" "$policy" >array.toml
}

# IOPS and mean latency in ms, reads and writes together.
of_fio() {
    python3 -c '
import json, sys
job = json.load(sys.stdin)["jobs"][0]
ios = [(job[kind]["iops"], job[kind]["lat_ns"]["mean"]) for kind in ("read", "write")]
rate = sum(iops for iops, _ in ios)
print(rate, sum(iops * lat for iops, lat in ios) / rate / 1e6)'
}
of_raidlab() {
    python3 -c '
import json, sys
total = json.load(sys.stdin)["runs"][0]["total"]
print(total["iops"], total["lat_ns_mean"] / 1e6)'
}

printf '%-12s %6s %11s %11s %7s %9s %9s %10s %10s\n' array depth 'model IOPS' 'fio IOPS' ratio 'model ms' 'fio ms' 'late p50' 'late p99'
for row in $rows; do
    name=${row%:*} depth=${row#*:}
    describe "$name"
    "$raidlab" emulate array.toml --socket n.sock --control ./c.sock --json >said.json &
    until "$raidlab" array status ./c.sock >/dev/null 2>&1; do sleep 0.05; done
    fio --name=x --ioengine=nbd --uri='nbd+unix:///array?socket=n.sock' --size=16g --rw=randrw \
        --rwmixread=67 --bs=8k --iodepth="$depth" --norandommap --time_based --ramp_time=2 --runtime="$seconds" \
        --output-format=json --output=fio.json >/dev/null
    read -r fio_iops fio_ms < <(of_fio <fio.json)
    "$raidlab" array stop ./c.sock >/dev/null
    wait %1
    read -r iops ms < <("$raidlab" simulate --array array.toml -w database --iodepth "$depth" --json 2>/dev/null | of_raidlab)
    late=$(python3 -c '
import re
text = open("said.json").read()
print(*(round(int(re.search(rf"\"late_ns_{p}\": (\d+)", text)[1]) / 1e3) for p in ("p50", "p99")))')
    read -r p50 p99 <<<"$late"
    awk -v n="$name" -v d="$depth" -v i="$iops" -v f="$fio_iops" -v m="$ms" -v l="$fio_ms" -v a="$p50" -v b="$p99" 'BEGIN {
        printf "%-12s %6d %11.0f %11.0f %7.3f %9.3f %9.3f %7d us %7d us\n", n, d, i, f, f / i, m, l, a, b }'
done
