//! What every backend must do; run over each of them.
use super::memory::{MemoryFactory, Operation};
use super::{Applied, Backend, BackendFactory, Swept};
use crate::state::{Change, StateError};
use crate::testing::faults::Faults;
use crate::types::{Digest, EpochId, Incarnation, Shard};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) fn section(sequence: u64) -> Applied {
    Applied {
        job: 1,
        shard: Shard(0),
        sequence,
        epoch: EpochId {
            incarnation: Incarnation(0xfeed),
            n: sequence + 1,
        },
        footer: Digest::of(&sequence.to_be_bytes()),
    }
}

/// Applies changes written as `key=value` or `key` (a deletion).
pub(super) fn apply(backend: &dyn Backend, changes: &[&str], sequence: u64) -> Result<(), StateError> {
    let mut changes = changes.iter().map(|text| match text.split_once('=') {
        Some((key, value)) => Change {
            key: key.as_bytes(),
            value: Some(value.as_bytes()),
        },
        None => Change {
            key: text.as_bytes(),
            value: None,
        },
    });
    backend.apply(&mut changes, &section(sequence))
}

pub(super) fn rows(backend: &dyn Backend) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, StateError> {
    let mut rows = BTreeMap::new();
    let mut last = None;
    backend.scan(&mut |key, value| {
        assert!(last.as_deref() < Some(key), "in key order, each key once");
        last = Some(key.to_vec());
        rows.insert(key.to_vec(), value.to_vec());
    })?;
    Ok(rows)
}

fn texts(backend: &dyn Backend) -> Vec<String> {
    let rows = rows(backend).expect("scan");
    rows.iter()
        .map(|(k, v)| format!("{}={}", String::from_utf8_lossy(k), String::from_utf8_lossy(v)))
        .collect()
}

/// Runs the suite over an empty factory.
pub(super) fn run(factory: &dyn BackendFactory) {
    reads_what_was_applied(factory);
    sequences_only_grow(factory);
    sections_of_another_shard_or_job_are_refused(factory);
    own_rows_are_not_for_changes(factory);
    copies_are_kept_across_close_and_open(factory);
    a_wiped_copy_is_empty(factory);
    a_sweep_deletes_what_is_picked_within_its_bounds(factory);
    an_image_is_one_section_and_makes_the_copy_again(factory);
    large_sections_are_as_good_as_small_ones(factory);
}

/// Sections by turns large, small, large with deletions, each looked at in every way; a sweep, an image and a close in between.
fn large_sections_are_as_good_as_small_ones(factory: &dyn BackendFactory) {
    let long = "v".repeat(100);
    let large = |n: u64| -> Vec<String> {
        let change = |i: u64| match n > 1 && i.is_multiple_of(5) {
            true => format!("{i:05}"),
            false => format!("{i:05}={n}{long}"),
        };
        (0..2_000).map(change).collect()
    };
    let mut model = BTreeMap::new();
    let mut next = |backend: &dyn Backend, n: u64| {
        let changes = match n.is_multiple_of(2) {
            true => vec!["00003".to_owned(), format!("00005={n}"), format!("own={n}")],
            false => large(n),
        };
        let texts: Vec<&str> = changes.iter().map(String::as_str).collect();
        apply(backend, &texts, n).expect("apply");
        for text in texts {
            match text.split_once('=') {
                Some((key, value)) => model.insert(key.as_bytes().to_vec(), value.as_bytes().to_vec()),
                None => model.remove(text.as_bytes()),
            };
        }
        assert_eq!(backend.applied().expect("applied"), Some(section(n)));
        assert_eq!(rows(backend).expect("scan"), model, "section {n}");
        let keys: Vec<&[u8]> = vec![b"00005", b"own", b"00003", b"01999", b"none"];
        let mut out = Vec::new();
        backend.get_many(&keys, &mut out).expect("get");
        let expected: Vec<_> = keys.iter().map(|key| model.get(*key).cloned()).collect();
        assert_eq!(out, expected, "section {n}");
        if n == 3 {
            let swept = backend.sweep(b"01990", b"own", 99, &|_| true).expect("sweeps");
            assert_eq!(swept.removed, 8, "those that are there of ten");
            model.retain(|key, _| key.as_slice() < b"01990".as_slice() || key == b"own");
            assert_eq!(rows(backend).expect("scan"), model, "swept");
        }
    };
    let backend = factory.open(Shard(30)).expect("open");
    (1..=4).for_each(|n| next(&*backend, n));
    drop(backend);
    let backend = factory.open_behind(Shard(30)).expect("open again");
    (5..=7).for_each(|n| next(&*backend, n));
    let image = backend.image().expect("an image");
    assert_eq!(image.applied(), section(7));
    image.verify().expect("whole");
    let rebuild = factory.rebuild(Shard(31)).expect("begins");
    for file in image.files() {
        let bytes = image.read(&file.name, 0, file.bytes as usize).expect("reads");
        rebuild.write(&file.name, 0, &bytes).expect("writes");
    }
    rebuild.finish().expect("in place");
    let again = factory.open_behind(Shard(31)).expect("open");
    assert_eq!(rows(&*again).expect("scan"), rows(&*backend).expect("scan"));
    (8..=11).for_each(|n| next(&*again, n));
    again.caught_up().expect("goes on");
    (12..=14).for_each(|n| next(&*again, n));
}

