//! How a start waits for what it cannot reach.
use crate::observe::Observed;
use keyfold::checkpoint::store::{StoreError, StoreErrorKind};
use keyfold::runtime::StopHandle;
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(250);
const LONGEST: Duration = Duration::from_secs(10);

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
            observed.waits("topic", format!("the output topic {topic}: {why}"), backoff);
        }
    }

    /// Opens the checkpoint store, again and again while it cannot be reached, with a wait that doubles up to 10 s.
    ///
    /// # Errors
    /// What does not pass by itself; and the last failure, once a stop was asked for.
    pub(super) fn until_opened<T>(&self, open: impl Fn() -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut backoff = FIRST;
        loop {
            match open() {
                Err(error) if error.kind() == StoreErrorKind::Retriable => {
                    tracing::warn!(backoff_ms = backoff.as_millis() as u64, %error, "waiting for the checkpoint store");
                    if let Some(observed) = &self.observed {
                        observed.waits("store", format!("the checkpoint store: {error}"), backoff);
                    }
                    if !self.stop.sleep_unless_asked(backoff) {
                        return Err(error);
                    }
                    backoff = (backoff * 2).min(LONGEST);
                }
                done => return done,
            }
        }
    }
}
