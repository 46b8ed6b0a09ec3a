//! The typed map: one state of one lane, in memory, over the backends of the shards.
//!
//! A record costs a hash look-up and no allocation while its key is in the map; the misses of a batch are read together
//! ([`TypedMap::prefetch`]). Between barriers the map is the only place that knows the latest values: an entry is *pinned* (never evicted)
//! while dirty or in an epoch that has not been applied to the backend, because the backend still holds its older value.
//!
//! A backend need not take every epoch: what has changed since it took one *waits* here, pinned, and is handed over as it is by then. A key that
//! has changed in each of eight epochs is written once.
//!
//! Everything is called by the lane that owns the map. Epochs are numbers that grow over the map's life (a lane's barriers, not the `n`
//! of an epoch id, which starts again with each producer session).
use super::backend::Backend;
use super::changes::{ChangeSet, Since};
use super::envelope;
use super::key::{KeyRef, StateId, write_state_key};
use super::{StateError, Ttl, envelope::EnvelopeError};
use crate::types::{Codec, KeyGroups, Shard, TimestampMs};
pub use hand_over::Waiting;
use hand_over::WaitingEntries;
use std::sync::Arc;
use table::Table;

mod entry_key;
mod hand_over;
mod table;
#[cfg(test)]
mod tests;

/// Limits of one map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapLimits {
    /// High-water mark of the entries in bytes: [`TypedMap::maintain`] evicts down to it. What is pinned may exceed it; dirty bytes have
    /// a limit of their own, which asks for a barrier.
    pub bytes_max: usize,
}

/// An entry as it was before a change that may be undone: see [`TypedMap::update_keeping`].
#[derive(Debug, Clone)]
pub struct Kept<S> {
    value: Option<S>,
    timestamp: TimestampMs,
    dirty: bool,
}

/// What a map has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MapCounters {
    /// Keys looked up by `get`, `update`, `put` and `delete`.
    pub lookups: u64,
    /// Keys that were not in the map and were read from a backend, by a look-up or ahead of it.
    pub misses: u64,
    /// Entries evicted.
    pub evicted: u64,
}

impl MapCounters {
    /// Look-ups that no read from a backend was needed for.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.lookups.saturating_sub(self.misses)
    }
}

/// Is told what a map has done and holds, at the end of every batch.
pub trait MapObserver {
    /// The counters so far, the entries' bytes and number.
    fn batch(&mut self, counters: MapCounters, bytes: usize, entries: usize);
}

/// What `maintain` looks at however little was added, and per entry that was added: more than one, so that the clock's hand outruns
/// growth past second chances and pinned entries; a constant, so that a record's share of the work is bounded.
const EVICTION_STEPS_MIN: usize = 256;
const EVICTION_STEPS_PER_INSERT: usize = 8;

/// One state of one lane: see the module.
pub struct TypedMap<S> {
    state: StateId,
    name: String,
    codec: Arc<dyn Codec<S>>,
    groups: KeyGroups,
    backends: Vec<Arc<dyn Backend>>,
    limits: MapLimits,
    ttl: Option<Ttl>,
    table: Table<S>,
    /// Slots of the dirty entries, each once.
    dirty: Vec<u32>,
    dirty_bytes: usize,
    /// What waits, by shard.
    waiting: Vec<WaitingEntries>,
    /// Everything pinned until this epoch or an earlier one is in the backends.
    applied: u64,
    /// Entries added since the last `maintain`.
    inserted: usize,
    /// Bytes of the entries that were read or changed since [`TypedMap::take_touched`].
    touched_bytes: usize,
    /// Mean length of what was encoded last.
    typical_len: usize,
    counters: MapCounters,
    observer: Option<Box<dyn MapObserver>>,
    /// Kept for their allocations.
    pending: Vec<u32>,
    found: Vec<Option<u32>>,
    /// Slots of the keys that were prefetched last, and which of them is expected next.
    ahead: Vec<u32>,
    next: usize,
    key_arena: Vec<u8>,
    values: Vec<Option<Vec<u8>>>,
}

