#!/usr/bin/env bash
# Makes an archive of a static program: no library of the system is needed where it runs.
#
#   archive.sh PROFILE DIR      the profile of the build, and where the archive goes
#
# It links the C library in (libc.a of libc6-dev). Host names are looked up by the system's own library where that is of the same
# version; addresses always work. In it: the program, README, CHANGELOG, LICENSE, studies and workloads.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
profile=$1
mkdir -p "$2"
out=$(realpath "$2")
cd "$root"
target=$(rustc -vV | sed -n 's/^host: //p')
# A folder of its own: flags for the target would make every other build anew.
RUSTFLAGS="-C target-feature=+crt-static" "${CARGO:-cargo}" build --profile "$profile" --locked -p raidlab-cli --target "$target" \
    --target-dir target/static
raidlab=target/static/$target/$profile/raidlab
version=$("$raidlab" --version | cut -d' ' -f2)
if ldd "$raidlab" 2>&1 | grep '=>' >/dev/null; then
    echo "error: $raidlab needs libraries of the system" >&2
    exit 1
fi
name=raidlab-$version-${target%%-*}
work=$(mktemp -d "${TMPDIR:-/tmp}/raidlab-archive.XXXXXX")
trap 'rm -rf "$work"' EXIT
install -D -m 755 "$raidlab" "$work/$name/raidlab"
strip --strip-unneeded "$work/$name/raidlab"
install -m 644 README.md CHANGELOG.md LICENSE "$work/$name/"
cp -r studies workloads "$work/$name/"
tar -C "$work" --owner=0 --group=0 --sort=name -czf "$out/$name.tar.gz" "$name"
echo "$out/$name.tar.gz"
