#!/usr/bin/env bash
# Makes a Debian package of the release binary.
#
#   build.sh RAIDLAB DIR      the binary (target/dist/raidlab), and where the package goes
#
# In it: the binary; manual pages and completions, which the binary itself makes; the systemd unit; the book's pages, studies and
# workloads as documentation. Its symbols are a file beside the package. Needs dpkg-dev. What the binary links to is found by dpkg-shlibdeps.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
raidlab=$(realpath "$1")
out=$(realpath "$2")
work=$(mktemp -d "${TMPDIR:-/tmp}/raidlab-deb.XXXXXX")
trap 'rm -rf "$work"' EXIT
version=$("$raidlab" --version | cut -d' ' -f2)
arch=$(dpkg --print-architecture)
tree=$work/debian/raidlab

install -D -m 755 "$raidlab" "$tree/usr/bin/raidlab"
# Debuggers find the symbols by this link, in the folder of the program or in /usr/lib/debug/usr/bin.
symbols=raidlab_${version}_$arch.debug
objcopy --only-keep-debug --compress-debug-sections "$raidlab" "$out/$symbols"
chmod 644 "$out/$symbols"
strip --strip-unneeded "$tree/usr/bin/raidlab"
objcopy --add-gnu-debuglink="$out/$symbols" "$tree/usr/bin/raidlab"
limit=30000000
size=$(stat -c %s "$tree/usr/bin/raidlab")
((size < limit)) || { echo "error: the program has $size bytes, more than $limit" >&2; exit 1; }
"$raidlab" reference man "$tree/usr/share/man/man1"
gzip -9 -n "$tree"/usr/share/man/man1/*.1
install -d "$tree/usr/share/bash-completion/completions" "$tree/usr/share/zsh/vendor-completions" \
    "$tree/usr/share/fish/vendor_completions.d"
"$raidlab" reference completions bash >"$tree/usr/share/bash-completion/completions/raidlab"
"$raidlab" reference completions zsh >"$tree/usr/share/zsh/vendor-completions/_raidlab"
"$raidlab" reference completions fish >"$tree/usr/share/fish/vendor_completions.d/raidlab.fish"
install -D -m 644 -t "$tree/usr/lib/systemd/system" "$root"/packaging/systemd/*.service
doc=$tree/usr/share/doc/raidlab
# They lie as in the source, so that their links lead somewhere.
install -D -m 644 -t "$doc" "$root/README.md" "$root/CONTRIBUTING.md"
sed -i 's|(CHANGELOG\.md)|(changelog.gz)|' "$doc/README.md"
install -D -m 644 -t "$doc/docs" "$root"/docs/*.md "$root"/docs/*.png
install -D -m 644 -t "$doc/studies" "$root"/studies/*
install -D -m 644 -t "$doc/workloads" "$root"/workloads/*
gzip -9 -n -c "$root/CHANGELOG.md" >"$doc/changelog.gz"
cp "$root/packaging/debian/copyright" "$doc/copyright"
find "$tree" -type d -exec chmod 755 {} +
find "$tree/usr/share" -type f -exec chmod 644 {} +

# dpkg-shlibdeps wants a source package beside.
printf 'Source: raidlab\n\nPackage: raidlab\nArchitecture: %s\n' "$arch" >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O "$tree/usr/bin/raidlab" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
install -d "$tree/DEBIAN"
cat >"$tree/DEBIAN/control" <<CONTROL
Package: raidlab
Version: $version
Architecture: $arch
Maintainer: The raidlab developers <maintainers@raidlab.invalid>
Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f1)
Depends: $depends
Suggests: fio, libnfs13, libxrdposix3, nbdkit, nbdfuse, smartmontools
Section: admin
Priority: optional
Description: laboratory for storage arrays
 Plan an array for an application, measure the storage that is there, run a
 software RAID array over files, disks or network devices, emulate an array
 at its real speed, and reproduce published evaluations, which shows how far
 to trust the rest.
CONTROL
# The histories of its arrays go with the configuration.
cat >"$tree/DEBIAN/postrm" <<'POSTRM'
#!/bin/sh
set -e
if [ "$1" = purge ]; then
    rm -rf /var/lib/raidlab
fi
POSTRM
chmod 755 "$tree/DEBIAN/postrm"
dpkg-deb --root-owner-group --build "$tree" "$out/raidlab_${version}_$arch.deb"
