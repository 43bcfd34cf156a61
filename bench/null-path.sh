#!/usr/bin/env bash
# What an array costs without devices: random requests of 4 KiB to arrays over null members, in process and over one NBD
# connection (fio with libnbd, and `raidlab measure`), beside nbdkit's null plugin over the same Unix socket.
#
#   bench/null-path.sh [ROUNDS] [SECONDS]
#
# Prints medians, smallest and largest of the rounds. In process: requests per second of processor time. Over NBD: requests per
# second, and per second of the server's processor time. Needs nbdkit, fio with its nbd engine, and Python.
set -euo pipefail
rounds=${1:-5} seconds=${2:-3}
cd "$(dirname "$0")/.."
cargo build --release --locked -q -p raidlab
cargo build --release --locked -q -p raidlab-runtime --example null_rate
folder=$(mktemp -d)
target/release/raidlab array serve --socket "$folder/raidlab" --control "$folder/control" --history none --level 0 \
    null:512GiB null:512GiB >/dev/null 2>&1 &
raidlab=$!
nbdkit -f -U "$folder/nbdkit" null 1T </dev/null &
nbdkit=$!
trap 'kill "$nbdkit" "$raidlab"; wait; rm -rf "$folder"' EXIT
for server in raidlab nbdkit; do
    for _ in $(seq 100); do [[ -S $folder/$server ]] && break || sleep 0.1; done
done
python3 - "$folder" "$rounds" "$seconds" "nbdkit=$nbdkit" "raidlab=$raidlab" <<'PYTHON'
import json, os, statistics, subprocess, sys

folder, rounds, seconds = sys.argv[1], int(sys.argv[2]), sys.argv[3]
servers = dict(word.split("=") for word in sys.argv[4:])
tick = os.sysconf("SC_CLK_TCK")


def spread(figures):
    return f"{statistics.median(figures):12,.0f} ({min(figures):,.0f} to {max(figures):,.0f})"


def in_process(level, members, read_pct):
    command = ["target/release/examples/null_rate", level, members, "4096", read_pct, "32"]
    return float(subprocess.check_output(command).split()[0])


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / tick


def by_fio(uri, mode):
    text = subprocess.check_output(
        ["fio", "--name=x", "--ioengine=nbd", f"--uri={uri}", f"--rw={mode}", "--bs=4k", "--iodepth=32", "--size=1G",
         "--time_based", f"--runtime={seconds}", "--randrepeat=0", "--output-format=json"], text=True)
    found = json.loads(text[text.index("{"):])["jobs"][0]["read" if "read" in mode else "write"]
    return found["iops"], found["total_ios"]


def by_raidlab(uri, mode):
    workload = {"randread": "fastt600-random-read", "randwrite": "fastt600-random-write"}[mode]
    text = subprocess.check_output(
        ["target/release/raidlab", "measure", uri, "--workload", workload, "--block-size", "4KiB", "--iodepth", "32", "--run",
         f"{seconds}s", "--ramp", "0s", "--destroy-data", uri, "--json", "--db", f"{folder}/runs.sqlite"], text=True)
    found = json.loads(text)["runs"][0]["read" if "read" in mode else "write"]
    return found["iops"], found["requests"]


for level, members in [("0", "2"), ("10", "4"), ("5", "5"), ("6", "6")]:
    for what, read_pct in [("reads", "100"), ("writes", "0")]:
        print(f"in process, RAID {level:>2} of {members}, {what:6} per core:", spread(
            [in_process(level, members, read_pct) for _ in range(rounds)]), flush=True)
for client in [by_fio, by_raidlab]:
    for mode in ["randread", "randwrite"]:
        found = {server: [] for server in servers}
        for _ in range(rounds):
            for server, pid in servers.items():
                before = cpu_seconds(pid)
                iops, requests = client(f"nbd+unix:///?socket={folder}/{server}", mode)
                found[server].append((iops, requests / max(cpu_seconds(pid) - before, 1 / tick)))
        for server, pairs in found.items():
            iops, per_core = zip(*pairs)
            print(f"NBD, {client.__name__[3:]:7}, {mode:9}, {server:7}: {spread(iops)}, per core {spread(per_core)}", flush=True)
PYTHON
