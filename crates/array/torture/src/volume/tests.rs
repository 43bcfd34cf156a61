//! What a block may hold, case by case.

use super::*;

const LBA: Lba = Lba(1);
const FIRST: WriteNumber = WriteNumber(0);
const ONE: WriteNumber = WriteNumber(1);
const TWO: WriteNumber = WriteNumber(2);

fn history() -> VolumeHistory {
    VolumeHistory::new(BlockCount(2))
}

#[test]
fn an_acknowledged_write_supersedes_what_was_there() {
    let mut history = history();
    history.begin_write(LBA, ONE, Stamp(1), Stamp(1));
    assert!(history.check(LBA, FIRST, Stamp(2)).is_ok());
    assert!(history.check(LBA, ONE, Stamp(2)).is_ok());
    history.end_write(LBA, ONE, Stamp(3), true);
    assert!(history.check(LBA, FIRST, Stamp(2)).is_ok(), "the read began before");
    assert_eq!(history.check(LBA, FIRST, Stamp(4)), Err(Stale { possible: vec![ONE] }));
    assert_eq!(history.settled(LBA), Some(ONE));
}

#[test]
fn writes_in_flight_together_may_end_in_either_order_until_read() {
    let mut history = history();
    history.begin_write(LBA, ONE, Stamp(1), Stamp(1));
    history.begin_write(LBA, TWO, Stamp(2), Stamp(1));
    history.end_write(LBA, TWO, Stamp(3), true);
    history.end_write(LBA, ONE, Stamp(4), true);
    assert_eq!(history.settled(LBA), None);
    assert!(history.check(LBA, ONE, Stamp(5)).is_ok());
    history.settle(LBA, TWO, Stamp(5), true);
    assert!(history.check(LBA, ONE, Stamp(6)).is_err());
}

/// One was promised and two was not: after the cut either may be there, and then it is the one that was read.
#[test]
fn after_a_cut_anything_from_the_floor_on_may_be_there_until_it_is_read() {
    let cut_history = |is_kept| {
        let mut history = history();
        for (write, at) in [(ONE, 1), (TWO, 4)] {
            history.begin_write(LBA, write, Stamp(at), Stamp(at));
            history.end_write(LBA, write, Stamp(at + 1), true);
            let promise = if write == ONE { Promise::OnMembers } else { Promise::InNvram };
            history.promise_write(LBA, write, promise);
        }
        history.cut(TWO, Stamp(9), is_kept);
        history
    };
    let mut lost = cut_history(false);
    assert!(lost.check(LBA, FIRST, Stamp(10)).is_err());
    assert!(lost.check(LBA, ONE, Stamp(10)).is_ok());
    assert!(lost.check(LBA, TWO, Stamp(10)).is_ok());
    assert_eq!(lost.settled(LBA), None);
    lost.settle(LBA, ONE, Stamp(10), true);
    assert!(lost.check(LBA, TWO, Stamp(11)).is_err());
    lost.cut(TWO, Stamp(12), false);
    assert!(lost.check(LBA, TWO, Stamp(13)).is_err(), "what was read stays");
    assert!(cut_history(true).check(LBA, ONE, Stamp(10)).is_err(), "NVRAM had the newer one");
}

/// A device that is gone for now brings the other version back, whatever was promised meanwhile.
#[test]
fn what_was_read_for_now_is_not_promised() {
    for for_good in [false, true] {
        let mut history = history();
        history.begin_write(LBA, ONE, Stamp(1), Stamp(1));
        history.cut(ONE, Stamp(2), false);
        history.settle(LBA, ONE, Stamp(3), for_good);
        assert!(history.check(LBA, FIRST, Stamp(4)).is_err());
        history.promise_all(ONE, Stamp(5));
        history.cut(ONE, Stamp(6), false);
        assert_eq!(history.check(LBA, FIRST, Stamp(7)).is_err(), for_good);
        assert!(history.check(LBA, ONE, Stamp(7)).is_ok());
    }
}

