//! Runs a topology without a broker.
use super::broker::MemoryBroker;
use super::clock::ManualClock;
use super::faults::Faults;
use super::inspect;
use super::process::{Process, RunEnd};
use super::record::TestRecord;
use super::store::ProcessStore;
use crate::checkpoint::store::{DirectoryStore, MemoryStore, Store};
use crate::config::Config;
use crate::runtime::{Phase, Progress, Runtime, RuntimeError, StopHandle};
use crate::sink::LogError;
use crate::state::backend::memory::MemoryFactory;
use crate::telemetry::Metrics;
use crate::topology::{Topology, TopologyError};
use crate::types::Codec;
use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a driver's call met.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The run ended with an error.
    #[error(transparent)]
    Ended(#[from] RuntimeError),
    /// The run crashed at the point or step it was told to: [`TestDriver::restart`] starts the next one.
    #[error("crashed at {0}")]
    Crashed(String),
    /// There is no run: [`TestDriver::start`] it.
    #[error("the job is not running; start it")]
    NotRunning,
    /// Nothing came of it within half a minute of real time.
    #[error("{0} did not happen in time")]
    TimedOut(&'static str),
    /// The topology cannot be built.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The broker in memory refused a record.
    #[error(transparent)]
    Log(#[from] LogError),
    /// A fault that does not parse.
    #[error("{0}")]
    Faults(String),
    /// The checkpoint store, or what it holds.
    #[error("checkpoint store: {0}")]
    Store(String),
    /// A thread could not be started.
    #[error("the run's thread: {0}")]
    Thread(#[from] std::io::Error),
}

struct Run {
    thread: JoinHandle<RunEnd>,
    stop: StopHandle,
    progress: Arc<Progress>,
    metrics: Metrics,
    process: Process,
    faults: Faults,
}

type Build = Box<dyn Fn(&MemoryBroker) -> Result<Topology, TopologyError>>;

/// Runs a topology on a broker, a checkpoint store and local copies in memory, with the runtime's own modules and a clock that stands
/// still: an epoch is cut when [`TestDriver::barrier`] asks for it.
///
/// ```
/// use keyfold::testing::{TestDriver, TestRecord};
/// use keyfold::topology::Job;
/// use keyfold::types::codec::LongBe;
///
/// let mut driver = TestDriver::new(|broker| {
///     let job = Job::new("word-count");
///     job.source("words", broker.source("in"), |_| Ok(()))
///         .key_by_record_key("by-word")
///         .count("counts")
///         .to("totals", broker.target("out"), LongBe);
///     job.build()
/// });
/// driver.broker().create_topic("in", 2);
/// driver.broker().create_topic("out", 1);
/// driver.start()?;
/// driver.pipe("in", TestRecord::new("fold", ""))?;
/// driver.barrier()?;
///
/// // Dies after the epoch's object is durable and before anything of it is committed.
/// driver.crash_at("post_manifest")?;
/// driver.pipe("in", TestRecord::new("fold", ""))?;
/// assert!(driver.barrier().is_err());
/// driver.restart()?;
/// driver.barrier()?;
/// let counts: Vec<_> = driver.outputs("out").into_iter().filter_map(|r| r.value).collect();
/// assert_eq!(counts, [1u64.to_be_bytes(), 2u64.to_be_bytes()]);
/// # Ok::<(), keyfold::testing::DriverError>(())
/// ```
pub struct TestDriver {
    build: Build,
    broker: MemoryBroker,
    store: MemoryStore,
    clock: ManualClock,
    copies: MemoryFactory,
    config: Config,
    broken: String,
    run: Option<Run>,
    given_out: HashMap<String, HashMap<i32, i64>>,
    topics: Vec<String>,
    stage: (String, String),
    on_disk: bool,
    system_clock: bool,
    dir: StateDir,
}

/// A directory of the driver's own, removed with it.
pub(super) struct StateDir(pub(super) PathBuf);

impl StateDir {
    /// A name that no other has.
    pub fn fresh(what: &str) -> StateDir {
        let number = DRIVERS.fetch_add(1, Ordering::Relaxed);
        StateDir(std::env::temp_dir().join(format!("keyfold-{what}-{}-{number}", std::process::id())))
    }
}

impl Drop for StateDir {
    fn drop(&mut self) {
        // What stays lies in the system's folder for such.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

static DRIVERS: AtomicU64 = AtomicU64::new(0);
/// 2026-01-01, so that records may carry small timestamps and recent ones.
const START_MS: i64 = 1_767_225_600_000;
const PATIENCE: Duration = Duration::from_secs(30);
/// More often, and a transaction of a slow machine would time out by our clock.
const LOOKS_PER_ADVANCE: u32 = 2000;
const NAP: Duration = Duration::from_micros(300);

impl TestDriver {
    /// A driver of the topology that `build` makes; it runs at every start.
    #[must_use]
    pub fn new(build: impl Fn(&MemoryBroker) -> Result<Topology, TopologyError> + 'static) -> TestDriver {
        let clock = ManualClock::new(START_MS);
        let dir = StateDir::fresh("driver");
        TestDriver {
            build: Box::new(build),
            broker: MemoryBroker::new(Arc::new(clock.clone())),
            store: MemoryStore::new(1),
            clock,
            copies: MemoryFactory::with_crashes(Faults::none()),
            config: Config::new(dir.0.join("state")),
            broken: String::new(),
            run: None,
            given_out: HashMap::new(),
            topics: Vec::new(),
            stage: (String::new(), String::new()),
            on_disk: false,
            system_clock: false,
            dir,
        }
    }

    /// Another instance of the same job: the same broker, checkpoint store and clock, a state directory and local copies of its own.
    #[must_use]
    pub fn another(&self, build: impl Fn(&MemoryBroker) -> Result<Topology, TopologyError> + 'static) -> TestDriver {
        let mut fresh = TestDriver::new(build);
        fresh.broker = self.broker.clone();
        fresh.store = self.store.clone();
        fresh.clock = self.clock.clone();
        let state_dir = std::mem::replace(&mut fresh.config, self.config.clone()).state_dir;
        fresh.config.state_dir = state_dir;
        fresh
    }

    /// From the next start on with a checkpoint store in a directory and local copies in RocksDB (memory without the feature `rocksdb`).
    pub fn use_disk(&mut self) {
        self.on_disk = true;
    }
    /// From the next start on with the machine's clock: epochs are cut by themselves, and waiting takes its time.
    pub fn use_system_clock(&mut self) {
        self.system_clock = true;
    }
    /// The driver's directory: `state` and, after [`TestDriver::use_disk`], `store` lie in it.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir.0
    }

    /// The broker: topics, what is committed, faults of the log.
    #[must_use]
    pub fn broker(&self) -> &MemoryBroker {
        &self.broker
    }
    /// The checkpoint store.
    #[must_use]
    pub fn store(&self) -> &MemoryStore {
        &self.store
    }
    /// The clock.
    #[must_use]
    pub fn clock(&self) -> &ManualClock {
        &self.clock
    }
    /// The local copies.
    #[must_use]
    pub fn copies(&self) -> &MemoryFactory {
        &self.copies
    }
    /// The local copies, to exchange them for another machine's. The job must not be running.
    pub fn copies_mut(&mut self) -> &mut MemoryFactory {
        &mut self.copies
    }
    /// Settings from the next start on. The state directory is the driver's own.
    pub fn configure(&mut self, change: impl FnOnce(&mut Config)) {
        change(&mut self.config);
        self.config.state_dir = self.dir.0.join("state");
    }
    /// Another topology from the next start on.
    pub fn rebuild(&mut self, build: impl Fn(&MemoryBroker) -> Result<Topology, TopologyError> + 'static) {
        self.build = Box::new(build);
    }
    /// Fault items (see [`Faults::parse`]) of every start from the next one on, `break:EP-3` for one.
    pub fn with_faults(&mut self, items: &str) {
        items.clone_into(&mut self.broken);
    }

    /// The checkpoint store in use.
    ///
    /// # Errors
    /// When its directory cannot be used.
    pub fn open_store(&self, faults: Faults) -> Result<Arc<dyn Store>, DriverError> {
        if !self.on_disk {
            return Ok(Arc::new(self.store.clone()));
        }
        std::fs::create_dir_all(&self.dir.0)?;
        let opened = DirectoryStore::open(self.dir.0.join("store"), faults);
        Ok(Arc::new(opened.map_err(|e| DriverError::Store(e.to_string()))?))
    }

    /// Starts the job and waits until records flow.
    ///
    /// # Errors
    /// [`DriverError`], when the start is refused for one.
    pub fn start(&mut self) -> Result<(), DriverError> {
        self.launch()?;
        self.wait("the start", |driver| {
            driver
                .run
                .as_ref()
                .is_some_and(|r| r.progress.phase() == Phase::Processing)
        })
    }

    /// Starts the job and waits for nothing: for an instance that is to wait as a spare.
    ///
    /// # Errors
    /// A topology that cannot be built, or a store that cannot be opened.
    pub fn launch(&mut self) -> Result<(), DriverError> {
        let topology = (self.build)(&self.broker)?;
        self.topics = topology.sources.iter().map(|s| s.source.topic()).collect();
        self.stage = (topology.job.clone(), topology.stage.clone());
        let process = Process::new();
        let items = if self.broken.is_empty() {
            "break:none"
        } else {
            &self.broken
        };
        let faults = Faults::parse(items).map_err(DriverError::Faults)?;
        self.copies.set_faults(faults.clone());
        let store: Arc<dyn Store> = Arc::new(ProcessStore::new(self.open_store(faults.clone())?, process.clone()));
        let copies = self.copies.clone();
        let mut runtime = Runtime::single(topology, self.config.clone(), self.broker.log(process.clone()), store);
        if !self.on_disk {
            runtime = runtime.with_backends(Box::new(move |_| Ok(Arc::new(copies))));
        }
        if !self.system_clock {
            runtime = runtime.with_clock(Arc::new(self.clock.clone()));
        }
        let runtime = runtime.with_faults(faults.clone());
        let (stop, progress, metrics) = (runtime.stop_handle(), runtime.progress(), runtime.metrics());
        let of_thread = process.clone();
        let thread = std::thread::Builder::new()
            .name("test-driver".to_owned())
            .spawn(move || of_thread.run(runtime))?;
        self.run = Some(Run {
            thread,
            stop,
            progress,
            metrics,
            process,
            faults,
        });
        Ok(())
    }

    /// After a crash: the local copies go back to what a disk would hold, and the job starts again.
    ///
    /// # Errors
    /// As [`TestDriver::start`].
    pub fn restart(&mut self) -> Result<(), DriverError> {
        self.kill();
        self.copies.crash();
        self.start()
    }

    /// Dies when it passes a fail point of [`crate::testing::faults::POINTS`] for the next time.
    ///
    /// # Errors
    /// An unknown point, or when nothing runs.
    pub fn crash_at(&self, point: &str) -> Result<(), DriverError> {
        let run = self.run.as_ref().ok_or(DriverError::NotRunning)?;
        run.faults.arm(&format!("{point}=crash")).map_err(DriverError::Faults)
    }

    /// The running process: faults of single calls, crashes at the n-th one.
    ///
    /// # Errors
    /// When nothing runs.
    pub fn process(&self) -> Result<&Process, DriverError> {
        self.run.as_ref().map(|r| &r.process).ok_or(DriverError::NotRunning)
    }
    /// The running job's metrics.
    ///
    /// # Errors
    /// When nothing runs.
    pub fn metrics(&self) -> Result<&Metrics, DriverError> {
        self.run.as_ref().map(|r| &r.metrics).ok_or(DriverError::NotRunning)
    }
    /// What the running job is doing.
    ///
    /// # Errors
    /// When nothing runs.
    pub fn progress(&self) -> Result<&Progress, DriverError> {
        self.run
            .as_ref()
            .map(|r| r.progress.as_ref())
            .ok_or(DriverError::NotRunning)
    }

    /// Appends a record to a topic.
    ///
    /// # Errors
    /// What the broker says.
    pub fn pipe(&self, topic: &str, record: TestRecord) -> Result<(), DriverError> {
        self.broker.produce(topic, record)?;
        Ok(())
    }

    /// Waits until everything piped in has been read, cuts an epoch and waits until it has been dealt with.
    ///
    /// # Errors
    /// How the run ended, if it did.
    pub fn barrier(&mut self) -> Result<(), DriverError> {
        self.wait("reading the input", |d| d.topics.iter().all(|t| d.broker.is_read(t)))?;
        // One that was being cut while records were read is followed by one that has them all.
        for _ in 0..2 {
            let before = self.progress()?.barriers();
            self.clock.advance(self.config.epoch_interval);
            let looks = Cell::new(0u32);
            self.wait("the epoch", |d| {
                looks.set(looks.get() + 1);
                // A run that had not begun to wait for the time of its first barrier gets another one.
                if looks.get().is_multiple_of(LOOKS_PER_ADVANCE) {
                    d.clock.advance(d.config.epoch_interval);
                }
                d.run.as_ref().is_some_and(|r| r.progress.barriers() > before)
            })?;
        }
        Ok(())
    }

    /// What has been committed to a topic since the last call, by partition and offset.
    pub fn outputs(&mut self, topic: &str) -> Vec<TestRecord> {
        let given = self.given_out.entry(topic.to_owned()).or_default();
        let mut fresh = self.broker.records(topic);
        fresh.retain(|r| r.offset >= given.get(&r.partition).copied().unwrap_or(0));
        for record in &fresh {
            given.insert(record.partition, record.offset + 1);
        }
        fresh
    }

    /// What a restore would find now: the values of a state by key bytes, gathered from the checkpoint store alone.
    ///
    /// # Errors
    /// When the store does not hold what the committed pointer needs, or a value does not decode.
    pub fn state<S>(
        &self,
        operator: &str,
        name: &str,
        codec: &dyn Codec<S>,
    ) -> Result<BTreeMap<Vec<u8>, S>, DriverError> {
        let (job, stage) = &self.stage;
        let committed = self.broker.offsets(&format!("{job}.{stage}"));
        let store = self.open_store(Faults::none())?;
        inspect::state(store.as_ref(), (job, stage), &committed, (operator, name), codec).map_err(DriverError::Store)
    }

    /// The disk is lost: every local copy is empty at the next start. The job must not be running.
    pub fn lose_copies(&mut self) {
        self.copies = MemoryFactory::with_crashes(Faults::none());
        // Not there is what is wanted.
        let _ = std::fs::remove_dir_all(self.dir.0.join("state"));
    }

    /// Waits until the run has ended, and returns how.
    ///
    /// # Errors
    /// How it ended, if not as asked.
    pub fn ended(&mut self) -> Result<(), DriverError> {
        match self.wait("the end", |_| false) {
            Err(DriverError::NotRunning) => Ok(()),
            other => other,
        }
    }

    /// Stops the job after a last epoch.
    ///
    /// # Errors
    /// How the run ended, if not as asked.
    pub fn stop(&mut self) -> Result<(), DriverError> {
        let run = self.run.take().ok_or(DriverError::NotRunning)?;
        run.stop.stop();
        end_of(run)
    }

    /// Ends the run as a power failure would: nothing more is committed.
    pub fn kill(&mut self) {
        if let Some(run) = self.run.take() {
            run.process.kill();
            // Before its end: what it still flushes reaches no disk.
            self.copies.crash();
            run.stop.stop();
            let _ = run.thread.join();
        }
    }

    fn wait(&mut self, what: &'static str, done: impl Fn(&TestDriver) -> bool) -> Result<(), DriverError> {
        let until = Instant::now() + PATIENCE;
        while !done(self) {
            let run = self.run.as_ref().ok_or(DriverError::NotRunning)?;
            if run.thread.is_finished() {
                if let Some(run) = self.run.take() {
                    end_of(run)?;
                }
                return Err(DriverError::NotRunning);
            }
            if Instant::now() > until {
                return Err(DriverError::TimedOut(what));
            }
            std::thread::sleep(NAP);
        }
        Ok(())
    }
}

fn end_of(run: Run) -> Result<(), DriverError> {
    match run.thread.join() {
        Ok(RunEnd::Stopped) => Ok(()),
        Ok(RunEnd::Failed(error)) => Err(error.into()),
        Ok(RunEnd::Crashed(point)) => Err(DriverError::Crashed(point)),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

impl Drop for TestDriver {
    fn drop(&mut self) {
        self.kill();
    }
}
