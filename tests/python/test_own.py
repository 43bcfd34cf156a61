"""Workloads and drives that are written in Python."""

import array as buffers
import itertools
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor

import pytest

import raidlab

SHORT = {"ramp": "10ms", "run": "200ms", "bottleneck": False, "progress": False}


def array(**settings):
    given = {"level": "5", "members": 4, "drive": "st3600057ss", "controller": "perc-h800", "region": "1GB", **settings}
    return raidlab.Array(**given)


def without_wall_time(runs):
    rows = runs.to_dicts()
    for row in rows:
        row["cost"].pop("wall_ns")
    return rows


# Workloads.


def mixed(target):
    chance = target.random()
    while True:
        places = [chance.randrange(target.blocks - 16) * target.block_bytes for _ in range(500)]
        yield places, 4096, [chance.random() < 0.3 for _ in range(500)]


def test_a_workload_of_ones_own_is_run_as_others_are():
    runs = raidlab.simulate(array(), mixed, [1, 16], ramp="100ms", run="2s", bottleneck=False)
    assert [run.workload for run in runs] == ["mixed", "mixed"]
    first, second = (run.to_dict() for run in runs)
    assert second["total"]["iops"] > 2 * first["total"]["iops"] > 0
    share = second["write"]["requests"] / second["total"]["requests"]
    assert 0.25 < share < 0.35
    assert second["read"]["bytes_per_sec"] == pytest.approx(4096 * second["read"]["iops"])
    again = raidlab.simulate(array(), raidlab.OwnWorkload(mixed), [1, 16], ramp="100ms", run="2s", bottleneck=False)
    assert without_wall_time(again) == without_wall_time(runs)
    other = raidlab.simulate(array(), mixed, [1, 16], ramp="100ms", run="2s", bottleneck=False, seed=2)
    assert without_wall_time(other) != without_wall_time(runs)


def ways():
    """The same four requests as everything that a batch can be."""
    import numpy
    import pandas
    import polars
    import pyarrow

    offsets, sizes, kinds = [0, 8192, 4096, 65536], [4096] * 4, [0, 1, 0, 1]
    table = {"offset_bytes": offsets, "size_bytes": sizes, "is_write": kinds}
    return {
        "lists": (offsets, sizes, kinds),
        "one number for all": (offsets, 4096, kinds),
        "array": (buffers.array("q", offsets), buffers.array("I", sizes), bytes(kinds)),
        "memoryview": (memoryview(buffers.array("Q", offsets)), memoryview(buffers.array("i", sizes)), memoryview(bytes(kinds))),
        "numpy": (numpy.array(offsets), numpy.array(sizes, dtype="uint32"), numpy.array(kinds) == 1),
        "numpy with gaps": (numpy.array([it for it in offsets for _ in range(2)])[::2], numpy.array(sizes), numpy.array(kinds)),
        "dictionary": table,
        "pandas": pandas.DataFrame(table),
        "polars": polars.DataFrame(table),
        "arrow": pyarrow.table(table),
        "arrow batch": pyarrow.record_batch(table),
    }


def test_a_batch_may_be_anything_with_numbers():
    found = {}
    for name, batch in ways().items():
        run = raidlab.simulate(array(), lambda target, batch=batch: [batch] * 25, ramp="0s", run="20s", bottleneck=False)[0]
        found[name] = {key: value for key, value in run.to_dict().items() if key in ("read", "write", "total")}
    assert found["lists"]["write"]["requests"] == found["lists"]["read"]["requests"] == 50
    assert [name for name, figures in found.items() if figures != found["lists"]] == []


def test_requests_arrive_when_they_say():
    def every_10_ms(target):
        yield range(0, 4096 * 100, 4096), 4096, 0, range(0, 1_000_000_000, 10_000_000)

    workload = raidlab.OwnWorkload(every_10_ms, name="steady", timed=True)
    run = raidlab.simulate(array(), workload, 64, ramp="0s", run="10s", bottleneck=False)[0]
    assert run.workload == "steady"
    assert run.to_dict()["total"]["requests"] == 100
    assert 95 < run.iops < 105


