#!/usr/bin/env bash
# qemu-io: patterns written and verified at every alignment, discard and write-zeroes, against a model in a local file.
#
# Verified: each pattern right after its write; at the end the whole worked-on range, byte by byte, with a file
# that had the same writes. A discard may keep or zero its range (NBD leaves it open), but nothing beside it.
# Left out: requests below the server's own least block, which qemu pads.
# shellcheck source=tests/clients/common.sh
source "$(dirname "$0")/common.sh"
bytes=$(export_bytes)
span=$((bytes < (64 << 20) ? bytes : 64 << 20))
((span >= 16 << 20)) || fail "the export is smaller than 16 MiB"
truncate -s "$span" "$work/model"

# play TARGET: runs the commands of the list, and complains of the first that verifies wrongly.
play() {
    qemu-io -f raw -t none "$1" <"$work/commands" >"$work/said" 2>&1 || { grep -v '^wrote\|^read\|KiB\|MiB' "$work/said" | tail -n 5 >&2 && fail "qemu-io on $1"; }
    ! grep -iE 'verification failed|failed:|error' "$work/said" >&2 || fail "qemu-io on $1"
}
model_play() {
    cp "$work/said" "$work/said-export"
    qemu-io -f raw "$work/model" <"$work/commands" >"$work/said" 2>&1 || fail "qemu-io on the model"
}
step() { printf '%s\n' "$@" >"$work/commands" && play "$uri" && model_play; }

# A ground of 0x11, so that zeros are told from what was never written.
step "write -P 0x11 0 $span" flush "read -P 0x11 0 $span"
commands=()
pattern=33
for offset in 0 511 512 4095 4096 65535 65536 131072 1048575 4194304 $((span - 131072)) $((span - 4096)) $((span - 1)); do
    for length in 1 512 513 4096 5000 65536 200000; do
        ((offset + length <= span)) || continue
        pattern=$((pattern % 250 + 1))
        commands+=("write $( ((pattern % 5)) || echo -f ) -P $pattern $offset $length" "read -P $pattern $offset $length")
    done
done
step "${commands[@]}" flush
# Zeros, with and without leave to unmap, and what is beside them.
commands=("write -P 0x77 $((5 << 20)) $((3 << 20))")
for zero in "$((5 << 20)) 65536" "$(((5 << 20) + 65536 + 512)) 1024" "$((6 << 20)) $((1 << 20))" "$(((7 << 20) + 100)) 5000"; do
    commands+=("write -z $zero" "read -P 0 $zero")
done
commands+=("write -z -u $((7 << 20)) 65536" "read -P 0 $((7 << 20)) 65536"
    "read -P 0x77 $(((5 << 20) + 65536)) 512" "read -P 0x77 $(((7 << 20) + 65536)) 65536" flush)
step "${commands[@]}"
# Discards: the neighbours stay; the range is then written again, so that the model has it too.
for length in 4096 65536 1048576; do
    at=$((9 << 20))
    # A ground of its own for each, so that a write that was lost is not hidden by the one before.
    pattern=$((pattern % 100 + 102))
    step "write -P $pattern $at $((3 << 20))"
    printf '%s\n' "discard $((at + 524288)) $length" >"$work/commands"
    play "$uri"
    step "read -P $pattern $at 524288" "read -P $pattern $((at + 524288 + length)) $(((3 << 20) - 524288 - length))" \
        "write -P $((pattern + 1)) $((at + 524288)) $length" "read -P $((pattern + 1)) $((at + 524288)) $length"
done
quietly nbdcopy "$uri" "$work/whole"
cmp --bytes="$span" "$work/whole" "$work/model" || fail "the export differs from the model"
