#!/usr/bin/env bash
# Installs what the clients' scripts need, as root, from Debian's archive; does nothing where all is there.
set -euo pipefail
missing=()
for pair in nbdinfo:libnbd-bin nbdcopy:libnbd-bin nbdfuse:libnbd-bin qemu-img:qemu-utils qemu-io:qemu-utils fio:fio \
    nbdkit:nbdkit openssl:openssl mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs fusermount3:fuse3 losetup:mount \
    sfdisk:fdisk psql:postgresql; do
    PATH=$PATH:/sbin:/usr/sbin command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
# nbdfuse is a package of its own in later releases.
[[ " ${missing[*]} " != *' libnbd-bin '* ]] || ! apt-cache show nbdfuse >/dev/null 2>&1 || missing+=(nbdfuse)
/usr/bin/python3 -c 'import nbd' 2>/dev/null || missing+=(python3-libnbd)
[[ -e /usr/lib/x86_64-linux-gnu/nbdkit/plugins/nbdkit-python-plugin.so ]] || missing+=(nbdkit-plugin-python)
# To build for several hosts: MPI, and what its bindings are made with.
command -v mpicc >/dev/null && command -v mpirun >/dev/null || missing+=(openmpi-bin libopenmpi-dev)
compgen -G '/usr/lib/llvm-*/lib/libclang.so*' >/dev/null || missing+=(libclang-dev)
# fio's own job files, which the tests compare.
compgen -G '/usr/share/doc/fio/examples/*.fio' >/dev/null || missing+=(fio-examples)
compgen -G '/usr/lib/postgresql/*/bin/pgbench' >/dev/null || missing+=(postgresql)
((${#missing[@]})) || exit 0
mapfile -t missing < <(printf '%s\n' "${missing[@]}" | sort -u)
exec bash "$(dirname "$0")/../install.sh" "${missing[@]}"
