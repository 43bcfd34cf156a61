#!/usr/bin/env bash
# Installs what `make attack` needs, as root, from Debian's archive, and builds the members that lose data: setup.sh FOLDER
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bash "$here/../clients/setup.sh"
if [[ ! -e /usr/include/nbdkit-plugin.h ]]; then
    line='apt-get install -y -qq --no-install-recommends nbdkit-plugin-dev'
    [[ $(id -u) == 0 ]] || { echo "error: nbdkit's headers are missing; as root: $line" >&2 && exit 1; }
    DEBIAN_FRONTEND=noninteractive $line >/dev/null
fi
mkdir -p "$1"
cc -shared -fPIC -O1 -Wall -Wextra -Werror -Wno-unused-parameter -o "$1/volatile.so.new" "$here/volatile.c"
mv "$1/volatile.so.new" "$1/volatile.so"
