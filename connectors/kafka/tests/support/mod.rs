//! One broker for the whole test binary, and small readers and writers.
pub mod raw;

use keyfold::sink::{CommitEntry, Log, LogTarget};
use keyfold::source::{Flow, RecordSink, Source, SourceError, SourceReader};
use keyfold::types::{Header, OutputRef, Position, RecordRef};
use keyfold_kafka::{KafkaConfig, KafkaLog, KafkaSource};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub struct Broker {
    pub address: String,
}

static BROKER: OnceLock<Broker> = OnceLock::new();
static NAMES: AtomicU32 = AtomicU32::new(0);

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../scripts/kafka")
        .join(name)
}

fn run(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output().expect("the script starts");
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// An address at which connections are refused at first, and later passed on to the broker.
pub struct LateDoor {
    pub address: String,
    upstream: String,
}

impl LateDoor {
    pub fn new(upstream: &str) -> LateDoor {
        LateDoor {
            address: format!("127.0.0.1:{}", free_port()),
            upstream: upstream.to_owned(),
        }
    }

    /// Open until the test program ends.
    pub fn opens_after(self, time: Duration) {
        std::thread::spawn(move || {
            std::thread::sleep(time);
            let door = TcpListener::bind(&self.address).expect("the port is still free");
            for client in door.incoming().map_while(Result::ok) {
                let broker = TcpStream::connect(&self.upstream).expect("the broker");
                pass(&client, &broker);
                pass(&broker, &client);
            }
        });
    }
}

fn pass(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
    std::thread::spawn(move || {
        // Ends with either side.
        let _ = std::io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
    });
}

fn free_port() -> String {
    let told = run(&mut Command::new(script("free-port.sh"))).stdout;
    String::from_utf8(told).expect("a number").trim().to_owned()
}

/// The broker, started at first use and stopped when the test process ends, however it ends.
pub fn broker() -> &'static Broker {
    BROKER.get_or_init(|| {
        let dir = tempfile::tempdir().expect("a directory").keep();
        let port = free_port();
        stop_with_us(&dir);
        let up = script("up.sh");
        run(Command::new(up)
            // Tests of group mode wait for the end of sessions; a broker's default is 6 s at least.
            .arg("group.min.session.timeout.ms=500")
            .env("KAFKA_DIR", &dir)
            .env("KAFKA_PORT", &port)
            .env("KAFKA_HEAP", "-Xmx512m"));
        Broker {
            address: format!("127.0.0.1:{port}"),
        }
    })
}

/// A watcher that outlives us: it waits for our end, and for that of a start that is under way (its lock), stops the broker by its pid
/// and removes its directory.
fn stop_with_us(dir: &Path) {
    let watch = "while kill -0 \"$1\" 2>/dev/null; do sleep 0.5; done; flock \"$3/up.lock\" \"$2\"; rm -rf \"$3\"";
    let pid = std::process::id().to_string();
    run(Command::new("setsid")
        .args(["--fork", "bash", "-c", watch, "watch", &pid])
        .args([&script("down.sh"), dir])
        .env("KAFKA_DIR", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null()));
}

impl Broker {
    pub fn config(&self) -> KafkaConfig {
        KafkaConfig::new(&self.address)
    }

    /// Makes a topic with a name of its own.
    pub fn topic(&self, partitions: u32, settings: &[(&str, &str)]) -> String {
        let topic = format!("t{}", NAMES.fetch_add(1, Ordering::Relaxed));
        // Records with old timestamps fall to retention within half a minute otherwise.
        let settings: Vec<_> = settings.iter().copied().chain([("retention.ms", "-1")]).collect();
        raw::create_topic(&self.address, &topic, partitions, &settings);
        topic
    }

    /// Removes all records of partition 0 below `offset`.
    pub fn delete_records(&self, topic: &str, offset: i64) {
        raw::delete_records(&self.address, topic, offset);
    }

    /// A log whose group and transactional id are `name`, with its session open.
    pub fn log(&self, name: &str, partitions: Vec<(String, i32)>, topics: &[&str]) -> KafkaLog {
        let mut log = self.closed_log(name, partitions, topics);
        log.open_session().expect("a session");
        log
    }

