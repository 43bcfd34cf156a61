#!/usr/bin/env bash
# Puts real clients to work on a real array: makes one out of files, serves it, and runs the scripts of this folder on it.
#
#   array.sh [SCRIPT...]      scripts by name; all of them if none is named
#
# RAIDLAB is the binary (target/release/raidlab), LEVEL the RAID level (5), MEMBERS their number (4), MEMBER_SIZE the data
# area of each (128MiB), BLOCK_SIZE of the array (4KiB: the clients send requests that are no whole blocks, too), CREATE and
# SERVE more options for the two commands, FOLDER where the members go (a temporary one).
# Members are failed, replaced and rebuilt where a script asks for it; the array is made anew before each script, and checked
# after the last. Needs root for the file systems.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
RAIDLAB=$(realpath "${RAIDLAB:-$here/../../target/release/raidlab}")
folder=$(mktemp -d "${FOLDER:-${TMPDIR:-/tmp}}/raidlab-clients.XXXXXX")
trap 'rm -rf "$folder"' EXIT
level=${LEVEL:-5} count=${MEMBERS:-4} size=${MEMBER_SIZE:-128MiB}
control=$folder/control.sock
members=$(seq -f 'm%g' 0 $((count - 1)) | tr '\n' ' ')
array="$RAIDLAB array"
export PREPARE_COMMAND="cd $folder && rm -f m* *.sock kept && $array create clients $members --level $level \
    --member-size $size --block-size ${BLOCK_SIZE:-4KiB} ${CREATE:-}"
export SERVER_COMMAND="cd $folder && exec $array serve m* --socket nbd.sock --control $control ${SERVE:-}"
# The script says the port and the certificates.
# shellcheck disable=SC2016
export TLS_COMMAND="$SERVER_COMMAND"' --listen 127.0.0.1:$PORT --tls-certificates $CERTIFICATES ${VERIFY:+--tls-verify-peer}'
export RELOAD_COMMAND="$array reload $control"
export FAIL_MEMBER="$array fail $control 1"
export REPLACE_MEMBER="$array replace $control 1 \$(mktemp -u $folder/mXXXXXX)"
export REBUILD_MEMBER="$array rebuild $control"
uri="nbd+unix:///clients?socket=$folder/nbd.sock"
"$here/run.sh" "$uri" "$@"
cd "$folder"
$array assemble m*
