//! How the topology remembers what follows an operator, and how a lane opens it.
use super::chain::{FanOut, Push};
use super::context::LaneSetup;
use super::terminal::Discard;
use parking_lot::Mutex;
use std::sync::Arc;

type Factory<T> = Arc<dyn Fn(&LaneSetup) -> Box<dyn Push<T>> + Send + Sync>;

/// The consumers of one stream, as factories: each lane opens its own instances on its own thread.
pub struct Outs<T> {
    factories: Arc<Mutex<Vec<Factory<T>>>>,
}

impl<T> Clone for Outs<T> {
    fn clone(&self) -> Self {
        Outs {
            factories: Arc::clone(&self.factories),
        }
    }
}

impl<T> Default for Outs<T> {
    fn default() -> Self {
        Outs {
            factories: Arc::default(),
        }
    }
}

impl<T> Outs<T> {
    /// Adds a consumer.
    pub fn add(&self, factory: impl Fn(&LaneSetup) -> Box<dyn Push<T>> + Send + Sync + 'static) {
        self.factories.lock().push(Arc::new(factory));
    }
}

/// Opens every consumer of a stream for one lane.
#[must_use]
pub fn open<T: Clone + 'static>(outs: &Outs<T>, setup: &LaneSetup) -> Box<dyn Push<T>> {
    let factories = outs.factories.lock().clone();
    let mut nexts: Vec<Box<dyn Push<T>>> = factories.iter().map(|f| f(setup)).collect();
    if nexts.is_empty() {
        nexts.push(Box::new(Discard));
    }
    FanOut::of(nexts)
}
