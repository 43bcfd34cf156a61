"""Servers under load that are killed, and members that lose what was not flushed; everything is checked after each crash.

A case is one array through some crashes. Its seed draws level, members, strip, block, metadata policy, integrity, write
policy, member caches, kept memory, threads, whether members are whole, missing or being rebuilt, and what a crash is:

kill    SIGKILL of the server (sometimes SIGTERM, in mid-load); members are files, whose page cache survives
power   SIGKILL of the server and of its members, which are nbdkit with volatile caches (volatile.c)

After each crash the whole volume is read and compared with the model; now and then the array gets in sync, is checked, and
is read once more without one of its members. Where a member is missing and the policy has a write hole, a start must be
refused, and the case ends. Left out: two failures at once, errors of members (surroundings.py), flipped bits (flips.py).
"""

import signal
import time

import model
from harness import MIB, Array, Problem, VolatileMembers, connect, wait_until

LEVELS = (("5", 4), ("5", 6), ("6", 5), ("6", 6), ("10", 4), ("10", 6), ("1e", 3), ("1e", 5), ("50:2-spans", 6),
          ("60:2-spans", 8), ("1", 2), ("10:far", 4))
METADATA = ("log", "log", "log", "bitmap", "bitmap", "resync")
PARITY = ("5", "6", "50", "60")
LOG_MIB = 2
CRASHES_PER_CASE = 8


class Plan:
    """What a seed draws."""

    def __init__(self, draw):
        self.level, self.members = draw.choice(LEVELS)
        self.metadata = draw.choice(METADATA)
        self.power = draw.random() < 0.5
        self.strip_kib = draw.choice((16, 64))
        self.block = draw.choice(("512", "4KiB", "4KiB"))
        self.integrity = draw.random() < 0.35
        self.back = draw.random() < 0.5
        self.kept_memory = draw.random() < 0.2
        self.disk_cache = draw.random() < 0.7
        self.threads = draw.choice(((0, 0), (0, 0), (1, 1), (2, 0), (0, 2)))
        self.small_cache = draw.random() < 0.3
        self.state = draw.choice(("whole", "whole", "degraded", "rebuilding"))
        self.hole = self.level.split(":")[0] in PARITY and self.metadata != "log"

    def __str__(self):
        flags = [self.level, f"{self.members} members", self.metadata, "power" if self.power else "kill", self.state]
        flags += [f"{self.strip_kib}KiB", self.block] + ["integrity"] * self.integrity
        flags += ["write-back" if self.back else "write-through"] + ["kept-memory"] * self.kept_memory
        flags += ["disk-cache off"] * (not self.disk_cache) + [f"threads {self.threads}"] * any(self.threads)
        return ", ".join(flags)

    def create(self):
        log = ["--log-size", f"{LOG_MIB}MiB"] if self.metadata == "log" else []
        size = [] if self.power else ["--member-size", "2MiB"]
        return ["--level", self.level, "--metadata", self.metadata, "--strip-size", f"{self.strip_kib}KiB", "--block-size",
                self.block, *log, *size, *["--integrity"] * self.integrity]

    def serve(self, case):
        kept = ["--kept-memory", case.path("kept")] if self.kept_memory else []
        policy = "write-back" if self.back else "write-through"
        io, parity = self.threads
        return ["--write-policy", policy, "--disk-cache", "on" if self.disk_cache else "off", "--io-threads", str(io),
                "--parity-threads", str(parity), *kept, *["--cache-size", "1MiB"] * self.small_cache]

    def durable_at_once(self):
        """Whether a crash may take nothing that was acknowledged."""
        return (not self.back or self.kept_memory) and (not self.power or not self.disk_cache)


