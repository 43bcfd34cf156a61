#!/usr/bin/env bash
# What an array costs without devices: random requests of 4 KiB to arrays over null members, in this process.
#
#   bench/null-path.sh [ROUNDS]
#
# Prints requests per second of processor time: median, smallest and largest of the rounds. `nbd-against-nbdkit.sh` has the same
# array over NBD.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked -q -p raidlab-runtime --example null_rate
python3 - "${1:-5}" <<'PYTHON'
import itertools, statistics, subprocess, sys

ARRAYS = (("0", "2"), ("10", "4"), ("5", "5"), ("6", "6"))
for (level, members), (what, read_pct) in itertools.product(ARRAYS, (("reads", "100"), ("writes", "0"))):
    command = ["target/release/examples/null_rate", level, members, "4096", read_pct, "32"]
    rates = [float(subprocess.check_output(command).split()[0]) for _ in range(int(sys.argv[1]))]
    print(f"RAID {level:>2} of {members}, {what:6} {statistics.median(rates):12,.0f} ({min(rates):,.0f} to {max(rates):,.0f})", flush=True)
PYTHON
