//! From SIGKILL to the first committed output, on the same disk.
use crate::load::Input;
use crate::report::Report;
use crate::run::{Mode, counts, start};
use crate::scene::Scene;
use anyhow::{Context, Result};
use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

/// Of the default number of records.
const KEYS: u64 = 5_000_000;
/// With so many times the keys a restart may take half as long again.
const MORE_KEYS: u64 = 10;
/// Records that follow them: with fewer nothing might be left to be read after the kill.
const BEHIND: u64 = KEYS / 5 * 4;
/// A commit has been seen; the kill comes in the middle of the next epoch, with a transaction open.
pub const INTO_AN_EPOCH: Duration = Duration::from_millis(500);

/// What the process that comes after finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// All of it.
    Same,
    /// What is safe elsewhere; the local state is gone.
    Wiped,
}

impl fmt::Display for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Disk::Same => "same disk",
            Disk::Wiped => "local state wiped",
        })
    }
}

/// Every key is in the state; the process is killed in the middle of an epoch and started again.
pub fn restart(scene: &mut Scene, report: &mut Report) -> Result<()> {
    let mut most = 3.0;
    for times in [1, MORE_KEYS] {
        let (input, keys) = fill(scene, times)?;
        let took = keyfold(scene, &input, keys, Disk::Same)?;
        eprintln!("bench: restart with {keys} keys: {took:.2} s");
        report.ratio(&format!("restart_s.{keys}"), took, Some((most, false)));
        most = took * 1.5;
        scene.forget(&input)?;
    }
    Ok(())
}

/// A topic with each key once, and then records behind, so that the kill comes in the middle of the work and some are left for afterwards.
/// Also the number of keys.
pub fn fill(scene: &mut Scene, times: u64) -> Result<(String, u64)> {
    let few = KEYS.min(scene.args.records / 2);
    let keys = few * times;
    let input = scene.topic("input")?;
    eprintln!("bench: producing {keys} keys into {input}");
    for records in [keys, BEHIND] {
        let part = Input {
            each_once: records <= keys,
            ..Input::uniform(records, keys)
        };
        crate::load::fill(&scene.broker.bootstrap(), &input, &part)?;
    }
    Ok((input, keys))
}

/// Seconds until Keyfold has committed outputs again.
pub fn keyfold(scene: &mut Scene, input: &str, keys: u64, disk: Disk) -> Result<f64> {
    let output = scene.topic("output")?;
    let (mut first, samples) = start(scene, counts(scene, input, &output, &output, Mode::USUAL)?)?;
    let reached = samples
        .map(|sample| sample.committed)
        .find(|committed| *committed >= keys);
    reached.context("the job ended before every key was counted")?;
    std::thread::sleep(INTO_AN_EPOCH);
    let began = Instant::now();
    first.kill()?;
    first.wait()?;
    let dir = scene.dir.join(&output);
    if disk == Disk::Wiped {
        fs::remove_dir_all(dir.join("state"))?;
    }
    let (mut second, mut samples) = start(scene, counts(scene, input, &output, &output, Mode::USUAL)?)?;
    samples
        .find(|sample| sample.committed > 0)
        .context("the job ended before its first commit")?;
    let took = began.elapsed().as_secs_f64();
    second.kill()?;
    second.wait()?;
    fs::remove_dir_all(dir)?;
    scene.forget(&output)?;
    Ok(took)
}
