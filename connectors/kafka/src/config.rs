//! Settings of the Kafka connector.
mod group;

pub use group::GroupTimeouts;

use crate::error::KafkaError;
use crate::ffi::check_property;
use keyfold::testing::faults::Faults;
use keyfold::types::Partitioner;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Brokers, librdkafka properties and the connector's own settings. Cheap enough to clone for each source and sink.
///
/// Any librdkafka property may be set by name, except those that would break a guarantee. `Debug` does not show secrets.
///
/// ```
/// use keyfold_kafka::KafkaConfig;
/// let config = KafkaConfig::new("127.0.0.1:9092").property("client.id", "totals")?;
/// let refused = config.consumer_property("isolation.level", "read_uncommitted").unwrap_err();
/// assert!(refused.to_string().contains("aborted"));
/// # Ok::<(), keyfold_kafka::KafkaError>(())
/// ```
#[derive(Clone)]
pub struct KafkaConfig {
    brokers: String,
    common: BTreeMap<String, String>,
    consumer: BTreeMap<String, String>,
    producer: BTreeMap<String, String>,
    partitioners: BTreeMap<String, Partitioner>,
    prefetch_bytes: usize,
    output_queue_bytes: Option<usize>,
    faults: Faults,
}

/// Read ahead by all partitions of a source together. Less makes the lanes wait for fetches, more only costs memory.
const PREFETCH_BYTES: usize = 64 << 20;
/// Outputs that wait in a producer, where neither the user nor a memory budget says. Less makes `send` wait earlier, more only costs memory.
const OUTPUT_QUEUE_BYTES: usize = 64 << 20;
/// The smallest read-ahead of a partition, in KiB.
const PREFETCH_KIB_MIN: usize = 16;
/// Largest batch that a producer makes unless a topic takes less: librdkafka's default.
const BATCH_BYTES: usize = 1_000_000;

const ONE_TRUTH: &str = "Keyfold commits offsets itself, together with the state that belongs to them";
const TIMEOUTS: &str = "it is a setting of group mode: GroupTimeouts";
const CALLBACK: &str = "it takes a pointer, not a text";

/// Refused whatever the value, with the reason.
const REFUSED: [(&str, &str); 50] = [
    ("bootstrap.servers", "the brokers are given once, to KafkaConfig::new"),
    (
        "metadata.broker.list",
        "the brokers are given once, to KafkaConfig::new",
    ),
    ("enable.auto.commit", ONE_TRUTH),
    ("auto.commit.enable", ONE_TRUTH),
    ("auto.commit.interval.ms", ONE_TRUTH),
    ("enable.auto.offset.store", ONE_TRUTH),
    ("offset.store.method", ONE_TRUTH),
    ("offset.store.path", ONE_TRUTH),
    ("offset.store.sync.interval.ms", ONE_TRUTH),
    (
        "auto.offset.reset",
        "jumping to another offset loses or doubles records; where a new job starts is the source's setting `start`",
    ),
    (
        "isolation.level",
        "records of aborted transactions would be folded into state",
    ),
    (
        "enable.partition.eof",
        "being caught up is told by the end-of-partition event",
    ),
    (
        "queued.max.messages.kbytes",
        "it is computed from the setting `prefetch_bytes` and the number of partitions",
    ),
    ("group.id", "the group is named after job and stage"),
    ("group.instance.id", "the group's members are named after the instance"),
    (
        "group.protocol",
        "the commit protocol is written for the classic protocol",
    ),
    (
        "group.protocol.type",
        "the commit protocol is written for consumer groups",
    ),
    (
        "group.remote.assignor",
        "the commit protocol is written for the classic protocol",
    ),
    (
        "partition.assignment.strategy",
        "a shard is what the range assignor gives together: the same partition of every topic",
    ),
    ("session.timeout.ms", TIMEOUTS),
    ("heartbeat.interval.ms", TIMEOUTS),
    ("max.poll.interval.ms", TIMEOUTS),
    ("topic.blacklist", "topics would be left out without an error"),
    (
        "transactional.id",
        "it is named after job, stage and instance; two jobs under one id fence each other",
    ),
    (
        "transaction.timeout.ms",
        "it is the job's setting `transaction_timeout`",
    ),
    (
        "enable.idempotence",
        "it is always on: retries would double or reorder outputs without it",
    ),
    (
        "enable.gapless.guarantee",
        "a transaction is gapless by itself; this would stop the job where an abort is enough",
    ),
    (
        "acks",
        "every in-sync replica has to acknowledge, or an acknowledged output can be lost",
    ),
    (
        "request.required.acks",
        "every in-sync replica has to acknowledge, or an acknowledged output can be lost",
    ),
    (
        "delivery.report.only.error",
        "an epoch commits when the reports of all its outputs are counted",
    ),
    ("produce.offset.report", "it is of no use to Keyfold"),
    ("queuing.strategy", "outputs of a key would change their order"),
    ("msg_order_cmp", CALLBACK),
    (
        "partitioner",
        "it is a setting of the output topic: KafkaConfig::partitioner",
    ),
    ("partitioner_cb", CALLBACK),
    ("queue.buffering.max.kbytes", "it is the setting `output_queue_bytes`"),
    ("interceptors", CALLBACK),
    ("plugin.library.paths", "a plugin can drop or change records unseen"),
    ("log.queue", "the client's log lines go to Keyfold's log"),
    ("enabled_events", "the client's events are served by Keyfold"),
    ("background_event_cb", CALLBACK),
    ("error_cb", CALLBACK),
    ("throttle_cb", CALLBACK),
    ("stats_cb", CALLBACK),
    ("log_cb", CALLBACK),
    ("dr_cb", CALLBACK),
    ("dr_msg_cb", CALLBACK),
    ("consume_cb", CALLBACK),
    ("rebalance_cb", CALLBACK),
    ("opaque", CALLBACK),
];

