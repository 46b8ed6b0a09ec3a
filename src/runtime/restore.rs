//! Brings the local copies of all shards up to the committed state: local RocksDB plus tail, else the whole chain onto an empty copy.
use super::error::RuntimeError;
use super::progress::Progress;
use crate::checkpoint::chain::{Chain, RestoreError, ShardState};
use crate::state::{Applied, Backend, BackendFactory, Expiry, StateError};
use crate::testing::Faults;
use crate::types::{Link, Shard};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that restore shards side by side.
const RESTORERS: usize = 2;

/// What a restore works with.
pub(super) struct Restore<'a> {
    pub chain: Chain<'a>,
    pub backends: &'a dyn BackendFactory,
    /// Keeps a copy that is made from the whole chain from holding everything that ever was.
    pub expiry: Expiry,
    pub faults: &'a Faults,
    pub progress: &'a Progress,
}

impl Restore<'_> {
    /// Restores every shard; returns the copies by shard.
    pub fn all(&self, shards: &[(Shard, ShardState)]) -> Result<Vec<Arc<dyn Backend>>, RuntimeError> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some((shard, state)) = shards.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((*shard, self.shard(*shard, state.link)?));
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

    /// One shard: from its local copy where that lies on the chain, else from empty. A copy that is damaged or another shard's is thrown away.
    pub fn shard(&self, shard: Shard, target: Link) -> Result<Arc<dyn Backend>, RuntimeError> {
        match self.catch_up(shard, target) {
            Err(RuntimeError::LocalCopy(StateError::Damaged { reason, path, .. })) => {
                tracing::warn!(%shard, %reason, path, "local copy damaged, thrown away and restored");
            }
            Err(RuntimeError::Restore(RestoreError::NotOnChain { sequence, .. })) => {
                tracing::warn!(%shard, sequence, "local copy is not on the committed chain, thrown away");
            }
            result => return result,
        }
        self.backends.wipe(shard)?;
        self.catch_up(shard, target)
    }

    fn catch_up(&self, shard: Shard, target: Link) -> Result<Arc<dyn Backend>, RuntimeError> {
        let backend = self.backends.open(shard)?;
        let applied = backend.applied()?;
        let ours = applied.map_or(Ok(()), |a| a.check_of(self.chain.job(), shard));
        ours.map_err(|why| backend.damaged(why))?;
        let tail = self.chain.plan(shard, target, applied)?;
        let _restoring = self.faults.restoring();
        let total = tail.links.len();
        self.progress.add_to_replay(total);
        let mut done = 0usize;
        self.chain.replay(&tail, |link, section| {
            let applied = Applied {
                job: self.chain.job(),
                shard,
                sequence: link.sequence,
                epoch: link.epoch,
                footer: link.footer,
            };
            backend.apply(&mut section.changes.iter(), &applied)?;
            // By the section's own watermark: nobody reads before the last section, whose watermark is this one or a later.
            self.expiry
                .sweep(shard, backend.as_ref(), &section.changes, section.watermark)?;
            self.faults.at("mid_restore")?;
            self.progress.add_replayed();
            done += 1;
            if done.is_multiple_of(256) {
                tracing::info!(%shard, done, total, "restoring");
            }
            Ok::<(), RuntimeError>(())
        })?;
        tracing::info!(%shard, sequence = target.sequence, replayed = total, "restored");
        Ok(backend)
    }
}
