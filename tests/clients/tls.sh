#!/usr/bin/env bash
# TLS: libnbd's tools and qemu (both with GnuTLS) under an authority of our own; who has no right to come in does not.
#
# Verified: bytes in and out over one connection and four; a client in the clear, one without a certificate, with an expired
# one and with another authority's are refused; qemu reads and writes. With RELOAD_COMMAND (has the server read $CERTIFICATES anew;
# fails with the reason where it can't): half a renewal is refused and changes nothing; after a whole one clients are shown the
# new certificate, and one that is connected goes on. Left out: keys that are shared beforehand, TLS on a Unix socket.
# TLS_COMMAND serves the export in the foreground on $PORT of localhost, under TLS only, with the files of $CERTIFICATES, and
# asks for clients' certificates if $VERIFY is set.
# shellcheck source=tests/clients/common.sh
source "$(dirname "$0")/common.sh"
name=${uri%%\?*} && name=${name##*/}
[[ -n ${TLS_COMMAND:-} ]] || { echo "TLS_COMMAND is not set" && exit 77; }
PORT=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export PORT CERTIFICATES=$work/server SERVER_COMMAND=$TLS_COMMAND

key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes'
# authority FOLDER: one of its own.
authority() {
    mkdir -p "$1"
    # shellcheck disable=SC2086 # words
    quietly openssl req -x509 $key -days 3 -subj "/CN=${1##*/}" -keyout "$1/ca-key.pem" -out "$1/ca-cert.pem"
}
# pair AUTHORITY FOLDER NAME DAYS: a folder with NAME-cert.pem and NAME-key.pem, valid so long.
pair() {
    mkdir -p "$2" && cp "$1/ca-cert.pem" "$2"
    # shellcheck disable=SC2086 # words
    quietly openssl req $key -subj "/CN=$3" -new -keyout "$2/$3-key.pem" -out "$work/request"
    quietly openssl x509 -req -in "$work/request" -CA "$1/ca-cert.pem" -CAkey "$1/ca-key.pem" -CAcreateserial \
        -days "$4" -extfile <(echo 'subjectAltName=DNS:localhost,IP:127.0.0.1') -out "$2/$3-cert.pem"
    chmod go= "$2/$3-key.pem"
}
authority "$work/ours" && authority "$work/theirs"
pair "$work/ours" "$work/server" server 3
pair "$work/ours" "$work/friend" client 3
pair "$work/theirs" "$work/stranger" client 3
cp "$work/ours/ca-cert.pem" "$work/stranger"
pair "$work/ours" "$work/late" client -1
mkdir "$work/nobody" && cp "$work/ours/ca-cert.pem" "$work/nobody"

secure() { echo "nbds://localhost:$PORT/$name?tls-certificates=$work/$1"; }
# refused WHAT URI: nbdinfo must end with an error, and quickly.
refused() {
    local status=0
    timeout 10 nbdinfo --size "$2" >"$work/said" 2>&1 || status=$?
    ((status != 0)) || fail "$1 was let in"
    ((status != 124)) || fail "$1 was left waiting"
}

uri=$(secure nobody)
server_start
random_file "$work/in" $((32 << 20))
for connections in 4 1; do
    quietly nbdcopy --flush --connections=$connections "$work/in" "$uri"
    rm -f "$work/out"
    quietly nbdcopy --connections=$connections "$uri" "$work/out"
    cmp --bytes=$((32 << 20)) "$work/in" "$work/out" || fail "$connections connections: the bytes are other ones"
    random_file "$work/in" $((32 << 20))
done
refused "a client in the clear" "nbd://localhost:$PORT/$name"
grep -qi tls "$work/said" || fail "a client in the clear was not told about TLS: $(cat "$work/said")"

# reload: has the certificates read anew; what is said is left in $work/said.
reload() { bash -c "$RELOAD_COMMAND" >"$work/said" 2>&1; }
if [[ -n ${RELOAD_COMMAND:-} ]]; then
    # Believes the authority to come only.
    mkdir "$work/modern" && cp "$work/theirs/ca-cert.pem" "$work/modern"
    refused "a client of the authority to come" "$(secure modern)"
    # One that stays connected all the time: it writes before, and reads after.
    mkfifo "$work/go"
    "$python" - "$uri" "$work/go" "$work/connected" >"$work/stayed" 2>&1 <<'PYTHON' &
import sys
import nbd

handle = nbd.NBD()
handle.set_uri_allow_local_file(True)
handle.connect_uri(sys.argv[1])
handle.pwrite(b"before" * 1024, 4096)
open(sys.argv[3], "w").close()
open(sys.argv[2]).read()
assert bytes(handle.pread(6144, 4096)) == b"before" * 1024
handle.pwrite(b"after!" * 1024, 4096)
handle.flush()
assert handle.get_tls_negotiated()
PYTHON
    stayed=$!
    until [[ -e $work/connected ]]; do kill -0 $stayed || fail "$(cat "$work/stayed")"; sleep 0.05; done
    pair "$work/theirs" "$work/renewed" server 3
    cp "$work/renewed/server-key.pem" "$CERTIFICATES"
    ! reload || fail "a key that is not the certificate's was taken"
    grep -q 'is not the key of' "$work/said" || fail "half a renewal was refused without the reason: $(cat "$work/said")"
    quietly nbdinfo --size "$uri"
    cp "$work/renewed/"*.pem "$CERTIFICATES"
    reload || fail "a renewal was refused: $(cat "$work/said")"
    quietly nbdinfo --size "$(secure modern)"
    refused "a client of the authority that was" "$uri"
    echo >"$work/go"
    wait $stayed || fail "a client that was connected: $(cat "$work/stayed")"
    quietly nbdcopy --connections=4 "$(secure modern)" "$work/out"
    [[ $(dd if="$work/out" bs=1 skip=4096 count=12 status=none) == 'after!after!' ]] || fail "what it wrote is not there"
    pair "$work/ours" "$work/server" server 3
fi
server_kill

export VERIFY=yes
uri=$(secure friend)
server_start
for who in nobody stranger late; do refused "$who" "$(secure $who)"; done
refused "a client in the clear" "nbd://localhost:$PORT/$name"
creds="--object tls-creds-x509,id=tls,endpoint=client,dir=$work/friend"
image="driver=nbd,host=localhost,port=$PORT,export=$name,tls-creds=tls"
# shellcheck disable=SC2086 # words
quietly qemu-img info $creds --image-opts "$image"
# shellcheck disable=SC2086 # words
quietly qemu-io $creds --image-opts "$image" -c 'write -P 7 1M 3M' -c 'flush' -c 'read -P 7 1M 3M'
! grep -q 'Pattern verification failed' "$work/said" || fail "qemu reads other bytes than it wrote"
server_kill
