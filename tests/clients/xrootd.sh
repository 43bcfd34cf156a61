#!/usr/bin/env bash
# `raidlab measure` and `raidlab streams` on files of a real XRootD server over loopback, by XRootD's own client.
#
#   xrootd.sh RAIDLAB
#
# Lays files out over root://, reads them at transfers of 8 KiB to 1 MiB and with parallel streams, writes and verifies, writes
# over nothing that it did not lay out, is told of a missing file and of a refusal, and kills the server under both loads. The
# server's own folder is looked at for what arrived. Needs root, since the server will not run as root and is given another user;
# installs server and client if they are missing.
set -euo pipefail
# shellcheck source=tests/needs-root.sh
source "$(dirname "$0")/../needs-root.sh"
RAIDLAB=$(realpath "${1:?usage: xrootd.sh RAIDLAB}")
missing=()
command -v xrootd >/dev/null || missing+=(xrootd-server)
command -v xrdfs >/dev/null || missing+=(xrootd-client)
grep -q 'libXrdPosixPreload\.so' <<<"$(ldconfig -p)" ||
    missing+=("$(apt-cache pkgnames libxrdposix | grep -xE 'libxrdposix[0-9]+(t64)?' | sort | tail -1)")
((${#missing[@]} == 0)) || bash "$(dirname "$0")/../install.sh" "${missing[@]}"
work=$(mktemp -d "${TMPDIR:-/tmp}/raidlab-xrootd.XXXXXX")
server=''
clean_up() {
    [[ -z $server ]] || kill -KILL "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
fail() {
    echo "xrootd: FAILED: $*" >&2
    tail -n 5 "$work/server.out" >&2 || true
    exit 1
}
port=${XROOTD_PORT:-20094}
mkdir -p "$work/root/data" "$work/root/fixed" "$work/admin"
head -c 1M /dev/urandom >"$work/root/fixed/file"
cat >"$work/xrootd.cfg" <<CONF
xrd.port $port
all.export /data
all.export /fixed notwritable
oss.localroot $work/root
all.adminpath $work/admin
all.pidpath $work/admin
CONF
chmod 755 "$work"
chown -R nobody "$work/root" "$work/admin"
start_server() {
    setpriv --reuid=nobody --regid=nogroup --clear-groups xrootd -c "$work/xrootd.cfg" >"$work/server.out" 2>&1 &
    server=$!
    local tries=0
    until timeout 10 xrdfs "127.0.0.1:$port" ls /data >/dev/null 2>&1; do
        kill -0 "$server" 2>/dev/null || fail "the server ended at its start"
        ((++tries < 50)) || fail "the server does not answer"
        sleep 0.2
    done
}
kill_server() {
    kill -KILL "$server"
    { wait "$server" || true; } 2>/dev/null
    server=''
}
root="root://127.0.0.1:$port/"
uri="$root/data/file"
raidlab() {
    local verb=$1
    shift
    timeout 120 "$RAIDLAB" "$verb" "$@" --db "$work/db"
}
figure() { python3 -c 'import json,sys; print(eval(sys.argv[1])(json.load(sys.stdin)["runs"]))' "$1"; }

start_server
raidlab measure "$uri" --size 32MiB --workload streaming --block-size 8KiB,64KiB,256KiB,1MiB --iodepth 4 \
    --run 500ms --ramp 100ms --json >"$work/reads.json" || fail "reading"
[[ $(stat -c %s "$work/root/data/file") == $((32 * 1024 * 1024 + 4096)) ]] || fail "the file was not laid out whole"
[[ $(figure 'lambda runs: len([r for r in runs if r["read"]["requests"] > 20 and r["total"]["errors"] == 0])' <"$work/reads.json") == 4 ]] ||
    fail "a read size gave no figures: $(figure 'lambda runs: [r["read"] for r in runs]' <"$work/reads.json")"
grep -q '"engine": "xrootd' "$work/reads.json" || fail "another engine was used"
# What is written is stamped and judged as it is read back, by two workers that share the file.
before=$(b2sum <"$work/root/data/file")
raidlab measure "$uri" --workload database --iodepth 8 --workers 2 --verify --run 2s --ramp 100ms >"$work/said" 2>&1 ||
    fail "verified writes: $(cat "$work/said")"
[[ $(b2sum <"$work/root/data/file") != "$before" ]] || fail "nothing was written"
# What is changed behind raidlab's back while it verifies is found.
raidlab measure "$uri" --workload database --iodepth 4 --verify --run 6s --ramp 100ms >"$work/said" 2>&1 &
run=$!
for _ in $(seq 8); do
    sleep 0.5
    head -c 32M /dev/zero | dd of="$work/root/data/file" conv=notrunc bs=1M status=none
done
code=0
wait "$run" || code=$?
[[ $code == 1 ]] || fail "files that were zeroed under the load went unseen ($code)"
grep -q 'were not written so' "$work/said" || fail "no fault was told: $(cat "$work/said")"
# What raidlab did not lay out is not written over, unless it is named.
head -c 1M /dev/urandom >"$work/root/data/precious"
chown nobody "$work/root/data/precious"
kept=$(b2sum <"$work/root/data/precious")
raidlab measure "$root/data/precious" --workload restore --run 100ms --ramp 0s >"$work/said" 2>&1 &&
    fail "a file with data was written over"
grep -q -- '--destroy-data\|holds' "$work/said" || fail "no reason was given: $(cat "$work/said")"
[[ $(b2sum <"$work/root/data/precious") == "$kept" ]] || fail "a file with data was changed"
raidlab measure "$root/data/precious" --workload restore --destroy-data "$root/data/precious" --run 100ms --ramp 0s \
    >/dev/null 2>&1 || fail "a file that was named was not written"
[[ $(b2sum <"$work/root/data/precious") != "$kept" ]] || fail "a file that was named was not changed"
# Errors of the server come out in words.
raidlab measure "$root/data/none" --workload streaming --run 100ms >"$work/said" 2>&1 && fail "a file was measured that is not there"
grep -qi 'no such file' "$work/said" || fail "a missing file was not told: $(cat "$work/said")"
raidlab measure "$root/fixed/new" --size 1MiB --workload streaming --run 100ms >"$work/said" 2>&1 &&
    fail "a file was made where the server allows no writing"
grep -q 'cannot make the file' "$work/said" || fail "the refusal was not told: $(cat "$work/said")"
raidlab measure "$root/other/file" --workload streaming --run 100ms >"$work/said" 2>&1 && fail "a folder was read that is not exported"
raidlab measure "$uri" --engine io_uring --workload streaming --run 100ms >/dev/null 2>&1 && fail "an engine that can't was taken"
# Parallel streams, of files that are made, verified to be there, read, and taken away again.
raidlab streams "$root/data" --streams 1,4 --size 4MB --block 64KiB --reads-per-stream 8 --json >"$work/streams.json" \
    2>"$work/said" || fail "streams: $(cat "$work/said")"
python3 - "$work/streams.json" <<'PY' || fail "streams gave no figures: $(cat "$work/streams.json")"
import json, sys
runs = json.load(open(sys.argv[1]))["runs"]
assert [len(run["streams"]["readers"]) for run in runs] == [1, 4], runs
assert all(reader["bytes"] == 4_000_000 // 4096 * 4096 for run in runs for reader in run["streams"]["readers"]), runs
PY
[[ -z $(find "$work/root/data" -name 'raidlab-streams*') ]] || fail "files of the streams were left behind"
# A server that dies ends either run with its name.
for load in measure streams; do
    case $load in
        measure) raidlab measure "$uri" --workload database --iodepth 4 --run 60s --ramp 0s >"$work/said" 2>&1 & ;;
        streams) raidlab streams "$root/data" --streams 4 --size 16MB --repeat 1000 >"$work/said" 2>&1 & ;;
    esac
    run=$!
    sleep 3
    kill_server
    code=0
    wait "$run" || code=$?
    [[ $code == 1 ]] || fail "the end of the server ended $load with $code: $(cat "$work/said")"
    grep -q 'root://127.0.0.1:[0-9]*//data/' "$work/said" || fail "$load did not name what failed: $(cat "$work/said")"
    [[ $load == streams ]] || start_server
done
echo "xrootd: reads of 8 KiB to 1 MiB, streams, verified writes, refusals and the end of the server were right"
