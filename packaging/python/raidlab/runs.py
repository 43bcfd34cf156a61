"""What runs came to: objects, tables, and their looks in notebooks."""

from __future__ import annotations

import html
import json
import os
import re
import textwrap
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Optional, Union, overload

from . import _raidlab
from ._raidlab import RaidlabError
from .arguments import files, flag, in_characters, in_python, listed, needed, of_type, ordered, real, refused, selector, whole
from .arguments import path as checked_path

ROWS_SHOWN = 200
"""Rows of a table that a notebook shows."""
ROWS_PRINTED = 20
"""Rows of a table that are printed."""
PRINTED_CHARS = 80
"""The longest line that is printed."""
CELL_CHARS = 40
"""The longest cell that is printed."""


class Records(Sequence[dict[str, Any]]):
    """A list of dictionaries that a notebook shows as a table; ``pandas.DataFrame(records)`` makes a frame of it."""

    def __init__(self, rows: list[dict[str, Any]], columns: list[str]) -> None:
        self._rows, self._columns = rows, columns

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: str) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Records: ...
    def __getitem__(self, index: Union[int, str, slice]) -> Union[dict[str, Any], Records]:
        if isinstance(index, str):
            found = next((row for row in self._rows if row.get("id") == index), None)
            if found is None:
                raise KeyError(f"there is no entry '{index}'")
            return found
        return Records(self._rows[index], self._columns) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def _table(self) -> dict[str, list[Any]]:
        """Columns of what entries have, and of their figures as numbers, with the unit in the name."""
        rows = []
        for it in self._rows:
            figures = [_figure(one["key"], str(one["value"])) for one in it.get("figures", [])]
            rows.append({**{key: value for key, value in it.items() if key != "figures"}, **dict(figures)})
        names = list(dict.fromkeys(name for row in rows for name in row))
        kinds = {name: {type(row[name]) for row in rows if row.get(name) is not None} for name in names}
        # A figure that some entries have in words is text in all.
        texts = {name for name, of in kinds.items() if str in of and len(of) > 1}

        def cell(row: dict[str, Any], name: str) -> Any:
            value = row.get(name)
            return str(value) if name in texts and value is not None else value

        return {name: [cell(row, name) for row in rows] for name in names}

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row an entry; figures are numbers with their unit in the column's name."""
        return needed("pandas", "to_pandas()").DataFrame(self._table())

    def to_polars(self) -> Any:
        """A ``polars.DataFrame``, as :meth:`to_pandas`."""
        return needed("polars", "to_polars()").DataFrame(self._table(), strict=False)

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table``, as :meth:`to_pandas`."""
        return needed("pyarrow", "to_arrow()").table(self._table())

    def __repr__(self) -> str:
        lines = [" ".join(str(row.get(name, "")) for name in self._columns) for row in self._rows[:ROWS_SHOWN]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return _html_table(self._columns, [[row.get(name) for name in self._columns] for row in self._rows])


_UNITS = {"ns": ("_ns", 1.0), "us": ("_ns", 1e3), "ms": ("_ns", 1e6), "s": ("_ns", 1e9), "min": ("_ns", 60e9), "h": ("_ns", 3600e9)}
_UNITS.update({f"{name}B": ("_bytes", 1e3**power) for power, name in enumerate(["", "k", "M", "G", "T", "P"])})
_UNITS.update({f"{name}iB": ("_bytes", 1024.0**power) for power, name in enumerate(["K", "M", "G", "T", "P"], 1)})
_UNITS.update({f"{unit}/s": (f"{suffix}_per_sec", factor) for unit, (suffix, factor) in list(_UNITS.items()) if suffix == "_bytes"})
_FIGURE = re.compile(r"(?:(\d+) x )?(\d+(?:\.\d+)?(?:e\d+)?)(?: (\S+))?")


def _figure(key: str, text: str) -> tuple[str, Any]:
    """A figure of the catalogue as a number, and its name with the unit; in words where it is none."""
    name = key.replace(".", "_")
    found = _FIGURE.fullmatch(text)
    unit = _UNITS.get(found[3] or "", None) if found else None
    if found is None or (found[3] and unit is None):
        return name, text
    suffix, factor = unit or ("", 1.0)
    return name + suffix, int(found[1] or 1) * float(found[2]) * factor


class Table:
    """A table of typed columns; names carry the units. Any frame library takes it by Arrow's PyCapsule interface."""

    def __init__(self, table: _raidlab.Table) -> None:
        self._table = table

    @cached_property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return self._table.columns()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def to_dicts(self) -> list[dict[str, Any]]:
        """A dictionary a row; what does not apply is None."""
        return [dict(zip(self.columns, row)) for row in self._table.rows()]

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table``."""
        return needed("pyarrow", "to_arrow()").table(self)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``."""
        return needed("pandas", "to_pandas()").DataFrame(dict(zip(self.columns, zip(*self._table.rows()))), columns=self.columns)

    def to_polars(self) -> Any:
        """A ``polars.DataFrame``."""
        return needed("polars", "to_polars()").DataFrame(self)

    @overload
    def to_parquet(self) -> bytes: ...
    @overload
    def to_parquet(self, path: Union[str, os.PathLike[str]]) -> None: ...
    def to_parquet(self, path: Optional[Union[str, os.PathLike[str]]] = None) -> Optional[bytes]:
        """Writes a Parquet file, as ``raidlab export parquet`` does; without ``path`` its bytes are returned."""
        target = None if path is None else checked_path("path", path)
        content = self._table.parquet("runs")
        if target is None:
            return content
        with files("path", target, "written"):
            Path(target).write_bytes(content)
        return None

    def __len__(self) -> int:
        return len(self._table)

    def _says(self) -> tuple[list[str], list[list[Any]]]:
        """Columns that say something, but for lists in JSON, and their rows."""
        rows = self._table.rows()
        says = [index for index in range(len(self.columns)) if any(row[index] is not None for row in rows)]
        shown = [index for index in says if not self.columns[index].endswith("_json")]
        return [self.columns[index] for index in shown], [[row[index] for index in shown] for row in rows]

    def __repr__(self) -> str:
        columns, rows = self._says()
        widths: list[int] = []
        cells = [[_cell(it)[:CELL_CHARS] for it in row] for row in rows[:ROWS_PRINTED]]
        for index, name in enumerate(columns):
            widths.append(max([len(name), *(len(row[index]) for row in cells)]))
        room = PRINTED_CHARS
        fits = 0
        for width in widths:
            room -= width + 2
            if room < 0 and fits:
                break
            fits += 1
        lines = ["  ".join(it.ljust(width) for it, width in zip(row[:fits], widths)).rstrip() for row in [columns, *cells]]
        left_out = len(columns) - fits
        more = f"; {left_out} more columns with values: {', '.join(columns[fits:])}" if left_out else ""
        head = f"Table of {len(rows)} rows" + (f", the first {ROWS_PRINTED}" if len(rows) > ROWS_PRINTED else "")
        return "\n".join([*textwrap.wrap(head + more, PRINTED_CHARS), *lines])

    def _repr_html_(self) -> str:
        return _html_table(*self._says())


