#!/usr/bin/env bash
# PostgreSQL on a file system on the export; the NBD server is killed at random instants; no committed row may be lost.
#
# Idea: four psql clients insert numbered rows and write down each number only after its commit was answered; pgbench
# runs beside them and logs what was answered. After each kill: new server, mount (the journal's replay), recovery, and
# then every number written down is in the table with its content, pgbench's history holds at least what was answered,
# its three sums agree, and at the end pg_checksums, pg_amcheck and fsck find nothing.
# Environment: SERVER_COMMAND (serves the URI in the foreground, run anew after each kill), ROUNDS (5), LOAD_SECONDS (4:
# the kill comes at a random instant within), FILESYSTEM (ext4 or xfs). FAIL_MEMBER, REPLACE_MEMBER and REBUILD_MEMBER
# run under the load of the rounds 1, 2 and 3 of every four; a kill waits for them to return.
# Needs root (mounts) and the user postgres. Left out: a kill of the machine, replication.
# shellcheck source=tests/needs-root.sh
source "$(dirname "$0")/../needs-root.sh"
# shellcheck source=tests/clients/common.sh
source "$(dirname "$0")/common.sh"
[[ -n ${SERVER_COMMAND:-} ]] || fail "SERVER_COMMAND is not set"
rounds=${ROUNDS:-5}
load_seconds=${LOAD_SECONDS:-4}
filesystem=${FILESYSTEM:-ext4}
programs=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
[[ -x $programs/pgbench ]] || fail "there is no PostgreSQL: run setup.sh"
mount=$work/mount
data=$mount/data
mkdir "$mount" "$work/run"
chmod 755 "$work"
chown postgres "$work/run"
export PGHOST=$work/run PGUSER=postgres PGDATABASE=postgres PGCONNECT_TIMEOUT=5
on_exit "kill -KILL -- -\$server_id"
detach_on_exit
on_exit 'stop_load'
on_exit 'stop_database'
loads=()

as_postgres() { (cd / && runuser -u postgres -- "$@"); }
sql() { psql -X -q -A -t -v ON_ERROR_STOP=1 "$@"; }

make_database() {
    quietly "mkfs.$filesystem" -q "$([[ $filesystem == ext4 ]] && echo -F || echo -f)" "$device"
    mount "$device" "$mount"
    install -d -o postgres -m 700 "$data"
    quietly as_postgres "$programs/initdb" -D "$data" -k -A trust --locale=C
    cat >>"$data/postgresql.conf" <<SETTINGS
listen_addresses = ''
unix_socket_directories = '$work/run'
shared_buffers = 24MB
max_wal_size = 64MB
min_wal_size = 32MB
checkpoint_timeout = 30s
SETTINGS
    start_database
    sql -c 'CREATE TABLE journal (id bigint PRIMARY KEY, note text NOT NULL)'
    quietly "$programs/pgbench" -i -q -s 3
    # The settings are an ordinary file, which nothing has synced yet.
    sync -f "$mount"
}

start_database() {
    as_postgres "$programs/pg_ctl" -D "$data" -w -t 120 -l "$work/run/log" start >"$work/said" 2>&1 ||
        { tail -n 20 "$work/run/log" >&2 && fail "the database does not start (round ${round:-0})"; }
}

# Ends it the hard way: its files are gone, or a round is over.
stop_database() {
    local id
    id=$(head -n 1 "$data/postmaster.pid" 2>/dev/null || head -n 1 "$work/run/postmaster" 2>/dev/null) || return 0
    [[ -n $id ]] || return 0
    kill -QUIT "$id" 2>/dev/null || return 0
    for _ in $(seq 100); do kill -0 "$id" 2>/dev/null || return 0; sleep 0.1; done
    kill -KILL -- "-$id" 2>/dev/null || true
    kill -KILL "$id" 2>/dev/null || true
}

