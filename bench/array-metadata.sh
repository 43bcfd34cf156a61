#!/usr/bin/env bash
# What the metadata policies cost: writes to arrays of six files with each policy by turns, the rest as `array create` gives it.
#
#   bench/array-metadata.sh [ROUNDS] [FOLDER,...]
#
# The load is in the array's process: 1 MiB in sequence at depth 8, 4 KiB at random at depth 32. Prints medians over the rounds with
# least and most, and member I/Os per request. PROGRAMS names the programs to race (builds of the runtime's example `array_rate`),
# POLICIES the policies, LEVELS the levels.
set -euo pipefail
rounds=${1:-5} folders=${2:-/dev/shm,.}
cd "$(dirname "$0")/.."
[[ -n ${PROGRAMS:-} ]] || cargo build --release --locked -q -p raidlab-runtime --example array_rate
python3 - "$rounds" "$folders" <<'PYTHON'
import itertools, os, statistics, subprocess, sys, tempfile

ROUNDS, FOLDERS = int(sys.argv[1]), sys.argv[2].split(",")
PROGRAMS = os.environ.get("PROGRAMS", "target/release/examples/array_rate").split()
POLICIES = os.environ.get("POLICIES", "log none").split()
LEVELS = os.environ.get("LEVELS", "5 6").split()
# Name, bytes, percentage of random places, requests in flight, and whether the rate is one of bytes.
LOADS = (("1 MiB sequential", 1 << 20, 0, 8, True), ("4 KiB random", 4096, 100, 32, False))

for folder, level, (load, size, random_pct, depth, by_bytes) in itertools.product(FOLDERS, LEVELS, LOADS):
    found = {}
    for _, program, policy in itertools.product(range(ROUNDS), PROGRAMS, POLICIES):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            words = [program, place, level, "6", policy, str(size), str(random_pct), str(depth)]
            text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        bytes_per_sec, iops, ios = map(float, text.split())
        found.setdefault((program, policy), []).append((bytes_per_sec / 1e6 if by_bytes else iops, ios))
    for (program, policy), runs in found.items():
        rates, ios = zip(*runs)
        spread = f"{statistics.median(rates):9.0f} ({min(rates):.0f} to {max(rates):.0f}) {'MB/s' if by_bytes else 'IOPS'}"
        print(f"{folder:9} RAID {level} {load:17} {program:38} {policy:6} {spread}, {statistics.median(ios):.2f} member I/Os",
              flush=True)
PYTHON
