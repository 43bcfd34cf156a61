#!/usr/bin/env bash
# Parity kernels beside ISA-L (Debian's libisal-dev) on one core: parity of 8+1 and 8+2, and recovery of every kind of
# loss in 8+2; strips of 16 KiB to 1 MiB, warm and cold.
#
# The two take turns; medians in GB of source data per second and the median of the ratios are printed. Both have
# memory of huge pages, as an array's arenas ask for; PAGES=small runs both without. Takes about six minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-5}
[ -e /usr/include/isa-l/raid.h ] || { apt-get update -qq && apt-get install -y -qq libisal-dev; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo build --release --locked -q -p raidlab-raid --example parity_rate
cc -O3 -march=native bench/isal_rate.c -o "$work/isal" -lisal
[ "${PAGES:-huge}" = small ] || export GLIBC_TUNABLES=glibc.malloc.hugetlb=1
for round in $(seq "$rounds"); do
    "$work/isal" >"$work/isal-$round"
    ./target/release/examples/parity_rate >"$work/raidlab-$round"
done
python3 - "$work" "$rounds" <<'PY'
import statistics, sys

work, rounds = sys.argv[1], int(sys.argv[2])
what = {
    "P": "8+1 P",
    "PQ": "8+2 P, Q",
    "D": "8+2 lost: data",
    "DP": "8+2 lost: data, P",
    "DD": "8+2 lost: data, data",
    "DQ": "8+2 lost: data, Q",
}
rows = {}
for round in range(1, rounds + 1):
    for name in ("isal", "raidlab"):
        for line in open(f"{work}/{name}-{round}"):
            *case, rate = line.split()
            rows.setdefault(tuple(case), {}).setdefault(name, []).append(float(rate))
print(f"{'case':20} {'strip':>8} {'cache':5} {'ISA-L':>8} {'raidlab':>8} {'ratio':>6}")
for (job, strip, cache), by_name in rows.items():
    ratio = statistics.median(o / i for o, i in zip(by_name["raidlab"], by_name["isal"]))
    isal, ours = (statistics.median(by_name[name]) for name in ("isal", "raidlab"))
    print(f"{what[job]:20} {int(strip) // 1024:>4} KiB {cache:5} {isal:8.1f} {ours:8.1f} {ratio:6.2f}")
PY
