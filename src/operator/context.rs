//! What an operator sees of its lane and of the record at hand.
use super::bad_records::{BadRecordPolicy, StepPolicies};
use super::error::{BadReason, LaneError, Refused, StepError};
use super::share::LaneShare;
use crate::config::Guarantee;
use crate::sink::{OutputBuffer, SpillDir};
use crate::state::Backend;
use crate::telemetry::{LaneMeter, Metrics};
use crate::types::output::{FRAME_BYTES, OutputFrames};
use crate::types::{
    Clock, Headers, KeyGroup, KeyGroups, Origin, Original, OutputRef, Shard, Sharding, TimestampMs, Utc, Watermark,
};
use crossbeam_channel::Sender;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The record at hand: provenance, timestamp, key.
#[derive(Clone, Copy)]
pub struct Meta<'a> {
    /// Event timestamp; after an aggregate the largest its key has seen.
    pub timestamp: TimestampMs,
    /// Source, partition and offset of the record that caused this item.
    pub origin: Origin,
    /// Key and value of that record in bytes, as they lay on the topic.
    pub bytes: usize,
    /// In a source lane the record's key; in a keyed lane the key bytes.
    pub key: Option<&'a [u8]>,
    /// Hash of the key bytes; keyed lanes only.
    pub hash: u32,
    /// Key group of the key bytes; keyed lanes only.
    pub group: KeyGroup,
    /// Shard that outputs of this item belong to.
    pub shard: Shard,
    /// Headers of the record that caused this item.
    pub headers: &'a dyn Headers,
    /// Original key and value, where they are kept for dead letters.
    pub original: Option<Original<'a>>,
}

/// What the lanes know of a source.
#[derive(Debug, Clone)]
pub struct SourceInfo {
    /// Operator id.
    pub id: String,
    /// Topic.
    pub topic: String,
    /// What happens to its bad records.
    pub policy: BadRecordPolicy,
    /// Whether some step behind an exchange may need a record's key and value for a dead letter.
    pub keep_originals: bool,
    /// Whether some step behind an exchange may look at a record's headers. They are taken apart for each record that crosses one, which costs
    /// a client as much as the rest of its record, even where there are none.
    pub keep_headers: bool,
}

/// How a sink takes outputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SinkRoute {
    /// In the log's transaction; outputs above `max_bytes` are refused by us (EP-8).
    Log {
        /// Largest key + value + headers.
        max_bytes: usize,
    },
    /// Through the section's outbox.
    Outbox,
}

/// Gauges that lanes set and the driver reads between barriers.
#[derive(Debug, Default)]
pub struct LaneGauges {
    /// Bytes of dirty state in the lane.
    pub dirty_bytes: AtomicUsize,
    /// Bytes of outputs for the log in the lane's memory.
    pub output_bytes: AtomicUsize,
    /// Bytes of outputs for outboxes, all of them in memory.
    pub outbox_bytes: AtomicUsize,
    /// Bytes of the epoch's outputs for the log that are not in the lane's memory any more: spilled to a file, or handed to the sender.
    pub spilled_bytes: AtomicUsize,
    /// Outputs of the epoch so far.
    pub outputs: AtomicU64,
    /// Items that wait for the barrier to become outputs.
    pub held: AtomicU64,
    /// Bytes of these. They count as dirty, too, since the lane keeps them in memory.
    pub held_bytes: AtomicUsize,
    /// Records read or folded since start.
    pub records: AtomicU64,
}

impl LaneGauges {
    /// The lane alone writes what it counts for each output, so it needs no locked instruction.
    fn count_output(&self) {
        let outputs = self.outputs.load(Ordering::Relaxed) + 1;
        self.outputs.store(outputs, Ordering::Relaxed);
    }

    /// The same for the bytes in memory; returns how many there are.
    fn add_output_bytes(&self, bytes: usize) -> usize {
        let bytes = self.output_bytes.load(Ordering::Relaxed) + bytes;
        self.output_bytes.store(bytes, Ordering::Relaxed);
        bytes
    }

