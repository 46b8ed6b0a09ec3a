//! Judges a job's output topic against its input topic. Exit code 0: nothing lost, duplicated or stale.
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use keyfold_checker::{Checker, PointerWatch, Report, WatchOptions, WatchReport};

/// Reads both topics with read_committed to their end and judges lost, duplicated and stale records.
#[derive(Parser)]
#[command(version)]
struct Args {
    /// The brokers.
    #[arg(long, default_value = "127.0.0.1:9092")]
    brokers: String,
    /// The topic that the job reads: text keys, decimal integers as values.
    #[arg(long)]
    input: String,
    /// The topic that the job writes: one output for every input record.
    #[arg(long)]
    output: String,
    /// Follow the topics until every input record has an output, at most for so many seconds.
    #[arg(long, default_value_t = 0)]
    follow: u64,
    /// Seconds to wait for the stable end of the topics.
    #[arg(long, default_value_t = 60)]
    deadline: u64,
    /// Watch the pointers of this job too; needs --store-dir.
    #[arg(long, requires = "store_dir")]
    job: Option<String>,
    /// The job's stage; without it, the only one in the store.
    #[arg(long)]
    stage: Option<String>,
    /// The job's checkpoint store.
    #[arg(long)]
    store_dir: Option<PathBuf>,
    /// Print one JSON object instead of text.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("keyfold-checker: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<bool> {
    let checker = Checker::start(&args.brokers, &args.input, &args.output)?;
    let watch = watch_options(args).map(PointerWatch::start).transpose()?;
    if args.follow > 0 && !checker.wait_until_answered(Duration::from_secs(args.follow)) {
        eprintln!("keyfold-checker: not every input record has an output yet");
    }
    let report = checker.finish(Duration::from_secs(args.deadline))?;
    let watched = watch.map(|w| w.finish());
    let ok = report.ok() && watched.as_ref().is_none_or(WatchReport::ok);
    if args.json {
        println!(
            "{}",
            serde_json::json!({ "ok": ok, "report": report, "pointers": watched })
        );
    } else {
        print(&report, watched.as_ref());
    }
    Ok(ok)
}

fn watch_options(args: &Args) -> Option<WatchOptions> {
    Some(WatchOptions {
        brokers: args.brokers.clone(),
        job: args.job.clone()?,
        stage: args.stage.clone(),
        topics: vec![args.input.clone()],
        store: args.store_dir.clone()?,
        stable: false,
    })
}

fn print(report: &Report, watched: Option<&WatchReport>) {
    report.offenders.iter().for_each(|o| println!("{o}"));
    if let Some(watched) = watched {
        watched.violations.iter().for_each(|v| println!("Pointer: {v}"));
        let WatchReport {
            polls,
            checks,
            epochs,
            objects,
            ..
        } = watched;
        println!("pointers: polls={polls} checks={checks} epochs={epochs} objects={objects}");
    }
    println!("{report}");
}
