//! Entries of the catalogue at the slower and at the faster end of their figures' ranges.
//!
//! | figure | slower end |
//! |---|---|
//! | a time: `program = "402 us"` | high |
//! | a rate: `outer_rate = "291 MB/s"` | low |
//! | spare room for garbage collection | low |
//! | share of retried reads | high |
//!
//! All figures of an entry with a range go to the same end together, which is more than chance would give. Left out are
//! counts and sizes, of which more is not always faster, times after which something begins, a sheet's figures of the
//! whole drive, and the figures of links.

use super::change::changed;
use super::{Catalog, CatalogChange, CatalogError, FigureSource, Written};
use crate::drive::DriveModel;
use crate::md::MdModel;
use raidlab_units::NanoSpan;

/// An end of what figures may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Longer times, lower rates.
    Slower,
    /// Shorter times, higher rates.
    Faster,
}

/// Tables whose figures have no part in how fast an entry is.
const NO_SPEED: [&str; 2] = ["reliability.", "sheet."];

/// Times after which something begins, as the last part of their keys.
const BEGINNINGS: [&str; 4] = ["after", "flush_after", "idle", "recovery_limit"];

impl FigureSource {
    /// Whether nobody measured it or says so: it is estimated, or fitted to something else.
    pub fn is_estimated(&self) -> bool {
        ["estimated:", "fitted:"].iter().any(|kind| self.source.starts_with(kind))
    }

    /// The figure at an end of its range, as written; none where it has none or is no matter of speed.
    pub fn at_end(&self, end: End) -> Option<&str> {
        if NO_SPEED.iter().any(|table| self.key.starts_with(table)) {
            return None;
        }
        let name = self.key.rsplit('.').next().unwrap_or_default();
        let is_slower_if_more = match name {
            "spare_pct" => false,
            "retry_pct" => true,
            _ if BEGINNINGS.contains(&name) => return None,
            _ if self.value.parse::<NanoSpan>().is_ok() => true,
            _ if self.value.ends_with("/s") => false,
            _ => return None,
        };
        let at = if is_slower_if_more == (end == End::Slower) { &self.high } else { &self.low };
        at.as_deref().filter(|text| *text != self.value)
    }
}

impl Catalog {
    /// This catalogue with drives, controllers and enclosures `ids` at one `end` of what their figures may be; a drive stays in its
    /// condition. Where figures can't be so together, as a fastest page that is slower than the slowest, one after the other goes as
    /// far as the ones before allow. Linux md stays as it is set.
    ///
    /// # Errors
    /// What the catalogue's reader says of an entry whose figures can't be so together.
    pub fn at_end(&self, ids: &[&str], end: End) -> Result<Self, CatalogError> {
        let mut catalog = self.clone();
        for id in ids {
            catalog.put_at_end(id, end)?;
        }
        Ok(catalog)
    }

    fn put_at_end(&mut self, id: &str, end: End) -> Result<(), CatalogError> {
        let Some(entry) = self.entries().find(|entry| entry.id == id) else { return Ok(()) };
        let figures = entry.sources.iter().filter_map(|figure| Some((&figure.key, figure.at_end(end)?)));
        let changes: Vec<CatalogChange> = figures
            .map(|(key, value)| CatalogChange {
                entry: id.to_owned(),
                key: key.clone(),
                value: value.to_owned(),
                source: None,
            })
            .collect();
        let Some(written) = self.texts.get(id).cloned() else { return Ok(()) };
        let all = changes
            .iter()
            .try_fold(written.text.to_string(), |text, it| self.applied(&written, &text, it))?;
        let alone = self.read_alone(&written, &all).or_else(|_| {
            let mut text = written.text.to_string();
            for change in &changes {
                let next = self.applied(&written, &text, change)?;
                if self.read_alone(&written, &next).is_ok() {
                    text = next;
                }
            }
            self.read_alone(&written, &text)
        })?;
        let condition = self.drives.get(id).and_then(DriveModel::condition);
        let set = self.controllers.get(id).and_then(|controller| controller.md.clone());
        self.drives.extend(alone.drives);
        self.controllers.extend(alone.controllers);
        if let Some(md) = self.controllers.get_mut(id).and_then(|controller| controller.md.as_mut())
            && let Some(set) = set
        {
            *md = MdModel { costs: md.costs, ..set };
        }
        self.enclosures.extend(alone.enclosures);
        self.texts.extend(alone.texts);
        condition.map_or(Ok(()), |condition| self.condition_drive(id, condition))
    }

