//! The process itself, read from `/proc` when it is asked for. Names are those of Prometheus's own client libraries.
use super::families::Families;
use super::name::MetricName;
use std::fs::{read_dir, read_to_string};

/// Ticks of a second in `/proc`, a constant of the kernel's interface on x86-64 (`USER_HZ`).
const TICKS: f64 = 100.0;

/// What the counters stand at: they can only be added to.
#[derive(Debug, Default)]
pub(super) struct Process {
    cpu: f64,
}

/// The fields of `/proc/self/stat` that are shown. The name of the program comes before them and may hold spaces.
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    threads: f64,
    /// Since the machine was started.
    started_seconds: f64,
    virtual_bytes: f64,
}

impl Stat {
    fn parse(text: &str) -> Option<Stat> {
        let (_, rest) = text.rsplit_once(')')?;
        // The first of them is field 3 of proc(5).
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Stat {
            cpu_seconds: (field(14)? + field(15)?) / TICKS,
            threads: field(20)?,
            started_seconds: field(22)? / TICKS,
            virtual_bytes: field(23)?,
        })
    }
}

/// The value of `name: 123 kB` in bytes.
fn of_status(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: f64 = line.trim_start_matches(':').split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024.0)
}

/// The soft limit of a line of `/proc/self/limits`; None when there is none.
fn of_limits(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// When the machine was started, in seconds since 1970.
fn machine_started() -> Option<f64> {
    let text = read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

fn open_files() -> Option<f64> {
    // One of them is the directory that is being read.
    Some(read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}

impl Process {
    /// Sets the process's metrics; what cannot be read is absent.
    pub fn show(&mut self, families: &Families) {
        let stat = read_to_string("/proc/self/stat").ok();
        let stat = stat.and_then(|text| Stat::parse(&text));
        if let Some(stat) = &stat
            && stat.cpu_seconds > self.cpu
        {
            let counter = families.counter(MetricName::ProcessCpu, &[]);
            counter.inc_by(stat.cpu_seconds - self.cpu);
            self.cpu = stat.cpu_seconds;
        }
        let of_stat = |field: fn(&Stat) -> f64| stat.as_ref().map(field);
        let status = read_to_string("/proc/self/status").unwrap_or_default();
        let limits = read_to_string("/proc/self/limits").unwrap_or_default();
        let started = of_stat(|s| s.started_seconds).zip(machine_started());
        for (name, value) in [
            (MetricName::ProcessThreads, of_stat(|s| s.threads)),
            (MetricName::ProcessVirtual, of_stat(|s| s.virtual_bytes)),
            (MetricName::ProcessStart, started.map(|(after, boot)| boot + after)),
            (MetricName::ProcessResident, of_status(&status, "VmRSS")),
            (MetricName::ProcessOpenFds, open_files()),
            (MetricName::ProcessMaxFds, of_limits(&limits, "Max open files")),
        ] {
            families.set(name, &[], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_name_with_spaces_and_brackets_is_skipped() {
        let text = "7 (a) b) R 1 7 7 0 -1 4194304 90 0 0 0 150 50 0 0 20 0 3 0 1234 8192 5 1844 1";
        let stat = Stat {
            cpu_seconds: 2.0,
            threads: 3.0,
            started_seconds: 12.34,
            virtual_bytes: 8192.0,
        };
        assert_eq!(Stat::parse(text), Some(stat));
        assert_eq!(Stat::parse("7 (short) R 1"), None);
    }

    #[test]
    fn limits_and_status_are_read_by_name() {
        let limits =
            "Limit  Soft  Hard  Units\nMax open files            1024      4096   files\nMax cpu time unlimited x\n";
        assert_eq!(of_limits(limits, "Max open files"), Some(1024.0));
        assert_eq!(of_limits(limits, "Max cpu time"), None);
        assert_eq!(of_status("VmHWM:\t 9 kB\nVmRSS:\t 2 kB\n", "VmRSS"), Some(2048.0));
    }

    /// It has run for a moment, and started after 2020 and before now.
    #[test]
    fn this_process_is_described() {
        let families = Families::new().expect("valid");
        let mut process = Process::default();
        let until = std::time::Instant::now() + std::time::Duration::from_millis(30);
        while std::time::Instant::now() < until {}
        process.show(&families);
        let resident = families.gauge(MetricName::ProcessResident, &[]).get();
        assert!(resident > 1e6, "{resident}");
        assert!(families.gauge(MetricName::ProcessOpenFds, &[]).get() >= 3.0);
        assert!(families.counter(MetricName::ProcessCpu, &[]).get() > 0.0);
        let start = families.gauge(MetricName::ProcessStart, &[]).get();
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        assert!(
            start > 1.6e9 && start <= now.expect("after 1970").as_secs_f64() + 1.0,
            "{start}"
        );
    }
}
