//! One kill after the other.
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use keyfold_e2e::Worker;
use keyfold_e2e::worker::Told;

use crate::plan::{Death, Outage, RESTORE, Round};
use crate::scene::Scene;

/// How long a start may take, a wait for the broker included.
const START: Duration = Duration::from_secs(60);

/// How long a step may take to be reached.
const REACH: Duration = Duration::from_secs(30);

/// How often a round is repeated that does not count.
const TRIES: usize = 6;

/// What became of a kill.
struct Killed {
    pid: u32,
    how: String,
    told: Told,
    /// False when it was not the kill that was meant.
    meant: bool,
}

/// Plays all rounds; `counted` grows with each one that counts.
pub fn play(scene: &mut Scene, rounds: &[Round], counted: &mut usize) -> Result<()> {
    for (number, round) in rounds.iter().enumerate() {
        let label = format!("round {}/{}", number + 1, rounds.len());
        let mut tries = 0;
        while !play_and_tell(scene, *round, &label)? {
            tries += 1;
            ensure!(tries < TRIES, "{label} did not count in {TRIES} tries");
        }
        *counted += 1;
    }
    Ok(())
}

/// One attempt; true when it counts.
fn play_and_tell(scene: &mut Scene, round: Round, label: &str) -> Result<bool> {
    let Killed { pid, how, told, meant } = play_one(scene, round)?;
    let counts = meant && told.at_risk() > 0;
    println!(
        "{label}: pid {pid} {how} | folded {} committed {} at risk {} | resumed {} | {} | {} s | {}",
        told.folded,
        told.committed,
        told.at_risk(),
        resumed(&told),
        scene.progress(),
        scene.seconds(),
        if counts { "counts" } else { "does not count" }
    );
    Ok(counts)
}

fn resumed(told: &Told) -> &str {
    match told.started.as_deref() {
        None => "- (not started)",
        Some("") => "nothing",
        Some(epoch) => epoch,
    }
}

fn play_one(scene: &mut Scene, round: Round) -> Result<Killed> {
    match round.death {
        Death::Random => kill_at_random(scene, round.outage),
        Death::Step(point) => kill_at_step(scene, point, round.outage),
        Death::StartStep(point) => {
            let first = kill_at_start(scene, point)?;
            let second = kill_at_random(scene, round.outage)?;
            Ok(Killed {
                how: format!("{first}, then {}", second.how),
                ..second
            })
        }
    }
}

/// SIGKILL at a random moment while records are folded and not committed.
fn kill_at_random(scene: &mut Scene, outage: Option<Outage>) -> Result<Killed> {
    let mut worker = scene.worker(None)?;
    wait_for_records(scene, &mut worker)?;
    scene.pause_between(300, 3000)?;
    match outage {
        Some(Outage::Outlived) => {
            kill_broker(scene)?;
            restart_broker(scene)?;
            let before = worker.told().committed;
            ensure_alive(&mut worker)?;
            let limit = Instant::now() + START;
            while worker.told().committed <= before {
                scene.pause(Duration::from_millis(50))?;
                ensure_alive(&mut worker)?;
                ensure!(
                    Instant::now() < limit,
                    "no commit within {} s of the broker's return",
                    START.as_secs()
                );
            }
            scene.pause_between(100, 1500)?;
        }
        Some(Outage::Before) => {
            wait_for_risk(&mut worker)?;
            kill_broker(scene)?;
            scene.pause_between(0, 800)?;
        }
        Some(Outage::After) | None => {}
    }
    wait_for_risk(&mut worker)?;
    let pid = worker.pid();
    let told = worker.kill9()?;
    let how = format!("SIGKILL{}", end_outage(scene, outage)?);
    Ok(Killed {
        pid,
        how,
        told,
        meant: true,
    })
}

/// The worker kills itself at a step of the commit protocol.
fn kill_at_step(scene: &mut Scene, point: &str, outage: Option<Outage>) -> Result<Killed> {
    let k = scene.rng.between(2, 5);
    let mut worker = scene.worker(Some(format!("{point}=kill@{k}")))?;
    let pid = worker.pid();
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = worker.wait(Duration::from_millis(100))? {
            break Some(status);
        }
        scene.check()?;
        if begin.elapsed() > START + REACH {
            break None;
        }
    };
    let Some(status) = status else {
        worker.kill9()?;
        let how = format!("step {point}@{k} was not reached");
        return Ok(Killed {
            pid,
            how,
            told: worker.told(),
            meant: false,
        });
    };
    expect_kill(&worker, status)?;
    let told = worker.told();
    let how = format!("at {point}@{k}{}", end_outage(scene, outage)?);
    Ok(Killed {
        pid,
        how,
        told,
        meant: true,
    })
}

/// The worker kills itself at a step of its start. Tells how.
fn kill_at_start(scene: &mut Scene, point: &str) -> Result<String> {
    if point == RESTORE {
        scene.lose_state()?;
    }
    let mut worker = scene.worker(Some(format!("{point}=kill@1")))?;
    let pid = worker.pid();
    let Some(status) = worker.wait(START)? else {
        bail!(
            "the worker {pid} did not reach {point} within {} s: {:?}",
            START.as_secs(),
            worker.told().last_lines
        );
    };
    expect_kill(&worker, status)?;
    Ok(format!("first pid {pid} at {point}"))
}

fn expect_kill(worker: &Worker, status: ExitStatus) -> Result<()> {
    if status.signal() != Some(libc::SIGKILL) {
        bail!(
            "the worker {} ended with {status}: {:?}",
            worker.pid(),
            worker.told().last_lines
        );
    }
    Ok(())
}

fn ensure_alive(worker: &mut Worker) -> Result<()> {
    match worker.ended()? {
        Some(status) => bail!(
            "the worker {} ended with {status}: {:?}",
            worker.pid(),
            worker.told().last_lines
        ),
        None => Ok(()),
    }
}

/// Waits until the worker has started and folded something.
fn wait_for_records(scene: &Scene, worker: &mut Worker) -> Result<()> {
    let begin = Instant::now();
    while !worker.wait_for(Duration::from_millis(200), |told| {
        told.started.is_some() && told.folded > 0
    })? {
        scene.check()?;
        ensure_alive(worker)?;
        let lines = worker.told().last_lines;
        ensure!(begin.elapsed() < START, "the worker folds nothing: {lines:?}");
    }
    Ok(())
}

/// Waits a little for records at risk; a kill without is a round that does not count.
fn wait_for_risk(worker: &mut Worker) -> Result<()> {
    worker.wait_for(Duration::from_secs(3), |told| told.at_risk() > 0)?;
    ensure_alive(worker)
}

fn kill_broker(scene: &Scene) -> Result<u32> {
    scene.broker.kill9()
}

/// Away for 0 to 3 seconds.
fn restart_broker(scene: &mut Scene) -> Result<()> {
    scene.pause_between(0, 3000)?;
    scene.broker.restart()
}

fn end_outage(scene: &mut Scene, outage: Option<Outage>) -> Result<&'static str> {
    Ok(match outage {
        None => "",
        Some(Outage::Outlived) => ", broker killed and back before",
        Some(Outage::Before) => {
            restart_broker(scene)?;
            ", broker killed before"
        }
        Some(Outage::After) => {
            kill_broker(scene)?;
            restart_broker(scene)?;
            ", broker killed after"
        }
    })
}
