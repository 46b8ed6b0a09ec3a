//! A wall clock that is set back or forward: nothing is ordered, named or timed by it.
use crate::support::{Bench, Outcome, SUMS};
use keyfold::checkpoint::pointer::Pointer;
use std::time::Duration;

const HOUR_MS: i64 = 3_600_000;
/// Where the driver's clock stands at its start, about.
const NOW_MS: i64 = 1_767_225_600_000;

/// The epochs that were committed, in order, each once.
fn epochs(bench: &Bench) -> Vec<Pointer> {
    let commits = bench.driver.broker().commits(SUMS);
    let pointer = |text: &String| Pointer::parse(text.as_bytes()).expect("ours");
    let mut all: Vec<Pointer> = commits.iter().map(|c| pointer(&c.entries[0].pointer)).collect();
    all.dedup();
    all
}

/// Epochs, a crash, a restart and an empty disk, with the clock set before each of them. Records carry times of their own.
fn with_clocks(steps: &[i64]) -> Outcome {
    let mut bench = Bench::new("");
    let set = |bench: &Bench, n: usize| {
        let wall = NOW_MS + steps.get(n % steps.len()).copied().unwrap_or(0);
        bench.driver.clock().set_wall_ms(wall);
    };
    set(&bench, 0);
    bench.start()?;
    for n in 0..4 {
        set(&bench, n);
        bench.epoch(n as i64)?;
    }
    bench.driver.crash_at("post_commit").map_err(|e| e.to_string())?;
    set(&bench, 1);
    bench.add(5);
    bench.barrier_crashes()?;
    set(&bench, 2);
    bench.restart()?;
    bench.epoch(6)?;
    bench.driver.stop().map_err(|e| e.to_string())?;
    bench.driver.lose_copies();
    set(&bench, 3);
    bench.start()?;
    bench.epoch(7)?;
    // An idle stage commits again by time that has passed, not by the time of the day.
    let before = bench.driver.broker().commits(SUMS).len();
    set(&bench, 1);
    bench.barrier()?;
    if bench.driver.broker().commits(SUMS).len() != before {
        return Err("committed again for the clock's sake".into());
    }
    bench.driver.clock().advance(Duration::from_secs(601));
    bench.barrier()?;
    if bench.driver.broker().commits(SUMS).len() != before + 1 {
        return Err("not committed again".into());
    }
    let all = epochs(&bench);
    let counts = |incarnation| {
        let of_session = all.iter().filter(move |p| p.epoch.incarnation == incarnation);
        of_session.map(|p| p.epoch.n).collect::<Vec<u64>>()
    };
    if all.iter().any(|p| !counts(p.epoch.incarnation).is_sorted()) {
        return Err(format!("ids went back: {all:?}"));
    }
    bench.judge()
}

/// Row 48: the machine's clock went back by an hour and forward by a day while the job ran, between a crash and the restart, and before a restore.
/// Order, ids, intervals and what is restored stay what they are.
#[test]
fn row_48_clock_set_back_and_forward_changes_nothing() {
    let (hour, day) = (HOUR_MS, 24 * HOUR_MS);
    for steps in [&[0][..], &[0, -hour], &[0, day], &[day, 0, -hour, 30 * day], &[-NOW_MS]] {
        with_clocks(steps).unwrap_or_else(|why| panic!("{steps:?}: {why}"));
    }
}
