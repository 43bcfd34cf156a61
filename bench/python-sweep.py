"""A thousand arrays under five workloads, from Python and by `raidlab study` (docs/python.md): `python bench/python-sweep.py [ROUNDS]`
where the wheel is installed.

Each round has the sweep on all processors, the study, and the sweep on one thread, in turning order. The study also keeps its runs in a file.
"""

import itertools
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import raidlab

LEVELS = ["0", "5", "6", "10"]
MEMBERS = [4, 6, 8, 10, 12]
STRIPS = ["16KiB", "32KiB", "64KiB", "128KiB", "256KiB"]
DRIVES = ["st3600057ss", "st373355ss", "st373455ss", "st32000444ss", "generic-hdd-15k"]
POLICIES = ["write-through", "write-back"]
WORKLOADS = ["storagebench-database", "storagebench-file-server", "storagebench-restore", "storagebench-streaming", "md1200-oltp"]
WINDOW = {"ramp": "20ms", "run": "50ms"}
CONTROLLER, ENCLOSURE = "perc-h800", "md1200"

STUDY = """schema = 1
title = "A thousand arrays"
question = "How long do they take?"
seed = 1
[load]
workloads = {workloads}
iodepths = [8]
ramp = "{ramp}"
run = "{run}"
"""


def study(folder, threads):
    lists = {"levels": LEVELS, "members": MEMBERS, "strip-size": STRIPS, "drive": DRIVES, "write-policies": POLICIES}
    text = STUDY.format(workloads=WORKLOADS, **WINDOW)
    text += f'[[simulate]]\ncontroller = "{CONTROLLER}"\nenclosure = "{ENCLOSURE}"\nregion = "10GB"\n'
    text += "".join(f"{key} = {values}\n" for key, values in lists.items())
    (folder / "study.toml").write_text(text.replace("'", '"'))
    command = ["raidlab", "study", "study.toml", "--db", "runs.sqlite", f"--threads={threads}"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def sweep(threads):
    cells = itertools.product(LEVELS, MEMBERS, STRIPS, DRIVES, POLICIES)
    arrays = [
        raidlab.Array(level=level, members=members, strip=strip, drive=drive, write_policy=policy, controller=CONTROLLER, enclosure=ENCLOSURE, region="10GB")
        for level, members, strip, drive, policy in cells
    ]
    return len(raidlab.sweep(arrays, WORKLOADS, 8, threads=threads, progress=False, **WINDOW))


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    processors = os.cpu_count()
    took = {"sweep": [], "study": [], "sweep on one thread": []}
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as name:
            kinds = [
                ("sweep", lambda: sweep(processors)),
                ("study", lambda: study(pathlib.Path(name), processors)),
                ("sweep on one thread", lambda: sweep(1)),
            ]
            for kind, run in kinds[number % 3 :] + kinds[: number % 3]:
                started = time.perf_counter()
                run()
                took[kind].append(time.perf_counter() - started)
                print(f"{kind}: {took[kind][-1]:.1f} s", file=sys.stderr)
    middle = {kind: statistics.median(seconds) for kind, seconds in took.items()}
    print(f"sweep over study: {middle['sweep'] / middle['study']:.3f}")
    print(f"one thread over {processors}: {middle['sweep on one thread'] / middle['sweep']:.2f}")


main()
