//! The time costs of a RAID controller, and its default settings.
//!
//! The controller's logic is in another crate; this is its hardware: processors that spend time on each host
//! command, each member command and each memory task, a link to the host, a link to the members. A world
//! charges [`ControllerModel::host_command_cost`], [`ControllerModel::member_command_cost`] and
//! [`ControllerModel::memory_cost`] to one of [`ControllerModel::processors`] servers, and bytes to the links.
//!
//! ```text
//!  host ==host_link==> [ processors x n, memory ] ==member_link==> members
//! ```
//! If an enclosure has two of them, [`DualModel`] describes the link between the two.

use crate::catalog::{CatalogError, FigureSource, Section, from_keys};
use crate::enclosure::EnclosureModel;
use crate::host::{HostModel, SocketsModel};
use crate::link::{FabricModel, LinkModel};
use crate::md::MdModel;
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

/// The direction of a command, for its cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostOpKind {
    /// Towards the host.
    Read,
    /// From the host.
    Write,
    /// Moves no data.
    Flush,
}

/// The way of a member command through the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberPath {
    /// From the host to the member, or the other way round, and nothing else is to be done.
    CutThrough,
    /// For the cache, for parity, or for a volume that has the one or the other at work.
    Firmware,
}

/// What a processor, or the engine beside it, does on memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryWork {
    /// Moves bytes.
    Copy,
    /// Computes parity, or data from parity.
    Parity,
}

/// What computes parity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParityWorker {
    /// The controller's processors.
    Processors,
    /// An engine beside them.
    Engine,
}

/// Processor time for a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandCost {
    /// For a read.
    pub read: NanoSpan,
    /// For a write.
    pub write: NanoSpan,
    /// More for every page of 4 KiB that the command touches: a block of the cache, an entry of a scatter-gather list.
    pub per_page: NanoSpan,
}

/// A way past the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutThrough {
    /// Processor time per member command.
    pub cost: CommandCost,
    /// How many more I/Os in flight a copy may have and still be read from where a stream goes on, in place of
    /// [`CacheDefaults::stream_lead`].
    pub stream_lead: u32,
}

/// Time of the host's processor, for each page and besides what any controller takes there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverCost {
    /// Of a read.
    pub page_in: NanoSpan,
    /// Of a write.
    pub page_out: NanoSpan,
}

/// Time for a task on memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryCost {
    /// For setting it up, whatever its size.
    pub per_task: NanoSpan,
    /// Rate of bytes read plus bytes written.
    pub rate: BytesPerSec,
}

/// Software whose first thread decides everything and computes, while all of its threads, that one as well, do I/O of members:
/// what `processors` counts are those threads. Host commands and memory tasks take the first one's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstThread {
    /// Its time for a member command, besides that of the I/O.
    pub member_command: NanoSpan,
    /// Its time for one that it leaves to another thread, besides that.
    pub hand_over: NanoSpan,
}

/// Settings of the cache as delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "what firmware does and has are independent of each other")]
pub struct CacheDefaults {
    /// Memory for data.
    pub size: ByteCount,
    /// Unit of allocation.
    pub block_size: ByteCount,
    /// Destaging starts at this share of dirty blocks, in percent.
    pub flush_start_pct: u8,
    /// And stops at this one.
    pub flush_stop_pct: u8,
    /// Dirty blocks are destaged after this time in any case.
    pub flush_after: NanoSpan,
    /// Member writes of destages at once.
    pub flush_iodepth: u32,
    /// Bytes that destages of parts of stripes write at once, if that limits them, too.
    pub flush_partial_bytes: Option<ByteCount>,
    /// Whether they are destaged in order of address, not of age.
    pub flush_by_address: bool,
    /// Whether writes through that wait for the same stripe become one change of its parity.
    pub coalesce_writes: bool,
    /// Whether parity is written when the data that it is for has been, and not at the same time.
    pub parity_after_data: bool,
    /// How many more I/Os in flight a copy may have and still be read from where a stream goes on.
    pub stream_lead: u32,
    /// Processor time for a write that it takes in, besides that of the command.
    pub write_in: NanoSpan,
    /// Length of a read-ahead.
    pub read_ahead: ByteCount,
    /// Whether it begins one only when the host comes to what was not read ahead.
    pub read_ahead_on_miss: bool,
    /// Whether a battery keeps it over a power loss.
    pub battery_backed: bool,
}

/// What is between two controllers of one enclosure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DualModel {
    /// The link over which each sends the other what it mirrors, in either direction, one message at a time.
    pub mirror_link: LinkModel,
    /// Whether both reach the members over the same link (loops that both are on), or over one link each.
    pub member_link_shared: bool,
    /// From when one stops answering to when the other has found that out and takes its volumes over.
    pub failover_detection: NanoSpan,
}

