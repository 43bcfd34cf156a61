#!/usr/bin/env bash
# `raidlab measure` and `raidlab streams` on files of a real NFS server: NFS-Ganesha over loopback, NFS 3 and NFS 4.
#
#   nfs.sh RAIDLAB
#
# Lays a file out over NFS, reads it at transfers of 8 KiB to 1 MiB and with parallel streams, writes and verifies it, writes over
# nothing that it did not lay out, and kills the server under load, by each version. The server's own folder is looked at for what
# arrived. Needs root; installs server and library if they are missing. NFS 3 is found by rpcbind, on a port that is the same for
# all, so everything runs in a network namespace and with a /run of its own.
set -euo pipefail
# shellcheck source=tests/needs-root.sh
source "$(dirname "$0")/../needs-root.sh"
RAIDLAB=$(realpath "${1:?usage: nfs.sh RAIDLAB}")
missing=()
command -v ganesha.nfsd >/dev/null || missing+=(nfs-ganesha nfs-ganesha-vfs)
PATH=$PATH:/sbin:/usr/sbin command -v rpcbind >/dev/null || missing+=(rpcbind)
grep -qE 'libnfs\.so\.1[34]' <<<"$(ldconfig -p)" ||
    missing+=("$(apt-cache pkgnames libnfs1 | grep -xE 'libnfs1[34]' | sort | tail -1)")
