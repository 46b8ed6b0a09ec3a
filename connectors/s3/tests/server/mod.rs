//! An S3 server in this process, over a directory, that fails as it is told.
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper::{Method, Request, Response, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use keyfold_s3::S3Config;
use parking_lot::Mutex;
use s3s::Body;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

pub const KEY: &str = "key";
pub const SECRET: &str = "secret";

/// What happens to a request.
#[derive(Debug, Clone)]
#[allow(dead_code, reason = "each test crate uses its part")]
pub enum Fault {
    /// It is answered with this status and code, and not done.
    Answer(u16, &'static str),
    /// It is done, and the connection is closed instead of an answer.
    LoseReply,
    /// It is not done, and the connection is closed.
    Drop,
    /// No answer comes.
    Hang,
    /// It is done as if its condition held: what is there is overwritten.
    Unconditional,
}

/// Faults of requests of a method, first come first served, and the requests so far.
#[derive(Default)]
struct Script {
    faults: VecDeque<(Method, &'static str, Fault)>,
    always: Option<(Method, Fault)>,
    seen: Vec<String>,
}

pub struct Server {
    port: u16,
    script: Arc<Mutex<Script>>,
    dir: tempfile::TempDir,
    _runtime: Runtime,
}

#[derive(Clone)]
struct Faulty {
    inner: S3Service,
    script: Arc<Mutex<Script>>,
    root: std::path::PathBuf,
    /// S3 decides a condition and writes in one act; the server of these tests does not, so writes go one at a time.
    writes: Arc<tokio::sync::Mutex<()>>,
}

impl Server {
    pub fn start() -> Server {
        let dir = tempfile::tempdir().expect("dir");
        std::fs::create_dir(dir.path().join("state")).expect("bucket");
        let mut builder = S3ServiceBuilder::new(s3s_fs::FileSystem::new(dir.path()).expect("file system"));
        builder.set_auth(SimpleAuth::from_single(KEY, SECRET));
        let script = Arc::new(Mutex::new(Script::default()));
        let faulty = Faulty {
            inner: builder.build(),
            script: script.clone(),
            root: dir.path().to_owned(),
            writes: Arc::default(),
        };
        let runtime = Runtime::new().expect("runtime");
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).expect("port");
        let port = listener.local_addr().expect("address").port();
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let service = faulty.clone();
                tokio::spawn(async move {
                    let connection = Builder::new(TokioExecutor::new());
                    let _ = connection.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Server {
            port,
            script,
            dir,
            _runtime: runtime,
        }
    }

    /// Where it listens, on loopback.
    #[allow(dead_code, reason = "each test crate uses its part")]
    pub fn port(&self) -> u16 {
        self.port
    }

    #[allow(dead_code, reason = "each test crate uses its part")]
    pub fn config(&self) -> S3Config {
        let mut config = S3Config::of_url("s3://state/team/one").expect("url");
        config.endpoint = Some(format!("http://127.0.0.1:{}", self.port));
        config.credentials = Some((KEY.to_owned(), SECRET.to_owned()));
        config.request_timeout = Duration::from_secs(2);
        config
    }

    /// The next request of the method meets the fault; one after the other.
    #[allow(dead_code, reason = "each test crate uses its part")]
    pub fn next(&self, method: Method, fault: Fault) {
        self.next_at(method, "", fault);
    }

    /// The next request of the method with this in its address meets the fault.
    #[allow(dead_code, reason = "each test crate uses its part")]
    pub fn next_at(&self, method: Method, part: &'static str, fault: Fault) {
        self.script.lock().faults.push_back((method, part, fault));
    }

    /// Every request of the method meets the fault, until None.
    pub fn always(&self, fault: Option<(Method, Fault)>) {
        self.script.lock().always = fault;
    }

    /// `METHOD /path?query` of the requests since the last call.
    #[allow(dead_code, reason = "each test crate uses its part")]
    pub fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.script.lock().seen)
    }

    /// The file of an object.
    #[allow(dead_code, reason = "each test crate uses its part")]
    pub fn file(&self, object: &str) -> std::path::PathBuf {
        self.dir.path().join("state/team/one").join(object)
    }
}

impl Faulty {
    fn fault(&self, request: &Request<Incoming>) -> Option<Fault> {
        let mut script = self.script.lock();
        script.seen.push(format!("{} {}", request.method(), request.uri()));
        if let Some((method, fault)) = &script.always
            && method == request.method()
        {
            return Some(fault.clone());
        }
        let uri = request.uri().to_string();
        let meets = |(method, part, _): &(Method, &str, Fault)| method == request.method() && uri.contains(part);
        let place = script.faults.iter().position(meets)?;
        script.faults.remove(place).map(|(_, _, fault)| fault)
    }

    async fn serve(self, mut request: Request<Incoming>) -> std::io::Result<Response<Body>> {
        let lost = || std::io::Error::other("told to fail");
        let fault = self.fault(&request);
        match fault {
            Some(Fault::Answer(status, code)) => {
                // Answering before the request has been read resets the connection.
                let _ = request.body_mut().collect().await;
                let body =
                    format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>told to fail</Message></Error>");
                return Ok(Response::builder()
                    .status(status)
                    .body(Body::from(body))
                    .expect("answer"));
            }
            Some(Fault::Drop) => return Err(lost()),
            Some(Fault::Hang) => std::future::pending::<()>().await,
            Some(Fault::Unconditional) => {
                // The condition itself is signed.
                let _ = std::fs::remove_file(self.root.join(request.uri().path().trim_start_matches('/')));
            }
            Some(Fault::LoseReply) | None => {}
        }
        let held = match *request.method() == Method::PUT {
            true => Some(self.writes.lock().await),
            false => None,
        };
        let answer = Service::call(&self.inner, request).await;
        drop(held);
        match fault {
            Some(Fault::LoseReply) => Err(lost()),
            _ => answer.map_err(|e| std::io::Error::other(format!("{e:?}"))),
        }
    }
}

impl Service<Request<Incoming>> for Faulty {
    type Response = Response<Body>;
    type Error = std::io::Error;
    type Future = std::pin::Pin<Box<dyn Future<Output = std::io::Result<Response<Body>>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        Box::pin(self.clone().serve(request))
    }
}
