//! Rounds in which partitions go from one instance to another.
use anyhow::{Context, Result};

use crate::group::cast::{Cast, TAKE_OVER};
use crate::group::plan::{GUEST, STAYING};
use crate::group::rounds::{kill, kill_at_step};
use crate::plan::Death;
use crate::round::{Killed, REACH, START};

/// An instance dies and stays away until the others work on all partitions; then it returns and works.
pub fn away(cast: &mut Cast<'_>, who: &'static str, death: Death) -> Result<Killed> {
    cast.until_it_works(who)?;
    let killed = kill(cast, who, death, None)?;
    let others = cast.names();
    cast.until_they_work_alone(&others)?;
    cast.pause_between(0, 1500)?;
    cast.start(who)?;
    cast.until_they_work_alone(&STAYING)?;
    Ok(with(killed, "away past its session"))
}

fn with(killed: Killed, what: &str) -> Killed {
    let how = format!("{}, {what}", killed.how);
    Killed { how, ..killed }
}

/// The guest joins and works; one of the others dies meanwhile and returns at once; the guest leaves.
pub fn visit(cast: &mut Cast<'_>, who: &'static str) -> Result<Killed> {
    invite(cast)?;
    cast.start(GUEST)?;
    cast.until_it_works(GUEST)?;
    let killed = kill(cast, who, Death::Random, None)?;
    cast.start(who)?;
    cast.pause_between(0, 2000)?;
    cast.stop(GUEST)?;
    cast.until_they_work_alone(&STAYING)?;
    Ok(with(killed, "while c was there"))
}

/// Its local state of a former visit is old; at times it is gone.
fn invite(cast: &mut Cast<'_>) -> Result<()> {
    for who in STAYING {
        cast.until_it_works(who)?;
    }
    if cast.scene.rng.below(2) == 0 {
        cast.scene.lose_state(GUEST)?;
    }
    Ok(())
}

/// The guest joins, works, dies and stays away.
pub fn guest_dies(cast: &mut Cast<'_>, death: Death) -> Result<Killed> {
    invite(cast)?;
    let killed = match death {
        Death::Step(point) => kill_at_step(cast, GUEST, point)?,
        Death::Random | Death::StartStep(_) => {
            cast.start(GUEST)?;
            kill(cast, GUEST, Death::Random, None)?
        }
    };
    cast.until_they_work_alone(&STAYING)?;
    Ok(with(killed, "left away"))
}

/// An instance is stopped in the middle of a publish, others take its partitions over, and it is continued.
pub fn stopped(cast: &mut Cast<'_>, who: &'static str, point: &'static str) -> Result<Killed> {
    cast.until_it_works(who)?;
    let others: Vec<&str> = cast.names().into_iter().filter(|name| *name != who).collect();
    cast.stop(who)?;
    let k = cast.scene.rng.between(2, 5);
    let worker = cast.doomed(who, Some(format!("{point}=stop@{k}")))?;
    let pid = worker.pid();
    cast.keep(who, worker);
    cast.until(START + REACH, &format!("{who} stops at {point}@{k}"), |cast| {
        cast.running(who)?.is_stopped()
    })?;
    cast.until_they_work_alone(&others)?;
    cast.pause_between(0, 1000)?;
    let told = cast.told(who);
    let continued = cast.running(who)?.signal(libc::SIGCONT);
    continued.with_context(|| format!("continuing {who}"))?;
    cast.until_they_work_alone(&STAYING)?;
    cast.until(TAKE_OVER, &format!("{who} commits again"), |cast| {
        Ok(cast.told(who).committed > told.committed)
    })?;
    Ok(Killed {
        pid,
        how: format!("{who}: SIGSTOP at {point}@{k} past its session, continued"),
        told,
        meant: true,
    })
}
