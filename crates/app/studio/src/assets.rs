//! The pages themselves, built into the program: one table of paths, so that no path can lead anywhere else.

use crate::StudioState;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::{MethodRouter, get};
use std::sync::Arc;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// Paths, kinds and texts.
const ASSETS: &[(&str, &str, &str)] = &[
    ("/", HTML, include_str!("web/index.html")),
    ("/style.css", CSS, include_str!("web/style.css")),
    ("/icon.svg", SVG, include_str!("web/icon.svg")),
    ("/app.js", SCRIPT, include_str!("web/app.js")),
    ("/api.js", SCRIPT, include_str!("web/api.js")),
    ("/ui.js", SCRIPT, include_str!("web/ui.js")),
    ("/chart.js", SCRIPT, include_str!("web/chart.js")),
    ("/jobs.js", SCRIPT, include_str!("web/jobs.js")),
    ("/pages/home.js", SCRIPT, include_str!("web/pages/home.js")),
    ("/pages/plan.js", SCRIPT, include_str!("web/pages/plan.js")),
    ("/pages/papers.js", SCRIPT, include_str!("web/pages/papers.js")),
    ("/pages/runs.js", SCRIPT, include_str!("web/pages/runs.js")),
    ("/pages/catalogue.js", SCRIPT, include_str!("web/pages/catalogue.js")),
    ("/pages/live.js", SCRIPT, include_str!("web/pages/live.js")),
    ("/pages/arrays.js", SCRIPT, include_str!("web/pages/arrays.js")),
    ("/pages/emulate.js", SCRIPT, include_str!("web/pages/emulate.js")),
];

/// What answers at each path.
pub(crate) fn routes() -> Vec<(&'static str, MethodRouter<Arc<StudioState>>)> {
    let route = |&(path, kind, text): &(&'static str, &'static str, &'static str)| {
        let answer = move || async move { ([(header::CONTENT_TYPE, kind)], text).into_response() };
        (path, get(answer))
    };
    ASSETS.iter().map(route).collect()
}
