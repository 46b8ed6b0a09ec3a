//! What a reader with `read_committed` may see of a topic.
use crate::scene::PARTITIONS;
use anyhow::{Context, Result, bail};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::{Offset, TopicPartitionList};
use std::time::{Duration, Instant};

const ANSWER: Duration = Duration::from_secs(30);

/// The outputs of a program.
pub struct Outputs {
    committed: BaseConsumer,
    written: BaseConsumer,
    topic: String,
}

impl Outputs {
    pub fn of(brokers: &str, topic: &str) -> Result<Outputs> {
        Ok(Outputs {
            committed: consumer(brokers, "read_committed")?,
            written: consumer(brokers, "read_uncommitted")?,
            topic: topic.to_owned(),
        })
    }

    /// Outputs before the first open transaction of each partition. A transaction's marker counts as one: a few in ten thousand.
    pub fn committed(&self) -> Result<u64> {
        self.ends(&self.committed)
            .map(|ends| ends.iter().map(|end| end.unsigned_abs()).sum())
    }

    fn ends(&self, consumer: &BaseConsumer) -> Result<Vec<i64>> {
        // In place of a time, the end.
        let ends = consumer.offsets_for_times(self.partitions(|_| Offset::End)?, ANSWER)?;
        let offset = |partition| match ends.find_partition(&self.topic, partition)?.offset() {
            Offset::Offset(offset) => Some(offset),
            _ => None,
        };
        let offsets = (0..PARTITIONS).map(offset).collect::<Option<Vec<i64>>>();
        offsets.context("the broker does not tell the end of a partition")
    }

    /// Behind everything that has been written so far, committed or not.
    pub fn written(&self) -> Result<Vec<i64>> {
        self.ends(&self.written)
    }

    /// From there on, [`Outputs::next`] finds committed outputs.
    pub fn read_from(&self, ends: &[i64]) -> Result<()> {
        let at = |partition: i32| {
            let end = usize::try_from(partition).ok().and_then(|index| ends.get(index));
            Offset::Offset(end.copied().unwrap_or_default())
        };
        Ok(self.committed.assign(&self.partitions(at)?)?)
    }

    /// Whether there is one more.
    pub fn next(&self, wait: Duration) -> Result<bool> {
        match self.committed.poll(wait) {
            None | Some(Err(KafkaError::PartitionEOF(_))) => Ok(false),
            Some(message) => Ok(message.map(|_| true)?),
        }
    }

    /// Each committed output, partition by partition in its order: key and count.
    pub fn each(&self, mut f: impl FnMut(u64, u64) -> Result<()>) -> Result<()> {
        self.committed.assign(&self.partitions(|_| Offset::Beginning)?)?;
        let (mut at_end, mut moved) = (vec![false; PARTITIONS as usize], Instant::now());
        while !at_end.iter().all(|end| *end) {
            match self.committed.poll(Duration::from_millis(100)) {
                None if moved.elapsed() > ANSWER => bail!("the outputs cannot be read"),
                None => continue,
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    let index = usize::try_from(partition)?;
                    *at_end.get_mut(index).context("an unknown partition")? = true;
                }
                Some(message) => {
                    let message = message?;
                    let number = |bytes: Option<&[u8]>| bytes?.try_into().ok().map(u64::from_be_bytes);
                    let pair = number(message.key()).zip(number(message.payload()));
                    let (key, count) = pair.context("an output is not of 8 and 8 bytes")?;
                    f(key, count)?;
                }
            }
            moved = Instant::now();
        }
        Ok(self.committed.unassign()?)
    }

    fn partitions(&self, offset: impl Fn(i32) -> Offset) -> Result<TopicPartitionList> {
        let mut list = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            list.add_partition_offset(&self.topic, partition, offset(partition))?;
        }
        Ok(list)
    }
}

fn consumer(brokers: &str, isolation: &str) -> Result<BaseConsumer> {
    Ok(ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "bench-watch")
        .set("isolation.level", isolation)
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("fetch.wait.max.ms", "5")
        .create()?)
}
