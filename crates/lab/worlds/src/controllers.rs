//! The controllers of a modelled enclosure: their number, the owner of each volume, the link between two, and which one
//! fails.
//!
//! All volumes of an enclosure are alike: level, members, cache and region of a file hold for each. They are spread
//! evenly, A, B, A, B, unless the file assigns them.
//!
//! A controller's memory is divided evenly among the volumes whose blocks it holds: its own, and with a mirror those of
//! the other one, too. After a failover each volume keeps its share.

use crate::arrays::{ModelledArray, Models};
use core::fmt;
use raidlab_controller::{ConfigError, Controller, WritePolicy};
use raidlab_hardware::{DualModel, LinkModel};
use raidlab_sim::{ControllerFailure, ControllerName, SecondController};
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};
use serde::{Deserialize, Deserializer, Serialize};

/// `[controllers]` of an array file or of a study's section. What is left out is as the catalogue has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ControllerSettings {
    /// One or two.
    pub count: u8,
    /// Number of volumes; as many as controllers if not given.
    pub volumes: Option<u16>,
    /// Whose each volume is; A, B, A, B if not given.
    pub owners: Option<Vec<Owner>>,
    /// Whether each controller keeps a copy of what is dirty in the other's cache; so it is if not given, where two of them
    /// write back.
    pub mirror: Option<bool>,
    /// The link between the two.
    pub mirror_link: Option<MirrorLink>,
    /// Whether both reach the members over the same link.
    pub member_link_shared: Option<bool>,
    /// From when one stops answering to when the other takes over.
    pub failover_detection: Option<NanoSpan>,
    /// Which of them fails; A if only `fail-after` is given.
    pub fail: Option<Owner>,
    /// When it fails, from the start of the measured window.
    pub fail_after: Option<NanoSpan>,
}

/// One of two controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub enum Owner {
    /// The first.
    A,
    /// The second.
    B,
}

/// The link between two controllers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MirrorLink {
    /// Rate of a transfer that runs: `"200 MB/s"`.
    #[serde(deserialize_with = "rate")]
    pub rate: BytesPerSec,
    /// Time that each transfer adds.
    pub per_transfer: NanoSpan,
}

/// The controllers of a modelled array, every setting filled in.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ModelledControllers {
    /// Whose each volume is.
    pub owners: Vec<Owner>,
    /// What there is besides if there are two.
    pub second: Option<ModelledSecond>,
}

/// What a second controller brings with it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ModelledSecond {
    /// The link between the two.
    pub mirror_link: MirrorLink,
    /// Whether both reach the members over the same link.
    pub member_link_shared: bool,
    /// From when one stops answering to when the other takes over.
    pub failover_detection: NanoSpan,
    /// Whether dirty blocks of arrays that write back are mirrored.
    pub mirror: bool,
    /// Which of them fails, and when.
    pub failure: Option<(Owner, NanoSpan)>,
}

/// Why controllers are not possible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControllersError {
    /// Neither one nor two.
    #[error("count = {0}: an enclosure has one controller or two")]
    Count(u8),
    /// No volume.
    #[error("volumes = 0: an enclosure needs at least one")]
    NoVolumes,
    /// Volumes without owners, or the other way round.
    #[error("{owners} owners for {volumes} volumes: name one for each, or leave one of the two keys out")]
    Owners {
        /// Owners given.
        owners: usize,
        /// Volumes given.
        volumes: u16,
    },
    /// A setting that only two controllers have.
    #[error("{key} needs a second controller: write count = 2")]
    NeedsSecond {
        /// The key.
        key: &'static str,
    },
    /// The catalogue does not say.
    #[error(
        "the catalogue does not know '{controller}' in pairs: give {key} in [controllers], such as {key} = {example}"
    )]
    NoFigure {
        /// The controller.
        controller: String,
        /// What is missing.
        key: &'static str,
        /// How it is written.
        example: &'static str,
    },
    /// A controller fails, and nobody knows when.
    #[error("fail is given without fail-after: say when, from the start of the measured window")]
    NoTime,
    /// The volumes' shares of the memory are too small.
    #[error("each of {volumes} volumes gets {share} of a controller's cache: {source}")]
    Share {
        /// Volumes.
        volumes: usize,
        /// What is each one's.
        share: ByteCount,
        /// What is against it.
        source: ConfigError,
    },
}

impl ControllerSettings {
    /// So many controllers, and everything else as delivered.
    pub fn of_count(count: u8) -> Self {
        Self { count, ..Self::default() }
    }

