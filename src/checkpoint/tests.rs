//! Epochs for the tests of this folder.
use super::base::{Manifest, Piece};
use super::chain::ShardState;
use super::object::{Based, EncodedObject, Header, Section, StateInfo, encode};
use super::pointer::{Pointer, job_hash};
use super::protocol::Expected;
use super::store::{Layout, MemoryStore, Store};
use crate::state::{Applied, Change, ChangeSet, ImageKind};
use crate::types::{
    BaseId, BaseLink, Digest, EpochId, Incarnation, KeyGroups, Link, OutputFrames, OutputRef, Partitioner, Position,
    Shard, TopicInfo,
};
use std::collections::BTreeMap;

pub(crate) const STORE: u64 = 0x5707_e1d0;

pub(crate) fn epoch(n: u64) -> EpochId {
    EpochId {
        incarnation: Incarnation(0x0123_4567_89ab_cdef),
        n,
    }
}

pub(crate) fn expected() -> Expected {
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

pub(crate) fn header(n: u64, last_committed: &BTreeMap<Shard, Link>) -> Header {
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

pub(crate) fn outbox(values: &[&str]) -> OutputFrames {
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

pub(crate) fn changes(list: &[(&str, Option<&str>)]) -> ChangeSet {
    let mut set = ChangeSet::default();
    list.iter().for_each(|(k, v)| {
        set.push(Change {
            key: k.as_bytes(),
            value: v.map(str::as_bytes),
        })
    });
    set
}

pub(crate) fn section(shard: u32, parent: Option<Link>, offset: i64) -> Section {
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
        base: None,
        outbox_delivered: 0,
        outbox: OutputFrames::default(),
        changes: ChangeSet::default(),
    }
}

/// A job's history in a memory store.
pub(crate) struct History {
    pub(crate) store: MemoryStore,
    pub(crate) layout: Layout,
    pub(crate) expected: Expected,
    pub(crate) last: BTreeMap<Shard, Link>,
    n: u64,
}

impl History {
    /// With genesis.
    pub(crate) fn new() -> History {
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
    pub(crate) fn next(&self, shard: u32, offset: i64, list: &[(&str, Option<&str>)]) -> Section {
        Section {
            changes: changes(list),
            ..section(shard, self.last.get(&Shard(shard)).copied(), offset)
        }
    }

    /// Puts an object without making it part of the history.
    pub(crate) fn put(&mut self, mut sections: Vec<Section>) -> EncodedObject {
        self.n += 1;
        let object = encode(&header(self.n, &self.last), &mut sections).expect("encodes");
        self.store
            .put_new(&self.layout.epoch(epoch(self.n)), &object.slices())
            .expect("put");
        object
    }

    /// A base of `shard` as it is committed now, of one piece.
    pub(crate) fn base(&self, shard: u32, id: u64) -> Based {
        let (target, id) = (self.last[&Shard(shard)], BaseId(id));
        let content = format!("rows of {shard} at {}", target.sequence);
        let mut manifest = Manifest {
            job: "orders".into(),
            stage: "count".into(),
            id,
            shard: Shard(shard),
            kind: ImageKind::Rows,
            applied: Applied {
                job: job_hash("orders", "count"),
                shard: Shard(shard),
                sequence: target.sequence,
                epoch: target.epoch,
                footer: target.footer,
            },
            pieces: vec![Piece {
                file: "rows".into(),
                offset: 0,
                bytes: content.len() as u64,
                base: id,
                number: 0,
                digest: Digest::of(content.as_bytes()),
            }],
        };
        let bytes = manifest.encode().expect("encodes");
        let put = |path, bytes: &[u8]| self.store.put_new(&path, &[bytes]).expect("put");
        put(self.layout.base_piece(id, 0), content.as_bytes());
        put(self.layout.base_manifest(id), &bytes);
        let base = BaseLink {
            id,
            digest: Digest::of(&bytes),
            sequence: target.sequence,
            bytes: manifest.bytes(),
        };
        Based { base, chain_bytes: 0 }
    }

    pub(crate) fn commit(&mut self, sections: Vec<Section>) -> Pointer {
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

pub(crate) fn offsets(states: &BTreeMap<Shard, ShardState>) -> Vec<i64> {
    states
        .values()
        .flat_map(|s| s.positions.iter().map(|p| p.offset))
        .collect()
}
