use super::*;
use crate::checkpoint::tests::{History, changes};
use crate::state::backend::memory::MemoryFactory;
use crate::telemetry::Metrics;
use crate::testing::ManualClock;
use proptest::prelude::*;
use std::collections::BTreeMap;

type Rows = BTreeMap<String, Option<String>>;

fn rows() -> impl Strategy<Value = Rows> {
    let value = proptest::option::of("[a-z]{0,3}");
    proptest::collection::btree_map("[a-d]{1,2}", value, 0..6)
}

fn restore<'a>(
    history: &'a History,
    factory: &'a dyn BackendFactory,
    (faults, progress, meter): &'a (Faults, Progress, FetchMeter),
    run_bytes: usize,
) -> Restore<'a> {
    let chain = Chain::new(&history.store, &history.layout, &history.expected);
    Restore {
        chain,
        backends: factory,
        expiry: Expiry::new(chain.groups(), Vec::new()),
        faults,
        progress,
        meter,
        run_bytes,
    }
}

fn beside(faults: &str) -> (Faults, Progress, FetchMeter) {
    let meter = FetchMeter::new(Metrics::new(), Arc::new(ManualClock::new(0)));
    let faults = Faults::parse(faults).expect("valid");
    (faults, Progress::default(), meter)
}

fn found(copy: &dyn Backend) -> BTreeMap<String, String> {
    let mut rows = BTreeMap::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    copy.scan(&mut |key, value| {
        rows.insert(text(key), text(value));
    })
    .expect("scans");
    rows
}

fn committed(sections: &[Rows]) -> (History, ShardState) {
    let mut history = History::new();
    let mut pointer = None;
    for rows in sections {
        let list: Vec<_> = rows.iter().map(|(k, v)| (k.as_str(), v.as_deref())).collect();
        let section = history.next(0, 1, &list);
        assert_eq!(section.changes.len(), changes(&list).len());
        pointer = Some(history.commit(vec![section]));
    }
    let chain = Chain::new(&history.store, &history.layout, &history.expected);
    let pointer = pointer.expect("a section");
    let state = chain.resolve_shard(&pointer, Shard(0)).expect("resolves");
    (history, state)
}

proptest! {
    /// However many sections are applied as one: the copy is what they make one after the other, and names the last.
    #[test]
    fn sections_that_are_applied_together_make_what_they_make_one_by_one(
        sections in proptest::collection::vec(rows(), 1..8),
        run_bytes in prop_oneof![Just(0usize), 1usize..200, Just(1 << 20)],
        crash_at in 1usize..10,
    ) {
        restored_although_it_dies(&sections, &MemoryFactory::default(), run_bytes, crash_at);
    }
}

/// In the middle of it the process dies, and its successor goes on from what is there.
fn restored_although_it_dies(sections: &[Rows], factory: &dyn BackendFactory, run_bytes: usize, crash_at: usize) {
    let (history, state) = committed(sections);
    let mut wanted = BTreeMap::new();
    for (key, value) in sections.iter().flatten() {
        match value {
            Some(value) => wanted.insert(key.clone(), value.clone()),
            None => wanted.remove(key),
        };
    }
    let dies = beside(&format!("mid_restore=error@{crash_at}"));
    let died = restore(&history, factory, &dies, run_bytes).shard(Shard(0), &state);
    // Genesis is a section, too.
    assert_eq!(died.is_err(), crash_at <= sections.len() + 1);
    drop(died);
    let around = beside("");
    let copy = restore(&history, factory, &around, run_bytes).shard(Shard(0), &state);
    let copy = copy.expect("restores");
    assert!(found(copy.as_ref()) == wanted);
    let applied = copy.applied().expect("reads").expect("not empty");
    assert_eq!(
        (applied.sequence, applied.epoch, applied.footer),
        (state.link.sequence, state.link.epoch, state.link.footer)
    );
}

/// Runs of all sizes beside what becomes a table: sections large and small, keys that change in all of them, and some that are deleted.
#[cfg(feature = "rocksdb")]
#[test]
fn sections_that_become_tables_make_what_they_make_one_by_one() {
    use crate::state::backend::rocksdb::{RocksFactory, RocksSettings};
    let filler = "y".repeat(100);
    let large = |n: usize| -> Rows {
        let value = |i: usize| (n.is_multiple_of(2) || !i.is_multiple_of(3)).then(|| format!("{n} {i} {filler}"));
        (0..1_000).map(|i| (format!("l{i:04}"), value(i))).collect()
    };
    let small = |n: usize| {
        Rows::from([
            ("l0003".to_owned(), Some(n.to_string())),
            (format!("s{n}"), Some(filler.clone())),
        ])
    };
    let sections: Vec<Rows> = (0..6).map(|n| if n == 3 { small(n) } else { large(n) }).collect();
    let settings = RocksSettings::of_budget(256 << 10, 1);
    for run_bytes in [0, 200_000, 1 << 20] {
        for crash_at in 1..=sections.len() + 2 {
            let dir = tempfile::tempdir().expect("a directory");
            let factory = RocksFactory::new(dir.path(), settings, Faults::none());
            restored_although_it_dies(&sections, &factory, run_bytes, crash_at);
        }
    }
}

/// What lies before the damage may be applied, nothing behind it is, and the object is named.
#[test]
fn a_chain_that_is_damaged_in_the_middle_is_replayed_up_to_there() {
    let one = |value: &str| Rows::from([("a".to_owned(), Some(value.to_owned()))]);
    let (history, state) = committed(&[one("1"), one("2"), one("3")]);
    let damaged = history.layout.epoch(crate::checkpoint::tests::epoch(3));
    // Of the last byte of the section: in front of the footer, whose length stands in front of the last 8 bytes.
    let bytes = crate::checkpoint::store::Store::get(&history.store, &damaged).expect("there");
    let at = bytes.len() - 12;
    let footer = u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four")) as usize;
    assert!(history.store.flip(&damaged, (at - footer - 1) * 8));
    let (factory, around) = (MemoryFactory::default(), beside(""));
    let failed = restore(&history, &factory, &around, 1 << 20).shard(Shard(0), &state);
    let why = failed.err().expect("damaged").to_string();
    assert!(why.contains(damaged.as_str()), "{why}");
    let copy = factory.open(Shard(0)).expect("opens");
    assert_eq!(found(copy.as_ref()), BTreeMap::from([("a".to_owned(), "1".to_owned())]));
}
