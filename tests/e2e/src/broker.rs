//! A real broker for a test, with the scripts of `scripts/kafka`.
use std::fs;
use std::future::Future;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context as TaskContext, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;

use crate::guard::{Guard, die_with_parent, repo_root, signal};
use crate::proxy::Proxy;

/// How a broker is started.
#[derive(Debug, Clone, Default)]
pub struct BrokerOptions {
    /// `host:port` told to clients; the broker's own address when none.
    pub advertised: Option<String>,
    /// What clients connect to, when the broker is one of several; its advertised address when none.
    pub bootstrap: Option<String>,
    /// The cluster that it is one of; one of its own when none.
    pub cluster_id: Option<String>,
    /// Broker properties, `name=value`.
    pub properties: Vec<String>,
    /// Its heap, and whatever else its JVM is told; 512 MiB when none.
    pub heap: Option<String>,
    /// Remove the directory when the broker is stopped for good.
    pub remove: bool,
}

/// A broker process. Dropping it stops it; so does the end of this process, whatever its reason.
#[derive(Debug)]
pub struct Broker {
    dir: PathBuf,
    port: u16,
    options: BrokerOptions,
    guard: Guard,
}

impl Broker {
    /// Starts a broker with its data in `dir` on a port of the loopback interface and waits until it answers. The next
    /// port is taken as well.
    ///
    /// # Errors
    /// With what the script says.
    pub fn start(dir: &Path, port: u16) -> Result<Broker> {
        Broker::start_with(dir, port, BrokerOptions::default())
    }

