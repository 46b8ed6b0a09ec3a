//! Bases, restores from them, and collection.
use super::{MetricName, Metrics};

impl Metrics {
    /// An epoch was written again before it was published (EP-9).
    pub fn rewritten(&self) {
        self.count(MetricName::Rewritten, &[], 1.0);
    }
    /// Epochs written again so far.
    #[must_use]
    pub fn rewritten_count(&self) -> u64 {
        self.value(MetricName::Rewritten, &[])
    }
    /// The longest chain behind a base, in epochs and in bytes; None while there are no shards.
    pub fn chains(&self, longest: Option<(u64, u64)>) {
        self.set(MetricName::ChainObjects, longest.map(|(objects, _)| objects as f64));
        self.set(MetricName::ChainBytes, longest.map(|(_, bytes)| bytes as f64));
    }
    /// A base is `committed`, `given_up` or `failed`.
    pub fn base(&self, outcome: &str) {
        self.count(MetricName::Bases, &[outcome], 1.0);
    }
    /// Bases with this outcome so far.
    #[must_use]
    pub fn bases(&self, outcome: &str) -> u64 {
        self.value(MetricName::Bases, &[outcome])
    }
    /// Bytes were written for a base.
    pub fn base_written(&self, bytes: u64) {
        self.count(MetricName::BaseBytes, &[], bytes as f64);
    }
    /// Bytes written for bases so far.
    #[must_use]
    pub fn base_bytes(&self) -> u64 {
        self.value(MetricName::BaseBytes, &[])
    }
    /// Bytes of a base were fetched; `left` are to come, in so many seconds if that is known.
    pub fn fetched(&self, bytes: u64, left: u64, left_s: Option<f64>) {
        self.count(MetricName::FetchedBytes, &[], bytes as f64);
        self.set(MetricName::RestoreLeft, Some(left as f64));
        self.set(MetricName::RestoreSeconds, left_s);
    }
    /// Bytes fetched so far.
    #[must_use]
    pub fn fetched_bytes(&self) -> u64 {
        self.value(MetricName::FetchedBytes, &[])
    }
    /// No restore is at work: nothing is left.
    pub fn fetch_ended(&self) {
        self.set(MetricName::RestoreLeft, Some(0.0));
        self.set(MetricName::RestoreSeconds, Some(0.0));
    }
    /// A round of collection has `swept`, or was `held`.
    pub fn collection(&self, outcome: &str) {
        self.count(MetricName::Collections, &[outcome], 1.0);
    }
    /// Rounds with this outcome so far.
    #[must_use]
    pub fn collections(&self, outcome: &str) -> u64 {
        self.value(MetricName::Collections, &[outcome])
    }
    /// An object was removed.
    pub fn collected(&self, bytes: u64) {
        self.count(MetricName::CollectedObjects, &[], 1.0);
        self.count(MetricName::CollectedBytes, &[], bytes as f64);
    }
    /// Objects removed so far.
    #[must_use]
    pub fn collected_objects(&self) -> u64 {
        self.value(MetricName::CollectedObjects, &[])
    }
}
