//! Hands the records of one lane out, in librdkafka's own buffers.
use crate::error::source_error;
use crate::ffi::{Client, Code, Failure, LaneQueue};
use keyfold::source::{Flow, RecordSink, SourceError, SourceReader};
use keyfold::types::{Position, RecordRef};
use std::sync::Arc;
use std::time::Duration;

/// Asking for the watermarks of a partition that cannot be read, to say what is missing.
const ASK_WITHIN: Duration = Duration::from_secs(5);

/// One lane's reader.
pub(crate) struct KafkaReader {
    topic: String,
    /// Next offset and leader epoch of what was handed out last, by partition number.
    next: Vec<Option<Next>>,
    rewound: u64,
    queue: LaneQueue,
    client: Arc<Client>,
}

#[derive(Debug, Clone, Copy)]
struct Next {
    offset: i64,
    leader_epoch: i32,
}

impl KafkaReader {
    pub(crate) fn new(topic: String, lane: &[Position], queue: LaneQueue, client: Arc<Client>) -> KafkaReader {
        let mut next = Vec::new();
        for at in lane {
            let index = at.partition.max(0) as usize;
            if next.len() <= index {
                next.resize(index + 1, None);
            }
            next[index] = Some(Next {
                offset: at.offset,
                leader_epoch: at.leader_epoch,
            });
        }
        KafkaReader {
            topic,
            next,
            rewound: 0,
            queue,
            client,
        }
    }

    /// Hands out the next message, if it is one to hand out.
    fn step(&mut self, out: &mut dyn RecordSink) -> Result<Option<Flow>, SourceError> {
        let Some(message) = self.queue.front() else {
            return Ok(None);
        };
        let (partition, offset) = (message.partition(), message.offset());
        if let Some((code, text)) = message.error() {
            self.queue.advance();
            return self
                .event(partition, offset, code, text, out)
                .map(|()| Some(Flow::Continue));
        }
        let next = usize::try_from(partition)
            .ok()
            .and_then(|p| self.next.get_mut(p))
            .and_then(Option::as_mut);
        let Some(next) = next else {
            return Err(SourceError::Fatal(format!(
                "kafka topic {}: partition {partition} is not of this lane",
                self.topic
            )));
        };
        if offset < next.offset {
            self.queue.advance();
            self.rewound += 1;
            if self.rewound.is_power_of_two() {
                let topic = self.topic.as_str();
                tracing::warn!(
                    topic,
                    partition,
                    offset,
                    total = self.rewound,
                    "a record came a second time and was dropped"
                );
            }
            return Ok(Some(Flow::Continue));
        }
        let leader_epoch = message.leader_epoch();
        *next = Next {
            offset: offset + 1,
            leader_epoch,
        };
        let flow = out.record(&RecordRef {
            topic: &self.topic,
            partition,
            offset,
            leader_epoch,
            timestamp: message.timestamp(),
            key: message.key(),
            value: message.payload(),
            headers: &message,
        });
        self.queue.advance();
        Ok(Some(flow))
    }

    /// What comes in-band and is no record.
    fn event(
        &mut self,
        partition: i32,
        offset: i64,
        code: Code,
        text: String,
        out: &mut dyn RecordSink,
    ) -> Result<(), SourceError> {
        if code == Code::PartitionEOF {
            self.end_of_partition(partition, offset, out);
            return Ok(());
        }
        let context = format!("kafka topic {} partition {partition}", self.topic);
        match code {
            Code::AutoOffsetReset | Code::OffsetOutOfRange | Code::LogTruncation | Code::NoOffset => {
                Err(SourceError::Fatal(self.gap(partition, &text)))
            }
            // "Unknown topic" too: a broker that has started just now may not know it yet. Whether it is gone, the source finds out.
            _ => Err(source_error(&context, &Failure::plain(code, text))),
        }
    }

    fn end_of_partition(&mut self, partition: i32, offset: i64, out: &mut dyn RecordSink) {
        let next = usize::try_from(partition)
            .ok()
            .and_then(|p| self.next.get_mut(p))
            .and_then(Option::as_mut);
        let Some(next) = next.filter(|n| offset >= n.offset) else {
            return;
        };
        if offset > next.offset {
            // Markers or aborted records lie between, perhaps of a later leader: the last record's epoch does not hold for this offset,
            // and committed with it would look like a truncated log.
            *next = Next {
                offset,
                leader_epoch: -1,
            };
        }
        out.end_of_partition(&self.topic, partition, offset, next.leader_epoch);
    }

    /// Says what is missing between what was asked for and what there is.
    fn gap(&self, partition: i32, text: &str) -> String {
        let wanted = usize::try_from(partition)
            .ok()
            .and_then(|p| self.next.get(p).copied().flatten());
        let wanted = wanted.map_or(-1, |n| n.offset);
        let topic = &self.topic;
        let found = match self.client.watermarks(topic, partition, ASK_WITHIN) {
            Err(f) => format!("first and last offset could not be read ({})", f.text),
            Ok((low, high)) if wanted < low => {
                let gap = low - wanted;
                format!(
                    "it holds offsets {low} to {high}: {gap} offsets from {wanted} on are gone (retention, or deleted records)"
                )
            }
            Ok((low, high)) if wanted > high => {
                let gap = wanted - high;
                format!(
                    "it holds offsets {low} to {high}: it ends {gap} offsets before (cut off, or topic created again)"
                )
            }
            Ok((low, high)) => format!("it holds offsets {low} to {high}: the log was cut off or replaced there"),
        };
        format!(
            "kafka topic {topic} partition {partition} cannot be read from offset {wanted} on: {found}; client: {text}. Bring the records back, or, to begin \
             again with empty state at the start positions, delete the offsets of the whole group and start with accept_lost_pointers"
        )
    }
}

impl SourceReader for KafkaReader {
    fn poll(&mut self, max_wait: Duration, out: &mut dyn RecordSink) -> Result<(), SourceError> {
        let fill = self.queue.fill(max_wait);
        fill.map_err(|f| source_error(&format!("kafka topic {}", self.topic), &f))?;
        while let Some(flow) = self.step(out)? {
            if flow == Flow::Stop {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
