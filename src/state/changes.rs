//! The encoded changes of one shard in one epoch, as a lane hands them over at a barrier; where the shard's local copy has not taken the epochs
//! before, their changes with them.

/// A changed state key with its new envelope, or None for a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    /// The full state key.
    pub key: &'a [u8],
    /// The value envelope; None deletes.
    pub value: Option<&'a [u8]>,
}

impl Change<'_> {
    /// Of key and envelope.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.key.len() + self.value.map_or(0, <[u8]>::len)
    }
}

/// Since when a value is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// It is part of the epoch.
    ThisEpoch,
    /// It was part of an earlier one, and the local copy has yet to take it.
    Earlier,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: usize,
    /// With [`EARLIER`] for a change of an earlier epoch.
    key_len: u32,
    /// `u32::MAX` marks a deletion.
    value_len: u32,
}

const DELETED: u32 = u32::MAX;
const EARLIER: u32 = 1 << 31;

/// A change while it is sorted.
#[derive(Debug, Clone, Copy)]
struct Sorting {
    beginning: [u64; 2],
    group: u16,
    entry: Entry,
}

impl Entry {
    fn is_of_this_epoch(self) -> bool {
        self.key_len & EARLIER == 0
    }

    fn key_len(self) -> usize {
        (self.key_len & !EARLIER) as usize
    }
}

/// From so many changes on they are first put into buckets by key group: each is sorted in the processor's cache then.
const BUCKETS_FROM: usize = 4096;

/// Changes of this mean size are copied once more, so that they lie in their order. Larger ones are read fast enough where they are.
const LAID_OUT_BYTES: usize = 256;

/// A length that would be taken for another one, for a deletion or a mark, must not reach the store.
fn length(len: usize, limit: u32) -> u32 {
    u32::try_from(len)
        .ok()
        .filter(|len| *len < limit)
        .expect("invariant: keys are smaller than 2 GiB, values than 4 GiB")
}

/// Changes in an arena; sorted by [`ChangeSet::sort`].
#[derive(Debug, Clone, Default)]
pub struct ChangeSet {
    arena: Vec<u8>,
    entries: Vec<Entry>,
    /// How many of them are of an earlier epoch.
    earlier: usize,
}

impl ChangeSet {
    /// Adds a change: `key` writes the state key, `value` the envelope and returns false to delete instead.
    ///
    /// # Errors
    /// What `value` returns; nothing is added then.
    pub fn push_with<E>(
        &mut self,
        since: Since,
        key: impl FnOnce(&mut Vec<u8>),
        value: impl FnOnce(&mut Vec<u8>) -> Result<bool, E>,
    ) -> Result<(), E> {
        let start = self.arena.len();
        key(&mut self.arena);
        let key_end = self.arena.len();
        match value(&mut self.arena) {
            Err(e) => {
                self.arena.truncate(start);
                Err(e)
            }
            Ok(present) => {
                if !present {
                    self.arena.truncate(key_end);
                }
                let value_len = if present {
                    length(self.arena.len() - key_end, DELETED)
                } else {
                    DELETED
                };
                let mark = if since == Since::Earlier { EARLIER } else { 0 };
                self.earlier += usize::from(since == Since::Earlier);
                self.entries.push(Entry {
                    start,
                    key_len: length(key_end - start, EARLIER) | mark,
                    value_len,
                });
                Ok(())
            }
        }
    }

    /// Adds a change of this epoch by copy.
    pub fn push(&mut self, change: Change<'_>) {
        let value = change.value;
        let added: Result<(), std::convert::Infallible> = self.push_with(
            Since::ThisEpoch,
            |out| out.extend_from_slice(change.key),
            |out| {
                out.extend_from_slice(value.unwrap_or_default());
                Ok(value.is_some())
            },
        );
        match added {
            Ok(()) => {}
            Err(never) => match never {},
        }
    }

    /// Adds all of `other`.
    pub fn append(&mut self, other: &ChangeSet) {
        let base = self.arena.len();
        self.arena.extend_from_slice(&other.arena);
        self.entries.extend(other.entries.iter().map(|e| Entry {
            start: e.start + base,
            ..*e
        }));
        self.earlier += other.earlier;
    }

    fn key(&self, e: Entry) -> &[u8] {
        &self.arena[e.start..e.start + e.key_len()]
    }

    /// Sorts by state key. Keys are unique (a lane owns its key groups, and hands a key over once).
    pub fn sort(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        let mut entries = self.in_buckets(entries);
        for bucket in entries.chunk_by_mut(|a, b| a.group == b.group) {
            bucket.sort_unstable_by(|a, b| {
                let by_beginning = a.beginning.cmp(&b.beginning);
                by_beginning.then_with(|| self.key(a.entry).cmp(self.key(b.entry)))
            });
        }
        self.entries = entries.into_iter().map(|sorting| sorting.entry).collect();
        if self.arena.len() <= self.entries.len() * LAID_OUT_BYTES {
            self.lay_out();
        }
    }

    /// Puts the bytes in the order of the changes: the epoch's object and the local copy read all of them, and each would come from far away.
    fn lay_out(&mut self) {
        let mut arena = Vec::with_capacity(self.arena.len());
        for entry in &mut self.entries {
            let value_len = if entry.value_len == DELETED { 0 } else { entry.value_len };
            let end = entry.start + entry.key_len() + value_len as usize;
            let start = arena.len();
            arena.extend_from_slice(&self.arena[entry.start..end]);
            entry.start = start;
        }
        self.arena = arena;
    }

