"""Members whose surroundings fail them: full disks, sectors that can't be read, members that are slow, silent or gone.

full        members with holes on a tmpfs that gets full under load: for less than --member-timeout, which no request notices; or
            for longer, then the server ends in its own time or by SIGKILL and there is room again (root only)
unreadable  64 KiB of a member can't be read: whole, or with another member failed, or being rebuilt
slow        a member that stands still for moments (SIGSTOP and SIGCONT)
silent      a member that answers nothing for longer than --member-timeout, and then does all it was sent
vanishing   a member whose connection goes

What must hold: no request without an end, no wrong data, then and after a start; blocks are unreadable only where redundancy was
used up by two faults, and never because a disk was full; `status` tells of it.
Left out: several members at once, but for full disks.
"""

import os
import signal
import subprocess
import time

import model
from harness import MIB, Array, VolatileMembers, connect, destroy_data, end, wait_until

KINDS = ("full", "unreadable", "slow", "silent", "vanishing")
LEVELS = (("5", 4), ("6", 5), ("10", 4))
# Of members that are to be lost by it, and of those that are not: a busy machine may be late by seconds itself.
SHORT_LIMIT_SECONDS = 2
LONG_LIMIT_SECONDS = 20
MEMBER_BYTES = 6 * MIB
BAD_BYTES = 64 << 10