    /// The lane's log outputs have left its memory; they are part of the epoch all the same.
    fn outputs_spilled(&self) {
        let bytes = self.output_bytes.swap(0, Ordering::Relaxed);
        self.spilled_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The next epoch begins without outputs.
    fn outputs_handed_over(&self) {
        for bytes in [&self.output_bytes, &self.outbox_bytes, &self.spilled_bytes] {
            bytes.store(0, Ordering::Relaxed);
        }
        self.outputs.store(0, Ordering::Relaxed);
    }
}

/// Everything a lane is built from.
#[derive(Clone)]
pub struct LaneSetup {
    /// Lane's name in errors and thread lists: `source-0`, `totals-1`.
    pub name: String,
    /// Index among the lanes of its segment.
    pub index: u32,
    /// Lanes of each keyed segment.
    pub keyed_lanes: u32,
    /// Key groups and shards.
    pub groups: KeyGroups,
    /// How a record's shard is found.
    pub sharding: Sharding,
    /// Ids of the states.
    pub state_ids: Arc<super::states::StateIds>,
    /// Local copies by shard.
    pub backends: Vec<Arc<dyn Backend>>,
    /// Sources by index.
    pub sources: Arc<[SourceInfo]>,
    /// Steps with a policy of their own.
    pub step_policies: Arc<StepPolicies>,
    /// Sinks by index.
    pub sinks: Arc<[SinkRoute]>,
    /// Where outputs go beyond the limit.
    pub spill: SpillDir,
    /// Output bytes that one lane keeps in memory.
    pub output_bytes_max: usize,
    /// Bytes of one lane's typed maps.
    pub map_bytes_max: usize,
    /// Exactly-once or at-least-once.
    pub guarantee: Guarantee,
    /// At-least-once: takes outputs as they are produced.
    pub eager: Option<Sender<OutputFrames>>,
    /// The epoch that has been applied to the local copies.
    pub applied: Arc<AtomicU64>,
    /// This lane's gauges.
    pub gauges: Arc<LaneGauges>,
    /// The runtime's clock.
    pub clock: Arc<dyn Clock>,
    /// See [`crate::config::Config::max_future`].
    pub max_future: Duration,
    /// Watermark that the shards were restored with, the smallest.
    pub watermark: Watermark,
    /// Watermark that each shard was restored with, `i64::MIN` for none: what has expired before it may be gone.
    pub horizons: Arc<[TimestampMs]>,
    /// Counters.
    pub metrics: Metrics,
    /// Fail points.
    pub faults: crate::testing::Faults,
}

/// The running lane, as its operators see it.
pub struct LaneContext {
    /// What the lane was built from.
    pub setup: LaneSetup,
    outputs: Vec<OutputBuffer>,
    outbox: Vec<OutputFrames>,
    /// The largest timestamp that records and outputs of this batch may have: the clock is read once a batch.
    pub(super) latest_allowed: TimestampMs,
    /// The lane's watermark.
    pub watermark: Watermark,
    /// See [`crate::barrier::Cut::horizon`]: that of the last one.
    pub horizon: TimestampMs,
    /// Records of the epoch so far.
    pub records: u64,
    /// Bytes of state that the batch's records read or changed.
    pub(super) touched_bytes: usize,
    /// A batch has gone to another lane since this was cleared.
    pub(super) batch_sent: bool,
    /// What the lane counts.
    pub meter: LaneMeter,
}

impl LaneContext {
    /// An idle lane.
    #[must_use]
    pub fn new(setup: LaneSetup) -> LaneContext {
        let share = LaneShare::new(0, setup.groups.shards, setup.watermark);
        let mut context = LaneContext {
            watermark: setup.watermark,
            meter: setup.metrics.lane(&setup.name),
            setup,
            outputs: share.outputs,
            outbox: share.outbox,
            latest_allowed: 0,
            horizon: i64::MIN,
            records: 0,
            touched_bytes: 0,
            batch_sent: false,
        };
        context.start_batch();
        context
    }

    /// The time that decides whether state has expired for the item described by `meta`: that of its record, or the horizon of its shard where
    /// that is later, since the entry may have been removed by then. Which of the two states the local copy is in makes no difference.
    #[must_use]
    pub fn expiry_time(&self, meta: &Meta<'_>) -> TimestampMs {
        let restored = self.setup.horizons.get(meta.shard.0 as usize);
        let horizon = self.horizon.max(restored.copied().unwrap_or(i64::MIN));
        meta.timestamp.max(horizon)
    }

    /// Before a batch: notes how far ahead its timestamps may be.
    pub fn start_batch(&mut self) {
        let max_future = i64::try_from(self.setup.max_future.as_millis()).unwrap_or(i64::MAX);
        self.latest_allowed = self.setup.clock.now_ms().saturating_add(max_future);
    }