fn an_image_is_one_section_and_makes_the_copy_again(factory: &dyn BackendFactory) {
    let backend = factory.open(Shard(20)).expect("open");
    assert!(backend.image().is_err(), "an empty copy is no section");
    apply(&*backend, &["a=1", "b=2"], 3).expect("apply");
    let image = backend.image().expect("an image");
    apply(&*backend, &["a=5", "b", "c=3"], 4).expect("apply");
    assert_eq!(image.applied(), section(3), "and stays it");
    assert!(factory.is_there(Shard(20)) && !factory.is_there(Shard(21)));
    let read = |factory: &dyn BackendFactory, shard| {
        let rebuild = factory.rebuild(shard).expect("begins");
        for file in image.files() {
            // Out of order, as pieces come.
            let mut at: Vec<u64> = (0..file.bytes.max(1)).step_by(7).collect();
            at.reverse();
            for offset in at {
                let bytes = image.read(&file.name, offset, 7).expect("reads");
                rebuild.write(&file.name, offset, &bytes).expect("writes");
            }
        }
        // Some files before the others, or not at all.
        rebuild.sync(&image.files()[0].name).expect("syncs");
        assert!(!factory.is_there(shard), "it is none yet");
        rebuild
    };
    assert!(
        read(factory, Shard(21)).write("../x", 0, b"x").is_err(),
        "no name of an image"
    );
    assert!(
        texts(&*factory.open(Shard(21)).expect("open")).is_empty(),
        "nothing is there before its end"
    );
    factory.wipe(Shard(21)).expect("wipes");
    read(factory, Shard(21)).finish().expect("in place");
    assert!(factory.is_there(Shard(21)));
    let again = factory.open(Shard(21)).expect("open");
    assert_eq!(
        (again.applied().expect("applied"), texts(&*again)),
        (Some(section(3)), vec!["a=1".into(), "b=2".into()])
    );
    apply(&*again, &["a=5", "b", "c=3"], 4).expect("and goes on");
    assert_eq!(texts(&*again), texts(&*backend));
    drop((again, image));
    let second = backend.image().expect("another one");
    assert_eq!(second.applied(), section(4));
}

fn reads_what_was_applied(factory: &dyn BackendFactory) {
    let backend = factory.open(Shard(0)).expect("open");
    assert_eq!(backend.applied().expect("applied"), None);
    let mut out = vec![Some(vec![1])];
    backend.get_many(&[b"a"], &mut out).expect("get");
    assert_eq!(out, [None]);
    apply(&*backend, &["a=1", "b=2", "c="], 0).expect("genesis may be the first");
    apply(&*backend, &["b", "d=4", "a=11"], 1).expect("apply");
    assert_eq!(backend.applied().expect("applied"), Some(section(1)));
    backend
        .get_many(&[b"d", b"a", b"b", b"d", b"c"], &mut out)
        .expect("get");
    let d = Some(b"4".to_vec());
    assert_eq!(
        out,
        [d.clone(), Some(b"11".to_vec()), None, d, Some(Vec::new())],
        "in the order of the keys"
    );
    assert_eq!(
        texts(&*backend),
        ["a=11", "c=", "d=4"],
        "without the backend's own rows"
    );
    backend.get_many(&[], &mut out).expect("get");
    assert!(out.is_empty());
    let other = factory.open(Shard(1)).expect("open");
    assert!(texts(&*other).is_empty(), "shards share nothing");
}

