//! The program `keyfold run` with one of the pipelines, watched from outside.
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::PATIENCE;
use super::record::Format;
use crate::broker::free_port;
use crate::guard::{die_with_parent, repo_root, signal};
use crate::http;

/// What `/metrics` answered.
#[derive(Debug, Default, Clone)]
pub struct Metrics(String);

impl Metrics {
    /// The series of a metric: the text of their labels, and the value.
    pub fn series<'m>(&'m self, name: &'m str) -> impl Iterator<Item = (&'m str, u64)> {
        self.0.lines().filter_map(move |line| {
            let rest = line.strip_prefix(name)?;
            let (labels, value) = rest.rsplit_once(' ')?;
            let labels = match labels {
                "" => "",
                _ => labels.strip_prefix('{')?.strip_suffix('}')?,
            };
            Some((labels, value.parse::<f64>().ok()? as u64))
        })
    }

    /// Their sum.
    #[must_use]
    pub fn total(&self, name: &str) -> u64 {
        self.series(name).map(|(_, value)| value).sum()
    }
}

/// A running service. Killed when dropped.
#[derive(Debug)]
pub struct Service {
    child: Child,
    log: PathBuf,
    address: String,
    peak_rss: u64,
}

impl Service {
    /// Starts it, with its directories and its log below `dir`.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(program: &Path, brokers: &str, format: Format, memory_mib: u64, dir: &Path) -> Result<Service> {
        let dir = dir.join(format.name());
        fs::create_dir_all(&dir)?;
        let address = format!("127.0.0.1:{}", free_port()?);
        let log = dir.join("log");
        let mut command = Command::new(program);
        command
            .arg("run")
            .arg(repo_root().join(format!("tests/e2e/soak/{}.yaml", format.name())))
            .env("KEYFOLD_KAFKA_BROKERS", brokers)
            .env("KEYFOLD_STATE_DIR", dir.join("state"))
            .env("KEYFOLD_CHECKPOINT_DIR", dir.join("checkpoints"))
            .env("KEYFOLD_HTTP_LISTEN", &address)
            .env("KEYFOLD_MEMORY", format!("{memory_mib}MiB"))
            .current_dir(&dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?);
        die_with_parent(&mut command);
        let child = command
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        Ok(Service {
            child,
            log,
            address,
            peak_rss: 0,
        })
    }

    /// Looks at its memory, and whether it is still there.
    ///
    /// # Errors
    /// When it has ended.
    pub fn look(&mut self) -> Result<()> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|rest| rest.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
        self.peak_rss = self.peak_rss.max(kib.unwrap_or(0) * 1024);
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!(
                "the service has ended: {status}; its last lines:\n{}",
                self.last_lines()
            ),
        }
    }

    /// Its metrics; none while it does not answer.
    #[must_use]
    pub fn metrics(&self) -> Option<Metrics> {
        let (status, body) = http::get(&self.address, "/metrics")?;
        (status == 200).then_some(Metrics(body))
    }

    /// The most memory that it has had in RAM, in bytes.
    #[must_use]
    pub fn peak_rss(&self) -> u64 {
        self.peak_rss
    }

    /// SIGTERM, and waits until it has ended well, without a panic in its log.
    ///
    /// # Errors
    /// When it does not.
    pub fn stop(&mut self) -> Result<()> {
        signal(self.child.id(), libc::SIGTERM).context("stopping the service")?;
        let begin = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(
                begin.elapsed() < PATIENCE,
                "the service does not stop:\n{}",
                self.last_lines()
            );
            // Fails when it has ended meanwhile, which the next round sees.
            let _ = self.look();
            std::thread::sleep(Duration::from_millis(20));
        }
        let status = self.child.wait()?;
        ensure!(
            status.success(),
            "the service ended with {status}:\n{}",
            self.last_lines()
        );
        let log = fs::read_to_string(&self.log)?;
        let panic = log.lines().find(|line| line.contains("panicked"));
        ensure!(panic.is_none(), "the service has panicked: {panic:?}");
        Ok(())
    }

    fn last_lines(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It has ended already, but for a soak that fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_told_apart_from_those_whose_name_goes_on() {
        let text = "# TYPE a counter\na{step=\"x\"} 2\na{step=\"y\"} 40\na_total 7\nab 3\na 1e3\n";
        let metrics = Metrics(text.to_owned());
        assert_eq!(
            metrics.series("a").collect::<Vec<_>>(),
            [("step=\"x\"", 2), ("step=\"y\"", 40), ("", 1000)]
        );
        assert_eq!((metrics.total("a_total"), metrics.total("b")), (7, 0));
    }
}
