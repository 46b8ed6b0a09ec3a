//! A source lane's operators: checks and decodes each record, keeps the positions and the watermark.
use super::chain::Push;
use super::context::{LaneContext, LaneSetup, Meta, refusal};
use super::error::{BadReason, LaneError, StepError};
use super::share::LaneShare;
use crate::barrier::{Barrier, Cut};
use crate::source::{Flow, RecordSink};
use crate::telemetry::{Activity, SourceMeter};
use crate::types::{KeyGroup, Origin, Original, Position, RecordRef, Watermark};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Decodes a record into an item.
pub type Decode<T> = Arc<dyn Fn(&RecordRef<'_>) -> Result<T, String> + Send + Sync>;

/// Decoding and everything behind it, whatever the item's type.
pub trait SourceChain {
    /// Decodes a record and pushes it.
    ///
    /// # Errors
    /// As [`Push::push`].
    fn record(&mut self, record: &RecordRef<'_>, meta: &Meta<'_>, lane: &mut LaneContext) -> Result<(), StepError>;
    /// As [`Push::end_batch`].
    ///
    /// # Errors
    /// As there.
    fn end_batch(&mut self, applied: u64, lane: &mut LaneContext) -> Result<(), LaneError>;
    /// As [`Push::barrier`].
    ///
    /// # Errors
    /// As there.
    fn barrier(&mut self, barrier: Barrier, share: &mut LaneShare, lane: &mut LaneContext) -> Result<(), LaneError>;
}

/// The first link of a source's chain.
pub struct Decoder<T> {
    /// The source operator's id.
    pub id: String,
    /// The user's decoder.
    pub decode: Decode<T>,
    /// What follows.
    pub next: Box<dyn Push<T>>,
}

impl<T> SourceChain for Decoder<T> {
    fn record(&mut self, record: &RecordRef<'_>, meta: &Meta<'_>, lane: &mut LaneContext) -> Result<(), StepError> {
        let item = (self.decode)(record).map_err(|message| refusal(BadReason::Decode, &self.id, message))?;
        self.next.push(item, meta, lane)
    }
    fn end_batch(&mut self, applied: u64, lane: &mut LaneContext) -> Result<(), LaneError> {
        self.next.end_batch(applied, lane)
    }
    fn barrier(&mut self, barrier: Barrier, share: &mut LaneShare, lane: &mut LaneContext) -> Result<(), LaneError> {
        self.next.barrier(barrier, share, lane)
    }
}

struct PartitionState {
    position: Position,
    /// The largest timestamp, and whether the partition is at its end.
    reached: Watermark,
}

/// One source on one lane: takes records from its reader.
pub struct SourceLane {
    source: u16,
    chain: Box<dyn SourceChain>,
    context: LaneContext,
    partitions: Vec<PartitionState>,
    /// The partition of the last record: the next is of the same one most often, and there may be hundreds.
    last_index: usize,
    handed_out: u64,
    meter: SourceMeter,
    failed: Option<LaneError>,
}

/// Records after which a reader is asked to return, so that a barrier is not kept waiting.
const RECORDS_PER_POLL: u64 = 4096;

impl SourceLane {
    /// Source `source` (its index) on this lane, reading from `positions`.
    #[must_use]
    pub fn new(source: u16, chain: Box<dyn SourceChain>, setup: LaneSetup, positions: &[Position]) -> SourceLane {
        let partitions = positions
            .iter()
            .map(|p| PartitionState {
                position: p.clone(),
                reached: Watermark::NONE,
            })
            .collect();
        let id = setup.sources.get(usize::from(source)).map_or("", |s| s.id.as_str());
        let meter = setup.metrics.source(id);
        let context = LaneContext::new(setup);
        SourceLane {
            source,
            chain,
            context,
            partitions,
            last_index: 0,
            handed_out: 0,
            meter,
            failed: None,
        }
    }

    /// Before a poll of the reader.
    pub fn start_poll(&mut self) {
        self.context.start_batch();
        self.context.meter.enter(Activity::Waiting);
        self.handed_out = 0;
    }

    /// Nothing is read: too much waits to be committed.
    pub fn held_back(&mut self) {
        self.context.meter.enter(Activity::Blocked);
    }

    /// The source could not be read.
    pub fn source_failed(&self) {
        self.meter.failed();
    }

    /// After a poll: reports what failed in it, and sends on what is pending.
    ///
    /// # Errors
    /// What ends the lane.
    pub fn end_poll(&mut self) -> Result<bool, LaneError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.handed_out == 0 {
            return Ok(false);
        }
        self.advance_watermark();
        self.context
            .setup
            .gauges
            .records
            .fetch_add(self.handed_out, Ordering::Relaxed);
        self.context.records += self.handed_out;
        self.context.meter.batch(self.handed_out);
        self.meter.flush();
        let applied = self.context.setup.applied.load(Ordering::Acquire);
        self.chain.end_batch(applied, &mut self.context)?;
        self.context.send_eagerly()?;
        Ok(true)
    }

    /// The epoch ends here: notes the positions and sends the barrier.
    ///
    /// # Errors
    /// What ends the lane.
    pub fn barrier(&mut self, cut: Cut) -> Result<LaneShare, LaneError> {
        self.context.meter.enter(Activity::Busy);
        self.advance_watermark();
        let watermark = self.context.watermark;
        let mut share = LaneShare::new(cut.epoch, self.context.setup.groups.shards, watermark);
        let barrier = Barrier { cut, watermark };
        self.chain.barrier(barrier, &mut share, &mut self.context)?;
        self.context.send_eagerly()?;
        share.positions = self.partitions.iter().map(|p| p.position.clone()).collect();
        self.context.hand_over(&mut share);
        Ok(share)
    }

    fn advance_watermark(&mut self) {
        let next = Watermark::of_inputs(self.partitions.iter().map(|p| p.reached));
        self.context.watermark.advance(next);
    }

    fn source_id(&self) -> &str {
        let info = self.context.setup.sources.get(usize::from(self.source));
        info.map_or("", |s| s.id.as_str())
    }

    fn take(&mut self, index: usize, record: &RecordRef<'_>) -> Result<(), LaneError> {
        let origin = Origin {
            source: self.source,
            partition: record.partition,
            offset: record.offset,
        };
        let original = Original {
            key: record.key,
            value: record.value,
        };
        self.meter.record(original.bytes());
        let meta = Meta {
            timestamp: record.timestamp,
            origin,
            bytes: original.bytes(),
            key: record.key,
            hash: 0,
            group: KeyGroup(0),
            shard: self.context.setup.groups.shard_of_partition(record.partition),
            headers: record.headers,
            original: Some(original),
        };
        let checked = self.context.check_timestamp(record.timestamp, self.source_id());
        let good_timestamp = checked.is_ok();
        let pushed = checked.and_then(|()| self.chain.record(record, &meta, &mut self.context));
        self.context.settle(pushed, &meta)?;
        let partition = &mut self.partitions[index];
        if good_timestamp {
            partition.reached.at = partition.reached.at.max(record.timestamp);
        }
        partition.reached.idle = false;
        partition.position.offset = record.offset + 1;
        partition.position.leader_epoch = record.leader_epoch;
        Ok(())
    }

    fn index_of(&mut self, partition: i32) -> Option<usize> {
        let is_it = |p: &PartitionState| p.position.partition == partition;
        if !self.partitions.get(self.last_index).is_some_and(is_it) {
            self.last_index = self.partitions.iter().position(is_it)?;
        }
        Some(self.last_index)
    }

    /// Whether a batch has gone out since the last call: then is a good time to look whether reading should go on.
    pub fn batch_sent(&mut self) -> bool {
        std::mem::take(&mut self.context.batch_sent)
    }
}

