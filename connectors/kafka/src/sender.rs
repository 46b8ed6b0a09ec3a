//! A producer with its topics: hands over outputs and counts their reports. Shared by the transactional and the eager way out.
use crate::config::KafkaConfig;
use crate::error::{delivery_error, log_error, transaction_error};
use crate::ffi::{Client, Code, DeliveryFailure, Failure, Kind, Topic};
use keyfold::sink::{GiveUp, LogError, LogErrorKind, LogTarget, QueueGauge};
use keyfold::types::OutputRef;
use keyfold::types::output::decode_headers;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Reports are served every so many sends: often enough to keep the queue of reports short.
const SERVE_EVERY: u64 = 256;

/// How often a wait for reports looks whether it should go on.
const STEP: Duration = Duration::from_millis(500);

/// By sink index; None for a sink that is not Kafka.
pub(crate) type Targets = Vec<Option<LogTarget>>;

pub(crate) struct Sender {
    topics: Vec<Option<Topic>>,
    targets: Targets,
    sent: u64,
    patience: Duration,
    client: Arc<Client>,
}

impl Sender {
    /// `patience` bounds every wait for the queue or for reports; `queue` shows what waits.
    pub(crate) fn new(
        config: &KafkaConfig,
        targets: &[Option<LogTarget>],
        properties: &[(String, String)],
        patience: Duration,
        queue: &QueueGauge,
    ) -> Result<Sender, LogError> {
        let made = |f: Failure| log_error(LogErrorKind::Fatal, "make a kafka producer", &f.text);
        let client = Arc::new(Client::new(Kind::Producer, properties).map_err(made)?);
        client.count_queued(queue.begin());
        let topic = |t: &LogTarget| Topic::new(&client, &t.topic, config.partitioner_of(&t.topic));
        let open = |t: &Option<LogTarget>| t.as_ref().map(topic).transpose();
        let topics = targets.iter().map(open).collect::<Result<_, _>>().map_err(made)?;
        Ok(Sender {
            topics,
            targets: targets.to_vec(),
            sent: 0,
            patience,
            client,
        })
    }

    pub(crate) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Starts to count anew. Only when nothing is in flight.
    pub(crate) fn reset(&mut self) {
        self.sent = 0;
        self.client.reset_reports();
    }

    /// Hands over one output; waits while the queue is full.
    pub(crate) fn send(&mut self, output: &OutputRef<'_>, give_up: &GiveUp) -> Result<(), LogError> {
        let Some(Some(topic)) = self.topics.get(usize::from(output.sink)) else {
            let context = format!("produce to sink {}", output.sink);
            return Err(log_error(
                LogErrorKind::Fatal,
                &context,
                "the log has no target of this number",
            ));
        };
        let Some(headers) = decode_headers(output.headers) else {
            return Err(log_error(
                LogErrorKind::Fatal,
                "produce",
                "an output's headers are damaged",
            ));
        };
        let mut deadline = None;
        loop {
            let failure = match topic.produce(output, &headers) {
                Ok(()) => break,
                Err(failure) => failure,
            };
            let end = *deadline.get_or_insert_with(|| Instant::now() + self.patience);
            if failure.code != Code::QueueFull || Instant::now() > end || give_up.over() {
                return Err(self.not_taken(output, &failure));
            }
            self.client.poll(1);
        }
        self.sent += 1;
        if self.sent.is_multiple_of(SERVE_EVERY) {
            self.client.poll(0);
        }
        Ok(())
    }

    fn not_taken(&self, output: &OutputRef<'_>, failure: &Failure) -> LogError {
        let topic = self
            .targets
            .get(usize::from(output.sink))
            .and_then(Option::as_ref)
            .map(|t| t.topic.clone())
            .unwrap_or_default();
        let context = format!("produce to topic {topic} partition {}", output.partition);
        if let Some((code, text)) = self.client.fatal_error() {
            return transaction_error(
                &context,
                &Failure {
                    fatal: true,
                    ..Failure::plain(code, text)
                },
            );
        }
        delivery_error(
            &DeliveryFailure {
                code: failure.code,
                text: failure.text.clone(),
                topic,
                partition: output.partition,
                key: output.key.map(<[u8]>::to_vec),
                value_len: output.value.map_or(0, <[u8]>::len),
            },
            1,
        )
    }

    /// Waits until every output has its report; the first bad one is the error. Counts anew afterwards.
    pub(crate) fn drain(&mut self, give_up: &GiveUp) -> Result<(), LogError> {
        let end = Instant::now() + self.patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if self.drain_within(left.min(STEP))? {
                return Ok(());
            }
            if left.is_zero() || give_up.over() {
                break;
            }
        }
        let missing = self.sent.saturating_sub(self.client.reported());
        let reason = format!("{missing} outputs of {} have no delivery report in time", self.sent);
        Err(log_error(LogErrorKind::Abortable, "wait for delivery reports", &reason))
    }

    /// The same for at most this long: false when reports are missing still, and nothing is counted anew then.
    pub(crate) fn drain_within(&mut self, within: Duration) -> Result<bool, LogError> {
        let end = Instant::now() + within;
        while self.client.reported() < self.sent {
            if Instant::now() > end {
                return Ok(false);
            }
            self.client.push_out(Duration::from_millis(50));
        }
        let (sent, reported, failed) = (self.sent, self.client.reported(), self.client.failed());
        let first = self.client.take_first_failure();
        self.reset();
        if let Some(first) = first {
            return Err(delivery_error(&first, failed));
        }
        if reported != sent {
            let reason = format!("{reported} delivery reports for {sent} outputs");
            return Err(log_error(
                LogErrorKind::SessionLost,
                "wait for delivery reports",
                &reason,
            ));
        }
        Ok(true)
    }
}
