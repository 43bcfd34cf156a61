#!/usr/bin/env bash
# Installs the package in a Debian that has nothing else, and runs what is in it.
#
#   test.sh PACKAGE.deb [SUITE]     as root; the suite is bookworm unless given; downloads some 60 MB
#
# Verified: it installs with what it depends on; the binary runs, simulates, makes an array of files and says what the machine
# has; manual pages and completions are there; with systemd as its first process the unit serves an array, starts it again when it is
# killed, stops it with the machine (unit.sh); nothing is left when it is removed. Needs systemd-nspawn, of package systemd-container.
set -euo pipefail
package=$(realpath "$1")
suite=${2:-bookworm}
{ command -v debootstrap && command -v systemd-nspawn; } >/dev/null || apt-get install -y -qq debootstrap systemd-container >/dev/null
root=$(mktemp -d "${TMPDIR:-/var/tmp}/raidlab-root.XXXXXX")
clean_up() {
    mountpoint -q "$root/proc" && umount "$root/proc"
    rm -rf "$root" "$root.log"
}
trap clean_up EXIT
fail() {
    echo "package: FAILED: $*" >&2
    exit 1
}
debootstrap --variant=minbase --include=systemd,systemd-sysv "$suite" "$root" >"$root.log" 2>&1 || fail "debootstrap: $(tail -n 3 "$root.log")"
rm -f "$root.log"
mount -t proc proc "$root/proc"
cp "$package" "$root/raidlab.deb"
in_root() { chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root "$@"; }
in_root apt-get install -y --no-install-recommends /raidlab.deb >/dev/null 2>&1 || fail "apt-get install"
in_root raidlab doctor >/dev/null || fail "doctor"
in_root raidlab simulate --level 5 --members 4 --drive st3600057ss --controller perc-h800 --workload database --iodepth 4 \
    --run 100ms --ramp 0s >/dev/null || fail "simulate"
in_root sh -c 'cd /tmp && raidlab array create a m0 m1 m2 --level 5 --member-size 64MiB && raidlab array assemble m0 m1 m2' \
    >/dev/null || fail "array"
for file in man/man1/raidlab.1.gz man/man1/raidlab-array-create.1.gz bash-completion/completions/raidlab \
    doc/raidlab/copyright doc/raidlab/studies/first-look.toml; do
    [[ -s $root/usr/share/$file ]] || fail "no /usr/share/$file"
done
in_root systemd-analyze verify --man=no /usr/lib/systemd/system/raidlab-array@.service || fail "the unit"
for link in $(grep -o '](\([^)#:]*\))' "$root/usr/share/doc/raidlab/README.md" | tr -d '[]()'); do
    [[ -s $root/usr/share/doc/raidlab/$link ]] || fail "README.md leads to $link, which is not there"
done

# The unit under a real systemd; io_uring is not among the system calls that a container has unasked.
umount "$root/proc"
cp "$(dirname "$0")/unit.sh" "$root/root/unit.sh"
cat >"$root/etc/systemd/system/unit-test.service" <<'UNIT'
[Unit]
After=multi-user.target
[Service]
Type=oneshot
ExecStart=/root/unit.sh
[Install]
WantedBy=multi-user.target
UNIT
in_root systemctl enable unit-test.service >/dev/null 2>&1
timeout 400 systemd-nspawn --directory "$root" --boot --quiet --register=no --keep-unit \
    --system-call-filter="io_uring_setup io_uring_enter io_uring_register" </dev/null >"$root.log" 2>&1 || true
[[ $(cat "$root/result" 2>/dev/null) == ok ]] || fail "the unit: $(cat "$root/result" 2>/dev/null || tail -n 30 "$root.log")"
mount -t proc proc "$root/proc"
# The array itself says whether it was stopped: what systemd writes on the console depends on its version and on how long it took.
in_root sh -c 'cd /srv/vault && raidlab array assemble m0 m1 m2' >"$root/result" 2>&1 || true
grep -q '^  clean, ' "$root/result" ||
    fail "the unit did not stop with the machine: $(cat "$root/result"; grep -a raidlab "$root.log" | tail -n 15)"
rm -rf "$root.log" "$root/etc/systemd/system/unit-test.service" "$root/srv/vault" "$root/etc/raidlab" "$root/root/unit.sh" \
    "$root"/etc/systemd/system/raidlab-array@vault.service.d
rm -f "$root"/etc/systemd/system/multi-user.target.wants/* "$root/result"

in_root apt-get purge -y raidlab >/dev/null 2>&1 || fail "purge"
left=$(find "$root" -xdev -mindepth 1 -name '*raidlab*' -not -name raidlab.deb -not -path "$root/proc/*" | grep -v /var/log || true)
[[ -z $left ]] || fail "left behind: $left"
echo "package: installed, run and removed in a bare $suite"
