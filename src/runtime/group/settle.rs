//! Beside the driver: reads the pointers of an assignment as they get stable, and restores each shard.
use super::fits::pointed;
use crate::checkpoint::chain::{Chain, ShardState, known_shards};
use crate::checkpoint::object::StateInfo;
use crate::checkpoint::pointer::Pointer;
use crate::checkpoint::protocol::{Expected, Identity, Start, StartFacts, check_positions, decide_start};
use crate::checkpoint::store::{Layout, Store};
use crate::operator::states::StateDecl;
use crate::runtime::RuntimeError;
use crate::runtime::progress::Progress;
use crate::runtime::restore::{FetchMeter, Restore};
use crate::runtime::start::expiry;
use crate::sink::{Committed, LogErrorKind, PointerReader};
use crate::state::{Backend, BackendFactory};
use crate::testing::Faults;
use crate::types::Shard;
use crossbeam_channel::{Receiver, Sender};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A read of all pointers, and one of a part of them, when one of all did not come through: a transaction of a dead instance keeps its own
/// partitions undecided, and no others.
const READ_ALL: Duration = Duration::from_millis(1000);
const READ_PART: Duration = Duration::from_millis(300);
/// A single shard is given longer each time: the coordinator may only be far away. Many of them share [`ROUND`].
const READ_MAX: Duration = Duration::from_secs(3);
const ROUND: Duration = Duration::from_secs(6);
const BETWEEN: Duration = Duration::from_millis(100);

/// The partitions of a shard, one of each topic.
pub(super) type Partitions = BTreeMap<Shard, Vec<(String, i32)>>;

/// A shard of the assignment that records may flow for.
pub(super) struct Ready {
    pub shard: Shard,
    /// None: its life begins, a genesis has to be committed first.
    pub resumed: Option<Resumed>,
}

/// A shard that goes on from a pointer.
pub(super) struct Resumed {
    pub pointer: Pointer,
    pub state: ShardState,
    pub states: Vec<StateInfo>,
    pub backend: Arc<dyn Backend>,
}

/// What both threads need. Owned: they run beside a driver that changes its own.
#[derive(Clone)]
pub(super) struct Settler {
    pub store: Arc<dyn Store>,
    pub layout: Layout,
    pub identity: Identity,
    pub expected: Expected,
    pub declared: Arc<[StateDecl]>,
    pub backends: Arc<dyn BackendFactory>,
    pub accept_lost_pointers: bool,
    pub faults: Faults,
    pub progress: Arc<Progress>,
    pub meter: Arc<FetchMeter>,
    /// Of a restore.
    pub run_bytes: usize,
    /// Set when the hold ends.
    pub over: Arc<AtomicBool>,
}

/// Pointers of a shard, stable.
pub(super) type Settled = (Shard, Vec<Committed>);

impl Settler {
    fn go_on(&self) -> Result<(), RuntimeError> {
        if self.over.load(Ordering::SeqCst) {
            return Err(RuntimeError::AssignmentLost("the hold has ended".to_owned()));
        }
        Ok(())
    }

    /// Hands out the pointers of each shard once they are stable.
    pub fn read(
        &self,
        reader: &mut dyn PointerReader,
        shards: &Partitions,
        settled: &Sender<Settled>,
    ) -> Result<(), RuntimeError> {
        // The restorers end with the hold.
        let hand_out = |one| drop(settled.send(one));
        let go_on = || self.go_on();
        read_pointers(reader, shards, &go_on, hand_out)
    }

    /// Restores the shards whose pointers are known, until there are no more.
    pub fn restore(&self, settled: &Receiver<Settled>, ready: &Sender<Result<Ready, RuntimeError>>) {
        while let Ok((shard, committed)) = settled.recv() {
            let restored = catch_unwind(AssertUnwindSafe(|| self.shard(shard, &committed)));
            let panicked = |_| Err(RuntimeError::CannotGoOn(format!("restoring shard {shard} panicked")));
            if ready.send(restored.unwrap_or_else(panicked)).is_err() {
                return;
            }
        }
    }

