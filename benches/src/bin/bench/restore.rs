//! State onto an empty disk: what a restore takes, against `cp` of the files that it has made, with fsync.
use crate::load::{Input, fill};
use crate::report::{Report, median};
use crate::run::{Mode, counts, start};
use crate::scene::Scene;
use anyhow::{Context, Result, ensure};
use keyfold_benches::At;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Restores, with a copy after each.
const ROUNDS: usize = 3;

/// Twice as many keys as a run has records, each once, so that there are bases with the default settings, and a chain behind them.
pub fn restore(scene: &mut Scene, report: &mut Report) -> Result<()> {
    let keys = scene.args.records * 2;
    let (input, output) = (scene.topic("input")?, scene.topic("output")?);
    eprintln!("bench: producing {keys} keys into {input}");
    let each_once = Input {
        each_once: true,
        ..Input::uniform(keys, keys)
    };
    fill(&scene.broker.bootstrap(), &input, &each_once)?;
    let mut command = counts(scene, &input, &output, "restore", Mode::USUAL)?;
    command.args(["--records", &keys.to_string()]);
    let (mut job, samples) = start(scene, command)?;
    samples.for_each(drop);
    ensure!(job.wait()?.success(), "the job failed, see runs.log");
    let dir = scene.dir.join("restore");
    let (mut restores, mut phases, mut copies, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    for _ in 0..ROUNDS {
        let (restore, phase) = restored(scene, &input, &output, &dir)?;
        restores.push(restore);
        phases.push(phase);
        let (took, copied) = copied(&dir)?;
        copies.push(took);
        bytes = copied;
    }
    let (ours, theirs) = (median(restores.iter().copied()), median(copies.iter().copied()));
    eprintln!(
        "bench: restore of {bytes} bytes: {restores:.2?} s; cp with fsync: {copies:.2?} s; with the session {phases:.2?} s"
    );
    report.ratio("restore_s", ours, None);
    report.ratio("restore_phase_s", median(phases.iter().copied()), None);
    report.ratio("restore_mb", bytes as f64 / 1e6, None);
    report.ratio("restore_ratio", theirs / ours, Some((0.5, true)));
    fs::remove_dir_all(dir)?;
    scene.forget(&input)?;
    scene.forget(&output)
}

/// Seconds until all of the state is there: from when the job knows what is committed, and from before it has asked the broker for its session, which
/// takes as long for any state. The process is ended then.
fn restored(scene: &Scene, input: &str, output: &str, dir: &Path) -> Result<(f64, f64)> {
    fs::remove_dir_all(dir.join("state"))?;
    // Both find in memory what they read.
    read_all(&dir.join("store"))?;
    settled()?;
    let (mut job, mut samples) = start(scene, counts(scene, input, output, "restore", Mode::USUAL)?)?;
    let ended = "the job ended before all was restored";
    let first = samples.find(|sample| sample.at == At::Restoring).context(ended)?;
    let there = samples.find(|sample| sample.at == At::Processing).context(ended)?;
    job.kill()?;
    job.wait()?;
    let restored_in = there.restored_in.context("the job has restored nothing")?;
    Ok((restored_in, there.seconds - first.seconds))
}

/// Seconds that a copy of the local state takes, and its bytes.
fn copied(dir: &Path) -> Result<(f64, u64)> {
    let (from, to) = (dir.join("state"), dir.join("copy"));
    read_all(&from)?;
    settled()?;
    let began = Instant::now();
    let copy = Command::new("cp")
        .args(["-r", "--reflink=never", "--sparse=never"])
        .args([&from, &to])
        .status()?;
    ensure!(copy.success(), "cp: {copy}");
    let bytes = each_file(&to, &mut |path| {
        let file = File::open(path)?;
        file.sync_all()?;
        Ok(file.metadata()?.len())
    })?;
    let took = began.elapsed().as_secs_f64();
    fs::remove_dir_all(to)?;
    Ok((took, bytes))
}

/// What was written before is on disk: nobody waits for another's bytes.
fn settled() -> Result<()> {
    let sync = Command::new("sync").status()?;
    ensure!(sync.success(), "sync: {sync}");
    Ok(())
}

fn read_all(dir: &Path) -> Result<u64> {
    each_file(dir, &mut |path| Ok(io::copy(&mut File::open(path)?, &mut io::sink())?))
}

/// The sum over all files.
fn each_file(dir: &Path, of: &mut dyn FnMut(&Path) -> Result<u64>) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        sum += match entry.file_type()?.is_dir() {
            true => each_file(&entry.path(), of)?,
            false => of(&entry.path())?,
        };
    }
    Ok(sum)
}
