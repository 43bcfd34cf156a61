//! Checked parts of requests: bodies, parts of paths, queries. Errors have the API's own form.

use crate::fault::Fault;
use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use raidlab_units::{ByteCount, NanoSpan};
use raidlab_workload::toml_file;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A body of JSON: what is to be done, and whether only its command line is wanted (`dry_run`).
pub(super) struct Order<T> {
    pub(super) order: T,
    pub(super) dry_run: bool,
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Order<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, state: &S) -> Result<Self, Fault> {
        // What was meant for the body, such as dry_run, would be left out in silence.
        known_parameters(request.uri().query(), &[])?;
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case("application/json") {
            return Err(Fault::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "the body is not declared as JSON",
                "header Content-Type",
                "send application/json",
            ));
        }
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| {
            let status = rejection.status();
            let remedy = format!("send at most {} bytes", crate::BODY_BYTES_MAX);
            Fault::new(status, "the body can't be read", "body", remedy)
        })?;
        parsed(&bytes).map_err(|error| {
            let what = format!("the body is not as it should be: {error}");
            let remedy = meant_field(&what).map_or_else(
                || "read /api/openapi.json for its fields".to_owned(),
                |name| format!("did you mean '{name}'?"),
            );
            if error.is_data() {
                Fault::input(what, "body", remedy)
            } else {
                Fault::new(StatusCode::BAD_REQUEST, what, "body", remedy)
            }
        })
    }
}

/// The field that is most like the one that serde says is unknown: the first name in its words, before those that are known.
fn meant_field(said: &str) -> Option<&str> {
    let names = said.split_once("unknown field `")?.1;
    let mut names = names.split('`').step_by(2);
    let unknown = names.next()?;
    // A dry run is none of the order's own fields.
    toml_file::meant(unknown, names.filter(|name| !name.is_empty()).chain(["dry_run"]))
}

/// Reads an object. serde takes a list for a struct, whose order no description fixes, and null for what is left out.
fn parsed<T: DeserializeOwned>(bytes: &[u8]) -> serde_json::Result<Order<T>> {
    let mut value: Value = serde_json::from_slice(bytes)?;
    let Value::Object(fields) = &mut value else {
        return Err(serde::de::Error::custom("something else where an object should be"));
    };
    if let Some((name, _)) = fields.iter().find(|(_, value)| value.is_null()) {
        return Err(serde::de::Error::custom(format!("{name} is null: leave it out instead")));
    }
    let dry_run = fields.remove("dry_run").map(serde_json::from_value).transpose()?.unwrap_or_default();
    Ok(Order { order: serde_json::from_value(value)?, dry_run })
}

/// A request that says nothing but its path: no parameters, and no body, or null, or an empty object.
pub(super) struct Nothing;

impl<S: Send + Sync> FromRequest<S> for Nothing {
    type Rejection = Fault;

    async fn from_request(request: Request, state: &S) -> Result<Self, Fault> {
        known_parameters(request.uri().query(), &[])?;
        let bytes = Bytes::from_request(request, state).await.unwrap_or_default();
        let text = bytes.trim_ascii();
        let fields = serde_json::from_slice::<Option<serde_json::Map<String, Value>>>(text);
        if text.is_empty() || fields.is_ok_and(|fields| fields.unwrap_or_default().is_empty()) {
            return Ok(Self);
        }
        Err(Fault::input("the call takes no fields, and nothing was done", "body", "leave the body out"))
    }
}

/// The name in a path.
pub(super) struct Named(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let named = Path::<String>::from_request_parts(parts, state).await;
        named.map(|Path(name)| Self(name)).map_err(|_| {
            let remedy = "percent-encode it as UTF-8";
            Fault::new(StatusCode::BAD_REQUEST, "the name in the path is no text", "path", remedy)
        })
    }
}

/// The number in a path.
pub(super) struct Numbered(pub(super) u64);

impl<S: Send + Sync> FromRequestParts<S> for Numbered {
    type Rejection = Fault;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Fault> {
        let Named(text) = Named::from_request_parts(parts, state).await?;
        text.parse().map(Self).map_err(|_| {
            let what = format!("'{text}' is no number");
            Fault::new(StatusCode::BAD_REQUEST, what, "path", "take one of those that are listed")
        })
    }
}

/// Refuses parameters that a call does not have.
pub(super) fn known_parameters(query: Option<&str>, known: &[&str]) -> Result<(), Fault> {
    let names = query.unwrap_or_default().split('&').map(|pair| pair.split('=').next().unwrap_or_default());
    let Some(name) = names.into_iter().find(|name| !name.is_empty() && !known.contains(name)) else {
        return Ok(());
    };
    let name: String = name.chars().take(60).collect();
    let meant = toml_file::meant(&name, known.iter().copied());
    let remedy = meant.map_or_else(
        || "leave it out; what a call takes is in /api/openapi.json".to_owned(),
        |meant| format!("did you mean '{meant}'?"),
    );
    let what = "the call has no such parameter";
    Err(Fault::new(StatusCode::BAD_REQUEST, what, format!("parameter {name}"), remedy))
}

