//! Operators' commands on a running array.
//!
//! ```text
//! CommandQueue ─ eventfd ─► ring ─► hear_operator ─► at once: status, fail, rate, check, repair, end of a scan
//!                                       │                └─► answered when the array is stopped: stop
//!                                       └─► replace, add-spare ─► a thread of its own opens, wipes and labels the device
//!                                                                       │ eventfd
//!              answered ◄── controller ◄── in its place, when nothing is in flight there ◄───┘
//! ```
//! The same thread reads label and states of all devices at the beginning of a check.
//!
//! A device that joins is labelled before the array sees it, and counts once the state names it: see "A device that
//! joins" in `docs/on-disk-format.md`. The thread keeps slow devices out of the event loop.

use crate::copies::{Findings, Looked, Suspect};
use crate::create::{CreateOptions, Newcomer, Vacancy, make_newcomer};
use crate::device::watched;
use crate::error::{ArrayError, CreateError, RingError};
use crate::events::{Event, EventLevel, Kind, scan_name};
use crate::kernel;
use crate::operator::{Answer, Asked, Command, CommandQueue, nothing_to_reload};
use crate::ring::{LINES, Ring};
use crate::status::Tally;
use crate::world::ArrayWorld;
use raidlab_controller::{Controller, DeviceState, MetadataPolicy, Scan};
use raidlab_format::{Geometry, LABEL_BYTES, Label, Placement};
use raidlab_units::{ByteCount, MemberIndex, Nanos};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

/// Number of the operator's line among the entries that wait for news.
const LINE: u32 = 0;
/// Number of the line of threads that make devices ready.
const JOINS: u32 = 1;
/// Slots of the state, each of which a generation writes.
const STATE_SLOTS: u32 = 2;
/// Where commands come in.
#[derive(Debug)]
pub(crate) struct Commands {
    geometry: Geometry,
    queue: Option<CommandQueue>,
    /// Entries that wait for news, and news that was not looked at yet.
    waits: [bool; LINES as usize],
    news: [bool; LINES as usize],
    pub(crate) is_stopping: bool,
    /// Those who wait for the stop.
    stop_asked: Vec<Asked>,
    reports_sender: mpsc::Sender<Report>,
    reports: mpsc::Receiver<Report>,
    wake: Arc<OwnedFd>,
    /// Places that a thread makes a device ready for.
    expected: Vec<MemberIndex>,
    /// A thread looks at the devices' copies of label and state.
    pub(crate) is_looking: bool,
    /// Generations that are to be written only so that both slots are written anew.
    renewals: u32,
    /// Devices that are ready and whose place still has I/O of the one before.
    waiting: Vec<(MemberIndex, Newcomer, Asked)>,
}

/// What a thread has done.
#[derive(Debug)]
enum Report {
    Joins(Ready),
    /// It has looked at these devices' copies of label and state.
    Looked(Vec<Looked>),
}

/// A device that a thread has made ready, or the reason why not.
#[derive(Debug)]
struct Ready {
    member: MemberIndex,
    asked: Asked,
    made: Result<Newcomer, CreateError>,
}

