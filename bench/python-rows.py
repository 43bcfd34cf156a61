"""A million rows of a sweep, read by DuckDB and Polars: `python bench/python-rows.py` where the wheel, duckdb, polars and fsspec are installed.

The rows are those of a few simulations, again and again: what is measured is files, not drives.
"""

import json
import pathlib
import sys
import tempfile
import time

import duckdb
import polars

import raidlab
from raidlab import sweeps

ROWS, CHUNK = 1_000_000, 5_000


def main():
    levels = ["0", "10", "5", "6"]
    arrays = [raidlab.Array(level=level, members=8, drive="st3600057ss", controller="perc-h800", region="10GB") for level in levels]
    few = raidlab.sweep(arrays, "database", [1, 4, 16, 64], ramp="100ms", run="1s", progress=False)
    chunk = [few[place % len(few)] for place in range(CHUNK)]
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        taken = sweeps._Taken(ROWS, folder)
        started = time.perf_counter()
        for first in range(0, ROWS, CHUNK):
            taken.take(first, sweeps._file_of(first, chunk), sweeps._doubts(first, chunk))
        found["written_seconds"] = round(time.perf_counter() - started, 1)
        found["bytes"] = sum(path.stat().st_size for path in pathlib.Path(folder).iterdir())
        started = time.perf_counter()
        query = f"SELECT level, iodepth, count(*), avg(total_iops) FROM '{folder}/*.parquet' GROUP BY ALL ORDER BY ALL"
        of_duckdb = duckdb.sql(query).fetchall()
        found["duckdb_seconds"] = round(time.perf_counter() - started, 2)
        started = time.perf_counter()
        lazy = polars.scan_parquet(f"{folder}/*.parquet").group_by("level", "iodepth")
        of_polars = lazy.agg(polars.len(), polars.col("total_iops").mean()).sort("level", "iodepth").collect().rows()
        found["polars_seconds"] = round(time.perf_counter() - started, 2)
    assert sum(row[2] for row in of_duckdb) == sum(row[2] for row in of_polars) == ROWS
    assert [row[:3] for row in of_duckdb] == [row[:3] for row in of_polars]
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
