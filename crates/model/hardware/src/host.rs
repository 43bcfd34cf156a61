//! A host: the processor costs of file calls, and how its kernel keeps pages and feeds volumes.
//!
//! ```text
//!  program ──calls──► [ processors ] ──► page cache ──► queue of each volume ──► array
//!            per_call, copies, getc     dirty limits     requests, batches
//! ```
//! Figures of the processor are times or rates of one processor; a world charges them to one server for each of
//! [`HostModel::processors`]. The kernel's figures are those that Linux names (`dirty_ratio`, `nr_requests`).
//!
//! A current host has [`SocketsModel`]: memory and ports for drives on each socket, and a link between two of them.
//! ```text
//!   drives 0 2 4 .. ══ [ cores │ memory ] ══ link ══ [ cores │ memory ] ══ drives 1 3 5 ..
//! ```
//! Left out: programs beside the load, swap, differing memory nodes.
//! Source of the kernel's behaviour: Linux 2.6.0, `mm/page-writeback.c`, `mm/vmscan.c`, `drivers/block/as-iosched.c`.

use crate::catalog::{CatalogError, FigureSource, Section, from_keys};
use crate::link::LinkModel;
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan};

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// A computer that runs programs on files.
#[derive(Clone, Debug, PartialEq)]
pub struct HostModel {
    /// Name in the catalogue, `noral3`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Processors.
    pub processors: u32,
    /// Memory.
    pub memory: ByteCount,
    /// The part of it that holds no pages of files: the kernel and the programs.
    pub memory_taken: ByteCount,
    /// The part of it that the kernel can address at any time; pages of files lie there and above it, each part with its
    /// own order of use.
    pub memory_low: ByteCount,
    /// A system call, whatever it does.
    pub per_call: NanoSpan,
    /// Rate of copies out of the page cache.
    pub read_copy: BytesPerSec,
    /// Rate of copies into the page cache, finding a page for each included.
    pub write_copy: BytesPerSec,
    /// Characters per second by `getc`, the buffer's reads included.
    pub getc: BytesPerSec,
    /// Characters per second by `putc`, without the buffer's writes.
    pub putc: BytesPerSec,
    /// Buffer of the standard I/O library.
    pub stdio_buffer: ByteCount,
    /// For each page that is read from a volume.
    pub page_in: NanoSpan,
    /// For each page that is written to a volume. Nobody else writes to the file in that time.
    pub page_out: NanoSpan,
    /// The bus to the drives that are plugged into it without a controller of their own, from them.
    pub bus_in: LinkModel,
    /// The same towards them: a device that fetches from memory waits for each piece, one that stores there does not.
    pub bus_out: LinkModel,
    /// What its kernel does.
    pub kernel: KernelModel,
    /// Its sockets, of a host of today.
    pub sockets: Option<SocketsModel>,
    /// Every figure with its source.
    pub sources: Vec<FigureSource>,
}

/// The sockets of a host, all alike. Drives are spread over them in turn, and so are those who ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SocketsModel {
    /// How many.
    pub count: u32,
    /// What the memory of one carries, in effect: bytes read and bytes written, by processors and by drives.
    pub memory_rate: BytesPerSec,
    /// Ports of PCI Express for drives on all of them: transfers at once, each at its part of the bus.
    pub drive_ports: u32,
    /// What is between two; none where there is one.
    pub remote: Option<RemoteModel>,
}

/// What it takes to use what is at another socket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RemoteModel {
    /// Processor time that a command takes more if its drive is there: its queues are read and written over the link.
    pub command: NanoSpan,
    /// Rate of the link in each direction.
    pub rate: BytesPerSec,
}

impl SocketsModel {
    /// What the memory of all of them carries.
    #[inline]
    pub fn memory_rate_of_all(&self) -> BytesPerSec {
        BytesPerSec(self.memory_rate.0 * f64::from(self.count))
    }

    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let sockets = from_keys!(section, Self {
            count, memory_rate, drive_ports,
            remote = section.optional_section("remote")?.map(RemoteModel::read).transpose()?,
        });
        section.refuse_if(sockets.count == 0, "count", "at least 1")?;
        section.refuse_if(!(1..=1024).contains(&sockets.drive_ports), "drive_ports", "from 1 to 1024")?;
        if sockets.remote.is_some() != (sockets.count > 1) {
            return Err(section.bad_value("count", "above 1 with a table 'remote', and 1 without it"));
        }
        section.finish(sockets)
    }
}

impl RemoteModel {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let remote = from_keys!(section, Self { command, rate });
        section.finish(remote)
    }
}

/// Memory and requests as the kernel handles them.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelModel {
    /// Above this share of memory dirty, pages are written out in the background, in percent.
    pub dirty_background_pct: u8,
    /// Above this share of memory dirty or being written, whoever writes waits, in percent.
    pub dirty_limit_pct: u8,
    /// Files that have been dirty for so long are written out in any case.
    pub dirty_expire: NanoSpan,
    /// How often the kernel looks for those.
    pub flush_interval: NanoSpan,
    /// Longest request to a volume.
    pub request_max: ByteCount,
    /// Writes that wait for a volume before nobody adds more.
    pub queue_requests: u32,
    /// Requests at a volume at once.
    pub volume_depth: u32,
    /// How long reads go before writes that wait.
    pub read_batch: NanoSpan,
    /// And how long writes go before reads.
    pub write_batch: NanoSpan,
    /// How long a volume waits for the next read of a process before it writes.
    pub anticipation: NanoSpan,
    /// Whether the next part of a file is asked for while a program works on the last.
    pub read_ahead_overlaps: bool,
}

