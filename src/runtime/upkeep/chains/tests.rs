use super::*;
use crate::checkpoint::object::Section;
use crate::types::{BaseId, EpochId, Incarnation, OutputFrames, Place};

const LIMITS: ChainLimits = ChainLimits {
    objects_max: 4,
    bytes_min: 1000,
};

fn link(sequence: Sequence, len: u64) -> Link {
    Link {
        epoch: EpochId {
            incarnation: Incarnation(1),
            n: sequence + 1,
        },
        footer: Digest([0; 16]),
        sequence,
        place: Place { offset: 0, len },
    }
}

fn base(sequence: Sequence) -> BaseLink {
    BaseLink {
        id: BaseId(sequence),
        digest: Digest([1; 16]),
        sequence,
        bytes: 100,
    }
}

fn commit(chains: &mut Chains, shard: u32, sequence: Sequence, len: u64, based: Option<Based>) -> bool {
    let section = Section {
        shard: Shard(shard),
        sequence,
        parent: None,
        positions: Vec::new(),
        watermark: None,
        operator_state: Vec::new(),
        base: based,
        outbox_delivered: 0,
        outbox: OutputFrames::default(),
        changes: Default::default(),
    };
    chains.adopt(&section, &link(sequence, len))
}

#[test]
fn a_chain_is_due_by_number_and_by_bytes_and_begins_anew_with_its_base() {
    let mut chains = Chains::new(LIMITS);
    for n in 0..4 {
        assert!(!commit(&mut chains, 0, n, 10, None));
        assert_eq!(chains.most_due(), None);
    }
    commit(&mut chains, 0, 4, 10, None);
    assert_eq!(chains.most_due(), Some(Shard(0)));
    commit(&mut chains, 1, 0, 1001, None);
    assert_eq!(chains.most_due(), Some(Shard(0)), "the longer one, by what it may be");
    let now = Duration::from_secs(5);
    let pending = Pending {
        link: base(2),
        until: now,
    };
    chains.get_mut(Shard(0)).expect("known").pending = Some(pending);
    assert_eq!(
        (chains.waiting(now), chains.most_due()),
        (vec![Shard(0)], Some(Shard(1)))
    );
    let based = chains.based(Shard(0), true, now).expect("named");
    assert_eq!((based.base, based.chain_bytes), (base(2), 20), "sections 3 and 4");
    assert_eq!(chains.based(Shard(0), false, now), None);
    assert_eq!(chains.based(Shard(0), true, now * 2), None, "too late");
    assert!(commit(&mut chains, 0, 5, 10, Some(based)));
    assert_eq!(chains.based(Shard(0), true, now).map(|b| b.chain_bytes), Some(30));
    assert!(chains.waiting(now).is_empty());
    assert_eq!(chains.longest(), Some((3, 1001)));
}

#[test]
fn a_full_chain_takes_no_epoch_until_its_base_waits_to_be_named() {
    let mut chains = Chains::new(LIMITS);
    assert!((0..16).all(|n| !commit(&mut chains, 3, n, 1, None)));
    assert!(chains.full().is_none());
    commit(&mut chains, 3, 16, 1, None);
    assert_eq!(
        chains.full().map(|(shard, facts)| (shard, facts.objects)),
        Some((Shard(3), 17))
    );
    let until = Duration::from_secs(1);
    chains.get_mut(Shard(3)).expect("known").pending = Some(Pending { link: base(9), until });
    assert!(chains.full().is_none());
    assert_eq!(chains.expire(until * 2), 1);
    assert!(chains.full().is_some(), "it was not named in time");
}

/// What was restored may be the millionth section: how long its chain is nobody knows without a base, and it must not stand still.
#[test]
fn a_resumed_chain_without_a_base_is_due_and_not_full() {
    let mut chains = Chains::new(LIMITS);
    let state = |base: Option<Based>| ShardState {
        link: link(1_000_000, 7),
        positions: Vec::new(),
        watermark: None,
        base,
        operator_state: Vec::new(),
        outbox_delivered: 0,
    };
    chains.resume(Shard(0), &state(None));
    assert_eq!((chains.most_due(), chains.full()), (Some(Shard(0)), None));
    let based = Based {
        base: base(999_999),
        chain_bytes: 50,
    };
    chains.resume(Shard(0), &state(Some(based)));
    assert_eq!((chains.most_due(), chains.longest()), (None, Some((1, 57))));
}

/// A shard whose chain was near its end waited for all that were longer than they should be, and the job stood still: what counts is how near the
/// end is, by sections or by bytes.
#[test]
fn of_two_chains_that_are_due_the_one_nearer_to_its_end_is_first() {
    const MIB: u64 = 1 << 20;
    let limits = ChainLimits {
        objects_max: 256,
        bytes_min: 8 * MIB,
    };
    let facts = |objects: u64, mib: u64, base_mib: u64| ChainFacts {
        objects,
        bytes: mib * MIB,
        base_bytes: base_mib * MIB,
    };
    let due = [(256, 8, 0), (1, 9, 0), (257, 0, 0), (1, 16, 64), (1, 17, 64)];
    let due = due.map(|(objects, mib, base)| limits.due(&facts(objects, mib, base)));
    assert_eq!(due, [false, true, true, false, true]);
    let full = [
        (1024, 256, 0),
        (1, 257, 0),
        (1025, 0, 0),
        (1, 2048, 1024),
        (1, 2049, 1024),
    ];
    let full = full.map(|(objects, mib, base)| limits.full(&facts(objects, mib, base)));
    assert_eq!(full, [false, true, true, false, true]);
    let large = ChainLimits {
        bytes_min: 100 * MIB,
        ..limits
    };
    assert!(!large.full(&facts(1, 400, 0)) && large.full(&facts(1, 401, 0)));
    let (hot, quiet) = (facts(100, 64, 0), facts(1000, 1, 0));
    assert!(
        limits.load(&quiet) > limits.load(&hot),
        "1000 sections of 1024, 64 MiB of 256"
    );
}
