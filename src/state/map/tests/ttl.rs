//! Time to live: what is read does not depend on what has been removed from the local copies, or evicted from the map.
use super::*;
use crate::state::{Expiry, Ttl};
use std::time::Duration;

const TTL_MS: i64 = 10;

fn ttl() -> Ttl {
    Ttl::new(Duration::from_millis(TTL_MS as u64))
}

/// An epoch between barrier and apply.
struct InFlight {
    epoch: u64,
    changes: Vec<ChangeSet>,
    horizon: TimestampMs,
    /// What is committed with it, and its watermark.
    committed: (Model, TimestampMs),
}

/// Time goes one way, and the sweeps never get ahead of what readers know: `floor` is what the lane has by its last barrier.
struct Timed {
    rig: Rig,
    bytes_max: usize,
    expiry: Expiry,
    /// As if nothing were ever removed.
    model: Model,
    committed: (Model, TimestampMs),
    in_flight: VecDeque<InFlight>,
    epoch: u64,
    watermark: TimestampMs,
    floor: TimestampMs,
}

#[derive(Debug, Clone)]
enum Op {
    Get(usize, i64),
    /// The value, None to clear; and whether the record is refused in the end.
    Change(usize, i64, Option<i64>, bool),
    Barrier(i64),
    Apply,
    Maintain,
    Restart,
}

fn op() -> impl Strategy<Value = Op> {
    let (k, t) = (0..KEYS.len(), 0i64..15);
    prop_oneof![
        6 => (k.clone(), t.clone()).prop_map(|(k, t)| Op::Get(k, t)),
        6 => (k, t, proptest::option::weighted(0.8, any::<i64>()), proptest::bool::weighted(0.2))
            .prop_map(|(k, t, v, refused)| Op::Change(k, t, v, refused)),
        3 => (0i64..8).prop_map(Op::Barrier),
        3 => Just(Op::Apply),
        3 => Just(Op::Maintain),
        1 => Just(Op::Restart),
    ]
}

impl Timed {
    fn new(bytes_max: usize) -> Timed {
        let mut rig = Rig::new(bytes_max);
        rig.map = Rig::map(&rig.backends, bytes_max).with_ttl(ttl());
        Timed {
            rig,
            bytes_max,
            expiry: Expiry::new(groups(), vec![(STATE, ttl())]),
            model: Model::new(),
            committed: (Model::new(), i64::MIN),
            in_flight: VecDeque::new(),
            epoch: 0,
            watermark: 0,
            floor: i64::MIN,
        }
    }

    /// The time of a record that is `t` around the watermark: before it, or after it.
    fn now(&self, t: i64) -> TimestampMs {
        (self.watermark + t - 10).max(self.floor)
    }

    fn alive(&self, k: usize, now: TimestampMs) -> Option<(i64, TimestampMs)> {
        let entry = self.model.get(KEYS[k]).copied();
        entry.filter(|(_, changed)| !ttl().expired(*changed, now))
    }

    fn get(&mut self, k: usize, now: TimestampMs) {
        let got = self.rig.map.get(key(KEYS[k]), now).expect("get");
        let got = got.map(|(value, changed)| (*value, changed));
        assert_eq!(got, self.alive(k, now), "key {k} at {now}, floor {}", self.floor);
    }

    fn change(&mut self, k: usize, now: TimestampMs, value: Option<i64>, refused: bool) {
        let before = self.alive(k, now);
        let mut kept = None;
        let change = |slot: &mut Option<i64>| std::mem::replace(slot, value);
        let map = &mut self.rig.map;
        let old = map
            .update_keeping(key(KEYS[k]), now, &mut kept, change)
            .expect("update");
        assert_eq!(old, before.map(|(old, _)| old));
        if refused {
            map.restore(key(KEYS[k]), kept.expect("kept")).expect("restore");
            return;
        }
        match value {
            Some(value) => {
                let changed = before.map_or(now, |(_, changed)| changed.max(now));
                self.model.insert(KEYS[k].to_vec(), (value, changed));
                // Its own changes are there for the rest of a call.
                self.get(k, now);
            }
            None if before.is_some() => {
                self.model.remove(KEYS[k]);
            }
            None => {}
        }
    }

