"""The package `raidlab` as its users call it."""

import json
import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import raidlab

SHORT = {"ramp": "10ms", "run": "200ms"}


def array(**settings):
    given = {"level": "5", "members": 4, "drive": "st3600057ss", "controller": "perc-h800", "region": "1GB", **settings}
    return raidlab.Array(**given)


@pytest.fixture(scope="module")
def runs():
    return raidlab.simulate(array(), "md1200-oltp", [1, 8], ramp="10ms", run="3s")


def without_wall_time(runs):
    rows = runs.to_dicts()
    for row in rows:
        row["cost"].pop("wall_ns")
        row["cost"].pop("bottleneck_wall_ns", None)
    return rows


def test_a_run_has_the_figures_and_the_words_of_the_command_line(runs):
    options = "--level 5 --members 4 --drive st3600057ss --controller perc-h800 --region 1GB --ramp 10ms --run 3s --iodepth 1,8"
    command = [os.environ["RAIDLAB"], "simulate", *options.split(), "--workload", "md1200-oltp", "--json"]
    of_program = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["runs"]
    for row in of_program:
        row["cost"].pop("wall_ns")
        row["cost"].pop("bottleneck_wall_ns", None)
    assert without_wall_time(runs) == of_program
    assert "bottleneck: " in runs[0].explain()
    assert runs[0].bottleneck in " ".join(runs[0].explain().split())


def test_tables_reach_frame_libraries(runs):
    import polars
    import pyarrow

    frame, of_arrow, of_polars = runs.to_pandas(), pyarrow.table(runs), polars.DataFrame(runs)
    assert list(frame["iodepth"]) == [1, 8]
    assert of_arrow.column_names == list(frame.columns) == of_polars.columns
    assert of_arrow["total_iops"].to_pylist() == list(frame["total_iops"]) == of_polars["total_iops"].to_list()
    assert of_arrow["strip_bytes"].type == pyarrow.uint64()
    assert of_arrow["tags_json"].to_pylist() == ["[]", "[]"]


def test_a_table_is_written_and_an_entry_found_by_its_name(runs, tmp_path):
    table = runs.table()
    assert table.to_parquet(tmp_path / "runs.parquet") is None
    assert (tmp_path / "runs.parquet").read_bytes() == table.to_parquet()
    with pytest.raises(raidlab.RaidlabError, match="path=.*can't be written"):
        table.to_parquet(tmp_path / "nowhere" / "runs.parquet")
    drives = raidlab.Catalog().drives
    assert drives["st3600057ss"]["id"] == "st3600057ss"
    with pytest.raises(KeyError, match="no entry 'st3600057xx'"):
        drives["st3600057xx"]


def test_latencies_and_timelines(runs):
    latency = runs[1].latency
    facts = runs[1].to_dict()["total"]
    assert latency.percentile(99.9) == facts["lat_ns_p999"]
    assert facts["lat_ns_p50"] <= latency.percentile(75) <= facts["lat_ns_p90"] * 1.125
    assert latency.percentile(100) == latency.max_ns
    all_of_them = [latency.percentile(pct / 100) for pct in range(1, 10_001)]
    assert all_of_them == sorted(all_of_them), "what is kept lies between the ends of bins"
    timeline = runs[1].timeline.to_dicts()
    assert {row["op"] for row in timeline} == {"read", "write", "total"}
    assert sum(row["requests"] for row in timeline if row["op"] == "total") == facts["requests"]


def test_everything_pickles(runs):
    workload = raidlab.Workload("database")
    catalog = raidlab.Catalog(set={"perc-h800:member_command.read": "7us"})
    again = pickle.loads(pickle.dumps([array(), workload, catalog, runs]))
    assert again[0] == array()
    assert again[1].to_dict() == workload.to_dict()
    assert again[2].entries[:] != raidlab.Catalog().entries[:]
    assert again[3].to_dicts() == runs.to_dicts()


def test_objects_show_themselves(runs):
    assert "<iframe srcdoc=" in runs._repr_html_()
    assert "&lt;svg" in runs._repr_html_()
    assert "st3600057ss" in raidlab.Catalog().drives._repr_html_()
    assert "bottleneck" in runs[0]._repr_html_()


LONG = "x" * 5000
ENDLESS = {"run": "10000000s", "ramp": "0s"}

