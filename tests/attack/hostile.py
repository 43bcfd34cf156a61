#!/usr/bin/python3
"""Clients that do not behave, on every socket of a served array, while others do their work.

half-open  connections that say nothing, more and more of them
drip       a byte of a request now and then, for ever
idle       NBD clients that have shaken hands and say nothing more
garbage    random bytes, options of wrong and huge lengths, requests beyond the volume, JSON that is none
flood      opened and closed at once

One case in three has TLS with certificates of clients on its TCP port. There the attackers have none, and go as far as they
can: half-open and drip stop on the way to TLS and within its handshake, idle ones have ended that, garbage comes instead of it.

Attackers are one process, or three, and come from an address of their own (127.0.0.2), since limits count by these. What
must hold under each attack: a client of before and one that comes now (with a certificate, under TLS) write and read what they
should, `status` and the metrics answer, all within `BOUND_SECONDS`; and after it all sockets take clients as before. As real
ones do, a client gives up an attempt to connect over TCP after a second, and tries again.
Left out: attackers with the address of those whom they attack, or with a certificate.
"""

import collections
import http.client
import json
import os
import random
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import time

ATTACKS = (("half-open", "unix"), ("half-open", "tcp"), ("half-open", "control"), ("half-open", "metrics"),
           ("drip", "unix"), ("drip", "tcp"), ("drip", "control"), ("drip", "metrics"),
           ("idle", "unix"), ("idle", "tcp"),
           ("garbage", "unix"), ("garbage", "tcp"), ("garbage", "control"), ("garbage", "metrics"),
           ("flood", "unix"), ("flood", "tcp"), ("flood", "control"), ("flood", "metrics"))
TLS_ATTACKS = (("half-open", "tls"), ("drip", "tls"), ("idle", "tls"), ("garbage", "tls"), ("flood", "tls"))
BOUND_SECONDS = 10
# How long a client waits for a connection before it tries again.
ATTEMPT_SECONDS = 1
HELD = 200
HANDSHAKE = struct.pack(">I", 3)
START_TLS = 5


def option(number, length, data=b""):
    return b"IHAVEOPT" + struct.pack(">II", number, length) + data


def tls_without_certificate():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def client_hello():
    out = ssl.MemoryBIO()
    try:
        tls_without_certificate().wrap_bio(ssl.MemoryBIO(), out).do_handshake()
    except ssl.SSLWantReadError:
        return out.read()


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
        opened = socket.create_connection(("127.0.0.1", int(self.address)), 0.5, ("127.0.0.2", 0))
        if self.service == "tls":
            opened.recv(18)
            opened.sendall(HANDSHAKE + option(START_TLS, 0))
            opened.recv(20)
        return opened

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
        opened = self.connect()
        if self.service == "tls" and self.draw.random() < 0.5:
            opened.sendall(client_hello())
        self.hold(opened)

    def drip(self):
        if len(self.held) < HELD:
            self.held.append(self.connect())
        begin = {"control": b'{"command":"status"' + b" " * 64, "metrics": b"GET /metrics HTTP/1.1\r\nHost: " + b"x" * 64}
        text = client_hello() if self.service == "tls" else begin.get(self.service, HANDSHAKE + option(7, 4000, bytes(64)))
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
        if self.service == "tls":
            opened = tls_without_certificate().wrap_socket(opened)
        else:
            opened.recv(18)
            opened.sendall(HANDSHAKE + option(1, 1, b"a"))
        self.hold(opened)

    def garbage(self):
        with self.connect() as opened:
            if self.service in ("unix", "tcp"):
                opened.recv(18)
            opened.settimeout(0.05)
            special = {"control": self.bad_commands, "metrics": self.bad_http, "tls": self.bad_tls}
            texts = special.get(self.service, self.bad_nbd)()
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

    def bad_tls(self):
        draw, hello = self.draw, client_hello()
        flipped = bytearray(hello)
        for _ in range(draw.randint(1, 8)):
            flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
        record = lambda kind, length: bytes((kind, 3, 3)) + struct.pack(">H", length)
        return [draw.randbytes(draw.randint(1, 300)), bytes(flipped), hello[: draw.randrange(len(hello))] + draw.randbytes(300),
                record(22, 0xFFFF) + draw.randbytes(70_000), record(22, 0) * 5000, record(23, 100) + draw.randbytes(100),
                record(22, 4) + b"\x01\xff\xff\xff" + (record(22, 16384) + draw.randbytes(16384)) * 8, hello * 50,
                HANDSHAKE + option(START_TLS, 0), option(7, 7, struct.pack(">I", 1) + b"a" + bytes(2))]

    def flood(self):
        self.connect().close()