/// Why a property with this value is refused, if it is.
fn refusal(name: &str, value: &str) -> Option<&'static str> {
    if let Some((_, reason)) = REFUSED.iter().find(|(refused, _)| *refused == name) {
        return Some(reason);
    }
    let number = value.trim().parse::<i64>().ok();
    let off = matches!(value.trim(), "false" | "0" | "f");
    match name {
        "max.in.flight" | "max.in.flight.requests.per.connection" if number.is_some_and(|n| n > 5) => {
            Some("more than 5 requests in flight can reorder outputs")
        }
        "retries" | "message.send.max.retries" if number == Some(0) => {
            Some("without retries a passing fault fails the epoch")
        }
        "message.timeout.ms" | "delivery.timeout.ms" if number == Some(0) => {
            Some("an epoch would wait for ever; it has to end within the transaction's timeout")
        }
        "check.crcs" if off => Some("a damaged record would be folded into state"),
        "api.version.request" if off => Some("transactions need a broker whose features are known"),
        "allow.auto.create.topics" if !off => Some("a topic that nobody created is a mistake to be seen"),
        _ => None,
    }
}

/// Whether a property's value must not be shown.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    const PARTS: [&str; 8] = [
        "password",
        "secret",
        "passphrase",
        ".pem",
        "ssl_key",
        "sasl.oauthbearer.config",
        "token",
        "kinit",
    ];
    PARTS.iter().any(|part| name.contains(part))
}

impl KafkaConfig {
    /// `brokers` is a comma-separated list of `host:port`.
    #[must_use]
    pub fn new(brokers: impl Into<String>) -> KafkaConfig {
        KafkaConfig {
            brokers: brokers.into(),
            common: BTreeMap::new(),
            consumer: BTreeMap::new(),
            producer: BTreeMap::new(),
            partitioners: BTreeMap::new(),
            prefetch_bytes: PREFETCH_BYTES,
            output_queue_bytes: None,
            faults: Faults::none(),
        }
    }

    /// Sets a librdkafka property for consumers and producers.
    ///
    /// # Errors
    /// When the property would break a guarantee, or the client does not know it or its value.
    pub fn property(mut self, name: &str, value: &str) -> Result<KafkaConfig, KafkaError> {
        set(&mut self.common, name, value)?;
        Ok(self)
    }

