//! Gives every item to one of several operators, or to none.
use super::chain::{FanOut, Push};
use super::context::{LaneContext, Meta};
use super::error::{LaneError, Refused, StepError};
use super::share::LaneShare;
use crate::barrier::Barrier;
use crate::state::KeyRef;
use std::sync::Arc;

/// Index of the operator that an item goes to.
pub type Choose<T> = Arc<dyn Fn(&T) -> Result<Option<usize>, Refused> + Send + Sync>;

/// One lane's instance.
pub struct Split<T> {
    id: String,
    choose: Choose<T>,
    nexts: FanOut<T>,
}

impl<T> Split<T> {
    /// Over the operators that can be chosen.
    #[must_use]
    pub fn new(id: String, choose: Choose<T>, nexts: Vec<Box<dyn Push<T>>>) -> Self {
        Split {
            id,
            choose,
            nexts: FanOut { nexts },
        }
    }
}

impl<T: Clone> Push<T> for Split<T> {
    fn push(&mut self, item: T, meta: &Meta<'_>, lane: &mut LaneContext) -> Result<(), StepError> {
        let chosen = (self.choose)(&item).map_err(|refused| refused.at(&self.id))?;
        match chosen.and_then(|i| self.nexts.nexts.get_mut(i)) {
            Some(next) => next.push(item, meta, lane),
            None => Ok(()),
        }
    }
    fn prefetch(&mut self, keys: &[KeyRef<'_>]) -> Result<(), LaneError> {
        self.nexts.prefetch(keys)
    }
    fn end_batch(&mut self, applied: u64, lane: &mut LaneContext) -> Result<(), LaneError> {
        self.nexts.end_batch(applied, lane)
    }
    fn barrier(&mut self, barrier: Barrier, share: &mut LaneShare, lane: &mut LaneContext) -> Result<(), LaneError> {
        self.nexts.barrier(barrier, share, lane)
    }
    fn dirty_bytes(&self) -> usize {
        self.nexts.dirty_bytes()
    }
}
