use super::*;
use crate::checkpoint::tests::{History, changes, epoch, offsets, outbox, section};
use crate::types::Digest;
use proptest::prelude::*;

type State = BTreeMap<Vec<u8>, Vec<u8>>;

fn apply(state: &mut State, section: &Section) {
    for change in section.changes.iter() {
        match change.value {
            Some(value) => state.insert(change.key.to_vec(), value.to_vec()),
            None => state.remove(change.key),
        };
    }
}

fn applied(link: &Link) -> Applied {
    Applied {
        job: 1,
        shard: Shard(0),
        sequence: link.sequence,
        epoch: link.epoch,
        footer: link.footer,
    }
}

impl History {
    fn chain(&self) -> Chain<'_> {
        Chain::new(&self.store, &self.layout, &self.expected)
    }
    fn target(&self, shard: u32) -> Link {
        self.last[&Shard(shard)]
    }
    fn path(&self, n: u64) -> crate::checkpoint::ObjectPath {
        self.layout.epoch(epoch(n))
    }
}

/// Genesis and three epochs: shard 0 in all, shard 1 in the second, the others in none.
fn three_epochs() -> (History, Pointer) {
    let mut h = History::new();
    let a = h.next(0, 10, &[("a", Some("1")), ("b", Some("1"))]);
    h.commit(vec![a]);
    let (b, c) = (
        h.next(0, 20, &[("a", Some("2")), ("b", None)]),
        h.next(1, 5, &[("x", Some("9"))]),
    );
    h.commit(vec![b, c]);
    let d = h.next(0, 30, &[("c", Some("3"))]);
    let pointer = h.commit(vec![d]);
    (h, pointer)
}

fn restore(h: &History, shard: u32, from: Option<Applied>, state: &mut State) -> Result<Vec<u64>, RestoreError> {
    let tail = h.chain().plan(Shard(shard), h.target(shard), from, None)?;
    let mut sequences = Vec::new();
    h.chain().replay::<RestoreError>(&tail, |link, section| {
        sequences.push(link.sequence);
        apply(state, &section);
        Ok(())
    })?;
    Ok(sequences)
}

#[test]
fn the_sections_of_all_shards_are_found_from_one_pointer() {
    let (h, pointer) = three_epochs();
    let found = h.chain().resolve(&pointer).expect("resolves");
    assert_eq!(found.links(), h.last.iter().map(|(s, l)| (*s, *l)).collect::<Vec<_>>());
    assert_eq!(offsets(&found.shards), [30, 5, 0, 0]);
    assert_eq!(found.positions().len(), 4);
    assert_eq!((found.max_sequence(), found.header.epoch), (3, epoch(4)));
}

#[test]
fn an_empty_copy_is_restored_from_genesis_on_oldest_first() {
    let (h, _) = three_epochs();
    let mut state = State::new();
    assert_eq!(restore(&h, 0, None, &mut state).expect("restores"), [0, 1, 2, 3]);
    let want = [("a", "2"), ("c", "3")].map(|(k, v)| (k.as_bytes().to_vec(), v.as_bytes().to_vec()));
    assert_eq!(state, State::from(want));
}

/// A shard was taken back in the middle of a long restore.
#[test]
fn a_restore_ends_between_two_sections_when_nobody_needs_it_any_more() {
    let (h, _) = three_epochs();
    let left = std::sync::atomic::AtomicU32::new(6);
    let stop = || left.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 0;
    let chain = h.chain().until(&stop);
    // Four links to walk, and two of four sections.
    let tail = chain.plan(Shard(0), h.target(0), None, None).expect("not yet");
    let mut replayed = 0;
    let ended = chain.replay::<RestoreError>(&tail, |_, _| {
        replayed += 1;
        Ok(())
    });
    assert!(
        matches!(ended, Err(RestoreError::Stopped { shard: Shard(0) })),
        "{ended:?}"
    );
    assert_eq!(replayed, 2);
    let stopped = || true;
    let planned = h.chain().until(&stopped).plan(Shard(0), h.target(0), None, None);
    assert!(matches!(planned, Err(RestoreError::Stopped { .. })), "{planned:?}");
}

#[test]
fn ep_4_a_copy_on_the_chain_gets_the_tail_alone() {
    let (mut h, _) = three_epochs();
    let before = h.target(0);
    assert_eq!(
        h.chain()
            .plan(Shard(0), before, Some(applied(&before)), None)
            .expect("plans")
            .links,
        []
    );
    let next = h.next(0, 40, &[("d", Some("4"))]);
    h.commit(vec![next]);
    assert_eq!(
        restore(&h, 0, Some(applied(&before)), &mut State::new()).expect("restores"),
        [4]
    );
    let missing = h.path(2);
    h.store.delete(&missing).expect("delete");
    assert_eq!(
        restore(&h, 0, Some(applied(&before)), &mut State::new()).expect("needs no older object"),
        [4]
    );
}

