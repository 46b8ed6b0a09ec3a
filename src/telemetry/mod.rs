//! Counters of the engine, for Prometheus. Names live in one enum; units are in the names; labels are bounded.
mod trouble;

pub use trouble::Trouble;

use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use std::sync::Arc;
use std::time::Duration;

/// Every metric of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricName {
    /// Records read from sources in committed epochs.
    RecordsCommitted,
    /// Records refused by a step, by reason and step.
    BadRecords,
    /// Records that a source handed out again below its position.
    RecordsRewound,
    /// Epochs committed.
    Epochs,
    /// Seconds from building an epoch object to its durability.
    EpochWrite,
    /// Seconds from begin to commit.
    EpochPublish,
    /// Seconds of applying an epoch to the local copies.
    EpochApply,
    /// Entries of state removed from the local copies after their time to live.
    StateExpired,
    /// Bytes of epoch objects.
    EpochBytes,
    /// Retries, by step (write, publish, session, deliver, send, apply, sweep, reopen).
    Retries,
    /// Sessions opened anew after the first.
    SessionRebuilds,
    /// Epochs whose outcome had to be read back.
    InDoubt,
    /// Current back-off in milliseconds; 0 when nothing is being retried.
    BackoffMs,
    /// 0 restoring, 1 spare, 2 processing.
    State,
    /// Group mode: 1 while nothing comes through and the group is not polled for that reason, so that others take over.
    Stalled,
    /// Group mode: shards that records flow for.
    ShardsOwned,
    /// Group mode: shards that are assigned and not restored yet, or whose pointer is undecided.
    ShardsRestoring,
    /// Group mode: assignments that were taken back, or lost.
    Rebalances,
}

impl MetricName {
    /// The name as Prometheus sees it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            MetricName::RecordsCommitted => "keyfold_records_committed_total",
            MetricName::BadRecords => "keyfold_bad_records_total",
            MetricName::RecordsRewound => "keyfold_records_rewound_total",
            MetricName::Epochs => "keyfold_epochs_committed_total",
            MetricName::EpochWrite => "keyfold_epoch_write_seconds",
            MetricName::EpochPublish => "keyfold_epoch_publish_seconds",
            MetricName::EpochApply => "keyfold_epoch_apply_seconds",
            MetricName::StateExpired => "keyfold_state_expired_total",
            MetricName::EpochBytes => "keyfold_epoch_bytes_total",
            MetricName::Retries => "keyfold_retries_total",
            MetricName::SessionRebuilds => "keyfold_session_rebuilds_total",
            MetricName::InDoubt => "keyfold_epochs_in_doubt_total",
            MetricName::BackoffMs => "keyfold_backoff_milliseconds",
            MetricName::State => "keyfold_state",
            MetricName::Stalled => "keyfold_stalled",
            MetricName::ShardsOwned => "keyfold_shards_owned",
            MetricName::ShardsRestoring => "keyfold_shards_restoring",
            MetricName::Rebalances => "keyfold_rebalances_total",
        }
    }
}

/// The engine's metrics of one runtime. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    registry: Registry,
    records_committed: IntCounter,
    bad_records: IntCounterVec,
    rewound: IntCounter,
    epochs: IntCounter,
    write: Histogram,
    publish: Histogram,
    apply: Histogram,
    expired: IntCounter,
    bytes: IntCounter,
    retries: IntCounterVec,
    rebuilds: IntCounter,
    in_doubt: IntCounter,
    backoff: IntGauge,
    state: IntGauge,
    stalled: IntGauge,
    owned: IntGauge,
    restoring: IntGauge,
    rebalances: IntCounter,
}

const SECONDS: [f64; 11] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0];

