//! NBD URIs.
//!
//! ```text
//! nbd://[user@]host[:port]/export        nbd+unix:///export?socket=path
//! nbds, nbds+unix                        with TLS: ?tls-type=&tls-hostname=&tls-verify-peer=
//! ```
//! Source: "The NBD URI format", doc/uri.md; RFC 3986 for parts and percent-encoding.

use crate::export::STRING_BYTES_MAX;
use core::fmt;
use core::str::FromStr;

/// The port that IANA gave to NBD.
pub const DEFAULT_PORT: u16 = 10809;

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A host by name or address, without the brackets of IPv6, and a port.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// The path of a Unix socket, as bytes; in the abstract namespace if it begins with NUL.
    Unix {
        /// Path.
        path: Vec<u8>,
    },
}

/// How the two sides prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsType {
    /// Not at all.
    Anonymous,
    /// Certificates.
    X509,
    /// A key that both have.
    Psk,
}

/// An export on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NbdUri {
    /// Where the server is.
    pub transport: Transport,
    /// Nothing is said without TLS.
    pub tls: bool,
    /// The export's name, empty for the default one.
    pub export: String,
    /// User, for TLS with keys.
    pub user: Option<String>,
    /// How the two sides prove who they are, if the URI says so.
    pub tls_type: Option<TlsType>,
    /// The name that the server's certificate must have, if not the host's.
    pub tls_hostname: Option<String>,
    /// Whether the server's certificate is verified; yes unless the URI says no.
    pub tls_verify_peer: bool,
}

/// Why a text is no NBD URI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NbdUriError {
    /// Not one of the four schemes.
    #[error("it must begin with nbd://, nbds://, nbd+unix:// or nbds+unix://")]
    Scheme,
    /// A `%` without two hexadecimal digits, or a character that must be written as one.
    #[error("'{0}' is not encoded as a URI is")]
    Encoding(String),
    /// Not text, with a NUL, or too long.
    #[error("the {0} is not UTF-8, has a NUL, or is too long")]
    Text(&'static str),
    /// TCP without a host.
    #[error("there is no host")]
    NoHost,
    /// No number up to 65535.
    #[error("'{0}' is no port")]
    Port(String),
    /// A Unix socket with a host.
    #[error("a Unix socket has no host: use nbd+unix:///EXPORT?socket=PATH")]
    UnixWithHost,
    /// A Unix socket without its path.
    #[error("there is no socket=PATH")]
    NoSocket,
    /// TCP with a path of a socket.
    #[error("socket= is for nbd+unix and nbds+unix")]
    TcpWithSocket,
    /// A parameter that means nothing here.
    #[error("parameter '{0}' is not known")]
    UnknownParameter(String),
    /// A parameter that is there twice.
    #[error("parameter '{0}' is there twice")]
    Twice(String),
    /// A value that the parameter can't have.
    #[error("parameter '{name}' can't be '{value}'")]
    Value {
        /// Which.
        name: &'static str,
        /// Its value.
        value: String,
    },
}

impl NbdUri {
    /// Returns the URI of the default export behind the Unix socket at `path`, without TLS.
    pub const fn of_socket(path: Vec<u8>) -> Self {
        Self {
            transport: Transport::Unix { path },
            tls: false,
            export: String::new(),
            user: None,
            tls_type: None,
            tls_hostname: None,
            tls_verify_peer: true,
        }
    }
}

impl FromStr for NbdUri {
    type Err = NbdUriError;

    fn from_str(text: &str) -> Result<Self, NbdUriError> {
        let (scheme, rest) = text.split_once("://").ok_or(NbdUriError::Scheme)?;
        let (tls, unix) = match scheme.to_ascii_lowercase().as_str() {
            "nbd" => (false, false),
            "nbds" => (true, false),
            "nbd+unix" => (false, true),
            "nbds+unix" => (true, true),
            _ => return Err(NbdUriError::Scheme),
        };
        if let Some(found) = rest.chars().find(|c| !c.is_ascii_graphic() || "\"<>\\^`{|}#".contains(*c)) {
            return Err(NbdUriError::Encoding(found.to_string()));
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let export = decode_text(path, "export's name")?;
        let query = Query::parse(query)?;
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(decode_text(user, "user")?), host),
            None => (None, authority),
        };
        let transport = match (unix, query.socket) {
            (true, _) if !host.is_empty() => return Err(NbdUriError::UnixWithHost),
            (true, Some(path)) => Transport::Unix { path },
            (true, None) => return Err(NbdUriError::NoSocket),
            (false, Some(_)) => return Err(NbdUriError::TcpWithSocket),
            (false, None) => parse_host(host)?,
        };
        Ok(Self {
            transport,
            tls,
            export,
            user,
            tls_type: query.tls_type,
            tls_hostname: query.tls_hostname,
            tls_verify_peer: query.tls_verify_peer.unwrap_or(true),
        })
    }
}

