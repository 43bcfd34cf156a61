//! A region's mark that is on its way when the last device in sync is lost.
//!
//! A start asks the bitmaps of devices in sync only, so a write must not go on to the device that is being rebuilt, which alone has the
//! mark. Defect: it did, and copies below the rebuild's boundary disagreed for good.
//!
//! No world: the test picks which I/O ends next by what it is.

use raidlab_controller::{
    Action, Area, CacheConfig, Controller, DeviceState, HostError, HostOp, HostRequest, HostTag, MemberError,
    MemberIo, MemberOp, MetadataPolicy,
};
use raidlab_format::{AreaLayout, DeviceUuid};
use raidlab_testkit::array;
use raidlab_units::{BlockCount, ByteCount, Lba, MemberIndex, MemberLba, Nanos};

const NOW: Nanos = Nanos::ZERO;

fn mirror() -> Controller {
    let mut config = array("1", 2, CacheConfig::default());
    config.resilience.metadata = MetadataPolicy::Bitmap;
    config.resilience.scan_iodepth = 1;
    Controller::new(&config).expect("it can be")
}

/// What the controller asks of its members, and what it answers; memory is worked on at once.
fn ask(controller: &mut Controller, answers: &mut Vec<Result<(), HostError>>) -> Vec<MemberIo> {
    let mut ios = Vec::new();
    while let Some(action) = controller.poll_action() {
        match action {
            Action::Member(io) => ios.push(io),
            Action::Memory(task) => controller.handle_memory_completion(NOW, task.id),
            Action::Complete(completion) => answers.push(completion.result),
            _ => {}
        }
    }
    ios
}

#[test]
fn a_write_is_given_up_when_only_the_device_being_rebuilt_has_its_mark() {
    let (mut controller, mut answers) = (mirror(), Vec::new());
    controller.handle_member_loss(NOW, MemberIndex(0));
    controller.handle_device_added(NOW, MemberIndex(0), DeviceUuid([7; 16]));
    let mut ios = ask(&mut controller, &mut answers);
    let is_begun = |state: DeviceState| matches!(state, DeviceState::Rebuilding { boundary, .. } if boundary > MemberLba::ZERO);
    while !controller.device_states().next().is_some_and(is_begun) {
        let io = ios.remove(0);
        controller.handle_member_completion(NOW, io.id, Ok(()));
        ios.extend(ask(&mut controller, &mut answers));
    }
    let (lba, blocks) = (Lba(0), BlockCount(1));
    let request = HostRequest { tag: HostTag(0), op: HostOp::Write { fua: false }, lba, blocks };
    controller.handle_host_request(NOW, request);
    // All but the bitmap is written.
    let slots = AreaLayout::new(ByteCount(0)).bitmap.map(|slot| MemberLba(slot.offset_bytes / 4096));
    let is_mark = |io: &MemberIo| io.area == Area::Metadata && slots.contains(&io.lba);
    loop {
        ios.extend(ask(&mut controller, &mut answers));
        if ios.iter().filter(|io| is_mark(io)).count() == 2 {
            break;
        }
        let other =
            ios.iter().position(|io| !is_mark(io)).expect("the region is marked before it is written");
        let io = ios.remove(other);
        controller.handle_member_completion(NOW, io.id, Ok(()));
    }
    controller.handle_member_loss(NOW, MemberIndex(1));
    ios.extend(ask(&mut controller, &mut answers));
    while !ios.is_empty() {
        let io = ios.remove(0);
        let result = if io.member == MemberIndex(1) { Err(MemberError::Gone) } else { Ok(()) };
        controller.handle_member_completion(NOW, io.id, result);
        let more = ask(&mut controller, &mut answers);
        let is_data = |io: &MemberIo| io.area == Area::Data && matches!(io.op, MemberOp::Write { .. });
        assert!(!more.iter().any(is_data), "{more:?}");
        ios.extend(more);
    }
    assert!(matches!(answers[..], [Err(HostError::ArrayFailed { .. })]), "{answers:?}");
}
