//! Metrics of the engine, for Prometheus. Names live in one enum; units are in the names; labels are bounded.
//!
//! Nothing here is called for every record: lanes and maps add up for themselves ([`LaneMeter`], [`MapMeter`]) and tell once a batch. What
//! is not known is absent, and never 0.
mod families;
mod lag;
mod lane;
mod map;
mod name;
mod process;
mod trouble;
mod upkeep;

pub use lag::PartitionEnd;
pub use lane::{Activity, LaneMeter, SourceMeter};
pub use map::{MapFigures, MapMeter};
pub use name::{MetricKind, MetricName};
pub use trouble::Trouble;

use families::Families;
use lag::Lags;
use parking_lot::Mutex;
use process::Process;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Parts of an epoch's time. Together they are all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpochPhase {
    /// From the barrier's order until every lane has it from all its inputs.
    Align,
    /// Dirty entries and outputs are handed over, on the slowest lane.
    Encode,
    /// The epoch object is made durable.
    Write,
    /// From begin to commit, with what had to be tried again.
    Publish,
    /// The changes go to the local copies.
    Apply,
    /// The outbox is delivered.
    Deliver,
}

impl EpochPhase {
    /// All of them, in order.
    pub const ALL: [EpochPhase; 6] = [
        EpochPhase::Align,
        EpochPhase::Encode,
        EpochPhase::Write,
        EpochPhase::Publish,
        EpochPhase::Apply,
        EpochPhase::Deliver,
    ];

    /// As a label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            EpochPhase::Align => "align",
            EpochPhase::Encode => "encode",
            EpochPhase::Write => "write",
            EpochPhase::Publish => "publish",
            EpochPhase::Apply => "apply",
            EpochPhase::Deliver => "deliver",
        }
    }
}

/// Parts of the memory budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryPart {
    /// Typed maps.
    Maps,
    /// Dirty entries in them, until the next barrier.
    Dirty,
    /// Changed in committed epochs and not taken by the local copies yet; of the maps.
    Waiting,
    /// Outputs of the epoch so far.
    Outputs,
    /// Changes and outputs of the epoch that is being committed.
    InFlight,
    /// Block cache and memtables.
    Backend,
    /// The producer's queue.
    Producer,
    /// What sources have read ahead.
    Prefetch,
}

impl MemoryPart {
    /// All of them.
    pub const ALL: [MemoryPart; 8] = [
        MemoryPart::Maps,
        MemoryPart::Dirty,
        MemoryPart::Waiting,
        MemoryPart::Outputs,
        MemoryPart::InFlight,
        MemoryPart::Backend,
        MemoryPart::Producer,
        MemoryPart::Prefetch,
    ];

    /// As a label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            MemoryPart::Maps => "maps",
            MemoryPart::Dirty => "dirty",
            MemoryPart::Waiting => "waiting",
            MemoryPart::Outputs => "outputs",
            MemoryPart::InFlight => "in_flight",
            MemoryPart::Backend => "backend",
            MemoryPart::Producer => "producer",
            MemoryPart::Prefetch => "prefetch",
        }
    }
}

/// Local copies on disk, all together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BackendSizes {
    /// Block cache, with the memtables that are charged to it.
    pub cache_bytes: u64,
    /// Memtables.
    pub memtables_bytes: u64,
    /// Table files.
    pub files_bytes: u64,
    /// What compaction has yet to rewrite.
    pub compaction_bytes: u64,
}

/// Steps that are tried again for as long as it takes: their counters are there from the start, so that the first retry is an increase.
const RETRIED: [&str; 16] = [
    "apply",
    "base",
    "chain",
    "deliver",
    "flush",
    "group",
    "hold",
    "pointers",
    "positions",
    "publish",
    "read",
    "reopen",
    "send",
    "session",
    "topic",
    "write",
];
/// What becomes of a base: named by a committed epoch, given up because it took too long, or failed.
const BASES: [&str; 3] = ["committed", "given_up", "failed"];
/// What becomes of a round of collection: it has swept, or has removed nothing because it could not see everything.
const COLLECTIONS: [&str; 2] = ["swept", "held"];
/// What a run begins again in place for.
const RESTARTED: [&str; 2] = ["damaged", "unwritable"];
/// What the run may be doing: labels of `runtime::Phase`.
pub(crate) const PHASES: [&str; 5] = ["starting", "spare", "restoring", "processing", "stopped"];

/// The engine's metrics of one runtime. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    families: Families,
    lags: Mutex<Lags>,
    sinks: Mutex<Vec<String>>,
    maps_bytes: Arc<AtomicU64>,
    /// Held while the text is made: what is put together for it must not be taken apart by another reader.
    process: Mutex<Process>,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics::new()
    }
}

