//! The topics of one test: writing orders, reading what came of them.
use keyfold_e2e::Broker;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(200);
/// Partitions of the topic of orders.
const PARTITIONS: i32 = 2;

pub fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_millis()).expect("before 292 million years")
}

pub struct Topics {
    broker: &'static Broker,
    pub job: String,
    pub orders: String,
    pub totals: String,
    pub letters: String,
}

/// A record of the dead-letter topic.
#[derive(Debug)]
pub struct Letter {
    pub key: String,
    pub value: String,
    headers: Vec<(String, String)>,
}

impl Letter {
    /// Empty when there is none.
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map_or("", |(_, value)| value.as_str())
    }
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

impl Topics {
    pub fn fresh(broker: &'static Broker, job: &str) -> Topics {
        let topic = |name: &str, partitions| {
            broker
                .fresh_topic(&format!("{job}-{name}"), partitions)
                .expect("a topic")
        };
        Topics {
            broker,
            job: job.to_owned(),
            orders: topic("orders", PARTITIONS),
            totals: topic("totals", 1),
            letters: topic("letters", 1),
        }
    }

    pub fn brokers(&self) -> String {
        self.broker.bootstrap()
    }

    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.brokers());
        config
    }

    fn consumer(&self, isolation: &str) -> BaseConsumer {
        let mut config = self.config();
        config
            .set("group.id", format!("{}.pipeline", self.job))
            .set("enable.auto.commit", "false")
            .set("isolation.level", isolation);
        config.create().expect("a consumer")
    }

    pub fn produce(&self, key: &str, value: &str, headers: &[(&str, &str)]) {
        let producer: BaseProducer = self.config().create().expect("a producer");
        let mut record = BaseRecord::to(&self.orders).key(key).payload(value);
        if !headers.is_empty() {
            let add = |all: OwnedHeaders, (key, value): &(&str, &str)| {
                all.insert(Header {
                    key,
                    value: Some(*value),
                })
            };
            record = record.headers(headers.iter().fold(OwnedHeaders::new(), add));
        }
        producer.send(record).map_err(|(e, _)| e).expect("taken");
        producer.flush(PATIENCE).expect("written");
    }

    /// Writes records with their keys' partitions as librdkafka has them.
    pub fn produce_all(&self, records: &[(String, Vec<u8>)]) {
        let producer: BaseProducer = self.config().create().expect("a producer");
        for (key, value) in records {
            let record = BaseRecord::to(&self.orders).key(key).payload(value);
            producer.send(record).map_err(|(e, _)| e).expect("taken");
        }
        producer.flush(PATIENCE).expect("written");
    }

    /// All committed records of a topic with partition and offset, until there are `wanted` of them.
    fn read<T>(
        &self,
        topic: &str,
        partitions: i32,
        wanted: usize,
        of: impl Fn(&rdkafka::message::BorrowedMessage<'_>) -> T,
    ) -> Vec<T> {
        let consumer = self.consumer("read_committed");
        let mut all = TopicPartitionList::new();
        for partition in 0..partitions {
            all.add_partition_offset(topic, partition, Offset::Beginning)
                .expect("an offset");
        }
        consumer.assign(&all).expect("assigned");
        let until = Instant::now() + PATIENCE;
        let mut records = Vec::new();
        // One more look when all are there: none must be too many.
        let mut quiet = false;
        while records.len() < wanted || !quiet {
            assert!(
                Instant::now() < until,
                "{} records of {wanted} in {topic}",
                records.len()
            );
            match consumer.poll(STEP) {
                Some(record) => records.push(of(&record.expect("a record"))),
                None => quiet = records.len() >= wanted,
            }
        }
        records
    }

    /// Waits until so many records can be read, and no more.
    pub fn until_committed(&self, topic: &str, count: usize) {
        assert_eq!(self.read(topic, 1, count, |_| ()).len(), count, "{topic}");
    }

    /// Keys and values of the totals, once there are so many of them and no more.
    pub fn totals(&self, count: usize) -> Vec<(String, String)> {
        let totals = self.read(&self.totals, 1, count, |r| (text(r.key()), text(r.payload())));
        assert_eq!(totals.len(), count);
        totals
    }

    /// Partition and offset of the order with this key.
    pub fn place_of(&self, key: &str) -> (i32, i64) {
        let records = self.read(&self.orders, PARTITIONS, 43, |r| {
            (text(r.key()), r.partition(), r.offset())
        });
        let found = records.into_iter().find(|(k, ..)| k == key);
        found
            .map(|(_, partition, offset)| (partition, offset))
            .expect("an order")
    }

    pub fn letters(&self) -> Vec<Letter> {
        self.read(&self.letters, 1, 2, |record| Letter {
            key: text(record.key()),
            value: text(record.payload()),
            headers: record
                .headers()
                .into_iter()
                .flat_map(|headers| headers.iter())
                .map(|header| (header.key.to_owned(), text(header.value)))
                .collect(),
        })
    }

    /// The end of partition 0, for readers of what is uncommitted.
    pub fn ends(&self, topic: &str) -> i64 {
        let consumer = self.consumer("read_uncommitted");
        consumer.fetch_watermarks(topic, 0, PATIENCE).expect("watermarks").1
    }

    /// The committed positions of the orders, added up.
    pub fn committed(&self) -> i64 {
        let mut all = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            all.add_partition(&self.orders, partition);
        }
        let committed = self.consumer("read_committed").committed_offsets(all, PATIENCE);
        let committed = committed.expect("offsets");
        let offset = |offset: Offset| match offset {
            Offset::Offset(offset) => offset,
            _ => 0,
        };
        committed.elements().iter().map(|e| offset(e.offset())).sum()
    }
}
