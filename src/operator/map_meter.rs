//! Takes what the typed maps tell to the metrics.
use crate::state::{MapCounters, MapObserver};
use crate::telemetry::{MapFigures, MapMeter, Metrics};

struct Metered(MapMeter);

impl MapObserver for Metered {
    fn batch(&mut self, counters: MapCounters, bytes: usize, entries: usize) {
        self.0.batch(MapFigures {
            hits: counters.hits(),
            misses: counters.misses,
            evicted: counters.evicted,
            bytes: bytes as u64,
            entries: entries as u64,
        });
    }
}

/// The observer of one lane's map of a state.
pub(super) fn observer(metrics: &Metrics, operator: &str, state: &str) -> Box<dyn MapObserver> {
    Box::new(Metered(metrics.map(&format!("{operator}/{state}"))))
}
