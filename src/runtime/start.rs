//! From nothing to lanes: lock the state directory, wait as a spare, fence, decide, restore, announce.
use super::backoff::Patience;
use super::commit::{CommitDriver, Session};
use super::epoch::Standing;
use super::error::RuntimeError;
use super::group;
use super::instance::Instance;
use super::measure;
use super::open_files;
use super::outbox::{Outbox, Outboxes};
use super::patient_store::PatientStore;
use super::processing::Processing;
use super::progress::Phase;
use super::restore::{FetchMeter, Restore, run_bytes};
use super::upkeep::Upkeep;
use super::{Runtime, StageInfo};
use crate::checkpoint::chain::{Chain, ResolvedEpoch, first_sequence, store_knows};
use crate::checkpoint::object::{ObjectError, ObjectReader, StateInfo};
use crate::checkpoint::pointer::{Pointer, job_hash};
use crate::checkpoint::protocol::{
    Expected, Identity, SpareDecision, SpareFacts, Start, StartFacts, check_object, check_positions, decide_start,
    spare,
};
use crate::checkpoint::store::{Layout, Store};
use crate::operator::states::StateDecl;
use crate::sink::{Committed, Log, OutboxSink};
use crate::source::{Membership, SourceError};
use crate::state::{Backend, BackendFactory, Expiry, StateId, Ttl};
use crate::topology::BuiltSink;
use crate::types::{KeyGroups, Position, Shard, TopicInfo};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// What lasts over runs that begin again in place.
pub(super) struct Prepared {
    /// Group mode, until the group is joined.
    pub membership: Option<Box<dyn Membership>>,
    pub groups: KeyGroups,
    pub topics: Vec<TopicInfo>,
    pub layout: Layout,
    /// As it was given, without the patience of the run's.
    pub store: Arc<dyn Store>,
    pub identity: Identity,
    pub backends: Arc<dyn BackendFactory>,
    pub instance: Option<Instance>,
    pub log: Option<Box<dyn Log>>,
    pub outboxes: Option<Vec<Outbox>>,
}

/// Tries to start while an owner that does not know of us opens sessions of its own. Each of its slow commits costs us one; an owner that
/// is slow all the time is better than two that fight.
const TAKE_TRIES: u32 = 4;
/// How long a newcomer watches a pointer that is not its own: three epochs, at least this.
const WATCH_MIN: Duration = Duration::from_secs(3);
pub(super) const WATCH_STEP: Duration = Duration::from_millis(200);

/// Locks the state directory, looks at the sources, makes the log.
pub(super) fn prepare(runtime: &mut Runtime) -> Result<Prepared, RuntimeError> {
    let instance = Instance::lock(&runtime.config.state_dir)?;
    // In group mode restorers read beside the driver.
    let of_driver = runtime.group.signals().is_none();
    let patience_of_reads = Patience {
        of_driver,
        ..patience(runtime)
    };
    let store = runtime.store.clone();
    runtime.store = Arc::new(PatientStore::new(store.clone(), patience_of_reads));
    let topics = topics(runtime)?;
    let name = group::prepare(runtime, &instance, &topics)?;
    let config = runtime.config.clone();
    let shards = config.shards;
    open_files::check(shards);
    let g = config
        .max_parallelism
        .unwrap_or_else(|| KeyGroups::default_max_parallelism(shards));
    let groups = KeyGroups::new(g, shards, config.partitioner).map_err(RuntimeError::CannotGoOn)?;
    // A lane without key groups would only cost a thread.
    runtime.config.keyed_lanes = runtime.config.keyed_lanes.clamp(1, (g / shards).max(1));
    let topology = &mut runtime.topology;
    let layout = Layout::new(&topology.job, &topology.stage).map_err(|e| RuntimeError::CannotGoOn(e.to_string()))?;
    let partitions = |t: &TopicInfo| {
        (0..t.partitions as i32)
            .map(|p| (t.topic.clone(), p))
            .collect::<Vec<_>>()
    };
    let stage = StageInfo {
        job: topology.job.clone(),
        stage: topology.stage.clone(),
        partitions: topics.iter().flat_map(partitions).collect(),
        targets: topology.log_targets(),
        producer_bytes: config.budget().producer_bytes,
        instance: name,
    };
    let factory = runtime
        .log
        .take()
        .ok_or_else(|| RuntimeError::CannotGoOn("this runtime has run".to_owned()))?;
    let log = factory(&stage)?;
    let identity = Identity {
        job: job_hash(&stage.job, &stage.stage),
        store: runtime.store.id(),
    };
    let local = config
        .state_dir
        .join(format!("{}-{:016x}", stage.group(), identity.store));
    let backends = open_backends(runtime, &local)?;
    let outboxes = Some(take_outboxes(runtime));
    let membership = runtime.group.membership(&stage)?;
    measure::announce(runtime);
    Ok(Prepared {
        membership,
        groups,
        topics,
        layout,
        store,
        identity,
        backends,
        instance: Some(instance),
        log: Some(log),
        outboxes,
    })
}

