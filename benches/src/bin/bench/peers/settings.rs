//! How the peers are set. What is not named here has its default.

use std::fs;
use std::io;
use std::path::Path;

/// A program of `benches/peers/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    KafkaStreams,
    Flink,
}

/// A program with its settings.
#[derive(Debug, Clone, Copy)]
pub struct Peer {
    pub program: Program,
    /// What sets it apart from the other rows of its program.
    pub what: &'static str,
    /// Between commits or checkpoints.
    pub interval_ms: u64,
    /// What the JVM is told.
    pub jvm: &'static [&'static str],
    settings: &'static [&'static str],
}

/// As many threads as the machine has processors for them; exactly once.
const KAFKA_STREAMS: &[&str] = &[
    "processing.guarantee=exactly_once_v2",
    "num.stream.threads=2",
    "replication.factor=1",
    "auto.offset.reset=earliest",
];

/// As many slots as the machine has processors for them. A failure is to be seen, not to be recovered from.
const FLINK: &[&str] = &[
    "parallelism.default=2",
    "taskmanager.numberOfTaskSlots=2",
    "taskmanager.memory.managed.size=256m",
    "execution.checkpointing.mode=EXACTLY_ONCE",
    "execution.checkpointing.incremental=true",
    "execution.checkpointing.externalized-checkpoint-retention=RETAIN_ON_CANCELLATION",
    "execution.state-recovery.claim-mode=CLAIM",
    "pipeline.object-reuse=true",
    "restart-strategy.type=disable",
];

const IN_MEMORY: &str =
    "dsl.store.suppliers.class=org.apache.kafka.streams.state.BuiltInDslStoreSuppliers$InMemoryDslStoreSuppliers";

impl Peer {
    pub const fn kafka_streams(what: &'static str, interval_ms: u64, settings: &'static [&'static str]) -> Peer {
        Peer {
            program: Program::KafkaStreams,
            what,
            interval_ms,
            jvm: &["-Xmx512m"],
            settings,
        }
    }

    pub const fn flink(what: &'static str, interval_ms: u64, settings: &'static [&'static str]) -> Peer {
        Peer {
            program: Program::Flink,
            what,
            interval_ms,
            jvm: &["-Xmx512m"],
            settings,
        }
    }

    pub const fn jvm(self, jvm: &'static [&'static str]) -> Peer {
        Peer { jvm, ..self }
    }

    /// Of a row.
    pub fn name(&self) -> String {
        let program = match self.program {
            Program::KafkaStreams => "Kafka Streams",
            Program::Flink => "Flink",
        };
        let interval = match self.interval_ms {
            ms if ms % 1000 == 0 => format!("{} s", ms / 1000),
            ms => format!("{ms} ms"),
        };
        format!("{program}, {}, {interval}", self.what)
    }

    /// Removes its local state from its directory: all that is in Kafka or, with Flink, in checkpoints stays.
    pub fn wipe(&self, dir: &Path) -> io::Result<()> {
        fs::remove_dir_all(match self.program {
            Program::KafkaStreams => dir.to_owned(),
            Program::Flink => dir.join("scratch"),
        })
    }

    /// All that it is told, `NAME=VALUE`.
    pub fn settings(&self) -> Vec<String> {
        let (common, interval) = match self.program {
            Program::KafkaStreams => (KAFKA_STREAMS, format!("commit.interval.ms={}", self.interval_ms)),
            Program::Flink => (
                FLINK,
                format!("execution.checkpointing.interval={} ms", self.interval_ms),
            ),
        };
        let told = common.iter().chain(self.settings).map(|text| (*text).to_owned());
        told.chain([interval]).collect()
    }
}

/// The settings that the ratios are of: state in RocksDB, a commit each second.
pub const KAFKA_STREAMS_USUAL: Peer = Peer::kafka_streams("RocksDB", 1_000, &[]);
pub const FLINK_USUAL: Peer = Peer::flink("RocksDB", 1_000, &["state.backend.type=rocksdb"]);

const LARGE: &[&str] = &["-Xmx1g"];
const PARALLEL: &[&str] = &["-Xmx512m", "-XX:+UseParallelGC"];

/// Others with which they may be quicker: another collector than the JVM's default, a commit each 10 s, state on the heap.
pub const THEIR_BEST: &[Peer] = &[
    Peer::kafka_streams("RocksDB, parallel GC", 1_000, &[]).jvm(PARALLEL),
    Peer::flink("RocksDB, parallel GC", 1_000, &["state.backend.type=rocksdb"]).jvm(PARALLEL),
    Peer::kafka_streams("RocksDB", 10_000, &["producer.transaction.timeout.ms=60000"]),
    Peer::kafka_streams("in memory", 1_000, &[IN_MEMORY]).jvm(LARGE),
    Peer::flink("RocksDB", 10_000, &["state.backend.type=rocksdb"]),
    Peer::flink("on the heap", 1_000, &["state.backend.type=hashmap"]).jvm(LARGE),
    Peer::flink("on the heap", 10_000, &["state.backend.type=hashmap"]).jvm(LARGE),
];
