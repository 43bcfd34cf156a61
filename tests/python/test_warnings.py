"""What is to be known before figures are trusted, and what is written elsewhere: nothing of it is lost in Python."""

import json
import os
import pickle
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

import raidlab

SHORT = {"ramp": "0s", "run": "200ms", "bottleneck": False}


def array(**settings):
    given = {"level": "5", "members": 4, "drive": "st3600057ss", "controller": "perc-h800", "region": "1GB", **settings}
    return raidlab.Array(**given)


def warned(call):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    told = [it for it in caught if issubclass(it.category, raidlab.RaidlabWarning)]
    assert all(it.filename == __file__ for it in told), "it points at the call"
    return result, [str(it.message) for it in told]


def test_parts_that_do_not_fit_are_told_everywhere():
    odd = array(drive="generic-nvme")
    runs, told = warned(lambda: raidlab.simulate(odd, "streaming", [1, 2], **SHORT))
    (misfit,) = odd.misfits()
    assert len(told) == 1
    assert f"2 of 2 runs have parts that could not be plugged together; the first, on {runs[0].target}: {misfit}" in told[0]
    assert misfit in runs[0].warnings[0]
    assert misfit in runs.warnings[0]
    assert all(misfit in text for text in runs.to_pandas()["warnings"])
    for shown in (runs[0].explain(500), runs.explain(500), runs[0]._repr_html_(), runs.to_html()):
        assert "could not be plugged together" in shown or "it is simulated all the same" in shown
    assert "warning: " in repr(runs)
    options = "--level 5 --members 4 --drive generic-nvme --controller perc-h800 --region 1GB --ramp 0s --run 200ms --iodepth 1,2 -w streaming"
    done = subprocess.run([os.environ["RAIDLAB"], "simulate", *options.split()], capture_output=True, text=True, check=True)
    assert done.stderr.count(misfit) == 1


def test_drives_beyond_the_places_of_an_enclosure_are_told():
    shelf = {"members": 11, "enclosure": "md1200"}
    assert array(**shelf).misfits() == []
    (told,) = array(**{**shelf, "members": 24}).misfits()
    assert told == "enclosure 'md1200' has 12 places for 24 drives"
    assert array(**shelf, resilience={"spares": 2}).misfits() == ["enclosure 'md1200' has 12 places for 13 drives"]
    assert array(**{**shelf, "members": 8}, controllers=1, volumes=2).misfits() == ["enclosure 'md1200' has 12 places for 16 drives"]
    runs, said = warned(lambda: raidlab.simulate(array(**{**shelf, "members": 24}), "streaming", **SHORT))
    assert told in said[0] and told in runs[0].warnings[0]


def test_reports_tell_each_warning_once():
    arrays = [array(), array(level="6")]
    runs, (told,) = warned(lambda: raidlab.simulate(arrays, "md1200-oltp", [8, 64], ramp="0s", run="2s", bottleneck=False))
    assert " of 4 runs had a write cache that was still filling; the first, on RAID 5 x4 " in told
    for page in (runs.to_html(), runs[:1].to_html()):
        assert page.count("went no further") == 1
    assert runs.explain(10_000).count("still filling; the first, on RAID 5 x4 ") == 1


def test_warnings_name_arguments_and_no_options():
    runs, (told,) = warned(lambda: raidlab.simulate(array(), "md1200-oltp", 8, ramp="0s", run="2s", bottleneck=False))
    rare = raidlab.OwnWorkload(lambda _: [([0], 4096, 0, [30_000_000_000])], timed=True)
    nothing, _ = warned(lambda: raidlab.simulate(array(), rare, 8, ramp="0s", run="1s", bottleneck=False))
    assert "no request ended in the window: make it longer, with run=\n" in nothing.explain()
    for each in (runs, nothing):
        texts = [*each.warnings, each.explain(), each[0].explain(), *map(str, each.to_pandas()["warnings"])]
        assert [text for text in texts if "--" in text] == []
    assert "--" not in told and " more of ramp" in told


