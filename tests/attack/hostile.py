#!/usr/bin/python3
"""Clients that do not behave, on every socket of a served array, while others do their work.

half-open  connections that say nothing, more and more of them
drip       a byte of a request now and then, for ever
idle       NBD clients that have shaken hands and say nothing more
garbage    random bytes, options of wrong and huge lengths, requests beyond the volume, JSON that is none
flood      opened and closed at once

Attackers are a process of their own and come from an address of their own (127.0.0.2), since limits count by these. What
must hold under each attack: a client of before and one that comes now write and read what they should, `status` and the
metrics answer, all within `BOUND_SECONDS`; and after it all sockets take clients as before.
Left out: attackers with the address of those whom they attack, TLS.
"""

import collections
import random
import socket
import struct
import subprocess
import sys
import time
import urllib.request

ATTACKS = (("half-open", "unix"), ("half-open", "tcp"), ("half-open", "control"), ("half-open", "metrics"),
           ("drip", "unix"), ("drip", "tcp"), ("drip", "control"), ("drip", "metrics"),
           ("idle", "unix"), ("idle", "tcp"),
           ("garbage", "unix"), ("garbage", "tcp"), ("garbage", "control"), ("garbage", "metrics"),
           ("flood", "unix"), ("flood", "tcp"), ("flood", "control"), ("flood", "metrics"))
BOUND_SECONDS = 10
HELD = 200
HANDSHAKE = struct.pack(">I", 3)


def option(number, length, data=b""):
    return b"IHAVEOPT" + struct.pack(">II", number, length) + data


