//! Where outputs go: into the log's transaction ([`Log`], Kafka), or through the outbox of a section ([`OutboxSink`], anything else).
pub mod buffer;

pub use buffer::{OutputBuffer, SpillDir};

use crate::types::{Assignment, OutputRef, Position, Sequence, Shard};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What a failed call to the log allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogErrorKind {
    /// The same call may be repeated with the same arguments.
    Retriable,
    /// The transaction must be aborted; it has certainly not been committed.
    Abortable,
    /// Another holder of the name, or the broker's own time-out, has fenced this session.
    Fenced,
    /// The session is of no more use and the outcome of an open transaction is unknown: open a new session and read the pointers.
    SessionLost,
    /// The log refuses this output for good (too large, bad timestamp): never part of the transaction.
    OutputRefused,
    /// The group's coordinator refuses the assignment under which the offsets were sent: it is stale. The transaction must be aborted.
    StaleAssignment,
    /// The group knows another member under this instance's name: another process, or this one, which has joined anew meanwhile. The
    /// transaction must be aborted; the membership tells which of the two it is.
    NameTaken,
    /// Going on cannot work (authorisation, configuration, group in use): exit 13.
    Fatal,
}

/// A failed call to the log.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{context}: {reason}")]
pub struct LogError {
    /// What it allows.
    pub kind: LogErrorKind,
    /// Which call, on what.
    pub context: String,
    /// What the log said.
    pub reason: String,
}

/// What is committed for one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Topic of the partition.
    pub topic: String,
    /// The partition.
    pub partition: i32,
    /// The offset; None when nothing is committed.
    pub offset: Option<i64>,
    /// The metadata as raw bytes, which anybody may have written. None when there is none.
    pub metadata: Option<Vec<u8>>,
}

/// One partition of a commit: offset with the pointer as its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitEntry {
    /// Where to go on.
    pub position: Position,
    /// The pointer's text.
    pub pointer: String,
}

/// Publishes an epoch atomically: outputs, offsets and pointer change together or not at all. Driven by one thread.
///
/// The calls of a transaction come in the order `begin`, any number of `send` and `drain`, `drain`, `send_offsets`, `commit`; `abort` instead of any of the later
/// ones. No call has a default: each affects durability.
pub trait Log: Send {
    /// Drops the session, if any, and opens a new one under the same name: every earlier holder is fenced and its open transaction is
    /// decided before this returns (`init_transactions`).
    ///
    /// # Errors
    /// [`LogError`]
    fn open_session(&mut self) -> Result<(), LogError>;
    /// What is committed for every partition of the stage, read stable: waits until no transaction on them is undecided.
    /// Needs no session and fences nobody.
    ///
    /// # Errors
    /// [`LogError`]
    fn committed(&mut self) -> Result<Vec<Committed>, LogError>;
    /// What was committed last, without waiting: what an undecided transaction would change is as if it had not begun. A hint for the start,
    /// never a reason to adopt or to publish.
    ///
    /// # Errors
    /// [`LogError`]
    fn glance(&mut self) -> Result<Vec<Committed>, LogError>;
    /// Whether another consumer is a member of the stage's group (single mode refuses to start then). False for logs without groups.
    ///
    /// # Errors
    /// [`LogError`]
    fn group_has_members(&mut self) -> Result<bool, LogError>;
    /// Group mode: from now on [`Log::committed`] is about these partitions only, and offsets are sent as this member.
    ///
    /// # Errors
    /// [`LogErrorKind::Fatal`] for an identity that a group would accept without a look, and for logs without groups.
    fn assign(&mut self, assignment: &Assignment) -> Result<(), LogError>;
    /// Reads pointers on a thread of its own: for restores in group mode, and for collection.
    ///
    /// # Errors
    /// [`LogError`]
    fn pointer_reader(&mut self) -> Result<Box<dyn PointerReader>, LogError>;
    /// Opens a transaction.
    ///
    /// # Errors
    /// [`LogError`]
    fn begin(&mut self) -> Result<(), LogError>;
    /// Hands an output to the transaction. Waits when the client's queue is full. An error means the output is not in it.
    ///
    /// # Errors
    /// [`LogError`]
    fn send(&mut self, output: &OutputRef<'_>) -> Result<(), LogError>;
    /// Waits until every output of the transaction so far was acknowledged.
    ///
    /// # Errors
    /// The first refusal or failure of a delivery.
    fn drain(&mut self) -> Result<(), LogError>;
    /// Adds offsets and pointers to the transaction.
    ///
    /// # Errors
    /// [`LogError`]
    fn send_offsets(&mut self, entries: &[CommitEntry]) -> Result<(), LogError>;
    /// Commits. Any error but `Abortable` and `Retriable` leaves the outcome unknown.
    ///
    /// # Errors
    /// [`LogError`]
    fn commit(&mut self) -> Result<(), LogError>;
    /// Aborts.
    ///
    /// # Errors
    /// An error leaves the outcome unknown.
    fn abort(&mut self) -> Result<(), LogError>;
    /// True when the session's error callback has fired since the last `open_session` (EP-5: rebuild before the next transaction).
    fn session_is_suspect(&self) -> bool;
    /// For at-least-once: a second way out, not transactional, whose outputs are visible at once. None when the log has none.
    ///
    /// # Errors
    /// [`LogError`]
    fn eager_sender(&mut self) -> Result<Option<Box<dyn EagerSender>>, LogError>;
    /// What waits in the client's queue, for metrics; None when nobody knows.
    fn queue(&self) -> Option<QueueGauge> {
        None
    }
    /// Told once, before the first call: calls that wait come back, as ones that failed, soon after `give_up` is over.
    fn give_up(&mut self, _give_up: GiveUp) {}
    /// Ordered shutdown.
    fn close(&mut self);
}

type Left = dyn Fn() -> Option<Duration> + Send + Sync;

/// How long calls may go on waiting once the run is to end. The default is for ever.
#[derive(Clone, Default)]
pub struct GiveUp {
    left: Option<Arc<Left>>,
}

impl GiveUp {
    /// What a call is given that begins when the time is over: what is there already is still found.
    const LAST: Duration = Duration::from_millis(500);