impl<S> TypedMap<S> {
    /// An empty map. `name` is `operator/state`, for errors; `backends` is indexed by shard.
    #[must_use]
    pub fn new(
        state: StateId,
        name: impl Into<String>,
        codec: Arc<dyn Codec<S>>,
        groups: KeyGroups,
        backends: Vec<Arc<dyn Backend>>,
        limits: MapLimits,
    ) -> Self {
        TypedMap {
            state,
            name: name.into(),
            codec,
            groups,
            backends,
            limits,
            ttl: None,
            table: Table::new(),
            dirty: Vec::new(),
            dirty_bytes: 0,
            waiting: vec![WaitingEntries::default(); groups.shards as usize],
            applied: 0,
            inserted: 0,
            touched_bytes: 0,
            typical_len: 0,
            counters: MapCounters::default(),
            observer: None,
            pending: Vec::new(),
            found: Vec::new(),
            ahead: Vec::new(),
            next: 0,
            key_arena: Vec::new(),
            values: Vec::new(),
        }
    }

    /// Tells `observer` of every batch.
    #[must_use]
    pub fn observed_by(mut self, observer: Box<dyn MapObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// The same map with a time to live: [`TypedMap::get`] and [`TypedMap::update_keeping`] take what has expired for absent. It stays in the
    /// map, and the local copy may lose it at any time from then on.
    #[must_use]
    pub fn with_ttl(self, ttl: Ttl) -> Self {
        TypedMap { ttl: Some(ttl), ..self }
    }

    /// Reads those of the keys that are not in the map, together. Called before their records, with so few that the entries are still in the
    /// processor's cache when their records come.
    ///
    /// # Errors
    /// [`StateError`]; none of the missing keys is in the map then.
    pub fn prefetch(&mut self, keys: &[KeyRef<'_>]) -> Result<(), StateError> {
        let mut found = std::mem::take(&mut self.found);
        self.table.find_all(keys, &mut found);
        self.ahead.clear();
        self.next = 0;
        for (key, slot) in keys.iter().zip(&found) {
            // The same key may have come before.
            let slot = slot.or_else(|| self.table.find(*key));
            let slot = slot.unwrap_or_else(|| self.insert_pending(*key));
            self.ahead.push(slot);
        }
        self.found = found;
        self.load_pending()
    }

    /// The value and timestamp of a key; None when it is absent, or has expired at `now`.
    ///
    /// # Errors
    /// [`StateError`] of a read; never "absent" for a read that failed.
    pub fn get(&mut self, key: KeyRef<'_>, now: TimestampMs) -> Result<Option<(&S, TimestampMs)>, StateError> {
        let slot = self.locate(key)?;
        let entry = self.table.entry(slot);
        self.touched_bytes += entry.bytes();
        let alive = entry.value.as_ref().filter(|_| !self.expired(entry.timestamp, now));
        Ok(alive.map(|value| (value, entry.timestamp)))
    }

    fn expired(&self, changed: TimestampMs, now: TimestampMs) -> bool {
        self.ttl.is_some_and(|ttl| ttl.expired(changed, now))
    }

    /// Changes a key's value in place; None is absent. Returns what `f` returns, and the entry's timestamp after the change: the largest
    /// that the key has seen (an absent key starts from `timestamp`).
    ///
    /// # Errors
    /// [`StateError`] of a read; `f` was not called then.
    pub fn update<R>(
        &mut self,
        key: KeyRef<'_>,
        timestamp: TimestampMs,
        f: impl FnOnce(&mut Option<S>) -> R,
    ) -> Result<(R, TimestampMs), StateError> {
        let slot = self.locate(key)?;
        let entry = self.table.entry_mut(slot);
        let was_present = entry.value.is_some();
        let result = f(&mut entry.value);
        let timestamp = self.changed(slot, was_present, timestamp);
        Ok((result, timestamp))
    }

    /// [`TypedMap::update`] that takes what has expired at `timestamp` for absent, and keeps the entry as it was in `before`, unless `before`
    /// keeps something already: for [`TypedMap::restore`], after any number of changes to the same key.
    ///
    /// # Errors
    /// As [`TypedMap::update`].
    pub fn update_keeping<R>(
        &mut self,
        key: KeyRef<'_>,
        timestamp: TimestampMs,
        before: &mut Option<Kept<S>>,
        f: impl FnOnce(&mut Option<S>) -> R,
    ) -> Result<R, StateError>
    where
        S: Clone,
    {
        let slot = self.locate(key)?;
        let entry = self.table.entry_mut(slot);
        if before.is_none() {
            *before = Some(Kept {
                value: entry.value.clone(),
                timestamp: entry.timestamp,
                dirty: entry.dirty,
            });
        }
        let expired = if self.ttl.is_some_and(|ttl| ttl.expired(entry.timestamp, timestamp)) {
            entry.value.take()
        } else {
            None
        };
        let was_present = entry.value.is_some();
        let result = f(&mut entry.value);
        if expired.is_some() && entry.value.is_none() {
            // Nothing has changed, and another record's time may be before its end.
            entry.value = expired;
        } else {
            self.changed(slot, was_present, timestamp);
        }
        Ok(result)
    }

    /// Makes the entry of a key what it was when [`TypedMap::update_keeping`] kept it: value, timestamp, and whether it is to be written.
    /// Between the two no barrier and no batch has ended.
    ///
    /// # Errors
    /// [`StateError`] of a read.
    pub fn restore(&mut self, key: KeyRef<'_>, before: Kept<S>) -> Result<(), StateError> {
        let slot = self.locate(key)?;
        let entry = self.table.entry_mut(slot);
        entry.value = before.value;
        entry.timestamp = before.timestamp;
        self.weigh(slot);
        let entry = self.table.entry_mut(slot);
        if entry.dirty && !before.dirty {
            entry.dirty = false;
            self.dirty_bytes -= entry.bytes();
            // It was added by the changes that are undone: at the end, or near it.
            if let Some(at) = self.dirty.iter().rposition(|s| *s == slot) {
                self.dirty.swap_remove(at);
            }
        }
        Ok(())
    }

    /// [`TypedMap::update`] with an `f` that may fail: the entry is left as it was then. Copies the value first.
    ///
    /// # Errors
    /// Outside, [`StateError`] of a read (`f` was not called then); inside, what `f` returned.
    pub fn try_update<R, E>(
        &mut self,
        key: KeyRef<'_>,
        timestamp: TimestampMs,
        f: impl FnOnce(&mut Option<S>) -> Result<R, E>,
    ) -> Result<Result<(R, TimestampMs), E>, StateError>
    where
        S: Clone,
    {
        let slot = self.locate(key)?;
        let entry = self.table.entry_mut(slot);
        let before = entry.value.clone();
        match f(&mut entry.value) {
            Ok(result) => {
                let timestamp = self.changed(slot, before.is_some(), timestamp);
                Ok(Ok((result, timestamp)))
            }
            Err(e) => {
                entry.value = before;
                Ok(Err(e))
            }
        }
    }

    /// [`TypedMap::try_update`] without a copy: an `f` that fails has left the value as it was.
    ///
    /// # Errors
    /// As [`TypedMap::try_update`].
    pub fn update_unless<R, E>(
        &mut self,
        key: KeyRef<'_>,
        timestamp: TimestampMs,
        f: impl FnOnce(&mut Option<S>) -> Result<R, E>,
    ) -> Result<Result<(R, TimestampMs), E>, StateError> {
        let slot = self.locate(key)?;
        let entry = self.table.entry_mut(slot);
        let was_present = entry.value.is_some();
        let result = f(&mut entry.value);
        Ok(result.map(|result| (result, self.changed(slot, was_present, timestamp))))
    }

    /// Sets a key's value; returns the entry's timestamp as [`TypedMap::update`] does.
    ///
    /// # Errors
    /// [`StateError`] of a read: the key's timestamp counts.
    pub fn put(&mut self, key: KeyRef<'_>, timestamp: TimestampMs, value: S) -> Result<TimestampMs, StateError> {
        self.update(key, timestamp, |old| *old = Some(value))
            .map(|((), timestamp)| timestamp)
    }

    /// Deletes a key; true when it was present.
    ///
    /// # Errors
    /// [`StateError`] of a read.
    pub fn delete(&mut self, key: KeyRef<'_>, timestamp: TimestampMs) -> Result<bool, StateError> {
        self.update(key, timestamp, |value| value.take().is_some())
            .map(|(was_present, _)| was_present)
    }

    /// Epochs up to `epoch` have been applied to the backends of the shards that took them: their entries may be evicted from now on.
    pub fn applied(&mut self, epoch: u64) {
        self.applied = self.applied.max(epoch);
    }

    /// Evicts what is over the limit. Called by the lane between batches; the work is proportional to what the batch added. A map that
    /// stays well over its limit is full of pinned entries: a barrier and its apply make room.
    pub fn maintain(&mut self) {
        let inserted = std::mem::take(&mut self.inserted);
        let steps = EVICTION_STEPS_MIN.max(inserted.saturating_mul(EVICTION_STEPS_PER_INSERT));
        self.counters.evicted += self.table.evict(self.limits.bytes_max, self.applied, steps);
        if let Some(observer) = &mut self.observer {
            observer.batch(self.counters, self.table.bytes(), self.table.len());
        }
    }

    /// Estimate of the memory that the entries take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.table.bytes()
    }

    /// Estimate of the memory that the dirty entries take in the map: [`TypedMap::bytes`] without the others. What the map adds to each is
    /// most of a small one. A value counts with what its codec says of it ([`Codec::weight`]), else with its last encoded length.
    #[must_use]
    pub fn dirty_bytes(&self) -> usize {
        self.dirty_bytes
    }

    /// Bytes of the entries that were read or changed since the last call, each as often as it was: what records bring into memory.
    pub fn take_touched(&mut self) -> usize {
        std::mem::take(&mut self.touched_bytes)
    }

    /// Number of entries in memory, with those that are known to be absent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// No entries in memory.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What the map has done so far.
    #[must_use]
    pub fn counters(&self) -> MapCounters {
        self.counters
    }

    /// Finds a key's entry or reads it.
    fn locate(&mut self, key: KeyRef<'_>) -> Result<u32, StateError> {
        self.counters.lookups += 1;
        if let Some(slot) = self.expected(key).or_else(|| self.table.find(key)) {
            return Ok(slot);
        }
        let slot = self.insert_pending(key);
        self.load_pending()?;
        Ok(slot)
    }

    /// The slot of a key that was prefetched and comes in its order: the next one, the last one again, or the one behind one that was left out.
    fn expected(&mut self, key: KeyRef<'_>) -> Option<u32> {
        for at in [self.next, self.next.wrapping_sub(1), self.next + 1] {
            let Some(&slot) = self.ahead.get(at) else { continue };
            if self.table.holds(slot, key) {
                self.next = at + 1;
                return Some(slot);
            }
        }
        None
    }

    /// Notes what an entry's value takes now, where its codec knows.
    fn weigh(&mut self, slot: u32) {
        let value = self.table.entry(slot).value.as_ref();
        if let Some(weight) = value.and_then(|value| self.codec.weight(value)) {
            self.set_weight(slot, weight);
        }
    }

    /// Sets what an entry's value takes. What is dirty counts with it, and what waits.
    fn set_weight(&mut self, slot: u32, weight: usize) {
        let before = self.table.entry(slot).bytes();
        self.table.set_weight(slot, weight);
        let entry = self.table.entry(slot);
        if entry.dirty {
            self.dirty_bytes = self.dirty_bytes - before + entry.bytes();
        }
        if entry.waits() {
            let waiting = &mut self.waiting[self.groups.shard_of(entry.group).0 as usize];
            waiting.bytes = waiting.bytes - before + entry.bytes();
        }
    }

    /// Notes a change: sets the entry's timestamp, weight and dirty mark.
    fn changed(&mut self, slot: u32, was_present: bool, timestamp: TimestampMs) -> TimestampMs {
        let entry = self.table.entry_mut(slot);
        if was_present {
            entry.timestamp = entry.timestamp.max(timestamp);
        } else {
            entry.timestamp = timestamp;
        }
        let timestamp = entry.timestamp;
        let is_present = entry.value.is_some();
        if is_present && !was_present && self.typical_len > entry.weight as usize {
            self.set_weight(slot, self.typical_len);
        }
        self.weigh(slot);
        let entry = self.table.entry_mut(slot);
        self.touched_bytes += entry.bytes();
        if (was_present || is_present) && !entry.dirty {
            entry.dirty = true;
            self.dirty_bytes += entry.bytes();
            self.dirty.push(slot);
        }
        timestamp
    }

    /// Adds an absent entry that [`TypedMap::load_pending`] fills in, so that a key that comes twice in a batch is read once.
    fn insert_pending(&mut self, key: KeyRef<'_>) -> u32 {
        // Until a value has been encoded, its size in memory is the best guess.
        let slot = self
            .table
            .insert(key, u32::try_from(std::mem::size_of::<S>()).unwrap_or(u32::MAX));
        self.inserted += 1;
        self.counters.misses += 1;
        self.pending.push(slot);
        slot
    }

    /// Fills in the pending entries, or removes them all.
    fn load_pending(&mut self) -> Result<(), StateError> {
        let mut pending = std::mem::take(&mut self.pending);
        let (table, groups) = (&self.table, self.groups);
        let shard_of = |slot: &u32| groups.shard_of(table.entry(*slot).group);
        pending.sort_unstable_by_key(shard_of);
        let shards: Vec<(Shard, usize)> = pending
            .chunk_by(|a, b| shard_of(a) == shard_of(b))
            .map(|run| (shard_of(&run[0]), run.len()))
            .collect();
        let mut rest = pending.as_slice();
        let loaded = shards.into_iter().try_for_each(|(shard, len)| {
            let (run, tail) = rest.split_at(len);
            rest = tail;
            self.load_shard(shard, run)
        });
        if loaded.is_err() {
            pending.iter().for_each(|slot| self.table.remove(*slot));
        }
        pending.clear();
        self.pending = pending;
        loaded
    }

    fn load_shard(&mut self, shard: Shard, slots: &[u32]) -> Result<(), StateError> {
        self.key_arena.clear();
        let mut ends = Vec::with_capacity(slots.len());
        for slot in slots {
            let entry = self.table.entry(*slot);
            write_state_key(entry.group, self.state, &entry.key, b"", &mut self.key_arena);
            ends.push(self.key_arena.len());
        }
        let mut start = 0;
        let keys: Vec<&[u8]> = ends
            .iter()
            .map(|end| &self.key_arena[std::mem::replace(&mut start, *end)..*end])
            .collect();
        let mut values = std::mem::take(&mut self.values);
        self.backends[shard.0 as usize].get_many(&keys, &mut values)?;
        assert_eq!(values.len(), slots.len(), "invariant: a backend answers every key");
        for (slot, value) in slots.iter().zip(values.drain(..)) {
            if let Some(bytes) = value {
                self.fill(shard, *slot, &bytes)?;
            }
        }
        self.values = values;
        Ok(())
    }

    /// Decodes what a backend holds for an entry.
    fn fill(&mut self, shard: Shard, slot: u32, bytes: &[u8]) -> Result<(), StateError> {
        let (timestamp, encoded) = envelope::parse(bytes).map_err(|e| self.envelope_error(shard, e))?;
        let value = self.codec.decode(encoded).map_err(|e| self.codec_error(&e))?;
        let entry = self.table.entry_mut(slot);
        entry.timestamp = timestamp;
        entry.value = Some(value);
        self.table.set_weight(slot, encoded.len());
        self.weigh(slot);
        Ok(())
    }

    fn codec_error(&self, error: &crate::types::CodecError) -> StateError {
        StateError::Codec {
            state: self.name.clone(),
            reason: error.to_string(),
        }
    }

    /// Another program's format is no damage: a copy that is restored would hold it again.
    fn envelope_error(&self, shard: Shard, error: EnvelopeError) -> StateError {
        match error {
            EnvelopeError::Newer(_) => StateError::Format {
                state: self.name.clone(),
                reason: error.to_string(),
            },
            EnvelopeError::Damaged { .. } => {
                self.backends[shard.0 as usize].damaged(format!("state {}: {error}", self.name))
            }
        }
    }
}
