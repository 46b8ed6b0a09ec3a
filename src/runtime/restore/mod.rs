//! Brings the local copies of all shards up to the committed state: local RocksDB plus tail, else the shard's base plus the chain behind it,
//! else, before there is a base, the whole chain onto an empty copy.
mod fetch;

use self::fetch::Fetch;
pub(crate) use self::fetch::FetchMeter;
use super::error::RuntimeError;
use super::progress::Progress;
use crate::checkpoint::chain::{Chain, RestoreError, ShardState, Tail, may_pass};
use crate::state::{Applied, Backend, BackendFactory, Expiry, StateError};
use crate::testing::Faults;
use crate::types::{BaseLink, Shard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that restore shards side by side.
const RESTORERS: usize = 2;

/// What a restore works with.
pub(crate) struct Restore<'a> {
    pub chain: Chain<'a>,
    pub backends: &'a dyn BackendFactory,
    /// Keeps a copy that is made from the whole chain from holding everything that ever was.
    pub expiry: Expiry,
    pub faults: &'a Faults,
    pub progress: &'a Progress,
    /// Counts what is fetched, of all restores together.
    pub meter: &'a FetchMeter,
}

impl Restore<'_> {
    /// Restores every shard; returns the copies by shard.
    pub fn all(&self, shards: &[(Shard, ShardState)]) -> Result<Vec<Arc<dyn Backend>>, RuntimeError> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some((shard, state)) = shards.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((*shard, self.shard(*shard, state)?));
            }
            Ok::<_, RuntimeError>(done)
        };
        let mut restored = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..RESTORERS).map(|_| scope.spawn(work)).collect();
            // All are joined before any is asked: one that panicked and was not joined makes the scope panic.
            let joined: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
            let mut all = Vec::new();
            for done in joined {
                all.extend(done.map_err(|_| RuntimeError::CannotGoOn("a restore panicked".to_owned()))??);
            }
            Ok::<_, RuntimeError>(all)
        })?;
        restored.sort_by_key(|(shard, _)| *shard);
        Ok(restored.into_iter().map(|(_, backend)| backend).collect())
    }

    /// One shard: from its local copy where that lies on the chain, else from its base, else from empty. A copy that is damaged
    /// or another shard's is thrown away.
    pub fn shard(&self, shard: Shard, state: &ShardState) -> Result<Arc<dyn Backend>, RuntimeError> {
        match self.catch_up(shard, state) {
            Err(RuntimeError::LocalCopy(StateError::Damaged { reason, path, .. })) => {
                tracing::warn!(%shard, %reason, path, "local copy damaged, thrown away and restored");
            }
            Err(RuntimeError::Restore(RestoreError::NotOnChain { sequence, .. })) => {
                tracing::warn!(%shard, sequence, "local copy is not on the committed chain, thrown away");
            }
            Err(RuntimeError::Restore(RestoreError::BeforeBase { sequence, .. })) => {
                tracing::info!(%shard, sequence, "local copy is older than the base, thrown away");
            }
            result => return result,
        }
        self.backends.wipe(shard)?;
        self.catch_up(shard, state)
    }

    fn catch_up(&self, shard: Shard, state: &ShardState) -> Result<Arc<dyn Backend>, RuntimeError> {
        let base = state.base.map(|based| based.base);
        let mut backend = self.backends.open(shard)?;
        if let (None, Some(base)) = (backend.applied()?, &base) {
            // Closed: it is replaced.
            drop(backend);
            self.fetch(shard, base)?;
            backend = self.backends.open(shard)?;
        }
        let applied = backend.applied()?;
        let ours = applied.map_or(Ok(()), |a| a.check_of(self.chain.job(), shard));
        ours.map_err(|why| backend.damaged(why))?;
        let tail = self.chain.plan(shard, state.link, applied, base.as_ref())?;
        self.replay(shard, backend.as_ref(), &tail)
            .map_err(|error| collected_meanwhile(shard, error, &tail, base.as_ref()))?;
        tracing::info!(%shard, sequence = state.link.sequence, replayed = tail.links.len(), "restored");
        Ok(backend)
    }

    fn fetch(&self, shard: Shard, base: &BaseLink) -> Result<(), RuntimeError> {
        let _restoring = self.faults.restoring();
        Fetch {
            chain: self.chain,
            backends: self.backends,
            faults: self.faults,
            meter: self.meter,
            shard,
            base,
        }
        .run()
    }

    fn replay(&self, shard: Shard, backend: &dyn Backend, tail: &Tail) -> Result<(), RuntimeError> {
        let _restoring = self.faults.restoring();
        let total = tail.links.len();
        self.progress.add_to_replay(total);
        let mut done = 0usize;
        self.chain.replay(tail, |link, section| {
            let applied = Applied {
                job: self.chain.job(),
                shard,
                sequence: link.sequence,
                epoch: link.epoch,
                footer: link.footer,
            };
            backend.apply(&mut section.changes.iter(), &applied)?;
            // By the section's own watermark: nobody reads before the last section, whose watermark is this one or a later.
            self.expiry.sweep(shard, backend, &section.changes, section.watermark)?;
            self.faults.at("mid_restore")?;
            self.progress.add_replayed();
            done += 1;
            if done.is_multiple_of(256) {
                tracing::info!(%shard, done, total, "restoring");
            }
            Ok::<(), RuntimeError>(())
        })
    }
}

/// What lies before the base is garbage, and may be removed between the plan and the replay.
fn collected_meanwhile(shard: Shard, error: RuntimeError, tail: &Tail, base: Option<&BaseLink>) -> RuntimeError {
    let first = tail.links.first().map(|link| link.sequence);
    let before = first.filter(|first| base.is_some_and(|base| *first <= base.sequence));
    match (before, error) {
        (Some(first), RuntimeError::Restore(e)) if !may_pass(&e) => {
            let sequence = first.saturating_sub(1);
            RestoreError::BeforeBase { shard, sequence }.into()
        }
        (_, error) => error,
    }
}