impl Metrics {
    /// Metrics with a registry of their own.
    ///
    /// # Panics
    /// Never: names and labels are constants, and a test builds them.
    #[must_use]
    pub fn new() -> Metrics {
        let metrics = Metrics {
            inner: Arc::new(Inner {
                families: Families::new().expect("invariant: metric names are valid and unique"),
                lags: Mutex::default(),
                sinks: Mutex::default(),
                maps_bytes: Arc::default(),
                process: Mutex::default(),
            }),
        };
        metrics.begin();
        metrics
    }

    /// What is known from the start is there from the start.
    fn begin(&self) {
        let families = &self.inner.families;
        for name in MetricName::ALL.iter().filter(|n| n.labels().is_empty()) {
            if name.kind() == MetricKind::Counter {
                families.counter(*name, &[]);
            }
        }
        for step in RETRIED {
            families.counter(MetricName::Retries, &[step]);
        }
        for outcome in BASES {
            families.counter(MetricName::Bases, &[outcome]);
        }
        for outcome in COLLECTIONS {
            families.counter(MetricName::Collections, &[outcome]);
        }
        for reason in RESTARTED {
            families.counter(MetricName::Restarts, &[reason]);
        }
        for phase in EpochPhase::ALL {
            families.histogram(MetricName::EpochSeconds, &[phase.label()]);
        }
        families.set(MetricName::BuildInfo, &[env!("CARGO_PKG_VERSION")], Some(1.0));
        families.set(MetricName::Backoff, &[], Some(0.0));
        self.fetch_ended();
        self.phase(PHASES[0]);
    }

    fn count(&self, name: MetricName, labels: &[&str], by: f64) {
        self.inner.families.counter(name, labels).inc_by(by);
    }

    fn set(&self, name: MetricName, value: Option<f64>) {
        self.inner.families.set(name, &[], value);
    }

    /// All metrics as they are now, in Prometheus's text format.
    #[must_use]
    pub fn text(&self) -> String {
        let families = &self.inner.families;
        let mut process = self.inner.process.lock();
        process.show(families);
        self.inner.lags.lock().show(families);
        families.text()
    }

