use std::fs;
use std::path::Path;

use super::*;
use crate::object::Link;
use crate::object::builder::{Built, Part, build};
use crate::pointer::Pointer;

const STORE_ID: &str = "00112233445566aa";

struct Store {
    dir: tempfile::TempDir,
    chain: Chain,
    report: WatchReport,
}

impl Store {
    fn new() -> Store {
        let dir = tempfile::tempdir().expect("temporary directory");
        fs::create_dir_all(dir.path().join("jobs/job/stage/epochs")).expect("store");
        fs::write(
            dir.path().join("store.json"),
            format!(r#"{{"format":1,"id":"{STORE_ID}"}}"#),
        )
        .expect("store.json");
        let chain = Chain::new(dir.path(), "job", "stage");
        Store {
            dir,
            chain,
            report: WatchReport::default(),
        }
    }

    fn put(&self, built: &Built) -> std::path::PathBuf {
        let path = self
            .dir
            .path()
            .join("jobs/job/stage/epochs")
            .join(built.epoch.to_string());
        fs::write(&path, &built.bytes).expect("object");
        path
    }

    fn see(&mut self, built: &Built, offset: i64) -> &WatchReport {
        self.see_text(built.pointer(&Pointer::job_hash_of("job", "stage"), STORE_ID), offset)
    }

    fn see_text(&mut self, pointer: String, offset: i64) -> &WatchReport {
        let committed = Committed {
            topic: "in".into(),
            partition: 0,
            offset,
            pointer,
        };
        self.chain.observe(&[committed], &mut self.report);
        &self.report
    }
}

fn epoch(n: u64, last: &[(u32, Link)], sequence: u64, offset: i64) -> Built {
    let parent = last.first().map(|l| l.1);
    build(
        "job",
        "stage",
        n,
        last,
        &[Part {
            shard: 0,
            sequence,
            parent,
            offset,
        }],
    )
}

/// Three epochs on top of each other, all in the store.
fn three(store: &Store) -> [Built; 3] {
    let first = epoch(1, &[], 0, 0);
    let second = epoch(2, &first.links, 1, 10);
    let third = epoch(3, &second.links, 2, 20);
    [&first, &second, &third].into_iter().for_each(|e| drop(store.put(e)));
    [first, second, third]
}

fn assert_violation(report: &WatchReport, part: &str) {
    assert!(
        report.violations.iter().any(|v| v.contains(part)),
        "{part:?} not in {:?}",
        report.violations
    );
    assert!(!report.ok());
}

#[test]
fn a_growing_chain_is_ok_and_epochs_between_two_looks_are_followed() {
    let mut store = Store::new();
    let [first, _, third] = three(&store);
    store.see(&first, 0);
    store.see(&first, 0);
    let report = store.see(&third, 20);
    assert!(report.ok(), "{:?}", report.violations);
    assert_eq!((report.epochs, report.objects, report.checks), (2, 3, 3));
}

#[test]
fn nothing_seen_is_not_ok() {
    assert!(!WatchReport::default().ok());
}

#[test]
fn a_chain_may_be_seen_first_in_its_middle() {
    let mut store = Store::new();
    let [_, _, third] = three(&store);
    let report = store.see(&third, 20);
    assert!(report.ok(), "{:?}", report.violations);
}

#[test]
fn an_unchanged_shard_is_reached_through_last_committed() {
    let mut store = Store::new();
    let [first, ..] = three(&store);
    let other = [Part {
        shard: 1,
        sequence: 0,
        parent: None,
        offset: 10,
    }];
    let second = build("job", "stage", 9, &first.links, &other);
    store.put(&second);
    store.see(&first, 0);
    let report = store.see(&second, 10);
    assert!(report.ok(), "{:?}", report.violations);
    let third = epoch(10, &first.links, 1, 30);
    store.put(&third);
    assert_violation(store.see(&third, 30), "shard 1 had a committed section");
}

#[test]
fn a_missing_object_is_a_violation() {
    let mut store = Store::new();
    assert_violation(store.see(&epoch(1, &[], 0, 0), 0), "cannot be read");
    let mut store = Store::new();
    let [first, ..] = three(&store);
    store.see(&first, 0);
    fs::remove_file(store.put(&first)).expect("remove");
    assert_violation(store.see(&first, 0), "is gone");
}

#[test]
fn a_missing_epoch_between_two_looks_is_a_violation() {
    let mut store = Store::new();
    let [first, second, third] = three(&store);
    store.see(&first, 0);
    fs::remove_file(store.put(&second)).expect("remove");
    assert_violation(store.see(&third, 20), "cannot be read");
}

#[test]
fn a_damaged_object_is_a_violation() {
    let mut store = Store::new();
    let [first, ..] = three(&store);
    let mut bytes = first.bytes.clone();
    let section = first.links[0].1.offset as usize + 20;
    bytes[section] ^= 1;
    fs::write(store.put(&first), bytes).expect("write");
    assert_violation(store.see(&first, 0), "digest of the section");
}

#[test]
fn another_object_under_the_name_is_a_violation() {
    let mut store = Store::new();
    let first = epoch(1, &[], 0, 0);
    let path = store.put(&first);
    fs::write(path, epoch(1, &[], 0, 1).bytes).expect("write");
    assert_violation(store.see(&first, 0), "digest");
}

#[test]
fn a_sequence_that_goes_back_is_a_violation() {
    let mut store = Store::new();
    let [_, second, third] = three(&store);
    store.see(&third, 20);
    assert_violation(store.see(&second, 10), "sequence went back from 2");
}

#[test]
fn an_epoch_that_is_not_built_on_the_committed_one_is_a_violation() {
    let mut store = Store::new();
    let [first, second, _] = three(&store);
    store.see(&second, 10);
    let fork = epoch(4, &first.links, 1, 15);
    store.put(&fork);
    assert_violation(store.see(&fork, 15), "sequence 1 is");
    let mut store = Store::new();
    let [_, second, third] = three(&store);
    store.see(&third, 20);
    let leap = epoch(5, &second.links, 3, 25);
    store.put(&leap);
    assert_violation(store.see(&leap, 25), "sequence 3 has the parent 1");
}

#[test]
fn an_offset_that_is_not_the_objects_is_a_violation() {
    let mut store = Store::new();
    let [first, ..] = three(&store);
    assert_violation(store.see(&first, 3), "committed at 3, its object says 0");
}

#[test]
fn offsets_that_vanish_or_go_back_are_violations() {
    let mut store = Store::new();
    let [first, second, _] = three(&store);
    store.see(&second, 10);
    assert_violation(store.see(&first, 0), "went from 10 to 0");
    let Store { chain, report, .. } = &mut store;
    chain.observe(&[], report);
    assert_violation(report, "has vanished");
}

#[test]
fn pointers_of_others_and_garbage_are_violations() {
    let job = Pointer::job_hash_of("job", "stage");
    let cases = [
        (Pointer::job_hash_of("other", "stage"), STORE_ID, "another job"),
        (job.clone(), "ffffffffffffffff", "another store"),
        ("../../etc".into(), STORE_ID, "job hash"),
    ];
    for (job, id, part) in cases {
        let mut store = Store::new();
        let [first, ..] = three(&store);
        assert_violation(store.see_text(first.pointer(&job, id), 0), part);
    }
    let mut store = Store::new();
    assert_violation(store.see_text(String::new(), 0), "parts instead of 5");
}

#[test]
fn the_only_stage_is_found_in_the_store() {
    let store = Store::new();
    let options = |dir: &Path| WatchOptions {
        brokers: String::new(),
        job: "job".into(),
        stage: None,
        topics: vec![],
        store: dir.to_owned(),
        stable: false,
    };
    assert_eq!(only_stage(&options(store.dir.path())).as_deref(), Some("stage"));
    fs::create_dir_all(store.dir.path().join("jobs/job/second")).expect("second");
    assert_eq!(only_stage(&options(store.dir.path())), None);
}

/// Group mode: each partition carries the pointer of whoever committed for it last.
struct Pair {
    store: Store,
    /// Both shards' first sections, by one instance.
    first: Built,
    /// The second one's next, by another instance.
    moved: Built,
}

impl Pair {
    fn new() -> Pair {
        let store = Store::new();
        let part = |shard, sequence, parent, offset| Part {
            shard,
            sequence,
            parent,
            offset,
        };
        let first = build("job", "stage", 1, &[], &[part(0, 0, None, 0), part(1, 0, None, 0)]);
        let parent = first.links[1].1;
        let moved = build("job", "stage", 2, &first.links[1..], &[part(1, 1, Some(parent), 10)]);
        [&first, &moved].into_iter().for_each(|e| drop(store.put(e)));
        Pair { store, first, moved }
    }

