//! fold, reduce, count: one value per key, updated in place, an output for every record.
use super::chain::Push;
use super::context::{LaneContext, Meta};
use super::error::{LaneError, Refused, StepError};
use super::share::LaneShare;
use crate::barrier::Barrier;
use crate::state::{KeyRef, TypedMap};
use std::sync::Arc;

/// Updates a key's value by an item and says what to emit.
pub type Update<T, S, U> = Arc<dyn Fn(&mut Option<S>, T) -> U + Send + Sync>;
/// The same, and may refuse the item: the value is as before then.
pub type TryUpdate<T, S, U> = Arc<dyn Fn(&mut Option<S>, T) -> Result<U, Refused> + Send + Sync>;

/// How an aggregate updates.
pub enum Updater<T, S, U> {
    /// Never refuses.
    Sure(Update<T, S, U>),
    /// May refuse; works on a copy.
    May(TryUpdate<T, S, U>),
    /// May refuse, and sees to it itself that the value is as before then.
    Careful(TryUpdate<T, S, U>),
}

/// One lane's instance of an aggregate.
pub struct Aggregate<T, S, U> {
    id: String,
    map: TypedMap<S>,
    updater: Updater<T, S, U>,
    next: Box<dyn Push<U>>,
}

impl<T, S, U> Aggregate<T, S, U> {
    /// Over `map`, which holds the lane's key groups.
    #[must_use]
    pub fn new(id: String, map: TypedMap<S>, updater: Updater<T, S, U>, next: Box<dyn Push<U>>) -> Self {
        Aggregate { id, map, updater, next }
    }
}

/// The key of the record at hand.
pub(super) fn key_of<'a>(meta: &Meta<'a>) -> KeyRef<'a> {
    KeyRef {
        group: meta.group,
        hash: meta.hash,
        bytes: meta.key.unwrap_or_default(),
    }
}

impl<T, S: Clone, U> Push<T> for Aggregate<T, S, U> {
    fn push(&mut self, item: T, meta: &Meta<'_>, lane: &mut LaneContext) -> Result<(), StepError> {
        let key = key_of(meta);
        let (out, timestamp) = match &self.updater {
            Updater::Sure(update) => self.map.update(key, meta.timestamp, |value| update(value, item))?,
            Updater::May(update) => self
                .map
                .try_update(key, meta.timestamp, |value| update(value, item))?
                .map_err(|refused| refused.at(&self.id))?,
            Updater::Careful(update) => self
                .map
                .update_unless(key, meta.timestamp, |value| update(value, item))?
                .map_err(|refused| refused.at(&self.id))?,
        };
        self.next.push(out, &Meta { timestamp, ..*meta }, lane)
    }
    fn prefetch(&mut self, keys: &[KeyRef<'_>]) -> Result<(), LaneError> {
        self.map.prefetch(keys)?;
        self.next.prefetch(keys)
    }
    fn end_batch(&mut self, applied: u64, lane: &mut LaneContext) -> Result<(), LaneError> {
        self.map.applied(applied);
        self.map.maintain();
        lane.touched_bytes += self.map.take_touched();
        self.next.end_batch(applied, lane)
    }
    fn barrier(&mut self, barrier: Barrier, share: &mut LaneShare, lane: &mut LaneContext) -> Result<(), LaneError> {
        share.waiting += self
            .map
            .encode_dirty(barrier.cut.epoch, barrier.cut.taking, &mut share.changes)?;
        self.next.barrier(barrier, share, lane)
    }
    fn dirty_bytes(&self) -> usize {
        self.map.dirty_bytes() + self.next.dirty_bytes()
    }
}
