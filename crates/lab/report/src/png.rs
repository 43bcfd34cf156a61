//! Charts as PNG, for programs that don't read SVG.
//!
//! resvg renders the pixels. Text needs a font, and the program contains none: the system's fonts are looked up once,
//! which is the only thing that this crate ever reads. A system without any font is an error, since a chart without its
//! text says nothing.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};
use std::sync::{Arc, LazyLock};

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PngError {
    /// There is nothing to write text with.
    #[error(
        "there is no font on this system to write a chart's text with: install one, such as fonts-dejavu-core"
    )]
    NoFont,
    /// The picture has no memory or no size.
    #[error("a picture of {width} x {height} pixels cannot be made")]
    Size {
        /// Its width in pixels.
        width: u32,
        /// Its height in pixels.
        height: u32,
    },
    /// The library refuses.
    #[error("the picture cannot be drawn: {0}")]
    Draw(String),
}

/// Draws `svg`, as [`crate::Picture::svg`] gives it, with `scale` pixels for each of its units.
///
/// # Errors
/// [`PngError`] where the system has no font, or the picture is too large.
pub fn of_svg(svg: &str, scale: f32) -> Result<Vec<u8>, PngError> {
    static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
        let mut fonts = Database::new();
        fonts.load_system_fonts();
        Arc::new(fonts)
    });
    let family = family_of(&FONTS).ok_or(PngError::NoFont)?;
    let options = Options { fontdb: Arc::clone(&FONTS), font_family: family, ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|error| PngError::Draw(error.to_string()))?;
    let (width, height) = ((tree.size().width() * scale).ceil(), (tree.size().height() * scale).ceil());
    let (width, height) = (width as u32, height as u32);
    let mut pixels = Pixmap::new(width, height).ok_or(PngError::Size { width, height })?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| PngError::Draw(error.to_string()))
}

/// A family without serifs, or any.
fn family_of(fonts: &Database) -> Option<String> {
    let families: Vec<&str> =
        fonts.faces().filter_map(|face| face.families.first()).map(|(name, _)| name.as_str()).collect();
    let wanted = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica"];
    let known = wanted.into_iter().find(|name| families.contains(name));
    known.or(families.first().copied()).map(str::to_owned)
}