/// A RAID controller.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "what hardware has or does is independent of the rest")]
pub struct ControllerModel {
    /// Name in the catalogue, `perc-h800`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Year from which it was sold; none for what is there in all of them.
    pub year: Option<u32>,
    /// Processors that share the commands and tasks.
    pub processors: u32,
    /// Which work is that of the first of them alone, where some is.
    pub first_thread: Option<FirstThread>,
    /// Whether a plan takes it only where it is named.
    pub is_only_named: bool,
    /// Towards the host.
    pub host_link: LinkModel,
    /// Towards the members, all ports together.
    pub member_link: LinkModel,
    /// Towards the members, where writing is another matter than reading.
    pub member_link_out: Option<LinkModel>,
    /// What the way to the members adds if it is a network.
    pub fabric: Option<FabricModel>,
    /// Transfers to members that run at once, each on its part of the member link: 1 where all lanes are one path.
    pub member_lanes: u32,
    /// The lanes that it has for each drive, where they are known: no drive is faster than that, whatever its own interface.
    pub bay_link: Option<LinkModel>,
    /// The same for `NVMe` drives, where it takes others, too.
    pub nvme_bay_link: Option<LinkModel>,
    /// What its driver takes of the host's processor for each page, where that is known.
    pub host_driver: Option<DriverCost>,
    /// What can be plugged in, `SAS SATA`, where the entry says so.
    pub buses: Option<String>,
    /// Drives that it takes, where each has a port or an address of its own; else expanders and enclosures decide.
    pub ports: Option<u32>,
    /// Whether its members are in enclosures of their own; else they are in the server.
    pub is_external: bool,
    /// Whether it is software on the host, whose bus the members are on.
    pub is_software: bool,
    /// Whether it passes the host's discards on to members where there is no parity; else they end with it.
    pub passes_discards: bool,
    /// Processor time per host command.
    pub host_command: CommandCost,
    /// The shorter way of commands that the firmware only passes on, where it has one: data goes between the host and a
    /// member, with no cache and no parity at work.
    pub cut_through: Option<CutThrough>,
    /// Processor time per member command.
    pub member_command: CommandCost,
    /// Time to move bytes within memory.
    pub copy: MemoryCost,
    /// Time to compute parity.
    pub parity: MemoryCost,
    /// What computes it.
    pub parity_by: ParityWorker,
    /// The cache as delivered.
    pub cache: CacheDefaults,
    /// Commands that the controller keeps outstanding on one member.
    pub member_queue_depth: u32,
    /// Bytes that these commands may move, if that is what limits long ones. One command may be longer.
    pub member_queue_bytes: Option<ByteCount>,
    /// Length of a strip as delivered.
    pub strip_size: ByteCount,
    /// Whether the members' own volatile write caches are on as delivered.
    pub member_write_cache: bool,
    /// What is between it and a second one, where the enclosure has place for two.
    pub dual: Option<DualModel>,
    /// The host that runs it, where it is software on a host with sockets: its name, and those.
    pub host: Option<(String, SocketsModel)>,
    /// Linux md's own settings and costs, where it is that on a host of today.
    pub md: Option<MdModel>,
    /// Every figure with its source.
    pub sources: Vec<FigureSource>,
}

impl ControllerModel {
    /// Processors that make member commands, besides the one that decides where that is one alone; at least 1, which has nothing
    /// to do where there is no other.
    pub fn threads_beside_first(&self) -> u32 {
        if self.first_thread.is_some() { (self.processors - 1).max(1) } else { self.processors }
    }

    /// Processor time for one host command of `bytes` at `offset_bytes` of its volume. One that begins within a page may touch
    /// a page more than its length has.
    #[inline]
    pub fn host_command_cost(&self, op: HostOpKind, offset_bytes: u64, bytes: ByteCount) -> NanoSpan {
        self.host_command.of(op, ByteCount(offset_bytes % PAGE_BYTES + bytes.0))
    }

    /// Processor time for one command of `bytes` to a member.
    #[inline]
    pub fn member_command_cost(&self, path: MemberPath, op: HostOpKind, bytes: ByteCount) -> NanoSpan {
        let cost = match path {
            MemberPath::CutThrough => self.cut_through.as_ref().map_or(&self.member_command, |way| &way.cost),
            MemberPath::Firmware => &self.member_command,
        };
        cost.of(op, bytes)
    }

