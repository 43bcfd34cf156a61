#!/usr/bin/env bash
# The model of flash beside MQSim (github.com/CMU-SAFARI/MQSim), in one run: its own workload.xml (two writers, two readers, the
# trace tpcc-small) and its other trace (wsrch-small) on its own ssdconfig.xml, and the same here on bench/mqsim/drive.toml, which
# has the same figures as far as the model has the parts. Requests a second, mean response, and processor time of each.
#
# MQSim is fetched and built below target/, with its own flags (-O3). Its mapping table is cached in part by default, which this
# model does not have, so it runs twice: as it comes, and with the whole table in memory (Ideal_Mapping_Table), which is compared.
# needs git, make, g++, python3
# usage: [MQSIM_SOURCE=URL|FOLDER] [RAIDLAB=BINARY] flash-against-mqsim.sh [rounds]
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-1}
source=${MQSIM_SOURCE:-https://github.com/CMU-SAFARI/MQSim}
raidlab=$(realpath "${RAIDLAB:-target/release/raidlab}")
build=$PWD/target/mqsim/src
if [ ! -x "$build/MQSim" ]; then
    for tool in git make g++; do
        command -v "$tool" >/dev/null || { echo "error: $tool is needed to build MQSim" >&2; exit 1; }
    done
    rm -rf "$build"
    mkdir -p "$(dirname "$build")"
    git clone --quiet "$source" "$build"
    make -C "$build" >"$build.log" 2>&1 || { echo "error: MQSim does not build, see $build.log" >&2; exit 1; }
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp bench/mqsim/*.toml "$work"
python3 bench/mqsim/race.py "$build" "$raidlab" "$work" "$rounds"
