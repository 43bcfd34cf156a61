#!/usr/bin/env bash
# Takes in what the real fio prints (json and json+), and compares every figure that can be compared with fio's own.
#
#   fio.sh RAIDLAB
#
# Installs fio if it is missing and this is root. A page of all runs is written, too.
set -euo pipefail
RAIDLAB=$(realpath "${1:?usage: fio.sh RAIDLAB}")
command -v fio >/dev/null || bash "$(dirname "$0")/../install.sh" fio
work=$(mktemp -d "${TMPDIR:-/tmp}/raidlab-fio.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work"
run_fio() { fio --filename="$work/data" --size=8M --bs=8k --ioengine=libaio --iodepth=4 --runtime=1 --time_based "$@" >/dev/null; }
run_fio --name=reads --rw=randread --output=reads.json --output-format=json
run_fio --name=mixed --rw=randrw --rwmixread=70 --numjobs=2 --group_reporting --output=mixed.json --output-format=json+ \
    --lat_percentiles=1 --clat_percentiles=0
run_fio --name=apart --rw=write --numjobs=2 --output=apart.json --output-format=json
"$RAIDLAB" import runs reads.json mixed.json apart.json --json >imported.json
for run in 1 2 3 4; do "$RAIDLAB" show "$run" --json >"run$run.json"; done
"$RAIDLAB" compare 1 2 >compared.txt
"$RAIDLAB" report 1..4 -o all.html >/dev/null
python3 - <<'PY'
import json

def same(what, ours, fios, share=1e-6):
    assert abs(ours - fios) <= share * max(abs(fios), 1e-9), f"{what}: {ours} for fio's {fios}"

def load(name):
    return json.load(open(name))

imported = load("imported.json")["files"]
assert [file["runs"] for file in imported] == [[1], [2], [3, 4]], imported
assert any("2 of these jobs shared a group" in note for note in imported[2]["notes"]), imported[2]
runs = {number: load(f"run{number}.json")["result"] for number in range(1, 5)}
jobs = [load("reads.json")["jobs"][0], load("mixed.json")["jobs"][0], *load("apart.json")["jobs"]]
for (number, run), job in zip(runs.items(), jobs):
    for op in ("read", "write"):
        ours, fios = run[op], job[op]
        same(f"{op} requests", ours["requests"], fios["total_ios"])
        same(f"{op} iops", ours["iops"], fios["iops"])
        same(f"{op} rate", ours["bytes_per_sec"], fios["bw_bytes"])
        if fios["total_ios"]:
            same(f"{op} mean", ours["lat_ns_mean"], fios["lat_ns"]["mean"])
            same(f"{op} longest", ours["lat_ns_max"], fios["lat_ns"]["max"])
            part = "lat_ns" if "percentile" in fios["lat_ns"] else "clat_ns"
            same(f"{op} p99", ours["lat_ns_p99"], fios[part]["percentile"]["99.000000"])
    same("requests", run["total"]["requests"], job["read"]["total_ios"] + job["write"]["total_ios"])
    assert run["settings"]["measured by"].startswith("fio-3"), run["settings"]
reads, mixed, apart = runs[1], runs[2], runs[3]
assert (reads["iodepth"], mixed["iodepth"], apart["iodepth"]) == (4, 8, 4)
assert "completion part" in reads["settings"]["lacks"] and "completion part" not in mixed["settings"]["lacks"]
# json+ has bins, so both together have percentiles, which lie between those of each; fio's bins are 1.6 % wide.
low, high = sorted((mixed["read"]["lat_ns_p50"], mixed["write"]["lat_ns_p50"]))
assert 0.98 * low <= mixed["total"]["lat_ns_p50"] <= 1.02 * high, mixed["total"]
assert "percentiles" not in mixed["settings"]["lacks"].split("; ")[-1] and mixed["total"]["lat_bins"]
assert "lat_ms_mean" in open("compared.txt").read()
assert "fio-3" in open("all.html").read()
print("fio: three files, four runs, all figures as fio has them")
PY
