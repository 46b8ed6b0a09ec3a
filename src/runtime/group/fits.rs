//! Before the group is joined: whether this instance can go on from what is committed. One that finds out as a member has made all others stop
//! and begin anew, twice.
use crate::checkpoint::chain::store_knows;
use crate::checkpoint::object::{Header, ObjectError, ObjectReader};
use crate::checkpoint::pointer::Pointer;
use crate::checkpoint::protocol::{Expected, Identity, Refusal, StartFacts, check_object, decide_start, named_epochs};
use crate::checkpoint::store::{Layout, Store, StoreErrorKind};
use crate::operator::states::StateDecl;
use crate::runtime::commit::CommitDriver;
use crate::runtime::start::{Prepared, check_renamed, new_states};
use crate::runtime::{ExitCode, Runtime, RuntimeError};
use crate::sink::{Committed, LogErrorKind};

/// Compares store, topology and settings with those of the committed pointers and of the objects that they name. What this finds is certain.
/// What belongs to one shard alone (a lost pointer, a missing or damaged object) is for its owner to find when it is restored: others go on, and
/// so does an instance that is started again.
///
/// # Errors
/// What exit code 13 tells, and a stop that would not wait any longer.
pub(super) fn check(runtime: &Runtime, prepared: &Prepared, driver: &mut CommitDriver) -> Result<(), RuntimeError> {
    // What others have open is nothing to wait for: of a life of the job, every pointer has the same to say about this.
    let glanced = driver.glance()?;
    match fits(runtime, prepared, driver, &glanced) {
        Err(error) if error.exit_code() == ExitCode::CannotGoOn => {}
        done => return done,
    }
    // A look that does not wait may be behind after the coordinator has moved (KAFKA-14499), and nothing is decided by it alone.
    match driver.log.committed() {
        Ok(committed) => fits(runtime, prepared, driver, &committed),
        Err(e) if e.kind == LogErrorKind::Fatal => Err(RuntimeError::CannotGoOn(e.to_string())),
        Err(error) => {
            tracing::info!(%error, "what is committed cannot be told yet, it is looked at with each shard");
            Ok(())
        }
    }
}

fn fits(
    runtime: &Runtime,
    prepared: &Prepared,
    driver: &CommitDriver,
    committed: &[Committed],
) -> Result<(), RuntimeError> {
    let (store, layout, identity) = (runtime.store.as_ref(), &prepared.layout, prepared.identity);
    if committed.iter().all(|c| c.offset.is_none()) {
        let partitions: Vec<(String, i32)> = committed.iter().map(|c| (c.topic.clone(), c.partition)).collect();
        let facts = StartFacts {
            identity,
            partitions: &partitions,
            committed,
            store_knows: store_knows(store, layout)?,
            accept_lost_pointers: runtime.config.accept_lost_pointers,
            trust_missing_offsets: runtime.faults.broken("EP-6"),
        };
        decide_start(&facts)?;
    }
    for pointer in readable_epochs(&identity, committed)? {
        let path = layout.epoch(pointer.epoch);
        let object = match ObjectReader::open(store, &path, Some(pointer.footer)) {
            Err(ObjectError::Store(e)) if e.kind() != StoreErrorKind::NotFound => return Err(RuntimeError::Store(e)),
            Err(_) => continue,
            Ok(object) => object,
        };
        let (header, expected) = described(&object, (&driver.expected, runtime.topology.states.as_slice()))?;
        same_partitions(&header, &expected)?;
        check_object(&header, &expected)?;
    }
    Ok(())
}

/// The pointers that can be read, each epoch once.
fn readable_epochs(identity: &Identity, committed: &[Committed]) -> Result<Vec<Pointer>, Refusal> {
    let mut named: Vec<Pointer> = Vec::new();
    for entry in committed {
        match named_epochs(identity, std::slice::from_ref(entry)) {
            Ok(pointers) => named.extend(pointers),
            Err(Refusal::PointerMissing { .. } | Refusal::PointerUnreadable { .. }) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    named.sort_by_key(|pointer| (pointer.epoch.incarnation.0, pointer.epoch.n));
    named.dedup_by_key(|pointer| pointer.epoch);
    Ok(named)
}

/// In group mode the partitions are the shards, and no setting brings back the former number.
fn same_partitions(header: &Header, expected: &Expected) -> Result<(), RuntimeError> {
    let (then, now) = (header.groups.shards, expected.groups.shards);
    if then == now || header.topics.iter().any(|t| t.partitions != then) {
        return Ok(());
    }
    let topics: Vec<&str> = expected.topics.iter().map(|t| t.topic.as_str()).collect();
    Err(RuntimeError::CannotGoOn(format!(
        "topic {} has {now} partitions, and the state of epoch {} was made from {then}: in group mode each partition is a shard of the state, \
         and with another number of them keys lie elsewhere. Begin anew under another job id, which reads the topic as it is from its start \
         positions, or bring back a topic of {then} partitions",
        topics.join(", "),
        header.epoch
    )))
}

/// Opens the object that a pointer names: its header, and what an object that knows its states must say when this job can go on from it.
pub(super) fn pointed(
    store: &dyn Store,
    layout: &Layout,
    pointer: &Pointer,
    (expected, declared): (&Expected, &[StateDecl]),
) -> Result<(Header, Expected), RuntimeError> {
    let path = layout.epoch(pointer.epoch);
    let object = ObjectReader::open(store, &path, Some(pointer.footer)).map_err(|e| match e {
        ObjectError::Store(e) => RuntimeError::Store(e),
        damaged => RuntimeError::CannotGoOn(damaged.to_string()),
    })?;
    described(&object, (expected, declared))
}

fn described(
    object: &ObjectReader<'_>,
    (expected, declared): (&Expected, &[StateDecl]),
) -> Result<(Header, Expected), RuntimeError> {
    let known = &object.header().states;
    check_renamed(declared, known)?;
    let mut expected = expected.clone();
    expected.states = new_states(declared, known);
    // States that are new begin empty: no object knows them.
    expected.states.truncate(known.len());
    Ok((object.header().clone(), expected))
}