fn build() -> Result<Inner, prometheus::Error> {
    let registry = Registry::new();
    let add = |c: Box<dyn prometheus::core::Collector>| registry.register(c);
    let counter = |name: MetricName, help: &str| IntCounter::new(name.as_str(), help);
    let vector =
        |name: MetricName, help: &str, labels: &[&str]| IntCounterVec::new(Opts::new(name.as_str(), help), labels);
    let histogram = |name: MetricName, help: &str| {
        Histogram::with_opts(HistogramOpts::new(name.as_str(), help).buckets(SECONDS.to_vec()))
    };
    let gauge = |name: MetricName, help: &str| IntGauge::new(name.as_str(), help);
    let inner = Inner {
        records_committed: counter(MetricName::RecordsCommitted, "Records read in committed epochs")?,
        bad_records: vector(MetricName::BadRecords, "Records refused by a step", &["reason", "step"])?,
        rewound: counter(
            MetricName::RecordsRewound,
            "Records handed out again below the position, dropped",
        )?,
        epochs: counter(MetricName::Epochs, "Epochs committed")?,
        write: histogram(MetricName::EpochWrite, "Time to make an epoch object durable")?,
        publish: histogram(MetricName::EpochPublish, "Time from begin to commit")?,
        apply: histogram(MetricName::EpochApply, "Time to apply an epoch to the local copies")?,
        expired: counter(
            MetricName::StateExpired,
            "Entries of state removed after their time to live",
        )?,
        bytes: counter(MetricName::EpochBytes, "Bytes of epoch objects")?,
        retries: vector(MetricName::Retries, "Retries by step", &["step"])?,
        rebuilds: counter(MetricName::SessionRebuilds, "Producer sessions opened anew")?,
        in_doubt: counter(MetricName::InDoubt, "Epochs whose outcome was read back")?,
        backoff: gauge(MetricName::BackoffMs, "Current back-off, 0 when nothing is retried")?,
        state: gauge(MetricName::State, "0 restoring, 1 spare, 2 processing")?,
        stalled: gauge(
            MetricName::Stalled,
            "1 while nothing comes through, so that others take over",
        )?,
        owned: gauge(MetricName::ShardsOwned, "Shards that records flow for")?,
        restoring: gauge(MetricName::ShardsRestoring, "Assigned shards that are not restored yet")?,
        rebalances: counter(MetricName::Rebalances, "Assignments taken back or lost")?,
        registry: registry.clone(),
    };
    add(Box::new(inner.records_committed.clone()))?;
    add(Box::new(inner.bad_records.clone()))?;
    add(Box::new(inner.rewound.clone()))?;
    add(Box::new(inner.epochs.clone()))?;
    add(Box::new(inner.write.clone()))?;
    add(Box::new(inner.publish.clone()))?;
    add(Box::new(inner.apply.clone()))?;
    add(Box::new(inner.expired.clone()))?;
    add(Box::new(inner.bytes.clone()))?;
    add(Box::new(inner.retries.clone()))?;
    add(Box::new(inner.rebuilds.clone()))?;
    add(Box::new(inner.in_doubt.clone()))?;
    add(Box::new(inner.backoff.clone()))?;
    add(Box::new(inner.state.clone()))?;
    add(Box::new(inner.stalled.clone()))?;
    add(Box::new(inner.owned.clone()))?;
    add(Box::new(inner.restoring.clone()))?;
    add(Box::new(inner.rebalances.clone()))?;
    Ok(inner)
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
        Metrics {
            inner: Arc::new(build().expect("invariant: metric names are valid and unique")),
        }
    }

    /// For scraping.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.inner.registry
    }
    /// The text format.
    #[must_use]
    pub fn text(&self) -> String {
        prometheus::TextEncoder::new()
            .encode_to_string(&self.inner.registry.gather())
            .unwrap_or_default()
    }
    /// A step refused a record.
    pub fn bad_record(&self, reason: &str, step: &str) {
        self.inner.bad_records.with_label_values(&[reason, step]).inc();
    }
    /// A source handed out a record again.
    pub fn rewound(&self) {
        self.inner.rewound.inc();
    }
    /// An epoch object of `bytes` became durable.
    pub fn written(&self, took: Duration, bytes: u64) {
        self.inner.write.observe(took.as_secs_f64());
        self.inner.bytes.inc_by(bytes);
    }
    /// An epoch was committed.
    pub fn published(&self, took: Duration, records: u64) {
        self.inner.publish.observe(took.as_secs_f64());
        self.inner.epochs.inc();
        self.inner.records_committed.inc_by(records);
    }
    /// An epoch was applied.
    pub fn applied(&self, took: Duration) {
        self.inner.apply.observe(took.as_secs_f64());
    }
    /// Entries were removed after their time to live.
    pub fn expired(&self, entries: u64) {
        self.inner.expired.inc_by(entries);
    }
    /// Entries removed so far, see [`MetricName::StateExpired`].
    #[must_use]
    pub fn state_expired(&self) -> u64 {
        self.inner.expired.get()
    }
    /// Something is tried again after `backoff`.
    pub fn retry(&self, step: &str, backoff: Duration) {
        self.inner.retries.with_label_values(&[step]).inc();
        self.inner.backoff.set(backoff.as_millis() as i64);
    }
    /// Nothing is being retried.
    pub fn recovered(&self) {
        self.inner.backoff.set(0);
    }
    /// A session was opened anew.
    pub fn session_rebuilt(&self) {
        self.inner.rebuilds.inc();
    }
    /// An outcome had to be read back.
    pub fn in_doubt(&self) {
        self.inner.in_doubt.inc();
    }
    /// See [`MetricName::State`].
    pub fn state(&self, state: i64) {
        self.inner.state.set(state);
    }
    /// See [`MetricName::Stalled`].
    pub fn stalled(&self, stalled: bool) {
        self.inner.stalled.set(i64::from(stalled));
    }
    /// See [`MetricName::ShardsOwned`] and [`MetricName::ShardsRestoring`].
    pub fn shards(&self, owned: usize, restoring: usize) {
        self.inner.owned.set(owned as i64);
        self.inner.restoring.set(restoring as i64);
    }
    /// An assignment was taken back, or lost.
    pub fn rebalanced(&self) {
        self.inner.rebalances.inc();
    }
    /// Assignments taken back or lost so far.
    #[must_use]
    pub fn rebalances(&self) -> u64 {
        self.inner.rebalances.get()
    }
    /// Whether nothing comes through, see [`MetricName::Stalled`].
    #[must_use]
    pub fn is_stalled(&self) -> bool {
        self.inner.stalled.get() == 1
    }
    /// Sessions opened anew so far.
    #[must_use]
    pub fn session_rebuilds(&self) -> u64 {
        self.inner.rebuilds.get()
    }
    /// Outcomes read back so far.
    #[must_use]
    pub fn in_doubt_count(&self) -> u64 {
        self.inner.in_doubt.get()
    }
    /// Retries of a step so far.
    #[must_use]
    pub fn retries(&self, step: &str) -> u64 {
        self.inner.retries.with_label_values(&[step]).get()
    }
    /// Refusals so far, by reason, over all steps.
    #[must_use]
    pub fn bad_records(&self, reason: &str) -> u64 {
        let families = self.inner.registry.gather();
        let family = families.iter().find(|f| f.name() == MetricName::BadRecords.as_str());
        let metrics = family.map(|f| f.get_metric()).unwrap_or_default();
        let of_reason = |m: &&prometheus::proto::Metric| m.get_label().iter().any(|l| l.value() == reason);
        metrics
            .iter()
            .filter(of_reason)
            .map(|m| m.get_counter().get_value() as u64)
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_can_be_built_and_scraped() {
        let metrics = Metrics::new();
        metrics.bad_record("decode", "orders");
        metrics.bad_record("decode", "totals");
        assert_eq!(metrics.bad_records("decode"), 2);
        assert!(
            metrics
                .text()
                .contains("keyfold_bad_records_total{reason=\"decode\",step=\"orders\"} 1")
        );
    }
}
