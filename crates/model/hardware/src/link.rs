//! Links, and the one type of shared resource: first come, first served.
//!
//! A [`LinkModel`] turns bytes into time; a [`Server`] turns "now" and a time into the instant the work ends, after all
//! earlier work. A [`LinkStandard`] is an entry of the catalogue that parts refer to:
//! ```text
//! member_link   link = "sas-3g", lanes = 8     rate = 8 x that of the link, its time per transfer
//! host_link     link = "pcie-2", lanes = 8, rate = 1.58 GB/s      its own rate, which 8 x 500 MB/s allow
//! ```
//! A link that is a network ([`FabricModel`]) adds latency, during which commands do not wait for each other, and
//! processor time.
//!
//! Left out: arbitration between directions and packet-level effects, which the effective rate and the overhead of a
//! transfer represent.

use crate::catalog::{CatalogError, FigureSource, Section, from_keys};
use crate::controller::CommandCost;
use raidlab_units::{ByteCount, BytesPerSec, NanoSpan, Nanos};

/// What a link does to a transfer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkModel {
    /// Payload rate once a transfer runs, encoding and framing taken off.
    pub rate: BytesPerSec,
    /// Time that each transfer adds: arbitration, headers, turn-around.
    pub per_transfer: NanoSpan,
}

/// What a network between a host and its drives adds to each command: `NVMe` over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FabricModel {
    /// Time that a command and its answer are on their way, both directions together. Commands do not wait for each other there.
    pub latency: NanoSpan,
    /// Time of one of the initiator's processors for a command, beside what it takes with a drive that is plugged in.
    pub initiator: CommandCost,
}

impl FabricModel {
    /// Time from the initiator to the drive.
    #[inline]
    pub fn outward(&self) -> NanoSpan {
        NanoSpan(self.latency.0 / 2)
    }

    /// Time from the drive to the initiator.
    #[inline]
    pub fn homeward(&self) -> NanoSpan {
        self.latency - self.outward()
    }

    fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        let latency = section.figure("latency")?;
        let initiator = CommandCost::read(section.section("initiator")?)?;
        section.finish(Self { latency, initiator })
    }
}

/// A kind of link, one lane of it: a port, a channel, a bus.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkStandard {
    /// Name in the catalogue, `sas-6g`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// What the wire carries once it is decoded, headers included: no payload goes faster.
    pub wire: BytesPerSec,
    /// What is usual: effective rate, and time of a transfer.
    pub usual: LinkModel,
    /// What it adds if it is a network.
    pub fabric: Option<FabricModel>,
    /// Every figure with its source.
    pub sources: Vec<FigureSource>,
}

impl LinkStandard {
    /// Reads the rest of a link's file.
    pub(crate) fn read(mut root: Section<'_>, id: &str) -> Result<Self, CatalogError> {
        let standard = from_keys!(root, Self {
            id = id.into(), name: text, wire,
            usual = LinkModel { rate: root.figure("rate")?, per_transfer: root.figure("per_transfer")? },
            fabric = root.optional_section("fabric")?.map(FabricModel::read).transpose()?,
            sources = root.figures(),
        });
        let rate = standard.usual.rate;
        if rate > standard.wire {
            return Err(
                root.unsound(format!("rate {rate} is above what the wire carries, {}", standard.wire))
            );
        }
        root.finish(standard)
    }

    /// What the wire carries, noted among the figures of the entry that refers to it.
    pub(crate) fn wire_of(&self, section: &Section<'_>) -> BytesPerSec {
        section.note_figure("wire", self.wire.to_string(), self.source_of("wire"));
        self.wire
    }

    /// The source of one of its figures, as the entry that refers to it gives it.
    fn source_of(&self, key: &str) -> String {
        let figure = self.sources.iter().find(|figure| figure.key == key);
        let source = figure.map_or("", |figure| &figure.source);
        format!("{source} (link {})", self.id)
    }
}

impl LinkModel {
    /// Reads a link's table: its own figures, or those of a link of the catalogue times its lanes, or some of both. A network is
    /// refused: what it adds would be lost here.
    pub(crate) fn read(mut section: Section<'_>) -> Result<Self, CatalogError> {
        if let Some(LinkStandard { id, fabric: Some(_), .. }) = section.optional_link()? {
            let problem = format!(
                "'{}' is the network '{id}', which is modelled between processors and drives only: a controller's member_link, an \
                 enclosure's port",
                section.path("link")
            );
            return Err(section.unsound(problem));
        }
        Self::read_to_drives(section).map(|(link, _)| link)
    }

    /// The same of a link between processors and drives, which may be a network.
    pub(crate) fn read_to_drives(
        mut section: Section<'_>,
    ) -> Result<(Self, Option<FabricModel>), CatalogError> {
        let (link, fabric) = match section.optional_link()? {
            Some(standard) => (Self::of_standard(standard, &mut section)?, standard.fabric),
            None => (from_keys!(section, Self { rate, per_transfer }), None),
        };
        section.finish((link, fabric))
    }

