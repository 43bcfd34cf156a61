//! Messages by MPI, for processes that mpirun started.
//!
//! MPI's own blocking calls keep a processor busy, which the load of a rank on the same host would lose. So nothing
//! here blocks within MPI: messages are polled, and the caller sleeps in between. A send that is not taken in time
//! can't be cancelled, so it ends all processes and names the rank that does not take it. Two ranks may send long
//! messages to each other, which MPI delivers only when they are received: so a sender also receives.
//!
//! Left out: messages beyond 2^31 − 1 bytes.

use crate::{HostsError, Peers};
use ::mpi::environment::Universe;
use ::mpi::request;
use ::mpi::topology::SimpleCommunicator;
use ::mpi::traits::{Communicator, Destination, MatchedReceiveVec, Source};
use std::collections::VecDeque;
use std::fmt;
use std::time::{Duration, Instant};

/// The processes of `MPI_COMM_WORLD`.
pub(crate) struct MpiPeers {
    world: SimpleCommunicator,
    /// What came while something was sent, by rank.
    early: Vec<VecDeque<Vec<u8>>>,
    /// Ends MPI when it goes.
    _universe: Universe,
}

impl MpiPeers {
    /// Starts MPI.
    pub(crate) fn start() -> Result<Self, HostsError> {
        let universe = ::mpi::initialize().ok_or(HostsError::NoMpi)?;
        let world = universe.world();
        let early = (0..world.size()).map(|_| VecDeque::new()).collect();
        Ok(Self { world, early, _universe: universe })
    }
}

/// Takes in what has come from anyone, by rank.
fn receive_early(world: &SimpleCommunicator, early: &mut [VecDeque<Vec<u8>>]) {
    while let Some(message) = world.any_process().immediate_matched_probe() {
        let (bytes, status) = message.matched_receive_vec();
        early[status.source_rank().cast_unsigned() as usize].push_back(bytes);
    }
}

impl fmt::Debug for MpiPeers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} by MPI", self.rank(), self.count())
    }
}

impl Peers for MpiPeers {
    fn rank(&self) -> u32 {
        self.world.rank().cast_unsigned()
    }

    fn count(&self) -> u32 {
        self.world.size().cast_unsigned()
    }

    fn send(&mut self, to: u32, message: &[u8], limit: Duration) -> bool {
        let Self { world, early, .. } = self;
        let process = world.process_at_rank(to.cast_signed());
        let begun_at = Instant::now();
        request::scope(|scope| {
            let mut request = process.immediate_send(scope, message);
            loop {
                request = match request.test() {
                    Ok(_) => return true,
                    Err(request) => request,
                };
                if begun_at.elapsed() > limit {
                    eprintln!("error: rank {to} has taken no message for {} s", limit.as_secs());
                    world.abort(1);
                }
                receive_early(world, early);
                std::thread::sleep(Duration::from_micros(20));
            }
        })
    }

    fn poll(&mut self, from: u32) -> Option<Vec<u8>> {
        if let Some(bytes) = self.early[from as usize].pop_front() {
            return Some(bytes);
        }
        let process = self.world.process_at_rank(from.cast_signed());
        Some(process.immediate_matched_probe()?.matched_receive_vec().0)
    }

    fn abort(&mut self, code: u8) -> ! {
        self.world.abort(i32::from(code))
    }
}
