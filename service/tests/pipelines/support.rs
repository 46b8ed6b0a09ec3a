//! A broker in memory under the name of Kafka's connector.
use keyfold::testing::{MemoryBroker, TestDriver, TestRecord};
use keyfold_kafka::KafkaConfig;
use keyfold_service::pipeline::{self, LoadedPipeline, PipelineErrors};
use keyfold_service::registry::{Connector, Environment, Keys, SinkConnector, SourceConnector};
use keyfold_service::run::{Commits, Waiting};
use keyfold_service::yaml::Source;
use std::path::{Path, PathBuf};
use std::sync::Arc;

struct Memory(MemoryBroker);

impl Connector for Memory {
    fn source(&self, keys: &mut Keys<'_>) -> Option<SourceConnector> {
        let topic = keys.need("topic", "topic: orders")?.to_owned();
        let broker = self.0.clone();
        Some(SourceConnector {
            describe: format!("kafka topic {topic}"),
            topic: topic.clone(),
            commits: Commits::Kafka,
            make: Arc::new(move || broker.source(&topic)),
        })
    }

    fn sink(&self, keys: &mut Keys<'_>) -> Option<SinkConnector> {
        let topic = keys.need("topic", "topic: totals")?.to_owned();
        let broker = self.0.clone();
        Some(SinkConnector {
            describe: format!("kafka topic {topic}"),
            commits: Commits::Kafka,
            make: Arc::new(move |_| Ok(broker.target(&topic).into())),
        })
    }
}

/// The program's connectors, of which no call reaches a broker.
pub fn environment() -> Environment {
    Environment::new(KafkaConfig::new("127.0.0.1:1"))
}

pub fn in_memory(broker: &MemoryBroker) -> Environment {
    environment().with("kafka", Memory(broker.clone()))
}

pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

pub fn load(text: &str, environment: &Environment) -> Result<LoadedPipeline, PipelineErrors> {
    pipeline::of_source(&Source::new("p.yaml", text), Path::new(""), environment)
}

/// A driver that runs a pipeline, with these topics of one partition.
pub fn driver(text: &str, topics: &[&str]) -> TestDriver {
    let driver = TestDriver::new(build(text));
    topics.iter().for_each(|topic| driver.broker().create_topic(topic, 1));
    driver
}

/// Builds a pipeline's topology on the broker at hand.
pub fn build(
    text: &str,
) -> impl Fn(&MemoryBroker) -> Result<keyfold::topology::Topology, keyfold::topology::TopologyError> + 'static {
    let text = text.to_owned();
    move |broker| {
        let loaded = load(&text, &in_memory(broker)).unwrap_or_else(|e| panic!("{e}"));
        Ok(loaded.topology(&Waiting::default()).expect("builds"))
    }
}

/// Runs a pipeline from `in` to `out` over values, with key `k`; what it wrote, as `key=value`.
pub fn run(text: &str, values: &[&str]) -> Vec<String> {
    let records = values.iter().map(|value| TestRecord::new("k", value));
    run_records(text, records)
}

pub fn run_records(text: &str, records: impl IntoIterator<Item = TestRecord>) -> Vec<String> {
    let mut driver = driver(text, &["in", "out"]);
    driver.start().expect("starts");
    epoch(&mut driver, "in", records);
    texts(&driver.outputs("out"))
}

/// Pipes records in and cuts an epoch.
pub fn epoch(driver: &mut TestDriver, topic: &str, records: impl IntoIterator<Item = TestRecord>) {
    for record in records {
        driver.pipe(topic, record).expect("the topic takes it");
    }
    driver.barrier().unwrap_or_else(|e| panic!("{e}"));
}

/// `key=value` of each record.
pub fn texts(records: &[TestRecord]) -> Vec<String> {
    records
        .iter()
        .map(|r| format!("{}={}", r.key_text(), r.value_text()))
        .collect()
}
