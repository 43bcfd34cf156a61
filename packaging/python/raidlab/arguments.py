"""Arguments that can't be: each is named, with its value and what is allowed."""

from __future__ import annotations

import importlib
import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional, Union

from ._raidlab import RaidlabError

SHOWN_CHARS = 200
"""The longest value that is printed whole."""


class MissingPackage(RaidlabError, ImportError):
    """Another package of Python is needed, and is not installed."""


class RaidlabWarning(UserWarning):
    """What is to be known before the figures of runs are trusted."""


def shown(value: object) -> str:
    """A value as Python writes it, or its beginning."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "..."


def refused(name: str, value: object, allowed: str) -> RaidlabError:
    """That ``name`` can't be ``value``."""
    return RaidlabError(f"{name}={shown(value)}: {allowed}")


def needed(module: str, what: str) -> Any:
    """A module that is not part of this package."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise missing(module, what, error) from None


def missing(module: str, what: str, error: object) -> MissingPackage:
    """That ``what`` needs a module."""
    return MissingPackage(f"{what} needs the package {module}: pip install {module} ({error})")


def is_flag(value: Any) -> bool:
    """Whether it is True or False, of Python or of NumPy: no number."""
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b" and not getattr(value, "shape", ())


def flag(name: str, value: Any) -> bool:
    """Yes or no."""
    if not is_flag(value):
        raise refused(name, value, "it is True or False")
    return bool(value)


def number(value: Any) -> Optional[int]:
    """A whole number of Python, NumPy or another library; none for anything else."""
    if is_flag(value):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def real(value: Any) -> Optional[float]:
    """A number of Python, NumPy or another library; none for anything else, and for what is no finite number."""
    if is_flag(value) or isinstance(value, (str, bytes)):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def either(value: Any) -> Union[int, float, None]:
    """A whole number, or another finite one; none for anything else."""
    found = number(value)
    return real(value) if found is None else found


def listed(name: str, value: Any, allowed: str) -> list[Any]:
    """What is in a list or another iterable, or the value itself; bytes are no list of numbers."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        raise refused(name, value, allowed)
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]


def ordered(name: str, value: Any, allowed: str) -> None:
    """Refuses what has an order by chance, or more than values."""
    if isinstance(value, (set, frozenset, Mapping)):
        raise refused(name, value, allowed)


def plain(name: str, value: Any) -> Union[str, bool, int, float]:
    """Text, or a number, True or False of Python or of another library as one of Python."""
    if isinstance(value, str):
        return short(name, value)
    if is_flag(value):
        return bool(value)
    found = either(value)
    if found is None or not -(2**63) <= found < 2**64:
        raise refused(name, value, "it is text, a finite number from -2^63 to 2^64 - 1, True or False")
    return found


def whole(name: str, value: Any, least: int, most: int, what: str) -> int:
    """A whole number within bounds."""
    found = number(value)
    if found is None or not least <= found <= most:
        bound = "2^64 - 1" if most == 2**64 - 1 else str(most)
        raise refused(name, value, f"{what} a whole number from {least} to {bound}")
    return found


def path(name: str, value: Any, allowed: str = "it is a path, as text or pathlib.Path") -> str:
    """The path of a file or folder."""
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else ""
    if not isinstance(text, str) or not text:
        raise refused(name, value, allowed)
    return for_system(name, text)


def for_system(name: str, text: str) -> str:
    """Text of a path or of an argument of the program: the system takes no zero byte, and no half of a character."""
    try:
        if b"\0" not in os.fsencode(text):
            return text
    except UnicodeEncodeError:
        pass
    raise refused(name, text, "it is text without zero bytes and halves of characters")


def told(text: str) -> str:
    """Text of a path or of an argument as the program tells it: with a mark for what is no character."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def selector(name: str, value: Any) -> str:
    """What names runs of a results file."""
    text = value if isinstance(value, str) else number(value)
    if text is None or str(text).startswith("-"):
        raise refused(name, value, "it is a run's number, or text such as '5..9', 'study:2', 'plan:2' or 'tag:mine'")
    return short(name, for_system(name, str(text)))


WORDS = [
    ("'raidlab catalog' lists the hardware", "raidlab.Catalog() has the hardware, its drives under .drives"),
    ("'raidlab workloads' lists them all", "raidlab.Workload.builtin() lists them all"),
    ("'raidlab reproduce list' shows those there are", "raidlab.reproduce() has those there are"),
    ("'raidlab runs' lists them", "raidlab.Store(path).runs().to_pandas() lists them"),
    ("'raidlab runs --studies' lists them", "raidlab.Store(path).runs().to_pandas() lists them"),
    ("'raidlab measure ... --db FILE.sqlite' makes one", "raidlab.plan(..., db=...) makes one"),
    ("A file of one ends in .toml", "a file of one ends in .toml"),
]
"""What the program says of its verbs, and what that is here."""


def in_python(text: str) -> str:
    """``text`` with what is here in place of verbs of the program."""
    for said, here in WORDS:
        text = text.replace(said, here)
    return text


@contextmanager
def files(name: str, path: object, what: str) -> Iterator[None]:
    """Says of the file or folder ``path`` why it can't be read or written."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise refused(name, path, f"it is no text in UTF-8, from byte {error.start} on") from None
    except OSError as error:
        raise refused(name, path, f"it can't be {what}: {error.strerror or error}") from None


def text(name: str, value: Any) -> str:
    """Text that says something."""
    if not isinstance(value, str) or not value.strip():
        raise refused(name, value, "it is text, and not empty")
    return short(name, value)


def short(name: str, text: str) -> str:
    """Text that is shown whole where it is refused."""
    if len(text) > SHOWN_CHARS:
        raise refused(name, text, f"it has {len(text)} characters, and {SHOWN_CHARS} at most are taken")
    return in_characters(name, text)


def in_characters(name: str, text: str) -> str:
    """Text that can be written in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise refused(name, text, f"at {error.start} it has half of a character") from None
    return text


def of_type(name: str, value: Any, kind: Union[type, tuple[type, ...]], allowed: str) -> Any:
    """An object of a class."""
    if not isinstance(value, kind):
        raise refused(name, value, allowed)
    return value


def executor(value: Any) -> Any:
    """An executor, if there is one."""
    if value is not None and (isinstance(value, type) or not callable(getattr(value, "submit", None))):
        called = f", as {value.__name__}() makes one" if isinstance(value, type) else ""
        raise refused("executor", value, f"it is an executor of concurrent.futures, with a method submit{called}")
    return value
