//! Measures Keyfold as ratios of one run on one machine, with a broker of its own beside it. The last table has the ratios; all of it goes
//! into `bench-results.json`.
//!
//! Workload: records with 8-byte keys, uniform over the number of keys, and values of 100 bytes, in 4 partitions, not compressed; counts
//! per key, an 8-byte count for every record, exactly once, an epoch each second. The baseline consumes and produces the same with the same
//! calls and settings of librdkafka, with a transaction each second and nothing in between.
use anyhow::Result;
use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;

mod cases;
mod latency;
mod load;
mod peers;
mod report;
mod restart;
mod restore;
mod run;
mod scene;

use report::Report;
use scene::Scene;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Rate, CPU and memory beside the baseline.
    Throughput,
    /// An epoch each second against one each 30 s.
    EpochCost,
    /// Most records in one partition.
    Skew,
    /// Memory with 256 partitions on one instance.
    Partitions,
    /// Memory with states of up to a megabyte a key.
    LargeStates,
    /// What compaction makes an epoch wait for the disk.
    WritePhase,
    /// From SIGKILL to the first committed output, on the same disk.
    Restart,
    /// State onto an empty disk, against a copy of the same bytes.
    Restore,
    /// From producing to a read_committed receipt.
    Latency,
}

/// Measures Keyfold as ratios of one run.
#[derive(Parser, Debug, Clone)]
#[command(version)]
struct Args {
    /// Records of a run.
    #[arg(long, default_value_t = 10_000_000)]
    records: u64,
    /// Records at the beginning that are not counted.
    #[arg(long, default_value_t = 2_000_000)]
    skip: u64,
    /// Kafka Streams and Flink beside Keyfold: throughput, restart and latency.
    #[arg(long)]
    peers: bool,
    /// Only these cases.
    #[arg(long, value_enum, value_delimiter = ',')]
    cases: Vec<Case>,
    /// The memory budget.
    #[arg(long, default_value_t = 512)]
    memory_mib: usize,
    /// Where broker, stores and logs live; emptied at the start.
    #[arg(long, default_value = ".bench")]
    dir: PathBuf,
    /// Where the results go.
    #[arg(long, default_value = "bench-results.json")]
    results: PathBuf,
}

fn measure(args: &Args) -> Result<()> {
    let wanted = |case| args.cases.is_empty() || args.cases.contains(&case);
    let mut scene = Scene::set(args)?;
    let mut report = Report::new(args);
    if args.peers {
        return beside_peers(args, &mut scene, &mut report);
    }
    if wanted(Case::Throughput) {
        cases::throughput(&mut scene, &mut report)?;
    }
    if wanted(Case::EpochCost) {
        cases::epoch_cost(&mut scene, &mut report)?;
    }
    if wanted(Case::Skew) {
        cases::skew(&mut scene, &mut report)?;
    }
    if wanted(Case::Partitions) {
        cases::partitions(&mut scene, &mut report)?;
    }
    if wanted(Case::LargeStates) {
        cases::large_states(&mut scene, &mut report)?;
    }
    if wanted(Case::WritePhase) {
        cases::write_phase(&mut scene, &mut report)?;
    }
    if wanted(Case::Restart) {
        restart::restart(&mut scene, &mut report)?;
    }
    if wanted(Case::Restore) {
        restore::restore(&mut scene, &mut report)?;
    }
    if wanted(Case::Latency) {
        latency::latency(&mut scene, &mut report)?;
    }
    report.write("make bench", &args.results)?;
    println!("\n{}", report.table());
    Ok(())
}

/// Takes long: what is measured is written case by case.
fn beside_peers(args: &Args, scene: &mut Scene, report: &mut Report) -> Result<()> {
    for case in [Case::Throughput, Case::Restart, Case::Latency] {
        if !args.cases.is_empty() && !args.cases.contains(&case) {
            continue;
        }
        match case {
            Case::Throughput => peers::throughput(scene, report)?,
            Case::Restart => peers::restart(scene, report)?,
            _ => peers::latency(scene, report)?,
        }
        report.write("make bench-peers", &args.results)?;
    }
    println!("\n{}", report.table());
    Ok(())
}

fn main() -> ExitCode {
    match measure(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