class Attacker:
    def __init__(self, kind, service, address, draw):
        self.kind, self.service, self.address, self.draw = kind, service, address, draw
        self.held = collections.deque()

    def connect(self):
        if self.service in ("unix", "control"):
            found = socket.socket(socket.AF_UNIX)
            found.settimeout(0.5)
            found.connect(self.address)
            return found
        return socket.create_connection(("127.0.0.1", int(self.address)), 0.5, ("127.0.0.2", 0))

    def run(self):
        print("ready", flush=True)
        action = getattr(self, self.kind.replace("-", "_"))
        while True:
            try:
                action()
            except OSError:
                time.sleep(0.002)

    def hold(self, opened):
        self.held.append(opened)
        if len(self.held) > HELD:
            self.held.popleft().close()

    def half_open(self):
        self.hold(self.connect())

    def drip(self):
        if len(self.held) < HELD:
            self.held.append(self.connect())
        begin = {"control": b'{"command":"status"' + b" " * 64, "metrics": b"GET /metrics HTTP/1.1\r\nHost: " + b"x" * 64}
        text = begin.get(self.service, HANDSHAKE + option(7, 4000, bytes(64)))
        for _ in range(len(self.held) // 4):
            opened = self.held.popleft()
            try:
                opened.send(text[:1])
                self.held.append(opened)
            except OSError:
                opened.close()
        time.sleep(0.01)

    def idle(self):
        opened = self.connect()
        opened.recv(18)
        opened.sendall(HANDSHAKE + option(1, 1, b"a"))
        self.hold(opened)

    def garbage(self):
        with self.connect() as opened:
            if self.service in ("unix", "tcp"):
                opened.recv(18)
            opened.settimeout(0.05)
            texts = {"control": self.bad_commands, "metrics": self.bad_http}.get(self.service, self.bad_nbd)()
            opened.sendall(self.draw.choice(texts))
            try:
                while opened.recv(65536):
                    pass
            except TimeoutError:
                pass

    def bad_nbd(self):
        draw = self.draw
        request = struct.pack(">IHHQQI", 0x25609513, draw.randrange(1 << 16), draw.randrange(12), 0,
                              draw.choice((1 << 62, (1 << 64) - 1)), 0xFFFFFFFF)
        known = struct.pack(">I", 1) + b"a" + bytes(2)
        return [draw.randbytes(draw.randint(1, 300)), HANDSHAKE + draw.randbytes(200), HANDSHAKE + option(7, 0xFFFFFFFF, b"x" * 100),
                HANDSHAKE + option(draw.choice((1, 2, 3, 5, 6, 7, 8, 9, 10, 99)), draw.choice((0, 1, 4, 8, 65536, 1 << 20)),
                                   draw.randbytes(50)),
                HANDSHAKE + option(7, 7, known) + request + draw.randbytes(300)]

    def bad_commands(self):
        return [b"[" * 200_000 + b"\n", b"x" * 2_000_000, b'{"command":"status"}', b'{"command":"nope"}\n', b'{"command":7}\n',
                b'{"command":"fail","device":-1}\n', self.draw.randbytes(500) + b"\n", b"\0\n" * 1000]

    def bad_http(self):
        return [self.draw.randbytes(500), b"GET /metrics HTTP/1.1\r\n" + b"A: b\r\n" * 20_000, b"GET " + b"/" * 200_000,
                b"POST /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n", b"\r\n" * 5000,
                b"GET /metrics HTTP/1.1\r\nHost: elsewhere\r\nContent-Length: 99999999999999999999\r\n\r\n"]

    def flood(self):
        self.connect().close()


class Hostile:
    def __init__(self, case):
        import harness
        import model

        self.case, self.harness, self.model_of = case, harness, model
        self.ports = {"tcp": free_port(), "metrics": free_port()}
        serve = ["--listen", f"127.0.0.1:{self.ports['tcp']}", "--insecure", "--metrics", f"127.0.0.1:{self.ports['metrics']}"]
        level, members = case.draw.choice((("5", 4), ("6", 5), ("10", 4)))
        case.label = f"{level}, {members} members"
        paths = [case.path(f"m{number}") for number in range(members)]
        self.array = harness.Array(case, paths, ["--level", level, "--member-size", "2MiB"], serve)
        self.array.must_start()
        self.uris = {"unix": self.array.uri, "tcp": f"nbd://127.0.0.1:{self.ports['tcp']}/a"}
        self.model = model.Model(harness.connect(self.array.uri).get_size())
        self.steady = [harness.connect(uri) for uri in self.uris.values()]

    def run(self, attacks, seconds):
        for kind, service in attacks:
            attacker = self.attack(kind, service)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                self.look(kind, service)
            attacker.kill()
            attacker.wait(10)
            self.case.count("attacks")
            self.harness.wait_until(self.all_answer, BOUND_SECONDS, f"after {kind} on {service} not all sockets answer")
        wrong = self.model.verify(self.steady[0])
        self.case.require(not wrong, f"{len(wrong)} sectors are wrong: (sector, found, allowed) {wrong[:4]}")
        code, said = self.array.command("stop")
        self.case.require(code == 0, f"stop: exit {code}: {said[-300:]}")

    def attack(self, kind, service):
        address = {"unix": self.array.socket, "control": self.array.control}.get(service) or str(self.ports[service])
        attacker = self.case.start(sys.executable, __file__, kind, service, address, str(self.case.draw.randrange(1 << 30)),
                                   stdout=subprocess.PIPE)
        attacker.stdout.readline()
        return attacker

    def look(self, kind, service):
        """All others do their work, within the bound."""
        what = f"under {kind} on {service}"
        self.timed(f"clients of before {what}", lambda: self.work(self.steady))
        # Who has shaken hands keeps its place: all of them but those kept for the user who serves the array may be gone.
        if kind != "idle":
            self.timed(f"a new client {what}", lambda: self.come("unix"))
            self.timed(f"a new client over TCP {what}", lambda: self.come("tcp"))
        elif service == "tcp":
            self.timed(f"a new client {what}", lambda: self.come("unix"))
        self.timed(f"status {what}", lambda: self.array.status(BOUND_SECONDS))
        self.timed(f"metrics {what}", self.metrics)
        self.array.alive()
        self.case.count("looks")

    def timed(self, what, action):
        begin = time.monotonic()
        try:
            action()
        except (OSError, self.model_of.nbd.Error) as error:
            raise self.harness.Problem(f"{what}: {error}") from None
        took = time.monotonic() - begin
        self.case.require(took < BOUND_SECONDS, f"{what} took {took:.1f} s")

    def come(self, name):
        handle = self.knock(name)
        self.work([handle])
        handle.shutdown()

    def knock(self, name):
        """A Unix socket whose backlog is full says so to a client that does not wait, as libnbd: it comes again."""
        until = time.monotonic() + BOUND_SECONDS
        while True:
            try:
                return self.harness.connect(self.uris[name])
            except self.model_of.nbd.Error as error:
                if "backlog" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.001)

    def work(self, handles):
        load = self.model_of.Load(self.model, handles, self.case.draw, True)
        for _ in range(8):
            self.case.require(load.step(), "the connection broke")
        self.case.require(load.drain(), "the connection broke")
        self.case.require(not load.wrong, f"reads: (sector, found, allowed) {load.wrong[:4]}")
        self.case.require(not load.errors, f"{load.errors} requests failed")
        self.case.count("acknowledged", load.acknowledged)

    def metrics(self):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports['metrics']}/metrics", timeout=BOUND_SECONDS) as answer:
            self.case.require(b"raidlab" in answer.read(), "the metrics are empty")

    def all_answer(self):
        try:
            for name in self.uris:
                self.come(name)
            self.metrics()
        except (OSError, self.model_of.nbd.Error):
            return False
        return bool(self.array.status())


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def run(case):
    """The short form has half of the attacks, a moment each; the next seed has the other half."""
    if case.short:
        Hostile(case).run(ATTACKS[case.seed % 2 :: 2], 0.2)
    else:
        Hostile(case).run(ATTACKS, 5)


if __name__ == "__main__":
    Attacker(*sys.argv[1:4], random.Random(sys.argv[4])).run()
