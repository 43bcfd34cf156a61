//! A chart as SVG.
//!
//! ```text
//! width 720 or 520                 the legend, if the chart has one, is in lines below the axis title
//! ┌─────────────────────────────┐
//! │ tick │                      │
//! │ tick │    plot              │
//! │      └──────────────────────│
//! │        tick    tick    tick │
//! │              title          │
//! └─────────────────────────────┘
//! ```
//! A page's style sheet gives the colours (`var(--series-1)`); a file contains its [`Palette`]. Lines and bars are
//! groups with `data-names`, by which the page's script switches them on and off; the `title` of a mark is its tooltip.
//! The width of text is unknown here, so it is assumed to be 0.6 of its size per character, which is on the wide side.

use super::scale::Placed;
use super::{Axis, Bar, Cell, Chart, Colour, DASHES, Line, Mark, Marker, Point, SERIES_COLOURS};
use crate::document::html::escaped;

/// Where the colours come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Palette {
    /// The page's custom properties.
    Page,
    /// Dark on white, for paper and light slides.
    Light,
    /// Light on near black.
    Dark,
}

/// Width of a chart.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 320.0;
const TEXT: f64 = 12.0;
/// Width of a character, at most.
const CHARACTER: f64 = 0.6 * TEXT;
const TOP: f64 = 12.0;
const RIGHT: f64 = 16.0;
/// Characters that a tick of another axis may have.
const MOVABLE_CHARACTERS: usize = 8;
/// Height of a line of the key.
const KEY_LINE: f64 = 18.0;
/// Height of a bar where many stand below each other, and of what is around all of them.
const BAR: f64 = 18.0;
const AROUND_BARS: f64 = 64.0;

/// The height that `count` bars need.
pub(crate) fn height_for(count: usize) -> f64 {
    (BAR * count as f64 + AROUND_BARS).max(HEIGHT)
}

impl Palette {
    fn named(self, page: &'static str, light: &'static str, dark: &'static str) -> &'static str {
        match self {
            Self::Page => page,
            Self::Light => light,
            Self::Dark => dark,
        }
    }

    fn ink(self) -> &'static str {
        self.named("var(--ink)", "#1b2229", "#e6ebef")
    }

    fn soft(self) -> &'static str {
        self.named("var(--ink-soft)", "#55606b", "#a3afba")
    }

    fn grid(self) -> &'static str {
        self.named("var(--grid)", "#dde3e8", "#2f3942")
    }

    fn rule(self) -> &'static str {
        self.named("var(--rule)", "#c9d1d8", "#3d4852")
    }

    /// What shows through hollow markers and hatches.
    fn ground(self) -> &'static str {
        self.named("var(--panel)", "#ffffff", "#14191e")
    }

    /// The colours of Okabe and Ito, and lighter ones of theirs on a dark ground; the style sheet has the same.
    pub(super) fn colour(self, colour: Colour) -> String {
        const LIGHT: [&str; SERIES_COLOURS] =
            ["#0072b2", "#d88c00", "#009e73", "#d55e00", "#b8639a", "#3a9bd4"];
        const DARK: [&str; SERIES_COLOURS] =
            ["#56b4e9", "#e69f00", "#1fbf92", "#f0743a", "#cc79a7", "#f0e442"];
        match (colour, self) {
            (Colour::Soft, _) => self.soft().to_owned(),
            (Colour::Series(index), Self::Page) => format!("var(--series-{})", index % SERIES_COLOURS + 1),
            (Colour::Series(index), Self::Light) => LIGHT[index % SERIES_COLOURS].to_owned(),
            (Colour::Series(index), Self::Dark) => DARK[index % SERIES_COLOURS].to_owned(),
        }
    }
}

/// The chart as an SVG element, with its heading and ground where it stands alone.
pub(crate) fn draw(chart: &Chart, palette: Palette) -> String {
    Canvas::of(chart, palette).svg()
}

/// Where the plot of a chart on a page is: left, right, top and bottom.
pub(crate) fn plot_box(chart: &Chart) -> [f64; 4] {
    let Canvas { left, right, top, bottom, .. } = Canvas::of(chart, Palette::Page);
    [left, right, top, bottom]
}

