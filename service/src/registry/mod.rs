//! Connectors by name: what a pipeline file's `connector: kafka` stands for.
mod datagen;
mod files;
mod kafka;
mod keys;
#[cfg(test)]
mod tests;

pub use keys::{Key, Keys};

use crate::run::{Commits, Waiting};
use keyfold::source::Source;
use keyfold::topology::Target;
use keyfold_kafka::KafkaConfig;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What pipelines find around them: the connectors that there are.
#[derive(Clone, Default)]
pub struct Environment {
    connectors: BTreeMap<String, Arc<dyn Connector>>,
}

/// Reads a connector's own keys of a source or a sink, without touching the outside: `validate` needs no broker.
pub trait Connector: Send + Sync {
    /// A source. None when a key is wrong, which [`Keys`] has noted.
    fn source(&self, keys: &mut Keys<'_>) -> Option<SourceConnector>;
    /// A sink. None when a key is wrong, which [`Keys`] has noted.
    fn sink(&self, keys: &mut Keys<'_>) -> Option<SinkConnector>;
}

/// Makes an engine's source.
pub type MakeSource = Arc<dyn Fn() -> Box<dyn Source> + Send + Sync>;
/// Makes an engine's target. It may look at the outside, and wait for it until a stop is asked for.
pub type MakeTarget = Arc<dyn Fn(&Waiting) -> Result<Target, String> + Send + Sync>;

/// A source whose keys are read.
#[derive(Clone)]
pub struct SourceConnector {
    /// How people call it: `kafka topic orders`.
    pub describe: String,
    /// The name that positions carry, unique among the sources of a job.
    pub topic: String,
    /// Where its positions are committed.
    pub commits: Commits,
    /// Makes it.
    pub make: MakeSource,
}

/// A sink whose keys are read.
#[derive(Clone)]
pub struct SinkConnector {
    /// How people call it: `kafka topic totals`. A sink of what a source is called is a loop.
    pub describe: String,
    /// What takes its outputs.
    pub commits: Commits,
    /// Makes it.
    pub make: MakeTarget,
}

impl fmt::Debug for SourceConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe)
    }
}

impl fmt::Debug for SinkConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe)
    }
}

impl Environment {
    /// Every connector of the program; `kafka` holds the brokers and the client's settings.
    #[must_use]
    pub fn new(kafka: KafkaConfig) -> Environment {
        Environment::default()
            .with("kafka", kafka::Kafka::new(kafka))
            .with("files", files::Files)
            .with("datagen", datagen::Datagen)
    }

    /// With another connector, or another one under a name that there is.
    #[must_use]
    pub fn with(mut self, name: &str, connector: impl Connector + 'static) -> Environment {
        self.connectors.insert(name.to_owned(), Arc::new(connector));
        self
    }

    /// The connector of a name.
    #[must_use]
    pub fn connector(&self, name: &str) -> Option<&dyn Connector> {
        self.connectors.get(name).map(AsRef::as_ref)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.connectors.keys().map(String::as_str)
    }
}
