//! `GET /metrics` on a loopback address.

use crate::error::ServeError;
use crate::metrics::{CONTENT_TYPE, render};
use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use raidlab_array::{Answer, Command, Operator};
use std::net::{SocketAddr, TcpListener};

/// Serves metrics until the process ends.
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
        if !address.ip().is_loopback() {
            return Err(ServeError::NotLoopback { address });
        }
        let failed = |source| ServeError::Metrics { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().map_err(failed)?;
        let serve = async move {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let router = Router::new().route("/metrics", get(metrics)).with_state(operator);
            axum::serve(listener, router).await
        };
        let run = move || {
            if let Err(error) = runtime.block_on(serve) {
                tracing::error!(%error, "metrics are served no longer");
            }
        };
        std::thread::Builder::new().name("metrics".into()).spawn(run).map_err(failed)?;
        Ok(Self { address: bound })
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