/// What was read stays through a cut, until it is taken back; a write in between ends that.
#[test]
fn what_was_told_can_be_taken_back_until_it_is_written() {
    for is_written in [false, true] {
        let mut history = history();
        history.begin_write(LBA, ONE, Stamp(1), Stamp(1));
        history.cut(ONE, Stamp(2), false);
        let mut told = history.before_told(LBA);
        history.settle(LBA, ONE, Stamp(3), true);
        assert!(history.note_told(LBA, &mut told));
        if is_written {
            history.begin_write(LBA, TWO, Stamp(4), Stamp(4));
            history.end_write(LBA, TWO, Stamp(5), true);
            history.promise_write(LBA, TWO, Promise::OnMembers);
        }
        history.cut(TWO, Stamp(6), false);
        assert!(history.check(LBA, FIRST, Stamp(7)).is_err());
        history.take_back(LBA, &told);
        assert_eq!(history.check(LBA, FIRST, Stamp(8)).is_ok(), !is_written);
    }
}

/// The read began before the write and ended after it: the write settled the block.
#[test]
fn a_write_that_ended_during_a_read_was_not_told_by_it() {
    let mut history = history();
    history.cut(FIRST, Stamp(1), false);
    history.begin_write(LBA, ONE, Stamp(3), Stamp(2));
    history.end_write(LBA, ONE, Stamp(4), true);
    let mut told = history.before_told(LBA);
    history.settle(LBA, FIRST, Stamp(2), true);
    assert_eq!(history.settled(LBA), Some(ONE));
    assert!(history.is_open(LBA), "a read that began before the write may still return what was there");
    assert!(!history.note_told(LBA, &mut told));
}

#[test]
fn a_flush_promises_what_could_be_read_when_it_began() {
    let mut history = history();
    history.begin_write(LBA, ONE, Stamp(1), Stamp(1));
    history.end_write(LBA, ONE, Stamp(2), true);
    history.begin_write(LBA, TWO, Stamp(5), Stamp(3));
    history.promise_flush(LBA, Stamp(3), ONE, Promise::OnMembers);
    history.cut(TWO, Stamp(9), true);
    assert!(history.check(LBA, FIRST, Stamp(10)).is_err());
    assert!(history.check(LBA, ONE, Stamp(10)).is_ok());
    assert!(history.check(LBA, TWO, Stamp(10)).is_ok());
    assert!(history.check(LBA, WriteNumber(3), Stamp(10)).is_err(), "never written");
}

#[test]
fn a_lost_write_leaves_a_block_gone_unless_the_members_had_one() {
    for (promise, is_gone) in [(Promise::InNvram, true), (Promise::OnMembers, false)] {
        let mut history = history();
        history.give_up(LBA);
        history.begin_write(LBA, ONE, Stamp(1), Stamp(1));
        history.end_write(LBA, ONE, Stamp(2), true);
        history.promise_write(LBA, ONE, promise);
        assert!(history.may_be_gone(LBA, Stamp(1)));
        assert!(!history.may_be_gone(LBA, Stamp(3)));
        history.lose(LBA, false);
        assert_eq!(history.may_be_gone(LBA, Stamp(3)), is_gone, "{promise:?}");
    }
}

#[test]
fn a_block_stays_in_the_list_until_a_promise_covers_its_last_write() {
    let mut history = history();
    history.begin_write(LBA, ONE, Stamp(1), Stamp(1));
    history.end_write(LBA, ONE, Stamp(2), true);
    let list = history.take_unpromised();
    assert_eq!(list, [LBA]);
    history.keep_unpromised(list, Stamp(2));
    let list = history.take_unpromised();
    assert_eq!(list, [LBA], "the flush began before the write ended");
    history.keep_unpromised(list, Stamp(3));
    assert!(history.take_unpromised().is_empty());
}
