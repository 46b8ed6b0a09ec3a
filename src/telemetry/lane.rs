//! What a lane counts. Everything is added up in the lane and goes to the shared counters once a batch.
use super::Metrics;
use super::name::MetricName;
use prometheus::Counter;
use std::time::{Duration, Instant};

/// What a lane's time goes to. Together they are all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// Works on records or on a barrier.
    Busy,
    /// Has nothing to work on.
    Waiting,
    /// Back-pressure: has something, and what comes after it is full.
    Blocked,
}

impl Activity {
    /// All of them.
    pub const ALL: [Activity; 3] = [Activity::Busy, Activity::Waiting, Activity::Blocked];

    /// As a label.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Activity::Busy => "busy",
            Activity::Waiting => "waiting",
            Activity::Blocked => "blocked",
        }
    }
}

#[derive(Debug, Clone)]
struct Flow {
    records: Counter,
    bytes: Counter,
}

#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    records: u64,
    bytes: u64,
}

impl Flow {
    fn add(&self, pending: &mut Pending) {
        if pending.records > 0 {
            self.records.inc_by(pending.records as f64);
            self.bytes.inc_by(pending.bytes as f64);
            *pending = Pending::default();
        }
    }
}

/// What one source lane counts of its source.
#[derive(Debug)]
pub struct SourceMeter {
    flow: Flow,
    errors: Counter,
    pending: Pending,
}

impl SourceMeter {
    /// A record of `bytes`.
    pub fn record(&mut self, bytes: usize) {
        self.pending.records += 1;
        self.pending.bytes += bytes as u64;
    }
    /// The batch has ended.
    pub fn flush(&mut self) {
        self.flow.add(&mut self.pending);
    }
    /// The source could not be read.
    pub fn failed(&self) {
        self.errors.inc();
    }
}

/// One lane's meter: its time, its records, its outputs by sink.
#[derive(Debug)]
pub struct LaneMeter {
    seconds: [Counter; 3],
    records: Counter,
    sinks: Vec<(Flow, Pending)>,
    now: Activity,
    since: Instant,
    /// The part of the present activity that was spent blocked.
    blocked: Duration,
}

impl LaneMeter {
    /// From now on the lane does this. Reads the clock: once or twice a batch.
    pub fn enter(&mut self, activity: Activity) {
        let now = Instant::now();
        let blocked = std::mem::take(&mut self.blocked);
        let spent = now.saturating_duration_since(self.since).saturating_sub(blocked);
        self.seconds[self.now as usize].inc_by(spent.as_secs_f64());
        if !blocked.is_zero() {
            self.seconds[Activity::Blocked as usize].inc_by(blocked.as_secs_f64());
        }
        (self.now, self.since) = (activity, now);
    }

    /// So much of the present activity was waiting for room.
    pub fn blocked(&mut self, time: Duration) {
        self.blocked += time;
    }

    /// An output of `bytes`.
    pub fn output(&mut self, sink: u16, bytes: usize) {
        if let Some((_, pending)) = self.sinks.get_mut(usize::from(sink)) {
            pending.records += 1;
            pending.bytes += bytes as u64;
        }
    }

    /// A batch of `records` has ended.
    pub fn batch(&mut self, records: u64) {
        if records > 0 {
            self.records.inc_by(records as f64);
        }
        for (flow, pending) in &mut self.sinks {
            flow.add(pending);
        }
    }
}

impl Metrics {
    /// The meter of a source's lane.
    #[must_use]
    pub fn source(&self, id: &str) -> SourceMeter {
        let families = &self.inner.families;
        SourceMeter {
            flow: Flow {
                records: families.counter(MetricName::SourceRecords, &[id]),
                bytes: families.counter(MetricName::SourceBytes, &[id]),
            },
            errors: families.counter(MetricName::SourceErrors, &[id]),
            pending: Pending::default(),
        }
    }

    /// The topology's sinks, by index: what the lanes count outputs by.
    pub fn set_sinks(&self, ids: &[&str]) {
        // They are there from the start, at 0.
        ids.iter().for_each(|id| drop(self.sink(id)));
        *self.inner.sinks.lock() = ids.iter().map(|id| (*id).to_owned()).collect();
    }

    fn sink(&self, id: &str) -> Flow {
        let families = &self.inner.families;
        Flow {
            records: families.counter(MetricName::SinkRecords, &[id]),
            bytes: families.counter(MetricName::SinkBytes, &[id]),
        }
    }

    /// A lane's meter; the lane begins by waiting.
    #[must_use]
    pub fn lane(&self, name: &str) -> LaneMeter {
        let families = &self.inner.families;
        let seconds = |activity: Activity| families.counter(MetricName::LaneSeconds, &[name, activity.label()]);
        let sinks = self.inner.sinks.lock();
        LaneMeter {
            seconds: Activity::ALL.map(seconds),
            records: families.counter(MetricName::LaneRecords, &[name]),
            sinks: sinks.iter().map(|id| (self.sink(id), Pending::default())).collect(),
            now: Activity::Waiting,
            since: Instant::now(),
            blocked: Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lanes_activities_are_all_of_its_time() {
        let metrics = Metrics::new();
        let started = Instant::now();
        let mut meter = metrics.lane("totals-0");
        std::thread::sleep(Duration::from_millis(4));
        meter.enter(Activity::Busy);
        std::thread::sleep(Duration::from_millis(8));
        meter.blocked(Duration::from_millis(3));
        meter.enter(Activity::Waiting);
        let passed = started.elapsed().as_secs_f64();
        let of = |activity: Activity| metrics.inner.families.sum(MetricName::LaneSeconds, activity.label());
        assert_eq!(of(Activity::Blocked), 0.003);
        assert!(of(Activity::Waiting) >= 0.004 && of(Activity::Busy) >= 0.005);
        let sum: f64 = Activity::ALL.map(of).iter().sum();
        assert!(sum <= passed && sum > passed * 0.5, "{sum} of {passed}");
    }

    #[test]
    fn outputs_are_counted_by_sink_once_a_batch() {
        let metrics = Metrics::new();
        metrics.set_sinks(&["totals", "dead"]);
        let mut meter = metrics.lane("totals-0");
        meter.output(1, 10);
        meter.output(1, 5);
        meter.output(7, 5);
        assert!(metrics.text().contains("keyfold_sink_records_total{sink=\"dead\"} 0"));
        meter.batch(3);
        meter.batch(0);
        let text = metrics.text();
        assert!(text.contains("keyfold_sink_records_total{sink=\"dead\"} 2"), "{text}");
        assert!(text.contains("keyfold_sink_bytes_total{sink=\"dead\"} 15"), "{text}");
        assert!(text.contains("keyfold_sink_records_total{sink=\"totals\"} 0"), "{text}");
        assert!(
            text.contains("keyfold_lane_records_total{lane=\"totals-0\"} 3"),
            "{text}"
        );
    }
}
