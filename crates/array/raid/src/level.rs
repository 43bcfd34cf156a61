//! The RAID levels and their variants by name.
//!
//! A level may be written `5`, `raid5`, `RAID 5`, `1E`, `jbod`. A [`LevelVariant`] adds the layout after colons:
//! `5:right-symmetric`, `50:2-spans`, `60:3-spans:left-asymmetric`,
//! `10:far`, `1e:offset`.

use core::fmt;
use core::str::FromStr;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A RAID level. Its text is the bare number or name: `0`, `1e`, `jbod`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Members one after another, with no redundancy.
    Jbod,
    /// Striping.
    Raid0,
    /// Mirroring: every member holds everything.
    Raid1,
    /// Striped mirroring over any number of members.
    Raid1e,
    /// Striping with P on a member of its own.
    Raid3,
    /// Striping with rotating P.
    Raid5,
    /// Striping with rotating P and Q.
    Raid6,
    /// Striping over mirrored pairs; striped mirroring over an even number of members.
    Raid10,
    /// Striping over spans that are RAID 5 each.
    Raid50,
    /// Striping over spans that are RAID 6 each.
    Raid60,
}

impl Level {
    /// Every level, in the order of its text.
    pub const ALL: [Self; 10] = [
        Self::Jbod,
        Self::Raid0,
        Self::Raid1,
        Self::Raid1e,
        Self::Raid3,
        Self::Raid5,
        Self::Raid6,
        Self::Raid10,
        Self::Raid50,
        Self::Raid60,
    ];

    /// The level's text: `5`, `1e`, `jbod`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Jbod => "jbod",
            Self::Raid0 => "0",
            Self::Raid1 => "1",
            Self::Raid1e => "1e",
            Self::Raid3 => "3",
            Self::Raid5 => "5",
            Self::Raid6 => "6",
            Self::Raid10 => "10",
            Self::Raid50 => "50",
            Self::Raid60 => "60",
        }
    }

    /// The level's name in a sentence or heading: `RAID 5`, `RAID 1E`, `JBOD`.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Jbod => "JBOD",
            Self::Raid0 => "RAID 0",
            Self::Raid1 => "RAID 1",
            Self::Raid1e => "RAID 1E",
            Self::Raid3 => "RAID 3",
            Self::Raid5 => "RAID 5",
            Self::Raid6 => "RAID 6",
            Self::Raid10 => "RAID 10",
            Self::Raid50 => "RAID 50",
            Self::Raid60 => "RAID 60",
        }
    }
}

/// How parity moves from stripe to stripe in levels 5, 6, 50 and 60; the names are those of Linux md.
///
/// *Left* starts parity on the last member and moves it one member left per stripe, *right* starts on the
/// first and moves right. *Symmetric* begins the data on the member after parity and wraps, so that any
/// run of as many strips as there are members touches each member once; *asymmetric* keeps the data in
/// member order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ParityRotation {
    /// What md uses unless told otherwise.
    #[default]
    LeftSymmetric,
    /// Parity moves left, data in member order.
    LeftAsymmetric,
    /// Parity moves right, data begins after parity.
    RightSymmetric,
    /// Parity moves right, data in member order.
    RightAsymmetric,
}

impl ParityRotation {
    /// Every rotation.
    pub const ALL: [Self; 4] =
        [Self::LeftSymmetric, Self::LeftAsymmetric, Self::RightSymmetric, Self::RightAsymmetric];

    /// The rotation's text, as `mdadm --layout` writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LeftSymmetric => "left-symmetric",
            Self::LeftAsymmetric => "left-asymmetric",
            Self::RightSymmetric => "right-symmetric",
            Self::RightAsymmetric => "right-asymmetric",
        }
    }
}

/// Where the second copy of each strip lies in levels 10 and 1E; the names are those of Linux md's raid10.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MirrorLayout {
    /// At the next place, counted along the rows. What md uses unless told otherwise.
    #[default]
    Near,
    /// On the next member, in the second half of it; the first halves are striped like RAID 0.
    Far,
    /// On the next member, one strip further: every second row repeats the row before it, shifted by a
    /// member.
    Offset,
}

impl MirrorLayout {
    /// Every mirror layout.
    pub const ALL: [Self; 3] = [Self::Near, Self::Far, Self::Offset];

