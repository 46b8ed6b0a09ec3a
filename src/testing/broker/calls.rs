//! What logs and sources of one process call.
use super::{Inner, MemoryBroker, Outcome, Partition, Producer, Transaction, error};
use crate::sink::{CommitEntry, Committed, LogError, LogErrorKind};
use crate::testing::record::TestRecord;
use crate::types::GroupMember;
use std::collections::BTreeSet;
use std::sync::Arc;

impl MemoryBroker {
    pub(in crate::testing) fn open_session(&self, name: &str) -> u64 {
        let mut inner = self.inner.lock();
        inner.fence(name);
        inner.producers.get(name).map_or(0, |p| p.epoch)
    }

    /// Stable: an undecided transaction with offsets of these partitions must be waited for.
    pub(in crate::testing) fn stable_offsets(
        &self,
        group: &str,
        partitions: &[(String, i32)],
    ) -> Result<Vec<Committed>, LogError> {
        let mut inner = self.inner.lock();
        inner.sweep(self.clock.elapsed());
        let asked: BTreeSet<(&str, i32)> = partitions.iter().map(|(t, p)| (t.as_str(), *p)).collect();
        let touches = |e: &CommitEntry| asked.contains(&(e.position.topic.as_str(), e.position.partition));
        let pending = |p: &Producer| {
            let offsets = p.open.as_ref().and_then(|t| t.offsets.as_ref());
            offsets.is_some_and(|(g, entries)| g == group && entries.iter().any(touches))
        };
        if inner.producers.values().any(pending) {
            return Err(error(LogErrorKind::Retriable, group, "unstable offsets"));
        }
        drop(inner);
        Ok(self.decided_offsets(group, partitions))
    }

    /// What was committed last, whether or not a transaction is undecided.
    pub(in crate::testing) fn decided_offsets(&self, group: &str, partitions: &[(String, i32)]) -> Vec<Committed> {
        let inner = self.inner.lock();
        let offsets = inner.groups.get(group);
        let committed = |(topic, partition): &(String, i32)| {
            let found = offsets.and_then(|o| o.get(&(topic.clone(), *partition)));
            Committed {
                topic: topic.clone(),
                partition: *partition,
                offset: found.map(|(offset, _)| *offset),
                metadata: found.and_then(|(_, metadata)| metadata.clone()),
            }
        };
        partitions.iter().map(committed).collect()
    }

    fn in_transaction<T>(
        &self,
        name: &str,
        epoch: u64,
        act: impl FnOnce(&mut Inner, u64) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        let mut inner = self.inner.lock();
        let now = self.clock.elapsed();
        inner.sweep(now);
        let next = inner.transactions.len() as u64;
        let producer = inner.producers.entry(name.to_owned()).or_default();
        if producer.epoch != epoch {
            return Err(error(LogErrorKind::Fenced, name, "a newer session has this name"));
        }
        let open = producer.open.get_or_insert_with(|| Transaction {
            id: next,
            since: now,
            touched: BTreeSet::new(),
            offsets: None,
        });
        let id = open.id;
        inner.transactions.entry(id).or_insert(Outcome::Open);
        act(&mut inner, id)
    }

    pub(in crate::testing) fn send(
        &self,
        name: &str,
        epoch: u64,
        topic: &str,
        record: TestRecord,
    ) -> Result<(), LogError> {
        self.in_transaction(name, epoch, |inner, id| {
            let (partition, _) = inner.append(topic, record, Some(id))?;
            if let Some(open) = inner.producers.get_mut(name).and_then(|p| p.open.as_mut()) {
                open.touched.insert((topic.to_owned(), partition));
            }
            Ok(())
        })
    }

    /// Adds offsets to the transaction; in group mode only as a member of the current generation.
    pub(in crate::testing) fn send_offsets(
        &self,
        (name, epoch): (&str, u64),
        (group, member): (&str, Option<&GroupMember>),
        entries: &[CommitEntry],
    ) -> Result<(), LogError> {
        let late = self.inner.lock().late_end.take();
        if let Some((late_name, late_epoch)) = late {
            // Fenced or without a transaction: it does nothing.
            let _ = self.end(&late_name, late_epoch, true);
        }
        self.in_transaction(name, epoch, |inner, _| {
            member.map_or(Ok(()), |m| inner.check_member(group, m))?;
            if let Some(open) = inner.producers.get_mut(name).and_then(|p| p.open.as_mut()) {
                open.offsets = Some((group.to_owned(), entries.to_vec()));
            }
            Ok(())
        })
    }

    pub(in crate::testing) fn end(&self, name: &str, epoch: u64, commit: bool) -> Result<(), LogError> {
        self.in_transaction(name, epoch, |inner, _| {
            inner.finish(name, commit);
            Ok(())
        })
    }
}

impl MemoryBroker {
    pub(in crate::testing) fn topic_info(&self, name: &str) -> Option<([u8; 16], u32)> {
        let inner = self.inner.lock();
        inner.topics.get(name).map(|t| (t.id, t.partitions.len() as u32))
    }

    /// First offset and the one after the last, by partition.
    pub(in crate::testing) fn bounds(&self, name: &str) -> Vec<(i64, i64)> {
        let inner = self.inner.lock();
        let bounds = |p: &Partition| (p.start, p.start + p.slots.len() as i64);
        inner
            .topics
            .get(name)
            .map(|t| t.partitions.iter().map(bounds).collect())
            .unwrap_or_default()
    }

    /// Visible records from an offset on, and where to go on.
    pub(in crate::testing) fn fetch(
        &self,
        topic: &str,
        partition: i32,
        from: i64,
        max: usize,
    ) -> (Vec<Arc<TestRecord>>, i64) {
        let inner = self.inner.lock();
        let found = inner
            .topics
            .get(topic)
            .and_then(|t| t.partitions.get(partition as usize));
        found.map_or((Vec::new(), from), |p| inner.visible(p, from, max))
    }

    pub(in crate::testing) fn note_read(&self, topic: &str, partition: i32, next: i64) {
        self.inner.lock().read.insert((topic.to_owned(), partition), next);
    }

    /// Whether readers have handed out everything that is visible in the topic.
    pub(in crate::testing) fn is_read(&self, topic: &str) -> bool {
        let inner = self.inner.lock();
        let Some(found) = inner.topics.get(topic) else {
            return true;
        };
        found.partitions.iter().enumerate().all(|(i, p)| {
            let read = inner
                .read
                .get(&(topic.to_owned(), i as i32))
                .copied()
                .unwrap_or(p.start);
            inner.visible(p, read, 1) == (Vec::new(), read)
        })
    }
}
