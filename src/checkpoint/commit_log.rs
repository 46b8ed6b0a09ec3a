//! A [`Log`] in the checkpoint store, for stages without a Kafka source: a commit creates the next of a row of numbered records.
//!
//! The highest number is the truth, and who finds its number taken has been fenced. Opening a session writes a record too: it repeats
//! the one before under the new session's number, so that whoever held the name finds its next number taken, and a put of its that is
//! still under way can no longer take effect. Format in docs/format/store.md.
use super::store::{Layout, Store, StoreError, StoreErrorKind};
use crate::sink::{CommitEntry, Committed, EagerSender, Log, LogError, LogErrorKind, PointerReader};
use crate::types::{Assignment, Digest, OutputRef};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
mod tests;

const FORMAT: u32 = 1;
/// How often opening a session tries for a number before it reports that the name is fought over. One rival commits about once a
/// second, so a few tries are plenty; without a bound two sessions could go on for ever.
const OPEN_TRIES: u32 = 16;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    session: String,
    entries: Vec<Entry>,
    digest: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    topic: String,
    partition: i32,
    offset: i64,
    pointer: String,
}

impl Record {
    fn new(session: u64, entries: Vec<Entry>) -> Record {
        Record {
            format: FORMAT,
            session: format!("{session:016x}"),
            entries,
            digest: String::new(),
        }
    }

    fn encode(mut self) -> Result<Vec<u8>, serde_json::Error> {
        self.digest.clear();
        self.digest = Digest::of(&serde_json::to_vec(&self)?).to_string();
        let mut text = serde_json::to_vec(&self)?;
        text.push(b'\n');
        Ok(text)
    }

