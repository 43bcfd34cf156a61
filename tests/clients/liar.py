"""A server that lies in one chosen way (nbdkit's python plugin), to prove that the clients' scripts notice.

    nbdkit python liar.py disk=FILE lie=KIND [flag=FILE]

none       no lie: the scripts must pass, so that it is the lie that they see
flip       one bit of what looks like file data (noise) is wrong, in every third read of it
after      the same, but only once the file `flag` exists: an array that goes wrong when a member fails
lose       every 37th write is answered and not done
shift      a write that is not aligned to 4 KiB lands at the block's start
zeroless   write-zeroes is answered and not done
wide       a trim also wipes the 4 KiB behind its range
holes      block status calls everything a hole
cached     each connection has a write cache of its own, although multi-connection is promised
late       a write is kept in memory until 300 others came after it; a flush or FUA does not change that
noflush    the export does not offer flush

Left out: lies that nbdkit itself would not pass on (wrong framing, chunks that overlap, requests past the end).
"""

import os

import nbdkit

API_VERSION = 2
PAGE = 4096
settings = {"lie": "none"}
counts = {"read": 0, "write": 0}
late = []


def config(key, value):
    settings[key] = value


def get_ready():
    settings["file"] = os.open(settings["disk"], os.O_RDWR)


def lies(kind):
    return settings["lie"] == kind


def open(readonly):
    return {"cache": []}


def get_size(h):
    return os.fstat(settings["file"]).st_size


def can_multi_conn(h):
    return True


def can_flush(h):
    return not lies("noflush")


def can_fua(h):
    return nbdkit.FUA_NONE if lies("noflush") else nbdkit.FUA_NATIVE


def can_trim(h):
    return True


def can_zero(h):
    return True


def can_extents(h):
    return True


def block_size(h):
    return (1, 4096, 32 << 20)


def pending(h):
    return late if lies("late") else h["cache"]


def pread(h, buf, offset, flags):
    os.preadv(settings["file"], [buf], offset)
    end = offset + len(buf)
    for at, data in pending(h):
        low, high = max(at, offset), min(at + len(data), end)
        if low < high:
            buf[low - offset : high - offset] = data[low - at : high - at]
    wrong = lies("flip") or (lies("after") and os.path.exists(settings["flag"]))
    if wrong and len(set(buf[-PAGE:])) > 200:
        counts["read"] += 1
        if counts["read"] % 3 == 0:
            buf[len(buf) - 1000 % len(buf) - 1] ^= 4


def pwrite(h, buf, offset, flags):
    counts["write"] += 1
    if lies("lose") and counts["write"] % 37 == 0:
        return
    if lies("shift"):
        offset -= offset % PAGE
    if lies("late"):
        late.append((offset, bytes(buf)))
        if len(late) > 300:
            at, data = late.pop(0)
            os.pwrite(settings["file"], data, at)
    elif lies("cached"):
        h["cache"].append((offset, bytes(buf)))
    else:
        os.pwrite(settings["file"], buf, offset)


def close(h):
    for at, data in h["cache"]:
        os.pwrite(settings["file"], data, at)


def flush(h, flags):
    pass


def fill_zeros(h, count, offset):
    while count:
        part = min(count, 1 << 20)
        if pending(h):
            pwrite(h, bytes(part), offset, 0)
        else:
            os.pwrite(settings["file"], bytes(part), offset)
        offset, count = offset + part, count - part


def trim(h, count, offset, flags):
    more = min(PAGE, get_size(h) - offset - count) if lies("wide") else 0
    fill_zeros(h, count + more, offset)


def zero(h, count, offset, flags):
    if not lies("zeroless"):
        fill_zeros(h, count, offset)


def extents(h, count, offset, flags):
    state = nbdkit.EXTENT_HOLE | nbdkit.EXTENT_ZERO if lies("holes") else 0
    return [(offset, count, state)]
