#!/usr/bin/env bash
# Sweeps and plans of the package on local clusters of Dask and Ray (docs/python.md). Usage: executors.sh PATH/TO/raidlab
set -euo pipefail

raidlab=$(realpath "$1")
root=$(dirname "$(realpath "$0")")/../..
venv=$(dirname "$raidlab")/../python-executors
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

source "$root/tests/venv.sh"
python_venv "$venv" "distributed, ray" distributed ray

cp -r "$root/packaging/python/raidlab" "$work/raidlab"
cp "$(dirname "$raidlab")/lib_raidlab.so" "$work/raidlab/_raidlab.abi3.so"
cp "$root/tests/python/executors.py" "$work"
cd "$work"
PYTHONPATH=$work RAIDLAB=$raidlab "$venv/bin/python" executors.py
