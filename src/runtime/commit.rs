//! The commit driver: names an epoch, makes it durable, publishes it, applies it. Written against [`Log`], [`Store`] and `Clock`; what may
//! be done is decided in `checkpoint::protocol`.
use super::backoff::Patience;
use super::epoch::{Epoch, ShardEpoch};
use super::error::RuntimeError;
use super::group::Signals;
use super::instance::Instance;
use super::outbox::Outboxes;
use super::progress::Progress;
use super::publish::Published;
use super::upkeep::Upkeep;
use crate::checkpoint::object::{EncodedObject, Header, Section, encode};
use crate::checkpoint::pointer::Pointer;
use crate::checkpoint::protocol::{Claim, CommitPermit, Expected, Identity, may_publish};
use crate::checkpoint::store::{Layout, Store, StoreErrorKind, random};
use crate::sink::{CommitEntry, Log, OutputBuffer};
use crate::state::{Applied, Backend, Expiry, StateError};
use crate::telemetry::EpochPhase;
use crate::testing::Faults;
use crate::types::{Digest, EpochId, Incarnation, Link, Position, Sequence, Shard, Shards, TimestampMs};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How often a write to a local copy is tried again before the copy is opened anew.
const LOCAL_TRIES: u32 = 5;

/// Everything that the driver works with.
pub struct CommitDriver {
    pub(super) log: Box<dyn Log>,
    pub(super) store: Arc<dyn Store>,
    pub(super) layout: Layout,
    pub(super) identity: Identity,
    pub(super) expected: Expected,
    pub(super) instance: Instance,
    pub(super) backends: Vec<Arc<dyn Backend>>,
    /// The shards whose copies have not taken every committed section yet: what they lack waits in the lanes.
    pub(super) behind: BTreeSet<Shard>,
    /// One of them whose copy is to become a base.
    pub(super) wanted: Option<Shard>,
    pub(super) expiry: Expiry,
    pub(super) outboxes: Outboxes,
    pub(super) patience: Patience,
    pub(super) progress: Arc<Progress>,
    pub(super) faults: Faults,
    pub(super) transaction_timeout: Duration,
    /// How long a pointer must stand still before whoever may commit it counts as gone.
    pub(super) watch_for: Duration,
    pub(super) refusal_retries_max: u32,
    pub(super) upkeep: Upkeep,
    pub(super) session: Session,
    /// The last committed section of every shard.
    pub(super) links: BTreeMap<Shard, Link>,
    /// The committed pointer of every shard; none before genesis. In single mode all are the same.
    pub(super) pointers: BTreeMap<Shard, Pointer>,
    /// Set in group mode: a commit names the shards that it has a section of, and no others.
    pub(super) group: Option<Arc<Signals>>,
    /// The committed position of every partition.
    pub(super) positions: BTreeMap<(String, i32), Position>,
    /// The sequence of genesis sections.
    pub(super) first_sequence: Sequence,
    /// When offsets were last committed.
    pub(super) committed_at: Duration,
}

/// When the writing of an epoch's object was begun, by both of this machine's clocks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    pub elapsed: Duration,
    pub wall_ms: i64,
}

/// The producer session at hand.
#[derive(Debug)]
pub(super) struct Session {
    pub incarnation: Incarnation,
    pub next_n: u64,
    /// Must be opened anew before the next transaction (EP-5).
    pub stale: bool,
    /// Was opened anew after a fence, and nothing has been committed since (EP-7).
    pub rebuilt_after_fence: bool,
    /// Whether this is not the first one of the run.
    pub reopened: bool,
    /// When the last transaction was begun.
    pub begun_at: Duration,
}

/// An epoch that is durable and waits to be published.
pub(super) struct Durable {
    pub pointer: Pointer,
    pub outputs: Vec<OutputBuffer>,
    pub entries: Vec<CommitEntry>,
    pub records: u64,
    /// Entries of state that it changes.
    pub changes: u64,
    /// The pointers are committed again as they are (EP-10): that they are the committed ones says nothing about this commit, so this one has
    /// to be sent until it is acknowledged.
    pub again: bool,
    pub written: Written,
    pub _permit: CommitPermit,
}

impl Session {
    /// Before any session was opened.
    pub fn none() -> Session {
        Session {
            incarnation: Incarnation(0),
            next_n: 1,
            stale: true,
            rebuilt_after_fence: false,
            reopened: false,
            begun_at: Duration::ZERO,
        }
    }
}

