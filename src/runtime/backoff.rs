//! Waiting between tries: doubling, at most 10 s, cut short by a stop.
use super::error::RuntimeError;
use super::group::Signals;
use super::progress::StopHandle;
use crate::telemetry::Metrics;
use crate::types::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(10);
/// How long a stop waits for what is being retried before it gives up on the last epoch.
pub const STOP_GRACE: Duration = Duration::from_secs(20);
const SLICE: Duration = Duration::from_millis(20);

/// What every retry loop needs.
#[derive(Clone)]
pub struct Patience {
    /// The runtime's clock.
    pub clock: Arc<dyn Clock>,
    /// Cuts waiting short.
    pub stop: StopHandle,
    /// Where retries are counted.
    pub metrics: Metrics,
    /// Group mode: ends waiting for what is not ours any more.
    pub group: Option<Arc<Signals>>,
    /// Whether a try is a sign of life of the driver; not beside it.
    pub of_driver: bool,
    /// Set when nobody waits for what is tried any more; None where somebody always does.
    pub over: Option<Arc<AtomicBool>>,
}

/// One retry loop.
pub struct Backoff {
    patience: Patience,
    step: &'static str,
    next: Duration,
    stopping_since: Option<Duration>,
    waited: bool,
}

impl Patience {
    /// Whether what this instance works on is still its own; the driver's sign of life, too.
    ///
    /// # Errors
    /// [`RuntimeError::AssignmentLost`] once the assignment was taken back and its time is over.
    pub fn still_ours(&self, step: &str) -> Result<(), RuntimeError> {
        if self.of_driver {
            self.group.iter().for_each(|group| group.tick());
        }
        self.still_owned(step)
    }

    /// As [`Patience::still_ours`], where waiting is no sign of life: a lane may hang.
    ///
    /// # Errors
    /// As there.
    pub fn still_owned(&self, step: &str) -> Result<(), RuntimeError> {
        if self.group.as_ref().is_some_and(|group| group.over()) {
            return Err(RuntimeError::AssignmentLost(format!("taken back {step}")));
        }
        if self.over.as_ref().is_some_and(|over| over.load(Ordering::SeqCst)) {
            return Err(RuntimeError::AssignmentLost(format!("nobody waits for it {step}")));
        }
        Ok(())
    }

    /// A retry loop of the step with this metric label.
    #[must_use]
    pub fn backoff(&self, step: &'static str) -> Backoff {
        Backoff {
            patience: self.clone(),
            step,
            next: FIRST,
            stopping_since: None,
            waited: false,
        }
    }
}

impl Backoff {
    /// Waits before the next try. `why` is logged.
    ///
    /// # Errors
    /// [`RuntimeError::StoppedEarly`] when a stop was asked for and [`STOP_GRACE`] has passed.
    pub fn wait(&mut self, why: &dyn std::fmt::Display) -> Result<(), RuntimeError> {
        let Patience {
            clock, stop, metrics, ..
        } = &self.patience;
        tracing::warn!(step = self.step, backoff_ms = self.next.as_millis() as u64, %why, "trying again");
        metrics.retry(self.step, self.next);
        self.waited = true;
        let until = clock.elapsed() + self.next;
        while clock.elapsed() < until {
            self.patience.still_ours("while something was tried again")?;
            if stop.asked() {
                let since = *self.stopping_since.get_or_insert(clock.elapsed());
                if clock.elapsed().saturating_sub(since) > STOP_GRACE {
                    return Err(RuntimeError::StoppedEarly(format!("retrying {}: {why}", self.step)));
                }
            }
            clock.sleep(SLICE.min(self.next));
        }
        self.next = (self.next * 2).min(LONGEST);
        Ok(())
    }
}

impl Drop for Backoff {
    fn drop(&mut self) {
        // A loop inside another one that never waited leaves the outer one's figure alone.
        if self.waited {
            self.patience.metrics.recovered();
        }
    }
}
