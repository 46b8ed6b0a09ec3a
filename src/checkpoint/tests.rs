//! Epochs for the tests of this folder.
use super::chain::ShardState;
use super::object::{EncodedObject, Header, Section, StateInfo, encode};
use super::pointer::{Pointer, job_hash};
use super::protocol::Expected;
use super::store::{Layout, MemoryStore, Store};
use crate::state::{Change, ChangeSet};
use crate::types::{
    EpochId, Incarnation, KeyGroups, Link, OutputFrames, OutputRef, Partitioner, Position, Shard, TopicInfo,
};
use std::collections::BTreeMap;

pub(super) const STORE: u64 = 0x5707_e1d0;

pub(super) fn epoch(n: u64) -> EpochId {
    EpochId {
        incarnation: Incarnation(0x0123_4567_89ab_cdef),
        n,
    }
}

pub(super) fn expected() -> Expected {
    let state = |id, name: &str| StateInfo {
        id,
        operator: "count".into(),
        name: name.into(),
        schema: "ulong/1".into(),
    };
    Expected {
        job: "orders".into(),
        stage: "count".into(),
        topology: 0xfeed,
        groups: KeyGroups::new(960, 4, Partitioner::Murmur2).expect("valid"),
        topics: vec![TopicInfo {
            topic: "in".into(),
            id: [7; 16],
            partitions: 4,
        }],
        states: vec![state(1, "total"), state(2, "last")],
    }
}

pub(super) fn header(n: u64, last_committed: &BTreeMap<Shard, Link>) -> Header {
    let e = expected();
    Header {
        job: e.job,
        stage: e.stage,
        epoch: epoch(n),
        genesis: last_committed.is_empty(),
        topology: e.topology,
        groups: e.groups,
        topics: e.topics,
        states: e.states,
        outbox_sinks: vec![(0, "files".into()), (2, "more".into())],
        last_committed: last_committed.iter().map(|(s, l)| (*s, *l)).collect(),
    }
}

pub(super) fn outbox(values: &[&str]) -> OutputFrames {
    let mut frames = OutputFrames::default();
    for value in values {
        let out = OutputRef {
            sink: 0,
            timestamp: 5,
            partition: -1,
            key: None,
            value: Some(value.as_bytes()),
            headers: b"",
        };
        frames.push(&out);
    }
    frames
}

pub(super) fn changes(list: &[(&str, Option<&str>)]) -> ChangeSet {
    let mut set = ChangeSet::default();
    list.iter().for_each(|(k, v)| {
        set.push(Change {
            key: k.as_bytes(),
            value: v.map(str::as_bytes),
        })
    });
    set
}

pub(super) fn section(shard: u32, parent: Option<Link>, offset: i64) -> Section {
    Section {
        shard: Shard(shard),
        sequence: parent.map_or(0, |p| p.sequence + 1),
        parent,
        positions: vec![Position {
            topic: "in".into(),
            partition: shard as i32,
            offset,
            leader_epoch: 3,
        }],
        watermark: None,
        operator_state: Vec::new(),
        outbox_delivered: 0,
        outbox: OutputFrames::default(),
        changes: ChangeSet::default(),
    }
}

/// A job's history in a memory store.
pub(super) struct History {
    pub(super) store: MemoryStore,
    pub(super) layout: Layout,
    pub(super) expected: Expected,
    pub(super) last: BTreeMap<Shard, Link>,
    n: u64,
}

impl History {
    /// With genesis.
    pub(super) fn new() -> History {
        let layout = Layout::new("orders", "count").expect("valid");
        let mut history = History {
            store: MemoryStore::new(STORE),
            layout,
            expected: expected(),
            last: BTreeMap::new(),
            n: 0,
        };
        history.commit((0..4).map(|shard| section(shard, None, 0)).collect());
        history
    }

    /// The section of `shard` that comes next.
    pub(super) fn next(&self, shard: u32, offset: i64, list: &[(&str, Option<&str>)]) -> Section {
        Section {
            changes: changes(list),
            ..section(shard, self.last.get(&Shard(shard)).copied(), offset)
        }
    }

    /// Puts an object without making it part of the history.
    pub(super) fn put(&mut self, mut sections: Vec<Section>) -> EncodedObject {
        self.n += 1;
        let object = encode(&header(self.n, &self.last), &mut sections).expect("encodes");
        self.store
            .put_new(&self.layout.epoch(epoch(self.n)), &object.slices())
            .expect("put");
        object
    }

    pub(super) fn commit(&mut self, sections: Vec<Section>) -> Pointer {
        let object = self.put(sections);
        self.last.extend(object.links.iter().copied());
        Pointer {
            job: job_hash("orders", "count"),
            store: STORE,
            epoch: epoch(self.n),
            footer: object.footer,
        }
    }
}

pub(super) fn offsets(states: &BTreeMap<Shard, ShardState>) -> Vec<i64> {
    states
        .values()
        .flat_map(|s| s.positions.iter().map(|p| p.offset))
        .collect()
}
