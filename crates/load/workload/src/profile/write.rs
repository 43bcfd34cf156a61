//! Writes a workload as the text of a workload file, which reads back as the same workload.

use super::Workload;
use super::actors::{write_actor, write_phase};
use crate::data::DataSpec;
use crate::pacing::{ArrivalProcess, Arrivals, ClosedLoop, FlushRule, Pacing};
use crate::places::{Distribution, FileOrder, HitRate, PlacedFiles, Places, Zone};
use crate::result::Metric;
use crate::rhythm::{OnOff, Rhythm, SelfSimilar, SpanLaw};
use crate::spec::AccessLine;
use raidlab_units::{ByteCount, NanoSpan};
use std::fmt::Write;

/// Text that is written to.
pub(super) struct Text(String);

impl Text {
    /// Adds a line.
    pub(super) fn line(&mut self, line: std::fmt::Arguments<'_>) {
        self.0
            .write_fmt(line)
            .and_then(|()| self.0.write_char('\n'))
            .expect("strings take all that is written");
    }

    pub(super) fn string(&mut self, key: &str, value: &str) {
        self.line(format_args!("{key} = {}", toml::Value::from(value)));
    }

    /// Real numbers with their point, as TOML wants them.
    pub(super) fn real(&mut self, key: &str, value: f64) {
        self.line(format_args!("{key} = {value:?}"));
    }

    fn pairs(&mut self, key: &str, pairs: impl Iterator<Item = (f64, f64)>) {
        let pairs: Vec<String> = pairs.map(|(first, second)| format!("[{first:?}, {second:?}]")).collect();
        self.line(format_args!("{key} = [{}]", pairs.join(", ")));
    }

    /// A number that need not be said where it is the usual one.
    pub(super) fn count(&mut self, key: &str, value: u32, usual: u32) {
        if value != usual {
            self.line(format_args!("{key} = {value}"));
        }
    }

    /// A time above zero.
    pub(super) fn span(&mut self, key: &str, value: NanoSpan) {
        if value > NanoSpan::ZERO {
            self.line(format_args!("{key} = \"{}ns\"", value.get()));
        }
    }

    pub(super) fn request_size(&mut self, bytes: u32) {
        if bytes != 1 << 20 {
            self.line(format_args!("request_size = {}", size(ByteCount(u64::from(bytes)))));
        }
    }

    /// The keys of a rate that changes, in the table of arrivals that is open.
    fn rhythm(&mut self, table: &str, rhythm: &Rhythm) {
        if let Some(day) = rhythm.day() {
            let rates: Vec<String> = rhythm.steps.iter().map(|(_, rate)| format!("{rate:?}")).collect();
            self.line(format_args!("by_hour = [{}]\nday = \"{}ns\"", rates.join(", "), day.get()));
        } else if !rhythm.steps.is_empty() {
            let step = |(span, rate): &(NanoSpan, f64)| format!("[\"{}ns\", {rate:?}]", span.get());
            let steps: Vec<String> = rhythm.steps.iter().map(step).collect();
            self.line(format_args!("steps = [{}]", steps.join(", ")));
        }
        if let Some(OnOff { on, off, lengths }) = rhythm.on_off {
            let law = if lengths == SpanLaw::Fixed { "fixed" } else { "exponential" };
            self.line(format_args!("\n[{table}arrival.on_off]"));
            self.span("on", on);
            self.span("off", off);
            self.string("lengths", law);
        }
        if let Some(SelfSimilar { hurst, variation_pct, interval }) = rhythm.self_similar {
            self.line(format_args!("\n[{table}arrival.self_similar]"));
            self.real("hurst", hurst);
            self.real("variation_pct", variation_pct);
            self.span("interval", interval);
        }
    }

    fn pacing(&mut self, table: &str, pacing: Pacing, rhythm: &Rhythm) {
        match pacing {
            Pacing::Open(Arrivals { process, rate, burst }) => {
                let process = match process {
                    ArrivalProcess::Poisson => "poisson",
                    ArrivalProcess::Fixed => "fixed",
                };
                self.line(format_args!("\n[{table}arrival]\nprocess = \"{process}\""));
                self.real("rate", rate.per_second());
                if burst != 1 {
                    self.line(format_args!("burst = {burst}"));
                }
                self.rhythm(table, rhythm);
            }
            Pacing::Closed(ClosedLoop { rate_max: None, bytes_per_sec_max: None, .. }) => {}
            Pacing::Closed(ClosedLoop { rate_max, bytes_per_sec_max, .. }) => {
                self.line(format_args!("\n[{table}limit]"));
                if let Some(rate) = rate_max {
                    self.real("iops", rate.per_second());
                }
                if let Some(bytes) = bytes_per_sec_max {
                    self.line(format_args!("bytes_per_sec = {}", size(bytes)));
                }
            }
        }
    }

    fn places(&mut self, table: &str, places: &Places) {
        if *places == Places::default() {
            return;
        }
        self.line(format_args!("\n[{table}places]"));
        if places.start > ByteCount::ZERO {
            self.line(format_args!("start = {}", size(places.start)));
        }
        if let Some(bytes) = places.size {
            self.line(format_args!("size = {}", size(bytes)));
        }
        if places.working_set_pct < 100.0 {
            self.real("working_set_pct", places.working_set_pct);
        }
        self.distribution(&places.distribution);
        if places.distribution.is_ranked() || places.scrambled {
            self.line(format_args!("scrambled = {}", places.scrambled));
        }
        let PlacedFiles { count, burst, order } = places.files;
        if places.files != PlacedFiles::default() {
            self.line(format_args!("files = {count}"));
            self.count("file_burst", burst, 1);
            if order == FileOrder::Random {
                self.string("file_order", "random");
            }
        }
    }

