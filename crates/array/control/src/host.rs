//! The names of this server in requests: other names get no answer.
//!
//! A page of another site can point its name at the loopback address, and then send requests as if it were the server's
//! own page (DNS rebinding). These requests still have that name in `Host`.

use axum::http::{HeaderValue, Request, header};
use std::net::SocketAddr;

/// What `Host` may say.
#[derive(Clone, Debug)]
pub struct HostNames(Vec<String>);

impl HostNames {
    /// The names of a server on a loopback address.
    pub fn of_loopback(address: SocketAddr) -> Self {
        let port = address.port();
        let mut names = vec![address.to_string(), format!("localhost:{port}")];
        if port == 80 {
            names.extend([address.ip().to_string(), "localhost".to_owned()]);
        }
        Self(names)
    }

    /// The name that is shown to people.
    pub fn first(&self) -> &str {
        &self.0[0]
    }

    /// Whether `name`, with its port, is this server's.
    pub fn holds(&self, name: &[u8]) -> bool {
        self.0.iter().any(|host| host.as_bytes().eq_ignore_ascii_case(name))
    }

    /// Whether a request is for this server: it says so once, and nothing else anywhere.
    pub fn are_named_by<B>(&self, request: &Request<B>) -> bool {
        let mut named = request.headers().get_all(header::HOST).iter().map(HeaderValue::as_bytes);
        let authority = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let is_named_once = named.next().is_some_and(|name| self.holds(name)) && named.next().is_none();
        is_named_once && authority.is_none_or(|name| self.holds(name))
    }
}