((${#missing[@]} == 0)) || bash "$(dirname "$0")/../install.sh" "${missing[@]}"
if [[ ${NFS_ALONE:-} != yes ]]; then
    NFS_ALONE=yes exec unshare --net --mount "$0" "$RAIDLAB"
fi
ip link set lo up
mount -t tmpfs tmpfs /run
work=$(mktemp -d "${TMPDIR:-/tmp}/raidlab-nfs.XXXXXX")
server=''
mapper=''
clean_up() {
    [[ -z $server ]] || kill -KILL "$server" 2>/dev/null || true
    [[ -z $mapper ]] || kill -KILL "$mapper" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
fail() {
    echo "nfs: FAILED: $*" >&2
    tail -n 5 "$work/server.log" >&2 || true
    exit 1
}
port=${NFS_PORT:-20049}
mkdir -p "$work/export" "$work/recovery" /run/ganesha /run/rpcbind
PATH=$PATH:/sbin:/usr/sbin rpcbind -f >/dev/null 2>&1 &
mapper=$!
cat >"$work/ganesha.conf" <<CONF
NFS_CORE_PARAM { Protocols = 3, 4; NFS_Port = $port; Enable_NLM = false; Enable_RQUOTA = false; }
NFSv4 { RecoveryBackend = fs; RecoveryRoot = $work/recovery; Graceless = true; Minor_Versions = 0; }
EXPORT {
    Export_Id = 1; Path = $work/export; Pseudo = /data; Access_Type = RW; Squash = No_Root_Squash;
    SecType = sys; Protocols = 3, 4; Transports = TCP; FSAL { Name = VFS; }
}
CONF
start_server() {
    ganesha.nfsd -F -f "$work/ganesha.conf" -L "$work/server.log" -p "$work/pid" -N NIV_EVENT >/dev/null 2>&1 &
    server=$!
    local tries=0
    until "$RAIDLAB" measure "$1" --workload streaming --run 10ms --ramp 0s --db "$work/db" >"$work/said" 2>&1 ||
        grep -q 'No such file\|NOENT\|ENOENT' "$work/said"; do
        kill -0 "$server" 2>/dev/null || fail "the server ended at its start"
        ((++tries < 100)) || fail "the server does not answer: $(cat "$work/said")"
        sleep 0.3
    done
}
# uri VERSION FILE: NFS 3 knows an export by its path, and finds its ports by itself.
uri() {
    case $1 in
        3) echo "nfs://127.0.0.1$work/export/$2" ;;
        4) echo "nfs://127.0.0.1/data/$2?version=4&nfsport=$port" ;;
    esac
}
measure() { timeout 120 "$RAIDLAB" measure "$@" --db "$work/db"; }
figure() { python3 -c 'import json,sys; print(*[f(json.load(sys.stdin)["runs"]) for f in [eval(sys.argv[1])]])' "$1"; }

try_version() {
    local version=$1 uri
    uri=$(uri "$version" file)
    rm -rf "$work/export"/*
    start_server "$uri"
    measure "$uri" --size 32MiB --workload streaming --block-size 8KiB,64KiB,256KiB,1MiB --iodepth 4 \
        --run 500ms --ramp 100ms --json >"$work/reads.json" || fail "reading"
    [[ $(stat -c %s "$work/export/file") == $((32 * 1024 * 1024 + 4096)) ]] || fail "the file was not laid out whole"
    [[ $(figure 'lambda runs: len([r for r in runs if r["read"]["requests"] > 20 and r["total"]["errors"] == 0])' <"$work/reads.json") == 4 ]] ||
        fail "a read size gave no figures: $(figure 'lambda runs: [r["read"] for r in runs]' <"$work/reads.json")"
    grep -q '"engine": "nfs' "$work/reads.json" || fail "another engine was used"
    # What is written is stamped and judged as it is read back, over 8 requests in flight on each of 2 connections.
    before=$(b2sum <"$work/export/file")
    measure "$uri" --workload database --iodepth 8 --workers 2 --verify --run 2s --ramp 100ms >"$work/said" 2>&1 ||
        fail "verified writes: $(cat "$work/said")"
    [[ $(b2sum <"$work/export/file") != "$before" ]] || fail "nothing was written"
    # What raidlab did not lay out is not written over, unless it is named.
    head -c 1M /dev/urandom >"$work/export/precious"
    precious=$(uri "$version" precious)
    kept=$(b2sum <"$work/export/precious")
    measure "$precious" --workload restore --run 100ms --ramp 0s >"$work/said" 2>&1 && fail "a file with data was written over"
    grep -q -- '--destroy-data\|holds' "$work/said" || fail "no reason was given: $(cat "$work/said")"
    [[ $(b2sum <"$work/export/precious") == "$kept" ]] || fail "a file with data was changed"
    measure "$precious" --workload streaming --run 100ms --ramp 0s >/dev/null 2>&1 || fail "a file with data was not read"
    measure "$precious" --workload restore --destroy-data "$precious" --run 100ms --ramp 0s >/dev/null 2>&1 ||
        fail "a file that was named was not written"
    measure "$uri" --engine io_uring --workload streaming --run 100ms >/dev/null 2>&1 && fail "an engine that can't was taken"
    # Parallel streams of files that are made, read and taken away again.
    timeout 120 "$RAIDLAB" streams "$(uri "$version" '')" --streams 1,4 --size 4MB --block 64KiB --reads-per-stream 8 --json \
        --db "$work/db" >"$work/streams.json" 2>"$work/said" || fail "streams: $(cat "$work/said")"
    [[ $(figure 'lambda runs: [[reader["bytes"] for reader in run["streams"]["readers"]] for run in runs]' <"$work/streams.json") == \
        "[[$((4000000 / 4096 * 4096))], [$(seq -s ', ' 4 | sed "s/[0-9]/$((4000000 / 4096 * 4096))/g")]]" ]] ||
        fail "streams gave no figures: $(cat "$work/streams.json")"
    [[ -z $(find "$work/export" -name 'raidlab-streams*') ]] || fail "files of the streams were left behind"
    # A server that dies ends the run with its name.
    measure "$uri" --workload database --iodepth 4 --run 60s --ramp 0s >"$work/said" 2>&1 &
    run=$!
    sleep 2
    kill -KILL "$server"
    code=0
    wait "$run" || code=$?
    wait "$server" 2>/dev/null || true
    [[ $code == 1 ]] || fail "the end of the server ended the run with $code: $(cat "$work/said")"
    grep -qF "${uri%%\?*}" "$work/said" || fail "the run did not name what failed: $(cat "$work/said")"
    server=''
}
try_version 3
try_version 4
echo "nfs: by NFS 3 and 4, reads of 8 KiB to 1 MiB, streams, verified writes, refusals and the end of the server were right"
