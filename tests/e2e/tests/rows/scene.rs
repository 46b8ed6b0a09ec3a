//! A job with topics and directories of its own.
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use keyfold_checker::{Checker, PointerWatch, Report, Running, WatchOptions, Watching};
use keyfold_e2e::worker::Told;
use keyfold_e2e::{Broker, Feed, FeedOptions, Worker, WorkerOptions};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tempfile::TempDir;

/// Far beyond what anything takes on a busy machine.
pub const LONG: Duration = Duration::from_secs(180);

pub struct Scene<'a> {
    pub broker: &'a Broker,
    pub input: String,
    pub output: String,
    pub job: String,
    pub dir: TempDir,
    /// Its watch reads stable, see [`WatchOptions`].
    pub stable: bool,
}

/// What the group has committed for one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    pub partition: i32,
    pub offset: i64,
    /// The id of the epoch that the pointer names.
    pub epoch: String,
}

impl<'a> Scene<'a> {
    pub fn new(broker: &'a Broker, name: &str, partitions: i32) -> Scene<'a> {
        let topic = |what: &str| {
            broker
                .fresh_topic(&format!("{name}-{what}"), partitions)
                .expect("topic")
        };
        let (input, output) = (topic("in"), topic("out"));
        Scene::over(broker, name, input, output)
    }

    /// With topics that are there already.
    pub fn over(broker: &'a Broker, name: &str, input: String, output: String) -> Scene<'a> {
        Scene {
            broker,
            job: format!("{name}-{input}"),
            input,
            output,
            dir: tempfile::tempdir().expect("directory"),
            stable: false,
        }
    }

    pub fn options(&self, faults: &str, more: &[&str]) -> WorkerOptions {
        WorkerOptions {
            brokers: self.broker.bootstrap(),
            input: self.input.clone(),
            output: self.output.clone(),
            job: self.job.clone(),
            state_dir: self.dir.path().join("state"),
            store_dir: self.dir.path().join("store"),
            epoch_ms: 300,
            take_over: false,
            at_least_once: false,
            faults: (!faults.is_empty()).then(|| faults.to_owned()),
            more: more.iter().map(|arg| (*arg).to_owned()).collect(),
            log: self.dir.path().join("worker.log"),
        }
    }

    pub fn worker(&self, faults: &str, more: &[&str]) -> Worker {
        Worker::start(&self.options(faults, more)).expect("worker")
    }

    pub fn feed(&self, rate: u64) -> Feed {
        let options = FeedOptions {
            brokers: self.broker.bootstrap(),
            topic: self.input.clone(),
            rate,
            keys: 100,
            seed: 1,
        };
        Feed::start(options).expect("feed")
    }

    pub fn checker(&self) -> Running {
        Checker::start(&self.broker.bootstrap(), &self.input, &self.output).expect("checker")
    }

    pub fn watch(&self) -> Watching {
        let options = WatchOptions {
            brokers: self.broker.bootstrap(),
            job: self.job.clone(),
            stage: None,
            topics: vec![self.input.clone()],
            store: self.dir.path().join("store"),
            stable: self.stable,
        };
        PointerWatch::start(options).expect("watch")
    }

    pub fn group(&self) -> String {
        format!("{}.input", self.job)
    }

    /// What is committed, for the partitions that have something; waits until no transaction on the offsets is open.
    pub fn committed(&self) -> Vec<Committed> {
        self.committed_under("read_committed")
    }

    /// The same without waiting: what an open transaction would change is not there yet.
    pub fn committed_so_far(&self) -> Vec<Committed> {
        self.committed_under("read_uncommitted")
    }

    fn committed_under(&self, isolation: &str) -> Vec<Committed> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", self.broker.bootstrap())
            .set("group.id", self.group())
            .set("isolation.level", isolation)
            .set("log_level", "2")
            .create()
            .expect("consumer");
        let count = partitions(&consumer, &self.input);
        wait("committed offsets", || {
            let mut list = TopicPartitionList::new();
            list.add_partition_range(&self.input, 0, count - 1);
            let found = consumer.committed_offsets(list, Duration::from_secs(10)).ok()?;
            let elements = found.elements();
            elements.iter().all(|e| e.error().is_ok()).then_some(())?;
            let told = elements.iter().filter_map(|e| match e.offset() {
                Offset::Offset(offset) => Some(Committed {
                    partition: e.partition(),
                    offset,
                    epoch: e.metadata().split(';').nth(3).unwrap_or_default().to_owned(),
                }),
                _ => None,
            });
            Some(told.collect())
        })
    }

    /// The id of the epoch that the pointers name, the same for all partitions.
    pub fn committed_epoch(&self) -> String {
        let committed = self.committed_so_far();
        let first = committed.first().expect("something is committed").epoch.clone();
        assert!(committed.iter().all(|c| c.epoch == first), "{committed:?}");
        first
    }

    /// Epoch objects of the store by file name, with their bytes; also what was left half written.
    pub fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let folder: PathBuf = self.dir.path().join("store/jobs").join(&self.job).join("input/epochs");
        let entry = |path: &Path| {
            let name = path.file_name()?.to_str()?.to_owned();
            Some((name, fs::read(path).ok()?))
        };
        let Ok(entries) = fs::read_dir(folder) else {
            return BTreeMap::new();
        };
        entries.filter_map(|e| entry(&e.ok()?.path())).collect()
    }

