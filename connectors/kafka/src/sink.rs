//! Output topics.
use crate::config::KafkaConfig;
use crate::error::{KafkaError, is_hopeless};
use crate::ffi::{Client, Failure, Kind};
use crate::lookup;
use keyfold::runtime::StopHandle;
use keyfold::sink::LogTarget;
use std::time::Duration;

/// What a record needs beside key, value and headers' own bytes: 61 bytes of batch header, at most 36 of the record's own fields, and
/// at most 10 for the lengths of each header (room for 41 of them).
const ALLOWANCE: usize = 512;

/// How long the broker may take to answer.
const ASK_WITHIN: Duration = Duration::from_secs(5);
/// First and longest wait between two tries, as for the sources' topics.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(10));
/// Names an output topic, with the largest output that it takes (key, value and headers together): the smaller of the
/// client's `message.max.bytes` and the topic's `max.message.bytes`, less 512 bytes for what the format adds.
/// When the topic's limit may not be read, the client's (1,000,000 unless set) counts alone.
///
/// Waits while no broker can be reached, as a job does for its sources. Who handles signals wants [`kafka_target_unless`].
///
/// # Errors
/// When the topic does not exist, or the client cannot be made or is not let in.
pub fn kafka_target(config: &KafkaConfig, topic: &str) -> Result<LogTarget, KafkaError> {
    kafka_target_unless(config, topic, &StopHandle::default(), &|_, _| {})
}

/// As [`kafka_target`], until a stop is asked for. Hand the same handle to [`keyfold::runtime::Runtime::with_stop`]. `again` is told before each
/// wait why, and for how long.
///
/// # Errors
/// As for [`kafka_target`], and [`KafkaError::Stopped`].
pub fn kafka_target_unless(
    config: &KafkaConfig,
    topic: &str,
    stop: &StopHandle,
    again: &dyn Fn(&str, Duration),
) -> Result<LogTarget, KafkaError> {
    let client = Client::new(Kind::Producer, &config.producer_properties(usize::MAX)).map_err(|f| failed(topic, &f))?;
    wait_for_topic(&client, topic, stop, again)?;
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

fn wait_for_topic(
    client: &Client,
    topic: &str,
    stop: &StopHandle,
    again: &dyn Fn(&str, Duration),
) -> Result<(), KafkaError> {
    let mut wait = BACK_OFF.0;
    loop {
        let failure = match lookup::partitions(client, topic, ASK_WITHIN) {
            Ok(Some(_)) => return Ok(()),
            Ok(None) => {
                return Err(KafkaError::UnknownTopic {
                    topic: topic.to_owned(),
                });
            }
            Err(failure) => failure,
        };
        client.poll(0);
        // A refused log-in shows only as a time-out; the error callback knows better.
        let reported = client.take_last_error().map(|(code, text)| Failure::plain(code, text));
        if let Some(hopeless) = reported.into_iter().chain([failure.clone()]).find(is_hopeless) {
            return Err(failed(topic, &hopeless));
        }
        let why = failure.text;
        tracing::warn!(topic, backoff_ms = wait.as_millis() as u64, %why, "looking for the output topic again");
        again(&why, wait);
        if !stop.sleep_unless_asked(wait) {
            return Err(KafkaError::Stopped {
                topic: topic.to_owned(),
                reason: why,
            });
        }
        wait = (wait * 2).min(BACK_OFF.1);
    }
}

fn failed(topic: &str, failure: &Failure) -> KafkaError {
    KafkaError::Client {
        context: format!("output topic {topic}"),
        reason: failure.text.clone(),
    }
}
