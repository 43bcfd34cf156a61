# shellcheck shell=bash
# A small Linux guest, made of Debian packages and run under qemu's software processor: the kernel, one initramfs, one job.
#
# Idea: this machine's kernel may lack md, nbd and ublk, Debian's has them. `guest_build` unpacks the kernel package and
# makes an initramfs of busybox, the programs of GUEST_PROGRAMS with their libraries, and the kernel's modules.
# `guest_run` appends the job as a second archive, boots, passes on what the job prints and returns its exit status.
#
#   source bench/guest/lib.sh
#   guest_run [--file PATH]... [--program PATH]... [--drive OPTIONS]... [--seconds N] SCRIPT [ARGUMENT]...
#
# --file and --program land in the guest's /job, which is in its PATH; a program brings its libraries along. A drive is
# given in qemu's words (`file=PATH,format=raw,throttling.iops-total=500`); they are /dev/vda, vdb, ... in that order.
# SCRIPT runs under busybox's sh unless its first line says otherwise.
#
# Needs: apt-get and its network (or a filled cache), and the packages that `guest_need` names; installs those only
# as root, else says the line to run. No other privilege. The cache is target/guest; a change of this folder, of the
# kernel package or of the programs makes it anew.
# Left out: a network, a disk of its own, KVM (the rates would be those of another machine's processor), other
# architectures than x86-64.

guest_folder=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
guest_cache=${GUEST_CACHE:-$guest_folder/../../target/guest}
# The kernel: the newest cloud kernel of this series that apt knows.
GUEST_KERNEL=${GUEST_KERNEL:-6.12}
GUEST_PROGRAMS=${GUEST_PROGRAMS:-bash fio mdadm nbdkit nbdinfo nbdcopy qemu-nbd}
GUEST_MEMORY=${GUEST_MEMORY:-1536M}
GUEST_PROCESSORS=${GUEST_PROCESSORS:-2}

guest_fail() {
    echo "guest: error: $*" >&2
    return 1
}

