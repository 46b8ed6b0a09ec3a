//! A paced producer for the checker's job: text keys that recur, decimal integers as values.
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseRecord, Producer, ProducerContext, ThreadedProducer};
use rdkafka::{ClientContext, Message};

use crate::rng::Rng;

/// What is produced.
#[derive(Debug, Clone)]
pub struct FeedOptions {
    /// The brokers.
    pub brokers: String,
    /// The topic.
    pub topic: String,
    /// Records a second; 0 for as fast as it goes.
    pub rate: u64,
    /// Keys are `k<0..keys>`.
    pub keys: u64,
    /// Of keys and values.
    pub seed: u64,
}

#[derive(Debug, Default)]
struct Shared {
    rate: AtomicU64,
    /// Ends when so many are sent; `u64::MAX` for not yet known.
    goal: AtomicU64,
    sent: AtomicU64,
    acknowledged: AtomicU64,
    stop: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Shared {
    fn fail(&self, why: String) {
        self.failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert(why);
    }
}

struct Reports(Arc<Shared>);

impl ClientContext for Reports {}

impl ProducerContext for Reports {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        match result {
            Ok(_) => _ = self.0.acknowledged.fetch_add(1, Ordering::Relaxed),
            Err((error, message)) => self
                .0
                .fail(format!("a record for {} was not delivered: {error}", message.topic())),
        }
    }
}

/// A producer on a thread of its own. Idempotent: it goes on over a broker's restart without losing or repeating a
/// record. Dropping it ends it at once.
#[derive(Debug)]
pub struct Feed {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Feed {
    /// Starts producing, without end until [`Feed::finish`].
    ///
    /// # Errors
    /// When no producer can be created.
    pub fn start(options: FeedOptions) -> Result<Feed> {
        let shared = Arc::new(Shared {
            rate: AtomicU64::new(options.rate),
            goal: AtomicU64::new(u64::MAX),
            ..Shared::default()
        });
        let producer: ThreadedProducer<Reports> = ClientConfig::new()
            .set("bootstrap.servers", &options.brokers)
            .set("enable.idempotence", "true")
            .set("partitioner", "murmur2_random")
            // An idempotent client turns in circles while a batch is due and the one before it is not acknowledged: shorter is a whole
            // processor taken from what is tested.
            .set("linger.ms", "50")
            // A broker that is away for long is no reason to lose a record.
            .set("message.timeout.ms", "0")
            .set("reconnect.backoff.max.ms", "1000")
            .set("log_level", "2")
            .create_with_context(Reports(shared.clone()))
            .context("creating the producer")?;
        let for_thread = shared.clone();
        let thread = std::thread::Builder::new().name("feed".into()).spawn(move || {
            if let Err(error) = produce(&producer, &options, &for_thread) {
                for_thread.fail(format!("{error:#}"));
            }
        })?;
        Ok(Feed {
            shared,
            thread: Some(thread),
        })
    }

    /// Records handed to the producer.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::SeqCst)
    }

    /// Records that the broker has.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.shared.acknowledged.load(Ordering::SeqCst)
    }

    /// Why records could not be produced, if so.
    #[must_use]
    pub fn failure(&self) -> Option<String> {
        self.shared
            .failure
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Changes the pace; 0 for as fast as it goes.
    pub fn set_rate(&self, rate: u64) {
        self.shared.rate.store(rate, Ordering::SeqCst);
    }

    /// Produces as fast as it goes until there are `minimum` records, if there are not yet, waits until the broker has
    /// them all and tells how many there are.
    ///
    /// # Errors
    /// When a record failed, or it took longer than `limit`.
    pub fn finish(mut self, minimum: u64, limit: Duration) -> Result<u64> {
        self.set_rate(0);
        self.shared.goal.store(minimum, Ordering::SeqCst);
        let begin = Instant::now();
        while self.thread.as_ref().is_some_and(|t| !t.is_finished()) {
            if begin.elapsed() > limit {
                bail!(
                    "producing {minimum} records took too long: {} so far",
                    self.acknowledged()
                );
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if self.thread.take().is_some_and(|t| t.join().is_err()) {
            bail!("the producer's thread has panicked");
        }
        match self.failure() {
            Some(failure) => bail!("{failure}"),
            None if self.sent() != self.acknowledged() => bail!("records are not acknowledged"),
            None => Ok(self.acknowledged()),
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // It ends by itself; a panic shows in the counts.
            let _ = thread.join();
        }
    }
}

fn produce(producer: &ThreadedProducer<Reports>, options: &FeedOptions, shared: &Shared) -> Result<()> {
    const TICK: Duration = Duration::from_millis(10);
    let mut rng = Rng::new(options.seed);
    let mut credit = 0.0;
    let mut last = Instant::now();
    while !shared.stop.load(Ordering::Relaxed) {
        let rate = shared.rate.load(Ordering::Relaxed);
        let passed = last.elapsed();
        last = Instant::now();
        // What a pause has saved up is bounded: no flood after a broker's restart.
        credit = if rate == 0 {
            1000.0
        } else {
            (credit + rate as f64 * passed.as_secs_f64()).min(rate as f64)
        };
        while credit >= 1.0 {
            if shared.sent.load(Ordering::Relaxed) >= shared.goal.load(Ordering::Relaxed) {
                return drain(producer, shared);
            }
            if !send(producer, options, &mut rng)? {
                break;
            }
            shared.sent.fetch_add(1, Ordering::Relaxed);
            credit -= 1.0;
        }
        if rate != 0 || credit >= 1.0 {
            std::thread::sleep(TICK);
        }
    }
    Ok(())
}

/// Hands over one record; false when the queue is full.
fn send(producer: &ThreadedProducer<Reports>, options: &FeedOptions, rng: &mut Rng) -> Result<bool> {
    let before = rng.clone();
    let key = format!("k{}", rng.below(options.keys));
    let value = (rng.below(2001) as i64 - 1000).to_string();
    match producer.send(BaseRecord::to(&options.topic).key(&key).payload(&value)) {
        Ok(()) => Ok(true),
        Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), _)) => {
            *rng = before;
            Ok(false)
        }
        Err((error, _)) => Err(error).context("producing"),
    }
}

fn drain(producer: &ThreadedProducer<Reports>, shared: &Shared) -> Result<()> {
    while !shared.stop.load(Ordering::Relaxed) && producer.in_flight_count() > 0 {
        // Timing out is no error here: we ask again.
        let _ = producer.flush(Duration::from_millis(500));
    }
    Ok(())
}
