//! Reads orders and outputs from topics, with a consumer that sees committed records only.
use super::{Ledger, Order, OrderText, Output};
use anyhow::{Context, Result, bail};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::BorrowedMessage;
use rdkafka::{Message, Offset, TopicPartitionList};
use std::time::{Duration, Instant};

/// Nothing arrived for so long: the broker is gone.
const SILENCE: Duration = Duration::from_secs(30);

/// Takes down the orders of a topic.
///
/// # Errors
/// When the topic cannot be read or holds something else.
pub fn read_orders(brokers: &str, topic: &str, ledger: &mut Ledger) -> Result<()> {
    each_record(brokers, topic, &mut |record| {
        let text: OrderText = serde_json::from_slice(record.payload().unwrap_or_default())?;
        ledger.order(Order {
            partition: record.partition(),
            offset: record.offset(),
            customer: text.customer,
            amount: text.amount,
        });
        Ok(())
    })
}

/// Judges the outputs of a topic.
///
/// # Errors
/// When the topic cannot be read. What it holds is judged.
pub fn read_outputs(brokers: &str, topic: &str, ledger: &mut Ledger) -> Result<()> {
    each_record(brokers, topic, &mut |record| {
        let output: Result<Output, _> = serde_json::from_slice(record.payload().unwrap_or_default());
        match output {
            Ok(output) if record.key() == Some(output.customer.as_bytes()) => ledger.output(&output),
            Ok(output) => ledger.unreadable(format!("{output:?} under another key")),
            Err(error) => ledger.unreadable(format!(
                "partition {} offset {}: {error}",
                record.partition(),
                record.offset()
            )),
        }
        Ok(())
    })
}

/// All that is committed in all partitions, in order per partition.
fn each_record(brokers: &str, topic: &str, f: &mut dyn FnMut(&BorrowedMessage<'_>) -> Result<()>) -> Result<()> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "keyfold-demo-check")
        .set("isolation.level", "read_committed")
        .set("enable.auto.commit", "false")
        .set("auto.offset.reset", "error")
        .set("enable.partition.eof", "true")
        .create()
        .context("making a consumer")?;
    let mut open = assign_all(&consumer, topic)?;
    let mut heard = Instant::now();
    while open > 0 {
        match consumer.poll(Duration::from_millis(200)) {
            Some(Ok(record)) => {
                heard = Instant::now();
                f(&record).with_context(|| format!("reading topic {topic}"))?;
            }
            Some(Err(KafkaError::PartitionEOF(_))) => open -= 1,
            Some(Err(error)) => tracing::info!(topic, %error, "reading"),
            None => {}
        }
        if heard.elapsed() > SILENCE {
            bail!("topic {topic} cannot be read to its end");
        }
    }
    Ok(())
}

/// Assigns every partition from its first offset; returns how many there are.
fn assign_all(consumer: &BaseConsumer, topic: &str) -> Result<usize> {
    let metadata = consumer.fetch_metadata(Some(topic), Duration::from_secs(10))?;
    let partitions = metadata.topics().first().map_or(&[][..], |t| t.partitions());
    if partitions.is_empty() {
        bail!("topic {topic} has no partitions");
    }
    let mut list = TopicPartitionList::new();
    for partition in partitions {
        list.add_partition_offset(topic, partition.id(), Offset::Beginning)?;
    }
    consumer.assign(&list)?;
    Ok(partitions.len())
}