    /// Everything is produced and answered, the worker ends in good order and nothing is lost, duplicated, stale or left open.
    pub fn finish(&self, feed: Feed, minimum: u64, checker: Running, worker: Worker) -> Told {
        self.finish_all(feed, minimum, checker, vec![worker]).remove(0)
    }

    /// As [`Scene::finish`], with several workers that share the partitions.
    pub fn finish_all(&self, feed: Feed, minimum: u64, checker: Running, workers: Vec<Worker>) -> Vec<Told> {
        let count = feed.finish(minimum, LONG).expect("produced");
        let told = self.answered(&checker, count, workers);
        let report = self.judge(checker);
        assert!(report.ok(), "{report}: {:?}", report.offenders);
        assert_eq!(report.counts.records_in, count);
        told
    }

    fn answered(&self, checker: &Running, count: u64, workers: Vec<Worker>) -> Vec<Told> {
        let lines = || workers.iter().map(|w| w.told().last_lines).collect::<Vec<_>>();
        wait("all outputs", || {
            assert_eq!(checker.violation(), None, "{:?}", lines());
            let counts = checker.counts();
            (counts.records_in >= count && counts.records_out >= counts.records_in).then_some(())
        });
        workers.into_iter().map(stop).collect()
    }

    /// The verdict at the end. It needs the end of both topics, which a transaction that is open would hide, and offsets that none holds.
    pub fn judge(&self, checker: Running) -> Report {
        let report = checker.finish(LONG).expect("no transaction is open");
        self.committed();
        report
    }
}

pub fn partitions(consumer: &BaseConsumer, topic: &str) -> i32 {
    wait("the topic's partitions", || {
        let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(10)).ok()?;
        let count = metadata.topics().first()?.partitions().len();
        i32::try_from(count).ok().filter(|count| *count > 0)
    })
}

/// Asks until there is an answer.
pub fn wait<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begin.elapsed() < LONG, "{what}: not within {LONG:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the worker tells something.
pub fn until(worker: &mut Worker, what: &str, fits: impl Fn(&Told) -> bool) -> Told {
    let found = worker.wait_for(LONG, fits).expect("asked");
    assert!(found, "{what}: {:?}", worker.told().last_lines);
    worker.told()
}

/// SIGTERM; it ends with exit code 0 and tells its counters.
pub fn stop(mut worker: Worker) -> Told {
    worker.signal(libc::SIGTERM).expect("runs");
    let status = worker.wait(LONG).expect("asked").expect("ends in time");
    let told = worker.told();
    assert!(status.success(), "{status}: {:?}", told.last_lines);
    told
}

/// Waits until it ends by itself: exit code and last lines.
pub fn end_of(mut worker: Worker) -> (i32, String, Told) {
    let status = worker.wait(LONG).expect("asked").expect("ends in time");
    let told = worker.told();
    let code = status.code().unwrap_or_default();
    (code, told.last_lines.join("\n"), told)
}

/// Waits until it has killed itself at its fail point.
pub fn killed(mut worker: Worker) -> Told {
    let status = worker.wait(LONG).expect("asked").expect("ends in time");
    let told = worker.told();
    assert_eq!(status.signal(), Some(libc::SIGKILL), "{:?}", told.last_lines);
    told
}
