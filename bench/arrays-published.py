#!/usr/bin/env python3
"""Published figures of Linux md arrays beside what 'raidlab simulate' predicts for the same job.

    cargo build -p raidlab-cli --locked && python3 bench/arrays-published.py [target/debug/raidlab]

Each row names its source. 'fitted' rows chose constants of catalog/controllers/linux-md-*.toml and prove nothing; for each of
them the constant was also taken from the other source alone (docs/models.md). Drives are those of the source where it tells
what one of them does, else generic-nvme, which is then said. Ratios compare two settings of one job.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

RAIDLAB = sys.argv[1] if len(sys.argv) > 1 else "target/debug/raidlab"
DIR = pathlib.Path(tempfile.mkdtemp(prefix="arrays-published-"))
NVME = ["--controller", "linux-md-nvme", "--ramp", "20ms", "--run", "40ms", "--condition", "sequential"]
DISK = ["--controller", "linux-md-sas", "--drive", "generic-hdd-7200", "--disk-cache", "on", "--ramp", "2s", "--run", "4s"]


def workload(size, read_pct, random_pct):
    path = DIR / f"{size}-{read_pct}-{random_pct}.toml"
    path.write_text(
        f'schema = 1\nname = "{path.stem.lower()}"\ntitle = "one line"\nsource = "published job"\nmetric = "iops"\n\n'
        f'[[line]]\nsize = "{size}"\nshare_pct = 100\nread_pct = {read_pct}\nrandom_pct = {random_pct}\n'
    )
    return str(path)


def run(*args):
    done = subprocess.run([RAIDLAB, *args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(args)}\n{done.stdout}{done.stderr}")
    return done.stdout


def iops(level, members, load, iodepth, common, settings=()):
    """Requests a second."""
    sets = [word for setting in settings for word in ("--set", setting)]
    out = run("simulate", "--bottleneck", "off", "--json", "--level", level, "--members", str(members),
              "--workload", workload(*load), "--iodepth", str(iodepth), *common, *sets)
    return json.loads(out)["runs"][0]["total"]["iops"]


def drive_of_source():
    """The drive of the paste of 2024, from what it measured of one."""
    path = DIR / "measured.toml"
    run("model", "from-sheet", "--kind", "nvme", "--capacity", "2TB", "--seq-read", "7128MB/s", "--seq-write", "5000MB/s",
        "--read-iops", "828k", "--measured", "--id", "measured", "-o", str(path))
    return [*NVME, "--catalog", str(path), "--drive", "measured"]


def disk_of_source():
    """The disks of the commit of 2016, of which it tells the rate."""
    path = DIR / "disk.toml"
    run("model", "from-sheet", "--kind", "hdd", "--capacity", "4TB", "--seq-read", "180MB/s", "--id", "disk-180", "-o", str(path))
    at = DISK.index("generic-hdd-7200")
    return [*DISK[:at], "disk-180", *DISK[at + 1:], "--catalog", str(path)]


def atom(slower):
    """A processor that takes so many times as long for all that a stripe thread does."""
    times = {"pass": 2700, "pass_batched": 500, "pass_read": 900, "io": 600}
    own = [f"linux-md-sas:md.costs.{name}={ns * slower:.0f}ns" for name, ns in times.items()]
    return [*own, *(f"linux-md-sas:{name}.rate={20e9 / slower:.0f}B/s" for name in ("copy", "parity"))]


def main():
    measured, generic = drive_of_source(), [*NVME, "--drive", "generic-nvme"]
    read_4k, full = ("4KiB", 100, 100), ("512KiB", 0, 0)
    rows = []

    def row(source, what, published, predicted, note=""):
        rows.append((source, what, published, predicted, note))

    jobs = lambda count, *more: (f"processors={count}", *more)
    raid0 = [*measured, "--strip-size", "64KiB"]
    row("eq2CbjY7, 2024", "RAID 0 x4, 4 KiB reads, 4 jobs", 666_000,
        iops("0", 4, ("4KiB", 100, 0), 1024, raid0, jobs(4)), "fitted")
    row("eq2CbjY7, 2024", "RAID 0 x4, 512 KiB reads, 4 jobs", 47_100, iops("0", 4, ("512KiB", 100, 0), 1024, raid0, jobs(4)))
    old = iops("10", 4, read_4k, 4096, generic, jobs(16, "kernel=6.1"))
    new = iops("10", 4, read_4k, 4096, generic, jobs(16, "kernel=6.2"))
    row("74173ff458de, 2022", "RAID 10 x4, 4 KiB reads, 16 jobs, after", 2_440_000, new, "drive not known")
    row("74173ff458de, 2022", "the same before, with the lock", 1_840_000, old, "lock fitted")
    row("mdadm issue 28, 2016", "RAID 0, 4 KiB reads, 36 cores", 3_800_000,
        iops("0", 8, read_4k, 4096, generic, jobs(36)), "two sockets of 2014, kernel 4.x, drive not known")
    thread = [*disk_of_source(), "--strip-size", "64KiB"]
    slow = [iops("5", 9, full, 64, thread, atom(4.6)),
            iops("5", 9, full, 64, thread, ["group_thread_cnt=4", *atom(4.6)]),
            iops("5", 9, full, 64, thread, ["group_thread_cnt=4", "skip_copy=1", *atom(4.6)])]
    mb = [each * 524288 / 1e6 for each in slow]
    row("765d704db1f5, 2016", "RAID 5 x9 of disks, Atom, MB/s written", 600, mb[0], "processor fitted")
    row("765d704db1f5, 2016", "ratio: 4 workers over none", 950 / 600, mb[1] / mb[0],
        "kernel of 4.10, where only raid5d sends to disks: not modelled")
    row("765d704db1f5, 2016", "ratio: and skip_copy over that", 1150 / 950, mb[2] / mb[1])
    longer = [*generic, "--strip-size", "64KiB"]
    longer[longer.index("40ms")] = "400ms"
    copies = [iops("5", 6, ("1MiB", 0, 100), 64, longer, sets) for sets in ([], ["skip_copy=1"])]
    row("d592a9969141, 2014", "ratio: skip_copy over copies, 1 MiB random", 1.3, copies[1] / copies[0], "fitted")
    # With skip_copy the same table has the other direction, and nothing here says why.
    for skip_copy, size, published in ((0, "4KiB", 165 / 140), (0, "64KiB", 2282 / 1960), (1, "4KiB", 115 / 141), (1, "64KiB", 1339 / 1958)):
        sets = ["group_thread_cnt=4", f"skip_copy={skip_copy}"]
        modify = [iops("6", 10, (size, 0, 100), 8, [*DISK, "--strip-size", "64KiB"], [*sets, f"rmw_level={level}"])
                  for level in (1, 0)]
        row("584acdd49cd2, 2015", f"ratio: rmw_level 1 over 0, {size}, skip_copy {skip_copy}", published, modify[0] / modify[1])
    print(f"{'source':22} {'job':48} {'published':>10} {'predicted':>10} {'error':>7}")
    for source, what, published, predicted, note in rows:
        form = ",.0f" if published > 50 else ".2f"
        error = 100 * (predicted / published - 1)
        print(f"{source:22} {what:48} {published:>10{form}} {predicted:>10{form}} {error:>+6.0f} %  {note}".rstrip())


if __name__ == "__main__":
    main()
