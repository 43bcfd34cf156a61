"""NBD clients that speak the protocol and use it badly, operators that send garbage, and a server that stands still.

oversized  requests of all kinds beyond the volume and beyond what is allowed
ragged     six clients write and zero disjoint ranges of bytes that share blocks: exact then, and after a kill
payload    clients that go in the midst of a payload: none of it is written, and their places are free again
control    garbage, unknown fields and odd paths on the control socket: nothing of it is carried out
paused     the server stands still (SIGSTOP) for longer than --member-timeout, and goes on: no member is lost by that

What must hold: the server lives, a good client writes and reads what it should, `status` answers. Left out: floods and connections
that say nothing (hostile.py).
"""

import json
import os
import signal
import socket
import struct
import time

import model
import nbd
from harness import Array, Problem, connect

KINDS = ("oversized", "ragged", "payload", "control", "paused")
LEVELS = (("5", 4), ("6", 5), ("10", 4), ("1", 2))
MIB = 1 << 20
REQUEST_MAGIC, REPLY_MAGIC = 0x25609513, 0x67446698
READ, WRITE, FLUSH, TRIM, CACHE, ZEROES, BLOCK_STATUS = 0, 1, 3, 4, 5, 6, 7
OVERSIZED = ((READ, 0, 0xFFFFFFFF, 0), (WRITE, 0, 0xFFFFFFFF, 0), (WRITE, 0, 0x2000001, 0), (ZEROES, 0, 0xFFFFFFFF, 0),
             (TRIM, 0, 0xFFFFFFFF, 0), (CACHE, 0, 0xFFFFF000, 0), (BLOCK_STATUS, 0, 0xFFFFFFFF, 0), (READ, 1 << 63, 4096, 0),
             (WRITE, 0xFFFFFFFFFFFFF000, 0x1000, 0), (FLUSH, 1, 1, 0), (FLUSH, 0, 0, 0xFFFF), (99, 0, 0, 0), (READ, 0, 0, 0),
             (WRITE, 0, 0, 0), (ZEROES, 0, 0, 2), (TRIM, 0, 0, 0))


class Raw:
    """A client that has shaken hands and sends what it likes."""

    def __init__(self, path, name=b"a"):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(path)
        self.take(18)
        go = struct.pack(">I", len(name)) + name + bytes(2)
        self.socket.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 7, len(go)) + go)
        while True:
            _, _, kind, length = struct.unpack(">QIII", self.take(20))
            self.take(length)
            if kind == 1:
                return
            if kind & 1 << 31:
                raise OSError(f"the export is refused: {kind:#x}")

    def take(self, count):
        taken = b""
        while len(taken) < count:
            part = self.socket.recv(count - len(taken))
            if not part:
                raise EOFError
            taken += part
        return taken

    def send(self, kind, offset, length, payload=b"", flags=0):
        self.socket.sendall(struct.pack(">IHHQQI", REQUEST_MAGIC, flags, kind, 1, offset, length) + payload)

    def error(self):
        magic, error, _ = struct.unpack(">IIQ", self.take(16))
        if magic != REPLY_MAGIC:
            raise Problem(f"what should be a reply begins with {magic:#x}")
        return error


