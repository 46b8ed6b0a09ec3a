//! What a lane hands over at a barrier.
use crate::sink::OutputBuffer;
use crate::state::{ChangeSet, Waiting};
use crate::types::output::OutputFrames;
use crate::types::{Position, Watermark};
use std::time::Duration;

/// One lane's part of an epoch, by shard.
#[derive(Debug)]
pub struct LaneShare {
    /// The barrier's count.
    pub epoch: u64,
    /// Changes per shard. Of shards whose copies take them with this epoch, those of earlier epochs, too.
    pub changes: Vec<ChangeSet>,
    /// What has changed and stays in the lane until the local copies of its shards take it.
    pub waiting: Waiting,
    /// Outputs per shard for the log's transaction.
    pub outputs: Vec<OutputBuffer>,
    /// Outputs per shard for the outbox.
    pub outbox: Vec<OutputFrames>,
    /// Where a source lane goes on; empty for keyed lanes.
    pub positions: Vec<Position>,
    /// The lane's watermark.
    pub watermark: Watermark,
    /// Records read by a source lane or folded by a keyed lane in this epoch.
    pub records: u64,
    /// How long a keyed lane took to encode and hand over.
    pub encode: Duration,
}

impl LaneShare {
    /// An empty share for `shards` shards.
    #[must_use]
    pub fn new(epoch: u64, shards: u32, watermark: Watermark) -> LaneShare {
        let shards = shards as usize;
        LaneShare {
            epoch,
            changes: vec![ChangeSet::default(); shards],
            waiting: Waiting::default(),
            outputs: std::iter::repeat_with(OutputBuffer::default).take(shards).collect(),
            outbox: vec![OutputFrames::default(); shards],
            positions: Vec::new(),
            watermark,
            records: 0,
            encode: Duration::ZERO,
        }
    }
}
