//! Charts as plain data: their marks, positions and names. [`draw`] turns them into SVG, for the page and for files
//! alike, so a chart looks the same on a screen, on paper and in slides.
//!
//! ```text
//! Chart ─ axes (title, scale, ticks) ─ marks: lines with markers, bars across, cells, rules
//! ```
//! Colour and marker encode one property, dash and hollow markers another, so that lines can also be told apart without
//! colour. Colours have names; a page gives them values for light, dark and paper, a file contains one set of values.
//! Texts are plain here and escaped when they are drawn. Left out: axes on both sides, stacked areas, animation.

mod draw;
mod scale;

pub use draw::Palette;
pub(crate) use draw::{draw, height_for, plot_box, shape};
pub(crate) use scale::Placed;

/// A chart, drawn where it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chart {
    /// Names it among the charts of a report, in letters that a file's name may have.
    pub(crate) id: String,
    /// What stands above it.
    pub(crate) heading: String,
    /// What it shows, in a sentence or two, for those who can't see it.
    pub(crate) label: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) marks: Vec<Mark>,
    /// Whether the chart carries the key to its lines, below it.
    pub(crate) has_key: bool,
    /// Whether a page may move its points to other axes: there is room for their ticks.
    pub(crate) is_movable: bool,
    /// Width and height, where they are not those of all; in units of a screen's pixels.
    pub(crate) size: Option<(f64, f64)>,
}

/// An axis.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axis {
    pub(crate) title: String,
    pub(crate) scale: Scale,
    /// From where to where; else what the marks need.
    pub(crate) range: Option<(f64, f64)>,
    /// Where it is named, and how; else where it is round.
    pub(crate) ticks: Option<Vec<(f64, String)>>,
    /// Whether lines cross the chart at the ticks.
    pub(crate) is_bare: bool,
    /// Whether zero has a line of its own.
    pub(crate) has_zero_line: bool,
}

/// How values become places.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Evenly, from zero where no value is below it.
    #[default]
    FromZero,
    /// Evenly, from the least value.
    Linear,
    /// Equal factors are equal distances; what is not above zero has no place.
    Log,
}

/// A colour by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Colour {
    /// One of the series, from 0.
    Series(usize),
    /// What is said in passing.
    Soft,
}

impl Colour {
    /// The colour as the page's style sheet names it.
    pub(crate) fn on_page(self) -> String {
        Palette::Page.colour(self)
    }
}

/// Number of colours of series.
pub(crate) const SERIES_COLOURS: usize = 6;
/// Dashes of lines, as SVG has them.
pub(crate) const DASHES: [&str; 4] = ["none", "6 4", "2 3", "7 3 2 3"];
/// Number of markers.
pub(crate) const MARKERS: usize = 6;

/// The shape of a marker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Marker {
    /// Which of [`MARKERS`] shapes; none is a cross.
    pub(crate) shape: Option<usize>,
    /// Whether the chart's ground shows through it.
    pub(crate) is_hollow: bool,
    /// Half of its width.
    pub(crate) radius: f64,
}

/// A point of a line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Half of the length of a bar up and down; zero for none.
    pub(crate) spread: f64,
    /// What a pointer shows, lines apart by line feeds.
    pub(crate) hover: String,
}

/// A line, or dots alone.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// What the key calls it.
    pub(crate) name: String,
    /// Names by which a reader switches it on and off.
    pub(crate) tags: Vec<String>,
    pub(crate) points: Vec<Point>,
    pub(crate) colour: Colour,
    /// Which of [`DASHES`]; none where there are only markers.
    pub(crate) dash: Option<usize>,
    pub(crate) width: f64,
    pub(crate) marker: Option<Marker>,
    /// From 0 to 1.
    pub(crate) opacity: f64,
    pub(crate) is_in_key: bool,
}

/// A bar from zero to the right, or to the left.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    /// Its middle on the axis across.
    pub(crate) at: f64,
    /// Its width there.
    pub(crate) width: f64,
    pub(crate) value: f64,
    pub(crate) colour: Colour,
    /// Which hatch: none, slanted, crossed, dotted.
    pub(crate) hatch: usize,
    /// What stands at its end.
    pub(crate) text: String,
    pub(crate) hover: String,
    /// Names by which a reader switches it on and off.
    pub(crate) tags: Vec<String>,
}

/// A cell of a heat map.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) x: (f64, f64),
    pub(crate) y: (f64, f64),
    /// How much, from 0 to 1.
    pub(crate) share: f64,
    /// What stands in it, if anything.
    pub(crate) text: String,
    pub(crate) hover: String,
}

/// What is drawn.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    Line(Line),
    Bars(Vec<Bar>),
    Cells(Vec<Cell>),
    /// A dashed line up at this place.
    Upright(f64),
}

impl Line {
    /// A line with markers and no key.
    pub(crate) fn new(name: &str, colour: Colour, points: Vec<Point>) -> Self {
        Self {
            name: name.to_owned(),
            tags: Vec::new(),
            points,
            colour,
            dash: Some(0),
            width: 2.0,
            marker: None,
            opacity: 1.0,
            is_in_key: false,
        }
    }
}

impl Marker {
    /// Marker number `index` of those that there are.
    pub(crate) fn number(index: usize) -> Self {
        Self { shape: Some(index % MARKERS), is_hollow: false, radius: 3.8 }
    }
}

impl Axis {
    /// An axis from zero, with ticks where it is round.
    pub(crate) fn new(title: &str) -> Self {
        Self { title: title.to_owned(), ..Self::default() }
    }

    /// A logarithmic one.
    pub(crate) fn log(title: &str) -> Self {
        Self { scale: Scale::Log, ..Self::new(title) }
    }

    /// The same with ticks at `ticks`.
    pub(crate) fn with_ticks(self, ticks: impl Iterator<Item = (f64, String)>) -> Self {
        Self { ticks: Some(ticks.collect()), ..self }
    }
}
