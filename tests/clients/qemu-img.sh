#!/usr/bin/env bash
# qemu-img: size, convert in and out, compare, and the check that compare sees one changed byte.
#
# Verified: raw and qcow2 images against the export. Left out: snapshots, encryption.
# shellcheck source=tests/clients/common.sh
source "$(dirname "$0")/common.sh"
bytes=$(export_bytes)
quietly qemu-img info --output=json -f raw "$uri"
told=$("$python" -c 'import json, sys; print(json.load(sys.stdin)["virtual-size"])' <"$work/said")
[[ $told == "$bytes" ]] || fail "qemu-img says $told bytes, nbdinfo $bytes"
random_file "$work/in" "$bytes"
quietly qemu-img convert -n -W -m 8 -t none -f raw -O raw "$work/in" "$uri"
quietly qemu-img compare -f raw -F raw "$work/in" "$uri"
quietly qemu-img convert -f raw -O qcow2 "$uri" "$work/out.qcow2"
quietly qemu-img check "$work/out.qcow2"
quietly qemu-img compare -f raw -F qcow2 "$work/in" "$work/out.qcow2"
rm "$work/out.qcow2"
quietly qemu-img convert -T none -f raw -O raw "$uri" "$work/out"
[[ $(digest "$work/in") == "$(digest "$work/out")" ]] || fail "what was converted out is not what was converted in"
# One byte, in the last block: a comparison that passes now compares nothing.
quietly qemu-io -f raw -c "write -P 0x5a $((bytes - 4096)) 512" -c "write -P 0xa5 $((bytes - 4096)) 1" "$uri"
! qemu-img compare -f raw -F raw "$work/in" "$uri" >/dev/null 2>&1 || fail "a changed block is not seen"
