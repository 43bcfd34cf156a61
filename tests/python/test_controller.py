"""The controller over bytearrays: every byte, and the write hole."""

import random

import pytest
import raidlab

BLOCK = 512


def text(number: int) -> bytes:
    return bytes([number]) * BLOCK


@pytest.mark.parametrize(
    ("level", "members", "may_fail"), [("0", 3, 0), ("1", 2, 1), ("10", 4, 1), ("5", 4, 1), ("6", 5, 2), ("50:2-spans", 6, 1)]
)
def test_what_is_written_is_read_whatever_may_fail(level: str, members: int, may_fail: int) -> None:
    chance = random.Random(7)
    controller = raidlab.Controller(level, members)
    expected = bytearray(controller.volume_blocks * BLOCK)
    for _ in range(40):
        blocks = chance.randint(1, 24)
        lba = chance.randrange(controller.volume_blocks - blocks)
        data = chance.randbytes(blocks * BLOCK)
        controller.write(lba, data)
        expected[lba * BLOCK : (lba + blocks) * BLOCK] = data
    lost = chance.sample(range(members), may_fail)
    for member in lost:
        controller.fail(member)
        # Nothing of it is looked at any more.
        controller.members[member][:] = bytes(len(controller.members[member]))
    assert controller.read(0, controller.volume_blocks) == expected
    for member in lost:
        controller.replace(member)
        controller.run()
    assert controller.lost == []
    for member in lost:
        # Now it is others that may go.
        controller.fail((member + 1) % members)
        break
    assert controller.read(0, controller.volume_blocks) == expected


def test_a_member_io_that_has_ended_is_not_another_of_its_number() -> None:
    controller = raidlab.Controller("5", 3)
    controller.begin_write(0, text(1))
    first = controller.pending[0]
    controller.finish(first)
    with pytest.raises(raidlab.RaidlabError, match="no longer pending"):
        controller.finish(first)


def test_the_write_hole() -> None:
    def torn() -> raidlab.Controller:
        """Data is written and its parity is not, when power fails."""
        controller = raidlab.Controller("5", 3)
        controller.write(0, text(1))
        controller.write(8, text(2))  # The other strip of the stripe.
        controller.begin_write(0, text(3))
        while not any(io.op == "write" for io in controller.pending):
            controller.finish(controller.pending[0])
        writes = controller.pending
        assert len(writes) == 2, "data and parity"
        data = next(io for io in writes if controller.members[io.member][io.first_byte] == 1)
        controller.finish(data)
        controller.crash()
        return controller

    controller = torn()
    assert controller.read(0) == text(3)
    holder = next(at for at, member in enumerate(controller.members) if member[0] == 2)
    controller.fail(holder)
    assert controller.read(8) != text(2), "a block that nobody wrote is wrong: the hole"

    controller = torn()
    controller.resync()
    controller.run()
    controller.fail(holder)
    assert controller.read(8) == text(2), "parity was made anew before the member was lost"


def test_too_many_members_are_lost() -> None:
    controller = raidlab.Controller("5", 3)
    controller.write(0, text(1) * 16)
    controller.fail(0)
    controller.fail(1)
    with pytest.raises(raidlab.RaidlabError, match="too many members"):
        for lba in range(0, 16):
            controller.read(lba)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: raidlab.Controller("7", 3), "level"),
        (lambda: raidlab.Controller("5", 2), "3 or more members"),
        (lambda: raidlab.Controller("5", 3, strip="1000"), "strip"),
        (lambda: raidlab.Controller("5", 3, block=700), "block"),
        (lambda: raidlab.Controller("5", 3, member_size="10GiB"), "member_size"),
        (lambda: raidlab.Controller().read(1 << 40), "lba"),
        (lambda: raidlab.Controller().read(0, 0), "blocks=0"),
        (lambda: raidlab.Controller().write(0, b"half a block"), "whole blocks"),
        (lambda: raidlab.Controller().fail(3), "member=3"),
        (lambda: raidlab.Controller().replace(0), "only a lost member"),
        (lambda: raidlab.Controller().finish(5), "not pending"),
        (lambda: raidlab.Controller().result(5), "request=5"),
    ],
)
def test_what_can_not_be_is_refused(call, said: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(raidlab.RaidlabError, match=said):
        call()


def test_a_member_that_was_cut_short_is_refused() -> None:
    controller = raidlab.Controller()
    del controller.members[0][100:]
    del controller.members[1][100:]
    with pytest.raises(raidlab.RaidlabError, match="must have 65536"):
        controller.read(0)