def test_a_sweep_warns_once_wherever_its_runs_are(tmp_path):
    arrays = [array(level=level) for level in ("5", "10")]

    def swept(**options):
        return warned(lambda: raidlab.sweep(arrays, "md1200-oltp", [8, 64], ramp="0s", run="2s", **options))

    runs, alone = swept()
    assert len(alone) == 1
    assert " of 4 runs had a write cache that was still filling; the first, on RAID 5 x4 write-back on st3600057ss behind perc-h800: " in alone[0]
    filling = [text for text in runs.to_pandas()["warnings"] if text is not None]
    assert filling
    with ThreadPoolExecutor(2) as threads:
        assert swept(executor=threads)[1] == alone
        assert swept(executor=threads, output=str(tmp_path / "out"))[1] == alone
    _, settled = warned(lambda: raidlab.simulate(array(write_policy="write-through"), "md1200-oltp", 8, ramp="1s", run="2s", bottleneck=False))
    assert settled == [], "no news is good news"


def test_shares_of_what_was_written_compare_like_with_like():
    """Four reads in ten, small random writes: a cache block is dirty as a whole."""

    def scattered(target):
        chance = target.random()
        while True:
            yield [chance.randrange(target.blocks) * target.block_bytes for _ in range(500)], 512, 1

    run, _ = warned(lambda: raidlab.simulate(array(), scattered, 8, ramp="0s", run="1s", bottleneck=False)[0])
    facts = run.to_dict()
    fill, written = facts["cache_fill"], facts["write"]["bytes_per_sec"]
    assert fill["dirty_bytes_end"] > 4 * written, "blocks are longer than requests"
    assert 0.5 * written < fill["absorbed_bytes"] <= 1.01 * written
    assert "100 % of what was written" in run.warnings[-1] or "9" in run.warnings[-1].split(" % of what")[0][-2:]


def test_a_workload_that_ends_in_the_ramp_has_measured_nothing():
    def few(target):
        yield [0] * 10, 4096, 0

    run, told = warned(lambda: raidlab.simulate(array(), few, ramp="5s", run="1s", bottleneck=False)[0])
    assert run.iops == 0
    assert "few at iodepth 1 measured nothing: its requests ended before the window, which begins 5.00 s into the run" in told[0]


JOB = "[global]\nbs=8k\nioengine=libaio\niodepth=16\nsize=16m\nruntime=5\ndirect={direct}\n[job]\nrw=randread\n"


def test_a_job_file_says_how_many_are_in_flight_and_what_else_it_asks(tmp_path):
    job = tmp_path / "job.fio"
    job.write_text(JOB.format(direct=1))
    (workload,) = raidlab.Workload.from_fio(job)
    assert workload.iodepth == 16
    assert [run.iodepth for run in raidlab.simulate(array(), workload, **SHORT)] == [16]
    assert [run.iodepth for run in raidlab.simulate(array(), [workload, "database"], **SHORT)] == [16, 1]
    assert [run.iodepth for run in raidlab.simulate(array(), workload, [2, 4], **SHORT)] == [2, 4]
    assert [run.iodepth for run in raidlab.sweep(array(), pickle.loads(pickle.dumps(workload)), **SHORT)] == [16]
    notes = " ".join(workload.notes)
    assert "Array(..., region='16777216B')" in notes and "simulate(..., run='5000ms')" in notes
    job.write_text(JOB.format(direct=0))
    assert "page cache (direct=0)" in " ".join(raidlab.Workload.from_fio(job)[0].notes)


def test_variables_of_a_job_file_are_an_argument(tmp_path):
    job = tmp_path / "job.fio"
    job.write_text("[job]\nrw=randread\nbs=${BS}\nsize=16m\n")
    with pytest.raises(raidlab.RaidlabError, match=r"BS is not set: give env=\{'BS': ...\}$"):
        raidlab.Workload.from_fio(job)
    (workload,) = raidlab.Workload.from_fio(job, env={"BS": "8k"})
    again = pickle.loads(pickle.dumps(workload))
    assert again.to_dict() == workload.to_dict() and '"align_bytes": 8192' in json.dumps(again.to_dict())
    assert "BS is '8k', of env=." in again.notes
    assert any("here the window does: give run=." in note for note in again.notes)


