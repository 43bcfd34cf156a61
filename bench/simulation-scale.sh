#!/usr/bin/env bash
# How the cost of simulation grows with the number of drives: one drive, then RAID 5 groups of ten drives,
# 10 to 10,000 in all, with 16 requests in flight and 16 MiB of cache for each group.
#
# Costs are processor time (user and system), so that other work on the machine counts little. Each size is run twice, for
# no time and for its window: the first is what it costs to build the drives and to end, the difference is what I/Os cost.
# The search for the bottleneck, whose runs no count of host I/Os includes, is off.
# One controller serves all groups; it has a processor for each, and links that bound nothing, so that every drive has as much
# to do in all sizes.
#
#   bench/simulation-scale.sh [RAIDLAB]    the binary, target/release/raidlab unless given
set -euo pipefail
cd "$(dirname "$0")/.."
exec python3 - "${1:-./target/release/raidlab}" <<'PYTHON'
import json, os, subprocess, sys, tempfile

def simulate(binary, level, members, groups, window_ms):
    """Host I/Os simulated, processor seconds, and peak resident memory in KiB."""
    args = [binary, "simulate", "--level", level, "--members", str(members), "--drive", "st3600057ss",
            "--controller", "perc-h800", "--volumes", str(groups), "--cache-size", f"{16 * groups}MiB",
            "--workload", "md1200-oltp", "--iodepth", str(16 * groups), "--ramp", "0s",
            "--run", f"{window_ms}ms", "--bottleneck", "off", "--json", "--set", f"perc-h800:processors={groups}"]
    for link in ["host_link", "member_link"]:
        args += ["--set", f"perc-h800:{link}.lanes=255", "--set", f"perc-h800:{link}.rate=100GB/s"]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as notes:
        child = subprocess.Popen(args, stdout=out, stderr=notes)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            notes.seek(0)
            sys.exit(notes.read().decode())
        out.seek(0)
        cost = json.load(out)["runs"][0]["cost"]
    return cost["host_reads"] + cost["host_writes"], used.ru_utime + used.ru_stime, used.ru_maxrss

SIZES = [("0", 1, 1, 2_000_000), ("5", 10, 1, 400_000), ("5", 10, 10, 60_000), ("5", 10, 100, 10_000),
         ("5", 10, 1000, 4_000)]
print("| drives | host I/Os | host I/Os/s | us each | setting up | peak memory | KiB per drive |")
print("|---|---|---|---|---|---|---|")
base_kib = None
for level, members, groups, window_ms in SIZES:
    few, idle, idle_kib = simulate(sys.argv[1], level, members, groups, 1)
    ios, seconds, kib = simulate(sys.argv[1], level, members, groups, window_ms)
    drives = members * groups
    each = (seconds - idle) / (ios - few)
    base_kib = base_kib or idle_kib
    per_drive = f"{(kib - base_kib) / drives:,.0f}" if drives > members else "-"
    print(f"| {drives:,} | {ios:,} | {1 / each:,.0f} | {each * 1e6:.1f} | {idle:.2f} s | {kib / 1024:,.0f} MiB |"
          f" {per_drive} |", flush=True)
PYTHON
