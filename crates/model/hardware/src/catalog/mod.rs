//! The catalogue: drives, controllers, enclosures, links, hosts, servers, networks and filesystems, read from TOML text
//! in which every figure names its source.
//!
//! A figure is written `rpm = { value = 15000, source = "manual" }`. The source is a name from the file's
//! `[sources]` table, or the text itself; the text says which kind it is:
//!
//! | kind | meaning |
//! |---|---|
//! | `data sheet: <title>` | from the maker |
//! | `paper: <id> <place>` | from a published evaluation |
//! | `fitted: <to what>` | chosen so that the model matches published results, which then prove nothing about it |
//! | `estimated: <reason>` | without a source; the reason says why it is about right |
//!
//! A number without a source, an unknown key and a source of another kind are errors that name file and line. The text
//! comes from outside; [`Catalog::builtin`] is the `catalog/` of the program's build, and [`Catalog::with`] adds the
//! user's own entries. Links are read first, because other entries refer to them, and entries that are `like` others
//! last.

mod builtin;
mod change;
mod ends;
mod error;
mod nearest;
mod reader;
mod years;

pub use change::CatalogChange;
pub use ends::End;
pub use error::CatalogError;
pub use nearest::nearest;
use reader::{Head, Layers};
pub(crate) use reader::{Section, from_keys};
pub use years::{BadYears, YearRange};

use crate::controller::ControllerModel;
use crate::drive::{DriveModel, SectorCount};
use crate::enclosure::EnclosureModel;
use crate::filesystem::FilesystemModel;
use crate::host::HostModel;
use crate::link::LinkStandard;
use crate::md::MdModel;
use crate::network::NetworkModel;
use crate::own::{OwnDriveModel, OwnModel};
use crate::server::FileServerModel;
use crate::ssd::DriveCondition;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

/// Where one figure of an entry comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct FigureSource {
    /// The figure's place in the file, `seek.read.average`.
    pub key: String,
    /// Its value as written.
    pub value: String,
    /// The least that it may be, as written, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub low: Option<String>,
    /// The most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high: Option<String>,
    /// The full text of its source.
    pub source: String,
}

impl FigureSource {
    fn new(key: String, value: String, source: String) -> Self {
        Self { key, value, low: None, high: None, source }
    }
}

/// What an entry of any kind has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct CatalogEntry<'a> {
    /// Drive, controller, enclosure, link, network, host, filesystem or server.
    pub kind: &'static str,
    /// Its name in the catalogue.
    pub id: &'a str,
    /// Its name for people.
    pub name: &'a str,
    /// Year from which it was sold, where the entry says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub year: Option<u32>,
    /// What people call the kind of a drive, `nvme`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<&'static str>,
    /// Every figure with its source.
    #[serde(rename = "figures")]
    pub sources: &'a [FigureSource],
}

/// A file of the catalogue: its name, for messages, and its text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogFile {
    /// The name.
    pub name: String,
    /// The text.
    pub text: String,
}

/// Makes the catalogue of its kinds: the table of each, how an entry of it is found, and what an unknown one is told to be.
macro_rules! catalogue {
    ($($one:ident, $all:ident: $model:ty, $word:literal;)*) => {
        /// All known hardware, by id.
        #[derive(Clone, Debug, Default)]
        pub struct Catalog {
            $($all: BTreeMap<String, $model>,)*
            /// What each entry was read from, by id.
            texts: BTreeMap<String, Written>,
        }

        impl Catalog {
            $(
                #[doc = concat!("The ", $word, " called `id`.")]
                ///
                /// # Errors
                /// [`CatalogError::UnknownId`] with the nearest name.
                pub fn $one(&self, id: &str) -> Result<&$model, CatalogError> {
                    find(&self.$all, $word, id)
                }

                #[doc = concat!("Every ", $word, ", by id.")]
                pub fn $all(&self) -> impl Iterator<Item = &$model> {
                    self.$all.values()
                }
            )*

            /// Takes the entry called `id` out, if it is there.
            fn forget(&mut self, id: &str) {
                $(self.$all.remove(id);)*
                self.texts.remove(id);
            }
        }
    };
}

catalogue! {
    drive, drives: DriveModel, "drive";
    controller, controllers: ControllerModel, "controller";
    enclosure, enclosures: EnclosureModel, "enclosure";
    link, links: LinkStandard, "link";
    host, hosts: HostModel, "host";
    filesystem, filesystems: FilesystemModel, "filesystem";
    server, servers: FileServerModel, "file server";
    network, networks: NetworkModel, "network";
}

/// What an entry was read from.
#[derive(Clone, Debug)]
struct Written {
    file: Arc<str>,
    text: Arc<str>,
    /// The entry that it is like; one that is like another can't be what a third is like.
    like: Option<String>,
}

