//! HTTP for this machine alone: a loopback address, a thread of its own, and a bound on connections. Metrics and the
//! studio's pages are served by it.
//!
//! ```text
//! LoopbackListener::bind ──► address ──► router made for it ──► serve: a thread with a runtime
//! ```
//! Invariant: nothing is served on an address that others can reach. A connection beyond [`CONNECTIONS_MAX`] waits to be
//! taken until another ends.

use crate::error::ServeError;
use crate::metrics::{CONTENT_TYPE, render};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::Listener;
use raidlab_array::{Answer, Command, Operator};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Connections at once.
const CONNECTIONS_MAX: usize = 64;

/// A loopback address that is taken, and not served yet.
#[derive(Debug)]
pub struct LoopbackListener {
    listener: TcpListener,
    address: SocketAddr,
}

impl LoopbackListener {
    /// Takes `address`, which must be a loopback address; port 0 takes a free one.
    ///
    /// # Errors
    /// [`ServeError`]: an address that is no loopback address or is taken.
    pub fn bind(address: SocketAddr) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback { address });
        }
        let failed = |source| ServeError::Http { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Where it is.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves `router` on a thread called `name` until the process ends.
    ///
    /// # Errors
    /// [`ServeError::Http`] when the system has no thread or no descriptor for it.
    pub fn serve(self, name: &'static str, router: Router) -> Result<(), ServeError> {
        let address = self.address;
        let failed = |source| ServeError::Http { address, source };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(self.listener)?;
            let open = Arc::new(Semaphore::new(CONNECTIONS_MAX));
            axum::serve(BoundedListener { listener, open }, router).await
        };
        let run = move || {
            if let Err(error) = runtime.block_on(serve) {
                tracing::error!(%error, "{name} is served no longer");
            }
        };
        std::thread::Builder::new().name(name.into()).spawn(run).map_err(failed)?;
        Ok(())
    }
}

/// Takes connections while there are few enough.
struct BoundedListener {
    listener: tokio::net::TcpListener,
    open: Arc<Semaphore>,
}

impl Listener for BoundedListener {
    type Io = BoundedStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let permit = Arc::clone(&self.open).acquire_owned().await.expect("the semaphore is never closed");
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (BoundedStream { stream, _permit: permit }, address)
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

/// A connection, which makes room for another when it ends.
struct BoundedStream {
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for BoundedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for BoundedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Serves `GET /metrics` until the process ends.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
}

impl MetricsServer {
    /// Serves the metrics of the array behind `operator` on `address`, which must be a loopback address; port 0 takes a
    /// free one.
    ///
    /// # Errors
    /// [`ServeError`]: an address that is no loopback address or is taken.
    pub fn start(address: SocketAddr, operator: Operator) -> Result<Self, ServeError> {
        let listener = LoopbackListener::bind(address)?;
        let address = listener.address();
        listener.serve("metrics", Router::new().route("/metrics", get(metrics)).with_state(operator))?;
        Ok(Self { address })
    }

    /// Where they are served.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn metrics(State(operator): State<Operator>) -> Response {
    let asked = tokio::task::spawn_blocking(move || operator.ask(Command::Status)).await;
    match asked {
        Ok(Ok(Answer::Status(status))) => {
            ([(header::CONTENT_TYPE, CONTENT_TYPE)], render(&status)).into_response()
        }
        _ => (StatusCode::SERVICE_UNAVAILABLE, "the array has stopped\n").into_response(),
    }
}
