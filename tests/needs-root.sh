# shellcheck shell=bash
# Sourced by a script that does nothing without root: others are told, and 77 says that it was skipped (tests/part.sh).
[[ $(id -u) == 0 ]] || { echo "needs root" >&2 && exit 77; }
