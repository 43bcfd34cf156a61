#!/bin/bash
# Host I/Os that the simulator does in a second of its own time, driven by actors and by lines of the same sizes on the same drive.
# usage: actors-rate.sh [RAIDLAB]; the best of three runs each.
set -eu
raidlab=$(realpath "${1:-target/release/raidlab}")
cd "$(mktemp -d)"
head='schema = 1
title = "t"
source = "s"
metric = "iops"'
line() { printf '%s\nname = "%s"\n%s[[line]]\nsize = "%s"\nshare_pct = 100\nread_pct = %s\nrandom_pct = %s\n' "$head" "$1" "${5-}" "$2" "$3" "$4" >"$1.toml"; }
actor() { printf '%s\nname = "%s"\n[[part]]\nname = "a"\n[part.%s]\n%s\n' "$head" "$1" "$2" "$3" >"$1.toml"; }
deep=$'iodepth = 32\n'
line lines-4k-read 4KiB 100 100 "$deep"
line lines-64k-read 64KiB 100 100 "$deep"
line lines-64k-mix 64KiB 70 100 "$deep"
line lines-log 128KiB 0 0 $'iodepth = 1\nflush_every = 1\n'
training=$'count = 4\nbatch = 64\ncompute = "1ms"\nread_threads = 4\nprefetch = 4\nrequests_per_thread = 2'
actor accelerator-4k accelerator "$training"$'\nsample_size = "64KiB"\nsamples_per_file = 16\nrequest_size = "4KiB"'
actor accelerator-64k accelerator "$training"$'\nsample_size = "1MiB"\nrequest_size = "64KiB"'
actor cache-64k cache $'objects = 1000000\nobject_size = "64KiB"\niodepth = 32\nhit_pct = 70'
actor compaction-64k compaction $'runs = 8\nrequest_size = "64KiB"\niodepth = 32'
actor log log $'clients = 32\nappend_size = "4KiB"\ngroup = "0ms"\nflush_every = 1'
for name in lines-4k-read accelerator-4k lines-64k-read accelerator-64k lines-64k-mix cache-64k compaction-64k lines-log log; do
    for _ in 1 2 3; do
        "$raidlab" simulate --level 0 --members 1 --drive micron-9400-pro-7680 --controller linux-md-nvme --bottleneck off \
            -w $name.toml --ramp 10ms --run 1500ms --json 2>/dev/null |
            python3 -c "
import json, sys
cost = json.load(sys.stdin)['runs'][0]['cost']
print('$name', round((cost['host_reads'] + cost['host_writes']) / cost['wall_ns'] * 1e9))"
    done | sort -nk2 | tail -1
done
