//! Records, time and CPU time, as a job under measurement writes them and the benchmark reads them.
use crate::usage::{cpu_of_self, peak_rss_of_self};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How far a job was, and what it had used.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds since the job began.
    pub seconds: f64,
    /// Input records whose outputs are committed.
    pub committed: u64,
    /// CPU seconds of the process.
    pub cpu_seconds: f64,
    /// The most memory so far, in bytes.
    pub peak_rss: u64,
    /// At the end, of a job with epochs: what 999 of 1000 took at most to be durable, in milliseconds.
    #[serde(default)]
    pub write_p999_ms: Option<f64>,
    /// What it was doing.
    #[serde(default)]
    pub at: At,
    /// How many seconds its local state took to be restored at the start.
    #[serde(default)]
    pub restored_in: Option<f64>,
}

/// What a job does before records flow, and then.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum At {
    /// Brokers and store are looked for, and the former instance is ended.
    #[default]
    Starting,
    /// Local state is brought up to what is committed.
    Restoring,
    /// Records flow, or may.
    Processing,
}

/// Takes samples. One line of JSON each, on standard output.
pub struct Meter {
    began: Instant,
    last: Option<(u64, At)>,
    restored_in: Option<f64>,
}

impl Default for Meter {
    fn default() -> Meter {
        Meter {
            began: Instant::now(),
            last: None,
            restored_in: None,
        }
    }
}

impl Meter {
    /// From the next sample on.
    pub fn restored(&mut self, took: Option<Duration>) {
        self.restored_in = took.map(|took| took.as_secs_f64());
    }

    /// Writes a sample, when there is something new.
    pub fn tell(&mut self, committed: u64, at: At) {
        if self.last == Some((committed, at)) {
            return;
        }
        self.last = Some((committed, at));
        self.write(committed, at, None);
    }

    /// Writes the last sample.
    pub fn end(&self, committed: u64, write_p999_ms: Option<f64>) {
        self.write(committed, At::Processing, write_p999_ms);
    }

    fn write(&self, committed: u64, at: At, write_p999_ms: Option<f64>) {
        let sample = Sample {
            seconds: self.began.elapsed().as_secs_f64(),
            committed,
            cpu_seconds: cpu_of_self().as_secs_f64(),
            peak_rss: peak_rss_of_self(),
            write_p999_ms,
            at,
            restored_in: self.restored_in,
        };
        // Numbers always have a text.
        println!("{}", serde_json::to_string(&sample).unwrap_or_default());
    }
}

/// What lies between the samples that are counted.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Window {
    /// Records of it.
    pub records: u64,
    /// Records a second.
    pub rate: f64,
    /// CPU seconds a million records.
    pub cpu_per_million: f64,
    /// The most memory of the whole run, in MiB.
    pub peak_rss_mib: f64,
}

impl Window {
    /// From the first sample with at least `skip` records to the last one.
    #[must_use]
    pub fn of(samples: &[Sample], skip: u64) -> Option<Window> {
        let first = samples.iter().find(|sample| sample.committed >= skip)?;
        let last = samples.last()?;
        let records = last.committed.checked_sub(first.committed).filter(|n| *n > 0)?;
        Some(Window {
            records,
            rate: records as f64 / (last.seconds - first.seconds),
            cpu_per_million: (last.cpu_seconds - first.cpu_seconds) / (records as f64 / 1e6),
            peak_rss_mib: last.peak_rss as f64 / f64::from(1 << 20),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_leaves_the_first_records_out() {
        let sample = |seconds, committed, cpu_seconds| Sample {
            seconds,
            committed,
            cpu_seconds,
            peak_rss: 3 << 20,
            write_p999_ms: None,
            at: At::Processing,
            restored_in: None,
        };
        let samples = [
            sample(1.0, 0, 0.5),
            sample(2.0, 1_500_000, 1.0),
            sample(4.0, 2_000_000, 2.0),
            sample(8.0, 4_000_000, 7.0),
        ];
        let window = Window::of(&samples, 1_600_000).expect("a window");
        assert_eq!((window.records, window.rate), (2_000_000, 500_000.0));
        assert_eq!((window.cpu_per_million, window.peak_rss_mib), (2.5, 3.0));
        assert!(Window::of(&samples, 4_000_000).is_none());
    }
}
