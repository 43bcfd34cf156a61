#!/usr/bin/env python3
"""The same training on files in a folder, and in virtual time on a model of what they lie on.

usage: bench/accelerators-against-model.py RAIDLAB FOLDER

Measures limits of a file in FOLDER (reads of 4 KiB at random, alone and with 128 in flight; reads in sequence) and makes a model of them
with `model from-sheet --measured --capped true`. Then 1, 2, 4 and 8 accelerators run on sample files and on the model, in turn and three
times. Their samples are like those of UNet3D and ResNet-50 and fewer, and each accelerator asks for a fifth of the rate in sequence: four
are fed and eight are not. Prints medians and extremes. Takes seven minutes and 4 GiB; the machine should have nothing else to do.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

RAIDLAB = sys.argv[1]
FOLDER = pathlib.Path(sys.argv[2])
COUNTS = [1, 2, 4, 8]
ROUNDS = 3
SIZE = "2GiB"
# Batch, mean of a sample's bytes, and what else is said of them.
TRAININGS = {
    "unet3d-like": (8, 4 << 20, 'loader = "batch"\nsample_deviation = "2MiB"'),
    "resnet50-like": (400, 114660, "samples_per_file = 125"),
}
SHARE = 5
HEAD = """schema = 1
name = "{name}"
title = "{name}"
source = "bench/accelerators-against-model.py"
metric = "mb-per-s"
"""
LINE = HEAD + """[[line]]
size = "{size}"
share_pct = 100
read_pct = 100
random_pct = {random}
"""
TRAINING = HEAD + """[[part]]
name = "training"
[part.accelerator]
batch = {batch}
compute = "{compute_us}us"
read_threads = 4
prefetch = 4
sample_size = "{bytes} B"
requests_per_thread = 2
barrier = true
{more}
"""
ARRAY = ["--level", "0", "--members", "1", "--drive", "here", "--controller", "linux-md-nvme"]
TIMES = ["--ramp", "4s", "--run", "8s"]


def answer(*words):
    """What the program answers, as JSON."""
    done = subprocess.run([RAIDLAB, *words, "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def limit(folder, size, random, iodepth):
    """The figures of reads of one kind."""
    line = folder / "limit.toml"
    line.write_text(LINE.format(name="limit", size=size, random=random))
    file = folder / "limits.bin"
    run = answer("measure", str(file), "--size", SIZE, "-w", str(line), "--iodepth", str(iodepth), "--ramp", "1s", "--run", "4s")
    return run["runs"][0]["total"]


def model_of(folder):
    """Makes a model of what the folder lies on. Returns its file, and the rate in sequence."""
    alone = limit(folder, "4KiB", 100, 1)
    iops = limit(folder, "4KiB", 100, 128)["iops"]
    rate = limit(folder, "1MiB", 0, 32)["bytes_per_sec"]
    (folder / "limits.bin").unlink()
    latency_us = 1e6 / alone["iops"]
    print(f"limits: {iops:.0f} reads/s of 4 KiB, {latency_us:.0f} us for one alone, {rate / 1e6:.0f} MB/s")
    model = folder / "here.toml"
    subprocess.run(
        [RAIDLAB, "model", "from-sheet", "--kind", "nvme", "--capacity", "100GB", "--measured", "--capped", "true", "--interface", "pcie5x16"]
        + ["--id", "here", "--read-iops", f"{iops:.0f}", "--read-latency", f"{latency_us:.1f}us"]
        + ["--seq-read", f"{rate / 1e6:.3f}MB/s", "-o", str(model)],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return model, rate


def main():
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        folder = pathlib.Path(name)
        model, rate = model_of(folder)
        plan = []
        for training, (batch, size, more) in TRAININGS.items():
            file = folder / f"{training}.toml"
            compute_us = round(batch * size / (rate / SHARE) * 1e6)
            file.write_text(TRAINING.format(name=training, batch=batch, bytes=size, compute_us=compute_us, more=more))
            plan += [(training, count) for count in COUNTS]
        seen = {one: ([], []) for one in plan}
        for turn in range(ROUNDS):
            for training, count in plan if turn % 2 == 0 else reversed(plan):
                common = ["-w", str(folder / f"{training}.toml"), "--accelerators", str(count), *TIMES, "--seed", str(turn + 1)]
                files = ["measure", str(folder / training), "--size", SIZE, *common]
                modelled = ["simulate", *ARRAY, "--catalog", str(model), *common]
                for kept, words in zip(seen[training, count], [files, modelled]):
                    points = answer(*words)["fed"][0]["points"]
                    kept += [(point["mb_per_s"], point["au_pct"]) for point in points if point["accelerators"] == count]
        print("workload        accelerators  files MB/s (from, to)      AU %  model MB/s   AU %  model/files")
        for (training, count), (files, modelled) in seen.items():
            rates, aus, model_rates, model_aus = ([run[at] for run in runs] for runs in (files, modelled) for at in (0, 1))
            middle = statistics.median(rates)
            spread = f"({min(rates):.0f}, {max(rates):.0f})"
            print(
                f"{training:16}{count:12}{middle:12.1f} {spread:14}{statistics.median(aus):9.1f}"
                f"{statistics.median(model_rates):12.1f}{statistics.median(model_aus):7.1f}{statistics.median(model_rates) / middle:13.3f}",
                flush=True,
            )


main()