BAD = [
    (lambda: array(level="7"), "level='7'", "use one of"),
    (lambda: array(members=-1), "members=-1", "from 3 to 255"),
    (lambda: array(strip="64 apples"), "strip=", "64KiB"),
    (lambda: array(write_policy="write-bak"), "write_policy='write-bak'", "did you mean 'write-back'?"),
    (lambda: array(disk_cache="on"), "disk_cache='on'", "True or False"),
    (lambda: array(cache={"flush-start": 3}), "cache['flush-start']", "stream-lead"),
    (lambda: array(condition="worn"), "condition='worn'", "fresh"),
    (lambda: array(fail="C", fail_after="1s"), "fail='C'", "A, B"),
    (lambda: raidlab.simulate(array(drive="st3600057s"), "database"), "st3600057s", "did you mean 'st3600057ss'?"),
    (lambda: raidlab.simulate(array(level="6", members=2), "database"), "RAID 6 over 2 members", "4 or more"),
    (lambda: raidlab.simulate(array(), "databse"), "databse", "did you mean"),
    (lambda: raidlab.simulate(array(), 5), "workload=5", "a name"),
    (lambda: raidlab.simulate("r5", "database"), "arrays='r5'", "raidlab.Array"),
    (lambda: raidlab.simulate(array(), "database", 0), "iodepth=0", "from 1 to 65536"),
    (lambda: raidlab.simulate(array(), "database", "8"), "iodepth='8'", "from 1 to 65536"),
    (lambda: raidlab.simulate(array(), "kv-cache", 8), "'kv-cache'", "an iodepth does not change"),
    (lambda: raidlab.simulate(array(), "database", seed=-1), "seed=-1", "from 0 to"),
    (lambda: raidlab.simulate(array(), "database", run="0s"), "run=", "5s"),
    (lambda: raidlab.simulate(array(), "database", run=5), "run=5", "with a unit"),
    (lambda: raidlab.simulate(array(), "database", ramp="5 parsecs"), "ramp='5 parsecs'", "write a time"),
    (lambda: raidlab.simulate(array(), "database", threads=0), "threads=0", "from 1 to"),
    (lambda: raidlab.sweep([array(), array(level="6", members=2)], "database"), "arrays[1]", "4 or more"),
    (lambda: raidlab.sweep([array(), "r5"], "database"), "arrays[1]='r5'", "raidlab.Array"),
    (lambda: raidlab.sweep([], "database"), "arrays=[]", "at least one"),
    (lambda: raidlab.sweep(array(), []), "workloads=[]", "at least one"),
    (lambda: raidlab.sweep(array(), "database", []), "iodepths=[]", "at least one"),
    (lambda: raidlab.sweep(array(), "database", [1, 2.5]), "iodepths=2.5", "from 1 to 65536"),
    (lambda: raidlab.sweep(array(), "database", executor=5), "executor=5", "concurrent.futures"),
    (lambda: raidlab.sweep(array(), "database", output=5), "output=5", "folder"),
    (lambda: raidlab.sweep(array(), "database", output=__file__), "test_raidlab.py", "folder"),
    (lambda: raidlab.simulate(array(), "database", bottleneck="yes"), "bottleneck='yes'", "True or False"),
    (lambda: raidlab.simulate(array(), "database", catalog="mine.toml"), "catalog='mine.toml'", "raidlab.Catalog"),
    (lambda: raidlab.simulate(array(), "database", seed=2**64), "seed=18446744073709551616", "2^64 - 1"),
    (lambda: array(condition=object()), "condition=<object", "it is text"),
    (lambda: array(strip=64), "strip=64", "64KiB"),
    (lambda: array(members="four"), "members='four'", "whole number"),
    (lambda: array(drive=5), "drive=5", "text"),
    (lambda: raidlab.Array.from_toml("missing.toml"), "missing.toml", "No such file"),
    (lambda: raidlab.Array.from_toml(5), "path=5", "a path"),
    (lambda: array().label(catalog=5), "catalog=5", "raidlab.Catalog"),
    (lambda: raidlab.Workload(5), "name=5", "path"),
    (lambda: raidlab.Workload("missing.toml"), "missing.toml", "No such file"),
    (lambda: raidlab.Workload.from_fio(5), "path=5", "a path"),
    (lambda: raidlab.Catalog("mine.toml"), "files='mine.toml'", "list"),
    (lambda: raidlab.Catalog(set=["perc-h800"]), "set=", "dictionary"),
    (lambda: raidlab.Catalog(set={"perc-h800": "1"}), "perc-h800", "member_command.read"),
    (lambda: raidlab.Store(5), "path=5", "a path"),
    (lambda: raidlab.Runs([5]), "runs=5", "raidlab.Run"),
    (lambda: raidlab.Latency({}).percentile(float("nan")), "pct=nan", "above 0 and at most 100"),
    (lambda: array(members=float("nan")), "members=nan", "a finite number"),
    (lambda: array(cache={"size": float("inf")}), "cache['size']=inf", "a finite number"),
    (lambda: raidlab.Catalog(5), "files=5", "a list of files and folders"),
    (lambda: raidlab.Catalog(b"x"), "files=b'x'", "a list of files and folders"),
    (lambda: raidlab.Catalog(set={1: 2}), "set={1: 2}", "perc-h800:member_command.read"),
    (lambda: raidlab.simulate(array(), "md1200-oltp", iodepth=b"5"), "iodepth=b'5'", "requests in flight"),
    (lambda: raidlab.simulate(array(), b"md"), "workload=b'md'", "a workload is a name"),
    (lambda: raidlab.simulate(array(), memoryview(b"database")), "workload=<memory at", "a workload is a name"),
    (lambda: raidlab.Latency({}).percentile("high"), "pct='high'", "above 0 and at most 100"),
    (lambda: raidlab.Latency({}).percentile(0), "pct=0", "above 0 and at most 100"),
    (lambda: raidlab.risk("6", "many"), "many", "members"),
    (lambda: raidlab.plan(nosuch=1), "nosuch", "no argument"),
    (lambda: raidlab.plan(trials=[], spare=False), "plan() has no argument trials", "spare (did you mean spares?): it has accelerators,"),
    (lambda: raidlab.risk("6", 12, nosuch=None), "risk() has no argument nosuch", "it has afr,"),
    (lambda: raidlab.compare(1, 2, nosuch=False), "compare() has no argument nosuch", "it has catalog, db,"),
    (lambda: raidlab.fit("md1200-2011", table="1"), "fit() has no argument table", "it has array,"),
    (lambda: raidlab.reproduce("md1200-2011", max_p95_error=None), "max_p95_error", "did you mean max_p90_error?"),
    (lambda: raidlab.plan(verbose=True), "verbose", "'raidlab plan --verbose'"),
    (lambda: raidlab.risk("6", 12, spares=False), "spares=False", "text or a number (N), or a list"),
    (lambda: raidlab.risk("6", 12, spares=[]), "spares=[]", "at least one (N)"),
    (lambda: raidlab.risk("6", 12, spares=iter([])), "spares=<list_iterator", "at least one (N)"),
    (lambda: raidlab.risk("6", 12, spares={1}), "spares={1}", "or a list"),
    (lambda: raidlab.risk("6", 12, spares=[1, 2]), "spares=[1, 2]", "takes one value"),
    (lambda: raidlab.risk(True, 12), "level=True", "text or a number (LEVEL)"),
    (lambda: raidlab.plan(app=False, usable="1TB"), "app=False", "text or a number (NAME)"),
    (lambda: raidlab.plan(app="database", usable="1TB", drive=[]), "drive=[]", "at least one (ID)"),
    (lambda: raidlab.plan(app="database", usable="1TB", together=1), "together=1", "True or False"),
    (lambda: raidlab.fit(to=["1"]), "only", "needs only="),
    (lambda: raidlab.Controller("7"), "7", "use one of"),
    (lambda: raidlab.Controller(members="3"), "members='3'", "from 1 to 64"),
    (lambda: raidlab.Controller(strip=0), "strip=0", "64KiB"),
    (lambda: raidlab.Controller().write(0, "text"), "data='text'", "bytes"),
    (lambda: raidlab.Controller().write(-1, bytes(512)), "lba=-1", "from 0 to"),
    (lambda: raidlab.Controller().read(0, 0), "blocks=0", "from 1 to"),
    (lambda: raidlab.Controller().fail(3), "member=3", "from 0 to 2"),
    (lambda: raidlab.Controller().result("1"), "request='1'", "from 0 to"),
    (lambda: raidlab.Catalog(set={"perc-h80:x": "1"}), "perc-h80", "did you mean 'perc-h800'?"),
    (lambda: raidlab.Catalog(["missing.toml"]), "missing.toml", "No such file"),
    (lambda: raidlab.Store("missing.sqlite"), "missing.sqlite", "no such results file"),
    (lambda: raidlab.risk("9", 4), "'9'", "use one of"),
    (lambda: raidlab.plan(app="databse", usable="1TB"), "databse", "did you mean"),
    (lambda: raidlab.plan(app="database", usable="1 parsec"), "usable", "parsec"),
    (lambda: raidlab.reproduce("md1200-2012"), "md1200-2012", "md1200-2011"),
    (lambda: raidlab.sweep(array(), 5), "workloads=5", "a workload is a name"),
    (lambda: raidlab.sweep(array(), ["database", None]), "workloads[1]=None", "a workload is a name"),
    (lambda: raidlab.sweep(array(), "databse"), "workloads='databse'", "raidlab.Workload.builtin()"),
    (lambda: raidlab.sweep(array(), "missing.toml"), "workloads='missing.toml'", "No such file"),
    (lambda: raidlab.simulate(array(), ""), "workload=''", "a path"),
    (lambda: raidlab.Workload("databse"), "name='databse'", "raidlab.Workload.builtin()"),
    (lambda: raidlab.Workload("missing.toml"), "name='missing.toml'", "No such file"),
    (lambda: raidlab.Workload.from_toml("missing.toml"), "path='missing.toml'", "No such file"),
    (lambda: raidlab.Workload.from_fio("missing.fio"), "path='missing.fio'", "No such file"),
    (lambda: raidlab.Array.from_toml("missing.toml"), "path='missing.toml'", "No such file"),
    (lambda: raidlab.Array.from_toml(sys.executable), f"path='{sys.executable}'", "no text in UTF-8"),
    (lambda: raidlab.Catalog(["missing.toml"]), "files='missing.toml'", "No such file"),
    (lambda: raidlab.sweep(array(), "database", output="/proc/nope/x", **ENDLESS), "output='/proc/nope/x'", "No such file"),
    (lambda: raidlab.sweep(array(), "database", output=f"{__file__}/x", **ENDLESS), "output='", "Not a directory"),
    (lambda: raidlab.sweep(array(), "database", output="file:///proc/nope/x", **ENDLESS), "output='file:///proc/nope/x'", "can't be written to"),
    (lambda: raidlab.sweep(array(), "database", output=LONG, **ENDLESS), "output='xxx", "File name too long"),
    (lambda: raidlab.Catalog([LONG]), "files='xxx", "File name too long"),
    (lambda: raidlab.Store(LONG), "path='xxx", "File name too long"),
    (lambda: raidlab.Runs([]).save_html(LONG), "path='xxx", "File name too long"),
    (lambda: raidlab.Runs([]).table().to_parquet(LONG), "path='xxx", "File name too long"),
    (lambda: raidlab.risk("6", 12, drive="x" * 200_000), "drive='xxx", "100000 bytes at most"),
    (lambda: raidlab.Runs(None), "runs=None", "they are raidlab.Run"),
    (lambda: raidlab.Runs({}), "runs={}", "they are raidlab.Run"),
    (lambda: raidlab.Runs([], title=5), "title=5", "text"),
    (lambda: raidlab.Runs([]) + None, "other=None", "raidlab.Runs"),
    (lambda: raidlab.sweep(array(), "database", overwrite="yes"), "overwrite='yes'", "True or False"),
    (lambda: raidlab.simulate(array(), "database", {1: "x"}), "iodepth={1: 'x'}", "a number of requests in flight"),
    (lambda: raidlab.sweep(array(), "database", {1, 4}), "iodepths={1, 4}", "a number of requests in flight"),
    (lambda: raidlab.sweep({array()}, "database"), "arrays={Array", "a raidlab.Array"),
    (lambda: raidlab.Catalog({"mine.toml"}), "files={'mine.toml'}", "a list"),
    (lambda: array(fill=0).label(), "fill=0", "from 1 to 100"),
    (lambda: array(fill=50).label(), "fill=50", "translation layer"),
    (lambda: array(region=0), "region=0", "512B or more"),
    (lambda: array(region="0B"), "region='0B'", "512B or more"),
    (lambda: array(cache_size="32MiB", cache={"size": "64MiB"}), "cache_size='32MiB': cache={'size': '64MiB'}", "give one"),
    (lambda: array(metadata="log", resilience={"metadata": "bitmap"}), "metadata='log': resilience={'metadata': 'bitmap'}", "give one"),
    (lambda: array(read_policy="adaptive", cache={"read-policy": "adaptive"}), "read_policy='adaptive'", "give one"),
    (lambda: array(io_policy="direct", cache={"io-policy": "cached"}), "io_policy='direct'", "give one"),
    (lambda: array(resilience=[]), "resilience=[]", "a dictionary"),
    (lambda: array(cache="64MiB"), "cache='64MiB'", "a dictionary"),
    (lambda: array(members={"1": 2}), "members={'1': 2}", "it is text, a finite number"),
    (lambda: array(members=2**64), "members=18446744073709551616", "2^64 - 1"),
    (lambda: array(level=()), "level=()", "it is text"),
    (lambda: raidlab.Catalog(set={"perc-h800:member_command.read": None}), "set={'perc-h800:member_command.read': None}", "'7us'"),
    (lambda: raidlab.Workload.from_fio(__file__, env={"BS": 2.5}), "env={'BS': 2.5}", "a whole number"),
    (lambda: raidlab.Workload.from_fio(__file__, env={"BS": None}), "env={'BS': None}", "a whole number"),
    (lambda: raidlab.Workload.from_fio(__file__, env={1: "4k"}), "env={1: '4k'}", "has a name"),
    (lambda: raidlab.Controller().write(0, b"x"), "data=b'x'", "whole blocks of 512"),
    (lambda: raidlab.reproduce("--help"), "paper='--help'", "the name of a paper"),
    (lambda: raidlab.reproduce("--x"), "paper='--x'", "the name of a paper"),
    (lambda: raidlab.reproduce(""), "paper='': there", "no paper ''"),
    (lambda: raidlab.fit("--help"), "paper='--help'", "the name of a paper"),
    (lambda: raidlab.compare("--help", "x"), "runs='--help'", "'study:2'"),
    (lambda: raidlab.compare(1, -1), "runs=-1", "'study:2'"),
    (lambda: raidlab.compare(1, None), "runs=None", "'study:2'"),
    (lambda: raidlab.compare(1, "x"), "runs='x'", "as raidlab.Store(path).runs().to_pandas() lists them"),
    (lambda: raidlab.compare(1, 2, db="missing.sqlite"), "db='missing.sqlite'", "raidlab.plan(..., db=...) makes one"),
    (lambda: raidlab.plan(app="database", usable="1TB", drives="1", threads=1), "drives='1': there is no drive", "raidlab.Catalog()"),
    (lambda: raidlab.plan(app="database", usable="1TB", kinds="x"), "kinds='x': it is one of", "nvme, sas-ssd"),
    (lambda: raidlab.plan(app="database", usable="1TB", kinds=""), "kinds='': it is one of", "nvme, sas-ssd"),
    (lambda: raidlab.plan(app="database", usable="1TB", bound="--x"), "bound='--x': '--x'", "write a bound"),
    (lambda: raidlab.risk("6", 12, drive="st3600057ss", catalog=-1), "catalog=-1", "No such file"),
]


