"""The scheduler's share of a sweep at 1,000 workers, by simulation of its measured cost (docs/python.md).

    python bench/python-chunks.py            in an environment with the wheel, distributed and ray (`make executors` makes one)

Measured, on local clusters of two processes: what an executor takes for a task that does nothing, and what the process that sweeps takes to
hand out a chunk and to read each of its runs. Simulated, with the very rule that sizes chunks (`raidlab.sweeps.Chunks`): workers that run
what they are given, and one scheduler that hands out and takes back one chunk after the other. The share is that of the workers' time in
which they wait.
"""

import heapq
import json
import os
import pickle
import random
import sys
import time
from concurrent.futures import wait

import raidlab
from raidlab import sweeps

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/python"))

ARRAY = raidlab.Array(level="5", members=8, drive="st3600057ss", controller="perc-h800", region="10GB")


def nothing(_):
    return 0.0, []


def task_seconds(executor, count=2000):
    """Seconds of a task that does nothing, of `count` at once."""
    plan = sweeps._Plan([ARRAY], raidlab.workloads.as_workloads("workloads", "database"), [1], (None, "20s", 1), 1, False, raidlab.arrays.default_catalog())
    wait([executor.submit(nothing, b"") for _ in range(100)])
    started = time.perf_counter()
    wait([executor.submit(nothing, sweeps.pickled((*plan.part(1, 0, 1), 0, False))) for _ in range(count)])
    return (time.perf_counter() - started) / count


def run_seconds(count=3000):
    """Seconds to take in a run that a worker sent, and its bytes."""
    run = raidlab.sweep(ARRAY, "database", 8, ramp="100ms", run="20s")[0]
    sent = pickle.dumps([run.packed() for _ in range(count)])
    started = time.perf_counter()
    kept = [raidlab.Run(it) for it in pickle.loads(sent)]
    assert len(kept) == count
    return (time.perf_counter() - started) / count, len(run.packed())


class Workers:
    """Workers that run what they are given, one chunk after the other."""

    def __init__(self, count):
        self.idle, self.queued, self.running, self.arrived = count, [], [], []
        self.busy = self.ended = 0.0

    def give(self, now, length, work):
        if self.idle:
            self.idle -= 1
            self._start(now, length, work)
        else:
            self.queued.append((length, work))

    def _start(self, now, length, work):
        self.busy += work
        heapq.heappush(self.running, (now + work, length, work))

    def advance(self, now):
        """Up to `now`: what ended has arrived, and its workers go on with what is queued."""
        while self.running and self.running[0][0] <= now:
            at, length, work = heapq.heappop(self.running)
            self.ended = at
            self.arrived.append((length, work))
            if self.queued:
                self._start(at, *self.queued.pop(0))
            else:
                self.idle += 1


def simulated(count, runs, seconds_of_run, per_chunk, per_run, seed=1):
    """Share of the workers' time in which they wait, and chunks: of `runs` that take `seconds_of_run`, from half to three halves of it."""
    draw, chunks, workers = random.Random(seed), sweeps.Chunks(count), Workers(count)
    left, now, under_way, handed_out = runs, 0.0, 0, 0
    while left or under_way:
        if left and under_way < chunks.under_way():
            length = chunks.length(left)
            left, under_way, handed_out, now = left - length, under_way + 1, handed_out + 1, now + per_chunk / 2
            workers.advance(now)
            workers.give(now, length, sum(draw.uniform(0.5, 1.5) for _ in range(length)) * seconds_of_run)
        elif workers.arrived:
            length, work = workers.arrived.pop(0)
            under_way, now = under_way - 1, now + per_chunk / 2 + per_run * length
            chunks.seconds, chunks.runs = chunks.seconds + work, chunks.runs + length
            workers.advance(now)
        else:
            now = workers.running[0][0]
            workers.advance(now)
    return 1 - workers.busy / (count * max(now, workers.ended)), handed_out


def dask_seconds():
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        return task_seconds(client.get_executor(pure=False))


def ray_seconds():
    import ray
    from executors import RayExecutor

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        return task_seconds(RayExecutor(2))
    finally:
        ray.shutdown()


def main():
    per_run, sent_bytes = run_seconds()
    found = {"per_run_seconds": per_run, "sent_bytes_per_run": sent_bytes}
    for name, measure in [("dask", dask_seconds), ("ray", ray_seconds)]:
        per_chunk = measure()
        found[f"{name}_per_chunk_seconds"] = per_chunk
        for seconds_of_run, length in [(0.2, 3600), (1.0, 3600), (5.0, 3600), (1.0, 600)]:
            runs = int(1000 * length / seconds_of_run)
            share, chunks = simulated(1000, runs, seconds_of_run, per_chunk, per_run)
            found[f"{name}, runs of {seconds_of_run} s for {length} s"] = {"share": round(share, 4), "chunks": chunks}
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
