//! Runs a job's stage on this instance: start, restore, lanes, the commit driver, shutdown.
//!
//! ```text
//!            +-> Spare --+
//! Starting --+           +-> Restoring -> Processing -> Stopped: as asked (0), failed (1), fenced (12), cannot go on (13)
//!            +-----------+
//! ```
pub mod allocator;
pub mod backoff;
mod cadence;
pub mod commit;
mod eager;
pub mod epoch;
pub mod error;
pub mod group;
pub mod instance;
pub mod lanes;
mod measure;
pub mod open_files;
mod outbox;
mod patient_store;
mod processing;
pub mod progress;
mod publish;
mod restore;
mod start;
mod turns;
mod upkeep;

pub use error::{ExitCode, RuntimeError};
pub use progress::{Phase, Progress, StopHandle};
pub(crate) use restore::{FetchMeter, Restore};

use self::group::Group;
use crate::checkpoint::StoreLog;
use crate::checkpoint::store::{Layout, Store};
use crate::config::Config;
use crate::sink::{Log, LogError, LogErrorKind, LogTarget};
use crate::source::{Membership, MembershipError};
use crate::state::BackendFactory;
use crate::state::StateError;
use crate::telemetry::Metrics;
use crate::testing::Faults;
use crate::topology::Topology;
use crate::types::{Clock, Shard, SystemClock};
use std::path::Path;
use std::sync::Arc;

/// What a connector needs to know to make the stage's [`Log`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageInfo {
    /// The job's id.
    pub job: String,
    /// The stage's id.
    pub stage: String,
    /// Every partition that the stage reads, by topic.
    pub partitions: Vec<(String, i32)>,
    /// By sink index; None for sinks that take the outbox.
    pub targets: Vec<Option<LogTarget>>,
    /// The memory budget's part for outputs that wait in a client.
    pub producer_bytes: usize,
    /// This instance's name, in group mode.
    pub instance: Option<String>,
}

impl StageInfo {
    /// `<job>.<stage>`: the consumer group, and in single mode the transactional id.
    #[must_use]
    pub fn group(&self) -> String {
        format!("{}.{}", self.job, self.stage)
    }

    /// `<job>.<stage>` in single mode, so that a newcomer fences its predecessor; `<job>.<stage>.<instance>` in group mode.
    #[must_use]
    pub fn transactional_id(&self) -> String {
        match &self.instance {
            None => self.group(),
            Some(instance) => format!("{}.{instance}", self.group()),
        }
    }
}

/// Makes the stage's log once its partitions are known.
pub type LogFactory = Box<dyn FnOnce(&StageInfo) -> Result<Box<dyn Log>, LogError> + Send>;

/// The log of stages that neither read nor write Kafka: commits are numbered records in the checkpoint store. It takes no outputs: a stage
/// with a sink that needs a log's transaction is refused at the start.
#[must_use]
pub fn store_log(store: Arc<dyn Store>) -> LogFactory {
    Box::new(move |stage| {
        if let Some(target) = stage.targets.iter().flatten().next() {
            return Err(LogError {
                kind: LogErrorKind::Fatal,
                context: format!("stage {} writes to topic {}", stage.stage, target.topic),
                reason: "its log is the checkpoint store, which takes no outputs, so a stage without a Kafka source cannot write to \
                         Kafka in this version; give it another sink, or read its input from a topic"
                    .to_owned(),
            });
        }
        let layout = Layout::new(&stage.job, &stage.stage).map_err(|e| LogError {
            kind: LogErrorKind::Fatal,
            context: "name the stage's commit records".to_owned(),
            reason: e.to_string(),
        })?;
        Ok(Box::new(StoreLog::new(store, layout, stage.partitions.clone())))
    })
}

/// Makes the instance's membership in the stage's consumer group.
pub type MembershipFactory = Box<dyn FnOnce(&StageInfo) -> Result<Box<dyn Membership>, MembershipError> + Send>;

/// Opens the local copies under a directory.
pub type BackendOpener = Box<dyn FnOnce(&Path) -> Result<Arc<dyn BackendFactory>, StateError> + Send>;

/// A job with everything it runs on.
pub struct Runtime {
    topology: Topology,
    config: Config,
    log: Option<LogFactory>,
    store: Arc<dyn Store>,
    backends: Option<BackendOpener>,
    clock: Arc<dyn Clock>,
    faults: Faults,
    metrics: Metrics,
    progress: Arc<Progress>,
    stop: StopHandle,
    group: Group,
}

/// How often a run begins again in place after a local copy turned out to be damaged.
const RESTARTS_MAX: u32 = 3;
/// How often in a row it does when a local copy cannot be written, without having dealt with an epoch in between.
const REOPENS_MAX: u32 = 8;

