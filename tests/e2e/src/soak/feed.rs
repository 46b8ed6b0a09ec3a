//! Produces into the topics of one pipeline, as fast as the broker takes it.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Message};

use super::record::{Format, Made, Place, Source, make};
use super::{PARTITIONS, PATIENCE, topic};

/// Records that the pipeline may lie behind. It has enough to do for seconds then; more would only be waited for at the end.
const LEAD: u64 = 200_000;

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    sent: AtomicU64,
    committed: AtomicU64,
    failure: Mutex<Option<String>>,
}

struct Reports(Arc<Shared>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, message)) = result {
            let why = format!("a record for {} was not delivered: {error}", message.topic());
            let mut failure = self.0.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert(why);
        }
    }
}

/// A producer on a thread of its own: the record `n` of each partition of each topic, then those with `n + 1`. A record's number is its offset.
pub struct Feed {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<u64>>>,
}

impl Feed {
    /// Starts producing.
    ///
    /// # Errors
    /// When no producer can be created.
    pub fn start(brokers: &str, format: Format, seed: u64) -> Result<Feed> {
        let shared = Arc::<Shared>::default();
        let producer: ThreadedProducer<Reports> = ClientConfig::new()
            .set("bootstrap.servers", brokers)
            // In order, none twice: that offsets are numbers rests on it.
            .set("enable.idempotence", "true")
            .set("linger.ms", "20")
            .set("message.max.bytes", "1048588")
            .set("queue.buffering.max.kbytes", "65536")
            .set("message.timeout.ms", "0")
            .set("log_level", "2")
            .create_with_context(Reports(shared.clone()))
            .context("creating a producer")?;
        let shared_too = shared.clone();
        let thread = std::thread::Builder::new()
            .name(format!("feed-{}", format.name()))
            .spawn(move || produce(&producer, format, seed, &shared_too))?;
        Ok(Feed {
            shared,
            thread: Some(thread),
        })
    }

    /// Tells how many records the pipeline has committed.
    pub fn committed(&self, records: u64) {
        self.shared.committed.store(records, Ordering::Relaxed);
    }

    /// Stops, waits until the broker has everything, and tells how many records each partition has.
    ///
    /// # Errors
    /// When a record was not delivered.
    pub fn finish(mut self) -> Result<u64> {
        self.shared.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("invariant: it has not been waited for")?;
        thread
            .join()
            .map_err(|_| anyhow!("the producer's thread has panicked"))?
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Somebody has failed, and tells so.
            let _ = thread.join();
        }
    }
}

fn produce(producer: &ThreadedProducer<Reports>, format: Format, seed: u64, shared: &Shared) -> Result<u64> {
    let mut number = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        if shared.sent.load(Ordering::Relaxed) > shared.committed.load(Ordering::Relaxed) + LEAD {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        for source in Source::ALL {
            for partition in 0..PARTITIONS {
                let place = Place {
                    format,
                    source,
                    partition,
                };
                send(
                    producer,
                    &topic(format, source.id()),
                    partition,
                    &make(seed, place, number),
                )?;
                shared.sent.fetch_add(1, Ordering::Relaxed);
            }
        }
        number += 1;
    }
    producer.flush(PATIENCE).context("flushing the producer")?;
    let failure = shared.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
    failure.map_or(Ok(number), |why| Err(anyhow!(why)))
}

fn send(producer: &ThreadedProducer<Reports>, topic: &str, partition: u32, made: &Made) -> Result<()> {
    let mut record: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic).partition(partition as i32);
    record.key = made.key.as_deref();
    record.payload = made.value.as_deref();
    record.timestamp = made.timestamp;
    loop {
        match producer.send(record) {
            Ok(()) => return Ok(()),
            Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => record = back,
            Err((error, _)) => bail!("producing for {topic}: {error}"),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
