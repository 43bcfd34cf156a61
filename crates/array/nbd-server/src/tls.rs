//! The server's certificate and key, from a folder with nbdkit's and qemu's file names.
//!
//! ```text
//! DIR/ca-cert.pem      the authority of clients' certificates     DIR/ca-crl.pem  revoked ones, if it is there
//! DIR/server-cert.pem  the server's own, followed by its issuers
//! DIR/server-key.pem   its key
//! ```
//! What every client would refuse (an expired certificate, a key of another one) is an error here, so that it is found
//! when the server starts and not when the first client comes. The files are read at the start and at
//! [`TlsServer::reload`], which takes the whole folder or nothing of it. Later handshakes use the new files; existing
//! streams, and handshakes under way, keep the old ones.
//!
//! TLS 1.2 and 1.3, as the protocol requires. Left out: pre-shared keys (PSK), which rustls does not have.
//! Source: "TLS support" of the NBD protocol; `nbdkit-tls(1)`; qemu's `tls-creds-x509`.

use rustls::client::{WebPkiServerVerifier, danger::ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{Error as PemError, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{CertificateError, InconsistentKeys, RootCertStore, ServerConfig};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

const CA: &str = "ca-cert.pem";
const CERTIFICATE: &str = "server-cert.pem";
const KEY: &str = "server-key.pem";
const REVOKED: &str = "ca-crl.pem";
/// Permission bits of those who neither own the file nor are in its group.
const OTHERS: u32 = 0o007;
const SECONDS_PER_DAY: u64 = 86_400;

/// Whether clients have to show who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientCertificates {
    /// Whoever reaches the server may talk to it.
    NotAsked,
    /// Only who has a certificate of the authority in `ca-cert.pem`.
    Required,
}

/// Why a folder's certificates can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read.
    #[error("can't read {}: {source}; a TLS folder holds {CA}, {CERTIFICATE} and {KEY}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file holds something else.
    #[error("{} holds no {wanted} in PEM form: {source}", file.display())]
    Pem {
        /// The file.
        file: PathBuf,
        /// What it should hold.
        wanted: &'static str,
        /// What is wrong with it.
        source: PemError,
    },
    /// The key has a password.
    #[error("the key in {} has a password; take it off with: openssl pkey -in ... -out ...", file.display())]
    KeyIsEncrypted {
        /// The file.
        file: PathBuf,
    },
    /// Everybody on this machine can read the key, or change it.
    #[error("the key in {} is open to everybody on this machine (mode {mode:04o}); close it with: chmod o= {0}", file.display())]
    OpenKey {
        /// The file.
        file: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Certificate and key are not a pair.
    #[error("{} is not the key of {}", key.display(), certificate.display())]
    OtherKey {
        /// The key's file.
        key: PathBuf,
        /// The certificate's file.
        certificate: PathBuf,
    },
    /// The server's certificate is out of date.
    #[error("the certificate in {} expired {days} days ago: every client would refuse it", file.display())]
    Expired {
        /// The file.
        file: PathBuf,
        /// Whole days since.
        days: u64,
    },
    /// The server's certificate is of the future.
    #[error("the certificate in {} is valid only in {days} days; is the clock right?", file.display())]
    NotYetValid {
        /// The file.
        file: PathBuf,
        /// Whole days until then.
        days: u64,
    },
    /// Something else is wrong with a file.
    #[error("{} can't be used: {source}", file.display())]
    Unusable {
        /// The file.
        file: PathBuf,
        /// Why.
        source: rustls::Error,
    },
}

/// What a server needs for TLS. Clones are one: what is read anew through one of them is used through all.
#[derive(Clone, Debug)]
pub struct TlsServer {
    folder: PathBuf,
    clients: ClientCertificates,
    /// Locked for each handshake and never for longer than a copy.
    config: Arc<RwLock<Arc<ServerConfig>>>,
}

impl TlsServer {
    /// Reads the certificates and the key in `folder`; see the module's head for their names.
    ///
    /// A certificate that clients will not believe who trust only `ca-cert.pem` is warned of.
    ///
    /// # Errors
    /// [`TlsError`].
    pub fn from_folder(folder: &Path, clients: ClientCertificates) -> Result<Self, TlsError> {
        let config = Arc::new(RwLock::new(read_folder(folder, clients)?));
        Ok(Self { folder: folder.to_owned(), clients, config })
    }

    /// Reads the folder anew, for handshakes that begin from here on.
    ///
    /// # Errors
    /// [`TlsError`]: what was read before is still used then.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = read_folder(&self.folder, self.clients)?;
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Where the files are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether clients have to show who they are.
    pub(crate) const fn clients(&self) -> ClientCertificates {
        self.clients
    }

    /// The settings of a handshake that begins now.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }
}

fn read_folder(folder: &Path, clients: ClientCertificates) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let roots = Arc::new(roots(&folder.join(CA))?);
    let certificate = folder.join(CERTIFICATE);
    let chain = certificates(&certificate)?;
    let key = key(&folder.join(KEY))?;
    check_certificate(&certificate, &chain, &roots, &provider)?;
    let unusable = |file: &Path| {
        let file = file.to_owned();
        move |source| TlsError::Unusable { file, source }
    };
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(unusable(folder))?;
    let config = match clients {
        ClientCertificates::NotAsked => config.with_no_client_auth(),
        ClientCertificates::Required => {
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                .with_crls(revoked(&folder.join(REVOKED))?)
                .build()
                .map_err(|error| rustls::Error::General(error.to_string()))
                .map_err(unusable(&folder.join(REVOKED)))?;
            config.with_client_cert_verifier(verifier)
        }
    };
    let mut config = config.with_single_cert(chain, key).map_err(|source| match source {
        rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
            TlsError::OtherKey { key: folder.join(KEY), certificate: certificate.clone() }
        }
        source => TlsError::Unusable { file: certificate.clone(), source },
    })?;
    // Connections are few and long: nothing is kept to make the next one short.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn read(file: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(file).map_err(|source| TlsError::Read { file: file.to_owned(), source })
}

