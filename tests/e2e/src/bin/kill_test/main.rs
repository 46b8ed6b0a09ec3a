//! Kills a job again and again and judges whether it kept its promise.
//!
//! The program starts a broker, a paced producer, the checker and the watch of the committed pointers, and then, round
//! after round, workers, which it kills. Last it lets them process everything, stops them in good order, and lets the
//! checker read both topics to their end. In [`group`] mode two instances share the partitions and a third one comes and
//! goes; in [`single`] mode, with `--single`, there is one.
//!
//! **When a round counts.** Each counted round has one kill for which the last progress event of the killed worker, read
//! after its death, says that records were folded and not committed. A round that does not count (the step was not
//! reached, nothing was at risk) is repeated, and there is a bound for that. A worker that ends in any way but the
//! intended one fails the run.
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use clap::Parser;

mod busy;
mod group;
mod plan;
mod round;
mod scene;
mod single;

/// Kills a job again and again and checks exactly-once.
#[derive(Parser, Debug, Clone)]
#[command(version)]
struct Args {
    /// Rounds that have to count.
    #[arg(long, default_value_t = 30)]
    rounds: usize,
    /// Input records at least; 66,667 a round when not given (2 million in 30 rounds).
    #[arg(long)]
    records: Option<u64>,
    /// One instance in single mode, instead of a group.
    #[arg(long)]
    single: bool,
    /// Where broker, store, state and logs live; emptied at the start.
    #[arg(long, default_value = ".kill-test")]
    dir: PathBuf,
    /// Repeats the plan of a former run; drawn and printed when not given.
    #[arg(long)]
    seed: Option<u64>,
    /// Time between two barriers of the worker.
    #[arg(long, default_value_t = 400)]
    epoch_ms: u64,
    /// `KEYFOLD_FAULTS` for every start of the worker, to see the test fail: `break:EP-1` ...
    #[arg(long)]
    faults: Option<String>,
    /// Run the worker under at-least-once: duplicates have to show.
    #[arg(long)]
    at_least_once: bool,
}

impl Args {
    fn records(&self) -> u64 {
        self.records
            .unwrap_or_else(|| (self.rounds as u64 * 2_000_000).div_ceil(30))
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let seed = args.seed.unwrap_or_else(|| u64::from(std::process::id()) ^ seconds());
    println!(
        "kill-test: mode={} rounds={} records>={} seed={seed}",
        if args.single { "single" } else { "group" },
        args.rounds,
        args.records()
    );
    match run(&args, seed) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("kill-test: {error:#}");
            println!("rounds=0 in=0 out=0 lost=0 duplicated=0 stale=0 verdict=FAILED");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args, seed: u64) -> Result<bool> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone()).context("handling signals")?;
    }
    let mut scene = scene::Scene::set(args, seed, interrupted)?;
    let mut counted = 0;
    let played = if args.single {
        single::play(&mut scene, &single::plan(args.rounds, seed), &mut counted)
    } else {
        group::play(&mut scene, &group::plan(args.rounds, seed), &mut counted)
    };
    Ok(scene.judge(counted, played))
}

fn seconds() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs())
}
