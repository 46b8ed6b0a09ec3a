//! Feeds pipelines with garbage at full speed, and accounts for every record: see `keyfold_e2e::soak`.
//!
//! Its last line is the verdict. The seed is printed first; the same seed makes the same records.
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use keyfold_e2e::guard::sibling;
use keyfold_e2e::soak::{Options, run};

/// Marks the directory as ours to empty.
const MARK: &str = "keyfold-soak";

/// Feeds pipelines with garbage and accounts for every record.
#[derive(Parser, Debug)]
#[command(version)]
struct Args {
    /// For how long garbage is produced.
    #[arg(long, default_value_t = 120)]
    seconds: u64,
    /// Repeats the records of a former run; drawn and printed when not given.
    #[arg(long)]
    seed: Option<u64>,
    /// Memory budget of each of the two services.
    #[arg(long, default_value_t = 512)]
    memory_mib: u64,
    /// Where broker, state and logs live; emptied at the start.
    #[arg(long, default_value = ".soak")]
    dir: PathBuf,
    /// Does not count skipped records of this reason (`decode`, `division_by_zero` ..), to see the soak fail.
    #[arg(long)]
    forget: Option<String>,
}

fn main() -> ExitCode {
    match soak(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("garbage-soak: {error:#}");
            println!("seconds=0 in=0 out=0 skipped=0 dead_letters=0 peak_rss_mb=0 rate=0/s verdict=FAILED");
            ExitCode::FAILURE
        }
    }
}

fn soak(args: &Args) -> Result<bool> {
    let drawn = || std::time::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs());
    let seed = args.seed.unwrap_or_else(drawn);
    println!(
        "garbage-soak: seconds={} memory_mib={} seed={seed}",
        args.seconds, args.memory_mib
    );
    let verdict = run(&Options {
        program: sibling("keyfold").context("the program to be soaked")?,
        time: Duration::from_secs(args.seconds),
        seed,
        memory_mib: args.memory_mib,
        dir: emptied(&args.dir)?,
        forget: args.forget.clone(),
    })?;
    for fault in &verdict.account.told {
        println!("{fault}");
    }
    if !verdict.ok() {
        println!("{} faults", verdict.account.faults);
    }
    println!("{}", verdict.line());
    Ok(verdict.ok())
}

fn emptied(dir: &PathBuf) -> Result<PathBuf> {
    let mark = dir.join(MARK);
    if dir.exists() {
        ensure!(mark.exists(), "{} is there and not ours to empty", dir.display());
        std::fs::remove_dir_all(dir)?;
    }
    std::fs::create_dir_all(dir)?;
    std::fs::write(&mark, "")?;
    Ok(dir.canonicalize()?)
}
