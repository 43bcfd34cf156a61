//! A port that runs a socket on the array's ring: a server of one connection, as small as can be.
//!
//! It takes a block number, a byte each, reads the block and sends it back. Verified: entries of the port and member
//! I/O share the ring, and each gets its own completions; an endless receive is ended when the port is.
//! Not verified: speed.
#![allow(unsafe_code)]

use super::common::{self, BLOCK};
use io_uring::{opcode, types::Fd};
use raidlab_controller::{HostCompletion, HostOp, HostRequest, HostTag, WritePolicy};
use raidlab_runtime::{
    ArrayError, EntryEnd, HostBuffers, HostPort, HostPortNeeds, HostStep, PortRing, ScriptHost, ScriptOp,
};
use raidlab_units::{BlockCount, ByteCount, Lba, Nanos};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};

const TAG: HostTag = HostTag(0);
const RECEIVE: u64 = u64::MAX;
const SEND: u64 = 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Receive,
    Wait,
    Read,
    Send,
}

struct OneByteServer {
    socket: UnixStream,
    asked: Box<[u8; 1]>,
    turn: Turn,
    /// Ends when the client has gone, or waits for another for ever.
    ends: bool,
    finished: bool,
}

impl HostPort for OneByteServer {
    fn needs(&self) -> HostPortNeeds {
        HostPortNeeds { slots: 1, slot_bytes: ByteCount(BLOCK.bytes()) }
    }

    fn poll_step(&mut self, _now: Nanos, buffers: &mut HostBuffers, ring: &mut PortRing<'_>) -> HostStep {
        let fd = Fd(self.socket.as_raw_fd());
        match std::mem::replace(&mut self.turn, Turn::Wait) {
            _ if self.finished => return HostStep::Finished,
            Turn::Wait => {}
            Turn::Receive => {
                let entry = opcode::Recv::new(fd, self.asked.as_mut_ptr(), 1).build();
                // SAFETY: the byte is on the heap and is looked at only when the receive has ended.
                unsafe { ring.push(RECEIVE, entry) }.expect("the ring takes it");
            }
            Turn::Read => {
                let lba = Lba(u64::from(self.asked[0]));
                return HostStep::Submit(HostRequest {
                    tag: TAG,
                    op: HostOp::Read,
                    lba,
                    blocks: BlockCount(1),
                });
            }
            Turn::Send => {
                let entry = opcode::Send::new(fd, buffers.slot(TAG).as_ptr(), BLOCK.bytes() as u32).build();
                // SAFETY: host buffers stay where they are, and this one is not used until the send has ended.
                unsafe { ring.push(SEND, entry) }.expect("the ring takes it");
            }
        }
        HostStep::WaitForCompletion
    }

    fn handle_completion(&mut self, _now: Nanos, completion: HostCompletion, _buffers: &HostBuffers) {
        assert_eq!(completion.result, Ok(()));
        self.turn = Turn::Send;
    }

    fn handle_entry(&mut self, _now: Nanos, end: EntryEnd) {
        self.turn = match (end.user, end.result) {
            (RECEIVE, Ok(1)) => Turn::Read,
            (RECEIVE, Ok(0)) => {
                self.finished = self.ends;
                Turn::Wait
            }
            (SEND, Ok(bytes)) => {
                assert_eq!(u64::from(bytes), BLOCK.bytes());
                Turn::Receive
            }
            other => panic!("unexpected end {other:?}"),
        };
    }
}

fn server(ends: bool) -> (OneByteServer, UnixStream) {
    let (socket, client) = UnixStream::pair().expect("sockets can be made");
    (OneByteServer { socket, asked: Box::new([0]), turn: Turn::Receive, ends, finished: false }, client)
}

#[test]
fn a_port_serves_a_socket_on_the_array_s_own_ring() {
    let config = common::config("5", 4, WritePolicy::WriteThrough);
    let folder = super::folder();
    let mut world = super::world(folder.path(), &config);
    let bytes = common::Random(5).bytes(64 * BLOCK.bytes());
    let write = ScriptOp::Write { lba: Lba(0), bytes: bytes.clone(), fua: false };
    let mut script = ScriptHost::new(vec![write], BLOCK, 1);
    world.serve(&mut script, &super::GO_ON).expect("the array serves");
    let (mut port, mut client) = server(true);
    let asking = std::thread::spawn(move || {
        let mut block = vec![0; BLOCK.bytes() as usize];
        for lba in [3_u8, 63, 0, 17] {
            client.write_all(&[lba]).expect("the server takes it");
            client.read_exact(&mut block).expect("the server answers");
            assert!(block == bytes[usize::from(lba) * block.len()..][..block.len()], "block {lba}");
        }
    });
    world.serve(&mut port, &super::GO_ON).expect("the array serves");
    asking.join().expect("the client has got its blocks");
}

#[test]
fn what_a_port_waits_for_is_ended_with_it() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let config = common::config("0", 2, WritePolicy::WriteThrough);
    let folder = super::folder();
    let mut world = super::world(folder.path(), &config);
    let (mut port, client) = server(false);
    let stopping = std::thread::spawn(|| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        STOP.store(true, Ordering::Relaxed);
    });
    // The client says nothing and stays: only the stop can end the receive.
    assert!(matches!(world.serve(&mut port, &STOP), Err(ArrayError::Cancelled)));
    stopping.join().expect("the thread ends");
    drop(client);
}

/// A server whose loop panics while the kernel waits for a client that says nothing.
struct Panicking(OneByteServer);

impl HostPort for Panicking {
    fn needs(&self) -> HostPortNeeds {
        self.0.needs()
    }

    fn poll_step(&mut self, now: Nanos, buffers: &mut HostBuffers, ring: &mut PortRing<'_>) -> HostStep {
        assert!(ring.in_flight() == 0, "on purpose");
        self.0.poll_step(now, buffers, ring)
    }

    fn handle_completion(&mut self, now: Nanos, completion: HostCompletion, buffers: &HostBuffers) {
        self.0.handle_completion(now, completion, buffers);
    }

    fn handle_entry(&mut self, now: Nanos, end: EntryEnd) {
        self.0.handle_entry(now, end);
    }
}

/// Issue 23, defect 1: a panic went on into the shutdown of the ring, which could wait for ever, at full speed.
#[test]
fn a_panic_in_the_loop_ends_the_process_at_once() {
    // The child's folder is the parent's to remove.
    const CHILDS_FOLDER: &str = "RAIDLAB_TEST_PANICS_IN";
    if let Some(folder) = std::env::var_os(CHILDS_FOLDER) {
        let config = common::config("0", 2, WritePolicy::WriteThrough);
        let mut world = super::world(folder.as_ref(), &config);
        let (port, _client) = server(false);
        let _ = world.serve(&mut Panicking(port), &super::GO_ON);
        return;
    }
    let itself = std::env::current_exe().expect("tests know their program");
    let name = "port::a_panic_in_the_loop_ends_the_process_at_once";
    let mut child = std::process::Command::new(itself);
    let folder = super::folder();
    let ended = child
        .args(["--exact", name])
        .env(CHILDS_FOLDER, folder.path())
        .output()
        .expect("it can be run again");
    assert_eq!(ended.status.signal(), Some(rustix::process::Signal::ABORT.as_raw()), "{ended:?}");
}
