"""Sweeps on local clusters of Dask and Ray, of which a worker is killed: nothing is lost, nothing twice, the same as one process."""

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


class RayExecutor(Executor):
    """An executor of `concurrent.futures` on Ray's tasks."""

    def submit(self, function, *arguments):
        import ray

        return ray.remote(max_retries=5)(function).remote(*arguments).future()


def figures(runs):
    rows = runs.to_dicts()
    for row in rows:
        row["cost"].pop("wall_ns")
    return rows


def checked(name, executor, pids):
    """Sweeps on `executor` while one of the workers that `pids` tells is killed."""
    killed = []

    def kill():
        time.sleep(1)
        killed.extend(pids()[:1])
        for pid in killed:
            os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    started = time.monotonic()
    runs = figures(raidlab.sweep(ARRAYS, executor=executor, **LOAD))
    seconds = time.monotonic() - started
    killer.join()
    assert killed, "no worker was there to be killed"
    assert seconds > 1, "it was over before a worker was killed"
    assert runs == ALONE, f"{name}: other runs than those of one process"
    print(f"{name}: {len(runs)} runs in {seconds:.1f} s, worker {killed[0]} killed, the same as alone")


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
    checked("ray", RayExecutor(), lambda: [ray.get(pid.remote())])
    ray.shutdown()


if __name__ == "__main__":
    ALONE = figures(raidlab.sweep(ARRAYS, **LOAD))
    on_dask()
    on_ray()
