#!/usr/bin/env bash
# Races `raidlab net` and iperf3 over a veth pair between two network namespaces, in one run: the same send sizes, one
# connection and four, in turns. Needs root; installs iperf3 if it is missing.
#
# RAIDLAB is the binary (target/release/raidlab), SECONDS_EACH the length of each run (3), MTU that of the pair (1500).
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
RAIDLAB=$(realpath "${RAIDLAB:-$here/target/release/raidlab}")
seconds=${SECONDS_EACH:-3}
command -v iperf3 >/dev/null || bash "$(dirname "$0")/../tests/install.sh" iperf3
a=rn-a-$$ b=rn-b-$$
work=$(mktemp -d)
served=()
clean_up() {
    for id in "${served[@]}"; do kill "$id" 2>/dev/null || true; done
    ip netns del "$a" 2>/dev/null || true
    ip netns del "$b" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
ip netns add "$a"
ip netns add "$b"
ip -n "$a" link add veth0 mtu "${MTU:-1500}" type veth peer name veth0 mtu "${MTU:-1500}" netns "$b"
ip -n "$a" addr add 10.77.0.1/24 dev veth0
ip -n "$b" addr add 10.77.0.2/24 dev veth0
for each in "$a" "$b"; do ip -n "$each" link set veth0 up && ip -n "$each" link set lo up; done
ip netns exec "$b" "$RAIDLAB" net serve --listen 10.77.0.2:5209 --insecure >"$work/listening" 2>/dev/null &
served+=($!)
ip netns exec "$b" iperf3 --server >/dev/null 2>&1 &
served+=($!)
for _ in $(seq 50); do [[ -s $work/listening ]] && break || sleep 0.1; done
echo "send bytes, connections: raidlab MB/s, near CPU %, far CPU % | iperf3 MB/s, near CPU %, far CPU %"
for connections in 1 4; do
    for send in ${SENDS:-100 1472 10240 131072 1048576}; do
        ip netns exec "$a" "$RAIDLAB" net 10.77.0.2:5209 --send "${send}B" --connections "$connections" \
            --seconds "$seconds" --db "$work/db" --json >"$work/ours.json" 2>/dev/null
        ip netns exec "$a" iperf3 --client 10.77.0.2 --length "$send" --parallel "$connections" \
            --time "$seconds" --omit 1 --json >"$work/theirs.json"
        python3 - "$work" "$send" "$connections" <<'PYTHON'
import json, sys
work, send, connections = sys.argv[1:]
run = json.load(open(f"{work}/ours.json"))["runs"][0]
cpu = [100 * side["machine"]["process_cpu_ns"] / side["machine"]["watched_ns"]
       for side in (run["network"]["near"], run["network"]["far"])]
theirs = json.load(open(f"{work}/theirs.json"))["end"]
pct = theirs["cpu_utilization_percent"]
print(f"{send:>8} {connections:>3}: {run['total']['bytes_per_sec'] / 1e6:8.1f} {cpu[0]:6.1f} {cpu[1]:6.1f} | "
      f"{theirs['sum_received']['bits_per_second'] / 8e6:8.1f} {pct['host_total']:6.1f} {pct['remote_total']:6.1f}")
PYTHON
    done
done
