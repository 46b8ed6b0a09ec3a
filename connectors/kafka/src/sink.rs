//! Output topics.
use crate::config::KafkaConfig;
use crate::error::KafkaError;
use crate::ffi::{Client, Kind};
use keyfold::sink::LogTarget;
use std::time::Duration;

/// What a record needs beside key, value and headers' own bytes: 61 bytes of batch header, at most 36 of the record's own fields, and
/// at most 10 for the lengths of each header (room for 41 of them).
const ALLOWANCE: usize = 512;

/// How long the broker may take to tell the topic's limit.
const ASK_WITHIN: Duration = Duration::from_secs(5);

/// Names an output topic, with the largest output that client and topic take (key, value and headers together): the smaller of the
/// client's `message.max.bytes` and the topic's `max.message.bytes`, less 512 bytes for what the format adds.
/// When the topic's limit may not be read, the client's (1,000,000 unless set) counts alone.
///
/// # Errors
/// When the topic does not exist or the client cannot be made.
pub fn kafka_target(config: &KafkaConfig, topic: &str) -> Result<LogTarget, KafkaError> {
    let context = || format!("output topic {topic}");
    let client =
        Client::new(Kind::Producer, &config.producer_properties(usize::MAX)).map_err(|f| KafkaError::Client {
            context: context(),
            reason: f.text,
        })?;
    match client.partitions(topic, ASK_WITHIN) {
        Ok(None) => {
            return Err(KafkaError::UnknownTopic {
                topic: topic.to_owned(),
            });
        }
        Ok(Some(_)) => {}
        Err(f) => {
            return Err(KafkaError::Client {
                context: context(),
                reason: f.text,
            });
        }
    }
    let own = config.message_max_bytes();
    let told = client
        .topic_setting(topic, "max.message.bytes", ASK_WITHIN)
        .and_then(|v| v.parse().ok());
    if told.is_none() {
        tracing::warn!(
            topic,
            "the topic's max.message.bytes could not be read, the client's message.max.bytes counts"
        );
    }
    let max_bytes = own.min(told.unwrap_or(own)).saturating_sub(ALLOWANCE);
    Ok(LogTarget {
        topic: topic.to_owned(),
        max_bytes,
    })
}
