//! What a typed map counts: a state's maps on all lanes count together.
use super::Metrics;
use super::name::MetricName;
use prometheus::{Counter, Gauge};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A map as it is after a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MapFigures {
    /// Look-ups that needed no read, so far.
    pub hits: u64,
    /// Keys read from the local copy, so far.
    pub misses: u64,
    /// Entries evicted so far.
    pub evicted: u64,
    /// Memory of the entries.
    pub bytes: u64,
    /// Number of entries.
    pub entries: u64,
}

/// One map's meter. What the map holds is taken off when the meter is dropped.
#[derive(Debug)]
pub struct MapMeter {
    hits: Counter,
    misses: Counter,
    evicted: Counter,
    bytes: Gauge,
    entries: Gauge,
    /// Bytes of all maps.
    all_bytes: Arc<AtomicU64>,
    last: MapFigures,
}

impl MapMeter {
    /// The map's figures after a batch.
    pub fn batch(&mut self, now: MapFigures) {
        let last = std::mem::replace(&mut self.last, now);
        let grown = |counter: &Counter, now: u64, last: u64| {
            if now > last {
                counter.inc_by((now - last) as f64);
            }
        };
        grown(&self.hits, now.hits, last.hits);
        grown(&self.misses, now.misses, last.misses);
        grown(&self.evicted, now.evicted, last.evicted);
        if now.bytes != last.bytes {
            self.bytes.add(now.bytes as f64 - last.bytes as f64);
            self.all_bytes
                .fetch_add(now.bytes.wrapping_sub(last.bytes), Ordering::Relaxed);
        }
        if now.entries != last.entries {
            self.entries.add(now.entries as f64 - last.entries as f64);
        }
    }
}

impl Drop for MapMeter {
    fn drop(&mut self) {
        let gone = MapFigures {
            bytes: 0,
            entries: 0,
            ..self.last
        };
        self.batch(gone);
    }
}

impl Metrics {
    /// The meter of one lane's map of a state (`operator/state`).
    #[must_use]
    pub fn map(&self, state: &str) -> MapMeter {
        let families = &self.inner.families;
        MapMeter {
            hits: families.counter(MetricName::MapHits, &[state]),
            misses: families.counter(MetricName::MapMisses, &[state]),
            evicted: families.counter(MetricName::MapEvictions, &[state]),
            bytes: families.gauge(MetricName::MapBytes, &[state]),
            entries: families.gauge(MetricName::MapEntries, &[state]),
            all_bytes: self.inner.maps_bytes.clone(),
            last: MapFigures::default(),
        }
    }

    /// Memory that the entries of all typed maps take.
    #[must_use]
    pub fn maps_bytes(&self) -> u64 {
        self.inner.maps_bytes.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maps_of_a_state_count_together_and_what_is_dropped_counts_no_more() {
        let metrics = Metrics::new();
        let (mut first, mut second) = (metrics.map("totals/value"), metrics.map("totals/value"));
        let mut figures = MapFigures {
            hits: 5,
            misses: 2,
            evicted: 0,
            bytes: 100,
            entries: 2,
        };
        first.batch(figures);
        second.batch(figures);
        figures.bytes = 40;
        figures.hits = 6;
        second.batch(figures);
        assert_eq!(metrics.maps_bytes(), 140);
        drop(first);
        let text = metrics.text();
        assert!(
            text.contains("keyfold_map_hits_total{state=\"totals/value\"} 11"),
            "{text}"
        );
        assert!(
            text.contains("keyfold_map_misses_total{state=\"totals/value\"} 4"),
            "{text}"
        );
        assert!(text.contains("keyfold_map_bytes{state=\"totals/value\"} 40"), "{text}");
        assert!(text.contains("keyfold_map_entries{state=\"totals/value\"} 2"), "{text}");
        assert_eq!(metrics.maps_bytes(), 40);
    }
}
