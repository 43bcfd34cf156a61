#!/usr/bin/env bash
# Host I/Os simulated per second on one core: RAID 5 over nine drives, OLTP, in virtual time.
set -euo pipefail
cd "$(dirname "$0")/.."
for round in 1 2 3; do
    ./target/release/raidlab simulate --level 5 --members 9 --drive st3600057ss --controller perc-h800 \
        --workload md1200-oltp --iodepth 64 --ramp 10s --run 1200s --bottleneck off --json |
        python3 -c '
import json, sys
run = json.load(sys.stdin)["runs"][0]
cost = run["cost"]
ios = (cost["host_reads"] or 0) + (cost["host_writes"] or 0)
seconds = cost["wall_ns"] / 1e9
print(f"{ios} host I/Os in {seconds:.2f} s: {ios / seconds:,.0f} host I/Os/s")'
done
