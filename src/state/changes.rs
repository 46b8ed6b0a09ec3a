//! The encoded changes of one shard in one epoch, as a lane hands them over at a barrier.

/// A changed state key with its new envelope, or None for a deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change<'a> {
    /// The full state key.
    pub key: &'a [u8],
    /// The value envelope; None deletes.
    pub value: Option<&'a [u8]>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    start: usize,
    key_len: u32,
    /// `u32::MAX` marks a deletion.
    value_len: u32,
}

const DELETED: u32 = u32::MAX;

/// A length that would be taken for another one, or for a deletion, must not reach the store.
fn length(len: usize) -> u32 {
    u32::try_from(len)
        .ok()
        .filter(|len| *len != DELETED)
        .expect("invariant: keys and values are smaller than 4 GiB")
}

/// Changes in an arena; sorted by [`ChangeSet::sort`].
#[derive(Debug, Clone, Default)]
pub struct ChangeSet {
    arena: Vec<u8>,
    entries: Vec<Entry>,
}

impl ChangeSet {
    /// Adds a change: `key` writes the state key, `value` the envelope and returns false to delete instead.
    ///
    /// # Errors
    /// What `value` returns; nothing is added then.
    pub fn push_with<E>(
        &mut self,
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
                    length(self.arena.len() - key_end)
                } else {
                    DELETED
                };
                self.entries.push(Entry {
                    start,
                    key_len: length(key_end - start),
                    value_len,
                });
                Ok(())
            }
        }
    }

    /// Adds a change by copy.
    pub fn push(&mut self, change: Change<'_>) {
        let value = change.value;
        let added: Result<(), std::convert::Infallible> = self.push_with(
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
    }

    fn key(&self, e: Entry) -> &[u8] {
        &self.arena[e.start..e.start + e.key_len as usize]
    }

    /// Sorts by state key. Keys are unique within an epoch (a lane owns its key groups).
    pub fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by(|a, b| self.key(*a).cmp(self.key(*b)));
        self.entries = entries;
    }

    /// The changes, in the present order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        self.entries.iter().map(|e| {
            let value_start = e.start + e.key_len as usize;
            let value = (e.value_len != DELETED).then(|| &self.arena[value_start..value_start + e.value_len as usize]);
            Change {
                key: self.key(*e),
                value,
            }
        })
    }

    /// Number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// No changes.
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
