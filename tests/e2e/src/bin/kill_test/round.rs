//! What the rounds of both modes share: what became of a kill, and whether it counts.
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use keyfold_e2e::Worker;
use keyfold_e2e::worker::Told;

use crate::plan::Outage;
use crate::scene::Scene;

/// How long a start may take, a wait for the broker included.
pub const START: Duration = Duration::from_secs(60);

/// How long a step may take to be reached.
pub const REACH: Duration = Duration::from_secs(30);

/// How often a round is repeated that does not count.
const TRIES: usize = 6;

/// What became of a kill.
pub struct Killed {
    /// Whose.
    pub pid: u32,
    /// In words.
    pub how: String,
    /// What the killed one had told.
    pub told: Told,
    /// False when it was not the kill that was meant.
    pub meant: bool,
}

/// Plays `total` rounds, each until it counts; `counted` grows with each one.
pub fn play_all(total: usize, counted: &mut usize, mut attempt: impl FnMut(usize, &str) -> Result<bool>) -> Result<()> {
    for number in 0..total {
        let label = format!("round {}/{total}", number + 1);
        let mut tries = 0;
        while !attempt(number, &label)? {
            tries += 1;
            ensure!(tries < TRIES, "{label} did not count in {TRIES} tries");
        }
        *counted += 1;
    }
    Ok(())
}

/// Tells of an attempt; true when it counts.
pub fn tell(scene: &mut Scene, label: &str, killed: &Killed) -> bool {
    let Killed { pid, how, told, meant } = killed;
    let counts = *meant && told.at_risk() > 0;
    scene.upkeep.add(told);
    println!(
        "{label}: pid {pid} {how} | folded {} committed {} at risk {} | resumed {} | {} | {} s | {}",
        told.folded,
        told.committed,
        told.at_risk(),
        resumed(told),
        scene.progress(),
        scene.seconds(),
        if counts { "counts" } else { "does not count" }
    );
    counts
}

fn resumed(told: &Told) -> &str {
    match told.started.as_deref() {
        None => "- (not started)",
        Some("") => "nothing",
        Some(epoch) => epoch,
    }
}

/// It has killed itself, as it was told to.
pub fn expect_kill(worker: &Worker, status: ExitStatus) -> Result<()> {
    if status.signal() != Some(libc::SIGKILL) {
        return Err(ended(worker, status));
    }
    Ok(())
}

/// It was not meant to end.
pub fn ensure_alive(worker: &mut Worker) -> Result<()> {
    match worker.ended()? {
        Some(status) => Err(ended(worker, status)),
        None => Ok(()),
    }
}

fn ended(worker: &Worker, status: ExitStatus) -> anyhow::Error {
    let lines = worker.told().last_lines;
    anyhow::anyhow!("the worker {} ended with {status}: {lines:?}", worker.pid())
}

/// Waits a little for records at risk; a kill without is a round that does not count.
pub fn wait_for_risk(worker: &mut Worker) -> Result<()> {
    worker.wait_for(Duration::from_secs(3), |told| told.at_risk() > 0)?;
    ensure_alive(worker)
}

/// Away for 0 to 3 seconds.
pub fn restart_broker(scene: &mut Scene) -> Result<()> {
    scene.pause_between(0, 3000)?;
    scene.broker.restart()
}

/// What is left of an outage once the worker is dead.
pub fn end_outage(scene: &mut Scene, outage: Option<Outage>) -> Result<&'static str> {
    Ok(match outage {
        None => "",
        Some(Outage::Outlived) => ", broker killed and back before",
        Some(Outage::Before) => {
            restart_broker(scene)?;
            ", broker killed before"
        }
        Some(Outage::After) => {
            scene.broker.kill9()?;
            restart_broker(scene)?;
            ", broker killed after"
        }
    })
}

/// Waits until a worker that was told to kill itself at a step of its start has done so.
pub fn await_start_step(worker: &mut Worker, point: &str) -> Result<()> {
    let Some(status) = worker.wait(START)? else {
        bail!(
            "the worker {} did not reach {point} within {} s: {:?}",
            worker.pid(),
            START.as_secs(),
            worker.told().last_lines
        );
    };
    expect_kill(worker, status)
}
