"""Servers under load that are killed, and members that lose what was not flushed; everything is checked after each crash.

A case is one array through some crashes. Its seed draws level, members, strip, block, metadata policy, integrity, write
policy, member caches, NVRAM, threads, whether members are whole, missing or being rebuilt, and what a crash is:

kill    SIGKILL of the server (sometimes SIGTERM, in mid-load); members are files, whose page cache survives
power   SIGKILL of the server and of its members, which are nbdkit with volatile caches (volatile.c)

Some plans have double failures. Where one member is missing or being rebuilt, under load
- RAID 6 and 60 lose a second one (`fail`);
- a member that has a power supply of its own loses power, which may be one too many: it returns after the crash.

After each crash the whole volume is read and compared with the model; now and then the array gets in sync, is checked, and
is read once more without one of its members, or two. Where a member is missing and the policy has a write hole, a start must be
refused, and the case ends. Left out: errors of members (surroundings.py), flipped bits (flips.py).
"""

import signal
import time

import model
from harness import MIB, Array, Problem, VolatileMembers, connect, destroy_data, wait_until

LEVELS = (("5", 4), ("5", 6), ("6", 5), ("6", 6), ("10", 4), ("10", 6), ("1e", 3), ("1e", 5), ("50:2-spans", 6),
          ("60:2-spans", 8), ("1", 2), ("10:far", 4))
METADATA = ("log", "log", "log", "bitmap", "bitmap", "resync")
PARITY = ("5", "6", "50", "60")
TWO_MAY_GO = ("6", "60:2-spans")
LOG_MIB = 2
CRASHES_PER_CASE = 8


class Plan:
    """What a seed draws."""

    def __init__(self, draw):
        self.level, self.members = draw.choice(LEVELS)
        self.metadata = draw.choice(METADATA)
        self.power = draw.random() < 0.5
        self.log_mib = LOG_MIB
        self.strip_kib = draw.choice((16, 64))
        self.block = draw.choice(("512B", "4KiB", "4KiB"))
        self.integrity = draw.random() < 0.35
        self.back = draw.random() < 0.5
        self.nvram = draw.random() < 0.2
        self.disk_cache = draw.random() < 0.7
        self.threads = draw.choice(((0, 0), (0, 0), (1, 1), (2, 0), (0, 2)))
        self.small_cache = draw.random() < 0.3
        self.state = draw.choice(("whole", "whole", "degraded", "rebuilding"))
        self.hole = self.level.split(":")[0] in PARITY and self.metadata != "log"
        self.double = self.state != "whole" and draw.random() < 0.4
        # A file can't vanish under load.
        self.power |= self.double and self.level not in TWO_MAY_GO

    def __str__(self):
        flags = [self.level, f"{self.members} members", self.metadata, "power" if self.power else "kill", self.state]
        flags += ["double failures"] * self.double
        flags += [f"{self.strip_kib}KiB", self.block] + ["integrity"] * self.integrity
        flags += ["write-back" if self.back else "write-through"] + ["nvram"] * self.nvram
        flags += ["disk-cache off"] * (not self.disk_cache) + [f"threads {self.threads}"] * any(self.threads)
        return ", ".join(flags)

    def create(self):
        log = ["--log-size", f"{self.log_mib}MiB"] if self.metadata == "log" else []
        size = [] if self.power else ["--member-size", "2MiB"]
        return ["--level", self.level, "--metadata", self.metadata, "--strip-size", f"{self.strip_kib}KiB", "--block-size",
                self.block, *log, *size, *["--integrity"] * self.integrity]

    def serve(self, case):
        kept = ["--nvram", case.path("kept")] if self.nvram else []
        policy = "write-back" if self.back else "write-through"
        io, parity = self.threads
        return ["--write-policy", policy, "--disk-cache", "on" if self.disk_cache else "off", "--io-threads", str(io),
                "--parity-threads", str(parity), *kept, *["--cache-size", "1MiB"] * self.small_cache]

    def durable_at_once(self):
        """Whether a crash may take nothing that was acknowledged."""
        return (not self.back or self.nvram) and (not self.power or not self.disk_cache)


