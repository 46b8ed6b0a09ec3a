//! Brings the local copies of all shards up to the committed state: local RocksDB plus tail, else the shard's base plus the chain behind it,
//! else, before there is a base, the whole chain onto an empty copy.
mod ahead;
mod fetch;
#[cfg(test)]
mod tests;

pub(crate) use self::ahead::run_bytes;
use self::ahead::{Run, Runs};
use self::fetch::Fetch;
pub(crate) use self::fetch::FetchMeter;
use super::error::RuntimeError;
use super::progress::Progress;
use crate::checkpoint::chain::{Chain, RestoreError, ShardState, Tail, may_pass};
use crate::state::{Applied, Backend, BackendFactory, Expiry, StateError};
use crate::testing::Faults;
use crate::types::{BaseLink, Shard};
use crossbeam_channel::{Sender, bounded};
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
    /// See [`run_bytes`].
    pub run_bytes: usize,
}

impl Restore<'_> {
    /// Restores every shard; returns the copies by shard. What tidies them up begins when nobody waits for a restore any more.
    pub fn all(&self, shards: &[(Shard, ShardState)]) -> Result<Vec<Arc<dyn Backend>>, RuntimeError> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            while let Some((shard, state)) = shards.get(next.fetch_add(1, Ordering::Relaxed)) {
                done.push((*shard, self.behind(*shard, state)?));
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
        restored.iter().try_for_each(|(_, backend)| backend.caught_up())?;
        Ok(restored.into_iter().map(|(_, backend)| backend).collect())
    }

    /// One shard: from its local copy where that lies on the chain, else from its base, else from empty. A copy that is damaged
    /// or another shard's is thrown away.
    pub fn shard(&self, shard: Shard, state: &ShardState) -> Result<Arc<dyn Backend>, RuntimeError> {
        let backend = self.behind(shard, state)?;
        backend.caught_up()?;
        Ok(backend)
    }

    /// Without [`Backend::caught_up`].
    fn behind(&self, shard: Shard, state: &ShardState) -> Result<Arc<dyn Backend>, RuntimeError> {
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
        if let Some(base) = base.filter(|_| !self.backends.is_there(shard)) {
            return self.with_base(shard, state, &base);
        }
        let backend = self.open(shard)?;
        let applied = backend.applied()?;
        if let (None, Some(base)) = (applied, &base) {
            // Closed: it is replaced.
            drop(backend);
            return self.with_base(shard, state, base);
        }
        let tail = self.chain.plan(shard, state.link, applied, base.as_ref())?;
        beside(
            |out| ahead::read(self, || Ok(&tail), out),
            |runs| self.replay(shard, state, backend, runs),
        )
        .map_err(|error| collected_meanwhile(shard, error, &tail, base.as_ref()))
    }

    /// Its copy, which is its own or empty.
    fn open(&self, shard: Shard) -> Result<Arc<dyn Backend>, RuntimeError> {
        let backend = self.backends.open_behind(shard)?;
        tracing::debug!(%shard, "copy opened");
        let ours = backend
            .applied()?
            .map_or(Ok(()), |a| a.check_of(self.chain.job(), shard));
        ours.map_err(|why| backend.damaged(why))?;
        Ok(backend)
    }

    /// The chain is read while the base is fetched: where the copy will stand is known from the base's manifest.
    fn with_base(&self, shard: Shard, state: &ShardState, base: &BaseLink) -> Result<Arc<dyn Backend>, RuntimeError> {
        let _restoring = self.faults.restoring();
        let fetch = Fetch {
            chain: self.chain,
            backends: self.backends,
            faults: self.faults,
            meter: self.meter,
            shard,
            base,
        };
        let manifest = fetch.manifest()?;
        let from = Some(manifest.applied);
        let plan = || self.chain.plan(shard, state.link, from, Some(base));
        let copy = |runs| {
            fetch.run(&manifest)?;
            let backend = self.open(shard)?;
            if backend.applied()? != from {
                return Err(fetch.not_what_it_says());
            }
            self.replay(shard, state, backend, runs)
        };
        beside(|out| ahead::read(self, plan, out), copy)
    }

    fn replay(
        &self,
        shard: Shard,
        state: &ShardState,
        backend: Arc<dyn Backend>,
        runs: Runs,
    ) -> Result<Arc<dyn Backend>, RuntimeError> {
        let _restoring = self.faults.restoring();
        let mut replayed = 0usize;
        for run in runs {
            let run = run?;
            let Some(link) = run.sections().last().map(|last| last.link) else {
                continue;
            };
            let applied = Applied {
                job: self.chain.job(),
                shard,
                sequence: link.sequence,
                epoch: link.epoch,
                footer: link.footer,
            };
            // A run is one write: whoever dies at one of these finds nothing of it, or at the last all.
            (1..run.sections().len()).try_for_each(|_| self.faults.at("mid_restore"))?;
            backend.apply(&mut run.changes(), &applied)?;
            tracing::debug!(%shard, sections = run.sections().len(), "sections applied");
            for section in run.sections() {
                // By the section's own watermark: nobody reads before the last section, whose watermark is this one or a later.
                let backend = backend.as_ref();
                self.expiry.sweep(shard, backend, &section.changes, section.watermark)?;
                self.progress.add_replayed();
                replayed += 1;
                if replayed.is_multiple_of(256) {
                    tracing::info!(%shard, replayed, "restoring");
                }
            }
            self.faults.at("mid_restore")?;
        }
        let reached = backend.applied()?.map(|applied| applied.sequence);
        if reached != Some(state.link.sequence) {
            return Err(RuntimeError::CannotGoOn(format!(
                "EP-4: the chain of shard {shard} was read to section {reached:?} and not to {}; report this, it is a bug",
                state.link.sequence
            )));
        }
        tracing::info!(%shard, sequence = state.link.sequence, replayed, "restored");
        Ok(backend)
    }
}

/// Reads runs on a thread of its own, and takes them here.
fn beside<T>(
    read: impl FnOnce(Sender<Result<Run, RuntimeError>>) + Send,
    take: impl FnOnce(Runs) -> Result<T, RuntimeError>,
) -> Result<T, RuntimeError> {
    std::thread::scope(|scope| {
        let (out, runs) = bounded(0);
        let reader = scope.spawn(move || read(out));
        let taken = take(runs);
        // Nobody takes runs any more, so it ends. A fail point that unwinds stands for a process that dies.
        reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        taken
    })
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
