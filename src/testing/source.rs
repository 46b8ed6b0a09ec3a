//! Reads a topic of a [`MemoryBroker`].
use super::broker::MemoryBroker;
use crate::source::{Flow, PartitionEnd, RecordSink, Source, SourceError, SourceFigures, SourceReader};
use crate::types::{Position, RecordRef, TopicInfo};
use std::time::Duration;

/// A source over a topic in memory.
pub struct MemorySource {
    broker: MemoryBroker,
    topic: String,
}

impl MemorySource {
    /// Reads `topic`, a new job from its beginning.
    #[must_use]
    pub fn new(broker: MemoryBroker, topic: &str) -> MemorySource {
        MemorySource {
            broker,
            topic: topic.to_owned(),
        }
    }

    fn check(&self, position: &Position) -> Result<(), SourceError> {
        let bounds = self.broker.bounds(&self.topic);
        let Some((start, end)) = bounds.get(position.partition as usize) else {
            return Err(SourceError::Fatal(format!(
                "{} has no partition {}",
                self.topic, position.partition
            )));
        };
        if (*start..=*end).contains(&position.offset) {
            return Ok(());
        }
        Err(SourceError::Fatal(format!(
            "{}-{} holds offsets {start} to {end}, not {}",
            self.topic, position.partition, position.offset
        )))
    }
}

impl Source for MemorySource {
    fn describe(&self) -> String {
        format!("memory topic {}", self.topic)
    }
    fn topic(&self) -> String {
        self.topic.clone()
    }
    fn topic_info(&mut self) -> Result<TopicInfo, SourceError> {
        let info = self.broker.topic_info(&self.topic);
        let (id, partitions) = info.ok_or_else(|| SourceError::Fatal(format!("no topic {}", self.topic)))?;
        Ok(TopicInfo {
            topic: self.topic.clone(),
            id,
            partitions,
        })
    }
    fn start_positions(&mut self) -> Result<Vec<Position>, SourceError> {
        let bounds = self.broker.bounds(&self.topic);
        let position = |(partition, (offset, _)): (usize, &(i64, i64))| Position {
            topic: self.topic.clone(),
            partition: partition as i32,
            offset: *offset,
            leader_epoch: -1,
        };
        Ok(bounds.iter().enumerate().map(position).collect())
    }
    fn open(&mut self, lanes: &[Vec<Position>]) -> Result<Vec<Box<dyn SourceReader>>, SourceError> {
        let mut readers: Vec<Box<dyn SourceReader>> = Vec::new();
        for lane in lanes {
            for position in lane {
                self.check(position)?;
                self.broker.note_read(&self.topic, position.partition, position.offset);
            }
            let partitions = lane.iter().map(|p| (p.partition, p.offset, false)).collect();
            readers.push(Box::new(MemoryReader {
                broker: self.broker.clone(),
                topic: self.topic.clone(),
                partitions,
            }));
        }
        Ok(readers)
    }
    fn figures(&mut self) -> SourceFigures {
        let bounds = self.broker.bounds(&self.topic);
        let end = |(partition, (start, end)): (usize, &(i64, i64))| PartitionEnd {
            partition: partition as i32,
            stable: Some(self.broker.fetch(&self.topic, partition as i32, *start, usize::MAX).1),
            end: Some(*end),
        };
        SourceFigures {
            ends: bounds.iter().enumerate().map(end).collect(),
            prefetch: None,
        }
    }
    fn close(&mut self) {}
}

struct MemoryReader {
    broker: MemoryBroker,
    topic: String,
    /// Partition, next offset, whether its end was told.
    partitions: Vec<(i32, i64, bool)>,
}

/// Records of one partition that a poll takes: small, so that several partitions of a lane advance together.
const FETCH: usize = 500;
/// The least wait of a poll that finds nothing.
const NAP: Duration = Duration::from_millis(1);

impl MemoryReader {
    /// Hands out what one partition has; whether there was anything, and whether the sink wants more.
    fn poll_partition(&mut self, index: usize, out: &mut dyn RecordSink) -> (bool, Flow) {
        let (partition, from, told) = self.partitions[index];
        let (records, end) = self.broker.fetch(&self.topic, partition, from, FETCH);
        let mut next = end;
        let mut flow = Flow::Continue;
        for record in &records {
            let view = RecordRef {
                topic: &self.topic,
                partition,
                offset: record.offset,
                leader_epoch: 0,
                timestamp: record.timestamp,
                key: record.key.as_deref(),
                value: record.value.as_deref(),
                headers: record.as_ref(),
            };
            flow = out.record(&view);
            if flow == Flow::Stop {
                next = record.offset + 1;
                break;
            }
        }
        let at_end = flow == Flow::Continue && records.len() < FETCH;
        if at_end && (!told || next > from) {
            out.end_of_partition(&self.topic, partition, next, 0);
        }
        self.partitions[index] = (partition, next, at_end);
        // Noted last: whoever waits for it finds the records in the lane.
        if next > from {
            self.broker.note_read(&self.topic, partition, next);
        }
        (next > from, flow)
    }
}

impl SourceReader for MemoryReader {
    fn poll(&mut self, max_wait: Duration, out: &mut dyn RecordSink) -> Result<(), SourceError> {
        let mut any = false;
        for index in 0..self.partitions.len() {
            let (found, flow) = self.poll_partition(index, out);
            any |= found;
            if flow == Flow::Stop {
                return Ok(());
            }
        }
        if !any {
            std::thread::sleep(NAP.min(max_wait));
        }
        Ok(())
    }
}
