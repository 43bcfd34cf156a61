#!/usr/bin/env bash
# The package `raidlab` of Python, with the module that the build of the tests has made. Usage: run.sh PATH/TO/raidlab
# pytest, mypy and frame libraries come from PyPI into the environment of tests/store, once.
set -euo pipefail

raidlab=$(realpath "$1")
root=$(realpath "$(dirname "$0")/../..")
venv=$(dirname "$raidlab")/../python-store
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

source "$root/tests/venv.sh"
python_venv "$venv" "duckdb, pandas, polars, pyarrow, pytest, mypy, jsonschema, fsspec, matplotlib, distributed" -r "$root/tests/store/requirements.txt" -r "$root/tests/python/requirements.txt"

cp -r "$root/packaging/python/raidlab" "$work/raidlab"
cp "$(dirname "$raidlab")/lib_raidlab.so" "$work/raidlab/_raidlab.abi3.so"
cd "$work"
cp "$root"/tests/python/test_*.py "$root/tests/python/mypy.ini" .
PYTHONPATH=$work RAIDLAB=$raidlab NOTEBOOKS=$root/docs/notebooks "$venv/bin/python" -m pytest -q -p no:cacheprovider --durations=5 -W ignore::raidlab.RaidlabWarning