fn topics(runtime: &mut Runtime) -> Result<Vec<TopicInfo>, RuntimeError> {
    let patience = patience(runtime);
    let mut topics = Vec::new();
    for built in &mut runtime.topology.sources {
        let mut backoff = patience.backoff("topic");
        let info = loop {
            match built.source.topic_info() {
                Ok(info) => break info,
                Err(SourceError::Fatal(why)) => return Err(RuntimeError::CannotGoOn(why)),
                Err(SourceError::Retriable(why)) => backoff.wait(&why)?,
            }
        };
        topics.push(info);
    }
    Ok(topics)
}

fn open_backends(runtime: &mut Runtime, dir: &Path) -> Result<Arc<dyn BackendFactory>, RuntimeError> {
    if let Some(opener) = runtime.backends.take() {
        return Ok(opener(dir)?);
    }
    #[cfg(feature = "rocksdb")]
    {
        use crate::state::backend::rocksdb::{RocksFactory, RocksSettings};
        let settings = RocksSettings::of_budget(runtime.config.budget().backend_bytes, runtime.config.shards as usize);
        Ok(Arc::new(RocksFactory::new(dir, settings, runtime.faults.clone())))
    }
    #[cfg(not(feature = "rocksdb"))]
    {
        let _ = dir;
        Ok(Arc::new(crate::state::backend::memory::MemoryFactory::default()))
    }
}

fn take_outboxes(runtime: &mut Runtime) -> Vec<Outbox> {
    let mut taken = Vec::new();
    for (index, (id, sink)) in runtime.topology.sinks.iter_mut().enumerate() {
        if matches!(sink, BuiltSink::Outbox(_)) {
            let placeholder = BuiltSink::Outbox(Box::new(Delivered));
            if let BuiltSink::Outbox(sink) = std::mem::replace(sink, placeholder) {
                taken.push(Outbox::new(index as u16, id, sink));
            }
        }
    }
    taken
}

/// Stands in the topology for a sink that the driver has taken.
struct Delivered;

impl OutboxSink for Delivered {
    fn describe(&self) -> String {
        "taken by the driver".to_owned()
    }
    fn open(&mut self, _: &str) -> Result<(), crate::sink::SinkError> {
        Ok(())
    }
    fn deliver(
        &mut self,
        _: Shard,
        _: u64,
        _: &mut dyn Iterator<Item = crate::types::OutputRef<'_>>,
    ) -> Result<(), crate::sink::SinkError> {
        Err(crate::sink::SinkError::Fatal(
            "the driver has taken this sink".to_owned(),
        ))
    }
}

pub(super) fn patience(runtime: &Runtime) -> Patience {
    Patience {
        clock: runtime.clock.clone(),
        stop: runtime.stop.clone(),
        metrics: runtime.metrics.clone(),
        group: runtime.group.signals(),
        of_driver: true,
        over: None,
    }
}

