//! How operators are chained: each pushes into the next. Boxed at each operator: one virtual call per record and operator.
use super::context::{LaneContext, Meta};
use super::error::{LaneError, StepError};
use super::share::LaneShare;
use crate::barrier::Barrier;
use crate::state::KeyRef;

/// Takes the items of type `T` of one lane.
pub trait Push<T> {
    /// One item, on the lane's thread, for every record.
    ///
    /// # Errors
    /// [`StepError::Bad`] refuses the item here, for the caller to hand to the bad-record policy. Whoever pushes several items, or one
    /// item to several operators, does so for each ([`LaneContext::settle`]): a refusal concerns nothing but what was refused. What an
    /// operator upstream has folded stays.
    fn push(&mut self, item: T, meta: &Meta<'_>, lane: &mut LaneContext) -> Result<(), StepError>;

    /// The keys of the records that come next, so that state can read its misses together. Keyed lanes only.
    ///
    /// # Errors
    /// State that cannot be read.
    fn prefetch(&mut self, keys: &[KeyRef<'_>]) -> Result<(), LaneError>;

    /// A batch has ended: send on what is pending, and let go of entries whose epoch `applied` has been applied.
    ///
    /// # Errors
    /// What ends the lane.
    fn end_batch(&mut self, applied: u64, lane: &mut LaneContext) -> Result<(), LaneError>;

    /// The epoch ends here: hand over changes and send the barrier on.
    ///
    /// # Errors
    /// What ends the lane.
    fn barrier(&mut self, barrier: Barrier, share: &mut LaneShare, lane: &mut LaneContext) -> Result<(), LaneError>;

    /// Bytes of dirty state from here on.
    fn dirty_bytes(&self) -> usize;
}

/// Gives every item to several operators, in order. One that refuses it keeps it from none of the others.
pub struct FanOut<T> {
    pub(super) nexts: Vec<Box<dyn Push<T>>>,
}

impl<T: Clone + 'static> FanOut<T> {
    /// One operator is taken as it is.
    #[must_use]
    pub fn of(mut nexts: Vec<Box<dyn Push<T>>>) -> Box<dyn Push<T>> {
        match nexts.len() {
            1 => nexts.swap_remove(0),
            _ => Box::new(FanOut { nexts }),
        }
    }
}

impl<T: Clone> Push<T> for FanOut<T> {
    fn push(&mut self, item: T, meta: &Meta<'_>, lane: &mut LaneContext) -> Result<(), StepError> {
        let Some((last, firsts)) = self.nexts.split_last_mut() else {
            return Ok(());
        };
        for next in firsts {
            let pushed = next.push(item.clone(), meta, lane);
            lane.settle(pushed, meta)?;
        }
        let pushed = last.push(item, meta, lane);
        Ok(lane.settle(pushed, meta)?)
    }
    fn prefetch(&mut self, keys: &[KeyRef<'_>]) -> Result<(), LaneError> {
        self.nexts.iter_mut().try_for_each(|n| n.prefetch(keys))
    }
    fn end_batch(&mut self, applied: u64, lane: &mut LaneContext) -> Result<(), LaneError> {
        self.nexts.iter_mut().try_for_each(|n| n.end_batch(applied, lane))
    }
    fn barrier(&mut self, barrier: Barrier, share: &mut LaneShare, lane: &mut LaneContext) -> Result<(), LaneError> {
        self.nexts.iter_mut().try_for_each(|n| n.barrier(barrier, share, lane))
    }
    fn dirty_bytes(&self) -> usize {
        self.nexts.iter().map(|n| n.dirty_bytes()).sum()
    }
}
