//! A broker in memory: topics, transactions with markers, fencing by name, and a group's offsets.
//!
//! What a transaction has sent lies in its topics at once, invisible until a marker decides it; markers and aborted records take
//! offsets, so that the offsets of visible records have gaps, as Kafka's have.
mod calls;
mod group;
mod members;

pub use group::GroupView;
pub(super) use group::{Holder, Told};

use super::log::MemoryLog;
use super::process::Process;
use super::record::TestRecord;
use super::source::MemorySource;
use crate::runtime::LogFactory;
use crate::sink::{CommitEntry, Committed, LogError, LogErrorKind, LogTarget};
use crate::types::{Clock, Digest, Partitioner, SystemClock};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
enum Slot {
    Record(Arc<TestRecord>, Option<u64>),
    /// A marker, or what was compacted away.
    Gap,
}

#[derive(Debug, Default)]
struct Partition {
    start: i64,
    slots: Vec<Slot>,
}

#[derive(Debug)]
struct Topic {
    id: [u8; 16],
    partitions: Vec<Partition>,
    max_bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Open,
    Committed,
    Aborted,
}

#[derive(Debug)]
struct Transaction {
    id: u64,
    since: Duration,
    touched: BTreeSet<(String, i32)>,
    offsets: Option<(String, Vec<CommitEntry>)>,
}

#[derive(Debug, Default)]
struct Producer {
    epoch: u64,
    open: Option<Transaction>,
}

/// One commit of offsets, as the group saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitRecord {
    /// The group.
    pub group: String,
    /// Offsets and pointers.
    pub entries: Vec<CommitEntry>,
}

type Offsets = BTreeMap<(String, i32), (i64, Option<Vec<u8>>)>;

#[derive(Debug, Default)]
struct Inner {
    topics: BTreeMap<String, Topic>,
    groups: BTreeMap<String, Offsets>,
    /// Groups with a member that is not of the engine.
    members: BTreeSet<String>,
    coordinators: BTreeMap<String, group::Group>,
    producers: BTreeMap<String, Producer>,
    transactions: HashMap<u64, Outcome>,
    commits: Vec<CommitRecord>,
    latest_timestamp: Option<i64>,
    /// Producer and epoch of an EndTxn that is still on its way.
    late_end: Option<(String, u64)>,
    timeout: Duration,
    read: BTreeMap<(String, i32), i64>,
}

/// A broker in memory. Clones are the same broker.
#[derive(Clone)]
pub struct MemoryBroker {
    inner: Arc<Mutex<Inner>>,
    clock: Arc<dyn Clock>,
}

/// How long a transaction may stay open, as the client's default.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(15);
/// Largest record that a topic takes unless told otherwise.
const MAX_BYTES: usize = 1_000_000;

impl Default for MemoryBroker {
    fn default() -> Self {
        MemoryBroker::new(Arc::new(SystemClock::default()))
    }
}

pub(in crate::testing) fn error(kind: LogErrorKind, context: &str, reason: impl ToString) -> LogError {
    LogError {
        kind,
        context: context.to_owned(),
        reason: reason.to_string(),
    }
}

impl Inner {
    fn topic(&mut self, name: &str) -> Result<&mut Topic, LogError> {
        let missing = || error(LogErrorKind::Fatal, name, "no such topic");
        self.topics.get_mut(name).ok_or_else(missing)
    }

    fn append(
        &mut self,
        topic: &str,
        mut record: TestRecord,
        transaction: Option<u64>,
    ) -> Result<(i32, i64), LogError> {
        let latest = self.latest_timestamp.unwrap_or(i64::MAX);
        let size = record.key.as_ref().map_or(0, Vec::len) + record.value.as_ref().map_or(0, Vec::len);
        let found = self.topic(topic)?;
        let count = found.partitions.len() as i32;
        if size > found.max_bytes {
            let reason = format!("{size} bytes, the topic takes {}", found.max_bytes);
            return Err(error(LogErrorKind::OutputRefused, topic, reason));
        }
        if transaction.is_some() && (record.timestamp < -1 || record.timestamp > latest) {
            let reason = format!("timestamp {} is not taken", record.timestamp);
            return Err(error(LogErrorKind::OutputRefused, topic, reason));
        }
        if record.partition < 0 {
            let of_key = |key: &Vec<u8>| (Partitioner::Murmur2.hash(key) % count.max(1) as u32) as i32;
            record.partition = record.key.as_ref().map_or(0, of_key);
        }
        let partition = found.partitions.get_mut(record.partition as usize);
        let partition =
            partition.ok_or_else(|| error(LogErrorKind::Fatal, topic, format!("no partition {}", record.partition)))?;
        record.offset = partition.start + partition.slots.len() as i64;
        let place = (record.partition, record.offset);
        partition.slots.push(Slot::Record(Arc::new(record), transaction));
        Ok(place)
    }

