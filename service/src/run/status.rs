//! One line that says how the run goes: on a terminal in place, elsewhere in the log now and then.
use crate::console::Console;
use crate::observe::Observed;
use keyfold::telemetry::{MetricName, Metrics};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the line changes, and how often the run is looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How often the log gets a line: often enough to see that the job lives, and some thousand lines a day.
const LOG_EVERY: Duration = Duration::from_secs(30);

/// Shows the line until it is dropped.
pub(super) struct Status {
    thread: Option<JoinHandle<()>>,
    /// Dropped before the thread is joined, which ends it.
    goes_on: Option<Sender<()>>,
}

impl Status {
    pub(super) fn start(console: &Console, observed: &Observed, job: &str, brokers: Option<String>) -> Status {
        let (goes_on, ended) = channel::<()>();
        let mut line = Line::new(console.clone(), observed.clone(), job, brokers);
        let watch = move || {
            while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                line.look();
            }
            line.console.status("");
        };
        // Without the thread there is no line; the job runs all the same.
        let thread = std::thread::Builder::new().name("status".to_owned()).spawn(watch).ok();
        Status {
            thread,
            goes_on: Some(goes_on),
        }
    }
}

impl Drop for Status {
    fn drop(&mut self) {
        self.goes_on = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Line {
    console: Console,
    observed: Observed,
    job: String,
    /// Those of a job that needs them, until it was told that they do not answer.
    brokers: Option<String>,
    /// When the line was last shown, and the records read by then.
    shown: (Instant, u64),
    logged: (Instant, u64),
    phase: &'static str,
}

impl Line {
    fn new(console: Console, observed: Observed, job: &str, brokers: Option<String>) -> Line {
        let began = Instant::now();
        Line {
            console,
            observed,
            job: job.to_owned(),
            brokers,
            shown: (began, 0),
            logged: (began, 0),
            phase: "",
        }
    }

    fn look(&mut self) {
        let report = self.observed.report();
        let now = Instant::now();
        if report.phase != self.phase {
            self.phase = report.phase;
            match report.phase {
                "stalled" => tracing::warn!(phase = report.phase, "{}", report.detail),
                _ => tracing::info!(phase = report.phase, "{}", report.detail),
            }
        }
        if report.phase == "starting"
            && self.observed.metrics().retries("topic") > 0
            && let Some(brokers) = self.brokers.take()
        {
            tracing::warn!(
                brokers,
                "the brokers do not answer; if the setting kafka.brokers (--kafka-brokers, KEYFOLD_KAFKA_BROKERS) is right, the job begins when they do"
            );
        }
        let (records, epochs) = (report.records_committed, report.epochs);
        if self.console.is_live() {
            let rate = thousands(rate(&mut self.shown, now, report.records_read));
            let (records, epochs) = (thousands(records), thousands(epochs));
            let lag = self
                .lag()
                .map(|lag| format!("  lag {}", thousands(lag)))
                .unwrap_or_default();
            let line = format!(
                "{}: {}  {rate} records/s{lag}  committed {records} in {epochs} epochs",
                self.job, report.detail
            );
            self.console.status(&line);
        } else if now.duration_since(self.logged.0) >= LOG_EVERY {
            let lag = self.lag();
            let records_per_second = rate(&mut self.logged, now, report.records_read);
            tracing::info!(
                phase = report.phase,
                records_per_second,
                records,
                epochs,
                lag,
                "progress"
            );
        }
    }
}

impl Line {
    fn lag(&self) -> Option<u64> {
        lag(self.observed.metrics())
    }
}

/// Records a second since the last look. The count may go back when a run begins again in place.
fn rate(last: &mut (Instant, u64), now: Instant, records: u64) -> u64 {
    let (then, before) = std::mem::replace(last, (now, records));
    let seconds = now.duration_since(then).as_secs_f64().max(0.001);
    (records.saturating_sub(before) as f64 / seconds) as u64
}

/// Records that can be read and are not, over all partitions; None when no source tells.
fn lag(metrics: &Metrics) -> Option<u64> {
    sum(&metrics.text(), MetricName::LagStable.as_str())
}

/// The values of a metric in Prometheus's text format, added up over its labels.
fn sum(text: &str, name: &str) -> Option<u64> {
    let value = |line: &str| {
        line.strip_prefix(name)?
            .strip_prefix('{')?
            .rsplit(' ')
            .next()?
            .parse::<f64>()
            .ok()
    };
    let values: Vec<f64> = text.lines().filter_map(value).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>().max(0.0) as u64)
}

/// `1,234,567`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_in_groups_and_rates_are_never_below_zero() {
        for (number, shown) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(number), shown);
        }
        let text = "# TYPE lag gauge\nlag{partition=\"0\",topic=\"a b\"} 12\nlag{partition=\"1\",topic=\"t\"} 3\nlag_end{x=\"1\"} 9\n";
        assert_eq!((sum(text, "lag"), sum(text, "other")), (Some(15), None));
        let began = Instant::now();
        let mut last = (began, 100);
        let later = began + Duration::from_secs(2);
        assert_eq!(rate(&mut last, later, 1100), 500);
        assert_eq!(rate(&mut last, later + Duration::from_secs(1), 600), 0);
    }
}
