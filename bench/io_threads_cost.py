"""What `io-threads` takes off an array's own thread, and what it costs beside: processor time per MiB of the host.

usage: io_threads_cost.py [ROUNDS [IO_THREADS]]

RAID 5 of eight files on tmpfs, where a member I/O is a copy, driven in process by a study. By turns, without threads for I/O and
with IO_THREADS (2) of the kernel's, each load runs for three seconds. The kernel counts the processor time of each thread of the
process (/proc/PID/task/*/schedstat): the first is the array's own, all others are the kernel's for its I/O. They are looked at
2.4 and 0.8 s before the run has ended, within its window, and the time between is divided by what the host moved meanwhile at
the run's rate. Time of processors is what it tells of, not time on a clock: that depends on who else wants them. Prints medians
in microseconds per MiB, the array's thread + all others. Runs target/release/raidlab, or $RAIDLAB.
"""
import json, os, statistics, subprocess, sys, tempfile, threading, time
from pathlib import Path

HERE = Path(__file__).resolve().parent
RAIDLAB = os.environ.get("RAIDLAB", str(HERE.parent / "target/release/raidlab"))
# Name, workload, requests in flight, write policy.
LOADS = (
    ("writes, write-back", "sequential-write-1m", 32, "write-back"),
    ("reads", "sequential-read-1m", 32, "write-through"),
    ("writes through", "sequential-write-1m", 1, "write-through"),
    ("writes through", "sequential-write-1m", 32, "write-through"),
    ("8 KiB, 67 % reads", "random-mixed-8k", 1, "write-through"),
)
WINDOW_S = (2.4, 0.8)


def study(folder, load, depth, policy, threads):
    return f"""
schema = 1
title = "Threads for I/O"
question = "What do they cost?"
seed = 1
[load]
workloads = ["{HERE}/loads/{load}.toml"]
iodepths = [{depth}]
ramp = "100ms"
run = "3s"
[[array]]
directory = "{folder}/members"
levels = ["5"]
members = 8
member-size = "128MiB"
strip-size = "64KiB"
write-policies = ["{policy}"]
disk-cache = true
io-threads = {threads}
[array.cache]
size = "256MiB"
read-policy = "no-read-ahead"
"""


def processor_ns(process):
    """Of the first thread, and of all others."""
    spent = [0, 0]
    for task in Path(f"/proc/{process}/task").iterdir():
        try:
            spent[task.name != str(process)] += int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            pass  # It has ended since.
    return spent


def cost(*row):
    """Microseconds per MiB of one run."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        file = Path(folder, "study.toml")
        file.write_text(study(folder, *row))
        command = [RAIDLAB, "study", file, "--json", "--db", f"{folder}/runs.sqlite"]
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said, ended = [], []

        def listen():
            for line in run.stderr:
                said.append(line)
                if "1 of 1 runs," in line:
                    ended.append(time.monotonic())

        listener = threading.Thread(target=listen)
        listener.start()
        looks = []
        while not ended and run.poll() is None:
            looks.append((time.monotonic(), *processor_ns(run.pid)))
            time.sleep(0.02)
        out = run.stdout.read()
        listener.join()
        if run.wait() not in (0, 3) or not ended:
            sys.exit("".join(said) + out)
        first, last = (min(looks, key=lambda look: abs(look[0] - ended[0] + back)) for back in WINDOW_S)
        mib = json.loads(out)["runs"][0]["total"]["bytes_per_sec"] * (last[0] - first[0]) / 2**20
        return [(after - before) / 1e3 / mib for before, after in zip(first[1:], last[1:])]


def main():
    rounds, threads = (int(word) for word in (sys.argv[1:] + ["3", "2"][len(sys.argv) - 1 :]))
    print(f"{'us of processors per MiB':26}{'depth':>6}{'no threads':>16}{f'{threads} threads':>16}")
    for name, load, depth, policy in LOADS:
        found = {0: [], threads: []}
        for _ in range(rounds):
            for count, costs in found.items():
                costs.append(cost(load, depth, policy, count))
        cells = ("{:.0f} + {:.0f}".format(*map(statistics.median, zip(*costs))) for costs in found.values())
        print("{:26}{:>6}{:>16}{:>16}".format(name, depth, *cells), flush=True)


main()
