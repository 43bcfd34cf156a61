#!/usr/bin/env bash
# `raidlab measure` beside fio on the same tmpfs file with O_DIRECT: 4 KiB random reads, depth 32.
#
# The two take turns, so that what else the machine does hits both; medians and their ratio are printed. CPU is the
# processor time of the submitting thread (fio: usr_cpu + sys_cpu) per request. Takes about a minute.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-5}
seconds=${SECONDS_EACH:-3}
file=${FILE:-/dev/shm/raidlab-bench}
size=512M
command -v fio >/dev/null || { apt-get update -qq && apt-get install -y -qq fio; }
work=$(mktemp -d)
trap 'rm -rf "$work" "$file"' EXIT

# Both read the very same file: raidlab lays it out, fio opens it.
./target/release/raidlab measure "$file" --size ${size}iB --workload fastt600-random-read --run 200ms --ramp 0ms --json >/dev/null
for round in $(seq "$rounds"); do
    fio --name=r --filename="$file" --size=$size --direct=1 --rw=randread --bs=4k --iodepth=32 --ioengine=io_uring \
        --registerfiles --fixedbufs --norandommap --ramp_time=0.3 --runtime="$seconds" --time_based \
        --output-format=json >"$work/fio-$round.json" 2>/dev/null
    ./target/release/raidlab measure "$file" --workload fastt600-random-read --iodepth 32 --ramp 300ms \
        --run "${seconds}s" --json >"$work/raidlab-$round.json"
done
python3 - "$work" "$rounds" <<'PY'
import json, statistics, sys

work, rounds = sys.argv[1], int(sys.argv[2])
fio, ours = [], []
for round in range(1, rounds + 1):
    job = json.load(open(f"{work}/fio-{round}.json"))["jobs"][0]
    iops = job["read"]["iops"]
    fio.append((iops, (job["usr_cpu"] + job["sys_cpu"]) / 100 / iops * 1e6))
    run = json.load(open(f"{work}/raidlab-{round}.json"))["runs"][0]
    ours.append((run["total"]["iops"], run["cost"]["cpu_ns_per_io"] / 1e3))
for name, rows in (("fio", fio), ("raidlab", ours)):
    print(f"{name:8} {statistics.median(r[0] for r in rows):10.0f} IOPS {statistics.median(r[1] for r in rows):6.2f} us CPU/IO")
print(f"ratio    {statistics.median(o[0] / f[0] for o, f in zip(ours, fio)):10.2f}      {statistics.median(o[1] / f[1] for o, f in zip(ours, fio)):6.2f}")
PY
