"""The race of bench/array-against-members.sh. Idea: a table of what each level needs of its members per host request."""
import json, os, statistics, subprocess, sys, tempfile
from pathlib import Path

KIB, MIB = 1 << 10, 1 << 20
STRIP = 64 * KIB
LEVELS = ("0", "1", "5", "6", "10")
DEPTHS = (1, 32)
# name: request size, share of reads, sequential
LOADS = {
    "sequential-read-64k": (64 * KIB, 1.0, True),
    "sequential-read-1m": (MIB, 1.0, True),
    "sequential-write-64k": (64 * KIB, 0.0, True),
    "sequential-write-1m": (MIB, 0.0, True),
    "random-mixed-8k": (8 * KIB, 0.67, False),
    "random-write-8k": (8 * KIB, 0.0, False),
}
MEMBER_MIB = 128
RUN_MS = 400
# Threads beside the array's own, for I/O and for parity; each is raced in every round.
THREADS = [tuple(map(int, each.split("/"))) for each in os.environ.get("THREADS", "0/0").split()]


def copies(level, members):
    """Member writes per host write where redundancy is copies."""
    return {"0": 1, "1": members, "10": 2}[level]


def needs(level, members, load, alone):
    """Bytes read and written on members per byte of the host, and the size of a member I/O. A request that comes `alone`,
    at depth 1 and without a cache, finds no others to make a full stripe with."""
    size, read_share, sequential = LOADS[load]
    write_share = 1 - read_share
    if level in ("5", "6"):
        parity = 1 if level == "5" else 2
        if sequential and not (alone and size <= STRIP and write_share > 0):
            written = write_share * members / (members - parity)
            return read_share, written, STRIP
        return read_share + write_share * (1 + parity), write_share * (1 + parity), size
    return read_share, write_share * copies(level, members), size if level == "1" else min(size, STRIP)


def fio(files, block, read_pct, sequential, depth):
    """Bytes per second of one fio thread over `files`, by the better of `depth` in flight and of plain calls: over memory
    there is nothing to wait for, and io_uring only costs."""
    return max(fio_with(engine, files, block, read_pct, sequential, depth) for engine in ("io_uring", "psync"))


def fio_with(engine, files, block, read_pct, sequential, depth):
    mode = "rw" if sequential else "randrw"
    ring = ["--registerfiles=1", "--fixedbufs=1"] if engine == "io_uring" else []
    command = ["fio", "--name=x", f"--ioengine={engine}", "--direct=1", *ring,
               f"--filename={':'.join(files)}", "--file_service_type=roundrobin:1", f"--rw={mode}",
               f"--rwmixread={read_pct}", f"--bs={block}", f"--iodepth={depth}", "--time_based",
               f"--runtime={RUN_MS}ms", "--ramp_time=100ms", "--randrepeat=0", "--norandommap", "--gtod_reduce=1",
               f"--size={MEMBER_MIB * len(files)}M", "--thread", "--output-format=json"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    job = json.loads(text[text.index("{"):])["jobs"][0]
    return job["read"]["bw_bytes"] + job["write"]["bw_bytes"]


class Limits:
    """Rates of the members, measured once per round for each mix."""

    def __init__(self, files):
        self.files, self.known = files, {}

    def host_rate(self, level, load, depth, policy):
        size, _, sequential = LOADS[load]
        alone = depth == 1 and policy == "write-through"
        read, written, block = needs(level, len(self.files), load, alone)
        in_flight = depth * size * max(1, written)
        read_pct = round(100 * read / (read + written))
        # Neighbours in sequence are one I/O where they meet on a member, if so much is in flight.
        blocks = (block, 4 * block) if sequential and in_flight >= 4 * block else (block,)
        keys = [(each, read_pct, sequential, min(256, max(1, round(in_flight / each)))) for each in blocks]
        for key in keys:
            if key not in self.known:
                self.known[key] = fio(self.files, *key)
        return max(self.known[key] for key in keys) / (read + written)


def section(folder, policies, cache, levels, members, threads):
    """One set of arrays. Sections are run one after the other, so several differ by their settings and not by the time."""
    return f"""
[[array]]
directory = "{folder}"
levels = {json.dumps(levels)}
members = {members}
member-size = "{MEMBER_MIB}MiB"
strip-size = "{STRIP // KIB}KiB"
write-policies = {json.dumps(policies)}
disk-cache = true
io-threads = {threads[0]}
parity-threads = {threads[1]}
[array.cache]
{cache}
"""


def study(folder, policies, cache, levels, members, loads):
    """Rates of the arrays in bytes per second, by level, policy, load, depth and threads."""
    loads = ", ".join(f'"{Path("bench/loads", load + ".toml").resolve()}"' for load in loads)
    text = f"""
schema = 1
title = "Arrays against their members"
question = "How much of what the members allow do the arrays give?"
seed = 1
[load]
workloads = [{loads}]
iodepths = {list(DEPTHS)}
ramp = "100ms"
run = "{RUN_MS}ms"
""" + "".join(section(folder, policies, cache, [level], members, each) for level in levels for each in THREADS)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "study.toml")
        file.write_text(text)
        out = subprocess.run(["target/release/raidlab", "study", file, "--json", "--db", Path(place, "runs.sqlite")],
                             capture_output=True, text=True)
        if out.returncode not in (0, 3):
            sys.exit(out.stdout + out.stderr)
    rates = {}
    for run in json.loads(out.stdout)["runs"]:
        threads = int(run["settings"]["io threads"]), int(run["settings"]["parity threads"])
        key = run["array"]["level"], run["array"]["write_policy"], run["workload"], run["iodepth"], threads
        rates[key] = run["read"]["bytes_per_sec"] + run["write"]["bytes_per_sec"]
    return rates


