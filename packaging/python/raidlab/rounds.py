"""The jobs of the program on the workers of an executor.

The program leads: it says how many jobs a round has, takes what they came to, and goes on. A worker runs the same program with the same
arguments as a helper, which comes to the same round by the log of what was decided before, and does the jobs that it is given
(crates/load/hosts/src/rounds.rs). A helper is kept in its process for the next task of the same call; one that is lost is made anew.
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import queue
import subprocess
import threading
import uuid
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Executor, Future, wait
from pathlib import Path
from typing import IO, Any, Optional

from .bars import TOLD, ShareBar
from .sweeps import workers_of

VARIABLE = "RAIDLAB_ROUNDS"
IDLE_SECONDS = 60
"""A helper without a task for so long ends."""
TRIES = 3
"""How often jobs are handed out whose workers die."""
Results = list[tuple[int, Optional[str]]]


class Helper:
    """The program, at the point to which the log has brought it."""

    def __init__(self, command: Sequence[str]) -> None:
        environment = {**os.environ, VARIABLE: "help"}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
        )
        self._known = 0
        self._timer: Optional[threading.Timer] = None

    def do(self, log: Sequence[str], jobs: Sequence[int]) -> Results:
        """What the jobs of the round came to that follows the log."""
        assert self._process.stdin and self._process.stdout
        lines = [*log[self._known :], json.dumps({"jobs": list(jobs)})]
        self._known = len(log)
        self._process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        self._process.stdin.flush()
        done: Results = []
        while len(done) < len(jobs):
            line = self._process.stdout.readline()
            if not line:
                raise RuntimeError("a helper of the program ended too early")
            it = json.loads(line)["done"]
            done.append((it["index"], it["result"]))
        return done

    def rest(self, is_resting: bool) -> None:
        """Ends it if it rests too long."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(IDLE_SECONDS, self.end) if is_resting else None
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """Ends it now."""
        self.rest(False)
        self._process.kill()
        self._process.wait()


_RESTING: dict[str, list[Helper]] = {}
"""Helpers of this process without a task, by the call that they help."""
_LOCK = threading.Lock()


def end_helpers(call: Optional[str] = None) -> None:
    """Ends the helpers of this process that rest, or those of one call."""
    with _LOCK:
        calls = list(_RESTING) if call is None else [call]
        helpers = [helper for name in calls for helper in _RESTING.pop(name, [])]
    for helper in helpers:
        helper.end()


atexit.register(end_helpers)


def do_jobs(task: bytes) -> Results:
    """A worker's task: what some jobs of a round came to."""
    from .program import program

    call, words, log, jobs = pickle.loads(zlib.decompress(task))
    with _LOCK:
        known = _RESTING.get(call)
        helper = known.pop() if known else None
    if helper is not None:
        helper.rest(False)
    try:
        helper = helper or Helper([program(), *words])
        done = helper.do(log, jobs)
    except BaseException:
        if helper is not None:
            helper.end()
        raise
    with _LOCK:
        _RESTING.setdefault(call, []).append(helper)
    helper.rest(True)
    return done


def _read(says: IO[bytes], lines: queue.Queue[bytes]) -> None:
    """Puts each line into ``lines`` as it comes, and an empty one behind them."""
    for line in says:
        lines.put(line)
    lines.put(b"")


class Leader:
    """The program that leads, and its jobs on ``executor``."""

    def __init__(self, words: Sequence[str], executor: Executor) -> None:
        self._words, self._executor = list(words), executor
        self._call = uuid.uuid4().hex
        self._log: list[str] = []
        self._is_gone = False
        self._workers = workers_of(executor)
        self._look: Callable[[], None] = lambda: None

    def run(self, command: Sequence[str], out: Path, err: Path, bar: ShareBar) -> int:
        """Runs ``command`` to its end: its code."""
        ours, theirs = os.pipe()
        environment = {**os.environ, **TOLD, VARIABLE: f"lead:{theirs}"}
        self._look = lambda: bar.look(err)
        with out.open("wb") as to_out, err.open("wb") as to_err, os.fdopen(ours, "rb") as says:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=to_out, stderr=to_err, env=environment, pass_fds=[theirs]
            )
            os.close(theirs)
            lines: queue.Queue[bytes] = queue.Queue()
            reader = threading.Thread(target=_read, args=(says, lines), daemon=True)
            reader.start()
            try:
                self._answer(process, lines)
                return process.wait()
            except BaseException:
                process.kill()
                process.wait()
                raise
            finally:
                reader.join()
                end_helpers(self._call)

    def _answer(self, process: subprocess.Popen[bytes], lines: queue.Queue[bytes]) -> None:
        while True:
            try:
                # Short, so that a signal is looked at.
                line = lines.get(timeout=0.05)
            except queue.Empty:
                self._look()
                continue
            if not line:
                return
            said = json.loads(line)
            if "said" in said:
                self._log.append(line.decode().rstrip("\n"))
            else:
                self._round(process, said["count"])

    def _round(self, process: subprocess.Popen[bytes], count: int) -> None:
        """Has all jobs of a round done, and tells the leader of each."""
        results: dict[int, Optional[str]] = {}

        def take(done: Results) -> None:
            assert process.stdin
            results.update(done)
            lines = (json.dumps({"done": {"index": index, "result": result}}) for index, result in done)
            process.stdin.write("".join(f"{line}\n" for line in lines).encode())
            process.stdin.flush()

        # Every worker has a part of the round, in two steps, so that the fast ones can help.
        size = max(1, -(-count // (2 * self._workers)))
        parts = [(list(range(first, min(first + size, count))), 0) for first in range(0, count, size)]
        under_way: dict[Future[Results], tuple[list[int], int]] = {}
        try:
            while parts or under_way:
                while parts and len(under_way) < 2 * self._workers:
                    self._hand_out(*parts.pop(0), under_way, take)
                done, _ = wait(under_way, timeout=0.05, return_when=FIRST_COMPLETED)
                self._look()
                for future in done:
                    jobs, tries = under_way.pop(future)
                    try:
                        take(future.result())
                    except (BrokenExecutor, CancelledError):
                        self._is_gone = True
                        parts.append((jobs, TRIES))
                    except Exception:
                        # A worker that died, as this executor tells it.
                        parts.append((jobs, tries))
        finally:
            for future in under_way:
                future.cancel()
        self._log.append(json.dumps({"results": [results[index] for index in range(count)]}))

    def _hand_out(self, jobs: list[int], tries: int, under_way: dict[Future[Results], tuple[list[int], int]], take: Any) -> None:
        task = zlib.compress(pickle.dumps((self._call, self._words, self._log, jobs)), 1)
        if tries < TRIES and not self._is_gone:
            try:
                under_way[self._executor.submit(do_jobs, task)] = (jobs, tries + 1)
                return
            except (BrokenExecutor, RuntimeError):
                self._is_gone = True
        take(do_jobs(task))
