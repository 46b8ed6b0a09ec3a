//! `keyfold demo`: a job that is killed in the middle and ends with the right totals.
//!
//! ```text
//! keyfold demo ---- makes ----> orders (files, or a Kafka topic)
//!      |                           |
//!      +-- starts, kills, starts --+--> keyfold demo-worker (the job) --> outputs
//!      |                           |                                         |
//!      +------ check: plain code reads both, without the engine -------------+
//! ```
//!
//! The worker is another process of the same program. It tells on its standard output how far it is (`status`); the
//! supervisor kills it when records are folded and not committed.
mod check;
mod directory;
mod input;
mod kafka;
mod pace;
mod place;
mod progress;
mod report;
mod status;
mod supervisor;
mod worker;
mod worker_process;

pub use supervisor::run;
pub use worker::work;
pub use worker_process::WorkerEnded;

use std::path::PathBuf;

/// How many partitions the orders have.
const PARTITIONS: u32 = 4;
/// How long the job reads, without the break, unless a pace is given: long enough to watch, short enough to wait for.
const READING_SECONDS: u64 = 6;

/// Settings of the demonstration.
#[derive(Debug, Clone, clap::Args)]
pub struct DemoOptions {
    /// Reads from and writes to topics of this broker instead of files.
    #[arg(long, value_name = "HOST:PORT")]
    kafka: Option<String>,
    /// How many orders are generated; rounded up to a multiple of the 4 partitions.
    #[arg(long, default_value_t = 400_000, value_parser = clap::value_parser!(u64).range(4_000..=50_000_000))]
    records: u64,
    /// How many customers they are spread over.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    customers: u64,
    /// Another seed gives other orders.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where input, outputs, state and checkpoints are kept. Those of an earlier run are removed.
    #[arg(long, default_value = ".demo")]
    dir: PathBuf,
    /// Orders a second that the job reads [default: the whole input in 6 seconds].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pace: Option<u64>,
}

impl DemoOptions {
    fn records_per_partition(&self) -> u64 {
        self.records.div_ceil(u64::from(PARTITIONS))
    }

    fn total(&self) -> u64 {
        self.records_per_partition() * u64::from(PARTITIONS)
    }

    fn pace(&self) -> u64 {
        self.pace.unwrap_or((self.total() / READING_SECONDS).max(1))
    }
}

/// Settings of the process that is killed.
#[derive(Debug, Clone, clap::Args)]
pub struct WorkerOptions {
    /// The demonstration's directory.
    #[arg(long)]
    dir: PathBuf,
    /// Topics of this broker instead of files.
    #[arg(long)]
    kafka: Option<String>,
    /// The job's id; topics are named after it.
    #[arg(long)]
    job: String,
    /// Orders a second.
    #[arg(long)]
    pace: u64,
}