def test_runs_of_unequal_windows_are_told_apart():
    runs = raidlab.simulate(array(write_policy="write-through"), "database", [1, 2], **SHORT)
    assert "window 200 ms" in runs.explain()
    rows = runs.to_dicts()
    rows[1]["window_ns"] *= 4
    again = raidlab.Runs(raidlab.Run(raidlab._raidlab.Run(json.dumps(row))) for row in rows)
    assert "window 200 ms to 800 ms" in again.explain()


def test_arrays_stay_as_they_are_and_can_be_read(tmp_path):
    mine = array(strip="64KiB")
    assert (mine.level, mine.members, mine.strip, mine.cache_size) == ("5", 4, "64KiB", None)
    with pytest.raises(AttributeError, match="stays as it is.*'strip': '128KiB'"):
        mine.strip = "128KiB"
    with pytest.raises(AttributeError, match="no attribute 'stripe'"):
        mine.stripe
    assert raidlab.Array(**{**mine.settings, "strip": "128KiB"}).strip == "128KiB"
    toml = tmp_path / "r5.toml"
    toml.write_text(
        'schema = 1\nlevel = "5"\nmembers = 4\ndrive = "st3600057ss"\ncontroller = "perc-h800"\nstrip-size = "32KiB"\n[cache]\nsize = "64MiB"\n'
    )
    read = pickle.loads(pickle.dumps(raidlab.Array.from_toml(toml)))
    assert (read.level, read.members, read.drive, read.strip, read.cache_size, read.fail) == ("5", 4, "st3600057ss", "32768B", "67108864B", None)


def test_arrays_that_differ_in_a_setting_have_targets_of_their_own():
    arrays = [array(), array(strip="128KiB"), array(cache_size="64MiB"), array(disk_cache=True), array(read_policy="no-read-ahead")]
    runs = raidlab.sweep(arrays, "streaming", **SHORT)
    assert len({run.target for run in runs}) == len(arrays)
    assert len({row["target"] for row in runs.timelines().to_dicts()}) == len(arrays)
    assert runs[0].target == "RAID 5 x4 write-back on st3600057ss behind perc-h800"


def test_whole_numbers_of_numpy_are_whole_numbers():
    import numpy

    mine = array(members=numpy.int64(4), cache={"flush-start-pct": numpy.uint8(90)})
    assert mine == array(cache={"flush-start-pct": 90})
    assert array(disk_cache=numpy.True_).disk_cache is True
    asked = {"drive": "st32000444ss", "trials": numpy.int64(100), "afr": Decimal("2.5"), "seed": numpy.uint8(1)}
    assert raidlab.risk("5", numpy.int16(8), **asked) == raidlab.risk("5", 8, **{**asked, "trials": 100, "afr": 2.5, "seed": 1})
    assert len(raidlab.Controller(strip=numpy.int32(4096), block=numpy.uint16(512)).members) == 3
    assert raidlab.OwnWorkload(lambda _: [], timed=numpy.False_).name
    runs = raidlab.simulate(mine, "streaming", numpy.array([1, 2]), seed=numpy.int32(1), threads=numpy.int64(1), **SHORT)
    assert [run.iodepth for run in runs] == [1, 2]
    for value in (float("nan"), numpy.float32("nan"), True, numpy.True_):
        for call in (
            lambda value=value: array(members=value),
            lambda value=value: raidlab.Controller(strip=value),
            lambda value=value: raidlab.risk("5", 8, drive="st32000444ss", afr=[value]),
            lambda value=value: raidlab.simulate(array(), "streaming", value),
            lambda value=value: runs[0].latency.percentile(value),
        ):
            with pytest.raises(raidlab.RaidlabError):
                call()

    def one(target):
        yield numpy.array([0, 4096]), numpy.int64(4096), numpy.int8(0)

    assert raidlab.simulate(mine, one, **SHORT)[0].to_dict()["read"]["requests"] == 2


def test_tables_print_themselves_within_eighty_columns():
    runs = raidlab.simulate(array(), "md1200-oltp", [1, 8, 64], **SHORT)
    for shown in (repr(runs), repr(runs.table()), repr(runs[0].timeline)):
        assert max(map(len, shown.splitlines())) <= 80, shown
    assert repr(runs[0].timeline).startswith("Table of ")
    assert len(runs.table()) == 3


