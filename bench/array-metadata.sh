#!/usr/bin/env bash
# What the metadata policies cost: RAID 5 of six files over NBD with each policy by turns, the rest as `array create` gives it.
#
#   bench/array-metadata.sh [ROUNDS] [SECONDS] [FOLDER,...]
#
# The client is `raidlab measure`: 1 MiB writes in sequence at depth 8, 4 KiB writes at random at depth 32. Prints medians over the
# rounds with least and most. PROGRAMS names the programs to race (target/release/raidlab), METADATA the policies (log none),
# LEVEL the level, CREATE_OPTIONS and SERVE_OPTIONS more options of the two commands.
set -euo pipefail
rounds=${1:-5} seconds=${2:-2} folders=${3:-/dev/shm,.}
cd "$(dirname "$0")/.."
[[ -n ${PROGRAMS:-} ]] || cargo build --release --locked -q -p raidlab
python3 - "$rounds" "$seconds" "$folders" <<'PYTHON'
import itertools, json, os, statistics, subprocess, sys, tempfile, time
from pathlib import Path

ROUNDS, SECONDS, FOLDERS = int(sys.argv[1]), sys.argv[2], sys.argv[3].split(",")
PROGRAMS = os.environ.get("PROGRAMS", "target/release/raidlab").split()
POLICIES = os.environ.get("METADATA", "log none").split()
OPTIONS = {name: os.environ.get(f"{name}_OPTIONS", "").split() for name in ("CREATE", "SERVE")}
LEVEL, MEMBERS = os.environ.get("LEVEL", "5"), 6
LOADS = (("sequential-write-1m", 8, "mb_per_s"), ("random-write-4k", 32, "iops"))


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


def rates(program, policy, folder):
    """Rate of each load on a new array."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        files = [f"{place}/{number}" for number in range(MEMBERS)]
        run(program, "array", "create", "bench-metadata", "--level", LEVEL, "--metadata", policy, "--member-size", "256MiB",
            *OPTIONS["CREATE"], *files)
        socket, control = f"{place}/nbd", f"{place}/control"
        server = subprocess.Popen([program, "array", "serve", "--socket", socket, "--control", control, *OPTIONS["SERVE"],
                                   *files], stdout=subprocess.DEVNULL)
        try:
            while not Path(socket).exists():
                if server.poll() is not None:
                    sys.exit("the array is not served")
                time.sleep(0.05)
            return [measure(program, f"nbd+unix:///?socket={socket}", place, *load) for load in LOADS]
        finally:
            server.terminate()
            server.wait()


def measure(program, uri, place, load, depth, metric):
    text = run(program, "measure", uri, "--workload", f"bench/loads/{load}.toml", "--iodepth", str(depth), "--run",
               f"{SECONDS}s", "--ramp", "500ms", "--destroy-data", uri, "--json", "--db", f"{place}/runs.sqlite")
    write = json.loads(text)["runs"][0]["write"]
    return write["bytes_per_sec"] / 1e6 if metric == "mb_per_s" else write["iops"]


for folder in FOLDERS:
    found = {}
    for _, program, policy in itertools.product(range(ROUNDS), PROGRAMS, POLICIES):
        for (load, depth, metric), rate in zip(LOADS, rates(program, policy, folder)):
            found.setdefault((load, depth, metric, program, policy), []).append(rate)
    for (load, depth, metric, program, policy), each in sorted(found.items()):
        name = f"{folder:9} RAID {LEVEL} {load:20} x{depth:<3} {program:28} {policy:7}"
        print(f"{name} {statistics.median(each):9.0f} ({min(each):.0f} to {max(each):.0f}) {metric}", flush=True)
PYTHON
