"""Sweeps and plans on local clusters of Dask and Ray, of which a worker is killed: nothing is lost, nothing twice, the same as one process."""

import os
import signal
import threading
import time
from concurrent.futures import Executor

import raidlab

ARRAYS = [
    raidlab.Array(level=level, members=members, drive="st3600057ss", controller="perc-h800", region="1GB")
    for level in ("5", "10")
    for members in range(4, 13, 2)
]
LOAD = {"workloads": ["database", "streaming"], "iodepths": [1, 8], "ramp": "100ms", "run": "2s", "progress": False}


PLAN = {"app": "storagebench-database", "usable": "4TB", "iops": 2000, "drives": "st3600057ss", "simulations": 6, "top": 1}


class RayExecutor(Executor):
    """An executor of `concurrent.futures` on Ray's tasks, as docs/python.md has it."""

    def __init__(self, workers):
        self._max_workers, self._remote = workers, {}

    def submit(self, function, *arguments):
        import ray

        if function not in self._remote:
            self._remote[function] = ray.remote(max_retries=5)(function)
        return self._remote[function].remote(*arguments).future()


def mine(target):
    """A workload of one's own, in the main module as in a notebook."""
    chance = target.random()
    while True:
        yield [chance.randrange(target.blocks - 8) * target.block_bytes for _ in range(500)], 4096, 0


def figures(runs):
    rows = runs.to_dicts()
    for row in rows:
        row["cost"].pop("wall_ns")
    return rows


def planned(answer):
    return {**answer, "arithmetic_secs": None}


def checked(name, executor, pids):
    """Sweeps and plans on `executor` while one of the workers that `pids` tells is killed."""
    sweep = lambda: figures(raidlab.sweep(ARRAYS, executor=executor, **LOAD))  # noqa: E731
    while_killing(name, pids, sweep, ALONE)
    while_killing(f"{name}, plan", pids, lambda: planned(raidlab.plan(executor=executor, **PLAN)), PLAN_ALONE)
    own = figures(raidlab.sweep(ARRAYS[:2], mine, [1, 8], run="1s", ramp="0s", executor=executor, progress=False))
    assert own == figures(raidlab.sweep(ARRAYS[:2], mine, [1, 8], run="1s", ramp="0s", progress=False))
    print(f"{name}: a workload of this module, the same as alone")


def timed(work):
    """What comes of work, and the seconds that it took."""
    started = time.monotonic()
    return work(), time.monotonic() - started


def while_killing(name, pids, work, of_one):
    """Works while a worker is killed, after a quarter of the time that one process took."""
    alone, alone_seconds = of_one
    killed, kill_after = [], alone_seconds / 4

    def kill():
        time.sleep(kill_after)
        killed.extend(pids()[:1])
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    found, seconds = timed(work)
    killer.join()
    assert killed, "no worker was there to be killed"
    assert seconds > kill_after, "it was over before a worker was killed"
    assert found == alone, f"{name}: another answer than that of one process"
    print(f"{name}: {seconds:.1f} s, worker {killed[0]} killed, the same as alone")


def worker_pid():
    return os.getpid()


def on_dask():
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        checked("dask", client.get_executor(), lambda: list(client.run(os.getpid).values()))


def on_ray():
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    pid = ray.remote(worker_pid)
    checked("ray", RayExecutor(2), lambda: [ray.get(pid.remote())])
    ray.shutdown()


if __name__ == "__main__":
    ALONE = timed(lambda: figures(raidlab.sweep(ARRAYS, **LOAD)))
    PLAN_ALONE = timed(lambda: planned(raidlab.plan(**PLAN)))
    on_dask()
    on_ray()
