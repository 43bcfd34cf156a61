#!/usr/bin/env bash
# nbdinfo: what the server says of its export is whole and fits together.
#
# Verified: size (EXPECT_SIZE bytes, if set), the abilities that raidlab promises, block sizes, the list of exports,
# and that the map of extents covers the export without gap or overlap. Left out: whether the abilities are kept.
# shellcheck source=tests/clients/common.sh
source "$(dirname "$0")/common.sh"
quietly nbdinfo --json "$uri"
cp "$work/said" "$work/info"
quietly nbdinfo --list --json "$uri"
cp "$work/said" "$work/list"
quietly nbdinfo --map --json "$uri"
cp "$work/said" "$work/map"
[[ $(nbdinfo --is read-only "$uri" && echo yes) != yes ]] || fail "the export is read-only"
for ability in flush fua trim zero multi-conn structured-reply; do
    nbdinfo --can "$ability" "$uri" || fail "the export can't $ability"
done
"$python" - "$work" "${EXPECT_SIZE:-}" <<'PY' || fail "see above"
import json, sys

work, expected = sys.argv[1], sys.argv[2]
info = json.load(open(f"{work}/info"))["exports"][0]
size = info["export-size"]
assert size > 0, "the export is empty"
assert not expected or size == int(expected), f"size {size}, not {expected}"
names = [entry["export-name"] for entry in json.load(open(f"{work}/list"))["exports"]]
assert info["export-name"] in names, f"the list {names} lacks {info['export-name']!r}"
least, liked, most = (info.get(f"block_size_{k}", info.get(f"block-size-{k}")) for k in ("minimum", "preferred", "maximum"))
assert least, "no block sizes are told"
for name, value in (("minimum", least), ("preferred", liked)):
    assert value & (value - 1) == 0, f"the {name} block size {value} is no power of two"
assert least <= liked <= most, f"block sizes {least}, {liked}, {most} are out of order"
assert size % least == 0, f"size {size} is no multiple of the least block {least}"
assert "base:allocation" in info["contexts"], f"no base:allocation in {info['contexts']}"
end = 0
for extent in json.load(open(f"{work}/map")):
    assert extent["offset"] == end, f"an extent at {extent['offset']}, the one before ends at {end}"
    assert extent["length"] > 0, f"an empty extent at {end}"
    end += extent["length"]
assert end == size, f"the map ends at {end} of {size}"
PY
