#!/usr/bin/env bash
# Several hosts by mpirun: network namespaces with names of their own are the hosts, Open MPI runs over a bridge between them.
#
#   hosts.sh RAIDLAB          built with --features mpi
#
# Every verb that several hosts do together gives one result with all ranks in it; a rank that fails, dies or stops ends the run
# with its name. Needs root; installs Open MPI if it is missing.
set -euo pipefail
# shellcheck source=tests/needs-root.sh
source "$(dirname "$0")/../needs-root.sh"
RAIDLAB=$(realpath "${1:?usage: hosts.sh RAIDLAB}")
command -v mpirun >/dev/null || bash "$(dirname "$0")/../install.sh" openmpi-bin
work=$(mktemp -d "${TMPDIR:-/tmp}/raidlab-hosts.XXXXXX")
# Direct I/O is not to be had everywhere, the build's folder has it.
files=$(mktemp -d "$(dirname "$RAIDLAB")/raidlab-hosts.XXXXXX")
names=(rh0 rh1 rh2)
space() { echo "rh-$$-${1#rh}"; }
run=''
clean_up() {
    [[ -z $run ]] || kill -KILL "$run" 2>/dev/null || true
    for name in "${names[@]}"; do
        for id in $(ip netns pids "$(space "$name")" 2>/dev/null); do kill -KILL "$id" 2>/dev/null || true; done
        ip netns del "$(space "$name")" 2>/dev/null || true
    done
    ip netns del "rh-$$-bridge" 2>/dev/null || true
    rm -rf "$work" "$files"
}
trap clean_up EXIT
fail() {
    echo "hosts: FAILED: $*" >&2
    tail -n 20 "$work/said" >&2 || true
    exit 1
}
ip netns add "rh-$$-bridge"
ip -n "rh-$$-bridge" link add br0 type bridge
ip -n "rh-$$-bridge" link set br0 up
for index in 0 1 2; do
    at=$(space "${names[index]}")
    ip netns add "$at"
    ip -n "$at" link add veth0 type veth peer name "p$index" netns "rh-$$-bridge"
    ip -n "rh-$$-bridge" link set "p$index" master br0 up
    ip -n "$at" addr add "10.79.0.$((index + 1))/16" dev veth0
    ip -n "$at" link set lo up
    ip -n "$at" link set veth0 up
    # Where the server of the rank before it listens.
    ip -n "$at" addr add "10.79.$(((index + 2) % 3)).9/32" dev lo
done
# What mpirun starts on a host, as ssh would: in its namespace, under its name.
cat >"$work/agent" <<AGENT
#!/usr/bin/env bash
while [[ \$1 == -* ]]; do shift; done
host=\$1
shift
exec ip netns exec "rh-$$-\${host#rh}" unshare --uts bash -c 'hostname "\$1"; shift; exec bash -c "\$*"' agent "\$host" "\$@"
AGENT
chmod +x "$work/agent"
# Ranks wait in their sleep: three hosts of this test share the processors of one.
mpi() {
    local count=$1 verb=$2
    local -a limit=(--rank-limit "${rank_limit:-20s}")
    shift 2
    [[ $verb != doctor ]] || limit=()
    timeout 120 ip netns exec "$(space rh0)" unshare --uts bash -c 'hostname rh0; exec "$@"' mpirun mpirun \
        --allow-run-as-root --host rh0:1,rh1:1,rh2:1 -n "$count" --mca plm_rsh_agent "$work/agent" \
        --mca mpi_yield_when_idle 1 --mca btl tcp,self --mca btl_tcp_if_include veth0 --mca oob_tcp_if_include veth0 \
        --mca plm_rsh_no_tree_spawn 1 --mca orte_keep_fqdn_hostnames 1 "$RAIDLAB" "$verb" "${limit[@]}" "$@"
}
check() {
    python3 - "$work" "$@" || fail "the figures are not as they should be"
}
begun=$SECONDS

# One load, three hosts: counts and histograms are those of all, clocks of one machine agree within what is known of them.
mpi 3 measure "$files/file-{rank}" --size 16MiB --workload database --iodepth 1,4 --run 1s --ramp 100ms \
    --db "$work/db" --json >"$work/measure.json" 2>"$work/said" || fail "measure ended with $?"
