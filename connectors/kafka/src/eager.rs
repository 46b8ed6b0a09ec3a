//! Sends outputs as they are produced: idempotent, not transactional.
use crate::config::KafkaConfig;
use crate::sender::Sender;
use keyfold::sink::{EagerSender, GiveUp, LogError, LogTarget, QueueGauge};
use keyfold::types::OutputRef;
use std::time::Duration;

/// How long sending waits for a queue that is full before the caller may look at a stop.
const PATIENCE: Duration = Duration::from_secs(1);

pub(crate) struct KafkaEagerSender {
    sender: Sender,
}

impl KafkaEagerSender {
    pub(crate) fn new(
        config: &KafkaConfig,
        targets: &[Option<LogTarget>],
        batch: usize,
        queue: &QueueGauge,
    ) -> Result<KafkaEagerSender, LogError> {
        let sender = Sender::new(config, targets, &config.producer_properties(batch), PATIENCE, queue)?;
        Ok(KafkaEagerSender { sender })
    }
}

impl EagerSender for KafkaEagerSender {
    fn send(&mut self, output: &OutputRef<'_>) -> Result<(), LogError> {
        self.sender.send(output, &GiveUp::default())
    }

    fn drain(&mut self, within: Duration) -> Result<bool, LogError> {
        self.sender.drain_within(within)
    }
}
