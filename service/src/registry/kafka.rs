//! `connector: kafka`.
use super::{Connector, Keys, SinkConnector, SourceConnector};
use crate::nearest;
use crate::run::Commits;
use keyfold_kafka::{KafkaConfig, KafkaSource, StartAt, kafka_target_unless};
use std::sync::Arc;

/// Topics of the brokers that the settings name.
pub struct Kafka {
    config: KafkaConfig,
}

impl Kafka {
    /// With the client's settings.
    pub fn new(config: KafkaConfig) -> Kafka {
        Kafka { config }
    }
}

/// Longest name of a topic, as the broker has it.
const TOPIC_CHARS_MAX: usize = 249;

/// A topic's name in the broker's grammar.
fn topic(keys: &mut Keys<'_>) -> Option<String> {
    let node = keys.peek("topic");
    let topic = keys.need("topic", "topic: orders")?;
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let good = topic.len() <= TOPIC_CHARS_MAX && topic.chars().all(letter) && topic != "." && topic != "..";
    if !good {
        let message = format!("`{topic}` is no name of a topic");
        keys.wrong(
            node?,
            &message,
            "use 1 to 249 characters of a-z, A-Z, 0-9, `.`, `_` and `-`",
        );
        return None;
    }
    Some(topic.to_owned())
}

/// Where a new job begins to read.
fn start(keys: &mut Keys<'_>) -> Option<StartAt> {
    let Some(node) = keys.take("start") else {
        return Some(StartAt::Earliest);
    };
    match node.text.as_str() {
        "earliest" => Some(StartAt::Earliest),
        "latest" => Some(StartAt::Latest),
        other => {
            let help = nearest::help(other, ["earliest", "latest"]);
            keys.wrong(node, &format!("`start: {other}` is no place to start at"), &help);
            None
        }
    }
}

fn describe(topic: &str) -> String {
    format!("kafka topic {topic}")
}

impl Connector for Kafka {
    fn source(&self, keys: &mut Keys<'_>) -> Option<SourceConnector> {
        let (topic, start) = (topic(keys), start(keys));
        let (topic, start, config) = (topic?, start?, self.config.clone());
        Some(SourceConnector {
            describe: describe(&topic),
            topic: topic.clone(),
            commits: Commits::Kafka,
            make: Arc::new(move || Box::new(KafkaSource::topic(&config, topic.as_str()).start(start))),
        })
    }

    fn sink(&self, keys: &mut Keys<'_>) -> Option<SinkConnector> {
        let topic = topic(keys)?;
        let config = self.config.clone();
        Some(SinkConnector {
            describe: describe(&topic),
            commits: Commits::Kafka,
            make: Arc::new(move |waiting| {
                let again = |why: &str, backoff| waiting.again(&topic, why, backoff);
                let target = kafka_target_unless(&config, &topic, waiting.stop(), &again);
                target.map(Into::into).map_err(|e| e.to_string())
            }),
        })
    }
}