/// One run: from the pointers to the end of processing.
pub(super) fn run_once(runtime: &mut Runtime, prepared: &mut Prepared) -> Result<(), RuntimeError> {
    let (Some(log), Some(instance)) = (prepared.log.take(), prepared.instance.take()) else {
        return Err(RuntimeError::CannotGoOn(
            "the log was lost in an earlier run".to_owned(),
        ));
    };
    let mut driver = driver(runtime, prepared, log, instance);
    let result = run_driver(runtime, prepared, &mut driver);
    runtime.enter(Phase::Stopped);
    let CommitDriver {
        mut log,
        instance,
        outboxes,
        ..
    } = driver;
    let goes_on = |error: &RuntimeError| matches!(error, RuntimeError::LocalCopy(_)) || error.may_pass_in_place();
    if !result.as_ref().is_err_and(goes_on) {
        log.close();
    }
    prepared.log = Some(log);
    prepared.instance = Some(instance);
    prepared.outboxes = Some(outboxes.into_sinks());
    result
}

pub(super) fn driver(
    runtime: &Runtime,
    prepared: &mut Prepared,
    mut log: Box<dyn Log>,
    instance: Instance,
) -> CommitDriver {
    log.give_up(patience(runtime).of_log());
    let topology = &runtime.topology;
    CommitDriver {
        log,
        store: runtime.store.clone(),
        layout: prepared.layout.clone(),
        identity: prepared.identity,
        expected: Expected {
            job: topology.job.clone(),
            stage: topology.stage.clone(),
            topology: topology.fingerprint,
            groups: prepared.groups,
            topics: prepared.topics.clone(),
            states: new_states(&topology.states, &[]),
        },
        instance,
        backends: Vec::new(),
        behind: BTreeSet::new(),
        wanted: None,
        expiry: Expiry::new(prepared.groups, Vec::new()),
        outboxes: Outboxes::new(prepared.outboxes.take().unwrap_or_default()),
        patience: patience(runtime),
        progress: runtime.progress.clone(),
        faults: runtime.faults.clone(),
        transaction_timeout: runtime.config.transaction_timeout,
        watch_for: WATCH_MIN.max(runtime.config.epoch_interval * 3),
        refusal_retries_max: runtime.config.refusal_retries_max,
        upkeep: Upkeep::new(&runtime.config, runtime.faults.broken("EP-9")),
        session: Session::none(),
        links: BTreeMap::new(),
        pointers: BTreeMap::new(),
        group: runtime.group.signals(),
        positions: BTreeMap::new(),
        first_sequence: 0,
        committed_at: Duration::ZERO,
    }
}

/// The topology's states with their ids: known ones keep theirs, also those that the topology has no more; new ones get the next.
pub(super) fn new_states(declared: &[StateDecl], known: &[StateInfo]) -> Vec<StateInfo> {
    let mut states = known.to_vec();
    let mut next = known.iter().map(|s| s.id).max().unwrap_or(0) + 1;
    for decl in declared {
        match states
            .iter_mut()
            .find(|s| s.operator == decl.operator && s.name == decl.name)
        {
            Some(state) => state.schema.clone_from(&decl.schema),
            None => {
                let (operator, name, schema) = (decl.operator.clone(), decl.name.clone(), decl.schema.clone());
                states.push(StateInfo {
                    id: next,
                    operator,
                    name,
                    schema,
                });
                next += 1;
            }
        }
    }
    states
}

/// The states with a time to live, under the ids that objects know them by.
pub(super) fn expiry(groups: KeyGroups, declared: &[StateDecl], known: &[StateInfo]) -> Expiry {
    let ttl = |info: &StateInfo| {
        let same = |decl: &&StateDecl| decl.operator == info.operator && decl.name == info.name;
        declared.iter().find(same).and_then(|decl| decl.ttl)
    };
    let of_state = |info: &StateInfo| ttl(info).map(|ttl| (StateId(info.id), Ttl::new(ttl)));
    Expiry::new(groups, known.iter().filter_map(of_state).collect())
}

