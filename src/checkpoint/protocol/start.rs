//! What a start may do with what it finds: begin, resume, or refuse (EP-6).
use super::Refusal;
use crate::checkpoint::object::{Header, StateInfo};
use crate::checkpoint::pointer::Pointer;
use crate::sink::Committed;
use crate::types::{EpochId, KeyGroups, Position, TopicInfo};
use std::collections::BTreeMap;

/// Whose pointers are valid here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// [`crate::checkpoint::pointer::job_hash`] of this job and stage.
    pub job: u64,
    /// Id of the configured store.
    pub store: u64,
}

/// What a start has observed.
#[derive(Debug, Clone)]
pub struct StartFacts<'a> {
    /// Whose pointers are valid here.
    pub identity: Identity,
    /// Every partition that the stage reads.
    pub partitions: &'a [(String, i32)],
    /// What is committed, read stable.
    pub committed: &'a [Committed],
    /// The store holds an epoch of the stage other than genesis.
    pub store_knows: bool,
    /// The operator takes the loss of all pointers for a fresh start.
    pub accept_lost_pointers: bool,
    /// Takes missing offsets for a fresh start, whatever the store knows. Set by the switch `break:EP-6` only: it exists for the test
    /// that shows that EP-6 is needed.
    pub trust_missing_offsets: bool,
}

/// How to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// Nothing was ever committed: commit start positions and empty sections first.
    Genesis,
    /// Go on from this epoch.
    Resume(Pointer),
}

/// Decides how to start from what is committed.
///
/// # Errors
/// A [`Refusal`] whenever something is missing or does not fit: "no offset" is a fresh start only when the store does not know the stage.
pub fn decide_start(facts: &StartFacts<'_>) -> Result<Start, Refusal> {
    let found = by_partition(facts.committed)?;
    let surplus = |(topic, partition): &(&str, i32)| !contains(facts.partitions, topic, *partition);
    if let Some((topic, partition)) = found
        .iter()
        .filter(|(_, c)| c.offset.is_some())
        .map(|(k, _)| *k)
        .find(surplus)
    {
        return Err(partitions_differ(
            topic,
            partition,
            "has a committed offset and is not read by the stage",
        ));
    }
    let mut present = Vec::new();
    let mut missing = Vec::new();
    for (topic, partition) in facts.partitions {
        let entry = found.get(&(topic.as_str(), *partition)).copied();
        match entry.and_then(|c| c.offset.map(|offset| (c, offset))) {
            Some(pair) => present.push(pair),
            None => missing.push((topic, *partition)),
        }
    }
    if !missing.is_empty() && facts.trust_missing_offsets {
        return Ok(Start::Genesis);
    }
    match (present.is_empty(), missing.first()) {
        (true, _) => start_without_offsets(facts, &missing),
        (false, Some((topic, partition))) => Err(Refusal::OffsetMissing {
            topic: (*topic).clone(),
            partition: *partition,
        }),
        (false, None) => common_pointer(&facts.identity, &present).map(Start::Resume),
    }
}

fn contains(partitions: &[(String, i32)], topic: &str, partition: i32) -> bool {
    partitions.iter().any(|(t, p)| t == topic && *p == partition)
}

fn partitions_differ(topic: &str, partition: i32, problem: &'static str) -> Refusal {
    Refusal::PartitionsDiffer {
        topic: topic.to_owned(),
        partition,
        problem,
    }
}

fn by_partition(committed: &[Committed]) -> Result<BTreeMap<(&str, i32), &Committed>, Refusal> {
    let mut out = BTreeMap::new();
    for entry in committed {
        if out.insert((entry.topic.as_str(), entry.partition), entry).is_some() {
            return Err(partitions_differ(&entry.topic, entry.partition, "is reported twice"));
        }
    }
    Ok(out)
}

fn start_without_offsets(facts: &StartFacts<'_>, missing: &[(&String, i32)]) -> Result<Start, Refusal> {
    if !facts.store_knows || facts.accept_lost_pointers {
        return Ok(Start::Genesis);
    }
    let names: Vec<String> = missing
        .iter()
        .map(|(topic, partition)| format!("{topic}-{partition}"))
        .collect();
    Err(Refusal::PointersLost {
        partitions: names.join(", "),
    })
}

