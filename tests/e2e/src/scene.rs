//! One job on a broker: its topics, its feed, its workers, its judge. For tests: whatever goes wrong here is a panic.
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use keyfold_checker::pointer::Pointer;
use keyfold_checker::{Checker, Report, Running};
use rdkafka::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tempfile::TempDir;

use crate::broker::free_port;
use crate::worker::Told;
use crate::{Broker, BrokerOptions, Feed, FeedOptions, Proxy, Worker, WorkerOptions};

/// No wait of these tests takes that long on a machine that is not overloaded beyond use.
pub const LONG: Duration = Duration::from_secs(120);
/// Of the topics of a scene.
pub const PARTITIONS: i32 = 4;

/// The broker of the tests that hold its answers back, with the proxy before it. One test at a time.
#[derive(Debug)]
pub struct Proxied {
    /// The broker.
    pub broker: Broker,
    /// What its clients are sent through.
    pub proxy: Proxy,
}

/// Waits for its turn; the rules of whoever was there before are gone.
pub fn proxied() -> MutexGuard<'static, Proxied> {
    static SHARED: OnceLock<Mutex<Proxied>> = OnceLock::new();
    let start = || {
        let port = free_port().expect("port");
        let proxy = Proxy::start(SocketAddr::from(([127, 0, 0, 1], port))).expect("proxy");
        let options = BrokerOptions {
            advertised: Some(proxy.address()),
            remove: true,
            ..BrokerOptions::default()
        };
        let dir = std::env::temp_dir().join(format!("keyfold-proxied-{}", std::process::id()));
        let broker = Broker::start_with(&dir, port, options).expect("a broker behind a proxy");
        Mutex::new(Proxied { broker, proxy })
    };
    let held = SHARED.get_or_init(start).lock();
    let held = held.unwrap_or_else(PoisonError::into_inner);
    held.proxy.clear();
    held
}

/// Where the last record was delivered to.
#[derive(Default)]
struct Delivered(Mutex<Option<(i32, i64)>>);

impl ClientContext for Delivered {}

impl ProducerContext for Delivered {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        let place = result.as_ref().ok().map(|m| (m.partition(), m.offset()));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = place;
    }
}

/// The job `name`, its topics fresh, its feed not started.
pub struct Scene {
    /// The brokers.
    pub brokers: String,
    /// State, store and logs.
    pub dir: TempDir,
    /// The topic that is read.
    pub input: String,
    /// The topic that is written.
    pub output: String,
    /// The job's id.
    pub job: String,
    checker: Running,
    feed: Option<Feed>,
}

impl Scene {
    /// A scene of its own on this broker.
    #[must_use]
    pub fn new(broker: &Broker, name: &str) -> Scene {
        let input = broker.fresh_topic(&format!("{name}-in"), PARTITIONS).expect("topic");
        let output = broker.fresh_topic(&format!("{name}-out"), PARTITIONS).expect("topic");
        let brokers = broker.bootstrap();
        let checker = Checker::start(&brokers, &input, &output).expect("checker");
        Scene {
            // As unlike another run's as the topic.
            job: format!("job-{input}"),
            dir: tempfile::tempdir().expect("directory"),
            brokers,
            input,
            output,
            checker,
            feed: None,
        }
    }

    /// As [`Scene::new`], and records flow.
    pub fn flowing(broker: &Broker, name: &str) -> Scene {
        let mut scene = Scene::new(broker, name);
        scene.flow();
        scene
    }

    /// Records flow from now on.
    pub fn flow(&mut self) {
        let options = FeedOptions {
            brokers: self.brokers.clone(),
            topic: self.input.clone(),
            rate: 500,
            keys: 100,
            seed: 7,
        };
        self.feed = Some(Feed::start(options).expect("feed"));
    }

    /// So many records and no more.
    pub fn feed_exactly(&mut self, count: u64) {
        self.flow();
        let feed = self.feed.take().expect("flows");
        assert_eq!(feed.finish(count, LONG).expect("produced"), count);
    }

    /// `who` has a state directory of its own.
    pub fn options(&self, who: &str, faults: &str) -> WorkerOptions {
        WorkerOptions {
            brokers: self.brokers.clone(),
            input: self.input.clone(),
            output: self.output.clone(),
            job: self.job.clone(),
            state_dir: self.dir.path().join(who),
            store_dir: self.store_dir(),
            epoch_ms: 200,
            take_over: false,
            at_least_once: false,
            faults: (!faults.is_empty()).then(|| faults.to_owned()),
            more: Vec::new(),
            log: self.dir.path().join(format!("{who}.log")),
        }
    }

    /// The checkpoint store.
    #[must_use]
    pub fn store_dir(&self) -> PathBuf {
        self.dir.path().join("store")
    }

    /// The consumer group.
    pub fn group(&self) -> String {
        format!("{}.input", self.job)
    }