    /// Sets a librdkafka property for consumers.
    ///
    /// # Errors
    /// As for [`KafkaConfig::property`].
    pub fn consumer_property(mut self, name: &str, value: &str) -> Result<KafkaConfig, KafkaError> {
        set(&mut self.consumer, name, value)?;
        Ok(self)
    }

    /// Sets a librdkafka property for producers.
    ///
    /// # Errors
    /// As for [`KafkaConfig::property`].
    pub fn producer_property(mut self, name: &str, value: &str) -> Result<KafkaConfig, KafkaError> {
        set(&mut self.producer, name, value)?;
        Ok(self)
    }

    /// The partitioner of an output topic for outputs without an explicit partition; murmur2 (that of Java clients) unless set.
    #[must_use]
    pub fn partitioner(mut self, topic: &str, partitioner: Partitioner) -> KafkaConfig {
        self.partitioners.insert(topic.to_owned(), partitioner);
        self
    }

    /// How much a source reads ahead, in bytes over all its partitions (default 64 MiB).
    #[must_use]
    pub fn prefetch_bytes(mut self, bytes: usize) -> KafkaConfig {
        self.prefetch_bytes = bytes;
        self
    }

    /// How much waits in a producer before sending waits, in bytes. The default is an eighth of the job's memory budget (64 MiB).
    #[must_use]
    pub fn output_queue_bytes(mut self, bytes: usize) -> KafkaConfig {
        self.output_queue_bytes = Some(bytes);
        self
    }

    /// What the memory budget gives to the producer's queue; what the user has set goes before.
    pub(crate) fn output_queue_budget(&mut self, bytes: usize) {
        self.output_queue_bytes.get_or_insert(bytes);
    }