fn common_pointer(identity: &Identity, present: &[(&Committed, i64)]) -> Result<Pointer, Refusal> {
    let mut first: Option<(&Committed, Pointer)> = None;
    for (entry, offset) in present {
        let pointer = valid_pointer(identity, entry, *offset)?;
        match first {
            None => first = Some((entry, pointer)),
            Some((_, p)) if p == pointer => {}
            Some((other, p)) => {
                return Err(Refusal::PointersDiffer {
                    topic: entry.topic.clone(),
                    partition: entry.partition,
                    epoch: pointer.epoch,
                    other_topic: other.topic.clone(),
                    other_partition: other.partition,
                    other_epoch: p.epoch,
                });
            }
        }
    }
    // The caller has at least one entry; without one there is nothing to resume from.
    first.map(|(_, pointer)| pointer).ok_or(Refusal::PointersLost {
        partitions: String::new(),
    })
}

fn valid_pointer(identity: &Identity, entry: &Committed, offset: i64) -> Result<Pointer, Refusal> {
    let (topic, partition) = (entry.topic.clone(), entry.partition);
    let Some(metadata) = entry.metadata.as_deref().filter(|m| !m.is_empty()) else {
        return Err(Refusal::PointerMissing {
            topic,
            partition,
            offset,
        });
    };
    let Ok(pointer) = Pointer::parse(metadata) else {
        let metadata = metadata
            .iter()
            .take(Pointer::MAX_LEN)
            .copied()
            .collect::<Vec<u8>>()
            .escape_ascii()
            .to_string();
        return Err(Refusal::PointerUnreadable {
            topic,
            partition,
            offset,
            metadata,
        });
    };
    let epoch = pointer.epoch;
    if pointer.job != identity.job {
        return Err(Refusal::OtherJob {
            topic,
            partition,
            epoch,
            found: pointer.job,
            expected: identity.job,
        });
    }
    if pointer.store != identity.store {
        return Err(Refusal::OtherStore {
            topic,
            partition,
            epoch,
            found: pointer.store,
            expected: identity.store,
        });
    }
    Ok(pointer)
}

/// The pointers among what is committed, each once.
///
/// # Errors
/// A [`Refusal`] for an offset that has none, or one of another job or store.
pub fn named_epochs(identity: &Identity, committed: &[Committed]) -> Result<Vec<Pointer>, Refusal> {
    let mut named = BTreeMap::new();
    for (entry, offset) in committed.iter().filter_map(|c| c.offset.map(|offset| (c, offset))) {
        let pointer = valid_pointer(identity, entry, offset)?;
        named.insert((pointer.epoch.incarnation.0, pointer.epoch.n), pointer);
    }
    Ok(named.into_values().collect())
}

/// What the objects of this stage must say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// The job's id.
    pub job: String,
    /// The stage's id.
    pub stage: String,
    /// Fingerprint of the topology.
    pub topology: u64,
    /// `G`, `S` and the partitioner.
    pub groups: KeyGroups,
    /// The sources' topics as they are now.
    pub topics: Vec<TopicInfo>,
    /// The topology's keyed states.
    pub states: Vec<StateInfo>,
}

const SAME_IDS: &str = "give the job the ids it had";
const SAME_SETTINGS: &str = "start with the former setting, it is fixed while a job lives";
const SAME_STATES: &str = "start with the former topology and codecs, or under a new job id";
const SAME_TOPIC: &str = "the topic was made anew or changed: bring the former one back, or start a new job id";

struct Comparison {
    epoch: EpochId,
}

impl Comparison {
    fn same<T: PartialEq + ToString>(
        &self,
        what: &str,
        found: T,
        expected: T,
        way_out: &'static str,
    ) -> Result<(), Refusal> {
        if found == expected {
            return Ok(());
        }
        Err(Refusal::ObjectDiffers {
            epoch: self.epoch,
            what: what.to_owned(),
            found: found.to_string(),
            expected: expected.to_string(),
            way_out,
        })
    }
}

/// Checks that an object belongs to this stage and that the stage can go on from it.
///
/// # Errors
/// [`Refusal::ObjectDiffers`] names the first difference.
pub fn check_object(header: &Header, expected: &Expected) -> Result<(), Refusal> {
    let c = Comparison { epoch: header.epoch };
    check_ids(&c, header, expected)?;
    // In group mode the numbers of shards and key groups follow from the topics, whose change is what there is to say.
    for now in &expected.topics {
        let found = header.topics.iter().find(|t| t.topic == now.topic);
        check_topic(&c, found, now)?;
    }
    check_origin(header, expected)?;
    for gone in header
        .topics
        .iter()
        .filter(|t| !expected.topics.iter().any(|e| e.topic == t.topic))
    {
        c.same(&format!("topic {}", gone.topic), "read", "not read", SAME_STATES)?;
    }
    check_states(&c, &header.states, &expected.states)?;
    c.same(
        "fingerprint of keys (the ids of key_by, and what keys are made of)",
        format!("{:016x}", header.topology),
        format!("{:016x}", expected.topology),
        SAME_STATES,
    )
}

