//! Removes from the local copies what has outlived its time to live (docs/adr/0013).
//!
//! An entry has expired at a time when the timestamp in its envelope, that of its last change, lies its state's time to live before it or
//! longer. Reads hide such an entry by the record's time ([`super::TypedMap::get`]); here it is removed, a few at a time, after a section
//! has been applied. What is removed is not part of any section, so a restore may bring it back, hidden, until it is removed again.
use super::backend::Backend;
use super::changes::ChangeSet;
use super::key::StateId;
use super::{StateError, envelope};
use crate::types::{KeyGroups, Shard, TimestampMs};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// A time to live, compared with timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ttl(i64);

impl Ttl {
    /// Of a duration, to the millisecond.
    #[must_use]
    pub fn new(ttl: Duration) -> Ttl {
        Ttl(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
    }

    /// Whether an entry that was last changed at `changed` has expired at `now`.
    #[must_use]
    pub fn expired(self, changed: TimestampMs, now: TimestampMs) -> bool {
        changed.saturating_add(self.0) <= now
    }
}

/// Entries looked at per change of a state with a time to live: a pass over all entries then takes half as many changes as there are entries,
/// so that at most about as many wait for removal as are alive. Less would let more of them wait, more would cost every epoch for little.
const LOOKS_PER_CHANGE: usize = 2;
/// Looked at after a section however few changes it has: a state that nobody writes any more gets empty, too.
const LOOKS_MIN: usize = 256;
/// What it costs to find the next key group's entries, in entries looked at.
const LOOKS_PER_RANGE: usize = 16;

/// Where the sweep of a shard goes on.
#[derive(Debug, Clone, Default)]
struct Cursor {
    /// Which of the ranges: a state in a key group.
    range: usize,
    /// The key to go on from; None for the range's first.
    key: Option<Vec<u8>>,
}

/// States with a time to live, and how far each shard's sweep has come. Used by the one who applies sections.
#[derive(Debug)]
pub struct Expiry {
    groups: KeyGroups,
    states: Vec<(StateId, Ttl)>,
    cursors: Mutex<HashMap<Shard, Cursor>>,
}

impl Expiry {
    /// Of these states.
    #[must_use]
    pub fn new(groups: KeyGroups, states: Vec<(StateId, Ttl)>) -> Expiry {
        Expiry {
            groups,
            states,
            cursors: Mutex::default(),
        }
    }

    /// After a section of `shard` with these changes has been applied: looks at some entries and removes those that have expired at
    /// `horizon`, which is a watermark of the applied section or of an earlier one, and not ahead of any reader (EP-4). Returns how many were
    /// removed.
    ///
    /// # Errors
    /// [`StateError`]; what was not removed is looked at again later.
    pub fn sweep(
        &self,
        shard: Shard,
        backend: &dyn Backend,
        changes: &ChangeSet,
        horizon: Option<TimestampMs>,
    ) -> Result<usize, StateError> {
        let Some(horizon) = horizon.filter(|_| !self.states.is_empty()) else {
            return Ok(0);
        };
        let mut left = LOOKS_MIN + LOOKS_PER_CHANGE * self.changes_of_states(changes);
        let mut cursor = self.cursors.lock().get(&shard).cloned().unwrap_or_default();
        let mut removed = 0;
        let ranges = self.groups_of_a_shard() * self.states.len();
        // Each range once at most.
        for _ in 0..ranges {
            let (prefix, ttl) = self.range(shard, cursor.range);
            let from = cursor.key.take().unwrap_or_else(|| prefix.to_vec());
            let swept = backend.sweep(&from, &above(prefix), left, &|value| {
                // What is no envelope is damage, which the lane that reads it reports.
                envelope::parse(value).is_ok_and(|(changed, _)| ttl.expired(changed, horizon))
            })?;
            removed += swept.removed;
            left = left.saturating_sub(swept.looked_at + LOOKS_PER_RANGE);
            cursor.key = swept.next;
            if cursor.key.is_none() {
                cursor.range = (cursor.range + 1) % ranges;
            }
            if left == 0 {
                break;
            }
        }
        self.cursors.lock().insert(shard, cursor);
        Ok(removed)
    }

    fn changes_of_states(&self, changes: &ChangeSet) -> usize {
        let ours = |key: &[u8]| {
            let id = key.get(2..4).map(|id| u16::from_be_bytes([id[0], id[1]]));
            self.states.iter().any(|(state, _)| Some(state.0) == id)
        };
        changes.all().filter(|change| ours(change.key)).count()
    }

    /// Key groups of a shard: every `shards`-th.
    fn groups_of_a_shard(&self) -> usize {
        (self.groups.max_parallelism / self.groups.shards).max(1) as usize
    }

    /// The first bytes of the keys of a range, and its state's time to live. Ranges are numbered in the order of keys.
    fn range(&self, shard: Shard, range: usize) -> ([u8; 4], Ttl) {
        let (state, ttl) = self.states[range % self.states.len()];
        let group = shard.0 + self.groups.shards * (range / self.states.len()) as u32;
        let [g0, g1] = (group as u16).to_be_bytes();
        let [s0, s1] = state.0.to_be_bytes();
        ([g0, g1, s0, s1], ttl)
    }
}

/// The first bytes that are greater than every key with this prefix.
fn above(prefix: [u8; 4]) -> [u8; 4] {
    // Key group 0xffff is never given out.
    u32::from_be_bytes(prefix).saturating_add(1).to_be_bytes()
}