    /// Those of a key group side by side, groups in order, with what is compared beside each: few comparisons go to the arena.
    fn in_buckets(&self, entries: Vec<Entry>) -> Vec<Sorting> {
        let mut sorting: Vec<Sorting> = entries.into_iter().map(|e| self.sorting(e)).collect();
        if sorting.len() < BUCKETS_FROM {
            sorting.sort_unstable_by_key(|s| s.group);
            return sorting;
        }
        // A counting sort: where each group begins, then everything in its place.
        let mut at = vec![0usize; 1 << 16 | 1];
        sorting.iter().for_each(|s| at[usize::from(s.group) + 1] += 1);
        (1..at.len()).for_each(|group| at[group] += at[group - 1]);
        let mut placed = sorting.clone();
        for s in sorting {
            let place = &mut at[usize::from(s.group)];
            placed[*place] = s;
            *place += 1;
        }
        placed
    }

    /// The first bytes of a key as numbers, which have their order: the key group, and what follows it.
    fn sorting(&self, entry: Entry) -> Sorting {
        let key = self.key(entry);
        let mut bytes = [0; 18];
        let len = key.len().min(bytes.len());
        bytes[..len].copy_from_slice(&key[..len]);
        let [g0, g1, rest @ ..] = bytes;
        let beginning = u128::from_be_bytes(rest);
        Sorting {
            // In halves: a number of 16 bytes is aligned to as many, and each of these would have a hole.
            beginning: [(beginning >> 64) as u64, beginning as u64],
            group: u16::from_be_bytes([g0, g1]),
            entry,
        }
    }

    /// Whether a key is there twice, when they are sorted.
    #[must_use]
    pub fn has_twins(&self) -> bool {
        let mut pairs = self.entries.windows(2);
        pairs.any(|pair| self.key(pair[0]) == self.key(pair[1]))
    }

    /// The epoch's changes, in the present order.
    pub fn iter(&self) -> impl Iterator<Item = Change<'_>> {
        self.entries
            .iter()
            .filter(|e| e.is_of_this_epoch())
            .map(|e| self.change(*e))
    }

    /// Those and the ones of earlier epochs: what the local copy takes.
    pub fn all(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        self.entries.iter().map(|e| self.change(*e))
    }

    fn change(&self, e: Entry) -> Change<'_> {
        let value_start = e.start + e.key_len();
        let value = (e.value_len != DELETED).then(|| &self.arena[value_start..value_start + e.value_len as usize]);
        Change {
            key: self.key(e),
            value,
        }
    }

    /// Number of the epoch's changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len() - self.earlier
    }

    /// Number of changes of earlier epochs.
    #[must_use]
    pub fn earlier(&self) -> usize {
        self.earlier
    }

    /// No changes, neither of this epoch nor of earlier ones.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of keys and values, and of what says where they lie.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.arena.len() + std::mem::size_of_val(self.entries.as_slice())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Keys of all lengths around the sixteen bytes that are compared as a number, with zeros, which a number's beginning cannot tell from none.
    fn keys() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0u8), Just(1), Just(255)];
        proptest::collection::vec(byte, 0..20)
    }

    /// So many that they are put into buckets first, with changes of earlier epochs among them.
    #[test]
    fn many_changes_are_in_order_and_those_of_the_epoch_are_told_from_the_others() {
        let mut changes = ChangeSet::default();
        let keys: Vec<Vec<u8>> = (0..3 * BUCKETS_FROM as u64)
            .map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[..1 + n as usize % 8].to_vec())
            .collect();
        let earlier = |key: &[u8]| key.iter().fold(0u8, |sum, b| sum.wrapping_add(*b)).is_multiple_of(3);
        let keys: std::collections::BTreeSet<Vec<u8>> = keys.into_iter().collect();
        assert!(keys.len() > BUCKETS_FROM);
        for key in keys.iter().rev() {
            let since = if earlier(key) { Since::Earlier } else { Since::ThisEpoch };
            let added: Result<(), ()> = changes.push_with(
                since,
                |out| out.extend_from_slice(key),
                |out| {
                    out.extend_from_slice(key);
                    Ok(true)
                },
            );
            added.expect("added");
        }
        changes.sort();
        assert!(!changes.has_twins());
        assert!(changes.all().map(|c| c.key).eq(keys.iter()));
        assert!(changes.all().all(|c| c.value == Some(c.key)));
        let own = || keys.iter().filter(|key| !earlier(key));
        assert!(changes.iter().map(|c| c.key).eq(own()));
        assert_eq!(
            (changes.len(), changes.earlier()),
            (own().count(), keys.len() - own().count())
        );
        changes.append(&changes.clone());
        changes.sort();
        assert!(changes.has_twins());
    }

    proptest! {
        #[test]
        fn changes_are_in_the_order_of_their_keys_and_whole_small_ones_and_large_ones(
            set in proptest::collection::btree_map(keys(), proptest::option::of(0usize..40), 0..60),
            factor in prop_oneof![Just(1usize), Just(100)],
            seed in any::<u64>(),
        ) {
            let mut wanted: Vec<(Vec<u8>, Option<Vec<u8>>)> =
                set.into_iter().map(|(k, len)| (k, len.map(|len| vec![7; len * factor]))).collect();
            let mut changes = ChangeSet::default();
            let mut shuffled = wanted.clone();
            shuffled.sort_by_key(|(k, _)| k.iter().fold(seed, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)));
            for (key, value) in &shuffled {
                changes.push(Change { key, value: value.as_deref() });
            }
            let bytes = changes.bytes();
            changes.sort();
            wanted.sort();
            let sorted: Vec<_> = changes.iter().map(|c| (c.key.to_vec(), c.value.map(<[u8]>::to_vec))).collect();
            prop_assert_eq!(sorted, wanted);
            prop_assert_eq!(changes.bytes(), bytes);
        }
    }
}
