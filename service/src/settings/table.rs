//! Every setting, once. Flags, variables of the environment, keys of the file, `config/keyfold.yaml`, `keyfold settings` and the
//! documentation come from this table.
use super::kind::Kind;
use std::time::Duration;

/// A setting.
#[derive(Debug, PartialEq, Eq)]
pub struct Setting {
    /// As in the file, with `.` between a mapping and its key.
    pub name: &'static str,
    /// The heading that it is listed under.
    pub part: Part,
    /// Its type.
    pub kind: Kind,
    /// As it is written in the file; `auto` where the program decides.
    pub default: &'static str,
    /// What `auto` does, where it can be written.
    pub auto: Option<&'static str>,
    /// What it does. The first sentence is the short help.
    pub meaning: &'static str,
}

/// What a setting belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// What is promised, and who runs it.
    Job,
    /// Directories.
    Storage,
    /// Checkpoints in S3.
    S3,
    /// Epochs and transactions.
    Epochs,
    /// Threads and memory.
    Resources,
    /// Several instances of one job.
    Group,
    /// The client of Kafka.
    Kafka,
    /// Health and metrics.
    Http,
    /// The log.
    Log,
}

impl Part {
    /// The heading.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Part::Job => "The job",
            Part::Storage => "Directories",
            Part::S3 => "Checkpoints in S3",
            Part::Epochs => "Epochs",
            Part::Resources => "Threads and memory",
            Part::Group => "Several instances",
            Part::Kafka => "Kafka",
            Part::Http => "Health and metrics",
            Part::Log => "Log",
        }
    }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn duration(min_ms: u64, max_ms: u64) -> Kind {
    Kind::Duration {
        min: ms(min_ms),
        max: ms(max_ms),
    }
}

const fn bytes(min: u64, max: u64) -> Kind {
    Kind::Bytes { min, max }
}

const fn number(min: u64, max: u64) -> Kind {
    Kind::Number { min, max }
}

const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

macro_rules! settings {
    ($($id:ident, $name:literal, $part:ident, $kind:expr, $default:literal, $auto:expr, $meaning:literal;)*) => {
        $(
            #[doc = concat!("`", $name, "`")]
            pub static $id: Setting = Setting {
                name: $name,
                part: Part::$part,
                kind: $kind,
                default: $default,
                auto: $auto,
                meaning: $meaning,
            };
        )*
        /// Every setting, in the order of the documentation.
        pub static ALL: &[&Setting] = &[$(&$id),*];
    };
}

