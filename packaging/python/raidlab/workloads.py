"""What applications ask."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Union

from . import _raidlab
from ._raidlab import RaidlabError
from .arrays import _read


class Workload:
    """A workload: built in, by its full or short name (:meth:`builtin` lists them), or of a workload file (``.toml``)."""

    def __init__(self, name: str) -> None:
        self._fill(("toml", str(name), _read(name), 0) if str(name).endswith(".toml") else ("builtin", str(name), "", 0))

    def _fill(self, made_of: tuple[str, str, str, int]) -> None:
        kind, name, text, step = self._made_of = made_of
        self.notes: list[str] = []
        """What was left out of a job file, or is a little different here: sentences."""
        if kind == "builtin":
            self._workload = _raidlab.Workload(name)
        elif kind == "toml":
            self._workload = _raidlab.Workload.from_toml(name, text)
        else:
            steps, self.notes = _raidlab.Workload.from_fio(name, text)
            self._workload = steps[step]

    @classmethod
    def _of(cls, made_of: tuple[str, str, str, int]) -> Workload:
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
        return cls._of(("toml", str(path), _read(path), 0))

    @classmethod
    def from_fio(cls, path: Union[str, Path]) -> list[Workload]:
        """The workloads of a job file of fio, one for each step that runs alone. What has no counterpart is refused, line by line."""
        text = _read(path)
        steps, _ = _raidlab.Workload.from_fio(str(path), text)
        return [cls._of(("fio", str(path), text, step)) for step in range(len(steps))]

    def __getstate__(self) -> tuple[str, str, str, int]:
        return self._made_of

    def __setstate__(self, state: tuple[str, str, str, int]) -> None:
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


def as_workloads(given: Union[str, Workload, Sequence[Union[str, Workload]]]) -> list[Workload]:
    """A name, a workload or several of either."""
    several = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    for it in several:
        if not isinstance(it, (str, Workload)):
            raise RaidlabError(f"workload={it!r}: a workload is a name, the path of a .toml file or a raidlab.Workload")
    return [it if isinstance(it, Workload) else Workload(it) for it in several]
