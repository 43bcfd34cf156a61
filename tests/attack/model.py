"""What every sector of a volume may hold, and a load of reads and writes that keeps book of it.

A sector of 512 bytes that was written holds its number and a version, over and over; a write has one version. For each
sector there are the versions that a crash may leave (`kept`) and those that a read may find (`now`). A version that is
known to be durable, or answered, ends those versions that were answered before it was sent: two writes that were in
flight at the same time may have come in either order. What is found after a crash must be one of `kept`, whole, and is
then the only one.
Left out: trims; reads and writes of less than a sector.
"""

import struct

import nbd

SECTOR = 512
NEVER = 1 << 62


def stamp(sector, version):
    return struct.pack("<QQ", sector, version) * (SECTOR // 16) if version else bytes(SECTOR)


class Model:
    """`sent` and `answered` are the moments of each version, counted in events."""

    def __init__(self, volume_bytes):
        self.sectors = volume_bytes // SECTOR
        self.kept = [(0,)] * self.sectors
        self.now = [(0,)] * self.sectors
        self.sent, self.answered = [0], [0]
        self.open = set()
        self.clock = 0
        self.not_durable = set()
        self.checked = 0
        self.flushes = 0

    def tick(self):
        self.clock += 1
        return self.clock

    def send(self, first, count):
        version = len(self.sent)
        self.sent.append(self.tick())
        self.answered.append(NEVER)
        self.open.add(version)
        for sector in range(first, first + count):
            self.kept[sector] += (version,)
            self.now[sector] += (version,)
        return version

    def end(self, version, first, count, durable):
        """A write was answered; a durable one survives from now on."""
        self.answered[version] = self.tick()
        self.open.discard(version)
        self.settle(self.now, version, range(first, first + count))
        if durable:
            self.settle(self.kept, version, range(first, first + count))
        else:
            self.not_durable.add((version, first, count))

    def flushed(self, covered):
        """A flush was answered, sent when the writes `covered` had been answered."""
        self.flushes += 1
        for version, first, count in sorted(covered & self.not_durable):
            self.settle(self.kept, version, range(first, first + count))
        self.not_durable -= covered

    def settle(self, table, version, sectors):
        begun = self.sent[version]
        for sector in sectors:
            versions = table[sector]
            if version in versions and len(versions) > 1:
                table[sector] = tuple(v for v in versions if self.answered[v] >= begun or v == version)

    def verify(self, handle):
        """Reads everything after a crash; returns what is wrong."""
        wrong = []
        # What was in flight at the crash is not any more.
        for version in self.open:
            self.answered[version] = self.tick()
        self.open.clear()
        step = 2048
        for first in range(0, self.sectors, step):
            count = min(step, self.sectors - first)
            for begin, data in read_parts(handle, first, count):
                if data is None:
                    wrong.append((begin, "unreadable", self.kept[begin]))
                    continue
                for place in range(len(data) // SECTOR):
                    sector = begin + place
                    found = self.found(sector, data[place * SECTOR : place * SECTOR + SECTOR])
                    if found not in self.kept[sector]:
                        wrong.append((sector, found, self.kept[sector]))
                    self.kept[sector] = self.now[sector] = (found,)
        self.checked += self.sectors
        self.not_durable.clear()
        return wrong

    def found(self, sector, data):
        """The version of a sector, or what is wrong with it."""
        _, version = struct.unpack_from("<QQ", data)
        return version if data == stamp(sector, version) else "torn or foreign"

    def mixed(self, sector, data):
        """The versions that a sector is a mixture of, or nothing if not all of it belongs there.

        Drives read and write a sector at once; files in memory do so for one thread only."""
        words = {data[at : at + 16] for at in range(0, SECTOR, 16)}
        parts = [struct.unpack("<QQ", word) for word in words]
        return [version for _, version in parts] if all(of == sector or not version for of, version in parts) else []


def read_parts(handle, first, count):
    """(sector, bytes) of a range; where that can't be read, part by part, with None for a sector that can't be read."""
    try:
        return [(first, bytes(handle.pread(count * SECTOR, first * SECTOR)))]
    except nbd.Error:
        if count == 1:
            return [(first, None)]
        half = count // 2
        return read_parts(handle, first, half) + read_parts(handle, first + half, count - half)


class Load:
    """Reads, writes and flushes over some connections, `step` by `step`, until the server is gone or the caller stops."""

    def __init__(self, model, handles, draw, durable_at_once, tears=False):
        self.model, self.handles, self.draw, self.durable_at_once = model, handles, draw, durable_at_once
        # Whether a read that overlaps writes may return a mixture within a sector.
        self.tears = tears
        self.depth = draw.choice((1, 4, 16, 32))
        self.longest = draw.choice((8, 16, 64, 300))
        self.grain = draw.choice((1, 8, 8, 8))
        self.hot = draw.choice((0, 0, 256))
        self.reads = draw.choice((0, 0.1, 0.4))
        self.flushes = draw.choice((0.01, 0.05, 0.2))
        self.in_flight = 0
        self.acknowledged = self.errors = 0
        self.wrong = []
        self.ending = False
        # The array has failed: what its cache held may be lost as by a crash. How many sectors were read that had been.
        self.may_lose = False
        self.lost = 0

    def step(self):
        """Fills the queue and waits a moment for an answer; false once the server is gone."""
        try:
            while self.in_flight < self.depth:
                self.send(self.draw.choice(self.handles))
            for handle in self.handles:
                handle.poll(1 if handle.aio_in_flight() else 0)
        except nbd.Error:
            return False
        return True

    def drain(self):
        """Waits for all that is in flight; false if the server goes before."""
        try:
            for handle in self.handles:
                while handle.aio_in_flight():
                    handle.poll(1000)
        except nbd.Error:
            return False
        return True

    def send(self, handle):
        kind = self.draw.random()
        if kind < self.flushes:
            covered = set(self.model.not_durable)
            # An error tells, once, that some of what was acknowledged is lost: no later flush covers it.
            failed = self.model.not_durable.clear
            handle.aio_flush(completion=self.ended(lambda: self.model.flushed(covered), failed=failed))
        else:
            first, count = self.place()
            (self.read if kind > 1 - self.reads else self.write)(handle, first, count)
        self.in_flight += 1

    def place(self):
        sectors = min(self.hot or self.model.sectors, self.model.sectors)
        count = self.draw.randint(1, max(1, self.longest // self.grain)) * self.grain
        first = self.draw.randrange((sectors - count) // self.grain + 1) * self.grain if count < sectors else 0
        return first, min(count, sectors)

    def write(self, handle, first, count):
        version = self.model.send(first, count)
        data = b"".join([struct.pack("<QQ", sector, version) * (SECTOR // 16) for sector in range(first, first + count)])
        forced = self.draw.random() < 0.1
        buffer = nbd.Buffer.from_bytearray(bytearray(data))

        def answered():
            self.model.end(version, first, count, forced or self.durable_at_once)
            self.acknowledged += 1

        flags = nbd.CMD_FLAG_FUA if forced else 0
        handle.aio_pwrite(buffer, first * SECTOR, completion=self.ended(answered, buffer), flags=flags)

    def read(self, handle, first, count):
        buffer = nbd.Buffer(count * SECTOR)
        before, newest = self.model.now[first : first + count], len(self.model.sent)
        kept = self.model.kept[first : first + count]

        def answered():
            data = bytes(buffer.to_bytearray())
            for place in range(count):
                sector = data[place * SECTOR : place * SECTOR + SECTOR]
                found = self.model.found(first + place, sector)
                found_in = self.model.mixed(first + place, sector) if self.tears or isinstance(found, int) else []
                under_way = range(newest, len(self.model.sent))
                if found_in and all(version in before[place] or version in under_way for version in found_in):
                    continue
                if self.may_lose and found in kept[place]:
                    self.lost += 1
                else:
                    self.wrong.append((first + place, found, before[place]))

        handle.aio_pread(buffer, first * SECTOR, completion=self.ended(answered, buffer))

    def ended(self, action, buffer=None, failed=lambda: None):
        """The callback of a command; holds its buffer until then."""

        def callback(error, _held=buffer):
            self.in_flight -= 1
            if not error.value:
                action()
            else:
                failed()
                self.errors += not self.ending
            return 1

        return callback
