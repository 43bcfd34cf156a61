"""Host I/Os a second of simulations that call Python (docs/python.md): `python bench/python-own.py` where the wheel is installed.

Each line is the best of three on one thread, beside the same without Python.
"""

import random
import time

import raidlab

NVME = raidlab.Array(level="0", members=4, drive="generic-nvme", controller="linux-md", region="100GB", condition="fresh")
BATCH = 4096


def lists(target):
    chance = random.Random(target.seed)
    blocks = target.region_bytes // 4096
    while True:
        yield [int(chance.random() * blocks) * 4096 for _ in range(BATCH)], 4096, [chance.random() < 0.3 for _ in range(BATCH)]


def with_numpy(target):
    import numpy

    chance = numpy.random.default_rng(target.seed)
    blocks = target.region_bytes // 4096
    while True:
        yield chance.integers(0, blocks, BATCH) * 4096, 4096, chance.random(BATCH) < 0.3


def one_by_one(target):
    chance = random.Random(target.seed)
    blocks = target.region_bytes // 4096
    while True:
        yield [int(chance.random() * blocks) * 4096], 4096, [chance.random() < 0.3]


class Steady:
    def __init__(self, number):
        pass

    def service(self, now_ns, op, offset_bytes, bytes):
        return 80_000


def rate(workload, array=NVME, catalog=None, virtual="500ms"):
    best = 0.0
    for _ in range(3):
        started = time.perf_counter()
        run = raidlab.simulate(array, workload, 64, ramp="0s", run=virtual, bottleneck=False, threads=1, catalog=catalog, progress=False)[0]
        best = max(best, run.to_dict()["total"]["requests"] / (time.perf_counter() - started))
    return best


def main():
    own = raidlab.Catalog(drives={"mine": raidlab.OwnDrive(Steady, like="generic-nvme", parallel=32)})
    of_own = {"drive": "mine", "controller": "linux-md", "region": "100GB"}
    rows = [
        ("a built-in workload (fastt600-random-read) on 4 modelled NVMe drives, RAID 0", rate("fastt600-random-read")),
        (f"own workload, lists in batches of {BATCH}", rate(lists)),
        (f"own workload, NumPy in batches of {BATCH}", rate(with_numpy)),
        ("own workload, one request a batch", rate(one_by_one)),
        ("built-in workload on own drives, RAID 0", rate("fastt600-random-read", raidlab.Array(level="0", members=4, **of_own), own)),
        ("own workload of lists on own drives, RAID 0", rate(lists, raidlab.Array(level="0", members=4, **of_own), own)),
        ("own workload of lists on own drives, RAID 5", rate(lists, raidlab.Array(level="5", members=5, **of_own), own)),
    ]
    for what, found in rows:
        print(f"| {what} | {found:,.0f} |")


if __name__ == "__main__":
    main()