impl Commands {
    /// No command yet for the array of `geometry`.
    ///
    /// # Errors
    /// [`RingError`] when the system gives no descriptor.
    pub(crate) fn new(geometry: Geometry) -> Result<Self, RingError> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let wake =
            wake.map_err(|errno| RingError { doing: "make an event descriptor", source: errno.into() })?;
        let (reports_sender, reports) = mpsc::channel();
        Ok(Self {
            geometry,
            queue: None,
            waits: [false; LINES as usize],
            news: [false; LINES as usize],
            is_stopping: false,
            stop_asked: Vec::new(),
            reports_sender,
            reports,
            wake: Arc::new(wake),
            expected: Vec::new(),
            is_looking: false,
            renewals: 0,
            waiting: Vec::new(),
        })
    }

    /// What the array is made of.
    pub(crate) const fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Entries in flight that wait for news.
    pub(crate) fn in_flight(&self) -> u32 {
        self.waits.iter().map(|waits| u32::from(*waits)).sum()
    }

    /// Takes in that there is news on a line.
    pub(crate) fn take(&mut self, line: u32) {
        (self.waits[line as usize], self.news[line as usize]) = (false, true);
    }

    /// Takes in a device that is ready, or not.
    fn take_ready(&mut self, Ready { member, asked, made }: Ready) {
        self.expected.retain(|expected| *expected != member);
        match made {
            Ok(newcomer) => self.waiting.push((member, newcomer, asked)),
            Err(error) => asked.answer(Answer::Refused { reason: error.to_string() }),
        }
    }

    /// Has a thread do `work`, whose report wakes the array.
    fn start_thread(
        &self,
        name: &str,
        work: impl FnOnce() -> Report + Send + 'static,
    ) -> Result<(), RingError> {
        let (sender, wake) = (self.reports_sender.clone(), Arc::clone(&self.wake));
        let kernel = kernel::in_place();
        let report = move || {
            kernel::put_in_place(kernel);
            // An array that has ended meanwhile wants none.
            if sender.send(work()).is_ok() {
                let _ = rustix::io::write(&*wake, &1_u64.to_ne_bytes());
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(report);
        thread.map(drop).map_err(|source: io::Error| RingError { doing: "start a thread", source })
    }

    /// Waits for news on the lines that there are.
    fn listen(&mut self, ring: &mut Ring) -> Result<(), RingError> {
        let lines = [self.queue.as_ref().map(CommandQueue::wake_descriptor), Some(self.wake.as_fd())];
        for (number, line) in lines.into_iter().enumerate() {
            // Nothing comes from threads that there are none of.
            let is_needed = number as u32 == LINE || !self.expected.is_empty() || self.is_looking;
            if let Some(line) = line.filter(|_| is_needed && !self.waits[number]) {
                ring.push_line(number as u32, line.as_raw_fd())?;
                self.waits[number] = true;
            }
        }
        Ok(())
    }
}

/// Empties an event descriptor.
pub(crate) fn clear(descriptor: BorrowedFd<'_>) {
    let mut counter = [0; 8];
    // An empty one says so, which is as good.
    let _ = rustix::io::read(descriptor, &mut counter);
}

// What an array allows, whichever world it is in.

fn state_of(controller: &Controller, device: MemberIndex) -> DeviceState {
    controller.device_states().nth(device.index()).expect("a device of the array")
}

/// Whether an operator may take a device out, and why not.
pub(crate) fn may_leave(controller: &Controller, device: MemberIndex) -> Result<(), String> {
    let (state, number) = (state_of(controller, device), device.0);
    if matches!(state, DeviceState::Missing | DeviceState::Lost { .. }) {
        return Err(format!("device {number} is not in the array"));
    }
    if controller.needs_device(device) {
        return Err(format!("device {number} can't be taken out: data would be lost with it"));
    }
    if !matches!(state, DeviceState::InSync { .. }) {
        return Ok(());
    }
    let (out_of_sync, wrong) = (controller.out_of_sync_stripes(), controller.wrong_rows());
    let yet = if out_of_sync > 0 {
        format!(
            "the redundancy of {out_of_sync} stripes is still being made, and what they hold of it would be lost; `raidlab array status` \
             shows how far the resync is"
        )
    } else if !controller.undecided().is_empty() {
        "there are blocks of which the latest check or repair could not tell what is wrong, and without it they would be whatever the \
         others say; `raidlab array status` lists them, and `raidlab array check --repair --trust-data` decides them first"
            .to_owned()
    } else if wrong > 0 {
        format!(
            "the latest check found {wrong} rows that are wrong on a member, and without this device they might be all that is left; \
             `raidlab array check --repair` writes them anew first"
        )
    } else {
        return Ok(());
    };
    Err(format!("device {number} can't be taken out yet: {yet}"))
}

/// Whether devices may join, and why not.
pub(crate) fn may_join(controller: &Controller) -> Result<(), String> {
    if controller.config().resilience.metadata == MetadataPolicy::None {
        return Err("the array keeps no metadata, so no device can join it".to_owned());
    }
    if controller.device_states().any(|state| matches!(state, DeviceState::Lost { .. })) {
        return Err(
            "more members are lost than the level survives: start the array again with them first".to_owned()
        );
    }
    Ok(())
}

/// Whether another device may take the place of this one, and why not.
pub(crate) fn may_be_filled(controller: &Controller, device: MemberIndex) -> Result<(), String> {
    match state_of(controller, device) {
        DeviceState::Missing => Ok(()),
        DeviceState::Lost { .. } => Err(format!(
            "device {} holds data that nothing else has: bring it back and start the array again",
            device.0
        )),
        _ => Err(format!("device {} is in the array: fail it first", device.0)),
    }
}

/// An empty slot for a spare that is `usable`: one of the spares' own if there is one, else one that a member has left.
pub(crate) fn free_slot(
    controller: &Controller,
    usable: impl Fn(MemberIndex) -> bool,
) -> Result<MemberIndex, String> {
    may_join(controller)?;
    let free = || {
        let states = (0..).map(MemberIndex).zip(controller.device_states());
        let empty = states.filter(|(_, state)| *state == DeviceState::Missing);
        empty.map(|(device, _)| device).filter(|device| usable(*device))
    };
    let found = free().find(|device| device.0 >= controller.config().members).or_else(|| free().next());
    found.ok_or_else(|| "all slots are taken: fail a device first, or replace one that is missing".to_owned())
}

/// Begins, bounds or ends background scans as `command`, which is one of these, says.
pub(crate) fn order_scans(
    controller: &mut Controller,
    tally: &mut Tally,
    now: Nanos,
    command: &Command,
) -> Result<String, String> {
    let scan = match command {
        Command::Check => Scan::Check,
        Command::Repair { trust_data: false } => Scan::Repair,
        Command::Repair { trust_data: true } => Scan::RepairFromData,
        Command::Recover => Scan::Recover,
        Command::ScanRate { bytes_per_sec } => {
            controller.handle_scan_rate(now, *bytes_per_sec);
            tally.begin_rate(now, controller.scan_progress());
            return Ok(match bytes_per_sec {
                Some(ByteCount::ZERO) => "scans rest where they are".to_owned(),
                Some(rate) => format!("scans walk over {rate} of each member in a second at most"),
                None => "scans run as fast as they can".to_owned(),
            });
        }
        Command::StopScan => {
            let ends = |scan| format!("the {} ends where it is", scan_name(scan));
            return controller
                .handle_scan_stop(now)
                .map(ends)
                .ok_or_else(|| "no check or repair runs".to_owned());
        }
        other => unreachable!("{other:?} is about no scan"),
    };
    controller.handle_scan(now, scan).map_err(|refused| refused.to_string())?;
    let name = scan_name(scan);
    let rests = controller.config().resilience.scan_bytes_per_sec == Some(ByteCount::ZERO);
    Ok(if rests {
        format!(
            "the {name} has begun and rests, since the rate of scans is 0: 'raidlab array rebuild --rate none' lifts that"
        )
    } else {
        format!("the {name} has begun")
    })
}

impl ArrayWorld {
    /// Lets operators ask through `queue` from here on.
    pub fn attach_operator(&mut self, queue: CommandQueue) {
        self.commands.queue = Some(queue);
        // Whoever asked before is heard at once.
        self.commands.news[LINE as usize] = true;
    }

    /// Takes in commands and devices that are ready, if there are any.
    #[inline]
    pub(crate) fn hear_operator(&mut self) -> Result<(), RingError> {
        if self.commands.news == [false; LINES as usize] && self.commands.waiting.is_empty() {
            return Ok(());
        }
        self.hear_news()
    }

    fn hear_news(&mut self) -> Result<(), RingError> {
        if std::mem::take(&mut self.commands.news[LINE as usize]) {
            if let Some(queue) = &self.commands.queue {
                clear(queue.wake_descriptor());
            }
            while let Some(asked) = self.commands.queue.as_ref().and_then(CommandQueue::poll_command) {
                self.obey(asked)?;
            }
        }
        if std::mem::take(&mut self.commands.news[JOINS as usize]) {
            clear(self.commands.wake.as_fd());
            while let Ok(report) = self.commands.reports.try_recv() {
                match report {
                    Report::Joins(ready) => self.commands.take_ready(ready),
                    Report::Looked(looked) => self.take_looks(looked)?,
                }
            }
        }
        self.admit_waiting()?;
        self.commands.listen(&mut self.ring)
    }

    fn obey(&mut self, asked: Asked) -> Result<(), RingError> {
        if self.commands.is_stopping && !matches!(asked.command, Command::Status | Command::Stop) {
            asked.answer(Answer::Refused { reason: "the array is being stopped".to_owned() });
            return Ok(());
        }
        let now = self.now();
        let outcome = match asked.command.clone() {
            Command::Status => {
                asked.answer(Answer::Status(Box::new(self.status())));
                return Ok(());
            }
            Command::Stop => {
                self.commands.is_stopping = true;
                self.commands.stop_asked.push(asked);
                return Ok(());
            }
            Command::Replace { device, with, destroy_data, server_restarted } => match self
                .place_to_fill(&device)
                .and_then(|member| self.members.check_settled(&with, server_restarted).map(|()| member))
            {
                Ok(member) => return self.make_ready(member, with, destroy_data, asked),
                Err(reason) => Err(reason),
            },
            Command::AddSpare { path, destroy_data, server_restarted } => match self
                .free_slot()
                .and_then(|member| self.members.check_settled(&path, server_restarted).map(|()| member))
            {
                Ok(member) => return self.make_ready(member, path, destroy_data, asked),
                Err(reason) => Err(reason),
            },
            Command::Fail { device } => self.fail_by_name(&device),
            Command::Reload => Err(nothing_to_reload()),
            scans @ (Command::ScanRate { .. }
            | Command::Check
            | Command::Repair { .. }
            | Command::Recover
            | Command::StopScan) => order_scans(&mut self.controller, &mut self.tally, now, &scans),
        };
        asked.answer(match outcome {
            Ok(message) => Answer::Done { message },
            Err(reason) => Answer::Refused { reason },
        });
        self.run_actions(now)
    }

    fn state_of(&self, member: MemberIndex) -> DeviceState {
        state_of(&self.controller, member)
    }

    /// The device that is meant by a number or a path.
    fn find_device(&self, name: &str) -> Result<MemberIndex, String> {
        let by_number = name.parse::<u16>().ok().map(MemberIndex);
        let is_meant = |member: &MemberIndex| {
            by_number == Some(*member)
                || self.members.path(*member).is_some_and(|path| path.as_os_str().to_str() == Some(name))
        };
        let found = self.members.members().find(is_meant);
        found.ok_or_else(|| format!("the array has no device '{name}': name it by its number or its path"))
    }

    fn fail_by_name(&mut self, name: &str) -> Result<String, String> {
        let member = self.find_device(name)?;
        may_leave(&self.controller, member)?;
        let now = self.now();
        self.controller.handle_member_loss(now, member);
        Ok(format!("device {} is taken out of the array", member.0))
    }

    /// Takes a device out of the array, as if it had been pulled.
    ///
    /// # Errors
    /// [`ArrayError::Ring`] if the I/O that follows from it can't be submitted.
    pub fn fail_member(&mut self, member: MemberIndex) -> Result<(), ArrayError> {
        let now = self.now();
        self.controller.handle_member_loss(now, member);
        Ok(self.run_actions(now)?)
    }

    fn place_to_fill(&self, name: &str) -> Result<MemberIndex, String> {
        let member = self.find_device(name)?;
        may_join(&self.controller)?;
        if self.is_expected(member) {
            return Err(format!("a device for place {} is being made ready already", member.0));
        }
        may_be_filled(&self.controller, member).map(|()| member)
    }

    /// An empty slot for a spare: one of the spares' own if there is one, else one that a member has left.
    fn free_slot(&self) -> Result<MemberIndex, String> {
        free_slot(&self.controller, |member| !self.is_expected(member))
    }

    fn is_expected(&self, member: MemberIndex) -> bool {
        self.commands.expected.contains(&member)
            || self.commands.waiting.iter().any(|(waiting, ..)| *waiting == member)
    }

    /// Has a thread make a device ready.
    fn make_ready(
        &mut self,
        member: MemberIndex,
        path: PathBuf,
        destroy_data: bool,
        asked: Asked,
    ) -> Result<(), RingError> {
        let is_taken = |member: &MemberIndex| self.state_of(*member) != DeviceState::Missing;
        let taken = self.members.members().filter(is_taken);
        let vacancy = Vacancy {
            geometry: self.commands.geometry.clone(),
            name: self.name,
            number: member,
            taken: taken.map(|member| self.controller.device_uuid(member)).collect(),
        };
        self.commands.expected.push(member);
        self.commands.start_thread("raidlab-join", move || {
            let place = path.clone();
            let limit = CreateOptions::MEMBER_TIMEOUT;
            let made = watched(&place, limit, move || make_newcomer(&path, &vacancy, destroy_data));
            let made = made.map_err(CreateError::from).and_then(|made| made);
            Report::Joins(Ready { member, asked, made })
        })
    }

    /// Has a thread look whether both copies of label and state are whole on all devices.
    pub(crate) fn look_at_copies(&mut self) -> Result<(), RingError> {
        if self.commands.is_looking || self.commands.geometry.metadata == MetadataPolicy::None {
            return Ok(());
        }
        let kept = self.controller.is_state_kept().then(|| self.controller.array_state()).flatten();
        let generation = kept.map(|state| state.generation);
        let mut suspects = Vec::new();
        for member in self.members.members() {
            let held = self.members.hold(member);
            let held = held.map_err(|source| RingError { doing: "open a member once more", source })?;
            let suspect = |reach| Suspect { member, reach, label: self.label_of(member), generation };
            suspects.extend(held.map(suspect));
        }
        self.commands.is_looking = true;
        self.commands.start_thread("raidlab-copies", move || {
            Report::Looked(suspects.into_iter().map(Suspect::look).collect())
        })?;
        self.commands.listen(&mut self.ring)
    }

    /// The label that a device has.
    fn label_of(&self, device: MemberIndex) -> Vec<u8> {
        let mut label = vec![0; LABEL_BYTES];
        let (array_uuid, device_uuid) =
            (self.commands.geometry.array_uuid, self.controller.device_uuid(device));
        Label { array_uuid, device_uuid, device, name: self.name }.encode(&mut label);
        label
    }

    /// Tells what was found wrong with copies of label and state, and has states written anew.
    fn take_looks(&mut self, looks: Vec<Looked>) -> Result<(), RingError> {
        self.commands.is_looking = false;
        let now = self.now();
        for Looked { member, found } in looks {
            let path = self.members.path(member).map(|path| path.display().to_string());
            self.members.release(member, &mut self.ring)?;
            let Findings { damage, renews_state, refused, older_generation } = match found {
                Ok(findings) => findings,
                Err(error) => {
                    tracing::info!(%member, %error, "its copies of label and state are not looked at");
                    continue;
                }
            };
            if let Some(generation) = older_generation {
                let text = format!(
                    "device {} holds the state of generation {generation}, older than what was written there: it was put back to an \
                     earlier copy, and is taken out of the array",
                    member.0
                );
                let event = Event::new(Kind::MemberRolledBack, EventLevel::Error, text);
                self.tally.chronicle.tell(now, event.of_device(member, path));
                self.controller.handle_member_loss(now, member);
                self.run_actions(now)?;
                continue;
            }
            if renews_state {
                self.commands.renewals = STATE_SLOTS;
            }
            if !damage.is_empty() {
                let how = refused.map_or_else(
                    || "is written anew".to_owned(),
                    |error| format!("can't be written anew: {error}"),
                );
                let text = format!("metadata of device {} was damaged at its {damage}; {how}", member.0);
                let event = Event::new(Kind::MetadataDamaged, EventLevel::Warn, text);
                self.tally.chronicle.tell(now, event.of_device(member, path));
            }
        }
        self.renew_states(now)
    }

    /// Has the controller write the next of the generations that make both slots new.
    pub(crate) fn renew_states(&mut self, now: Nanos) -> Result<(), RingError> {
        if self.commands.renewals == 0 || !self.controller.is_state_kept() || self.commands.is_stopping {
            return Ok(());
        }
        self.commands.renewals -= 1;
        self.controller.handle_state_renewal(now);
        self.run_actions(now)
    }

    /// Puts devices that are ready in their places, where nothing of the ones before is in flight.
    fn admit_waiting(&mut self) -> Result<(), RingError> {
        let mut waiting = std::mem::take(&mut self.commands.waiting);
        while let Some(at) = waiting.iter().position(|(member, ..)| self.members.is_quiet(*member)) {
            let (member, newcomer, asked) = waiting.swap_remove(at);
            let answer = self.admit(member, newcomer)?;
            asked.answer(answer);
        }
        self.commands.waiting = waiting;
        Ok(())
    }

    fn admit(&mut self, member: MemberIndex, newcomer: Newcomer) -> Result<Answer, RingError> {
        let Newcomer { device, device_uuid } = newcomer;
        if self.state_of(member) != DeviceState::Missing {
            let reason = format!("place {} is not empty any more", member.0);
            return Ok(Answer::Refused { reason });
        }
        let placement = Placement::new(&self.commands.geometry, device.bytes());
        let placement = placement.expect("a device that is too short is not made ready");
        let message = format!("{} is device {} of the array now", device.path().display(), member.0);
        self.members.attach(member, device, placement, &mut self.ring)?;
        let now = self.now();
        self.controller.handle_device_added(now, member, device_uuid);
        self.run_actions(now)?;
        Ok(Answer::Done { message })
    }

    /// Answers those who wait for the stop, and hangs up.
    pub(crate) fn end_line(&mut self, stopped: &Result<(), ArrayError>) {
        for asked in self.commands.stop_asked.drain(..) {
            asked.answer(match stopped {
                Ok(()) => Answer::Done { message: "the array is stopped".to_owned() },
                Err(error @ ArrayError::WritesLost { .. }) => Answer::Refused { reason: error.to_string() },
                Err(_) => Answer::Refused {
                    reason: "the array could not be stopped cleanly; its log says why".to_owned(),
                },
            });
        }
        self.commands.queue = None;
    }
}