#[test]
fn ep_4_a_copy_that_is_not_on_the_chain_must_be_wiped() {
    let (mut h, _) = three_epochs();
    let genuine = applied(&h.target(0));
    let dropped = h.next(0, 99, &[("lost", Some("x"))]);
    let dropped = h.put(vec![dropped]).links[0].1;
    for stray in [
        applied(&dropped),
        Applied {
            sequence: 3,
            ..applied(&dropped)
        },
        Applied { sequence: 1, ..genuine },
        Applied {
            footer: Digest([0; 16]),
            ..genuine
        },
        Applied {
            sequence: u64::MAX,
            ..genuine
        },
    ] {
        let refused = h
            .chain()
            .plan(Shard(0), h.target(0), Some(stray), None)
            .expect_err("not on the chain");
        assert!(matches!(refused, RestoreError::NotOnChain { .. }), "{refused}");
    }
    let mut state = State::new();
    let next = h.next(0, 40, &[("d", Some("4"))]);
    h.commit(vec![next]);
    restore(&h, 0, None, &mut state).expect("restores");
    assert!(
        !state.contains_key(&b"lost"[..]),
        "a section that the links do not reach is ignored"
    );
}

#[test]
fn a_missing_cut_or_changed_object_is_named_with_shard_epoch_and_way_out() {
    type Harm = fn(&History);
    let harms: [Harm; 3] = [
        |h| h.store.delete(&h.path(2)).expect("delete"),
        |h| assert!(h.store.truncate(&h.path(2), 100)),
        |h| assert!(h.store.flip(&h.path(2), 3000)),
    ];
    for harm in harms {
        let (h, pointer) = three_epochs();
        harm(&h);
        let text = restore(&h, 0, None, &mut State::new())
            .expect_err("damaged")
            .to_string();
        for part in [
            h.path(2).as_str(),
            "shard 0",
            "sequence 1",
            "copy of the checkpoint store",
        ] {
            assert!(text.contains(part), "{text}: no {part}");
        }
        assert!(h.chain().resolve(&pointer).is_ok(), "the pointer leads past it");
        assert!(
            restore(&h, 1, None, &mut State::new()).is_ok(),
            "another shard does not need it"
        );
    }
    let (h, pointer) = three_epochs();
    h.store.delete(&h.path(4)).expect("delete");
    let text = h.chain().resolve(&pointer).expect_err("gone").to_string();
    assert!(text.contains(h.path(4).as_str()), "{text}");
}

#[test]
fn ep_2_another_object_under_the_right_name_is_refused() {
    let (h, pointer) = three_epochs();
    let other = h.store.get(&h.path(3)).expect("get");
    h.store.delete(&h.path(4)).expect("delete");
    h.store.put_new(&h.path(4), &[&other]).expect("put");
    assert!(h.chain().resolve(&pointer).is_err());
    let swapped = Pointer {
        footer: h.target(1).footer,
        ..pointer
    };
    let text = h.chain().resolve(&swapped).expect_err("another epoch").to_string();
    assert!(text.contains("holds epoch"), "{text}");
}

#[test]
fn objects_and_pointers_of_another_job_or_store_are_refused() {
    let (mut h, pointer) = three_epochs();
    for other in [Pointer { job: 1, ..pointer }, Pointer { store: 1, ..pointer }] {
        assert!(matches!(
            h.chain().resolve(&other),
            Err(RestoreError::Contradiction { .. })
        ));
    }
    h.expected.topology = 1;
    assert!(matches!(h.chain().resolve(&pointer), Err(RestoreError::Refused(_))));
    assert!(
        h.chain().plan(Shard(0), h.target(0), None, None).is_ok(),
        "older objects may be of an older topology"
    );
    h.expected.groups.shards = 2;
    assert!(matches!(
        h.chain().plan(Shard(0), h.target(0), None, None),
        Err(RestoreError::Refused(_))
    ));
}

