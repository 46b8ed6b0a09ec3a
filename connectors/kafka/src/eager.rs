//! Sends outputs as they are produced: idempotent, not transactional.
use crate::config::KafkaConfig;
use crate::sender::Sender;
use keyfold::sink::{EagerSender, LogError, LogTarget};
use keyfold::types::OutputRef;
use std::time::Duration;

/// librdkafka gives up a message after 5 minutes; its report comes a little later.
const PATIENCE: Duration = Duration::from_secs(310);

pub(crate) struct KafkaEagerSender {
    sender: Sender,
}

impl KafkaEagerSender {
    pub(crate) fn new(
        config: &KafkaConfig,
        targets: &[Option<LogTarget>],
        batch: usize,
    ) -> Result<KafkaEagerSender, LogError> {
        let sender = Sender::new(config, targets, &config.producer_properties(batch), PATIENCE)?;
        Ok(KafkaEagerSender { sender })
    }
}

impl EagerSender for KafkaEagerSender {
    fn send(&mut self, output: &OutputRef<'_>) -> Result<(), LogError> {
        self.sender.send(output)
    }

    fn drain(&mut self) -> Result<(), LogError> {
        self.sender.drain()
    }
}