settings! {
    GUARANTEE, "guarantee", Job, Kind::Choice(&["exactly_once", "at_least_once"]), "exactly_once", None,
        "What is promised for outputs. With exactly_once, outputs, positions and state change together; readers need read_committed. \
         With at_least_once, outputs are visible as they are produced, and some come again after a crash.";
    MODE, "mode", Job, Kind::Choice(&["auto", "single", "group"]), "auto", None,
        "Who runs the job: single is one instance that reads all partitions, group is as many as there are, which share them. \
         auto takes group where it can: every source and sink is a topic, and keys are the records' own keys.";
    PARTITIONER, "partitioner", Job, Kind::Choice(&["murmur2", "crc32", "unknown"]), "murmur2", None,
        "How the producers of the source topics choose partitions: murmur2 is that of Java clients, crc32 that of librdkafka. \
         unknown takes a record's partition as it is, and is for group mode.";
    MAX_FUTURE, "max_future", Job, duration(0, 3650 * DAY), "50m", None,
        "A record whose timestamp is further ahead of the clock is a bad record. Brokers refuse more than an hour.";
    TAKE_OVER, "take_over", Job, Kind::Bool, "false", None,
        "In single mode, ends another instance that runs the job instead of waiting until it has ended.";
    ACCEPT_LOST_POINTERS, "accept_lost_pointers", Job, Kind::Bool, "false", None,
        "Goes on with empty state, at the start positions, when the committed offsets of a job that has state are gone. \
         For one start, after a message that says so.";

    STATE_DIR, "state_dir", Storage, Kind::Directory, "data/state", None,
        "Local copies of state, in a directory for each job. Every instance on a machine needs one of its own. It may be lost.";
    CHECKPOINT_DIR, "checkpoint_dir", Storage, Kind::Store, "data/checkpoints", None,
        "The checkpoint store: what a job's state is restored from. A directory, on a disk that outlives the instances, or a bucket of S3, \
         s3://bucket/prefix, with credentials from the environment (AWS_ACCESS_KEY_ID and so on). All instances of a job need the same.";
    S3_ENDPOINT, "s3.endpoint", S3, Kind::Url, "auto", Some("`AWS_ENDPOINT_URL`, else that of AWS"),
        "The service that has the bucket, where it is not AWS. It must know conditional writes (If-None-Match).";
    S3_REGION, "s3.region", S3, Kind::Name, "auto", Some("`AWS_REGION`, else us-east-1"),
        "The region of the bucket.";

    EPOCH_INTERVAL, "epoch_interval", Epochs, duration(10, 10 * MINUTE), "1s", None,
        "Time from one barrier to the next, and so between two commits. Also the largest part of the latency of outputs.";
    TRANSACTION_TIMEOUT, "transaction_timeout", Epochs, duration(SECOND, 15 * MINUTE), "15s", None,
        "How long the broker keeps a transaction open whose instance has died. An epoch is closed early when its outputs would take \
         more than a quarter of it.";
    RECOMMIT_INTERVAL, "recommit_interval", Epochs, duration(SECOND, DAY), "10m", None,
        "How often a job without input commits its offsets again, so that the broker does not forget them.";
    REFUSAL_RETRIES_MAX, "refusal_retries_max", Epochs, number(0, 100), "3", None,
        "How often outputs that the broker refuses are tried again before the job stops.";
    CHAIN_OBJECTS_MAX, "chain_objects_max", Epochs, number(1, 100_000), "256", None,
        "A part of the state gets a new base in the checkpoint store when more epochs than this have changed it. At four times as many the \
         job waits for the base.";
    CHAIN_BYTES_MIN, "chain_bytes_min", Epochs, bytes(MIB, 1024 * GIB), "8MiB", None,
        "The same when those epochs hold more bytes of it than this, and than a quarter of its last base.";
    CHECKPOINT_GRACE, "checkpoint_grace", Epochs, duration(MINUTE, 365 * DAY), "1d", None,
        "How long the checkpoint store keeps what nothing needs any more. A base must be written within a third of it.";

    MEMORY, "memory", Resources, bytes(64 * MIB, 1024 * GIB), "512MiB", None,
        "The memory budget: state in memory, RocksDB, outputs that wait. Records that are read ahead, and the process itself, come on top.";
    SHARDS, "shards", Resources, number(1, 32_768), "4", None,
        "In single mode, how many parts state is cut into. Fixed once a job has begun. In group mode there is one for each partition.";
    MAX_PARALLELISM, "max_parallelism", Resources, number(1, 32_768), "auto",
        Some("16 times the shards, made a multiple of 240, at most 32768"),
        "Key groups: the most parts that state can ever be spread over. A multiple of the shards. Fixed once a job has begun.";
    SOURCE_LANES, "source_lanes", Resources, number(1, 256), "1", None,
        "Threads for each source that read, decode and run steps up to a key_by; at most one for each partition.";
    KEYED_LANES, "keyed_lanes", Resources, number(1, 256), "auto", Some("half of the processors"),
        "Threads that own keys, for each key_by.";

    INSTANCE, "instance", Group, Kind::Name, "auto", Some("a name that is drawn once and kept in the state directory"),
        "In group mode, this instance's name among the members of the group; no two may have the same.";
    LEAVE_GROUP, "leave_group", Group, Kind::Bool, "false", None,
        "In group mode, an instance that is stopped gives its partitions to the others at once. Otherwise they are kept for its restart \
         until kafka.session_timeout has passed.";
    REVOKE_BUDGET, "revoke_budget", Group, duration(0, MINUTE), "1s", None,
        "In group mode, how long partitions that are taken away are held to commit what was read of them.";
    STALL_AFTER, "stall_after", Group, duration(SECOND, HOUR), "20s", None,
        "In group mode, an instance that gets nowhere for so long leaves the group, so that others take its partitions. \
         Also when /health/ready says that nothing moves.";

    KAFKA_BROKERS, "kafka.brokers", Kafka, Kind::Brokers, "127.0.0.1:9092", None,
        "Brokers to begin with; the others are learnt from them.";
    KAFKA_PROPERTIES, "kafka.properties", Kafka, Kind::Properties, "", None,
        "Properties of librdkafka for every client, by their own names. Those that would break a guarantee are refused.";
    KAFKA_CONSUMER_PROPERTIES, "kafka.consumer_properties", Kafka, Kind::Properties, "", None,
        "The same for consumers alone.";
    KAFKA_PRODUCER_PROPERTIES, "kafka.producer_properties", Kafka, Kind::Properties, "", None,
        "The same for producers alone.";
    KAFKA_PREFETCH, "kafka.prefetch", Kafka, bytes(MIB, 64 * GIB), "64MiB", None,
        "What a source reads ahead, over all its partitions.";
    KAFKA_OUTPUT_QUEUE, "kafka.output_queue", Kafka, bytes(MIB, 2 * GIB), "auto", Some("an eighth of memory"),
        "Outputs that wait in a producer before sending waits.";
    KAFKA_SESSION_TIMEOUT, "kafka.session_timeout", Kafka, duration(SECOND, HOUR), "10s", None,
        "In group mode, how long the partitions of an instance that has died are kept for its return. The broker has limits of its own.";
    KAFKA_HEARTBEAT_INTERVAL, "kafka.heartbeat_interval", Kafka, duration(1, SECOND), "1s", None,
        "In group mode, how soon an instance learns that partitions are taken from it. At most a third of kafka.session_timeout.";
    KAFKA_MAX_POLL_INTERVAL, "kafka.max_poll_interval", Kafka, duration(SECOND, DAY), "1m", None,
        "In group mode, how long the group waits for an instance that hangs. At least kafka.session_timeout.";

    HTTP_LISTEN, "http.listen", Http, Kind::Address, "127.0.0.1:9464", None,
        "Where /metrics, /health/live and /health/ready are served; off serves none, port 0 takes a free one. Other hosts reach it \
         with 0.0.0.0:9464: it shows no records and no secrets, and asks for no password.";

    LOG_FORMAT, "log.format", Log, Kind::Choice(&["text", "json"]), "text", None,
        "How lines of the log are written to standard error.";
    LOG_LEVEL, "log.level", Log, Kind::Levels, "info", None,
        "What is logged: error, warn, info, debug or trace; more of one part with `info,keyfold_kafka=debug`.";
}

impl Setting {
    /// `KEYFOLD_EPOCH_INTERVAL`.
    #[must_use]
    pub fn variable(&self) -> String {
        format!("{PREFIX}{}", self.name.replace('.', "_").to_ascii_uppercase())
    }

    /// `epoch-interval`.
    #[must_use]
    pub fn flag(&self) -> String {
        self.name.replace(['.', '_'], "-")
    }

    /// The meaning's first sentence.
    #[must_use]
    pub fn short(&self) -> &'static str {
        self.meaning
            .split_once(". ")
            .map_or(self.meaning, |(first, _)| first)
            .trim_end_matches('.')
    }

    /// Whether it is a mapping of properties.
    #[must_use]
    pub fn is_properties(&self) -> bool {
        self.kind == Kind::Properties
    }
}

/// What the names of our variables of the environment begin with.
pub const PREFIX: &str = "KEYFOLD_";

/// The setting of a name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Setting> {
    ALL.iter().find(|setting| setting.name == name).copied()
}
