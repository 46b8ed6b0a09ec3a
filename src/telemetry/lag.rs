//! How far the committed positions are behind: put together when it is asked for, from what commits and sources have told.
use super::Metrics;
use super::families::Families;
use super::name::MetricName;
use crate::types::Position;
use std::collections::BTreeMap;

/// Where a partition ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PartitionEnd {
    /// The partition.
    pub partition: i32,
    /// The last stable offset: what lies before it can be read.
    pub stable: Option<i64>,
    /// The end of the log.
    pub end: Option<i64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    position: i64,
    end: PartitionEnd,
}

/// By partition.
#[derive(Debug, Default)]
pub(super) struct Lags {
    known: BTreeMap<(String, i32), Known>,
}

impl Lags {
    fn position(&mut self, at: &Position) {
        let known = self.known.entry((at.topic.clone(), at.partition)).or_default();
        known.position = at.offset;
    }

    /// Only of partitions that something is committed for: a source may tell of others.
    fn end(&mut self, topic: &str, end: PartitionEnd) {
        if let Some(known) = self.known.get_mut(&(topic.to_owned(), end.partition)) {
            known.end = end;
        }
    }

    /// Sets the gauges: what is not known both ways is absent.
    pub fn show(&self, families: &Families) {
        families.forget(MetricName::LagStable);
        families.forget(MetricName::LagEnd);
        for ((topic, partition), known) in &self.known {
            let partition = partition.to_string();
            // A commit may be newer than the look at the ends.
            let lag = |end: Option<i64>| Some((end? - known.position).max(0) as f64);
            for (name, end) in [
                (MetricName::LagStable, known.end.stable),
                (MetricName::LagEnd, known.end.end),
            ] {
                if let Some(lag) = lag(end) {
                    families.gauge(name, &[topic, &partition]).set(lag);
                }
            }
        }
    }
}

impl Metrics {
    /// These positions are committed.
    pub fn positions<'a>(&self, positions: impl Iterator<Item = &'a Position>) {
        let mut lags = self.inner.lags.lock();
        positions.for_each(|position| lags.position(position));
    }

    /// A source has looked where its partitions end.
    pub fn ends(&self, topic: &str, ends: impl IntoIterator<Item = PartitionEnd>) {
        let mut lags = self.inner.lags.lock();
        for end in ends {
            lags.end(topic, end);
        }
    }

    /// The partitions are not this instance's any more, or not for the moment.
    pub fn forget_lags(&self) {
        self.inner.lags.lock().known.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lag_is_known_when_position_and_end_are() {
        let metrics = Metrics::new();
        let at = |partition, offset| Position {
            topic: "in".to_owned(),
            partition,
            offset,
            leader_epoch: -1,
        };
        metrics.positions([at(0, 7), at(1, 9)].iter());
        assert!(!metrics.text().contains("keyfold_lag"));
        let end = |partition, stable, end| PartitionEnd { partition, stable, end };
        metrics.ends(
            "in",
            [
                end(0, Some(10), Some(12)),
                end(1, Some(8), None),
                end(2, Some(5), Some(5)),
            ],
        );
        let text = metrics.text();
        let stable = |p, lag| format!("keyfold_lag_stable_offsets{{partition=\"{p}\",topic=\"in\"}} {lag}\n");
        assert!(text.contains(&stable(0, 3)) && text.contains(&stable(1, 0)), "{text}");
        assert!(
            text.contains("keyfold_lag_end_offsets{partition=\"0\",topic=\"in\"} 5\n"),
            "{text}"
        );
        assert_eq!(text.matches("keyfold_lag_end_offsets{").count(), 1, "{text}");
        metrics.forget_lags();
        assert!(!metrics.text().contains("keyfold_lag"));
    }
}
