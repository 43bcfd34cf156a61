//! What to lay out, what each level allows, and the one function that turns a level into a layout.

use crate::layout::Layout;
use crate::level::{Level, LevelVariant, MirrorLayout, ParityRotation};
use crate::levels;
use core::ops::RangeInclusive;
use raidlab_units::BlockCount;

/// What to lay out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutSpec {
    /// The level, and what it leaves open.
    pub level: LevelVariant,
    /// Number of members.
    pub members: u16,
    /// Length of a strip.
    pub strip_blocks: BlockCount,
    /// Data area of each member; what is beyond the last whole strip stays unused, and so does an odd last
    /// strip where copies are on rows of their own (mirror layouts far and offset).
    pub member_blocks: BlockCount,
}

/// Why a layout can't be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The level needs more members.
    #[error("{} needs {minimum} or more members, {members} given", .level.title())]
    TooFewMembers {
        /// The level.
        level: Level,
        /// What was given.
        members: u16,
        /// The fewest that the level allows.
        minimum: u16,
    },
    /// The level's parity code has no room for so many members.
    #[error("{} allows at most {maximum} members, {members} given", .level.title())]
    TooManyMembers {
        /// The level.
        level: Level,
        /// What was given.
        members: u16,
        /// The most that the level allows.
        maximum: u16,
    },
    /// The level pairs its members.
    #[error(
        "{} needs an even number of members, {members} given: use one more or less, or level 1e", .level.title()
    )]
    OddMembers {
        /// The level.
        level: Level,
        /// What was given.
        members: u16,
    },
    /// The level is made of spans, and too few are given.
    #[error(
        "{title} needs 2 or more spans, {spans} given: write the level as {level}:2-spans", title = .level.title()
    )]
    TooFewSpans {
        /// The level.
        level: Level,
        /// What was given.
        spans: u16,
    },
    /// The members can't be shared out evenly.
    #[error("{} with {spans} spans needs a multiple of {spans} members, {members} given", .level.title())]
    UnevenSpans {
        /// The level.
        level: Level,
        /// What was given.
        members: u16,
        /// What was given.
        spans: u16,
    },
    /// The spans are smaller or larger than the level allows.
    #[error(
        "{} needs {minimum} to {maximum} members in each span, {members} given for {spans} spans", .level.title()
    )]
    SpanMembers {
        /// The level.
        level: Level,
        /// What was given, all spans together.
        members: u16,
        /// What was given.
        spans: u16,
        /// The fewest in one span.
        minimum: u16,
        /// The most in one span.
        maximum: u16,
    },
    /// The level has no spans.
    #[error("{} has no spans, {spans} given: leave them out, or use level 50 or 60", .level.title())]
    SpansNotAllowed {
        /// The level.
        level: Level,
        /// What was given.
        spans: u16,
    },
    /// The level has no rotating parity.
    #[error("{} has no rotating parity, {rotation} given: leave it out", .level.title())]
    RotationNotAllowed {
        /// The level.
        level: Level,
        /// What was given.
        rotation: ParityRotation,
    },
    /// The level has no choice of mirror layouts.
    #[error("{} has no mirror layout, {mirror_layout} given: leave it out, or use level 10 or 1e", .level.title())]
    MirrorLayoutNotAllowed {
        /// The level.
        level: Level,
        /// What was given.
        mirror_layout: MirrorLayout,
    },
    /// A strip of no blocks.
    #[error("a strip of 0 blocks holds nothing: use 1 or more")]
    EmptyStrip,
    /// A member holds less than one strip.
    #[error(
        "members of {member_blocks} blocks do not hold one strip of {strip_blocks} blocks: use larger members or \
         a shorter strip"
    )]
    MemberTooSmall {
        /// What was given.
        member_blocks: BlockCount,
        /// What was given.
        strip_blocks: BlockCount,
    },
    /// A member holds less than two strips, and the mirror layout has rows of data and rows of copies.
    #[error(
        "mirror layout {mirror_layout} needs 2 strips on each member, and members of {member_blocks} blocks do not \
         hold 2 strips of {strip_blocks} blocks: use larger members or a shorter strip"
    )]
    NoRoomForCopies {
        /// What was given.
        mirror_layout: MirrorLayout,
        /// What was given.
        member_blocks: BlockCount,
        /// What was given.
        strip_blocks: BlockCount,
    },
    /// The blocks of all members together can't be counted.
    #[error("{members} members of {member_blocks} blocks are 2^64 blocks or more: use smaller members")]
    TooLarge {
        /// What was given.
        members: u16,
        /// What was given.
        member_blocks: BlockCount,
    },
    /// A strip is not whole rows.
    #[error(
        "a strip of {} blocks can't be cut into rows of {}: choose a strip that is a multiple of a row", .strip_blocks.0,
        .row_blocks.0
    )]
    Row {
        /// The layout's strip.
        strip_blocks: BlockCount,
        /// What was given.
        row_blocks: BlockCount,
    },
}

