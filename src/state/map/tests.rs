use super::*;
use crate::state::backend::memory::{MemoryFactory, Operation};
use crate::state::key::parse_state_key;
use crate::state::{Applied, BackendFactory};
use crate::types::codec::LongBe;
use crate::types::{CodecError, Digest, EpochId, Incarnation, Partitioner, Shards};
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};

mod kept;
mod ttl;

const SHARDS: u32 = 3;
const STATE: StateId = StateId(7);

fn groups() -> KeyGroups {
    KeyGroups::new(12, SHARDS, Partitioner::Murmur2).expect("valid")
}

fn key(bytes: &[u8]) -> KeyRef<'_> {
    let hash = groups().hash(bytes);
    KeyRef {
        group: groups().group_of(hash),
        hash,
        bytes,
    }
}

fn change_sets() -> Vec<ChangeSet> {
    vec![ChangeSet::default(); SHARDS as usize]
}

/// A map with what it stands on.
struct Rig {
    factory: MemoryFactory,
    backends: Vec<Arc<dyn Backend>>,
    map: TypedMap<i64>,
    sequence: u64,
}

impl Rig {
    fn new(bytes_max: usize) -> Rig {
        let factory = MemoryFactory::default();
        let backends: Vec<_> = (0..SHARDS)
            .map(|shard| factory.open(Shard(shard)).expect("open"))
            .collect();
        let map = Rig::map(&backends, bytes_max);
        Rig {
            factory,
            backends,
            map,
            sequence: 0,
        }
    }

    fn map(backends: &[Arc<dyn Backend>], bytes_max: usize) -> TypedMap<i64> {
        TypedMap::new(
            STATE,
            "sum/total",
            Arc::new(LongBe),
            groups(),
            backends.to_vec(),
            MapLimits { bytes_max },
        )
    }

    fn get(&mut self, bytes: &[u8]) -> Option<(i64, TimestampMs)> {
        self.map
            .get(key(bytes), 0)
            .expect("get")
            .map(|(value, timestamp)| (*value, timestamp))
    }

    fn encode(&mut self, epoch: u64) -> Vec<ChangeSet> {
        self.encode_for(epoch, Shards::ALL)
    }

    fn encode_for(&mut self, epoch: u64, taking: Shards) -> Vec<ChangeSet> {
        let mut out = change_sets();
        let waiting = self.map.encode_dirty(epoch, taking, &mut out).expect("encode");
        assert_eq!((waiting.entries, waiting.bytes), self.map.table.counted_waiting());
        assert_eq!(waiting.crowded, waiting.bytes > self.map.limits.bytes_max / 2);
        assert_eq!(self.map.dirty_bytes(), 0);
        out.iter_mut().for_each(ChangeSet::sort);
        out
    }

    fn apply(&mut self, epoch: u64, changes: &[ChangeSet]) {
        for (shard, changes) in (0..).map(Shard).zip(changes) {
            self.apply_to(shard, &mut changes.all());
        }
        self.map.applied(epoch);
    }

    fn apply_to(&mut self, shard: Shard, changes: &mut dyn Iterator<Item = crate::state::Change<'_>>) {
        self.sequence += 1;
        let epoch_id = EpochId {
            incarnation: Incarnation(1),
            n: self.sequence,
        };
        let applied = Applied {
            job: 1,
            shard: Shard(0),
            sequence: self.sequence,
            epoch: epoch_id,
            footer: Digest([0; 16]),
        };
        let backend = &self.backends[shard.0 as usize];
        backend.apply(changes, &applied).expect("apply");
    }

    /// All that the backends hold, decoded.
    fn held(&self) -> Model {
        let mut held = Model::new();
        for (shard, backend) in self.backends.iter().enumerate() {
            backend
                .scan(&mut |state_key, bytes| {
                    let parsed = parse_state_key(state_key).expect("a state key");
                    let (timestamp, value) = envelope::parse(bytes).expect("an envelope");
                    assert_eq!(parsed.group, key(&parsed.key).group);
                    assert_eq!(groups().shard_of(parsed.group).0 as usize, shard);
                    assert_eq!((parsed.state, parsed.namespace), (STATE, &b""[..]));
                    held.insert(parsed.key, (LongBe.decode(value).expect("a value"), timestamp));
                })
                .expect("scan");
        }
        held
    }
}

