//! Operators without state.
use super::chain::Push;
use super::context::{LaneContext, Meta};
use super::error::{LaneError, Refused, StepError};
use super::share::LaneShare;
use crate::barrier::Barrier;
use crate::state::KeyRef;
use std::sync::Arc;

/// A user's function from one item to any number of items.
pub type Expand<T, U> = Arc<dyn Fn(T, &mut dyn FnMut(U)) -> Result<(), Refused> + Send + Sync>;

/// One item for each, or a refusal.
pub fn mapping<T, U, E: Into<Refused>>(f: impl Fn(T) -> Result<U, E> + Send + Sync + 'static) -> Expand<T, U> {
    Arc::new(move |item, out| {
        out(f(item).map_err(Into::into)?);
        Ok(())
    })
}

/// The items for which `f` is true, or a refusal.
pub fn filtering<T, E: Into<Refused>>(f: impl Fn(&T) -> Result<bool, E> + Send + Sync + 'static) -> Expand<T, T> {
    Arc::new(move |item, out| {
        if f(&item).map_err(Into::into)? {
            out(item);
        }
        Ok(())
    })
}

/// map, filter and flat_map, fallible or not: all turn one item into some items.
pub struct Stateless<T, U> {
    id: String,
    expand: Expand<T, U>,
    next: Box<dyn Push<U>>,
    emitted: Vec<U>,
}

impl<T, U> Stateless<T, U> {
    /// One lane's instance.
    #[must_use]
    pub fn new(id: String, expand: Expand<T, U>, next: Box<dyn Push<U>>) -> Self {
        Stateless {
            id,
            expand,
            next,
            emitted: Vec::new(),
        }
    }
}

impl<T, U> Push<T> for Stateless<T, U> {
    fn push(&mut self, item: T, meta: &Meta<'_>, lane: &mut LaneContext) -> Result<(), StepError> {
        // Collected first: an item that the function refuses half-way emits nothing.
        let emitted = &mut self.emitted;
        emitted.clear();
        (self.expand)(item, &mut |out| emitted.push(out)).map_err(|refused| refused.at(&self.id))?;
        for out in self.emitted.drain(..) {
            let pushed = self.next.push(out, meta, lane);
            lane.settle(pushed, meta)?;
        }
        Ok(())
    }
    fn prefetch(&mut self, keys: &[KeyRef<'_>]) -> Result<(), LaneError> {
        self.next.prefetch(keys)
    }
    fn end_batch(&mut self, applied: u64, lane: &mut LaneContext) -> Result<(), LaneError> {
        self.next.end_batch(applied, lane)
    }
    fn barrier(&mut self, barrier: Barrier, share: &mut LaneShare, lane: &mut LaneContext) -> Result<(), LaneError> {
        self.next.barrier(barrier, share, lane)
    }
    fn dirty_bytes(&self) -> usize {
        self.next.dirty_bytes()
    }
}
