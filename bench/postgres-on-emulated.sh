#!/usr/bin/env bash
# PostgreSQL with pgbench on emulated arrays: drives, levels and write policies; and on a plain disk with fixed delays.
#
# Idea: `raidlab emulate` serves a modelled array; nbdfuse and a loop device make it a block device, ext4 lies on that, and
# pgbench's standard transactions run on a database that is larger than PostgreSQL's memory. Beside the arrays stands what can be
# had without a model: memory served by nbdkit, with the delay filter at the mean latencies that the model has for one 8 KiB
# read and one write (RAIDLAB simulate, one in flight). A fixed delay knows no queue, no arm and no cache.
#
#   bench/postgres-on-emulated.sh             RAIDLAB=binary, SECONDS_EACH=20, CLIENTS=8, SCALE=20, ROWS="array ..."
#
# Needs: root (mounts), PostgreSQL and its user postgres, nbdfuse, nbdkit. Takes SECONDS_EACH and about half a minute for each row.
set -euo pipefail
cd "$(dirname "$0")/.."
raidlab=$(realpath "${RAIDLAB:-target/release/raidlab}")
seconds=${SECONDS_EACH:-20} clients=${CLIENTS:-8} scale=${SCALE:-20}
drives="7k2 15k ssd" all=""
for drive in $drives; do for level in r5 r10; do for policy in wt wb; do all+=" $drive-$level-$policy"; done; done; done
rows=${ROWS:-"$all delay"}
programs=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
work=$(mktemp -d)
chmod 755 "$work"
cd "$work"
device='' server='' fuse=''
export PGHOST=$work/run PGUSER=postgres PGDATABASE=postgres
mkdir mount fuse run
chown postgres run

as_postgres() { (cd / && runuser -u postgres -- "$@"); }
detach() {
    [[ ! -f mount/data/postmaster.pid ]] || as_postgres "$programs/pg_ctl" -D "$work/mount/data" -m fast -w stop >/dev/null || true
    umount mount 2>/dev/null || true
    [[ -z $device ]] || losetup --detach "$device" || true
    [[ -z $fuse ]] || { fusermount3 -u fuse || true; wait "$fuse" || true; }
    [[ ! -S c.sock ]] || "$raidlab" array stop ./c.sock >/dev/null || true
    [[ -z $server ]] || { kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; }
    device='' server='' fuse=''
}
trap 'detach; rm -rf "$work"' EXIT

describe() {
    local drive level policy
    case $1 in 7k2-*) drive=st32000444ss ;; 15k-*) drive=st3600057ss ;; ssd-*) drive=pliant-lb150 ;; esac
    case $1 in *-r5-*) level=5 ;; *-r10-*) level=10 ;; esac
    case $1 in *-wt) policy=write-through ;; *-wb) policy=write-back ;; esac
    printf 'schema = 1\nlevel = "%s"\nmembers = 8\ndrive = "%s"\ncontroller = "perc-h800"\nwrite-policy = "%s"\nregion = "4 GiB"\n' \
        "$level" "$drive" "$policy" >array.toml
}

# Mean latency in ns of one 8 KiB request in flight on the array of array.toml; $1 is the share of reads in percent.
latency() {
    "$raidlab" simulate --array array.toml -w storagebench-database --read-pct "$1" --iodepth 1 --json 2>/dev/null |
        python3 -c 'import json, sys; print(int(json.load(sys.stdin)["runs"][0]["total"]["lat_ns_mean"]))'
}

serve() {
    if [[ $1 == delay ]]; then
        describe 15k-r10-wt
        read_ns=$(latency 100) write_ns=$(latency 0)
        nbdkit -f -U "$work/n.sock" --filter=delay memory 4G delay-read="$((read_ns / 1000000))ms" delay-write="$((write_ns / 1000000))ms" &
        server=$!
        uri="nbd+unix:///?socket=$work/n.sock"
    else
        describe "$1"
        "$raidlab" emulate array.toml --socket n.sock --control ./c.sock --json >said.json &
        server=$!
        uri="nbd+unix:///array?socket=$work/n.sock"
    fi
    until nbdinfo --size "$uri" >/dev/null 2>&1; do sleep 0.1; done
}

attach() {
    nbdfuse fuse/export "$uri" &
    fuse=$!
    until [[ -f fuse/export ]]; do sleep 0.1; done
    device=$(losetup --find --show --sector-size 512 --direct-io=on fuse/export)
    mkfs.ext4 -q -F -E lazy_itable_init=1,nodiscard "$device"
    mount "$device" mount
}

database() {
    install -d -o postgres -m 700 mount/data
    as_postgres "$programs/initdb" -D "$work/mount/data" -A trust --locale=C >/dev/null
    cat >>mount/data/postgresql.conf <<SETTINGS
listen_addresses = ''
unix_socket_directories = '$work/run'
shared_buffers = 32MB
max_wal_size = 256MB
checkpoint_timeout = 30s
SETTINGS
    as_postgres "$programs/pg_ctl" -D "$work/mount/data" -w -l "$work/run/log" start >/dev/null
    "$programs/pgbench" -i -q -s "$scale" >/dev/null 2>&1
    psql -X -q -c CHECKPOINT
}

printf '%-12s %9s %12s %14s\n' array tps 'latency ms' 'late, p99 us'
for row in $rows; do
    rm -f n.sock c.sock said.json
    serve "$row"
    attach
    database
    # The kernel keeps no copy: what PostgreSQL does not hold itself is read from the array.
    sync
    echo 3 >/proc/sys/vm/drop_caches
    "$programs/pgbench" -n -c "$clients" -j 2 -T "$seconds" >bench.txt 2>/dev/null
    tps=$(awk '/^tps/ { print $3 }' bench.txt) ms=$(awk '/^latency average/ { print $4 }' bench.txt)
    detach
    late=$(python3 -c '
import re
found = re.search(r"\"late_ns_p99\":\s*(\d+)", open("said.json").read()) if "'"$row"'" != "delay" else None
print(int(found[1]) // 1000 if found else "-")')
    printf '%-12s %9.1f %12.2f %14s\n' "$row" "$tps" "$ms" "$late"
done