    /// Whose each volume is.
    fn owners(&self) -> Result<Vec<Owner>, ControllersError> {
        if !(1..=2).contains(&self.count) {
            return Err(ControllersError::Count(self.count));
        }
        let given = self.owners.as_ref().map(Vec::len);
        let volumes = self.volumes.unwrap_or(given.map_or(u16::from(self.count), |owners| owners as u16));
        if volumes == 0 {
            return Err(ControllersError::NoVolumes);
        }
        if let Some(owners) = given.filter(|owners| *owners != usize::from(volumes)) {
            return Err(ControllersError::Owners { owners, volumes });
        }
        let both = [Owner::A, Owner::B];
        let spread = both.iter().take(usize::from(self.count)).cycle().take(usize::from(volumes));
        Ok(self.owners.clone().unwrap_or_else(|| spread.copied().collect()))
    }

    /// Refuses what only two controllers have.
    fn check_single(&self, owners: &[Owner]) -> Result<(), ControllersError> {
        let given = [
            ("owner B", owners.contains(&Owner::B)),
            ("mirror", self.mirror == Some(true)),
            ("mirror-link", self.mirror_link.is_some()),
            ("member-link-shared", self.member_link_shared.is_some()),
            ("failover-detection", self.failover_detection.is_some()),
            ("fail", self.fail.is_some()),
            ("fail-after", self.fail_after.is_some()),
        ];
        match given.iter().find(|(_, is_given)| *is_given) {
            Some((key, _)) => Err(ControllersError::NeedsSecond { key }),
            None => Ok(()),
        }
    }

    /// What there is between the two.
    fn second(&self, models: &Models<'_>) -> Result<ModelledSecond, ControllersError> {
        let delivered = models.controller.dual;
        let lacks = |key, example| ControllersError::NoFigure {
            controller: models.controller.id.clone(),
            key,
            example,
        };
        let link = |dual: DualModel| MirrorLink {
            rate: dual.mirror_link.rate,
            per_transfer: dual.mirror_link.per_transfer,
        };
        let failure = match (self.fail, self.fail_after) {
            (Some(_), None) => return Err(ControllersError::NoTime),
            (fail, after) => after.map(|after| (fail.unwrap_or(Owner::A), after)),
        };
        let mirror_link = self.mirror_link.or(delivered.map(link));
        let detection = self.failover_detection.or(delivered.map(|dual| dual.failover_detection));
        Ok(ModelledSecond {
            mirror_link: mirror_link
                .ok_or_else(|| lacks("mirror-link", "{ rate = \"200 MB/s\", per-transfer = \"20 us\" }"))?,
            member_link_shared: self
                .member_link_shared
                .unwrap_or(delivered.is_some_and(|dual| dual.member_link_shared)),
            failover_detection: detection.ok_or_else(|| lacks("failover-detection", "\"10 s\""))?,
            mirror: self.mirror.unwrap_or(true),
            failure,
        })
    }
}

impl ModelledArray {
    /// The array once for each volume of the enclosure, behind the controllers that `settings` asks for.
    ///
    /// # Errors
    /// [`ControllersError`] when there can't be such controllers.
    pub fn with_controllers(
        mut self,
        models: &Models<'_>,
        settings: &ControllerSettings,
    ) -> Result<Self, ControllersError> {
        let owners = settings.owners()?;
        let second = if settings.count == 2 {
            Some(settings.second(models)?)
        } else {
            settings.check_single(&owners)?;
            None
        };
        let cache = &mut self.config.cache;
        let writes_back = cache.write_policy != WritePolicy::WriteThrough;
        cache.mirror = writes_back && second.is_some_and(|second| second.mirror);
        let held = |owner| owners.iter().filter(|it| **it == owner).count();
        let held = if cache.mirror { owners.len() } else { held(Owner::A).max(held(Owner::B)) };
        cache.size = ByteCount(cache.size.0 / held as u64);
        let (volumes, share) = (owners.len(), cache.size);
        Controller::new(&self.config).map_err(|source| ControllersError::Share { volumes, share, source })?;
        self.controllers = Some(ModelledControllers { owners, second });
        Ok(self)
    }

    /// The controllers in a few words: `fastt600`, `two fastt600 with 4 volumes, A fails`.
    pub fn controller_label(&self) -> String {
        let controller = &self.parts.controller;
        let Some(controllers) = &self.controllers else { return controller.clone() };
        let volumes = match controllers.owners.len() {
            1 => " with 1 volume".to_owned(),
            volumes => format!(" with {volumes} volumes"),
        };
        let Some(second) = &controllers.second else { return format!("{controller}{volumes}") };
        let mirror = if second.mirror { "" } else { ", not mirrored" };
        let failure = second.failure.map_or_else(String::new, |(owner, _)| format!(", {owner} fails"));
        format!("two {controller}{volumes}{mirror}{failure}")
    }

    /// Number of volumes.
    pub fn volume_count(&self) -> u16 {
        self.controllers.as_ref().map_or(1, |controllers| controllers.owners.len() as u16)
    }

