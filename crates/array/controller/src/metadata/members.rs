//! Devices and roles: which device plays which member of the layout, and what each holds.
//!
//! The layout speaks of *roles*; member I/O goes to *devices*, members first and then spares. A device that is rebuilding
//! holds its role below its boundary only. See `docs/fault-tolerance.md` for the states.
//!
//! Invariant: a role is played by at most one device, and `players` agrees with the devices' states.

use raidlab_format::DeviceUuid;
use raidlab_raid::{Layout, StripUnit, UnitPlace};
use raidlab_units::{MemberIndex, MemberLba, StripeIndex};

/// What a device is to the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// Holds all of a role.
    InSync {
        /// The member of the layout that it plays.
        role: MemberIndex,
    },
    /// Holds a role below `boundary`, and is being given the rest.
    Rebuilding {
        /// The member of the layout that it plays.
        role: MemberIndex,
        /// Its first block that it may not hold yet; a multiple of the strip.
        boundary: MemberLba,
    },
    /// Waits to take the place of a missing member.
    Spare,
    /// Gone, and the array goes on without it; nothing on it is trusted any more.
    Missing,
    /// Gone, which is more than the level survives, or than can be written down before those that are gone could start
    /// without those that are left. It is not written down as missing: what it holds is still the
    /// newest, and nothing that touches it is acknowledged until the array starts again with it.
    Lost {
        /// The member of the layout that it played.
        role: MemberIndex,
    },
}

#[derive(Clone, Copy, Debug)]
struct Device {
    state: DeviceState,
    /// While it is rebuilt: below this it holds its role even after a power loss.
    kept_boundary: MemberLba,
    /// Which physical device it is.
    uuid: DeviceUuid,
    /// Another, or the same again, answers at its place, and becomes a spare when what was under way has ended.
    newcomer: Option<DeviceUuid>,
}

/// All devices of the array.
#[derive(Debug)]
pub(super) struct Members {
    devices: Vec<Device>,
    /// The device that plays each role, while one does.
    players: Vec<Option<MemberIndex>>,
    /// Roles that no device holds all of.
    incomplete_count: u16,
    lost_count: u16,
}

/// What the loss of a device means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// It was gone already.
    Known,
    /// The array goes on without it.
    Survived,
    /// Some of the volume is gone with it, or those that are gone could start by themselves.
    BeyondRedundancy,
}

impl Device {
    const fn new(state: DeviceState) -> Self {
        let kept_boundary = match state {
            DeviceState::Rebuilding { boundary, .. } => boundary,
            _ => MemberLba::ZERO,
        };
        let uuid = DeviceUuid([0; 16]);
        Self { state, kept_boundary, uuid, newcomer: None }
    }
}

impl Members {
    pub(super) fn new(states: impl Iterator<Item = DeviceState>, roles: u16) -> Self {
        let mut members = Self {
            devices: states.map(Device::new).collect(),
            players: vec![None; usize::from(roles)],
            incomplete_count: 0,
            lost_count: 0,
        };
        members.count();
        members
    }

    /// Brings what follows from the devices' states up to date.
    fn count(&mut self) {
        self.players.fill(None);
        let mut in_sync = 0;
        self.lost_count = 0;
        for (index, device) in self.devices.iter().enumerate() {
            let player = Some(MemberIndex(index as u16));
            match device.state {
                DeviceState::InSync { role } => {
                    self.players[role.index()] = player;
                    in_sync += 1;
                }
                DeviceState::Rebuilding { role, .. } => self.players[role.index()] = player,
                DeviceState::Lost { .. } => self.lost_count += 1,
                DeviceState::Spare | DeviceState::Missing => {}
            }
        }
        self.incomplete_count = self.players.len() as u16 - in_sync;
    }

