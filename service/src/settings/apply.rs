//! What settings become: the configuration of the engine, of the client of Kafka, and of this program.
use super::kind::Value;
use super::table::{self, Setting};
use super::{Origin, Property, Settings};
use crate::yaml::Diagnostic;
use keyfold::config::{Config, Guarantee};
use keyfold::types::Partitioner;
use keyfold_kafka::{GroupTimeouts, KafkaConfig, KafkaError};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Who runs a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Group mode where the job allows it.
    Auto,
    /// One instance reads all partitions.
    Single,
    /// Instances share the partitions.
    Group,
}

/// How lines of the log are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// As JSON objects.
    pub json: bool,
    /// Directives of the filter.
    pub levels: String,
}

type Values = BTreeMap<&'static str, (Value, Origin)>;
type Properties = BTreeMap<&'static str, BTreeMap<String, Property>>;

/// Checks what no single value shows, after all values have been read.
pub(super) fn checked(
    values: Values,
    properties: Properties,
    mut wrong: Vec<Diagnostic>,
) -> Result<Settings, Vec<Diagnostic>> {
    let mut settings = Settings {
        values,
        properties,
        kafka: KafkaConfig::new(""),
        timeouts: GroupTimeouts::default(),
    };
    settings.kafka = settings.client(&mut wrong);
    settings.timeouts = settings.group_timeouts(&mut wrong);
    if settings.text(&table::STATE_DIR) == settings.text(&table::CHECKPOINT_DIR) {
        let message = "setting state_dir: it is the same directory as checkpoint_dir";
        let help = "give each its own: one may be lost, the other must not";
        wrong.push(settings.origin(&table::STATE_DIR).diagnostic(message).help(help));
    }
    match wrong.is_empty() {
        true => Ok(settings),
        false => Err(wrong),
    }
}

impl Settings {
    /// The engine's configuration of a job, which has a directory of its own in the state directory.
    #[must_use]
    pub fn engine(&self, job: &str) -> Config {
        let mut config = Config::new(PathBuf::from(self.text(&table::STATE_DIR)).join(job));
        config.guarantee = match self.text(&table::GUARANTEE) {
            "at_least_once" => Guarantee::AtLeastOnce,
            _ => Guarantee::ExactlyOnce,
        };
        config.epoch_interval = self.duration(&table::EPOCH_INTERVAL);
        config.shards = self.number(&table::SHARDS).unwrap_or(config.shards);
        config.max_parallelism = self.number(&table::MAX_PARALLELISM);
        config.partitioner = match self.text(&table::PARTITIONER) {
            "crc32" => Partitioner::Crc32,
            "unknown" => Partitioner::Unknown,
            _ => Partitioner::Murmur2,
        };
        config.source_lanes = self.number(&table::SOURCE_LANES).unwrap_or(config.source_lanes);
        config.keyed_lanes = self.number(&table::KEYED_LANES).unwrap_or(config.keyed_lanes);
        config.memory_bytes = self.bytes(&table::MEMORY).unwrap_or(config.memory_bytes);
        config.max_future = self.duration(&table::MAX_FUTURE);
        config.take_over = self.is(&table::TAKE_OVER);
        config.accept_lost_pointers = self.is(&table::ACCEPT_LOST_POINTERS);
        config.recommit_interval = self.duration(&table::RECOMMIT_INTERVAL);
        config.transaction_timeout = self.duration(&table::TRANSACTION_TIMEOUT);
        config.instance = self.own_text(&table::INSTANCE);
        config.leave_group = self.is(&table::LEAVE_GROUP);
        config.revoke_budget = self.duration(&table::REVOKE_BUDGET);
        config.stall_after = self.duration(&table::STALL_AFTER);
        config.refusal_retries_max = self
            .number(&table::REFUSAL_RETRIES_MAX)
            .unwrap_or(config.refusal_retries_max);
        config.chain_objects_max = self
            .number(&table::CHAIN_OBJECTS_MAX)
            .map_or(config.chain_objects_max, u64::from);
        config.chain_bytes_min = self
            .bytes(&table::CHAIN_BYTES_MIN)
            .map_or(config.chain_bytes_min, |bytes| bytes as u64);
        config.grace = self.duration(&table::CHECKPOINT_GRACE);
        config
    }

    /// The client's configuration.
    #[must_use]
    pub fn kafka(&self) -> &KafkaConfig {
        &self.kafka
    }

    /// The brokers, for messages.
    #[must_use]
    pub fn brokers(&self) -> &str {
        self.text(&table::KAFKA_BROKERS)
    }

    /// The membership's timeouts.
    #[must_use]
    pub fn timeouts(&self) -> GroupTimeouts {
        self.timeouts
    }

    /// Who runs the job.
    #[must_use]
    pub fn mode(&self) -> Mode {
        match self.text(&table::MODE) {
            "single" => Mode::Single,
            "group" => Mode::Group,
            _ => Mode::Auto,
        }
    }

    /// Where the checkpoint store lies: the path of a directory, or the address of a bucket.
    #[must_use]
    pub fn checkpoint_dir(&self) -> &str {
        self.text(&table::CHECKPOINT_DIR)
    }

    /// The service of S3, where it is not the environment's.
    #[must_use]
    pub fn s3_endpoint(&self) -> Option<String> {
        self.own_text(&table::S3_ENDPOINT)
    }