KEPT_PERCENTILES = {50: "p50", 90: "p90", 99: "p99", 99.9: "p999", 99.99: "p9999", 99.999: "p99999"}
"""Percentiles that are kept with a run, by their names in its summary."""


class Latency:
    """The latency of one direction of a run, from submission to completion, in nanoseconds."""

    def __init__(self, summary: dict[str, Any]) -> None:
        self._summary = summary

    @property
    def mean_ns(self) -> float:
        """The mean."""
        return float(self._summary["lat_ns_mean"])

    @property
    def max_ns(self) -> int:
        """The longest."""
        return int(self._summary["lat_ns_max"])

    @property
    def bins(self) -> list[tuple[int, int]]:
        """How many requests took up to how many nanoseconds, and longer than the bin before: time and requests."""
        return [(int(it["lat_ns"]), int(it["requests"])) for it in self._summary.get("lat_bins", [])]

    def percentile(self, pct: float) -> int:
        """The latency in nanoseconds that ``pct`` percent of the requests stay at or below.

        50, 90, 99, 99.9, 99.99 and 99.999 are kept with the run; others are read from bins, and too large by at most 12.5 %.
        """
        given = real(pct)
        if given is None or not 0 < given <= 100:
            raise refused("pct", pct, "a percentile is above 0 and at most 100")
        kept = {at: int(self._summary[f"lat_ns_{name}"]) for at, name in KEPT_PERCENTILES.items()}
        if given in kept:
            return kept[given]
        bins = self.bins
        wanted, seen, found = given / 100 * sum(count for _, count in bins), 0, self.max_ns
        for up_to_ns, count in bins:
            seen += count
            if seen >= wanted:
                found = up_to_ns
                break
        # The end of a bin may lie beyond a percentile above it that is kept.
        least = max((ns for at, ns in kept.items() if at < given), default=0)
        most = min((ns for at, ns in kept.items() if at > given), default=self.max_ns)
        return max(least, min(found, most, self.max_ns))

    def __repr__(self) -> str:
        return f"Latency(mean {self.mean_ns / 1e6:.3g} ms, p99 {self.percentile(99) / 1e6:.3g} ms, max {self.max_ns / 1e6:.3g} ms)"