    fn of_standard(standard: &LinkStandard, section: &mut Section<'_>) -> Result<Self, CatalogError> {
        let lanes: u8 = section.optional_figure("lanes")?.unwrap_or(1);
        section.refuse_if(lanes == 0, "lanes", "at least 1")?;
        let times = |rate: BytesPerSec| BytesPerSec(rate.0 * f64::from(lanes));
        let most = times(standard.wire);
        let rate = match section.optional_figure::<BytesPerSec>("rate")? {
            Some(own) if own > most => {
                let problem =
                    format!("{own} is above the {most} that {lanes} of link '{}' carry", standard.id);
                return Err(section.unsound(section.path("rate") + " " + &problem));
            }
            Some(own) => own,
            None => {
                let value = format!("{lanes} x {}", standard.usual.rate);
                section.note_figure("rate", value, standard.source_of("rate"));
                times(standard.usual.rate)
            }
        };
        let own = section.optional_figure("per_transfer")?;
        let per_transfer = own.unwrap_or(standard.usual.per_transfer);
        if own.is_none() {
            section.note_figure("per_transfer", per_transfer.to_string(), standard.source_of("per_transfer"));
        }
        Ok(Self { rate, per_transfer })
    }

    /// The same behind something that carries no more than `most`.
    #[must_use]
    pub fn within(self, most: BytesPerSec) -> Self {
        Self { rate: if self.rate > most { most } else { self.rate }, ..self }
    }

    /// Time that the link is taken by one transfer of `bytes`.
    #[inline]
    pub fn transfer_time(&self, bytes: ByteCount) -> NanoSpan {
        self.per_transfer + self.rate.time_for(bytes)
    }
}

/// A resource that does one thing at a time, in the order it is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Server {
    busy_until: Nanos,
}

impl Server {
    /// Takes on work of length `span` that may start at `now`, and returns when it ends.
    #[inline]
    pub fn serve(&mut self, now: Nanos, span: NanoSpan) -> Nanos {
        self.busy_until = self.busy_until.max(now) + span;
        self.busy_until
    }

    /// Takes on work at `now` whose input is there only at `ready`, and returns when it ends.
    ///
    /// The time until `ready` is not lost for others: the work takes its place in the queue now, so that the
    /// resource does no more in all than it can, and ends no sooner than `span` after `ready`. (Serving at `ready`
    /// would keep the resource idle until then for everybody who asks later.)
    #[inline]
    pub fn serve_when_ready(&mut self, now: Nanos, ready: Nanos, span: NanoSpan) -> Nanos {
        self.serve(now, span).max(ready + span)
    }

    /// Takes on work of length `span` at `now` as a bucket with tokens for work of `burst` does: it has passed at once while there
    /// are tokens, and from then on in the order it is asked, at the resource's rate.
    #[inline]
    pub fn serve_within_burst(&mut self, now: Nanos, span: NanoSpan, burst: NanoSpan) -> Nanos {
        let end = self.serve(now, span);
        Nanos(end.0.saturating_sub(burst.0)).max(now)
    }

    /// When everything taken on so far ends; in the past for an idle server.
    #[inline]
    pub fn busy_until(&self) -> Nanos {
        self.busy_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transfer_takes_overhead_and_bytes_at_the_rate() {
        let link = LinkModel { rate: BytesPerSec::from_mb_per_s(100.0), per_transfer: NanoSpan(500) };
        assert_eq!(link.transfer_time(ByteCount(0)), NanoSpan(500));
        assert_eq!(link.transfer_time(ByteCount(1_000_000)), NanoSpan(10_000_500));
    }

    #[test]
    fn server_is_first_come_first_served_and_idles_between() {
        let mut server = Server::default();
        let rows = [(10, 5, 15), (11, 5, 20), (20, 1, 21), (100, 7, 107), (100, 0, 107)];
        for (now, span, end) in rows {
            assert_eq!(server.serve(Nanos(now), NanoSpan(span)), Nanos(end), "at {now}");
            assert_eq!(server.busy_until(), Nanos(end));
        }
    }

    #[test]
    fn a_bucket_lets_a_burst_pass_and_holds_the_rate_after_it() {
        let mut bucket = Server::default();
        let ends: Vec<u64> =
            (0..5).map(|_| bucket.serve_within_burst(Nanos(100), NanoSpan(10), NanoSpan(30)).0).collect();
        assert_eq!(ends, [100, 100, 100, 110, 120]);
        assert_eq!(
            bucket.serve_within_burst(Nanos(200), NanoSpan(10), NanoSpan(30)),
            Nanos(200),
            "full again"
        );
    }

    #[test]
    fn waiting_for_input_leaves_the_server_to_others() {
        let mut server = Server::default();
        assert_eq!(server.serve_when_ready(Nanos(0), Nanos(100), NanoSpan(5)), Nanos(105));
        assert_eq!(server.serve(Nanos(1), NanoSpan(5)), Nanos(10), "not after 105");
        assert_eq!(server.serve_when_ready(Nanos(2), Nanos(3), NanoSpan(5)), Nanos(15), "ready, but third");
    }
}