    pub fn closed_log(&self, name: &str, partitions: Vec<(String, i32)>, topics: &[&str]) -> KafkaLog {
        let targets = topics
            .iter()
            .map(|t| LogTarget {
                topic: (*t).to_owned(),
                max_bytes: 900_000,
            })
            .collect();
        KafkaLog::new(&self.config(), name, name, partitions, targets, Duration::from_secs(15))
    }

    pub fn read(&self, topic: &str, from: i64) -> Lane {
        Lane::open(KafkaSource::topic(&self.config(), topic), &[(0, from)])
    }
}

pub fn entry(topic: &str, offset: i64, pointer: &str) -> CommitEntry {
    let position = Position {
        topic: topic.to_owned(),
        partition: 0,
        offset,
        leader_epoch: 0,
    };
    CommitEntry {
        position,
        pointer: pointer.to_owned(),
    }
}

pub fn output<'a>(key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> OutputRef<'a> {
    OutputRef {
        sink: 0,
        timestamp: 1_700_000_000_000,
        partition: 0,
        key,
        value,
        headers: b"",
    }
}

/// Sends `count` records in one transaction of the log and ends it.
pub fn transaction(log: &mut KafkaLog, count: u32, prefix: &str, commit: bool) {
    log.begin().expect("begin");
    for n in 0..count {
        log.send(&output(Some(b"k"), Some(format!("{prefix}{n}").as_bytes())))
            .expect("send");
    }
    log.drain().expect("drain");
    if commit {
        log.commit().expect("commit")
    } else {
        log.abort().expect("abort")
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub partition: i32,
    pub offset: i64,
    pub leader_epoch: i32,
    pub timestamp: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub headers: Vec<Header>,
}

/// Collects; stops after every `stop_after` records of a call.
#[derive(Default)]
pub struct Collect {
    pub records: Vec<Seen>,
    pub ends: Vec<(i32, i64, i32)>,
    pub stop_after: usize,
    since_stop: usize,
}

impl RecordSink for Collect {
    fn record(&mut self, r: &RecordRef<'_>) -> Flow {
        self.records.push(Seen {
            partition: r.partition,
            offset: r.offset,
            leader_epoch: r.leader_epoch,
            timestamp: r.timestamp,
            key: r.key.map(<[u8]>::to_vec),
            value: r.value.map(<[u8]>::to_vec),
            headers: r.headers.to_vec(),
        });
        self.since_stop += 1;
        if self.stop_after > 0 && self.since_stop == self.stop_after {
            self.since_stop = 0;
            return Flow::Stop;
        }
        Flow::Continue
    }
    fn end_of_partition(&mut self, _topic: &str, partition: i32, offset: i64, leader_epoch: i32) {
        self.ends.push((partition, offset, leader_epoch));
    }
}

/// One lane over some partitions.
pub struct Lane {
    pub source: KafkaSource,
    pub reader: Box<dyn SourceReader>,
    pub seen: Collect,
}

impl Lane {
    pub fn open(mut source: KafkaSource, partitions: &[(i32, i64)]) -> Lane {
        let topic = source.topic();
        let at = |(partition, offset): &(i32, i64)| Position {
            topic: topic.clone(),
            partition: *partition,
            offset: *offset,
            leader_epoch: -1,
        };
        let lane = partitions.iter().map(at).collect();
        let mut readers = source.open(&[lane]).expect("opened");
        Lane {
            source,
            reader: readers.remove(0),
            seen: Collect::default(),
        }
    }

    /// Polls until `done`, at most 20 s.
    pub fn until(&mut self, done: impl Fn(&Collect) -> bool) -> Result<(), SourceError> {
        let end = Instant::now() + Duration::from_secs(20);
        while !done(&self.seen) {
            assert!(
                Instant::now() < end,
                "{} records, ends {:?}",
                self.seen.records.len(),
                self.seen.ends
            );
            self.source.serve()?;
            self.reader.poll(Duration::from_millis(50), &mut self.seen)?;
        }
        Ok(())
    }

    pub fn values(&self) -> Vec<String> {
        let value = |r: &Seen| String::from_utf8_lossy(r.value.as_deref().unwrap_or_default()).into_owned();
        self.seen.records.iter().map(value).collect()
    }

    /// Readers before the source, as the contract says.
    pub fn close(self) {
        let Lane { mut source, reader, .. } = self;
        drop(reader);
        source.close();
    }
}
