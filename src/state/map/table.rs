//! The entries of a map: a slab indexed by hash, with their sizes and the clock that picks what to evict.
use super::super::KeyRef;
use super::entry_key::EntryKey;
use crate::types::hash::spread;
use crate::types::{KeyGroup, TimestampMs};
use hashbrown::HashTable;

/// One key of the state as it is now; value None means absent.
pub(super) struct Entry<S> {
    pub key: EntryKey,
    pub value: Option<S>,
    pub timestamp: TimestampMs,
    /// Not evictable until this epoch has been applied; [`WAITING`] while its change waits to be handed over to the copy.
    pub pinned_until: u64,
    pub hash: u32,
    /// The value's heap: what its codec says of it, else its length when it was last encoded or decoded.
    pub weight: u32,
    pub group: KeyGroup,
    pub dirty: bool,
    /// Second chance: looked at since the clock's hand last passed.
    referenced: bool,
}

/// The epoch of a change that the local copy is not given with any epoch yet.
pub(super) const WAITING: u64 = u64::MAX;

impl<S> Entry<S> {
    /// Its change is in an epoch, and the local copy has yet to be given it.
    pub fn waits(&self) -> bool {
        self.pinned_until == WAITING
    }

    pub fn is_for(&self, key: KeyRef<'_>) -> bool {
        self.hash == key.hash && *self.key == *key.bytes
    }

    /// Estimate of the memory that the entry takes.
    pub fn bytes(&self) -> usize {
        // An estimate of what the index adds.
        const OVERHEAD: usize = 12;
        std::mem::size_of::<Option<Entry<S>>>() + OVERHEAD + self.key.heap_bytes() + self.weight as usize
    }
}

/// Where an entry is. With its hash, so that a look-up asks the entry itself once, and only when it is the right one.
#[derive(Clone, Copy)]
struct Indexed {
    hash: u32,
    slot: u32,
}

/// Slab and index. A slot number stays valid until its entry is removed.
pub(super) struct Table<S> {
    slots: Vec<Option<Entry<S>>>,
    free: Vec<u32>,
    index: HashTable<Indexed>,
    bytes: usize,
    hand: usize,
}

fn entry_of<S>(slots: &[Option<Entry<S>>], slot: u32) -> &Entry<S> {
    slots[slot as usize]
        .as_ref()
        .expect("invariant: an indexed slot is taken")
}

impl<S> Table<S> {
    pub fn new() -> Self {
        Table {
            slots: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            bytes: 0,
            hand: 0,
        }
    }

    /// The slot of a key; gives the entry its second chance.
    pub fn find(&mut self, key: KeyRef<'_>) -> Option<u32> {
        let slots = &self.slots;
        let is_for = |at: &Indexed| at.hash == key.hash && entry_of(slots, at.slot).is_for(key);
        let slot = self.index.find(spread(key.hash), is_for)?.slot;
        self.entry_mut(slot).referenced = true;
        Some(slot)
    }

    /// [`Table::find`] for several keys, into `found`: first all that the index says, then all entries. In a loop that does nothing else the
    /// processor has many of these reads under way at a time; in a table of a million keys each takes longer than all other work on a record.
    pub fn find_all(&mut self, keys: &[KeyRef<'_>], found: &mut Vec<Option<u32>>) {
        let index = &self.index;
        let in_index = |key: &KeyRef<'_>| index.find(spread(key.hash), |at| at.hash == key.hash).map(|at| at.slot);
        found.clear();
        found.extend(keys.iter().map(in_index));
        for (key, slot) in keys.iter().zip(found) {
            let Some(at) = *slot else { continue };
            let entry = self.entry_mut(at);
            if entry.is_for(*key) {
                entry.referenced = true;
            } else {
                // Another key of the same hash.
                *slot = self.find(*key);
            }
        }
    }

    /// Adds an absent entry for a key that is not in the table.
    pub fn insert(&mut self, key: KeyRef<'_>, weight: u32) -> u32 {
        let entry = Entry {
            key: key.bytes.into(),
            value: None,
            timestamp: 0,
            pinned_until: 0,
            hash: key.hash,
            weight,
            group: key.group,
            dirty: false,
            referenced: true,
        };
        self.bytes += entry.bytes();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("invariant: a map holds fewer than 2^32 entries")
        });
        self.slots[slot as usize] = Some(entry);
        let hash = key.hash;
        self.index
            .insert_unique(spread(hash), Indexed { hash, slot }, |at| spread(at.hash));
        slot
    }

    pub fn remove(&mut self, slot: u32) {
        let entry = self.slots[slot as usize]
            .take()
            .expect("invariant: a removed slot is taken");
        self.bytes -= entry.bytes();
        if let Ok(found) = self.index.find_entry(spread(entry.hash), |at| at.slot == slot) {
            found.remove();
        }
        self.free.push(slot);
    }

    /// Whether a slot has the entry of a key; one that was removed meanwhile has not.
    pub fn holds(&self, slot: u32, key: KeyRef<'_>) -> bool {
        let entry = self.slots.get(slot as usize).and_then(Option::as_ref);
        entry.is_some_and(|entry| entry.is_for(key))
    }

    pub fn entry(&self, slot: u32) -> &Entry<S> {
        entry_of(&self.slots, slot)
    }

    pub fn entry_mut(&mut self, slot: u32) -> &mut Entry<S> {
        self.slots[slot as usize]
            .as_mut()
            .expect("invariant: an indexed slot is taken")
    }

    /// Notes the value's weight, so that the table's size stays right.
    pub fn set_weight(&mut self, slot: u32, weight: usize) {
        let entry = self.slots[slot as usize]
            .as_mut()
            .expect("invariant: an indexed slot is taken");
        self.bytes -= entry.bytes();
        entry.weight = u32::try_from(weight).unwrap_or(u32::MAX);
        self.bytes += entry.bytes();
    }

    /// Moves the clock's hand by at most `steps` slots and evicts until the table is within `bytes_max`: what is
    /// clean, unpinned and not looked at since the hand last passed. An eighth beyond the limit there is no second
    /// chance, or a working set larger than the limit would grow for ever. Returns how many were evicted.
    pub fn evict(&mut self, bytes_max: usize, applied: u64, steps: usize) -> u64 {
        let no_second_chance = bytes_max.saturating_add(bytes_max / 8);
        let mut evicted = 0;
        for _ in 0..steps {
            if self.bytes <= bytes_max || self.slots.is_empty() {
                break;
            }
            self.hand = if self.hand + 1 < self.slots.len() {
                self.hand + 1
            } else {
                0
            };
            let Some(entry) = self.slots[self.hand].as_mut() else {
                continue;
            };
            if entry.dirty || entry.pinned_until > applied {
                continue;
            }
            if std::mem::take(&mut entry.referenced) && self.bytes <= no_second_chance {
                continue;
            }
            self.remove(self.hand as u32);
            evicted += 1;
        }
        evicted
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// What the map's dirty bytes must be.
    #[cfg(test)]
    pub fn counted_dirty_bytes(&self) -> usize {
        let dirty = self.slots.iter().flatten().filter(|entry| entry.dirty);
        dirty.map(Entry::bytes).sum()
    }

    /// What waits.
    #[cfg(test)]
    pub fn counted_waiting(&self) -> (u64, usize) {
        let waiting = || self.slots.iter().flatten().filter(|entry| entry.waits());
        (waiting().count() as u64, waiting().map(Entry::bytes).sum())
    }

    /// What [`Table::bytes`] must be.
    #[cfg(test)]
    pub fn counted_bytes(&self) -> usize {
        self.slots.iter().flatten().map(Entry::bytes).sum()
    }
}
