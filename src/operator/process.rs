//! The keyed process operator: a user's type with any number of named value states.
use super::chain::Push;
use super::context::{LaneContext, Meta};
use super::error::{LaneError, Refused, StepError};
use super::share::LaneShare;
use super::states::StateScope;
use crate::barrier::Barrier;
use crate::state::{KeyRef, StateError};
use crate::types::{Header, Origin, TimestampMs};

/// A user's keyed operator; one instance per lane, made by the factory given to `process`.
pub trait KeyedProcess<T, U> {
    /// One item of the key at hand. Runs on the lane's thread.
    ///
    /// # Errors
    /// Refuses the record: its changes and emissions in this call are undone, and the bad-record policy decides.
    fn process(&mut self, item: T, context: &mut ProcessContext<'_, U>) -> Result<(), ProcessError>;
}

/// Why `process` failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The user refuses the record.
    #[error("{0}")]
    Refused(Refused),
    /// State could not be read; ends the lane.
    #[error(transparent)]
    State(#[from] StateError),
}

impl<R: Into<Refused>> From<R> for ProcessError {
    fn from(refused: R) -> Self {
        ProcessError::Refused(refused.into())
    }
}

/// The record at hand, and where to emit.
pub struct ProcessContext<'a, U> {
    meta: &'a Meta<'a>,
    topic: &'a str,
    watermark: TimestampMs,
    emitted: &'a mut Vec<(U, TimestampMs)>,
}

impl<U> ProcessContext<'_, U> {
    /// Emits an item with the record's timestamp.
    pub fn emit(&mut self, item: U) {
        let timestamp = self.meta.timestamp;
        self.emitted.push((item, timestamp));
    }
    /// Emits an item with another timestamp. One that no record may have (negative other than -1, or more than `max_future` ahead) refuses
    /// this item; the others and the changes of state stay.
    pub fn emit_at(&mut self, item: U, timestamp: TimestampMs) {
        self.emitted.push((item, timestamp));
    }
    /// The key bytes.
    #[must_use]
    pub fn key_bytes(&self) -> &[u8] {
        self.meta.key.unwrap_or_default()
    }
    /// The record's timestamp.
    #[must_use]
    pub fn timestamp(&self) -> TimestampMs {
        self.meta.timestamp
    }
    /// Topic, by way of the source that the record came from.
    #[must_use]
    pub fn topic(&self) -> &str {
        self.topic
    }
    /// Source, partition and offset.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.meta.origin
    }
    /// The record's headers.
    #[must_use]
    pub fn headers(&self) -> Vec<Header> {
        self.meta.headers.to_vec()
    }
    /// The lane's watermark; None before any.
    #[must_use]
    pub fn watermark(&self) -> Option<TimestampMs> {
        (self.watermark != i64::MIN).then_some(self.watermark)
    }
}

/// One lane's instance of a process operator.
pub struct Process<P, U> {
    id: String,
    user: P,
    scope: StateScope,
    next: Box<dyn Push<U>>,
    emitted: Vec<(U, TimestampMs)>,
}

impl<P, U> Process<P, U> {
    /// `scope` is the one that `user` was made with.
    #[must_use]
    pub fn new(id: String, user: P, scope: StateScope, next: Box<dyn Push<U>>) -> Self {
        Process {
            id,
            user,
            scope,
            next,
            emitted: Vec::new(),
        }
    }
}

impl<T, U, P: KeyedProcess<T, U>> Push<T> for Process<P, U> {
    fn push(&mut self, item: T, meta: &Meta<'_>, lane: &mut LaneContext) -> Result<(), StepError> {
        self.scope.set_current(meta, lane.expiry_time(meta));
        self.emitted.clear();
        let topic = lane
            .setup
            .sources
            .get(usize::from(meta.origin.source))
            .map_or("", |s| s.topic.as_str());
        let mut context = ProcessContext {
            meta,
            topic,
            watermark: lane.watermark.at,
            emitted: &mut self.emitted,
        };
        let result = self.user.process(item, &mut context);
        let undo = result.is_err();
        self.scope.cells().iter().try_for_each(|cell| cell.settle(undo))?;
        match result {
            Ok(()) => {}
            Err(ProcessError::State(e)) => return Err(e.into()),
            Err(ProcessError::Refused(refused)) => return Err(refused.at(&self.id)),
        }
        for (out, timestamp) in self.emitted.drain(..) {
            // Before it reaches state further on: an aggregate keeps the largest timestamp for good.
            let checked = if timestamp == meta.timestamp || lane.setup.faults.broken("EP-8") {
                Ok(())
            } else {
                lane.check_timestamp(timestamp, &self.id)
            };
            let pushed = checked.and_then(|()| self.next.push(out, &Meta { timestamp, ..*meta }, lane));
            lane.settle(pushed, meta)?;
        }
        Ok(())
    }
    fn prefetch(&mut self, keys: &[KeyRef<'_>]) -> Result<(), LaneError> {
        for cell in self.scope.cells() {
            cell.prefetch(keys)?;
        }
        self.next.prefetch(keys)
    }
    fn end_batch(&mut self, applied: u64, lane: &mut LaneContext) -> Result<(), LaneError> {
        let touched = self.scope.cells().iter().map(|cell| cell.end_batch(applied));
        lane.touched_bytes += touched.sum::<usize>();
        self.next.end_batch(applied, lane)
    }
    fn barrier(&mut self, barrier: Barrier, share: &mut LaneShare, lane: &mut LaneContext) -> Result<(), LaneError> {
        for cell in self.scope.cells() {
            share.waiting += cell.encode_dirty(barrier.cut.epoch, barrier.cut.taking, &mut share.changes)?;
        }
        self.next.barrier(barrier, share, lane)
    }
    fn dirty_bytes(&self) -> usize {
        self.scope.cells().iter().map(|c| c.dirty_bytes()).sum::<usize>() + self.next.dirty_bytes()
    }
}