/// Single mode owns all partitions, and a group's members commit under a fence of their own.
fn refuse_members(prepared: &Prepared, driver: &mut CommitDriver) -> Result<(), RuntimeError> {
    if driver.group_has_members()? {
        return Err(RuntimeError::CannotGoOn(format!(
            "the consumer group {}.{} has members, and single mode owns all partitions: stop its consumers. One that was killed, or stopped \
             without leaving, stays a member until its session timeout is over: wait for that and start again; an instance of this job leaves \
             with its stop under leave_group (--leave-group)",
            prepared.layout.job(),
            prepared.layout.stage()
        )));
    }
    Ok(())
}

fn run_driver(runtime: &mut Runtime, prepared: &Prepared, driver: &mut CommitDriver) -> Result<(), RuntimeError> {
    // Before the wait as well: members that commit would be waited for without an end.
    refuse_members(prepared, driver)?;
    if !wait_as_spare(runtime, driver)? {
        return Ok(());
    }
    runtime.enter(Phase::Restoring);
    runtime.metrics.shards(0, prepared.groups.shards as usize);
    refuse_members(prepared, driver)?;
    driver
        .outboxes
        .open(&prepared.identity, &driver.expected, &driver.patience)?;
    let Some(mut standing) = take_the_name(runtime, prepared, driver)? else {
        return Ok(());
    };
    let state_ids = driver
        .expected
        .states
        .iter()
        .map(|s| ((s.operator.clone(), s.name.clone()), StateId(s.id)));
    let state_ids: HashMap<_, _> = state_ids.collect();
    Processing {
        driver,
        standing: &mut standing,
        state_ids: Arc::new(state_ids),
        until: &|| false,
        paused: false,
        kind: prepared.backends.kind(),
    }
    .run(runtime)
}

/// Starts, and once more when it is fenced before its first commit: the owner may open a session of its own at that moment, because its
/// last commit was slow (EP-5), and not know of us. Nothing is lost by looking again, and the tries are few, so that two newcomers do
/// not fight. None when a stop came first.
fn take_the_name(
    runtime: &mut Runtime,
    prepared: &Prepared,
    driver: &mut CommitDriver,
) -> Result<Option<Standing>, RuntimeError> {
    for _ in 1..TAKE_TRIES {
        match stand(runtime, prepared, driver) {
            Err(RuntimeError::Fenced(why)) if !runtime.stop.asked() => {
                tracing::warn!(why, "fenced before the first commit, looking again");
                driver.begin_again();
            }
            standing => return standing.map(Some),
        }
        if !wait_as_spare(runtime, driver)? {
            return Ok(None);
        }
        runtime.enter(Phase::Restoring);
    }
    stand(runtime, prepared, driver).map(Some)
}

/// Opens a session, decides how to start, and commits a first epoch.
fn stand(runtime: &mut Runtime, prepared: &Prepared, driver: &mut CommitDriver) -> Result<Standing, RuntimeError> {
    driver.open_session()?;
    driver.make_way_for_a_group()?;
    let committed = driver.read_committed()?;
    let partitions: Vec<(String, i32)> = committed.iter().map(|c| (c.topic.clone(), c.partition)).collect();
    let facts = StartFacts {
        identity: prepared.identity,
        partitions: &partitions,
        committed: &committed,
        store_knows: store_knows(runtime.store.as_ref(), &prepared.layout)?,
        accept_lost_pointers: runtime.config.accept_lost_pointers,
        trust_missing_offsets: runtime.faults.broken("EP-6"),
    };
    match decide_start(&facts)? {
        Start::Genesis => begin(runtime, prepared, driver),
        Start::Resume(pointer) => resume(runtime, prepared, driver, &committed, pointer),
    }
}

