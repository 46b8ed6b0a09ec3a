//! What keeps the checkpoint store, and a restore, bounded: bases cut the chains, collection removes what nothing leads to any more (EP-9).
//!
//! Both work on threads of their own, one base and one round at a time; the driver looks after them between epochs and waits for neither. Bases
//! of several shards come one after the other, so they are staggered by themselves.
mod base;
mod chains;
mod collect;

use self::base::{BaseTask, NoBase};
use self::chains::{Chains, Digests, Pending};
use self::collect::{Collector, Done, Held};
use super::backoff::Patience;
use super::commit::{CommitDriver, Written};
use super::error::RuntimeError;
use crate::checkpoint::chain::ShardState;
use crate::checkpoint::object::{Based, EncodedObject, Section};
use crate::checkpoint::protocol::ChainLimits;
use crate::checkpoint::reach::Reach;
use crate::config::Config;
use crate::state::{Backend, ImageKind, StateError};
use crate::testing::faults::Crash;
use crate::types::Shard;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// After a base that came to nothing the next is tried later, doubling up to a minute.
const AGAIN: Duration = Duration::from_secs(1);
const AGAIN_LONGEST: Duration = Duration::from_secs(60);
/// Rounds of collection in a time of grace: what is garbage stays for the grace and about two rounds.
const ROUNDS_PER_GRACE: u32 = 48;
const ROUND_MIN: Duration = Duration::from_millis(20);

/// A base in the making.
struct Making {
    shard: Shard,
    copy: Arc<Mutex<Option<Arc<dyn Backend>>>>,
    cancelled: Arc<AtomicBool>,
    thread: JoinHandle<(Result<Pending, NoBase>, Digests)>,
}

type Round = JoinHandle<(Collector, Result<Done, Held>)>;

/// Looks after bases and collection, for the commit driver.
pub(super) struct Upkeep {
    chains: Chains,
    grace: Duration,
    /// EP-9 is off.
    broken: bool,
    making: Option<Making>,
    /// A chain may be due since the last look.
    grown: bool,
    failures: u32,
    next_base: Duration,
    collector: Option<Collector>,
    round: Option<(Arc<AtomicBool>, Round)>,
    next_round: Option<Duration>,
}

impl Upkeep {
    pub fn new(config: &Config, broken: bool) -> Upkeep {
        Upkeep {
            chains: Chains::new(ChainLimits {
                objects_max: config.chain_objects_max,
                bytes_min: config.chain_bytes_min,
            }),
            grace: config.grace,
            broken,
            making: None,
            grown: true,
            failures: 0,
            next_base: Duration::ZERO,
            collector: None,
            round: None,
            next_round: None,
        }
    }

    /// How long nothing is removed.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// A restored shard goes on.
    pub fn resume(&mut self, shard: Shard, state: &ShardState) {
        self.grown = true;
        self.chains.resume(shard, state);
    }

    /// What the next section of a shard says of its base.
    pub fn based(&self, shard: Shard, name: bool, now: Duration) -> Option<Based> {
        // The switch names a base however old it is.
        self.chains
            .based(shard, name, if self.broken { Duration::ZERO } else { now })
    }

    /// Whether an object that took so long to be written, by either of this machine's clocks, names a base that is too old by now (EP-9).
    pub fn names_too_late(&self, sections: &[Section], begun: &Written, now: &Written) -> bool {
        let passed = now.elapsed.saturating_sub(begun.elapsed);
        let wall = Duration::from_millis(now.wall_ms.saturating_sub(begun.wall_ms).unsigned_abs());
        let now = begun.elapsed + passed.max(wall);
        !self.broken && sections.iter().any(|section| self.chains.names_too_late(section, now))
    }

    /// Sections were committed.
    pub fn adopt(&mut self, sections: &[Section], object: &EncodedObject, patience: &Patience) {
        self.grown = true;
        for (section, (_, link)) in sections.iter().zip(&object.links) {
            if self.chains.adopt(section, link) {
                let (shard, sequence) = (section.shard, section.base.map(|b| b.base.sequence));
                tracing::info!(%shard, sequence, "base committed");
                patience.metrics.base("committed");
            }
        }
    }

    /// Shards whose next section has a new base to name: they get one even if nothing has moved in them.
    pub fn waiting(&self, now: Duration) -> Vec<Shard> {
        self.chains.waiting(now)
    }

