"""What the attacks share: servers under attack, members that lose data, deadlines, and what a case found.

A case is a function that gets a `Case`: a seed's own random numbers, a scratch folder, and the list of problems that it
adds to. Processes that it started are killed when it ends, whatever happens.
"""

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import nbd

MIB = 1 << 20


class Problem(Exception):
    """What must not be: ends the case."""


class Case:
    """One case: `draw` is its only source of chance, `counts` what it did, `problems` what it found."""

    def __init__(self, part, seed, binary, plugin, short):
        self.part, self.seed, self.binary, self.plugin, self.short = part, seed, binary, plugin, short
        self.draw = random.Random(f"{part}:{seed}")
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = tempfile.mkdtemp(prefix="raidlab-attack.", dir=os.environ.get("ATTACK_FOLDER", memory))
        self.counts, self.problems, self.label = {}, [], ""
        self.clean_ups = []

    def count(self, what, number=1):
        self.counts[what] = self.counts.get(what, 0) + number

    def problem(self, text):
        self.problems.append(text)

    def require(self, truth, text):
        if not truth:
            raise Problem(text)

    def path(self, name):
        return os.path.join(self.folder, name)

    def start(self, *command, **options):
        """A process that ends with the case."""
        process = subprocess.Popen(command, **options)
        self.clean_ups.append(lambda: end(process))
        return process

    def close(self):
        for clean_up in reversed(self.clean_ups):
            try:
                clean_up()
            except (OSError, subprocess.SubprocessError, nbd.Error):
                pass
        shutil.rmtree(self.folder, ignore_errors=True)


def end(process):
    if process.poll() is None:
        process.kill()
    process.wait(10)


def wait_until(truth, seconds, what):
    """Waits for `truth()`; returns what it returned."""
    until = time.monotonic() + seconds
    while not (found := truth()):
        if time.monotonic() > until:
            raise Problem(f"after {seconds} s: {what}")
        time.sleep(0.02)
    return found


def connect(uri):
    handle = nbd.NBD()
    # Replies are asked for in full: the server's own limits count, not the client's.
    handle.connect_uri(uri)
    return handle


def destroy_data(*members):
    """Names the exports among members: what they hold is nobody's."""
    return [word for member in members if member.startswith("nbd") for word in ("--destroy-data", member)]


class Array:
    """An array and, while it is served, its server."""

    def __init__(self, case, members, create, serve=(), name="a"):
        self.case, self.name, self.devices, self.options = case, name, list(members), list(serve)
        self.socket, self.control, self.log = case.path("nbd"), case.path("control"), case.path("log")
        self.uri = f"nbd+unix:///{name}?socket={self.socket}"
        self.process = None
        self.log_begins = 0
        code, said = self.raidlab("array", "create", name, *members, *create, *destroy_data(*members))
        case.require(code == 0, f"create: {said}")

    def raidlab(self, *arguments, seconds=60):
        """The exit code of a command, and what it said."""
        try:
            ended = subprocess.run([self.case.binary, *arguments], capture_output=True, timeout=seconds, text=True)
        except subprocess.TimeoutExpired:
            raise Problem(f"'{' '.join(arguments[:2])}' does not end in {seconds} s") from None
        return ended.returncode, ended.stdout + ended.stderr

    def start(self, *more, devices=None, **options):
        """Serves it; false where the start is refused."""
        log = open(self.log, "ab")
        self.log_begins = log.tell()
        streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log} | options
        command = [self.case.binary, "array", "serve", *(devices or self.devices), "--socket", self.socket,
                   "--control", self.control, *self.options, *more]
        self.process = self.case.start(*command, **streams)
        log.close()
        return wait_until(self.answers, 60, "the server neither serves nor ends") == "served"

    def answers(self):
        if self.process.poll() is not None:
            return "ended"
        # It listens before it knows whether it may serve: only its greeting tells.
        try:
            with socket.socket(socket.AF_UNIX) as knock:
                knock.settimeout(20)
                knock.connect(self.socket)
                return "served" if knock.recv(8) == b"NBDMAGIC" else None
        except OSError:
            return None

    def must_start(self, *more, **options):
        self.case.require(self.start(*more, **options), f"the start was refused: {self.said()}")

    def said(self, longest=600):
        """The end of what the server of now has said."""
        with open(self.log, "rb") as log:
            log.seek(self.log_begins)
            return log.read().decode(errors="replace").strip()[-longest:]

    def kill(self, how=signal.SIGKILL, seconds=30):
        """Ends the server with a signal; returns its exit code."""
        self.process.send_signal(how)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Problem(f"the server does not end {seconds} s after signal {how}") from None

    def alive(self):
        self.case.require(self.process.poll() is None, f"the server ended with {self.process.poll()}: {self.said()}")

    def command(self, verb, *arguments, seconds=60):
        return self.raidlab("array", verb, self.control, *arguments, seconds=seconds)

    def must(self, verb, *arguments, seconds=60):
        code, said = self.command(verb, *arguments, seconds=seconds)
        self.case.require(code == 0, f"{verb} {' '.join(arguments)}: exit {code}: {said.strip()[-300:]}")

    def status(self, seconds=20):
        """Its status. The exit code is left out: it tells degraded arrays, too."""
        _, said = self.raidlab("array", "status", self.control, "--json", seconds=seconds)
        try:
            return json.loads(said)["arrays"][0]
        except (ValueError, KeyError):
            raise Problem(f"no status: {said[-300:]}") from None

    def in_sync(self, seconds=60):
        wait_until(lambda: not self.status()["out_of_sync_stripes"], seconds, "stripes are still out of sync")

    def check(self):
        """Redundancy agrees with the data; waits for what else walks over the array."""
        until = time.monotonic() + 60
        while True:
            code, said = self.command("check")
            if not code:
                return
            busy = any(word in said for word in ("runs", "running", "scan", "under way", "rebuil", "resync"))
            self.case.require(busy and time.monotonic() < until, f"check: exit {code}: {said.strip()[-300:]}")
            time.sleep(0.1)


class VolatileMembers:
    """nbdkit with members whose caches are lost at its end."""

    def __init__(self, case, count, member_bytes, *settings, name="members"):
        self.case, self.settings, self.member_bytes = case, settings, member_bytes
        self.folder, self.socket = case.path(name), case.path(f"{name}.sock")
        os.mkdir(self.folder)
        self.uris = [self.add(number) for number in range(count)]
        self.process = None
        self.start()

    def add(self, number):
        """A new member, all zeros."""
        with open(f"{self.folder}/m{number}", "wb") as file:
            file.truncate(self.member_bytes)
        return f"nbd+unix:///m{number}?socket={self.socket}"

    def start(self):
        """Unless it runs."""
        if self.process and self.process.poll() is None:
            return
        if os.path.exists(self.socket):
            os.unlink(self.socket)
        seed = f"seed={self.case.draw.randrange(1 << 30)}"
        self.process = self.case.start("nbdkit", "-f", "-U", self.socket, self.case.plugin, f"folder={self.folder}", seed,
                                       *self.settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: os.path.exists(self.socket) or self.process.poll() is not None, 20, "nbdkit does not start")
        self.case.require(self.process.poll() is None, "nbdkit ended at its start")

    def cut_power(self):
        end(self.process)
