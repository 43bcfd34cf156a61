#!/usr/bin/env bash
# A wheel of the program and of the package, for Python 3.9 and later. Usage: wheel.sh PROFILE TARGET
# Maturin builds the module; the program goes in as a script beside it.
set -euo pipefail

profile=$1
target=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
root=$here/../..
cargo=${CARGO:-cargo}

"$cargo" build --locked --profile "$profile" -p raidlab-cli --manifest-path "$root/Cargo.toml"
built=$target/$profile
[[ $profile != dev ]] || built=$target/debug
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/raidlab.data/scripts"
cp -r "$here/raidlab" "$here/README.md" "$work"
find "$work/raidlab" -name '*.so' -delete
find "$work/raidlab" -name __pycache__ -prune -exec rm -r {} +
strip -o "$work/raidlab.data/scripts/raidlab" "$built/raidlab"
sed "s|@ROOT@|$root|; s|@PROFILE@|$profile|" "$here/pyproject.toml" >"$work/pyproject.toml"

python3 -m venv "$target/wheel"
"$target/wheel/bin/pip" --quiet --disable-pip-version-check install 'maturin>=1.8,<2'
rm -f "$target"/raidlab-*.whl
(cd "$work" && CARGO_TARGET_DIR=$target "$target/wheel/bin/maturin" build --quiet --out "$target")