/// Builds the layout.
///
/// # Errors
/// [`LayoutError`] when the level does not allow the members, spans, rotation, mirror layout or sizes.
pub fn build_layout(spec: &LayoutSpec) -> Result<Box<dyn Layout>, LayoutError> {
    spec.check_sizes()?;
    Ok(match spec.level.level {
        Level::Jbod => Box::new(levels::jbod(spec)?),
        Level::Raid0 => Box::new(levels::raid0(spec)?),
        Level::Raid1 => Box::new(levels::raid1(spec)?),
        Level::Raid1e => levels::raid1e(spec)?,
        Level::Raid3 => Box::new(levels::raid3(spec)?),
        Level::Raid5 => Box::new(levels::raid5(spec)?),
        Level::Raid6 => Box::new(levels::raid6(spec)?),
        Level::Raid10 => levels::raid10(spec)?,
        Level::Raid50 => Box::new(levels::raid50(spec)?),
        Level::Raid60 => Box::new(levels::raid60(spec)?),
    })
}

/// Cuts the stripes of `layout` into narrow ones, each of one row of `row_blocks` of every strip. Every block stays where it is,
/// of the volume and on its member.
///
/// # Errors
/// [`LayoutError::Row`] where a strip is not whole rows.
pub fn narrow_stripes(
    layout: Box<dyn Layout>,
    row_blocks: BlockCount,
) -> Result<Box<dyn Layout>, LayoutError> {
    let strip_blocks = layout.shape().strip_blocks;
    if row_blocks == BlockCount::ZERO || !strip_blocks.0.is_multiple_of(row_blocks.0) {
        return Err(LayoutError::Row { strip_blocks, row_blocks });
    }
    Ok(Box::new(levels::Narrow::new(layout, row_blocks, strip_blocks.0 / row_blocks.0)))
}

/// The most data strips in a stripe with parity: with P and Q that makes 256 members, and Q tells strips
/// apart because `2^i` is different for every `i` below 255.
pub(crate) const DATA_STRIPS_MAX: u16 = 254;

/// The checks that the levels are built with, and that hold for all of them.
impl LayoutSpec {
    fn check_sizes(&self) -> Result<(), LayoutError> {
        let Self { members, strip_blocks, member_blocks, .. } = *self;
        if strip_blocks == BlockCount::ZERO {
            return Err(LayoutError::EmptyStrip);
        }
        if member_blocks < strip_blocks {
            return Err(LayoutError::MemberTooSmall { member_blocks, strip_blocks });
        }
        // No level stores more blocks than its members have, so no later product can overflow.
        match u64::from(members).checked_mul(member_blocks.0) {
            Some(_) => Ok(()),
            None => Err(LayoutError::TooLarge { members, member_blocks }),
        }
    }

    pub(crate) fn require_members(&self, allowed: RangeInclusive<u16>) -> Result<(), LayoutError> {
        let Self { members, level: LevelVariant { level, .. }, .. } = *self;
        if members < *allowed.start() {
            return Err(LayoutError::TooFewMembers { level, members, minimum: *allowed.start() });
        }
        if members > *allowed.end() {
            return Err(LayoutError::TooManyMembers { level, members, maximum: *allowed.end() });
        }
        Ok(())
    }

    pub(crate) fn require_even_members(&self) -> Result<(), LayoutError> {
        let Self { members, level: LevelVariant { level, .. }, .. } = *self;
        if members.is_multiple_of(2) { Ok(()) } else { Err(LayoutError::OddMembers { level, members }) }
    }

    /// For levels that leave nothing open.
    pub(crate) fn require_bare_level(&self) -> Result<(), LayoutError> {
        self.require_no_spans()?;
        self.require_no_rotation()?;
        self.require_no_mirror_layout()
    }

    pub(crate) fn require_no_spans(&self) -> Result<(), LayoutError> {
        let LevelVariant { level, spans, .. } = self.level;
        if spans == 1 { Ok(()) } else { Err(LayoutError::SpansNotAllowed { level, spans }) }
    }

    pub(crate) fn require_no_rotation(&self) -> Result<(), LayoutError> {
        let LevelVariant { level, parity_rotation: rotation, .. } = self.level;
        let plain = rotation == ParityRotation::default();
        if plain { Ok(()) } else { Err(LayoutError::RotationNotAllowed { level, rotation }) }
    }

    pub(crate) fn require_no_mirror_layout(&self) -> Result<(), LayoutError> {
        let LevelVariant { level, mirror_layout, .. } = self.level;
        let plain = mirror_layout == MirrorLayout::default();
        if plain { Ok(()) } else { Err(LayoutError::MirrorLayoutNotAllowed { level, mirror_layout }) }
    }

