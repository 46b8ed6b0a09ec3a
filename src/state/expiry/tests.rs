use super::*;
use crate::state::backend::memory::MemoryFactory;
use crate::state::key::write_state_key;
use crate::state::{Applied, BackendFactory, Change, Since};
use crate::types::{Digest, EpochId, Incarnation, KeyGroup, Partitioner};
use std::sync::Arc;

const TTL_MS: u64 = 100;
const SHORT: StateId = StateId(3);
const FOR_EVER: StateId = StateId(4);
const LONG: StateId = StateId(5);
/// The shard of key groups 1, 5, 9.
const SHARD: Shard = Shard(1);

fn expiry() -> Expiry {
    let groups = KeyGroups::new(12, 4, Partitioner::Murmur2).expect("valid");
    let ttl = |ms| Ttl::new(Duration::from_millis(ms));
    Expiry::new(groups, vec![(SHORT, ttl(TTL_MS)), (LONG, ttl(10 * TTL_MS))])
}

/// A section that writes `key` with this timestamp into each key group of the shard, for each of the states.
fn section(states: &[StateId], keys: impl Iterator<Item = u32>, timestamp: TimestampMs) -> ChangeSet {
    let mut changes = ChangeSet::default();
    for key in keys {
        for state in states {
            let group = KeyGroup((SHARD.0 + 4 * (key % 3)) as u16);
            let mut envelope = Vec::new();
            envelope::write_header(timestamp, &mut envelope);
            let written: Result<(), ()> = changes.push_with(
                Since::ThisEpoch,
                |out| write_state_key(group, *state, &key.to_be_bytes(), b"", out),
                |out| {
                    out.extend_from_slice(&envelope);
                    Ok(true)
                },
            );
            written.expect("written");
        }
    }
    changes
}

struct Copy {
    backend: Arc<dyn Backend>,
    sequence: u64,
}

impl Copy {
    fn new() -> Copy {
        let backend = MemoryFactory::default().open(SHARD).expect("opens");
        Copy { backend, sequence: 0 }
    }

    fn apply(&mut self, changes: &ChangeSet) {
        self.sequence += 1;
        let applied = Applied {
            job: 1,
            shard: SHARD,
            sequence: self.sequence,
            epoch: EpochId {
                incarnation: Incarnation(1),
                n: self.sequence,
            },
            footer: Digest([0; 16]),
        };
        self.backend.apply(&mut changes.iter(), &applied).expect("applies");
    }

    /// Entries of a state.
    fn count(&self, state: StateId) -> usize {
        let mut count = 0;
        let mut visit = |key: &[u8], _: &[u8]| count += usize::from(key[2..4] == state.0.to_be_bytes());
        self.backend.scan(&mut visit).expect("reads");
        count
    }
}

#[test]
fn an_entry_expires_its_time_to_live_after_its_last_change() {
    let ttl = Ttl::new(Duration::from_millis(100));
    assert!(!ttl.expired(0, 99) && ttl.expired(0, 100) && ttl.expired(-1, 99));
    assert!(!ttl.expired(500, 100), "changed later than now");
    assert!(!ttl.expired(0, i64::MIN) && !Ttl::new(Duration::MAX).expired(0, i64::MAX - 1));
}

/// What has no time to live, or is not over it, stays; the horizon decides, and no clock.
#[test]
fn only_what_has_expired_at_the_horizon_is_removed() {
    let (mut copy, expiry) = (Copy::new(), expiry());
    let all = [SHORT, FOR_EVER, LONG];
    copy.apply(&section(&all, 0..20, 0));
    copy.apply(&section(&all, 20..30, 50));
    let swept = |horizon, copy: &Copy| {
        let removed = expiry.sweep(SHARD, &*copy.backend, &ChangeSet::default(), horizon);
        removed.expect("sweeps")
    };
    assert_eq!(swept(None, &copy) + swept(Some(99), &copy), 0);
    assert_eq!(swept(Some(149), &copy), 20);
    assert_eq!(
        (copy.count(SHORT), copy.count(FOR_EVER), copy.count(LONG)),
        (10, 30, 30)
    );
    assert_eq!(swept(Some(1049), &copy), 30);
    assert_eq!((copy.count(SHORT), copy.count(FOR_EVER), copy.count(LONG)), (0, 30, 10));
}

/// Keys come once and never again: without removal there would be as many entries as there ever were keys. The work of a section is bounded
/// by its changes, and no more entries wait for removal than are alive.
#[test]
fn entries_that_wait_for_removal_are_no_more_than_those_alive() {
    let (mut copy, expiry) = (Copy::new(), expiry());
    let (per_section, alive_sections) = (500u32, 20);
    let mut most = 0;
    for n in 0..300 {
        let changes = section(&[SHORT], n * per_section..(n + 1) * per_section, i64::from(n) * 5);
        copy.apply(&changes);
        let horizon = Some(i64::from(n) * 5);
        expiry.sweep(SHARD, &*copy.backend, &changes, horizon).expect("sweeps");
        if n > 2 * alive_sections {
            most = most.max(copy.count(SHORT));
        }
    }
    let alive = (alive_sections * per_section) as usize;
    assert!((alive..2 * alive + alive / 4).contains(&most), "{most}");
    // Nobody writes any more, and time goes on: it gets empty all the same.
    for _ in 0..2 * most / (LOOKS_MIN - 6 * LOOKS_PER_RANGE) {
        expiry
            .sweep(SHARD, &*copy.backend, &ChangeSet::default(), Some(1 << 40))
            .expect("sweeps");
    }
    assert_eq!(copy.count(SHORT), 0);
}

#[test]
fn what_cannot_be_removed_now_is_removed_later_and_damage_stays_for_its_reader() {
    use crate::state::backend::memory::Operation;
    let factory = MemoryFactory::default();
    let mut copy = Copy {
        backend: factory.open(SHARD).expect("opens"),
        sequence: 0,
    };
    let expiry = expiry();
    let mut changes = section(&[SHORT], 0..10, 0);
    let mut damaged = Vec::new();
    write_state_key(KeyGroup(5), SHORT, b"damaged", b"", &mut damaged);
    changes.push(Change {
        key: &damaged,
        value: Some(b"\x01\0"),
    });
    copy.apply(&changes);
    factory.fail(Operation::Apply, 1);
    assert!(expiry.sweep(SHARD, &*copy.backend, &changes, Some(1000)).is_err());
    assert_eq!(copy.count(SHORT), 11);
    let removed = expiry.sweep(SHARD, &*copy.backend, &changes, Some(1000));
    assert_eq!((removed.expect("sweeps"), copy.count(SHORT)), (10, 1));
}