class Surroundings:
    def __init__(self, case, kind):
        self.case, self.draw, self.kind = case, case.draw, kind
        self.level, self.members = case.draw.choice(LEVELS)
        self.metadata = case.draw.choice(("log", "bitmap")) if kind == "full" else "log"
        self.integrity = case.draw.random() < 0.3
        case.label = ", ".join([kind, self.level, f"{self.members} members", self.metadata, *["integrity"] * self.integrity])
        self.limit_seconds = SHORT_LIMIT_SECONDS if kind == "silent" else LONG_LIMIT_SECONDS
        self.model = self.array = None

    def create(self, members, *more, policy=None):
        log = ["--log-size", "1MiB"] if self.metadata == "log" else []
        create = ["--level", self.level, "--metadata", self.metadata, *log, *["--integrity"] * self.integrity, *more]
        policy = policy or self.draw.choice(("write-through", "write-back"))
        serve = ["--write-policy", policy, "--member-timeout", f"{self.limit_seconds}s"]
        self.array = Array(self.case, members, create, serve)
        self.array.must_start()
        self.model = model.Model(connect(self.array.uri).get_size())

    def work(self, seconds, may_fail=False, meanwhile=lambda: None):
        """A load, and a flush at its end; returns how many requests failed."""
        handle = connect(self.array.uri)
        load = model.Load(self.model, [handle], self.draw, False)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.case.require(load.step(), "the connection broke")
            meanwhile()
        begin = time.monotonic()
        while load.in_flight and time.monotonic() < begin + 60:
            handle.poll(100)
            meanwhile()
        self.case.require(not load.in_flight, f"{load.in_flight} requests have no end within a minute")
        self.case.require(not load.wrong, f"reads: (sector, found, allowed) {load.wrong[:4]}")
        self.case.require(may_fail or not load.errors, f"{load.errors} requests failed")
        covered = set(self.model.not_durable)
        try:
            handle.flush()
            self.model.flushed(covered)
        except model.nbd.Error as error:
            self.case.require(may_fail, f"a flush: {error}")
        handle.shutdown()
        self.case.count("acknowledged", load.acknowledged)
        self.case.count("failed requests", load.errors)
        return load.errors

    def verify(self, when, may_be_unreadable=lambda sector, allowed: False):
        handle = connect(self.array.uri)
        wrong = [found for found in self.model.verify(handle)
                 if found[1] != "unreadable" or not may_be_unreadable(found[0], found[2])]
        handle.shutdown()
        self.case.count("sectors", self.model.sectors)
        self.case.require(not wrong, f"{when}: {len(wrong)} sectors are wrong: (sector, found, allowed) {wrong[:4]}")

    def stop(self):
        code, said = self.array.command("stop")
        self.case.require(code == 0, f"stop: exit {code}: {said[-300:]}")
        self.array.process.wait(30)

    def told(self, member, state):
        devices = lambda: self.array.status()["devices"]
        wait_until(lambda: devices()[member]["state"] == state, 30, f"status does not tell that member {member} is {state}")

    def full(self):
        room = self.case.path("room")
        os.mkdir(room)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "none", room], capture_output=True).returncode:
            return self.case.count("skipped: no mount here")
        self.case.clean_ups.insert(0, lambda: subprocess.run(["umount", "-l", room], check=True))
        paths = [f"{room}/m{number}" for number in range(self.members)]
        is_brief = self.draw.random() < 0.5
        self.limit_seconds = LONG_LIMIT_SECONDS if is_brief else SHORT_LIMIT_SECONDS
        # What a cache held that no member could take is lost when the array fails, and told; here all must be found again.
        self.create(paths, "--member-size", "16MiB", policy=None if is_brief else "write-through")
        self.array.in_sync()
        self.work(0.1)
        self.stop()
        for path in paths:
            subprocess.run(["cp", "--sparse=always", path, f"{path}.new"], check=True)
            os.rename(f"{path}.new", path)
        self.array.must_start()
        free = os.statvfs(room).f_bavail * os.statvfs(room).f_bsize
        filler = f"{room}/filler"
        with open(filler, "wb") as file:
            os.posix_fallocate(file.fileno(), 0, free - (self.draw.choice((0, 64, 256)) << 10))
        (self.full_for_a_moment if is_brief else self.full_for_long)(filler)

    def full_for_a_moment(self, filler):
        until = time.monotonic() + 0.7

        def make_room():
            if time.monotonic() > until and os.path.exists(filler):
                os.unlink(filler)

        self.work(1, meanwhile=make_room)
        status = self.array.status()
        self.case.require(status["condition"] == "optimal", f"a disk that was full for a moment: {status['condition']}")
        waited = any(event["kind"] == "no-room" for event in status["events"])
        self.case.count("full for a moment, with writes that waited", waited)
        self.verify("after a disk was full for a moment")
        self.array.check()
        self.stop()

    def full_for_long(self, filler):
        failed = self.work(self.limit_seconds + 1, may_fail=True)
        self.case.count("full with failed requests", bool(failed))
        condition = self.array.status()["condition"]
        self.case.require(not failed or condition != "optimal", f"{failed} requests failed, and status says optimal")
        if self.draw.random() < 0.5:
            self.array.kill()
        else:
            self.array.kill(signal.SIGTERM)
        os.unlink(filler)
        if not self.array.start():
            rightly = self.metadata == "bitmap" and self.level != "10" and "Accept the write hole" in self.array.said()
            self.case.require(rightly, f"the start was refused: {self.array.said()}")
            return self.case.count("refused for the write hole")
        self.verify("after there was room again")
        self.stop()

    def unreadable(self):
        members = VolatileMembers(self.case, self.members + 1, MEMBER_BYTES, "keep=100")
        spare = members.uris.pop()
        self.create(members.uris)
        self.array.in_sync()
        self.work(0.5)
        self.stop()
        end(members.process)
        bad, other = self.draw.sample(range(self.members), 2)
        data_at = 2 * MIB
        members.settings += (f"bad={bad},{data_at + self.draw.randrange(64) * 4096},{BAD_BYTES}",)
        members.start()
        self.array.must_start()
        state = self.draw.choice(("whole", "degraded", "rebuilding"))
        self.case.count(state)
        if state != "whole":
            self.array.must("fail", str(other))
        if state == "rebuilding":
            self.array.must("replace", str(other), spare, *destroy_data(spare))
        lost = state != "whole" and self.level != "6"
        self.verify(f"with sectors that can't be read, {state}", lambda sector, allowed: lost)
        # Reads need not touch what can't be read: the other copy, or P and Q, which stand one below the other in RAID 6.
        if state == "whole":
            self.array.command("check")
        if state == "whole" or self.level == "5":
            self.case.require(self.array.status()["devices"][bad]["errors"], f"status tells no error of member {bad}")
        # Some of the requests may read what is lost.
        self.work(0.5, may_fail=lost)
        self.verify("after more writes", lambda sector, allowed: lost)
        self.array.alive()
        self.stop()

    def apart(self):
        """Members, the last of them a process of its own."""
        others = VolatileMembers(self.case, self.members - 1, MEMBER_BYTES, "keep=100")
        alone = VolatileMembers(self.case, 1, MEMBER_BYTES, "keep=100", name="alone")
        self.create(others.uris + alone.uris)
        self.array.in_sync()
        self.work(0.2)
        return alone.process

    def slow(self):
        process = self.apart()
        signals = [signal.SIGSTOP, signal.SIGCONT]
        turns = [time.monotonic()]

        def turn():
            if time.monotonic() > turns[-1] + 0.15:
                process.send_signal(signals[len(turns) % 2])
                turns.append(time.monotonic())

        self.work(2, meanwhile=turn)
        process.send_signal(signal.SIGCONT)
        self.case.require(self.array.status()["condition"] == "optimal", "a slow member was taken for gone")
        self.verify("after a slow member")
        self.stop()

    def silent(self):
        process = self.apart()
        process.send_signal(signal.SIGSTOP)
        self.work(self.limit_seconds + 1)
        self.told(self.members - 1, "missing")
        process.send_signal(signal.SIGCONT)
        self.work(0.3)
        self.verify("after a silent member")
        self.again_without()

    def vanishing(self):
        process = self.apart()
        begin = time.monotonic()

        def vanish():
            if time.monotonic() > begin + 0.3 and process.poll() is None:
                process.kill()

        self.work(1, meanwhile=vanish)
        self.told(self.members - 1, "missing")
        self.verify("after a member went")
        self.again_without()

    def again_without(self):
        """Stopped and started without the member that was lost, which has what is stale."""
        self.stop()
        self.array.must_start(devices=self.array.devices[:-1])
        self.verify("at the next start")
        self.stop()


def run(case):
    kind = KINDS[case.seed % len(KINDS)]
    getattr(Surroundings(case, kind), kind)()
    case.count(kind)