    /// As [`Broker::start`], with options.
    ///
    /// # Errors
    /// With what the script says.
    pub fn start_with(dir: &Path, port: u16, options: BrokerOptions) -> Result<Broker> {
        fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
        let dir = dir.canonicalize()?;
        let down = repo_root().join("scripts/kafka/down.sh");
        let remove = if options.remove {
            r#"rm -rf -- "$KAFKA_DIR""#
        } else {
            ":"
        };
        let text = |path: &Path| path.to_str().map(str::to_owned).context("a path is not UTF-8");
        let script = format!(r#""$KEYFOLD_DOWN"; {remove}"#);
        let guard = Guard::arm(&script, &[("KEYFOLD_DOWN", &text(&down)?), ("KAFKA_DIR", &text(&dir)?)])?;
        let broker = Broker {
            dir,
            port,
            options,
            guard,
        };
        broker.restart()?;
        Ok(broker)
    }

    /// Starts a broker that sends its clients through a proxy.
    ///
    /// # Errors
    /// With what the script says.
    pub fn start_behind_proxy(dir: &Path) -> Result<(Broker, Proxy)> {
        let port = free_port()?;
        let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], port)))?;
        let options = BrokerOptions {
            advertised: Some(proxy.address()),
            ..BrokerOptions::default()
        };
        Ok((Broker::start_with(dir, port, options)?, proxy))
    }

    /// The broker of this test program: started by the first that asks, stopped when the program ends.
    ///
    /// # Panics
    /// When it cannot be started: the tests cannot run then.
    #[must_use]
    pub fn shared() -> &'static Broker {
        static SHARED: OnceLock<Broker> = OnceLock::new();
        SHARED.get_or_init(|| {
            let dir = std::env::temp_dir().join(format!("keyfold-broker-{}", std::process::id()));
            let options = BrokerOptions {
                remove: true,
                ..BrokerOptions::default()
            };
            let broker = free_port().and_then(|port| Broker::start_with(&dir, port, options));
            broker.expect("a broker for the tests")
        })
    }

    /// What clients connect to: the advertised address, or those of the whole cluster.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.options.bootstrap.clone().unwrap_or_else(|| self.advertised())
    }

    fn advertised(&self) -> String {
        self.options.advertised.clone().unwrap_or_else(|| self.direct())
    }

    /// The broker's own address. Clients that start here are sent to the advertised one.
    #[must_use]
    pub fn direct(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The process id, when it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        let pid: u32 = fs::read_to_string(self.dir.join("broker.pid"))
            .ok()?
            .trim()
            .parse()
            .ok()?;
        let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let settings = self.dir.join("server.properties");
        // Another process may have got the number since: it has to be ours by its command line.
        command
            .split(|b| *b == 0)
            .any(|arg| arg == settings.as_os_str().as_encoded_bytes())
            .then_some(pid)
    }

    /// Kills it with SIGKILL and waits until it is gone; its data stays.
    ///
    /// # Errors
    /// When it does not run, or does not go.
    pub fn kill9(&self) -> Result<u32> {
        let pid = self.pid().context("the broker does not run")?;
        signal(pid, libc::SIGKILL).context("killing the broker")?;
        let begin = Instant::now();
        while self.pid().is_some() {
            ensure!(
                begin.elapsed() < Duration::from_secs(10),
                "the broker {pid} survives SIGKILL"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(pid)
    }

    /// Starts it again on its data, and waits until it answers. Does nothing when it runs.
    ///
    /// # Errors
    /// With what the script says.
    pub fn restart(&self) -> Result<()> {
        let mut command = self.script("up.sh");
        command.args(&self.options.properties);
        run(&mut command)
    }

    /// Stops it in good order; it can be started again.
    ///
    /// # Errors
    /// With what the script says.
    pub fn stop(&self) -> Result<()> {
        run(&mut self.script("down.sh"))
    }

    /// Runs one of Kafka's command line tools (`topics.sh`, `consumer-groups.sh` ...) on this broker; its output.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub fn tool(&self, script: &str, args: &[&str]) -> Result<String> {
        let output = self
            .script(script)
            .args(args)
            .output()
            .with_context(|| format!("running {script}"))?;
        ensure!(
            output.status.success(),
            "{script}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Creates a topic and waits until it is there.
    ///
    /// # Errors
    /// When the broker refuses.
    pub fn create_topic(&self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Result<()> {
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", self.bootstrap())
            .set("log_level", "2")
            .create()?;
        // -1: as many copies as the broker's setting says.
        let topic = NewTopic::new(name, partitions, TopicReplication::Fixed(-1));
        let topic = configs.iter().fold(topic, |topic, (key, value)| topic.set(key, value));
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
        let results = block_on(admin.create_topics([&topic], &options)).context("creating a topic")?;
        for result in results {
            if let Err((name, code)) = result {
                bail!("creating the topic {name}: {code}");
            }
        }
        self.wait_for_topic(&admin, name)
    }

    /// A topic is there for clients a moment after its creation is acknowledged.
    fn wait_for_topic(&self, admin: &AdminClient<DefaultClientContext>, name: &str) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(30) {
            let found = admin.inner().fetch_metadata(Some(name), Duration::from_secs(5));
            let there = |topic: &rdkafka::metadata::MetadataTopic| {
                topic.error().is_none() && topic.partitions().iter().all(|p| p.leader() >= 0)
            };
            if found.is_ok_and(|metadata| metadata.topics().iter().all(there)) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the topic {name} was created and is not there")
    }

    /// A topic of its own for a test: the name with a number that no other test of this program has.
    ///
    /// # Errors
    /// When the broker refuses.
    pub fn fresh_topic(&self, name: &str, partitions: i32) -> Result<String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("{name}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        self.create_topic(&name, partitions, &[])?;
        Ok(name)
    }

    fn script(&self, name: &str) -> Command {
        let mut command = Command::new(repo_root().join("scripts/kafka").join(name));
        command
            .env("KAFKA_DIR", &self.dir)
            .env("KAFKA_PORT", self.port.to_string())
            .env("KAFKA_ADVERTISED", self.advertised())
            .env("KAFKA_CLUSTER_ID", self.options.cluster_id.as_deref().unwrap_or(""))
            .env("KAFKA_HEAP", self.options.heap.as_deref().unwrap_or("-Xmx512m"))
            .stdin(Stdio::null());
        // A script that outlived us could start a broker after the guard has looked for one.
        die_with_parent(&mut command);
        command
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        // The guard stops it a second time if this fails.
        let _ = self.guard.fire();
    }
}

fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("running {name}"))?;
    ensure!(
        output.status.success(),
        "{name}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// A port that is free now together with the one after it, below the range that the kernel hands out itself.
///
/// # Errors
/// When none is found.
pub fn free_port() -> Result<u16> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let start = u64::from(std::process::id()) * 7 + NEXT.fetch_add(1, Ordering::Relaxed);
    for attempt in 0..2000 {
        let port = 20_000 + ((start + attempt * 13) % 5_000) as u16 * 2;
        if [port, port + 1]
            .iter()
            .all(|p| TcpListener::bind(("127.0.0.1", *p)).is_ok())
        {
            return Ok(port);
        }
    }
    bail!("no free port")
}

/// Waits for a future on this thread: the admin client offers nothing else.
pub fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut TaskContext::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park_timeout(Duration::from_millis(100)),
        }
    }
}
