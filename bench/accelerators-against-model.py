#!/usr/bin/env python3
"""The same training on files in a folder, and in virtual time on a model of what they lie on.

usage: bench/accelerators-against-model.py RAIDLAB FOLDER

Measures two limits of a file in FOLDER (reads at random, reads in sequence), makes a model of them with `model from-sheet
--measured --capped true`, and then runs accelerators on sample files and on the model, in turn and three times. Prints the medians. The machine should
have nothing else to do.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

RAIDLAB = sys.argv[1]
FOLDER = pathlib.Path(sys.argv[2])
WORKLOADS = {"mlperf-unet3d-h100": [1, 2], "mlperf-resnet50-h100": [2, 8, 16]}
ROUNDS = 3
SIZE = "4GiB"
ARRAY = ["--level", "0", "--members", "1", "--drive", "here", "--controller", "linux-md-nvme"]
LINE = """schema = 1
name = "{name}"
title = "{name}"
source = "bench/accelerators-against-model.py"
metric = "iops"
[[line]]
size = "{size}"
share_pct = 100
read_pct = 100
random_pct = {random}
"""


def answer(*words):
    """What the program answers, as JSON."""
    done = subprocess.run([RAIDLAB, *words, "--json"], stdout=subprocess.PIPE, check=False)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(words)} ended with {done.returncode}")
    return json.loads(done.stdout)


def read(folder, file, size, random, iodepth):
    """The figures of reads of one kind."""
    line = folder / f"{size}-{random}.toml"
    line.write_text(LINE.format(name=line.stem, size=size, random=random))
    runs = answer("measure", str(file), "--size", SIZE, "-w", str(line), "--iodepth", str(iodepth), "--run", "3s")["runs"]
    return runs[0]["total"]


def main():
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        folder = pathlib.Path(name)
        file = folder / "limits.bin"
        iops = read(folder, file, "4KiB", 100, 128)["iops"]
        rate = read(folder, file, "1MiB", 0, 32)["bytes_per_sec"]
        file.unlink()
        print(f"limits: {iops:.0f} reads/s of 4 KiB, {rate / 1e6:.0f} MB/s")
        model = folder / "here.toml"
        subprocess.run(
            [RAIDLAB, "model", "from-sheet", "--kind", "nvme", "--capacity", "100GB", "--measured", "--capped", "true", "--interface", "pcie5x16", "--id", "here"]
            + ["--read-iops", f"{iops:.0f}", "--seq-read", f"{rate / 1e6:.3f}MB/s", "-o", str(model)],
            stdout=subprocess.DEVNULL,
            check=True,
        )
        print("workload              accelerators  files MB/s  model MB/s  model/files")
        for workload, counts in WORKLOADS.items():
            samples = folder / workload
            seen = {count: ([], []) for count in counts}
            for _ in range(ROUNDS):
                for count in counts:
                    common = ["-w", workload, "--accelerators", str(count)]
                    sources = [["measure", str(samples), "--size", SIZE, *common], ["simulate", *ARRAY, "--catalog", str(model), *common]]
                    for rates, words in zip(seen[count], sources):
                        found = answer(*words)["fed"][0]["points"]
                        rates += [point["mb_per_s"] for point in found if point["accelerators"] == count]
            for count, pair in seen.items():
                files, model_rate = map(statistics.median, pair)
                print(f"{workload:22}{count:12}{files:12.0f}{model_rate:12.0f}{model_rate / files:13.2f}")


main()
