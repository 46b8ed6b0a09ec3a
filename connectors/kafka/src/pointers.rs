//! Reads pointers beside the log, for restores that run on a thread of their own.
use crate::config::KafkaConfig;
use crate::error::log_error;
use crate::ffi::{Client, Kind};
use crate::log::read_offsets;
use keyfold::sink::{Committed, LogError, LogErrorKind, PointerReader};
use std::time::{Duration, Instant};

/// Between two tries, when a coordinator moves or loads.
const BACK_OFF: Duration = Duration::from_millis(100);

const NOT_YET: &str = "a transaction over them has no end yet, or the group's coordinator does not answer: ask again";

/// A consumer of its own, never subscribed.
pub(crate) struct KafkaPointerReader {
    group: String,
    client: Client,
}

impl KafkaPointerReader {
    pub(crate) fn new(config: &KafkaConfig, group: &str) -> Result<KafkaPointerReader, LogError> {
        let properties = config.pointer_properties(group);
        let client = Client::new(Kind::Consumer, &properties);
        Ok(KafkaPointerReader {
            group: group.to_owned(),
            client: client.map_err(|f| log_error(LogErrorKind::Fatal, "make a kafka consumer", &f.text))?,
        })
    }
}

impl PointerReader for KafkaPointerReader {
    fn committed(&mut self, of: &[(String, i32)], within: Duration) -> Result<Vec<Committed>, LogError> {
        if of.is_empty() {
            return Ok(Vec::new());
        }
        let end = Instant::now() + within;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match read_offsets(&self.client, &self.group, of, left) {
                Err(error) if error.kind != LogErrorKind::Retriable => return Err(error),
                Err(error) if left <= BACK_OFF => {
                    let reason = format!("{}; {NOT_YET}", error.reason);
                    return Err(LogError { reason, ..error });
                }
                Err(error) => {
                    tracing::debug!(%error, "pointers are read again");
                    std::thread::sleep(BACK_OFF);
                }
                done => return done,
            }
        }
    }
}