/// The chart with every place known.
struct Canvas<'a> {
    chart: &'a Chart,
    palette: Palette,
    x: Placed,
    y: Placed,
    width: f64,
    height: f64,
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
    key: Vec<Vec<&'a Line>>,
}

impl<'a> Canvas<'a> {
    fn of(chart: &'a Chart, palette: Palette) -> Self {
        let is_map = chart.marks.iter().any(|mark| matches!(mark, Mark::Cells(_)));
        let x = Placed::of(&chart.x, chart.marks.iter().flat_map(xs), is_map);
        let y = Placed::of(&chart.y, chart.marks.iter().flat_map(ys), is_map);
        let (width, height) = chart.size.unwrap_or((WIDTH, HEIGHT));
        let longest = y.ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
        let titled = |axis: &Axis| if axis.title.is_empty() { 0.0 } else { TEXT + 8.0 };
        let longest = if chart.is_movable { longest.max(MOVABLE_CHARACTERS) } else { longest };
        let left = (longest as f64 * CHARACTER + 14.0 + titled(&chart.y)).min(0.5 * width);
        let alone = if palette == Palette::Page { 0.0 } else { 26.0 };
        let key = if chart.has_key { key_lines(chart, width) } else { Vec::new() };
        let key_height = if key.is_empty() { 0.0 } else { KEY_LINE * key.len() as f64 + 6.0 };
        let below = TEXT + 10.0 + titled(&chart.x) + 6.0;
        // A line of the key more makes the chart higher, not its plot lower.
        let height = height + key_height + alone;
        Self {
            chart,
            palette,
            x,
            y,
            width,
            height,
            left,
            top: TOP + alone,
            right: width - RIGHT,
            bottom: height - below - key_height,
            key,
        }
    }

    fn px(&self, value: f64) -> Option<f64> {
        self.x.place(value).map(|place| self.left + place * (self.right - self.left))
    }

    fn py(&self, value: f64) -> Option<f64> {
        self.y.place(value).map(|place| self.bottom - place * (self.bottom - self.top))
    }