    /// What this process runs.
    pub fn stage(&self, pipeline: &str, stage: &str, mode: &str, guarantee: &str) {
        self.inner.families.forget(MetricName::StageInfo);
        let labels = [pipeline, stage, mode, guarantee];
        self.inner.families.set(MetricName::StageInfo, &labels, Some(1.0));
    }
    /// A step refused a record.
    pub fn bad_record(&self, reason: &str, step: &str) {
        self.count(MetricName::BadRecords, &[reason, step], 1.0);
    }
    /// A record that a step refused was written to a dead-letter sink.
    pub fn dead_letter(&self, reason: &str, step: &str) {
        self.count(MetricName::DeadLetters, &[reason, step], 1.0);
    }
    /// A source handed out a record again.
    pub fn rewound(&self) {
        self.count(MetricName::RecordsRewound, &[], 1.0);
    }
    /// A source could not be served.
    pub fn source_failed(&self, id: &str) {
        self.count(MetricName::SourceErrors, &[id], 1.0);
    }
    /// A phase of an epoch is over.
    pub fn epoch_phase(&self, phase: EpochPhase, took: Duration) {
        let histogram = self
            .inner
            .families
            .histogram(MetricName::EpochSeconds, &[phase.label()]);
        histogram.observe(took.as_secs_f64());
    }
    /// An epoch object of `bytes` became durable.
    pub fn written(&self, took: Duration, bytes: u64) {
        self.epoch_phase(EpochPhase::Write, took);
        self.count(MetricName::EpochBytes, &[], bytes as f64);
    }
    /// An epoch was committed, with so many records read and entries changed.
    pub fn published(&self, took: Duration, records: u64, changes: u64) {
        self.epoch_phase(EpochPhase::Publish, took);
        self.count(MetricName::Epochs, &[], 1.0);
        self.count(MetricName::RecordsCommitted, &[], records as f64);
        self.count(MetricName::EpochChanges, &[], changes as f64);
    }
    /// Offsets were committed at this time, in ms since 1970.
    pub fn committed_at(&self, now_ms: i64) {
        self.set(MetricName::LastCommit, Some(now_ms as f64 / 1000.0));
    }
    /// Entries were removed after their time to live.
    pub fn expired(&self, entries: u64) {
        self.count(MetricName::StateExpired, &[], entries as f64);
    }
    /// Entries removed so far, see [`MetricName::StateExpired`].
    #[must_use]
    pub fn state_expired(&self) -> u64 {
        self.value(MetricName::StateExpired, &[])
    }
    /// Something is tried again after `backoff`.
    pub fn retry(&self, step: &str, backoff: Duration) {
        self.count(MetricName::Retries, &[step], 1.0);
        self.set(MetricName::Backoff, Some(backoff.as_secs_f64()));
    }
    /// Nothing is being retried.
    pub fn recovered(&self) {
        self.set(MetricName::Backoff, Some(0.0));
    }
    /// The run begins again in place.
    pub fn restarted(&self, reason: &str) {
        self.count(MetricName::Restarts, &[reason], 1.0);
    }
    /// A session was opened anew.
    pub fn session_rebuilt(&self) {
        self.count(MetricName::SessionRebuilds, &[], 1.0);
    }
    /// An outcome had to be read back.
    pub fn in_doubt(&self) {
        self.count(MetricName::InDoubt, &[], 1.0);
    }
    /// What the run is doing, see [`MetricName::Phase`].
    pub fn phase(&self, phase: &str) {
        for other in PHASES {
            let is = if other == phase { 1.0 } else { 0.0 };
            self.inner.families.set(MetricName::Phase, &[other], Some(is));
        }
    }
    /// See [`MetricName::Stalled`].
    pub fn stalled(&self, stalled: bool) {
        self.set(MetricName::Stalled, Some(if stalled { 1.0 } else { 0.0 }));
    }
    /// See [`MetricName::ShardsOwned`] and [`MetricName::ShardsRestoring`].
    pub fn shards(&self, owned: usize, restoring: usize) {
        self.set(MetricName::ShardsOwned, Some(owned as f64));
        self.set(MetricName::ShardsRestoring, Some(restoring as f64));
    }
    /// An assignment was taken back, or lost.
    pub fn rebalanced(&self) {
        self.count(MetricName::Rebalances, &[], 1.0);
    }
    /// What the budget gives to a part, and what it takes; None for what is not known.
    pub fn memory(&self, part: MemoryPart, limit: Option<u64>, used: Option<u64>) {
        let families = &self.inner.families;
        families.set(MetricName::MemoryLimit, &[part.label()], limit.map(|b| b as f64));
        families.set(MetricName::MemoryUsed, &[part.label()], used.map(|b| b as f64));
    }
    /// The local copies' sizes; None while there are none on disk.
    pub fn backend(&self, sizes: Option<BackendSizes>) {
        let of = |field: fn(&BackendSizes) -> u64| sizes.as_ref().map(|s| field(s) as f64);
        self.set(MetricName::RocksCache, of(|s| s.cache_bytes));
        self.set(MetricName::RocksMemtables, of(|s| s.memtables_bytes));
        self.set(MetricName::RocksFiles, of(|s| s.files_bytes));
        self.set(MetricName::RocksCompaction, of(|s| s.compaction_bytes));
    }
    /// Writes to local copies were slowed down or stopped so many times more.
    pub fn stalls(&self, delays: u64, stops: u64) {
        self.count(MetricName::RocksStalls, &["delay"], delays as f64);
        self.count(MetricName::RocksStalls, &["stop"], stops as f64);
    }
    /// Records flow no more: what was known of the flow is not known now.
    pub fn flow_ended(&self) {
        self.forget_lags();
        self.backend(None);
        MemoryPart::ALL.iter().for_each(|part| self.memory(*part, None, None));
    }

    fn value(&self, name: MetricName, labels: &[&str]) -> u64 {
        self.inner.families.counter(name, labels).get() as u64
    }
    /// Assignments taken back or lost so far.
    #[must_use]
    pub fn rebalances(&self) -> u64 {
        self.value(MetricName::Rebalances, &[])
    }
    /// Whether nothing comes through, see [`MetricName::Stalled`].
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.inner.families.gauge(MetricName::Stalled, &[]).get() == 1.0
    }
    /// Sessions opened anew so far.
    #[must_use]
    pub fn session_rebuilds(&self) -> u64 {
        self.value(MetricName::SessionRebuilds, &[])
    }
    /// Outcomes read back so far.
    #[must_use]
    pub fn in_doubt_count(&self) -> u64 {
        self.value(MetricName::InDoubt, &[])
    }
    /// Retries of a step so far.
    #[must_use]
    pub fn retries(&self, step: &str) -> u64 {
        self.value(MetricName::Retries, &[step])
    }
    /// Refusals so far, by reason, over all steps.
    #[must_use]
    pub fn bad_records(&self, reason: &str) -> u64 {
        self.inner.families.sum(MetricName::BadRecords, reason) as u64
    }
}

#[cfg(test)]
mod tests;
