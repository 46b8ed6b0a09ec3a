//! A peer's process.
use super::settings::{Peer, Program};
use super::watch::Outputs;
use crate::report::Report;
use crate::run::spawn;
use crate::scene::Scene;
use anyhow::{Context, Result, bail, ensure};
use keyfold_benches::{At, Sample, cpu_of, peak_rss_of};
use keyfold_e2e::guard::repo_root;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Without progress for so long, a program is taken for stuck. It is more than the longest session and transaction timeouts.
pub const STUCK: Duration = Duration::from_secs(180);

/// Gets the jars and compiles the programs, when that is yet to be done.
pub fn fetch() -> Result<()> {
    let script = repo_root().join("benches/peers/fetch.sh");
    let status = Command::new(&script).status()?;
    ensure!(status.success(), "{} has ended with {status}", script.display());
    Ok(())
}

/// Removes what a program has left, in Kafka and on disk.
pub fn forget(scene: &Scene, peer: &Peer, output: &str, dir: &Path) -> Result<()> {
    // State in memory leaves nothing.
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    if peer.program == Program::KafkaStreams {
        scene.forget(&format!("{output}-counts-changelog"))?;
    }
    scene.forget(output)
}

/// Runs until it is killed; dropping it kills it.
pub struct Running {
    child: Child,
    name: String,
    began: Instant,
}

impl Running {
    /// Starts it from one topic into another. `application` names its state in Kafka, `dir` is its state on disk.
    pub fn start(
        scene: &Scene,
        peer: &Peer,
        topics: (&str, &str),
        application: &str,
        dir: &Path,
        report: &mut Report,
    ) -> Result<Running> {
        let (folder, class) = match peer.program {
            Program::KafkaStreams => ("kafka-streams", "KafkaStreamsCounts"),
            Program::Flink => ("flink", "FlinkCounts"),
        };
        let jars = repo_root().join(".peers").join(folder);
        let mut command = Command::new("java");
        command
            .args(peer.jvm)
            .arg("-XX:+ExitOnOutOfMemoryError")
            // As Flink's own configuration has it.
            .args(["--add-opens=java.base/java.util=ALL-UNNAMED"])
            .args(["--add-opens=java.base/java.lang=ALL-UNNAMED"])
            .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
            .arg("-cp")
            .arg(format!("{0}/classes:{0}/lib/*", jars.display()))
            .args([class, &scene.broker.bootstrap(), topics.0, topics.1, application])
            .arg(dir)
            .args(peer.settings());
        let began = Instant::now();
        let mut child = spawn(scene, command)?;
        let out = child.stdout.take().context("no standard output")?;
        let running = Running {
            child,
            name: peer.name(),
            began,
        };
        let mut version = String::new();
        BufReader::new(out).read_line(&mut version)?;
        report.peer(
            &peer.name(),
            format!(
                "{}, {}, {}",
                version.trim(),
                peer.jvm.join(", "),
                peer.settings().join(", ")
            ),
        );
        Ok(running)
    }

    /// Fails when the process has ended.
    pub fn alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} has ended with {status}, see runs.log", self.name);
        }
        Ok(())
    }

    /// How far it is now.
    pub fn sample(&mut self, committed: u64) -> Result<Sample> {
        self.alive()?;
        let pid = self.child.id();
        Ok(Sample {
            seconds: self.began.elapsed().as_secs_f64(),
            committed,
            cpu_seconds: cpu_of(pid)?.as_secs_f64(),
            peak_rss: peak_rss_of(pid)?,
            write_p999_ms: None,
            at: At::Processing,
            restored_in: None,
        })
    }

    /// Looks at what is committed until it is so many outputs. A sample for each change.
    pub fn until(&mut self, outputs: &Outputs, records: u64) -> Result<Vec<Sample>> {
        let (mut samples, mut last, mut moved) = (Vec::new(), 0, Instant::now());
        while last < records {
            std::thread::sleep(Duration::from_millis(20));
            let committed = outputs.committed()?;
            let sample = self.sample(committed)?;
            if committed != last {
                (last, moved) = (committed, Instant::now());
                samples.push(sample);
            }
            ensure!(
                moved.elapsed() < STUCK,
                "{} has committed {last} of {records}, and nothing more in {STUCK:?}, see runs.log",
                self.name
            );
        }
        Ok(samples)
    }

    /// Waits until two more intervals have brought nothing.
    pub fn settle(&mut self, outputs: &Outputs, interval_ms: u64) -> Result<()> {
        let long = Duration::from_millis(2 * interval_ms + 1_000);
        let (mut last, mut moved) = (outputs.committed()?, Instant::now());
        while moved.elapsed() < long {
            std::thread::sleep(Duration::from_millis(50));
            self.alive()?;
            let committed = outputs.committed()?;
            if committed != last {
                (last, moved) = (committed, Instant::now());
            }
        }
        Ok(())
    }

    /// SIGKILL.
    pub fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is gone when this fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