type Model = HashMap<Vec<u8>, (i64, TimestampMs)>;

#[test]
fn an_entry_carries_the_largest_timestamp_and_an_absent_one_starts_over() {
    let mut rig = Rig::new(1 << 20);
    let add = |value: &mut Option<i64>| {
        *value = Some(value.unwrap_or(0) + 1);
        *value
    };
    assert_eq!(rig.map.update(key(b"a"), 50, add).expect("update"), (Some(1), 50));
    assert_eq!(rig.map.update(key(b"a"), 40, add).expect("update"), (Some(2), 50));
    assert_eq!(rig.map.put(key(b"a"), 60, 9).expect("put"), 60);
    assert!(rig.map.delete(key(b"a"), 70).expect("delete"));
    assert!(!rig.map.delete(key(b"a"), 70).expect("delete"));
    assert_eq!(rig.map.update(key(b"a"), 10, add).expect("update"), (Some(1), 10));
    assert_eq!(rig.get(b"a"), Some((1, 10)));
}

#[test]
fn a_failed_try_update_leaves_the_entry_as_it_was() {
    let mut rig = Rig::new(1 << 20);
    let fail = |value: &mut Option<i64>| {
        *value = Some(99);
        Err::<(), _>("no")
    };
    assert_eq!(rig.map.try_update(key(b"a"), 5, fail).expect("read"), Err("no"));
    assert_eq!((rig.get(b"a"), rig.map.dirty_bytes()), (None, 0));
    rig.map.put(key(b"a"), 3, 1).expect("put");
    assert_eq!(rig.map.try_update(key(b"a"), 5, fail).expect("read"), Err("no"));
    assert_eq!(rig.get(b"a"), Some((1, 3)));
    let done = rig
        .map
        .try_update(key(b"a"), 5, |value| value.take().ok_or("absent"))
        .expect("read");
    assert_eq!((done, rig.get(b"a")), (Ok((1, 5)), None));
}

#[test]
fn a_changed_entry_is_handed_over_once_an_epoch_and_an_unchanged_one_never() {
    let mut rig = Rig::new(1 << 20);
    (0..5).for_each(|i| _ = rig.map.put(key(b"a"), i, i).expect("put"));
    rig.map.put(key(b"b"), 1, 1).expect("put");
    rig.get(b"only read");
    rig.map.delete(key(b"never there"), 1).expect("delete");
    let first = rig.encode(1);
    assert_eq!(first.iter().map(ChangeSet::len).sum::<usize>(), 2);
    assert_eq!(rig.encode(2).iter().map(ChangeSet::len).sum::<usize>(), 0);
    rig.map.delete(key(b"b"), 2).expect("delete");
    let third = rig.encode(3);
    let changes: Vec<_> = third.iter().flat_map(ChangeSet::iter).collect();
    assert_eq!(changes.len(), 1);
    assert_eq!(changes[0].value, None);
    rig.apply(1, &first);
    rig.apply(3, &third);
    assert_eq!(rig.held(), Model::from([(b"a".to_vec(), (4, 4))]));
}

#[test]
fn the_misses_of_a_batch_are_read_once_and_then_hit() {
    let mut rig = Rig::new(1 << 20);
    rig.map.put(key(b"a"), 1, 1).expect("put");
    let changes = rig.encode(1);
    rig.apply(1, &changes);
    rig.map = Rig::map(&rig.backends, 1 << 20);
    let batch: [&[u8]; 5] = [b"a", b"b", b"a", b"b", b"c"];
    rig.map
        .prefetch(&batch.iter().map(|bytes| key(bytes)).collect::<Vec<_>>())
        .expect("prefetch");
    assert_eq!((rig.map.len(), rig.map.counters().misses), (3, 3));
    // From here on every read of a backend would fail.
    rig.factory.fail(Operation::Read, u32::MAX);
    assert_eq!(rig.get(b"a"), Some((1, 1)));
    assert_eq!(
        (rig.get(b"b"), rig.get(b"c"), rig.get(b"a")),
        (None, None, Some((1, 1)))
    );
    let counters = rig.map.counters();
    assert_eq!((counters.lookups, counters.misses, counters.hits()), (4, 3, 1));
}

