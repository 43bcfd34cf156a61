"""Plans whose simulations run on the workers of an executor."""

import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest

import raidlab
from raidlab import rounds

ASKED = {"app": "storagebench-database", "usable": "4TB", "iops": 2000, "drives": "st3600057ss", "simulations": 2, "top": 1}


def figures(answer):
    """The answer without the seconds that it took."""
    return {**answer, "arithmetic_secs": None}


@pytest.fixture(scope="module")
def alone():
    return figures(raidlab.plan(**ASKED))


def test_a_plan_on_processes_is_the_plan_alone(alone):
    assert alone["top"]
    with ProcessPoolExecutor(2) as processes:
        answer = raidlab.plan(executor=processes, **ASKED)
    assert figures(answer) == alone
    assert "<svg" in answer.page


def test_a_plan_on_threads_leaves_no_helpers(alone):
    with ThreadPoolExecutor(2) as threads:
        assert figures(raidlab.plan(executor=threads, **ASKED)) == alone
    assert not rounds._RESTING


class Killing(ProcessPoolExecutor):
    """Has a worker die while it plans."""

    count = 0

    def submit(self, *task):
        self.count += 1
        if self.count == 3:
            super().submit(os._exit, 1)
        return super().submit(*task)


def lost_once(task, marker):
    """A worker's task, whose worker is lost the first time."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return rounds.do_jobs(task)
    raise ConnectionError("this worker is gone")


class Losing(ThreadPoolExecutor):
    """Loses a worker, as Dask and Ray tell it, and hands out its work again."""

    def __init__(self, marker):
        super().__init__(2)
        self.marker = marker

    def submit(self, _, task):
        return super().submit(lost_once, task, self.marker)


def test_a_plan_loses_nothing_when_workers_die(alone, tmp_path):
    with Killing(2) as processes:
        assert figures(raidlab.plan(executor=processes, **ASKED)) == alone
    marker = str(tmp_path / "lost")
    with Losing(marker) as threads:
        assert figures(raidlab.plan(executor=threads, **ASKED)) == alone
    assert os.path.exists(marker)


def test_what_is_refused_is_refused_with_an_executor():
    with ThreadPoolExecutor(1) as threads, pytest.raises(raidlab.RaidlabError, match="did you mean"):
        raidlab.plan(executor=threads, **{**ASKED, "app": "databse"})
    with pytest.raises(raidlab.RaidlabError, match="executor=5: .*concurrent.futures"):
        raidlab.plan(executor=5, **ASKED)


def test_ctrl_c_ends_a_plan_with_an_executor():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]).start()
    began = time.monotonic()
    with ThreadPoolExecutor(2) as threads, pytest.raises(KeyboardInterrupt):
        raidlab.plan(executor=threads, app="storagebench-database", usable="20TB", iops=20000)
    assert time.monotonic() - began < 20
