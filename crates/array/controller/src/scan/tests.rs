//! The background scan by itself: which scan runs, how many visits it has under way, and how a rebuild's boundary moves.

use super::*;
use crate::api::Action;
use crate::config::{CacheConfig, Resilience};
use crate::ids::{LockKey, VisitId};
use crate::request::Rows;
use raidlab_units::BlockSize;

const STRIP_ROWS: u64 = 16;
const STRIPS: u64 = 8;
const NOW: Nanos = Nanos(1_000);

/// An array of three members and a spare, of 8 strips each, with two visits at once.
struct Array {
    geometry: Geometry,
    metadata: Metadata,
    outbox: Outbox,
    scan: BackgroundScan,
}

fn array(level: &str, bytes_per_sec: Option<ByteCount>) -> Array {
    let config = ArrayConfig {
        level: level.parse().expect("it is a level"),
        members: 3,
        strip_size: ByteCount(STRIP_ROWS * 4096),
        block_size: BlockSize::B4096,
        member_size: ByteCount(STRIPS * STRIP_ROWS * 4096),
        member_cache: MemberCache::Off,
        cache: CacheConfig::default(),
        staging_size: ByteCount::from_mib(1),
        resilience: Resilience {
            spares: 1,
            scan_iodepth: 2,
            scan_bytes_per_sec: bytes_per_sec,
            ..Resilience::default()
        },
    };
    let layout = config.layout().expect("it can be");
    let metadata = Metadata::new(&*layout, 1, None);
    let geometry = Geometry::new(layout, 4096, 1);
    Array { geometry, metadata, outbox: Outbox::default(), scan: BackgroundScan::new(&config, STRIPS) }
}

impl Array {
    fn ask(&mut self, scan: Scan) -> Result<(), ScanRefused> {
        self.scan.ask(&self.geometry, &self.metadata, scan, &mut self.outbox)
    }

    fn change(&mut self) -> ScanChange {
        let Self { geometry, metadata, outbox, scan } = self;
        scan.change(&mut Surroundings { geometry, metadata, outbox })
    }

    fn begin_visit(&mut self) -> Begun {
        self.scan.begin_visit(NOW, 0, &self.geometry, &self.metadata, &mut self.outbox)
    }

    /// Does a visit whose operations all succeed, and returns what kinds these were.
    fn visit(&mut self, id: VisitId) -> Vec<StepKind> {
        let Self { geometry, metadata, outbox, scan } = self;
        let around = &mut Surroundings { geometry, metadata, outbox };
        scan.start_visit(id, around);
        let mut kinds = Vec::new();
        while let NextStep::Op { kind, rows, .. } = scan.next_step(id, around) {
            assert_eq!(rows, Rows { first: 0, count: STRIP_ROWS as u32 }, "nothing is bad");
            kinds.push(kind);
            assert!(!scan.has_step_ended(id), "it is under way");
            assert!(scan.end_step(id, true), "nobody else goes on with it");
        }
        kinds
    }
}

#[test]
fn what_is_asked_for_where_it_cant_be_is_refused() {
    let rebuild = Scan::Rebuild { target: MemberIndex(0) };
    assert_eq!(array("5", None).ask(rebuild), Err(ScanRefused::NotOnDemand));
    assert_eq!(array("5", None).ask(Scan::Resync), Err(ScanRefused::NotOnDemand));
    assert_eq!(array("0", None).ask(Scan::Check), Err(ScanRefused::NoRedundancy));
    let mut array = array("5", None);
    assert_eq!(array.ask(Scan::Check), Ok(()));
    assert_eq!(array.ask(Scan::Repair), Err(ScanRefused::Busy { scan: Scan::Check }));
}

#[test]
fn a_resync_after_a_torn_write_leaves_the_other_rows_alone() {
    let mut array = array("5", None);
    let (key, torn) = (LockKey(2), [Rows { first: 1, count: 2 }, Rows { first: 4, count: 1 }]);
    array.metadata.mark_out_of_sync(&array.geometry, key..key.next());
    let Array { geometry, metadata, outbox, scan } = &mut array;
    let around = &mut Surroundings { geometry, metadata, outbox };
    let id = scan.new_sync_first(key, &torn);
    assert!(scan.start_visit(id, around), "it resyncs");
    for expected in torn {
        let NextStep::Op { kind, rows, .. } = scan.next_step(id, around) else { panic!("it compares") };
        assert_eq!((kind, rows), (StepKind::Compare, expected));
        scan.end_step(id, true);
    }
    assert_eq!(scan.next_step(id, around), NextStep::End(VisitEnd::Done));
}

