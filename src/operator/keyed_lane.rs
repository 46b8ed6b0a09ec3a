//! A keyed lane: aligns barriers over its inputs and folds records of the key groups it owns.
use super::chain::Push;
use super::context::{LaneContext, LaneSetup, Meta};
use super::error::LaneError;
use super::share::LaneShare;
use crate::barrier::{Aligner, Alignment, Barrier};
use crate::config::Guarantee;
use crate::exchange::{Arrival, BATCH_BYTES_MAX, Batch, Envelope, Inputs, Keys, Message};
use crate::state::KeyRef;
use crate::telemetry::Activity;
use crate::types::{Headers, NoHeaders, OwnedOriginal, Watermark};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What a step of a lane did.
#[derive(Debug)]
pub enum LaneStep {
    /// Took records.
    Worked,
    /// Nothing came in time.
    Idle,
    /// Cut an epoch.
    Share(Box<LaneShare>),
    /// Every input has ended.
    Ended,
}

/// A keyed lane, whatever its item's type.
pub trait KeyedLane {
    /// Takes the next message, waiting up to `max_wait`.
    ///
    /// # Errors
    /// What ends the lane.
    fn step(&mut self, max_wait: Duration) -> Result<LaneStep, LaneError>;
}

/// A keyed lane over items of type `T`.
pub struct TypedLane<T> {
    inputs: Inputs<T, Barrier>,
    aligner: Aligner,
    watermarks: Vec<Watermark>,
    chain: Box<dyn Push<T>>,
    context: LaneContext,
    /// Bytes of state that a record is expected to bring into memory.
    expected: usize,
}

/// Until the first batch has been worked on, the states may be large: records come one by one.
const EXPECTED_AT_FIRST: usize = BATCH_BYTES_MAX;

/// Records whose state is looked up before the first of them is worked on. Enough to read their misses together, and few enough that what was
/// found is still in the processor's cache when its record comes: with a whole batch it was fetched from memory twice.
pub(super) const PREFETCH_RECORDS: usize = 128;

impl<T> TypedLane<T> {
    /// Over the exchange's inputs of this lane.
    #[must_use]
    pub fn new(inputs: Inputs<T, Barrier>, chain: Box<dyn Push<T>>, setup: LaneSetup) -> Self {
        let hold = setup.guarantee == Guarantee::ExactlyOnce;
        let aligner = Aligner::new(inputs.len(), hold);
        let watermarks = vec![Watermark::NONE; inputs.len()];
        inputs.expect(EXPECTED_AT_FIRST);
        TypedLane {
            inputs,
            aligner,
            watermarks,
            chain,
            context: LaneContext::new(setup),
            expected: EXPECTED_AT_FIRST,
        }
    }

    fn batch(&mut self, input: usize, batch: Batch<T>) -> Result<(), LaneError> {
        self.context.start_batch();
        let watermark = batch.watermark;
        let (keys, records) = batch.into_parts();
        let count = records.len() as u64;
        let mut records = records.into_iter();
        while let Some(ahead) = records.as_slice().chunks(PREFETCH_RECORDS).next() {
            let ahead: Vec<KeyRef<'_>> = ahead.iter().map(|record| key_ref(&keys, record)).collect();
            self.chain.prefetch(&ahead)?;
            for record in records.by_ref().take(ahead.len()) {
                self.record(&keys, record)?;
            }
        }
        self.raise_watermark(input, watermark);
        self.context.records += count;
        let gauges = &self.context.setup.gauges;
        gauges.records.fetch_add(count, Ordering::Relaxed);
        gauges.dirty_bytes.store(self.chain.dirty_bytes(), Ordering::Relaxed);
        self.context.meter.batch(count);
        self.end_batch()?;
        self.expect(count as usize);
        Ok(())
    }

    /// The mean of this batch, or what was expected before where that was more: it falls slowly, since few large states hide among small ones.
    fn expect(&mut self, records: usize) {
        let touched = std::mem::take(&mut self.context.touched_bytes);
        let Some(mean) = touched.checked_div(records) else {
            return;
        };
        self.expected = mean.max(self.expected - self.expected / 4);
        self.inputs.expect(self.expected);
    }

    fn end_batch(&mut self) -> Result<(), LaneError> {
        let applied = self.context.setup.applied.load(Ordering::Acquire);
        self.chain.end_batch(applied, &mut self.context)?;
        self.context.send_eagerly()
    }

    fn record(&mut self, keys: &Keys, record: Envelope<T>) -> Result<(), LaneError> {
        let key = key_ref(keys, &record);
        let extra = record.extra.as_deref();
        let headers = extra.map_or(&NoHeaders as &dyn Headers, |e| e as &dyn Headers);
        let meta = Meta {
            timestamp: record.timestamp,
            origin: record.origin,
            bytes: record.bytes,
            key: Some(key.bytes),
            hash: key.hash,
            group: key.group,
            shard: self.context.setup.groups.shard_of(key.group),
            headers,
            original: extra.and_then(|e| e.original.as_ref()).map(OwnedOriginal::borrow),
        };
        let pushed = self.chain.push(record.value, &meta, &mut self.context);
        self.context.settle(pushed, &meta)
    }

    fn raise_watermark(&mut self, input: usize, watermark: Watermark) {
        self.watermarks[input].advance(watermark);
        self.context
            .watermark
            .advance(Watermark::of_inputs(self.watermarks.iter().copied()));
    }

    fn cut(&mut self, barrier: Barrier) -> Result<LaneStep, LaneError> {
        let started = Instant::now();
        let watermark = self.context.watermark;
        let barrier = Barrier { watermark, ..barrier };
        let mut share = LaneShare::new(barrier.cut.epoch, self.context.setup.groups.shards, watermark);
        self.chain.barrier(barrier, &mut share, &mut self.context)?;
        // Before the share is handed over: nobody removes anything by this horizon until every lane has done so.
        self.context.horizon = barrier.cut.horizon;
        self.context.send_eagerly()?;
        self.context.hand_over(&mut share);
        self.context.setup.gauges.dirty_bytes.store(0, Ordering::Relaxed);
        share.encode = started.elapsed();
        Ok(LaneStep::Share(Box::new(share)))
    }
}

fn key_ref<'a, T>(keys: &'a Keys, record: &Envelope<T>) -> KeyRef<'a> {
    KeyRef {
        group: record.group,
        hash: record.hash,
        bytes: keys.of(record),
    }
}

impl<T> KeyedLane for TypedLane<T> {
    fn step(&mut self, max_wait: Duration) -> Result<LaneStep, LaneError> {
        let aligner = &self.aligner;
        self.context.meter.enter(Activity::Waiting);
        let arrival = self.inputs.next(|input| aligner.held(input), max_wait);
        self.context.meter.enter(Activity::Busy);
        match arrival {
            Arrival::Nothing => {
                self.end_batch()?;
                Ok(LaneStep::Idle)
            }
            Arrival::Message(input, Message::Batch(batch)) => {
                self.batch(input, batch)?;
                Ok(LaneStep::Worked)
            }
            Arrival::Message(input, Message::Barrier(barrier)) => {
                self.raise_watermark(input, barrier.watermark);
                match self.aligner.barrier(input) {
                    Alignment::Waiting => Ok(LaneStep::Worked),
                    Alignment::Complete => self.cut(barrier),
                }
            }
            // A source lane ends only when the run ends: no epoch is cut any more.
            Arrival::Ended(input) => {
                self.aligner.end(input);
                Ok(if self.aligner.ended() {
                    LaneStep::Ended
                } else {
                    LaneStep::Worked
                })
            }
        }
    }
}
