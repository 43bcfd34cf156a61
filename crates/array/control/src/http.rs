//! HTTP for this machine alone: a loopback address, a thread of its own, and bounds on connections. It serves metrics
//! and the studio's pages.
//!
//! ```text
//! LoopbackListener::bind ──► address ──► router made for it ──► serve: a thread with a runtime
//! ```
//! All peers have the same address here. When all places are taken, a connection that only waits, and has had time to
//! send a request, makes room for the next one (`places.rs`); until then the next one is not accepted. So
//! [`CONNECTIONS_MAX`] over [`GRACE`], 10,240 a second, must be more than attackers can open: otherwise SYNs find the
//! backlog full and are dropped, and clients get no answer for seconds. The whole head of a request has [`HEAD_LIMIT`],
//! and so has the time between two requests: hyper's `header_read_timeout`, like `client_header_timeout` of nginx and
//! `timeout http-request` of haproxy. `axum::serve` has no such timeout.
//!
//! Invariant: nothing is served on an address that others can reach.

use crate::error::ServeError;
use crate::host::HostNames;
use crate::metrics::{CONTENT_TYPE, render};
use crate::places::{GRACE, LOOK_EVERY, Places, Seat};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use raidlab_runtime::{Answer, CLIENT_CAUSED, Command, Operator, listen_tcp};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

/// Connections at once.
const CONNECTIONS_MAX: usize = 256;
/// Time for the head of a request, from the end of the one before.
const HEAD_LIMIT: Duration = Duration::from_secs(10);
/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Time for the array's answer.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(10);
/// Requests for metrics at once.
const SCRAPES_MAX: usize = 16;
/// How soon accepting is tried again that the system refused.
const RETRY_EVERY: Duration = Duration::from_millis(100);

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
        let listener = listen_tcp(address).map_err(failed)?;
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
            accept(&listener, &router).await
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

/// Lets connections in for ever.
async fn accept(listener: &tokio::net::TcpListener, router: &Router) -> io::Result<()> {
    let places = Places::new(CONNECTIONS_MAX, usize::MAX, GRACE);
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(target: CLIENT_CAUSED, %error, "an HTTP client can't be accepted");
                tokio::time::sleep(RETRY_EVERY).await;
                continue;
            }
        };
        let task = Arc::new(OnceLock::<AbortHandle>::new());
        let seat = loop {
            let ends = Arc::clone(&task);
            match places.enter(0, move || ends.get().map_or((), AbortHandle::abort)) {
                Ok(seat) => break seat,
                Err(_) => tokio::time::sleep(LOOK_EVERY).await,
            }
        };
        let connection = tokio::spawn(serve_connection(stream, router.clone(), seat));
        // Nobody else enters, and ends this one, before the next turn.
        task.get_or_init(|| connection.abort_handle());
        // What has come is taken in before the next one may need the place, however slow this thread is.
        tokio::task::yield_now().await;
    }
}

async fn serve_connection(stream: TcpStream, router: Router, seat: Seat) {
    let (router, seat) = (TowerToHyperService::new(router), Arc::new(seat));
    let service = service_fn(move |request| {
        let (answer, seat) = (router.call(request), Arc::clone(&seat));
        async move {
            seat.works();
            let answer = answer.await;
            seat.waits();
            answer
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    if let Err(error) = connection.await {
        tracing::debug!(%error, "an HTTP connection ended");
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
        let scrapes = Scrapes { operator, under_way: Arc::new(Semaphore::new(SCRAPES_MAX)) };
        let router = Router::new()
            .route("/metrics", get(metrics))
            .with_state(scrapes)
            .layer(from_fn_with_state(HostNames::of_loopback(address), check_host));
        listener.serve("metrics", router)?;
        Ok(Self { address })
    }

    /// Where they are served.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

/// What metrics are made from.
#[derive(Clone, Debug)]
struct Scrapes {
    operator: Operator,
    /// Bounds the threads that wait for the array, should it not answer.
    under_way: Arc<Semaphore>,
}

async fn check_host(State(names): State<HostNames>, request: Request, next: Next) -> Response {
    if names.are_named_by(&request) {
        return next.run(request).await;
    }
    let text = format!("the request is for another host: ask http://{}/metrics\n", names.first());
    (StatusCode::FORBIDDEN, text).into_response()
}

async fn metrics(State(scrapes): State<Scrapes>) -> Response {
    let Ok(permit) = scrapes.under_way.try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "too many ask at once\n").into_response();
    };
    let asked = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        scrapes.operator.ask(Command::Status)
    });
    match tokio::time::timeout(MEMBER_TIMEOUT, asked).await {
        Ok(Ok(Ok(Answer::Status(status)))) => {
            ([(header::CONTENT_TYPE, CONTENT_TYPE)], render(&status)).into_response()
        }
        Ok(_) => (StatusCode::SERVICE_UNAVAILABLE, "the array has stopped\n").into_response(),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "the array does not answer\n").into_response(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raidlab_runtime::operator_line;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Instant;

    /// A server of metrics whose array has stopped, which answers just as well.
    fn metrics() -> SocketAddr {
        let (operator, queue) = operator_line().expect("descriptors can be had");
        drop(queue);
        let any = "127.0.0.1:0".parse().expect("an address");
        MetricsServer::start(any, operator).expect("an address is free").address()
    }

    fn connect(address: SocketAddr) -> TcpStream {
        TcpStream::connect(address).expect("it listens")
    }

    fn ask(address: SocketAddr, host: &str) -> String {
        let mut stream = connect(address);
        let request = format!("GET /metrics HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
        let mut answer = String::new();
        // Who was turned away has no answer.
        let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read_to_string(&mut answer));
        answer
    }

    /// Issue 23, defect 3: as many connections as there are places, which never ended their request, kept everybody else out.
    #[test]
    fn half_open_connections_keep_nobody_out_and_are_ended() {
        let address = metrics();
        let begin = Instant::now();
        let half_open: Vec<_> = (0..CONNECTIONS_MAX + 64)
            .map(|_| {
                let mut stream = connect(address);
                let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nX: ");
                stream
            })
            .collect();
        let answer = ask(address, &address.to_string());
        assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains("the array has stopped"), "{answer}");
        for mut stream in half_open {
            // A reset is an end, too.
            let _ = stream.read_to_end(&mut Vec::new());
        }
        assert!(begin.elapsed() >= HEAD_LIMIT, "the last ones had their time");
    }

    /// Issue 23, defect 6: a page of any site could read them through a name of its own for this address.
    #[test]
    fn metrics_are_for_requests_to_this_host_only() {
        let address = metrics();
        let port = address.port();
        for (host, expected) in [
            (address.to_string(), "503"),
            (format!("LocalHost:{port}"), "503"),
            ("evil.example".to_owned(), "403"),
            (format!("evil.example:{port}"), "403"),
            ("127.0.0.1".to_owned(), "403"),
            (format!("127.0.0.1:{port}\r\nhost: 127.0.0.1:{port}"), "403"),
        ] {
            let answer = ask(address, &host);
            assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "{host}: {answer}");
        }
    }
}