def certificates(case):
    """An authority; folders "server" and "client" with the certificates that it gave."""
    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    authority, names = case.path("ca"), case.path("names")
    openssl("req", "-x509", *key, "-days", "3", "-subj", "/CN=ours", "-keyout", f"{authority}-key", "-out", f"{authority}-cert")
    with open(names, "w") as file:
        file.write("subjectAltName=DNS:localhost,IP:127.0.0.1")
    for who in ("server", "client"):
        folder = case.path(who)
        os.mkdir(folder)
        shutil.copy(f"{authority}-cert", f"{folder}/ca-cert.pem")
        openssl("req", *key, "-subj", f"/CN={who}", "-new", "-keyout", f"{folder}/{who}-key.pem", "-out", f"{folder}/request")
        openssl("x509", "-req", "-in", f"{folder}/request", "-CA", f"{authority}-cert", "-CAkey", f"{authority}-key",
                "-CAcreateserial", "-days", "3", "-extfile", names, "-out", f"{folder}/{who}-cert.pem")
        os.chmod(f"{folder}/{who}-key.pem", 0o600)


class Hostile:
    def __init__(self, case, has_tls):
        import harness
        import model

        self.case, self.harness, self.model_of, self.has_tls = case, harness, model, has_tls
        serve = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--json"]
        if has_tls:
            certificates(case)
            serve += ["--tls-certificates", case.path("server"), "--tls-verify-peer"]
        else:
            serve.append("--insecure")
        level, members = case.draw.choice((("5", 4), ("6", 5), ("10", 4)))
        case.label = f"{level}, {members} members" + ", TLS" * has_tls
        paths = [case.path(f"m{number}") for number in range(members)]
        self.array = harness.Array(case, paths, ["--level", level, "--member-size", "2MiB"], serve)
        self.array.must_start()
        served = harness.wait_until(self.served, BOUND_SECONDS, "the server does not say where it serves")
        port = {"tcp": served["nbd"][1], "metrics": served["metrics"]}
        self.ports = {service: int(address.rsplit(":", 1)[1]) for service, address in port.items()}
        self.ports["tls"] = self.ports["tcp"]
        self.model = model.Model(harness.connect(self.array.uri).get_size())
        self.steady = [self.knock(name) for name in ("unix", "tcp")]

    def served(self):
        """What the server said at its start."""
        said = self.array.said(1 << 20)
        try:
            return json.JSONDecoder().raw_decode(said, said.index("{\n"))[0]
        except ValueError:
            return None

    def run(self, attacks, seconds):
        for kind, service in attacks:
            attackers = [self.attack(kind, service) for _ in range(self.case.draw.choice((1, 3)))]
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                self.look(kind, service)
            for attacker in attackers:
                self.harness.end(attacker)
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
        # Who has shaken hands keeps its place: all of them but those kept for the user who serves the array, and for those with
        # a certificate, may be gone.
        for name in ("unix", "tcp") if kind != "idle" or service == "tls" else ("unix",) * (service == "tcp"):
            self.timed(f"a new client over {name} {what}", lambda: self.come(name))
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
        if name == "tcp":
            return self.knock_over_tcp()
        until = time.monotonic() + BOUND_SECONDS
        while True:
            try:
                return self.harness.connect(self.array.uri)
            except self.model_of.nbd.Error as error:
                if "backlog" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.001)

    def knock_over_tcp(self):
        handle = self.model_of.nbd.NBD()
        handle.set_export_name(self.array.name)
        if self.has_tls:
            handle.set_tls(self.model_of.nbd.TLS_REQUIRE)
            handle.set_tls_certificates(self.case.path("client"))
        opened = self.reach("tcp")
        opened.settimeout(None)
        handle.connect_socket(opened.detach())
        return handle

    def reach(self, service):
        """A connection over TCP. Who is not let in within a second comes again."""
        until = time.monotonic() + BOUND_SECONDS
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self.ports[service]), ATTEMPT_SECONDS)
            except TimeoutError:
                self.case.count("attempts to connect that were repeated")
                if time.monotonic() > until:
                    raise

    def work(self, handles):
        load = self.model_of.Load(self.model, handles, self.case.draw, True)
        for _ in range(8):
            self.case.require(load.step(), "the connection broke")
        self.case.require(load.drain(), "the connection broke")
        self.case.require(not load.wrong, f"reads: (sector, found, allowed) {load.wrong[:4]}")
        self.case.require(not load.errors, f"{load.errors} requests failed")
        self.case.count("acknowledged", load.acknowledged)

    def metrics(self):
        client = http.client.HTTPConnection("127.0.0.1", self.ports["metrics"])
        with self.reach("metrics") as client.sock:
            client.sock.settimeout(BOUND_SECONDS)
            try:
                client.request("GET", "/metrics")
                text = client.getresponse().read()
            except http.client.HTTPException as error:
                raise OSError(f"no answer: {error!r}") from None
            self.case.require(b"raidlab" in text, f"these are no metrics: {text[:100]}")

    def all_answer(self):
        try:
            for name in ("unix", "tcp"):
                self.come(name)
            self.metrics()
        except (OSError, self.model_of.nbd.Error):
            return False
        return bool(self.array.status())


def run(case):
    """The short form has half of the attacks, a moment each; another seed has the other half."""
    turn = case.seed % 3
    attacks = TLS_ATTACKS if turn == 2 else ATTACKS[turn::2] if case.short else ATTACKS
    Hostile(case, turn == 2).run(attacks, 0.2 if case.short else 5)


if __name__ == "__main__":
    Attacker(*sys.argv[1:4], random.Random(sys.argv[4])).run()