def race(folder, members):
    """One round: (load, depth, level, policy, threads) to (array rate, limit)."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        files = [f"{place}/raw-{index}" for index in range(members)]
        for file in files:
            subprocess.run(["dd", "if=/dev/urandom", f"of={file}", "bs=1M", f"count={MEMBER_MIB}", "status=none",
                            "conv=fsync"], check=True)
        limits = Limits(files)
        arrays = Path(place, "array")
        plain = study(arrays, ["write-through"], 'read-policy = "no-read-ahead"', LEVELS, members, LOADS)
        in_sequence = [load for load in LOADS if "sequential-write" in load]
        cached = study(arrays, ["write-back"], 'size = "256MiB"', ["5", "6"], members, in_sequence)
        return {(load, depth, level, policy, threads): (rate, limits.host_rate(level, load, depth, policy))
                for (level, policy, load, depth, threads), rate in (plain | cached).items()}


def main():
    rounds, members, folders = int(sys.argv[1]), [int(n) for n in sys.argv[2].split(",")], sys.argv[3].split(",")
    for folder in folders:
        for count in members:
            found = {}
            for number in range(rounds):
                print(f"{folder}, {count} members, round {number + 1} of {rounds}", file=sys.stderr)
                for key, pair in race(folder, count).items():
                    found.setdefault(key, []).append(pair)
            for threads in THREADS:
                table(found, folder, count, threads)


def table(found, folder, count, threads):
    is_first = threads == THREADS[0]
    more = "" if threads == (0, 0) else " with {} threads for I/O and {} for parity".format(*threads)
    beside = "" if is_first else ", and over the first table's, median of each round's ratio"
    print(f"\n{count} members in {folder}: MB/s of the array{more}, its share of what the members allow{beside}")
    print(f"{'load':22} {'depth':>5}" + "".join(f"{'RAID ' + level:>{15 if is_first else 21}}" for level in LEVELS))
    for policy in ("write-through", "write-back"):
        for load in LOADS:
            for depth in DEPTHS:
                cells = [found.get((load, depth, level, policy, threads)) for level in LEVELS]
                first = [found.get((load, depth, level, policy, THREADS[0])) for level in LEVELS]
                if any(cells):
                    name = load + (" wb" if policy == "write-back" else "")
                    row = (cell(pairs, None if is_first else base) for pairs, base in zip(cells, first))
                    print(f"{name:22.22} {depth:5}" + "".join(row))


def cell(pairs, base):
    if not pairs:
        return f"{'':15}" + ("" if base is None else f"{'':6}")
    rate = statistics.median(rate for rate, _ in pairs)
    share = statistics.median(rate / limit for rate, limit in pairs)
    ratio = "" if base is None else f" {statistics.median(a / b for (a, _), (b, _) in zip(pairs, base)):5.2f}"
    return f"{rate / 1e6:9.0f} {share:5.2f}{ratio}"


main()
