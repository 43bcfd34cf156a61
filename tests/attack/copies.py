"""Members that come back from a copy, as from a backup, and members of two copies of an array that were both used.

crash     a member is copied after a crash, and the copy put back after the array was started, written and killed once more
running   a member is copied under load, and the copy put back after a clean stop
stopped   all members are copied after a clean stop, both sets are used, and members of both are then served together
crashed   the same after a crash

What must hold: the start is refused and names the devices, or it tells those that it does not use, is not optimal, and
holds what was acknowledged to the others.
Left out: a copy that was taken under load and put back after a crash of the same run, which nothing shows (docs/fault-tolerance.md).
"""

import copy
import shutil
import time

import model
from harness import Array, connect

LEVELS = (("1", 2), ("5", 4), ("6", 5), ("10", 4))
KINDS = ("crash", "running", "stopped", "crashed")


def run(case):
    """All four kinds, on the level that is the seed's turn."""
    level, members = LEVELS[case.seed % len(LEVELS)]
    for kind in case.draw.sample(KINDS, len(KINDS)):
        case.label = f"{kind}, {level}"
        Copies(case, kind, level, members).run()
        case.count(kind)


class Copies:
    def __init__(self, case, kind, level, members):
        self.case, self.draw, self.kind, self.members = case, case.draw, kind, members
        paths = [case.path(f"{kind}{number}") for number in range(members)]
        create = ["--level", level, "--member-size", "2MiB", "--log-size", "1MiB"]
        self.array = Array(case, paths, create, ["--write-policy", "write-through"])
        self.array.must_start()
        self.model = model.Model(connect(self.array.uri).get_size())
        self.load()

    def run(self):
        (self.one_member if self.kind in ("crash", "running") else self.two_sets)()

    def one_member(self):
        place = self.draw.randrange(self.members)
        if self.kind == "crash":
            self.array.kill()
        backup = self.copy(self.array.devices[place], "backup")
        if self.kind == "crash":
            self.verify_start(self.array.devices)
        # Every sector, so that the copy lacks something wherever it is read.
        self.fill()
        self.end("kill" if self.kind == "crash" else "stop")
        shutil.copyfile(backup, self.array.devices[place])
        self.judge(self.array.devices, [place], [self.model])

    def two_sets(self):
        self.end("stop" if self.kind == "stopped" else "kill")
        others = [self.copy(path, "other") for path in self.array.devices]
        books = [self.model, copy.deepcopy(self.model)]
        for devices, self.model in zip((self.array.devices, others), books):
            for _ in range(self.draw.choice((1, 1, 2))):
                self.verify_start(devices)
                self.fill()
                self.end(self.draw.choice(("stop", "kill")))
        half = sorted(self.draw.sample(range(self.members), self.members // 2))
        mixed = [others[number] if number in half else path for number, path in enumerate(self.array.devices)]
        self.judge(mixed, half, books)

    def judge(self, devices, copies, books):
        """Starts devices of which those at `copies` are not of the rest's history; what is served is one of `books`."""
        told = " ".join(self.array.raidlab("array", "assemble", *devices)[1].split())
        names = [devices[place].rsplit("/", 1)[1] for place in copies]
        self.case.require("stale" in told or "was started in parts" in told, f"assemble does not tell {names}: {told}")
        if not self.array.start(devices=devices):
            said = self.array.said(2000)
            self.case.require("device" in said and "start" in said, f"the refusal does not say which devices: {said}")
            self.case.count("refused")
            # The larger part, or either half, may still be served by hand.
            keep = [path for place, path in enumerate(devices) if place not in copies]
            if len(books) > 1 or not self.array.start("--accept-minority", devices=keep):
                return
        condition = self.array.status()["condition"]
        self.case.require(condition != "optimal", f"optimal with copies {names}")
        handle = connect(self.array.uri)
        wrong = [copy.deepcopy(book).verify(handle) for book in books]
        self.case.require(not all(wrong), f"copies {names}: sectors are wrong: (sector, found, allowed) {wrong[0][:4]}")
        self.end("stop")

    def verify_start(self, devices):
        self.array.must_start(devices=devices)
        wrong = self.model.verify(connect(self.array.uri))
        self.case.require(not wrong, f"{len(wrong)} sectors are wrong: (sector, found, allowed) {wrong[:4]}")

    def load(self):
        load = model.Load(self.model, [connect(self.array.uri)], self.draw, True)
        until = time.monotonic() + 0.1
        while time.monotonic() < until:
            self.case.require(load.step(), "the connection broke")
        self.case.require(load.drain() and not load.errors and not load.wrong, f"under load: {load.errors}, {load.wrong[:4]}")
        self.case.count("acknowledged", load.acknowledged)

    def fill(self):
        """Writes every sector."""
        handle, step = connect(self.array.uri), 256
        for first in range(0, self.model.sectors, step):
            count = min(step, self.model.sectors - first)
            version = self.model.send(first, count)
            handle.pwrite(b"".join(model.stamp(sector, version) for sector in range(first, first + count)), first * model.SECTOR)
            self.model.end(version, first, count, True)
        handle.flush()

    def end(self, how):
        if how == "kill":
            self.array.kill()
        else:
            self.array.must("stop")
            self.array.process.wait(30)

    def copy(self, path, suffix):
        return shutil.copyfile(path, f"{path}.{suffix}")
