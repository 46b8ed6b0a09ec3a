//! The registry with a vector of series for every metric, made from the table of names.
use super::name::{MetricKind, MetricName};
use prometheus::{Counter, CounterVec, Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, Opts, Registry};

/// Upper bounds of the buckets of times, in seconds: from a local fsync to a commit that hangs. Below a second each is about half as much again
/// as the one before, so that a p99.9 says something.
const SECONDS: [f64; 20] = [
    0.001, 0.0015, 0.0025, 0.004, 0.006, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.15, 0.25, 0.4, 0.6, 1.0, 2.5, 5.0,
    10.0, 30.0,
];

#[derive(Debug)]
enum Vector {
    Counter(CounterVec),
    Gauge(GaugeVec),
    Histogram(HistogramVec),
}

/// All series. Looking one up takes a lock and a hash, so whoever counts often keeps what it gets.
#[derive(Debug)]
pub(super) struct Families {
    registry: Registry,
    /// By [`MetricName`].
    vectors: Vec<Vector>,
}

impl Families {
    pub fn new() -> Result<Families, prometheus::Error> {
        let registry = Registry::new();
        let mut vectors = Vec::with_capacity(MetricName::ALL.len());
        for name in MetricName::ALL {
            let vector = vector(*name)?;
            registry.register(match &vector {
                Vector::Counter(counters) => Box::new(counters.clone()),
                Vector::Gauge(gauges) => Box::new(gauges.clone()),
                Vector::Histogram(histograms) => Box::new(histograms.clone()),
            })?;
            vectors.push(vector);
        }
        Ok(Families { registry, vectors })
    }

    /// # Panics
    /// When the metric is no counter, or has not these labels: a mistake in this module's callers, which its tests call.
    pub fn counter(&self, name: MetricName, labels: &[&str]) -> Counter {
        match &self.vectors[name as usize] {
            Vector::Counter(counters) => counters.with_label_values(labels),
            _ => unreachable!("invariant: {} is a counter", name.as_str()),
        }
    }

    /// # Panics
    /// As [`Families::counter`].
    pub fn gauge(&self, name: MetricName, labels: &[&str]) -> Gauge {
        match &self.vectors[name as usize] {
            Vector::Gauge(gauges) => gauges.with_label_values(labels),
            _ => unreachable!("invariant: {} is a gauge", name.as_str()),
        }
    }

    /// # Panics
    /// As [`Families::counter`].
    pub fn histogram(&self, name: MetricName, labels: &[&str]) -> Histogram {
        match &self.vectors[name as usize] {
            Vector::Histogram(histograms) => histograms.with_label_values(labels),
            _ => unreachable!("invariant: {} is a histogram", name.as_str()),
        }
    }

    /// Sets a gauge; None makes its series absent.
    pub fn set(&self, name: MetricName, labels: &[&str], value: Option<f64>) {
        match (value, &self.vectors[name as usize]) {
            (Some(value), _) => self.gauge(name, labels).set(value),
            // That it is absent already is no error.
            (None, Vector::Gauge(gauges)) => drop(gauges.remove_label_values(labels)),
            (None, _) => {}
        }
    }

    /// Makes all series of a gauge absent.
    pub fn forget(&self, name: MetricName) {
        if let Vector::Gauge(gauges) = &self.vectors[name as usize] {
            gauges.reset();
        }
    }

    /// The text format of Prometheus, version 0.0.4.
    pub fn text(&self) -> String {
        prometheus::TextEncoder::new()
            .encode_to_string(&self.registry.gather())
            .unwrap_or_default()
    }

    /// The sum of a counter over the series for which a label has this value.
    pub fn sum(&self, name: MetricName, value: &str) -> f64 {
        let families = self.registry.gather();
        let series = families.iter().filter(|f| f.name() == name.as_str());
        series
            .flat_map(|family| family.get_metric())
            .filter(|m| m.get_label().iter().any(|l| l.value() == value))
            .map(|m| m.get_counter().get_value())
            .sum()
    }
}

fn vector(name: MetricName) -> Result<Vector, prometheus::Error> {
    let (text, help, labels) = (name.as_str(), name.help(), name.labels());
    Ok(match name.kind() {
        MetricKind::Counter => Vector::Counter(CounterVec::new(Opts::new(text, help), labels)?),
        MetricKind::Gauge => Vector::Gauge(GaugeVec::new(Opts::new(text, help), labels)?),
        MetricKind::Histogram => {
            let options = HistogramOpts::new(text, help).buckets(SECONDS.to_vec());
            Vector::Histogram(HistogramVec::new(options, labels)?)
        }
    })
}