@pytest.mark.parametrize(("call", "named", "allowed"), BAD)
def test_bad_input_is_named_with_what_is_allowed(call, named, allowed):
    with pytest.raises(raidlab.RaidlabError) as raised:
        call()
    assert named in str(raised.value)
    assert allowed in str(raised.value)


NO_TEXT = "\u00e9\0", "\ud800"
WITH_TEXT = {
    "output": lambda text: raidlab.sweep(array(), "database", output=text),
    "files": lambda text: raidlab.Catalog([text]),
    "path": lambda text: raidlab.Store(text),
    "name": lambda text: raidlab.Workload(text),
    "workload": lambda text: raidlab.simulate(array(), text),
    "drive": lambda text: raidlab.risk("6", 12, drive=text),
    "paper": lambda text: raidlab.reproduce(text),
    "runs": lambda text: raidlab.compare(1, text),
}


@pytest.mark.parametrize("text", NO_TEXT)
@pytest.mark.parametrize("name", WITH_TEXT)
def test_text_that_no_system_takes_is_named(name, text):
    with pytest.raises(raidlab.RaidlabError, match=f"^{name}='.*without zero bytes"):
        WITH_TEXT[name](text)


HALF = "half \ud800"
IN_HALVES = {
    "drive": lambda: array(drive=HALF),
    "run": lambda: raidlab.simulate(array(), "database", run=HALF),
    "set": lambda: raidlab.Catalog(set={"perc-h800:member_command.read": HALF}),
    "drives": lambda: raidlab.Catalog(drives={HALF: raidlab.OwnDrive(print, "st3600057ss")}),
    "like": lambda: raidlab.OwnDrive(print, HALF),
    "name": lambda: raidlab.OwnWorkload(print, name=HALF),
    "level": lambda: raidlab.Controller(HALF),
    "title": lambda: raidlab.Runs([], HALF),
}