impl CommitDriver {
    /// Opens a session under the stage's name: every earlier holder is fenced. Retried until it works.
    ///
    /// # Errors
    /// [`RuntimeError`]
    pub fn open_session(&mut self) -> Result<(), RuntimeError> {
        let mut backoff = self.patience.backoff("session");
        loop {
            match self.log.open_session() {
                Ok(()) => break,
                Err(e) if e.kind == crate::sink::LogErrorKind::Fatal => {
                    return Err(RuntimeError::CannotGoOn(e.to_string()));
                }
                Err(e) => backoff.wait(&e)?,
            }
        }
        if self.session.reopened {
            self.patience.metrics.session_rebuilt();
        }
        let broken = self.faults.broken("EP-2");
        let random =
            || random().map_err(|e| RuntimeError::CannotGoOn(format!("no random numbers from the system: {e}")));
        let incarnation = Incarnation(if broken { 1 } else { random()? });
        self.instance.remember(incarnation)?;
        let Session {
            rebuilt_after_fence, ..
        } = self.session;
        self.session = Session {
            incarnation,
            next_n: 1,
            stale: false,
            rebuilt_after_fence,
            reopened: true,
            begun_at: Duration::ZERO,
        };
        self.faults.at("post_init")?;
        Ok(())
    }

    /// Forgets a start that came to nothing.
    pub(super) fn begin_again(&mut self) {
        self.session = Session::none();
        self.forget_shards();
    }

    /// Forgets what is committed and where it lies locally.
    pub(super) fn forget_shards(&mut self) {
        self.upkeep.forget();
        self.links.clear();
        self.pointers.clear();
        self.positions.clear();
        self.backends.clear();
        self.behind.clear();
        self.wanted = None;
    }

    /// A sign of life for the group (group mode).
    pub(super) fn alive(&self) {
        self.group.iter().for_each(|group| group.tick());
    }

    fn next_epoch_id(&mut self) -> EpochId {
        let n = self.session.next_n;
        self.session.next_n += 1;
        EpochId {
            incarnation: self.session.incarnation,
            n,
        }
    }

    fn header(&self, epoch: EpochId, genesis: bool) -> Header {
        let e = &self.expected;
        // EP-10: shards without a section in this object keep their pointer through this table.
        let last_committed = match self.faults.broken("EP-10") {
            true => Vec::new(),
            false => self.links.iter().map(|(shard, link)| (*shard, *link)).collect(),
        };
        Header {
            job: e.job.clone(),
            stage: e.stage.clone(),
            epoch,
            genesis,
            topology: e.topology,
            groups: e.groups,
            topics: e.topics.clone(),
            states: e.states.clone(),
            outbox_sinks: self.outboxes.ids(),
            last_committed,
        }
    }

    fn section(&self, shard: ShardEpoch) -> Section {
        let parent = self.links.get(&shard.shard).copied();
        Section {
            shard: shard.shard,
            sequence: parent.map_or(self.first_sequence, |p| p.sequence + 1),
            parent,
            positions: shard.positions,
            watermark: shard.watermark,
            operator_state: Vec::new(),
            base: None,
            outbox_delivered: self.outboxes.delivered(shard.shard),
            outbox: shard.outbox,
            changes: shard.changes,
        }
    }

    /// Commits one epoch: durable, published, applied, delivered, in this order. Tried again for as long as it takes.
    ///
    /// # Errors
    /// [`RuntimeError`]: fenced, refused, or a stop that would not wait any longer.
    pub fn commit(&mut self, epoch: Epoch) -> Result<(), RuntimeError> {
        self.faults.at("barrier_aligned")?;
        self.instance.check()?;
        if self.session.stale {
            self.settle_session(None)?;
        }
        let Epoch {
            genesis,
            shards,
            records,
        } = epoch;
        let taking = shards.iter().filter(|s| s.taken);
        let horizons: BTreeMap<Shard, Option<TimestampMs>> = taking.map(|s| (s.shard, s.horizon)).collect();
        let mut outputs = Vec::new();
        let mut sections = Vec::new();
        for mut shard in shards {
            outputs.append(&mut shard.outputs);
            sections.push(self.section(shard));
        }
        let (id, footer) = self.commit_sections(&mut sections, outputs, (genesis, records))?;
        let taking = || sections.iter().filter(|s| horizons.contains_key(&s.shard));
        self.apply(id, footer, taking())?;
        self.sweep(taking(), &horizons)?;
        let waits = |section: &&Section| !horizons.contains_key(&section.shard);
        self.behind.extend(sections.iter().filter(waits).map(|s| s.shard));
        self.deliver(&sections)
    }