check <<'PYTHON'
import json, sys
runs = json.load(open(sys.argv[1] + "/measure.json"))["runs"]
assert len(runs) == 2, len(runs)
for run in runs:
    ranks = run["hosts"]["ranks"]
    assert [rank["host"] for rank in ranks] == ["rh0", "rh1", "rh2"], ranks
    assert all(rank["requests"] > 10 for rank in ranks), ranks
    assert run["total"]["requests"] == sum(rank["requests"] for rank in ranks), run["total"]["requests"]
    assert run["total"]["requests"] == sum(target["total"]["requests"] for target in run["targets"])
    assert sum(bin["requests"] for bin in run["total"]["lat_bins"]) == run["total"]["requests"]
    assert run["total"]["lat_ns_max"] == max(target["total"]["lat_ns_max"] for target in run["targets"])
    for rank in ranks:
        assert abs(rank["clock_offset_ns"]) <= rank["clock_error_ns"] + 1000, rank
        assert rank["done_ns"] >= 1_000_000_000, rank
    assert run["load"]["targets"] == 3, run["load"]
PYTHON
for rank in 0 1 2; do [[ -s $files/file-$rank ]] || fail "rank $rank has laid out nothing"; done
[[ $("$RAIDLAB" runs --db "$work/db" --json | grep -c 'on rh2') -ge 2 ]] || fail "the results file does not hold both runs"

# Readers of all hosts at once, each rank in a folder of its own.
mkdir "$files"/{0,1,2}
mpi 3 streams "$files/{rank}" --streams 1,3 --size 4MB --block 256KiB --reads-per-stream 3 --cold advise --db "$work/db" \
    --json >"$work/streams.json" 2>"$work/said" || fail "streams ended with $?"
check <<'PYTHON'
import json, sys
runs = json.load(open(sys.argv[1] + "/streams.json"))["runs"]
assert [len(run["streams"]["readers"]) for run in runs] == [3, 9], runs
for run in runs:
    ranks, streams = run["hosts"]["ranks"], run["streams"]
    assert [rank["host"] for rank in ranks] == ["rh0", "rh1", "rh2"], ranks
    assert streams["window_ns"] == max(rank["done_ns"] for rank in ranks), (streams["window_ns"], ranks)
    assert streams["delivered_bytes"] >= sum(reader["bytes"] for reader in streams["readers"]) > 0
    assert 0 < streams["overlap"] <= 1, streams
PYTHON
[[ -z $(find "$files"/{0,1,2} -type f) ]] || fail "streams left files behind"

mpi 2 bonnie "$files/{rank}" --size 2MB --db "$work/db" --json >"$work/bonnie.json" 2>"$work/said" || fail "bonnie ended with $?"
check <<'PYTHON'
import json, sys
run, = json.load(open(sys.argv[1] + "/bonnie.json"))["runs"]
phases = {phase["name"]: phase for phase in run["phases"]}
size = 2_000_000 // 16384 * 16384
assert phases["block-write"]["bytes"] == phases["block-read"]["bytes"] == 2 * size, phases
assert phases["seeks"]["calls"] == 8000, phases["seeks"]
assert len(run["hosts"]["ranks"]) == 2, run["hosts"]
PYTHON
[[ -z $(find "$files"/{0,1} -type f) ]] || fail "bonnie left files behind"

# Each rank sends to the host after its own.
servers=()
for index in 0 1 2; do
    ip netns exec "$(space "${names[index]}")" "$RAIDLAB" net serve --listen "10.79.$(((index + 2) % 3)).9:5209" --insecure \
        >"$work/listening$index" 2>/dev/null &
    servers+=($!)
done
for index in 0 1 2; do
    for _ in $(seq 100); do [[ -s $work/listening$index ]] && break || sleep 0.1; done
done
mpi 3 net '10.79.{rank}.9:5209' --send 64KiB --connections 1,2 --seconds 1 --ramp 100ms --db "$work/db" \
    --json >"$work/net.json" 2>"$work/said" || fail "net ended with $?"
check <<'PYTHON'
import json, sys
runs = json.load(open(sys.argv[1] + "/net.json"))["runs"]
assert [run["network"]["connections"] for run in runs] == [3, 6], runs
for run in runs:
    ranks = run["hosts"]["ranks"]
    assert len(ranks) == 3 and all(rank["bytes"] > 0 for rank in ranks), ranks
    assert run["network"]["far"]["received_bytes"] > 0 and run["network"]["far"]["host"].count(",") == 2, run["network"]["far"]
