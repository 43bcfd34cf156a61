//! The studio: web pages on the loopback address, and the JSON API behind them.
//!
//! ```text
//! browser ──► gate (host, origin, token, limits) ──► api ─┬─ reads: papers, catalogue, runs, arrays that are served
//!                                                         ├─ control sockets: fail, replace, rebuild, check, stop
//!                                                         └─ jobs: this program again, with the arguments shown
//! ```
//! **One way to do a thing.** Everything that takes time or writes is a command line of raidlab, run as a separate
//! process in the studio's folder: a page starts what a user could have typed, with the same checks, and shows it.
//! Commands to a served array go over its control socket, as `raidlab array` sends them.
//!
//! **Security.** Loopback only. `Host` and `Origin` must name this server, so that other sites and DNS rebinding get no
//! answer; every change needs the token; file names stay in the studio's folder; bodies, requests, connections and jobs
//! are bounded. docs/studio.md says what that protects from.
//!
//! Invariants: every route is described in `openapi.json` and every described one exists; every error has the same form.
//!
//! Left out: users, and pages for other machines.
#![forbid(unsafe_code)]

mod api;
mod assets;
mod command;
mod fault;
mod gate;
mod job;
mod place;
mod token;

pub use command::quoted;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use gate::Gate;
use job::Jobs;
use place::Folder;
use raidlab_control::{LoopbackListener, ServeError};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use token::Token;

/// Longest body of a request, in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;

/// Where the studio is and what it may touch.
#[derive(Clone, Debug)]
pub struct StudioOptions {
    /// A loopback address; port 0 takes a free one.
    pub address: SocketAddr,
    /// Files that pages name lie in here, and commands run in here.
    pub folder: PathBuf,
    /// The results file, as commands name it from the folder.
    pub db: PathBuf,
    /// This program, which jobs run.
    pub program: PathBuf,
}

/// Why there is no studio.
#[derive(Debug, thiserror::Error)]
pub enum StudioError {
    /// The address can't be served on.
    #[error(transparent)]
    Serve(#[from] ServeError),
    /// The folder is not there.
    #[error("the folder {} cannot be used: {source}", path.display())]
    Folder {
        /// What was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is no randomness for a token.
    #[error("the system gave no random token: {0}")]
    Token(io::Error),
}

/// What every request is answered from.
#[derive(Debug)]
struct StudioState {
    gate: Gate,
    folder: Folder,
    db: PathBuf,
    jobs: Jobs,
}

/// A studio that is being served.
#[derive(Debug)]
pub struct Studio {
    address: SocketAddr,
    token: String,
    state: Arc<StudioState>,
}

impl Studio {
    /// Serves a studio on a thread of its own.
    ///
    /// # Errors
    /// [`StudioError`]: an address that is no loopback address or is taken, a folder that is not there.
    pub fn start(options: StudioOptions) -> Result<Self, StudioError> {
        let StudioOptions { address, folder, db, program } = options;
        let listener = LoopbackListener::bind(address)?;
        let folder = Folder::new(&folder).map_err(|source| StudioError::Folder { path: folder, source })?;
        let token = Token::random().map_err(StudioError::Token)?;
        let (address, text) = (listener.address(), token.text());
        let jobs = Jobs::new(program, folder.path().to_owned());
        let studio = Arc::new(StudioState { gate: Gate::new(address, token), folder, db, jobs });
        listener.serve("studio", router(Arc::clone(&studio)))?;
        Ok(Self { address, token: text, state: studio })
    }

    /// Where it is served.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What every change must carry.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// What a person opens: the token stands behind the `#`, which browsers keep to themselves.
    pub fn url(&self) -> String {
        format!("http://{}/#token={}", self.address, self.token)
    }

    /// Stops what was started here, and waits until it has ended.
    pub fn stop(&self) {
        self.state.jobs.stop_all();
    }
}

fn router(studio: Arc<StudioState>) -> Router {
    let mut router = Router::new();
    for (path, methods) in assets::routes().into_iter().chain(api::routes()) {
        router = router.route(path, methods);
    }
    router
        .fallback(fault::no_such_page)
        .method_not_allowed_fallback(fault::no_such_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(from_fn_with_state(Arc::clone(&studio), gate::guard))
        .with_state(studio)
}