/// The parameter `name` of a query.
pub(super) fn parameter(query: Option<&str>, name: &str) -> Result<Option<String>, Fault> {
    let pairs = query.unwrap_or_default().split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let Some((_, value)) = pairs.into_iter().find(|(key, _)| *key == name) else { return Ok(None) };
    let decoded = percent_decoded(value);
    let refused = || bad_parameter(name, "it is no percent-encoded UTF-8");
    decoded.and_then(|bytes| String::from_utf8(bytes).ok()).map(Some).ok_or_else(refused)
}

/// A number in a query.
pub(super) fn number(query: Option<&str>, name: &str, most: u64) -> Result<Option<u64>, Fault> {
    let Some(text) = parameter(query, name)? else { return Ok(None) };
    let number = text.parse().ok().filter(|number| *number <= most);
    number.map(Some).ok_or_else(|| bad_parameter(name, &format!("it is no number from 0 to {most}")))
}

pub(super) fn bad_parameter(name: &str, what: &str) -> Fault {
    let remedy = "read /api/openapi.json for the parameters";
    Fault::new(StatusCode::BAD_REQUEST, what, format!("parameter {name}"), remedy)
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push(match byte {
            b'%' => (digit()? * 16 + digit()?) as u8,
            b'+' => b' ',
            other => other,
        });
    }
    Some(bytes)
}

/// Checks a size as people write it, so that what is wrong with it is said before a job begins.
pub(super) fn size(field: &str, text: Option<&String>) -> Result<(), Fault> {
    checked::<ByteCount>(field, text, "write it as 64KiB, 1GiB or 1000000B")
}

/// Checks a time as people write it.
pub(super) fn time(field: &str, text: Option<&String>) -> Result<(), Fault> {
    checked::<NanoSpan>(field, text, "write it as 500ms, 10s or 2m")
}

fn checked<T: std::str::FromStr<Err: std::fmt::Display>>(
    field: &str,
    text: Option<&String>,
    remedy: &str,
) -> Result<(), Fault> {
    let Some(text) = text else { return Ok(()) };
    text.parse::<T>().map(drop).map_err(|error| Fault::input(error.to_string(), field, remedy))
}

/// Checks text that a verb reads itself: short, and without control characters.
pub(super) fn text(field: &str, text: Option<&String>) -> Result<(), Fault> {
    let is_fine =
        |text: &String| text.len() <= 200 && !text.chars().any(char::is_control) && !text.is_empty();
    if text.is_none_or(is_fine) {
        return Ok(());
    }
    Err(Fault::input(
        "it is empty, longer than 200 bytes or has control characters",
        field,
        "leave it out, or mend it",
    ))
}

/// Checks that text is one of a few words.
pub(super) fn one_of(field: &str, text: Option<&String>, words: &[&str]) -> Result<(), Fault> {
    if text.is_none_or(|text| words.contains(&text.as_str())) {
        return Ok(());
    }
    Err(Fault::input(
        "it is none of the words that are known",
        field,
        format!("take one of {}", words.join(", ")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_by_an_unknown_name_is_named() {
        #[derive(serde::Deserialize)]
        #[serde(tag = "command", deny_unknown_fields)]
        #[allow(dead_code, reason = "only its reading is tested")]
        enum Order {
            Replace { device: String, destroy_data: Option<String> },
            Check {},
        }
        let meant = |body: &str| {
            let error = parsed::<Order>(body.as_bytes()).err().expect("it is misspelt").to_string();
            meant_field(&error).map(str::to_owned)
        };
        assert_eq!(
            meant(r#"{"command":"Replace","device":"1","destory_data":"x"}"#).as_deref(),
            Some("destroy_data")
        );
        assert_eq!(meant(r#"{"command":"Check","dryrun":true}"#).as_deref(), Some("dry_run"));
        assert_eq!(meant(r#"{"command":"Check","xyz":true}"#), None);
        assert!(known_parameters(Some("limit=1&from=2"), &["limit", "from"]).is_ok());
        assert!(known_parameters(Some(""), &[]).is_ok());
        assert!(known_parameters(Some("limt=1"), &["limit"]).is_err());
    }

    #[test]
    fn parameters_are_decoded() {
        let query = Some("a=1%2C2&b=x+y%C3%A4&c&bad=%zz&half=%f&raw=%ff");
        assert_eq!(parameter(query, "a").unwrap().as_deref(), Some("1,2"));
        assert_eq!(parameter(query, "b").unwrap().as_deref(), Some("x yä"));
        assert_eq!(parameter(query, "c").unwrap().as_deref(), Some(""));
        assert_eq!(parameter(query, "d").unwrap(), None);
        for bad in ["bad", "half", "raw"] {
            assert!(parameter(query, bad).is_err(), "{bad}");
        }
        assert_eq!(number(Some("n=5"), "n", 9).unwrap(), Some(5));
        assert!(number(Some("n=10"), "n", 9).is_err());
    }
}