    /// The mirror layout's text; `mdadm --layout` writes its first letter and the number of copies (`n2`,
    /// `f2`, `o2`).
    pub const fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
            Self::Offset => "offset",
        }
    }
}

/// A level with what it leaves open. A level converts into the variant that its bare text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LevelVariant {
    /// The level.
    pub level: Level,
    /// Number of spans in levels 50 and 60, which need two or more; 1 in all other levels.
    pub spans: u16,
    /// How parity rotates; [`ParityRotation::LeftSymmetric`] in levels without rotating parity.
    pub parity_rotation: ParityRotation,
    /// Where second copies lie; [`MirrorLayout::Near`] in all levels but 10 and 1E.
    pub mirror_layout: MirrorLayout,
}

impl From<Level> for LevelVariant {
    fn from(level: Level) -> Self {
        Self {
            level,
            spans: 1,
            parity_rotation: ParityRotation::default(),
            mirror_layout: MirrorLayout::default(),
        }
    }
}

/// Why a text names no level.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseLevelError {
    /// No level is called so.
    #[error("'{text}' is not a RAID level: use one of {}", known_levels())]
    UnknownLevel {
        /// What was given.
        text: String,
    },
    /// The text after a colon is no number of spans, no rotation and no mirror layout.
    #[error(
        "'{part}' in '{text}' is not a variant of a RAID level: use a number of spans such as 2-spans, a mirror layout \
         ({}) or a parity rotation ({})",
        MirrorLayout::ALL.map(MirrorLayout::name).join(", "),
        ParityRotation::ALL.map(ParityRotation::name).join(", ")
    )]
    UnknownVariant {
        /// What was given.
        text: String,
        /// The part that was not understood.
        part: String,
    },
    /// Spans, rotation or mirror layout are given twice.
    #[error("'{text}' gives {what} twice: say it once")]
    Repeated {
        /// What was given.
        text: String,
        /// What is there twice.
        what: &'static str,
    },
}

fn known_levels() -> String {
    Level::ALL.map(Level::name).join(", ")
}

impl FromStr for Level {
    type Err = ParseLevelError;

    /// Reads the level with or without the word RAID, in any case.
    fn from_str(text: &str) -> Result<Self, ParseLevelError> {
        let lower = text.trim().to_ascii_lowercase();
        let bare = match lower.strip_prefix("raid") {
            Some(rest) => rest.trim_start_matches([' ', '-', '_']),
            None => lower.as_str(),
        };
        Self::ALL
            .into_iter()
            .find(|level| level.name() == bare)
            .ok_or_else(|| ParseLevelError::UnknownLevel { text: text.into() })
    }
}

impl FromStr for LevelVariant {
    type Err = ParseLevelError;

    /// Reads a level, then what it leaves open after colons, in any order.
    fn from_str(text: &str) -> Result<Self, ParseLevelError> {
        let mut parts = text.split(':').map(str::trim);
        let level: Level = parts.next().unwrap_or_default().parse()?;
        let (mut spans, mut rotation, mut mirror_layout) = (None, None, None);
        for part in parts {
            let (what, repeated) = if let Some(count) = parse_spans(part) {
                ("the spans", spans.replace(count).is_some())
            } else if let Some(found) = find_named(&ParityRotation::ALL, ParityRotation::name, part) {
                ("the rotation", rotation.replace(found).is_some())
            } else if let Some(found) = find_named(&MirrorLayout::ALL, MirrorLayout::name, part) {
                ("the mirror layout", mirror_layout.replace(found).is_some())
            } else {
                return Err(ParseLevelError::UnknownVariant { text: text.into(), part: part.into() });
            };
            if repeated {
                return Err(ParseLevelError::Repeated { text: text.into(), what });
            }
        }
        Ok(Self {
            level,
            spans: spans.unwrap_or(1),
            parity_rotation: rotation.unwrap_or_default(),
            mirror_layout: mirror_layout.unwrap_or_default(),
        })
    }
}

/// Reads `2-spans`, `2 spans` or `1-span`; zero spans are no number of spans.
fn parse_spans(part: &str) -> Option<u16> {
    let count = part.strip_suffix("spans").or_else(|| part.strip_suffix("span"))?;
    count.trim_end_matches([' ', '-']).parse().ok().filter(|count| *count > 0)
}

