//! One hold: what this instance does for one assignment.
use super::TICK;
use super::member::Member;
use super::settle::{Partitions, Ready, Resumed, Settler};
use crate::checkpoint::chain::first_sequence;
use crate::checkpoint::object::StateInfo;
use crate::runtime::backoff::Patience;
use crate::runtime::commit::CommitDriver;
use crate::runtime::epoch::Standing;
use crate::runtime::patient_store::PatientStore;
use crate::runtime::processing::{Processing, SetOnDrop};
use crate::runtime::progress::Phase;
use crate::runtime::restore::{FetchMeter, run_bytes};
use crate::runtime::start::{Prepared, new_states, start_positions};
use crate::runtime::{Runtime, RuntimeError};
use crate::sink::{LogErrorKind, PointerReader};
use crate::state::StateId;
use crate::state::backend::Unowned;
use crate::types::{Assignment, Position, Shard};
use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Threads that restore shards side by side.
const RESTORERS: usize = 2;
/// How long records wait for shards that are nearly there, and how long they flow before they are stopped for a moment to let more in
/// (EP-10: a shard that is being restored keeps no other waiting).
const GATHER: Duration = Duration::from_millis(500);
const LET_IN: Duration = Duration::from_secs(5);

/// Why a hold has ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The group has taken the assignment back.
    TakenBack,
    /// A stop was asked for.
    Stopped,
}

/// A hold at work.
pub(super) struct Hold<'a> {
    runtime: &'a mut Runtime,
    prepared: &'a Prepared,
    driver: &'a mut CommitDriver,
    member: &'a Member,
    assignment: &'a Assignment,
    standing: Standing,
    /// States that the objects of the shards know.
    known: Vec<StateInfo>,
    owned: usize,
}

