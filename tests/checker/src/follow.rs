//! Reads a whole topic with `read_committed` on a thread of its own, and knows when it has reached a stable end.
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

const POLL: Duration = Duration::from_millis(100);
const CALL: Duration = Duration::from_secs(5);

/// A consumer that joins no group and commits nothing.
pub(crate) fn consumer(brokers: &str, isolation: &str) -> Result<BaseConsumer> {
    ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", format!("keyfold-checker-{}", std::process::id()))
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "error")
        .set("isolation.level", isolation)
        .set("enable.partition.eof", "true")
        .set("check.crcs", "true")
        .set("queued.max.messages.kbytes", "8192")
        .set("fetch.queue.backoff.ms", "10")
        .set("reconnect.backoff.max.ms", "1000")
        .set("log_level", "2")
        .create()
        .context("creating a consumer")
}

/// The partitions of a topic; waits a little for a topic that was created just now.
pub(crate) fn partitions(consumer: &BaseConsumer, topic: &str) -> Result<i32> {
    let begin = Instant::now();
    loop {
        let found = consumer.fetch_metadata(Some(topic), CALL).ok().and_then(|metadata| {
            let topic = metadata.topics().iter().find(|t| t.name() == topic)?;
            topic.error().is_none().then(|| topic.partitions().len())
        });
        match found {
            Some(count) if count > 0 => return i32::try_from(count).context("partitions"),
            _ if begin.elapsed() > Duration::from_secs(30) => bail!("topic {topic} is not there"),
            _ => std::thread::sleep(POLL),
        }
    }
}

struct Place {
    /// The offset after the last message; -1 before the first.
    next: AtomicI64,
    eof: AtomicBool,
}

struct Control {
    stop: AtomicBool,
    rewinds_wanted: AtomicU64,
    rewinds_done: AtomicU64,
    places: Vec<Place>,
    failure: Mutex<Option<String>>,
}

impl Control {
    fn fail(&self, why: String) {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(why);
    }
}

/// The reader of one topic. Stops when dropped.
pub(crate) struct Follower {
    topic: String,
    brokers: String,
    control: Arc<Control>,
    thread: Option<JoinHandle<()>>,
}