#[test]
fn ep_6_the_store_knows_a_stage_once_an_object_after_genesis_is_there() {
    let empty = MemoryStoreAndLayout::default();
    assert_eq!(store_knows(&empty.0, &empty.1), Ok(false));
    let mut h = History::new();
    assert_eq!(store_knows(&h.store, &h.layout), Ok(false), "genesis alone");
    let stranger = h.layout.epochs().join("stranger").expect("valid");
    h.store.put_new(&stranger, &[b"x"]).expect("put");
    assert_eq!(
        store_knows(&h.store, &h.layout),
        Ok(false),
        "no epoch object by its name"
    );
    let next = h.next(0, 1, &[]);
    h.commit(vec![next]);
    assert_eq!(store_knows(&h.store, &h.layout), Ok(true));
    let other = Layout::new("orders", "other").expect("valid");
    assert_eq!(store_knows(&h.store, &other), Ok(false));
    h.store.truncate(&h.path(2), 20);
    assert_eq!(store_knows(&h.store, &h.layout), Ok(true), "a damaged one counts");
}

struct MemoryStoreAndLayout(crate::checkpoint::MemoryStore, Layout);

impl Default for MemoryStoreAndLayout {
    fn default() -> Self {
        MemoryStoreAndLayout(
            crate::checkpoint::MemoryStore::new(1),
            Layout::new("a", "b").expect("valid"),
        )
    }
}

/// All pointers were lost and that was accepted; sequences began at 0 again, and a sink that had seen 4 swallowed the next five.
#[test]
fn a_life_after_a_loss_begins_above_every_sequence_that_the_store_knows() {
    let empty = MemoryStoreAndLayout::default();
    assert_eq!(first_sequence(&empty.0, &empty.1), Ok(0));
    let mut h = History::new();
    assert_eq!(first_sequence(&h.store, &h.layout), Ok(0), "genesis alone");
    for offset in 1..=3 {
        let next = h.next(2, offset, &[]);
        h.commit(vec![next]);
    }
    let orphan = h.next(2, 9, &[]);
    h.put(vec![orphan]);
    assert_eq!(first_sequence(&h.store, &h.layout), Ok(5), "an orphan counts");
    let old_copy = applied(&h.target(2));
    h.last.clear();
    h.commit(
        (0..4)
            .map(|shard| Section {
                sequence: 5,
                ..section(shard, None, 0)
            })
            .collect(),
    );
    let next = h.next(2, 1, &[("a", Some("b"))]);
    h.commit(vec![next]);
    let target = h.target(2);
    assert_eq!(target.sequence, 6);
    assert_eq!(
        h.chain().plan(Shard(2), target, None, None).expect("plans").links.len(),
        2
    );
    assert!(matches!(
        h.chain().plan(Shard(2), target, Some(old_copy), None),
        Err(RestoreError::NotOnChain { sequence: 3, .. })
    ));
}

#[test]
fn undelivered_outputs_are_those_after_the_delivered_sequence_of_the_target() {
    let mut h = History::new();
    for (i, (outputs, delivered)) in [(vec!["a"], 0), (vec!["b"], 0), (vec![], 1), (vec!["c", "d"], 1)]
        .into_iter()
        .enumerate()
    {
        let next = h.next(0, i as i64, &[]);
        h.commit(vec![Section {
            outbox: outbox(&outputs),
            outbox_delivered: delivered,
            ..next
        }]);
    }
    let links = h.chain().undelivered(Shard(0), h.target(0)).expect("reads");
    assert_eq!(links.iter().map(|l| l.sequence).collect::<Vec<_>>(), [2, 4]);
    let last = h.chain().section(Shard(0), &links[1]).expect("reads");
    assert_eq!(last.outbox, outbox(&["c", "d"]));
    assert_eq!(h.chain().undelivered(Shard(1), h.target(1)).expect("reads"), []);
}

proptest! {
    /// Restoring from any earlier point gives what applying every committed section gave.
    #[test]
    fn ep_4_a_restore_from_anywhere_equals_the_fold_of_the_committed_sections(
        epochs in prop::collection::vec((prop::collection::btree_map("[a-f]", prop::option::of("[x-z]{0,3}"), 0..5), any::<bool>()), 1..12),
        from in 0usize..12,
    ) {
        let mut h = History::new();
        let mut model = State::new();
        let mut snapshots = vec![(None, model.clone())];
        for (i, (list, committed)) in epochs.iter().enumerate() {
            let list: Vec<(&str, Option<&str>)> = list.iter().map(|(k, v)| (k.as_str(), v.as_deref())).collect();
            let parent = h.last.get(&Shard(2)).copied();
            let next = Section { changes: changes(&list), ..section(2, parent, i as i64) };
            if *committed {
                apply(&mut model, &next);
                h.commit(vec![next]);
                snapshots.push((Some(applied(&h.target(2))), model.clone()));
            } else {
                h.put(vec![next]);
            }
        }
        let (start, mut state) = snapshots[from % snapshots.len()].clone();
        restore(&h, 2, start, &mut state).expect("restores");
        prop_assert_eq!(state, model);
    }
}