    fn distribution(&mut self, distribution: &Distribution) {
        let mut name = |name: &str| self.string("distribution", name);
        match distribution {
            Distribution::Uniform => {}
            Distribution::Shuffle => name("shuffle"),
            Distribution::Zipf { theta } => {
                name("zipf");
                self.real("theta", *theta);
            }
            Distribution::Pareto { h } => {
                name("pareto");
                self.real("h", *h);
            }
            Distribution::Normal { mean_pct, deviation_pct } => {
                name("normal");
                self.real("mean_pct", *mean_pct);
                self.real("deviation_pct", *deviation_pct);
            }
            Distribution::HitRates(rows) => {
                name("hit-rates");
                self.pairs(
                    "hit_rates",
                    rows.iter().map(|&HitRate { cache_pct, hits_pct }| (cache_pct, hits_pct)),
                );
            }
            Distribution::Zones(zones) => {
                name("zones");
                self.pairs(
                    "zones",
                    zones.iter().map(|&Zone { accesses_pct, space_pct }| (accesses_pct, space_pct)),
                );
            }
        }
    }

    fn lines(&mut self, table: &str, lines: &[AccessLine]) {
        for line in lines {
            let bytes = |bytes: u32| size(ByteCount(u64::from(bytes)));
            self.line(format_args!("\n[[{table}line]]\nsize = {}", bytes(line.bytes)));
            self.line(format_args!("share_pct = {}", line.share_pct));
            self.line(format_args!("read_pct = {}", line.read_pct));
            self.line(format_args!("random_pct = {}", line.random_pct));
            if line.delay > NanoSpan::ZERO {
                self.line(format_args!("delay = \"{}ns\"", line.delay.get()));
            }
            if line.burst != 1 {
                self.line(format_args!("burst = {}", line.burst));
            }
            if let Some(align) = line.align_bytes {
                self.line(format_args!("align = {}", bytes(align)));
            }
            if line.reply_bytes > 0 {
                self.line(format_args!("reply = {}", bytes(line.reply_bytes)));
            }
        }
    }

    /// The keys that a loop has outside of tables.
    fn loop_keys(&mut self, iodepth: Option<u32>, pacing: Pacing, flush: Option<FlushRule>) {
        if let Some(iodepth) = iodepth {
            self.line(format_args!("iodepth = {iodepth}"));
        }
        if let Pacing::Closed(ClosedLoop { think, .. }) = pacing
            && think > NanoSpan::ZERO
        {
            self.line(format_args!("think = \"{}ns\"", think.get()));
        }
        if let Some(FlushRule { every, with_metadata }) = flush {
            self.line(format_args!("flush_every = {every}"));
            if with_metadata {
                self.line(format_args!("flush_metadata = true"));
            }
        }
    }
}

/// A size that reads back exactly: with the largest binary unit that divides it.
pub(super) fn size(bytes: ByteCount) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match UNITS.iter().find(|(unit, _)| bytes.get() >= *unit && bytes.get().is_multiple_of(*unit)) {
        Some((unit, name)) => format!("\"{}{name}\"", bytes.get() / unit),
        None => format!("\"{}B\"", bytes.get()),
    }
}

impl Workload {
    /// Returns the text of the workload file that reads back as this workload.
    pub fn to_toml(&self) -> String {
        let spec = &self.spec;
        let mut text = Text(String::new());
        text.line(format_args!("schema = 1"));
        text.string("name", &spec.name);
        text.string("title", &self.title);
        text.string("source", &self.source);
        let metric = match self.metric {
            Metric::Iops => "iops",
            Metric::MbPerS => "mb-per-s",
        };
        text.string("metric", metric);
        if !self.notes.is_empty() {
            text.string("notes", &self.notes);
        }
        if !self.block_bytes_published.is_empty() {
            let sizes = self.block_bytes_published.iter().map(|bytes| size(ByteCount(u64::from(*bytes))));
            text.line(format_args!("block_sizes = [{}]", sizes.collect::<Vec<_>>().join(", ")));
        }
        text.loop_keys(spec.iodepth, spec.pacing, spec.flush);
        text.pacing("", spec.pacing, &spec.rhythm);
        text.places("", &spec.places);
        let DataSpec { compressible_pct, dedupe_pct } = spec.data;
        if !spec.data.is_noise() {
            let table = format!("compressible_pct = {compressible_pct}\ndedupe_pct = {dedupe_pct}");
            text.line(format_args!("\n[data]\n{table}"));
        }
        text.lines("", &spec.lines);
        for part in &spec.parts {
            text.line(format_args!("\n[[part]]"));
            text.string("name", &part.name);
            if let Some(weight) = part.weight {
                text.line(format_args!("weight = {weight}"));
            }
            if let Some(target) = part.target {
                text.line(format_args!("target = {target}"));
            }
            text.loop_keys(part.iodepth, part.pacing, part.flush);
            text.pacing("part.", part.pacing, &part.rhythm);
            text.places("part.", &part.places);
            write_phase(&mut text, &part.phase);
            if let Some(actor) = &part.actor {
                write_actor(&mut text, actor);
            }
            text.lines("part.", &part.lines);
        }
        text.0
    }
}
