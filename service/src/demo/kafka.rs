//! Makes the demonstration's topics and fills the first.
use super::PARTITIONS;
use anyhow::{Context, Result, bail};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientContext, Message};
use serde::Deserialize;
use std::fs::File;
use std::future::Future;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A broker that does not answer for so long is not there.
const PATIENCE: Duration = Duration::from_secs(30);

/// The topic of a job's orders.
pub fn orders_topic(job: &str) -> String {
    format!("{job}-orders")
}

/// The topic of a job's outputs.
pub fn totals_topic(job: &str) -> String {
    format!("{job}-totals")
}

/// Creates both topics and produces the orders of `<dir>/<partition>.jsonl`, each into its partition.
///
/// # Errors
/// When the broker cannot be reached, or an order was not delivered.
pub fn produce(brokers: &str, job: &str, dir: &Path) -> Result<()> {
    create_topics(brokers, &[orders_topic(job), totals_topic(job)])?;
    let failure = Failure::default();
    let producer: BaseProducer<Failure> = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("enable.idempotence", "true")
        .set("linger.ms", "20")
        .set("message.timeout.ms", PATIENCE.as_millis().to_string())
        .create_with_context(failure.clone())
        .context("making a producer")?;
    for partition in 0..PARTITIONS as i32 {
        let path = dir.join(format!("{partition}.jsonl"));
        produce_file(&producer, &orders_topic(job), partition, &path)?;
    }
    producer.flush(PATIENCE).context("producing the orders")?;
    match failure.told() {
        None => Ok(()),
        Some(why) => bail!("an order was not delivered: {why}"),
    }
}

#[derive(Deserialize)]
struct Order {
    customer: String,
    at: i64,
}

fn produce_file(producer: &BaseProducer<Failure>, topic: &str, partition: i32, path: &Path) -> Result<()> {
    let context = || format!("reading {}", path.display());
    for line in BufReader::new(File::open(path).with_context(context)?).lines() {
        let line = line.with_context(context)?;
        let order: Order = serde_json::from_str(&line).with_context(context)?;
        let mut record = BaseRecord::to(topic)
            .partition(partition)
            .key(&order.customer)
            .payload(&line)
            .timestamp(order.at);
        while let Err((error, same)) = producer.send(record) {
            if !matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull)) {
                return Err(error).context("producing an order");
            }
            producer.poll(Duration::from_millis(20));
            record = same;
        }
        producer.poll(Duration::ZERO);
    }
    Ok(())
}

/// The first delivery that failed.
#[derive(Debug, Clone, Default)]
struct Failure(Arc<Mutex<Option<String>>>);

impl Failure {
    fn told(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl ClientContext for Failure {}

impl ProducerContext for Failure {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, record)) = result {
            let mut first = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert_with(|| format!("partition {}: {error}", record.partition()));
        }
    }
}

fn create_topics(brokers: &str, names: &[String]) -> Result<()> {
    let admin: AdminClient<_> = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .create()
        .context("making an admin client")?;
    // The orders' times are of 2023: a broker would remove them soon.
    let new = |name| NewTopic::new(name, PARTITIONS as i32, TopicReplication::Fixed(1)).set("retention.ms", "-1");
    let topics: Vec<NewTopic<'_>> = names.iter().map(|name| new(name)).collect();
    let options = AdminOptions::new()
        .request_timeout(Some(PATIENCE))
        .operation_timeout(Some(PATIENCE));
    let results = wait_for(admin.create_topics(&topics, &options)).context("creating the topics")?;
    for result in results {
        result.map_err(|(topic, code)| anyhow::anyhow!("creating topic {topic}: {code}"))?;
    }
    Ok(())
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread: the one answer that is asked for is not worth an executor.
fn wait_for<T>(future: impl Future<Output = Result<T, KafkaError>>) -> Result<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = pin!(future);
    let began = Instant::now();
    loop {
        if let Poll::Ready(result) = future.as_mut().poll(&mut context) {
            return Ok(result?);
        }
        if began.elapsed() > PATIENCE * 2 {
            bail!("the broker does not answer");
        }
        std::thread::park_timeout(PATIENCE);
    }
}
