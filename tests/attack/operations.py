"""Crashes where an operator is at work, with settings as delivered, and of the creation itself.

operations  under load, a command of the operator is under way when the server is killed (or its members lose power, too):
            replace, rebuild, check, repair, fail, stop, or none. Another client flushes what the others wrote
delivered   levels 1, 5, 6 and 10 without a setting but integrity; RAID 6 loses a second member now and then
creations   `array create` is killed at any moment, again and again, until it comes to its end: the same command must do, the
            array holds zeros and redundancy that agrees, and a file of somebody else beside it is left alone

What must hold after each crash is what crashes.py says. Left out: NVRAM, double failures, which crashes.py has.
"""

import signal
import subprocess
import time

import model
from crashes import Crashes, Plan
from harness import Array, Problem, connect, destroy_data

COMMANDS = ("replace", "replace", "rebuild", "check", "repair", "fail", "stop", "none")
LEVELS = (("1", 3), ("5", 4), ("5", 5), ("6", 5), ("6", 6), ("10", 4))
DELIVERED = (("1", 2), ("5", 4), ("6", 5), ("10", 4))
KILLS_MAX = 12


class OperationsPlan(Plan):
    """Members are whole at first, and a log or a bitmap tells what a crash left."""

    def __init__(self, draw):
        super().__init__(draw)
        self.level, self.members = draw.choice(LEVELS)
        self.metadata = draw.choice(("log", "log", "log", "bitmap"))
        self.nvram, self.double, self.state = False, False, "whole"
        self.hole = self.level in ("5", "6") and self.metadata != "log"


class Operations(Crashes):
    def load_and_crash(self):
        handles = [connect(self.array.uri) for _ in range(self.draw.choice((1, 2)))]
        self.flusher = connect(self.array.uri)
        load = model.Load(self.model, handles, self.draw, self.plan.durable_at_once(), tears=self.plan.threads[0] > 0)
        load.flushes = 0
        command = self.draw.choice(COMMANDS)
        operator = self.begin(command)
        self.work(load, self.draw.random() * self.draw.choice((0.05, 0.2, 0.6)) + 0.02)
        if command == "stop":
            load.ending = True
            operator = self.order("stop")
            self.work(load, self.draw.random() * 0.05)
        else:
            self.array.alive()
        load.ending = True
        self.crash(load)
        if operator:
            operator.wait(60)
        self.case.count(f"during {command}")
        self.case.count("acknowledged", load.acknowledged)
        self.case.require(not load.wrong, f"reads under load: (sector, found, allowed) {load.wrong[:4]}")

    def work(self, load, seconds):
        """A load whose writes another client flushes."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and load.step():
            if self.draw.random() < 0.05:
                covered = set(self.model.not_durable)
                try:
                    self.flusher.flush()
                except model.nbd.Error:
                    return
                self.model.flushed(covered)

    def begin(self, command):
        """Lets a command begin; its process, if it is still under way."""
        self.look()
        if command in ("replace", "rebuild"):
            return self.begin_rebuild(command)
        if command in ("check", "repair"):
            self.array.must("rebuild", "--rate", "4MiB", "--no-wait")
            return self.order("check", *["--repair"] * (command == "repair"))
        if command == "fail" and not self.gone:
            self.array.in_sync()
            place = self.draw.randrange(self.plan.members)
            self.gone.add(place)
            return self.order("fail", str(place))
        return None

    def begin_rebuild(self, command):
        if not self.gone:
            self.array.in_sync()
            self.fail(self.draw.randrange(self.plan.members))
        self.array.must("rebuild", "--rate", self.draw.choice(("1MiB", "4MiB", "none")), "--no-wait")
        place = min(self.gone)
        if command == "rebuild" or self.array.status()["devices"][place]["state"] != "missing":
            self.replace(place)
            return None
        self.fresh += 1
        number = self.plan.members + self.fresh
        fresh = self.supplies[0].add(number) if self.supplies else self.case.path(f"m{number}")
        self.array.devices[place] = fresh
        return self.order("replace", str(place), fresh, *destroy_data(fresh))

    def order(self, verb, *arguments):
        command = [self.case.binary, "array", verb, self.array.control, *arguments]
        return self.case.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class DeliveredPlan(Plan):
    """Nothing is set but what an operator can't leave out, and integrity."""

    def __init__(self, draw):
        super().__init__(draw)
        self.level, self.members = draw.choice(DELIVERED)
        self.double = self.level == "6" and draw.random() < 0.5
        self.metadata, self.state, self.hole = "log", "degraded" if self.double else "whole", False
        self.back, self.nvram, self.disk_cache, self.small_cache, self.threads = False, False, True, False, (0, 0)
        # The log is as long as it is made by itself.
        self.log_mib, self.strip_kib, self.block = 16, 64, "4KiB"

    def create(self):
        size = [] if self.power else ["--member-size", "2MiB"]
        return ["--level", self.level, *size, *["--integrity"] * self.integrity]

    def serve(self, case):
        return []


def run(case):
    Operations(case, OperationsPlan(case.draw), 2 if case.short else 6).run()


def run_delivered(case):
    Crashes(case, DeliveredPlan(case.draw), 2 if case.short else 6).run()


def run_creations(case):
    level, members = case.draw.choice(DELIVERED)
    case.label = f"{level}, {members} members"
    names, precious = [case.path(f"m{number}") for number in range(members)], case.path("precious")
    with open(precious, "wb") as file:
        file.write(b"precious" * 1000)
    create = ["--level", level, "--member-size", "8MiB", *["--integrity"] * (case.draw.random() < 0.4)]
    for _ in range(KILLS_MAX):
        making = case.start(case.binary, "array", "create", "a", *names, *create, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        time.sleep(case.draw.random() * case.draw.choice((0.004, 0.012, 0.03)))
        if making.poll() is None:
            making.send_signal(signal.SIGKILL)
            making.communicate()
            case.count("killed creations")
        elif making.returncode:
            raise Problem(f"a creation that was killed can't be repeated: {making.communicate()[0].decode()[-400:]}")
    # Whoever repeats it to its end has an array.
    array = Array(case, names, create)
    array.must_start()
    handle = connect(array.uri)
    wrong = model.Model(handle.get_size()).verify(handle)
    handle.shutdown()
    case.require(not wrong, f"a new array is not zeros: {wrong[:4]}")
    array.in_sync()
    array.check()
    array.must("stop")
    with open(precious, "rb") as file:
        case.require(file.read() == b"precious" * 1000, "a file of somebody else was written over")