    /// Why no epoch may be taken now.
    pub fn full(&self) -> Option<String> {
        let (shard, chain) = self.chains.full()?;
        Some(format!(
            "{} epochs with {} bytes lie behind the base of shard {shard}, many times what should be, and no new base is done yet: epochs wait \
             for it. If there are warnings about bases, they say why; else the store is slow for this rate: a larger chain_bytes_min, a longer \
             epoch_interval or a larger chain_objects_max makes fewer bases",
            chain.objects, chain.bytes
        ))
    }

    /// What is at work is given up: its shards are others' now, or closed.
    pub fn forget(&mut self) {
        if let Some(making) = self.making.take() {
            making.cancelled.store(true, Ordering::SeqCst);
            // Waits while the image is taken, which the copy must be open for.
            *making.copy.lock() = None;
        }
        if let Some((cancelled, _)) = self.round.take() {
            cancelled.store(true, Ordering::SeqCst);
        }
        self.collector = None;
        self.chains.clear();
    }

    /// # Errors
    /// [`RuntimeError::LocalCopy`] when the copy has shown to be damaged: it is thrown away and restored.
    fn made(&mut self, making: Making, now: Duration, patience: &Patience) -> Result<(), RuntimeError> {
        self.grown = true;
        let shard = making.shard;
        let (made, digests) = match making.thread.join() {
            Ok(made) => made,
            Err(panic) => (Err(NoBase::Other(unwound(panic))), Digests::new()),
        };
        let chain = self.chains.get_mut(shard);
        match (made, chain) {
            (Ok(pending), Some(chain)) => {
                chain.pending = Some(pending);
                chain.digests = digests;
                self.failures = 0;
                return Ok(());
            }
            (Ok(_), None) | (Err(NoBase::Cancelled), _) => return Ok(()),
            (Err(NoBase::Copy(damaged @ StateError::Damaged { .. })), _) => {
                patience.metrics.base("failed");
                return Err(RuntimeError::LocalCopy(damaged));
            }
            (Err(why), chain) => {
                let outcome = if matches!(why, NoBase::TooLate) {
                    "given_up"
                } else {
                    "failed"
                };
                tracing::warn!(%shard, %why, "no base");
                patience.metrics.base(outcome);
                chain.into_iter().for_each(|chain| chain.digests = digests.clone());
            }
        }
        self.later(now);
        Ok(())
    }

    fn later(&mut self, now: Duration) {
        let wait = AGAIN * 2u32.saturating_pow(self.failures.min(6));
        self.failures += 1;
        self.next_base = now + wait.min(AGAIN_LONGEST);
    }

    fn collected(&mut self, round: Round, patience: &Patience) {
        let (collector, result) = match round.join() {
            Ok(done) => done,
            Err(panic) => {
                // Not in the macro: what nobody listens to is not evaluated, and a process that was told to die has to.
                let why = unwound(panic);
                tracing::error!(why, "a round of collection panicked");
                return;
            }
        };
        self.collector = Some(collector);
        match result {
            Ok(done) => {
                let Done {
                    removed,
                    bytes,
                    kept,
                    waiting,
                } = done;
                tracing::debug!(removed, bytes, kept, waiting, "collected");
                patience.metrics.collection("swept");
            }
            Err(Held::Cancelled) => {}
            Err(why) => {
                tracing::warn!(%why, "nothing more is collected in this round");
                patience.metrics.collection("held");
            }
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.forget();
    }
}

/// A fail point that unwinds stands for the process's death, so this thread dies too; what anything else said.
fn unwound(panic: Box<dyn Any + Send>) -> String {
    if panic.is::<Crash>() {
        std::panic::resume_unwind(panic);
    }
    super::lanes::panic_text(panic.as_ref())
}

impl CommitDriver {
    /// Looks after bases and collection; costs nothing while neither is due. Called between epochs, by the thread of the driver.
    ///
    /// # Errors
    /// [`RuntimeError::LocalCopy`] when a copy has shown to be damaged while its base was made.
    pub(super) fn tend(&mut self, kind: ImageKind) -> Result<(), RuntimeError> {
        let now = self.patience.clock.elapsed();
        if let Some(making) = self.upkeep.making.take_if(|m| m.thread.is_finished()) {
            self.upkeep.made(making, now, &self.patience)?;
        }
        if let Some((_, round)) = self.upkeep.round.take_if(|(_, round)| round.is_finished()) {
            self.upkeep.collected(round, &self.patience);
        }
        if !self.upkeep.broken {
            let late = self.upkeep.chains.expire(now);
            self.upkeep.grown |= late > 0;
            (0..late).for_each(|_| self.patience.metrics.base("given_up"));
        }
        if self.upkeep.grown && self.upkeep.making.is_none() && now >= self.upkeep.next_base {
            self.upkeep.grown = false;
            self.begin_base(kind, now);
        }
        let interval = (self.upkeep.grace / ROUNDS_PER_GRACE).max(ROUND_MIN);
        let due = *self.upkeep.next_round.get_or_insert(now + interval);
        if self.upkeep.round.is_none() && now >= due && self.collects() {
            self.upkeep.next_round = Some(now + interval);
            self.begin_round();
        }
        Ok(())
    }

