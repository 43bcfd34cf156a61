"""What applications ask."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Optional, Union

from . import _raidlab
from ._raidlab import RaidlabError
from .arguments import flag, listed, number, ordered, path, refused, short, text
from .arrays import _read
from .own import Column, Target, batches


ASKED = {
    "run": "The job measures for {0}: simulate(..., run='{0}').",
    "ramp": "The job has a ramp of {0}: simulate(..., ramp='{0}').",
    "region": "The job uses {0} of its target: Array(..., region='{0}').",
    "seed": "The job has the seed {0}: simulate(..., seed={0}).",
    "targets": "The job runs on {0}; here it runs on the array.",
    "buffered": "The job goes through the page cache (direct=0); here requests go to the array.",
}
"""What a job asks that is said elsewhere."""

MadeOf = tuple[str, str, str, int, dict[str, str]]
"""What a workload is made of: its kind, name and text; of a job file the step, and values of variables."""


class Workload:
    """A workload: built in, by its full or short name (:meth:`builtin` lists them), or of a workload file (``.toml``)."""

    def __init__(self, name: str) -> None:
        self._find("name", name)

    def _find(self, argument: str, given: Any) -> None:
        """Fills it with what ``given`` names, which came as ``argument``."""
        name = path(argument, given)
        if name.endswith(".toml"):
            self._fill(("toml", *_read(argument, name), 0, {}))
            return
        short(argument, name)
        try:
            self._fill(("builtin", name, "", 0, {}))
        except RaidlabError as error:
            raise refused(argument, name, f"{error}; raidlab.Workload.builtin() lists those there are") from None

    def _fill(self, made_of: MadeOf) -> None:
        kind, name, text, step, env = self._made_of = made_of
        self.notes: list[str] = []
        """What was left out of a job file, is a little different here, or is to be said elsewhere: sentences."""
        self.iodepth: Optional[int] = None
        """Requests in flight that a job file asks for; runs have so many where nobody says another number."""
        if kind == "builtin":
            self._workload = _raidlab.Workload(name)
        elif kind == "toml":
            self._workload = _raidlab.Workload.from_toml(name, text)
        else:
            steps, notes = _raidlab.Workload.from_fio(name, text, env)
            self._workload, (self.iodepth, asked) = steps[step]
            self.notes = [*notes, *(ASKED[what].format(value) for what, value in asked)]

    @classmethod
    def _of(cls, made_of: MadeOf) -> Workload:
        workload = cls.__new__(cls)
        workload._fill(made_of)
        return workload

    @staticmethod
    def builtin() -> list[str]:
        """Names of the built-in workloads."""
        return _raidlab.workload_names()

    @classmethod
    def from_toml(cls, path: Union[str, Path]) -> Workload:
        """The workload of a file of raidlab (docs/workloads.md)."""
        return cls._of(("toml", *_read("path", path), 0, {}))

    @classmethod
    def from_fio(cls, path: Union[str, Path], *, env: Optional[Mapping[str, str]] = None) -> list[Workload]:
        """The workloads of a job file of fio, one for each step that runs alone. What has no counterpart is refused, line by line.

        ``iodepth`` of each is the job's. Length, ramp, size and seed of the job are arguments of :func:`raidlab.simulate` and
        :class:`raidlab.Array`; ``notes`` say which the job has. ``env`` has the values of its variables.
        """
        name, job = _read("path", path)
        if env is not None and not isinstance(env, Mapping):
            raise refused("env", env, "it is a dictionary: a value for each variable of the job")
        variables = dict(_variable(name, value) for name, value in (env or {}).items())
        steps, _ = _raidlab.Workload.from_fio(name, job, variables)
        return [cls._of(("fio", name, job, step, variables)) for step in range(len(steps))]

    def __getstate__(self) -> MadeOf:
        return self._made_of

    def __setstate__(self, state: MadeOf) -> None:
        self._fill(state)

    @property
    def name(self) -> str:
        """Its full name."""
        return self._workload.name

    def to_dict(self) -> dict[str, Any]:
        """What is to be known of it, as ``raidlab workloads NAME --json`` has it; figures have units in their names."""
        facts: dict[str, Any] = json.loads(self._workload.facts())
        return facts

    def __repr__(self) -> str:
        return f"Workload({self.name!r})"


def _variable(name: Any, value: Any) -> tuple[str, str]:
    """A variable of a job."""
    found = value if isinstance(value, str) else number(value)
    if not isinstance(name, str) or not name or found is None:
        raise refused("env", {name: value}, "a variable has a name, and text or a whole number as its value")
    return name, short("env", str(found))


Batches = Callable[[Target], Iterable[Any]]


class OwnWorkload(Workload):
    """A workload whose requests Python makes, in batches: ``OwnWorkload(function)``.

    ``function`` is called for each run with a :class:`Target`, and yields batches: ``(offset_bytes, size_bytes, is_write)``, each a
    sequence, an array, a buffer (NumPy's are, too) or one number for the whole batch; a dictionary or a table with columns of these
    names will do. ``is_write`` is 0 for a read, 1 for a write, 2 for a flush. Where the batches end the run ends, its window with it.

    ``timed`` batches have ``time_ns`` as well, when each request arrives, from the start of the run; ``iodepth`` then is how many may be
    in flight. ``largest`` is the longest request. All that is random should come from ``target.seed``: one seed, one answer.
    """

    def __init__(self, function: Batches, *, name: Optional[str] = None, timed: bool = False, largest: str = "1MiB") -> None:
        if not callable(function):
            raise refused("function", function, "it is a function that takes a raidlab.Target and yields batches of requests")
        name = getattr(function, "__name__", type(function).__name__) if name is None else name
        self._make(function, text("name", name), flag("timed", timed), text("largest", largest))

    def _make(self, function: Batches, name: str, timed: bool, largest: str) -> None:
        self._own = (function, name, timed, largest)
        self.notes, self.iodepth = [], None
        self._workload = _raidlab.Workload.from_own(name, partial(_begun, function, name, timed), timed, largest)

    def __getstate__(self) -> Any:
        return self._own

    def __setstate__(self, state: Any) -> None:
        self._make(*state)

    def __repr__(self) -> str:
        return f"OwnWorkload({self.name!r})"


def _begun(function: Batches, name: str, timed: bool, *target: int) -> Iterator[tuple[int, list[Column]]]:
    return batches(function, name, timed, Target(*target))


Given = Union[str, Workload, Batches]

A_WORKLOAD = "a workload is a name, the path of a .toml file, a raidlab.Workload or a function that yields batches"


def as_workloads(name: str, given: Union[Given, Sequence[Given]]) -> list[Workload]:
    """A name, a workload, a function that makes one, or several of these; ``name`` is the argument's."""
    ordered(name, given, A_WORKLOAD)
    several = listed(name, given, A_WORKLOAD)
    if not several:
        raise refused(name, given, "name at least one; raidlab.Workload.builtin() has the names")
    return [_as_workload(name if len(several) == 1 else f"{name}[{place}]", it) for place, it in enumerate(several)]


def _as_workload(name: str, given: Any) -> Workload:
    if isinstance(given, Workload):
        return given
    if isinstance(given, str):
        found = Workload.__new__(Workload)
        found._find(name, given)
        return found
    if callable(given):
        return OwnWorkload(given)
    raise refused(name, given, A_WORKLOAD)
