#!/usr/bin/env bash
# Runs a part of `make test`, keeps count of the parts, and lets those that can't run here be skipped by name.
#
#   part.sh [--name NAME] COMMAND...    runs it; exit code 77 says that the part needs root and was skipped
#   part.sh --begin                     begins to count
#   part.sh --end                       says how long each took, what was skipped, and of how many
#
# As root nothing is to be skipped: there 77 is a failure.
set -uo pipefail
counted=$(cd "$(dirname "$0")/.." && pwd)/target/parts
case $1 in
    --begin)
        mkdir -p "${counted%/*}" && : >"$counted"
        exit
        ;;
    --end)
        sort -t' ' -k2n "$counted" | grep '^ran' >&2
        grep '^skipped' "$counted" >&2
        echo "$(grep -c '^skipped' "$counted") of $(wc -l <"$counted") parts skipped" >&2
        exit 0
        ;;
esac
name=''
if [[ $1 == --name ]]; then
    name=$2
    shift 2
fi
for word in "$@"; do
    [[ $name || ($word != */tests/* && $word != tests/*) ]] || name=${word##*tests/}
done
begun=$SECONDS
# Parts of parts are counted there, too.
mkdir -p "${counted%/*}"
export COUNTED=$counted
"$@"
status=$?
if ((status == 77)) && [[ $(id -u) != 0 ]]; then
    echo "skipped: $name (needs root)" | tee -a "$counted" >&2
    exit 0
fi
# Time that the commands took of the processors, in hundredths of a second.
read -ra stat <"/proc/$$/stat"
cpu=$(((stat[15] + stat[16]) / 100))
((status)) || echo "ran: $((SECONDS - begun)) s ($cpu s of CPU) $name" >>"$counted"
exit "$status"
