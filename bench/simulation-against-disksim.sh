#!/usr/bin/env bash
# Host requests simulated per second of processor time, beside DiskSim 4.0 on the same kind of work, in one run: RAID 5
# over nine drives, strips of 32 KiB, 8 KiB at random, two reads to a write,
# some five requests in flight (five of DiskSim's generators, each with its think times; a depth of five here).
# DISKSIM is the folder of a built DiskSim: src/disksim64 (or src/disksim) and valid/synthraid5.parv.
# usage: DISKSIM=DIR simulation-against-disksim.sh [requests] [rounds]
set -euo pipefail
cd "$(dirname "$0")/.."
: "${DISKSIM:?name the folder of a built DiskSim 4.0}"
requests=${1:-30000} rounds=${2:-3}
binary=$DISKSIM/src/disksim64
[ -x "$binary" ] || binary=$DISKSIM/src/disksim
[ -x "$binary" ] || { echo "error: no src/disksim64 and no src/disksim in $DISKSIM" >&2; exit 1; }
binary=$(realpath "$binary")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$DISKSIM"/valid/{statdefs,hp_c3323a.diskspecs,hp_c3323a.model,hp_c3323a.seek} "$work"
sed -e "s/Number of I\/O requests to generate *= *[0-9]*/Number of I\/O requests to generate = $requests/" \
    -e 's/Maximum time of trace generated *= *[0-9.]*/Maximum time of trace generated = 1000000.0/' \
    -e 's/Probability of sequential access *= *[0-9.]*/Probability of sequential access = 0.0/' \
    -e 's/Probability of local access *= *[0-9.]*/Probability of local access = 0.0/' \
    -e 's/Blocking factor *= *[0-9]*/Blocking factor = 16/' \
    -e 's/General inter-arrival times *= *\[[^]]*\]/General inter-arrival times = [ exponential, 0.0, 50.0 ]/' \
    -e 's/ Sizes *= *\[[^]]*\]/ Sizes = [ uniform, 15.0, 16.0 ]/' \
    "$DISKSIM/valid/synthraid5.parv" >"$work/raid5.parv"

cat >"$work/oltp.toml" <<'EOF'
schema = 1
name = "two-reads-to-a-write"
title = "8 KiB at random, two reads to a write"
source = "this bench"
metric = "iops"

[[line]]
size = "8KiB"
share_pct = 100
read_pct = 66
random_pct = 100
EOF

for _ in $(seq "$rounds"); do
    (cd "$work" && bash -c "TIMEFORMAT=%U; time timeout 300 '$binary' raid5.parv raid5.out ascii 0 1 >/dev/null 2>disksim.err" 2>disksim.seconds)
    done_by_disksim=$(awk '/^Overall I\/O System Total Requests handled/ { print $NF }' "$work/raid5.out")
    ./target/release/raidlab simulate --level 5 --members 9 --drive st3600057ss --controller perc-h800 --strip-size 32KiB \
        --workload "$work/oltp.toml" --iodepth 5 --ramp 1s --run 1500s --json >"$work/ours.json"
    python3 - "$done_by_disksim" "$work/disksim.seconds" "$work/ours.json" <<'EOF'
import json, sys
theirs = int(sys.argv[1]) / float(open(sys.argv[2]).read())
run = json.load(open(sys.argv[3]))["runs"][0]
cost = run["cost"]
ours = ((cost["host_reads"] or 0) + (cost["host_writes"] or 0)) / (cost["wall_ns"] / 1e9)
print(f"raidlab {ours:,.0f} host requests/s, DiskSim {theirs:,.0f}: {ours / theirs:.1f} times")
EOF
done