#[test]
fn a_check_compares_each_stripe_two_at_a_time() {
    let mut array = array("5", None);
    array.ask(Scan::Check).expect("nothing runs");
    let mut compared = 0;
    loop {
        let mut under_way = Vec::new();
        while let Begun::Visit(id) = array.begin_visit() {
            under_way.push(id);
        }
        assert_eq!(under_way.len(), 2);
        for id in under_way {
            assert_eq!(array.visit(id), [StepKind::Compare]);
            assert!(array.scan.end_visit(id), "it leaves its stripe");
            array.scan.forget_visit(id);
            compared += 1;
        }
        if let ScanChange::Ended(line) = array.change() {
            assert!(line.is_empty());
            break;
        }
    }
    assert_eq!(compared, STRIPS);
    let ended = std::iter::from_fn(|| array.outbox.poll()).last();
    let Some(Action::Notice(Notice::ScanEnded { progress, end })) = ended else {
        panic!("{ended:?} was told last")
    };
    assert_eq!((progress.done, progress.counts.stripes, end), (STRIPS, STRIPS, ScanEnd::Through));
}

#[test]
fn the_boundary_passes_strips_in_order_and_the_target_is_in_sync_at_the_end() {
    let mut array = array("5", None);
    array.metadata.fail(&array.geometry, MemberIndex(0), &mut array.outbox);
    assert!(array.scan.is_due(&array.metadata));
    array.metadata.assign_spares();
    let target = MemberIndex(3);
    assert!(matches!(array.change(), ScanChange::Begun));
    for _ in 0..STRIPS / 2 {
        let (Begun::Visit(first), Begun::Visit(second)) = (array.begin_visit(), array.begin_visit()) else {
            panic!("two visits may begin")
        };
        assert_eq!(array.begin_visit(), Begun::Nothing, "no more than two");
        let before = array.metadata.rebuild_boundary(target);
        for (id, passes) in [(second, vec![]), (first, vec![first, second])] {
            assert_eq!(array.visit(id), [StepKind::Restore]);
            assert!(!array.scan.end_visit(id), "its stripe stays locked");
            let mut passed = Vec::new();
            while let Some(strip) = array.scan.pass_strip(&array.geometry, &mut array.metadata) {
                passed.push(strip.visit);
                array.scan.forget_visit(strip.visit);
            }
            assert_eq!(passed, passes);
        }
        let way = before.map(|before| MemberLba(before.0 + 2 * STRIP_ROWS));
        assert_eq!(array.metadata.rebuild_boundary(target), way);
    }
    assert!(matches!(array.change(), ScanChange::Ended(_)));
    assert_eq!(array.metadata.in_sync(MemberIndex(0)), Some(target));
}

#[test]
fn the_rate_bound_puts_the_next_visit_off() {
    // A strip of each member in a second.
    let mut array = array("5", Some(ByteCount(STRIP_ROWS * 4096)));
    array.ask(Scan::Check).expect("nothing runs");
    assert!(matches!(array.begin_visit(), Begun::Visit(_)));
    assert_eq!(array.begin_visit(), Begun::Nothing);
    let timer = std::iter::from_fn(|| array.outbox.poll()).last();
    let at = NOW + NanoSpan::from_secs(1);
    assert_eq!(timer, Some(Action::Timer { id: SCAN_TIMER, at }));
    array.scan.set_rate(NOW, None, &mut array.outbox);
    assert!(matches!(array.begin_visit(), Begun::Visit(_)));
}

#[test]
fn a_rebuild_goes_before_a_check() {
    let mut array = array("5", None);
    array.ask(Scan::Check).expect("nothing runs");
    array.metadata.fail(&array.geometry, MemberIndex(1), &mut array.outbox);
    array.metadata.assign_spares();
    assert_eq!(array.begin_visit(), Begun::Nothing, "it yields");
    assert!(matches!(array.change(), ScanChange::Begun), "it is parked");
    assert!(matches!(array.change(), ScanChange::Begun), "the rebuild begins");
    assert_eq!(array.scan.parked_progress().map(|parked| parked.scan), Some(Scan::Check));
    array.scan.hold();
    assert_eq!(array.begin_visit(), Begun::Nothing, "it is held");
    assert!(array.scan.is_idle());
}
