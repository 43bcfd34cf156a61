//! Errors for people and programs: what happened, where, and what to do, always in the same JSON.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// Why a request was not done.
#[derive(Debug)]
pub(crate) struct Fault {
    status: StatusCode,
    what: String,
    place: String,
    remedy: String,
}

impl Fault {
    pub(crate) fn new(
        status: StatusCode,
        what: impl Into<String>,
        place: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { status, what: what.into(), place: place.into(), remedy: remedy.into() }
    }

    /// What was sent can't be used.
    pub(crate) fn input(
        what: impl Into<String>,
        place: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, what, place, remedy)
    }

    /// What was asked for is not there.
    pub(crate) fn absent(
        what: impl Into<String>,
        place: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(StatusCode::NOT_FOUND, what, place, remedy)
    }

    /// It can't be done as things are.
    pub(crate) fn conflict(
        what: impl Into<String>,
        place: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::new(StatusCode::CONFLICT, what, place, remedy)
    }

    /// The machine or a file is at fault.
    pub(crate) fn internal(what: impl Into<String>, place: impl Into<String>) -> Self {
        let remedy = "see the terminal that the studio was started in, and try again";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, what, place, remedy)
    }
}

/// How a fault is answered.
#[derive(Serialize)]
struct Refusal {
    error: Told,
}

#[derive(Serialize)]
struct Told {
    status: u16,
    what: String,
    #[serde(rename = "where")]
    place: String,
    what_to_do: String,
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let Self { status, what, place, remedy } = self;
        let error = Told { status: status.as_u16(), what, place, what_to_do: remedy };
        let mut response = json_response(status, &Refusal { error });
        // Browsers would ask for a password otherwise; the form of the challenge is RFC 6750's.
        if status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, "Bearer".parse().expect("a header"));
        }
        response
    }
}

/// The answer to a path that nothing is at: a page for who asks for pages, JSON for programs.
pub(crate) async fn no_such_page(headers: HeaderMap, uri: Uri) -> Response {
    let wants = headers.get(header::ACCEPT).map(HeaderValue::as_bytes).unwrap_or_default();
    if wants.starts_with(b"text/html") && !uri.path().starts_with("/api") {
        let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
        return (StatusCode::NOT_FOUND, kind, include_str!("web/absent.html")).into_response();
    }
    let fault =
        Fault::absent("there is no such page", shown(uri.path()), "begin at /, or read /api/openapi.json");
    fault.into_response()
}

/// The answer to a method that a path does not know.
pub(crate) async fn no_such_method(method: Method, uri: Uri) -> Fault {
    let what = format!("{method} is not possible here");
    Fault::new(StatusCode::METHOD_NOT_ALLOWED, what, shown(uri.path()), "read /api/openapi.json")
}

/// A path from outside, short enough to be shown.
fn shown(path: &str) -> String {
    path.chars().take(200).collect()
}

/// A value as JSON.
pub(crate) fn json_response(status: StatusCode, value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).expect("structs of text and numbers always print");
    (status, [(header::CONTENT_TYPE, "application/json")], Body::from(body)).into_response()
}

/// Lines of comma-separated values, which browsers keep as `name`.
pub(crate) fn csv_response(name: &str, text: String) -> Response {
    let kept = format!("attachment; filename=\"{name}\"");
    let headers =
        [(header::CONTENT_TYPE, "text/csv; charset=utf-8".to_owned()), (header::CONTENT_DISPOSITION, kept)];
    (headers, text).into_response()
}