/// All objects of one kind in a file, at least one.
fn objects<T: PemObject>(file: &Path, wanted: &'static str) -> Result<Vec<T>, TlsError> {
    let bytes = read(file)?;
    let pem = |source| TlsError::Pem { file: file.to_owned(), wanted, source };
    let found: Vec<T> = T::pem_slice_iter(&bytes).collect::<Result<_, _>>().map_err(pem)?;
    if found.is_empty() { Err(pem(PemError::NoItemsFound)) } else { Ok(found) }
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    objects(file, "certificate")
}

fn roots(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        let added = roots.add(certificate);
        added.map_err(|source| TlsError::Unusable { file: file.to_owned(), source })?;
    }
    Ok(roots)
}

fn revoked(file: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, TlsError> {
    match objects(file, "list of revoked certificates") {
        Err(TlsError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        found => found,
    }
}

fn key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let unread = |source| TlsError::Read { file: file.to_owned(), source };
    let mut opened = File::open(file).map_err(unread)?;
    let mode = opened.metadata().map_err(unread)?.permissions().mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(TlsError::OpenKey { file: file.to_owned(), mode });
    }
    let mut bytes = Vec::new();
    opened.read_to_end(&mut bytes).map_err(unread)?;
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|source| {
        let marker = b"ENCRYPTED";
        if bytes.windows(marker.len()).any(|words| words == marker) {
            return TlsError::KeyIsEncrypted { file: file.to_owned() };
        }
        TlsError::Pem { file: file.to_owned(), wanted: "private key", source }
    })
}

/// Looks at the server's certificate as a client would.
fn check_certificate(
    file: &Path,
    chain: &[CertificateDer<'_>],
    roots: &Arc<RootCertStore>,
    provider: &Arc<CryptoProvider>,
) -> Result<(), TlsError> {
    let file = file.to_owned();
    let client = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone())
        .build()
        .expect("there is an authority, and no list of revoked certificates");
    let [certificate, issuers @ ..] = chain else { unreachable!("a file of certificates has one") };
    // Which name clients know the server by is theirs to say; its chain is looked at before.
    let name = ServerName::try_from("localhost").expect("a name");
    let now = UnixTime::now();
    let found = client.verify_server_cert(certificate, issuers, &name, &[], now);
    let days = |from: u64, to: u64| to.saturating_sub(from) / SECONDS_PER_DAY;
    match found.map(drop) {
        Ok(()) | Err(rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext { .. })) => {
            Ok(())
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Err(TlsError::Expired { file, days: days(not_after.as_secs(), now.as_secs()) })
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::NotValidYetContext {
            not_before, ..
        })) => Err(TlsError::NotYetValid { file, days: days(now.as_secs(), not_before.as_secs()) }),
        Err(error) => {
            tracing::warn!(%error, "clients that trust only {CA} will refuse {}", file.display());
            Ok(())
        }
    }
}
