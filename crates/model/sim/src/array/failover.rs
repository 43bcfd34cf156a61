//! A controller fails, and the other one takes over its volumes.
//!
//! ```text
//!  served by the owner │ fails        found out │ destages what the mirror held │ served by the other
//!  ────────────────────┼────── detection ───────┼──────────── restore ──────────┼────────────────────►
//!                      └──────────────────────── pause ─────────────────────────┘
//! ```
//! - The controller's logic, its memory and everything that its processor and links had under way are lost. Commands
//!   that have reached a drive are completed there; nobody takes their completions.
//! - Its hosts' requests wait, and so do new ones. All are sent again to the other controller when it serves the
//!   volume.
//! - The other controller starts each volume from its copy of the cache and of the directory, as the controller's NVRAM
//!   code says, and serves it when all of that is on the members. From then on it has no peer: mirrored caches write
//!   through under write-back. What it sends to the failed one before it knows of the failure ends when it knows.
//! - Without a mirror, dirty data is lost, and counted.
//!
//! Left out: the failed controller's return, a reset of the members, and the redundancy of stripes whose writes were
//! interrupted. Tests with real data check that it is there afterwards: the torture world fails over, too.

use super::spec::{ControllerFailure, FailoverOutcome};
use super::volume::Phase;
use super::world::World;
use raidlab_controller::PeerState;
use raidlab_units::{ByteCount, Iops, NanoSpan, Nanos};
use raidlab_workload::Driver;

/// A failure that will come or has come, and what came of it.
#[derive(Debug)]
pub(super) struct Failover {
    failure: ControllerFailure,
    detection: NanoSpan,
    /// Its deadline slot.
    slot: u32,
    /// When the controller fails.
    at: Nanos,
    has_failed: bool,
    /// Volumes that changed, or will.
    volumes: u32,
    /// Those that are not served again yet.
    waiting: u32,
    /// When the last one was served again.
    served_at: Option<Nanos>,
    requests_retried: u64,
    cache_blocks_restored: u64,
    lost_max: ByteCount,
    /// Host requests completed when it failed, and when the last volume was served again.
    host_requests: [u64; 2],
}

impl<const FOLLOWED: bool> World<'_, FOLLOWED> {
    /// Prepares for the failure that the enclosure's specification asks for.
    pub(super) fn arm_failover(&mut self) {
        let Some(second) = &self.enclosure.second else { return };
        let Some(failure) = second.failure else { return };
        for volume in self.volumes.iter_mut().filter(|volume| volume.owner == failure.controller) {
            if volume.controller.config().cache.mirror {
                volume.keep_peer_directory();
            }
        }
        let at = self.window[0] + failure.after;
        let slot = self.add_slot();
        self.shared.queue.set_deadline(slot, Some(at));
        self.failover = Some(Failover {
            failure,
            detection: second.dual.failover_detection,
            slot,
            at,
            has_failed: false,
            volumes: 0,
            waiting: 0,
            served_at: None,
            requests_retried: 0,
            cache_blocks_restored: 0,
            lost_max: ByteCount::ZERO,
            host_requests: [0; 2],
        });
    }

    /// The controller fails, or the other one finds out.
    #[cold]
    pub(super) fn failover_due(&mut self, now: Nanos) {
        let failover = self.failover.as_mut().expect("its slot is set only where a controller is to fail");
        if core::mem::replace(&mut failover.has_failed, true) {
            self.take_over(now);
        } else {
            let found_out = now + failover.detection;
            self.shared.hardware.peer_given_up_at = Some(found_out);
            self.shared.queue.set_deadline(failover.slot, Some(found_out));
            self.fail();
        }
    }

    fn fail(&mut self) {
        let host_requests = self.host_requests();
        let Some(failover) = &mut self.failover else { return };
        failover.host_requests = [host_requests; 2];
        failover.served_at = Some(failover.at);
        for volume in self.volumes.iter_mut().filter(|volume| volume.owner == failover.failure.controller) {
            let block = volume.controller.config().cache.block_size;
            let (requests, lost_blocks) = volume.lose_controller(&mut self.shared.queue);
            failover.requests_retried += requests;
            failover.lost_max += ByteCount(lost_blocks * block.0);
            failover.volumes += 1;
            failover.waiting += 1;
            failover.served_at = None;
        }
    }

    fn take_over(&mut self, now: Nanos) {
        self.shared.hardware.peer_given_up_at = None;
        for index in 0..self.volumes.len() as u16 {
            let (enclosure, spec) = (self.enclosure, self.spec(index));
            let volume = &mut self.volumes[usize::from(index)];
            if volume.phase != Phase::Down {
                volume.controller.handle_peer(now, PeerState::Gone);
                volume.pump_seldom(&mut self.shared);
                continue;
            }
            let controller =
                enclosure.controller_of(spec).expect("it was a configuration when the run began");
            let restored = volume.take_controller(now, controller);
            volume.pump_seldom(&mut self.shared);
            if let Some(failover) = &mut self.failover {
                failover.cache_blocks_restored += u64::from(restored);
            }
            self.try_to_serve(now, index);
        }
    }

    /// Serves the hosts of a volume that was taken over, if all that was restored is on its members.
    pub(super) fn try_to_serve(&mut self, now: Nanos, index: u16) {
        let volume = &mut self.volumes[usize::from(index)];
        if volume.controller.restored_pending() > 0 {
            return;
        }
        volume.phase = Phase::Serving;
        let in_flight = volume.load.driver().into_iter().flat_map(Driver::slots_in_flight);
        let waiting: Vec<_> = in_flight.map(|slot| volume.host_ios[slot as usize]).collect();
        for io in waiting {
            volume.issue(&mut self.shared, now, io);
        }
        volume.pump_seldom(&mut self.shared);
        let host_requests = self.host_requests();
        if let Some(failover) = &mut self.failover {
            failover.waiting -= 1;
            if failover.waiting == 0 {
                failover.served_at = Some(now);
                failover.host_requests[1] = host_requests;
            }
        }
    }

    /// What it cost, if a controller was to fail.
    pub(super) fn failover_outcome(&self) -> Option<FailoverOutcome> {
        let failover = self.failover.as_ref()?;
        let [start, end] = self.noted.as_slice() else { return None };
        let [at_failure, when_served] = failover.host_requests;
        let rate = |requests: u64, span: NanoSpan| (span > NanoSpan::ZERO).then(|| Iops::of(requests, span));
        let before = rate(at_failure - start.host_requests, failover.at - self.window[0]);
        let rest = failover.served_at.map(|served_at| self.window[1].saturating_since(served_at));
        Some(FailoverOutcome {
            controller: failover.failure.controller,
            after: failover.failure.after,
            detection: failover.detection,
            volumes: failover.volumes,
            pause: failover.served_at.map(|served_at| served_at - failover.at),
            requests_retried: failover.requests_retried,
            cache_blocks_restored: failover.cache_blocks_restored,
            lost_max: failover.lost_max,
            before,
            after_pause: rest.and_then(|rest| rate(end.host_requests.saturating_sub(when_served), rest)),
        })
    }
}
