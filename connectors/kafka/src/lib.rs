//! Kafka as Keyfold's source and log.
//!
//! * [`KafkaConfig`]: brokers and librdkafka's own properties, without those that would break a guarantee (EP-11).
//! * [`KafkaSource`]: reads partitions of a topic from explicit offsets: no subscription, no commit.
//! * [`KafkaMembership`]: group mode's membership in the stage's consumer group, with [`GroupTimeouts`]; reads nothing.
//! * [`kafka_target`], [`kafka_target_unless`]: names an output topic with the largest output that it takes.
//! * [`KafkaLog`]: publishes an epoch in one transaction: outputs, offsets and pointers.
//!
//! librdkafka is called directly (`ffi`), because the guarantees need what the safe binding hides: batches of borrowed messages,
//! leader epochs, metadata as raw bytes, the three flags of a transaction's error.
#![deny(missing_docs)]
#![deny(unsafe_code)]

mod config;
mod eager;
mod error;
#[allow(unsafe_code)]
mod ffi;
mod figures;
mod log;
mod lookup;
mod member;
mod pointers;
mod reader;
mod sender;
mod sink;
mod source;
mod watch;

pub use config::{GroupTimeouts, KafkaConfig, is_secret};
pub use error::KafkaError;
pub use log::KafkaLog;
pub use member::KafkaMembership;
pub use sink::{kafka_target, kafka_target_unless};
pub use source::{KafkaSource, StartAt};

/// The client's version and what it was built with: `librdkafka 2.12.1 (gzip, ssl, ..)`.
#[must_use]
pub fn client_version() -> String {
    format!("librdkafka {} ({})", ffi::version(), ffi::features().replace(',', ", "))
}

/// The names of the client's properties, sorted; some of them are refused by [`KafkaConfig::property`].
#[must_use]
pub fn property_names() -> Vec<String> {
    ffi::property_names()
}

/// The examples of the README, compiled; those that need no broker are run.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
pub struct Readme;