fn parse_host(text: &str) -> Result<Transport, NbdUriError> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, "")) => (address, None),
        Some((address, rest)) => {
            let port = rest.strip_prefix(':').ok_or_else(|| NbdUriError::Port(rest.to_owned()))?;
            (address, Some(port))
        }
        None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
    };
    let host = decode_text(host, "host")?;
    if host.is_empty() {
        return Err(NbdUriError::NoHost);
    }
    let port = match port.filter(|port| !port.is_empty()) {
        Some(port) if port.bytes().all(|digit| digit.is_ascii_digit()) => {
            port.parse().map_err(|_| NbdUriError::Port(port.to_owned()))?
        }
        Some(port) => return Err(NbdUriError::Port(port.to_owned())),
        None => DEFAULT_PORT,
    };
    Ok(Transport::Tcp { host, port })
}

/// The parameters behind the question mark.
#[derive(Default)]
struct Query {
    socket: Option<Vec<u8>>,
    tls_type: Option<TlsType>,
    tls_hostname: Option<String>,
    tls_verify_peer: Option<bool>,
}

impl Query {
    fn parse(text: &str) -> Result<Self, NbdUriError> {
        let mut query = Self::default();
        for part in text.split(['&', ';']).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let name = decode_text(name, "parameter's name")?;
            let fresh = match name.as_str() {
                "socket" => {
                    let path = decode(value)?;
                    if path.is_empty() || path[1..].contains(&0) {
                        return Err(NbdUriError::Text("socket's path"));
                    }
                    query.socket.replace(path).is_none()
                }
                "tls-type" => query.tls_type.replace(tls_type(value)?).is_none(),
                "tls-hostname" => query.tls_hostname.replace(decode_text(value, "tls-hostname")?).is_none(),
                "tls-verify-peer" => query.tls_verify_peer.replace(verify(value)?).is_none(),
                _ => return Err(NbdUriError::UnknownParameter(name)),
            };
            if !fresh {
                return Err(NbdUriError::Twice(name));
            }
        }
        Ok(query)
    }
}

fn tls_type(value: &str) -> Result<TlsType, NbdUriError> {
    match value {
        "anon" => Ok(TlsType::Anonymous),
        "x509" => Ok(TlsType::X509),
        "psk" => Ok(TlsType::Psk),
        _ => Err(NbdUriError::Value { name: "tls-type", value: value.to_owned() }),
    }
}

fn verify(value: &str) -> Result<bool, NbdUriError> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err(NbdUriError::Value { name: "tls-verify-peer", value: value.to_owned() }),
    }
}

fn decode_text(text: &str, what: &'static str) -> Result<String, NbdUriError> {
    let decoded = String::from_utf8(decode(text)?).map_err(|_| NbdUriError::Text(what))?;
    if decoded.len() > STRING_BYTES_MAX || decoded.contains('\0') {
        return Err(NbdUriError::Text(what));
    }
    Ok(decoded)
}

fn decode(text: &str) -> Result<Vec<u8>, NbdUriError> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let digit = |place: usize| behind.get(place).and_then(|byte| char::from(*byte).to_digit(16));
        match (first, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high << 4 | low) as u8);
                rest = &behind[2..];
            }
            (b'%', ..) => return Err(NbdUriError::Encoding(text.to_owned())),
            _ => {
                decoded.push(*first);
                rest = behind;
            }
        }
    }
    Ok(decoded)
}

/// Writes bytes so that a URI can hold them.
fn encode(f: &mut fmt::Formatter<'_>, bytes: &[u8], kept: &[u8]) -> fmt::Result {
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) || kept.contains(byte) {
            write!(f, "{}", char::from(*byte))?;
        } else {
            write!(f, "%{byte:02X}")?;
        }
    }
    Ok(())
}