def test_the_catalogue_is_a_table_of_numbers():
    drives = raidlab.Catalog().drives
    frame = drives.to_pandas().set_index("id")
    cheetah = frame.loc["st3600057ss"]
    assert cheetah["mechanics_rpm"] == 15000
    assert cheetah["mechanics_seek_read_average_ns"] == 3.4e6
    assert cheetah["mechanics_outer_rate_bytes_per_sec"] == 204e6
    assert cheetah["buffer_size_bytes"] == 16 << 20
    assert drives.to_polars().height == drives.to_arrow().num_rows == len(drives)


def test_files_are_not_written_over(tmp_path):
    runs = raidlab.simulate(array(), "streaming", **SHORT)
    page = tmp_path / "runs.html"
    runs.save_html(page)
    with pytest.raises(raidlab.RaidlabError, match="path=.*overwrite=True"):
        runs.save_html(page)
    runs.save_html(page, overwrite=True)
    answer = raidlab.Answer()
    answer.page = "page"
    with pytest.raises(raidlab.RaidlabError, match="path=.*overwrite=True"):
        answer.save_html(page)


class Shown:
    """As tqdm, and remembers."""

    made = []

    def __init__(self, **options):
        self.options, self.n, self.labels = options, 0, []
        Shown.made.append(self)

    def update(self, more):
        self.n += more

    def set_postfix_str(self, text, refresh):
        self.labels.append(text)

    def close(self):
        pass


def test_plans_show_how_far_they_are(monkeypatch):
    import types

    module = types.ModuleType("tqdm.auto")
    module.tqdm = Shown
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    asked = {"app": "md1200-oltp", "usable": "1TB", "iops": 500, "drives": "st3600057ss", "controllers": "perc-h800", "enclosures": "md1200"}
    raidlab.plan(**asked, simulations=2, top=1)
    assert Shown.made[-1].labels and Shown.made[-1].n > 0
    count = len(Shown.made)
    raidlab.plan(**asked, simulations=2, top=1, progress=False)
    assert len(Shown.made) == count


def test_the_version_is_that_of_the_program():
    told = subprocess.run([os.environ["RAIDLAB"], "--version"], capture_output=True, text=True, check=True).stdout
    assert told.split()[1] == raidlab.__version__


def test_a_catalogue_of_python_is_one_of_the_program(tmp_path):
    mine = raidlab.Catalog(set={"exos-x24-24tb:reliability.field_afr_pct": "9"})
    options = {"drive": "exos-x24-24tb", "trials": 1000}
    usual, worse = (raidlab.risk("6", 12, **options, **more) for more in ({}, {"catalog": mine}))
    assert json.dumps(usual) != json.dumps(worse)


def test_one_trial_tells_no_interval():
    drawn = raidlab.risk("5", 8, drive="st32000444ss", trials=1)["drawn"]
    assert [drawn[f"{figure}_half_width"] for figure in ("per_year", "array_lost", "sector_bytes")] == [None] * 3
    assert raidlab.risk("5", 8, drive="st32000444ss", trials=20_000)["drawn"]["per_year_half_width"] > 0


def test_a_package_that_is_missing_is_named(monkeypatch):
    runs = raidlab.simulate(array(), "streaming", **SHORT)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(raidlab.MissingPackage, match="pip install pandas") as raised:
        runs.to_pandas()
    assert isinstance(raised.value, (raidlab.RaidlabError, ImportError)) and isinstance(raised.value, ImportError)
    with pytest.raises(raidlab.MissingPackage, match="output='s3://.*pip install s3fs"):
        raidlab.sweep(array(), "streaming", output="s3://bucket/runs", **SHORT)


