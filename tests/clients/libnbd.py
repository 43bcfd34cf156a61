"""NBD's finer promises, asked for through libnbd's Python binding.

Verified: the flags; structured replies whose chunks cover the read once; DF; block status (whole, aligned, zero where it
says zero); trim, zero and fast zero beside their neighbours; FUA; requests past the end and of no length, which must be
errors and leave the connection usable; many commands in flight at once; and that a flush on one connection makes what it
covers visible on another. Left out: TLS, and what only a killed server shows (tests/attack). Source: the NBD protocol's
doc/proto.md.
"""

import errno
import hashlib
import random
import sys

import nbd

MIB = 1 << 20


def check(truth, message):
    if not truth:
        sys.exit(f"libnbd: FAILED: {message}")


def noise(seed, length):
    return random.Random(seed).randbytes(length)


def connect(uri):
    handle = nbd.NBD()
    handle.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    # The client's own checks are off: the server must refuse what is wrong.
    handle.set_strict_mode(0)
    handle.connect_uri(uri)
    return handle


def flags(h):
    check(h.get_structured_replies_negotiated(), "no structured replies")
    check(not h.is_read_only(), "the export is read-only")
    for name in ("flush", "fua", "trim", "zero", "multi_conn"):
        check(getattr(h, f"can_{name}")(), f"the export has no {name}")
    check(h.can_meta_context(nbd.CONTEXT_BASE_ALLOCATION), "no base:allocation")
    check(h.get_protocol() == "newstyle-fixed", f"protocol {h.get_protocol()}")


def structured_reads(h):
    data = noise(1, 3 * MIB)
    h.pwrite(data, MIB)
    h.zero(MIB, 2 * MIB)
    want = data[:MIB] + bytes(MIB) + data[2 * MIB :]
    covered = []

    def chunk(part, offset, status, error):
        covered.append((offset, len(part), status, bytes(part)))

    got = h.pread_structured(3 * MIB, MIB, chunk)
    check(bytes(got) == want, "a structured read has the wrong data")
    end = MIB
    for offset, length, status, part in sorted(covered):
        check(offset == end, f"a chunk at {offset}, the one before ends at {end}")
        check(part == want[offset - MIB : offset - MIB + length], f"the chunk at {offset} has the wrong data")
        end += length
    check(end == 4 * MIB, f"the chunks end at {end}")
    if h.can_df():
        count = []
        h.pread_structured(65536, MIB, lambda *a: count.append(a), flags=nbd.CMD_FLAG_DF)
        check(len(count) == 1, f"{len(count)} chunks although DF was set")


def block_status(h):
    size = h.get_size()
    data = 24 * MIB
    h.pwrite(noise(25, 65536), data)
    at, extents = 0, []
    while at < size:
        found = []

        def status(context, offset, entries, error):
            if context == nbd.CONTEXT_BASE_ALLOCATION:
                found.extend(entries)

        h.block_status(min(size - at, 1 << 30), at, status)
        check(found, f"no extents at {at}")
        for length, state in zip(found[::2], found[1::2]):
            check(length > 0, f"an empty extent at {at}")
            extents.append((at, length, state))
            at += length
    check(at == size, f"the extents end at {at} of {size}")
    for at, length, state in extents:
        if state & nbd.STATE_ZERO:
            check(not at <= data < at + length, "block status says zero where data was just written")
            for offset in [*range(at, at + length, MIB), at + length - 1]:
                part = h.pread(min(4096, at + length - offset), offset)
                check(not any(part), f"block status says zero at {offset}, there is data")


def trim_and_zero(h):
    base = 8 * MIB
    for number, (name, flag) in enumerate((("trim", 0), ("trim", nbd.CMD_FLAG_FUA), ("zero", 0),
                                           ("zero", nbd.CMD_FLAG_NO_HOLE), ("zero", nbd.CMD_FLAG_FUA))):
        data = noise(10 + number, 2 * MIB)
        h.pwrite(data, base)
        getattr(h, name)(65536, base + MIB, flag)
        check(bytes(h.pread(MIB, base)) == data[:MIB], f"{name} {flag} changed what is before it")
        after = bytes(h.pread(MIB - 65536, base + MIB + 65536))
        check(after == data[MIB + 65536 :], f"{name} {flag} changed what is behind it")
        within = bytes(h.pread(65536, base + MIB))
        check(name == "trim" or not any(within), f"{name} {flag} left data")
        # A trimmed range is open once; it must then stay as it was read.
        check(within == bytes(h.pread(65536, base + MIB)), f"{name} {flag}: two reads differ")
    if h.can_fast_zero():
        h.pwrite(noise(20, 65536), base)
        try:
            h.zero(65536, base, nbd.CMD_FLAG_FAST_ZERO)
            check(not any(h.pread(65536, base)), "a fast zero left data")
        except nbd.Error as error:
            check(error.errnum == errno.ENOTSUP, f"fast zero: {error}")