@pytest.mark.parametrize("name", IN_HALVES)
def test_half_of_a_character_is_named(name):
    with pytest.raises(raidlab.RaidlabError, match=f"^{name}='half .*at 5 it has half of a character"):
        IN_HALVES[name]()


LONG_VALUES = [
    lambda: raidlab.plan(app="database", usable="1TB", controllers=LONG),
    lambda: raidlab.risk(LONG, 12),
    lambda: array(level=LONG),
    lambda: array(drive=LONG),
    lambda: array(strip=LONG),
    lambda: array(cache={"size": LONG}),
    lambda: raidlab.Workload(LONG),
    lambda: raidlab.simulate(array(), "database", ramp=LONG),
    lambda: raidlab.simulate(array(), "database", run=LONG),
    lambda: raidlab.Catalog(set={"perc-h800:member_command.read": LONG}),
    lambda: raidlab.Catalog(set={f"{LONG}:member_command.read": "7us"}),
    lambda: raidlab.OwnWorkload(print, name=LONG),
    lambda: raidlab.OwnWorkload(print, largest=LONG),
    lambda: raidlab.OwnDrive(print, like=LONG),
    lambda: raidlab.OwnDrive(print, like="st3600057ss", capacity=LONG),
    lambda: raidlab.Controller(LONG),
    lambda: raidlab.Controller(strip=LONG),
    lambda: raidlab.compare(1, LONG),
    lambda: raidlab.Catalog(LONG),
    lambda: raidlab.Catalog(set=LONG),
    lambda: raidlab.Workload.from_fio(__file__, env={"BS": LONG}),
]