/// What comes with the program, which is read once.
struct Builtin {
    files: Vec<(&'static str, &'static str, Head)>,
    catalog: Catalog,
}

impl Builtin {
    fn get() -> &'static Self {
        static BUILTIN: LazyLock<Builtin> = LazyLock::new(|| {
            let files = builtin::FILES.iter().map(|(name, text)| (*name, *text, Head::of(text))).collect();
            let catalog = Catalog::parse(builtin::FILES.iter().copied());
            Builtin { files, catalog: catalog.expect("the built-in catalogue is tested") }
        });
        &BUILTIN
    }
}

impl Catalog {
    /// Reads a catalogue from `files`, each a name (for messages) and its text.
    ///
    /// # Errors
    /// The first thing wrong in any file; an id that two files claim.
    pub fn parse<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Self, CatalogError> {
        let files: Vec<_> = files.into_iter().map(|(file, text)| (file, text, Head::of(text))).collect();
        let mut catalog = Self::default();
        catalog.add_all(files.iter().map(|(file, text, head)| (*file, *text, head)).collect())?;
        Ok(catalog)
    }

    /// The catalogue that comes with the program.
    pub fn builtin() -> Self {
        Builtin::get().catalog.clone()
    }

    /// Adds entries: links first, and what others are like before these.
    fn add_all(&mut self, mut files: Vec<(&str, &str, &Head)>) -> Result<(), CatalogError> {
        files.sort_by_key(|(.., head)| (head.is_no_link, head.like.is_some()));
        for (file, text, head) in files {
            self.add_like(file, text, head.like.as_deref())?;
        }
        Ok(())
    }

    /// Adds the entry in `text`; `file` is its name for messages. Links that it refers to must be there, and what it is like.
    ///
    /// # Errors
    /// As [`Catalog::parse`].
    pub fn add(&mut self, file: &str, text: &str) -> Result<(), CatalogError> {
        self.add_like(file, text, Head::of(text).like.as_deref())
    }

    /// The same of a text that says that it is `like` an entry, if it does.
    fn add_like(&mut self, file: &str, text: &str, like: Option<&str>) -> Result<(), CatalogError> {
        let base = like.map(|id| self.base(id)).transpose()?;
        let layers = Layers::new(text, base);
        let root = reader::parse(file, &layers, &self.links)?;
        let mut root = Section::root(&root)?;
        let (id, kind) = (root.text("id")?, root.text("kind")?);
        let is_duplicate = match kind.as_str() {
            "hard-drive" | "solid-state" => {
                insert(&id, DriveModel::read(root, &id, &kind)?, &mut self.drives)
            }
            "controller" => insert(&id, ControllerModel::read(root, &id)?, &mut self.controllers),
            "enclosure" => insert(&id, EnclosureModel::read(root, &id)?, &mut self.enclosures),
            "link" => insert(&id, LinkStandard::read(root, &id)?, &mut self.links),
            "host" => insert(&id, HostModel::read(root, &id)?, &mut self.hosts),
            "filesystem" => insert(&id, FilesystemModel::read(root, &id)?, &mut self.filesystems),
            "file-server" => insert(&id, FileServerModel::read(root, &id)?, &mut self.servers),
            "network" => insert(&id, NetworkModel::read(root, &id)?, &mut self.networks),
            _ => {
                let kinds = "hard-drive, solid-state, controller, enclosure, link, host, filesystem, file-server or network";
                return Err(root.bad_value("kind", kinds));
            }
        };
        if is_duplicate {
            return Err(CatalogError::DuplicateId { file: file.into(), id });
        }
        self.texts
            .insert(id, Written { file: file.into(), text: text.into(), like: like.map(str::to_owned) });
        Ok(())
    }

    /// Text of an entry that another can be like.
    fn base(&self, id: &str) -> Result<&str, CatalogError> {
        let is_base = |written: &&Written| written.like.is_none();
        self.texts.get(id).filter(is_base).map(|written| &*written.text).ok_or_else(|| {
            let known = self.texts.iter().filter(|(_, written)| is_base(written)).map(|(id, _)| id.clone());
            let known: Vec<String> = known.collect();
            CatalogError::UnknownId {
                what: "entry that others can be like,",
                id: id.into(),
                nearest: nearest(id, known.iter().map(String::as_str)),
                known,
            }
        })
    }

    /// Puts the drive called `id` in `condition`.
    ///
    /// # Errors
    /// [`CatalogError::UnknownId`] with the nearest name, [`CatalogError::NoCondition`] for a drive that has none.
    pub fn condition_drive(&mut self, id: &str, condition: DriveCondition) -> Result<(), CatalogError> {
        let drive = self.drive(id)?.clone().in_condition(condition)?;
        self.drives.insert(id.to_owned(), drive);
        Ok(())
    }