    /// Starts a worker that processes records when this returns.
    pub fn start(&self, who: &str, faults: &str) -> Worker {
        started(&self.options(who, faults))
    }

    /// As [`Scene::start`], with time-outs that a test can wait for.
    pub fn start_hasty(&self, who: &str, faults: &str) -> Worker {
        started(&self.hasty(who, faults))
    }

    /// Options for [`Scene::start_hasty`].
    pub fn hasty(&self, who: &str, faults: &str) -> WorkerOptions {
        let mut options = self.options(who, faults);
        options.more = vec!["--transaction-timeout-ms".into(), "3000".into()];
        options
    }

    /// Starts a worker that is to refuse, and returns its exit code and what it said.
    pub fn refused(&self, options: &WorkerOptions) -> (Option<i32>, String) {
        ended(&mut Worker::start(options).expect("worker"))
    }

    /// How often this worker was fenced while it published. (Sessions that it opens anew because a commit was slow on a
    /// busy machine are not counted.)
    pub fn fences(&self, who: &str) -> usize {
        self.log(who).matches("kind=Fenced").count()
    }

    /// Waits until this is in the worker's log.
    pub fn until_it_says(&self, who: &str, what: &str) {
        let begin = Instant::now();
        while !self.log(who).contains(what) {
            assert!(begin.elapsed() < LONG, "it never says {what}: {}", self.log(who));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What the worker has printed so far, its events left out.
    #[must_use]
    pub fn log(&self, who: &str) -> String {
        std::fs::read_to_string(self.dir.path().join(format!("{who}.log"))).expect("a log")
    }

    /// What is wrong so far.
    pub fn violation(&self) -> Option<String> {
        self.checker.violation()
    }

    /// Waits for the judge to find fault.
    pub fn wait_for_violation(&self) -> Option<String> {
        let begin = Instant::now();
        while self.violation().is_none() && begin.elapsed() < LONG {
            std::thread::sleep(Duration::from_millis(50));
        }
        self.violation()
    }

    /// Ends the feed, waits until everything is answered or something is wrong, ends the workers in good order, judges.
    pub fn finish<W: IntoIterator<Item = Worker>>(mut self, workers: W) -> Report {
        let mut workers: Vec<Worker> = workers.into_iter().collect();
        if let Some(feed) = self.feed.take() {
            feed.finish(1, LONG).expect("produced");
        }
        let answered = self.checker.wait_until_answered(LONG);
        let told: Vec<Told> = workers.iter().map(Worker::told).collect();
        assert!(answered || self.violation().is_some(), "no answers: {told:?}");
        for worker in &mut workers {
            worker.signal(libc::SIGTERM).expect("alive");
            assert_eq!(ended(worker).0, Some(0), "{:?}", worker.told());
        }
        self.checker.finish(LONG).expect("judged")
    }

    /// As [`Scene::finish`], and nothing is lost, duplicated or stale.
    pub fn finish_right<W: IntoIterator<Item = Worker>>(self, workers: W) {
        let report = self.finish(workers);
        assert!(
            report.ok() && report.counts.records_in > 0,
            "{report} {:?}",
            report.offenders
        );
    }

    /// As [`Scene::finish`], and outputs are there twice.
    pub fn finish_doubled<W: IntoIterator<Item = Worker>>(self, workers: W) {
        let report = self.finish(workers);
        assert!(report.counts.duplicated > 0, "the switch has broken nothing: {report}");
    }

    /// The epoch that is committed, read stable, and the sum of the committed offsets: the records that it covers.
    pub fn committed(&self) -> Option<(String, u64)> {
        let list = self.partitions();
        let found = self
            .group_consumer()
            .committed_offsets(list, LONG)
            .expect("committed offsets");
        let elements = found.elements();
        let pointer = Pointer::parse(elements.first()?.metadata()).ok()?;
        let offset = |e: &rdkafka::topic_partition_list::TopicPartitionListElem<'_>| match e.offset() {
            Offset::Offset(offset) => u64::try_from(offset).unwrap_or(0),
            _ => 0,
        };
        Some((pointer.epoch.to_string(), elements.iter().map(offset).sum()))
    }

    /// The committed offsets with their metadata, under this job's group.
    pub fn committed_list(&self) -> TopicPartitionList {
        self.group_consumer()
            .committed_offsets(self.partitions(), LONG)
            .expect("committed offsets")
    }

    /// The committed offsets with their metadata as they are, also while a transaction over them is open.
    pub fn glanced_list(&self) -> TopicPartitionList {
        self.group_consumer_with("read_uncommitted")
            .committed_offsets(self.partitions(), LONG)
            .expect("committed offsets")
    }

    /// [`Scene::glanced_list`]: the offset of each partition, -1 for none.
    pub fn glanced_offsets(&self) -> BTreeMap<i32, i64> {
        let list = self.glanced_list();
        let offset = |offset: Offset| offset.to_raw().filter(|o| *o >= 0).unwrap_or(-1);
        list.elements()
            .iter()
            .map(|e| (e.partition(), offset(e.offset())))
            .collect()
    }

    /// One record more than the feed's, where its key says or in another partition; where it lies.
    pub fn produce(&self, partition: Option<i32>, key: &str, value: i64) -> (i32, i64) {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            .set("partitioner", "murmur2_random")
            .set("log_level", "2");
        let producer: BaseProducer<Delivered> = config.create_with_context(Delivered::default()).expect("producer");
        let value = value.to_string();
        let record = BaseRecord::to(&self.input).key(key).payload(&value);
        let record = partition.into_iter().fold(record, BaseRecord::partition);
        producer.send(record).map_err(|(error, _)| error).expect("taken");
        producer.flush(LONG).expect("delivered");
        let place = producer.context().0.lock().unwrap_or_else(PoisonError::into_inner);
        place.expect("delivered")
    }

    /// Commits offsets under this job's group, as another program would.
    pub fn plant(&self, list: &TopicPartitionList) {
        self.group_consumer().commit(list, CommitMode::Sync).expect("committed");
    }

    /// A transaction of another producer over this group's offsets of these partitions, which stays open.
    pub fn undecided_offsets(&self, partitions: Range<i32>) -> BaseProducer {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            .set("transactional.id", format!("foreign-{}", self.job))
            .set("log_level", "2");
        let producer: BaseProducer = config.create().expect("producer");
        producer.init_transactions(LONG).expect("initialised");
        producer.begin_transaction().expect("begun");
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&self.input, partitions.start, partitions.end - 1);
        list.set_all_offsets(Offset::Offset(0)).expect("offsets");
        let group = self.group_consumer().group_metadata().expect("group metadata");
        let sent = producer.send_offsets_to_transaction(&list, &group, LONG);
        sent.expect("sent");
        producer
    }

