"""Arrays under loads: here, or on the workers of an executor."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import _raidlab
from ._raidlab import RaidlabError
from .arrays import Array, Catalog, default_catalog
from .runs import Run, Runs
from .workloads import Workload, as_workloads

CHUNK_SECONDS = 2.0
"""How long the work of a chunk is to take: so long that handing it over is nothing beside it."""
CHUNKS_UNDER_WAY = 4
"""Chunks that are handed out before the first is back, at least."""
TRIES = 3
"""How often a chunk is handed out whose workers die."""

Workloads = Union[str, Workload, Sequence[Union[str, Workload]]]


def simulate(
    arrays: Union[Array, Sequence[Array]],
    workload: Workloads,
    iodepth: Union[int, Sequence[int]] = 1,
    *,
    seed: int = 1,
    ramp: Optional[str] = None,
    run: str = "20s",
    threads: Optional[int] = None,
    bottleneck: bool = True,
    catalog: Optional[Catalog] = None,
    progress: bool = True,
) -> Runs:
    """Runs each workload on each array with each number of requests in flight, in virtual time, on all processors.

    ``ramp`` is virtual time before the measured window; without it, 20 s and more until write caches are in their steady state.
    ``run`` is the measured window. ``bottleneck`` finds out what sets the pace, by running parts of each load up to a dozen times more.
    A progress bar is shown where ``tqdm`` is installed and the call takes longer than a second.
    """
    window = (ramp, run, seed)
    plan = _Plan(_arrays(arrays), as_workloads(workload), _depths(iodepth), window, threads, bottleneck, catalog or default_catalog())
    sweep = plan.compiled()
    sweep.check()
    count = len(plan.arrays) * sweep.runs_of_array()
    with _Bar(count, progress) as bar:
        return Runs((Run(it) for it in sweep.run((0, count), bottleneck, bar.after(0))), plan.title())


def sweep(
    arrays: Iterable[Array],
    workloads: Workloads,
    iodepths: Union[int, Sequence[int]] = 1,
    *,
    executor: Optional[Executor] = None,
    output: Optional[str] = None,
    seed: int = 1,
    ramp: Optional[str] = None,
    run: str = "20s",
    threads: Optional[int] = None,
    bottleneck: bool = False,
    catalog: Optional[Catalog] = None,
    progress: bool = True,
) -> Runs:
    """As :func:`simulate`, for many arrays, on the workers of any executor of ``concurrent.futures``.

    Chunks of runs are handed to the executor, sized by what runs have cost so far. When workers die, what they had is handed out again;
    when the whole executor is gone, the rest is run here. The runs are those of one process, in the same order, but for
    ``cost.wall_ns``, the time that each took. With ``output``, a folder on any path of ``fsspec`` (or a local one), a Parquet file
    is written there for each chunk as it ends, and the runs are not kept: the result is empty.
    """
    window = (ramp, run, seed)
    plan = _Plan(list(arrays), as_workloads(workloads), _depths(iodepths), window, threads, bottleneck, catalog or default_catalog())
    compiled = plan.compiled()
    compiled.check()
    count = len(plan.arrays) * compiled.runs_of_array()
    taken = _Taken(count, output)
    with _Bar(count, progress) as bar:
        if executor is None:
            _run_here(plan, range(count), taken, bar)
        else:
            _Crew(plan, compiled.runs_of_array(), count, executor, taken, bar).work()
    return Runs(taken.runs(), plan.title())


def _arrays(given: Union[Array, Sequence[Array]]) -> list[Array]:
    return list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]


def _depths(given: Union[int, Sequence[int]]) -> list[int]:
    depths = list(given) if isinstance(given, Iterable) else [given]
    for depth in depths:
        if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= 65536:
            raise RaidlabError(f"iodepth={depth!r}: requests in flight are a whole number from 1 to 65536")
    return depths


@dataclass
class _Plan:
    """What is to be run; it goes to workers as it is."""

    arrays: list[Array]
    workloads: list[Workload]
    iodepths: list[int]
    window: tuple[Optional[str], str, int]
    threads: Optional[int]
    bottleneck: bool
    catalog: Catalog

    def compiled(self) -> _raidlab.Sweep:
        for array in self.arrays:
            if not isinstance(array, Array):
                raise RaidlabError(f"arrays: {array!r} is no raidlab.Array")
        arrays = [array._array for array in self.arrays]
        workloads = [workload._workload for workload in self.workloads]
        ramp, run, seed = self.window
        for name, span in [("ramp", ramp), ("run", run)]:
            if span is not None and not isinstance(span, str):
                raise RaidlabError(f"{name}={span!r}: a time is text with a unit, such as '20ms', '1.5s' or '30m'")
        if self.threads is not None and (not isinstance(self.threads, int) or self.threads < 1):
            raise RaidlabError(f"threads={self.threads!r}: threads are a whole number from 1 on")
        if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**64:
            raise RaidlabError(f"seed={seed!r}: a seed is a whole number from 0 to 2^64 - 1")
        return _raidlab.Sweep(self.catalog._catalog, arrays, workloads, self.iodepths, (ramp, run, seed), self.threads)

    def title(self) -> str:
        names = ", ".join(workload.name for workload in self.workloads)
        return f"{names} on {len(self.arrays)} array{'' if len(self.arrays) == 1 else 's'}"

    def part(self, each: int, first: int, last: int) -> tuple[_Plan, tuple[int, int]]:
        """The plan of the runs from ``first`` to before ``last`` with no more arrays than these need, and their places in it."""
        begin, end = first // each, (last - 1) // each + 1
        fewer = _Plan(self.arrays[begin:end], self.workloads, self.iodepths, self.window, 1, self.bottleneck, self.catalog)
        return fewer, (first - begin * each, last - begin * each)


def run_chunk(task: bytes) -> tuple[float, list[str]]:
    """Runs a chunk in a worker: the seconds that it took, and each run as JSON."""
    plan, part = pickle.loads(task)
    started = time.perf_counter()
    runs = plan.compiled().run(part, plan.bottleneck, None)
    return time.perf_counter() - started, [run.json() for run in runs]


class _Taken:
    """What has come in: each run once, in its place, or each chunk in its file."""

    def __init__(self, count: int, output: Optional[str]) -> None:
        self._runs: list[Optional[Run]] = [None] * count
        self._output = output

    def take(self, first: int, runs: list[Run]) -> None:
        if self._output is None:
            self._runs[first : first + len(runs)] = runs
            return
        numbered = [Run(run._run, (first + place + 1, 0, "", "", [])) for place, run in enumerate(runs)]
        name = f"{self._output.rstrip('/')}/part-{first:09}.parquet"
        _write(name, Runs(numbered).table().to_parquet())

    def runs(self) -> list[Run]:
        if self._output is not None:
            return []
        there = [run for run in self._runs if run is not None]
        if len(there) != len(self._runs):
            raise RuntimeError(f"{len(self._runs) - len(there)} runs are missing")
        return there


def _write(name: str, content: bytes) -> None:
    """Writes a file whole, so that nobody reads half of it: local ones under another name first."""
    if "://" in name:
        import fsspec

        filesystem, path = fsspec.core.url_to_fs(name)
        filesystem.makedirs(filesystem._parent(path), exist_ok=True)
        filesystem.pipe_file(path, content)
        return
    from pathlib import Path

    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    beside.write_bytes(content)
    beside.replace(path)


LOCAL_CHUNK = 512
"""Runs of a chunk without an executor, where chunks go to files."""


def _run_here(plan: _Plan, places: range, taken: _Taken, bar: _Bar) -> None:
    compiled = plan.compiled()
    step = LOCAL_CHUNK if taken._output is not None else max(1, len(places))
    for first in range(places.start, places.stop, step):
        last = min(first + step, places.stop)
        runs = compiled.run((first, last), plan.bottleneck, bar.after(bar.done))
        taken.take(first, [Run(run) for run in runs])


class _Crew:
    """Chunks on the workers of an executor."""

    def __init__(self, plan: _Plan, each: int, count: int, executor: Executor, taken: _Taken, bar: _Bar) -> None:
        self._plan, self._each, self._count = plan, each, count
        self._executor, self._taken, self._bar = executor, taken, bar
        self._next = 0
        self._again: list[tuple[int, int, int]] = []
        self._under_way: dict[Future[tuple[float, list[str]]], tuple[int, int, int]] = {}
        self._seconds, self._timed = 0.0, 0
        self._is_gone = False
        workers = getattr(executor, "_max_workers", None)
        self._most = max(CHUNKS_UNDER_WAY, 2 * workers if isinstance(workers, int) else 64)

    def _length(self) -> int:
        """Runs of the next chunk: one at first, then as many as take so long, and fewer near the end, so that all workers end together."""
        if not self._timed:
            return 1
        by_cost = max(1, int(CHUNK_SECONDS * self._timed / max(self._seconds, 1e-9)))
        left = self._count - self._next
        return max(1, min(by_cost, left // self._most + 1))

    def _hand_out(self) -> None:
        while len(self._under_way) < self._most and not self._is_gone:
            if self._again:
                first, last, tries = self._again.pop()
            elif self._next < self._count:
                first, tries = self._next, 0
                last = self._next = min(self._count, first + self._length())
            else:
                return
            task = pickle.dumps(self._plan.part(self._each, first, last))
            try:
                future = self._executor.submit(run_chunk, task)
            except (BrokenExecutor, RuntimeError):
                self._is_gone = True
                self._again.append((first, last, tries))
                return
            self._under_way[future] = (first, last, tries + 1)

    def work(self) -> None:
        """Until each run has been taken in once."""
        try:
            self._hand_out()
            while self._under_way:
                done, _ = wait(self._under_way, timeout=0.05, return_when=FIRST_COMPLETED)
                for future in done:
                    self._take(future)
                self._hand_out()
        finally:
            for future in self._under_way:
                future.cancel()
        for first, last, _ in sorted(self._again):
            _run_here(self._plan, range(first, last), self._taken, self._bar)
        if self._next < self._count:
            _run_here(self._plan, range(self._next, self._count), self._taken, self._bar)

    def _take(self, future: Future[tuple[float, list[str]]]) -> None:
        first, last, tries = self._under_way.pop(future)
        try:
            seconds, texts = future.result()
        except (KeyboardInterrupt, RaidlabError):
            raise
        except (BrokenExecutor, CancelledError):
            self._is_gone = True
            self._again.append((first, last, tries))
            return
        except Exception:
            # A worker that died, as this executor tells it; what fails everywhere fails here, and is told.
            if tries >= TRIES:
                _run_here(self._plan, range(first, last), self._taken, self._bar)
            else:
                self._again.append((first, last, tries))
            return
        self._seconds += seconds
        self._timed += last - first
        self._taken.take(first, [Run(_raidlab.Run(text)) for text in texts])
        self._bar.to(self._bar.done + last - first)


class _Bar:
    """A progress bar where tqdm is installed."""

    def __init__(self, count: int, is_wanted: bool) -> None:
        self._bar: Any = None
        self.done = 0
        if is_wanted and count > 1:
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            self._bar = tqdm(total=count, unit="run", delay=1)

    def __enter__(self) -> _Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def to(self, done: int) -> None:
        if self._bar is not None:
            self._bar.update(done - self.done)
        self.done = done

    def after(self, before: int) -> Callable[[int, int], None]:
        """Shows how many are done of those that follow ``before``."""
        return lambda done, _: self.to(before + done)
