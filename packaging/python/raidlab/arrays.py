"""The catalogue, and arrays of its parts."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Optional, Union

from . import _raidlab
from ._raidlab import RaidlabError
from .arguments import either, files, is_flag, of_type, ordered, plain, refused, short, shown, told
from .arguments import path as checked_path
from .own import OwnDrive
from .runs import Records


class Catalog:
    """Drives, controllers, enclosures and hosts: built in, and your own.

    ``files`` are TOML files with entries of your own, or folders of such. ``set`` has other values of figures, by entry and key:
    ``{"perc-h800:member_command.read": "7us"}``. ``drives`` are drives that are written in Python, by name.
    """

    def __init__(
        self,
        files: Sequence[Union[str, Path]] = (),
        *,
        set: Optional[Mapping[str, str]] = None,  # noqa: A002
        drives: Optional[Mapping[str, OwnDrive]] = None,
    ) -> None:
        if isinstance(files, (str, Path)):
            raise refused("files", str(files), "it is a list of files and folders: write it in brackets")
        ordered("files", files, "it is a list of files and folders")
        if isinstance(files, bytes) or not isinstance(files, Iterable):
            raise refused("files", files, "it is a list of files and folders")
        for argument, value in [("set", set), ("drives", drives)]:
            if value is not None and not isinstance(value, Mapping):
                raise refused(argument, value, "it is a dictionary")
        for name, drive in (drives or {}).items():
            if not isinstance(name, str) or not name or not isinstance(drive, OwnDrive):
                raise refused(f"drives[{name!r}]", drive, "it is a name and a raidlab.OwnDrive")
            short("drives", name)
        texts = [_read("files", path) for given in files for path in _toml_files(checked_path("files", given))]
        changes = [_change(place, value) for place, value in (set or {}).items()]
        self._fill(texts, changes, dict(drives or {}))

    def _fill(self, texts: list[tuple[str, str]], changes: list[tuple[str, str, str]], drives: dict[str, OwnDrive]) -> None:
        self._parts = (texts, changes, drives)
        own = [(name, it.like, it.capacity, it.parallel, it.build) for name, it in drives.items()]
        self._catalog = _raidlab.Catalog(texts, changes, own)

    def __getstate__(self) -> Any:
        return self._parts

    def __setstate__(self, state: Any) -> None:
        self._fill(*state)

    @cached_property
    def entries(self) -> Records:
        """All entries of all kinds: kind, id, name, year, class; ``figures`` are their figures with sources."""
        return Records(json.loads(self._catalog.entries()), ["kind", "class", "year", "id", "name"])

    def _of(self, kind: str) -> Records:
        return Records([it for it in self.entries if it["kind"] == kind], ["class", "year", "id", "name"])

    @property
    def drives(self) -> Records:
        """Drives; ``class`` is nvme, sas-ssd, sata-ssd or hdd."""
        return self._of("drive")

    @property
    def controllers(self) -> Records:
        """RAID controllers, host bus adapters under Linux md among them."""
        return self._of("controller")

    @property
    def enclosures(self) -> Records:
        """Enclosures for drives."""
        return self._of("enclosure")

    @property
    def hosts(self) -> Records:
        """Hosts that software RAID may run on."""
        return self._of("host")

    def __repr__(self) -> str:
        return f"Catalog of {len(self.entries)} entries"

    def _repr_html_(self) -> str:
        return self.entries._repr_html_()


class Array:
    """An array of catalogue parts. What is not said is as its controller is delivered.

    Sizes and times are texts with a unit: ``strip="64KiB"``. ``cache`` and ``resilience`` take the keys that ``[cache]`` and
    ``[resilience]`` of array files have, ``{"flush-start-pct": 60}``. Names are looked up when the array is used, in its catalogue.
    What was said can be read (``array.strip``), and stays as it is.
    """

    def __init__(
        self,
        level: str,
        members: int,
        drive: str,
        controller: str,
        *,
        strip: Optional[str] = None,
        enclosure: Optional[str] = None,
        write_policy: Optional[str] = None,
        read_policy: Optional[str] = None,
        io_policy: Optional[str] = None,
        disk_cache: Optional[bool] = None,
        cache_size: Optional[str] = None,
        metadata: Optional[str] = None,
        controllers: Optional[int] = None,
        volumes: Optional[int] = None,
        mirror: Optional[bool] = None,
        fail: Optional[str] = None,
        fail_after: Optional[str] = None,
        region: Optional[str] = None,
        condition: Optional[str] = None,
        fill: Optional[int] = None,
        cache: Optional[Mapping[str, Any]] = None,
        resilience: Optional[Mapping[str, Any]] = None,
    ) -> None:
        said = {name: value for name, value in locals().items() if name != "self" and value is not None}
        given = {name: _setting(name, value) for name, value in said.items()}
        for name, (keys, key) in SAID_TWICE.items():
            if name in given and key in given.get(keys, {}):
                raise refused(name, given[name], f"{keys}={{{key!r}: {shown(given[keys][key])}}} is given, too, and says the same: give one of them")
        self._fill(given, json.dumps(given))
        if region is not None and json.loads(self._array.file())["region"] < BLOCK_BYTES_MIN:
            raise refused("region", region, f"no request fits: it has {BLOCK_BYTES_MIN}B or more")

    def __getattr__(self, name: str) -> Any:
        if name not in ARGUMENTS:
            raise AttributeError(f"an Array has no attribute '{name}'")
        return self._said.get(name)

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            other = f"raidlab.Array(**{{**array.settings, {name!r}: {shown(value)}}})"
            raise AttributeError(f"an Array stays as it is: make another, {other}")
        super().__setattr__(name, value)

    @property
    def _said(self) -> dict[str, Any]:
        """What was said of it, by the names of arguments."""
        if "toml" not in self._settings:
            return self._settings
        file = json.loads(self._array.file())
        cache, resilience, controllers = file["cache"], file["resilience"], file.get("controllers") or {}
        said = {name: file.get(name.replace("_", "-")) for name in ARGUMENTS}
        more = {name: cache.get(name.replace("_", "-")) for name in ("read_policy", "io_policy")}
        pair = {name: controllers.get(name.replace("_", "-")) for name in ("volumes", "mirror", "fail", "fail_after")}
        said.update(more, metadata=resilience.get("metadata"), controllers=controllers.get("count"), **pair)
        sizes = {"strip": file.get("strip-size"), "cache_size": cache.get("size"), "region": file.get("region")}
        said.update({name: None if size is None else f"{size}B" for name, size in sizes.items()})
        return said

    def _fill(self, given: dict[str, Any], text: str) -> None:
        self._settings = given
        self._array = _raidlab.Array(text) if "toml" not in given else _raidlab.Array.from_toml(*given["toml"])

    @classmethod
    def from_toml(cls, path: Union[str, Path]) -> Array:
        """The array that a file describes; ``raidlab simulate --array`` reads the same."""
        array = cls.__new__(cls)
        array._fill({"toml": _read("path", path)}, "")
        return array

    def __getstate__(self) -> dict[str, Any]:
        return self._settings

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._fill(state, json.dumps(state))

    @property
    def settings(self) -> dict[str, Any]:
        """What was said of it."""
        return dict(self._settings)

    def label(self, catalog: Optional[Catalog] = None) -> str:
        """The array in a few words. An array that can't be is refused."""
        parts = checked_catalog(catalog)._catalog
        label = self._array.label(parts)
        any_workload = _raidlab.Workload(_raidlab.workload_names()[0])
        _raidlab.Sweep(parts, [self._array], [any_workload], [], ("0s", None, 1), 1).check()
        return label

    def usable_bytes(self, catalog: Optional[Catalog] = None) -> int:
        """What the host sees."""
        return self._array.usable_bytes(checked_catalog(catalog)._catalog)

    def misfits(self, catalog: Optional[Catalog] = None) -> list[str]:
        """What could not be plugged together, a sentence each; it is simulated all the same."""
        return self._array.misfits(checked_catalog(catalog)._catalog)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Array) and self._settings == other._settings

    def __hash__(self) -> int:
        return hash(json.dumps(self._settings, sort_keys=True))

    def __repr__(self) -> str:
        if "toml" in self._settings:
            return f"Array.from_toml({self._settings['toml'][0]!r})"
        return "Array(" + ", ".join(f"{name}={value!r}" for name, value in self._settings.items()) + ")"


