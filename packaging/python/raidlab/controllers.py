"""The array controller itself, over bytes that can be looked at."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Union

from . import _raidlab
from ._raidlab import RaidlabError
from .arguments import number, of_type, refused, short, whole


class MemberIo(NamedTuple):
    """What the controller asks of a member, and waits for."""

    number: int
    member: int
    op: str
    """``read`` or ``write``."""
    first_byte: int
    bytes: int


def _size(name: str, size: Any) -> str:
    given = number(size)
    if not isinstance(size, str) and (given is None or given < 1):
        raise refused(name, size, "a size is bytes, or text with a unit such as '64KiB'")
    return short(name, size) if given is None else f"{given}B"


def _lba(lba: int) -> int:
    return whole("lba", lba, 0, 2**64 - 1, "an address is")


class Controller:
    """The controller of a real array, over ``bytearray`` members: each of its member I/Os is carried out when you say so.

        c = raidlab.Controller(level="5", members=3)
        c.write(0, b"x" * 512)                   # all of its member I/Os at once
        request = c.begin_write(0, b"y" * 512)   # or one by one
        c.pending                                # what it asks of members now
        c.finish(c.pending[0])
        c.crash()                                # power fails between two of them
        c.fail(0)
        c.read(0)

    It keeps nothing on its members (no log, no bitmap), so a crash between a write of data and one of parity leaves the write hole open;
    :meth:`resync` closes it, if no member is lost before.
    ``level`` is written as on the command line; sizes are bytes, or texts with a unit.
    """

    def __init__(
        self,
        level: str = "5",
        members: int = 3,
        *,
        member_size: Union[int, str] = "64KiB",
        strip: Union[int, str] = "4KiB",
        block: Union[int, str] = "512B",
    ) -> None:
        sizes = {"member_size": member_size, "strip": strip, "block": block}
        texts = (_size(name, size) for name, size in sizes.items())
        self._controller = _raidlab.Controller(short("level", str(level)), whole("members", members, 1, 64, "members are"), *texts)

    @property
    def members(self) -> list[bytearray]:
        """The bytes of each member: to be looked at, and to be spoilt."""
        return self._controller.members

    @property
    def volume_blocks(self) -> int:
        """Blocks that the host sees."""
        return self._controller.volume_blocks

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
        return self._controller.block_bytes

    @property
    def lost(self) -> list[int]:
        """Members that have been lost and not replaced."""
        return self._controller.lost

    @property
    def pending(self) -> list[MemberIo]:
        """Member I/Os that wait to be carried out, in the order of their numbers."""
        return [MemberIo(*io) for io in self._controller.pending()]

    def begin_write(self, lba: int, data: Union[bytes, bytearray]) -> int:
        """Hands in a write of whole blocks and returns its number; what it needs of the members becomes :attr:`pending`."""
        of_type("data", data, (bytes, bytearray, memoryview), "it is bytes")
        blocks, rest = divmod(len(data), self.block_bytes)
        if rest or not blocks:
            raise refused("data", data, f"it has {len(data)} bytes, and is one or more whole blocks of {self.block_bytes}")
        return self._controller.begin(_lba(lba), blocks, bytes(data))

    def begin_read(self, lba: int, blocks: int = 1) -> int:
        """Hands in a read and returns its number."""
        return self._controller.begin(_lba(lba), whole("blocks", blocks, 1, 2**32 - 1, "blocks are"), None)

    def finish(self, io: Union[MemberIo, int]) -> None:
        """Carries out a member I/O; more may become pending."""
        # Numbers are used again.
        if isinstance(io, MemberIo) and io not in self.pending:
            raise refused("io", io, "it is no longer pending")
        number = io.number if isinstance(io, MemberIo) else io
        self._controller.finish(whole("io", number, 0, 2**32 - 1, "it is one of pending, or its number:"))

    def run(self) -> None:
        """Carries out member I/Os until none is pending."""
        while pending := self._controller.pending():
            self._controller.finish(pending[0][0])

    def result(self, request: int) -> Optional[bytes]:
        """The bytes of a request that has ended, and ``None`` while it has not. It is forgotten then. One that failed raises."""
        ended = self._controller.take_result(whole("request", request, 0, 2**32 - 1, "a request is"))
        if ended is None:
            return None
        succeeded, data = ended
        if not succeeded:
            raise RaidlabError(f"request {request} failed: too many members are lost (lost: {self.lost})")
        return data

    def write(self, lba: int, data: Union[bytes, bytearray]) -> None:
        """Writes whole blocks, with all member I/Os that it takes."""
        request = self.begin_write(lba, data)
        self.run()
        self.result(request)

    def read(self, lba: int, blocks: int = 1) -> bytes:
        """Reads blocks, with all member I/Os that it takes."""
        request = self.begin_read(lba, blocks)
        self.run()
        data = self.result(request)
        assert data is not None, "nothing is pending, so it has ended"
        return data

    def fail(self, member: int) -> None:
        """A member is gone. Others that it leaves without redundancy serve on."""
        self._controller.lose(self._member(member))

    def replace(self, member: int) -> None:
        """A new device of zeros takes the place of a lost member; the rebuild becomes :attr:`pending`."""
        self._controller.replace(self._member(member))

    def _member(self, member: int) -> int:
        return whole("member", member, 0, len(self.members) - 1, "a member is")

    def crash(self) -> None:
        """Power fails and comes back: what is pending was never done, and requests under way are forgotten."""
        self._controller.crash()

    def resync(self) -> None:
        """Makes parity and copies anew from the data, as after a crash; the work becomes :attr:`pending`."""
        self._controller.resync()

    def __repr__(self) -> str:
        return f"<Controller over {len(self.members)} members, {len(self.pending)} member I/Os pending, lost: {self.lost}>"