fn sequences_only_grow(factory: &dyn BackendFactory) {
    let backend = factory.open(Shard(2)).expect("open");
    apply(&*backend, &["a=1"], 5).expect("an empty copy takes any section");
    for sequence in [5, 4, 0] {
        let refused = apply(&*backend, &["a=2"], sequence);
        assert!(
            matches!(&refused, Err(StateError::Damaged { reason, .. }) if reason.contains("EP-4")),
            "{refused:?}"
        );
    }
    assert_eq!(texts(&*backend), ["a=1"]);
    apply(&*backend, &["a=3"], 6).expect("the next");
    apply(&*backend, &[], 9).expect("merged epochs leave a gap; an empty section counts");
    assert_eq!(backend.applied().expect("applied"), Some(section(9)));
}

fn sections_of_another_shard_or_job_are_refused(factory: &dyn BackendFactory) {
    let backend = factory.open(Shard(60)).expect("open");
    apply(&*backend, &["a=1"], 1).expect("apply");
    let shard = Shard(2);
    for other in [Applied { shard, ..section(2) }, Applied { job: 7, ..section(2) }] {
        let refused = backend.apply(&mut std::iter::empty(), &other).expect_err("whose?");
        assert!(matches!(refused, StateError::Damaged { .. }), "{refused}");
        assert!(refused.to_string().contains("EP-4"), "{refused}");
    }
    assert_eq!(backend.applied().expect("applied"), Some(section(1)));
}

fn own_rows_are_not_for_changes(factory: &dyn BackendFactory) {
    let backend = factory.open(Shard(3)).expect("open");
    let change = Change {
        key: b"\xff\xffapplied",
        value: Some(b"x"),
    };
    assert!(backend.apply(&mut [change].into_iter(), &section(1)).is_err());
    assert_eq!(backend.applied().expect("applied"), None);
}

fn copies_are_kept_across_close_and_open(factory: &dyn BackendFactory) {
    let backend = factory.open(Shard(4)).expect("open");
    apply(&*backend, &["a=1", "b=2"], 1).expect("apply");
    assert!(
        matches!(factory.open(Shard(4)), Err(StateError::Io { .. })),
        "a copy is open once"
    );
    drop(backend);
    let backend = factory.open(Shard(4)).expect("open again");
    assert_eq!(backend.applied().expect("applied"), Some(section(1)));
    assert_eq!(texts(&*backend), ["a=1", "b=2"]);
    apply(&*backend, &["a"], 2).expect("apply");
    backend.flush().expect("flush");
    assert_eq!(texts(&*backend), ["b=2"]);
}

fn a_wiped_copy_is_empty(factory: &dyn BackendFactory) {
    let backend = factory.open(Shard(5)).expect("open");
    apply(&*backend, &["a=1"], 7).expect("apply");
    assert!(
        matches!(factory.wipe(Shard(5)), Err(StateError::Io { .. })),
        "an open copy is not wiped"
    );
    drop(backend);
    factory.wipe(Shard(5)).expect("wipe");
    factory.wipe(Shard(5)).expect("a copy that is not there may be wiped");
    let backend: Arc<dyn Backend> = factory.open(Shard(5)).expect("open");
    assert_eq!(backend.applied().expect("applied"), None);
    assert!(texts(&*backend).is_empty());
    apply(&*backend, &["b=1"], 0).expect("starts over");
}

