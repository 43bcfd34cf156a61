#!/usr/bin/env bash
# Runs the notebooks of docs/notebooks and leaves them as pages in target/notebooks. Usage: notebooks.sh PATH/TO/raidlab [NAME...]
set -euo pipefail

raidlab=$(realpath "$1")
root=$(dirname "$(realpath "$0")")/../..
venv=$(dirname "$raidlab")/../python-notebooks
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

source "$root/tests/venv.sh"
python_venv "$venv" "duckdb, pandas, pyarrow, matplotlib, nbconvert, ipykernel, distributed" -r "$root/tests/store/requirements.txt" matplotlib nbconvert ipykernel distributed

cp -r "$root/packaging/python/raidlab" "$work/raidlab"
cp "$(dirname "$raidlab")/lib_raidlab.so" "$work/raidlab/_raidlab.abi3.so"
cp "$root"/docs/notebooks/*.ipynb "$work"
cd "$work"
# Minutes of warming up are left out, unless FULL=1 says otherwise: the page then shows caches that fill.
[[ -n ${FULL:-} ]] || sed -i 's/table=\\"1\\")/table=\\"1\\", ramp=\\"1s\\", run=\\"2s\\")/' reproduce.ipynb
for notebook in *.ipynb; do
    [[ $# == 0 || " $* " == *" ${notebook%.ipynb} "* ]] || continue
    PYTHONPATH=$work RAIDLAB=$raidlab "$venv/bin/jupyter" nbconvert --log-level ERROR --to html --execute "$notebook" \
        --output-dir "$(dirname "$raidlab")/../notebooks"
    echo "$notebook runs"
done
