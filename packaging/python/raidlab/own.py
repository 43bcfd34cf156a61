"""What the caller writes in Python: batches of requests, and drives."""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Optional

from ._raidlab import RaidlabError
from .arguments import number, refused, short, shown, whole

COLUMNS = ("offset_bytes", "size_bytes", "is_write")
"""Columns of a batch, in their order; ``time_ns`` follows where requests have times."""
EMPTY_MAX = 10_000
"""So many batches without a request may follow each other: one that never has one would never end."""
Column = tuple[bool, bytes]
"""Whether its numbers have a sign, and their bytes."""


class Target(NamedTuple):
    """What a workload of one's own is asked for: everything that its requests may depend on."""

    seed: int
    region_bytes: int
    """Requests end before this."""
    block_bytes: int
    """Offsets and sizes are multiples of it."""
    iodepth: int
    """Requests in flight."""

    @property
    def blocks(self) -> int:
        """Blocks of the region."""
        return self.region_bytes // self.block_bytes

    def random(self) -> random.Random:
        """A source of random numbers that begins with the seed."""
        return random.Random(self.seed)


def batches(function: Callable[[Target], Iterable[Any]], name: str, has_times: bool, target: Target) -> Iterator[tuple[int, list[Column]]]:
    """The batches that ``function`` makes for ``target``, as the simulation takes them."""
    names = (*COLUMNS, "time_ns") if has_times else COLUMNS
    made = function(target)
    if not isinstance(made, Iterable):
        raise RaidlabError(f"workload '{name}': it gave {shown(made)}, and not batches: write a function that yields them")
    empty = 0
    for number, batch in enumerate(made, 1):
        where = f"workload '{name}', batch {number}"
        columns = [_column(it, f"{where}: {column}") for it, column in zip(_parts(batch, names, where), names)]
        counts = {column: len(it[1]) // it[2] for it, column in zip(columns, names) if it[2]}
        if len(set(counts.values())) != 1:
            lengths = ", ".join(f"{column} {count}" for column, count in counts.items()) or "only single numbers"
            raise RaidlabError(f"{where}: its columns have no common length: {lengths}")
        count = next(iter(counts.values()))
        empty = 0 if count else empty + 1
        if empty > EMPTY_MAX:
            raise RaidlabError(f"{where}: it is empty, as the {EMPTY_MAX} before it: return where there are no more requests")
        yield count, [(signed, data if width else data * count) for signed, data, width in columns]


def _parts(batch: Any, names: tuple[str, ...], where: str) -> list[Any]:
    """The columns of a batch: of a tuple by place, of a table or a dictionary by name."""
    if isinstance(batch, (tuple, list)):
        if len(batch) != len(names):
            timed = ", and timed=True one with times" if len(names) == len(COLUMNS) else ""
            raise RaidlabError(f"{where}: it has {len(batch)} columns, and a batch is ({', '.join(names)}){timed}")
        return list(batch)
    try:
        return [batch[name] for name in names]
    except (KeyError, TypeError, IndexError, ValueError):
        raise RaidlabError(f"{where}: {type(batch).__name__} is no batch: yield ({', '.join(names)}), or a table with these columns") from None


def _column(values: Any, where: str) -> tuple[bool, bytes, int]:
    """Whether numbers have a sign, their bytes, and the bytes of each; zero for one number that stands for all."""
    if (single := number(values)) is not None or isinstance(values, bool):
        values = int(values) if single is None else single
        if not 0 <= values < 2**64:
            raise RaidlabError(f"{where}={shown(values)}: a whole number from 0 to 2^64 - 1")
        return False, array("Q", [values]).tobytes(), 0
    try:
        view = memoryview(values)
    except TypeError:
        view = _copied(values, where)
    if view.ndim == 0 and view.format.lstrip("@=<") in "bBhHiIlLqQnN?":
        return _column(int(values), where)
    kind = view.format.lstrip("@=<")
    if view.ndim != 1 or len(kind) != 1 or kind not in "bBhHiIlLqQnN?":
        raise RaidlabError(f"{where}: {view.ndim} dimensions of '{view.format}': it takes whole numbers in a row, such as .astype('int64')")
    return kind in "bhilqn", view.tobytes(), view.itemsize


def _copied(values: Any, where: str) -> memoryview:
    """What has no buffer: columns of frames by way of NumPy, everything else number by number."""
    try:
        if hasattr(values, "to_pylist"):
            values = values.to_pylist()
        elif hasattr(values, "to_numpy"):
            return memoryview(values.to_numpy())
        return memoryview(array("q", values))
    except (TypeError, OverflowError, ValueError) as error:
        raise RaidlabError(f"{where}: {error}: it takes whole numbers, in an array, a buffer or a list") from None


class OwnDrive:
    """A drive of one's own, in place of one of the catalogue: ``Catalog(drives={"mine": OwnDrive(Mine, like="st3600057ss")})``.

    ``model`` says how long a command takes, in nanoseconds, when it begins. It is a class, of which each drive of an array has an
    object, ``Mine(number)``; or a function, which all drives share:

    - ``service(now_ns, op, offset_bytes, bytes)`` of the class, or the function itself. ``op`` is ``read``, ``write``,
      ``write-through`` (complete when it is on the media) or ``flush``.
    - ``choose(now_ns, waiting)`` of the class, if it has one: the place of the command that is next among ``waiting``, a list of
      ``(op, offset_bytes, bytes)`` in the order in which they came. Without it, the first.

    ``parallel`` is how many commands a drive works on at once. All else (capacity, if none is given; form factor, reliability, power) is
    that of the drive that it is ``like``. Its link, its caches and whatever it does by itself are in the times that it says.
    """

    def __init__(self, model: Callable[..., Any], like: str, *, capacity: Optional[str] = None, parallel: int = 1) -> None:
        if not callable(model) or (isinstance(model, type) and not callable(getattr(model, "service", None))):
            raise refused("model", model, "it is a function, or a class with a method service(now_ns, op, offset_bytes, bytes)")
        if not isinstance(like, str) or not like:
            raise refused("like", like, "it is the name of a drive of the catalogue")
        if capacity is not None and not isinstance(capacity, str):
            raise refused("capacity", capacity, "a size is text with a unit, such as '600GB'")
        short("like", like)
        short("capacity", capacity or "")
        parallel = whole("parallel", parallel, 1, 65536, "commands at once are")
        self.model, self.like, self.capacity, self.parallel = model, like, capacity, parallel

    def build(self, number: int) -> tuple[Callable[..., Any], Optional[Callable[..., Any]]]:
        """The functions of drive ``number``: how long a command takes, and which is next."""
        if not isinstance(self.model, type):
            return self.model, None
        drive = self.model(number)
        return drive.service, getattr(drive, "choose", None)

    def __repr__(self) -> str:
        return f"OwnDrive({getattr(self.model, '__name__', self.model)}, like={self.like!r})"
