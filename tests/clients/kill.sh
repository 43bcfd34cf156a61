#!/usr/bin/env bash
# SIGKILL of the server at random instants under writes: nothing that a flush or FUA covered may be lost; see kill.py.
#
# Environment: SERVER_COMMAND (serves the URI in the foreground; run anew after each kill), ROUNDS. In every four rounds
# FAIL_MEMBER, REPLACE_MEMBER and REBUILD_MEMBER come before the load of the second, third and fourth.
# shellcheck source=tests/clients/common.sh
source "$(dirname "$0")/common.sh"
[[ -n ${SERVER_COMMAND:-} ]] || fail "SERVER_COMMAND is not set"
on_exit "kill -KILL -- -\$server_id"
rounds=${ROUNDS:-20}
writes=0
for ((round = 0; round <= rounds; round++)); do
    server_start
    case $((round % 4)) in
        1) member_step fail "${FAIL_MEMBER:-}" ;;
        2) member_step replace "${REPLACE_MEMBER:-}" ;;
        3) member_step rebuild "${REBUILD_MEMBER:-}" ;;
    esac
    if ((round == rounds)); then
        "$python" "$(dirname "$0")/kill.py" "$uri" "$work/model" "$round" last || fail "after $rounds kills"
        echo "$rounds kills, $writes writes"
        break
    fi
    "$python" "$(dirname "$0")/kill.py" "$uri" "$work/model" "$round" 2>"$work/writer.log" &
    writer=$!
    until [[ -e $work/model.writing ]] || ! kill -0 "$writer" 2>/dev/null; do sleep 0.05; done
    sleep "0.$(printf %03d $((RANDOM % 1000)))"
    server_kill
    wait "$writer" || { cat "$work/writer.log" >&2 && fail "round $round of $rounds"; }
    rm -f "$work/model.writing"
    writes=$((writes + $(grep -oP '\d+(?= writes)' "$work/writer.log")))
done
