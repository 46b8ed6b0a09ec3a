//! Measures how long a partition that moves to another instance goes without committed output.
//!
//! A job in group mode holds a key of state for each of `--keys` keys, in 4 partitions shared by the instances a and b. A reader with
//! `read_committed` notes when outputs of each partition become visible. Then something happens to the instances, and the *pause* of a
//! partition is the longest time between two outputs of it from then on. It contains the ordinary wait for the next epoch.
//!
//! Every run begins with empty local directories, and a shard moves to an instance that has never had it: everything is restored from the
//! checkpoint store. At the end every input record must have had its output.
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, ensure};
use clap::Parser;

mod cases;
mod logs;
mod reader;
mod scene;
mod table;

use cases::Case;
use scene::Scene;

/// Measures the pause of partitions that move between instances.
#[derive(Parser, Debug, Clone)]
#[command(version)]
struct Args {
    /// Runs of each case.
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Keys of state.
    #[arg(long, default_value_t = 1_000_000)]
    keys: u64,
    /// Records a second that flow meanwhile.
    #[arg(long, default_value_t = 2_000)]
    rate: u64,
    /// Time between two barriers.
    #[arg(long, default_value_t = 1_000)]
    epoch_ms: u64,
    /// Only these cases.
    #[arg(long, value_enum, value_delimiter = ',')]
    cases: Vec<Case>,
    /// Where broker, store, state and logs live; emptied at the start.
    #[arg(long, default_value = ".takeover")]
    dir: PathBuf,
}

fn run(args: &Args) -> Result<()> {
    let cases = match args.cases.as_slice() {
        [] => Case::ALL.to_vec(),
        some => some.to_vec(),
    };
    let mut scene = Scene::set(args)?;
    let mut found = Vec::new();
    for number in 1..=args.runs {
        for case in &cases {
            let pauses = cases::run(&mut scene, *case, number)?;
            println!("{}", table::line(*case, number, &pauses));
            found.push((*case, pauses));
        }
    }
    let (expected, seen) = scene.finish()?;
    println!("\n{}", table::table(&cases, &found));
    ensure!(seen == expected, "{expected} records have led to {seen} outputs");
    Ok(())
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("takeover: {error:#}");
            ExitCode::FAILURE
        }
    }
}
