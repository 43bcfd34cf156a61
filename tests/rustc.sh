#!/usr/bin/env bash
# Compiles a crate of the workspace for cargo (RUSTC_WORKSPACE_WRAPPER), with clippy, and checks its documentation.
#
# One build for lints, tests, documentation and the scripts' binary: `cargo clippy` and `cargo doc` would check every dependency again.
# What has not changed is not checked again, as cargo keeps it.
set -euo pipefail
sysroot=$("$1" --print sysroot)
"$sysroot/bin/clippy-driver" "$@"

# Documentation is of libraries and programs; cargo asks the compiler about itself, too.
[[ " $* " == *" --crate-type "* && " $* " != *" --test "* && " $* " != *build_script_build* && " $* " != *" - "* && " $* " != */examples/* ]] || exit 0
[[ -n ${CARGO_PRIMARY_PACKAGE:-} ]] || exit 0
arguments=()
private=()
shift
while (($#)); do
    case $1 in
        -C | --out-dir) shift ;;
        --emit=*) ;;
        --crate-type)
            [[ $2 != bin ]] || private=(--document-private-items -A rustdoc::private-intra-doc-links)
            arguments+=("$1" "$2")
            shift
            ;;
        *) arguments+=("$1") ;;
    esac
    shift
done
exec "$sysroot/bin/rustdoc" "${arguments[@]}" "${private[@]}" -D warnings --out-dir "${CARGO_TARGET_DIR:-$(dirname "$0")/../target}/doc"