    fn shard(&self, shard: Shard, committed: &[Committed]) -> Result<Ready, RuntimeError> {
        self.go_on()?;
        let partitions: Vec<(String, i32)> = committed.iter().map(|c| (c.topic.clone(), c.partition)).collect();
        let untouched = committed.iter().all(|c| c.offset.is_none());
        // Asking the store costs a look at every object, and only a shard without a pointer needs it.
        let store_knows =
            untouched && known_shards(self.store.as_ref(), &self.layout)?.is_none_or(|known| known.contains(&shard));
        let start = decide_start(&StartFacts {
            identity: self.identity,
            partitions: &partitions,
            committed,
            store_knows,
            accept_lost_pointers: self.accept_lost_pointers,
            trust_missing_offsets: self.faults.broken("EP-6"),
        })?;
        let resumed = match start {
            Start::Genesis => None,
            Start::Resume(pointer) => Some(self.resume(shard, committed, pointer)?),
        };
        Ok(Ready { shard, resumed })
    }

    fn resume(&self, shard: Shard, committed: &[Committed], pointer: Pointer) -> Result<Resumed, RuntimeError> {
        let of_job = (&self.expected, &*self.declared);
        let (header, expected) = pointed(self.store.as_ref(), &self.layout, &pointer, of_job)?;
        let states = header.states;
        let stop = || self.over.load(Ordering::SeqCst);
        let chain = Chain::new(self.store.as_ref(), &self.layout, &expected).until(&stop);
        let state = chain.resolve_shard(&pointer, shard)?;
        check_positions(pointer.epoch, committed, &state.positions)?;
        let restore = Restore {
            chain,
            backends: self.backends.as_ref(),
            expiry: expiry(self.expected.groups, &self.declared, &states),
            faults: &self.faults,
            progress: &self.progress,
            meter: &self.meter,
            run_bytes: self.run_bytes,
        };
        let backend = restore.shard(shard, &state)?;
        Ok(Resumed {
            pointer,
            state,
            states,
            backend,
        })
    }
}

fn of_shard(committed: &[Committed], partitions: &[(String, i32)]) -> Vec<Committed> {
    let own = |c: &&Committed| partitions.iter().any(|(t, p)| *t == c.topic && *p == c.partition);
    committed.iter().filter(own).cloned().collect()
}

/// Reads the pointers of each shard until all are stable.
fn read_pointers(
    reader: &mut dyn PointerReader,
    shards: &Partitions,
    go_on: &dyn Fn() -> Result<(), RuntimeError>,
    mut hand_out: impl FnMut(Settled),
) -> Result<(), RuntimeError> {
    let mut open: Vec<Shard> = shards.keys().copied().collect();
    let (mut of_many, mut of_one) = (READ_ALL, READ_PART);
    while !open.is_empty() {
        let mut found = BTreeSet::new();
        let mut one = |(shard, committed): Settled| {
            found.insert(shard);
            hand_out((shard, committed));
        };
        read_parts(reader, shards, go_on, &open, (of_many, of_one), &mut one)?;
        open.retain(|shard| !found.contains(shard));
        of_many = READ_PART;
        of_one = longer(of_one, open.len());
        if !open.is_empty() {
            tracing::info!(
                shards = open.len(),
                "waiting until what a former owner has left undecided is decided"
            );
            std::thread::sleep(BETWEEN);
        }
    }
    Ok(())
}

