//! The watchdog of the committed pointers: polls them all the time, judges what they name.
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde::Serialize;

use crate::follow;

mod chain;
#[cfg(test)]
mod tests;

pub use chain::{Chain, Committed};

/// Time between two looks.
const PERIOD: Duration = Duration::from_millis(200);

/// How long the broker may take to answer; a look without an answer is not counted.
const CALL: Duration = Duration::from_secs(2);

/// How many violations are kept.
const VIOLATIONS_MAX: usize = 20;

/// What to watch.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// The brokers.
    pub brokers: String,
    /// The job's id.
    pub job: String,
    /// The stage's id; the group is `<job>.<stage>`. None: the only one that the store knows, once it does.
    pub stage: Option<String>,
    /// The stage's source topics.
    pub topics: Vec<String>,
    /// The checkpoint store.
    pub store: PathBuf,
    /// Looks wait until no transaction over the offsets is open. Else the broker tells what was committed last at once, which may be of an
    /// earlier time when the group's coordinator has just moved: the new one shows what it knows to be on the other brokers too, and
    /// learns that by and by.
    pub stable: bool,
}

/// What was seen.
#[derive(Debug, Clone, Default, Serialize)]
pub struct WatchReport {
    /// Looks that the broker answered.
    pub polls: u64,
    /// Looks without an answer: the broker was away.
    pub unanswered: u64,
    /// Pointers checked.
    pub checks: u64,
    /// Different epochs that were named by a pointer.
    pub epochs: u64,
    /// Bases read and verified.
    pub bases: u64,
    /// Objects read and verified, those that only links lead to included.
    pub objects: u64,
    /// What was wrong, at most 20.
    pub violations: Vec<String>,
}

impl WatchReport {
    /// True when nothing was wrong and something was seen.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.violations.is_empty() && self.epochs > 0
    }

    fn violate(&mut self, what: String) {
        if self.violations.len() < VIOLATIONS_MAX && !self.violations.contains(&what) {
            self.violations.push(what);
        }
    }
}

/// Starts watching.
pub struct PointerWatch;

impl PointerWatch {
    /// Begins to poll on a thread of its own.
    ///
    /// # Errors
    /// When a topic is not there, or no consumer can be created.
    pub fn start(options: WatchOptions) -> Result<Watching> {
        let partitions = partitions(&options)?;
        let stop = Arc::new(AtomicBool::new(false));
        let report = Arc::new(Mutex::new(WatchReport::default()));
        let (stop_too, report_too) = (stop.clone(), report.clone());
        let thread = std::thread::Builder::new()
            .name("pointer-watch".into())
            .spawn(move || watch(&options, &partitions, &stop_too, &report_too))
            .context("starting the watch")?;
        Ok(Watching {
            stop,
            report,
            thread: Some(thread),
        })
    }
}

/// A watch that goes on. Dropping it ends it.
pub struct Watching {
    stop: Arc<AtomicBool>,
    report: Arc<Mutex<WatchReport>>,
    thread: Option<JoinHandle<()>>,
}

impl Watching {
    /// What was seen so far.
    #[must_use]
    pub fn report(&self) -> WatchReport {
        lock(&self.report).clone()
    }

    /// What is wrong already, if anything.
    #[must_use]
    pub fn violation(&self) -> Option<String> {
        lock(&self.report).violations.first().cloned()
    }

    /// Looks a last time and ends.
    #[must_use]
    pub fn finish(mut self) -> WatchReport {
        self.end();
        self.report()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            lock(&self.report).violate("the watch itself has panicked".into());
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.end();
    }
}

fn lock(report: &Mutex<WatchReport>) -> MutexGuard<'_, WatchReport> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}

fn watch(options: &WatchOptions, partitions: &[(String, i32)], stop: &AtomicBool, report: &Mutex<WatchReport>) {
    let mut eyes: Option<(BaseConsumer, Chain)> = None;
    loop {
        // Read before the look, so that there is one after the end was asked for.
        let last = stop.load(Ordering::SeqCst);
        if eyes.is_none() {
            eyes = open(options).unwrap_or_else(|error| {
                lock(report).violate(format!("{error:#}"));
                None
            });
        }
        if let Some((consumer, chain)) = &mut eyes {
            let seen = look(consumer, partitions);
            let mut report = lock(report);
            match seen {
                Ok(Some(committed)) => {
                    report.polls += 1;
                    chain.observe(&committed, &mut report);
                }
                Ok(None) => report.unanswered += 1,
                Err(error) => report.violate(format!("{error:#}")),
            }
        }
        if last {
            return;
        }
        std::thread::sleep(PERIOD);
    }
}

/// The topics with their numbers of partitions.
pub(crate) fn partitions(options: &WatchOptions) -> Result<Vec<(String, i32)>> {
    let metadata = follow::consumer(&options.brokers, "read_committed")?;
    let count = |topic: &String| Ok((topic.clone(), follow::partitions(&metadata, topic)?));
    options.topics.iter().map(count).collect()
}

fn open(options: &WatchOptions) -> Result<Option<(BaseConsumer, Chain)>> {
    let chain = |(consumer, stage): (_, String)| (consumer, Chain::new(&options.store, &options.job, &stage));
    Ok(consumer_of_group(options)?.map(chain))
}

/// A consumer that asks for the group's offsets, and the stage, once that is known.
pub(crate) fn consumer_of_group(options: &WatchOptions) -> Result<Option<(BaseConsumer, String)>> {
    let Some(stage) = options.stage.clone().or_else(|| only_stage(options)) else {
        return Ok(None);
    };
    let isolation = if options.stable {
        "read_committed"
    } else {
        "read_uncommitted"
    };
    let consumer = ClientConfig::new()
        .set("bootstrap.servers", &options.brokers)
        .set("group.id", format!("{}.{stage}", options.job))
        .set("enable.auto.commit", "false")
        .set("isolation.level", isolation)
        .set("reconnect.backoff.max.ms", "1000")
        .set("log_level", "2")
        .create()
        .context("creating a consumer for the watch")?;
    Ok(Some((consumer, stage)))
}

fn only_stage(options: &WatchOptions) -> Option<String> {
    let entries = std::fs::read_dir(options.store.join("jobs").join(&options.job)).ok()?;
    let mut names = entries.filter_map(|e| e.ok()?.file_name().into_string().ok());
    let (first, second) = (names.next()?, names.next());
    second.is_none().then_some(first)
}

/// One look; none when the broker does not answer.
pub(crate) fn look(consumer: &BaseConsumer, partitions: &[(String, i32)]) -> Result<Option<Vec<Committed>>> {
    let mut list = TopicPartitionList::new();
    for (topic, count) in partitions {
        list.add_partition_range(topic, 0, count - 1);
    }
    let Ok(found) = consumer.committed_offsets(list, CALL) else {
        return Ok(None);
    };
    let mut committed = Vec::new();
    for element in found.elements() {
        if element.error().is_err() {
            return Ok(None);
        }
        let Offset::Offset(offset) = element.offset() else {
            continue;
        };
        // The client panics on metadata that is no UTF-8.
        let metadata = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| element.metadata().to_owned()));
        let metadata = metadata
            .ok()
            .context("the metadata of a committed offset is not UTF-8")?;
        committed.push(Committed {
            topic: element.topic().into(),
            partition: element.partition(),
            offset,
            pointer: metadata,
        });
    }
    Ok(Some(committed))
}
