//! Rounds in which an instance, or the broker, dies and returns at once.
use anyhow::Result;
use keyfold_e2e::Worker;
use keyfold_e2e::worker::Told;

use crate::group::cast::Cast;
use crate::group::moves;
use crate::group::plan::{Act, Round, STAYING};
use crate::plan::{Death, GENESIS, Outage, RESTORE};
use crate::round::{self, Killed, REACH, START, end_outage, restart_broker, wait_for_risk};
use crate::scene::Scene;

/// Plays all rounds; `counted` grows with each one that counts. The instances that stay go on.
pub fn play(scene: &mut Scene, rounds: &[Round], counted: &mut usize) -> Result<Vec<Worker>> {
    let mut cast = Cast::new(scene)?;
    round::play_all(rounds.len(), counted, |number, label| {
        let Round { act, busy } = rounds[number];
        cast.busy.set(busy);
        let mut killed = play_one(&mut cast, act)?;
        cast.busy.set(false);
        if busy {
            killed.how.push_str(", busy");
        }
        Ok(round::tell(cast.scene, label, &killed))
    })?;
    start_all(&mut cast)?;
    Ok(cast.end())
}

fn play_one(cast: &mut Cast<'_>, act: Act) -> Result<Killed> {
    let genesis = Death::StartStep(GENESIS);
    if !matches!(act, Act::Kill { death, .. } if death == genesis) {
        start_all(cast)?;
    }
    match act {
        Act::Kill { who, death, outage } => {
            let killed = kill(cast, who, death, outage)?;
            start_all(cast)?;
            Ok(killed)
        }
        Act::Away { who, death } => moves::away(cast, who, death),
        Act::Visit { who } => moves::visit(cast, who),
        Act::GuestDies { death } => moves::guest_dies(cast, death),
        Act::Stopped { who, point } => moves::stopped(cast, who, point),
        Act::Broker => kill_broker(cast),
    }
}

/// Starts those that stay and do not run.
fn start_all(cast: &mut Cast<'_>) -> Result<()> {
    for who in STAYING {
        if !cast.runs(who) {
            cast.start(who)?;
        }
    }
    Ok(())
}

/// An instance dies; whoever calls decides when it returns.
pub fn kill(cast: &mut Cast<'_>, who: &'static str, death: Death, outage: Option<Outage>) -> Result<Killed> {
    let mut killed = match death {
        Death::Random => kill_at_random(cast, who, outage)?,
        Death::Step(point) => kill_at_step(cast, who, point)?,
        Death::StartStep(point) => {
            let first = kill_at_start(cast, who, point)?;
            start_all(cast)?;
            let second = kill_at_random(cast, who, outage)?;
            let how = format!("{first}, then {}", second.how);
            Killed { how, ..second }
        }
    };
    killed.how.push_str(end_outage(cast.scene, outage)?);
    killed.how.push_str(cast.scene.lose_copies_now_and_then(who)?);
    cast.check()?;
    Ok(killed)
}

/// SIGKILL at a random moment while records are folded and not committed.
fn kill_at_random(cast: &mut Cast<'_>, who: &'static str, outage: Option<Outage>) -> Result<Killed> {
    cast.until_it_works(who)?;
    cast.pause_between(300, 2500)?;
    match outage {
        Some(Outage::Outlived) => {
            outlive_broker(cast, &[who])?;
            cast.pause_between(100, 1500)?;
        }
        Some(Outage::Before) => {
            wait_for_risk(cast.running(who)?)?;
            cast.scene.broker.kill9()?;
            cast.pause_between(0, 800)?;
        }
        Some(Outage::After) | None => {}
    }
    wait_for_risk(cast.running(who)?)?;
    let mut worker = cast.take(who)?;
    let told = worker.kill9()?;
    Ok(Killed {
        pid: worker.pid(),
        how: format!("{who}: SIGKILL"),
        told,
        meant: true,
    })
}

/// An instance kills itself at a step of the commit protocol.
pub fn kill_at_step(cast: &mut Cast<'_>, who: &'static str, point: &str) -> Result<Killed> {
    let k = cast.scene.rng.between(2, 5);
    if cast.runs(who) {
        cast.stop(who)?;
    }
    let mut worker = cast.doomed(who, Some(format!("{point}=kill@{k}")))?;
    let ended = cast.wait_for_end(&mut worker, START + REACH)?;
    let how = match ended {
        Some(status) => {
            round::expect_kill(&worker, status)?;
            format!("{who}: at {point}@{k}")
        }
        None => {
            worker.kill9()?;
            format!("{who}: step {point}@{k} was not reached")
        }
    };
    Ok(Killed {
        pid: worker.pid(),
        how,
        told: worker.told(),
        meant: ended.is_some(),
    })
}

/// An instance kills itself at a step of its start. Tells how.
fn kill_at_start(cast: &mut Cast<'_>, who: &'static str, point: &str) -> Result<String> {
    if point == RESTORE {
        // In the first round nothing may be committed yet, and there would be nothing to restore.
        cast.until_it_works(who)?;
    }
    if cast.runs(who) {
        cast.stop(who)?;
    }
    if point == RESTORE {
        cast.scene.lose_state(who)?;
    }
    let mut worker = cast.doomed(who, Some(format!("{point}=kill@1")))?;
    round::await_start_step(&mut worker, point)?;
    Ok(format!("{who}: first pid {} at {point}", worker.pid()))
}

/// The broker dies and returns, and all instances go on.
fn kill_broker(cast: &mut Cast<'_>) -> Result<Killed> {
    let names = cast.names();
    for who in &names {
        cast.until_it_works(who)?;
    }
    cast.pause_between(300, 2500)?;
    for who in &names {
        wait_for_risk(cast.running(who)?)?;
    }
    let pid = cast.scene.broker.pid().unwrap_or_default();
    let told = outlive_broker(cast, &names)?;
    Ok(Killed {
        pid,
        how: "broker: SIGKILL, outlived by all".into(),
        told,
        meant: true,
    })
}

/// Kills the broker, starts it again, and waits until each of `names` has committed since. What the first of them had told at the kill.
fn outlive_broker(cast: &mut Cast<'_>, names: &[&'static str]) -> Result<Told> {
    cast.scene.broker.kill9()?;
    let told = names.first().map(|who| cast.told(who)).unwrap_or_default();
    restart_broker(cast.scene)?;
    for who in names {
        let before = cast.told(who).committed;
        cast.until(START, &format!("{who} commits after the broker's return"), |cast| {
            Ok(cast.told(who).committed > before)
        })?;
    }
    Ok(told)
}
