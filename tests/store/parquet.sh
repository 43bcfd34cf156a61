#!/usr/bin/env bash
# DuckDB, pandas and Polars read what `raidlab export parquet` writes, and find the figures that `raidlab show` prints.
# Their releases come from PyPI into a folder of their own below target/, once. Usage: parquet.sh PATH/TO/raidlab
set -euo pipefail

raidlab=$(realpath "$1")
here=$(dirname "$(realpath "$0")")
venv=$(dirname "$raidlab")/../python-store
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

source "$here/../venv.sh"
python_venv "$venv" "duckdb, pandas, polars, pyarrow" -r "$here/requirements.txt"

cd "$work"
"$raidlab" simulate --level 5 --members 3 --drive st3600057ss --controller perc-h800 --region 1GB --ramp 100ms \
    --run 3s --workload database,streaming --iodepth 1,8 --db runs.sqlite --json > /dev/null
"$raidlab" measure file --size 4MiB --workload database --ramp 10ms --run 1s --buffered --db runs.sqlite --json > /dev/null
# A seed that needs all 64 bits must arrive as it is.
"$raidlab" simulate --level 0 --members 2 --drive st3600057ss --controller perc-h800 --region 1GB --ramp 10ms \
    --run 100ms --workload database --seed 18446744073709551615 --db runs.sqlite --json > /dev/null
"$raidlab" tag "a, \"b\"" 2 --db runs.sqlite
for table in runs series histograms; do
    "$raidlab" export parquet study:1 study:2 study:3 --table "$table" --db runs.sqlite -o "$table.parquet"
    "$raidlab" export csv study:1 study:2 study:3 --table "$table" --db runs.sqlite -o "$table.csv"
done
"$raidlab" export json study:1 study:2 study:3 --db runs.sqlite -o runs.json
"$venv/bin/python" "$here/parquet.py"