    fn decode(bytes: &[u8]) -> Result<Record, String> {
        let record: Record = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
        if record.format != FORMAT {
            return Err(format!(
                "it has format {}, this version knows format {FORMAT}",
                record.format
            ));
        }
        match record.clone().encode() {
            Ok(again) if again == bytes => Ok(record),
            Ok(_) => Err("its digest does not fit its text".to_owned()),
            Err(e) => Err(e.to_string()),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    /// A session, with the number of the last record that it has seen or written.
    Open {
        session: u64,
        last: u64,
    },
}

/// Where the records lie.
#[derive(Clone)]
struct Records {
    store: Arc<dyn Store>,
    layout: Layout,
}

impl Records {
    fn highest(&self) -> Result<Option<(u64, Record)>, LogError> {
        let listed = self.store.list(&self.layout.commits()).map_err(|e| read_error(&e))?;
        let Some(number) = listed.iter().filter_map(|(path, _)| self.layout.commit_of(path)).max() else {
            return Ok(None);
        };
        let path = self.layout.commit(number);
        let bytes = self.store.get(&path).map_err(|e| match e.kind() {
            // There is a higher one since, and this one was collected.
            StoreErrorKind::NotFound => error(LogErrorKind::Retriable, "read the commit records", e),
            _ => read_error(&e),
        })?;
        let damaged = |reason: String| {
            let way_out = "bring the record back from a copy of the checkpoint store";
            error(
                LogErrorKind::Fatal,
                format!("commit record {path}"),
                format!("{reason}; {way_out}"),
            )
        };
        Record::decode(&bytes)
            .map(|record| Some((number, record)))
            .map_err(damaged)
    }

    fn committed(&self, partitions: &[(String, i32)]) -> Result<Vec<Committed>, LogError> {
        let entries = self.highest()?.map(|(_, record)| record.entries).unwrap_or_default();
        let find = |topic: &str, partition: i32| entries.iter().find(|e| e.topic == topic && e.partition == partition);
        let surplus = entries
            .iter()
            .filter(|e| !partitions.iter().any(|(t, p)| *t == e.topic && *p == e.partition));
        let wanted = partitions.iter().map(|(topic, partition)| Committed {
            topic: topic.clone(),
            partition: *partition,
            offset: find(topic, *partition).map(|e| e.offset),
            metadata: find(topic, *partition).map(|e| e.pointer.clone().into_bytes()),
        });
        let surplus = surplus.map(|e| Committed {
            topic: e.topic.clone(),
            partition: e.partition,
            offset: Some(e.offset),
            metadata: Some(e.pointer.clone().into_bytes()),
        });
        Ok(wanted.chain(surplus).collect())
    }
}

impl PointerReader for Records {
    fn committed(&mut self, of: &[(String, i32)], _: Duration) -> Result<Vec<Committed>, LogError> {
        // A record is there or not: nothing is ever undecided.
        Records::committed(self, of)
    }
}

/// The log of a stage without a Kafka source.
pub struct StoreLog {
    records: Records,
    partitions: Vec<(String, i32)>,
    state: State,
    /// Entries of the last record that this session has seen or written.
    known: Vec<Entry>,
    transaction: Option<Vec<Entry>>,
}

const NO_GROUPS: &str =
    "the checkpoint store has no consumer groups: a stage without a Kafka source runs in single mode";

fn error(kind: LogErrorKind, context: impl Into<String>, reason: impl ToString) -> LogError {
    LogError {
        kind,
        context: context.into(),
        reason: reason.to_string(),
    }
}

/// As with a consumer group's offsets, a commit leaves the partitions alone that it does not name.
fn merged(known: &[Entry], changed: Vec<Entry>) -> Vec<Entry> {
    let replaced = |old: &Entry| {
        changed
            .iter()
            .any(|new| new.topic == old.topic && new.partition == old.partition)
    };
    let mut out: Vec<Entry> = known.iter().filter(|old| !replaced(old)).cloned().collect();
    out.extend(changed);
    out.sort_by(|a, b| (&a.topic, a.partition).cmp(&(&b.topic, b.partition)));
    out
}

/// Reading changes nothing, so a failed read may always be repeated when the store says so.
fn read_error(e: &StoreError) -> LogError {
    let kind = match e.kind() {
        StoreErrorKind::Retriable => LogErrorKind::Retriable,
        _ => LogErrorKind::Fatal,
    };
    error(kind, "read the commit records", e)
}

impl StoreLog {
    /// `partitions` are all that the stage reads, in the order in which [`Log::committed`] reports them.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, layout: Layout, partitions: Vec<(String, i32)>) -> StoreLog {
        StoreLog {
            records: Records { store, layout },
            partitions,
            state: State::Closed,
            known: Vec::new(),
            transaction: None,
        }
    }

    fn put(&self, number: u64, record: Record) -> Result<(), StoreError> {
        let path = self.records.layout.commit(number);
        let bytes = record.encode().map_err(|e| StoreError::Fatal {
            path: path.to_string(),
            reason: e.to_string(),
        })?;
        self.records.store.put_new(&path, &[&bytes])
    }

    fn take_over(&mut self, session: u64) -> Result<bool, LogError> {
        let highest = self.records.highest()?;
        let number = highest.as_ref().map_or(Some(0), |(n, _)| n.checked_add(1));
        let number =
            number.ok_or_else(|| error(LogErrorKind::Fatal, "open a session", "commit numbers are used up"))?;
        let entries = highest.map(|(_, record)| record.entries).unwrap_or_default();
        match self.put(number, Record::new(session, entries.clone())) {
            Ok(()) => {
                self.state = State::Open { session, last: number };
                self.known = entries;
                Ok(true)
            }
            Err(e) => match e.kind() {
                StoreErrorKind::AlreadyExists => Ok(false),
                StoreErrorKind::Retriable => Err(error(LogErrorKind::Retriable, "open a session", e)),
                _ => Err(error(LogErrorKind::Fatal, "open a session", e)),
            },
        }
    }

    fn in_transaction(&mut self, call: &str) -> Result<&mut Vec<Entry>, LogError> {
        let outside = || error(LogErrorKind::Fatal, call, "no transaction is open");
        self.transaction.as_mut().ok_or_else(outside)
    }
}

impl Log for StoreLog {
    fn open_session(&mut self) -> Result<(), LogError> {
        self.close();
        let drawn = super::store::random();
        let session = drawn.map_err(|e| error(LogErrorKind::Retriable, "draw a session number", e))?;
        for _ in 0..OPEN_TRIES {
            if self.take_over(session)? {
                return Ok(());
            }
        }
        let reason = "another process takes every number first; stop it, or give the jobs different ids";
        Err(error(LogErrorKind::Retriable, "open a session", reason))
    }

