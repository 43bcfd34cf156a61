#!/usr/bin/python3
"""Attacks served arrays: crashes, and more (docs/torture.md). See --help.

Each case is a process of its own with a seed and a deadline; a problem is printed with the command that repeats it. The
draws of a seed are always the same; the moments of kills are not, so a rare problem may need some repeats.
"""

import argparse
import collections
import concurrent.futures
import importlib
import json
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
Row = collections.namedtuple("Row", "part seed")
Part = collections.namedtuple("Part", "module function deadline_seconds")
PARTS = {
    "crashes": Part("crashes", "run", 180),
    "liar": Part("crashes", "run_liar", 180),
    "hostile": Part("hostile", "run", 300),
    "logs": Part("logs", "run", 120),
    "flips": Part("flips", "run", 300),
    "surroundings": Part("surroundings", "run", 180),
    "operations": Part("operations", "run", 180),
    "delivered": Part("operations", "run_delivered", 180),
    "creations": Part("operations", "run_creations", 120),
    "copies": Part("copies", "run", 120),
    "clients": Part("clients", "run", 120),
}
# How many cases a part has, besides crashes.
LONG = {"liar": 3, "hostile": 6, "logs": 12, "flips": 24, "surroundings": 40, "operations": 24, "delivered": 24, "creations": 40,
        "copies": 12, "clients": 20}
SHORT = {"liar": 1, "hostile": 3, "logs": 1, "flips": 3, "surroundings": 5, "operations": 3, "delivered": 2, "creations": 3, "copies": 4,
         "clients": 5}


def arguments():
    parser = argparse.ArgumentParser(description="Attacks served arrays; exits 1 if anything is lost, wrong or hangs.")
    parser.add_argument("binary", help="the raidlab binary")
    parser.add_argument("plugin", help="volatile.so, made by setup.sh")
    parser.add_argument("--crashes", type=int, help="how many crashes, about (1000, or 64 with --short)")
    parser.add_argument("--short", action="store_true", help="few and short cases of each part, in less than a minute")
    parser.add_argument("--seed", type=int, default=1, help="the first seed; case n of a part has seed + n")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="cases at once")
    parser.add_argument("--case", metavar="PART:SEED", help="this case alone, in this process")
    parser.add_argument("--parts", help="parts, with commas between")
    return parser.parse_args()


CRASHES_PER_CASE = 8


def rows(options):
    """All cases, the longest parts first."""
    crashes = options.crashes or (64 if options.short else 1000)
    numbers = {"crashes": -(-crashes // CRASHES_PER_CASE)} | (SHORT if options.short else LONG)
    wanted = options.parts.split(",") if options.parts else PARTS
    return [Row(part, options.seed + number) for part in wanted for number in range(numbers[part])]


def one(options):
    """A case in this process: what it did as JSON on standard output."""
    import harness

    part, seed = options.case.split(":")
    case = harness.Case(part, int(seed), os.path.abspath(options.binary), os.path.abspath(options.plugin), options.short)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        getattr(importlib.import_module(PARTS[part].module), PARTS[part].function)(case)
    except harness.Problem as problem:
        case.problem(str(problem))
    finally:
        case.close()
    print(json.dumps({"label": case.label, "counts": case.counts, "problems": case.problems}))
    return bool(case.problems)


def attempt(options, row):
    """A case in a process of its own."""
    deadline_seconds = PARTS[row.part].deadline_seconds
    command = [sys.executable, os.path.join(HERE, "attack.py"), options.binary, options.plugin, "--case", f"{row.part}:{row.seed}"]
    command += ["--short"] * options.short
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        said, error = process.communicate(timeout=deadline_seconds)
        return json.loads(said)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        return {"label": "", "counts": {}, "problems": [f"no end within {deadline_seconds} s"]}
    except ValueError:
        return {"label": "", "counts": {}, "problems": [f"the case broke off: {error[-1500:]}"]}


def report(table, seconds):
    for part, (cases, problems, counts) in table.items():
        what = ", ".join(f"{number:,} {name}" for name, number in counts.items())
        print(f"{part:<14} {cases:>6} cases  {problems:>3} problems  {what}")
    print(f"{seconds:.0f} s")


def main():
    options = arguments()
    if options.case:
        sys.exit(one(options))
    begun = time.monotonic()
    table = {}
    wanted = rows(options)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for row, found in zip(wanted, pool.map(lambda row: attempt(options, row), wanted)):
            entry = table.setdefault(row.part, [0, 0, collections.Counter()])
            entry[0] += 1
            entry[1] += bool(found["problems"])
            entry[2].update(found["counts"])
            for problem in found["problems"]:
                print(f"{row.part}, seed {row.seed} ({found['label']}): {problem}\n  again: tests/attack/attack.py "
                      f"{options.binary} {options.plugin} --case {row.part}:{row.seed}{' --short' * options.short}", flush=True)
    report(table, time.monotonic() - begun)
    sys.exit(any(problems for _, problems, _ in table.values()))


main()
