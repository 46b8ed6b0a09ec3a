//! One run of a measured process.
use crate::scene::{PARTITIONS, Scene};
use anyhow::{Context, Result, ensure};
use keyfold_benches::{Sample, Window};
use keyfold_e2e::guard::{die_with_parent, sibling};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// What a run of a topic to its end has shown.
#[derive(Debug, Clone, Serialize)]
pub struct Run {
    pub name: String,
    pub window: Window,
    /// What 999 of 1000 epochs took at most to be durable, in milliseconds.
    pub write_p999_ms: Option<f64>,
    /// The broker's CPU seconds a million records, of the whole run.
    pub broker_cpu_per_million: f64,
}

/// How Keyfold is run.
#[derive(Debug, Clone, Copy)]
pub struct Mode {
    pub epoch_ms: u64,
    /// Of the output topic.
    pub partitions: i32,
    /// In group mode, where each partition is a shard.
    pub group: bool,
}

impl Mode {
    pub const USUAL: Mode = Mode {
        epoch_ms: 1_000,
        partitions: PARTITIONS,
        group: false,
    };
}

/// The baseline over a whole topic.
pub fn baseline(scene: &mut Scene, input: &str, records: u64) -> Result<Run> {
    let output = scene.topic("output")?;
    let mut command = Command::new(sibling("bench-baseline")?);
    command
        .arg(scene.broker.bootstrap())
        .args([input, &output, &records.to_string(), "1000"]);
    let run = to_the_end(scene, "baseline", command, (records, scene.args.skip))?;
    scene.forget(&output)?;
    Ok(run)
}

/// The prototype over a whole topic.
pub fn prototype(scene: &mut Scene, input: &str, records: u64, state: &str) -> Result<Run> {
    let output = scene.topic("output")?;
    let dir = scene.dir.join(&output);
    let mut command = Command::new(sibling("bench-prototype")?);
    command.arg(state).arg(&dir).arg(scene.broker.bootstrap());
    command.args([input, &output, &records.to_string(), "1000"]);
    let run = to_the_end(
        scene,
        &format!("prototype: {state}"),
        command,
        (records, scene.args.skip),
    )?;
    fs::remove_dir_all(dir)?;
    scene.forget(&output)?;
    Ok(run)
}

/// Keyfold over a whole topic, from nothing.
pub fn keyfold(scene: &mut Scene, input: &str, records: u64, mode: Mode) -> Result<Run> {
    let output = scene.topic_of("output", mode.partitions)?;
    let run = keyfold_into(scene, input, &output, records, mode)?;
    scene.forget(&output)?;
    Ok(run)
}

/// Into a topic that stays.
pub fn keyfold_into(scene: &Scene, input: &str, output: &str, records: u64, mode: Mode) -> Result<Run> {
    let mut command = counts(scene, input, output, output, mode)?;
    command.args(["--records", &records.to_string()]);
    let run = to_the_end(scene, "Keyfold", command, (records, scene.args.skip))?;
    fs::remove_dir_all(scene.dir.join(output))?;
    Ok(run)
}

/// Keyfold without Kafka, with states of so many bytes a key.
pub fn large(scene: &Scene, state_bytes: u64, keys: u64, records: u64) -> Result<Run> {
    let dir = scene.dir.join("large");
    let mut command = Command::new(sibling("bench-large")?);
    command.arg("--dir").arg(&dir);
    let numbers = [
        ("--state-bytes", state_bytes),
        ("--keys", keys),
        ("--records", records),
        ("--memory-mib", scene.args.memory_mib as u64),
    ];
    for (flag, number) in numbers {
        command.arg(flag).arg(number.to_string());
    }
    let run = to_the_end(scene, "large states", command, (records, 0))?;
    fs::remove_dir_all(dir)?;
    Ok(run)
}

/// The job, with its state and store in a directory of the scene.
pub fn counts(scene: &Scene, input: &str, output: &str, dir: &str, mode: Mode) -> Result<Command> {
    let mut command = Command::new(sibling("bench-counts")?);
    command
        .args([
            "--job",
            dir,
            "--brokers",
            &scene.broker.bootstrap(),
            "--input",
            input,
            "--output",
            output,
        ])
        .arg("--dir")
        .arg(scene.dir.join(dir))
        .args(["--epoch-ms", &mode.epoch_ms.to_string()])
        .args(["--memory-mib", &scene.args.memory_mib.to_string()]);
    if mode.group {
        command.arg("--group");
    }
    Ok(command)
}

/// Starts it, its samples on standard output.
pub fn start(scene: &Scene, command: Command) -> Result<(Child, impl Iterator<Item = Sample> + use<>)> {
    let mut child = spawn(scene, command)?;
    let out = child.stdout.take().context("no standard output")?;
    let samples = BufReader::new(out)
        .lines()
        .map_while(Result::ok)
        .filter_map(|line| serde_json::from_str(&line).ok());
    Ok((child, samples))
}

/// Starts it, its standard output for us, the rest in the log.
pub fn spawn(scene: &Scene, mut command: Command) -> Result<Child> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(scene.dir.join("runs.log"))?;
    command.stdout(Stdio::piped()).stderr(log).stdin(Stdio::null());
    die_with_parent(&mut command);
    command.spawn().with_context(|| format!("starting {command:?}"))
}

fn to_the_end(scene: &Scene, name: &str, command: Command, (records, skip): (u64, u64)) -> Result<Run> {
    let before = scene.broker_cpu()?;
    let (mut child, samples) = start(scene, command)?;
    let samples: Vec<Sample> = samples.collect();
    let status = child.wait()?;
    let log = scene.dir.join("runs.log");
    ensure!(
        status.success(),
        "{name} has ended with {status}, see {}",
        log.display()
    );
    let last = samples.last().context("no samples")?;
    ensure!(
        last.committed == records,
        "{name} committed {} of {records}",
        last.committed
    );
    let broker = scene.broker_cpu()?.saturating_sub(before);
    let run = Run {
        name: name.to_owned(),
        window: Window::of(&samples, skip).context("too few samples for a window")?,
        write_p999_ms: last.write_p999_ms,
        broker_cpu_per_million: broker.as_secs_f64() / (records as f64 / 1e6),
    };
    eprintln!("bench: {}", line(&run));
    Ok(run)
}

/// One line about a run.
pub fn line(run: &Run) -> String {
    format!(
        "{:<42} {:>9.0} records/s {:>6.2} CPU-s/million {:>6.0} MiB peak (broker {:.2} CPU-s/million){}",
        run.name,
        run.window.rate,
        run.window.cpu_per_million,
        run.window.peak_rss_mib,
        run.broker_cpu_per_million,
        run.write_p999_ms
            .map_or_else(String::new, |ms| format!(", epochs durable within {ms:.1} ms (p99.9)"))
    )
}
