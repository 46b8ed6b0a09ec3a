//! What a map hands over at a barrier, and what waits in it until the local copies take it.
use super::table::WAITING;
use super::{ChangeSet, Since, StateError, TypedMap, envelope, write_state_key};
use crate::state::envelope::HEADER_BYTES;
use crate::types::{Shard, Shards};

/// Changes that are part of epochs, and that the local copies have yet to be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Waiting {
    /// Entries.
    pub entries: u64,
    /// Estimate of the memory that they take in the map.
    pub bytes: usize,
    /// They are most of what a map may hold: it has little room for anything else.
    pub crowded: bool,
}

impl std::ops::AddAssign for Waiting {
    fn add_assign(&mut self, other: Waiting) {
        self.entries += other.entries;
        self.bytes += other.bytes;
        self.crowded |= other.crowded;
    }
}

/// What waits in one shard.
#[derive(Debug, Clone, Default)]
pub(super) struct WaitingEntries {
    /// Slots, each once.
    pub slots: Vec<u32>,
    /// The sum of their [`super::table::Entry::bytes`].
    pub bytes: usize,
}

impl<S> TypedMap<S> {
    /// Hands over every dirty entry once, encoded, into the change set of its shard (`out` is indexed by shard). Those of the shards in `taking`
    /// are pinned until `epoch` has been applied, and what waits there is handed over with them; the others wait from now on. Returns what
    /// waits then. Called at each barrier.
    ///
    /// # Errors
    /// [`StateError::Codec`] when a value has no encoding: nothing is handed over then, every entry stays dirty, and what is in `out`
    /// must be thrown away.
    ///
    /// # Panics
    /// When `out` has fewer sets than there are shards.
    pub fn encode_dirty(&mut self, epoch: u64, taking: Shards, out: &mut [ChangeSet]) -> Result<Waiting, StateError> {
        let taking = |shard: &Shard| taking.contain(*shard);
        let taken: Vec<Shard> = (0..self.groups.shards).map(Shard).filter(taking).collect();
        taken.iter().try_for_each(|shard| self.encode_waiting(*shard, out))?;
        let mut dirty = std::mem::take(&mut self.dirty);
        // As they lie in memory: in the order of their records each is another cache miss.
        dirty.sort_unstable();
        let lens = dirty.iter().map(|slot| self.encode_changed(*slot, epoch, &taking, out));
        let encoded = lens.sum::<Result<usize, StateError>>();
        match encoded {
            Ok(len) => {
                self.typical_len = len.checked_div(dirty.len()).unwrap_or(self.typical_len);
                dirty.clear();
                self.dirty_bytes = 0;
            }
            Err(_) => {
                // Those that were encoded before it have another length now.
                dirty.iter().for_each(|slot| self.table.entry_mut(*slot).dirty = true);
                self.dirty_bytes = dirty.iter().map(|slot| self.table.entry(*slot).bytes()).sum();
            }
        }
        self.dirty = dirty;
        encoded?;
        taken.iter().for_each(|shard| self.handed_over(*shard, epoch));
        Ok(self.waiting())
    }

    fn waiting(&self) -> Waiting {
        let bytes = self.waiting.iter().map(|w| w.bytes).sum();
        Waiting {
            entries: self.waiting.iter().map(|w| w.slots.len() as u64).sum(),
            bytes,
            crowded: bytes > self.limits.bytes_max / 2,
        }
    }

    /// A dirty entry becomes part of the epoch. Returns the length of its value.
    fn encode_changed(
        &mut self,
        slot: u32,
        epoch: u64,
        taking: &dyn Fn(&Shard) -> bool,
        out: &mut [ChangeSet],
    ) -> Result<usize, StateError> {
        let encoded_len = self.encode_entry(slot, Since::ThisEpoch, out)?;
        let value = self.table.entry(slot).value.as_ref();
        let known = value.and_then(|value| self.codec.weight(value));
        self.set_weight(slot, known.unwrap_or(encoded_len));
        let entry = self.table.entry_mut(slot);
        entry.dirty = false;
        let shard = self.groups.shard_of(entry.group);
        if entry.waits() {
            // It is in the list already.
        } else if taking(&shard) {
            entry.pinned_until = epoch;
        } else {
            entry.pinned_until = WAITING;
            let waiting = &mut self.waiting[shard.0 as usize];
            waiting.slots.push(slot);
            waiting.bytes += entry.bytes();
        }
        Ok(encoded_len)
    }

    /// What waits in a shard and has not changed again in this epoch.
    fn encode_waiting(&mut self, shard: Shard, out: &mut [ChangeSet]) -> Result<(), StateError> {
        self.waiting[shard.0 as usize].slots.sort_unstable();
        let slots = self.waiting[shard.0 as usize].slots.iter();
        slots
            .filter(|slot| !self.table.entry(**slot).dirty)
            .try_for_each(|slot| self.encode_entry(*slot, Since::Earlier, out).map(drop))
    }

    /// Nothing waits in a shard any more.
    fn handed_over(&mut self, shard: Shard, epoch: u64) {
        let waiting = std::mem::take(&mut self.waiting[shard.0 as usize]);
        for slot in waiting.slots {
            self.table.entry_mut(slot).pinned_until = epoch;
        }
    }

    /// Returns the length of the value.
    fn encode_entry(&self, slot: u32, since: Since, out: &mut [ChangeSet]) -> Result<usize, StateError> {
        let entry = self.table.entry(slot);
        let mut encoded_len = 0;
        out[self.groups.shard_of(entry.group).0 as usize]
            .push_with(
                since,
                |out| write_state_key(entry.group, self.state, &entry.key, b"", out),
                |out| {
                    let Some(value) = &entry.value else { return Ok(false) };
                    let start = out.len();
                    envelope::write_header(entry.timestamp, out);
                    self.codec.encode(value, out)?;
                    encoded_len = out.len() - start - HEADER_BYTES;
                    Ok(true)
                },
            )
            .map_err(|e| self.codec_error(&e))?;
        Ok(encoded_len)
    }
}
