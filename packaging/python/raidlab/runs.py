"""What runs came to: objects, tables, and their looks in notebooks."""

from __future__ import annotations

import html
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Optional, Union, overload

from . import _raidlab
from ._raidlab import RaidlabError
from .arguments import of_type, whole
from .arguments import path as checked_path

ROWS_SHOWN = 200
"""Rows of a table that a notebook shows."""


class Records(Sequence[dict[str, Any]]):
    """A list of dictionaries that a notebook shows as a table; ``pandas.DataFrame(records)`` makes a frame of it."""

    def __init__(self, rows: list[dict[str, Any]], columns: list[str]) -> None:
        self._rows, self._columns = rows, columns

    @overload
    def __getitem__(self, index: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, index: slice) -> Records: ...
    def __getitem__(self, index: Union[int, slice]) -> Union[dict[str, Any], Records]:
        return Records(self._rows[index], self._columns) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        lines = [" ".join(str(row.get(name, "")) for name in self._columns) for row in self._rows[:ROWS_SHOWN]]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return _html_table(self._columns, [[row.get(name) for name in self._columns] for row in self._rows])


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
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> Any:
        """A ``pandas.DataFrame``."""
        import pandas

        return pandas.DataFrame(dict(zip(self.columns, zip(*self._table.rows()))), columns=self.columns)

    def to_polars(self) -> Any:
        """A ``polars.DataFrame``."""
        import polars

        return polars.DataFrame(self)

    def to_parquet(self, content: str = "runs") -> bytes:
        """The bytes of a Parquet file, as ``raidlab export parquet`` writes it."""
        return self._table.parquet(content)

    def _repr_html_(self) -> str:
        rows = self._table.rows()
        says = [index for index in range(len(self.columns)) if any(row[index] is not None for row in rows)]
        shown = [index for index in says if not self.columns[index].endswith("_json")]
        return _html_table([self.columns[index] for index in shown], [[row[index] for index in shown] for row in rows])


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
        if isinstance(pct, bool) or not isinstance(pct, (int, float)) or not 0 < pct <= 100:
            raise RaidlabError(f"pct={pct!r}: a percentile is above 0 and at most 100")
        kept = {50: "p50", 90: "p90", 99: "p99", 99.9: "p999", 99.99: "p9999", 99.999: "p99999"}.get(pct)
        if kept is not None:
            return int(self._summary[f"lat_ns_{kept}"])
        bins = self.bins
        wanted, seen = pct / 100 * sum(count for _, count in bins), 0
        for up_to_ns, count in bins:
            seen += count
            if seen >= wanted:
                return min(up_to_ns, self.max_ns)
        return self.max_ns

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
        """What is to be known before its figures are trusted."""
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
        self._runs, self.title = list(runs), title
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
        return Runs([*self, *other], self.title)

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

    def save_html(self, path: Union[str, Path]) -> None:
        """Writes the report to a file."""
        Path(checked_path("path", path)).write_text(self.to_html(), encoding="utf-8")

    def explain(self, width: int = 100) -> str:
        """The tables of the command line."""
        columns = whole("width", width, 1, 65535, "columns of text are")
        return _raidlab.explanation([run._run for run in self._runs], columns)

    def __repr__(self) -> str:
        return f"{len(self)} runs\n{self[:20].explain()}" if self._runs else "0 runs"

    def _repr_html_(self) -> str:
        return framed(self.to_html()) if self._runs else "<p>0 runs</p>"


class Store:
    """A results file, as ``--db`` of the program writes it."""

    def __init__(self, path: Union[str, Path]) -> None:
        self.path = Path(checked_path("path", path))

    def runs(self, *selectors: Union[int, str]) -> Runs:
        """The runs that ``selectors`` name (``"1..9"``, ``"study:2"``, ``"tag:mine"``), or all, the earliest first."""
        rows = _raidlab.stored_runs(self.path, [str(it) for it in selectors])
        return Runs((Run(row[5], row[:5]) for row in rows), self.path.name)

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"


def framed(page: str, height: int = 600) -> str:
    """A whole page within that of a notebook."""
    return f'<iframe srcdoc="{html.escape(page)}" style="width:100%;height:{height}px;border:1px solid #ccc"></iframe>'


def _html_table(columns: list[str], rows: list[list[Any]]) -> str:
    def cell(value: Any) -> str:
        text = "" if value is None else f"{value:,.6g}" if isinstance(value, float) else str(value)
        return f"<td>{html.escape(text)}</td>"

    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join("<tr>" + "".join(map(cell, row)) + "</tr>" for row in rows[:ROWS_SHOWN])
    more = f"<p>{len(rows) - ROWS_SHOWN} more rows</p>" if len(rows) > ROWS_SHOWN else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