    /// The region of the bucket, where it is not the environment's.
    #[must_use]
    pub fn s3_region(&self) -> Option<String> {
        self.own_text(&table::S3_REGION)
    }

    /// Where health and metrics are served.
    #[must_use]
    pub fn listen(&self) -> Option<&str> {
        Some(self.text(&table::HTTP_LISTEN)).filter(|address| *address != "off")
    }

    /// How the log is written.
    #[must_use]
    pub fn log(&self) -> LogSettings {
        LogSettings {
            json: self.text(&table::LOG_FORMAT) == "json",
            levels: self.text(&table::LOG_LEVEL).to_owned(),
        }
    }

    fn text(&self, setting: &'static Setting) -> &str {
        match self.value(setting) {
            Value::Text(text) => text,
            _ => "",
        }
    }

    fn own_text(&self, setting: &'static Setting) -> Option<String> {
        match self.value(setting) {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    fn is(&self, setting: &'static Setting) -> bool {
        matches!(self.value(setting), Value::Bool(true))
    }

    fn duration(&self, setting: &'static Setting) -> Duration {
        match self.value(setting) {
            Value::Duration(duration) => *duration,
            _ => Duration::ZERO,
        }
    }

    fn number(&self, setting: &'static Setting) -> Option<u32> {
        match self.value(setting) {
            Value::Number(number) => u32::try_from(*number).ok(),
            _ => None,
        }
    }

    fn bytes(&self, setting: &'static Setting) -> Option<usize> {
        match self.value(setting) {
            Value::Bytes(bytes) => usize::try_from(*bytes).ok(),
            _ => None,
        }
    }

    fn client(&self, wrong: &mut Vec<Diagnostic>) -> KafkaConfig {
        let mut config = KafkaConfig::new(self.brokers());
        if let Some(bytes) = self.bytes(&table::KAFKA_PREFETCH) {
            config = config.prefetch_bytes(bytes);
        }
        if let Some(bytes) = self.bytes(&table::KAFKA_OUTPUT_QUEUE) {
            config = config.output_queue_bytes(bytes);
        }
        type Set = fn(KafkaConfig, &str, &str) -> Result<KafkaConfig, KafkaError>;
        let groups: [(&Setting, Set); 3] = [
            (&table::KAFKA_PROPERTIES, KafkaConfig::property),
            (&table::KAFKA_CONSUMER_PROPERTIES, KafkaConfig::consumer_property),
            (&table::KAFKA_PRODUCER_PROPERTIES, KafkaConfig::producer_property),
        ];
        for (setting, set) in groups {
            for (name, property) in self.properties.get(setting.name).into_iter().flatten() {
                match set(config.clone(), name, &property.value) {
                    Ok(with) => config = with,
                    Err(error) => wrong.push(refused(name, property, &error)),
                }
            }
        }
        config
    }

    fn group_timeouts(&self, wrong: &mut Vec<Diagnostic>) -> GroupTimeouts {
        let timeouts = GroupTimeouts {
            session: self.duration(&table::KAFKA_SESSION_TIMEOUT),
            heartbeat: self.duration(&table::KAFKA_HEARTBEAT_INTERVAL),
            max_poll: self.duration(&table::KAFKA_MAX_POLL_INTERVAL),
        };
        if let Err(KafkaError::Timeouts { name, reason }) = timeouts.check() {
            let setting = instead(&name).unwrap_or(&table::KAFKA_SESSION_TIMEOUT);
            let message = format!("setting {}: {reason}", setting.name);
            wrong.push(self.origin(setting).diagnostic(message));
        }
        timeouts
    }
}

fn refused(name: &str, property: &Property, error: &KafkaError) -> Diagnostic {
    // Without the line: the name of a secret may be misspelt.
    let diagnostic = property.origin.diagnostic(error.to_string()).without_line();
    if let Some(setting) = instead(name) {
        return diagnostic.help(format!("use the setting {}", setting.name));
    }
    match error {
        KafkaError::Invalid { .. } => {
            let names = keyfold_kafka::property_names();
            if names.iter().any(|known| known == name) {
                return diagnostic;
            }
            match crate::nearest::nearest(name, names.iter().map(String::as_str)) {
                Some(meant) => diagnostic.help(format!("did you mean `{meant}`?")),
                None => diagnostic.help("the properties are those of librdkafka's CONFIGURATION.md"),
            }
        }
        _ => diagnostic.help("remove it"),
    }
}

/// The setting that a property of the client is set by.
fn instead(property: &str) -> Option<&'static Setting> {
    Some(match property {
        "bootstrap.servers" | "metadata.broker.list" => &table::KAFKA_BROKERS,
        "session.timeout.ms" => &table::KAFKA_SESSION_TIMEOUT,
        "heartbeat.interval.ms" => &table::KAFKA_HEARTBEAT_INTERVAL,
        "max.poll.interval.ms" => &table::KAFKA_MAX_POLL_INTERVAL,
        "queued.max.messages.kbytes" => &table::KAFKA_PREFETCH,
        "queue.buffering.max.kbytes" => &table::KAFKA_OUTPUT_QUEUE,
        "transaction.timeout.ms" => &table::TRANSACTION_TIMEOUT,
        "group.instance.id" => &table::INSTANCE,
        _ => return None,
    })
}