impl fmt::Display for NbdUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unix = if matches!(self.transport, Transport::Unix { .. }) { "+unix" } else { "" };
        write!(f, "nbd{}{unix}://", if self.tls { "s" } else { "" })?;
        if let Some(user) = &self.user {
            encode(f, user.as_bytes(), b"")?;
            f.write_str("@")?;
        }
        if let Transport::Tcp { host, port } = &self.transport {
            if host.contains(':') {
                f.write_str("[")?;
                encode(f, host.as_bytes(), b":")?;
                f.write_str("]")?;
            } else {
                encode(f, host.as_bytes(), b"")?;
            }
            if *port != DEFAULT_PORT {
                write!(f, ":{port}")?;
            }
        }
        f.write_str("/")?;
        encode(f, self.export.as_bytes(), b"/")?;
        let mut mark = '?';
        let mut parameter = |f: &mut fmt::Formatter<'_>, name: &str, value: &[u8]| {
            write!(f, "{mark}{name}=")?;
            mark = '&';
            encode(f, value, b"/")
        };
        if let Transport::Unix { path } = &self.transport {
            parameter(f, "socket", path)?;
        }
        match self.tls_type {
            Some(TlsType::Anonymous) => parameter(f, "tls-type", b"anon")?,
            Some(TlsType::X509) => parameter(f, "tls-type", b"x509")?,
            Some(TlsType::Psk) => parameter(f, "tls-type", b"psk")?,
            None => {}
        }
        if let Some(name) = &self.tls_hostname {
            parameter(f, "tls-hostname", name.as_bytes())?;
        }
        if !self.tls_verify_peer {
            parameter(f, "tls-verify-peer", b"0")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tcp(host: &str, port: u16) -> Transport {
        Transport::Tcp { host: host.into(), port }
    }

    #[test]
    fn the_examples_of_the_document() {
        let rows = [
            ("nbd://example.com:10809/export", tcp("example.com", 10809), "export"),
            ("nbd+unix:///export?socket=nbd.sock", Transport::Unix { path: b"nbd.sock".to_vec() }, "export"),
            ("nbd://example.com/", tcp("example.com", 10809), ""),
            ("nbd://example.com", tcp("example.com", 10809), ""),
            ("nbd://example.com//disk", tcp("example.com", 10809), "/disk"),
            ("nbd://example.com/hello%20world", tcp("example.com", 10809), "hello world"),
            ("NBD://[::1]:99/a", tcp("::1", 99), "a"),
            ("nbd+unix:///?socket=%00/abstract", Transport::Unix { path: b"\0/abstract".to_vec() }, ""),
        ];
        for (text, transport, export) in rows {
            let uri: NbdUri = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((uri.transport, uri.export.as_str(), uri.tls), (transport, export, false), "{text}");
        }
    }

    #[test]
    fn tls_is_read_from_scheme_and_parameters() {
        let uri: NbdUri =
            "nbds://alice@h/e?tls-type=x509&tls-hostname=a%62&tls-verify-peer=0".parse().expect("a URI");
        let expected = NbdUri {
            transport: tcp("h", DEFAULT_PORT),
            tls: true,
            export: "e".into(),
            user: Some("alice".into()),
            tls_type: Some(TlsType::X509),
            tls_hostname: Some("ab".into()),
            tls_verify_peer: false,
        };
        assert_eq!(uri, expected);
    }

    #[test]
    fn what_is_no_uri_is_named() {
        use NbdUriError::{
            Encoding, NoHost, NoSocket, Port, Scheme, TcpWithSocket, Text, Twice, UnixWithHost,
            UnknownParameter, Value,
        };
        let rows = [
            ("http://a/", Scheme),
            ("nbd:a", Scheme),
            ("nbd:///e", NoHost),
            ("nbd://h:70000/", Port("70000".into())),
            ("nbd://h:+1/", Port("+1".into())),
            ("nbd://[::1]x/", Port("x".into())),
            ("nbd://h/%4", Encoding("%4".into())),
            ("nbd://h/a b", Encoding(" ".into())),
            ("nbd://h/%00", Text("export's name")),
            ("nbd://h/%ff", Text("export's name")),
            ("nbd+unix://h/?socket=a", UnixWithHost),
            ("nbd+unix:///e", NoSocket),
            ("nbd+unix:///e?socket=", Text("socket's path")),
            ("nbd://h/?socket=a", TcpWithSocket),
            ("nbd://h/?colour=red", UnknownParameter("colour".into())),
            ("nbd+unix:///?socket=a&socket=b", Twice("socket".into())),
            ("nbds://h/?tls-type=x", Value { name: "tls-type", value: "x".into() }),
            ("nbds://h/?tls-verify-peer=2", Value { name: "tls-verify-peer", value: "2".into() }),
        ];
        for (text, expected) in rows {
            assert_eq!(text.parse::<NbdUri>(), Err(expected), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_uri_prints_as_it_parses(
            host in "[a-z0-9.-]{1,20}|[0-9a-f:]{2,20}",
            port in 0_u16..,
            export in "[^\0]{0,40}",
            user in prop::option::of("[^\0]{0,10}"),
            path in prop::collection::vec(1_u8.., 1..40),
            (unix, tls, tls_verify_peer) in any::<(bool, bool, bool)>(),
        ) {
            let transport = if unix { Transport::Unix { path } } else { Transport::Tcp { host, port } };
            let uri = NbdUri {
                transport, tls, export, user, tls_verify_peer, tls_type: None, tls_hostname: None,
            };
            prop_assert_eq!(uri.to_string().parse(), Ok(uri));
        }

        #[test]
        fn no_text_panics(text in ".*", scheme in "(nbd|nbds|nbd\\+unix)://") {
            let _ = text.parse::<NbdUri>();
            let _ = (scheme + &text).parse::<NbdUri>();
        }
    }
}
