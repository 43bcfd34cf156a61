"""Arguments that can't be: each is named, with its value and what is allowed."""

from __future__ import annotations

import os
from typing import Any, Union

from ._raidlab import RaidlabError


def refused(name: str, value: object, allowed: str) -> RaidlabError:
    """That ``name`` can't be ``value``."""
    return RaidlabError(f"{name}={value!r}: {allowed}")


def flag(name: str, value: Any) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise refused(name, value, "it is True or False")
    return value


def whole(name: str, value: Any, least: int, most: int, what: str) -> int:
    """A whole number within bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        bound = "2^64 - 1" if most == 2**64 - 1 else str(most)
        raise refused(name, value, f"{what} a whole number from {least} to {bound}")
    return value


def path(name: str, value: Any) -> str:
    """The path of a file or folder."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise refused(name, value, "it is a path, as text or pathlib.Path")
    return str(os.fspath(value))


def of_type(name: str, value: Any, kind: Union[type, tuple[type, ...]], allowed: str) -> Any:
    """An object of a class."""
    if not isinstance(value, kind):
        raise refused(name, value, allowed)
    return value
