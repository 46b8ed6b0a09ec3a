//! Records made by hand, and topics read to their end.
use std::collections::BTreeSet;
use std::time::Duration;

use keyfold_e2e::Broker;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::{BorrowedMessage, Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::util::Timeout;

use crate::scene::{LONG, partitions, wait};

/// A record to be produced.
#[derive(Debug, Clone, Default)]
pub struct Made {
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub timestamp: Option<i64>,
    pub headers: Vec<(&'static str, &'static str)>,
}

/// A record that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub partition: i32,
    pub offset: i64,
    pub key: Option<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    pub timestamp: i64,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

impl Found {
    pub fn header(&self, name: &str) -> Option<String> {
        let (_, value) = self.headers.iter().find(|(key, _)| key == name)?;
        value.as_ref().map(|v| String::from_utf8_lossy(v).into_owned())
    }
}

pub fn made(key: &str, value: &str) -> Made {
    Made {
        key: Some(key.into()),
        value: Some(value.into()),
        ..Made::default()
    }
}

/// Good records for a few keys.
pub fn good(count: i64) -> Vec<Made> {
    (0..count)
        .map(|n| made(&format!("k{}", n % 7), &n.to_string()))
        .collect()
}

pub type Transactional = ThreadedProducer<DefaultProducerContext>;

/// A producer; with an id, a transactional one.
pub fn producer(broker: &Broker, id: Option<&str>, compression: &str) -> Transactional {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", broker.bootstrap())
        .set("enable.idempotence", "true")
        .set("partitioner", "murmur2_random")
        .set("compression.type", compression)
        .set("linger.ms", "20")
        .set("log_level", "2");
    if let Some(id) = id {
        config.set("transactional.id", id);
    }
    let producer: Transactional = config.create().expect("producer");
    if id.is_some() {
        producer.init_transactions(LONG).expect("init_transactions");
    }
    producer
}

pub fn send(producer: &Transactional, topic: &str, record: &Made) {
    let add = |all: OwnedHeaders, (key, value): &(&'static str, &'static str)| {
        let value = Some(value.as_bytes());
        all.insert(Header { key, value })
    };
    let headers = record.headers.iter().fold(OwnedHeaders::new(), add);
    let mut out: BaseRecord<'_, [u8], [u8]> = BaseRecord::to(topic);
    out.key = record.key.as_deref();
    out.payload = record.value.as_deref();
    out.timestamp = record.timestamp;
    out.headers = Some(headers);
    producer.send(out).map_err(|(error, _)| error).expect("send");
}

/// Produces records and waits until the broker has them.
pub fn produce(broker: &Broker, topic: &str, records: &[Made]) {
    let before = read(broker, topic).len();
    let producer = producer(broker, None, "none");
    records.iter().for_each(|record| send(&producer, topic, record));
    producer.flush(LONG).expect("flush");
    let after = read(broker, topic).len();
    assert_eq!(after - before, records.len(), "the broker refuses records");
}

/// One transaction of these records.
pub fn transaction(producer: &Transactional, topic: &str, records: &[Made], commit: bool) {
    producer.begin_transaction().expect("begin");
    records.iter().for_each(|record| send(producer, topic, record));
    producer.flush(LONG).expect("flush");
    let ended = match commit {
        true => producer.commit_transaction(Timeout::Never),
        false => producer.abort_transaction(Timeout::Never),
    };
    ended.expect("ended");
}

fn consumer(broker: &Broker, isolation: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", broker.bootstrap())
        .set("group.id", "rows-reader")
        .set("enable.auto.commit", "false")
        .set("isolation.level", isolation)
        .set("enable.partition.eof", "true")
        .set("fetch.wait.max.ms", "50")
        .set("log_level", "2")
        .create()
        .expect("consumer")
}

/// The end of every partition: stable (behind the last decided transaction), or of the log itself.
pub fn ends(broker: &Broker, topic: &str, stable: bool) -> Vec<i64> {
    let consumer = consumer(broker, if stable { "read_committed" } else { "read_uncommitted" });
    let end = |partition| {
        wait("the end of a partition", || {
            let found = consumer.fetch_watermarks(topic, partition, Duration::from_secs(10));
            found.ok().map(|(_, high)| high)
        })
    };
    (0..partitions(&consumer, topic)).map(end).collect()
}

/// Everything committed in a topic, in order. No transaction is open on it.
pub fn read(broker: &Broker, topic: &str) -> Vec<Found> {
    wait("no open transaction", || {
        (ends(broker, topic, true) == ends(broker, topic, false)).then_some(())
    });
    let consumer = consumer(broker, "read_committed");
    let mut open: BTreeSet<i32> = (0..partitions(&consumer, topic)).collect();
    let mut list = TopicPartitionList::new();
    for partition in &open {
        list.add_partition_offset(topic, *partition, Offset::Beginning)
            .expect("partition");
    }
    consumer.assign(&list).expect("assign");
    let mut records = Vec::new();
    wait("the end of the topic", || {
        match consumer.poll(Duration::from_millis(200)) {
            Some(Ok(message)) => records.push(found(&message)),
            Some(Err(KafkaError::PartitionEOF(partition))) => _ = open.remove(&partition),
            Some(Err(error)) => eprintln!("reading {topic}: {error}"),
            None => {}
        }
        open.is_empty().then_some(())
    });
    records.sort_by_key(|r| (r.partition, r.offset));
    records
}

fn found(message: &BorrowedMessage<'_>) -> Found {
    let header = |h: Header<'_, &[u8]>| (h.key.to_owned(), h.value.map(<[u8]>::to_vec));
    Found {
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        timestamp: message.timestamp().to_millis().unwrap_or(-1),
        headers: message
            .headers()
            .map_or_else(Vec::new, |all| all.iter().map(header).collect()),
    }
}