    /// Protections that a test switches off: `break:EP-11` reads uncommitted records and jumps over gaps, `break:EP-7` sends offsets under
    /// no generation.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> KafkaConfig {
        self.faults = faults;
        self
    }

    /// What was given to [`KafkaConfig::faults`].
    pub(crate) fn switches(&self) -> &Faults {
        &self.faults
    }

    /// librdkafka's name of a topic's partitioner.
    pub(crate) fn partitioner_of(&self, topic: &str) -> &'static str {
        match self.partitioners.get(topic) {
            Some(Partitioner::Crc32) => "consistent_random",
            // For outputs there is always one: the default.
            Some(Partitioner::Murmur2 | Partitioner::Unknown) | None => "murmur2_random",
        }
    }

    /// The client's own limit of a message.
    pub(crate) fn message_max_bytes(&self) -> usize {
        let set = self
            .producer
            .get("message.max.bytes")
            .or_else(|| self.common.get("message.max.bytes"));
        set.and_then(|v| v.trim().parse().ok()).unwrap_or(BATCH_BYTES)
    }

    /// What the client is told to keep in a queue at most, in its own unit.
    fn prefetch_kib(&self, partitions: usize) -> usize {
        (self.prefetch_bytes / 1024 / partitions.max(1)).max(PREFETCH_KIB_MIN)
    }

    /// What the client keeps in one lane's queue when `partitions` are read: it multiplies by 1000 (rd_kafka_new), and compares each
    /// partition's limit with the queue that it is forwarded to.
    pub(crate) fn lane_queue_bytes(&self, partitions: usize) -> u64 {
        self.prefetch_kib(partitions) as u64 * 1000
    }

    /// For reading `partitions` partitions.
    pub(crate) fn source_properties(&self, group: &str, partitions: usize) -> Vec<(String, String)> {
        let kib = self.prefetch_kib(partitions);
        let broken = self.faults.broken("EP-11");
        let mut properties = self.consumer_properties(&[("fetch.queue.backoff.ms", "10".into())], group);
        put(
            &mut properties,
            "isolation.level",
            if broken { "read_uncommitted" } else { "read_committed" },
        );
        put(
            &mut properties,
            "auto.offset.reset",
            if broken { "earliest" } else { "error" },
        );
        put(&mut properties, "enable.partition.eof", "true");
        put(&mut properties, "check.crcs", "true");
        put(&mut properties, "queued.max.messages.kbytes", &kib.to_string());
        properties
    }

    /// For reading pointers and asking about the group: always read_committed, which makes the broker answer stable offsets only.
    pub(crate) fn pointer_properties(&self, group: &str) -> Vec<(String, String)> {
        self.consumer_properties(&[], group)
    }

    /// For reading pointers without waiting for transactions that are undecided.
    pub(crate) fn glance_properties(&self, group: &str) -> Vec<(String, String)> {
        let mut properties = self.pointer_properties(group);
        put(&mut properties, "isolation.level", "read_uncommitted");
        properties
    }

    fn consumer_properties(&self, defaults: &[(&str, String)], group: &str) -> Vec<(String, String)> {
        let mut properties = self.merged(defaults, &self.consumer);
        put(&mut properties, "group.id", group);
        put(&mut properties, "enable.auto.commit", "false");
        put(&mut properties, "enable.auto.offset.store", "false");
        put(&mut properties, "auto.offset.reset", "error");
        put(&mut properties, "isolation.level", "read_committed");
        properties
    }

    /// For a transactional producer whose topics all take batches of `batch_bytes`.
    pub(crate) fn transactional_properties(
        &self,
        id: &str,
        timeout: Duration,
        batch_bytes: usize,
    ) -> Vec<(String, String)> {
        let mut properties = self.producer_properties(batch_bytes);
        put(&mut properties, "transactional.id", id);
        put(
            &mut properties,
            "transaction.timeout.ms",
            &timeout.as_millis().to_string(),
        );
        properties
    }

    /// For a producer outside of transactions.
    pub(crate) fn producer_properties(&self, batch_bytes: usize) -> Vec<(String, String)> {
        let mut defaults = vec![
            ("retry.backoff.ms", "5".to_owned()),
            ("queue.buffering.max.messages", "1000000".to_owned()),
        ];
        if batch_bytes < BATCH_BYTES {
            // The broker's limit holds for the batch: small messages must not be refused for their company.
            defaults.push(("batch.size", batch_bytes.max(1).to_string()));
        }
        let mut properties = self.merged(&defaults, &self.producer);
        put(&mut properties, "enable.idempotence", "true");
        put(
            &mut properties,
            "queue.buffering.max.kbytes",
            &(self.output_queue_bytes.unwrap_or(OUTPUT_QUEUE_BYTES) / 1024)
                .max(1)
                .to_string(),
        );
        properties
    }

    fn merged(&self, defaults: &[(&str, String)], own: &BTreeMap<String, String>) -> Vec<(String, String)> {
        let mut all = BTreeMap::new();
        all.extend(defaults.iter().map(|(k, v)| ((*k).to_owned(), v.clone())));
        all.extend(self.common.clone());
        all.extend(own.clone());
        all.insert("bootstrap.servers".to_owned(), self.brokers.clone());
        all.into_iter().collect()
    }
}

fn set(map: &mut BTreeMap<String, String>, name: &str, value: &str) -> Result<(), KafkaError> {
    if let Some(reason) = refusal(name, value) {
        return Err(KafkaError::Refused {
            name: name.to_owned(),
            reason: reason.to_owned(),
        });
    }
    if let Err(failure) = check_property(name, value) {
        let reason = if is_secret(name) {
            "the client does not take this value".to_owned()
        } else {
            failure.text
        };
        return Err(KafkaError::Invalid {
            name: name.to_owned(),
            reason,
        });
    }
    map.insert(name.to_owned(), value.to_owned());
    Ok(())
}

/// Sets what must hold, over whatever is there.
fn put(properties: &mut Vec<(String, String)>, name: &str, value: &str) {
    properties.retain(|(n, _)| n != name);
    properties.push((name.to_owned(), value.to_owned()));
}

struct Redacted<'a>(&'a BTreeMap<String, String>);

impl fmt::Debug for Redacted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self
            .0
            .iter()
            .map(|(k, v)| (k, if is_secret(k) { "[redacted]" } else { v }));
        f.debug_map().entries(shown).finish()
    }
}

impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConfig")
            .field("brokers", &self.brokers)
            .field("common", &Redacted(&self.common))
            .field("consumer", &Redacted(&self.consumer))
            .field("producer", &Redacted(&self.producer))
            .field("partitioners", &self.partitioners)
            .field("prefetch_bytes", &self.prefetch_bytes)
            .field("output_queue_bytes", &self.output_queue_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