PYTHON
kill "${servers[@]}"
wait "${servers[@]}" || true

# Simulations are shared out: both ranks do some (of seconds of work: one may come up later than the other), and what is printed is to
# the letter what one process prints.
shared() {
    "$RAIDLAB" "$@" >"$work/alone" 2>"$work/said" || fail "$1 alone ended with $?"
    mpi 2 "$@" >"$work/together" 2>"$work/said" || fail "$1 on two hosts ended with $?"
    cmp "$work/alone" "$work/together" >&2 || fail "$1 on two hosts printed something else"
    grep -Eq '^shared out: [1-9][0-9]* by rank 0 on rh0, [1-9][0-9]* by rank 1 on rh1$' "$work/said" ||
        fail "$1 was not shared out"
}
shared plan --app md1200-oltp --usable 300GB --slots 8 --drives st3600057ss,pliant-lb150 --controllers perc-h800 \
    --enclosures md1200 --simulations 3 --top 1 --threads 1
shared reproduce md1200-2011 --table 8 --ramp 100ms --run 2s --threads 1
shared simulate --level 5 --members 6 --drive st3600057ss --controller perc-h800 --workload database,md1200-oltp \
    --iodepth 1..32 --ramp 100ms --run 20s --threads 1

# A rank that dies while simulations are under way.
mpi 2 reproduce md1200-2011 --table 8 --ramp 100s --run 100s --threads 1 >"$work/out" 2>"$work/said" &
run=$!
rank_at() {
    for id in $(ip netns pids "$(space "$1")"); do
        [[ $(readlink "/proc/$id/exe") != "$RAIDLAB" ]] || echo "$id"
    done
}
for _ in $(seq 100); do
    rank=$(rank_at rh1)
    [[ -n $rank ]] && grep -q 'configurations simulated' "$work/said" && break
    sleep 0.1
done
[[ -n $rank ]] || fail "rank 1 was not found"
kill -KILL "$rank"
code=0
wait "$run" || code=$?
run=''
[[ $code != 0 && $code != 124 ]] || fail "a rank that died among simulations ended the run with $code"
grep -q 'rank 1 .*on .*rh1' <(tr '\n' ' ' <"$work/said") || fail "the rank that died among simulations was not named"

# A rank that can't says why, and all end.
rm "$files/file-1"
code=0
mpi 3 measure "$files/file-{rank}" --workload streaming --run 200ms --db "$work/db" >"$work/out" 2>"$work/said" || code=$?
[[ $code == 1 ]] || fail "a rank without a file ended the run with $code"
grep -q 'rank 1 on host rh1: .*file-1' "$work/said" || fail "the rank that has no file was not named"
[[ $(grep -c '^error:' "$work/said") == 1 ]] || fail "it was not said once"

# A rank that dies, and one that hangs.
kill_a_rank() {
    local signal=$1 rank
    mpi 3 measure "$files/file-{rank}" --size 16MiB --workload streaming --run 60s --db "$work/db" >"$work/out" 2>"$work/said" &
    run=$!
    for _ in $(seq 100); do
        rank=$(rank_at rh2)
        [[ -n $rank ]] && grep -q 'run 1 of' "$work/said" && break
        sleep 0.1
    done
    [[ -n $rank ]] || fail "rank 2 was not found"
    kill "-$signal" "$rank"
    code=0
    wait "$run" || code=$?
    run=''
    [[ $code != 0 && $code != 124 ]] || fail "a rank that got SIG$signal ended the run with $code"
    grep -q 'rank 2 .*on .*rh2' <(tr '\n' ' ' <"$work/said") || fail "the rank that got SIG$signal was not named"
}
kill_a_rank KILL
rank_limit=8s
kill_a_rank STOP
rank_limit=
grep -q 'rank 2 on host rh2 gave no sign of life' "$work/said" || fail "a rank that hangs was not said to"

# A verb that is for one process says so.
code=0
mpi 2 doctor >"$work/out" 2>"$work/said" || code=$?
[[ $code == 2 ]] && grep -q "'doctor' is for one host" "$work/said" || fail "doctor on two hosts ended with $code"
echo "hosts: measure, streams, bonnie, net, shared plan, reproduce and simulate, failing, dying and hanging ranks were right, in $((SECONDS - begun)) s"
