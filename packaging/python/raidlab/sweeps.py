"""Arrays under loads: here, or on the workers of an executor."""

from __future__ import annotations

import os
import pickle
import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from . import _raidlab
from ._raidlab import RaidlabError
from .arguments import RaidlabWarning, flag, listed, missing, needed, of_type, ordered, refused, short, shown, whole
from .arguments import executor as checked_executor
from .arguments import path as checked_path
from .arrays import Array, Catalog, checked_catalog
from .bars import Bar
from .runs import Run, Runs
from .workloads import Given, Workload, as_workloads

CHUNK_SECONDS = 2.0
"""How long the work of a chunk is to take at least: so long that handing it over is nothing beside it."""
HANDLING_SECONDS = 0.0015
"""What a scheduler and this process take for a chunk, one after the other (bench/python-chunks.py measures it)."""
HANDLING_SHARE = 0.025
"""Share of their time that both are busy at most, however many workers there are."""
CHUNKS_UNDER_WAY = 4
"""Chunks that are handed out before the first is back, at least."""
WORKERS_UNKNOWN = 32
"""Workers where the executor does not say how many it has."""
TRIES = 3
"""How often a chunk is handed out whose workers die."""

Workloads = Union[Given, Sequence[Given]]


def simulate(
    arrays: Union[Array, Sequence[Array]],
    workload: Workloads,
    iodepth: Union[int, Sequence[int], None] = None,
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

    Without ``iodepth`` a workload of a job file runs at the job's, and any other that has no number of its own at 1.

    ``ramp`` is virtual time before the measured window; without it, 20 s and more until write caches are in their steady state.
    ``run`` is the shortest measured window: without ``ramp`` it is doubled, up to eight times as long, while a write cache fills in it, so
    that runs of one call may have unequal windows (``window_ns``). With ``ramp`` it is the measured window. What is to be known before the
    figures are trusted is a :class:`RaidlabWarning`, one a call, and in ``warnings`` of each run. ``bottleneck`` finds out what sets the pace, by running parts of each load up to a dozen times more.
    A progress bar is shown where ``tqdm`` is installed and the call takes longer than a second.
    """
    window = (ramp, run, seed)
    plan = _Plan(
        _arrays(arrays), as_workloads("workload", workload), _depths(iodepth, "iodepth"), window, threads, flag("bottleneck", bottleneck), checked_catalog(catalog)
    )
    sweep = plan.compiled()
    sweep.check()
    count = len(plan.arrays) * sweep.runs_of_array()
    with Bar(count, flag("progress", progress)) as bar:
        runs = Runs((Run(it) for it in sweep.run((0, count), bottleneck, bar.after(0))), plan.title())
    _warn(count, _doubts(0, runs))
    return runs


def sweep(
    arrays: Iterable[Array],
    workloads: Workloads,
    iodepths: Union[int, Sequence[int], None] = None,
    *,
    executor: Optional[Executor] = None,
    output: Optional[str] = None,
    overwrite: bool = False,
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
    is written there for each chunk as it ends, and the runs are not kept: the result is empty. Files of an earlier sweep in that folder are
    refused, or removed with ``overwrite``.
    """
    window = (ramp, run, seed)
    plan = _Plan(
        _arrays(arrays), as_workloads("workloads", workloads), _depths(iodepths, "iodepths"), window, threads, flag("bottleneck", bottleneck), checked_catalog(catalog)
    )
    compiled = plan.compiled()
    compiled.check()
    count = len(plan.arrays) * compiled.runs_of_array()
    checked_executor(executor)
    flag("overwrite", overwrite)
    taken = _Taken(count, None if output is None else _folder(output, overwrite))
    with Bar(count, flag("progress", progress)) as bar:
        if executor is None:
            _run_here(plan, range(count), taken, bar)
        else:
            _Crew(plan, compiled.runs_of_array(), count, executor, taken, bar).work()
    _warn(count, taken.doubts)
    return Runs(taken.runs(), plan.title())


Doubts = dict[str, tuple[int, int, str, str]]
"""What is to be known of runs: in how many of them, and of the first its place, what it ran on and what is said of it."""


def _doubts(first: int, runs: Iterable[Run]) -> Doubts:
    """What is to be known of ``runs``, which begin at the place ``first``."""
    doubts: Doubts = {}
    for place, run in enumerate(runs, first):
        _add(doubts, {what: (1, place, target, text) for what, target, text in run._run.doubts()})
    return doubts


def _add(doubts: Doubts, more: Doubts) -> None:
    for what, (count, place, target, text) in more.items():
        before, first, on, said = doubts.get(what, (0, place, target, text))
        doubts[what] = (before + count, *min((first, on, said), (place, target, text)))


def _warn(count: int, doubts: Doubts) -> None:
    """Warns whoever called simulate or sweep, once."""
    if doubts:
        several = (f"{runs} of {count} runs {what}; the first, on {target}: {text}" for what, (runs, _, target, text) in doubts.items())
        texts = (text for *_, text in doubts.values()) if count == 1 else several
        warnings.warn("\n".join(texts), RaidlabWarning, stacklevel=3)


def _arrays(given: Union[Array, Iterable[Array]]) -> list[Array]:
    allowed = "it is a raidlab.Array, or a list of these"
    ordered("arrays", given, allowed)
    arrays = listed("arrays", given, allowed)
    if not arrays:
        raise refused("arrays", arrays, "name at least one raidlab.Array")
    for place, array in enumerate(arrays):
        of_type("arrays" if len(arrays) == 1 else f"arrays[{place}]", array, Array, "it is a raidlab.Array")
    return arrays


def _depths(given: Union[int, Sequence[int], None], name: str) -> Optional[list[int]]:
    if given is None:
        return None
    allowed = "it is a number of requests in flight, or a list of these"
    ordered(name, given, allowed)
    depths = listed(name, given, allowed)
    if not depths:
        raise refused(name, depths, "name at least one number of requests in flight")
    return [whole(name, depth, 1, 65536, "requests in flight are") for depth in depths]


@dataclass
class _Plan:
    """What is to be run; it goes to workers as it is."""

    arrays: list[Array]
    workloads: list[Workload]
    iodepths: Optional[list[int]]
    """Without any, each workload's own."""
    window: tuple[Optional[str], str, int]
    threads: Optional[int]
    bottleneck: bool
    catalog: Catalog

    def compiled(self) -> _raidlab.Sweep:
        arrays = [array._array for array in self.arrays]
        workloads = [workload._workload for workload in self.workloads]
        if self.iodepths is None:
            own = zip(workloads, (workload.iodepth for workload in self.workloads))
            workloads = [workload if depth is None else workload.with_iodepth(depth) for workload, depth in own]
        ramp, run, seed = self.window
        for name, span in [("ramp", ramp), ("run", run)]:
            if span is not None:
                short(name, of_type(name, span, str, "a time is text with a unit, such as '20ms', '1.5s' or '30m'"))
        if self.threads is not None:
            whole("threads", self.threads, 1, 65536, "threads are")
        whole("seed", seed, 0, 2**64 - 1, "a seed is")
        return _raidlab.Sweep(self.catalog._catalog, arrays, workloads, self.iodepths or [], (ramp, run, int(seed)), self.threads)

    def title(self) -> str:
        names = ", ".join(workload.name for workload in self.workloads)
        return f"{names} on {len(self.arrays)} array{'' if len(self.arrays) == 1 else 's'}"

    def part(self, each: int, first: int, last: int) -> tuple[_Plan, tuple[int, int]]:
        """The plan of the runs from ``first`` to before ``last`` with no more arrays than these need, and their places in it."""
        begin, end = first // each, (last - 1) // each + 1
        fewer = _Plan(self.arrays[begin:end], self.workloads, self.iodepths, self.window, 1, self.bottleneck, self.catalog)
        return fewer, (first - begin * each, last - begin * each)


def pickled(task: Any) -> bytes:
    """A task as bytes; functions of a notebook go by value where cloudpickle is installed, which Dask and Ray bring."""
    try:
        import cloudpickle
    except ImportError:
        try:
            return pickle.dumps(task)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise missing("cloudpickle", "a function that is not at the top level of a module, sent to workers,", error) from None
    return bytes(cloudpickle.dumps(task))


Chunk = Union[bytes, list[bytes]]
"""What comes of a chunk: a file of Parquet, or runs as they are sent. Neither is read by who hands chunks out, which has no time for it."""


def run_chunk(task: bytes) -> tuple[float, Chunk, Doubts]:
    """Runs a chunk in a worker: the seconds that it took, what came of it, and what is to be known of it."""
    plan, part, first, as_file = pickle.loads(task)
    started = time.perf_counter()
    runs = [Run(it) for it in plan.compiled().run(part, plan.bottleneck, None)]
    chunk: Chunk = _file_of(first, runs) if as_file else [run.packed() for run in runs]
    return time.perf_counter() - started, chunk, _doubts(first, runs)


def _file_of(first: int, runs: list[Run]) -> bytes:
    """The runs from ``first`` on as a file of Parquet, numbered from 1."""
    numbered = [Run(run._made, (first + place + 1, 0, "", "", [])) for place, run in enumerate(runs)]
    return Runs(numbered).table().to_parquet()


class _Taken:
    """What has come in: each run once, in its place, or each chunk in its file."""

    def __init__(self, count: int, output: Optional[str]) -> None:
        self._runs: list[Optional[Run]] = [None] * count
        self.output = output
        self.doubts: Doubts = {}

    def take(self, first: int, chunk: Union[bytes, list[Run]], doubts: Doubts) -> None:
        _add(self.doubts, doubts)
        if isinstance(chunk, list):
            self._runs[first : first + len(chunk)] = chunk
        else:
            with _written_to(str(self.output)):
                _write(f"{str(self.output).rstrip('/')}/part-{first:09}.parquet", chunk)

    def runs(self) -> list[Run]:
        if self.output is not None:
            return []
        there = [run for run in self._runs if run is not None]
        if len(there) != len(self._runs):
            raise RuntimeError(f"{len(self._runs) - len(there)} runs are missing")
        return there


PART = re.compile(r"part-\d{9}\.parquet")
"""Names of the files of a sweep."""


def _folder(output: Any, overwrite: bool) -> str:
    """The folder ``output``, without files of an earlier sweep. It is tried before anything is run."""
    name = checked_path("output", output, "it is a folder, or a path of fsspec such as 's3://bucket/runs'")
    if "://" in name:
        filesystem, path = _remote(name)
        with _written_to(name):
            there = filesystem.ls(path, detail=False) if filesystem.exists(path) else []
        parts = [it for it in there if PART.fullmatch(it.rpartition("/")[2])]
        remove: Callable[[Any], None] = filesystem.rm_file
    else:
        folder, path = Path(name), name
        with _written_to(name):
            if folder.exists() and not folder.is_dir():
                raise refused("output", name, "there is a file of this name, and it is a folder")
            parts = [it for it in folder.iterdir() if PART.fullmatch(it.name)] if folder.is_dir() else []
        remove = os.unlink
    if parts and not overwrite:
        raise refused("output", name, f"it has {len(parts)} files of an earlier sweep: name another folder, or say overwrite=True")
    with _written_to(name):
        _write(f"{name.rstrip('/')}/{TRIED}", b"")
        for part in [f"{path.rstrip('/')}/{TRIED}", *parts]:
            remove(part)
    return name


TRIED = "part-of-nothing"
"""The file by which it is tried whether a folder takes files."""


@contextmanager
def _written_to(name: str) -> Iterator[None]:
    """Says why the folder ``name`` takes no files; what filesystems raise is as many kinds as there are of them."""
    try:
        yield
    except RaidlabError:
        raise
    except Exception as error:
        raise refused("output", name, f"it can't be written to: {getattr(error, 'strerror', None) or error}") from error


def _remote(name: str) -> tuple[Any, str]:
    """The filesystem of a path of fsspec, and the path on it."""
    fsspec = needed("fsspec", f"output={name!r}")
    try:
        filesystem, path = fsspec.core.url_to_fs(name)
    except ImportError as error:
        module = re.search(r"(?i)install (\S+)", str(error))
        raise missing(module[1] if module else name.partition("://")[0], f"output={name!r}", error) from None
    except ValueError as error:
        known = ", ".join(sorted(fsspec.available_protocols()))
        raise refused("output", name, f"{error}: fsspec knows {known}") from None
    return filesystem, str(path)


def _write(name: str, content: bytes) -> None:
    """Writes a file whole, so that nobody reads half of it: local ones under another name first."""
    if "://" in name:
        filesystem, path = _remote(name)
        filesystem.makedirs(filesystem._parent(path), exist_ok=True)
        filesystem.pipe_file(path, content)
        return
    file = Path(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_suffix(".part")
    beside.write_bytes(content)
    beside.replace(file)


LOCAL_CHUNK = 512
"""Runs of a chunk without an executor, where chunks go to files."""


def _run_here(plan: _Plan, places: range, taken: _Taken, bar: Bar) -> None:
    compiled = plan.compiled()
    step = LOCAL_CHUNK if taken.output is not None else max(1, len(places))
    for first in range(places.start, places.stop, step):
        last = min(first + step, places.stop)
        runs = [Run(it) for it in compiled.run((first, last), plan.bottleneck, bar.after(bar.done))]
        taken.take(first, runs if taken.output is None else _file_of(first, runs), _doubts(first, runs))


@dataclass
class Chunks:
    """How many runs a chunk has: one at first, then as many as take so long that handing them over is nothing beside it, and fewer near
    the end, so that all workers end together."""

    workers: int
    seconds: float = 0.0
    """Work so far."""
    runs: int = 0
    """Runs so far."""

    def under_way(self) -> int:
        """Chunks that are handed out at once."""
        return max(CHUNKS_UNDER_WAY, 2 * self.workers)

    def length(self, left: int) -> int:
        """Runs of the next chunk, of so many that are left."""
        if not self.runs:
            return 1
        wanted = max(CHUNK_SECONDS, self.workers * HANDLING_SECONDS / HANDLING_SHARE)
        by_cost = int(wanted * self.runs / max(self.seconds, 1e-9))
        return max(1, min(by_cost, left // self.under_way() + 1))


def workers_of(executor: Executor) -> int:
    """How many workers it has, as far as it says so."""
    own = getattr(executor, "_max_workers", None)
    if isinstance(own, int) and own > 0:
        return own
    try:
        # Threads of Dask's workers.
        return max(1, sum(executor._client.ncores().values()))  # type: ignore[attr-defined]
    except Exception:
        return WORKERS_UNKNOWN


class _Crew:
    """Chunks on the workers of an executor."""

    def __init__(self, plan: _Plan, each: int, count: int, executor: Executor, taken: _Taken, bar: Bar) -> None:
        self._plan, self._each, self._count = plan, each, count
        self._executor, self._taken, self._bar = executor, taken, bar
        self._next = 0
        self._again: list[tuple[int, int, int]] = []
        self._under_way: dict[Future[tuple[float, Chunk, Doubts]], tuple[int, int, int]] = {}
        self._chunks = Chunks(workers_of(executor))
        self._is_gone = False

    def _hand_out(self) -> None:
        while len(self._under_way) < self._chunks.under_way() and not self._is_gone:
            if self._again:
                first, last, tries = self._again.pop()
            elif self._next < self._count:
                first, tries = self._next, 0
                last = self._next = min(self._count, first + self._chunks.length(self._count - first))
            else:
                return
            task = pickled((*self._plan.part(self._each, first, last), first, self._taken.output is not None))
            try:
                future = self._executor.submit(run_chunk, task)
                if not (callable(getattr(future, "result", None)) and callable(getattr(future, "cancel", None))):
                    raise refused("executor", self._executor, "its method submit returns a future")
            except RaidlabError:
                raise
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
        left = self._count - self._next + sum(last - first for first, last, _ in self._again)
        if left:
            warnings.warn(
                f"the executor {shown(self._executor)} takes no more work: {left} of {self._count} runs were made here", RaidlabWarning, stacklevel=3
            )
        for first, last, _ in sorted(self._again):
            _run_here(self._plan, range(first, last), self._taken, self._bar)
        if self._next < self._count:
            _run_here(self._plan, range(self._next, self._count), self._taken, self._bar)

    def _take(self, future: Future[tuple[float, Chunk, Doubts]]) -> None:
        first, last, tries = self._under_way.pop(future)
        try:
            seconds, chunk, doubts = future.result()
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
        self._chunks.seconds += seconds
        self._chunks.runs += last - first
        self._taken.take(first, chunk if isinstance(chunk, bytes) else [Run(it) for it in chunk], doubts)
        self._bar.to(self._bar.done + last - first)
