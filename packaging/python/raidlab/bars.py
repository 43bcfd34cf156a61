"""Progress bars, where tqdm is installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

TOLD = {"RAIDLAB_PROGRESS": "json"}
"""The environment of a program that tells how far it is, a line of JSON each time."""


def _bar(**options: Any) -> Any:
    """A bar that shows itself after a second, where there can be one."""
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(delay=1, **options)


class Bar:
    """How many runs are done."""

    def __init__(self, count: int, is_wanted: bool) -> None:
        self._bar: Any = _bar(total=count, unit="run") if is_wanted and count > 1 else None
        self.done = 0

    def __enter__(self) -> Bar:
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


class ShareBar:
    """How far the program is, by what it tells."""

    def __init__(self, what: str, is_wanted: bool) -> None:
        self._bar: Any = _bar(total=100, desc=what, bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed} {postfix}") if is_wanted else None
        self._read = 0

    def __enter__(self) -> ShareBar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def look(self, told: Path) -> None:
        """Shows the last of the lines that the file ``told`` has got since."""
        if self._bar is None or not told.exists():
            return
        with told.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole, _, _ = new.rpartition(b"\n")
        if not whole:
            return
        self._read += len(whole) + 1
        lines = [line for line in whole.splitlines() if line.startswith(b'{"progress"')]
        if lines:
            progress = json.loads(lines[-1])["progress"]
            self._bar.set_postfix_str(str(progress["label"])[:60], refresh=False)
            self._bar.update(100 * progress["share"] - self._bar.n)
