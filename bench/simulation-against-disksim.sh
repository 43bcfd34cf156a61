#!/usr/bin/env bash
# Host requests simulated per second of processor time, beside DiskSim 4.0 on the same kind of work, in one run: RAID 5
# over nine drives, strips of 32 KiB, 8 KiB at random, two reads to a write, some five requests in flight (five of
# DiskSim's generators, each with its think times; a depth of five here).
#
# DiskSim is fetched (Western Digital's tree of 64 bits, the fastest of three that were tried) and built outside this
# repository, optimised and without its assertions. Its runs are short, for its queue keeps an entry of some writes for
# ever and takes longer for each request the longer it runs: a tenth of the rate after 30,000 requests.
# needs git, make, g++, bison, flex
# usage: [DISKSIM_SOURCE=URL|FOLDER] [DISKSIM_BUILD=FOLDER] simulation-against-disksim.sh [rounds]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
requests=5000 runs=10
source=${DISKSIM_SOURCE:-https://github.com/westerndigitalcorporation/DiskSim}
build=${DISKSIM_BUILD:-${XDG_CACHE_HOME:-$HOME/.cache}/raidlab-bench/disksim}
tree=$build/EXPERIMENTAL/Linux_64bit_LBA_20130807_Generic
binary=$tree/src/disksim64
if [ ! -e "$build/built" ]; then
    for tool in git make g++ bison flex; do
        command -v "$tool" >/dev/null || { echo "error: $tool is needed to build DiskSim" >&2; exit 1; }
    done
    rm -rf "$build"
    mkdir -p "$(dirname "$build")"
    git clone --quiet --no-checkout "$source" "$build"
    git -C "$build" checkout --quiet dc21ab0bd53af26ef1acd8b2b9f8dd842aaa338e -- \
        "${tree#"$build"/}"/{Makefile,.paths,libddbg,libparam,diskmodel,memsmodel,src,valid/synthraid5.parv,valid/statdefs} \
        "${tree#"$build"/}"/valid/hp_c3323a.{diskspecs,model,seek}
    rm "$binary" # one comes with the source
    sed -i -E 's/-g -DASSERTS/-O2/; s/^(C(XX)?FLAGS *= *)-g/\1-O2/' "$tree"/{libddbg,libparam,diskmodel,src}/Makefile
    make -C "$tree" >"$build/log" 2>&1 || { echo "error: DiskSim does not build, see $build/log" >&2; exit 1; }
    touch "$build/built"
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$tree"/valid/{statdefs,hp_c3323a.diskspecs,hp_c3323a.model,hp_c3323a.seek} "$work"
sed -e "s/Number of I\/O requests to generate *= *[0-9]*/Number of I\/O requests to generate = $requests/" \
    -e 's/Maximum time of trace generated *= *[0-9.]*/Maximum time of trace generated = 1000000.0/' \
    -e 's/Probability of sequential access *= *[0-9.]*/Probability of sequential access = 0.0/' \
    -e 's/Probability of local access *= *[0-9.]*/Probability of local access = 0.0/' \
    -e 's/Blocking factor *= *[0-9]*/Blocking factor = 16/' \
    -e 's/General inter-arrival times *= *\[[^]]*\]/General inter-arrival times = [ exponential, 0.0, 50.0 ]/' \
    -e 's/ Sizes *= *\[[^]]*\]/ Sizes = [ uniform, 15.0, 16.0 ]/' \
    "$tree/valid/synthraid5.parv" >"$work/raid5.parv"

cat >"$work/oltp.toml" <<'EOF'
schema = 1
name = "two-reads-to-a-write"
title = "8 KiB at random, two reads to a write"
source = "this bench"
metric = "iops"

[[line]]
size = "8KiB"
share_pct = 100
read_pct = 66
random_pct = 100
EOF

for _ in $(seq "$rounds"); do
    (cd "$work" && RUNS=$runs DISKSIM=$binary bash -c 'TIMEFORMAT=%U; time for _ in $(seq "$RUNS"); do
        "$DISKSIM" raid5.parv raid5.out ascii 0 1 >/dev/null 2>disksim.err || exit 1; done' 2>disksim.seconds)
    handled=$(awk '/^Overall I\/O System Total Requests handled/ { print $NF }' "$work/raid5.out")
    ./target/release/raidlab simulate --level 5 --members 9 --drive st3600057ss --controller perc-h800 --strip-size 32KiB \
        --workload "$work/oltp.toml" --iodepth 5 --ramp 1s --run 1500s --bottleneck off --json >"$work/ours.json"
    python3 - "$handled" "$runs" "$work/disksim.seconds" "$work/ours.json" <<'EOF'
import json, sys
theirs = int(sys.argv[1]) * int(sys.argv[2]) / float(open(sys.argv[3]).read())
run = json.load(open(sys.argv[4]))["runs"][0]
cost = run["cost"]
ours = ((cost["host_reads"] or 0) + (cost["host_writes"] or 0)) / (cost["wall_ns"] / 1e9)
print(f"raidlab {ours:,.0f} host requests/s, DiskSim {theirs:,.0f}: {ours / theirs:.1f} times")
EOF
done
