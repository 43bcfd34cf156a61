"""A range of one member becomes zeros while the array is stopped: a hole is punched, or the file is truncated and grown.

checksums   levels with redundancy and block checksums: nothing is read wrong, a repair heals, and a check finds nothing after that
evidence    RAID 6 and three copies without checksums: a repair finds the member that is wrong, and only that is written
undecided   RAID 5 and two copies without checksums: a check and a repair say so and fail, the repair writes nothing, and says where;
            when the member is as it was, all agrees. A repair that trusts the data makes parity and copies agree

Left out: ranges of several members, which are beyond one of these.
"""

import copy
import json
import os
import shutil
import subprocess

import copies
import model
from harness import MIB, Array, connect

DATA_BYTES = 2 * MIB
KINDS = {
    "checksums": (("1", 2), ("5", 4), ("6", 5), ("10", 4)),
    "evidence": (("6", 5), ("1", 3)),
    "undecided": (("5", 4), ("1", 2)),
}


def run(case):
    """All kinds, each on the level that is the seed's turn."""
    for kind, levels in KINDS.items():
        level, members = levels[case.seed % len(levels)]
        case.label = f"{kind}, {level}"
        Zeros(case, kind, level, members).run()
        case.count(kind)


class Zeros:
    fill, end = copies.Copies.fill, copies.Copies.end

    def __init__(self, case, kind, level, members):
        self.case, self.draw, self.kind = case, case.draw, kind
        paths = [case.path(f"{kind}{number}") for number in range(members)]
        create = ["--level", level, "--member-size", f"{DATA_BYTES}B", "--log-size", "1MiB"]
        self.array = Array(case, paths, create + ["--integrity"] * (kind == "checksums"))
        self.array.must_start()
        self.model = model.Model(connect(self.array.uri).get_size())
        self.fill()
        self.array.in_sync()
        self.end("stop")
        self.member = paths[self.draw.randrange(members)]
        self.before = shutil.copyfile(self.member, f"{self.member}.before")
        # Log and data begin on whole MiB; the last of it is the second copy of the label.
        self.data_at = os.path.getsize(self.member) - DATA_BYTES & ~(MIB - 1)

    def run(self):
        self.zero()
        self.array.must_start()
        getattr(self, self.kind)()
        self.end("stop")

    def zero(self):
        first = self.data_at + self.draw.randrange(256) * 4096
        if self.draw.random() < 0.5:
            command = ["fallocate", "--punch-hole", "--offset", str(first), "--length", str(self.draw.randrange(4, 128) * 4096)]
            subprocess.run([*command, self.member], check=True)
            return
        with open(self.member, "r+b") as file:
            size = file.seek(0, 2)
            file.truncate(first)
            file.truncate(size)

    def right(self, what):
        wrong = copy.deepcopy(self.model).verify(connect(self.array.uri))
        self.case.require(not wrong, f"{what}: {len(wrong)} sectors are wrong: (sector, found, allowed) {wrong[:4]}")

    def repaired(self, *arguments):
        code, said = self.array.command("check", *arguments, "--json")
        try:
            return code, json.JSONDecoder().raw_decode(said[said.index("{") :])[0]
        except ValueError:
            self.case.require(False, f"check {arguments}: exit {code}: {said[-300:]}")

    def checksums(self):
        if self.draw.random() < 0.5:
            self.right("before a repair")
        self.array.must("check", "--repair")
        self.right("after a repair")
        self.array.check()

    def evidence(self):
        code, told = self.repaired("--repair")
        scan = told["scan"]
        self.case.require(code == 0 and scan["rewritten_rows"] and not scan["undecided_rows"], f"exit {code}: {scan}")
        self.right("after a repair")
        self.array.check()

    def undecided(self):
        others = {path: read(path) for path in self.array.devices}
        for arguments in ((), ("--repair",)):
            code, told = self.repaired(*arguments)
            scan = told["scan"]
            self.case.require(code and scan["undecided_rows"] and not scan["rewritten_rows"], f"{arguments}: exit {code}: {scan}")
            self.case.require(told["undecided"], f"{arguments}: nothing is listed")
        self.case.require(self.array.status()["undecided"], "the status lists nothing")
        self.end("stop")
        for path, image in others.items():
            data = slice(self.data_at, self.data_at + DATA_BYTES)
            self.case.require(read(path)[data] == image[data], f"{path} was written")
        shutil.copyfile(self.member, f"{self.member}.zeroed")
        with open(self.before, "rb") as before, open(self.member, "r+b") as file:
            before.seek(self.data_at)
            file.seek(self.data_at)
            file.write(before.read(DATA_BYTES))
        self.array.must_start()
        self.array.check()
        self.right("with the member as it was")
        self.end("stop")
        with open(f"{self.member}.zeroed", "rb") as zeroed, open(self.member, "r+b") as file:
            zeroed.seek(self.data_at)
            file.seek(self.data_at)
            file.write(zeroed.read(DATA_BYTES))
        self.array.must_start()
        code, told = self.repaired("--repair", "--trust-data")
        self.case.require(code == 0 and told["scan"]["rewritten_rows"], f"trusting the data: exit {code}: {told['scan']}")
        self.array.check()


def read(path):
    with open(path, "rb") as file:
        return file.read()
