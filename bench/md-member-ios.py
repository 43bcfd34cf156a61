#!/usr/bin/env python3
"""What Linux md asks of its members for given writes, beside what the model of md asks for the same.

    cargo build -p raidlab-cli --locked && python3 bench/md-member-ios.py [target/debug/raidlab]

md runs in the guest of bench/guest/lib.sh (which says what that needs) over drives that are files. Each job is the same list of
writes for both, one at a time: fio replays it there, `raidlab simulate --trace` here. Counted are reads and writes of members before
they are merged, and, of md, the requests that it sends after that. Rates mean nothing there and are not taken.
"""
import json
import pathlib
import random
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RAIDLAB = sys.argv[1] if len(sys.argv) > 1 else "target/debug/raidlab"
DIR = pathlib.Path(tempfile.mkdtemp(prefix="md-member-ios-"))
KIB, MIB = 1024, 1 << 20
# Level, members, and strips of data in a stripe.
ARRAYS = [("5", 4, 3), ("6", 6, 4), ("10", 4, 2)]
MEMBER = 256 * MIB


def jobs(strips):
    """Name and writes (offset, length) of each job; the arrays have strips of 64 KiB."""
    draw = random.Random(1)
    stripe = strips * 64 * KIB

    def scattered(count, length, step):
        return [(64 * MIB + draw.randrange(64 * MIB // step) * step, length) for _ in range(count)]

    def in_order(count, length, first):
        return [(first + index * length, length) for index in range(count)]

    return {
        "512-B-random": scattered(200, 512, 512),
        "4-KiB-random": scattered(500, 4 * KIB, 4 * KIB),
        "4-KiB-in-order": in_order(1000, 4 * KIB, 160 * MIB),
        "20-KiB-random": scattered(200, 20 * KIB, 4 * KIB),
        "64-KiB-random": scattered(200, 64 * KIB, 64 * KIB),
        "64-KiB-in-order": in_order(200, 64 * KIB, 176 * MIB),
        "stripes": in_order(100, stripe, 200 * MIB // stripe * stripe),
    }


def write_job(name, level, writes):
    """The list as fio's iolog, and as a trace whose requests are far apart; returns both paths."""
    log, spc = DIR / f"{name}-{level}", DIR / f"{name}-{level}.spc"
    body = "".join(f"/dev/md0 write {offset} {length}\n" for offset, length in writes)
    log.write_text(f"fio version 2 iolog\n/dev/md0 add\n/dev/md0 open\n{body}/dev/md0 close\n")
    spc.write_text("".join(f"0,{offset // 512},{length},W,{0.005 * index:.6f}\n" for index, (offset, length) in enumerate(writes)))
    return log, spc


def run(*args):
    done = subprocess.run([RAIDLAB, *map(str, args)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, args))}\n{done.stdout}{done.stderr}")
    return done.stdout


def predicted(level, members, policy, setting, spc):
    """Reads and writes of the model's members, those of their metadata and of the journal among them."""
    trace = spc.with_suffix(".parquet")
    if not trace.exists():
        run("import", "trace", spc, "-o", trace)
    out = run("simulate", "--bottleneck", "off", "--json", "--trace", trace, "--level", level, "--members", members, "--drive",
              "generic-nvme", "--controller", "linux-md-nvme", "--disk-cache", "off", "--strip-size", "64KiB", "--set", f"consistency_policy={policy}",
              *(["--set", setting] if setting != "-" else []))
    cost = json.loads(out)["runs"][0]["cost"]
    # Each member's bitmap is written at the start, which md does before its writes are counted.
    at_start = int(members) if policy == "bitmap" else 0
    return cost["member_reads"], cost["member_writes"] + cost.get("metadata_writes", 0) - at_start


def measured(plan, files):
    """The rows that the guest prints."""
    (DIR / "plan").write_text("".join(f"{line}\n" for line in plan))
    words = []
    # One more, for a journal.
    for index in range(max(members for _, members, _ in ARRAYS) + 1):
        drive = DIR / f"drive{index}"
        drive.touch()
        drive.open("r+").truncate(MEMBER)
        words += ["--drive", f"file={drive},format=raw,cache=unsafe"]
    for path in [DIR / "plan", *files]:
        words += ["--file", str(path)]
    script = 'source "$1" && shift && guest_run "$@"'
    command = ["bash", "-euo", "pipefail", "-c", script, "guest", str(HERE / "guest/lib.sh"), "--seconds", "1800", *words,
               str(HERE / "guest/md-member-ios")]
    guest = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if guest.returncode:
        sys.exit(f"the guest ended with {guest.returncode}:\n{guest.stdout}")
    return [line.split()[1:] for line in guest.stdout.splitlines() if line.startswith("row ")]


def main():
    lists, plan, files = {}, [], []
    for level, members, strips in ARRAYS:
        names = []
        for name, writes in jobs(strips).items():
            log, spc = write_job(name, level, writes)
            lists[level, log.name] = (len(writes), spc)
            names.append(log.name)
            files.append(log)
        plan += [f"{level} {members} resync - {' '.join(names)}"]
        plan += [f"{level} {members} bitmap - {' '.join(names[1:3])}"]
        logs = {"5": ["ppl", "journal"], "6": ["journal"], "10": []}[level]
        plan += [f"{level} {members} {log} - {' '.join(names[1:])}" for log in logs]
        if level == "6":
            settings = ["rmw_level=0", "rmw_level=2", "skip_copy=1", "stripe_cache_size=1024"]
            plan += [f"{level} {members} resync {setting} {' '.join(names[1:5])}" for setting in settings]
    print(f"| {'array':12} | {'policy':8} | {'setting':22} | {'writes':22} | md: reads | writes | sent | model: reads | writes |")
    print("|" + "---|" * 9)
    for level, members, policy, setting, job, reads, writes, sent in measured(plan, files):
        count, spc = lists[level, job]
        model_reads, model_writes = predicted(level, members, policy, setting, spc)
        name = f"{count} of {job.rsplit('-', 1)[0].replace('-', ' ')}"
        print(f"| RAID {level:2} x{members:<2}  | {policy:8} | {setting:22} | {name:22} | {reads} | {writes} | {sent} | {model_reads} | {model_writes} |")


if __name__ == "__main__":
    main()