/// The index knows an entry by its key's hash; two keys of one hash are two entries all the same, looked up together or alone.
#[test]
fn keys_of_the_same_hash_are_told_apart() {
    let mut rig = Rig::new(1 << 20);
    let twins = [b"a", b"b", b"c"].map(|bytes| KeyRef { bytes, ..key(b"a") });
    rig.map.prefetch(&[twins[1], twins[0], twins[1]]).expect("prefetch");
    assert_eq!(rig.map.len(), 2);
    for (value, twin) in (1..).zip(twins) {
        rig.map.put(twin, 1, value).expect("put");
    }
    rig.map.prefetch(&twins).expect("prefetch");
    assert_eq!(rig.map.len(), 3);
    for (value, twin) in (1..).zip(twins) {
        let found = rig.map.get(twin, 0).expect("get").map(|(value, _)| *value);
        assert_eq!(found, Some(value));
    }
}

#[test]
fn a_failed_read_is_an_error_and_leaves_nothing_behind() {
    let mut rig = Rig::new(1 << 20);
    rig.map.put(key(b"a"), 1, 1).expect("put");
    let changes = rig.encode(1);
    rig.apply(1, &changes);
    rig.map = Rig::map(&rig.backends, 1 << 20);
    let batch: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    for times in 1..=2 {
        rig.factory.fail(Operation::Read, times);
        let read = if times == 1 {
            rig.map.get(key(b"a"), 0).map(|_| ())
        } else {
            rig.factory.fail(Operation::Read, 1);
            rig.map
                .prefetch(&batch.iter().map(|bytes| key(bytes)).collect::<Vec<_>>())
        };
        assert!(matches!(read, Err(StateError::Io { .. })), "{read:?}");
        assert_eq!((rig.map.len(), rig.map.bytes()), (0, 0));
    }
    assert_eq!(rig.get(b"a"), Some((1, 1)), "not remembered as absent");
}

#[test]
fn pinned_and_dirty_entries_outlive_the_limit_and_others_do_not() {
    let mut rig = Rig::new(0);
    let keys: Vec<Vec<u8>> = (0..50u8).map(|i| vec![i]).collect();
    keys.iter().for_each(|k| _ = rig.map.put(key(k), 1, 1).expect("put"));
    (0..4).for_each(|_| rig.map.maintain());
    assert_eq!(rig.map.len(), 50, "dirty");
    let first = rig.encode(1);
    rig.map.put(key(&keys[0]), 2, 2).expect("put");
    let second = rig.encode(2);
    (0..4).for_each(|_| rig.map.maintain());
    assert_eq!(rig.map.len(), 50, "not applied");
    rig.apply(1, &first);
    (0..4).for_each(|_| rig.map.maintain());
    assert_eq!(rig.map.len(), 1, "in an epoch that is not applied");
    rig.apply(2, &second);
    (0..4).for_each(|_| rig.map.maintain());
    assert_eq!((rig.map.len(), rig.map.bytes(), rig.map.counters().evicted), (0, 0, 50));
    assert_eq!((rig.get(&keys[0]), rig.get(&keys[49])), (Some((2, 2)), Some((1, 1))));
}

