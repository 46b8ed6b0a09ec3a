//! The threads of a run: what they wait for, how many there are, and what the control thread does when a connector panics.
use crate::support::{assert_cannot_go_on, driver, pipe, record, sorted, texts};
use keyfold::operator::process::ProcessError;
use keyfold::operator::{KeyedProcess, ProcessContext, StateScope, ValueState};
use keyfold::sink::{OutboxSink, SinkError};
use keyfold::source::{RecordSink, Source, SourceError, SourceReader};
use keyfold::testing::{MemoryBroker, TestDriver};
use keyfold::topology::Job;
use keyfold::types::codec::{LongBe, Utf8};
use keyfold::types::{OutputRef, Position, Sequence, Shard, TopicInfo};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What a served source does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Serve {
    Well,
    Panic,
    Fatal,
}

/// A source whose polls are counted, and which is told how to be served.
struct Watched {
    inner: Box<dyn Source>,
    polls: Arc<AtomicU64>,
    serve: Arc<Mutex<Serve>>,
}

impl Source for Watched {
    fn describe(&self) -> String {
        self.inner.describe()
    }
    fn topic(&self) -> String {
        self.inner.topic()
    }
    fn topic_info(&mut self) -> Result<TopicInfo, SourceError> {
        self.inner.topic_info()
    }
    fn start_positions(&mut self) -> Result<Vec<Position>, SourceError> {
        self.inner.start_positions()
    }
    fn open(&mut self, lanes: &[Vec<Position>]) -> Result<Vec<Box<dyn SourceReader>>, SourceError> {
        let readers = self.inner.open(lanes)?.into_iter();
        let watched = |inner| {
            let polls = self.polls.clone();
            Box::new(WatchedReader { inner, polls }) as Box<dyn SourceReader>
        };
        Ok(readers.map(watched).collect())
    }
    fn serve(&mut self) -> Result<(), SourceError> {
        let told = *self.serve.lock().expect("not poisoned");
        match told {
            Serve::Well => Ok(()),
            Serve::Panic => panic!("as told"),
            Serve::Fatal => Err(SourceError::Fatal("the topic is gone".to_owned())),
        }
    }
    fn close(&mut self) {
        self.inner.close();
    }
}

struct WatchedReader {
    inner: Box<dyn SourceReader>,
    polls: Arc<AtomicU64>,
}

impl SourceReader for WatchedReader {
    fn poll(&mut self, max_wait: Duration, out: &mut dyn RecordSink) -> Result<(), SourceError> {
        self.polls.fetch_add(1, Ordering::SeqCst);
        self.inner.poll(max_wait, out)
    }
}

struct Sum {
    total: ValueState<i64>,
}

impl KeyedProcess<i64, String> for Sum {
    fn process(&mut self, item: i64, context: &mut ProcessContext<'_, String>) -> Result<(), ProcessError> {
        let total = self.total.get()?.unwrap_or(0) + item;
        self.total.set(total)?;
        context.emit(total.to_string());
        Ok(())
    }
}

/// What a test sees of the job's threads.
#[derive(Clone)]
struct View {
    polls: Arc<AtomicU64>,
    serve: Arc<Mutex<Serve>>,
    /// How often the source had been polled whenever a lane of the operator was opened.
    opened: Arc<Mutex<Vec<u64>>>,
    /// How long opening takes.
    opens_for: Duration,
}

impl View {
    fn new(opens_for: Duration) -> View {
        View {
            polls: Arc::default(),
            serve: Arc::new(Mutex::new(Serve::Well)),
            opened: Arc::default(),
            opens_for,
        }
    }

    /// Sums by key, watched.
    fn driver(&self) -> TestDriver {
        let view = self.clone();
        driver(move |broker: &MemoryBroker| {
            let job = Job::new("watched");
            let source = Watched {
                inner: broker.source("in"),
                polls: view.polls.clone(),
                serve: view.serve.clone(),
            };
            let opening = view.clone();
            job.source("items", Box::new(source), |r| {
                let text = String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned();
                text.parse::<i64>().map_err(|e| e.to_string())
            })
            .key_by_record_key("by-key")
            .process("sums", move |states: &mut StateScope| {
                opening.open();
                Sum {
                    total: states.value("total", LongBe),
                }
            })
            .to("sink", broker.target("out"), Utf8);
            job.build()
        })
    }

    fn open(&self) {
        std::thread::sleep(self.opens_for);
        let polls = self.polls.load(Ordering::SeqCst);
        self.opened.lock().expect("not poisoned").push(polls);
    }

    fn opened(&self) -> Vec<u64> {
        self.opened.lock().expect("not poisoned").clone()
    }
}

