#!/usr/bin/env bash
# Parity kernels beside ISA-L (Debian's libisal-dev) on one core: parity of 8+1 and 8+2, and recovery of every kind of
# loss in 8+2; strips of 16 KiB to 1 MiB, warm and cold.
#
# The two take turns at each case; printed are the best of either in GB of source data per second (others on the
# machine slow a round down and never speed it up), and their ratio. Both have memory of huge pages, as an array's
# arenas ask for; PAGES=small runs both without. Takes about six minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-5}
[ -e /usr/include/isa-l/raid.h ] || bash tests/install.sh libisal-dev
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cargo build --release --locked -q -p raidlab-raid --example parity_rate
cc -O3 -march=native bench/isal_rate.c -o "$work/isal" -lisal
[ "${PAGES:-huge}" = small ] || export GLIBC_TUNABLES=glibc.malloc.hugetlb=1
python3 - "$work/isal" target/release/examples/parity_rate "$rounds" <<'PY'
import subprocess, sys

programs, rounds = sys.argv[1:3], int(sys.argv[3])
what = {
    "P": "8+1 P",
    "PQ": "8+2 P, Q",
    "D": "8+2 lost: data",
    "DP": "8+2 lost: data, P",
    "DD": "8+2 lost: data, data",
    "DQ": "8+2 lost: data, Q",
}
print(f"{'case':20} {'strip':>8} {'cache':5} {'ISA-L':>8} {'raidlab':>8} {'ratio':>6}")
for job in what:
    for cache in ("warm", "cold"):
        for kib in (16, 64, 256, 1024):
            def rate(program):
                return float(subprocess.check_output([program, job, str(kib * 1024), cache]))
            pairs = [[rate(program) for program in programs] for _ in range(rounds)]
            isal, ours = (max(column) for column in zip(*pairs))
            print(f"{what[job]:20} {kib:>4} KiB {cache:5} {isal:8.1f} {ours:8.1f} {ours / isal:6.2f}", flush=True)
PY