class Crashes:
    def __init__(self, case, plan, crashes, *member_settings):
        self.case, self.draw, self.plan, self.crashes = case, case.draw, plan, crashes
        case.label = str(plan)
        self.power = None
        if plan.power:
            member_bytes = (4 + LOG_MIB * (plan.metadata == "log")) * MIB
            self.power = VolatileMembers(case, plan.members, member_bytes, *member_settings)
        members = self.power.uris if self.power else [case.path(f"m{number}") for number in range(plan.members)]
        self.array = Array(case, members, plan.create(), plan.serve(case))
        self.model = None
        self.gone = None
        self.fresh = 0

    def run(self):
        for number in range(self.crashes):
            if not self.start_and_verify():
                return
            self.set_state()
            self.load_and_crash()
            self.case.count("crashes")
        if self.start_and_verify():
            self.last_look()

    def start_and_verify(self):
        """False where the array rightly does not start."""
        started = self.array.start()
        if not started:
            said = self.array.said()
            rightly = self.plan.hole and self.gone is not None and "write" in said
            self.case.require(rightly, f"the start was refused: {said}")
            self.case.count("refused for the write hole")
            return False
        handle = connect(self.array.uri)
        if self.model is None:
            self.model = model.Model(handle.get_size())
        self.verify(handle, "after a crash")
        handle.flush()
        handle.shutdown()
        if self.draw.random() < 0.15:
            self.array.in_sync()
            if self.gone is None:
                self.array.check()
        return True

    def verify(self, handle, when):
        wrong = self.model.verify(handle)
        self.case.count("sectors", self.model.sectors)
        if wrong:
            self.case.require(False, f"{when}: {len(wrong)} sectors are wrong: (sector, found, allowed) {wrong[:4]}")

    def set_state(self):
        """A member is failed, and another begins to be rebuilt, as the plan has it."""
        array = self.array
        if self.plan.state == "whole" or self.plan.state == "degraded" and self.gone is not None:
            return
        if self.plan.state == "rebuilding" and self.gone is not None and self.draw.random() < 0.5:
            return
        self.repaired()
        if self.gone is None:
            array.in_sync()
            self.gone = self.draw.randrange(self.plan.members)
            array.must("fail", str(self.gone))
        if self.plan.state == "rebuilding":
            self.replace()

    def repaired(self):
        """Notes that a rebuild of before has ended."""
        if self.gone is not None and self.array.status()["devices"][self.gone]["state"] == "in-sync":
            self.gone = None

    def replace(self):
        state = self.array.status()["devices"][self.gone]["state"]
        self.array.must("rebuild", "--rate", self.draw.choice(("512KiB", "1MiB", "8MiB")), "--no-wait")
        if state != "missing":
            return
        self.fresh += 1
        number = self.plan.members + self.fresh
        fresh = self.power.add(number) if self.power else self.case.path(f"m{number}")
        self.array.must("replace", str(self.gone), fresh)
        self.array.devices[self.gone] = fresh

    def load_and_crash(self):
        handles = [connect(self.array.uri) for _ in range(self.draw.choice((1, 1, 3)))]
        load = model.Load(self.model, handles, self.draw, self.plan.durable_at_once())
        until = time.monotonic() + self.draw.choice((0.03, 0.1, 0.3, 0.8)) * self.draw.random() + 0.01
        in_time = True
        while in_time and time.monotonic() < until:
            in_time = load.step()
        self.array.alive()
        load.ending = True
        self.crash(load)
        self.case.count("acknowledged", load.acknowledged)
        self.case.require(not load.wrong, f"reads under load: (sector, found, allowed) {load.wrong[:4]}")
        self.case.require(not load.errors, f"{load.errors} requests failed under load")

    def crash(self, load):
        if self.power:
            order = [self.power.cut_power, self.array.kill]
            for step in order if self.draw.random() < 0.5 else reversed(order):
                step()
            self.power.start()
        elif self.draw.random() < 0.1:
            self.array.process.send_signal(signal.SIGTERM)
            load.drain()
            self.array.kill(signal.SIGTERM)
        else:
            self.array.kill()

    def last_look(self):
        """In sync, checked, and all there without one member, too."""
        array = self.array
        array.must("rebuild", "--rate", "none", "--no-wait")
        self.repaired()
        if self.gone is not None and array.status()["devices"][self.gone]["state"] == "rebuilding":
            wait_until(lambda: array.status()["devices"][self.gone]["state"] == "in-sync", 60, "a rebuild does not end")
            self.gone = None
        array.in_sync()
        if self.gone is None:
            array.check()
            array.must("fail", str(self.draw.randrange(self.plan.members)))
            handle = connect(array.uri)
            self.verify(handle, "without a member")
            handle.shutdown()
        code, said = array.command("stop")
        self.case.require(code == 0, f"stop: exit {code}: {said[-300:]}")


def run(case):
    Crashes(case, Plan(case.draw), CRASHES_PER_CASE).run()


def run_liar(case):
    """Members that forget three flushes in four: the checks must notice, or they can't fail."""
    plan = Plan(case.draw)
    # What leaves kept memory does so with forced unit access, and is not concerned.
    plan.power, plan.disk_cache, plan.state, plan.kept_memory = True, True, "whole", False
    try:
        Crashes(case, plan, 4 * CRASHES_PER_CASE, "lie=flush", "keep=20").run()
    except Problem as problem:
        if any(sign in str(problem) for sign in ("sectors are wrong", "check: exit 1", "start was refused")):
            return case.count("caught")
        raise
    raise Problem("members that forgot flushes were not noticed")