impl<'a> Hold<'a> {
    pub fn new(
        runtime: &'a mut Runtime,
        prepared: &'a Prepared,
        driver: &'a mut CommitDriver,
        member: &'a Member,
        assignment: &'a Assignment,
    ) -> Hold<'a> {
        let watermarks = vec![None; prepared.groups.shards as usize];
        let standing = Standing::new(prepared.groups, &[], watermarks).owning(&[]);
        Hold {
            runtime,
            prepared,
            driver,
            member,
            assignment,
            standing,
            known: Vec::new(),
            owned: 0,
        }
    }

    /// Works until the assignment is taken back, or a stop.
    pub fn run(mut self) -> Result<Ended, RuntimeError> {
        let shards = self.shards()?;
        self.runtime.enter(Phase::Restoring);
        self.driver.forget_shards();
        let unowned = |shard| Arc::new(Unowned::new(Shard(shard))) as Arc<dyn crate::state::Backend>;
        self.driver.backends = (0..self.prepared.groups.shards).map(unowned).collect();
        self.driver.log.assign(self.assignment)?;
        let (generation, count) = (self.assignment.member.generation, shards.len());
        tracing::info!(generation, shards = count, "assigned");
        self.runtime.metrics.shards(0, count);
        if shards.is_empty() {
            return Ok(self.idle());
        }
        if self.driver.session.stale {
            self.driver.open_session()?;
        }
        let reader = self.reader()?;
        self.beside_settlers(&shards, reader)
    }

    /// The assignment by shard. A shard's partitions of all topics go together: the `range` assignor sees to it for topics with equally many.
    fn shards(&self) -> Result<Partitions, RuntimeError> {
        let mut shards = Partitions::new();
        let count = self.prepared.groups.shards;
        for (topic, partition) in &self.assignment.partitions {
            if !self.prepared.topics.iter().any(|t| t.topic == *topic) || !(0..count as i32).contains(partition) {
                return Err(RuntimeError::CannotGoOn(format!(
                    "partition {topic}-{partition} was assigned, and the stage's state was made from {count} partitions of each of its topics. \
                     Either the topic was given more partitions, and keys may have moved to those that the job does not read: start a new job \
                     id on the topic as it is. Or another program is a member of the group and reads other topics: stop it, then start again"
                )));
            }
            let shard = self.prepared.groups.shard_of_partition(*partition);
            shards.entry(shard).or_default().push((topic.clone(), *partition));
        }
        let topics = self.prepared.topics.len();
        match shards.iter().find(|(_, partitions)| partitions.len() != topics) {
            None => Ok(shards),
            // The group's leader did not know all topics for a moment: the next rebalance mends it.
            Some((shard, partitions)) => Err(RuntimeError::AssignmentLost(format!(
                "partition {shard} of {} topics was assigned, and the stage reads {topics}; if this stays, another program or another \
                 assignor is in the group: every member has to be an instance of this job",
                partitions.len()
            ))),
        }
    }

    /// More instances than partitions: a hot spare.
    fn idle(&self) -> Ended {
        tracing::info!("no partition is assigned to this instance; it waits for one");
        self.runtime.enter(Phase::Spare);
        loop {
            self.member.signals.tick();
            if self.runtime.stop.asked() {
                return Ended::Stopped;
            }
            if self.member.signals.end_of_work() {
                return Ended::TakenBack;
            }
            self.runtime.clock.sleep(TICK);
        }
    }

    fn reader(&mut self) -> Result<Box<dyn PointerReader>, RuntimeError> {
        let mut backoff = self.driver.patience.backoff("pointers");
        loop {
            match self.driver.log.pointer_reader() {
                Ok(reader) => return Ok(reader),
                Err(e) if e.kind == LogErrorKind::Fatal => return Err(e.into()),
                Err(e) => backoff.wait(&e)?,
            }
        }
    }

    fn settler(&self, over: &Arc<AtomicBool>) -> Settler {
        // The hold waits for its restorers, also when it ends by an error, and a store may stay away.
        let patience = Patience {
            of_driver: false,
            over: Some(over.clone()),
            ..self.driver.patience.clone()
        };
        Settler {
            store: Arc::new(PatientStore::new(self.prepared.store.clone(), patience)),
            layout: self.prepared.layout.clone(),
            identity: self.prepared.identity,
            expected: self.driver.expected.clone(),
            declared: self.runtime.topology.states.clone().into(),
            backends: self.prepared.backends.clone(),
            accept_lost_pointers: self.runtime.config.accept_lost_pointers,
            faults: self.runtime.faults.clone(),
            progress: self.runtime.progress.clone(),
            meter: Arc::new(FetchMeter::new(
                self.runtime.metrics.clone(),
                self.runtime.clock.clone(),
            )),
            run_bytes: run_bytes(&self.runtime.config),
            over: over.clone(),
        }
    }

    fn beside_settlers(
        &mut self,
        shards: &Partitions,
        mut reader: Box<dyn PointerReader>,
    ) -> Result<Ended, RuntimeError> {
        let over: Arc<AtomicBool> = Arc::default();
        let settler = self.settler(&over);
        std::thread::scope(|scope| {
            // Also when this thread unwinds: the scope waits for the others.
            let _ends = SetOnDrop(&over);
            let (settled, to_restore) = bounded(shards.len());
            let (done, ready) = bounded(2 * shards.len() + 2);
            for _ in 0..RESTORERS {
                let (settler, to_restore, done) = (&settler, to_restore.clone(), done.clone());
                scope.spawn(move || settler.restore(&to_restore, &done));
            }
            let settler = &settler;
            scope.spawn(move || {
                let read = catch_unwind(AssertUnwindSafe(|| settler.read(reader.as_mut(), shards, &settled)));
                let panicked = |_| Err(RuntimeError::CannotGoOn("reading the pointers panicked".to_owned()));
                if let Err(error) = read.unwrap_or_else(panicked) {
                    let _ = done.send(Err(error));
                }
            });
            // The restorers end with the last settled shard: nobody else may keep their channel.
            drop(to_restore);
            self.work(&ready, shards.len())
        })
    }

    fn ended(&self) -> Option<Ended> {
        if self.runtime.stop.asked() {
            Some(Ended::Stopped)
        } else if self.member.signals.end_of_work() {
            Some(Ended::TakenBack)
        } else {
            None
        }
    }

    fn work(&mut self, ready: &Receiver<Result<Ready, RuntimeError>>, total: usize) -> Result<Ended, RuntimeError> {
        loop {
            let fresh = self.gather(ready, total)?;
            if let Some(ended) = self.ended() {
                return Ok(ended);
            }
            self.let_in(fresh)?;
            self.flow(ready, total)?;
            if let Some(ended) = self.ended() {
                return Ok(ended);
            }
        }
    }

    /// Waits for shards: for all, or a moment when there are some.
    fn gather(
        &mut self,
        ready: &Receiver<Result<Ready, RuntimeError>>,
        total: usize,
    ) -> Result<Vec<Ready>, RuntimeError> {
        let clock = self.runtime.clock.clone();
        let until = clock.elapsed() + GATHER;
        let mut fresh = Vec::new();
        loop {
            let there = self.owned + fresh.len();
            let enough = there == total || (there > 0 && clock.elapsed() >= until);
            if enough || self.ended().is_some() {
                return Ok(fresh);
            }
            self.member.signals.tick();
            match ready.recv_timeout(TICK) {
                Ok(shard) => fresh.push(shard?),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RuntimeError::CannotGoOn("a restore panicked".to_owned()));
                }
            }
        }
    }

    /// Adds restored shards to what is owned; the life of new ones begins with a genesis.
    fn let_in(&mut self, fresh: Vec<Ready>) -> Result<(), RuntimeError> {
        self.owned += fresh.len();
        let mut new = Vec::new();
        for Ready { shard, resumed } in fresh {
            match resumed {
                Some(resumed) => self.resume(shard, resumed)?,
                None => new.push(shard),
            }
        }
        self.driver.expected.states = new_states(&self.runtime.topology.states, &self.known);
        if new.is_empty() {
            return Ok(());
        }
        self.genesis(&new)
    }

    fn resume(&mut self, shard: Shard, resumed: Resumed) -> Result<(), RuntimeError> {
        for state in &resumed.states {
            match self.known.iter().find(|k| k.id == state.id || same_state(k, state)) {
                None => self.known.push(state.clone()),
                Some(known) if known.id == state.id && same_state(known, state) => {}
                Some(known) => {
                    return Err(RuntimeError::CannotGoOn(format!(
                        "the shards know the state {}/{} under different ids ({} and {}): instances with different topologies have run side \
                         by side and both added states; this cannot be put together again, restore the checkpoint store of before",
                        state.operator, state.name, known.id, state.id
                    )));
                }
            }
        }
        self.driver.backends[shard.0 as usize] = resumed.backend;
        let state = &resumed.state;
        self.driver.links.insert(shard, state.link);
        self.driver.upkeep.resume(shard, state);
        // There are no outboxes in group mode, so none is waited for.
        self.driver.outboxes.all_delivered(shard, state.link.sequence);
        self.driver.pointers.insert(shard, resumed.pointer);
        let by_partition = |p: &Position| ((p.topic.clone(), p.partition), p.clone());
        self.driver.positions.extend(state.positions.iter().map(by_partition));
        self.standing.own(shard, &state.positions, state.watermark);
        self.runtime
            .progress
            .set_resumed(Some(resumed.pointer.epoch.to_string()));
        tracing::info!(%shard, epoch = %resumed.pointer.epoch, "resumed");
        Ok(())
    }

    /// EP-6: start positions and empty sections are committed before the first record.
    fn genesis(&mut self, shards: &[Shard]) -> Result<(), RuntimeError> {
        tracing::info!(
            shards = shards.len(),
            "nothing is committed for these shards, their life begins"
        );
        let groups = self.prepared.groups;
        let assigned = |p: &Position| {
            self.assignment
                .partitions
                .iter()
                .any(|(t, i)| *t == p.topic && *i == p.partition)
        };
        let begins = |p: &Position| assigned(p) && shards.contains(&groups.shard_of_partition(p.partition));
        let positions: Vec<Position> = start_positions(self.runtime)?.into_iter().filter(begins).collect();
        for shard in shards {
            self.prepared.backends.wipe(*shard)?;
            self.driver.backends[shard.0 as usize] = self.prepared.backends.open(*shard)?;
        }
        let watermarks = vec![None; groups.shards as usize];
        let begun = Standing::new(groups, &positions, watermarks).owning(shards);
        self.driver.first_sequence = first_sequence(self.runtime.store.as_ref(), &self.prepared.layout)?;
        self.driver.commit(begun.genesis())?;
        for shard in shards {
            self.standing.own(*shard, &begun.of_shard(*shard), None);
        }
        Ok(())
    }

    /// Records flow for what is owned, until that changes.
    fn flow(&mut self, ready: &Receiver<Result<Ready, RuntimeError>>, total: usize) -> Result<(), RuntimeError> {
        let state_ids = self.driver.expected.states.iter();
        let state_ids: HashMap<_, _> = state_ids
            .map(|s| ((s.operator.clone(), s.name.clone()), StateId(s.id)))
            .collect();
        let missing = total - self.owned;
        self.runtime.metrics.shards(self.owned, missing);
        let (clock, signals) = (self.runtime.clock.clone(), self.member.signals.clone());
        let since = clock.elapsed();
        tracing::info!(shards = self.owned, missing, "processing");
        let until = || {
            let all_there = missing > 0 && ready.len() >= missing;
            let some_wait = !ready.is_empty() && clock.elapsed() >= since + LET_IN;
            signals.end_of_work() || all_there || some_wait
        };
        Processing {
            driver: self.driver,
            standing: &mut self.standing,
            state_ids: Arc::new(state_ids),
            until: &until,
            paused: true,
            kind: self.prepared.backends.kind(),
        }
        .run(self.runtime)
    }
}

fn same_state(a: &StateInfo, b: &StateInfo) -> bool {
    a.operator == b.operator && a.name == b.name
}
