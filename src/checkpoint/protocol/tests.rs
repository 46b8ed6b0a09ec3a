use super::*;
use crate::checkpoint::pointer::Pointer;
use crate::checkpoint::tests::{epoch, expected, header};
use crate::sink::Committed;
use crate::types::{Digest, Link, Partitioner, Place, Position, Shard};
use std::collections::BTreeMap;
use std::time::Duration;

const IDENTITY: Identity = Identity { job: 0xa, store: 0xb };

fn pointer(n: u64) -> Pointer {
    Pointer {
        job: 0xa,
        store: 0xb,
        epoch: epoch(n),
        footer: Digest::of(&n.to_be_bytes()),
    }
}

fn entry(partition: i32, offset: Option<i64>, metadata: Option<String>) -> Committed {
    Committed {
        topic: "in".into(),
        partition,
        offset,
        metadata: metadata.map(String::into_bytes),
    }
}

fn at(partition: i32, n: u64) -> Committed {
    entry(partition, Some(100), Some(pointer(n).to_string()))
}

fn nothing(partition: i32) -> Committed {
    entry(partition, None, None)
}

fn partitions(n: i32) -> Vec<(String, i32)> {
    (0..n).map(|p| ("in".to_owned(), p)).collect()
}

#[derive(Default)]
struct Switches {
    knows: bool,
    accept: bool,
    trust: bool,
}

fn decide(committed: &[Committed], switches: &Switches) -> Result<Start, Refusal> {
    let partitions = partitions(3);
    decide_start(&StartFacts {
        identity: IDENTITY,
        partitions: &partitions,
        committed,
        store_knows: switches.knows,
        accept_lost_pointers: switches.accept,
        trust_missing_offsets: switches.trust,
    })
}

const KNOWN: Switches = Switches {
    knows: true,
    accept: false,
    trust: false,
};

fn refused(committed: &[Committed]) -> Refusal {
    decide(committed, &KNOWN).expect_err("refused")
}

#[test]
fn ep_6_nothing_committed_is_a_fresh_start_only_when_the_store_does_not_know_the_stage() {
    let none = [nothing(0), nothing(1), nothing(2)];
    assert_eq!(decide(&none, &Switches::default()), Ok(Start::Genesis));
    assert_eq!(decide(&[], &Switches::default()), Ok(Start::Genesis));
    let text = refused(&none).to_string();
    assert!(
        text.contains("in-0, in-1, in-2") && text.contains("accept_lost_pointers"),
        "{text}"
    );
    assert!(matches!(refused(&[]), Refusal::PointersLost { .. }));
}

#[test]
fn ep_6_the_loss_of_all_pointers_can_be_accepted_the_loss_of_some_cannot() {
    let accept = Switches { accept: true, ..KNOWN };
    assert_eq!(
        decide(&[nothing(0), nothing(1), nothing(2)], &accept),
        Ok(Start::Genesis)
    );
    let some = [at(0, 5), nothing(1), at(2, 5)];
    for switches in [KNOWN, accept, Switches::default()] {
        let why = decide(&some, &switches).expect_err("refused");
        assert_eq!(
            why,
            Refusal::OffsetMissing {
                topic: "in".into(),
                partition: 1
            }
        );
    }
    assert_eq!(
        refused(&[at(0, 5), at(1, 5)]),
        Refusal::OffsetMissing {
            topic: "in".into(),
            partition: 2
        }
    );
}

#[test]
fn ep_6_without_its_protection_missing_offsets_are_a_fresh_start() {
    let broken = Switches { trust: true, ..KNOWN };
    assert_eq!(
        decide(&[nothing(0), nothing(1), nothing(2)], &broken),
        Ok(Start::Genesis)
    );
    assert_eq!(decide(&[at(0, 5), nothing(1), at(2, 5)], &broken), Ok(Start::Genesis));
    assert_eq!(
        decide(&[at(0, 5), at(1, 5), at(2, 5)], &broken),
        Ok(Start::Resume(pointer(5)))
    );
}

#[test]
fn one_pointer_on_every_partition_is_resumed_from() {
    for switches in [Switches::default(), KNOWN, Switches { accept: true, ..KNOWN }] {
        assert_eq!(
            decide(&[at(0, 5), at(1, 5), at(2, 5)], &switches),
            Ok(Start::Resume(pointer(5)))
        );
        assert_eq!(
            decide(&[at(2, 5), at(0, 5), at(1, 5)], &switches),
            Ok(Start::Resume(pointer(5)))
        );
    }
}