def alignment(h):
    least = h.get_block_size(nbd.SIZE_MINIMUM) or 1
    ground = bytearray(noise(30, MIB))
    base = 12 * MIB
    h.pwrite(bytes(ground), base)
    draw = random.Random(31)
    for number in range(300):
        length = draw.randrange(1, 20000 // least) * least
        at = draw.randrange(0, (MIB - length) // least) * least
        part = noise(1000 + number, length)
        h.pwrite(part, base + at, nbd.CMD_FLAG_FUA if number % 3 == 0 else 0)
        ground[at : at + length] = part
        at = draw.randrange(0, (MIB - length) // least) * least
        check(bytes(h.pread(length, base + at)) == ground[at : at + length], f"read of {length} at {at} differs")
    check(bytes(h.pread(MIB, base)) == ground, "the range differs after writes at every alignment")


def refused(call, what):
    try:
        call()
    except nbd.Error:
        return
    check(False, f"{what} was not refused")


def out_of_range(h):
    size = h.get_size()
    refused(lambda: h.pread(4096, size), "a read past the end")
    refused(lambda: h.pread(8192, size - 4096), "a read across the end")
    refused(lambda: h.pwrite(bytes(4096), size), "a write past the end")
    refused(lambda: h.pwrite(bytes(8192), size - 4096), "a write across the end")
    refused(lambda: h.trim(8192, size - 4096), "a trim across the end")
    refused(lambda: h.zero(8192, size - 4096), "a zero across the end")
    refused(lambda: h.pread(4096, (1 << 64) - 4096), "a read at the end of 64 bits")
    check(h.aio_is_ready(), "the connection did not outlive refused requests")
    h.pwrite(noise(40, 4096), size - 4096)
    check(bytes(h.pread(4096, size - 4096)) == noise(40, 4096), "the last block differs")


def in_flight(h):
    """256 commands at once: reads must see a write that was answered before they were sent."""
    base, block = 16 * MIB, 65536
    parts = [noise(50 + number, block) for number in range(128)]
    cookies = [h.aio_pwrite(nbd.Buffer.from_bytearray(bytearray(part)), base + n * block) for n, part in enumerate(parts)]
    drain(h, cookies)
    buffers = [nbd.Buffer(block) for _ in parts]
    order = list(range(128))
    random.Random(5).shuffle(order)
    drain(h, [h.aio_pread(buffers[n], base + n * block) for n in order])
    for number, part in enumerate(parts):
        check(bytes(buffers[number].to_bytearray()) == part, f"block {number} of 128 in flight differs")


def drain(h, cookies):
    for cookie in cookies:
        while not h.aio_command_completed(cookie):
            h.poll(-1)


def multi_conn(uri):
    """The promise of NBD_FLAG_CAN_MULTI_CONN: after a flush on any connection, all see what was answered before it."""
    handles = [connect(uri) for _ in range(4)]
    base = 32 * MIB
    for number in range(64):
        writer, flusher, reader = (handles[(number + k) % 4] for k in (0, 1, 2))
        at = base + number % 16 * 65536
        reader.pread(65536, at)
        part = noise(2000 + number, 65536)
        if number % 2:
            writer.pwrite(part, at, nbd.CMD_FLAG_FUA)
        else:
            writer.pwrite(part, at)
            flusher.flush()
        got = bytes(reader.pread(65536, at))
        check(got == part, f"round {number}: another connection does not see what was written and flushed")
    for handle in handles:
        handle.shutdown()


def main():
    uri = sys.argv[1]
    h = connect(uri)
    check(h.get_size() >= 48 * MIB, "the export is smaller than 48 MiB")
    flags(h)
    structured_reads(h)
    trim_and_zero(h)
    block_status(h)
    alignment(h)
    out_of_range(h)
    in_flight(h)
    multi_conn(uri)
    before = hashlib.sha256(h.pread(MIB, 12 * MIB)).digest()
    h.flush()
    h.shutdown()
    check(hashlib.sha256(connect(uri).pread(MIB, 12 * MIB)).digest() == before, "a new connection reads other data")


main()
