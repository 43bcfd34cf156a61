#!/usr/bin/env bash
# Installs Debian packages, as root: install.sh PACKAGE...
#
# Parts of `make test` run beside each other, so one installs at a time, and waits for whoever else uses apt.
set -euo pipefail
line="apt-get install -y -qq --no-install-recommends $*"
[[ $(id -u) == 0 ]] || { echo "error: programs are missing; as root: $line" >&2 && exit 1; }
exec 9>"${TMPDIR:-/tmp}/raidlab-install.lock"
flock 9
# `update` does not wait for the lists by itself.
for _ in $(seq 60); do
    apt-get update -qq 9>&- && break
    sleep 5
done
said=$(DEBIAN_FRONTEND=noninteractive $line -o DPkg::Lock::Timeout=600 2>&1 9>&-) && exit
# apt fails, too, when a package of somebody else's can't be configured: what was asked for may stand all the same.
for package in "$@"; do
    [[ $(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null) == installed ]] && continue
    echo "$said" >&2
    echo "error: $package could not be installed; as root: $line" >&2
    exit 1
done