@pytest.mark.parametrize("call", LONG_VALUES)
def test_of_a_long_value_the_beginning_is_shown(call):
    with pytest.raises(raidlab.RaidlabError, match="x{199,200}\\.\\.\\.") as raised:
        call()
    assert "x" * 201 not in str(raised.value)


def test_ctrl_c_is_answered_before_the_run_ends():
    # Who starts the tests in the background has it ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    pressed = []

    def press():
        pressed.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(0.3, press).start()
    with pytest.raises(KeyboardInterrupt):
        raidlab.simulate(array(region=None), "md1200-oltp", [64] * 50, run="20s")
    # A tenth of a second on a machine that does nothing else; the runs would take minutes.
    assert time.monotonic() - pressed[0] < 2


def test_other_threads_go_on_during_a_call():
    counted, stop = [0], threading.Event()

    def count():
        while not stop.wait(0.005):
            counted[0] += 1

    thread = threading.Thread(target=count)
    thread.start()
    raidlab.simulate(array(), "md1200-oltp", [8], ramp="10ms", run="5s")
    stop.set()
    thread.join()
    assert counted[0] > 5


def kill_once(marker):
    """Ends this worker, the first time that it is asked to."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os._exit(1)


class Killing(ProcessPoolExecutor):
    """Has a worker die in the middle of a sweep."""

    def __init__(self, marker):
        super().__init__(2)
        self.marker, self.count = marker, 0

    def submit(self, *task):
        self.count += 1
        if self.count == 3:
            super().submit(kill_once, self.marker)
        return super().submit(*task)


ARRAYS = [("5", members) for members in range(3, 6)] + [("10", 4)]


def test_an_executor_loses_nothing_when_a_worker_dies(tmp_path):
    arrays = [array(level=level, members=members) for level, members in ARRAYS]
    alone = raidlab.sweep(arrays, ["database", "streaming"], [1, 4], **SHORT)
    with ThreadPoolExecutor(2) as threads:
        by_threads = raidlab.sweep(arrays, ["database", "streaming"], [1, 4], executor=threads, **SHORT)
    with Killing(str(tmp_path / "killed")) as processes:
        by_processes = raidlab.sweep(arrays, ["database", "streaming"], [1, 4], executor=processes, **SHORT)
    assert (tmp_path / "killed").exists()
    assert len(alone) == 2 * 2 * len(arrays)
    assert without_wall_time(by_threads) == without_wall_time(alone)
    assert without_wall_time(by_processes) == without_wall_time(alone)


def test_parquet_parts_are_the_runs(tmp_path):
    import duckdb

    arrays = [array(level=level, members=members) for level, members in ARRAYS]
    with ThreadPoolExecutor(2) as threads:
        kept = raidlab.sweep(arrays, "database", [1, 4], executor=threads, output=str(tmp_path / "out"), **SHORT)
    assert len(kept) == 0
    alone = raidlab.sweep(arrays, "database", [1, 4], **SHORT).to_arrow()["total_iops"].to_pylist()
    rows = duckdb.sql(f"SELECT run, total_iops FROM '{tmp_path}/out/*.parquet' ORDER BY run").fetchall()
    assert rows == list(enumerate(alone, 1))


@pytest.mark.parametrize("where", ["memory://runs/{}", "file://{}/out", "{}/plain"])
def test_parquet_goes_to_any_path_and_never_beside_an_earlier_sweep(where, tmp_path):
    import fsspec
    import pyarrow.parquet

    output = where.format(tmp_path)
    arrays = [array(level=level, members=members) for level, members in ARRAYS]
    raidlab.sweep(arrays, "database", [1, 4], output=output, **SHORT)
    with pytest.raises(raidlab.RaidlabError, match="output=.*of an earlier sweep.*overwrite=True"):
        raidlab.sweep(arrays[:1], "database", 1, output=output, **SHORT)
    filesystem, folder = fsspec.core.url_to_fs(output)

    def rows():
        names = sorted(filesystem.ls(folder, detail=False))
        return [row for name in names for row in pyarrow.parquet.read_table(filesystem.open(name)).to_pylist()]

    assert [row["run"] for row in rows()] == list(range(1, 2 * len(arrays) + 1))
    beside = f"{folder}/notes.parquet.txt"
    filesystem.pipe_file(beside, b"mine")
    raidlab.sweep(arrays[:1], "database", 1, output=output, overwrite=True, **SHORT)
    assert filesystem.cat_file(beside) == b"mine"
    filesystem.rm_file(beside)
    assert len(rows()) == 1




def test_workloads_of_files(tmp_path):
    job = tmp_path / "job.fio"
    job.write_text("[global]\nbs=8k\n[job]\nrw=randread\nsize=16m\n")
    (workload,) = raidlab.Workload.from_fio(job)
    assert workload.to_dict()["lines"][0]["size_bytes"] == 8192
    assert raidlab.simulate(array(), workload, 4, bottleneck=False, **SHORT)[0].iops > 0
    job.write_text("[job]\nrw=randread\nioengine=nonsense\nbs=8x\n")
    with pytest.raises(raidlab.RaidlabError, match="job.fio:4: bs"):
        raidlab.Workload.from_fio(job)
    assert "storagebench-database" in raidlab.Workload.builtin()


def test_kept_runs(tmp_path):
    store = tmp_path / "runs.sqlite"
    options = "--level 5 --members 4 --drive st3600057ss --controller perc-h800 --region 1GB --ramp 10ms --run 200ms --iodepth 1,8"
    command = [os.environ["RAIDLAB"], "simulate", *options.split(), "--workload", "database", "--db", str(store)]
    subprocess.run(command, capture_output=True, check=True)
    kept = raidlab.Store(store).runs()
    assert [run.iodepth for run in kept] == [1, 8]
    assert sorted(kept.to_pandas()["run"]) == [1, 2], "runs have their numbers in the order in which they ended"
    assert len(raidlab.Store(store).runs("2")) == 1
    for one, allowed in [("x", "write a number 12"), (99, "no run 99"), (-1, "a run's number"), (1.5, "a run's number")]:
        with pytest.raises(raidlab.RaidlabError, match=f"^selectors={one!r}: .*{allowed}") as raised:
            raidlab.Store(store).runs(one)
        assert "'raidlab " not in str(raised.value)
    with pytest.raises(raidlab.RaidlabError, match="^path='.*test_raidlab.py'.*not a results file"):
        raidlab.Store(__file__).runs(1)


def test_answers_of_the_program():
    risk = raidlab.risk("6", 12, drive="exos-x24-24tb", spares=1, trials=1000)
    assert "level" in json.dumps(risk)
    table = raidlab.reproduce("fastt600-2004", table="1", ramp="100ms", run="200ms")
    assert len(table["rows"]) == table["summary"]["rows"] == 24
    assert "<iframe srcdoc=" in table._repr_html_()
    documented = re.search(r'reproduce\("(.*)", table="(.*)"\)', raidlab.reproduce.__doc__)
    assert raidlab.reproduce(documented[1], table=documented[2], ramp="1ms", run="10ms")["rows"]
    assert any(paper["method"]["id"] == "md1200-2011" for paper in raidlab.reproduce()["papers"])


def test_a_kept_plan_is_compared_with_runs_and_figures_are_fitted_to_them(tmp_path):
    store = str(tmp_path / "runs.sqlite")
    options = "--level 5 --members 4 --drive st3600057ss --controller perc-h800 --region 1GB --ramp 10ms --run 500ms"

    def simulated(*more):
        command = [os.environ["RAIDLAB"], "simulate", *options.split(), *more, "--workload", "database", "--iodepth", "1,8", "--db", store]
        subprocess.run(command, capture_output=True, check=True)

    simulated()
    simulated("--set", "st3600057ss:mechanics.rpm=10000")
    found = raidlab.compare("plan:1", "3..4", db=store)
    assert found["plan"] == 1
    assert found["run_ids"] == [3, 4]
    assert raidlab.compare(1, 3, db=store)
    toml = tmp_path / "r5.toml"
    toml.write_text('schema = 1\nlevel = "5"\nmembers = 4\ndrive = "st3600057ss"\ncontroller = "perc-h800"\nregion = "1GB"\n')
    fitted = raidlab.fit(to=["3..4"], only=["st3600057ss:mechanics.rpm"], array=str(toml), db=store, rounds=1, scan=3)
    assert "st3600057ss" in json.dumps(fitted)
    with pytest.raises(raidlab.RaidlabError, match="runs="):
        raidlab.compare(1, db=store)


def test_the_types_hold():
    package = os.path.dirname(raidlab.__file__)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", package]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_names_of_files_need_not_be_text(tmp_path):
    """The system's names are bytes: what reads a file takes any, and what needs text says so by the argument."""
    job = os.fsdecode(os.fsencode(tmp_path) + b"/job-\xff.fio")
    with open(job, "w") as file:
        file.write("[a]\nrw=read\nsize=1m\n")
    assert [it.name for it in raidlab.Workload.from_fio(job)] == ["a"]
    with open(job, "a") as file:
        file.write("rw=sideways\n")
    with pytest.raises(raidlab.RaidlabError, match=r"job-\ufffd\.fio"):
        raidlab.Workload.from_fio(job)
    with pytest.raises(raidlab.RaidlabError, match="^drive='.udcff': it is text in UTF-8"):
        raidlab.risk("5", 4, drive="\udcff")
    with pytest.raises(raidlab.RaidlabError, match="^catalog='.udcff': "):
        raidlab.risk("5", 4, drive="st3600057ss", catalog="\udcff")
    with pytest.raises(raidlab.RaidlabError, match="^catalog=' ': it is nothing but blanks"):
        raidlab.risk("5", 4, drive="st3600057ss", catalog=" ")
    with pytest.raises(raidlab.RaidlabError, match="^paper='.udcff': it is text in UTF-8"):
        raidlab.reproduce("\udcff")
    with pytest.raises(raidlab.RaidlabError, match="^workload='.udcff': at 0 it has half of a character$"):
        raidlab.simulate(array(), workload="\udcff")
