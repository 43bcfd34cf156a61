"""Servers whose standard error can't be written to: a full disk, a pipe whose reader goes under load, one that nobody reads.

What must hold: clients are served and `status` answers, an idle server uses no processor, SIGTERM ends it with success, and
the next start has all that was written.
Left out: standard output, which says one line at the start.
"""

import fcntl
import os
import signal
import socket
import time

import model
from harness import Array, connect

KINDS = ("full", "closed", "unread")
KNOCKS = 130


def run(case):
    """All three, in an order of its own."""
    for kind in case.draw.sample(KINDS, len(KINDS)):
        one(case, kind)


def one(case, kind):
    case.label = kind
    level, members = case.draw.choice((("5", 4), ("6", 5), ("10", 4)))
    paths = [case.path(f"{kind}{number}") for number in range(members)]
    array = Array(case, paths, ["--level", level, "--member-size", "2MiB"], case.draw.choice(((), ("-v",), ("-vv",))))
    read, write = stream(kind)
    case.clean_ups.append(lambda: os.close(read) if read is not None else None)
    array.must_start(stderr=write)
    os.close(write)
    book = model.Model(connect(array.uri).get_size())
    handles = [connect(array.uri) for _ in range(2)]
    load = model.Load(book, handles, case.draw, True)
    work(case, load, 0.3)
    if kind == "closed":
        os.close(read)
        read = None
    knock(array)
    array.must("fail", str(case.draw.randrange(members)))
    work(case, load, 0.3)
    case.require(load.drain(), "the connection broke")
    case.require(not load.wrong and not load.errors, f"{load.errors} failed requests, wrong: {load.wrong[:4]}")
    case.require(array.status()["condition"] == "degraded", "status does not tell the failed member")
    idles(case, array)
    code = array.kill(signal.SIGTERM)
    case.require(code == 0, f"{kind}: SIGTERM ended it with {code}")
    array.must_start()
    wrong = book.verify(connect(array.uri))
    case.require(not wrong, f"{kind}: {len(wrong)} sectors are wrong: (sector, found, allowed) {wrong[:4]}")
    array.must("stop")
    case.count("dead logs")
    case.count("acknowledged", load.acknowledged)


def stream(kind):
    """The end to read from, if there is one, and the one to write to."""
    if kind == "full":
        return None, os.open("/dev/full", os.O_WRONLY)
    read, write = os.pipe()
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, 4096)
    return read, write


def work(case, load, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        case.require(load.step(), "the connection broke")


def knock(array):
    """More clients than there is room for, with garbage: each is worth a line of the log."""
    held = []
    for _ in range(KNOCKS):
        opened = socket.socket(socket.AF_UNIX)
        held.append(opened)
        try:
            opened.settimeout(1)
            opened.connect(array.socket)
            opened.sendall(b"\0" * 64)
        except OSError:
            pass
    for opened in held:
        opened.close()


def idles(case, array):
    before = processor_seconds(array)
    time.sleep(0.5)
    used = processor_seconds(array) - before
    case.require(used < 0.3, f"an idle server used the processor for {used:.2f} of 0.5 s")


def processor_seconds(array):
    with open(f"/proc/{array.process.pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