#[test]
fn what_is_looked_at_outlives_what_is_not_and_a_hot_set_beyond_the_limit_does_not_grow_for_ever() {
    let one = {
        let mut rig = Rig::new(0);
        rig.get(b"0000");
        rig.map.bytes()
    };
    let mut rig = Rig::new(200 * one);
    let hot: Vec<Vec<u8>> = (0..20).map(|i| format!("h{i:03}").into_bytes()).collect();
    let mut most = 0;
    for i in 0..10_000 {
        rig.get(format!("{i:04}").as_bytes());
        hot.iter().for_each(|k| _ = rig.get(k));
        rig.map.maintain();
        most = most.max(rig.map.len());
    }
    assert!(most <= 226, "{most} entries");
    let misses = rig.map.counters().misses;
    assert!(misses < 10_000 + 100, "hot keys stay: {misses} misses");
    for i in 0..10_000 {
        let working_set = i % 5000;
        (0..5).for_each(|j| _ = rig.get(format!("{:04}", working_set + j).as_bytes()));
        rig.map.maintain();
        assert!(rig.map.len() <= 231, "{} entries", rig.map.len());
    }
}

/// Encodes everything but 13, in a byte more than a number has.
struct Superstitious;

impl Codec<i64> for Superstitious {
    fn encode(&self, value: &i64, out: &mut Vec<u8>) -> Result<(), CodecError> {
        if *value == 13 {
            return Err(CodecError {
                codec: self.schema(),
                reason: "no 13".to_owned(),
            });
        }
        out.push(b'#');
        LongBe.encode(value, out)
    }
    fn decode(&self, bytes: &[u8]) -> Result<i64, CodecError> {
        LongBe.decode(bytes.strip_prefix(b"#").unwrap_or_default())
    }
    fn schema(&self) -> String {
        "superstitious/1".to_owned()
    }
}

#[test]
fn a_value_that_does_not_encode_names_the_state_and_nothing_is_handed_over() {
    let rig = Rig::new(1 << 20);
    let limits = MapLimits { bytes_max: 1 << 20 };
    let mut map = TypedMap::new(
        STATE,
        "sum/total",
        Arc::new(Superstitious),
        groups(),
        rig.backends.clone(),
        limits,
    );
    for (k, value) in [(b"a", 1), (b"b", 13), (b"c", 3)] {
        map.put(key(k), 1, value).expect("put");
    }
    let failed = map.encode_dirty(1, Shards::ALL, &mut change_sets());
    assert!(
        matches!(&failed, Err(StateError::Codec { state, .. }) if state == "sum/total"),
        "{failed:?}"
    );
    assert_eq!(
        map.dirty_bytes(),
        map.bytes(),
        "all are dirty, also those that were encoded"
    );
    map.put(key(b"b"), 1, 2).expect("put");
    let mut out = change_sets();
    map.encode_dirty(2, Shards::ALL, &mut out).expect("encode");
    assert_eq!(out.iter().map(ChangeSet::len).sum::<usize>(), 3);
}

/// A value that grew between two barriers counted with the length that it had at the first: an epoch could take any amount of memory before
/// it was closed.
#[test]
fn a_value_counts_with_what_it_takes_now() {
    let rig = Rig::new(1 << 20);
    let limits = MapLimits { bytes_max: 1 << 20 };
    let codec = Arc::new(crate::types::codec::Raw);
    let mut map = TypedMap::new(STATE, "texts/all", codec, groups(), rig.backends.clone(), limits);
    for _ in 0..10 {
        let add = |value: &mut Option<Vec<u8>>| value.get_or_insert_default().extend_from_slice(&[7; 1000]);
        map.update(key(b"a"), 1, add).expect("update");
    }
    let grown = map.dirty_bytes();
    assert!((10_000..20_000).contains(&grown), "{grown}");
    assert_eq!(grown, map.bytes());
    assert!(map.take_touched() > 50_000, "each change counts");
    assert_eq!(map.take_touched(), 0);
    let mut before = None;
    map.update_keeping(key(b"a"), 1, &mut before, |value| *value = Some(vec![0; 100_000]))
        .expect("update");
    assert!(map.dirty_bytes() > 100_000);
    map.restore(key(b"a"), before.expect("kept")).expect("restore");
    // A copy has no room to spare.
    let restored = map.bytes();
    assert!((10_000..=grown).contains(&restored), "{restored}");
    assert_eq!(map.dirty_bytes(), restored);
    map.encode_dirty(1, Shards::ALL, &mut change_sets()).expect("encode");
    assert_eq!((map.dirty_bytes(), map.bytes()), (0, restored));
}

