//! Access control: the checks before every page and every call.
//!
//! | check | against |
//! |---|---|
//! | `Host` names this server | DNS rebinding: a name pointed at the loopback address |
//! | `Origin`, if present, is this server's; `Sec-Fetch-Site` is not another site | pages of other sites |
//! | a change has the token, in a header that no form can send | other sites, other users of this machine |
//! | bodies are JSON and short; a maximum of requests at once; a timeout | exhaustion |
//!
//! Every answer carries a content security policy that allows nothing but this server's own files, and forbids frames.
//! Reads need no token, so that data links work in any program of this machine.
//!
//! Source: OWASP cheat sheets on cross-site request forgery and on HTTP headers; Fetch Metadata (W3C).

use crate::StudioState;
use crate::fault::Fault;
use crate::token::Token;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use raidlab_control::HostNames;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Requests that are worked on at once; others are told to come back.
const REQUESTS_MAX: usize = 32;
/// Longest time for a request, its body included. What takes longer is a job.
const REQUEST_LIMIT: Duration = Duration::from_mins(1);
/// What pages may load, run and be shown in.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
     connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'";

/// What is compared with what requests say.
#[derive(Debug)]
pub(crate) struct Gate {
    hosts: HostNames,
    token: Token,
    requests: Semaphore,
}

impl Gate {
    pub(crate) fn new(address: SocketAddr, token: Token) -> Self {
        let hosts = HostNames::of_loopback(address);
        Self { hosts, token, requests: Semaphore::new(REQUESTS_MAX) }
    }

    fn check(&self, request: &Request) -> Result<(), Fault> {
        let headers = request.headers();
        self.check_host(request)?;
        if let Some(origin) = headers.get(header::ORIGIN) {
            self.check_origin(origin)?;
        }
        if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
            return Ok(());
        }
        refuse_other_sites(headers)?;
        self.check_token(headers)
    }

    fn check_host(&self, request: &Request) -> Result<(), Fault> {
        if self.hosts.are_named_by(request) {
            return Ok(());
        }
        let remedy = format!("open http://{}/", self.hosts.first());
        Err(Fault::new(StatusCode::FORBIDDEN, "the request is for another host", "header Host", remedy))
    }

    fn check_origin(&self, origin: &HeaderValue) -> Result<(), Fault> {
        let host = origin.as_bytes().strip_prefix(b"http://").unwrap_or_default();
        if self.hosts.holds(host) {
            return Ok(());
        }
        Err(other_site("header Origin"))
    }

    fn check_token(&self, headers: &HeaderMap) -> Result<(), Fault> {
        let given = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        let given = given.and_then(|value| value.strip_prefix(b"Bearer ")).unwrap_or_default();
        if self.token.is(given) {
            return Ok(());
        }
        Err(Fault::new(
            StatusCode::UNAUTHORIZED,
            "a change needs the studio's token",
            "header Authorization",
            "open the whole address that the studio printed when it started, or send 'Authorization: Bearer TOKEN'",
        ))
    }
}

fn refuse_other_sites(headers: &HeaderMap) -> Result<(), Fault> {
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    match site {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(other_site("header Sec-Fetch-Site")),
    }
}

fn other_site(place: &str) -> Fault {
    let remedy = "pages of other sites can't use the studio: open its own address";
    Fault::new(StatusCode::FORBIDDEN, "the request comes from another site", place, remedy)
}

/// Lets a request through, or says why not.
pub(crate) async fn guard(State(studio): State<Arc<StudioState>>, request: Request, next: Next) -> Response {
    let place = request.uri().path().chars().take(200).collect::<String>();
    let mut response = match studio.gate.check(&request) {
        Err(fault) => fault.into_response(),
        Ok(()) => match studio.gate.requests.try_acquire() {
            Err(_) => busy(&place).into_response(),
            Ok(_permit) => match tokio::time::timeout(REQUEST_LIMIT, next.run(request)).await {
                Ok(response) => response,
                Err(_) => slow(&place).into_response(),
            },
        },
    };
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 6] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

fn busy(place: &str) -> Fault {
    let what = format!("{REQUESTS_MAX} requests are being worked on");
    Fault::new(StatusCode::SERVICE_UNAVAILABLE, what, place, "ask again in a moment")
}

fn slow(place: &str) -> Fault {
    let what = format!("the request was not done in {} s", REQUEST_LIMIT.as_secs());
    Fault::new(StatusCode::REQUEST_TIMEOUT, what, place, "send it again")
}