def test_flushes_are_requests_too():
    def log(target):
        for place in range(100):
            yield [place * 4096, 0], [4096, 0], [1, 2]

    run = raidlab.simulate(array(write_policy="write-through"), log, ramp="0s", run="20s", bottleneck=False)[0]
    assert run.to_dict()["write"]["requests"] == 100
    assert run.to_dict()["flush"]["requests"] == 100


def one(*columns, **options):
    return lambda: raidlab.simulate(array(), raidlab.OwnWorkload(lambda _: [columns], name="mine", **options), **SHORT)


BAD_WORKLOADS = [
    (one([0], [4096]), "'mine', batch 1", "(offset_bytes, size_bytes, is_write)"),
    (one([0, 4096], [4096], [0]), "batch 1", "no common length"),
    (one(0, 4096, 0), "batch 1", "no common length"),
    (one([0.5], 4096, 0), "offset_bytes", "whole numbers"),
    (one(buffers.array("d", [0.5]), 4096, 0), "offset_bytes", "whole numbers"),
    (one(["here"], 4096, 0), "offset_bytes", "whole numbers"),
    (one([-4096], 4096, 0), "request 1: offset_bytes -4096", "below zero"),
    (one([0, 100], 4096, 0), "request 2: size_bytes 4096 at offset_bytes 100", "multiples of the block of 512"),
    (one([0], 0, 0), "size_bytes 0", "above zero"),
    (one([10**15], 4096, 0), "offset_bytes 1000000000000000", "region ends at 1000000000"),
    (one([0], 2 << 20, 0), "size_bytes 2097152", "no request is longer than 1 MiB, unless largest= says so"),
    (one([0], 4096, 7), "kind 7", "0 reads, 1 writes, 2 flushes"),
    (one([0, 0], 4096, 0, [5, 4], timed=True), "time_ns 4", "never go back"),
    (one([0], 4096, 0, timed=True), "3 columns", "time_ns"),
    (lambda: raidlab.simulate(array(), lambda _: 5, **SHORT), "5", "yields"),
    (lambda: raidlab.simulate(array(), lambda _: [5], **SHORT), "int is no batch", "offset_bytes"),
    (lambda: raidlab.OwnWorkload(5), "function=5", "raidlab.Target"),
    (lambda: raidlab.OwnWorkload(mixed, largest="1 parsec"), "largest='1 parsec'", "size"),
    (lambda: raidlab.OwnWorkload(mixed, largest="1GiB"), "largest='1GiB'", "32 MiB"),
    (lambda: raidlab.OwnWorkload(mixed, timed=1), "timed=1", "True or False"),
    (lambda: raidlab.OwnWorkload(mixed, name=1), "name=1", "text"),
    (lambda: raidlab.OwnWorkload(mixed, name=""), "name=''", "not empty"),
    (lambda: raidlab.simulate(array(), lambda _: itertools.repeat(([], [], [])), **SHORT), "batch 10001", "return where there are no more"),
]


@pytest.mark.parametrize(("call", "named", "allowed"), BAD_WORKLOADS)
def test_bad_batches_are_named_with_what_is_allowed(call, named, allowed):
    with pytest.raises(raidlab.RaidlabError) as raised:
        call()
    assert named in str(raised.value)
    assert allowed in str(raised.value)


class Mine(Exception):
    pass


def failing(target):
    yield [0] * 100, 4096, 0
    raise Mine("after a batch")


def test_what_a_workload_raises_reaches_the_caller():
    with pytest.raises(Mine, match="after a batch") as raised:
        raidlab.simulate([array()] * 4, failing, [1, 2], **SHORT)
    assert raised.traceback[-1].name == "failing"
    # The same objects serve on.
    assert raidlab.simulate(array(), mixed, **SHORT)[0].iops > 0


def test_workloads_of_ones_own_go_to_other_processes():
    workload = raidlab.OwnWorkload(mixed, name="elsewhere")
    assert pickle.loads(pickle.dumps(workload)).name == "elsewhere"
    alone = raidlab.sweep([array(), array(level="10")], workload, [1, 4], **SHORT)
    with ProcessPoolExecutor(2) as processes:
        there = raidlab.sweep([array(), array(level="10")], workload, [1, 4], executor=processes, **SHORT)
        with pytest.raises(Mine):
            raidlab.sweep(array(), failing, executor=processes, **SHORT)
    assert without_wall_time(there) == without_wall_time(alone)