#[test]
fn ep_6_an_offset_without_a_pointer_is_refused() {
    for metadata in [None, Some(String::new())] {
        let why = refused(&[at(0, 5), entry(1, Some(77), metadata), at(2, 5)]);
        assert_eq!(
            why,
            Refusal::PointerMissing {
                topic: "in".into(),
                partition: 1,
                offset: 77
            }
        );
    }
}

#[test]
fn ep_2_metadata_that_is_no_pointer_is_refused_and_shown_harmlessly() {
    let mut raw = at(1, 5);
    raw.metadata = Some([&b"\x1b[2J../\xff\0"[..], &[b'x'; 10_000]].concat());
    let text = refused(&[at(0, 5), raw, at(2, 5)]).to_string();
    assert!(
        text.is_ascii() && text.len() < 700 && text.contains("in-1") && text.contains("\\x1b[2J"),
        "{text}"
    );
}

#[test]
fn ep_6_pointers_that_differ_or_belong_elsewhere_are_refused() {
    let text = refused(&[at(0, 5), at(1, 5), at(2, 4)]).to_string();
    assert!(
        text.contains("in-2") && text.contains("in-0") && text.contains("-4") && text.contains("-5"),
        "{text}"
    );
    let with = |p: Pointer| [at(0, 5), entry(1, Some(1), Some(p.to_string())), at(2, 5)];
    assert!(matches!(
        refused(&with(Pointer {
            footer: Digest([0; 16]),
            ..pointer(5)
        })),
        Refusal::PointersDiffer { .. }
    ));
    assert!(matches!(
        refused(&with(Pointer { job: 1, ..pointer(5) })),
        Refusal::OtherJob {
            found: 1,
            expected: 0xa,
            ..
        }
    ));
    assert!(matches!(
        refused(&with(Pointer { store: 1, ..pointer(5) })),
        Refusal::OtherStore { found: 1, .. }
    ));
}

#[test]
fn ep_6_partitions_that_are_not_those_of_the_stage_are_refused() {
    let more = [at(0, 5), at(1, 5), at(2, 5), at(3, 5)];
    assert!(matches!(refused(&more), Refusal::PartitionsDiffer { partition: 3, .. }));
    let twice = [at(0, 5), at(1, 5), at(1, 5), at(2, 5)];
    assert!(matches!(
        refused(&twice),
        Refusal::PartitionsDiffer { partition: 1, .. }
    ));
    let other = Committed {
        topic: "other".into(),
        ..at(0, 5)
    };
    assert!(matches!(
        refused(&[at(0, 5), at(1, 5), at(2, 5), other]),
        Refusal::PartitionsDiffer { .. }
    ));
    assert_eq!(
        decide(&[at(0, 5), at(1, 5), at(2, 5), nothing(3)], &KNOWN),
        Ok(Start::Resume(pointer(5)))
    );
}

/// Every combination of what three partitions can carry.
#[test]
fn ep_6_a_start_is_genesis_or_the_one_common_pointer_in_every_combination() {
    let choices = |p: i32| {
        let foreign = Pointer { store: 1, ..pointer(5) };
        [
            nothing(p),
            at(p, 5),
            at(p, 6),
            entry(p, Some(9), None),
            entry(p, Some(9), Some("x".into())),
            entry(p, Some(9), Some(foreign.to_string())),
        ]
    };
    for (a, b, c) in (0..216).map(|i| (i % 6, i / 6 % 6, i / 36)) {
        let committed = [choices(0)[a].clone(), choices(1)[b].clone(), choices(2)[c].clone()];
        for knows in [false, true] {
            let decided = decide(
                &committed,
                &Switches {
                    knows,
                    ..Switches::default()
                },
            );
            match (a, b, c) {
                (0, 0, 0) if !knows => assert_eq!(decided, Ok(Start::Genesis)),
                (1, 1, 1) => assert_eq!(decided, Ok(Start::Resume(pointer(5)))),
                (2, 2, 2) => assert_eq!(decided, Ok(Start::Resume(pointer(6)))),
                _ => assert!(decided.is_err(), "{a} {b} {c} {knows}: {decided:?}"),
            }
        }
    }
}

#[test]
fn ep_6_an_offset_that_the_state_was_not_made_from_counts_as_a_missing_pointer() {
    let position = |partition, offset| Position {
        topic: "in".into(),
        partition,
        offset,
        leader_epoch: 0,
    };
    let committed = [at(0, 5), at(1, 5)];
    let check = |positions: &[Position]| check_positions(epoch(5), &committed, positions);
    assert_eq!(check(&[position(0, 100), position(1, 100)]), Ok(()));
    let text = check(&[position(0, 100), position(1, 101)])
        .expect_err("moved")
        .to_string();
    assert!(
        text.contains("in-1") && text.contains("offset 100") && text.contains("101"),
        "{text}"
    );
    assert!(check(&[position(0, 100)]).is_err(), "no position in the state");
    assert!(
        check(&[position(0, 100), position(1, 100), position(2, 0)]).is_err(),
        "nothing committed"
    );
}