    /// Adds a drive called `id` whose commands take what `own` says; all else is as with the drive called `like`, but for its capacity if
    /// one is given.
    ///
    /// # Errors
    /// [`CatalogError::UnknownId`] with the nearest name, [`CatalogError::DuplicateId`] for a name that is taken.
    pub fn add_own_drive(
        &mut self,
        id: &str,
        like: &str,
        capacity: Option<SectorCount>,
        own: Arc<dyn OwnDriveModel>,
    ) -> Result<(), CatalogError> {
        let like = self.drive(like)?;
        let model = DriveModel {
            id: id.into(),
            name: format!("{id}, in place of {}", like.name),
            capacity: capacity.unwrap_or(like.capacity),
            sheet: Vec::new(),
            own: Some(OwnModel(own)),
            sources: Vec::new(),
            ..like.clone()
        };
        if self.drives.contains_key(id) {
            return Err(CatalogError::DuplicateId { file: "drives".into(), id: id.into() });
        }
        self.drives.insert(id.to_owned(), model);
        Ok(())
    }

    /// Sets Linux md on all controllers that are it.
    pub fn set_md(&mut self, set: impl Fn(&mut MdModel)) {
        self.controllers.values_mut().filter_map(|controller| controller.md.as_mut()).for_each(set);
    }

    /// Puts the software RAID called `id` on a host of today.
    ///
    /// # Errors
    /// [`CatalogError::UnknownId`] with the nearest name, [`CatalogError::NotOnHost`] where that would change nothing.
    pub fn put_on_host(&mut self, id: &str, host: &str) -> Result<(), CatalogError> {
        let (controller, host) = (self.controller(id)?, self.host(host)?);
        let refused =
            |reason| Err(CatalogError::NotOnHost { controller: id.into(), host: host.id.clone(), reason });
        if !controller.is_software {
            return refused("it has processors and memory of its own");
        }
        if host.sockets.is_none() {
            return refused("nothing is known of that host's sockets, so it runs programs on files only");
        }
        let controller = controller.clone().on_host(host);
        self.controllers.insert(id.to_owned(), controller);
        Ok(())
    }

    /// All entries of all kinds, kind by kind and by id.
    pub fn entries(&self) -> impl Iterator<Item = CatalogEntry<'_>> {
        let links = self.links().map(|model| entry("link", &model.id, &model.name, &model.sources));
        let drives = self.drives().map(|model| CatalogEntry {
            year: model.year,
            class: Some(model.class()),
            ..entry("drive", &model.id, &model.name, &model.sources)
        });
        let controllers = self.controllers().map(|model| CatalogEntry {
            year: model.year,
            ..entry("controller", &model.id, &model.name, &model.sources)
        });
        let enclosures = self.enclosures().map(|model| CatalogEntry {
            year: model.year,
            ..entry("enclosure", &model.id, &model.name, &model.sources)
        });
        let hosts = self.hosts().map(|model| entry("host", &model.id, &model.name, &model.sources));
        let filesystems =
            self.filesystems().map(|model| entry("filesystem", &model.id, &model.name, &model.sources));
        let servers = self.servers().map(|model| entry("server", &model.id, &model.name, &model.sources));
        let networks = self.networks().map(|model| entry("network", &model.id, &model.name, &model.sources));
        let hardware = drives.chain(controllers).chain(enclosures).chain(links).chain(networks);
        hardware.chain(hosts).chain(filesystems).chain(servers)
    }
}

fn entry<'a>(
    kind: &'static str,
    id: &'a str,
    name: &'a str,
    sources: &'a [FigureSource],
) -> CatalogEntry<'a> {
    CatalogEntry { kind, id, name, year: None, class: None, sources }
}

/// Puts an entry in. Returns whether its id was taken.
fn insert<T>(id: &str, model: T, entries: &mut BTreeMap<String, T>) -> bool {
    entries.insert(id.to_owned(), model).is_some()
}

fn find<'a, T>(
    entries: &'a BTreeMap<String, T>,
    what: &'static str,
    id: &str,
) -> Result<&'a T, CatalogError> {
    entries.get(id).ok_or_else(|| CatalogError::UnknownId {
        what,
        id: id.into(),
        nearest: nearest(id, entries.keys().map(String::as_str)),
        known: entries.keys().cloned().collect(),
    })
}

/// A catalogue of the links that come with the program and one file.
#[cfg(test)]
pub(crate) fn links_and(name: &str, text: &str) -> Result<Catalog, CatalogError> {
    let links = builtin::FILES.iter().copied().filter(|(_, text)| !Head::of(text).is_no_link);
    Catalog::parse(links.chain([(name, text)]))
}

#[cfg(test)]
mod tests;