    /// Durable and published, or, when too much time has passed in between, the same again under a new name (EP-9): what was written first may
    /// be garbage by now. So may a base that it was to name.
    fn commit_sections(
        &mut self,
        sections: &mut [Section],
        mut outputs: Vec<OutputBuffer>,
        (genesis, records): (bool, u64),
    ) -> Result<(EpochId, Digest), RuntimeError> {
        let mut first = true;
        loop {
            let id = self.next_epoch_id();
            let now = self.patience.clock.elapsed();
            for section in sections.iter_mut() {
                section.base = self.upkeep.based(section.shard, first, now);
            }
            let object = encode(&self.header(id, genesis), sections)
                .map_err(|e| RuntimeError::CannotGoOn(format!("epoch {id}: {e}")))?;
            self.faults.at("object_built")?;
            let mut durable = self.durable(id, &object, sections, outputs, (genesis, records))?;
            // The switch turns the order round, so that a transaction names an object that is not there yet.
            let named_first = self.faults.broken("EP-1");
            // From before the first try on: a put that was not answered may have been done long before the one that was.
            durable.written = self.now();
            if !named_first {
                self.write(id, &object)?;
            }
            self.faults
                .at(if genesis { "pre_genesis_commit" } else { "post_manifest" })?;
            // While the store was away the base has become older, and another instance may have collected it.
            let late = self.upkeep.names_too_late(sections, &durable.written, &self.now());
            if late || self.publish(&durable)? == Published::TooOld {
                tracing::warn!(epoch = %id, "too much time has passed since it was written: it is written again before it is published");
                self.patience.metrics.rewritten();
                outputs = durable.outputs;
                first = false;
                continue;
            }
            if named_first {
                self.write(id, &object)?;
            }
            self.adopt(&durable, &object);
            self.upkeep.adopt(sections, &object, &self.patience);
            // Its bytes are not needed any more, and they are as many as the changes that are applied next.
            return Ok((id, object.footer));
        }
    }

    pub(super) fn now(&self) -> Written {
        Written {
            elapsed: self.patience.clock.elapsed(),
            wall_ms: self.patience.clock.now_ms(),
        }
    }

    /// The copies of these shards lack nothing that waits: it has been applied, or there was none.
    pub(super) fn took_all(&mut self, taking: Shards) {
        self.behind.retain(|shard| !taking.contain(*shard));
    }

    /// A shard whose copy is to take what it lacks, so that a base may be made of it.
    pub(super) fn take_wanted(&mut self) -> Option<Shard> {
        self.wanted.take()
    }

    fn deliver(&mut self, sections: &[Section]) -> Result<(), RuntimeError> {
        let started = self.patience.clock.elapsed();
        self.outboxes.deliver(sections, &self.patience)?;
        if !self.outboxes.is_empty() {
            self.took(EpochPhase::Deliver, started);
        }
        Ok(())
    }

    fn took(&self, phase: EpochPhase, since: Duration) {
        let now = self.patience.clock.elapsed();
        self.patience.metrics.epoch_phase(phase, now.saturating_sub(since));
    }

    fn durable(
        &self,
        id: EpochId,
        object: &EncodedObject,
        sections: &[Section],
        outputs: Vec<OutputBuffer>,
        (genesis, records): (bool, u64),
    ) -> Result<Durable, RuntimeError> {
        let claim = |s: &Section| Claim {
            shard: s.shard,
            sequence: s.sequence,
            built_on: s.parent,
            committed: self.links.get(&s.shard).copied(),
            genesis,
        };
        let claims: Vec<Claim> = sections.iter().map(claim).collect();
        let permit = may_publish(if self.faults.broken("EP-3") { &[] } else { &claims })?;
        let pointer = Pointer {
            job: self.identity.job,
            store: self.identity.store,
            epoch: id,
            footer: object.footer,
        };
        let mut positions = match self.group {
            None => self.positions.clone(),
            // EP-10: shards without a section keep their pointer.
            Some(_) => BTreeMap::new(),
        };
        for p in sections.iter().flat_map(|s| &s.positions) {
            positions.insert((p.topic.clone(), p.partition), p.clone());
        }
        let entry = |position| CommitEntry {
            position,
            pointer: pointer.to_string(),
        };
        let entries = positions.into_values().map(entry).collect();
        Ok(Durable {
            pointer,
            outputs,
            entries,
            records,
            changes: sections.iter().map(|s| s.changes.len() as u64).sum(),
            again: false,
            written: Written::default(),
            _permit: permit,
        })
    }

