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

/// Lets an array ask its members, and has reads for the host fail on those of `failing`. Memory is worked on at once; time goes on when
/// nothing else does. Returns what members were asked for, in order.
fn run((controller, now): (&mut Controller, &mut Nanos), failing: &[MemberIndex]) -> Vec<MemberIo> {
    let (mut ios, mut next, mut timer) = (Vec::<MemberIo>::new(), 0, None);
    loop {
        while let Some(action) = controller.poll_action() {
            match action {
                Action::Member(io) => ios.push(io),
                Action::Memory(task) => controller.handle_memory_completion(*now, task.id),
                Action::Timer { id, at } => timer = Some((id, at)),
                _ => {}
            }
        }
        if let Some(io) = ios.get(next) {
            let fails = io.op == MemberOp::Read && io.class == IoClass::Host && failing.contains(&io.member);
            let result = if fails { Err(MemberError::Medium) } else { Ok(()) };
            controller.handle_member_completion(*now, io.id, result);
            next += 1;
        } else if let Some((id, at)) = timer.take() {
            *now = at.max(*now);
            controller.handle_timer(*now, id);
        } else {
            return ios;
        }
    }
}

/// Writes the first block.
fn write(controller: &mut Controller, now: &mut Nanos, tag: u32, failing: &[MemberIndex]) -> Vec<MemberIo> {
    let (op, lba) = (HostOp::Write { fua: false }, Lba(0));
    let request = HostRequest { tag: HostTag(tag), op, lba, blocks: BlockCount(1) };
    controller.handle_host_request(*now, request);
    run((controller, now), failing)
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
        let data = |strip| member(StripUnit::Data { strip, copy: 0 });
        let parities: Vec<_> = (0..layout.shape().parities).map(|it| member(StripUnit::Parity(it))).collect();
        let mut failing = parities.clone();
        failing.push(data(1));
        let mut controller = Controller::new(&config).expect("it can be");
        let mut now = Nanos::ZERO;
        write(&mut controller, &mut now, 0, &[]);
        let ios = write(&mut controller, &mut now, 1, &failing);
        assert!(controller.is_idle());
        assert_eq!(controller.bad_blocks().count(), 0, "RAID {level}: all is repaired");
        let is_write = |io: &MemberIo| io.area == Area::Data && matches!(io.op, MemberOp::Write { .. });
        let written = ios.iter().position(|io| is_write(io) && io.member == data(0)).expect("it is written");
        let is_repair = |io: &MemberIo| is_write(io) && parities.contains(&io.member);
        let repaired = ios.iter().position(is_repair).expect("parity is made anew");
        let between = &ios[written..repaired];
        let flushes = between.iter().filter(|io| io.op == MemberOp::Flush).count();
        assert_eq!(flushes, usize::from(members), "RAID {level}: what the records are for is durable before");
        let flushed = between.iter().rposition(|io| io.op == MemberOp::Flush).expect("they were counted");
        let states = between[flushed..].iter().filter(|io| io.area == Area::Metadata).count();
        assert_eq!(states, usize::from(members), "RAID {level}: the devices know before");
        let tail = controller.array_state().expect("it keeps one").log_tail;
        assert_eq!(tail, 3, "RAID {level}: both records are behind the tail");
    }
}