    /// For mirrors whose copies are on rows of their own.
    pub(crate) fn require_two_rows(&self) -> Result<(), LayoutError> {
        let Self { strip_blocks, member_blocks, level: LevelVariant { mirror_layout, .. }, .. } = *self;
        let has_two_rows = member_blocks.0 / strip_blocks.0 >= 2;
        let error = LayoutError::NoRoomForCopies { mirror_layout, member_blocks, strip_blocks };
        if has_two_rows { Ok(()) } else { Err(error) }
    }

    /// Returns the spec of one span, whose level is `inner`.
    pub(crate) fn one_span(&self, inner: Level, allowed: RangeInclusive<u16>) -> Result<Self, LayoutError> {
        let Self { members, level: LevelVariant { level, spans, .. }, .. } = *self;
        self.require_no_mirror_layout()?;
        if spans < 2 {
            return Err(LayoutError::TooFewSpans { level, spans });
        }
        if !members.is_multiple_of(spans) {
            return Err(LayoutError::UnevenSpans { level, members, spans });
        }
        if !allowed.contains(&(members / spans)) {
            let (minimum, maximum) = (*allowed.start(), *allowed.end());
            return Err(LayoutError::SpanMembers { level, members, spans, minimum, maximum });
        }
        let level = LevelVariant { level: inner, spans: 1, ..self.level };
        Ok(Self { level, members: members / spans, ..*self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error_of(level: &str, members: u16, strip_blocks: u64, member_blocks: u64) -> String {
        let spec = LayoutSpec {
            level: level.parse().expect(level),
            members,
            strip_blocks: BlockCount(strip_blocks),
            member_blocks: BlockCount(member_blocks),
        };
        build_layout(&spec).expect_err(level).to_string()
    }

    #[test]
    fn errors_say_what_the_level_allows_and_what_was_given() {
        for (level, members, message) in [
            ("jbod", 0, "JBOD needs 1 or more members, 0 given"),
            ("0", 0, "RAID 0 needs 1 or more members, 0 given"),
            ("1", 1, "RAID 1 needs 2 or more members, 1 given"),
            ("1e", 2, "RAID 1E needs 3 or more members, 2 given"),
            ("3", 2, "RAID 3 needs 3 or more members, 2 given"),
            ("5", 2, "RAID 5 needs 3 or more members, 2 given"),
            ("6", 3, "RAID 6 needs 4 or more members, 3 given"),
            ("3", 256, "RAID 3 allows at most 255 members, 256 given"),
            ("5", 256, "RAID 5 allows at most 255 members, 256 given"),
            ("6", 257, "RAID 6 allows at most 256 members, 257 given"),
            ("10", 2, "RAID 10 needs 4 or more members, 2 given"),
            ("10", 5, "RAID 10 needs an even number of members, 5 given: use one more or less, or level 1e"),
            ("50", 6, "RAID 50 needs 2 or more spans, 1 given: write the level as 50:2-spans"),
            ("50:2-spans", 7, "RAID 50 with 2 spans needs a multiple of 2 members, 7 given"),
            ("50:3-spans", 6, "RAID 50 needs 3 to 255 members in each span, 6 given for 3 spans"),
            ("60:2-spans", 4, "RAID 60 needs 3 to 256 members in each span, 4 given for 2 spans"),
            ("5:2-spans", 6, "RAID 5 has no spans, 2 given: leave them out, or use level 50 or 60"),
            (
                "10:offset",
                5,
                "RAID 10 needs an even number of members, 5 given: use one more or less, or level 1e",
            ),
            ("1:far", 4, "RAID 1 has no mirror layout, far given: leave it out, or use level 10 or 1e"),
            ("5:offset", 4, "RAID 5 has no mirror layout, offset given: leave it out, or use level 10 or 1e"),
            (
                "60:2-spans:far",
                8,
                "RAID 60 has no mirror layout, far given: leave it out, or use level 10 or 1e",
            ),
            ("10:far:2-spans", 4, "RAID 10 has no spans, 2 given: leave them out, or use level 50 or 60"),
            ("10:right-symmetric", 6, "RAID 10 has no rotating parity, right-symmetric given: leave it out"),
        ] {
            assert_eq!(error_of(level, members, 8, 80), message);
        }
    }

    #[test]
    fn sizes_that_hold_nothing_or_too_much_are_refused() {
        assert_eq!(error_of("0", 2, 0, 80), "a strip of 0 blocks holds nothing: use 1 or more");
        assert_eq!(
            error_of("0", 2, 81, 80),
            "members of 80 blocks do not hold one strip of 81 blocks: use larger members or a shorter strip"
        );
        for (level, mirror_layout) in [("10:far", "far"), ("1e:offset", "offset")] {
            let message = format!(
                "mirror layout {mirror_layout} needs 2 strips on each member, and members of 15 blocks do not hold 2 \
                 strips of 8 blocks: use larger members or a shorter strip"
            );
            assert_eq!(error_of(level, 4, 8, 15), message);
        }
        assert_eq!(
            error_of("1", 2, 8, 1 << 63),
            "2 members of 9223372036854775808 blocks are 2^64 blocks or more: use smaller members"
        );
    }
}
