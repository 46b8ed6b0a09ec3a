//! Local copies in memory: for tests, and for a build without RocksDB. A restart of the process loses them (the store does not).
use super::checks::{check_follows, check_key};
use super::{Applied, Backend, BackendFactory, Image, ImageKind, Rebuild, Swept};
use crate::state::{Change, StateError};
use crate::testing::faults::Faults;
use crate::types::Shard;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

mod image;

#[derive(Clone, Default)]
struct Rows {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    applied: Option<Applied>,
}

#[derive(Default)]
struct Copy {
    live: Rows,
    /// What a crash goes back to; kept only when the factory simulates crashes.
    flushed: Rows,
    open: bool,
    damaged: bool,
}

/// An operation that can be told to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// [`BackendFactory::open`]
    Open,
    /// [`Backend::get_many`], [`Backend::applied`] and [`Backend::scan`]
    Read,
    /// [`Backend::apply`] and [`Backend::sweep`]
    Apply,
    /// [`Backend::flush`]
    Flush,
}

#[derive(Default)]
struct Shared {
    copies: Mutex<HashMap<Shard, Arc<Mutex<Copy>>>>,
    faults: Mutex<Faults>,
    simulate_crashes: bool,
    failing: [AtomicU32; 4],
}

impl Shared {
    /// Fails as often as it was told to.
    fn pass(&self, operation: Operation, shard: Shard) -> Result<(), StateError> {
        let left = &self.failing[operation as usize];
        match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)) {
            Ok(_) => Err(io_error(shard, format!("{operation:?} was told to fail"))),
            Err(_) => Ok(()),
        }
    }

    fn point(&self, name: &str, shard: Shard) -> Result<(), StateError> {
        let faults = self.faults.lock().clone();
        faults.at(name).map_err(|e| io_error(shard, e))
    }
}

/// Keeps copies while it lives, across closing and opening: what a disk is to a process. Clones share the copies.
#[derive(Clone, Default)]
pub struct MemoryFactory {
    shared: Arc<Shared>,
}

impl MemoryFactory {
    /// A factory whose backends pass the fail points of [`Backend::apply`].
    #[must_use]
    pub fn new(faults: Faults) -> Self {
        MemoryFactory {
            shared: Arc::new(Shared {
                faults: Mutex::new(faults),
                ..Shared::default()
            }),
        }
    }

    /// A factory that can [`MemoryFactory::crash`]; each flush copies the shard.
    #[must_use]
    pub fn with_crashes(faults: Faults) -> Self {
        MemoryFactory {
            shared: Arc::new(Shared {
                faults: Mutex::new(faults),
                simulate_crashes: true,
                ..Shared::default()
            }),
        }
    }

    /// Other fail points from now on: those of the next process on the same copies.
    pub fn set_faults(&self, faults: Faults) {
        *self.shared.faults.lock() = faults;
    }

    /// Takes every copy back to its last flush, as the death of the process does to RocksDB, and counts them as closed.
    pub fn crash(&self) {
        for copy in self.shared.copies.lock().values_mut() {
            let (rows, damaged) = {
                let old = copy.lock();
                (
                    if self.shared.simulate_crashes {
                        old.flushed.clone()
                    } else {
                        old.live.clone()
                    },
                    old.damaged,
                )
            };
            let after = Copy {
                live: rows.clone(),
                flushed: rows,
                open: false,
                damaged,
            };
            // Backends that are still held keep the old copy: a dead process's writes reach nobody.
            *copy = Arc::new(Mutex::new(after));
        }
    }

    /// The next `times` calls of an operation fail with [`StateError::Io`].
    pub fn fail(&self, operation: Operation, times: u32) {
        self.shared.failing[operation as usize].store(times, Ordering::Relaxed);
    }

    /// From now on this copy is found damaged ([`StateError::Damaged`]) when it is opened or changed, until it is wiped.
    pub fn damage(&self, shard: Shard) {
        self.copy(shard).lock().damaged = true;
    }

    /// Swaps the copies of two shards, neither of which is open: what directories that were moved come to.
    pub fn swap(&self, one: Shard, other: Shard) {
        let (a, b) = (self.copy(one), self.copy(other));
        let mut copies = self.shared.copies.lock();
        copies.insert(one, b);
        copies.insert(other, a);
    }

    fn copy(&self, shard: Shard) -> Arc<Mutex<Copy>> {
        Arc::clone(self.shared.copies.lock().entry(shard).or_default())
    }
}

impl BackendFactory for MemoryFactory {
    fn open(&self, shard: Shard) -> Result<Arc<dyn Backend>, StateError> {
        self.shared.pass(Operation::Open, shard)?;
        let copy = self.copy(shard);
        {
            let mut rows = copy.lock();
            if rows.damaged {
                return Err(damaged(shard, "was told to be damaged"));
            }
            if std::mem::replace(&mut rows.open, true) {
                return Err(io_error(shard, "is open already"));
            }
        }
        Ok(Arc::new(MemoryBackend {
            shard,
            copy,
            shared: Arc::clone(&self.shared),
        }))
    }

    fn is_there(&self, shard: Shard) -> bool {
        let copies = self.shared.copies.lock();
        let copy = copies.get(&shard).map(|copy| copy.lock());
        copy.is_some_and(|copy| copy.damaged || copy.open || copy.live.applied.is_some())
    }

