//! How busy each resource was, and which of them set the pace.

use core::fmt;

/// Above this share of the time a resource that everything passes through sets the pace; below it, requests spend
/// their time waiting for one another's answers.
const SATURATED: f64 = 0.9;

/// Share of the measured window in which each resource worked, 0 to 1. Where there are two controllers, each share is
/// that of the busier one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Utilisation {
    /// Members with at least one command, mean over the members.
    pub drives_mean: f64,
    /// The same of the busiest member.
    pub drives_max: f64,
    /// The controller's processors, mean over them: commands, copies and parity.
    pub processors: f64,
    /// Part of `processors` that went into parity.
    pub parity: f64,
    /// The link to the host.
    pub host_link: f64,
    /// The link to the members.
    pub member_link: f64,
    /// The link between two controllers.
    pub mirror_link: f64,
}

/// Share of the measured window in which the resources of one controller worked, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControllerUtilisation {
    /// Its processors, mean over them: commands, copies and parity, and what they do for the other controller's mirror.
    pub processors: f64,
    /// Part of `processors` that went into parity.
    pub parity: f64,
    /// Its link to the host.
    pub host_link: f64,
    /// Its link to the members; of both together, where they share one.
    pub member_link: f64,
}

/// What set the pace of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bottleneck {
    /// The members.
    Drives,
    /// The controller's processors.
    Processors,
    /// The link to the host.
    HostLink,
    /// The link to the members.
    MemberLink,
    /// The link between two controllers.
    MirrorLink,
    /// Nothing was saturated: more requests in flight would do more.
    Iodepth,
}

impl Utilisation {
    /// Names what set the pace: the busiest resource if it was busy more than nine tenths of the time.
    pub fn bottleneck(&self) -> Bottleneck {
        let shares = [
            (self.drives_mean, Bottleneck::Drives),
            (self.processors, Bottleneck::Processors),
            (self.host_link, Bottleneck::HostLink),
            (self.member_link, Bottleneck::MemberLink),
            (self.mirror_link, Bottleneck::MirrorLink),
        ];
        let busiest = shares.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        busiest.filter(|(share, _)| *share > SATURATED).map_or(Bottleneck::Iodepth, |(_, name)| name)
    }
}

impl fmt::Display for Bottleneck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Drives => "drives",
            Self::Processors => "controller processors",
            Self::HostLink => "host link",
            Self::MemberLink => "member link",
            Self::MirrorLink => "mirror link",
            Self::Iodepth => "requests in flight",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_resource_is_named_only_when_saturated() {
        let idle = Utilisation::default();
        let rows = [
            (idle, Bottleneck::Iodepth),
            (Utilisation { drives_mean: 0.5, drives_max: 1.0, ..idle }, Bottleneck::Iodepth),
            (Utilisation { drives_mean: 0.97, processors: 0.99, ..idle }, Bottleneck::Processors),
            (Utilisation { drives_mean: 0.97, host_link: 0.5, ..idle }, Bottleneck::Drives),
            (Utilisation { member_link: 0.95, ..idle }, Bottleneck::MemberLink),
            (Utilisation { host_link: 0.95, ..idle }, Bottleneck::HostLink),
            (Utilisation { host_link: 0.95, mirror_link: 0.96, ..idle }, Bottleneck::MirrorLink),
        ];
        for (utilisation, expected) in rows {
            assert_eq!(utilisation.bottleneck(), expected, "{utilisation:?}");
        }
    }
}
