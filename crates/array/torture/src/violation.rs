//! What the checkers find, and how it is told: the rule broken, the checker, the seed, and the way there.

use super::checkers::protocol::Access;
use super::checkers::provenance::BlockFault;
use super::power::Refusal;
use super::trace::TraceEvent;
use core::fmt;
use raidlab_controller::{Action, HostCompletion, HostError, HostTag, Scan, ScanCounts, ScanRefused};
use raidlab_raid::StripUnit;
use raidlab_units::{Lba, MemberIndex, MemberLba, StripeIndex};

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A read returned what it must not.
    #[error("a read returned block {lba} wrong: {fault}")]
    WrongRead {
        /// Which block.
        lba: Lba,
        /// In which way.
        fault: BlockFault,
    },
    /// A request was acknowledged that must be on the members, and a member holds something else.
    #[error("{tag:?} was acknowledged, but member {member} holds block {lba} wrong: {fault}")]
    NotOnMember {
        /// The request.
        tag: HostTag,
        /// The member.
        member: MemberIndex,
        /// Which block of the volume.
        lba: Lba,
        /// In which way.
        fault: BlockFault,
    },
    /// After everything was flushed, a strip does not hold what the volume's data demands.
    #[error("stripe {stripe} disagrees: {unit:?} on member {member}, block {block} of the strip")]
    RedundancyDisagrees {
        /// Which stripe.
        stripe: StripeIndex,
        /// Which strip of it.
        unit: StripUnit,
        /// The member that holds it.
        member: MemberIndex,
        /// Block within the strip.
        block: u64,
    },
    /// A start found nothing in doubt in a stripe in which copies or parity disagree with the data.
    #[error(
        "stripe {stripe} disagrees, and the start does not doubt it: {unit:?} on member {member}, block {block} of the strip"
    )]
    DisagreesUntold {
        /// Which stripe.
        stripe: StripeIndex,
        /// Which strip of it.
        unit: StripUnit,
        /// The member that holds it.
        member: MemberIndex,
        /// Block within the strip.
        block: u64,
    },
    /// With no map on its way, devices in sync tell different regions that were being written.
    #[error(
        "the bitmap of member {member} marks other regions than that of a member before it, and none is on its way"
    )]
    BitmapsDiffer {
        /// The member.
        member: MemberIndex,
    },
    /// After everything was compared, a block on a member does not have the tag that it should have.
    #[error("the tag of block {block} of member {member} disagrees: {unit:?} of stripe {stripe}")]
    TagDisagrees {
        /// Which stripe.
        stripe: StripeIndex,
        /// Which strip of it.
        unit: StripUnit,
        /// The member that holds it.
        member: MemberIndex,
        /// The block of the member, tags left out.
        block: u64,
    },
    /// A write has not found the tag of another block, and that was not restored.
    #[error("the tag of block {block} of member {member} is unknown, and all is quiet")]
    UnknownTag {
        /// The member.
        member: MemberIndex,
        /// The block of the member, tags left out.
        block: u64,
    },
    /// Blocks are said to disagree with their tags on a device that does not lie.
    #[error("member {member} is said to disagree with its tags at block {lba}, but nothing lies there")]
    NeedlessMismatch {
        /// The member.
        member: MemberIndex,
        /// First block, tags left out.
        lba: MemberLba,
    },
    /// A request failed although few enough members were missing.
    #[error("{tag:?} failed although the level survives what is missing: {error}")]
    NeedlessFailure {
        /// The request.
        tag: HostTag,
        /// What the controller said.
        error: HostError,
    },
    /// Acknowledged data was given up although few enough members were missing.
    #[error("block {lba} was given up although the level survives what is missing")]
    NeedlessLoss {
        /// The block.
        lba: Lba,
    },
    /// Acknowledged data was given up, and the next flush succeeded.
    #[error("{tag:?} succeeded, but data was given up before it that no flush has failed for")]
    LossNotTold {
        /// The flush.
        tag: HostTag,
    },
    /// A record has only checksums of a stripe that lacked a device when it was made.
    #[error("the record of stripe {stripe} has checksums only, though a device was missing when it was made")]
    BareWithoutDevice {
        /// Which stripe.
        stripe: StripeIndex,
    },
    /// A record is written where another stands that a start might still count.
    #[error("a record goes where record {sequence} stands, and no device was told that it is retired")]
    RoomReused {
        /// The number of the one that stands there.
        sequence: u64,
    },
    /// A write was acknowledged that the devices call an error.
    #[error("{tag:?} was acknowledged, but the devices still call block {lba} bad")]
    HealedUnheard {
        /// The request.
        tag: HostTag,
        /// Which block of the volume.
        lba: Lba,
    },
    /// All is quiet and no device is missing, and redundancy is in doubt all the same.
    #[error("{stripes} stripes are in doubt, and nothing makes them agree")]
    NotResynced {
        /// How many.
        stripes: u64,
    },
    /// A block became an error that could be read or made up.
    #[error("block {block} of member {member} was made an error, but it can be read or made up")]
    NeedlessBadBlock {
        /// The member.
        member: MemberIndex,
        /// Block of its data area.
        block: u64,
    },
    /// What a host was told is lost is on no list of blocks that can't be read, and no device of it is missing.
    #[error("a read of block {lba} was told that it is lost, and nothing says so afterwards")]
    LossNotMarked {
        /// Which block.
        lba: Lba,
    },
    /// A member was taken out of the array that had done nothing to deserve it.
    #[error("member {member} was failed, but it answers and has failed no write")]
    NeedlessMemberFailure {
        /// The member.
        member: MemberIndex,
    },
    /// A member that failed a write, or is gone, still counts as in sync after all was flushed.
    #[error("member {member} is in the array, but does not hold what it should")]
    UnfitMember {
        /// The member.
        member: MemberIndex,
    },
    /// All is quiet, a role is vacant, and a device that could play it does not.
    #[error("device {member} could take the place of a missing member, and is not rebuilt")]
    NotRebuilt {
        /// The device.
        member: MemberIndex,
    },
    /// A check or repair was refused without reason.
    #[error("{scan:?} was refused: {refused}")]
    ScanRefused {
        /// What was asked for.
        scan: Scan,
        /// What was said.
        refused: ScanRefused,
    },
    /// A check or repair did not count the rows that disagreed.
    #[error("{scan:?} counted {counts:?}, and {expected} rows disagreed")]
    Miscounted {
        /// The scan.
        scan: Scan,
        /// What it counted.
        counts: ScanCounts,
        /// Rows of parity or copies that disagreed.
        expected: u64,
    },
    /// A repair left what was corrupted.
    #[error("a repair left block {lba} of member {member} corrupted, or a check changed it")]
    NotMended {
        /// The member.
        member: MemberIndex,
        /// The block of its data area.
        lba: MemberLba,
    },
    /// A recovery left a block on the list of bad ones that can be read.
    #[error("after a recovery block {block} of member {member} is called unreadable, and can be read")]
    NotRecovered {
        /// The member.
        member: MemberIndex,
        /// The block of its data area.
        block: u64,
    },
    /// The array was not started although all that its settings need is there.
    #[error("the array was not started although all that its settings need is there: {refusal}")]
    Refused {
        /// What was said.
        refusal: Refusal,
    },
    /// A device was taken for another one.
    #[error("the start took another device for device {member}")]
    Misassembled {
        /// The device.
        member: MemberIndex,
    },
    /// A member that came back as it was before a start or a stop was taken for what it is now.
    #[error("the start used device {member}, which missed a start or a stop")]
    OlderMemberUsed {
        /// The device.
        member: MemberIndex,
    },
    /// After a clean stop something was in doubt, or records were to be replayed.
    #[error("the array was stopped cleanly, yet its redundancy is in doubt or its log holds records")]
    NotClean,
    /// A clean stop does not come to its end.
    #[error("the array was asked to stop and does not")]
    NeverStopped,
    /// The controller stopped at an assertion.
    #[error("the controller panicked: {message}")]
    Panicked {
        /// What it said.
        message: String,
    },
    /// Two actions in flight use the same bytes, at least one of them to write.
    #[error("{action:?} accesses {access:?} while {other:?} accesses {other_access:?}")]
    Conflict {
        /// The later action.
        action: Action,
        /// What it accesses.
        access: Access,
        /// The earlier action, still in flight.
        other: Action,
        /// What that accesses.
        other_access: Access,
    },
    /// An action reaches outside a member or a memory, or its pieces do not add up to its length.
    #[error("{action:?} is malformed: {access:?} of {limit_bytes} bytes")]
    Malformed {
        /// The action.
        action: Action,
        /// The access at fault.
        access: Access,
        /// Bytes that are there.
        limit_bytes: u64,
    },
    /// An action reuses a name that is in flight.
    #[error("{action:?} reuses a name that is still in flight")]
    NameInUse {
        /// The action.
        action: Action,
    },
    /// A completion for a request that is not in flight, or while its buffer was in use.
    #[error("{completion:?} for a request that is not in flight, or whose buffer is still in use")]
    UntimelyCompletion {
        /// The completion.
        completion: HostCompletion,
    },
    /// Requests are waiting and nothing is in flight, or nothing gets done.
    #[error("{waiting} host requests wait, {in_flight} actions are in flight, and nothing gets on")]
    Stalled {
        /// Requests of the host without an answer.
        waiting: usize,
        /// Actions in flight.
        in_flight: usize,
    },
    /// Everything was flushed and nothing is in flight, yet the controller is not idle.
    #[error("the controller is not idle after a flush with nothing in flight")]
    NeverIdle,
}

