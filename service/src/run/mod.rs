//! Runs a job until it is stopped or cannot go on: signals, the checkpoint store, single or group mode, health, the status line.
//!
//! ```text
//! signals ---- stop ----+            +---- /health, /metrics (thread `http`)
//!                       v            |
//! job -> topology -> Runtime::run    observed by
//!        (waits for     |            |
//!         its topics)   v            +---- the status line, the log (thread `status`)
//!                   exit code
//! ```
mod job;
mod refused;
mod signals;
mod status;
mod store;
mod waiting;

pub use job::{Commits, MakeTopology, RunnableJob};
pub use signals::{INTERRUPTED, stop_on_signals};
pub use waiting::Waiting;

use crate::console::Console;
use crate::http::{HttpError, Server};
use crate::observe::Observed;
use crate::settings::{Mode, Settings};
use keyfold::runtime::{ExitCode, LogFactory, Runtime, RuntimeError, StopHandle, allocator, open_files, store_log};
use keyfold::telemetry::Metrics;
use keyfold::testing::Faults;
use keyfold::topology::Topology;
use keyfold_kafka::{KafkaLog, KafkaMembership};

/// Why a job did not run to its end.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The mode of the settings is not for this job. Nothing has begun.
    #[error("setting mode: group is not for this job: {0}; run it with --mode single, or leave the mode to auto")]
    Mode(String),
    /// The topology cannot be made: a topic is missing, brokers refuse us. Nothing has begun.
    #[error("{0}")]
    Topology(String),
    /// Health and metrics cannot be served. Nothing has begun.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The checkpoint store cannot be opened. Nothing has begun.
    #[error("setting checkpoint_dir: {0}")]
    Store(String),
    /// Signals cannot be caught. Nothing has begun.
    #[error("signals cannot be caught: {0}")]
    Signals(std::io::Error),
    /// The run's own end.
    #[error(transparent)]
    Runtime(#[from] RuntimeError),
    /// The same, with what it means for a pipeline and its settings.
    #[error("{message}")]
    Refused {
        /// The refusal, and the way out.
        message: String,
        /// The run's own.
        code: ExitCode,
    },
}

impl RunError {
    /// What the process exits with.
    #[must_use]
    pub fn exit_code(&self) -> ExitCode {
        match self {
            RunError::Mode(_) | RunError::Topology(_) | RunError::Store(_) => ExitCode::CannotGoOn,
            RunError::Http(_) | RunError::Signals(_) => ExitCode::Failed,
            RunError::Runtime(error) => error.exit_code(),
            RunError::Refused { code, .. } => *code,
        }
    }
}

/// Runs a job until a signal stops it. `faults` are for tests; the program has none.
///
/// # Errors
/// [`RunError`], whose exit code is the process's.
pub fn run(job: RunnableJob, settings: &Settings, faults: Faults, console: &Console) -> Result<(), RunError> {
    let group = in_group(&job, settings.mode())?;
    let stop = StopHandle::default();
    stop_on_signals(&stop, console).map_err(RunError::Signals)?;
    allocator::give_large_blocks_back();
    if let Err(error) = open_files::raise_limit() {
        tracing::warn!(%error, "the limit of open files cannot be raised");
    }
    let engine = settings.engine(&job.id);
    // Barriers come once an epoch, however long that is.
    let observed = Observed::new(engine.epoch_interval + engine.stall_after, Metrics::new());
    let listen = settings.listen();
    let server = listen.map(|address| Server::start(address, &observed)).transpose()?;
    let http = server
        .as_ref()
        .map_or("off".to_owned(), |server| server.address().to_string());
    let mode = if group { "group" } else { "single" };
    tracing::info!(job = job.id, mode, http, "starting");
    let brokers = (job.commits == Commits::Kafka).then(|| settings.brokers().to_owned());
    let status = status::Status::start(console, &observed, &job.id, brokers);
    let mode = refused::Mode::new(group, &job);
    let waiting = Waiting::new(&stop, &observed);
    let result = build(job, settings, group, faults, &waiting).and_then(|runtime| {
        let runtime = runtime.with_metrics(observed.metrics().clone());
        observed.begins(runtime.progress());
        runtime.run().map_err(|error| refused::explained(error, &mode))
    });
    drop(status);
    match result {
        // It waited for brokers or for the store, and nothing had begun.
        Err(RunError::Topology(why) | RunError::Store(why)) if stop.asked() => tracing::info!(%why, "stopped"),
        Ok(()) => {
            let report = observed.report();
            let epoch = report.epoch.unwrap_or_default();
            tracing::info!(
                epoch,
                epochs = report.epochs,
                records = report.records_committed,
                "stopped"
            );
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Whether the job runs in group mode.
fn in_group(job: &RunnableJob, mode: Mode) -> Result<bool, RunError> {
    match (mode, &job.single_because) {
        (Mode::Single, _) | (Mode::Auto, Some(_)) => Ok(false),
        (Mode::Group | Mode::Auto, None) => Ok(true),
        (Mode::Group, Some(why)) => Err(RunError::Mode(why.clone())),
    }
}

fn build(
    job: RunnableJob,
    settings: &Settings,
    group: bool,
    faults: Faults,
    waiting: &Waiting,
) -> Result<Runtime, RunError> {
    let store = store::open(settings, &faults, waiting)?;
    let topology: Topology = (job.topology)(waiting).map_err(RunError::Topology)?;
    let config = settings.engine(&job.id);
    let log: LogFactory = match job.commits {
        Commits::Kafka => KafkaLog::factory(settings.kafka(), config.transaction_timeout),
        Commits::Store => store_log(store.clone()),
    };
    let runtime = match group {
        true => {
            let membership = KafkaMembership::factory(settings.kafka(), settings.timeouts());
            Runtime::group(topology, config, log, membership, store)
        }
        false => Runtime::single(topology, config, log, store),
    };
    Ok(runtime.with_faults(faults).with_stop(waiting.stop().clone()))
}