    fn committed(&mut self) -> Result<Vec<Committed>, LogError> {
        self.records.committed(&self.partitions)
    }

    fn glance(&mut self) -> Result<Vec<Committed>, LogError> {
        // A record is there or not: nothing is ever undecided.
        self.committed()
    }

    fn group_has_members(&mut self) -> Result<bool, LogError> {
        Ok(false)
    }

    fn assign(&mut self, _: &Assignment) -> Result<(), LogError> {
        Err(error(LogErrorKind::Fatal, "join a group", NO_GROUPS))
    }

    fn pointer_reader(&mut self) -> Result<Box<dyn PointerReader>, LogError> {
        Ok(Box::new(self.records.clone()))
    }

    fn begin(&mut self) -> Result<(), LogError> {
        if self.state == State::Closed {
            return Err(error(LogErrorKind::SessionLost, "begin", "no session is open"));
        }
        if self.transaction.is_some() {
            return Err(error(LogErrorKind::Fatal, "begin", "a transaction is open already"));
        }
        self.transaction = Some(Vec::new());
        Ok(())
    }

    fn send(&mut self, _output: &OutputRef<'_>) -> Result<(), LogError> {
        let reason = "a stage without a Kafka source cannot write to Kafka in this version";
        Err(error(LogErrorKind::Fatal, "send an output", reason))
    }

    fn drain(&mut self) -> Result<(), LogError> {
        self.in_transaction("drain").map(|_| ())
    }

    fn send_offsets(&mut self, entries: &[CommitEntry]) -> Result<(), LogError> {
        let buffer = self.in_transaction("send offsets")?;
        buffer.clear();
        buffer.extend(entries.iter().map(|e| Entry {
            topic: e.position.topic.clone(),
            partition: e.position.partition,
            offset: e.position.offset,
            pointer: e.pointer.clone(),
        }));
        Ok(())
    }

    fn commit(&mut self) -> Result<(), LogError> {
        let State::Open { session, last } = self.state else {
            return Err(error(LogErrorKind::SessionLost, "commit", "no session is open"));
        };
        let changed = self.in_transaction("commit")?.clone();
        if changed.is_empty() {
            self.transaction = None;
            return Ok(());
        }
        let entries = merged(&self.known, changed);
        let number = last + 1;
        let context = || format!("commit record {}", self.records.layout.commit(number));
        let failed = match self.put(number, Record::new(session, entries.clone())) {
            Ok(()) => {
                self.known = entries;
                self.transaction = None;
                self.state = State::Open { session, last: number };
                return Ok(());
            }
            Err(e) if e.kind() == StoreErrorKind::AlreadyExists => {
                error(LogErrorKind::Fenced, context(), "another instance has taken the number")
            }
            Err(e) => error(LogErrorKind::SessionLost, context(), e),
        };
        self.close();
        Err(failed)
    }

    fn abort(&mut self) -> Result<(), LogError> {
        self.transaction = None;
        Ok(())
    }

    fn session_is_suspect(&self) -> bool {
        false
    }

    fn eager_sender(&mut self) -> Result<Option<Box<dyn EagerSender>>, LogError> {
        Ok(None)
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.transaction = None;
    }
}
