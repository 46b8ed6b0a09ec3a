//! One kill after the other.
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use keyfold_e2e::Worker;
use keyfold_e2e::worker::Told;

use crate::plan::{Death, FETCH, Outage, RESTORE};
use crate::round::{self, Killed, REACH, START, end_outage, ensure_alive, expect_kill, restart_broker, wait_for_risk};
use crate::scene::Scene;
use crate::single::plan::Round;

/// The name of the one instance.
pub const ONLY: &str = "single";

/// Plays all rounds; `counted` grows with each one that counts. Then the worker runs once more.
pub fn play(scene: &mut Scene, rounds: &[Round], counted: &mut usize) -> Result<Vec<Worker>> {
    round::play_all(rounds.len(), counted, |number, label| {
        let killed = play_one(scene, rounds[number])?;
        Ok(round::tell(scene, label, &killed))
    })?;
    Ok(vec![start(scene, None)?])
}

fn start(scene: &Scene, faults: Option<String>) -> Result<Worker> {
    scene.worker(ONLY, Vec::new(), faults)
}

fn play_one(scene: &mut Scene, round: Round) -> Result<Killed> {
    let lost = scene.lose_copies_now_and_then(ONLY)?;
    let mut killed = die(scene, round)?;
    killed.how.push_str(lost);
    Ok(killed)
}

fn die(scene: &mut Scene, round: Round) -> Result<Killed> {
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
    let mut worker = start(scene, None)?;
    wait_for_records(scene, &mut worker)?;
    scene.pause_between(300, 3000)?;
    match outage {
        Some(Outage::Outlived) => {
            scene.broker.kill9()?;
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
            scene.broker.kill9()?;
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
    let mut worker = start(scene, Some(format!("{point}=kill@{k}")))?;
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
        if scene.outputs() == 0 {
            run_until(scene, "commits nothing", |told| told.committed > 0)?;
        }
        scene.lose_state(ONLY)?;
    }
    if point == FETCH {
        run_until(scene, "makes no base", |told| told.upkeep.bases > 0)?;
        scene.lose_copies(ONLY)?;
    }
    let mut worker = start(scene, Some(format!("{point}=kill@1")))?;
    round::await_start_step(&mut worker, point)?;
    Ok(format!("first pid {} at {point}", worker.pid()))
}

/// There may be nothing to restore or to fetch yet: runs a worker until there is.
fn run_until(scene: &Scene, lack: &str, fits: impl Fn(&Told) -> bool) -> Result<()> {
    let mut worker = start(scene, None)?;
    let begin = Instant::now();
    while !worker.wait_for(Duration::from_millis(200), &fits)? {
        scene.check()?;
        ensure_alive(&mut worker)?;
        ensure!(
            begin.elapsed() < START,
            "the worker {lack}: {:?}",
            worker.told().last_lines
        );
    }
    worker.kill9().map(drop)
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