impl RecordSink for SourceLane {
    fn record(&mut self, record: &RecordRef<'_>) -> Flow {
        if self.failed.is_some() {
            return Flow::Stop;
        }
        let Some(index) = self.index_of(record.partition) else {
            let (partition, offset) = (record.partition, record.offset);
            self.failed = Some(LaneError::Source {
                source_id: self.source_id().to_owned(),
                reason: format!(
                    "its reader handed out partition {partition} offset {offset}, and this lane does not own the partition: an \
                     error in the connector; nothing is lost, the epoch is not committed"
                ),
            });
            return Flow::Stop;
        };
        // A reader may go back after a reset of its connection; what was taken once is not taken again.
        if record.offset < self.partitions[index].position.offset {
            self.context.setup.metrics.rewound();
            return Flow::Continue;
        }
        if self.handed_out == 0 {
            self.context.meter.enter(Activity::Busy);
        }
        self.handed_out += 1;
        match self.take(index, record) {
            Ok(()) if self.handed_out < RECORDS_PER_POLL => Flow::Continue,
            Ok(()) => Flow::Stop,
            Err(error) => {
                self.failed = Some(error);
                Flow::Stop
            }
        }
    }

    fn end_of_partition(&mut self, _topic: &str, partition: i32, offset: i64, leader_epoch: i32) {
        let Some(index) = self.index_of(partition) else { return };
        let state = &mut self.partitions[index];
        state.reached.idle = true;
        if offset > state.position.offset {
            state.position.offset = offset;
            state.position.leader_epoch = leader_epoch;
        }
    }
}
