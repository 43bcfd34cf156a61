#!/bin/sh
# Runs inside a booted Debian with systemd as its first process: an array is served by the package's unit, killed, stopped and
# started. Writes what it found into /result and shuts the machine down. test.sh puts it there.
set -eu
fail() {
    echo "FAILED: $*" >/result
    systemctl --no-pager status raidlab-array@vault >>/result 2>&1 || true
    systemctl --no-block poweroff
    exit 1
}
unit=raidlab-array@vault.service
volume='nbd+unix:///?socket=/run/raidlab/vault.nbd'
state() { systemctl show --property="$1" --value "$unit"; }
is_served() { raidlab array status vault --json | grep '"condition": "optimal"' >/dev/null; }

mkdir -p /etc/raidlab /srv/vault
cd /srv/vault
raidlab array create vault m0 m1 m2 --level 5 --member-size 64MiB || fail create
echo /srv/vault/m0 /srv/vault/m1 /srv/vault/m2 --socket /run/raidlab/vault.nbd >/etc/raidlab/vault.args
# Files elsewhere than in /var/lib/raidlab are read-only to the unit unless it is told of them.
mkdir -p "/etc/systemd/system/$unit.d"
printf '[Service]\nReadWritePaths=/srv/vault\n' >"/etc/systemd/system/$unit.d/files.conf"
# Type=notify: start returns once the array says that it serves.
systemctl enable --now "$unit" || fail start
is_served || fail "not served after the start"
raidlab measure "$volume" --workload storagebench-database --run 500ms --ramp 0s --destroy-data "$volume" --db /tmp/r.sqlite \
    >/dev/null || fail measure
first=$(state MainPID)
kill -KILL "$first"
for _ in $(seq 100); do [ "$(state ActiveState)" = active ] && [ "$(state MainPID)" != "$first" ] && break || sleep 0.2; done
[ "$(state NRestarts)" = 1 ] || fail "killed, and not started again"
is_served || fail "not served after a kill"
systemctl stop "$unit" || fail stop
[ "$(state Result)" = success ] || fail "stopped: $(state Result)"
[ ! -e /run/raidlab/vault.nbd ] || fail "its socket is still there"
systemctl start "$unit" || fail "start again"
raidlab array check vault || fail check
echo ok >/result
# The array is still served: the shutdown has to stop it.
systemctl --no-block poweroff