    fn svg(&self) -> String {
        let Self { chart, palette, width, height, .. } = self;
        let marks: String = chart.marks.iter().map(|mark| self.mark(mark)).collect();
        let label = escaped(&chart.label);
        let head = format!(
            r#"viewBox="0 0 {width} {height:.0}" font-family="system-ui, 'DejaVu Sans', 'Liberation Sans', Arial, sans-serif" font-size="{TEXT}" fill="{}""#,
            palette.ink()
        );
        let (attributes, ground) = match palette {
            Palette::Page => (format!(r#"role="img" aria-label="{label}""#), String::new()),
            _ => (
                format!(r#"xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height:.0}""#),
                format!(
                    r#"<title>{label}</title><rect width="{width}" height="{height:.0}" fill="{}"/><text x="12" y="22" font-size="14" font-weight="600">{}</text>"#,
                    palette.ground(),
                    escaped(&chart.heading)
                ),
            ),
        };
        format!(
            "<svg {attributes} {head}>{ground}{}{}{marks}{}</svg>",
            hatches(self.palette, &chart.id),
            self.frame(),
            self.key_svg()
        )
    }

    /// Grid, axes, ticks and titles.
    fn frame(&self) -> String {
        let Self { left, right, top, bottom, palette, chart, .. } = self;
        let (grid, rule) = (palette.grid(), palette.rule());
        let mut svg = r#"<g class="x-axis">"#.to_owned();
        for (at, text) in &self.x.ticks {
            let Some(x) = self.px(*at) else { continue };
            if !chart.x.is_bare {
                svg += &format!(r#"<path d="M{x:.1} {top}V{bottom}" stroke="{grid}"/>"#);
            }
            // A long label at the end moves to the left, into the picture.
            let x = x.min(right + RIGHT - text.chars().count() as f64 * CHARACTER / 2.0);
            svg += &format!(
                r#"<text x="{x:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
                bottom + TEXT + 6.0,
                escaped(text)
            );
        }
        svg += r#"</g><g class="y-axis">"#;
        for (at, text) in &self.y.ticks {
            let Some(y) = self.py(*at) else { continue };
            if !chart.y.is_bare {
                svg += &format!(r#"<path d="M{left} {y:.1}H{right}" stroke="{grid}"/>"#);
            }
            svg += &format!(
                r#"<text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
                left - 7.0,
                y + 4.0,
                escaped(text)
            );
        }
        svg += &format!(r#"</g><path d="M{left} {top}V{bottom}H{right}" fill="none" stroke="{rule}"/>"#);
        if let (true, Some(x)) = (chart.x.has_zero_line, self.px(0.0)) {
            svg += &format!(r#"<path d="M{x:.1} {top}V{bottom}" stroke="{}"/>"#, palette.soft());
        }
        let (middle, centre) = (f64::midpoint(*left, *right), f64::midpoint(*top, *bottom));
        svg += &format!(
            r#"<text class="x-title" x="{middle:.1}" y="{:.1}" text-anchor="middle">{}</text>"#,
            bottom + 2.0 * TEXT + 14.0,
            escaped(&chart.x.title)
        );
        svg + &format!(
            r#"<text class="y-title" transform="translate({:.1} {centre:.1}) rotate(-90)" text-anchor="middle">{}</text>"#,
            TEXT + 2.0,
            escaped(&chart.y.title)
        )
    }

    fn mark(&self, mark: &Mark) -> String {
        match mark {
            Mark::Line(line) => self.line(line),
            Mark::Bars(bars) => bars.iter().map(|bar| self.bar(bar)).collect(),
            Mark::Cells(cells) => cells.iter().map(|cell| self.cell(cell)).collect(),
            Mark::Upright(at) => self.px(*at).map_or(String::new(), |x| {
                format!(
                    r#"<path d="M{x:.1} {}V{}" stroke="{}" stroke-dasharray="5 4"/>"#,
                    self.top,
                    self.bottom,
                    self.palette.soft()
                )
            }),
        }
    }

    fn line(&self, line: &Line) -> String {
        let colour = self.palette.colour(line.colour);
        let mut path = String::new();
        let mut is_drawing = false;
        let mut marks = String::new();
        for point in &line.points {
            let (Some(x), Some(y)) = (self.px(point.x), self.py(point.y)) else {
                is_drawing = false;
                // It has a place on other axes.
                marks += if self.chart.is_movable { r#"<g class="point" hidden="hidden"/>"# } else { "" };
                continue;
            };
            path += &format!("{}{x:.1} {y:.1}", if is_drawing { "L" } else { "M" });
            is_drawing = true;
            marks += &self.spread(point, x);
            marks += &self.point(line, point, x, y);
        }
        let stroke = match line.dash {
            Some(dash) => format!(
                r#"<path class="stroke" d="{path}" fill="none" stroke-width="{}" stroke-dasharray="{}" stroke-linejoin="round"/>"#,
                line.width,
                DASHES[dash % DASHES.len()]
            ),
            None => String::new(),
        };
        let opacity =
            if line.opacity < 1.0 { format!(r#" opacity="{}""#, line.opacity) } else { String::new() };
        format!(
            r#"<g class="line"{} stroke="{colour}" fill="{colour}"{opacity}>{stroke}{marks}</g>"#,
            names(&line.tags)
        )
    }

    /// A bar up and down from a point.
    fn spread(&self, point: &Point, x: f64) -> String {
        // What goes below the chart ends at its lower edge.
        let low = self.py(point.y - point.spread).map(|y| y.min(self.bottom));
        let ends = (low, self.py(point.y + point.spread));
        match ends {
            (Some(low), Some(high)) if point.spread > 0.0 => format!(
                r#"<path d="M{x:.1} {low:.1}V{high:.1}M{:.1} {low:.1}h8M{:.1} {high:.1}h8" fill="none" stroke-width="1.2"/>"#,
                x - 4.0,
                x - 4.0
            ),
            _ => String::new(),
        }
    }

    /// The marker of a point, or a place without ink that shows its text to a pointer.
    fn point(&self, line: &Line, point: &Point, x: f64, y: f64) -> String {
        let title = title(&point.hover);
        match line.marker {
            Some(marker) => {
                let fill = if marker.is_hollow {
                    format!(r#" fill="{}""#, self.palette.ground())
                } else {
                    String::new()
                };
                format!(
                    r#"<g class="point" transform="translate({x:.1} {y:.1})"{fill} stroke-width="1.5">{}{title}</g>"#,
                    shape(marker)
                )
            }
            None if point.hover.is_empty() || self.palette != Palette::Page => String::new(),
            None => format!(
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="5" fill-opacity="0" stroke="none">{title}</circle>"#
            ),
        }
    }

    fn bar(&self, bar: &Bar) -> String {
        let places = (
            self.px(0.0),
            self.px(bar.value),
            self.py(bar.at - bar.width / 2.0),
            self.py(bar.at + bar.width / 2.0),
        );
        let (Some(zero), Some(end), Some(one), Some(other)) = places else { return String::new() };
        let (x, width) = (zero.min(end), (end - zero).abs());
        let (y, height) = (one.min(other), (one - other).abs());
        let rect = |fill: &str| {
            format!(r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{fill}"/>"#)
        };
        let hatch = if bar.hatch.is_multiple_of(4) {
            String::new()
        } else {
            rect(&format!("url(#{}-hatch-{})", self.chart.id, bar.hatch % 4))
        };
        let (at, anchor) = if end < zero { (end - 5.0, "end") } else { (end + 5.0, "start") };
        format!(
            r#"<g{}>{}{hatch}<text x="{at:.1}" y="{:.1}" text-anchor="{anchor}" font-size="11">{}</text>{}</g>"#,
            names(&bar.tags),
            rect(&self.palette.colour(bar.colour)),
            y + height / 2.0 + 4.0,
            escaped(&bar.text),
            title(&bar.hover)
        )
    }

    fn cell(&self, cell: &Cell) -> String {
        let places = (self.px(cell.x.0), self.px(cell.x.1), self.py(cell.y.0), self.py(cell.y.1));
        let (Some(left), Some(right), Some(bottom), Some(top)) = places else { return String::new() };
        let (width, height) = ((right - left).abs(), (bottom - top).abs());
        // A share is an area of ink; the eye takes its root for the half of it. What has text in it stays light enough to read.
        let most = if cell.text.is_empty() { 1.0 } else { 0.5 };
        let opacity = most * cell.share.clamp(0.0, 1.0).sqrt();
        let (x, y) = (left.min(right), top.min(bottom));
        let text = if cell.text.is_empty() {
            String::new()
        } else {
            format!(
                r#"<text x="{:.1}" y="{:.1}" text-anchor="middle" font-size="11">{}</text>"#,
                x + width / 2.0,
                y + height / 2.0 + 4.0,
                escaped(&cell.text)
            )
        };
        format!(
            r#"<rect x="{x:.1}" y="{y:.1}" width="{:.1}" height="{:.1}" fill="{}" fill-opacity="{opacity:.2}" shape-rendering="crispEdges">{}</rect>{text}"#,
            width,
            height,
            self.palette.colour(Colour::Series(0)),
            title(&cell.hover)
        )
    }

    /// The key below the chart.
    fn key_svg(&self) -> String {
        let first = self.height - KEY_LINE * self.key.len() as f64;
        let mut svg = String::new();
        for (row, lines) in self.key.iter().enumerate() {
            let y = first + KEY_LINE * row as f64 + 4.0;
            let mut x = 12.0;
            for line in lines {
                let colour = self.palette.colour(line.colour);
                svg += &format!(
                    r#"<g transform="translate({x:.1} {y:.1})"><g stroke="{colour}" fill="{colour}">{}</g><text x="34" y="4">{}</text></g>"#,
                    sample(line, self.palette),
                    escaped(&line.name)
                );
                x += key_width(line);
            }
        }
        svg
    }
}

/// A piece of the line, 28 wide.
fn sample(line: &Line, palette: Palette) -> String {
    let dash = line.dash.map(|dash| {
        format!(
            r#"<path d="M0 0h28" stroke-width="{}" stroke-dasharray="{}"/>"#,
            line.width,
            DASHES[dash % DASHES.len()]
        )
    });
    let marker = line.marker.map(|marker| {
        let fill = if marker.is_hollow { format!(r#" fill="{}""#, palette.ground()) } else { String::new() };
        format!(r#"<g transform="translate(14 0)"{fill} stroke-width="1.5">{}</g>"#, shape(marker))
    });
    dash.into_iter().chain(marker).collect()
}

fn key_width(line: &Line) -> f64 {
    34.0 + line.name.chars().count() as f64 * CHARACTER + 18.0
}

/// The lines of the key, as many entries in each as there is room for.
fn key_lines(chart: &Chart, width: f64) -> Vec<Vec<&Line>> {
    let mut rows: Vec<Vec<&Line>> = Vec::new();
    let mut used = f64::MAX;
    for mark in &chart.marks {
        let Mark::Line(line) = mark else { continue };
        if !line.is_in_key {
            continue;
        }
        let needs = key_width(line);
        if used + needs > width {
            rows.push(Vec::new());
            used = 12.0;
        }
        used += needs;
        if let Some(row) = rows.last_mut() {
            row.push(line);
        }
    }
    rows
}

/// A marker around the origin.
pub(crate) fn shape(marker: Marker) -> String {
    let r = marker.radius;
    match marker.shape {
        None => format!(r#"<path d="M-{r} -{r}L{r} {r}M{r} -{r}L-{r} {r}" fill="none"/>"#),
        Some(0) => format!(r#"<circle r="{r}"/>"#),
        Some(1) => format!(r#"<path d="M-{r} -{r}H{r}V{r}H-{r}Z"/>"#),
        Some(2) => format!(r#"<path d="M0 -{0:.1}L{0:.1} 0L0 {0:.1}L-{0:.1} 0Z"/>"#, 1.25 * r),
        Some(3) => format!(r#"<path d="M0 -{0:.1}L{0:.1} {1:.1}H-{0:.1}Z"/>"#, 1.15 * r, 0.9 * r),
        Some(4) => format!(r#"<path d="M0 {0:.1}L{0:.1} -{1:.1}H-{0:.1}Z"/>"#, 1.15 * r, 0.9 * r),
        Some(_) => format!(
            r#"<path transform="scale({:.2})" d="M0 -5.500l1.500 4.200H5.500l-3.400 2.500 1.300 4.300L0 3l-3.400 2.500 1.300-4.300-3.400-2.500h4z"/>"#,
            r / 4.0
        ),
    }
}

fn names(tags: &[String]) -> String {
    if tags.is_empty() { String::new() } else { format!(r#" data-names="{}""#, escaped(&tags.join("\n"))) }
}

fn title(hover: &str) -> String {
    if hover.is_empty() { String::new() } else { format!("<title>{}</title>", escaped(hover)) }
}

/// Patterns of the ground's colour over bars; their names are the chart's own, since a page has one space for all.
fn hatches(palette: Palette, id: &str) -> String {
    let pattern = |number: usize, path: &str| {
        format!(
            r#"<pattern id="{id}-hatch-{number}" width="7" height="7" patternUnits="userSpaceOnUse"><path d="{path}" stroke="{}" stroke-width="1.600" fill="none"/></pattern>"#,
            palette.ground()
        )
    };
    let slanted = "M-1 8L8 -1M-1 1L1 -1M6 8L8 6";
    format!(
        "<defs>{}{}{}</defs>",
        pattern(1, slanted),
        pattern(2, "M-1 8L8 -1M-1 -1L8 8"),
        pattern(3, "M3 3h1.600")
    )
}

/// The values of a mark on the axis along.
fn xs(mark: &Mark) -> Vec<f64> {
    match mark {
        Mark::Line(line) => line.points.iter().map(|point| point.x).collect(),
        Mark::Bars(bars) => bars.iter().map(|bar| bar.value).chain([0.0]).collect(),
        Mark::Cells(cells) => cells.iter().flat_map(|cell| [cell.x.0, cell.x.1]).collect(),
        Mark::Upright(at) => vec![*at],
    }
}

/// The values of a mark on the axis up.
fn ys(mark: &Mark) -> Vec<f64> {
    match mark {
        Mark::Line(line) => line.points.iter().flat_map(|point| [point.y, point.y + point.spread]).collect(),
        Mark::Bars(bars) => {
            bars.iter().flat_map(|bar| [bar.at - bar.width / 2.0, bar.at + bar.width / 2.0]).collect()
        }
        Mark::Cells(cells) => cells.iter().flat_map(|cell| [cell.y.0, cell.y.1]).collect(),
        Mark::Upright(_) => Vec::new(),
    }
}