    /// The same as software on `host`. On a host with sockets it runs on their processors, memory and ports; drives of an
    /// adapter keep that one's link. On others its members are on the host's bus. A controller with hardware of its own stays as
    /// it is.
    #[must_use]
    pub fn on_host(self, host: &HostModel) -> Self {
        if !self.is_software {
            return self;
        }
        let Some(sockets) = host.sockets else {
            return Self { member_link: host.bus_in, member_link_out: Some(host.bus_out), ..self };
        };
        // Threads of its own are as many as it is told to have.
        let processors = if self.first_thread.is_some() { self.processors } else { host.processors };
        let on_sockets = Self { processors, host: Some((host.id.clone(), sockets)), ..self };
        if on_sockets.buses.as_deref() == Some("NVMe") {
            let (member_link, member_link_out) = (host.bus_in, Some(host.bus_out));
            Self { member_link, member_link_out, member_lanes: sockets.drive_ports, ..on_sockets }
        } else {
            let (member_link, out) = (on_sockets.member_link, on_sockets.member_link_for_writes());
            Self {
                member_link: member_link.within(host.bus_in.rate),
                member_link_out: Some(out.within(host.bus_out.rate)),
                ..on_sockets
            }
        }
    }

    /// The same with its members in an enclosure: its port bounds the rate, and its network, if it has one, adds latency.
    #[must_use]
    pub fn behind(self, enclosure: &EnclosureModel) -> Self {
        let most = enclosure.port.rate;
        // Where bays have lanes of their own there are no more of them than bays.
        let lanes = if enclosure.bay_link.is_some() { enclosure.slots.max(1) } else { u32::MAX };
        Self {
            member_lanes: self.member_lanes.min(lanes),
            member_link: self.member_link.within(most),
            member_link_out: self.member_link_out.map(|link| link.within(most)),
            fabric: enclosure.fabric.or(self.fabric),
            ..self
        }
    }

    /// The lanes that it has for one drive of this `bus`, where they are known.
    pub fn bay_link_of(&self, bus: Option<&str>) -> Option<LinkModel> {
        if bus == Some("NVMe") { self.nvme_bay_link.or(self.bay_link) } else { self.bay_link }
    }

    /// The link that a write to a member takes.
    #[inline]
    pub fn member_link_for_writes(&self) -> LinkModel {
        self.member_link_out.unwrap_or(self.member_link)
    }

    /// Time that one of the member link's lanes takes for a read of `bytes`.
    #[inline]
    pub fn member_read_time(&self, bytes: ByteCount) -> NanoSpan {
        self.on_one_lane(self.member_link, bytes)
    }

    /// The same for a write.
    #[inline]
    pub fn member_write_time(&self, bytes: ByteCount) -> NanoSpan {
        self.on_one_lane(self.member_link_for_writes(), bytes)
    }

    fn on_one_lane(&self, link: LinkModel, bytes: ByteCount) -> NanoSpan {
        link.transfer_time(ByteCount(bytes.0 * u64::from(self.member_lanes)))
    }

    /// Time for a memory task that reads `bytes_in` and writes `bytes_out`.
    #[inline]
    pub fn memory_cost(&self, work: MemoryWork, bytes_in: ByteCount, bytes_out: ByteCount) -> NanoSpan {
        let cost = match work {
            MemoryWork::Copy => self.copy,
            MemoryWork::Parity => self.parity,
        };
        cost.per_task + cost.rate.time_for(bytes_in + bytes_out)
    }
}

impl CommandCost {
    /// For a command of `bytes`.
    #[inline]
    pub fn of(&self, op: HostOpKind, bytes: ByteCount) -> NanoSpan {
        let per_command = match op {
            HostOpKind::Read => self.read,
            // A flush takes the path of a write without data.
            HostOpKind::Write | HostOpKind::Flush => self.write,
        };
        per_command + self.per_page * bytes.0.div_ceil(PAGE_BYTES)
    }

    pub(crate) fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let cost = Self::read_keys(&mut section)?;
        section.finish(cost)
    }

    fn read_keys(section: &mut Section<'_>) -> Result<Self, CatalogError> {
        Ok(from_keys!(section, Self { read, write, per_page }))
    }
}

impl CutThrough {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let way =
            Self { cost: CommandCost::read_keys(&mut section)?, stream_lead: section.figure("stream_lead")? };
        section.finish(way)
    }
}

impl FirstThread {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let first = from_keys!(section, Self { member_command, hand_over });
        section.finish(first)
    }
}

impl DriverCost {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let cost = from_keys!(section, Self { page_in, page_out });
        section.finish(cost)
    }
}

impl MemoryCost {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let cost = from_keys!(section, Self { per_task, rate });
        section.finish(cost)
    }
}

impl DualModel {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let dual = from_keys!(section, Self {
            mirror_link = LinkModel::read(section.section("mirror_link")?)?,
            member_link_shared: flag, failover_detection,
        });
        section.finish(dual)
    }
}

