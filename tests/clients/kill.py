"""One round of kill.sh: checks what the last kill left, then writes until the server is gone.

    kill.py URI MODEL ROUND [last]

Each 4 KiB block holds its number and a version, over and over. The model keeps, for each block, the versions that may be
found: the newest that a flush or FUA covered, and every later one that was sent. What is found must be one of them,
whole. After the check the found version is the only one allowed. Several writes are in flight; never two on one block.
Left out: a machine's own loss of power (the server's page cache survives a kill), trims.
"""

import json
import os
import random
import struct
import sys

import nbd

BLOCK = 4096
BLOCKS = 4096
DEPTH = 24


def fill(block, version):
    return struct.pack("<QQ", block, version) * (BLOCK // 16) if version else bytes(BLOCK)


class Model:
    """`allowed[b]`: versions that block b may hold, oldest first; `answered[b]`: the newest one answered."""

    def __init__(self, path):
        self.path = path
        self.version = 0
        self.allowed = {}
        if os.path.exists(path):
            kept = json.load(open(path))
            self.version = kept["version"]
            self.allowed = {int(block): versions for block, versions in kept["allowed"].items()}
        self.answered = {}

    def keep(self):
        with open(self.path, "w") as file:
            json.dump({"version": self.version, "allowed": self.allowed}, file)

    def check(self, handle):
        wrong = []
        for start in range(0, BLOCKS, 256):
            data = handle.pread(256 * BLOCK, start * BLOCK)
            for block in range(start, start + 256):
                part = bytes(data[(block - start) * BLOCK :][:BLOCK])
                found = struct.unpack("<QQ", part[:16])[1]
                versions = self.allowed.get(block, [0])
                if found not in versions or part != fill(block, found):
                    wrong.append(f"block {block}: version {found}, allowed {versions}")
                self.allowed[block] = [found]
        if wrong:
            sys.exit(f"kill: FAILED: {len(wrong)} blocks are wrong after the kill\n" + "\n".join(wrong[:10]))

    def durable(self, block, version):
        self.allowed[block] = [kept for kept in self.allowed[block] if kept >= version]


def write_until_gone(handle, model, draw):
    busy, flights = set(), []
    while True:
        if draw.random() < 0.03:
            covered = dict(model.answered)
            flights.append((handle.aio_flush(), None, 0, covered, None))
        else:
            length = draw.choice((1, 1, 2, 4, 16, 40))
            start = draw.randrange(BLOCKS - length)
            blocks = range(start, start + length)
            if busy.isdisjoint(blocks):
                model.version += 1
                data = b"".join(fill(block, model.version) for block in blocks)
                busy.update(blocks)
                for block in blocks:
                    model.allowed[block].append(model.version)
                flag = nbd.CMD_FLAG_FUA if draw.random() < 0.1 else 0
                buffer = nbd.Buffer.from_bytearray(bytearray(data))
                cookie = handle.aio_pwrite(buffer, start * BLOCK, flags=flag)
                flights.append((cookie, blocks, flag, model.version, buffer))
        while len(flights) >= DEPTH:
            handle.poll(1000)
            flights = [flight for flight in flights if not answered(handle, model, busy, flight)]


def answered(handle, model, busy, flight):
    cookie, blocks, flag, what, _ = flight
    if not handle.aio_command_completed(cookie):
        return False
    if blocks is None:
        for block, version in what.items():
            model.durable(block, version)
        return True
    for block in blocks:
        model.answered[block] = what
        busy.discard(block)
        if flag:
            model.durable(block, what)
    return True


def main():
    uri, path, number = sys.argv[1:4]
    model = Model(path)
    handle = nbd.NBD()
    handle.connect_uri(uri)
    if number == "0":
        # Whatever was there before: zeros, kept.
        handle.zero(BLOCKS * BLOCK, 0)
    else:
        model.check(handle)
    handle.flush()
    model.allowed = {block: model.allowed.get(block, [0]) for block in range(BLOCKS)}
    model.keep()
    if sys.argv[4:] == ["last"]:
        return
    open(f"{path}.writing", "w").close()
    begun = model.version
    try:
        write_until_gone(handle, model, random.Random(int(number)))
    except nbd.Error:
        pass
    model.keep()
    print(f"round {number}: {model.version - begun} writes until the kill", file=sys.stderr)


main()