type Change = Box<dyn Fn(&mut Expected)>;

#[test]
fn an_object_of_another_configuration_is_refused_and_the_difference_named() {
    let object = header(5, &BTreeMap::new());
    assert_eq!(check_object(&object, &expected()), Ok(()));
    let cases: Vec<(&str, Change)> = vec![
        ("job orders", Box::new(|e| e.job = "other".into())),
        ("stage count", Box::new(|e| e.stage = "other".into())),
        ("max parallelism 960", Box::new(|e| e.groups.max_parallelism = 480)),
        ("number of shards 4", Box::new(|e| e.groups.shards = 8)),
        (
            "partitioner Murmur2",
            Box::new(|e| e.groups.partitioner = Partitioner::Crc32),
        ),
        ("what keys are made of) 000000000000feed", Box::new(|e| e.topology = 1)),
        ("partitions of topic in: 4", Box::new(|e| e.topics[0].partitions = 8)),
        ("topic in with id 0707", Box::new(|e| e.topics[0].id = [8; 16])),
        (
            "topic more not read",
            Box::new(|e| {
                e.topics.push(crate::types::TopicInfo {
                    topic: "more".into(),
                    id: [0; 16],
                    partitions: 1,
                })
            }),
        ),
        ("topic in read", Box::new(|e| e.topics.clear())),
        (
            "state count/total with schema ulong/1",
            Box::new(|e| e.states[0].schema = "long/1".into()),
        ),
        ("state count/total with id 1", Box::new(|e| e.states[0].id = 9)),
        ("state count/last present", Box::new(|e| drop(e.states.pop()))),
        (
            "state count/new absent",
            Box::new(|e| {
                let state = crate::checkpoint::StateInfo {
                    name: "new".into(),
                    id: 7,
                    ..e.states[0].clone()
                };
                e.states.push(state);
            }),
        ),
    ];
    for (want, change) in cases {
        let mut other = expected();
        change(&mut other);
        let text = check_object(&object, &other).expect_err(want).to_string();
        assert!(
            text.contains(want) && text.contains("0123456789abcdef-5"),
            "{text}, expected {want}"
        );
    }
}

#[test]
fn a_topic_id_that_is_not_known_is_not_compared() {
    let mut now = expected();
    now.topics[0].id = [0; 16];
    assert_eq!(check_object(&header(5, &BTreeMap::new()), &now), Ok(()));
    let mut object = header(5, &BTreeMap::new());
    object.topics[0].id = [0; 16];
    assert_eq!(check_object(&object, &expected()), Ok(()));
}

fn link(n: u64, sequence: u64) -> Link {
    Link {
        epoch: epoch(n),
        footer: Digest::of(&n.to_be_bytes()),
        sequence,
        place: Place { offset: 0, len: 1 },
    }
}

fn claim(shard: u32, sequence: u64, built_on: Option<Link>, committed: Option<Link>) -> Claim {
    Claim {
        shard: Shard(shard),
        sequence,
        built_on,
        committed,
        genesis: false,
    }
}

#[test]
fn ep_3_a_life_may_begin_at_any_sequence_and_only_once() {
    let genesis = |sequence, link| Claim {
        genesis: true,
        ..claim(0, sequence, link, link)
    };
    assert!(may_publish(&[genesis(0, None)]).is_ok());
    assert!(may_publish(&[genesis(501, None)]).is_ok());
    assert!(may_publish(&[genesis(8, Some(link(4, 7)))]).is_err());
}

#[test]
fn ep_3_an_epoch_is_published_only_on_top_of_the_one_it_was_built_on() {
    let (old, new) = (Some(link(4, 7)), Some(link(5, 8)));
    assert!(may_publish(&[claim(0, 0, None, None), claim(1, 8, old, old)]).is_ok());
    assert!(
        may_publish(&[]).is_ok(),
        "nothing changed: the pointer is committed again"
    );
    let refused = [
        claim(1, 8, old, new),
        claim(1, 9, old, old),
        claim(1, 7, old, old),
        claim(1, 0, None, old),
        claim(1, 8, old, None),
        claim(1, 1, None, None),
        claim(
            1,
            8,
            Some(Link {
                footer: Digest([0; 16]),
                ..link(4, 7)
            }),
            old,
        ),
        claim(
            1,
            8,
            Some(Link {
                epoch: epoch(3),
                ..link(4, 7)
            }),
            old,
        ),
        claim(1, 0, Some(link(4, u64::MAX)), Some(link(4, u64::MAX))),
    ];
    for bad in refused {
        let why = may_publish(&[claim(0, 0, None, None), bad]).expect_err("refused");
        assert!(why.to_string().contains("shard 1"), "{why}");
    }
    let twice = [claim(1, 8, old, old), claim(1, 8, old, old)];
    assert!(may_publish(&twice).is_err());
}