/// Reads what is stable among `open`, halving what does not come through as a whole. Each shard is handed out as soon as it is found: it waits for
/// no other.
fn read_parts(
    reader: &mut dyn PointerReader,
    shards: &Partitions,
    go_on: &dyn Fn() -> Result<(), RuntimeError>,
    open: &[Shard],
    (of_many, of_one): (Duration, Duration),
    hand_out: &mut dyn FnMut(Settled),
) -> Result<(), RuntimeError> {
    go_on()?;
    let of = |shard: &Shard| shards.get(shard).cloned().unwrap_or_default();
    let wanted: Vec<(String, i32)> = open.iter().flat_map(of).collect();
    let within = if open.len() == 1 { of_one } else { of_many };
    match reader.committed(&wanted, within) {
        Ok(committed) => {
            for shard in open {
                hand_out((*shard, of_shard(&committed, &of(shard))));
            }
            Ok(())
        }
        Err(e) if e.kind == LogErrorKind::Fatal => Err(RuntimeError::CannotGoOn(e.to_string())),
        Err(_) if open.len() == 1 => Ok(()),
        Err(_) => {
            let (left, right) = open.split_at(open.len() / 2);
            let within = (READ_PART, of_one);
            read_parts(reader, shards, go_on, left, within, hand_out)?;
            read_parts(reader, shards, go_on, right, within, hand_out)
        }
    }
}

/// How long the next reads of single shards may take, when so many are open.
fn longer(within: Duration, open: usize) -> Duration {
    let share = ROUND / u32::try_from(open.max(1)).unwrap_or(u32::MAX);
    (within * 2).min(READ_MAX).min(share.max(READ_PART))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::LogError;
    use std::sync::atomic::AtomicU64;

    /// Takes all of the time that it is given while a partition is undecided. Counts it, in milliseconds.
    struct Undecided {
        undecided: std::ops::Range<i32>,
        spent: Arc<AtomicU64>,
        decided_after: Duration,
    }

    impl PointerReader for Undecided {
        fn committed(&mut self, wanted: &[(String, i32)], within: Duration) -> Result<Vec<Committed>, LogError> {
            let decided = self.spent.load(Ordering::SeqCst) >= self.decided_after.as_millis() as u64;
            if !decided && wanted.iter().any(|(_, partition)| self.undecided.contains(partition)) {
                self.spent.fetch_add(within.as_millis() as u64, Ordering::SeqCst);
                return Err(LogError {
                    kind: LogErrorKind::Retriable,
                    context: "committed".to_owned(),
                    reason: "undecided".to_owned(),
                });
            }
            let committed = |(topic, partition): &(String, i32)| Committed {
                topic: topic.clone(),
                partition: *partition,
                offset: None,
                metadata: None,
            };
            Ok(wanted.iter().map(committed).collect())
        }
    }

    /// An instance died with 16 partitions undecided, and the one that took over had 16 stable ones beside them. They stood still until every
    /// one of the undecided had been asked for, half a minute long, and a shard that was decided then was seen after more than that.
    #[test]
    fn ep_10_stable_shards_are_handed_out_before_all_undecided_ones_were_asked_for() {
        let shards: Partitions = (0..32).map(|n| (Shard(n), vec![("t".to_owned(), n as i32)])).collect();
        for undecided in [0..1, 0..16, 0..17, 0..31, 1..32, 16..32] {
            let spent = Arc::new(AtomicU64::new(0));
            let mut reader = Undecided {
                undecided: undecided.clone(),
                spent: spent.clone(),
                decided_after: Duration::from_secs(20),
            };
            let mut seen = Vec::new();
            let hand_out = |(shard, _): Settled| seen.push((shard, spent.load(Ordering::SeqCst)));
            read_pointers(&mut reader, &shards, &|| Ok(()), hand_out).expect("all of them");
            assert_eq!(seen.len(), 32, "each shard once");
            for (shard, after) in seen {
                let partition = shard.0 as i32;
                // 2k - 1 reads of parts find what is stable beside k undecided shards. What is decided is seen a round later.
                let limit = if partition < undecided.start {
                    // It lies on the way to the first of them, which halves 32 five times.
                    1000 + 5 * 300
                } else if !undecided.contains(&partition) {
                    1000 + 2 * 32 * 300
                } else {
                    20_000 + 2 * 32 * 300
                };
                assert!(after <= limit, "{shard} beside {undecided:?}: {after} ms");
            }
        }
    }
}