class Run:
    """What one run came to. ``to_dict()`` has all of it, with the names and units of ``--json``."""

    def __init__(self, run: Union[_raidlab.Run, bytes], kept: tuple[int, int, str, str, list[str]] = (0, 0, "", "", [])) -> None:
        self._made, self._kept = run, kept

    @property
    def _run(self) -> _raidlab.Run:
        """Read when it is first asked for: who sweeps with a thousand workers has no time for it before."""
        if isinstance(self._made, bytes):
            self._made = _raidlab.Run(zlib.decompress(self._made).decode())
        return self._made

    def packed(self) -> bytes:
        """All of it, to be sent."""
        return self._made if isinstance(self._made, bytes) else zlib.compress(self._made.json().encode(), 1)

    def __getstate__(self) -> tuple[bytes, tuple[int, int, str, str, list[str]]]:
        return self.packed(), self._kept

    def __setstate__(self, state: tuple[bytes, tuple[int, int, str, str, list[str]]]) -> None:
        self._made, self._kept = state

    def to_json(self) -> str:
        """The run as ``--json`` has it; the same run can be made of it again."""
        return self._run.json()

    @cached_property
    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads(self._run.json())
        return facts

    def to_dict(self) -> dict[str, Any]:
        """All that is known of it."""
        facts: dict[str, Any] = json.loads(self._run.json())
        return facts

    @property
    def workload(self) -> str:
        """Name of its workload."""
        return str(self._facts["workload"])

    @property
    def target(self) -> str:
        """What it ran on, in words."""
        return str(self._facts["target"])

    @property
    def iodepth(self) -> int:
        """Requests in flight."""
        return int(self._facts["iodepth"])

    @property
    def iops(self) -> float:
        """Requests a second, reads and writes together."""
        return float(self._facts["total"]["iops"])

    @property
    def bytes_per_sec(self) -> float:
        """Bytes a second, reads and writes together."""
        return float(self._facts["total"]["bytes_per_sec"])

    @property
    def latency(self) -> Latency:
        """Latency of all requests."""
        return Latency(self._facts["total"])

    @property
    def read_latency(self) -> Latency:
        """Latency of reads."""
        return Latency(self._facts["read"])

    @property
    def write_latency(self) -> Latency:
        """Latency of writes."""
        return Latency(self._facts["write"])

    @property
    def timeline(self) -> Table:
        """The measured window, a row for each interval and direction."""
        return Runs([self]).timelines()

    @property
    def bottleneck(self) -> Optional[str]:
        """What set its pace, in a sentence; None where that was not looked for."""
        return self._run.bottleneck()

    @property
    def warnings(self) -> list[str]:
        """What is to be known before its figures are trusted: parts that do not fit, a window that is not steady, a cache that fills."""
        return self._run.warnings()

    def explain(self, width: int = 100) -> str:
        """The words of the command line: its figures, whether they hold, what set the pace, its settings."""
        return _raidlab.explanation([self._run], whole("width", width, 1, 65535, "columns of text are"))

    def __repr__(self) -> str:
        return f"Run({self.workload} at iodepth {self.iodepth} on {self.target}: {self.iops:.4g} requests/s, {self.latency!r})"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.explain())}</pre>"