fn outcome(committed: &[Committed], published: Pointer, parent: Option<Pointer>) -> Verdict {
    let in_doubt = |committed| InDoubt {
        committed,
        published,
        parent,
    };
    after_unknown(&committed.iter().map(in_doubt).collect::<Vec<_>>())
}

#[test]
fn ep_5_an_unknown_outcome_is_decided_by_all_pointers_together() {
    let (n, parent) = (pointer(6), pointer(5));
    let decide = |committed: &[Committed]| outcome(committed, n, Some(parent));
    assert_eq!(decide(&[at(0, 6), at(1, 6)]), Verdict::Committed);
    assert_eq!(decide(&[at(0, 5), at(1, 5)]), Verdict::NotCommitted);
    for foreign in [
        vec![at(0, 6), at(1, 5)],
        vec![at(0, 5), at(1, 6)],
        vec![at(0, 7), at(1, 7)],
        vec![at(0, 4), at(1, 4)],
        vec![at(0, 6), nothing(1)],
        vec![nothing(0), nothing(1)],
        vec![at(0, 6), entry(1, Some(1), None)],
        vec![at(0, 6), entry(1, None, Some(n.to_string()))],
        vec![at(0, 6), entry(1, Some(1), Some("x".into()))],
        Vec::new(),
    ] {
        assert_eq!(decide(&foreign), Verdict::Foreign, "{foreign:?}");
    }
}

#[test]
fn ep_5_before_genesis_nothing_committed_means_not_committed() {
    let decide = |committed: &[Committed]| outcome(committed, pointer(1), None);
    assert_eq!(decide(&[nothing(0), nothing(1)]), Verdict::NotCommitted);
    assert_eq!(decide(&[at(0, 1), at(1, 1)]), Verdict::Committed);
    assert_eq!(decide(&[at(0, 1), nothing(1)]), Verdict::Foreign);
    assert_eq!(decide(&[at(0, 2), at(1, 2)]), Verdict::Foreign);
    assert_eq!(decide(&[nothing(0), entry(1, Some(1), None)]), Verdict::Foreign);
    assert_eq!(decide(&[]), Verdict::Foreign);
}

#[test]
fn ep_5_a_session_that_failed_or_was_slow_is_rebuilt_before_the_next_transaction() {
    let healthy = PublishFacts {
        offsets_took: SLOW,
        commit_took: SLOW,
        ..PublishFacts::default()
    };
    assert!(!needs_new_session(&healthy) && !needs_new_session(&PublishFacts::default()));
    let slow = SLOW + Duration::from_nanos(1);
    for sick in [
        PublishFacts {
            suspect: true,
            ..healthy
        },
        PublishFacts {
            offsets_failed: true,
            ..healthy
        },
        PublishFacts {
            commit_failed: true,
            ..healthy
        },
        PublishFacts {
            offsets_took: slow,
            ..healthy
        },
        PublishFacts {
            commit_took: slow,
            ..healthy
        },
    ] {
        assert!(needs_new_session(&sick), "{sick:?}");
    }
}

#[test]
fn ep_7_who_is_fenced_rebuilds_once_with_its_own_pointer_and_exits_otherwise() {
    assert_eq!(after_fence(true, false), Fence::Rebuild);
    assert_eq!(after_fence(true, true), Fence::Exit);
    assert_eq!(after_fence(false, false), Fence::Exit);
    assert_eq!(after_fence(false, true), Fence::Exit);
}

#[test]
fn ep_7_a_newcomer_waits_while_the_pointer_moves_unless_told_to_take_over() {
    let (short, long) = (Duration::from_secs(1), Duration::from_secs(10));
    for i in 0..16u32 {
        let facts = SpareFacts {
            pointer_moved: i & 1 != 0,
            watched: if i & 2 != 0 { long } else { short },
            watch_for: long,
            take_over: i & 4 != 0,
            had_pointer: i & 8 != 0,
        };
        let want = match (
            facts.take_over,
            facts.pointer_moved,
            facts.had_pointer,
            facts.watched == long,
        ) {
            (true, ..) => SpareDecision::Start,
            (_, true, ..) => SpareDecision::Wait,
            (_, _, false, _) => SpareDecision::Start,
            (.., watched_enough) if watched_enough => SpareDecision::Start,
            _ => SpareDecision::Wait,
        };
        assert_eq!(spare(&facts), want, "{facts:?}");
    }
}