    fn wipe(&self, shard: Shard) -> Result<(), StateError> {
        let copy = self.copy(shard);
        let mut rows = copy.lock();
        if rows.open {
            return Err(io_error(shard, "cannot be wiped while it is open"));
        }
        *rows = Copy::default();
        Ok(())
    }

    fn kind(&self) -> ImageKind {
        ImageKind::Rows
    }

    fn rebuild(&self, shard: Shard) -> Result<Box<dyn Rebuild>, StateError> {
        Ok(Box::new(image::RowsRebuild::new(shard, self.copy(shard))))
    }
}

struct MemoryBackend {
    shard: Shard,
    copy: Arc<Mutex<Copy>>,
    shared: Arc<Shared>,
}

impl Drop for MemoryBackend {
    fn drop(&mut self) {
        self.copy.lock().open = false;
    }
}

impl Backend for MemoryBackend {
    fn get_many(&self, keys: &[&[u8]], out: &mut Vec<Option<Vec<u8>>>) -> Result<(), StateError> {
        out.clear();
        self.shared.pass(Operation::Read, self.shard)?;
        let copy = self.copy.lock();
        out.extend(keys.iter().map(|key| copy.live.entries.get(*key).cloned()));
        Ok(())
    }

    fn apply(&self, changes: &mut dyn Iterator<Item = Change<'_>>, applied: &Applied) -> Result<(), StateError> {
        self.shared.point("pre_apply", self.shard)?;
        self.shared.pass(Operation::Apply, self.shard)?;
        if self.copy.lock().damaged {
            return Err(damaged(self.shard, "was told to be damaged"));
        }
        let owned: Vec<(Vec<u8>, Option<Vec<u8>>)> =
            changes.map(|c| (c.key.to_vec(), c.value.map(<[u8]>::to_vec))).collect();
        let checked = owned.iter().try_for_each(|(key, _)| check_key(key));
        checked
            .and_then(|()| check_follows(self.copy.lock().live.applied.as_ref(), applied))
            .map_err(|e| damaged(self.shard, e))?;
        self.shared.point("mid_apply", self.shard)?;
        {
            let mut copy = self.copy.lock();
            for (key, value) in owned {
                match value {
                    Some(value) => copy.live.entries.insert(key, value),
                    None => copy.live.entries.remove(&key),
                };
            }
            copy.live.applied = Some(*applied);
        }
        self.shared.point("post_apply", self.shard)
    }

    fn sweep(&self, from: &[u8], to: &[u8], limit: usize, gone: &dyn Fn(&[u8]) -> bool) -> Result<Swept, StateError> {
        self.shared.pass(Operation::Apply, self.shard)?;
        let mut copy = self.copy.lock();
        let entries = &mut copy.live.entries;
        let mut range = entries.range::<[u8], _>((Bound::Included(from), Bound::Excluded(to)));
        let looked_at: Vec<_> = range.by_ref().take(limit).collect();
        let next = range.next().map(|(key, _)| key.clone());
        let expired = looked_at.iter().filter(|(_, value)| gone(value));
        let expired: Vec<Vec<u8>> = expired.map(|(key, _)| (*key).clone()).collect();
        let swept = Swept {
            looked_at: looked_at.len(),
            removed: expired.len(),
            next,
        };
        for key in expired {
            entries.remove(&key);
        }
        Ok(swept)
    }

    fn applied(&self) -> Result<Option<Applied>, StateError> {
        self.shared.pass(Operation::Read, self.shard)?;
        Ok(self.copy.lock().live.applied)
    }

    fn scan(&self, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<(), StateError> {
        self.shared.pass(Operation::Read, self.shard)?;
        self.copy
            .lock()
            .live
            .entries
            .iter()
            .for_each(|(key, value)| visit(key, value));
        Ok(())
    }

    fn damaged(&self, reason: String) -> StateError {
        damaged(self.shard, reason)
    }

    fn image(&self) -> Result<Box<dyn Image>, StateError> {
        self.shared.pass(Operation::Read, self.shard)?;
        let mut copy = self.copy.lock();
        // As with RocksDB, whose checkpoint flushes first.
        if self.shared.simulate_crashes {
            copy.flushed = copy.live.clone();
        }
        let image = image::RowsImage::of(&copy.live).ok_or_else(|| io_error(self.shard, "is empty"))?;
        Ok(Box::new(image))
    }

    fn flush(&self) -> Result<(), StateError> {
        self.shared.pass(Operation::Flush, self.shard)?;
        if self.shared.simulate_crashes {
            let mut copy = self.copy.lock();
            copy.flushed = copy.live.clone();
        }
        Ok(())
    }
}

const PATH: &str = "memory";

fn io_error(shard: Shard, reason: impl ToString) -> StateError {
    StateError::Io {
        shard: shard.0,
        path: PATH.to_owned(),
        reason: reason.to_string(),
    }
}

fn damaged(shard: Shard, reason: impl ToString) -> StateError {
    StateError::Damaged {
        shard: shard.0,
        path: PATH.to_owned(),
        reason: reason.to_string(),
    }
}