/// A source read on while lanes behind it were being opened. When a later one failed to open, the channel to it was full, nobody read it,
/// and the source lane waited for ever: so did the run, for the lane.
#[test]
fn no_source_is_polled_before_every_lane_is_open() {
    let view = View::new(Duration::from_millis(30));
    let mut driver = view.driver();
    driver.configure(|c| c.keyed_lanes = 3);
    pipe(&driver, (0..100).map(|k| record(&format!("key-{k}"), 1)));
    driver.start().expect("starts");
    driver.barrier().expect("an epoch");
    // When the topology is built, and for each lane.
    assert_eq!(view.opened(), [0; 4]);
    assert_eq!(driver.outputs("out").len(), 100);
}

/// More lanes than a shard has key groups: those beyond owned nothing, and each cost a thread, a part of the memory, and a share to wait for.
#[test]
fn there_are_as_many_keyed_lanes_as_key_groups_of_a_shard_at_most() {
    for (asked, lanes) in [(0, 1), (2, 2), (3, 3), (16, 3)] {
        let view = View::new(Duration::ZERO);
        let mut driver = view.driver();
        driver.configure(|c| (c.shards, c.max_parallelism, c.keyed_lanes) = (4, Some(12), asked));
        driver.start().expect("starts");
        for _ in 0..2 {
            pipe(&driver, (0..60).map(|k| record(&format!("{k:02}"), 1)));
            driver.barrier().expect("an epoch");
        }
        assert_eq!(view.opened().len(), 1 + lanes, "{asked} were asked for");
        let expected: Vec<String> = (0..60).flat_map(|k| [1, 2].map(|n| format!("{k:02}={n}"))).collect();
        assert_eq!(sorted(&driver.outputs("out")), expected);
    }
}

/// A connector panicked while its events were served. The run ended, and did not say whose connector it was, or why.
#[test]
fn a_source_that_cannot_be_served_ends_the_run_and_is_named() {
    let panicked: &[&str] = &["source items panicked while it was served: as told"];
    for (told, words) in [
        (Serve::Panic, panicked),
        (Serve::Fatal, &["source items: the topic is gone"]),
    ] {
        let view = View::new(Duration::ZERO);
        let mut driver = view.driver();
        driver.start().expect("starts");
        pipe(&driver, [record("a", 1)]);
        driver.barrier().expect("an epoch");
        *view.serve.lock().expect("not poisoned") = told;
        pipe(&driver, [record("a", 2)]);
        assert_cannot_go_on(driver.ended(), words);
        *view.serve.lock().expect("not poisoned") = Serve::Well;
        pipe(&driver, [record("a", 3)]);
        driver.start().expect("starts");
        driver.barrier().expect("an epoch");
        assert_eq!(texts(&driver.outputs("out")), ["a=1", "a=3", "a=6"]);
    }
}

/// A delivery that waits, and with it the commit driver.
#[derive(Clone, Default)]
struct Held {
    hold: Arc<AtomicBool>,
    waits: Arc<AtomicBool>,
}

impl OutboxSink for Held {
    fn describe(&self) -> String {
        "held".to_owned()
    }
    fn open(&mut self, _: &str) -> Result<(), SinkError> {
        Ok(())
    }
    fn deliver(&mut self, _: Shard, _: Sequence, _: &mut dyn Iterator<Item = OutputRef<'_>>) -> Result<(), SinkError> {
        while self.hold.load(Ordering::SeqCst) {
            self.waits.store(true, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

/// Also when a test fails: the driver waits for its run.
struct Release(Arc<AtomicBool>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !happened() {
        assert!(Instant::now() < until, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The figures were those of the driver's last look. A commit that took long, with a broker away, looked like a job that read nothing, and
/// a health check ended it.
#[test]
fn progress_moves_while_a_commit_lasts() {
    let held = Held::default();
    let sink = held.clone();
    let mut driver = driver(move |broker: &MemoryBroker| {
        let job = Job::new("held");
        job.source("items", broker.source("in"), |_| Ok(()))
            .key_by_record_key("by-key")
            .count("n")
            .to("sink", sink.clone(), LongBe);
        job.build()
    });
    driver.start().expect("starts");
    let release = Release(held.hold.clone());
    held.hold.store(true, Ordering::SeqCst);
    pipe(&driver, [record("a", "")]);
    wait_for("a delivery", || {
        driver.clock().advance(Duration::from_secs(1));
        held.waits.load(Ordering::SeqCst)
    });
    pipe(&driver, (0..10).map(|k| record(&format!("key-{k}"), "")));
    let progress = driver.progress().expect("runs");
    let epochs = progress.epochs();
    wait_for("reading and folding", || {
        (progress.read(), progress.folded()) == (11, 11)
    });
    assert_eq!(progress.epochs(), epochs, "the commit still lasts");
    drop(release);
    driver.barrier().expect("an epoch");
    assert_eq!(driver.progress().expect("runs").committed(), 11);
    driver.stop().expect("ends");
}