class Clients:
    def __init__(self, case):
        self.case, self.draw = case, case.draw

    def serve(self, *more, create=()):
        level, members = self.draw.choice(LEVELS)
        self.case.label = f"{KINDS[self.case.seed % len(KINDS)]}, {level}, {members} members"
        paths = [self.case.path(f"m{number}") for number in range(members)]
        self.array = Array(self.case, paths, ["--level", level, "--member-size", "4MiB", "--log-size", "1MiB", *create], more)
        self.array.must_start()
        self.array.in_sync()

    def is_well(self, when):
        """A good client comes and works, and `status` answers."""
        self.array.alive()
        handle, data = connect(self.array.uri), os.urandom(4096)
        place = handle.get_size() - len(data)
        handle.pwrite(data, place)
        handle.flush()
        self.case.require(handle.pread(len(data), place) == data, f"{when}: what is read is not what was written")
        handle.shutdown()
        condition = self.array.status()["condition"]
        self.case.require(condition == "optimal", f"{when}: the array is {condition}")

    def oversized(self):
        self.serve()
        for kind, offset, length, flags in OVERSIZED:
            client = Raw(self.array.socket)
            client.socket.settimeout(8)
            payload = b"z" * length if kind == WRITE and length <= 4096 else b""
            try:
                client.send(kind, offset, length, payload, flags)
                error = client.error()
                # A flush may leave unread what it does not need.
                self.case.require(error or not length or kind == FLUSH, f"request {kind} of {length:#x} at {offset:#x} is answered with success")
            except (EOFError, OSError):
                # It may end the connection, too.
                pass
            client.socket.close()
            self.case.count("bad requests")
        self.is_well("after requests that are too large")

    def ragged(self):
        policy = self.draw.choice(([], ["--write-policy", "write-back"], ["--io-threads", "2"]))
        self.serve(*policy, create=self.draw.choice(([], ["--block-size", "512B"], ["--integrity"])))
        handles = [connect(self.array.uri) for _ in range(6)]
        image = bytearray(min(handles[0].get_size(), 2 * MIB))
        handles[0].pwrite(bytes(image), 0)
        busy, until = set(), time.monotonic() + (1 if self.case.short else 4)
        while time.monotonic() < until:
            for handle in handles:
                for _ in range(4):
                    self.write_ragged(handle, image, busy)
                handle.poll(0)
            while len(busy) > 24:
                for handle in handles:
                    handle.poll(1)
        while busy:
            for handle in handles:
                handle.poll(1)
        self.holds(image, "under load")
        handles[0].flush()
        for handle in handles:
            handle.shutdown()
        self.array.kill()
        self.array.must_start()
        self.holds(image, "after a kill")
        self.array.in_sync()
        self.array.check()

    def write_ragged(self, handle, image, busy):
        begin = self.draw.randrange(len(image))
        end = min(len(image), begin + self.draw.choice((1, 7, 100, 511, 513, 4095, 4097, 9000, 70000, 300001)))
        if any(first < end and begin < last for first, last in busy):
            return
        place = (begin, end)
        busy.add(place)
        self.case.count("ragged writes")

        def ended(error, _held=None):
            busy.discard(place)
            if error.value:
                self.case.problem(f"a write of {end - begin} bytes at {begin} failed: {error.value}")
            return 1

        if self.draw.random() < 0.15:
            image[begin:end] = bytes(end - begin)
            handle.aio_zero(end - begin, begin, completion=ended)
        else:
            data = bytearray(self.draw.randbytes(end - begin))
            image[begin:end] = data
            held = nbd.Buffer.from_bytearray(data)
            handle.aio_pwrite(held, begin, completion=lambda error, _held=held: ended(error))

    def holds(self, image, when):
        handle = connect(self.array.uri)
        found = b"".join(bytes(handle.pread(min(MIB, len(image) - at), at)) for at in range(0, len(image), MIB))
        handle.shutdown()
        wrong = [at for at in range(len(image)) if found[at] != image[at]] if found != image else []
        self.case.require(not wrong, f"{when}: {len(wrong)} bytes are wrong, the first at {wrong[:1]}")

    def payload(self):
        self.serve("--connections", "8")
        handle = connect(self.array.uri)
        handle.pwrite(b"A" * MIB, 0)
        handle.flush()
        for _ in range(100 if self.case.short else 600):
            self.go_in_the_midst()
        until = time.monotonic() + 15
        while True:
            try:
                connect(self.array.uri).shutdown()
                break
            except nbd.Error:
                self.case.require(time.monotonic() < until, "no new client 15 s after those that went")
                time.sleep(0.1)
        written = MIB - bytes(handle.pread(MIB, 0)).count(b"A")
        self.case.require(not written, f"{written} bytes of payloads that were cut off were written")
        handle.shutdown()
        self.is_well("after payloads that were cut off")

    def go_in_the_midst(self):
        length = self.draw.choice((512, 4096, 4097, 65536, 200_000, 262_144))
        try:
            client = Raw(self.array.socket)
            for _ in range(self.draw.choice((0, 1, 3))):
                client.send(READ, self.draw.randrange(MIB // 2), self.draw.choice((4096, 300_000)))
            part = b"B" * self.draw.choice((0, 1, length // 2, length - 1))
            client.send(WRITE, self.draw.randrange(MIB - length), length, part)
            if self.draw.random() < 0.5:
                client.socket.shutdown(socket.SHUT_WR)
            client.socket.close()
            self.case.count("payloads that were cut off")
        except (OSError, EOFError):
            # There is no place for it before others are gone.
            time.sleep(0.01)

    def control(self):
        self.serve()
        os.mkfifo(self.case.path("fifo"))
        for line in self.bad_commands():
            answer = self.say(line)
            self.case.require(not answer or answer["answer"] == "refused", f"{line[:90]!r} is answered: {answer}")
            self.case.count("bad commands")
            self.array.alive()
        # Connections that end no command keep nobody from it.
        held = []
        for _ in range(100):
            opened = socket.socket(socket.AF_UNIX)
            held.append(opened)
            try:
                opened.settimeout(2)
                opened.connect(self.array.control)
                opened.sendall(b'{"comm')
            except OSError:
                pass
        self.is_well("beside 100 idle operators")

    def bad_commands(self):
        member, folder, fifo = self.array.devices[0], self.case.folder, self.case.path("fifo")
        orders = [("fail", {"device": "9" * 40_000}), ("fail", {"device": "../../etc/passwd"}), ("fail", {"device": "0", "dry_run": True}),
                  ("replace", {"device": "0", "with": "/etc/passwd"}), ("add-spare", {"path": "/dev/null"}),
                  ("add-spare", {"path": "/proc/kmsg"}), ("add-spare", {"path": member, "destroy_data": True}),
                  ("add-spare", {"path": fifo}), ("add-spare", {"path": folder}), ("scan-rate", {"bytes_per_sec": -1}),
                  ("stop", {"dry_run": True}), ("check", {"repair": True}), ("repair", {"x": 1}), ("reload", {"what": "all"})]
        lines = [json.dumps({"command": command} | fields).encode() + b"\n" for command, fields in orders]
        return lines + [b"[" * 500_000 + b"\n", b'{"command":' * 10_000 + b"\n", bytes(1_000_000), b"\xff\xfe\n", b"\n"]

    def say(self, line):
        with socket.socket(socket.AF_UNIX) as opened:
            opened.settimeout(10)
            opened.connect(self.array.control)
            try:
                opened.sendall(line)
                return json.loads(opened.makefile().readline() or "null")
            except (OSError, ValueError):
                return None

    def paused(self):
        self.serve("--member-timeout", "1s")
        handle = connect(self.array.uri)
        # What a good client writes at the end is no part of it.
        book = model.Model(handle.get_size() - MIB)
        for _ in range(1 if self.case.short else 3):
            load = model.Load(book, [handle], self.draw, True)
            self.work(load, 0.3)
            self.array.process.send_signal(signal.SIGSTOP)
            time.sleep(2.5)
            self.array.process.send_signal(signal.SIGCONT)
            self.work(load, 0.3)
            self.case.require(load.drain(), "the connection broke")
            self.case.require(not load.wrong and not load.errors, f"{load.errors} failed requests, wrong: {load.wrong[:4]}")
            self.is_well("after a pause")
            wrong = book.verify(handle)
            self.case.require(not wrong, f"after a pause: (sector, found, allowed) {wrong[:4]}")

    def work(self, load, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.case.require(load.step(), "the connection broke")


def run(case):
    kind = KINDS[case.seed % len(KINDS)]
    clients = Clients(case)
    getattr(clients, kind)()
    clients.array.must("stop")
    case.count(kind)
