"""Plans, risks and reproductions: answers of the program that the wheel holds.

Each argument is the option of that name (``written_per_day="2TB"`` is ``--written-per-day 2TB``), so the reference of the command line
(docs/reference.md) is that of these functions, and what is refused is refused in the same words.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from ._raidlab import RaidlabError
from .arguments import path as checked_path
from .arguments import refused
from .rounds import Leader
from .runs import framed


class Answer(dict[str, Any]):
    """What the program answered, as ``--json`` has it. A notebook shows its report, where it has one."""

    page: Optional[str] = None
    """The report as a page that loads nothing."""

    def save_html(self, path: str) -> None:
        """Writes the report to a file."""
        if self.page is None:
            raise RaidlabError("this answer has no report")
        Path(checked_path("path", path)).write_text(self.page, encoding="utf-8")

    def _repr_html_(self) -> Optional[str]:
        return None if self.page is None else framed(self.page)


def plan(*, executor: Optional[Executor] = None, **options: Any) -> Answer:
    """Which arrays serve applications best: ``plan(app="storagebench-database", usable="20TB", iops=20000, bound="p99<=2ms")``.

    Options are those of ``raidlab plan``; one that may be repeated takes a list. The answer has the best arrays under ``top``, best
    first; there is none where no array keeps the needs, and the answer says what would have to give.

    With ``executor``, any of ``concurrent.futures``, its simulations run on the executor's workers, which need the wheel and the files
    that options name. The answer is the same, but for the seconds that it took; so is it when workers die.
    """
    return _asked("plan", [], options, has_page=True, executor=executor)


def risk(level: str, members: int, **options: Any) -> Answer:
    """How likely an array loses data: ``risk("6", 12, drive="exos-x24-24tb", spares=1)``. Options are those of ``raidlab risk``."""
    return _asked("risk", [], {"level": level, "members": members, **options}, has_page=False)


def reproduce(paper: str = "list", **options: Any) -> Answer:
    """Predicts the figures of a published evaluation and compares: ``reproduce("md1200-2011", table="2")``; without one, which there are.

    Options are those of ``raidlab reproduce``.
    """
    return _asked("reproduce", [paper], options, has_page=paper != "list")


def compare(*runs: Union[int, str], **options: Any) -> Answer:
    """Runs of a results file side by side, the others with the first: ``compare(3, "5..9", db="runs.sqlite")``. With a kept plan first,
    ``compare("plan:2", "5..9")``, which of its assumptions measured runs show to be wrong.

    Options are those of ``raidlab compare``; ``plan(..., db="runs.sqlite")`` keeps a plan.
    """
    if len(runs) < 2:
        raise RaidlabError(f"runs={runs!r}: name at least two runs or groups of them, such as 3, '5..9', 'tag:mine' or 'plan:2'")
    return _asked("compare", [str(it) for it in runs], options, has_page=False)


def fit(paper: Optional[str] = None, **options: Any) -> Answer:
    """Fits figures of the catalogue to runs of your own: ``fit(to=["5..9"], only=["st3600057ss:mechanics.rpm"], array="mine.toml",
    db="runs.sqlite")``; or, with a ``paper``, to its published figures.

    Options are those of ``raidlab fit``; ``out="mine.toml"`` writes the new entry.
    """
    return _asked("fit", [] if paper is None else [paper], options, has_page=False)


def program() -> str:
    """The program's path: ``RAIDLAB`` of the environment, else beside this Python, else on the path."""
    beside = Path(sys.executable).with_name("raidlab")
    found = os.environ.get("RAIDLAB") or (str(beside) if beside.is_file() else shutil.which("raidlab"))
    if not found:
        raise RuntimeError("the program 'raidlab' is neither beside this Python nor on the path; name it in RAIDLAB")
    return found


def _arguments(options: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
            continue
        for one in value if isinstance(value, (list, tuple)) else [value]:
            words.append(f"{option}={one}")
    return words


BOUND_MISSED = 3
"""The program's code where all was done and a bound was missed: an answer, too."""


def _asked(
    verb: str, words: list[str], options: dict[str, Any], *, has_page: bool, executor: Optional[Executor] = None
) -> Answer:
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise refused("executor", executor, "it is an executor of concurrent.futures, with a method submit")
    with tempfile.TemporaryDirectory(prefix="raidlab-") as folder:
        report = Path(folder) / "report.html"
        page = [f"--report={report}"] if has_page else []
        asked = [verb, *words, *_arguments(options)]
        command = [program(), *asked, *page, "--json"]
        # A worker does one job at a time: it may be one of many on its machine.
        leader = None if executor is None else Leader([*_without_keeping(asked), "--threads=1", "--json"], executor)
        done = _ended(command, Path(folder), leader)
        if done.code not in (0, BOUND_MISSED):
            raise RaidlabError(_told(done.err, options))
        answer = Answer(json.loads(done.out))
        if report.is_file():
            answer.page = report.read_text(encoding="utf-8")
        return answer


KEEPS = ("--report", "--study", "--db", "--tag", "--threads")
"""Options that say where the answer goes, or how fast this machine is to be: no worker's business."""


def _without_keeping(words: list[str]) -> list[str]:
    return [word for word in words if word.partition("=")[0] not in KEEPS]


class _Ended(NamedTuple):
    code: int
    out: str
    err: str


def _ended(command: list[str], folder: Path, leader: Optional[Leader]) -> _Ended:
    """Runs the program to its end; a signal ends it at once."""
    out, err = folder / "out", folder / "err"
    if leader is not None:
        ended = leader.run(command, out, err)
        return _Ended(ended, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))
    with out.open("wb") as to_out, err.open("wb") as to_err:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=to_out, stderr=to_err)
        try:
            while (code := process.poll()) is None:
                time.sleep(0.02)
        except BaseException:
            process.kill()
            raise
    return _Ended(code, out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8"))


def _told(text: str, options: dict[str, Any]) -> str:
    """What the program told, with the names of arguments in place of options."""
    start = text.find("{")
    try:
        said = [it["text"] for it in json.loads(text[start:])["failure"]]
    except (ValueError, KeyError, TypeError):
        said = [text.strip()]
    told = "\n".join(said)
    for name in options:
        told = re.sub(rf"--{re.escape(name.replace('_', '-'))}(?![\w-])", name, told)
    return told