impl Violation {
    /// The checker that found it.
    pub const fn checker(&self) -> &'static str {
        match self {
            Self::WrongRead { fault: BlockFault::Garbage { .. }, .. } => "provenance",
            Self::WrongRead { .. } | Self::NotOnMember { .. } => "durability",
            Self::RedundancyDisagrees { .. }
            | Self::DisagreesUntold { .. }
            | Self::BitmapsDiffer { .. }
            | Self::TagDisagrees { .. }
            | Self::UnknownTag { .. }
            | Self::NeedlessMismatch { .. }
            | Self::ScanRefused { .. }
            | Self::Miscounted { .. }
            | Self::NotResynced { .. }
            | Self::NotMended { .. } => "redundancy",
            Self::NeedlessFailure { .. }
            | Self::NeedlessLoss { .. }
            | Self::NeedlessBadBlock { .. }
            | Self::NotRecovered { .. }
            | Self::LossNotTold { .. }
            | Self::LossNotMarked { .. }
            | Self::NeedlessMemberFailure { .. }
            | Self::UnfitMember { .. }
            | Self::NotRebuilt { .. }
            | Self::Refused { .. }
            | Self::Misassembled { .. }
            | Self::OlderMemberUsed { .. }
            | Self::BareWithoutDevice { .. }
            | Self::RoomReused { .. }
            | Self::HealedUnheard { .. }
            | Self::NotClean => "losses",
            Self::Conflict { .. }
            | Self::Malformed { .. }
            | Self::NameInUse { .. }
            | Self::UntimelyCompletion { .. } => "protocol",
            Self::Stalled { .. } | Self::NeverIdle | Self::NeverStopped => "liveness",
            Self::Panicked { .. } => "panic",
        }
    }
}

/// A broken rule, with what is needed to see it again.
#[derive(Clone, Debug, thiserror::Error)]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// Host requests made until then.
    pub ops: u64,
    /// The event count at which it was noticed.
    pub step: u64,
    /// The rule.
    pub violation: Box<Violation>,
    /// The latest events, oldest first, with their event counts.
    pub trace: Vec<(u64, TraceEvent)>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, ops, step, violation, .. } = self;
        writeln!(f, "seed {seed}, {ops} requests, step {step}: {}: {violation}", violation.checker())?;
        for (step, event) in &self.trace {
            writeln!(f, "  {step:>7}  {event:?}")?;
        }
        Ok(())
    }
}
