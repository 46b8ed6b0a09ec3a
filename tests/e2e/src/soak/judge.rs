//! Reads the topics of one pipeline to their ends, and settles its account.
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::ledger::{Ledger, Letter};
use super::record::{Format, Source};
use super::service::Metrics;
use super::{PARTITIONS, PATIENCE, topic};

/// Figures of one pipeline, or of all together.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Account {
    /// Records read.
    pub read: u64,
    /// Rows in the sinks.
    pub outputs: u64,
    /// Counted as skipped.
    pub skipped: u64,
    /// Dead letters.
    pub letters: u64,
    /// What is wrong, and the first of it.
    pub faults: u64,
    /// The first faults, in words.
    pub told: Vec<String>,
}

impl Account {
    /// Adds another pipeline's.
    pub fn add(&mut self, other: Account) {
        self.read += other.read;
        self.outputs += other.outputs;
        self.skipped += other.skipped;
        self.letters += other.letters;
        self.faults += other.faults;
        self.told.extend(other.told);
    }
}

/// Judges a pipeline that has been stopped. Skipped records of the reason `forget` are not counted, to see the judgement fail.
///
/// # Errors
/// When a topic cannot be read.
pub fn judge(
    brokers: &str,
    format: Format,
    seed: u64,
    numbers: u64,
    metrics: &Metrics,
    forget: Option<&str>,
) -> Result<Account> {
    let mut ledger = Ledger::new(format, seed, numbers);
    for source in Source::ALL {
        let (topic, ends) = (topic(format, source.id()), numbers as i64);
        for (partition, end) in ends_of(brokers, &topic)? {
            if end != ends {
                ledger.fault(format!(
                    "{topic}-{partition} ends at {end}, and {ends} records were produced"
                ));
            }
        }
    }
    for sink in ["totals", "rest"] {
        read(brokers, &topic(format, sink), |message| {
            ledger.output(message.payload().unwrap_or_default());
        })?;
    }
    read(brokers, &topic(format, "dead"), |message| {
        ledger.letter(&letter(message))
    })?;
    let skipped = skipped(metrics, forget);
    settle(&mut ledger, numbers, metrics, skipped);
    let (faults, told) = ledger.faults();
    Ok(Account {
        read: metrics.total("keyfold_records_committed_total"),
        outputs: ledger.outputs(),
        skipped,
        letters: ledger.letters().values().sum(),
        faults,
        told: told.to_vec(),
    })
}

/// Refused, and no letter.
fn skipped(metrics: &Metrics, forget: Option<&str>) -> u64 {
    let forgotten = |labels: &str| forget.is_some_and(|reason| labels.contains(&format!("reason=\"{reason}\"")));
    let sum = |name| -> u64 {
        let series = metrics.series(name).filter(|(labels, _)| !forgotten(labels));
        series.map(|(_, value)| value).sum()
    };
    sum("keyfold_bad_records_total").saturating_sub(sum("keyfold_dead_letters_total"))
}

/// Holds the metrics, the topics and the records against one another.
fn settle(ledger: &mut Ledger, numbers: u64, metrics: &Metrics, skipped: u64) {
    let produced = numbers * Source::ALL.len() as u64 * u64::from(PARTITIONS);
    let read = metrics.total("keyfold_records_committed_total");
    if read != produced {
        ledger.fault(format!(
            "{produced} records were produced, and {read} have been committed"
        ));
    }
    let counted: BTreeMap<String, u64> = metrics
        .series("keyfold_dead_letters_total")
        .filter(|(_, value)| *value > 0)
        .map(|(labels, value)| (labels.to_owned(), value))
        .collect();
    if counted != *ledger.letters() {
        ledger.fault(format!(
            "letters by reason: {:?} in the topic, {counted:?} in the metrics",
            ledger.letters()
        ));
    }
    let untraced = ledger.untraced();
    if untraced != skipped {
        ledger.fault(format!(
            "{untraced} records have left no trace, and {skipped} are counted as skipped"
        ));
    }
    let letters: u64 = ledger.letters().values().sum();
    let accounted = ledger.outputs() + skipped + letters;
    if accounted != read {
        ledger.fault(format!("{read} records in, and {accounted} accounted for"));
    }
}

fn letter(message: &BorrowedMessage<'_>) -> Letter {
    let text = |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    Letter {
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers.map(|h| (h.key.to_owned(), text(h.value))).collect(),
    }
}

fn consumer(brokers: &str) -> Result<BaseConsumer> {
    ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "soak-judge")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed")
        .set("queued.max.messages.kbytes", "32768")
        .set("log_level", "2")
        .create()
        .context("creating a consumer")
}

fn ends_of(brokers: &str, topic: &str) -> Result<Vec<(u32, i64)>> {
    let consumer = consumer(brokers)?;
    let end = |partition: u32| {
        let (_, end) = consumer.fetch_watermarks(topic, partition as i32, PATIENCE)?;
        Ok((partition, end))
    };
    (0..PARTITIONS).map(end).collect()
}

/// Reads what is committed, all partitions to their ends.
fn read(brokers: &str, topic: &str, mut each: impl FnMut(&BorrowedMessage<'_>)) -> Result<()> {
    let consumer = consumer(brokers)?;
    let mut list = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        list.add_partition_offset(topic, partition as i32, Offset::Beginning)?;
    }
    consumer.assign(&list)?;
    let (mut ended, mut last) = (BTreeSet::new(), Instant::now());
    while ended.len() < PARTITIONS as usize {
        match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(message)) => {
                each(&message);
                last = Instant::now();
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => _ = ended.insert(partition),
            // The client goes on by itself.
            Some(Err(_)) | None => {}
        }
        ensure!(last.elapsed() < PATIENCE, "{topic} cannot be read to its end");
    }
    Ok(())
}
