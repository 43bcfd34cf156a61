"""Bits that flip on one member of an array that was stopped or killed: then it is assembled, served and read.

meta   one bit, or 40, of one member's label, states, maps, log, or of the second copy of label and states
data   one bit, or 20, of one member's data area, tags among them, after a clean stop

What must hold: nothing crashes, the array starts, and all it holds is what was written. It may refuse the start only where a
crash left the write hole open and many bits made the member unusable. Damage of a label is told, and written over from its other copy.
With integrity, flips of data are healed, and a check finds nothing after that; without, they are in what is read (no more
sectors than flips) or in parity, and a check counts them.
Left out: flips on several members, beyond redundancy.
"""

import copy

import model
from harness import MIB, Array, connect

LEVELS = (("5", 4), ("6", 5), ("10", 4), ("1e", 3), ("50:2-spans", 6))
METADATA = ("log", "log", "bitmap", "resync")
LABEL_BYTES, COPY_BYTES, FRONT_BYTES = 4096, 36864, 45056
FLIPS_PER_CASE, SHORT_FLIPS = 20, 5


class Flips:
    def __init__(self, case):
        draw = case.draw
        self.case, self.draw = case, draw
        self.level, members = draw.choice(LEVELS)
        self.metadata, self.integrity, self.killed = draw.choice(METADATA), draw.random() < 0.5, draw.random() < 0.5
        self.hole = self.killed and self.metadata != "log" and self.level[0] in "56"
        case.label = ", ".join([self.level, f"{members} members", self.metadata, *["integrity"] * self.integrity,
                                "killed" if self.killed else "stopped"])
        log = ["--log-size", "1MiB"] if self.metadata == "log" else []
        self.paths = [case.path(f"m{number}") for number in range(members)]
        create = ["--level", self.level, "--metadata", self.metadata, "--member-size", "2MiB", "--strip-size", "16KiB", *log]
        self.array = Array(case, self.paths, create + ["--integrity"] * self.integrity)
        self.model = self.filled()
        self.images = [read(path) for path in self.paths]
        # Copies alone need no log: their data begins where it would be.
        self.log_end = FRONT_BYTES + MIB * (self.metadata == "log" and len(self.images[0]) > 3 * MIB + COPY_BYTES + 4096)
        self.data_at = -(-self.log_end // MIB) * MIB
        self.tail_at = len(self.images[0]) // 4096 * 4096 - COPY_BYTES

    def filled(self):
        """The array under load, then stopped or killed."""
        self.array.must_start()
        book = model.Model(connect(self.array.uri).get_size())
        load = model.Load(book, [connect(self.array.uri)], self.draw, True)
        while load.acknowledged < 400:
            self.case.require(load.step(), "the connection broke")
        load.ending = True
        if self.killed:
            self.array.kill()
            load.drain()
        else:
            self.case.require(load.drain() and not load.errors, "requests failed")
            # A resync believes the data, and would make parity agree with flips.
            self.array.in_sync()
            self.array.must("stop")
            self.array.process.wait(30)
        return book

    def run(self):
        for number in range(SHORT_FLIPS if self.case.short else FLIPS_PER_CASE):
            is_data = not self.killed and number % 2
            member, bits = self.draw.randrange(len(self.paths)), self.draw.choice((1, 1, 20 if is_data else 40))
            offsets = [self.data_place(member) if is_data else self.metadata_place(member) for _ in range(bits)]
            self.flip(member, offsets)
            (self.after_data if is_data else self.after_metadata)(member, offsets)
            self.case.count("flips", bits)
            for path, image in zip(self.paths, self.images):
                with open(path, "r+b") as file:
                    file.write(image)

    def data_place(self, member):
        return self.draw.randrange(self.data_at, self.tail_at)

    def metadata_place(self, member):
        """Mostly bytes that mean something: what is all zeros is drawn seldom."""
        zones = [(0, LABEL_BYTES), (LABEL_BYTES, 20480), (20480, COPY_BYTES), (COPY_BYTES, FRONT_BYTES),
                 (self.tail_at, self.tail_at + LABEL_BYTES), (self.tail_at + LABEL_BYTES, self.tail_at + COPY_BYTES)]
        zones += [(FRONT_BYTES, self.log_end)] * (self.log_end > FRONT_BYTES)
        begin, end = self.draw.choice(zones)
        for _ in range(200):
            offset = self.draw.randrange(begin, end)
            if self.images[member][offset] or self.draw.random() < 0.02:
                break
        return offset

    def flip(self, member, offsets):
        with open(self.paths[member], "r+b") as file:
            for offset in offsets:
                file.seek(offset)
                file.write(bytes([self.images[member][offset] ^ 1 << self.draw.randrange(8)]))

    def served(self, what, bits):
        """Assembled and served: false where the start is refused, rightly."""
        code, said = self.array.raidlab("array", "assemble", *self.paths)
        self.case.require(code >= 0 and "panicked" not in said, f"{what}: assemble: exit {code}: {said[-300:]}")
        if self.array.start():
            return True
        said = self.array.said()
        self.case.require(self.hole and bits > 1 and "write" in said, f"{what}: the start was refused: {said}")
        self.case.count("refused for the write hole")
        return False

    def after_metadata(self, member, offsets):
        what = f"member {member}, {len(offsets)} bits of metadata at {offsets[:3]}"
        if not self.served(what, len(offsets)):
            return
        wrong = self.wrong()
        self.case.require(not wrong, f"{what}: {len(wrong)} sectors are wrong: {wrong[:4]}")
        said = self.array.said(1 << 20)
        self.stop(what)
        of_copies = [place for place in offsets if place < LABEL_BYTES or self.tail_at <= place < self.tail_at + LABEL_BYTES]
        if len(offsets) == 1 and of_copies:
            self.case.require("copy" in said, f"{what}: the damaged label was not told: {said}")
            image, before = read(self.paths[member]), self.images[member][:LABEL_BYTES]
            labels = {image[:LABEL_BYTES], image[self.tail_at : self.tail_at + LABEL_BYTES]}
            self.case.require(labels == {before}, f"{what}: the damaged label was not repaired")
            self.case.count("labels repaired")

    def after_data(self, member, offsets):
        what = f"member {member}, {len(offsets)} bits of data at {offsets[:3]}"
        self.served(what, len(offsets))
        wrong = self.wrong()
        if self.integrity:
            self.case.require(not wrong, f"{what}: {len(wrong)} sectors are wrong: {wrong[:4]}")
            self.array.command("check", "--repair")
            self.array.check()
        else:
            self.case.require(len(wrong) <= len(offsets), f"{what}: {len(wrong)} sectors are wrong: {wrong[:4]}")
            self.case.count("sectors that were wrong, without integrity", len(wrong))
            code, said = self.array.command("check")
            told = code == 1 and "disagreed" in said
            self.case.require(told or not wrong, f"{what}: {len(wrong)} sectors are wrong, and the check says: exit {code}: {said}")
        self.stop(what)

    def wrong(self):
        """What is wrong with the volume; the model stays as it is, for the next flips."""
        handle = connect(self.array.uri)
        found = copy.deepcopy(self.model).verify(handle)
        handle.shutdown()
        self.case.count("sectors", self.model.sectors)
        return found

    def stop(self, what):
        self.array.alive()
        code = self.array.kill(15)
        self.case.require(code == 0, f"{what}: SIGTERM ended it with {code}: {self.array.said()}")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def run(case):
    Flips(case).run()