    /// Of all instances one collects: the owner of the first shard. (Two at a time would do no harm.)
    fn collects(&self) -> bool {
        self.group.is_none() || self.links.contains_key(&Shard(0))
    }

    fn beside(&self) -> Patience {
        Patience {
            of_driver: false,
            ..self.patience.clone()
        }
    }

    fn begin_base(&mut self, kind: ImageKind, now: Duration) {
        self.patience.metrics.chains(self.upkeep.chains.longest());
        let Some(shard) = self.upkeep.chains.most_due() else {
            return;
        };
        // A base of what a copy is now would have all that the copy lacks behind it. Where no epoch is taken any more, it is made all the same.
        if self.behind.contains(&shard) && self.upkeep.full().is_none() {
            self.wanted = Some(shard);
            return;
        }
        let (Some(backend), Some(chain)) = (
            self.backends.get(shard.0 as usize).cloned(),
            self.upkeep.chains.get_mut(shard),
        ) else {
            return;
        };
        let (copy, cancelled) = (Arc::new(Mutex::new(Some(backend))), Arc::<AtomicBool>::default());
        let (before, digests) = (chain.base, std::mem::take(&mut chain.digests));
        let task = BaseTask {
            store: self.store.clone(),
            layout: self.layout.clone(),
            shard,
            kind,
            before,
            copy: copy.clone(),
            cancelled: cancelled.clone(),
            digests,
            grace: self.upkeep.grace,
            patience: self.beside(),
            faults: self.faults.clone(),
        };
        match spawn("base", move || task.run()) {
            Ok(thread) => {
                self.upkeep.making = Some(Making {
                    shard,
                    copy,
                    cancelled,
                    thread,
                });
            }
            Err(why) => {
                tracing::warn!(%shard, %why, "no thread for a base can be started, it is tried again: raise the limit of processes");
                self.patience.metrics.base("failed");
                self.upkeep.grown = true;
                self.upkeep.later(now);
            }
        }
    }

    fn begin_round(&mut self) {
        let mut reader = match self.log.pointer_reader() {
            Ok(reader) => reader,
            Err(why) => {
                tracing::warn!(%why, "nothing is collected in this round");
                self.patience.metrics.collection("held");
                return;
            }
        };
        let cancelled = Arc::<AtomicBool>::default();
        let mut collector = match self.upkeep.collector.take() {
            Some(collector) => collector,
            None => self.collector(),
        };
        collector.cancelled = cancelled.clone();
        let thread = spawn("collect", move || {
            let done = collector.round(reader.as_mut());
            (collector, done)
        });
        match thread {
            Ok(thread) => self.upkeep.round = Some((cancelled, thread)),
            Err(why) => {
                tracing::warn!(%why, "no thread for a collection can be started, the next round tries again: raise the limit of processes");
                self.patience.metrics.collection("held");
            }
        }
    }

    fn collector(&self) -> Collector {
        let topics = self.expected.topics.iter();
        let partitions = topics.flat_map(|t| (0..t.partitions as i32).map(|p| (t.topic.clone(), p)));
        Collector {
            store: self.store.clone(),
            layout: self.layout.clone(),
            identity: self.identity,
            partitions: partitions.collect(),
            by_partition: self.group.as_ref().map(|_| self.expected.groups),
            grace: self.upkeep.grace,
            clock: self.patience.clock.clone(),
            metrics: self.patience.metrics.clone(),
            faults: self.faults.clone(),
            cancelled: Arc::default(),
            reach: Reach::default(),
            garbage: BTreeSet::new(),
        }
    }
}

/// Work that can wait: a machine without a thread to spare is no reason to end the job.
fn spawn<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> std::io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}