    fn see(&mut self, zero: (&str, i64), one: (&str, i64)) -> &WatchReport {
        let place = |partition, (pointer, offset): (&str, i64)| Committed {
            topic: "in".into(),
            partition,
            offset,
            pointer: pointer.to_owned(),
        };
        let seen = [place(0, zero), place(1, one)];
        self.store.chain.observe(&seen, &mut self.store.report);
        &self.store.report
    }
}

fn named(built: &Built) -> String {
    built.pointer(&Pointer::job_hash_of("job", "stage"), STORE_ID)
}

#[test]
fn a_pointer_speaks_for_the_shards_of_its_partitions_alone() {
    let mut pair = Pair::new();
    let (first, moved) = (named(&pair.first), named(&pair.moved));
    pair.see((&first, 0), (&first, 0));
    pair.see((&first, 0), (&moved, 10));
    // The first object still holds a section of the shard that has moved on.
    let report = pair.see((&first, 0), (&moved, 10));
    assert!(report.ok(), "{:?}", report.violations);
}

#[test]
fn a_shard_of_a_moved_partition_that_goes_back_is_a_violation() {
    let mut pair = Pair::new();
    let (first, moved) = (named(&pair.first), named(&pair.moved));
    pair.see((&first, 0), (&moved, 10));
    let report = pair.see((&first, 0), (&first, 0));
    assert_violation(report, "sequence went back from 1");
}

#[test]
fn a_pointer_that_leads_to_nothing_of_its_partition_is_a_violation() {
    let mut pair = Pair::new();
    let (first, moved) = (named(&pair.first), named(&pair.moved));
    let report = pair.see((&moved, 0), (&first, 0));
    assert_violation(report, "no section that in/0 was read for");
}

#[test]
fn an_offset_is_compared_with_the_section_that_a_link_leads_to() {
    let mut pair = Pair::new();
    let other = build("job", "stage", 3, &pair.first.links[..1], &[]);
    pair.store.put(&other);
    let (other, moved) = (named(&other), named(&pair.moved));
    let report = pair.see((&other, 0), (&moved, 10));
    assert!(report.ok(), "{:?}", report.violations);
    let report = pair.see((&other, 3), (&moved, 10));
    assert_violation(report, "committed at 3, its object says 0");
}
