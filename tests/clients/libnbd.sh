#!/usr/bin/env bash
# libnbd's Python binding: flags, commands and replies that the other clients do not look at; see libnbd.py.
# shellcheck source=tests/clients/common.sh
source "$(dirname "$0")/common.sh"
"$python" "$(dirname "$0")/libnbd.py" "$uri" || fail "see above"