# Installs what is missing, or says what to install.
guest_need() {
    local missing=() pair
    for pair in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio xz:xz-utils fio:fio mdadm:mdadm \
        nbdkit:nbdkit nbdinfo:libnbd-bin qemu-nbd:qemu-utils; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
    done
    ((${#missing[@]})) || return 0
    echo "guest: installing ${missing[*]}" >&2
    bash "$(dirname "${BASH_SOURCE[0]}")/../../tests/install.sh" "${missing[@]}" || guest_fail "cannot be installed (no network?): ${missing[*]}"
}

# Prints the package of the kernel: what the meta package depends on, or else the newest name that fits.
guest_kernel_package() {
    local name
    name=$(apt-cache depends "linux-image-$GUEST_KERNEL-cloud-amd64" 2>/dev/null |
        sed -n 's/^ *Depends: \(linux-image-.*-cloud-amd64\)$/\1/p' | head -n 1)
    [[ -n $name ]] || name=$(apt-cache pkgnames "linux-image-$GUEST_KERNEL" |
        grep -E '^linux-image-[0-9.]+[^ ]*-cloud-amd64$' | sort -V | tail -n 1) || true
    [[ -n $name ]] || guest_fail "apt knows no linux-image-$GUEST_KERNEL...-cloud-amd64: run apt-get update, enable" \
        "Debian's security or backports archive, or set GUEST_KERNEL (6.1, say)" || return
    echo "$name"
}

# guest_copy_program ROOT PATH PLACE: copies a program and the libraries it is linked with.
guest_copy_program() {
    local root=$1 path=$2 place=$3 library
    install -D "$path" "$root$place"
    for library in $(ldd "$path" 2>/dev/null | grep -o '/[^ ]*'); do
        [[ -e $root$library ]] || install -D "$(readlink -f "$library")" "$root$library"
    done
}

guest_pack() { (cd "$1" && find . -mindepth 1 | cpio --quiet -o -H newc -R 0:0); }

# The kernel's modules of the folders that an array needs, unpacked (busybox reads no xz) and indexed.
guest_copy_modules() {
    local root=$1 unpacked=$2 release=$3 part from
    from=$unpacked/lib/modules/$release
    [[ -d $from ]] || from=$unpacked/usr/lib/modules/$release
    mkdir -p "$root/lib/modules/$release"
    cp "$from"/modules.{order,builtin,builtin.modinfo} "$root/lib/modules/$release/"
    for part in drivers/md drivers/block drivers/virtio drivers/char/hw_random crypto arch/x86/crypto lib fs/xfs; do
        [[ -d $from/kernel/$part ]] || continue
        mkdir -p "$root/lib/modules/$release/kernel/$part"
        cp -r "$from/kernel/$part/." "$root/lib/modules/$release/kernel/$part/"
    done
    find "$root/lib/modules" -name '*.ko.xz' -exec xz -d {} +
    busybox depmod -b "$root" "$release"
}

# guest_make PACKAGE STAMP: makes vmlinuz and initrd in the cache.
guest_make() {
    # `work` is not local: the trap outlives this function.
    local package=$1 stamp=$2 release program path
    exec 9>"$guest_cache/lock"
    flock 9
    work=$(mktemp -d "$guest_cache/build.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    cd "$work" || return
    echo "guest: making $package" >&2
    if ! compgen -G "$guest_cache/${package}_*.deb" >/dev/null; then
        apt-get download -qq "$package" 2>download.log ||
            guest_fail "$package can't be downloaded (no network?): $(tail -n 1 download.log)"
        mv ./*.deb "$guest_cache/"
    fi
    dpkg-deb -x "$(printf '%s\n' "$guest_cache/${package}"_*.deb | sort -V | tail -n 1)" kernel
    release=$(basename kernel/boot/vmlinuz-*)
    release=${release#vmlinuz-}
    mkdir -p root/bin
    cp "$(command -v busybox)" root/bin/busybox
    install -m 755 "$guest_folder/init" root/init
    guest_copy_modules root kernel "$release"
    for program in $GUEST_PROGRAMS; do
        path=$(command -v "$program") || guest_fail "$program, named in GUEST_PROGRAMS, is missing"
        guest_copy_program root "$path" "/usr/bin/$program"
    done
    ! [[ -e root/usr/bin/bash ]] || ln -s /usr/bin/bash root/bin/bash
    for path in /usr/lib/x86_64-linux-gnu/nbdkit/{plugins/nbdkit-{file,memory}-plugin.so,filters/nbdkit-delay-filter.so}; do
        [[ ! -e $path ]] || guest_copy_program root "$path" "$path"
    done
    cp "kernel/boot/vmlinuz-$release" "$guest_cache/vmlinuz"
    guest_pack root >"$guest_cache/initrd"
    echo "$stamp" >"$guest_cache/stamp"
}

# Makes target/guest/{vmlinuz,initrd} if they are missing or out of date.
guest_build() {
    guest_need || return
    local package stamp
    package=$(guest_kernel_package) || return
    # shellcheck disable=SC2046,SC2086 # one word for each program
    stamp=$(cat "$guest_folder/lib.sh" "$guest_folder/init" $(command -v $GUEST_PROGRAMS busybox) 2>/dev/null |
        sha256sum | cut -c1-16)-$package
    mkdir -p "$guest_cache"
    guest_cache=$(cd "$guest_cache" && pwd)
    [[ $(cat "$guest_cache/stamp" 2>/dev/null) != "$stamp" ]] || return 0
    # A shell of its own, since `guest_build || ...` would take the meaning from its errexit.
    GUEST_CACHE=$guest_cache GUEST_PROGRAMS=$GUEST_PROGRAMS bash -euo pipefail -c \
        'source "$1" && shift && guest_make "$@"' make "$guest_folder/lib.sh" "$package" "$stamp"
}

# guest_job FOLDER: the job's files as a second archive; the script becomes /job/run.
guest_job() {
    local work=$1 script=$2 path
    shift 2
    mkdir -p "$work/root/job"
    cp "$script" "$work/root/job/script"
    chmod 755 "$work/root/job/script"
    { echo '#!/bin/sh'; printf 'exec ./script'; printf " '%s'" "$@"; echo; } >"$work/root/job/run"
    chmod 755 "$work/root/job/run"
    for path in "${guest_files[@]}"; do install -m 755 "$path" "$work/root/job/"; done
    for path in "${guest_binaries[@]}"; do guest_copy_program "$work/root" "$path" "/job/$(basename "$path")"; done
    { cat "$guest_cache/initrd"; guest_pack "$work/root"; } >"$work/initrd"
}

# Prints the job's lines as they come; keeps the status in FILE.
guest_filter() {
    local line
    while IFS= read -r line; do
        line=${line%$'\r'}
        if [[ $line == 'guest-exit: '* ]]; then echo "${line#guest-exit: }" >"$1"; else printf '%s\n' "$line"; fi
    done
}

guest_run() {
    local guest_files=() guest_binaries=() drives=() seconds=${GUEST_SECONDS:-3600} number=0
    while [[ ${1:-} == --* ]]; do
        case $1 in
            --file) guest_files+=("$2") ;;
            --program) guest_binaries+=("$2") ;;
            --seconds) seconds=$2 ;;
            --drive)
                drives+=(-drive "if=none,id=d$number,$2" -device "virtio-blk-pci,drive=d$number,serial=d$number")
                number=$((number + 1))
                ;;
            *) guest_fail "guest_run: $1 is unknown" || return 2 ;;
        esac
        shift 2
    done
    [[ -f ${1:-} ]] || guest_fail "guest_run: no script '${1:-}'" || return 2
    guest_build || return
    local work status=0
    # A folder that a killed run left is taken away by the next one.
    for work in "$guest_cache"/run.*; do
        kill -0 "${work##*.}" 2>/dev/null || rm -rf "$work"
    done
    work=$guest_cache/run.$BASHPID
    guest_job "$work" "$@"
    # A busy host is late with the timer's interrupt and with ticks: the kernel must neither give up nor doubt the clock.
    # The processor without the two features that software emulation makes slow: 16-byte exchange, five-level tables.
    setpriv --pdeathsig TERM timeout --foreground "$seconds" qemu-system-x86_64 -accel tcg,thread=multi -cpu max,-cx16,-la57 -machine q35 \
        -smp "$GUEST_PROCESSORS" -m "$GUEST_MEMORY" -nodefaults -no-user-config -display none -no-reboot -net none \
        -kernel "$guest_cache/vmlinuz" -initrd "$work/initrd" \
        -append "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off clocksource=tsc tsc=reliable no_timer_check random.trust_cpu=on" \
        -serial "file:$work/console" -device virtio-rng-pci -device virtio-serial-pci \
        -chardev file,id=out,path=/dev/fd/3 -device virtserialport,chardev=out,name=job \
        "${drives[@]}" 3>&1 >"$work/qemu" 2>&1 </dev/null | guest_filter "$work/status" || status=${PIPESTATUS[0]}
    cp "$work/console" "$guest_cache/console.log" 2>/dev/null || true
    if [[ -s $work/status ]]; then
        status=$(<"$work/status")
    else
        { cat "$work/qemu"; tail -n 20 "$work/console"; } >&2 2>/dev/null || true
        # 124 is timeout's word.
        local end='ended without a word'
        ((status != 124)) || end="was stopped after its ${seconds} s"
        guest_fail "the guest $end; its console: $guest_cache/console.log" || status=125
    fi
    rm -rf "$work"
    return "$status"
}