# Inserts numbered rows until an error; a number is written down after its commit.
journal_client() {
    local first=$1
    seq "$first" "$((first + 200000))" | awk '{
        printf "INSERT INTO journal VALUES (%d, repeat(md5(%d::text), 20));\n\\echo %d\n", $1, $1, $1 }' |
        sql >>"$work/committed" 2>/dev/null || true
}

start_load() {
    local number
    head -n 1 "$data/postmaster.pid" >"$work/run/postmaster"
    loads=()
    for number in 1 2 3 4; do
        journal_client "$(((round * 4 + number) * 1000000))" &
        loads+=($!)
    done
    "$programs/pgbench" -n -c 4 -j 1 -T 600 -l --log-prefix="$work/answered.$round" >/dev/null 2>&1 &
    loads+=($!)
}

# The clients end by themselves when the database is gone; pgbench then writes out what is left of its log.
stop_load() {
    local load
    for load in "${loads[@]}"; do
        timeout 20 tail --pid="$load" -f /dev/null || kill -KILL "$load" 2>/dev/null || true
        wait "$load" 2>/dev/null || true
    done
    loads=()
}

check_database() {
    local lost sums answered history
    touch "$work/committed"
    grep -E '^[0-9]{7,}$' "$work/committed" >"$work/numbers" || true
    lost=$(sql <<SQL
CREATE TEMPORARY TABLE committed (id bigint);
\\copy committed FROM '$work/numbers'
SELECT count(*) FROM committed LEFT JOIN journal USING (id) WHERE note IS DISTINCT FROM repeat(md5(id::text), 20);
SQL
    ) || fail "the journal can't be read (round $round)"
    ((lost == 0)) || fail "$lost of $(wc -l <"$work/numbers") committed rows are lost or changed (round $round)"
    sums=$(sql -c 'SELECT count(DISTINCT s) FROM (SELECT sum(abalance) s FROM pgbench_accounts UNION ALL SELECT
        sum(bbalance) FROM pgbench_branches UNION ALL SELECT sum(tbalance) FROM pgbench_tellers UNION ALL
        SELECT coalesce(sum(delta), 0) FROM pgbench_history) t') || fail "pgbench's tables can't be read (round $round)"
    ((sums == 1)) || fail "pgbench's sums differ (round $round)"
    answered=$(find "$work" -name 'answered.*' -exec cat {} + | wc -l)
    history=$(sql -c 'SELECT count(*) FROM pgbench_history')
    ((history >= answered)) || fail "$answered pgbench transactions were answered, $history are there (round $round)"
    tally="$(wc -l <"$work/numbers") committed rows and $answered pgbench transactions, none lost"
}

for ((round = 0; round <= rounds; round++)); do
    server_start
    attach
    if ((round == 0)); then
        make_database
    else
        mount "$device" "$mount" || fail "mount after the kill (round $round)"
        start_database
    fi
    check_database
    ((round < rounds)) || break
    start_load
    case $((round % 4)) in
        1) member_step fail "${FAIL_MEMBER:-}" ;;
        2) member_step replace "${REPLACE_MEMBER:-}" ;;
        3) member_step rebuild "${REBUILD_MEMBER:-}" ;;
    esac
    sleep "$((1 + RANDOM % load_seconds)).$((RANDOM % 1000))"
    server_kill
    stop_load
    stop_database
    umount "$mount" 2>/dev/null || umount -l "$mount"
    detach
done
quietly "$programs/pg_amcheck" --install-missing --heapallindexed -d postgres
quietly as_postgres "$programs/pg_ctl" -D "$data" -w stop
quietly as_postgres "$programs/pg_checksums" --check -D "$data"
umount "$mount" || fail "umount"
case $filesystem in
    ext4) quietly fsck.ext4 -fn "$device" ;;
    xfs) quietly xfs_repair -n "$device" ;;
esac
((rounds == 0)) || [[ $tally != '0 '* ]] || fail "nothing was committed in $rounds rounds"
echo "$rounds kills: $tally"
