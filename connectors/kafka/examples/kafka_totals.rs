//! Sums the values of each key: a topic of numbers in, a topic of running totals out, exactly once.
//!
//! ```text
//! make kafka-up
//! for topic in payments totals; do
//!     scripts/kafka/topics.sh --create --topic $topic --partitions 4
//! done
//! cargo run --release -p keyfold-kafka --example kafka_totals -- 127.0.0.1:9092 payments totals
//! ```
//!
//! Then, in other terminals, write lines like `alice:17` and watch the totals. Readers must ask for committed records:
//!
//! ```text
//! scripts/kafka/console-producer.sh --topic payments --reader-property parse.key=true --reader-property key.separator=:
//! scripts/kafka/console-consumer.sh --topic totals --from-beginning --isolation-level read_committed \
//!     --formatter-property print.key=true
//! ```
use keyfold::checkpoint::DirectoryStore;
use keyfold::config::Config;
use keyfold::runtime::Runtime;
use keyfold::testing::Faults;
use keyfold::topology::{BadRecords, Job, SourceOptions};
use keyfold::types::codec::Json;
use keyfold_kafka::{KafkaConfig, KafkaLog, KafkaSource, kafka_target};
use std::sync::Arc;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [brokers, payments, totals] = arguments.as_slice() else {
        anyhow::bail!("usage: kafka_totals BROKERS INPUT-TOPIC OUTPUT-TOPIC");
    };
    // Any librdkafka property may be set here, except those that would break a guarantee.
    let kafka = KafkaConfig::new(brokers.as_str()).property("client.id", "kafka-totals")?;

    let job = Job::new("kafka-totals");
    let source = Box::new(KafkaSource::topic(&kafka, payments.as_str()));
    // What is no number is counted and left out; without this option it would stop the job.
    job.source_with(
        "payments",
        source,
        SourceOptions::bad_records(BadRecords::Skip),
        |record| {
            let text = std::str::from_utf8(record.value.unwrap_or_default()).map_err(|e| e.to_string())?;
            text.trim().parse::<i64>().map_err(|e| e.to_string())
        },
    )
    .key_by_record_key("by-key")
    .try_fold(
        "totals",
        Json::new(1),
        || 0_i64,
        |total, amount| {
            *total = total.checked_add(amount).ok_or("the total is too large")?;
            Ok::<(), String>(())
        },
    )
    .to("out", kafka_target(&kafka, totals)?, Json::new(1));

    let config = Config::new("kafka-totals/state");
    let store = Arc::new(DirectoryStore::open("kafka-totals/checkpoints", Faults::none())?);
    // Outputs, offsets and the pointer to the checkpoint are committed in one transaction.
    let log = KafkaLog::factory(&kafka, config.transaction_timeout);
    let runtime = Runtime::single(job.build()?, config, log, store);

    let stop = runtime.stop_handle();
    let mut signals = signal_hook::iterator::Signals::new([signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])?;
    std::thread::spawn(move || signals.forever().for_each(|_| stop.stop()));
    Ok(runtime.run()?)
}
