//! Waiting between tries: doubling, at most 10 s, cut short by a stop.
use super::error::RuntimeError;
use super::group::Signals;
use super::progress::StopHandle;
use crate::sink::GiveUp;
use crate::telemetry::Metrics;
use crate::types::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(20);
const LONGEST: Duration = Duration::from_secs(10);
/// How long a stop waits for what is being retried before it gives up on the last epoch, all steps together.
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

    /// Whether a stop that was asked for waits still.
    ///
    /// # Errors
    /// [`RuntimeError::StoppedEarly`] once [`STOP_GRACE`] has passed since.
    pub fn stop_waits(&self, what: &dyn std::fmt::Display) -> Result<(), RuntimeError> {
        match self.stop.asked_for(self.clock.as_ref()) {
            Some(ago) if ago >= STOP_GRACE => Err(RuntimeError::StoppedEarly(what.to_string())),
            _ => Ok(()),
        }
    }

    /// The same for a log, whose calls wait by themselves.
    pub(super) fn of_log(&self) -> GiveUp {
        let (stop, clock) = (self.stop.clone(), self.clock.clone());
        GiveUp::new(move || Some(STOP_GRACE.saturating_sub(stop.asked_for(clock.as_ref())?)))
    }

    /// A retry loop of the step with this metric label.
    #[must_use]
    pub fn backoff(&self, step: &'static str) -> Backoff {
        Backoff {
            patience: self.clone(),
            step,
            next: FIRST,
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
        let Patience { clock, metrics, .. } = &self.patience;
        tracing::warn!(step = self.step, backoff_ms = self.next.as_millis() as u64, %why, "trying again");
        metrics.retry(self.step, self.next);
        self.waited = true;
        let until = clock.elapsed() + self.next;
        while clock.elapsed() < until {
            // First: what the run comes to then is not for the group to say.
            self.patience
                .stop_waits(&format_args!("retrying {}: {why}", self.step))?;
            self.patience.still_ours("while something was tried again")?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::ManualClock;

    /// A broker was away: each retry loop of the last epoch began to count the stop's 20 s anew, and the process ended after 51 s.
    #[test]
    fn the_time_of_a_stop_is_counted_once_for_all_loops() {
        let clock = Arc::new(ManualClock::new(0));
        let patience = Patience {
            clock: clock.clone(),
            stop: StopHandle::default(),
            metrics: Metrics::new(),
            group: None,
            of_driver: true,
            over: None,
        };
        patience.backoff("before").wait(&"no stop yet").expect("waits");
        let log = patience.of_log();
        assert_eq!(log.within(Duration::from_secs(35)), Duration::from_secs(35));
        patience.stop.stop();
        let since = clock.elapsed();
        let mut loops = 0;
        let ended = loop {
            loops += 1;
            let mut backoff = patience.backoff("publish");
            if let Some(error) = (0..4).find_map(|_| backoff.wait(&"the broker is away").err()) {
                break error;
            }
        };
        assert!(loops > 10, "{loops} loops of 300 ms each");
        assert!(
            matches!(&ended, RuntimeError::StoppedEarly(why) if why.contains("the broker is away")),
            "{ended}"
        );
        let took = clock.elapsed().saturating_sub(since);
        assert!(
            took >= STOP_GRACE - Duration::from_secs(2) && took <= STOP_GRACE + SLICE,
            "{took:?}"
        );
        assert!(log.over());
        assert!(log.within(Duration::from_secs(35)) <= Duration::from_secs(1));
    }
}
