#!/usr/bin/env python3
"""The disk of a virtual machine, measured by fio, against a model of it, at loads that the model was not made from.

usage: bench/virtual-disk.py RAIDLAB FOLDER

fio measures limits of a file in FOLDER: reads and writes of 4 KiB at random, alone and with 32 in flight, both in sequence, and half
of each together. `model from-sheet --measured --capped true` makes a drive of them, and five other loads run on the file and on the
drive, in turn and three times. Prints medians. The machine should have nothing else to do.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

RAIDLAB = sys.argv[1]
FOLDER = pathlib.Path(sys.argv[2])
ROUNDS = 3
SIZE = "4g"
ARRAY = ["--level", "0", "--members", "1", "--drive", "here", "--controller", "linux-md-nvme", "--condition", "sequential"]
# What fio does, and the same as a line of a workload: size, share of reads, share at random, in flight.
LOADS = {
    "reads at random, 4 KiB, 4": ("randread", "4KiB", 100, 100, 4),
    "reads at random, 16 KiB, 8": ("randread", "16KiB", 100, 100, 8),
    "writes at random, 4 KiB, 4": ("randwrite", "4KiB", 0, 100, 4),
    "70 % reads, 8 KiB, 16": ("randrw", "8KiB", 70, 100, 16),
    "reads in sequence, 128 KiB, 2": ("read", "128KiB", 100, 0, 2),
}
LINE = """schema = 1
name = "{name}"
title = "{name}"
source = "bench/virtual-disk.py"
metric = "iops"
[[line]]
size = "{size}"
share_pct = 100
read_pct = {read}
random_pct = {random}
"""


def output(*words):
    return subprocess.run(words, stdout=subprocess.PIPE, check=True).stdout


def fio(file, kind, size, iodepth, read_pct=100):
    """Requests a second and the mean time of one, in microseconds, of the direction that there is more of."""
    done = json.loads(
        output(
            *["fio", "--name=it", f"--filename={file}", f"--size={SIZE}", "--direct=1", "--ioengine=io_uring", "--time_based"],
            *["--ramp_time=1", "--runtime=4", f"--rw={kind}", f"--bs={size.replace('iB', '').lower()}", f"--iodepth={iodepth}"],
            *[f"--rwmixread={read_pct}", "--output-format=json"],
        )
    )["jobs"][0]
    both = [done["read"], done["write"]]
    busiest = max(both, key=lambda it: it["iops"])
    return sum(it["iops"] for it in both), busiest["lat_ns"]["mean"] / 1e3


def modelled(folder, model, name, size, read, random, iodepth):
    line = folder / "load.toml"
    line.write_text(LINE.format(name="load", size=size, read=read, random=random))
    words = [*ARRAY, "--catalog", str(model), "-w", str(line), "--iodepth", str(iodepth), "--run", "5s", "--ramp", "1s"]
    total = json.loads(output(RAIDLAB, "simulate", *words, "--json"))["runs"][0]["total"]
    return total["iops"]


def main():
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        folder = pathlib.Path(name)
        file = folder / "disk.bin"
        # All of it, since what was never written is not read from the disk.
        output("fio", "--name=fill", f"--filename={file}", f"--size={SIZE}", "--direct=1", "--rw=write", "--bs=1m")
        limits = {it: [] for it in ["read", "write", "both", "read alone", "write alone", "in", "out", "in and out"]}
        seen = {load: [] for load in LOADS}
        for _ in range(ROUNDS):
            limits["read"].append(fio(file, "randread", "4KiB", 32)[0])
            limits["write"].append(fio(file, "randwrite", "4KiB", 32)[0])
            limits["both"].append(fio(file, "randrw", "4KiB", 32, 50)[0])
            limits["read alone"].append(fio(file, "randread", "4KiB", 1)[1])
            limits["write alone"].append(fio(file, "randwrite", "4KiB", 1)[1])
            limits["in"].append(fio(file, "read", "1MiB", 8)[0] * 1.048576)
            limits["out"].append(fio(file, "write", "1MiB", 8)[0] * 1.048576)
            limits["in and out"].append(fio(file, "randrw", "1MiB", 8, 50)[0] * 1.048576)
            for load, (kind, size, read, _, iodepth) in LOADS.items():
                seen[load].append(fio(file, kind, size, iodepth, read)[0])
        file.unlink()
        for it, values in limits.items():
            print(f"{it:12} {statistics.median(values):10.1f}   ({min(values):.1f} to {max(values):.1f})")
        of = {it: statistics.median(values) for it, values in limits.items()}
        # A disk that nobody caps may do less of both than of one.
        together = max(of["both"], of["read"], of["write"])
        rate_together = max(of["in and out"], of["in"], of["out"])
        model = folder / "here.toml"
        output(
            *[RAIDLAB, "model", "from-sheet", "--kind", "nvme", "--capacity", "100GB", "--measured", "--capped", "true", "--id", "here"],
            *["--interface", "pcie5x16", "--read-iops", f"{of['read']:.0f}", "--write-iops", f"{of['write']:.0f}"],
            *["--read-latency", f"{of['read alone']:.1f}us", "--write-latency", f"{of['write alone']:.1f}us"],
            *["--seq-read", f"{of['in']:.1f}MB/s", "--seq-write", f"{of['out']:.1f}MB/s"],
            *["--total-iops", f"{together:.0f}", "--total-rate", f"{rate_together:.1f}MB/s", "-o", str(model)],
        )
        print(f"\n{'load':32}{'disk/s':>10}{'model/s':>10}{'off':>9}   disk from, to")
        for load, (_, *line) in LOADS.items():
            disk, found = statistics.median(seen[load]), modelled(folder, model, load, *line)
            spread = f"{min(seen[load]):.0f}, {max(seen[load]):.0f}"
            print(f"{load:32}{disk:10.0f}{found:10.0f}{100 * (found / disk - 1):+8.1f}%   {spread}")


main()
