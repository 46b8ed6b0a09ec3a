//! How a start waits for what it cannot reach.
use crate::observe::Observed;
use keyfold::runtime::StopHandle;
use std::time::Duration;

/// Goes with whoever makes a topology: it may wait for the outside until a stop is asked for, and tells of it.
#[derive(Clone, Default)]
pub struct Waiting {
    stop: StopHandle,
    observed: Option<Observed>,
}

impl Waiting {
    /// Of a run that is observed.
    pub(super) fn new(stop: &StopHandle, observed: &Observed) -> Waiting {
        Waiting {
            stop: stop.clone(),
            observed: Some(observed.clone()),
        }
    }

    /// Ends the wait.
    #[must_use]
    pub fn stop(&self) -> &StopHandle {
        &self.stop
    }

    /// An output topic cannot be looked at, and is looked for again after `backoff`.
    pub fn again(&self, topic: &str, why: &str, backoff: Duration) {
        if let Some(observed) = &self.observed {
            observed.waits(topic, why, backoff);
        }
    }
}