/// Waits while the pointer moves; false when a stop came first. No wait for a pointer that was committed from this state directory: the
/// directory is locked, so the process that committed it is gone.
fn wait_as_spare(runtime: &Runtime, driver: &mut CommitDriver) -> Result<bool, RuntimeError> {
    let pointer_of = |committed: &[Committed]| {
        committed
            .iter()
            .find_map(|c| c.metadata.as_deref())
            .and_then(|m| Pointer::parse(m).ok())
    };
    if runtime.config.take_over {
        return Ok(true);
    }
    // The stable read below waits for what a predecessor has left undecided, as long as its transaction's time-out. Opening the session
    // decides it at once, and for our own predecessor there is nothing to wait for.
    let glance = pointer_of(&driver.glance()?);
    if glance.map_or(driver.instance.held_any(), |p| {
        driver.instance.held(p.epoch.incarnation)
    }) {
        return Ok(true);
    }
    let mut last = pointer_of(&driver.read_committed()?);
    let watch_for = driver.watch_for;
    let mut since = runtime.clock.elapsed();
    let mut moved = false;
    loop {
        let watched = runtime.clock.elapsed().saturating_sub(since);
        let facts = SpareFacts {
            pointer_moved: moved,
            watched,
            watch_for,
            take_over: false,
            had_pointer: last.is_some(),
        };
        if spare(&facts) == SpareDecision::Start {
            return Ok(true);
        }
        if runtime.stop.asked() {
            return Ok(false);
        }
        if moved && runtime.progress.phase() != Phase::Spare {
            tracing::info!("another instance is alive, waiting as a spare; take_over would end it");
        }
        if moved || runtime.progress.phase() == Phase::Spare {
            runtime.enter(Phase::Spare);
        }
        runtime.clock.sleep(WATCH_STEP);
        let now = pointer_of(&driver.read_committed()?);
        moved = now != last;
        if moved {
            since = runtime.clock.elapsed();
            last = now;
        }
    }
}

pub(super) fn start_positions(runtime: &mut Runtime) -> Result<Vec<Position>, RuntimeError> {
    let patience = patience(runtime);
    let mut positions = Vec::new();
    for built in &mut runtime.topology.sources {
        let mut backoff = patience.backoff("positions");
        loop {
            match built.source.start_positions() {
                Ok(found) => break positions.extend(found),
                Err(SourceError::Fatal(why)) => return Err(RuntimeError::CannotGoOn(why)),
                Err(SourceError::Retriable(why)) => backoff.wait(&why)?,
            }
        }
    }
    Ok(positions)
}

/// The life of all shards begins: genesis is committed before the first record (EP-6).
fn begin(runtime: &mut Runtime, prepared: &Prepared, driver: &mut CommitDriver) -> Result<Standing, RuntimeError> {
    tracing::info!("nothing is committed, beginning the job");
    driver.backends = empty_copies(prepared)?;
    let watermarks = vec![None; prepared.groups.shards as usize];
    let standing = Standing::new(prepared.groups, &start_positions(runtime)?, watermarks);
    driver.first_sequence = first_sequence(runtime.store.as_ref(), &prepared.layout)?;
    driver.commit(standing.genesis())?;
    Ok(standing)
}

fn empty_copies(prepared: &Prepared) -> Result<Vec<Arc<dyn Backend>>, RuntimeError> {
    let open = |shard| {
        // Whatever lies here belongs to no committed state.
        prepared.backends.wipe(Shard(shard))?;
        Ok(prepared.backends.open(Shard(shard))?)
    };
    (0..prepared.groups.shards).map(open).collect()
}

