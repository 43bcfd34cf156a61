//! What is there already: `24 x samsung-pm9a3-7680, perc-h755n`.
//!
//! Parts that are there cost nothing and are no parts to buy, so the cheapest array is the one that adds least.

use raidlab_hardware::{Catalog, CatalogError, nearest};
use std::collections::{BTreeMap, BTreeSet};

/// Parts that are there, by their names in the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Have {
    /// How many of each drive.
    pub drives: BTreeMap<String, u16>,
    /// Controllers.
    pub controllers: BTreeSet<String>,
    /// How many of each enclosure.
    pub enclosures: BTreeMap<String, u16>,
}

/// Why a list of parts is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HaveError {
    /// No number before the name.
    #[error(
        "'{0}': write a number of 1 to 1000, x and a name of the catalogue, as in '24 x samsung-pm9a3-7680', or the name alone"
    )]
    Count(String),
    /// The catalogue has no such part.
    #[error(transparent)]
    Unknown(Box<CatalogError>),
}

impl Have {
    /// Reads parts of `catalog` from `items`, each one part with or without its number.
    ///
    /// # Errors
    /// [`HaveError`] names the item.
    pub fn read(items: &[String], catalog: &Catalog) -> Result<Self, HaveError> {
        let mut have = Self::default();
        for item in items.iter().map(|item| item.trim()) {
            let (count, id) = counted(item).ok_or_else(|| HaveError::Count(item.to_owned()))?;
            if catalog.drive(id).is_ok() {
                add(have.drives.entry(id.to_owned()).or_default(), count);
            } else if catalog.controller(id).is_ok() {
                have.controllers.insert(id.to_owned());
            } else if catalog.enclosure(id).is_ok() {
                add(have.enclosures.entry(id.to_owned()).or_default(), count);
            } else {
                return Err(HaveError::Unknown(Box::new(unknown(id, catalog))));
            }
        }
        Ok(have)
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// More than any array takes is as good as all of it.
const fn add(sum: &mut u16, count: u16) {
    *sum = sum.saturating_add(count);
}

fn unknown(id: &str, catalog: &Catalog) -> CatalogError {
    let drives = catalog.drives().map(|it| &it.id);
    let controllers = catalog.controllers().map(|it| &it.id);
    let all = drives.chain(controllers).chain(catalog.enclosures().map(|it| &it.id));
    let known: Vec<String> = all.cloned().collect();
    let nearest = nearest(id, known.iter().map(String::as_str));
    CatalogError::UnknownId { what: "drive, controller or enclosure", id: id.to_owned(), nearest, known }
}

/// `24 x name`, `24x name` or `name`.
fn counted(item: &str) -> Option<(u16, &str)> {
    if item.is_empty() {
        return None;
    }
    let digits = item.bytes().take_while(u8::is_ascii_digit).count();
    let rest = item[digits..].trim_start();
    // Names may begin with digits, too.
    match rest.strip_prefix("x ") {
        Some(id) if digits > 0 => {
            let count = item[..digits].parse().ok().filter(|count| (1..=1000).contains(count))?;
            Some((count, id.trim()))
        }
        _ => Some((1, item)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_with_their_numbers() {
        let catalog = Catalog::builtin();
        let read = |items: &[&str]| {
            Have::read(&items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>(), &catalog)
        };
        let have = read(&["24 x samsung-pm9a3-7680", " perc-h755n", "2x jbod-12-lff-12g", "3ware-7850"]);
        let have = have.expect("it is a list");
        assert_eq!(have.drives["samsung-pm9a3-7680"], 24);
        assert_eq!(have.enclosures["jbod-12-lff-12g"], 2);
        assert_eq!(have.controllers.len(), 2);
        assert!(!have.is_empty() && read(&[]).expect("nothing").is_empty());
        assert_eq!(read(&[""]), Err(HaveError::Count(String::new())), "nothing was named");
        assert_eq!(read(&["0 x perc-h755n"]), Err(HaveError::Count("0 x perc-h755n".into())));
        let refused = |item: &str| read(&[item]).expect_err("there is no such part").to_string();
        let told = "there is no drive, controller or enclosure 'nothing' in the catalogue";
        assert_eq!(refused("4 x nothing"), told);
        for (slip, meant) in [
            ("4 x samsung-pm9a3-7860", "samsung-pm9a3-7680"),
            ("perc-h775n", "perc-h755n"),
            ("md120", "md1200"),
        ] {
            let refused = refused(slip);
            assert!(refused.ends_with(&format!(", did you mean '{meant}'?")), "{refused}");
        }
    }
}
