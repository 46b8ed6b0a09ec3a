//! What a run is doing, for status lines, health and tests; and how to stop it.
use crate::operator::context::LaneGauges;
use crate::types::Clock;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// What the run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Phase {
    /// Not there yet.
    #[default]
    Starting,
    /// Waiting while another instance is alive.
    Spare,
    /// Bringing local copies up to the committed state.
    Restoring,
    /// Records flow.
    Processing,
    /// Ended.
    Stopped,
}

impl Phase {
    /// All of them.
    pub const ALL: [Phase; 5] = [
        Phase::Starting,
        Phase::Spare,
        Phase::Restoring,
        Phase::Processing,
        Phase::Stopped,
    ];

    /// In one word, as logs and metrics have it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Phase::Starting => "starting",
            Phase::Spare => "spare",
            Phase::Restoring => "restoring",
            Phase::Processing => "processing",
            Phase::Stopped => "stopped",
        }
    }
}

type Gauges = Vec<Arc<LaneGauges>>;

fn records(lanes: &Gauges) -> u64 {
    lanes.iter().map(|g| g.records.load(Ordering::Relaxed)).sum()
}

/// The lanes that run: they count by themselves, whatever the driver waits for.
#[derive(Debug, Default)]
struct Running {
    /// Records of the epochs that were committed before these lanes began.
    before: u64,
    sources: Gauges,
    keyed: Gauges,
}

/// Live figures of a run.
#[derive(Debug, Default)]
pub struct Progress {
    phase: Mutex<Phase>,
    epoch: Mutex<Option<String>>,
    resumed: Mutex<Option<String>>,
    restored_in: Mutex<Option<Duration>>,
    lanes: Mutex<Running>,
    committed: AtomicU64,
    epochs: AtomicU64,
    barriers: AtomicU64,
    replayed_sections: AtomicU64,
    sections_to_replay: AtomicU64,
}

impl Progress {
    /// What the run is doing.
    #[must_use]
    pub fn phase(&self) -> Phase {
        *self.phase.lock()
    }
    /// The last committed epoch.
    #[must_use]
    pub fn epoch(&self) -> Option<String> {
        self.epoch.lock().clone()
    }
    /// The committed epoch that this run went on from; None when it began the job.
    #[must_use]
    pub fn resumed(&self) -> Option<String> {
        self.resumed.lock().clone()
    }
    /// How long the last restore took to bring the local copies up to a committed epoch, without the session before it; None before the first, and in
    /// group mode, where shards come one by one.
    #[must_use]
    pub fn restored_in(&self) -> Option<Duration> {
        *self.restored_in.lock()
    }
    /// Records read since start.
    #[must_use]
    pub fn read(&self) -> u64 {
        let lanes = self.lanes.lock();
        lanes.before + records(&lanes.sources)
    }
    /// Records taken by keyed lanes since start, over all re-keyings; those read when the job has no keyed operator.
    #[must_use]
    pub fn folded(&self) -> u64 {
        let lanes = self.lanes.lock();
        lanes.before
            + records(if lanes.keyed.is_empty() {
                &lanes.sources
            } else {
                &lanes.keyed
            })
    }
    /// Records read in epochs committed since start.
    #[must_use]
    pub fn committed(&self) -> u64 {
        self.committed.load(Ordering::Relaxed)
    }
    /// Epochs committed since start.
    #[must_use]
    pub fn epochs(&self) -> u64 {
        self.epochs.load(Ordering::Relaxed)
    }
    /// Barriers cut since start and dealt with to the end, whether or not anything had to be committed.
    #[must_use]
    pub fn barriers(&self) -> u64 {
        self.barriers.load(Ordering::Acquire)
    }
    /// Sections replayed into local copies at start.
    #[must_use]
    pub fn replayed_sections(&self) -> u64 {
        self.replayed_sections.load(Ordering::Relaxed)
    }
    /// Sections that were found to be replayed so far: [`Progress::replayed_sections`] gets to it when all is restored.
    #[must_use]
    pub fn sections_to_replay(&self) -> u64 {
        self.sections_to_replay.load(Ordering::Relaxed)
    }
    pub(super) fn set_phase(&self, phase: Phase) {
        *self.phase.lock() = phase;
    }
    pub(super) fn set_resumed(&self, epoch: Option<String>) {
        *self.resumed.lock() = epoch;
    }
    pub(super) fn set_restored_in(&self, took: Duration) {
        *self.restored_in.lock() = Some(took);
    }
    pub(super) fn set_lanes(&self, sources: Gauges, keyed: Gauges) {
        // What earlier lanes took and nobody committed is taken again.
        let before = self.committed();
        *self.lanes.lock() = Running { before, sources, keyed };
    }
    pub(super) fn add_barrier(&self) {
        self.barriers.fetch_add(1, Ordering::AcqRel);
    }
    pub(super) fn add_to_replay(&self, sections: usize) {
        self.sections_to_replay.fetch_add(sections as u64, Ordering::Relaxed);
    }
    pub(super) fn add_replayed(&self) {
        self.replayed_sections.fetch_add(1, Ordering::Relaxed);
    }
    pub(super) fn add_committed(&self, epoch: String, records: u64) {
        *self.epoch.lock() = Some(epoch);
        self.committed.fetch_add(records, Ordering::Relaxed);
        self.epochs.fetch_add(1, Ordering::Relaxed);
    }
}

/// Asks a run to end. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct StopHandle {
    asked: Arc<AtomicBool>,
    at: Arc<OnceLock<Instant>>,
    /// The same by the run's clock.
    since: Arc<OnceLock<Duration>>,
}

/// The flag may be set by others, by a signal's handler for one.
impl From<Arc<AtomicBool>> for StopHandle {
    fn from(asked: Arc<AtomicBool>) -> Self {
        StopHandle {
            asked,
            ..StopHandle::default()
        }
    }
}

impl StopHandle {
    /// A stop is noticed within this.
    pub const SLICE: Duration = Duration::from_millis(50);

    /// Commits a last epoch and ends the run.
    pub fn stop(&self) {
        let _ = self.at.set(Instant::now());
        self.asked.store(true, Ordering::SeqCst);
    }
    /// Whether somebody asked.
    #[must_use]
    pub fn asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }
    /// Sleeps for so long, unless a stop is asked for: then it is false, within [`StopHandle::SLICE`].
    #[must_use]
    pub fn sleep_unless_asked(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        while !self.asked() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            std::thread::sleep(left.min(StopHandle::SLICE));
        }
        false
    }
    /// How long ago somebody did, by this clock; None when nobody has. For a flag that others set, it is when this was first called.
    #[must_use]
    pub fn asked_for(&self, clock: &dyn Clock) -> Option<Duration> {
        let now = clock.elapsed();
        let ago = || self.at.get().map_or(Duration::ZERO, Instant::elapsed);
        self.asked()
            .then(|| now.saturating_sub(*self.since.get_or_init(|| now.saturating_sub(ago()))))
    }
}