    /// State of each device, members first, then spares.
    pub(super) fn states(&self) -> impl Iterator<Item = DeviceState> + '_ {
        self.devices.iter().map(|device| device.state)
    }

    /// State of one device.
    pub(super) fn state(&self, device: MemberIndex) -> DeviceState {
        self.devices[device.index()].state
    }

    /// Gives a device another state.
    pub(super) fn set_state(&mut self, device: MemberIndex, state: DeviceState) {
        let Device { newcomer, uuid, .. } = self.devices[device.index()];
        self.devices[device.index()] = Device { uuid, newcomer, ..Device::new(state) };
        self.count();
    }

    /// Which physical device it is.
    pub(super) fn uuid(&self, device: MemberIndex) -> DeviceUuid {
        self.devices[device.index()].uuid
    }

    /// Says which physical device it is.
    pub(super) fn set_uuid(&mut self, device: MemberIndex, uuid: DeviceUuid) {
        self.devices[device.index()].uuid = uuid;
    }

    /// The role that a device plays, in whole or in part.
    pub(super) fn role(&self, device: MemberIndex) -> Option<MemberIndex> {
        match self.state(device) {
            DeviceState::InSync { role } | DeviceState::Rebuilding { role, .. } => Some(role),
            DeviceState::Spare | DeviceState::Missing | DeviceState::Lost { .. } => None,
        }
    }

    /// The first device for which `wanted` holds.
    pub(super) fn first(&self, wanted: impl Fn(DeviceState) -> bool) -> Option<MemberIndex> {
        self.states().position(wanted).map(|index| MemberIndex(index as u16))
    }

    /// Moves the boundary of a device that is being rebuilt.
    pub(super) fn advance_boundary(&mut self, device: MemberIndex, to: MemberLba) {
        match &mut self.devices[device.index()].state {
            DeviceState::Rebuilding { boundary, .. } => *boundary = to,
            state => unreachable!("a device that is {state:?} has no boundary"),
        }
    }

    /// Notes that what a device that is being rebuilt holds below `to` survives a power loss.
    pub(super) fn keep_boundary(&mut self, device: MemberIndex, to: MemberLba) {
        self.devices[device.index()].kept_boundary = to;
    }

    /// State of a device as it may be written down.
    fn kept_state(device: &Device) -> DeviceState {
        match device.state {
            DeviceState::Rebuilding { role, .. } => {
                DeviceState::Rebuilding { role, boundary: device.kept_boundary }
            }
            state => state,
        }
    }

    /// State of each device as it may be written down: what is being rebuilt holds its role up to where it would survive a
    /// power loss.
    pub(super) fn kept_states(&self) -> impl Iterator<Item = DeviceState> + '_ {
        self.devices.iter().map(Self::kept_state)
    }

    /// Notes that a device answers at the place of one that has left.
    pub(super) fn note_newcomer(&mut self, device: MemberIndex, uuid: DeviceUuid) {
        self.devices[device.index()].newcomer = Some(uuid);
    }

    /// True, once, when a device answers at the place of one that has left. The place is the newcomer's from then on.
    pub(super) fn take_newcomer(&mut self, device: MemberIndex) -> bool {
        let device = &mut self.devices[device.index()];
        let Some(uuid) = device.newcomer.take() else { return false };
        device.uuid = uuid;
        true
    }

    /// The device that holds what the layout puts at `place`, if one does.
    #[inline]
    pub(super) fn holder(&self, place: UnitPlace) -> Option<MemberIndex> {
        let player = self.players[place.member.index()]?;
        match self.devices[player.index()].state {
            DeviceState::Rebuilding { boundary, .. } if place.start >= boundary => None,
            _ => Some(player),
        }
    }

    /// True if some device holds what the layout puts at `place`.
    #[inline]
    pub(super) fn holds(&self, place: UnitPlace) -> bool {
        !self.any_incomplete() || self.holder(place).is_some()
    }

    /// The device that plays a role, in whole or in part.
    pub(super) fn player(&self, role: MemberIndex) -> Option<MemberIndex> {
        self.players[role.index()]
    }

    /// The device that holds all of a role.
    pub(super) fn in_sync(&self, role: MemberIndex) -> Option<MemberIndex> {
        let player = self.players[role.index()]?;
        matches!(self.devices[player.index()].state, DeviceState::InSync { .. }).then_some(player)
    }

    /// True when some stripe can't be read.
    pub(super) fn loses_data(&self, layout: &dyn Layout) -> bool {
        layout.loses_data(&|role| self.in_sync(role).is_none())
    }

    /// How many more roles may go, whichever they are, before some stripe can't be read.
    pub(super) fn failures_left(&self, layout: &dyn Layout) -> u16 {
        let gone = |role| self.in_sync(role).is_none();
        let roles = || (0..self.players.len() as u16).map(MemberIndex).filter(|role| !gone(*role));
        let is_fatal = |first, second| layout.loses_data(&|it| it == first || it == second || gone(it));
        if self.loses_data(layout) || roles().any(|role| is_fatal(role, role)) {
            return 0;
        }
        if roles().any(|first| roles().any(|second| first < second && is_fatal(first, second))) {
            return 1;
        }
        // Beyond two only mirrors of many copies go, whose roles are all alike.
        layout.failures_survived().always.saturating_sub(self.incomplete_count)
    }

    /// A role that no device plays.
    pub(super) fn vacant_role(&self) -> Option<MemberIndex> {
        let lost = |role: usize| {
            self.states().any(|state| state == DeviceState::Lost { role: MemberIndex(role as u16) })
        };
        let vacant = (0..self.players.len()).find(|&role| self.players[role].is_none() && !lost(role));
        vacant.map(|role| MemberIndex(role as u16))
    }

    /// Takes a device out of the array. Where those that are left would be `outvoted`, that is more than it survives.
    pub(super) fn lose(&mut self, device: MemberIndex, layout: &dyn Layout, outvoted: bool) -> Loss {
        let state = match self.devices[device.index()].state {
            DeviceState::Missing | DeviceState::Lost { .. } => return Loss::Known,
            DeviceState::InSync { role }
                if outvoted || self.any_lost() || self.is_last_hope(role, layout) =>
            {
                DeviceState::Lost { role }
            }
            DeviceState::InSync { .. } | DeviceState::Rebuilding { .. } | DeviceState::Spare => {
                DeviceState::Missing
            }
        };
        self.set_state(device, state);
        if state == DeviceState::Missing { Loss::Survived } else { Loss::BeyondRedundancy }
    }

    /// Takes those of `in_sync`, devices with their roles, for lost that are missing: nobody will write that down any more.
    pub(super) fn lose_unwritten(&mut self, in_sync: &[(MemberIndex, MemberIndex)]) {
        for &(device, role) in in_sync {
            let Device { state, newcomer, .. } = self.devices[device.index()];
            if state == DeviceState::Missing && newcomer.is_none() {
                self.set_state(device, DeviceState::Lost { role });
            }
        }
    }

    /// True when without `role` some stripe can't be read any more.
    pub(super) fn is_last_hope(&self, role: MemberIndex, layout: &dyn Layout) -> bool {
        layout.loses_data(&|it| it == role || self.in_sync(it).is_none())
    }

    /// True if a unit of the stripe stands on a device that is lost, so that the stripe must not change.
    pub(super) fn touches_lost(&self, mut places: impl Iterator<Item = UnitPlace>) -> bool {
        let is_lost = |role| self.states().any(|state| state == DeviceState::Lost { role });
        self.lost_count > 0 && places.any(|place| is_lost(place.member))
    }

    /// True if any device is lost.
    #[inline]
    pub(super) const fn any_lost(&self) -> bool {
        self.lost_count > 0
    }

    /// True if a role is not held in whole by any device.
    #[inline]
    pub(super) const fn any_incomplete(&self) -> bool {
        self.incomplete_count > 0
    }

    /// The devices that answer: all but those missing and lost.
    pub(super) fn answering(&self) -> impl Iterator<Item = MemberIndex> + '_ {
        let gone = |state| matches!(state, DeviceState::Missing | DeviceState::Lost { .. });
        let all = self.devices.iter().enumerate();
        all.filter(move |(_, device)| !gone(device.state)).map(|(index, _)| MemberIndex(index as u16))
    }
}

/// Where each unit of a stripe stands: every copy of its data strips, then its parity strips.
pub(super) fn places_of(layout: &dyn Layout, stripe: StripeIndex) -> impl Iterator<Item = UnitPlace> + '_ {
    let shape = layout.shape();
    let copies = move |strip| (0..shape.copies).map(move |copy| StripUnit::Data { strip, copy });
    let units = (0..shape.data_strips).flat_map(copies).chain((0..shape.parities).map(StripUnit::Parity));
    units.map(move |unit| layout.place(stripe, unit))
}
