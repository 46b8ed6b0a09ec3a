//! From SIGKILL to the first committed output, on the same disk.
use crate::load::Input;
use crate::report::Report;
use crate::run::{Mode, counts, start};
use crate::scene::Scene;
use anyhow::{Context, Result};
use std::time::Instant;

const KEYS: u64 = 5_000_000;
/// Records behind, so that the kill comes in the middle of the work and some are left for afterwards.
const MORE: u64 = 4_000_000;

/// Every key is in the state; the process is killed in the middle of an epoch and started again.
pub fn restart(scene: &mut Scene, report: &mut Report) -> Result<()> {
    let input = scene.topic("input")?;
    let each = |records| Input {
        records,
        keys: KEYS,
        first_of_100: None,
        each_once: true,
    };
    crate::load::fill(&scene.broker.bootstrap(), &input, &each(KEYS))?;
    crate::load::fill(&scene.broker.bootstrap(), &input, &each(MORE))?;
    let output = scene.topic("output")?;
    let (mut first, samples) = start(scene, counts(scene, &input, &output, "restart", Mode::USUAL)?)?;
    let reached = samples
        .map(|sample| sample.committed)
        .find(|committed| *committed >= KEYS);
    reached.context("the job ended before every key was counted")?;
    let began = Instant::now();
    first.kill()?;
    first.wait()?;
    let (mut second, mut samples) = start(scene, counts(scene, &input, &output, "restart", Mode::USUAL)?)?;
    samples
        .find(|sample| sample.committed > 0)
        .context("the job ended before its first commit")?;
    let took = began.elapsed().as_secs_f64();
    second.kill()?;
    second.wait()?;
    eprintln!("bench: restart with {KEYS} keys: {took:.2} s");
    report.ratio("restart_s.5000000", took, Some((3.0, false)));
    scene.forget(&input)?;
    scene.forget(&output)
}
