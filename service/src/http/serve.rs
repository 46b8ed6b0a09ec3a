//! The thread, and what a connection may take.
use super::routes::router;
use crate::observe::Observed;
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle as Task;
use tokio::time::{sleep, timeout};

/// How long a connection lasts, whatever it does. An answer takes milliseconds; a scrape over a bad network some seconds.
const CONNECTION_TIME: Duration = Duration::from_secs(10);
/// How long its request may take to arrive.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Bytes of a request's head: a scraper sends some hundred, and the library takes no less than 8 KiB.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Header fields of a request.
const HEADERS_MAX: usize = 64;
/// Connections at a time. Beyond it the oldest is closed: a scraper needs one for some milliseconds.
const CONNECTIONS_MAX: usize = 64;
/// How often the thread looks whether it should end.
const STEP: Duration = Duration::from_millis(100);

/// The address cannot be served. Nothing has begun.
#[derive(Debug, thiserror::Error)]
#[error("http.listen {address}: {reason}{way_out}")]
pub struct HttpError {
    address: String,
    reason: io::Error,
    way_out: &'static str,
}

impl HttpError {
    fn new(address: &str, reason: io::Error) -> HttpError {
        let way_out = match reason.kind() {
            io::ErrorKind::AddrInUse => {
                "; another process listens there: choose another port (--http-listen 127.0.0.1:0 takes a free one), or none (--http-listen off)"
            }
            io::ErrorKind::PermissionDenied => "; ports below 1024 are for root: choose a higher one",
            io::ErrorKind::AddrNotAvailable => {
                "; this machine does not have the address: 127.0.0.1 is for itself, 0.0.0.0 for all"
            }
            _ => "; give host:port, or off",
        };
        HttpError {
            address: address.to_owned(),
            reason,
            way_out,
        }
    }
}

/// Serves until it is dropped.
#[derive(Debug)]
pub struct Server {
    address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on `host:port`; port 0 takes a free one.
    ///
    /// # Errors
    /// [`HttpError`] with the way out.
    pub fn start(address: &str, observed: &Observed) -> Result<Server, HttpError> {
        let wrong = |reason| HttpError::new(address, reason);
        let listener = StdListener::bind(address).map_err(wrong)?;
        listener.set_nonblocking(true).map_err(wrong)?;
        let bound = listener.local_addr().map_err(wrong)?;
        let ends: Arc<AtomicBool> = Arc::default();
        let (end, router) = (ends.clone(), router(observed.clone()));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(wrong)?;
        let thread = std::thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || runtime.block_on(listen(listener, &router, &end)))
            .map_err(wrong)?;
        Ok(Server {
            address: bound,
            ends,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been told on standard error; the job is not touched by it.
            let _ = thread.join();
        }
    }
}

async fn listen(listener: StdListener, router: &Router, ends: &AtomicBool) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(%error, "health and metrics are not served");
            return;
        }
    };
    let mut connections: VecDeque<Task<()>> = VecDeque::new();
    while !ends.load(Ordering::SeqCst) {
        match timeout(STEP, listener.accept()).await {
            Err(_) => {}
            Ok(Ok((stream, _))) => {
                connections.retain(|connection| !connection.is_finished());
                if connections.len() >= CONNECTIONS_MAX
                    && let Some(oldest) = connections.pop_front()
                {
                    oldest.abort();
                }
                connections.push_back(tokio::spawn(answer(stream, router.clone())));
            }
            Ok(Err(error)) => {
                // Too many open files, mostly: waiting keeps the thread from spinning.
                tracing::debug!(%error, "a connection was not taken");
                sleep(STEP).await;
            }
        }
    }
}

async fn answer(stream: TcpStream, router: Router) {
    let connection = http1::Builder::new()
        .keep_alive(false)
        .half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    match timeout(CONNECTION_TIME, connection).await {
        Ok(Ok(())) => {}
        // Whatever a client did wrong: its own business.
        Ok(Err(error)) => tracing::debug!(%error, "a request was not answered"),
        Err(_) => tracing::debug!("a connection took too long"),
    }
}