    fn barrier(&mut self, later: i64) {
        self.epoch += 1;
        let changes = self.rig.encode(self.epoch);
        self.floor = self.watermark;
        self.watermark += later;
        let committed = (self.model.clone(), self.watermark);
        self.in_flight.push_back(InFlight {
            epoch: self.epoch,
            changes,
            horizon: self.floor,
            committed,
        });
    }

    fn apply(&mut self) {
        let Some(InFlight {
            epoch,
            changes,
            horizon,
            committed,
        }) = self.in_flight.pop_front()
        else {
            return;
        };
        self.rig.apply(epoch, &changes);
        for (shard, changes) in (0..).zip(&changes) {
            let backend = &self.rig.backends[shard as usize];
            self.expiry
                .sweep(Shard(shard), &**backend, changes, Some(horizon))
                .expect("sweeps");
        }
        self.committed = committed;
        // Whatever was removed has expired at the horizon.
        let held = self.rig.held();
        for (k, (value, changed)) in &self.committed.0 {
            assert!(held.get(k) == Some(&(*value, *changed)) || ttl().expired(*changed, horizon));
        }
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Get(k, t) => self.get(k, self.now(t)),
            Op::Change(k, t, value, refused) => self.change(k, self.now(t), value, refused),
            Op::Barrier(later) => self.barrier(later),
            Op::Apply => self.apply(),
            Op::Maintain => self.rig.map.maintain(),
            Op::Restart => {
                self.in_flight.clear();
                let (model, watermark) = self.committed.clone();
                (self.model, self.floor) = (model, watermark);
                self.watermark = self.watermark.max(watermark);
                self.rig.map = Rig::map(&self.rig.backends, self.bytes_max).with_ttl(ttl());
                self.epoch = 0;
            }
        }
    }

    /// Time passes, and nothing is left.
    fn finish(mut self) {
        for later in [1000, 0, 0] {
            self.barrier(later);
            while !self.in_flight.is_empty() {
                self.apply();
            }
        }
        (0..KEYS.len()).for_each(|k| self.get(k, self.floor));
        assert!(self.rig.held().is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// A removal that a reader could see would make an output depend on when the sweep came by.
    #[test]
    fn ep_4_no_reader_can_tell_whether_what_has_expired_was_removed(
        bytes_max in prop_oneof![Just(0usize), 100usize..1000],
        ops in proptest::collection::vec(op(), 1..120),
    ) {
        let mut timed = Timed::new(bytes_max);
        ops.iter().for_each(|op| timed.step(op));
        timed.finish();
    }
}

/// What an item out of order found to have expired is still there for one whose time is before its end.
#[test]
fn expired_is_not_deleted_until_it_is_changed() {
    let mut rig = Rig::new(1 << 20);
    rig.map = Rig::map(&rig.backends, 1 << 20).with_ttl(ttl());
    rig.map.put(key(b"a"), 100, 1).expect("put");
    rig.encode(1);
    let mut at = |now| rig.map.get(key(b"a"), now).expect("get").map(|(value, _)| *value);
    assert_eq!((at(110), at(109)), (None, Some(1)));
    let clear = |slot: &mut Option<i64>| slot.take();
    let cleared = rig
        .map
        .update_keeping(key(b"a"), 110, &mut None, clear)
        .expect("update");
    assert_eq!(cleared, None, "there is nothing to clear");
    assert_eq!(rig.encode(2).iter().map(ChangeSet::len).sum::<usize>(), 0);
    let set = |slot: &mut Option<i64>| slot.replace(2);
    let replaced = rig.map.update_keeping(key(b"a"), 110, &mut None, set).expect("update");
    assert_eq!((replaced, rig.get(b"a")), (None, Some((2, 110))));
}
