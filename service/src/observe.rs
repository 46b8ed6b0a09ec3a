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
    run: Mutex<Option<(Arc<Progress>, Metrics)>>,
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
    /// Of a run that has not begun; `stall_after` is how long no barrier may come through.
    #[must_use]
    pub fn new(stall_after: Duration) -> Observed {
        let moved = Moved {
            phase: Phase::Starting,
            barriers: 0,
            at: Instant::now(),
        };
        Observed {
            inner: Arc::new(Inner {
                stall_after,
                run: Mutex::new(None),
                moved: Mutex::new(moved),
            }),
        }
    }

    /// The run has begun.
    pub fn begins(&self, progress: Arc<Progress>, metrics: Metrics) {
        *self.inner.run.lock() = Some((progress, metrics));
    }

    /// The run, if it has begun.
    #[must_use]
    pub fn run(&self) -> Option<(Arc<Progress>, Metrics)> {
        self.inner.run.lock().clone()
    }

    /// The metrics in Prometheus's text format; nothing before the run has begun.
    #[must_use]
    pub fn metrics_text(&self) -> String {
        self.run().map(|(_, metrics)| metrics.text()).unwrap_or_default()
    }

    /// Its health. To be asked at least every few seconds, so that it knows when something moved.
    #[must_use]
    pub fn report(&self) -> Report {
        let Some((progress, metrics)) = self.run() else {
            return Report {
                ready: false,
                phase: "starting",
                detail: "starting".to_owned(),
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
            Phase::Starting => (false, "starting", "starting".to_owned()),
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
