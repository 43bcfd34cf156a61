#!/usr/bin/env bash
# What threads for I/O gain: arrays of six files without metadata, with each number of threads by turns.
#
#   bench/io-threads.sh [ROUNDS] [THREADS,...] [FOLDER]
#
# The load is in the array's process. Prints medians over the rounds with least and most, and how many times the rate without
# threads that is. Run it on an idle machine with one processor more than threads. PROGRAM names a build of the runtime's example
# `array_rate`, METADATA the metadata policy, LEVELS the levels.
set -euo pipefail
rounds=${1:-5} threads=${2:-0,1} folder=${3:-/dev/shm}
cd "$(dirname "$0")/.."
[[ -n ${PROGRAM:-} ]] || cargo build --release --locked -q -p raidlab-runtime --example array_rate
python3 - "$rounds" "$threads" "$folder" <<'PYTHON'
import itertools, os, statistics, subprocess, sys, tempfile

ROUNDS, THREADS, FOLDER = int(sys.argv[1]), sys.argv[2].split(","), sys.argv[3]
PROGRAM = os.environ.get("PROGRAM", "target/release/examples/array_rate")
METADATA = os.environ.get("METADATA", "none")
LEVELS = os.environ.get("LEVELS", "10 5 6").split()
# Name, bytes, percentage of random places, requests in flight, percentage of reads.
LOADS = (("4 KiB reads", 4096, 100, 32, 100), ("4 KiB writes", 4096, 100, 32, 0), ("4 KiB writes", 4096, 100, 1, 0),
         ("1 MiB reads", 1 << 20, 0, 8, 100), ("1 MiB writes", 1 << 20, 0, 8, 0), ("1 MiB writes", 1 << 20, 0, 1, 0))

for level, (load, size, random_pct, depth, read_pct) in itertools.product(LEVELS, LOADS):
    found = {count: [] for count in THREADS}
    for turn in range(ROUNDS):
        for count in THREADS[:: 1 if turn % 2 == 0 else -1]:
            with tempfile.TemporaryDirectory(dir=FOLDER) as place:
                words = [PROGRAM, place, level, "6", METADATA, size, random_pct, depth, read_pct, count]
                text = subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout
            found[count].append(float(text.split()[1]))
    base = statistics.median(found[THREADS[0]])
    for count, rates in found.items():
        middle = statistics.median(rates)
        print(f"RAID {level:>2} {load:12} depth {depth:2}, {count} threads: {middle:9.0f} a second"
              f" ({min(rates):.0f} to {max(rates):.0f}), {middle / base:.2f}", flush=True)
PYTHON