ARGUMENTS = tuple(name for name in inspect.signature(Array.__init__).parameters if name != "self")
"""What is said of an array."""

SAID_TWICE = {
    "cache_size": ("cache", "size"),
    "read_policy": ("cache", "read-policy"),
    "io_policy": ("cache", "io-policy"),
    "metadata": ("resilience", "metadata"),
}
"""Arguments that say the same as a key of another."""
BLOCK_BYTES_MIN = 512
"""The shortest request."""


def _setting(name: str, value: Any) -> Any:
    """The value of an argument of an array."""
    if name not in ("cache", "resilience"):
        return plain(name, value)
    of_type(name, value, Mapping, f"it is a dictionary, with the keys that [{name}] of array files has")
    return {key: plain(f"{name}[{key!r}]", it) for key, it in value.items() if it is not None}


_DEFAULT: list[Catalog] = []


def default_catalog() -> Catalog:
    """The built-in hardware, read once."""
    if not _DEFAULT:
        _DEFAULT.append(Catalog())
    return _DEFAULT[0]


def checked_catalog(catalog: Optional[Catalog]) -> Catalog:
    """The catalogue that was given, or the built-in one."""
    allowed = "it is a raidlab.Catalog, such as Catalog(['mine.toml'])"
    return default_catalog() if catalog is None else of_type("catalog", catalog, Catalog, allowed)


def _read(argument: str, path: Union[str, Path]) -> tuple[str, str]:
    """A file that came as ``argument``: its name, as it can be told, and its text."""
    name = checked_path(argument, path)
    with files(argument, name, "read"):
        return told(name), Path(name).read_text(encoding="utf-8")


def _toml_files(name: str) -> list[Path]:
    path = Path(name)
    with files("files", name, "read"):
        if not path.is_dir():
            return [path]
        # Unlike a pattern, it says that the folder can't be read.
        found = sorted(it for it in path.iterdir() if it.suffix == ".toml")
    if not found:
        raise refused("files", name, "the folder has no .toml files")
    return found


def _change(place: Any, given: Any) -> tuple[str, str, str]:
    entry, colon, key = place.partition(":") if isinstance(place, str) else ("", "", "")
    value = given
    if not (entry and colon and key):
        raise refused("set", {place: value}, "a place of a figure is written as 'perc-h800:member_command.read'")
    if not isinstance(value, str):
        value = None if is_flag(value) else either(value)
    if value is None or value == "":
        raise refused("set", {place: given}, "a figure is text, such as '7us', or a finite number")
    return short("set", entry), short("set", key), short("set", str(value))