def test_ctrl_c_ends_what_calls_python():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    calls = [0]

    def endless(target):
        for batch in mixed(target):
            calls[0] += 1
            yield batch

    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        raidlab.simulate(array(), endless, [64] * 10, ramp="0s", run="10000s", bottleneck=False)
    # Nothing is asked for any more.
    time.sleep(0.2)
    before = calls[0]
    time.sleep(0.5)
    assert calls[0] == before


# One that is interrupted again and again, in the middle of what it calls; and ends as if nothing was.
INTERRUPTED = """
import os, signal, sys, threading, time
import raidlab

class Slow:
    def __init__(self, number):
        pass

    def service(self, now_ns, op, offset_bytes, bytes):
        return sum(range(2000))

def endless(target):
    while True:
        yield [sum(range(2000)) * 0] * 10, 4096, 1

def stuck(target):
    while True:
        pass

catalog = raidlab.Catalog(drives={"mine": raidlab.OwnDrive(Slow, like="st3600057ss")})
arrays = [raidlab.Array("5", 4, drive, "perc-h800", region="1GB") for drive in ("mine", "st3600057ss")] * 4
workload = {"endless": endless, "stuck": stuck}[sys.argv[1]]

def work():
    raidlab.simulate(arrays, workload, [64], ramp="0s", run="10000s", bottleneck=False, catalog=catalog)

if sys.argv[2] == "daemon":
    threading.Thread(target=work, daemon=True).start()
    time.sleep(0.3)
else:
    began = [0.0]

    def interrupt():
        began[0] = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(0.3, interrupt).start()
    try:
        work()
    except KeyboardInterrupt:
        print("answered after", time.monotonic() - began[0])
"""


@pytest.mark.parametrize("workload", ["endless", "stuck"])
@pytest.mark.parametrize("thread", ["main", "daemon"])
def test_python_ends_after_an_interrupt_with_no_thread_inside(workload, thread):
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", INTERRUPTED, workload, thread], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        if thread == "main":
            # 100 ms where this machine has nothing else to do.
            assert float(done.stdout.split()[-1]) < 2


# Drives.


class Steady:
    """Every command takes a millisecond, and one more for each drive before it."""

    def __init__(self, number):
        self.number = number
        self.chance = random.Random(number)

    def service(self, now_ns, op, offset_bytes, bytes):
        return 1_000_000 * (1 + self.number) if op != "flush" else 0


class Nearest(Steady):
    """A head that moves 100 bytes a nanosecond, to the nearest first."""

    def __init__(self, number):
        super().__init__(number)
        self.head = 0

    def choose(self, now_ns, waiting):
        return min(range(len(waiting)), key=lambda place: abs(waiting[place][1] - self.head))

    def service(self, now_ns, op, offset_bytes, bytes):
        moved, self.head = abs(offset_bytes - self.head), offset_bytes + bytes
        return moved / 100 + 10_000


class InTurn(Nearest):
    choose = None


def catalog(model, **options):
    return raidlab.Catalog(drives={"mine": raidlab.OwnDrive(model, like="st3600057ss", **options)})


def reads(target):
    chance = target.random()
    while True:
        yield [chance.randrange(target.blocks - 8) * 512 for _ in range(200)], 4096, 0


def run_on(model, iodepth=1, **options):
    mine = catalog(model, **options)
    return raidlab.simulate(array(level="0", members=2, drive="mine"), reads, iodepth, catalog=mine, ramp="100ms", run="2s", bottleneck=False)


def test_a_drive_of_ones_own_says_how_long_commands_take():
    slow, slower = run_on(Steady)[0], run_on(lambda now_ns, op, offset_bytes, bytes: 10e6)[0]
    # Half of the reads go to the drive of a millisecond, half to that of two.
    assert 1.5e6 < slow.latency.mean_ns < 1.7e6
    assert 10e6 < slower.latency.mean_ns < 10.3e6
    assert without_wall_time(run_on(Steady)) == without_wall_time(run_on(Steady))
    deep = run_on(lambda *_: 10e6, 16)[0], run_on(lambda *_: 10e6, 16, parallel=8)[0]
    assert deep[0].iops == pytest.approx(200, rel=0.15)
    assert deep[1].iops == pytest.approx(1600, rel=0.15)