    /// Makes the object durable. No transaction is open meanwhile; tried again, as it is, until it works.
    fn write(&self, id: EpochId, object: &EncodedObject) -> Result<(), RuntimeError> {
        let path = self.layout.epoch(id);
        let mut backoff = self.patience.backoff("write");
        let started = self.patience.clock.elapsed();
        loop {
            match self.store.put_new(&path, &object.slices()) {
                Ok(()) => break,
                Err(e) if matches!(e.kind(), StoreErrorKind::AlreadyExists | StoreErrorKind::Fatal) => {
                    return Err(RuntimeError::CannotGoOn(e.to_string()));
                }
                Err(e) => backoff.wait(&e)?,
            }
        }
        let took = self.patience.clock.elapsed().saturating_sub(started);
        self.patience.metrics.written(took, object.len());
        Ok(())
    }

    fn adopt(&mut self, durable: &Durable, object: &EncodedObject) {
        match self.group {
            None => self.name_all(durable.pointer),
            Some(_) => {
                let named = object.links.iter().map(|(shard, _)| (*shard, durable.pointer));
                self.pointers.extend(named);
            }
        }
        // EP-3. The switch leaves the links where they were, so that the next epoch is built on a section that is not the committed one.
        if self.links.is_empty() || !self.faults.broken("EP-3") {
            self.links.extend(object.links.iter().copied());
        }
        let by_partition = |e: &CommitEntry| ((e.position.topic.clone(), e.position.partition), e.position.clone());
        self.positions.extend(durable.entries.iter().map(by_partition));
        let positions = durable.entries.iter().map(|e| &e.position);
        self.patience.metrics.positions(positions);
        self.progress
            .add_committed(durable.pointer.epoch.to_string(), durable.records);
    }

    /// Single mode: one pointer is that of every shard.
    pub(super) fn name_all(&mut self, pointer: Pointer) {
        let shards = (0..self.expected.groups.shards).map(Shard);
        self.pointers = shards.map(|shard| (shard, pointer)).collect();
    }

    fn apply<'a>(
        &self,
        epoch: EpochId,
        footer: Digest,
        sections: impl Iterator<Item = &'a Section>,
    ) -> Result<(), RuntimeError> {
        let started = self.patience.clock.elapsed();
        for section in sections {
            let Some(backend) = self.backends.get(section.shard.0 as usize) else {
                continue;
            };
            let applied = Applied {
                job: self.identity.job,
                shard: section.shard,
                sequence: section.sequence,
                epoch,
                footer,
            };
            self.locally("apply", || backend.apply(&mut section.changes.all(), &applied))?;
        }
        self.took(EpochPhase::Apply, started);
        Ok(())
    }

    /// Removes a little of what has expired. By the watermark of the epoch before, which every lane knew when it handed over its share of this
    /// one: a lane that reads meanwhile takes what is removed for absent either way (EP-4, docs/adr/0013).
    fn sweep<'a>(
        &self,
        sections: impl Iterator<Item = &'a Section>,
        horizons: &BTreeMap<Shard, Option<TimestampMs>>,
    ) -> Result<(), RuntimeError> {
        for section in sections {
            let (shard, horizon) = (section.shard, horizons.get(&section.shard).copied().flatten());
            let Some(backend) = self.backends.get(shard.0 as usize) else {
                continue;
            };
            self.locally("sweep", || {
                let removed = self.expiry.sweep(shard, backend.as_ref(), &section.changes, horizon)?;
                self.patience.metrics.expired(removed as u64);
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Tries something on a local copy again when the machine fails it. Not for ever: the copy may keep the error of a full disk after
    /// there is room again, until it is opened anew.
    fn locally(&self, step: &'static str, act: impl Fn() -> Result<(), StateError>) -> Result<(), RuntimeError> {
        let mut backoff = self.patience.backoff(step);
        for _ in 0..LOCAL_TRIES {
            match act() {
                Err(e @ StateError::Io { .. }) => backoff.wait(&e)?,
                done => return Ok(done?),
            }
        }
        Ok(act()?)
    }

    /// Writes what the local copies hold in memory to disk: a clean start replays nothing.
    ///
    /// # Errors
    /// [`RuntimeError::LocalCopy`]
    pub fn flush(&self) -> Result<(), RuntimeError> {
        self.flush_some(0..self.backends.len())
    }

    /// The same for some of the copies, by shard.
    ///
    /// # Errors
    /// [`RuntimeError::LocalCopy`]
    pub(super) fn flush_some(&self, shards: Range<usize>) -> Result<(), RuntimeError> {
        let some = self.backends.get(shards).unwrap_or_default();
        some.iter().try_for_each(|b| self.locally("flush", || b.flush()))
    }

    /// Ordered end: the session is closed, nothing is left.
    pub fn close(&mut self) {
        self.log.close();
    }
}
