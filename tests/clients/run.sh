#!/usr/bin/env bash
# Runs the clients' scripts one after the other and prints a table of results and times; exits 1 if any failed.
#
#   run.sh NBD-URI [SCRIPT...]      scripts by name (nbdinfo, nbdcopy, ...); all of them if none is named
#
# With SERVER_COMMAND (serves the URI in the foreground) each script gets a fresh server; without it the URI must be
# served already, and postgres is skipped; so is tls without TLS_COMMAND. PREPARE_COMMAND, if set, runs before each script, with no server.
# A script is given TIME_LIMIT seconds (600). What the scripts read from the environment is in their heads.
set -uo pipefail
folder=$(cd "$(dirname "$0")" && pwd)
uri=${1:-}
[[ -n $uri ]] || { echo "usage: $0 NBD-URI [SCRIPT...]" >&2 && exit 2; }
shift
scripts=("$@")
((${#scripts[@]})) || scripts=(nbdinfo nbdcopy qemu-img qemu-io fio libnbd tls ext4 xfs postgres)
server=''
logs=$(mktemp -d)
stop_server() {
    [[ -n $server ]] || return 0
    kill -TERM -- "-$server" 2>/dev/null
    timeout 30 tail --pid="$server" -f /dev/null || kill -KILL -- "-$server"
    wait "$server" 2>/dev/null
    server=''
}
trap 'stop_server; rm -rf "$logs"' EXIT
trap 'exit 130' INT TERM

start_server() {
    setsid bash -c "$SERVER_COMMAND" >"$logs/server" 2>&1 </dev/null &
    server=$!
    for _ in $(seq 600); do
        nbdinfo --size "$uri" >/dev/null 2>&1 && return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    echo "the server does not answer at $uri:" && tail -n 5 "$logs/server"
    return 1
}

run_one() {
    case $1 in
        tls) ;;
        postgres) [[ -n ${SERVER_COMMAND:-} ]] || { echo "SERVER_COMMAND is not set" && return 77; } ;;
        *) [[ -z ${SERVER_COMMAND:-} ]] || start_server || return 1 ;;
    esac
    timeout --foreground --kill-after=60 "${TIME_LIMIT:-600}" "$folder/$1.sh" "$uri"
}

# For tests/part.sh.
count() { [[ -z ${COUNTED:-} ]] || echo "$1: clients/$2.sh$([[ $1 == ran ]] || echo " ($(tail -n 1 "$logs/out"))")" >>"$COUNTED"; }

failed=0
table=$(printf '%-10s %-8s %8s  %s' client result seconds remark)
for script in "${scripts[@]}"; do
    begin=${EPOCHREALTIME/./}
    if [[ -n ${PREPARE_COMMAND:-} ]] && ! bash -c "$PREPARE_COMMAND" >"$logs/out" 2>&1; then
        status=1
        echo "PREPARE_COMMAND failed" >>"$logs/out"
    else
        run_one "$script" >"$logs/out" 2>&1
        status=$?
    fi
    stop_server
    case $status in
        0) result=passed && count ran "$script" ;;
        77) result=skipped && count skipped "$script" ;;
        *) result=FAILED && failed=1 && echo "--- $script" >&2 && tail -n 30 "$logs/out" >&2 ;;
    esac
    [[ $status != 124 ]] || echo "time limit" >>"$logs/out"
    table+=$'\n'$(printf '%-10s %-8s %8.1f  %s' "$script" "$result" \
        "$(((${EPOCHREALTIME/./} - begin) / 1000))e-3" "$(tail -n 1 "$logs/out")")
done
echo "$table"
exit "$failed"