/// A key that was deleted and comes back in the same epoch counted as if it were as long as others, in one of two sums only: the next change of
/// it took more away than there was, and the lane panicked.
#[test]
fn a_key_that_is_deleted_and_comes_back_counts_once() {
    let rig = Rig::new(1 << 20);
    let limits = MapLimits { bytes_max: 1 << 20 };
    let codec = Arc::new(crate::types::codec::Raw);
    let mut map = TypedMap::new(STATE, "texts/all", codec, groups(), rig.backends.clone(), limits);
    map.put(key(b"a"), 1, vec![7; 10]).expect("put");
    for other in [b"b", b"c", b"d"] {
        map.put(key(other), 1, vec![7; 1000]).expect("put");
    }
    map.encode_dirty(1, Shards::ALL, &mut change_sets()).expect("encode");
    for value in [
        None,
        Some(vec![1; 5]),
        None,
        Some(vec![2; 2000]),
        Some(Vec::new()),
        None,
    ] {
        map.update(key(b"a"), 1, |old| *old = value).expect("update");
        assert_eq!(map.dirty_bytes(), map.table.counted_dirty_bytes());
        assert_eq!(map.bytes(), map.table.counted_bytes());
    }
    let mut before = None;
    let twice = [Some(vec![3; 10]), None, Some(vec![4; 10])];
    for value in twice {
        map.update_keeping(key(b"d"), 1, &mut before, |old| *old = value)
            .expect("update");
    }
    map.restore(key(b"d"), before.expect("kept")).expect("restore");
    assert_eq!(map.dirty_bytes(), map.table.counted_dirty_bytes());
}

/// Dirty entries counted with their encoded bytes alone. A small one takes several times that in the map: the mark at which an epoch is
/// closed early came late, and the memory budget did not hold.
#[test]
fn dirty_entries_count_with_all_the_memory_that_they_take() {
    const ENTRIES: u8 = 200;
    let mut rig = Rig::new(1 << 20);
    (0..ENTRIES).for_each(|n| {
        rig.map.put(key(&[n]), 1, 5).expect("put");
    });
    assert_eq!(rig.map.dirty_bytes(), rig.map.bytes());
    let least = usize::from(ENTRIES) * (std::mem::size_of::<table::Entry<i64>>() + 1);
    assert!(rig.map.dirty_bytes() >= least, "{} of {least}", rig.map.dirty_bytes());
    let changes = rig.encode(1);
    let encoded = |c: crate::state::Change<'_>| c.key.len() + c.value.map_or(0, <[u8]>::len);
    let bytes: usize = changes.iter().flat_map(ChangeSet::iter).map(encoded).sum();
    let counted: usize = changes.iter().map(ChangeSet::bytes).sum();
    assert!(counted >= bytes + usize::from(ENTRIES) * 16, "{counted} for {bytes}");
    // What is clean again counts no more, and what is changed once more does.
    rig.map.put(key(&[7]), 1, 6).expect("put");
    assert_eq!(rig.map.dirty_bytes(), rig.map.bytes() / usize::from(ENTRIES));
}