    fn partitions(&self) -> TopicPartitionList {
        let mut list = TopicPartitionList::new();
        list.add_partition_range(&self.input, 0, PARTITIONS - 1);
        list
    }

    fn group_consumer(&self) -> BaseConsumer {
        self.group_consumer_with("read_committed")
    }

    fn group_consumer_with(&self, isolation: &str) -> BaseConsumer {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            .set("group.id", self.group());
        config.set("isolation.level", isolation).set("log_level", "2");
        config.create().expect("consumer")
    }

    /// Waits until no transaction is open on the output: the broker has aborted it.
    pub fn wait_until_no_transaction_is_open(&self) {
        let begin = Instant::now();
        let (stable, all) = (self.reader("read_committed"), self.reader("read_uncommitted"));
        let end = |reader: &BaseConsumer, p| reader.fetch_watermarks(&self.output, p, LONG).expect("watermarks").1;
        while (0..PARTITIONS).any(|p| end(&stable, p) != end(&all, p)) {
            assert!(begin.elapsed() < LONG, "a transaction stays open");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    fn reader(&self, isolation: &str) -> BaseConsumer {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.brokers)
            .set("isolation.level", isolation);
        config.set("group.id", "watermarks").set("log_level", "2");
        config.create().expect("consumer")
    }
}

/// Starts a worker that processes records when this returns.
pub fn started(options: &WorkerOptions) -> Worker {
    let mut worker = Worker::start(options).expect("worker");
    until(&mut worker, "started", |t| t.started.is_some());
    worker
}

/// Waits until what the worker tells fits.
pub fn until(worker: &mut Worker, what: &str, fits: impl Fn(&Told) -> bool) {
    let came = worker.wait_for(LONG, fits).expect("asked");
    assert!(came, "never {what}: {:?} {:?}", worker.ended(), worker.told());
}

/// Waits until it has committed more records than now.
pub fn until_it_commits(worker: &mut Worker) {
    let before = worker.told().committed;
    until(worker, "committed more", move |t| t.committed > before + 100);
}

/// Waits until it ends by itself: its exit code, and what it said last.
pub fn ended(worker: &mut Worker) -> (Option<i32>, String) {
    let status = worker.wait(LONG).expect("asked");
    let said = worker.told().last_lines.join("\n");
    (status.unwrap_or_else(|| panic!("it does not end: {said}")).code(), said)
}

/// Waits until the process has stopped itself at a fail point.
pub fn until_it_stops_itself(worker: &Worker) {
    let begin = Instant::now();
    let path = format!("/proc/{}/stat", worker.pid());
    loop {
        let stat = std::fs::read_to_string(&path).expect("it lives");
        // `pid (name) state`, and the name has no parenthesis.
        if stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T')) {
            return;
        }
        assert!(begin.elapsed() < LONG, "it does not stop: {:?}", worker.told());
        std::thread::sleep(Duration::from_millis(20));
    }
}
