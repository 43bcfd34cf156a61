#!/usr/bin/env bash
# Races the export against nbdkit's memory, null and file plugins: the same client, the same Unix sockets, by turns. The clients are
# fio with libnbd, and `raidlab measure`, which takes less processor time for a request, so that the server is what limits.
#
#   bench/nbd-against-nbdkit.sh [ROUNDS] [SECONDS] [memory|null|file]
#
# The arrays are RAID 0: one over two files with a cache that holds all of it, so that what is measured is the way from the socket
# to the cache and back, one over two null members, and one over two files in memory as `array serve` has it by default. The last
# word leaves out the others. Prints medians over the rounds: requests per second, latency, and the servers' processor time per
# request, which other load on the machine changes least. Needs nbdkit, fio with its nbd engine, and Python. PROFILE is what it is
# built with, unless release.
set -euo pipefail
rounds=${1:-5} seconds=${2:-3} kind=${3:-}
case $kind in '' | memory | null | file) ;; *) echo "'$kind' is none of memory, null and file" >&2; exit 2 ;; esac
cd "$(dirname "$0")/.."
profile=${PROFILE:-release}
cargo build --profile "$profile" --locked -q -p raidlab-cli
raidlab=target/$profile/raidlab
folder=$(mktemp -d) memory=$(mktemp -d -p /dev/shm)
members=("$folder/member-0" "$folder/member-1") in_memory=("$memory/member-0" "$memory/member-1")
create() { "$raidlab" array create bench-nbd --level 0 --metadata none --member-size 128MiB "$@" >/dev/null; }
create "${members[@]}"
create "${in_memory[@]}"
serve() { exec "$raidlab" array serve --socket "$folder/$1" --control "$folder/$1.control" "${@:2}" >/dev/null; }
serve raidlab --write-policy write-back --cache-size 512MiB ${SERVE_OPTIONS:-} "${members[@]}" &
pids=("raidlab=$!")
serve raidlab-null --history none --level 0 null:128MiB null:128MiB &
pids+=("raidlab-null=$!")
serve raidlab-file "${in_memory[@]}" &
pids+=("raidlab-file=$!")
nbdkit -f -U "$folder/nbdkit" memory 256M </dev/null &
pids+=("nbdkit=$!")
nbdkit -f -U "$folder/nbdkit-null" null 256M </dev/null &
pids+=("nbdkit-null=$!")
truncate -s 256M "$memory/file"
nbdkit -f -U "$folder/nbdkit-file" file "$memory/file" </dev/null &
pids+=("nbdkit-file=$!")
trap 'kill "${pids[@]#*=}"; wait; rm -rf "$folder" "$memory"' EXIT
for server in "${pids[@]%=*}"; do
    for _ in $(seq 100); do [[ -S $folder/$server ]] && break || sleep 0.1; done
    fio --name=fill --ioengine=nbd --uri="nbd+unix:///?socket=$folder/$server" --rw=write --bs=256k --iodepth=8 \
        --size=256M --output-format=terse >/dev/null
done
python3 - "$raidlab" "$folder" "$rounds" "$seconds" "$kind" "${pids[@]}" <<'PYTHON'
import itertools, json, os, statistics, subprocess, sys

raidlab, folder, rounds, seconds, only = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5]
servers = dict(word.split("=") for word in sys.argv[6:])
tick = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / tick


def by_fio(uri, depth, block, mode):
    text = subprocess.run(
        ["fio", "--name=x", "--ioengine=nbd", f"--uri={uri}", f"--rw={mode}", f"--bs={block}", f"--iodepth={depth}",
         "--time_based", f"--runtime={seconds}", "--size=256M", "--randrepeat=0", "--output-format=json"],
        capture_output=True, text=True, check=True).stdout
    job = json.loads(text[text.index("{"):])["jobs"][0]
    found = job["read" if "read" in mode else "write"]
    return found["iops"], found["clat_ns"]["percentile"]["50.000000"] / 1e3, found["total_ios"]


WORKLOADS = {"randread": "fastt600-random-read", "randwrite": "fastt600-random-write", "read": "fastt600-streaming-read"}


def by_raidlab(uri, depth, block, mode):
    text = subprocess.run(
        [raidlab, "measure", uri, "--workload", WORKLOADS[mode], "--block-size", block.upper() + "iB",
         "--iodepth", str(depth), "--run", f"{seconds}s", "--ramp", "0s", "--destroy-data", uri, "--json",
         "--db", f"{folder}/runs.sqlite"], capture_output=True, text=True, check=True).stdout
    found = json.loads(text)["runs"][0]["read" if "read" in mode else "write"]
    return found["iops"], found["lat_ns_p50"] / 1e3, found["requests"]


def run(client, server, pid, depth, block, mode):
    before = cpu_seconds(pid)
    iops, p50_us, requests = client(f"nbd+unix:///?socket={folder}/{server}", depth, block, mode)
    return iops, p50_us, (cpu_seconds(pid) - before) / requests * 1e6


def race(tool, client, depth, block, mode, kind):
    """Runs the pair of servers of one kind by turns, and prints their medians."""
    found = {name: [] for name in (f"nbdkit{kind}", f"raidlab{kind}")}
    for _ in range(rounds):
        for name, runs in found.items():
            runs.append(run(client, name, servers[name], depth, block, mode))
    medians = []
    for name, runs in found.items():
        iops, p50, cpu = (statistics.median(column) for column in zip(*runs))
        medians.append(iops)
        least, best = min(row[0] for row in runs), max(row[0] for row in runs)
        print(f"{name:12} {mode:9} {block:>4} x{depth:<2} {tool:7} {iops:9.0f} {least:9.0f} {best:9.0f} {p50:8.1f} {cpu:8.2f}")
    print(f"{'ratio of medians':38} {medians[1] / medians[0]:9.2f}", flush=True)


print(f"{'':38} {'IOPS':>9} {'least':>9} {'best':>9} {'p50 us':>8} {'cpu us':>8}")
LOADS = ((32, "4k", "randread", ""), (1, "4k", "randread", ""), (32, "4k", "randwrite", ""), (8, "256k", "read", ""),
         (32, "4k", "randread", "-null"), (32, "4k", "randwrite", "-null"), (32, "4k", "randread", "-file"),
         (8, "64k", "randread", "-file"), (32, "64k", "read", "-file"), (8, "1m", "read", "-file"))
if only:
    LOADS = tuple(load for load in LOADS if load[3] == ("" if only == "memory" else f"-{only}"))
for load, (tool, client) in itertools.product(LOADS, (("fio", by_fio), ("raidlab", by_raidlab))):
    race(tool, client, *load)
PYTHON
