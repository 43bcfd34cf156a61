//! A write whose stripe has a parity on a device that has left, which the other devices do not know yet.
//!
//! The device may be back at the next start with the old parity, and the record of the write has none for it. Defect (plan
//! `202448-bounded` of torture): the write went on, the start wrote the record again, and the old parity stayed beside it.
//!
//! No world: the test picks which I/O ends next by what it is.

use raidlab_controller::{
    Action, Area, CacheConfig, Controller, HostOp, HostRequest, HostTag, MemberError, MemberIo, MemberOp,
    MetadataPolicy,
};
use raidlab_format::AreaLayout;
use raidlab_raid::StripUnit;
use raidlab_testkit::array;
use raidlab_units::{BlockCount, ByteCount, Lba, MemberIndex, MemberLba, Nanos, StripeIndex};

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

/// Writes the first block.
fn write(controller: &mut Controller, tag: u32) -> Vec<MemberIo> {
    let op = HostOp::Write { fua: false };
    controller
        .handle_host_request(NOW, HostRequest { tag: HostTag(tag), op, lba: Lba(0), blocks: BlockCount(1) });
    ask(controller)
}

/// Ends all I/O that `ends` names, and what comes of it. Returns how many writes were among it.
fn finish(controller: &mut Controller, ios: &mut Vec<MemberIo>, ends: impl Fn(&MemberIo) -> bool) -> usize {
    let mut written = 0;
    while let Some(at) = ios.iter().position(&ends) {
        let io = ios.remove(at);
        written += usize::from(matches!(io.op, MemberOp::Write { .. }));
        controller.handle_member_completion(NOW, io.id, Ok(()));
        ios.extend(ask(controller));
    }
    written
}

/// Loses the device of a unit of the first stripe, and what is on its way there.
fn lose(controller: &mut Controller, ios: &mut Vec<MemberIo>, member: MemberIndex) {
    controller.handle_member_loss(NOW, member);
    while let Some(at) = ios.iter().position(|io| io.member == member) {
        controller.handle_member_completion(NOW, ios.remove(at).id, Err(MemberError::Gone));
    }
    ios.extend(ask(controller));
}

/// One device leaves, and another before the devices have recorded the first. Records of writes that waited for that are made before
/// the log is drained for the other.
#[test]
fn no_record_is_made_without_a_parity_that_the_next_start_may_find() {
    let mut config = array("6", 5, CacheConfig { size: ByteCount(0), ..CacheConfig::default() });
    config.resilience.metadata = MetadataPolicy::Log;
    let layout = config.layout().expect("it can be");
    let member = |unit| layout.place(StripeIndex(0), unit).member;
    let data = |strip| StripUnit::Data { strip, copy: 0 };
    // States alternate: the array is dirty by the one here, then lacks a device by the other, then another by this one again.
    let slot = AreaLayout::new(ByteCount(0)).state[1].offset_bytes / 4096;
    let is_second = |io: &MemberIo| io.area == Area::Metadata && io.lba == MemberLba(slot);
    for unit in [data(2), StripUnit::Parity(0), StripUnit::Parity(1)] {
        let mut controller = Controller::new(&config).expect("it can be");
        let mut ios = write(&mut controller, 0);
        finish(&mut controller, &mut ios, |_| true);
        lose(&mut controller, &mut ios, member(data(1)));
        lose(&mut controller, &mut ios, member(unit));
        ios.extend(write(&mut controller, 1));
        finish(&mut controller, &mut ios, |io| io.op == MemberOp::Read);
        let states = ios.len();
        let early = finish(&mut controller, &mut ios, |io| !is_second(io)) - states;
        let is_parity = matches!(unit, StripUnit::Parity(_));
        assert_eq!(early == 0, is_parity, "{unit:?}: {early} writes before the devices know who has left");
        let later = finish(&mut controller, &mut ios, |_| true);
        assert_eq!(later > 3, is_parity, "{unit:?}: {later} writes from the states on");
        assert!(ios.is_empty());
    }
}
