//! The utilisation of each resource. That is not the bottleneck: see `bottleneck.rs`.

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
    /// The thread that decides, in software which has others for I/O; `processors` are these others then.
    pub first_thread: f64,
    /// Part of `processors` that went into parity.
    pub parity: f64,
    /// The engine that computes parity beside the processors.
    pub parity_engine: f64,
    /// The link to the host.
    pub host_link: f64,
    /// The link to the members.
    pub member_link: f64,
    /// The link between two controllers.
    pub mirror_link: f64,
    /// The memory of the host that software runs on.
    pub memory: f64,
    /// The threads that change stripes, in Linux md, mean over them; of those that only one may send for, that one.
    pub stripe_threads: f64,
}

/// Share of the measured window in which the resources of one controller worked, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ControllerUtilisation {
    /// Its processors, mean over them: commands, copies and parity, and what they do for the other controller's mirror.
    pub processors: f64,
    /// Its thread that decides.
    pub first_thread: f64,
    /// Part of `processors` that went into parity.
    pub parity: f64,
    /// Its engine that computes parity beside them.
    pub parity_engine: f64,
    /// Its link to the host.
    pub host_link: f64,
    /// Its link to the members; of both together, where they share one.
    pub member_link: f64,
    /// The memory of its host.
    pub memory: f64,
    /// Its threads that change stripes.
    pub stripe_threads: f64,
}
