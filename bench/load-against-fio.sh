#!/usr/bin/env bash
# `raidlab measure` beside fio (default and tuned) and fio's own t/io_uring: random reads of 4 KiB and 512 B at depths
# 1, 32 and 128, on tmpfs and ext4 with O_DIRECT, zram, the page cache, and no-ops. raidlab keeps full histograms.
#
# The tools take turns, so that what else the machine does hits all; medians over the rounds are printed, and the median
# of the ratios of a round. CPU is the processor time of the load thread per request (fio: usr_cpu + sys_cpu).
# T_IO_URING=path names a built t/io_uring, which Debian does not package; without it its columns stay empty. Its figure is
# the mean of its seconds but for the first, as the others' are means after a ramp.
# CASES="tmpfs zram ext4 cached noop" chooses, ROUNDS and SECONDS_EACH set how long, FOLDER is where on ext4.
# PREFIX is put before each command: PREFIX="chrt -r 5 taskset -c 1" keeps other work away on a machine that has some.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${ROUNDS:-3} seconds=${SECONDS_EACH:-1} cases=${CASES:-tmpfs zram ext4 cached noop}
depths=${DEPTHS:-1 32 128} prefix=${PREFIX:-} raidlab=${RAIDLAB:-./target/release/raidlab}
t_io_uring=${T_IO_URING:-} folder=${FOLDER:-target} size=256M
command -v fio >/dev/null || bash tests/install.sh fio
work=$(mktemp -d) zram=''
end() {
    rm -rf "$work" /dev/shm/raidlab-bench "$folder/raidlab-bench"
    [ -z "$zram" ] || echo "$zram" >/sys/class/zram-control/hot_remove
}
trap end EXIT

for bytes in 4096 512; do
    printf 'schema = 1\nname = "reads-%s"\ntitle = "Random reads"\nsource = "this script"\nmetric = "iops"\n[[line]]\nshare_pct = 100\nsize = "%sB"\nread_pct = 100\nrandom_pct = 100\n' \
        $bytes $bytes >"$work/reads-$bytes.toml"
done
measure() { # TARGET BYTES DEPTH more: IOPS and ns of CPU
    $prefix "$raidlab" measure "$1" --workload "$work/reads-$2.toml" --iodepth "$3" --ramp 100ms --run "${seconds}s" \
        --json "${@:4}" 2>/dev/null | python3 -c 'import json, sys
run = json.load(sys.stdin)["runs"][0]
print(run["total"]["iops"], run["cost"]["cpu_ns_per_io"])'
}
with_fio() { # TARGET BYTES DEPTH more
    $prefix fio --name=r --filename="${1/null:*/raidlab-null}" --size=$size --rw=randread --bs="$2" --iodepth="$3" --ramp_time=0.1 \
        --runtime="$seconds" --time_based --output-format=json "${@:4}" 2>/dev/null | python3 -c 'import json, sys
text = sys.stdin.read()
job = json.loads(text[text.index("{"):])["jobs"][0] if "{" in text else None
iops = job["read"]["iops"] if job else float("nan")
print(iops, (job["usr_cpu"] + job["sys_cpu"]) / 100 / iops * 1e9 if job else "nan")'
}
with_t() { # TARGET BYTES DEPTH more
    [ -n "$t_io_uring" ] || { echo 'nan nan'; return; }
    local batch=$(($3 < 32 ? $3 : 32))
    local file=$1
    case $file in null:*) file=$work/nothing && truncate -s $size "$file" ;; esac
    $prefix "$t_io_uring" -d"$3" -s$batch -c$batch -b"$2" -p0 -B1 -F1 -R1 -r$((seconds + 2)) "${@:4}" "$file" 2>/dev/null |
        python3 -c 'import re, sys
found = re.findall(r"^IOPS=([0-9.]+)([KM]?)", sys.stdin.read(), re.M)
rates = [float(digits) * {"": 1, "K": 1e3, "M": 1e6}[unit] for digits, unit in found]
rates = rates[1:] or rates
print(sum(rates) / len(rates) if rates else "nan", "nan")'
}
batches='--norandommap --gtod_reduce=1 --iodepth_batch_submit=32 --iodepth_batch_complete_max=32'
row() { # CASE TARGET BYTES DEPTH "raidlab's options" "fio's options" "t/io_uring's options"
    for _ in $(seq "$rounds"); do
        {
            measure "$2" "$3" "$4" $5
            with_fio "$2" "$3" "$4" $6
            case $6 in *io_uring*) with_fio "$2" "$3" "$4" $6 --registerfiles --fixedbufs $batches ;;
            *) with_fio "$2" "$3" "$4" $6 $batches ;; esac
            with_t "$2" "$3" "$4" $7
        } | tr '\n' ' ' && echo
    done >"$work/rows"
    python3 - "$1" "$3" "$4" "$work/rows" <<'PY'
import statistics, sys

case, size, depth, path = sys.argv[1:]
rows = [list(map(float, line.split())) for line in open(path)]
median = lambda column: statistics.median(row[column] for row in rows)
ratio = lambda column: statistics.median(row[0] / row[column] for row in rows)
print(f"{case:7} {size:>4} B depth {depth:>3} | {median(0):9.0f} IOPS {median(1):6.0f} ns | fio {median(2):9.0f} IOPS"
      f" {median(3):6.0f} ns ratio {ratio(2):5.2f} | tuned {median(4):9.0f} IOPS {median(5):6.0f} ns ratio {ratio(4):5.2f}"
      f" | t/io_uring {median(6):9.0f} IOPS ratio {ratio(6):5.2f}", flush=True)
PY
}
lay_out() { "$raidlab" measure "$1" --size ${size}iB --workload "$work/reads-4096.toml" --run 50ms --ramp 0ms --json >/dev/null; }

for case in $cases; do
    target='' sizes='4096 512'
    case $case in
    tmpfs) target=/dev/shm/raidlab-bench && lay_out $target ;;
    ext4 | cached)
        target="$folder/raidlab-bench" && lay_out "$target"
        [ $case = ext4 ] || { sizes=512 && cat "$target" >/dev/null; } ;;
    noop) target=null:1GiB sizes=512 ;;
    zram)
        sizes=4096
        { command -v modprobe >/dev/null && modprobe zram 2>/dev/null; } || true
        if zram=$(cat /sys/class/zram-control/hot_add 2>/dev/null); then
            echo $size >"/sys/block/zram$zram/disksize" && target=/dev/zram$zram
            fio --name=w --filename=$target --size=$size --rw=write --bs=1M --direct=1 --refill_buffers >/dev/null
        else
            echo "zram: skipped, this kernel has none or gives none (root?)" && zram='' && continue
        fi ;;
    esac
    for bytes in $sizes; do
        for depth in $depths; do
            case $case in
            cached) row cached "$target" "$bytes" "$depth" --buffered '--ioengine=io_uring --direct=0 --invalidate=0' -O0 ;;
            noop)
                # The null engines against each other, then rings whose requests do nothing.
                row null "$target" "$bytes" "$depth" '--engine null' '--ioengine=null' '-N1'
                row nop "$target" "$bytes" "$depth" '--engine io_uring' '--ioengine=null' '-N1' ;;
            *) row "$case" "$target" "$bytes" "$depth" '' '--ioengine=io_uring --direct=1' '' ;;
            esac
        done
    done
done
