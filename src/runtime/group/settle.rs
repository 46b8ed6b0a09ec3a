//! Beside the driver: reads the pointers of an assignment as they get stable, and restores each shard.
use crate::checkpoint::chain::{Chain, known_shards};
use crate::checkpoint::object::{ObjectError, ObjectReader, StateInfo};
use crate::checkpoint::pointer::Pointer;
use crate::checkpoint::protocol::{Expected, Identity, Start, StartFacts, check_positions, decide_start};
use crate::checkpoint::store::{Layout, Store};
use crate::operator::states::StateDecl;
use crate::runtime::RuntimeError;
use crate::runtime::progress::Progress;
use crate::runtime::restore::Restore;
use crate::runtime::start::{check_renamed, expiry, new_states};
use crate::sink::{Committed, LogErrorKind, PointerReader};
use crate::state::{Backend, BackendFactory};
use crate::testing::Faults;
use crate::types::{Position, Shard, TimestampMs};
use crossbeam_channel::{Receiver, Sender};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A read of all pointers, and one of a part of them, when one of all did not come through: a transaction of a dead instance keeps its own
/// partitions undecided, and no others.
const READ_ALL: Duration = Duration::from_millis(1000);
const READ_PART: Duration = Duration::from_millis(300);
/// A part is given longer each time: the coordinator may only be far away.
const READ_MAX: Duration = Duration::from_secs(3);
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
    pub link: crate::types::Link,
    pub positions: Vec<Position>,
    pub watermark: Option<TimestampMs>,
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
        let mut open: Vec<Shard> = shards.keys().copied().collect();
        let mut within = READ_ALL;
        while !open.is_empty() {
            self.go_on()?;
            let mut found = Vec::new();
            self.read_parts(reader, shards, &open, within, &mut found)?;
            within = if within == READ_ALL {
                READ_PART
            } else {
                (within * 2).min(READ_MAX)
            };
            open.retain(|shard| !found.iter().any(|(s, _)| s == shard));
            for one in found {
                // The restorers end with the hold.
                let _ = settled.send(one);
            }
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

    /// Reads what is stable among `open`, halving what does not come through as a whole.
    fn read_parts(
        &self,
        reader: &mut dyn PointerReader,
        shards: &Partitions,
        open: &[Shard],
        within: Duration,
        found: &mut Vec<Settled>,
    ) -> Result<(), RuntimeError> {
        self.go_on()?;
        let of = |shard: &Shard| shards.get(shard).cloned().unwrap_or_default();
        let wanted: Vec<(String, i32)> = open.iter().flat_map(of).collect();
        match reader.committed(&wanted, within) {
            Ok(committed) => {
                found.extend(open.iter().map(|shard| (*shard, of_shard(&committed, &of(shard)))));
                Ok(())
            }
            Err(e) if e.kind == LogErrorKind::Fatal => Err(RuntimeError::CannotGoOn(e.to_string())),
            Err(_) if open.len() == 1 => Ok(()),
            Err(_) => {
                let (left, right) = open.split_at(open.len() / 2);
                let within = within.min(READ_MAX);
                self.read_parts(reader, shards, left, within, found)?;
                self.read_parts(reader, shards, right, within, found)
            }
        }
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
        let path = self.layout.epoch(pointer.epoch);
        let object = ObjectReader::open(self.store.as_ref(), &path, Some(pointer.footer)).map_err(|e| match e {
            ObjectError::Store(e) => RuntimeError::Store(e),
            damaged => RuntimeError::CannotGoOn(damaged.to_string()),
        })?;
        let states = object.header().states.clone();
        check_renamed(&self.declared, &states)?;
        let mut expected = self.expected.clone();
        expected.states = new_states(&self.declared, &states);
        // States that are new begin empty: no object knows them.
        expected.states.truncate(states.len());
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
        };
        let backend = restore.shard(shard, state.link)?;
        Ok(Resumed {
            pointer,
            link: state.link,
            positions: state.positions,
            watermark: state.watermark,
            states,
            backend,
        })
    }
}

fn of_shard(committed: &[Committed], partitions: &[(String, i32)]) -> Vec<Committed> {
    let own = |c: &&Committed| partitions.iter().any(|(t, p)| *t == c.topic && *p == c.partition);
    committed.iter().filter(own).cloned().collect()
}
