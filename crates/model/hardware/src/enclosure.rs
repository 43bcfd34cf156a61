//! Enclosures: number and size of drive bays, and the bandwidth on the way to them.
//!
//! ```text
//! drive ==interface== bay ==bay_link==> [ switch or expander ] ==port==> controller
//! ```
//! A bay link is one drive's alone; the port is shared by all drives. The narrowest counts.

use crate::catalog::{CatalogError, FigureSource, Section, from_keys};
use crate::drive::FormFactor;
use crate::link::{FabricModel, LinkModel};

/// A shelf of drives.
#[derive(Clone, Debug, PartialEq)]
pub struct EnclosureModel {
    /// Name in the catalogue, `md1200`.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// Places for drives.
    pub slots: u32,
    /// Size of those places. A smaller drive fits with a carrier.
    pub form_factor: FormFactor,
    /// The lanes of one bay, where they are known: no drive is faster than that, whatever its own interface.
    pub bay_link: Option<LinkModel>,
    /// The way from the controller to all of its drives; a controller's own link to its members may be slower.
    pub port: LinkModel,
    /// What that way adds if it is a network.
    pub fabric: Option<FabricModel>,
    /// What its places are made for, `SAS`, where the entry says so.
    pub bus: Option<String>,
    /// Whether these are bays of the server itself, and no shelf beside it.
    pub is_server: bool,
    /// Power of the shelf without drives in watts, where a source is known.
    pub power_watts: Option<f64>,
    /// Height in rack units, where a source is known.
    pub rack_units: Option<u32>,
    /// Year from which it was sold; none for what stands for a class.
    pub year: Option<u32>,
    /// Every figure with its source.
    pub sources: Vec<FigureSource>,
}

impl EnclosureModel {
    /// Reads the rest of an enclosure's file.
    pub(crate) fn read(mut root: Section<'_>, id: &str) -> Result<Self, CatalogError> {
        let (port, fabric) = LinkModel::read_to_drives(root.section("port")?)?;
        let bay_link = root.optional_section("bay_link")?.map(LinkModel::read).transpose()?;
        let model = from_keys!(root, Self {
            id = id.into(), name: text, slots,
            form_factor = FormFactor::read(&mut root)?,
            bay_link = bay_link, port = port, fabric = fabric, bus: optional_text,
            is_server = root.optional_flag("server")?, power_watts: optional_figure,
            rack_units: optional_figure, year: optional_figure, sources = root.figures(),
        });
        root.refuse_if(model.slots == 0, "slots", "at least 1")?;
        root.finish(model)
    }
}
