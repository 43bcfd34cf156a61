//! How busy each resource was, and which of them set the pace.

use core::fmt;

/// Above this share of the time a resource that everything passes through sets the pace; below it, requests spend
/// their time waiting for one another's answers.
const SATURATED: f64 = 0.9;

/// Share of the measured window in which each resource worked, 0 to 1.
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
        ];
        for (utilisation, expected) in rows {
            assert_eq!(utilisation.bottleneck(), expected, "{utilisation:?}");
        }
    }
}