    fn finish(&mut self, name: &str, commit: bool) {
        let Some(open) = self.producers.get_mut(name).and_then(|p| p.open.take()) else {
            return;
        };
        let outcome = if commit { Outcome::Committed } else { Outcome::Aborted };
        self.transactions.insert(open.id, outcome);
        for (topic, partition) in &open.touched {
            let found = self
                .topics
                .get_mut(topic)
                .and_then(|t| t.partitions.get_mut(*partition as usize));
            if let Some(partition) = found {
                partition.slots.push(Slot::Gap);
            }
        }
        if let Some((group, entries)) = open.offsets.filter(|_| commit) {
            let offsets = self.groups.entry(group.clone()).or_default();
            for e in &entries {
                let key = (e.position.topic.clone(), e.position.partition);
                offsets.insert(key, (e.position.offset, Some(e.pointer.clone().into_bytes())));
            }
            self.commits.push(CommitRecord { group, entries });
        }
    }

    fn visible(&self, partition: &Partition, from: i64, max: usize) -> (Vec<Arc<TestRecord>>, i64) {
        let skip = usize::try_from(from - partition.start).unwrap_or(0);
        let (mut out, mut next) = (Vec::new(), from.max(partition.start));
        for slot in partition.slots.iter().skip(skip) {
            if out.len() == max {
                break;
            }
            match slot {
                Slot::Gap => {}
                Slot::Record(record, None) => out.push(record.clone()),
                Slot::Record(record, Some(id)) => match self.transactions.get(id) {
                    Some(Outcome::Committed) => out.push(record.clone()),
                    Some(Outcome::Aborted) => {}
                    _ => break,
                },
            }
            next += 1;
        }
        (out, next)
    }

    /// Aborts what has been open for too long, and fences its producer, as the broker's sweep does.
    fn sweep(&mut self, now: Duration) {
        let timeout = self.timeout;
        let late = |p: &Producer| p.open.as_ref().is_some_and(|t| now.saturating_sub(t.since) > timeout);
        let names: Vec<String> = self
            .producers
            .iter()
            .filter(|(_, p)| late(p))
            .map(|(n, _)| n.clone())
            .collect();
        names.iter().for_each(|name| self.fence(name));
    }

    fn fence(&mut self, name: &str) {
        self.finish(name, false);
        self.producers.entry(name.to_owned()).or_default().epoch += 1;
    }
}