class Crashes:
    def __init__(self, case, plan, crashes, *member_settings):
        self.case, self.draw, self.plan, self.crashes = case, case.draw, plan, crashes
        case.label = str(plan)
        # Those that share a power supply, then the one that has its own.
        self.supplies = self.power_supplies(*member_settings) if plan.power else []
        members = [uri for supply in self.supplies for uri in supply.uris]
        self.array = Array(case, members or [case.path(f"m{number}") for number in range(plan.members)], plan.create(),
                           plan.serve(case))
        self.model = None
        # Places whose members may be missing or being rebuilt.
        self.gone = set()
        self.fresh = 0

    def power_supplies(self, *member_settings):
        plan = self.plan
        member_bytes = (4 + plan.log_mib * (plan.metadata == "log")) * MIB
        supplies = [VolatileMembers(self.case, plan.members - plan.double, member_bytes, *member_settings)]
        if plan.double:
            supplies.append(VolatileMembers(self.case, 1, member_bytes, *member_settings, name="alone"))
        return supplies

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
            rightly = self.plan.hole and self.gone and "write" in said
            self.case.require(rightly, f"the start was refused: {said}")
            self.case.count("refused for the write hole")
            return False
        handle = connect(self.array.uri)
        if self.model is None:
            self.model = model.Model(handle.get_size())
        self.verify(handle, "after a crash")
        handle.flush()
        handle.shutdown()
        self.look()
        if self.draw.random() < 0.15:
            self.array.in_sync()
            if not self.gone:
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
        if self.plan.state == "whole" or self.plan.state == "degraded" and self.gone:
            return
        if self.plan.state == "rebuilding" and self.gone and self.draw.random() < 0.5:
            return
        self.look()
        if not self.gone:
            array.in_sync()
            self.fail(self.draw.randrange(self.plan.members))
        if self.plan.state == "rebuilding":
            array.must("rebuild", "--rate", self.draw.choice(("512KiB", "1MiB", "8MiB")), "--no-wait")
            for place in sorted(self.gone):
                self.replace(place)

    def fail(self, place):
        self.array.must("fail", str(place))
        self.gone.add(place)

    def look(self):
        """Notes which members are gone: no others than those that were lost."""
        # Places of spares follow.
        devices = self.array.status()["devices"][: self.plan.members]
        gone = {place for place, device in enumerate(devices) if device["state"] != "in-sync"}
        self.case.require(gone <= self.gone, f"members {gone} are not in sync, and {self.gone} were lost")
        self.gone = gone

    def replace(self, place):
        if self.array.status()["devices"][place]["state"] != "missing":
            return
        self.fresh += 1
        number = self.plan.members + self.fresh
        fresh = self.supplies[0].add(number) if self.supplies else self.case.path(f"m{number}")
        self.array.must("replace", str(place), fresh, *destroy_data(fresh))
        self.array.devices[place] = fresh

    def load_and_crash(self):
        handles = [connect(self.array.uri) for _ in range(self.draw.choice((1, 1, 3)))]
        load = model.Load(self.model, handles, self.draw, self.plan.durable_at_once(), tears=self.plan.threads[0] > 0)
        seconds = self.draw.choice((0.03, 0.1, 0.3, 0.8)) * self.draw.random() + 0.01
        if self.second_may_fail():
            self.work(load, seconds)
            self.fail(self.draw.choice([place for place in range(self.plan.members) if place not in self.gone]))
            self.case.count("second members failed")
        self.work(load, seconds)
        self.array.alive()
        load.ending = True
        self.crash(load)
        self.case.count("acknowledged", load.acknowledged)
        self.case.require(not load.wrong, f"reads under load: (sector, found, allowed) {load.wrong[:4]}")
        self.case.require(not load.errors, f"{load.errors} requests failed under load")

    def work(self, load, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until and load.step():
            pass

    def second_may_fail(self):
        """With a write hole the start would be refused, and nothing be learnt."""
        plan = self.plan
        return plan.double and plan.level in TWO_MAY_GO and not plan.hole and len(self.gone) == 1 and self.draw.random() < 0.5

    def crash(self, load):
        if self.supplies:
            steps = [supply.cut_power for supply in self.supplies]
            if self.plan.double and self.draw.random() < 0.5:
                self.lose_the_one_alone(load)
                # Some crashes are the server's alone: then the others keep what the one that returns has lost.
                steps = steps[:1] * self.draw.choice((0, 1))
            self.draw.shuffle(steps)
            # A server that sees one supply go before the other rightly notes that members are lost.
            steps.insert(0 if self.plan.double else self.draw.choice((0, 1)), self.array.kill)
            for step in steps:
                step()
            for supply in self.supplies:
                supply.start()
        elif self.draw.random() < 0.1:
            self.array.process.send_signal(signal.SIGTERM)
            load.drain()
            self.array.kill(signal.SIGTERM)
        else:
            self.array.kill()

    def lose_the_one_alone(self, load):
        """Requests may fail from here on, if that is one too many."""
        alone = self.supplies[-1]
        alone.cut_power()
        place = self.plan.members - 1
        if self.array.devices[place] in alone.uris:
            self.case.count("second members that returned", bool(self.gone))
            self.gone.add(place)
            load.may_lose = self.plan.back
        self.work(load, self.draw.choice((0, 0.05, 0.3)))
        if load.lost:
            told = any(event["kind"] == "writes-lost" for event in self.array.status()["events"])
            self.case.require(told, f"{load.lost} sectors went back in time under load, and no event tells of lost writes")
            self.case.count("reads of lost writes", load.lost)

    def last_look(self):
        """In sync, checked, and all there without one member, too."""
        array = self.array
        array.must("rebuild", "--rate", "none", "--no-wait")
        rebuilds = lambda: any(device["state"] == "rebuilding" for device in array.status()["devices"])
        wait_until(lambda: not rebuilds(), 60, "a rebuild does not end")
        self.look()
        array.in_sync()
        if not self.gone:
            array.check()
            for place in self.draw.sample(range(self.plan.members), 1 + (self.plan.level in TWO_MAY_GO)):
                self.fail(place)
            handle = connect(array.uri)
            self.verify(handle, f"without members {self.gone}")
            handle.shutdown()
        code, said = array.command("stop")
        self.case.require(code == 0, f"stop: exit {code}: {said[-300:]}")


def run(case):
    Crashes(case, Plan(case.draw), CRASHES_PER_CASE).run()


def run_liar(case):
    """Members that forget three flushes in four: the checks must notice, or they can't fail."""
    plan = Plan(case.draw)
    # What leaves NVRAM does so with forced unit access, and is not concerned.
    plan.power, plan.disk_cache, plan.state, plan.nvram, plan.double = True, True, "whole", False, False
    try:
        Crashes(case, plan, 4 * CRASHES_PER_CASE, "lie=flush", "keep=20").run()
    except Problem as problem:
        if any(sign in str(problem) for sign in ("sectors are wrong", "check: exit 1", "start was refused", "are not in sync")):
            return case.count("caught")
        raise
    raise Problem("members that forgot flushes were not noticed")
