//! Collects garbage: one round at a time, on a thread beside the driver (EP-9, docs/adr/0017).
use crate::checkpoint::pin;
use crate::checkpoint::pointer::Pointer;
use crate::checkpoint::protocol::{Fate, Identity, Seen, Unread, every_pointer, fate, mark_holds};
use crate::checkpoint::reach::Reach;
use crate::checkpoint::store::{Aged, Layout, ObjectPath, Store, StoreError, StoreErrorKind};
use crate::checkpoint::store_clock;
use crate::sink::{LogError, PointerReader};
use crate::telemetry::Metrics;
use crate::testing::Faults;
use crate::testing::faults::Injected;
use crate::types::{Clock, KeyGroups, Shard};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long the pointers may take to be stable; the next round comes.
const READ_POINTERS: Duration = Duration::from_secs(30);
/// Objects listed at a time.
const PAGE: usize = 1000;
/// Objects of which a round remembers that they looked like garbage; others wait for a later one.
const REMEMBERED_MAX: usize = 100_000;
/// After so many removals the store's clock is asked again whether the mark still holds.
const REMOVALS_PER_LOOK: usize = 64;

#[cfg(test)]
mod tests;

/// Why a round removed nothing, or no more.
#[derive(Debug, thiserror::Error)]
pub(super) enum Held {
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error("the pointers could not be read: {0}")]
    Log(#[from] LogError),
    #[error("what a pointer leads to could not be read: {0}")]
    Reach(#[from] crate::checkpoint::reach::ReachError),
    #[error(transparent)]
    Pin(#[from] pin::PinError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("its mark is older than a third of the grace")]
    Stale,
    #[error("nobody asks for it any more")]
    Cancelled,
    #[error(transparent)]
    Injected(#[from] Injected),
}

/// What a round has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Done {
    pub removed: u64,
    pub bytes: u64,
    pub kept: u64,
    /// Looked like garbage, and is removed by the next round if it still does.
    pub waiting: u64,
}

/// Goes from round to round.
pub(super) struct Collector {
    pub store: Arc<dyn Store>,
    pub layout: Layout,
    pub identity: Identity,
    pub partitions: Vec<(String, i32)>,
    /// Group mode: a partition's pointer speaks for its shard alone.
    pub by_partition: Option<KeyGroups>,
    pub grace: Duration,
    pub clock: Arc<dyn Clock>,
    pub metrics: Metrics,
    pub faults: Faults,
    pub cancelled: Arc<AtomicBool>,
    pub reach: Reach,
    /// Looked like garbage in the round before.
    pub garbage: BTreeSet<ObjectPath>,
}

/// When a round began.
struct Mark {
    store_ms: i64,
    elapsed: Duration,
}

impl Collector {
    /// Marks, decides, removes.
    pub fn round(&mut self, reader: &mut dyn PointerReader) -> Result<Done, Held> {
        let mark = Mark {
            store_ms: store_clock::now_ms(self.store.as_ref(), &self.layout)?,
            elapsed: self.clock.elapsed(),
        };
        self.follow(reader)?;
        self.faults.at("collect_marked")?;
        let (remove, done) = self.decide(&mark)?;
        self.faults.at("collect_decided")?;
        self.remove(&mark, &remove, done)
    }

    /// Reaches what every pointer leads to, then what every pin keeps, in this order (see [`pin`]).
    fn follow(&mut self, reader: &mut dyn PointerReader) -> Result<(), Held> {
        let committed = reader.committed(&self.partitions, READ_POINTERS)?;
        let pointers = match every_pointer(&self.identity, &self.partitions, &committed) {
            // The switch takes what it cannot read for nothing.
            Err(_) if self.faults.broken("EP-9") => Vec::new(),
            read => read?,
        };
        let pinned = pin::all(self.store.as_ref(), &self.layout)?;
        self.reach.begin();
        let mut followed: BTreeSet<(String, Option<Shard>)> = BTreeSet::new();
        let pinned = pinned.into_iter().map(|pointer| (None, pointer));
        for (partition, pointer) in pointers
            .into_iter()
            .map(|(p, pointer)| (Some(p), pointer))
            .chain(pinned)
        {
            for only in self.shards_of(partition, &pointer)? {
                if followed.insert((pointer.to_string(), only)) {
                    let place = (self.store.as_ref(), &self.layout);
                    self.reach.follow(place, &pointer, only)?;
                }
            }
        }
        Ok(())
    }

    /// The shards that a pointer speaks for: None is all. A pin of group mode does not say which: those that its object has sections of.
    fn shards_of(&self, partition: Option<i32>, pointer: &Pointer) -> Result<Vec<Option<Shard>>, Held> {
        match (self.by_partition, partition) {
            (None, _) => Ok(vec![None]),
            (Some(groups), Some(partition)) => Ok(vec![Some(groups.shard_of_partition(partition))]),
            (Some(_), None) => {
                let place = (self.store.as_ref(), &self.layout);
                let shards = Reach::sections_of(place, pointer)?;
                Ok(shards.into_iter().map(Some).collect())
            }
        }
    }

    /// Looks at every object, in order of name.
    fn decide(&mut self, mark: &Mark) -> Result<(Vec<Aged>, Done), Held> {
        let before = std::mem::take(&mut self.garbage);
        let mut remove = Vec::new();
        let mut done = Done::default();
        for folder in [
            self.layout.epochs(),
            self.layout.bases(),
            self.layout.clock(),
            self.layout.commits(),
        ] {
            let is_commits = folder == self.layout.commits();
            let mut held_back: Option<Aged> = None;
            let mut after: Option<ObjectPath> = None;
            loop {
                self.go_on()?;
                let page = self.store.list_aged(&folder, after.as_ref(), PAGE)?;
                let last = page.len() < PAGE;
                after = page.last().map(|aged| aged.path.clone());
                for aged in page {
                    // The highest commit record is the truth.
                    let next = if is_commits {
                        held_back.replace(aged)
                    } else {
                        Some(aged)
                    };
                    if let Some(aged) = next {
                        self.look(aged, mark, &before, (&mut remove, &mut done));
                    }
                }
                if last {
                    break;
                }
            }
        }
        Ok((remove, done))
    }

    fn look(
        &mut self,
        aged: Aged,
        mark: &Mark,
        before: &BTreeSet<ObjectPath>,
        (remove, done): (&mut Vec<Aged>, &mut Done),
    ) {
        let seen = Seen {
            reached: self.reach.reached().contains(&aged.path),
            age_ms: mark.store_ms.saturating_sub(aged.modified_ms),
            garbage_before: before.contains(&aged.path),
        };
        let fate = match fate(&seen, self.grace) {
            // The switch knows no grace.
            _ if self.faults.broken("EP-9") && !seen.reached => Fate::Remove,
            fate => fate,
        };
        match fate {
            Fate::Keep => done.kept += 1,
            Fate::Remember if self.garbage.len() < REMEMBERED_MAX => {
                self.garbage.insert(aged.path);
                done.waiting += 1;
            }
            Fate::Remember => done.waiting += 1,
            Fate::Remove => remove.push(aged),
        }
    }

    fn remove(&self, mark: &Mark, remove: &[Aged], mut done: Done) -> Result<Done, Held> {
        for (at, aged) in remove.iter().enumerate() {
            self.go_on()?;
            self.check(mark, at.is_multiple_of(REMOVALS_PER_LOOK))?;
            match self.store.delete(&aged.path) {
                Ok(()) => self.metrics.collected(aged.bytes),
                Err(e) if e.kind() == StoreErrorKind::NotFound => {}
                Err(e) => return Err(e.into()),
            }
            done.removed += 1;
            done.bytes += aged.bytes;
            self.faults.at("collect_removed")?;
        }
        Ok(done)
    }

    /// A mark that is too old says nothing of what has been committed since.
    fn check(&self, mark: &Mark, by_store: bool) -> Result<(), Held> {
        let elapsed = self.clock.elapsed().saturating_sub(mark.elapsed);
        let age_ms = match by_store {
            true => store_clock::now_ms(self.store.as_ref(), &self.layout)?.saturating_sub(mark.store_ms),
            false => 0,
        };
        match mark_holds(age_ms, elapsed, self.grace) || self.faults.broken("EP-9") {
            true => Ok(()),
            false => Err(Held::Stale),
        }
    }

    fn go_on(&self) -> Result<(), Held> {
        match self.cancelled.load(Ordering::SeqCst) {
            true => Err(Held::Cancelled),
            false => Ok(()),
        }
    }
}
