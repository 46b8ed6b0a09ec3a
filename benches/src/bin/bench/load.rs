//! The input.
use anyhow::Result;
use keyfold::types::hash::murmur2;
use keyfold_e2e::rng::Rng;
use rdkafka::config::ClientConfig;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use std::time::Duration;

use crate::scene::PARTITIONS;

const VALUE: [u8; 100] = [b'v'; 100];
/// Of the keys.
const SEED: u64 = 7;
const LONG: Duration = Duration::from_secs(120);

/// Records to be produced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input {
    pub records: u64,
    pub keys: u64,
    /// How many of a hundred records go to the first partition; spread evenly when none.
    pub first_of_100: Option<u64>,
    /// Every key once, in order, in place of keys by chance.
    pub each_once: bool,
    pub partitions: i32,
}

impl Input {
    pub fn uniform(records: u64, keys: u64) -> Input {
        Input {
            records,
            keys,
            first_of_100: None,
            each_once: false,
            partitions: PARTITIONS,
        }
    }
}

/// The partition that Java clients choose.
fn partition(key: &[u8], partitions: i32) -> i32 {
    ((murmur2(key) & 0x7fff_ffff) % partitions as u32) as i32
}

/// Produces an input, and waits until the broker has it.
pub fn fill(brokers: &str, topic: &str, input: &Input) -> Result<()> {
    let producer: BaseProducer<DefaultProducerContext> = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("partitioner", "murmur2_random")
        .set("linger.ms", "20")
        .set("batch.size", "1000000")
        .set("queue.buffering.max.messages", "500000")
        .create()?;
    let mut rng = Rng::new(SEED);
    for n in 0..input.records {
        let key = match input.each_once {
            true => n.to_be_bytes(),
            false => key_of(&mut rng, input),
        };
        send(&producer, topic, &key)?;
        if n % 1024 == 0 {
            producer.poll(Duration::ZERO);
        }
    }
    Ok(producer.flush(LONG)?)
}

/// How many records of an input each key has.
pub fn counts(input: &Input) -> Vec<u32> {
    let (mut counts, mut rng) = (vec![0; input.keys as usize], Rng::new(SEED));
    for _ in 0..input.records {
        let key = u64::from_be_bytes(key_of(&mut rng, input));
        if let Some(count) = counts.get_mut(key as usize) {
            *count += 1;
        }
    }
    counts
}

fn key_of(rng: &mut Rng, input: &Input) -> [u8; 8] {
    let Some(percent) = input.first_of_100 else {
        return rng.below(input.keys).to_be_bytes();
    };
    let first = rng.below(100) < percent;
    loop {
        let key = rng.below(input.keys).to_be_bytes();
        if (partition(&key, input.partitions) == 0) == first {
            return key;
        }
    }
}

/// Hands one record over, waiting while the queue is full.
pub fn send(producer: &BaseProducer<DefaultProducerContext>, topic: &str, key: &[u8]) -> Result<()> {
    let mut record = BaseRecord::to(topic).key(key).payload(&VALUE[..]);
    while let Err((error, back)) = producer.send(record) {
        let full = matches!(error, KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull));
        if !full {
            return Err(error.into());
        }
        producer.poll(Duration::from_millis(20));
        record = back;
    }
    Ok(())
}
