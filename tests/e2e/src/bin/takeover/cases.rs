//! What happens to the instances.
use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::logs::{Log, Moment};
use crate::scene::{LONG, PARTITIONS, Scene, stop};

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Case {
    /// b is killed, a takes over when b's session is over.
    Killed,
    /// The same with a session of 6 s.
    KilledShort,
    /// b is stopped and leaves the group.
    Left,
    /// b is stopped, does not leave, and is started again under its name.
    Restarted,
    /// c joins a and b.
    Joined,
}

impl Case {
    /// All of them.
    pub const ALL: [Case; 5] = [
        Case::Killed,
        Case::KilledShort,
        Case::Left,
        Case::Restarted,
        Case::Joined,
    ];

    /// For people.
    pub fn title(self) -> &'static str {
        match self {
            Case::Killed => "SIGKILL, session 10 s",
            Case::KilledShort => "SIGKILL, session 6 s",
            Case::Left => "SIGTERM, leaves the group",
            Case::Restarted => "SIGTERM, started again under its name",
            Case::Joined => "a third instance joins",
        }
    }

    /// Who ends up with the partitions that pause.
    fn newcomer(self) -> &'static str {
        match self {
            Case::Killed | Case::KilledShort | Case::Left => "a",
            Case::Restarted => "b",
            Case::Joined => "c",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Case::KilledShort => &["--session-timeout-ms", "6000"],
            _ => &[],
        }
    }
}

/// What was measured in one run.
#[derive(Debug, Clone)]
pub struct Pauses {
    /// Of the partitions that moved, or whose instance was started again.
    pub moved: Vec<Duration>,
    /// Of the others.
    pub stayed: Vec<Duration>,
    /// From the event until the newcomer was assigned them.
    pub assigned: Duration,
    /// From the event until it had restored the last of them.
    pub restored: Duration,
}

/// One run.
pub fn run(scene: &mut Scene, case: Case, number: usize) -> Result<Pauses> {
    let name = format!("{case:?}-{number}").to_lowercase();
    let leaving = [case.flags(), &["--leave"]].concat();
    let first = if case == Case::Restarted {
        case.flags()
    } else {
        &leaving
    };
    let a = scene.instance(&name, "a", &leaving)?;
    let mut b = scene.instance(&name, "b", first)?;
    scene.until_steady()?;
    let of_b = Log::read(&scene.log(&name, "b"))?.resumed();
    scene.reader.mark();
    let event = Moment::now();
    let newcomer = match case {
        Case::Killed | Case::KilledShort => {
            b.kill9()?;
            None
        }
        Case::Left => {
            stop(b)?;
            None
        }
        Case::Restarted => {
            stop(b)?;
            Some(scene.instance(&name, "b", &leaving)?)
        }
        Case::Joined => {
            // It runs on beside the newcomer.
            let joined = scene.instance(&name, "c", &leaving)?;
            let pauses = measure(scene, case, &name, event, None)?;
            [a, b, joined].into_iter().try_for_each(stop)?;
            scene.clear(&name)?;
            return Ok(pauses);
        }
    };
    let pauses = measure(scene, case, &name, event, Some(&of_b))?;
    [Some(a), newcomer].into_iter().flatten().try_for_each(stop)?;
    scene.clear(&name)?;
    Ok(pauses)
}

/// Waits until everything flows again. `moved` are the newcomer's own partitions when none.
fn measure(scene: &Scene, case: Case, run: &str, event: Moment, moved: Option<&BTreeSet<usize>>) -> Result<Pauses> {
    let path = scene.log(run, case.newcomer());
    let begin = std::time::Instant::now();
    let (moved, (assigned, restored)) = loop {
        let log = Log::read(&path).ok();
        let of_log = || log.as_ref().map(Log::resumed).unwrap_or_default();
        let moved = moved.cloned().unwrap_or_else(of_log);
        let parts = log.as_ref().and_then(|log| log.parts(event, &moved));
        let all = log.as_ref().is_some_and(|log| moved.is_subset(&log.resumed()));
        if let (Some(parts), true) = (parts, all) {
            break (moved, parts);
        }
        ensure!(begin.elapsed() < LONG, "the newcomer has not restored its partitions");
        std::thread::sleep(Duration::from_millis(50));
    };
    scene.until_steady()?;
    ensure!(moved.len() < PARTITIONS as usize, "everything has moved: {moved:?}");
    let pauses = scene.reader.pauses();
    let of = |shard: usize| pauses.get(shard).copied().context("no such partition");
    let stayed = (0..PARTITIONS as usize).filter(|shard| !moved.contains(shard));
    Ok(Pauses {
        moved: moved.iter().map(|s| of(*s)).collect::<Result<_>>()?,
        stayed: stayed.map(of).collect::<Result<_>>()?,
        assigned,
        restored,
    })
}