fn a_sweep_deletes_what_is_picked_within_its_bounds(factory: &dyn BackendFactory) {
    let backend = factory.open(Shard(6)).expect("open");
    apply(&*backend, &["a=1", "b1=1", "b2=2", "b3=1", "b4=1", "c=1"], 1).expect("apply");
    let ones = |value: &[u8]| value == b"1";
    let sweep = |from: &[u8], limit| backend.sweep(from, b"c", limit, &ones).expect("sweeps");
    let found = |looked_at, removed, next: Option<&[u8]>| Swept {
        looked_at,
        removed,
        next: next.map(<[u8]>::to_vec),
    };
    assert_eq!(sweep(b"b", 0), found(0, 0, Some(b"b1")));
    assert_eq!(sweep(b"b", 2), found(2, 1, Some(b"b3")));
    assert_eq!(texts(&*backend), ["a=1", "b2=2", "b3=1", "b4=1", "c=1"]);
    assert_eq!(sweep(b"b3", 9), found(2, 2, None));
    assert_eq!(sweep(b"b3", 9), found(0, 0, None));
    let rows = ["a=1", "b2=2", "c=1"];
    assert_eq!(texts(&*backend), rows);
    assert_eq!(
        backend.applied().expect("applied"),
        Some(section(1)),
        "it equals the same section"
    );
    apply(&*backend, &["b1=3"], 2).expect("what was removed may come again");
    drop(backend);
    let backend = factory.open(Shard(6)).expect("open again");
    assert_eq!(texts(&*backend), ["a=1", "b1=3", "b2=2", "c=1"]);
}

/// A failed step applies nothing, and the same section can be applied again.
pub(super) fn a_failed_apply_applied_nothing(open: &dyn Fn(Faults) -> Arc<dyn Backend>) {
    for point in ["pre_apply", "mid_apply"] {
        let backend = open(Faults::parse(&format!("{point}=error@2")).expect("valid"));
        apply(&*backend, &["a=1"], 1).expect("the first passes");
        assert!(
            matches!(apply(&*backend, &["a=2", "b=2"], 2), Err(StateError::Io { .. })),
            "{point}"
        );
        assert_eq!(backend.applied().expect("applied"), Some(section(1)));
        assert_eq!(texts(&*backend), ["a=1"]);
        apply(&*backend, &["a=2", "b=2"], 2).expect("again");
        assert_eq!(texts(&*backend), ["a=2", "b=2"]);
    }
}

#[test]
fn the_memory_backend_conforms() {
    run(&MemoryFactory::default());
    a_failed_apply_applied_nothing(&|faults| MemoryFactory::new(faults).open(Shard(0)).expect("open"));
}

#[test]
fn the_memory_factory_fails_when_told_to() {
    let factory = MemoryFactory::default();
    factory.fail(Operation::Open, 1);
    assert!(matches!(factory.open(Shard(0)), Err(StateError::Io { .. })));
    let backend = factory.open(Shard(0)).expect("only once");
    for (operation, times) in [(Operation::Read, 2), (Operation::Apply, 1), (Operation::Flush, 1)] {
        factory.fail(operation, times);
    }
    assert!(backend.get_many(&[b"a"], &mut Vec::new()).is_err());
    assert!(backend.applied().is_err());
    assert!(apply(&*backend, &["a=1"], 1).is_err());
    assert!(backend.flush().is_err());
    apply(&*backend, &["a=1"], 1).expect("only once");
    drop(backend);
    factory.damage(Shard(0));
    assert!(matches!(factory.open(Shard(0)), Err(StateError::Damaged { .. })));
    factory.wipe(Shard(0)).expect("wipe");
    assert_eq!(factory.open(Shard(0)).expect("open").applied().expect("applied"), None);
}

#[test]
fn a_crash_takes_memory_copies_back_to_their_last_flush() {
    let factory = MemoryFactory::with_crashes(Faults::none());
    let backend = factory.open(Shard(0)).expect("open");
    apply(&*backend, &["a=1"], 1).expect("apply");
    backend.flush().expect("flush");
    apply(&*backend, &["a=2"], 2).expect("apply");
    factory.crash();
    apply(&*backend, &["a=3"], 3).expect("a dead process's write");
    let after = factory.open(Shard(0)).expect("open");
    drop(backend);
    assert_eq!(after.applied().expect("applied"), Some(section(1)));
    assert_eq!(texts(&*after), ["a=1"]);
}