fn find_named<T: Copy>(all: &[T], name: fn(T) -> &'static str, part: &str) -> Option<T> {
    all.iter().copied().find(|item| part.eq_ignore_ascii_case(name(*item)))
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for ParityRotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for MirrorLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl fmt::Display for LevelVariant {
    /// Writes only what differs from the bare level, so that most variants print as their level.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = vec![self.level.name().to_string()];
        if self.spans != 1 {
            parts.push(format!("{}-spans", self.spans));
        }
        if self.parity_rotation != ParityRotation::default() {
            parts.push(self.parity_rotation.to_string());
        }
        if self.mirror_layout != MirrorLayout::default() {
            parts.push(self.mirror_layout.to_string());
        }
        f.pad(&parts.join(":"))
    }
}

macro_rules! serde_as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($type).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "description": "As on the command line" })
            }
        }
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    };
}

serde_as_text!(Level);
serde_as_text!(LevelVariant);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_people_write_them() {
        for level in Level::ALL {
            assert_eq!(level.name().parse(), Ok(level));
            assert_eq!(level.title().parse(), Ok(level));
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        for (text, level) in [
            ("raid5", Level::Raid5),
            (" RAID-10 ", Level::Raid10),
            ("Raid_6", Level::Raid6),
            ("1E", Level::Raid1e),
            ("JBOD", Level::Jbod),
        ] {
            assert_eq!(text.parse(), Ok(level), "{text}");
        }
        for text in ["", "raid", "4", "raid 55", "5 0", "r5"] {
            let error = text.parse::<Level>().expect_err(text);
            assert_eq!(error, ParseLevelError::UnknownLevel { text: text.into() });
            assert!(error.to_string().ends_with("use one of jbod, 0, 1, 1e, 3, 5, 6, 10, 50, 60"), "{error}");
        }
    }

    #[test]
    fn variants_print_as_they_are_read() {
        use MirrorLayout::{Far, Near, Offset};
        use ParityRotation::{LeftAsymmetric, LeftSymmetric, RightAsymmetric};
        for (text, spans, parity_rotation, mirror_layout) in [
            ("5", 1, LeftSymmetric, Near),
            ("6:right-asymmetric", 1, RightAsymmetric, Near),
            ("50:2-spans", 2, LeftSymmetric, Near),
            ("60:12-spans:left-asymmetric", 12, LeftAsymmetric, Near),
            ("10", 1, LeftSymmetric, Near),
            ("10:far", 1, LeftSymmetric, Far),
            ("1e:offset", 1, LeftSymmetric, Offset),
        ] {
            let variant: LevelVariant = text.parse().expect(text);
            let found = (variant.spans, variant.parity_rotation, variant.mirror_layout);
            assert_eq!(found, (spans, parity_rotation, mirror_layout), "{text}");
            assert_eq!(variant.to_string(), text);
        }
        for (text, bare) in [("10:near", "10"), ("1E:Near", "1e"), ("RAID 10: FAR", "10:far")] {
            assert_eq!(text.parse::<LevelVariant>().expect(text).to_string(), bare);
        }
        let loose: LevelVariant = "RAID 50: Right-Symmetric : 3 spans".parse().expect("a variant");
        assert_eq!(loose.to_string(), "50:3-spans:right-symmetric");
    }

    #[test]
    fn a_wrong_variant_says_what_is_known() {
        for (text, message) in [
            (
                "5:left",
                "'left' in '5:left' is not a variant of a RAID level: use a number of spans such as 2-spans, a \
                 mirror layout (near, far, offset) or a parity rotation (left-symmetric, left-asymmetric, \
                 right-symmetric, right-asymmetric)",
            ),
            ("10:far:near", "'10:far:near' gives the mirror layout twice: say it once"),
            ("50:2-spans:3-spans", "'50:2-spans:3-spans' gives the spans twice: say it once"),
        ] {
            assert_eq!(text.parse::<LevelVariant>().expect_err(text).to_string(), message);
        }
        for text in ["50:0-spans", "50:99999-spans", "50:", "50:-spans", "10:f2"] {
            text.parse::<LevelVariant>().expect_err(text);
        }
    }
}
