//! From (seed, partition, offset) to a record. Frozen: a change here changes the records of every job that resumes.
use crate::config::Shape;
use keyfold::types::TimestampMs;
use std::io::Write;

#[cfg(test)]
mod tests;

/// Timestamp of offset 0 of [`Shape::Orders`]: 2023-11-14T22:13:20Z. Fixed, so that records are the same in every run.
pub const BASE_TIMESTAMP: TimestampMs = 1_700_000_000_000;

/// Added to the state at each step: 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// The SplitMix64 generator: one addition and one mix a number, any 64 bits are a good seed.
#[derive(Debug, Clone)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        SplitMix64 { state: seed }
    }
    /// The generator of one record: independent of those of its neighbours.
    #[must_use]
    pub fn at(seed: u64, partition: i32, offset: i64) -> Self {
        let partition = SplitMix64::new(seed ^ u64::from(partition.unsigned_abs()).wrapping_mul(GAMMA)).next();
        SplitMix64::new(SplitMix64::new(partition ^ offset as u64).next())
    }
    /// The next number.
    #[allow(clippy::should_implement_trait)] // It never ends, an `Option` would only be in the way.
    pub fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GAMMA);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Makes records into buffers that are used again.
pub(crate) struct Generator {
    seed: u64,
    shape: Shape,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

impl Generator {
    pub fn new(seed: u64, shape: Shape) -> Self {
        Generator {
            seed,
            shape,
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Makes one record into `key` and `value`; returns its timestamp.
    pub fn make(&mut self, partition: i32, offset: i64) -> TimestampMs {
        self.key.clear();
        self.value.clear();
        match &self.shape {
            Shape::Custom(make) => make(self.seed, partition, offset, &mut self.key, &mut self.value),
            Shape::Orders { customers } => {
                let mut random = SplitMix64::at(self.seed, partition, offset);
                let customer = random.next() % (*customers).max(1);
                let amount = 100 + random.next() % 100_000;
                let at = BASE_TIMESTAMP.saturating_add(offset);
                write_order(
                    &mut self.key,
                    &mut self.value,
                    (partition, offset),
                    customer,
                    amount,
                    at,
                );
                at
            }
        }
    }
}

fn write_order(key: &mut Vec<u8>, value: &mut Vec<u8>, order: (i32, i64), customer: u64, amount: u64, at: TimestampMs) {
    let (p, o) = order;
    // Writing to a vector does not fail.
    let _ = write!(key, "c{customer:06}");
    let _ = write!(
        value,
        "{{\"order\":\"{p}-{o}\",\"customer\":\"c{customer:06}\",\"amount\":{amount},\"at\":{at}}}"
    );
}