impl MemoryBroker {
    /// A broker without topics. Transactions time out by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> MemoryBroker {
        let inner = Inner {
            timeout: TRANSACTION_TIMEOUT,
            ..Inner::default()
        };
        MemoryBroker {
            inner: Arc::new(Mutex::new(inner)),
            clock,
        }
    }

    pub(in crate::testing) fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    /// Makes a topic; one of that name is replaced, under a new id.
    pub fn create_topic(&self, name: &str, partitions: u32) {
        let mut inner = self.inner.lock();
        let generation = inner.topics.get(name).map_or(0, |t| t.id[0].wrapping_add(1));
        let mut id = Digest::of(name.as_bytes()).0;
        id[0] = generation;
        let topic = Topic {
            id,
            partitions: (0..partitions).map(|_| Partition::default()).collect(),
            max_bytes: MAX_BYTES,
        };
        inner.topics.insert(name.to_owned(), topic);
    }

    /// The topic refuses larger records from now on.
    pub fn set_max_bytes(&self, topic: &str, max_bytes: usize) {
        if let Ok(topic) = self.inner.lock().topic(topic) {
            topic.max_bytes = max_bytes;
        }
    }

    /// Outputs with a later timestamp are refused from now on, as a broker refuses what is too far ahead.
    pub fn refuse_timestamps_after(&self, latest: i64) {
        self.inner.lock().latest_timestamp = Some(latest);
    }

    /// How long a transaction may stay open.
    pub fn set_transaction_timeout(&self, timeout: Duration) {
        self.inner.lock().timeout = timeout;
    }

    /// Appends a record outside of any transaction; its partition is that of its key unless it names one. Returns partition and offset.
    ///
    /// # Errors
    /// A topic that does not exist, or a record that it does not take.
    pub fn produce(&self, topic: &str, record: TestRecord) -> Result<(i32, i64), LogError> {
        self.inner.lock().append(topic, record, None)
    }

    /// Appends a marker to a partition, as a foreign transaction or compaction would: an offset without a record.
    pub fn add_gap(&self, topic: &str, partition: i32) {
        let mut inner = self.inner.lock();
        if let Some(p) = inner
            .topics
            .get_mut(topic)
            .and_then(|t| t.partitions.get_mut(partition as usize))
        {
            p.slots.push(Slot::Gap);
        }
    }

    /// Everything that is committed, in order of partition and offset.
    #[must_use]
    pub fn records(&self, topic: &str) -> Vec<TestRecord> {
        let inner = self.inner.lock();
        let partitions = inner.topics.get(topic).map(|t| t.partitions.iter());
        let all = partitions.into_iter().flatten();
        all.flat_map(|p| inner.visible(p, p.start, usize::MAX).0)
            .map(|r| TestRecord::clone(&r))
            .collect()
    }

    /// What is committed for a group.
    #[must_use]
    pub fn offsets(&self, group: &str) -> Vec<Committed> {
        let inner = self.inner.lock();
        let entries = inner.groups.get(group).into_iter().flatten();
        let committed = entries.map(|((topic, partition), (offset, metadata))| Committed {
            topic: topic.clone(),
            partition: *partition,
            offset: Some(*offset),
            metadata: metadata.clone(),
        });
        committed.collect()
    }

    /// Removes what is committed for a group, as the offsets' retention does.
    pub fn lose_offsets(&self, group: &str) {
        self.inner.lock().groups.remove(group);
    }

    /// Sets what is committed for one partition, as an operator's tool does.
    pub fn set_offset(&self, group: &str, topic: &str, partition: i32, offset: i64, metadata: Option<&[u8]>) {
        let mut inner = self.inner.lock();
        let offsets = inner.groups.entry(group.to_owned()).or_default();
        offsets.insert((topic.to_owned(), partition), (offset, metadata.map(<[u8]>::to_vec)));
    }

    /// How far the last reader of a partition has come; its start before any.
    #[must_use]
    pub fn read_position(&self, topic: &str, partition: i32) -> i64 {
        let inner = self.inner.lock();
        inner.read.get(&(topic.to_owned(), partition)).copied().unwrap_or(0)
    }

    /// Every commit of offsets so far.
    #[must_use]
    pub fn commits(&self, group: &str) -> Vec<CommitRecord> {
        let inner = self.inner.lock();
        inner.commits.iter().filter(|c| c.group == group).cloned().collect()
    }

    /// Transactions that nobody has decided.
    #[must_use]
    pub fn open_transactions(&self) -> usize {
        self.inner
            .lock()
            .producers
            .values()
            .filter(|p| p.open.is_some())
            .count()
    }

    /// The broker's time-out strikes: what the producer of this name has open is aborted and the producer fenced.
    pub fn time_out(&self, transactional_id: &str) {
        self.inner.lock().fence(transactional_id);
    }

    /// The client has sent its last EndTxn twice, and the second one is still on its way: it arrives when offsets are sent next, and commits
    /// whatever the producer has open then, unless its epoch has moved on.
    pub fn repeat_end_late(&self, transactional_id: &str) {
        let mut inner = self.inner.lock();
        let epoch = inner.producers.get(transactional_id).map_or(0, |p| p.epoch);
        inner.late_end = Some((transactional_id.to_owned(), epoch));
    }

    /// Whether the group has a member that is not of the engine.
    pub fn set_group_member(&self, group: &str, member: bool) {
        let members = &mut self.inner.lock().members;
        if member {
            members.insert(group.to_owned());
        } else {
            members.remove(group);
        }
    }

    /// A source that reads the topic from its beginning.
    #[must_use]
    pub fn source(&self, topic: &str) -> Box<MemorySource> {
        Box::new(MemorySource::new(self.clone(), topic))
    }

    /// A sink's target with the topic's own limit.
    #[must_use]
    pub fn target(&self, topic: &str) -> LogTarget {
        let max = self.inner.lock().topics.get(topic).map_or(MAX_BYTES, |t| t.max_bytes);
        LogTarget {
            topic: topic.to_owned(),
            max_bytes: max,
        }
    }

    /// Makes a stage's log, as `process` reaches it.
    #[must_use]
    pub fn log(&self, process: Process) -> LogFactory {
        let broker = self.clone();
        Box::new(move |stage| Ok(Box::new(MemoryLog::new(broker, stage.clone(), process))))
    }
}