    /// Checks a timestamp of a record or an output: -1 for none, or 0 up to `max_future` ahead of the clock.
    ///
    /// # Errors
    /// A refusal.
    pub fn check_timestamp(&self, timestamp: TimestampMs, step: &str) -> Result<(), StepError> {
        if timestamp == -1 || (0..=self.latest_allowed).contains(&timestamp) {
            return Ok(());
        }
        let message = if timestamp < 0 {
            format!("timestamp {timestamp} is negative, and none is -1")
        } else {
            let now = self.setup.clock.now_ms();
            let ahead = timestamp.saturating_sub(now) / 1000;
            format!(
                "timestamp {timestamp} ({}) is more than max_future = {} s ahead of this machine's clock, {ahead} s ({}): if the clock is \
                 behind, set it right and start again",
                Utc(timestamp),
                self.setup.max_future.as_secs(),
                Utc(now)
            )
        };
        Err(refusal(BadReason::Timestamp, step, message))
    }

    /// Takes an output of the item described by `meta`.
    ///
    /// # Errors
    /// A refusal when it is larger than its sink takes or has a timestamp that no record may have; a full disk when it must be spilled.
    pub fn emit(&mut self, out: &OutputRef<'_>, meta: &Meta<'_>, step: &str) -> Result<(), StepError> {
        let size = out.key.map_or(0, <[u8]>::len) + out.value.map_or(0, <[u8]>::len) + out.headers.len();
        let broken = self.setup.faults.broken("EP-8");
        if !broken {
            self.check_timestamp(out.timestamp, step)?;
        }
        match self.setup.sinks.get(usize::from(out.sink)) {
            Some(SinkRoute::Log { max_bytes }) => {
                if size > *max_bytes && !broken {
                    let message = format!("output of {size} bytes, its sink takes {max_bytes}");
                    return Err(refusal(BadReason::TooLarge, step, message));
                }
                self.push_log_output(out, meta.shard, size + FRAME_BYTES)?;
            }
            _ => {
                if let Some(frames) = self.outbox.get_mut(meta.shard.0 as usize) {
                    frames.push(out);
                }
                let framed = size + FRAME_BYTES;
                self.setup.gauges.outbox_bytes.fetch_add(framed, Ordering::Relaxed);
            }
        }
        self.setup.gauges.count_output();
        self.meter.output(out.sink, size);
        Ok(())
    }

    fn push_log_output(&mut self, out: &OutputRef<'_>, shard: Shard, size: usize) -> Result<(), LaneError> {
        if let Some(buffer) = self.outputs.get_mut(shard.0 as usize) {
            buffer.push(out);
        }
        if self.setup.gauges.add_output_bytes(size) > self.setup.output_bytes_max {
            for buffer in &mut self.outputs {
                buffer.spill(&self.setup.spill)?;
            }
            self.setup.gauges.outputs_spilled();
        }
        Ok(())
    }

    /// At-least-once: hands the outputs so far to the sender.
    ///
    /// # Errors
    /// When the sender has ended.
    pub fn send_eagerly(&mut self) -> Result<(), LaneError> {
        let Some(eager) = &self.setup.eager else { return Ok(()) };
        for buffer in &mut self.outputs {
            let buffer = std::mem::take(buffer);
            let mut frames = OutputFrames::default();
            buffer
                .walk::<LaneError>(&mut |out| {
                    frames.push(out);
                    Ok(())
                })
                .map_err(|e| LaneError::Send(e.to_string()))?;
            if !frames.is_empty() {
                let since = Instant::now();
                eager
                    .send(frames)
                    .map_err(|_| LaneError::Send("the sender has ended".to_owned()))?;
                self.meter.blocked(since.elapsed());
            }
        }
        self.setup.gauges.outputs_spilled();
        Ok(())
    }

    /// Moves outputs, watermark and counts of the epoch into its share.
    pub fn hand_over(&mut self, share: &mut LaneShare) {
        let fresh = self.outputs.iter().map(|_| OutputBuffer::default()).collect();
        share.outputs = std::mem::replace(&mut self.outputs, fresh);
        std::mem::swap(&mut share.outbox, &mut self.outbox);
        share.watermark = self.watermark;
        share.records = std::mem::take(&mut self.records);
        // Outputs that the barrier itself has caused.
        self.meter.batch(0);
        self.setup.gauges.outputs_handed_over();
    }

    /// Ends a push: a refusal goes to the policy of the step, or of the record's source, here and now, and the lane goes on.
    ///
    /// # Errors
    /// As [`LaneContext::refuse`], and what ended the push otherwise.
    pub fn settle(&mut self, pushed: Result<(), StepError>, meta: &Meta<'_>) -> Result<(), LaneError> {
        match pushed {
            Ok(()) => Ok(()),
            Err(StepError::Bad(bad)) => self.refuse(bad, meta),
            Err(StepError::Lane(error)) => Err(error),
        }
    }
}

pub(super) fn refusal(reason: BadReason, step: &str, message: String) -> StepError {
    Refused { reason, message }.at(step)
}
