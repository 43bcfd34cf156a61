"""Reads the Parquet files of the current folder with DuckDB, pandas and Polars, and compares them with runs.json."""

import json

import duckdb
import pandas
import polars

RUNS = sorted(json.load(open("runs.json"))["runs"], key=lambda run: run["id"])
TABLES = ("runs", "series", "histograms")


def expected_runs():
    """Some columns of every kind, row by row, as the archive has them."""
    for run in RUNS:
        result = run["result"]
        array = result["array"] or {}
        yield {
            "run": run["id"],
            "started_at": run["started_at"],
            "tags_json": json.dumps(run["tags"], separators=(",", ":")),
            "target": result["target"],
            "level": array.get("level"),
            "members": array.get("members"),
            "iodepth": result["iodepth"],
            "seed": result["seed"],
            "total_requests": result["total"]["requests"],
            "total_iops": result["total"]["iops"],
            "total_lat_ns_mean": result["total"]["lat_ns_mean"],
            "read_lat_ns_p99": result["read"]["lat_ns_p99"],
            "cpu_ns_per_io": result["cost"]["cpu_ns_per_io"],
            "member_reads": result["cost"]["member_reads"],
        }


def check_runs(name, rows):
    expected = list(expected_runs())
    assert len(rows) == len(expected), f"{name}: {len(rows)} rows"
    for row, want in zip(rows, expected):
        for column, value in want.items():
            assert row[column] == value, f"{name}: {column} is {row[column]!r}, not {value!r}"


def plain(value):
    """pandas has no None in columns of numbers."""
    return None if value is pandas.NA or value != value else value


def main():
    by_duckdb = duckdb.sql("SELECT * FROM 'runs.parquet' ORDER BY run")
    check_runs("DuckDB", [dict(zip(by_duckdb.columns, row)) for row in by_duckdb.fetchall()])
    by_pandas = pandas.read_parquet("runs.parquet", dtype_backend="numpy_nullable").sort_values("run")
    check_runs("pandas", [{k: plain(v) for k, v in row.items()} for row in by_pandas.to_dict("records")])
    by_polars = polars.read_parquet("runs.parquet").sort("run")
    check_runs("Polars", by_polars.to_dicts())
    assert by_polars["seed"].max() == 2**64 - 1

    for table in TABLES:
        rows = duckdb.sql(f"SELECT count(*) FROM '{table}.parquet'").fetchall()[0][0]
        assert rows > 0, table
        assert rows == len(pandas.read_parquet(f"{table}.parquet")) == polars.read_parquet(f"{table}.parquet").height
        # The same table as CSV, read by another tool, has the same rows and columns.
        csv = pandas.read_csv(f"{table}.csv")
        assert list(csv.columns) == polars.read_parquet(f"{table}.parquet").columns, table
        assert len(csv) == rows, table

    # What the tables are for: the requests of the intervals and of the bins are those of the runs.
    sums = duckdb.sql(
        """SELECT runs.run, total_requests, by_interval, by_bin FROM 'runs.parquet' AS runs
           JOIN (SELECT run, sum(requests) AS by_interval FROM 'series.parquet' WHERE op = 'total' GROUP BY run) USING (run)
           JOIN (SELECT run, sum(requests) AS by_bin FROM 'histograms.parquet' WHERE op = 'total' GROUP BY run) USING (run)"""
    ).fetchall()
    assert len(sums) == len(RUNS), sums
    for run, requests, by_interval, by_bin in sums:
        assert requests == by_interval == by_bin, (run, requests, by_interval, by_bin)
    print(
        f"{len(RUNS)} runs read by DuckDB {duckdb.__version__}, pandas {pandas.__version__} and Polars {polars.__version__}"
    )


main()