#[test]
fn what_does_not_decode_names_the_state_and_a_newer_format_says_so() {
    let mut rig = Rig::new(1 << 20);
    let shard = groups().shard_of(key(b"a").group).0 as usize;
    for (epoch, bytes, newer) in [(1, &b"\x01\0\0\0\0\0\0\0\0abc"[..], false), (2, &b"\x02rest"[..], true)] {
        let mut changes = change_sets();
        let mut state_key = Vec::new();
        write_state_key(key(b"a").group, STATE, b"a", b"", &mut state_key);
        changes[shard].push(crate::state::Change {
            key: &state_key,
            value: Some(bytes),
        });
        rig.apply(epoch, &changes);
        match rig.map.get(key(b"a"), 0) {
            Err(StateError::Codec { state, .. }) => assert!(!newer && state == "sum/total"),
            Err(StateError::Format { state, reason }) => {
                assert!(newer && state == "sum/total" && reason.contains("newer"), "{reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Get(usize),
    Put(usize, TimestampMs, i64),
    Add(usize, TimestampMs, i64),
    TryAdd(usize, TimestampMs, bool),
    Delete(usize, TimestampMs),
    Prefetch(Vec<usize>),
    /// The copies of some shards take what has changed.
    Barrier(Shards),
    Apply,
    Maintain,
    /// The process dies: what was not applied is lost.
    Restart,
}

const KEYS: [&[u8]; 12] = [
    b"",
    b"\0",
    b"\0\0",
    b"\0\x01",
    b"a",
    b"a\0",
    b"ab",
    b"b",
    b"\xff",
    b"\xff\xff",
    b"key-10",
    b"key-11",
];

fn op() -> impl Strategy<Value = Op> {
    let k = 0..KEYS.len();
    let t = -5i64..20;
    prop_oneof![
        4 => k.clone().prop_map(Op::Get),
        4 => (k.clone(), t.clone(), any::<i64>()).prop_map(|(k, t, v)| Op::Put(k, t, v)),
        6 => (k.clone(), t.clone(), any::<i64>()).prop_map(|(k, t, v)| Op::Add(k, t, v)),
        2 => (k.clone(), t.clone(), any::<bool>()).prop_map(|(k, t, ok)| Op::TryAdd(k, t, ok)),
        3 => (k.clone(), t).prop_map(|(k, t)| Op::Delete(k, t)),
        2 => proptest::collection::vec(k, 0..8).prop_map(Op::Prefetch),
        3 => (1..=SHARDS, 0..=SHARDS).prop_map(|(every, at)| Op::Barrier(Shards::every(every, at))),
        2 => Just(Op::Apply),
        4 => Just(Op::Maintain),
        1 => Just(Op::Restart),
    ]
}

struct InFlight {
    epoch: u64,
    taking: Shards,
    changes: Vec<ChangeSet>,
    model: Model,
}

/// What a model has of one shard.
fn of_shard(model: &Model, shard: Shard) -> Model {
    let ours = |(k, _): &(&Vec<u8>, &(i64, TimestampMs))| groups().shard_of(key(k).group) == shard;
    model.iter().filter(ours).map(|(k, v)| (k.clone(), *v)).collect()
}

/// The rig beside a plain map, and the epochs that are between barrier and apply.
struct Checked {
    rig: Rig,
    bytes_max: usize,
    model: Model,
    committed: Model,
    in_flight: VecDeque<InFlight>,
    /// By shard: the committed changes that its copy has not taken, which a restart replays.
    log: Vec<Vec<ChangeSet>>,
    epoch: u64,
}

impl Checked {
    fn new(bytes_max: usize) -> Checked {
        let rig = Rig::new(bytes_max);
        let (model, committed, in_flight) = Default::default();
        Checked {
            rig,
            bytes_max,
            model,
            committed,
            in_flight,
            log: vec![Vec::new(); SHARDS as usize],
            epoch: 0,
        }
    }

    fn set(&mut self, k: usize, timestamp: TimestampMs, value: Option<i64>) -> TimestampMs {
        let timestamp = self
            .model
            .get(KEYS[k])
            .map_or(timestamp, |(_, old)| timestamp.max(*old));
        match value {
            Some(value) => self.model.insert(KEYS[k].to_vec(), (value, timestamp)),
            None => self.model.remove(KEYS[k]),
        };
        timestamp
    }

    fn value(&self, k: usize) -> i64 {
        self.model.get(KEYS[k]).map_or(0, |(value, _)| *value)
    }

    fn change(&mut self, op: &Op) {
        let map = &mut self.rig.map;
        match *op {
            Op::Put(k, t, v) => {
                let got = map.put(key(KEYS[k]), t, v).expect("put");
                assert_eq!(got, self.set(k, t, Some(v)));
            }
            Op::Add(k, t, v) => {
                let add = |value: &mut Option<i64>| *value.insert(value.unwrap_or(0).wrapping_add(v));
                let got = map.update(key(KEYS[k]), t, add).expect("update");
                let want = self.value(k).wrapping_add(v);
                assert_eq!(got, (want, self.set(k, t, Some(want))));
            }
            Op::TryAdd(k, t, ok) => {
                let add = |value: &mut Option<i64>| {
                    *value = Some(value.unwrap_or(0).wrapping_add(1));
                    ok.then_some(()).ok_or(())
                };
                let got = map.try_update(key(KEYS[k]), t, add).expect("update");
                let want = ok.then(|| self.set(k, t, Some(self.value(k).wrapping_add(1))));
                assert_eq!(got, want.map(|t| ((), t)).ok_or(()));
            }
            Op::Delete(k, t) => {
                let got = map.delete(key(KEYS[k]), t).expect("delete");
                assert_eq!(got, self.model.contains_key(KEYS[k]));
                self.set(k, t, None);
            }
            _ => {}
        }
    }

    fn apply(&mut self) {
        let Some(InFlight {
            epoch,
            taking,
            changes,
            model,
        }) = self.in_flight.pop_front()
        else {
            return;
        };
        for (shard, changes) in (0..).map(Shard).zip(changes) {
            let log = &mut self.log[shard.0 as usize];
            if taking.contain(shard) {
                log.clear();
                self.rig.apply_to(shard, &mut changes.all());
                assert_eq!(
                    of_shard(&self.rig.held(), shard),
                    of_shard(&model, shard),
                    "EP-4, epoch {epoch}"
                );
            } else {
                assert_eq!(changes.earlier(), 0);
                log.push(changes);
            }
        }
        self.rig.map.applied(epoch);
        self.committed = model;
    }

    fn barrier(&mut self, taking: Shards) {
        self.epoch += 1;
        self.in_flight.push_back(InFlight {
            epoch: self.epoch,
            taking,
            changes: self.rig.encode_for(self.epoch, taking),
            model: self.model.clone(),
        });
    }

    /// A restart replays what the copies lack: what epochs have changed, and nothing that only the copies took.
    fn replay(&mut self) {
        for shard in (0..SHARDS).map(Shard) {
            for changes in std::mem::take(&mut self.log[shard.0 as usize]) {
                self.rig.apply_to(shard, &mut changes.iter());
            }
        }
        assert_eq!(self.rig.held(), self.committed);
    }

    fn step(&mut self, op: &Op) {
        match op {
            Op::Get(k) => assert_eq!(self.rig.get(KEYS[*k]), self.model.get(KEYS[*k]).copied()),
            Op::Prefetch(keys) => {
                self.rig
                    .map
                    .prefetch(&keys.iter().map(|k| key(KEYS[*k])).collect::<Vec<_>>())
                    .expect("prefetch");
            }
            Op::Barrier(taking) => self.barrier(*taking),
            Op::Apply => self.apply(),
            Op::Maintain => self.rig.map.maintain(),
            Op::Restart => {
                self.in_flight.clear();
                self.replay();
                self.model = self.committed.clone();
                self.rig.map = Rig::map(&self.rig.backends, self.bytes_max);
                self.epoch = 0;
            }
            change => self.change(change),
        }
        assert_eq!(self.rig.map.bytes(), self.rig.map.table.counted_bytes());
        assert_eq!(self.rig.map.dirty_bytes(), self.rig.map.table.counted_dirty_bytes());
    }

    fn finish(mut self) {
        self.barrier(Shards::ALL);
        while !self.in_flight.is_empty() {
            self.apply();
        }
        assert_eq!(self.rig.held(), self.model);
        self.rig.map.maintain();
        assert!(
            self.rig.map.bytes() <= self.bytes_max,
            "everything is clean and applied"
        );
        for (k, bytes) in KEYS.iter().enumerate() {
            self.step(&Op::Get(k));
            assert_eq!(self.rig.get(bytes), self.model.get(*bytes).copied());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn what_is_read_and_what_is_applied_equals_the_model(
        bytes_max in prop_oneof![Just(0usize), 100usize..1000],
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let mut checked = Checked::new(bytes_max);
        ops.iter().for_each(|op| checked.step(op));
        checked.finish();
    }
}
