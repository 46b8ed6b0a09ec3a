//! When outputs of each partition become visible.
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rdkafka::Message;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

/// What is known of one partition.
#[derive(Debug, Clone, Copy)]
struct Seen {
    last: Instant,
    /// The longest time without an output since the mark.
    pause: Duration,
}

#[derive(Debug)]
struct Shared {
    seen: Vec<Seen>,
    outputs: u64,
}

/// A reader with `read_committed` on a thread of its own.
pub struct Reader {
    shared: Arc<Mutex<Shared>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Reader {
    /// Reads the topic from its beginning.
    pub fn start(brokers: &str, topic: &str, partitions: i32) -> Result<Reader> {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            .set("group.id", "takeover-reader")
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed")
            .set("fetch.wait.max.ms", "50")
            .set("log_level", "2")
            .create()
            .context("creating the reader")?;
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition, Offset::Beginning)?;
        }
        consumer.assign(&list)?;
        let now = Seen {
            last: Instant::now(),
            pause: Duration::ZERO,
        };
        let shared = Arc::new(Mutex::new(Shared {
            seen: vec![now; partitions as usize],
            outputs: 0,
        }));
        let stop = Arc::<AtomicBool>::default();
        let (shared_too, stop_too) = (shared.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("reader".into())
            .spawn(move || read(&consumer, &shared_too, &stop_too))?;
        Ok(Reader {
            shared,
            stop,
            thread: Some(thread),
        })
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Outputs so far.
    pub fn outputs(&self) -> u64 {
        self.shared().outputs
    }

    /// Begins to measure: what was before does not count, but for the time since the last output.
    pub fn mark(&self) {
        self.shared().seen.iter_mut().for_each(|s| s.pause = Duration::ZERO);
    }

    /// When the last output of each partition came.
    pub fn last(&self) -> Vec<Instant> {
        self.shared().seen.iter().map(|s| s.last).collect()
    }

    /// The longest time without an output since the mark, for each partition.
    pub fn pauses(&self) -> Vec<Duration> {
        self.shared().seen.iter().map(|s| s.pause).collect()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A panic there shows in the count of outputs.
            let _ = thread.join();
        }
    }
}

fn read(consumer: &BaseConsumer, shared: &Mutex<Shared>, stop: &AtomicBool) {
    while !stop.load(Ordering::SeqCst) {
        // An error is the client's, which goes on by itself.
        let Some(Ok(message)) = consumer.poll(Duration::from_millis(50)) else {
            continue;
        };
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.outputs += 1;
        let now = Instant::now();
        if let Some(seen) = shared.seen.get_mut(message.partition() as usize) {
            seen.pause = seen.pause.max(now - seen.last);
            seen.last = now;
        }
    }
}