    /// Drives of all volumes, spares included.
    pub fn drives(&self) -> u32 {
        let of_volume = u32::from(self.config.members) + u32::from(self.config.resilience.spares);
        u32::from(self.volume_count()) * of_volume
    }
}

impl ModelledSecond {
    /// The same in the simulator's words.
    pub(crate) fn simulated(&self) -> SecondController {
        let MirrorLink { rate, per_transfer } = self.mirror_link;
        SecondController {
            dual: DualModel {
                mirror_link: LinkModel { rate, per_transfer },
                member_link_shared: self.member_link_shared,
                failover_detection: self.failover_detection,
            },
            failure: self.failure.map(|(owner, after)| ControllerFailure { controller: owner.into(), after }),
        }
    }
}

impl From<Owner> for ControllerName {
    fn from(owner: Owner) -> Self {
        match owner {
            Owner::A => Self::A,
            Owner::B => Self::B,
        }
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ControllerName::from(*self).fmt(f)
    }
}

/// Reads a rate such as `"200 MB/s"`.
fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BytesPerSec, D::Error> {
    /// Files have a text with a unit, kept predictions the number of bytes per second.
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Text(String),
        Number(f64),
    }
    let text = match Written::deserialize(deserializer)? {
        Written::Text(text) => text,
        Written::Number(bytes) => format!("{bytes} B/s"),
    };
    let bytes = text.strip_suffix("/s").and_then(|size| size.parse::<ByteCount>().ok());
    match bytes.filter(|bytes| bytes.0 > 0) {
        Some(bytes) => Ok(BytesPerSec(bytes.0 as f64)),
        None => Err(serde::de::Error::custom(format!("'{text}' is no rate: write one such as \"200 MB/s\""))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array_file::ArrayFile;
    use raidlab_hardware::Catalog;
    use raidlab_workload::toml_file;

    const ARRAY: &str = "schema = 1\nlevel = '5'\nmembers = 5\ndrive = 'st3600057ss'\ncontroller = 'perc-h800'\n\
                         write-policy = 'write-back'\n[controllers]\n";
    const LINK: &str =
        "mirror-link = { rate = '200 MB/s', per-transfer = '10 us' }\nfailover-detection = '2s'\n";

    fn resolve(controllers: &str) -> Result<ModelledArray, String> {
        let text = format!("{ARRAY}{controllers}");
        let file: ArrayFile = toml_file::parse("a.toml", &text, 1).map_err(|error| error.to_string())?;
        let catalog = Catalog::builtin();
        let resolved = file.resolve(&catalog).map_err(|error| error.to_string());
        resolved.map(|(_, array)| array)
    }

    #[test]
    fn volumes_are_spread_and_memory_is_shared() {
        // The controller has 512 MiB.
        let two = format!("count = 2\n{LINK}");
        let rows = [
            ("count = 1".to_owned(), "A", 512, false),
            ("count = 1\nvolumes = 4".to_owned(), "AAAA", 128, false),
            (two.clone(), "AB", 256, true),
            (format!("{two}volumes = 4"), "ABAB", 128, true),
            (format!("{two}volumes = 4\nmirror = false"), "ABAB", 256, false),
            (format!("{two}owners = ['A', 'A', 'A', 'B']\nmirror = false"), "AAAB", 170, false),
        ];
        for (text, owners, share_mib, mirror) in rows {
            let array = resolve(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let controllers = array.controllers.as_ref().expect("they were given");
            let found: String = controllers.owners.iter().map(Owner::to_string).collect();
            let cache = array.config.cache;
            assert_eq!((&*found, cache.size.0 >> 20, cache.mirror), (owners, share_mib, mirror), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let two = format!("count = 2\n{LINK}");
        let rows = [
            ("count = 3".to_owned(), "one controller or two"),
            ("count = 0".to_owned(), "one controller or two"),
            ("count = 1\nvolumes = 0".to_owned(), "volumes = 0"),
            ("count = 1\nfail-after = '1s'".to_owned(), "fail-after needs a second controller"),
            ("count = 1\nowners = ['B']".to_owned(), "owner B needs a second controller"),
            ("count = 2".to_owned(), "'perc-h800' in pairs: give mirror-link"),
            (format!("{two}volumes = 3\nowners = ['A']"), "1 owners for 3 volumes"),
            (format!("{two}fail = 'B'"), "without fail-after"),
            (format!("{two}owners = ['C']"), "a.toml:11: unknown value 'C'"),
            (format!("{two}volums = 4"), "a.toml:11: unknown key 'volums': the nearest known is 'volumes'"),
            (
                "count = 2\nmirror-link = { rate = 'fast', per-transfer = '1us' }".to_owned(),
                "'fast' is no rate",
            ),
            (format!("{two}volumes = 100\n[cache]\nsize = '64KiB'"), "each of 100 volumes gets 655 B"),
        ];
        for (text, expected) in rows {
            let error = resolve(&text).expect_err(&text);
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
