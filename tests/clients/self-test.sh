#!/usr/bin/env bash
# Proves the clients' scripts: each must pass against servers that are right (nbdkit), and fail against those that lie.
#
# Idea: a test that can't fail proves nothing. The lies are in liar.py; the table below says who must notice which. A
# script that fails without saying FAILED (a program is missing, say) has not noticed anything.
# Environment: ONLY, a lie or a script: no other line of the tables is run (`ONLY=lose`). Needs: setup.sh. Takes some five minutes.
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
uri="nbd+unix:///?socket=$work/sock"
size=$((320 << 20))
export ROUNDS=4 LOAD_SECONDS=2
wrong=0

serve() { export SERVER_COMMAND="rm -f $work/sock; exec nbdkit -f -U $work/sock $1"; }
# serve_tls OPTIONS: the same for tls.sh.
# shellcheck disable=SC2016 # the script says the port and the certificates
serve_tls() { export TLS_COMMAND='exec nbdkit -f -p $PORT --tls-certificates=$CERTIFICATES '"$1 memory $size"; }
# shellcheck disable=SC2016
require='--tls=require ${VERIFY:+--tls-verify-peer}'
complain() { echo "self-test: $*" >&2 && wrong=1; }
# wanted LINE-WORDS...: is one of them the word of ONLY?
wanted() { [[ -z ${ONLY:-} || " $* " == *" $ONLY "* ]]; }

# nbdkit tells its block sizes only when asked to.
told='--filter=blocksize-policy'
sizes='blocksize-minimum=1 blocksize-preferred=4096 blocksize-maximum=32M'
while read -r name scripts; do
    wanted "$name" "$scripts" || continue
    [[ -z ${ONLY:-} || " $scripts " != *" $ONLY "* ]] || scripts=$ONLY
    case $name in
        memory) serve "$told memory $size $sizes" ;;
        file) serve "$told file $work/disk $sizes" ;;
        tls) serve "memory $size" && serve_tls "$require" ;;
        none) serve "python $PWD/liar.py disk=$work/disk lie=none" ;;
    esac
    echo "== $name: must pass"
    # shellcheck disable=SC2086 # the scripts are words
    PREPARE_COMMAND="rm -f $work/disk; truncate -s $size $work/disk" EXPECT_SIZE=$size FAIL_MEMBER=true \
        REPLACE_MEMBER=true REBUILD_MEMBER=true ./run.sh "$uri" $scripts || complain "$name: an honest server is refused"
done <<'HONEST'
memory nbdinfo nbdcopy qemu-img qemu-io fio libnbd ext4 xfs
file nbdinfo nbdcopy qemu-img qemu-io fio libnbd postgres
tls tls
none nbdinfo nbdcopy qemu-img qemu-io fio libnbd ext4 xfs
HONEST

while read -r lie scripts; do
    for script in $scripts; do
        wanted "$lie" "$script" || continue
        serve "python $PWD/liar.py disk=$work/disk lie=$lie flag=$work/flag"
        expect=$size
        [[ $lie != size ]] || { expect=$((size + 4096)) && serve "$told memory $size $sizes"; }
        case $lie in
            clear) serve_tls '--tls=on' ;;
            anyone) serve_tls '--tls=require' ;;
        esac
        [[ $lie != blockless ]] || serve "memory $size"
        rm -f "$work/flag"
        if PREPARE_COMMAND="rm -f $work/disk; truncate -s $size $work/disk" EXPECT_SIZE=$expect TIME_LIMIT=120 \
            FAIL_MEMBER="touch $work/flag" ./run.sh "$uri" "$script" >"$work/out" 2>&1; then
            complain "$script believes the lie '$lie'"
        elif ! grep -q "^$script: FAILED: " "$work/out"; then
            complain "$script failed on '$lie' without saying why:" && tail -n 5 "$work/out" >&2
        else
            echo "$lie: noticed by $script: $(grep -m 1 'FAILED: ' "$work/out")"
        fi
    done
done <<'LIES'
size nbdinfo
blockless nbdinfo
noflush nbdinfo libnbd
flip nbdcopy qemu-img fio libnbd ext4 xfs
after nbdcopy fio ext4 xfs
lose nbdcopy qemu-img qemu-io fio libnbd ext4 xfs postgres
shift qemu-io libnbd
zeroless qemu-io libnbd
wide qemu-io libnbd ext4 xfs
holes nbdcopy qemu-img libnbd
cached libnbd
late postgres
clear tls
anyone tls
LIES
((wrong == 0)) && echo "self-test: every script passes where it must and fails where it must"
