//! Parity that was given up and is made anew while an older record of its row could still be replayed.
//!
//! A write that can read neither another strip nor parity leaves the row's parity a bad block, which a replay passes over. Read repair
//! makes that parity anew without a record of its own. Defect (plan `199263963124-beyond` of torture): it did so at once, the bad block
//! left the list, and the next start wrote the older record's parity over it.
//!
//! No world: the test picks which I/O ends how by what it is.

use raidlab_controller::{
    Action, Area, CacheConfig, Controller, HostOp, HostRequest, HostTag, IoClass, MemberCache, MemberError,
    MemberIo, MemberOp, MetadataPolicy,
};
use raidlab_raid::StripUnit;
use raidlab_testkit::array;
use raidlab_units::{BlockCount, ByteCount, Lba, MemberIndex, Nanos, StripeIndex};

const NOW: Nanos = Nanos::ZERO;

/// What the controller asks of its members; memory is worked on at once.
fn ask(controller: &mut Controller) -> Vec<MemberIo> {
    let mut ios = Vec::new();
    while let Some(action) = controller.poll_action() {
        match action {
            Action::Member(io) => ios.push(io),
            Action::Memory(task) => controller.handle_memory_completion(NOW, task.id),
            _ => {}
        }
    }
    ios
}

/// Writes the first block, and has the first read of each device of `failing` fail. Returns what members were asked for, in order.
fn write(controller: &mut Controller, tag: u32, mut failing: Vec<MemberIndex>) -> Vec<MemberIo> {
    let (op, lba) = (HostOp::Write { fua: false }, Lba(0));
    controller.handle_host_request(NOW, HostRequest { tag: HostTag(tag), op, lba, blocks: BlockCount(1) });
    let mut ios = ask(controller);
    let mut next = 0;
    while let Some(&io) = ios.get(next) {
        let fails = failing.iter().position(|member| io.op == MemberOp::Read && io.member == *member);
        let result = if fails.is_some() { Err(MemberError::Medium) } else { Ok(()) };
        fails.map(|at| failing.remove(at));
        controller.handle_member_completion(NOW, io.id, result);
        ios.extend(ask(controller));
        next += 1;
    }
    ios
}

#[test]
fn parity_is_repaired_when_no_record_is_left_that_has_an_older_one() {
    for (level, members) in [("5", 5), ("6", 6)] {
        let mut config = array(level, members, CacheConfig { size: ByteCount(0), ..CacheConfig::default() });
        config.resilience.metadata = MetadataPolicy::Log;
        // Records stay until members are flushed.
        config.member_cache = MemberCache::On;
        let layout = config.layout().expect("it can be");
        let member = |unit| layout.place(StripeIndex(0), unit).member;
        let mut failing = vec![member(StripUnit::Data { strip: 1, copy: 0 })];
        failing.extend((0..layout.shape().parities).map(|parity| member(StripUnit::Parity(parity))));
        let parities = failing[1..].to_vec();
        let mut controller = Controller::new(&config).expect("it can be");
        write(&mut controller, 0, Vec::new());
        let ios = write(&mut controller, 1, failing);
        assert!(controller.is_idle());
        assert_eq!(controller.bad_blocks().count(), 0, "RAID {level}: all is repaired");
        let is_repair = |io: &MemberIo| {
            io.class == IoClass::Background
                && matches!(io.op, MemberOp::Write { .. })
                && parities.contains(&io.member)
        };
        let repaired = ios.iter().position(is_repair).expect("parity is made anew");
        let is_flush = |io: &&MemberIo| io.op == MemberOp::Flush;
        let flushes = ios[..repaired].iter().filter(is_flush).count();
        assert_eq!(flushes, usize::from(members), "RAID {level}: what the records are for is durable before");
        let flushed = ios.iter().rposition(|io| is_flush(&io)).expect("they were counted");
        let states = ios[flushed..repaired].iter().filter(|io| io.area == Area::Metadata);
        assert_eq!(states.count(), usize::from(members), "RAID {level}: the devices know before");
        let tail = controller.array_state().expect("it keeps one").log_tail;
        assert_eq!(tail, 3, "RAID {level}: both records are behind the tail");
    }
}