class Runs:
    """Runs in their order. A notebook shows their report, with tables and charts; frame libraries take them as a table (Arrow)."""

    def __init__(self, runs: Iterable[Run], title: str = "Runs") -> None:
        ordered("runs", runs, "they are raidlab.Run")
        self._runs = listed("runs", runs, "they are raidlab.Run")
        self.title = in_characters("title", of_type("title", title, str, "it is text"))
        for run in self._runs:
            of_type("runs", run, Run, "they are raidlab.Run")

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> Runs: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[Run, Runs]:
        return Runs(self._runs[index], self.title) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    def __add__(self, other: Runs) -> Runs:
        return Runs([*self, *of_type("other", other, Runs, "raidlab.Runs are added to these")], self.title)

    def _made(self, kind: str) -> Table:
        rows = [(*run._kept, run._run) for run in self._runs]
        numbered = [(row[0] or place, *row[1:]) for place, row in enumerate(rows, 1)]
        return Table(_raidlab.Table(kind, numbered))

    def table(self) -> Table:
        """A row a run, with the columns of ``raidlab export``."""
        return self._made("runs")

    def timelines(self) -> Table:
        """A row for each interval of each run and direction."""
        return self._made("series")

    def histograms(self) -> Table:
        """A row for each bin of the latencies of each run and direction."""
        return self._made("histograms")

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table().__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> Any:
        """A ``pyarrow.Table`` with a row a run."""
        return self.table().to_arrow()

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame`` with a row a run."""
        return self.table().to_pandas()

    def to_polars(self) -> Any:
        """A ``polars.DataFrame`` with a row a run."""
        return self.table().to_polars()

    def to_dicts(self) -> list[dict[str, Any]]:
        """A dictionary a run, with the names of ``--json``."""
        return [run.to_dict() for run in self._runs]

    def to_html(self) -> str:
        """The report: one page that loads nothing."""
        return _raidlab.page([run._run for run in self._runs], self.title)

    def save_html(self, path: Union[str, Path], *, overwrite: bool = False) -> None:
        """Writes the report to a file. One that is there is refused, unless ``overwrite`` says otherwise."""
        written(self.to_html(), path, overwrite)

    @property
    def warnings(self) -> list[str]:
        """Those of all runs, each once."""
        return list(dict.fromkeys(warning for run in self._runs for warning in run.warnings))

    def explain(self, width: int = 100) -> str:
        """The tables of the command line, and what is to be known before figures are trusted."""
        columns = whole("width", width, 1, 65535, "columns of text are")
        return _raidlab.explanation([run._run for run in self._runs], columns)

    def __repr__(self) -> str:
        if not self._runs:
            return "0 runs"
        more = f"\n{len(self) - ROWS_PRINTED} more runs\n" if len(self) > ROWS_PRINTED else ""
        return f"{len(self)} runs\n{self[:ROWS_PRINTED].explain(PRINTED_CHARS)}{more}"

    def _repr_html_(self) -> str:
        return framed(self.to_html()) if self._runs else "<p>0 runs</p>"


class Store:
    """A results file, as ``--db`` of the program writes it."""

    def __init__(self, path: Union[str, Path]) -> None:
        self.path = Path(checked_path("path", path))
        with files("path", str(path), "read"):
            is_there = self.path.is_file()
        if not is_there:
            raise refused("path", str(path), "there is no such results file: name another; plan(..., db=...) writes one")

    def runs(self, *selectors: Union[int, str]) -> Runs:
        """The runs that ``selectors`` name (``"1..9"``, ``"study:2"``, ``"tag:mine"``), or all, the earliest first."""
        texts = [selector("selectors", it) for it in selectors]
        try:
            rows = _raidlab.stored_runs(self.path, texts)
        except RaidlabError as error:
            is_file = str(error).startswith(str(self.path)) or not selectors
            name, value = ("path", str(self.path)) if is_file else ("selectors", selectors[0] if len(selectors) == 1 else selectors)
            raise refused(name, value, in_python(str(error))) from None
        return Runs((Run(row[5], row[:5]) for row in rows), self.path.name)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"


def framed(page: str, height: int = 600) -> str:
    """A whole page within that of a notebook."""
    return f'<iframe srcdoc="{html.escape(page)}" style="width:100%;height:{height}px;border:1px solid #ccc"></iframe>'


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:,.6g}" if isinstance(value, float) else str(value)


def written(page: str, path: Any, overwrite: Any) -> None:
    """Writes a page to a file; one that is there stays, unless ``overwrite`` says otherwise."""
    name = checked_path("path", path)
    mode = "w" if flag("overwrite", overwrite) else "x"
    with files("path", name, "written"):
        try:
            file = open(name, mode, encoding="utf-8")
        except FileExistsError:
            raise refused("path", name, "there is a file of this name: name another, or say overwrite=True") from None
        with file:
            file.write(page)


def _html_table(columns: list[str], rows: list[list[Any]]) -> str:
    def cell(value: Any) -> str:
        return f"<td>{html.escape(_cell(value))}</td>"

    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(map(cell, row)) + "</tr>" for row in rows[:ROWS_SHOWN])
    more = f"<p>{len(rows) - ROWS_SHOWN} more rows</p>" if len(rows) > ROWS_SHOWN else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