impl Follower {
    /// Starts reading from the beginning; `take` is called for every message, on the reader's thread.
    pub(crate) fn start<F>(brokers: &str, topic: &str, take: F) -> Result<Follower>
    where
        F: FnMut(&BorrowedMessage<'_>) + Send + 'static,
    {
        let consumer = consumer(brokers, "read_committed")?;
        let count = partitions(&consumer, topic)?;
        let control = Arc::new(Control {
            stop: AtomicBool::new(false),
            rewinds_wanted: AtomicU64::new(1),
            rewinds_done: AtomicU64::new(0),
            places: (0..count)
                .map(|_| Place {
                    next: AtomicI64::new(-1),
                    eof: AtomicBool::new(false),
                })
                .collect(),
            failure: Mutex::new(None),
        });
        let (shared, name) = (control.clone(), topic.to_owned());
        let thread = std::thread::Builder::new()
            .name(format!("read-{topic}"))
            .spawn(move || follow(&consumer, &name, &shared, take))
            .context("starting a reader")?;
        Ok(Follower {
            topic: topic.into(),
            brokers: brokers.into(),
            control,
            thread: Some(thread),
        })
    }

    /// Why the reader cannot go on, when it cannot.
    pub(crate) fn failure(&self) -> Option<String> {
        self.control
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until everything has been read that is in the topic now, with no transaction open on it. Nobody writes to
    /// the topic any more when this is called.
    pub(crate) fn read_to_stable_end(&self, deadline: Instant) -> Result<()> {
        let ends = self.stable_ends(deadline)?;
        // The reader starts again where it is: an end-of-partition event from now on is not older than `ends`.
        let wanted = self.control.rewinds_wanted.fetch_add(1, Ordering::SeqCst) + 1;
        loop {
            if let Some(failure) = self.failure() {
                bail!("reading {}: {failure}", self.topic);
            }
            if self.control.rewinds_done.load(Ordering::SeqCst) >= wanted && self.reached(&ends) {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!(
                    "the end of {} was not reached in time: {}",
                    self.topic,
                    self.describe(&ends)
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn reached(&self, ends: &[i64]) -> bool {
        // A tail of markers and aborted records yields no message: then the event tells.
        let at_end = |(place, end): (&Place, &i64)| {
            place.next.load(Ordering::SeqCst) >= *end || place.eof.load(Ordering::SeqCst)
        };
        self.control.places.iter().zip(ends).all(at_end)
    }

    fn describe(&self, ends: &[i64]) -> String {
        let places = self.control.places.iter().zip(ends).enumerate();
        let each = places.map(|(p, (place, end))| format!("{p}: {} of {end}", place.next.load(Ordering::SeqCst)));
        each.collect::<Vec<_>>().join(", ")
    }

    /// The end offsets once no transaction is open: last stable offset = high watermark, everywhere.
    fn stable_ends(&self, deadline: Instant) -> Result<Vec<i64>> {
        let stable = consumer(&self.brokers, "read_committed")?;
        let high = consumer(&self.brokers, "read_uncommitted")?;
        let ends = |consumer: &BaseConsumer| -> Result<Vec<i64>, KafkaError> {
            let each = 0..self.control.places.len() as i32;
            each.map(|p| consumer.fetch_watermarks(&self.topic, p, CALL).map(|(_, end)| end))
                .collect()
        };
        let mut last = String::from("not asked yet");
        while Instant::now() < deadline {
            match (ends(&high), ends(&stable)) {
                (Ok(high), Ok(stable)) if high == stable => return Ok(high),
                (Ok(high), Ok(stable)) => last = format!("ends {high:?}, stable {stable:?}"),
                (Err(error), _) | (_, Err(error)) => last = error.to_string(),
            }
            std::thread::sleep(POLL);
        }
        bail!("{} has no stable end: {last}", self.topic)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.control.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A panic of the reader shows as records that were never read.
            let _ = thread.join();
        }
    }
}

fn follow<F: FnMut(&BorrowedMessage<'_>)>(consumer: &BaseConsumer, topic: &str, control: &Control, mut take: F) {
    while !control.stop.load(Ordering::Relaxed) {
        let wanted = control.rewinds_wanted.load(Ordering::SeqCst);
        if control.rewinds_done.load(Ordering::SeqCst) < wanted {
            match assign(consumer, topic, control) {
                Ok(()) => control.rewinds_done.store(wanted, Ordering::SeqCst),
                Err(error) => return control.fail(format!("assigning: {error}")),
            }
        }
        match consumer.poll(POLL) {
            None => {}
            Some(Ok(message)) => {
                let place = &control.places[message.partition() as usize];
                if message.offset() >= place.next.load(Ordering::Relaxed) {
                    take(&message);
                    place.eof.store(false, Ordering::SeqCst);
                    place.next.store(message.offset() + 1, Ordering::SeqCst);
                }
            }
            Some(Err(KafkaError::PartitionEOF(p))) => control.places[p as usize].eof.store(true, Ordering::SeqCst),
            Some(Err(error)) if is_final(&error) => return control.fail(error.to_string()),
            // The broker is away: the client connects again.
            Some(Err(_)) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn assign(consumer: &BaseConsumer, topic: &str, control: &Control) -> Result<(), KafkaError> {
    let mut list = TopicPartitionList::new();
    for (partition, place) in control.places.iter().enumerate() {
        let next = place.next.load(Ordering::SeqCst);
        let from = if next < 0 {
            Offset::Beginning
        } else {
            Offset::Offset(next)
        };
        list.add_partition_offset(topic, partition as i32, from)?;
        place.eof.store(false, Ordering::SeqCst);
    }
    consumer.assign(&list)
}

fn is_final(error: &KafkaError) -> bool {
    match error {
        KafkaError::MessageConsumptionFatal(_) => true,
        KafkaError::MessageConsumption(code) => matches!(
            code,
            RDKafkaErrorCode::AutoOffsetReset
                | RDKafkaErrorCode::OffsetOutOfRange
                | RDKafkaErrorCode::BadMessage
                | RDKafkaErrorCode::TopicAuthorizationFailed
        ),
        _ => false,
    }
}