    /// `text`, which stands for what is `written`, with a change.
    fn applied(&self, written: &Written, text: &str, change: &CatalogChange) -> Result<String, CatalogError> {
        let base = written.like.as_deref().and_then(|like| self.texts.get(like));
        changed(&written.file, text, base.map(|base| &*base.text), change)
    }

    /// A catalogue of the links, what an entry is like, and that entry as `text` has it.
    fn read_alone(&self, written: &Written, text: &str) -> Result<Self, CatalogError> {
        let base = written.like.as_ref().and_then(|like| self.texts.get_key_value(like));
        let texts = base.map(|(id, base)| (id.clone(), base.clone())).into_iter().collect();
        let mut alone = Self { links: self.links.clone(), texts, ..Self::default() };
        alone.add(&written.file, text)?;
        Ok(alone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(key: &str, value: &str) -> FigureSource {
        let range = (Some("low".to_owned()), Some("high".to_owned()));
        let source = "estimated: so".to_owned();
        FigureSource { low: range.0, high: range.1, ..FigureSource::new(key.into(), value.into(), source) }
    }

    #[test]
    fn the_slower_end_is_a_longer_time_and_a_lower_rate() {
        let rows = [
            ("flash.program", "400 us", Some("high")),
            ("mechanics.outer_rate", "291 MB/s", Some("low")),
            ("translation.spare_pct", "16.64", Some("low")),
            ("flash.retry_pct", "0.3", Some("high")),
            ("cache.flush_after", "1 s", None),
            ("flash.channels", "16", None),
            ("cache.size", "8 GiB", None),
            ("sheet.seq_read", "6500 MB/s", None),
        ];
        for (key, value, slower) in rows {
            let figure = figure(key, value);
            assert_eq!(figure.at_end(End::Slower), slower, "{key}");
            let other = slower.map(|end| if end == "high" { "low" } else { "high" });
            assert_eq!(figure.at_end(End::Faster), other, "{key}");
        }
    }

    /// Each entry can be read at both ends, stays in its condition, and differs where it has ranges.
    #[test]
    fn every_entry_can_be_at_both_ends() {
        let catalog = Catalog::builtin();
        let of_kind = |kind: &str| matches!(kind, "drive" | "controller" | "enclosure");
        let ids: Vec<&str> =
            catalog.entries().filter(|entry| of_kind(entry.kind)).map(|entry| entry.id).collect();
        for end in [End::Slower, End::Faster] {
            let at_end = catalog.at_end(&ids, end).expect("all can be read");
            for drive in catalog.drives() {
                let other = at_end.drive(&drive.id).expect("it is still there");
                let ranged = drive.sources.iter().any(|figure| figure.at_end(end).is_some());
                assert_eq!(
                    other.kind != drive.kind || other.interface != drive.interface,
                    ranged,
                    "{}",
                    drive.id
                );
                assert_eq!(other.condition(), drive.condition(), "{}", drive.id);
            }
        }
        let mut set = catalog.clone();
        set.set_md(|md| md.stripe_cache_size = 8192);
        let at_end = set.at_end(&["linux-md-nvme"], End::Slower).expect("it can be read");
        let md = at_end.controller("linux-md-nvme").expect("it is still there").md.as_ref();
        assert_eq!(md.map(|md| md.stripe_cache_size), Some(8192), "md stays as it is set");
        assert_eq!(
            catalog.at_end(&[], End::Slower).expect("nothing changes").drives().count(),
            catalog.drives().count()
        );
    }
}
