//! What a run is doing, for health, metrics and the status line. Looked at from outside: nothing here waits for the data plane, or makes it wait.
use keyfold::runtime::{Phase, Progress};
use keyfold::telemetry::Metrics;
use parking_lot::Mutex;
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A run from before it begins to after its end.
#[derive(Clone)]
pub struct Observed {
    inner: Arc<Inner>,
}

struct Inner {
    stall_after: Duration,
    metrics: Metrics,
    run: Mutex<Option<Arc<Progress>>>,
    /// What the start waits for.
    waits_for: Mutex<Option<String>>,
    moved: Mutex<Moved>,
}

/// When the number of barriers was last seen to change.
struct Moved {
    phase: Phase,
    barriers: u64,
    at: Instant,
}

/// The health of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Whether it does what it is there for.
    pub ready: bool,
    /// `starting`, `spare`, `restoring`, `processing`, `stalled` or `stopped`.
    pub phase: &'static str,
    /// The same in a sentence, with figures.
    pub detail: String,
    /// The last committed epoch.
    pub epoch: Option<String>,
    /// Epochs committed since the start.
    pub epochs: u64,
    /// Records read since the start.
    pub records_read: u64,
    /// Records read in committed epochs since the start.
    pub records_committed: u64,
}

impl Observed {
    /// Of a run that has not begun, with the metrics that it will have; `stall_after` is how long no barrier may come through.
    #[must_use]
    pub fn new(stall_after: Duration, metrics: Metrics) -> Observed {
        let moved = Moved {
            phase: Phase::Starting,
            barriers: 0,
            at: Instant::now(),
        };
        Observed {
            inner: Arc::new(Inner {
                stall_after,
                metrics,
                run: Mutex::new(None),
                waits_for: Mutex::new(None),
                moved: Mutex::new(moved),
            }),
        }
    }

    /// The start waits for something, and looks again after `backoff`. The step is the label of the metric.
    pub fn waits(&self, step: &'static str, why: String, backoff: Duration) {
        self.inner.metrics.retry(step, backoff);
        *self.inner.waits_for.lock() = Some(format!("waiting for {why}"));
    }

    /// The run has begun.
    pub fn begins(&self, progress: Arc<Progress>) {
        self.inner.metrics.recovered();
        *self.inner.waits_for.lock() = None;
        *self.inner.run.lock() = Some(progress);
    }

    /// The metrics. They are there before the run has begun.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// Its health. To be asked at least every few seconds, so that it knows when something moved.
    #[must_use]
    pub fn report(&self) -> Report {
        let metrics = &self.inner.metrics;
        let Some(progress) = self.inner.run.lock().clone() else {
            return Report {
                ready: false,
                phase: "starting",
                detail: self.starting(),
                epoch: None,
                epochs: 0,
                records_read: 0,
                records_committed: 0,
            };
        };
        let phase = progress.phase();
        let still = self.still(phase, progress.barriers());
        let stalled = phase == Phase::Processing && (still > self.inner.stall_after || metrics.is_stalled());
        let (ready, phase, detail) = match phase {
            Phase::Starting => (false, "starting", self.starting()),
            Phase::Spare => (
                true,
                "spare",
                "waiting: another instance runs the job, or has the partitions".to_owned(),
            ),
            Phase::Restoring => (false, "restoring", restoring(&progress)),
            Phase::Processing if stalled => (
                false,
                "stalled",
                format!("not progressing since {} s; the log says why", still.as_secs()),
            ),
            Phase::Processing => (true, "processing", "processing".to_owned()),
            Phase::Stopped => (false, "stopped", "stopped".to_owned()),
        };
        Report {
            ready,
            phase,
            detail,
            epoch: progress.epoch(),
            epochs: progress.epochs(),
            records_read: progress.read(),
            records_committed: progress.committed(),
        }
    }

    fn starting(&self) -> String {
        match (&*self.inner.waits_for.lock(), self.inner.metrics.retries("topic")) {
            (Some(wait), _) => format!("starting: {wait}"),
            (None, 0) => "starting".to_owned(),
            (None, tries) => {
                format!("starting: the job's topics were looked for {tries} times again; the log says why")
            }
        }
    }

    /// How long nothing has moved, as far as it was looked at.
    fn still(&self, phase: Phase, barriers: u64) -> Duration {
        let mut moved = self.inner.moved.lock();
        if moved.phase != phase || moved.barriers != barriers {
            *moved = Moved {
                phase,
                barriers,
                at: Instant::now(),
            };
        }
        moved.at.elapsed()
    }
}

fn restoring(progress: &Progress) -> String {
    match progress.sections_to_replay() {
        0 => "restoring: reading what is committed".to_owned(),
        total => format!("restoring {} of {total} sections", progress.replayed_sections()),
    }
}
