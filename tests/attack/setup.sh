#!/usr/bin/env bash
# Installs what `make attack` needs, as root, from Debian's archive, and builds the members that lose data: setup.sh FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bash "$here/../clients/setup.sh"
[[ -e /usr/include/nbdkit-plugin.h ]] || bash "$here/../install.sh" nbdkit-plugin-dev
mkdir -p "$1"
cc -shared -fPIC -O1 -Wall -Wextra -Werror -Wno-unused-parameter -o "$1/volatile.so.new" "$here/volatile.c"
mv "$1/volatile.so.new" "$1/volatile.so"