def test_a_drive_of_ones_own_chooses_what_is_next():
    assert run_on(Nearest, 32)[0].iops > 1.5 * run_on(InTurn, 32)[0].iops


def test_what_sets_the_pace_is_found_with_drives_of_ones_own():
    found = raidlab.simulate(array(level="0", members=2, drive="mine"), "database", 8, catalog=catalog(Steady), ramp="100ms", run="500ms")
    assert "drives" in found[0].bottleneck


def raising(now_ns, op, offset_bytes, bytes):
    if now_ns > 50_000_000:
        raise Mine(f"at {now_ns}")
    return 1_000_000


class NotBuilt:
    def __init__(self, number):
        raise Mine("not built")

    def service(self, *_):
        return 0


class Elsewhere(Steady):
    def choose(self, now_ns, waiting):
        return 99


BAD_DRIVES = [
    (lambda: run_on(lambda *_: -5), "'mine'", "-5, and that is no number of nanoseconds from 0"),
    (lambda: run_on(lambda *_: None), "None", "nanoseconds"),
    (lambda: run_on(lambda *_: float("nan")), "nan", "nanoseconds"),
    (lambda: run_on(Elsewhere, 32), "choose() returned 99", "from 0 to"),
    (lambda: raidlab.OwnDrive(5, "st3600057ss"), "model=5", "service(now_ns"),
    (lambda: raidlab.OwnDrive(Mine, "st3600057ss"), "Mine", "service(now_ns"),
    (lambda: raidlab.OwnDrive(Steady, 5), "like=5", "name of a drive"),
    (lambda: raidlab.OwnDrive(Steady, "st3600057ss", parallel=0), "parallel=0", "from 1 to"),
    (lambda: raidlab.OwnDrive(Steady, "st3600057ss", capacity=5), "capacity=5", "unit"),
    (lambda: catalog(Steady, capacity="5 parsecs"), "capacity='5 parsecs'", "size"),
    (lambda: raidlab.Catalog(drives={"mine": raidlab.OwnDrive(Steady, "st3600057s")}), "drives['mine']", "did you mean"),
    (lambda: raidlab.Catalog(drives={"st3600057ss": raidlab.OwnDrive(Steady, "st3600057ss")}), "st3600057ss", "drives"),
    (lambda: raidlab.Catalog(drives={"mine": Steady}), "drives['mine']", "raidlab.OwnDrive"),
    (lambda: raidlab.Catalog(drives={"": raidlab.OwnDrive(Steady, "st3600057ss")}), "drives['']", "a name"),
    (lambda: raidlab.OwnDrive(Steady, ""), "like=''", "a drive of the catalogue"),
    (lambda: raidlab.Catalog(drives=[Steady]), "drives=", "dictionary"),
    (lambda: run_on(lambda *_: True), "takes True", "no number of nanoseconds"),
    (lambda: run_on(lambda *_: float("nan")), "takes nan", "no number of nanoseconds"),
]


@pytest.mark.parametrize(("call", "named", "allowed"), BAD_DRIVES)
def test_bad_drives_are_named_with_what_is_allowed(call, named, allowed):
    with pytest.raises(raidlab.RaidlabError) as raised:
        call()
    assert named in str(raised.value)
    assert allowed in str(raised.value)


@pytest.mark.parametrize("model", [raising, NotBuilt])
def test_what_a_drive_raises_reaches_the_caller(model):
    with pytest.raises(Mine):
        run_on(model)
    assert run_on(Steady)[0].iops > 0


def test_drives_of_ones_own_go_to_other_processes():
    mine = catalog(Steady)
    arrays = [array(level=level, members=4, drive="mine") for level in ("0", "10")]
    alone = raidlab.sweep(arrays, "database", [1, 4], catalog=mine, **SHORT)
    with ProcessPoolExecutor(2) as processes:
        there = raidlab.sweep(arrays, "database", [1, 4], catalog=mine, executor=processes, **SHORT)
    assert without_wall_time(there) == without_wall_time(alone)
    smaller = array(level="0", members=4, drive="mine", region=None).usable_bytes(catalog(Steady, capacity="100GB"))
    assert 399e9 < smaller <= 400e9