impl CacheDefaults {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        // Files of 2026 and before have the second name.
        let is_old = section.has("gather_through");
        let coalesce_writes = if is_old { "gather_through" } else { "coalesce_writes" };
        let cache = from_keys!(section, Self {
            size, block_size, flush_start_pct, flush_stop_pct, flush_after, flush_iodepth,
            flush_partial_bytes: optional_figure, flush_by_address: flag,
            coalesce_writes = section.flag(coalesce_writes)?,
            parity_after_data: optional_flag, stream_lead,
            write_in = section.optional_figure("write_in")?.unwrap_or(NanoSpan::ZERO),
            read_ahead, read_ahead_on_miss: optional_flag, battery_backed: flag,
        });
        section.refuse_if(cache.flush_start_pct > 100, "flush_start_pct", "from 0 to 100")?;
        if cache.flush_stop_pct > cache.flush_start_pct {
            return Err(section.bad_value("flush_stop_pct", "no more than flush_start_pct"));
        }
        section.refuse_if(!cache.block_size.0.is_power_of_two(), "block_size", "a power of two")?;
        section.finish(cache)
    }
}

impl ControllerModel {
    /// Reads the rest of a controller's file.
    pub(crate) fn read(mut root: Section<'_>, id: &str) -> Result<Self, CatalogError> {
        let mut section = root.section("parity")?;
        let parity_by =
            if section.optional_flag("beside")? { ParityWorker::Engine } else { ParityWorker::Processors };
        let parity = MemoryCost::read(section)?;
        let member_lanes = root.optional_figure("member_lanes")?.unwrap_or(1);
        root.refuse_if(!(1..=1024).contains(&member_lanes), "member_lanes", "from 1 to 1024")?;
        let processors = root.figure("processors")?;
        let host_link = LinkModel::read(root.section("host_link")?)?;
        let (member_link, fabric) = LinkModel::read_to_drives(root.section("member_link")?)?;
        let model = from_keys!(root, Self {
            id = id.into(), name: text, processors = processors,
            first_thread = root.optional_section("first_thread")?.map(FirstThread::read).transpose()?,
            is_only_named = root.optional_flag("only_named")?,
            host_link = host_link, member_link = member_link, fabric = fabric,
            member_link_out = root.optional_section("member_link_out")?.map(LinkModel::read).transpose()?,
            member_lanes = member_lanes,
            bay_link = root.optional_section("bay_link")?.map(LinkModel::read).transpose()?,
            nvme_bay_link = root.optional_section("nvme_bay_link")?.map(LinkModel::read).transpose()?,
            host_driver = root.optional_section("host_driver")?.map(DriverCost::read).transpose()?,
            buses: optional_text, ports: optional_figure,
            is_external = root.optional_flag("external")?,
            is_software = root.optional_flag("software")?,
            passes_discards: optional_flag,
            host_command = CommandCost::read(root.section("host_command")?)?,
            cut_through = root.optional_section("cut_through")?.map(CutThrough::read).transpose()?,
            member_command = CommandCost::read(root.section("member_command")?)?,
            copy = MemoryCost::read(root.section("copy")?)?,
            parity = parity, parity_by = parity_by,
            cache = CacheDefaults::read(root.section("cache")?)?,
            member_queue_depth, member_queue_bytes: optional_figure, strip_size,
            member_write_cache: flag,
            dual = root.optional_section("dual")?.map(DualModel::read).transpose()?,
            year: optional_figure, host = None,
            md = root.optional_section("md")?.map(MdModel::read).transpose()?,
            sources = root.figures(),
        });
        root.refuse_if(model.processors == 0, "processors", "at least 1")?;
        root.refuse_if(model.member_queue_depth == 0, "member_queue_depth", "at least 1")?;
        root.finish(model)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_costs_its_base_and_its_pages() {
        let cost = CommandCost { read: NanoSpan(100), write: NanoSpan(200), per_page: NanoSpan(3) };
        let rows = [
            (HostOpKind::Read, 0, 100),
            (HostOpKind::Read, 1, 103),
            (HostOpKind::Write, 4096, 203),
            (HostOpKind::Write, 65536, 248),
            (HostOpKind::Flush, 0, 200),
        ];
        for (op, bytes, ns) in rows {
            assert_eq!(cost.of(op, ByteCount(bytes)), NanoSpan(ns), "{op:?} of {bytes} bytes");
        }
    }

    #[test]
    fn a_host_command_pays_for_the_pages_that_it_touches() {
        let catalog = crate::Catalog::builtin();
        let controller = catalog.controller("fastt600").expect("in the catalogue");
        let CommandCost { read, per_page, .. } = controller.host_command;
        assert!(per_page.0 > 0, "or the test says nothing");
        let rows = [
            (0, 4096, 1),
            (8192, 512, 1),
            (512, 4096, 2),
            (3584, 512, 1),
            (3584, 1024, 2),
            (1024, 65536, 17),
            (4096, 65536, 16),
        ];
        for (offset, bytes, pages) in rows {
            let cost = controller.host_command_cost(HostOpKind::Read, offset, ByteCount(bytes));
            assert_eq!(cost, read + per_page * pages, "{bytes} bytes at {offset}");
        }
    }
}
