//! The engine's settings. Connectors and the service have their own.
use crate::types::Partitioner;
use std::path::PathBuf;
use std::time::Duration;

/// What is promised for outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guarantee {
    /// Outputs, positions and state change together.
    ExactlyOnce,
    /// Outputs are visible as they are produced; after a crash some are produced again. Barriers are not aligned: with more than one source
    /// lane, records that lie behind another lane's barrier are folded a second time after a crash.
    AtLeastOnce,
}

/// Settings of one stage on one instance.
#[derive(Debug, Clone)]
pub struct Config {
    /// Exactly-once or at-least-once.
    pub guarantee: Guarantee,
    /// Time from one barrier to the next, however long the commit in between takes. Also the largest part of the latency of outputs. At least a
    /// quarter of it lies between the end of a commit and the next barrier.
    pub epoch_interval: Duration,
    /// Where local copies of shards, spill files and the instance's lock live.
    pub state_dir: PathBuf,
    /// `S` in single mode.
    pub shards: u32,
    /// `G`; None takes [`crate::types::KeyGroups::default_max_parallelism`] of the shards.
    pub max_parallelism: Option<u32>,
    /// The hash for key groups.
    pub partitioner: Partitioner,
    /// Threads that read, decode and run stateless operators.
    pub source_lanes: u32,
    /// Threads that own key groups, for each re-keying of the job.
    pub keyed_lanes: u32,
    /// The process's memory budget in bytes, split by [`Config::budget`].
    pub memory_bytes: usize,
    /// Where fewer bytes of state have changed than this, the local copies take all changes at each barrier. Beyond it they take turns where that
    /// saves writes (docs/adr/0021), and with 0 always, as long as what waits has room.
    pub at_once_bytes: usize,
    /// Records with a timestamp further ahead of the clock follow the bad-record policy (brokers refuse more than an hour).
    pub max_future: Duration,
    /// Take over from a live instance instead of waiting as a spare.
    pub take_over: bool,
    /// Go on without state when the pointers of a known stage are gone (EP-6): state starts empty at the start positions.
    pub accept_lost_pointers: bool,
    /// How often an idle stage commits its pointer again; well below the offsets' retention (EP-10).
    pub recommit_interval: Duration,
    /// An epoch is closed early when sending its outputs would take more than a quarter of this.
    pub transaction_timeout: Duration,
    /// Group mode: this instance's name among the group's members. None draws one and keeps it in the state directory.
    pub instance: Option<String>,
    /// Group mode: a stop leaves the group, so that others take the partitions at once. Without it they are kept for a restart until the
    /// session is over. An instance that ends because of its own disk leaves in any case.
    pub leave_group: bool,
    /// Group mode: how long a revocation waits for the epoch at hand before it is dropped (EP-12).
    pub revoke_budget: Duration,
    /// Group mode: an instance that has not come to the end of a barrier, a batch or a try for so long stops polling the group, and is out of
    /// it after the client's `max.poll.interval.ms` more.
    pub stall_after: Duration,
    /// A shard gets a new base when more epochs than this have changed it since the last one. At four times as many no epoch is taken any more.
    pub chain_objects_max: u64,
    /// The same by bytes of the shard's part of the epochs: when they are more than this and than a quarter of the last base. At four times that, 256 MiB and two bases no epoch is taken any more.
    pub chain_bytes_min: u64,
    /// What is not needed any more stays in the checkpoint store for so long (EP-9). Longer than anything between writing an object and committing
    /// it takes, three times over.
    pub grace: Duration,
    /// How often a refusal by the broker of the same outputs is tried again before the job stops (EP-8).
    pub refusal_retries_max: u32,
}

impl Config {
    /// Defaults with the given state directory.
    #[must_use]
    pub fn new(state_dir: impl Into<PathBuf>) -> Config {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        Config {
            guarantee: Guarantee::ExactlyOnce,
            epoch_interval: Duration::from_millis(1000),
            state_dir: state_dir.into(),
            shards: 4,
            max_parallelism: None,
            partitioner: Partitioner::Murmur2,
            source_lanes: 1,
            keyed_lanes: (cores / 2).max(1),
            memory_bytes: 512 << 20,
            at_once_bytes: 1 << 20,
            max_future: Duration::from_secs(3000),
            take_over: false,
            accept_lost_pointers: false,
            recommit_interval: Duration::from_secs(600),
            transaction_timeout: Duration::from_secs(15),
            instance: None,
            leave_group: false,
            revoke_budget: Duration::from_secs(1),
            stall_after: Duration::from_secs(20),
            chain_objects_max: 256,
            chain_bytes_min: 8 << 20,
            grace: Duration::from_secs(24 * 3600),
            refusal_retries_max: 3,
        }
    }

    /// How the memory budget is split.
    #[must_use]
    pub fn budget(&self) -> Budget {
        let eighth = self.memory_bytes / 8;
        Budget {
            maps_bytes: eighth * 2,
            dirty_bytes: eighth,
            outputs_bytes: eighth,
            backend_bytes: eighth * 2,
            producer_bytes: eighth,
        }
    }
}

/// The memory budget's parts, in bytes. What is left of the process's budget is for prefetch and the channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// All typed maps together.
    pub maps_bytes: usize,
    /// Dirty entries and changes in flight: high-water mark, crossing it asks for a barrier.
    pub dirty_bytes: usize,
    /// Output buffers: high-water mark; beyond it they are spilled.
    pub outputs_bytes: usize,
    /// Block cache and write buffers of all shards.
    pub backend_bytes: usize,
    /// The producer's queue.
    pub producer_bytes: usize,
}