impl Runtime {
    /// A job in single mode: this process owns all partitions.
    #[must_use]
    pub fn single(topology: Topology, config: Config, log: LogFactory, store: Arc<dyn Store>) -> Runtime {
        Runtime {
            topology,
            config,
            log: Some(log),
            store,
            backends: None,
            clock: Arc::new(SystemClock::default()),
            faults: Faults::none(),
            metrics: Metrics::new(),
            progress: Arc::default(),
            stop: StopHandle::default(),
            group: Group::Single,
        }
    }

    /// A job in group mode: the instances of a consumer group share the partitions. For stages that are keyed by the record key.
    #[must_use]
    pub fn group(
        topology: Topology,
        config: Config,
        log: LogFactory,
        membership: MembershipFactory,
        store: Arc<dyn Store>,
    ) -> Runtime {
        let mut runtime = Runtime::single(topology, config, log, store);
        runtime.group = Group::joining(membership, runtime.clock.clone());
        runtime
    }

    /// Where local copies of shards live; the default is RocksDB, or memory without the feature `rocksdb`.
    #[must_use]
    pub fn with_backends(mut self, opener: BackendOpener) -> Runtime {
        self.backends = Some(opener);
        self
    }

    /// Another clock.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Runtime {
        self.group.with_clock(&clock);
        self.clock = clock;
        self
    }

    /// Fail points.
    #[must_use]
    pub fn with_faults(mut self, faults: Faults) -> Runtime {
        self.faults = faults;
        self
    }

    /// A handle that was made before, for what has to be stopped before there is a runtime.
    #[must_use]
    pub fn with_stop(mut self, stop: StopHandle) -> Runtime {
        self.stop = stop;
        self
    }

    /// Metrics that were made before, for whoever looks at them before there is a runtime.
    #[must_use]
    pub fn with_metrics(mut self, metrics: Metrics) -> Runtime {
        self.metrics = metrics;
        self
    }

    /// Asks the run to end: a last epoch is committed, then [`Runtime::run`] returns.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        self.stop.clone()
    }

    /// What the run is doing.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// From now on the run does this.
    fn enter(&self, phase: Phase) {
        self.progress.set_phase(phase);
        self.metrics.phase(phase.label());
        if phase == Phase::Stopped {
            self.metrics.shards(0, 0);
        }
    }

    /// The engine's metrics.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        self.metrics.clone()
    }

    /// Runs until [`StopHandle::stop`] is called or the job cannot go on. Blocks the caller.
    ///
    /// # Errors
    /// [`RuntimeError`]; its [`RuntimeError::exit_code`] is what a process should exit with.
    pub fn run(self) -> Result<(), RuntimeError> {
        let progress = self.progress();
        self.until_ended().map_err(|error| match error {
            RuntimeError::StoppedEarly(step) => {
                let records = progress.read().saturating_sub(progress.committed());
                RuntimeError::StoppedEarly(format!("{step} ({records} records that were read are not committed)"))
            }
            error => error,
        })
    }

    fn until_ended(mut self) -> Result<(), RuntimeError> {
        let mut prepared = start::prepare(&mut self)?;
        if let Some(membership) = prepared.membership.take() {
            return group::run(&mut self, &mut prepared, membership);
        }
        let (mut damages, mut reopens) = (0, 0);
        let mut backoff = start::patience(&self).backoff("reopen");
        while damages < RESTARTS_MAX {
            let before = self.progress.barriers();
            let result = start::run_once(&mut self, &mut prepared);
            if self.progress.barriers() > before {
                reopens = 0;
                backoff = start::patience(&self).backoff("reopen");
            }
            match result {
                Err(RuntimeError::LocalCopy(StateError::Damaged { shard, reason, path })) => {
                    tracing::warn!(shard, %reason, %path, "local copy damaged, restored from the checkpoint store");
                    prepared.backends.wipe(Shard(shard))?;
                    self.metrics.restarted("damaged");
                    damages += 1;
                }
                // A full disk: RocksDB may keep its error until it is opened anew. What is committed is restored from the checkpoint store.
                Err(error) if error.may_pass_in_place() && reopens < REOPENS_MAX && !self.stop.asked() => {
                    backoff.wait(&format!("{error}; the local copies are opened anew"))?;
                    self.metrics.restarted("unwritable");
                    reopens += 1;
                }
                result => return result,
            }
        }
        Err(RuntimeError::CannotGoOn(format!(
            "a local copy of state turned out damaged {RESTARTS_MAX} times; check the disk under {}",
            self.config.state_dir.display()
        )))
    }
}