A = {"app": "database", "usable": "1TB"}
BAD = [
    (lambda: array(drive="nope").label(), "drive='nope': there is no drive 'nope'", "raidlab.Catalog().drives"),
    (lambda: raidlab.simulate(array(drive="ST3600057SS"), "database"), "drive='ST3600057SS'", "did you mean 'st3600057ss'?"),
    (lambda: raidlab.simulate(array(controller="nope"), "database"), "controller='nope'", "raidlab.Catalog().controllers"),
    (lambda: raidlab.sweep([array(), array(enclosure="nope")], "database"), "arrays[1]: enclosure='nope'", "raidlab.Catalog().enclosures"),
    (lambda: raidlab.simulate(array(), "nope"), "workload='nope'", "raidlab.Workload.builtin()"),
    (lambda: raidlab.simulate(array(drive="generic-nvme", fill=101), "database"), "fill=101", "from 1 to 100"),
    (lambda: array(fill=300), "fill=300", "from 1 to 100"),
    (lambda: raidlab.simulate(array(members=2), "database"), "members=2", "3 or more"),
    (lambda: array(cache={"flush-start-pct": 300}), "cache['flush-start-pct']=300", "from 0 to 100"),
    (lambda: array(cache={"read-policy": "x"}), "cache['read-policy']='x'", "'adaptive'"),
    (lambda: array(cache={"size": 65536}), "cache['size']=65536", "with a unit"),
    (lambda: array(cache={"flush-after": 5}), "cache['flush-after']=5", "'4s'"),
    (lambda: array(cache=5), "cache=5", "dictionary"),
    (lambda: array(cache={"flush-start-pct": 101}).label(), "cache={'flush-start-pct': 101}: ", "<= 100"),
    (lambda: array(resilience={"spares": 9999}).label(), "resilience={'spares': 9999}: ", "9999 spares beside 4 members"),
    (lambda: array(resilience={"spares": 65535}).label(), "resilience={'spares': 65535}: ", "256 devices at most"),
    (lambda: array(resilience={"scan-iodepth": 0}).label(), "resilience={'scan-iodepth': 0}: ", "scan-iodepth is 0"),
    (lambda: array(resilience={"log-size": 5}), "resilience['log-size']=5", "with a unit"),
    (lambda: array(strip=65536), "strip=65536", "65536B or 64KiB"),
    (lambda: array(region="999TB").label(), "region='999TB': ", "make it smaller"),
    (lambda: array(members=70_000), "members=70000", "from 3 to 255 with RAID 5"),
    (lambda: array(level="50:3-spans", members=70_000), "members=70000", "from 9 to 765"),
    (lambda: array(level="0", members=-1), "members=-1", "from 1 to 65535 with RAID 0"),
    (lambda: array(resilience={"spares": -1}), "resilience['spares']=-1", "from 0 to 252"),
    (lambda: raidlab.Catalog(set={"md1200:slots": 0, "perc-h800:member_command.read": "7us"}), "set={'md1200:slots': '0'}: 'slots'", "at least 1"),
    (lambda: raidlab.Catalog(set={"perc-h800:member_command.rea": "7us"}), "set={'perc-h800:member_command.rea': '7us'}: unknown", "'read'"),
    (lambda: raidlab.Catalog(set={"exos-x24-24tb:reliability.field_afr_pct": float("nan")}), "field_afr_pct': nan}", "a finite number"),
    (lambda: raidlab.simulate(array(), "database", run="0s"), "run='0s'", "a time such as 5s"),
    (lambda: array(controllers=256), "controllers=256", "from 1 to 2"),
    (lambda: array(volumes="two"), "volumes='two'", "from 1 to "),
    (lambda: array(resilience={"scan-iodepth": -1}), "resilience['scan-iodepth']=-1", "from 1 to "),
    (lambda: array(strip="1000B").label(), "strip='1000B': ", "choose a strip that is"),
    (lambda: array(cache_size="1KiB").label(), "cache_size='1KiB': ", "needs a cache of at least"),
    (lambda: array(enclosure="md1220").label(), "enclosure='md1220': ", "use another of either"),
    (lambda: raidlab.Controller(strip="1000B"), "strip='1000B': ", "choose a strip that is"),
    (lambda: raidlab.Controller(level="6", members=3), "members=3: ", "4 or more"),
    (lambda: raidlab.Controller(member_size="1KiB"), "member_size='1KiB': ", "larger members"),
    (lambda: raidlab.Controller(block="3000B"), "block='3000B': ", "use 512 or 4096"),
    (lambda: raidlab.Store("nope"), "path='nope'", "no such results file"),
    (lambda: raidlab.Store("."), "path='.'", "no such results file"),
    (lambda: array(controller="linux-md-sas", strip="3KiB").label(), "strip='3KiB'", "multiple of a row"),
    (lambda: array(controllers=3).label(), "controllers=3", "one controller or two"),
    (lambda: array(fail="A").label(), "fail", "write controllers=2"),
    (lambda: array(controllers=2, volumes=2).label(), "controllers=2: ", "Array.from_toml"),
    (lambda: raidlab.simulate(array(), "database", "x" * 3000), "iodepth='xxx", "from 1 to 65536"),
    (lambda: raidlab.sweep(array(), "database", executor=ThreadPoolExecutor), "executor=<class", "ThreadPoolExecutor()"),
    (lambda: raidlab.sweep(array(), "database", output="nope://x"), "output='nope://x'", "fsspec knows"),
    (lambda: raidlab.plan(app="database"), "plan(app='database') needs usable=", ""),
    (lambda: raidlab.plan(app=["database", "file-server"], usable="1TB", arrays=2, together=True), "no plan of two arrays", "name one of each"),
    (lambda: raidlab.plan(**A, budget=2), "budget=2", "needs prices="),
    (lambda: raidlab.plan(**A, nosuch=1), "plan() has no argument nosuch", "docs/reference.md"),
    (lambda: raidlab.plan(**A, help=True), "plan() has no argument help", "help(raidlab.plan)"),
    (lambda: raidlab.plan(**A, json=True), "plan() has no argument json", "dictionary"),
    (lambda: raidlab.plan(**A, iops="many"), "iops='many'", "write one such as 800"),
    (lambda: raidlab.plan(**A, mean_iops="many"), "mean_iops='many'", "write one such as 800"),
    (lambda: raidlab.plan(app=5, usable="1TB"), "app=5: there is no workload '5'", "raidlab.Workload.builtin()"),
    (lambda: raidlab.plan(app="database", usable={"a": 1}), "usable={'a': 1}", "text or a number"),
    (lambda: raidlab.plan(**A, executor=5), "executor=5", "concurrent.futures"),
    (lambda: raidlab.plan(**A, catalog=raidlab.Catalog(drives={"mine": raidlab.OwnDrive(lambda *_: 0, like="st3600057ss")})), "catalog=", "mine"),
    (lambda: raidlab.risk("6", 12), "give it with afr, or", "with drive"),
    (lambda: raidlab.risk("6", 12, drive="nope"), "drive='nope': there is no drive", "raidlab.Catalog()"),
    (lambda: raidlab.risk("6", 12, drive="st3600057ss", written_per_day="2TB"), "risk() has no argument written_per_day", "writes_per_day"),
    (lambda: raidlab.reproduce(None), "paper=None", "raidlab.reproduce()"),
    (lambda: raidlab.reproduce(table="12"), "paper='list'", "takes no table"),
    (lambda: raidlab.reproduce("md1200-2011", table="99"), "table='99'", "Table 4"),
    (lambda: raidlab.reproduce("md1200-2011", tabel="9"), "reproduce() has no argument tabel", "did you mean table?"),
    (lambda: raidlab.reproduce(help=True), "reproduce() has no argument help", "docs/reference.md"),
    (lambda: raidlab.compare(1, 2, db="/nonexistent"), "/nonexistent", "name another with db"),
    (lambda: raidlab.compare("x", "y"), "runs='x'", "study:2"),
    (lambda: raidlab.fit(), "fit() needs a paper", "to="),
    (lambda: raidlab.fit(to=["1"], db="x"), "fit(to=['1'], db='x') needs only=", ""),
    (lambda: raidlab.fit("md1200-2012"), "paper='md1200-2012'", "did you mean 'md1200-2011'?"),
]


@pytest.mark.parametrize(("call", "named", "allowed"), BAD)
def test_bad_input_is_named_by_its_argument(call, named, allowed):
    with pytest.raises(raidlab.RaidlabError) as raised:
        call()
    told = str(raised.value)
    assert named in told
    assert allowed in told
    assert len(told) < 1500
    assert "--" not in told and "\n" not in told, "whole sentences, and none of the command line"