/// Goes on from a pointer: verify, commit a first epoch, so that the pointer tells whose turn it is, restore, deliver what was not. A
/// restore may take long, and who has been fenced watches the pointer for a while only (EP-7): so the commit comes before it.
fn resume(
    runtime: &Runtime,
    prepared: &Prepared,
    driver: &mut CommitDriver,
    committed: &[Committed],
    pointer: Pointer,
) -> Result<Standing, RuntimeError> {
    let path = prepared.layout.epoch(pointer.epoch);
    let object = ObjectReader::open(runtime.store.as_ref(), &path, Some(pointer.footer)).map_err(|e| match e {
        ObjectError::Store(e) => RuntimeError::Store(e),
        damaged => RuntimeError::CannotGoOn(damaged.to_string()),
    })?;
    let known = &object.header().states;
    check_renamed(&runtime.topology.states, known)?;
    driver.expected.states = new_states(&runtime.topology.states, known);
    // States that are new begin empty: no object knows them.
    let mut expected = driver.expected.clone();
    expected.states.truncate(known.len());
    check_object(object.header(), &expected)?;
    let chain = || Chain::new(runtime.store.as_ref(), &prepared.layout, &expected);
    let resolved = chain().resolve(&pointer)?;
    check_positions(pointer.epoch, committed, &resolved.positions())?;
    check_complete(&resolved, prepared.groups)?;
    let shards: Vec<_> = resolved
        .shards
        .iter()
        .map(|(shard, state)| (*shard, state.clone()))
        .collect();
    driver.links = resolved.links().into_iter().collect();
    for (shard, state) in &shards {
        driver.upkeep.resume(*shard, state);
    }
    driver.name_all(pointer);
    let by_partition = |p: &Position| ((p.topic.clone(), p.partition), p.clone());
    driver.positions = resolved.positions().iter().map(by_partition).collect();
    // Before the restore, which may take long: whoever was fenced must not find its own pointer and take the name back (EP-7).
    driver.commit(super::epoch::Epoch::default())?;
    let meter = FetchMeter::new(runtime.metrics.clone(), runtime.clock.clone());
    let restore = Restore {
        meter: &meter,
        chain: chain(),
        backends: prepared.backends.as_ref(),
        expiry: expiry(prepared.groups, &runtime.topology.states, known),
        faults: &runtime.faults,
        progress: &runtime.progress,
        run_bytes: run_bytes(&runtime.config),
    };
    let began = runtime.clock.elapsed();
    driver.backends = restore.all(&shards)?;
    let took = runtime.clock.elapsed().saturating_sub(began);
    runtime.progress.set_restored_in(took);
    for (shard, state) in &shards {
        let chain = chain();
        for link in chain.undelivered(*shard, state.link)? {
            let (sinks, section) = chain.outbox(*shard, &link)?;
            driver.outboxes.redeliver(&sinks, &section, &driver.patience)?;
        }
        driver.outboxes.all_delivered(*shard, state.link.sequence);
    }
    runtime.progress.set_resumed(Some(pointer.epoch.to_string()));
    tracing::info!(epoch = %pointer.epoch, restored_in = ?took, "resumed");
    let watermarks = shards.iter().map(|(_, state)| state.watermark).collect();
    Ok(Standing::new(prepared.groups, &resolved.positions(), watermarks))
}

/// States may be added, and may rest while the topology does not have them. Both at once looks like a state under another name, which would
/// begin empty.
pub(super) fn check_renamed(declared: &[StateDecl], known: &[StateInfo]) -> Result<(), RuntimeError> {
    let same = |info: &StateInfo, decl: &StateDecl| info.operator == decl.operator && info.name == decl.name;
    let gone = known.iter().find(|info| !declared.iter().any(|decl| same(info, decl)));
    let new = declared.iter().find(|decl| !known.iter().any(|info| same(info, decl)));
    let (Some(gone), Some(new)) = (gone, new) else {
        return Ok(());
    };
    Err(RuntimeError::CannotGoOn(format!(
        "state {}/{} is known to the job and not in the topology, state {}/{} is in the topology and not known: ids find state again, so \
         give a renamed operator or state the name it had; to drop one and add another, do it in two starts",
        gone.operator, gone.name, new.operator, new.name
    )))
}

fn check_complete(resolved: &ResolvedEpoch, groups: KeyGroups) -> Result<(), RuntimeError> {
    match (0..groups.shards).find(|s| !resolved.shards.contains_key(&Shard(*s))) {
        None => Ok(()),
        Some(missing) => Err(RuntimeError::CannotGoOn(format!(
            "epoch {} leads to no section of shard {missing}: its state cannot be found; bring the checkpoint store back from a copy",
            resolved.header.epoch
        ))),
    }
}
