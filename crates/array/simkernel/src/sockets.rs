//! Sockets of the export: pairs of the system's, whose one end a client has. The ring decides when a receive or a send is done, and
//! how much of it.
#![allow(unsafe_code)]

use crate::entry::{Asked, FileName, Piece};
use crate::flight::{Stage, error};
use crate::state::State;
use raidlab_device::ring::EntryEnd;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use std::os::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};

/// A client that has nothing to do is asked again within this, in nanoseconds.
const IDLE_MAX: u64 = 100_000_000;

/// A descriptor of the array that an entry in flight names.
fn borrow(file: RawFd) -> BorrowedFd<'static> {
    // SAFETY: who pushed the entry keeps its files open until its last end.
    unsafe { BorrowedFd::borrow_raw(file) }
}

/// Whether something can be read from a descriptor now, or within so many milliseconds.
pub(crate) fn is_readable(file: RawFd, millis: i64) -> bool {
    let time = rustix::event::Timespec { tv_sec: millis / 1000, tv_nsec: millis % 1000 * 1_000_000 };
    let file = borrow(file);
    poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&time)).is_ok_and(|ready| ready > 0)
}

impl State {
    /// What waits for sockets, descriptors and clients is looked at again.
    pub(crate) fn retry_waiting(&mut self) {
        if self.random.below(8) == 0 {
            self.spoil_hung();
        }
        for number in self.flights.numbers(|flight| flight.stage == Stage::Waits) {
            match self.flights.all[&number].asked {
                Asked::Accept => self.try_accept(number),
                Asked::Readable { file } => {
                    if is_readable(file, 0) {
                        self.done(number, 1);
                    }
                }
                _ => self.try_socket(number),
            }
        }
    }

    fn try_accept(&mut self, number: u64) {
        let Some(client) = self.arriving.pop_front() else { return };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (own, other) = match socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None) {
            Ok(pair) => pair,
            Err(errno) => return self.complain("simulation", format!("no sockets: {errno}")),
        };
        for end in [&own, &other] {
            let bytes = [4 << 10, 64 << 10][self.random.below(2) as usize];
            // Any length will do.
            let _ = set_socket_send_buffer_size(end, bytes);
        }
        self.clients[client].connect(own);
        let file = other.into_raw_fd();
        self.servers[client] = Some(file);
        // SAFETY: it was just made, and goes to the export with the end of this entry, or nowhere.
        self.undelivered.push(unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(file) });
        self.done(number, file);
        self.set_turn(client, 1_000);
    }

    /// An entry ends; what it hands over is the array's from here on.
    pub(crate) fn deliver(&mut self, number: u64, result: i32) {
        let is_handed_over = |file: &_| std::os::fd::AsRawFd::as_raw_fd(file) == result;
        if self.flights.all[&number].asked == Asked::Accept
            && let Some(at) = self.undelivered.iter().position(is_handed_over)
        {
            let _ = self.undelivered.swap_remove(at).into_raw_fd();
        }
        let flight = self.flights.all.remove(&number).expect("it is in flight");
        self.flights.ends.push_back(EntryEnd { name: flight.name, result, flags: 0 });
    }

    pub(crate) fn try_socket(&mut self, number: u64) {
        let flight = self.flights.all.get_mut(&number).expect("it is in flight");
        flight.stage = Stage::Waits;
        match flight.asked.clone() {
            Asked::Receive { socket: FileName::Open(file), pieces, whole } => {
                self.receive(number, file, &pieces, whole);
            }
            Asked::Send { socket: FileName::Open(file), pieces } => self.send(number, file, &pieces),
            other => self.complain("simulation", format!("{other:?} is of no socket")),
        }
    }

    fn receive(&mut self, number: u64, file: RawFd, pieces: &[Piece], whole: bool) {
        let [piece] = pieces else { return self.complain("simulation", "a receive of many pieces") };
        let received = self.flights.all[&number].received;
        let room = piece.bytes - received;
        let most = if whole || self.random.below(2) == 0 {
            room
        } else {
            1 + self.random.below(room as u64) as usize
        };
        // SAFETY: the entry is in flight.
        let target = &mut unsafe { piece.bytes_mut() }[received..received + most];
        match recv(borrow(file), target, RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.done(number, received as i32),
            Ok((came, _)) => {
                let flight = self.flights.all.get_mut(&number).expect("it is in flight");
                flight.received += came;
                let received = flight.received;
                if !whole || received == piece.bytes {
                    self.done(number, received as i32);
                }
                self.wake(file);
            }
            Err(Errno::AGAIN) => {}
            Err(_) if received > 0 => self.done(number, received as i32),
            Err(errno) => self.done(number, error(errno)),
        }
    }

    fn send(&mut self, number: u64, file: RawFd, pieces: &[Piece]) {
        let total = crate::flight::length(pieces);
        let most = if self.random.below(3) == 0 {
            1 + self.random.below(total.max(1) as u64) as usize
        } else {
            total
        };
        // SAFETY: the entry is in flight.
        let bytes = unsafe { crate::disk::gather(pieces, most) };
        match send(borrow(file), &bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => self.done(number, sent as i32),
            Err(Errno::AGAIN) => {}
            Err(errno) => self.done(number, error(errno)),
        }
        self.wake(file);
    }

    /// The client whose socket has this other end looks at it soon.
    fn wake(&mut self, file: RawFd) {
        if let Some(client) = self.servers.iter().rposition(|server| *server == Some(file)) {
            self.idle[client] = 1_000;
            let after = self.random.below(20_000);
            self.set_turn(client, after);
        }
    }

    /// A client has a turn.
    pub(crate) fn turn(&mut self, number: usize) {
        if self.clients[number].is_over() || self.broken.is_some() {
            return;
        }
        if !self.clients[number].has_come() {
            if !self.arriving.contains(&number) {
                self.arriving.push_back(number);
            }
            self.retry_waiting();
            return;
        }
        let waited = self.idle[number];
        let acted = self.clients[number].act(self.now, &mut self.common);
        if let Err(complaint) = acted {
            self.complain(complaint.checker, complaint.text);
            return;
        }
        if self.clients[number].is_over() {
            // Who has left in the middle comes again.
            let plan = self.clients[number].plan;
            if plan.leaves_after.is_some() && self.common.requests_left > 0 && self.clients.len() < 40 {
                let after = self.random.below(3_000_000);
                self.add_client(plan, after);
            }
        } else {
            let after = if self.clients[number].has_more() { 1 + self.random.below(20_000) } else { waited };
            self.idle[number] = (waited * 2).min(IDLE_MAX);
            self.set_turn(number, after);
        }
        self.retry_waiting();
    }
}
