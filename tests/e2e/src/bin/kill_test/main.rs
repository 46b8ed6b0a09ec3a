//! Kills a job again and again and judges whether it kept its promise.
//!
//! The program starts a broker, a paced producer, the checker and the watch of the committed pointers, and then, round
//! after round, the worker, which it kills. Last it lets the worker process everything, stops it in good order, and
//! lets the checker read both topics to their end.
//!
//! **When a round counts.** Each counted round has one kill for which the worker's last progress event, read after its
//! death, says that records were folded and not committed. Three kinds of rounds:
//! - *random*: SIGKILL at a random moment;
//! - *step*: the worker kills itself at a named step of the commit protocol, when it reaches it for the k-th time;
//! - *start-up step* (`post_init`, `mid_restore`, `pre_genesis_commit`): it first kills itself at that step of its
//!   start, when it has folded nothing yet; it is started again and killed at a random moment, and this second kill is
//!   the one that has to fit the rule. `pre_genesis_commit` exists in the life of a fresh job only and is the first
//!   round; for `mid_restore` the local state is thrown away before, so that there is something to restore.
//!
//! A round that does not count (the step was not reached, nothing was at risk) is repeated, and there is a bound for
//! that. A worker that ends in any way but the intended one fails the run.
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};
use clap::Parser;

mod plan;
mod rounds;
mod scene;

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
        "kill-test: rounds={} records>={} seed={seed}",
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
    let stopped = rounds::play(&mut scene, &plan::plan(args.rounds, seed), &mut counted).err();
    Ok(scene.judge(counted, stopped))
}

fn seconds() -> u64 {
    std::time::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs())
}