/// The part of [`check_object`] that holds for every object of a chain: job, stage, `G`, `S` and partitioner.
///
/// # Errors
/// [`Refusal::ObjectDiffers`] names the first difference.
pub fn check_origin(header: &Header, expected: &Expected) -> Result<(), Refusal> {
    let c = Comparison { epoch: header.epoch };
    check_ids(&c, header, expected)?;
    let (found, now) = (header.groups, expected.groups);
    c.same(
        "max parallelism",
        found.max_parallelism,
        now.max_parallelism,
        SAME_SETTINGS,
    )?;
    c.same("number of shards", found.shards, now.shards, SAME_SETTINGS)?;
    c.same(
        "partitioner",
        format!("{:?}", found.partitioner),
        format!("{:?}", now.partitioner),
        SAME_SETTINGS,
    )
}

fn check_ids(c: &Comparison, header: &Header, expected: &Expected) -> Result<(), Refusal> {
    c.same("job", &header.job, &expected.job, SAME_IDS)?;
    c.same("stage", &header.stage, &expected.stage, SAME_IDS)
}

fn check_topic(c: &Comparison, found: Option<&TopicInfo>, now: &TopicInfo) -> Result<(), Refusal> {
    let name = &now.topic;
    let Some(found) = found else {
        return c.same(&format!("topic {name}"), "not read", "read", SAME_STATES);
    };
    c.same(
        &format!("partitions of topic {name}:"),
        found.partitions,
        now.partitions,
        SAME_TOPIC,
    )?;
    // A connector without topic ids says zero.
    if found.id == [0; 16] || now.id == [0; 16] {
        return Ok(());
    }
    let hex = |id: &[u8; 16]| id.iter().map(|b| format!("{b:02x}")).collect::<String>();
    c.same(
        &format!("topic {name} with id"),
        hex(&found.id),
        hex(&now.id),
        SAME_TOPIC,
    )
}

fn check_states(c: &Comparison, found: &[StateInfo], now: &[StateInfo]) -> Result<(), Refusal> {
    let with_id = |states: &[StateInfo], like: &StateInfo| {
        states
            .iter()
            .find(|s| s.operator == like.operator && s.name == like.name)
            .map(|s| (s.id, s.schema.clone()))
    };
    for state in found {
        let name = format!("state {}/{}", state.operator, state.name);
        let Some((id, schema)) = with_id(now, state) else {
            return c.same(&name, "present", "absent", SAME_STATES);
        };
        c.same(&format!("{name} with schema"), &state.schema, &schema, SAME_STATES)?;
        c.same(&format!("{name} with id"), state.id, id, SAME_STATES)?;
    }
    for state in now.iter().filter(|s| with_id(found, s).is_none()) {
        c.same(
            &format!("state {}/{}", state.operator, state.name),
            "absent",
            "present",
            SAME_STATES,
        )?;
    }
    Ok(())
}

/// Checks that what is committed is what the state was made from: an offset that differs from the position in the section that its
/// pointer names counts as a missing pointer (EP-6).
///
/// # Errors
/// [`Refusal::OffsetMoved`] names the partition and both offsets.
pub fn check_positions(epoch: EpochId, committed: &[Committed], positions: &[Position]) -> Result<(), Refusal> {
    let moved = |topic: &str, partition: i32, committed: Option<i64>, state: Option<i64>| Refusal::OffsetMoved {
        topic: topic.to_owned(),
        partition,
        committed: committed.unwrap_or(-1),
        state: state.unwrap_or(-1),
        epoch,
    };
    for entry in committed {
        let position = positions
            .iter()
            .find(|p| p.topic == entry.topic && p.partition == entry.partition);
        let state = position.map(|p| p.offset);
        if entry.offset != state {
            return Err(moved(&entry.topic, entry.partition, entry.offset, state));
        }
    }
    for position in positions {
        if !committed
            .iter()
            .any(|c| c.topic == position.topic && c.partition == position.partition)
        {
            return Err(moved(&position.topic, position.partition, None, Some(position.offset)));
        }
    }
    Ok(())
}