    /// `left` says how much time is left; None while there is no end to it.
    pub fn new(left: impl Fn() -> Option<Duration> + Send + Sync + 'static) -> GiveUp {
        GiveUp {
            left: Some(Arc::new(left)),
        }
    }

    fn left(&self) -> Option<Duration> {
        self.left.as_ref().and_then(|left| left())
    }

    /// Whether the time is over.
    #[must_use]
    pub fn over(&self) -> bool {
        self.left() == Some(Duration::ZERO)
    }

    /// How long a call may wait that would wait for `wait`.
    #[must_use]
    pub fn within(&self, wait: Duration) -> Duration {
        self.left().map_or(wait, |left| wait.min(left + GiveUp::LAST))
    }
}

/// Bytes that wait in a client's queue. Cheap to clone; each client counts for itself, so that the late report of a former one takes nothing
/// off the present one.
#[derive(Debug, Clone, Default)]
pub struct QueueGauge {
    current: Arc<Mutex<Arc<AtomicU64>>>,
}

impl QueueGauge {
    /// A new client, with an empty queue: what it counts in.
    #[must_use]
    pub fn begin(&self) -> Arc<AtomicU64> {
        let fresh = Arc::<AtomicU64>::default();
        *self.current.lock() = fresh.clone();
        fresh
    }

    /// What waits now.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.current.lock().load(Ordering::Relaxed)
    }
}

/// Reads what is committed, beside a [`Log`] (group mode).
pub trait PointerReader: Send {
    /// What is committed for these partitions, read stable as by [`Log::committed`]; gives up after `within`.
    ///
    /// # Errors
    /// [`LogErrorKind::Retriable`] when one of the partitions is still undecided, or nobody has answered.
    fn committed(&mut self, of: &[(String, i32)], within: std::time::Duration) -> Result<Vec<Committed>, LogError>;
}

/// Sends outputs as they are produced (at-least-once mode).
pub trait EagerSender: Send {
    /// Hands out one output; waits a little, about a second, when the client's queue is full.
    ///
    /// # Errors
    /// [`LogError`]; `Retriable` for one that may be handed to this sender again. After any other this sender is given up, and what it
    /// has not acknowledged is sent again by another.
    fn send(&mut self, output: &OutputRef<'_>) -> Result<(), LogError>;
    /// Waits at most this long until every output so far was acknowledged; false when there are some left.
    ///
    /// # Errors
    /// The first failed delivery since the last call that was not false. This sender is given up then.
    fn drain(&mut self, within: std::time::Duration) -> Result<bool, LogError>;
}

/// Names a log sink's target and its limits; connectors make these for [`crate::topology::Topology`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTarget {
    /// The topic.
    pub topic: String,
    /// Largest key + value + headers in bytes that the log takes; larger outputs follow the bad-record policy (EP-8).
    pub max_bytes: usize,
}

/// A failure of an outbox sink.
#[derive(Debug, thiserror::Error)]
pub enum SinkError {
    /// Tried again with back-off for as long as it takes.
    #[error("{0}")]
    Retriable(String),
    /// Stops the job with exit code 13.
    #[error("{0}")]
    Fatal(String),
}

/// A sink that is not the log. Outputs lie in the shard's section; after the commit they are delivered in sequence order, possibly more
/// than once: the sink stores the sequence per shard in the same act and takes what is not greater for done.
pub trait OutboxSink: Send {
    /// For messages.
    fn describe(&self) -> String;
    /// Called at the start of every run, before a record is read or an output is delivered. `owner` names job, stage, sink and checkpoint store:
    /// a place that keeps sequences is for one owner, and a sink refuses one that belongs to another, whose outputs it would take for
    /// delivered.
    ///
    /// # Errors
    /// [`SinkError`]
    fn open(&mut self, owner: &str) -> Result<(), SinkError>;
    /// Delivers what `shard` emitted in section `sequence`, durably, or does nothing when it already has.
    ///
    /// # Errors
    /// [`SinkError`]
    fn deliver(
        &mut self,
        shard: Shard,
        sequence: Sequence,
        outputs: &mut dyn Iterator<Item = OutputRef<'_>>,
    ) -> Result<(), SinkError>;
}