impl HostModel {
    /// Memory for pages of files, all and the part below the end of what the kernel addresses at any time.
    pub fn page_memory(&self) -> (ByteCount, ByteCount) {
        let all = self.memory - self.memory_taken;
        let low = self.memory_low.min(self.memory);
        (all, ByteCount(low.0.saturating_sub(self.memory_taken.0).max(PAGE_BYTES)))
    }

    /// Reads the rest of a host's file.
    pub(crate) fn read(mut root: Section<'_>, id: &str) -> Result<Self, CatalogError> {
        let model = from_keys!(root, Self {
            id = id.into(), name: text, processors, memory, memory_taken, memory_low, per_call,
            read_copy, write_copy, getc, putc, stdio_buffer, page_in, page_out,
            bus_in = LinkModel::read(root.section("bus_in")?)?,
            bus_out = LinkModel::read(root.section("bus_out")?)?,
            kernel = KernelModel::read(root.section("kernel")?)?,
            sockets = root.optional_section("sockets")?.map(SocketsModel::read).transpose()?,
            sources = root.figures(),
        });
        root.refuse_if(model.processors == 0, "processors", "at least 1")?;
        if model.sockets.is_some_and(|sockets| !model.processors.is_multiple_of(sockets.count)) {
            return Err(root.bad_value("processors", "as many on each socket"));
        }
        if model.memory.0 < model.memory_taken.0 + (1 << 20) {
            return Err(root.bad_value("memory", "at least 1 MiB more than memory_taken"));
        }
        root.refuse_if(model.stdio_buffer.0 == 0, "stdio_buffer", "above zero")?;
        root.finish(model)
    }
}

impl KernelModel {
    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let kernel = from_keys!(
            section,
            Self {
                dirty_background_pct,
                dirty_limit_pct,
                dirty_expire,
                flush_interval,
                request_max,
                queue_requests,
                volume_depth,
                read_batch,
                write_batch,
                anticipation,
                read_ahead_overlaps: flag,
            }
        );
        if kernel.dirty_background_pct > kernel.dirty_limit_pct || kernel.dirty_limit_pct > 90 {
            return Err(section.bad_value("dirty_limit_pct", "from dirty_background_pct to 90"));
        }
        section.refuse_if(kernel.request_max.0 < PAGE_BYTES, "request_max", "at least a page")?;
        for (key, count) in [("queue_requests", kernel.queue_requests), ("volume_depth", kernel.volume_depth)]
        {
            section.refuse_if(count == 0, key, "at least 1")?;
        }
        section.refuse_if(kernel.flush_interval == NanoSpan::ZERO, "flush_interval", "above zero")?;
        section.finish(kernel)
    }
}

#[cfg(test)]
mod tests {
    use crate::Catalog;
    use raidlab_units::ByteCount;

    const NORAL3: &str = include_str!("../catalog/hosts/noral3.toml");

    #[test]
    fn software_has_its_members_on_the_hosts_bus() {
        let catalog = Catalog::builtin();
        let host = catalog.host("noral3").expect("there");
        let on_host = |id| catalog.controller(id).expect("there").clone().on_host(host);
        let (software, hardware) = (on_host("linux-md"), on_host("3ware-8506-4lp"));
        assert_eq!((software.member_link, software.member_link_for_writes()), (host.bus_in, host.bus_out));
        assert_eq!(Some(&hardware), catalog.controller("3ware-8506-4lp").ok());
        assert_eq!(hardware.member_link_for_writes(), hardware.member_link);
    }

    #[test]
    fn memory_for_pages_is_what_nobody_else_takes() {
        let mut host = Catalog::builtin().host("noral3").expect("there").clone();
        let mib = ByteCount::from_mib;
        let rows = [(1024, 100, 896, 924, 796), (512, 100, 896, 412, 412), (200, 100, 50, 100, 0)];
        for (memory, taken, low, all, low_pages) in rows {
            (host.memory, host.memory_taken, host.memory_low) = (mib(memory), mib(taken), mib(low));
            let (found, found_low) = host.page_memory();
            assert_eq!((found, found_low.0 >> 20), (mib(all), low_pages), "{memory} MiB");
        }
    }

    #[test]
    fn hosts_that_cannot_be_are_refused() {
        let rows = [
            (
                "dirty_limit_pct = { value = 5",
                "dirty_limit_pct = { value = 9",
                "'kernel.dirty_limit_pct' must be",
            ),
            ("processors = { value = 2", "processors = { value = 0", "'processors' must be at least 1"),
            ("memory = { value = \"2 GiB", "memory = { value = \"9 MiB", "'memory' must be"),
            ("queue_requests = { value = 128", "queue_requests = { value = 0", "'kernel.queue_requests'"),
            ("[bus_out]", "[bus_outwards]", "'bus_out' is missing"),
        ];
        for (from, to, expected) in rows {
            assert!(NORAL3.contains(from), "{from}");
            let text = NORAL3.replacen(from, to, 1);
            let error = crate::catalog::links_and("noral3.toml", &text).expect_err(expected).to_string();
            assert!(error.contains(expected), "{from} -> {to}: {error}");
        }
    }
}
