//! State with a time to live: what expires, what is removed, and that nobody can tell the one from the other (EP-4).
use crate::support::{driver, pipe, record, sorted};
use keyfold::operator::{KeyedProcess, ProcessContext, ProcessError, StateScope, ValueState};
use keyfold::state::BackendFactory;
use keyfold::state::backend::memory::MemoryFactory;
use keyfold::testing::{MemoryBroker, TestDriver, TestRecord};
use keyfold::topology::{Job, Topology, TopologyError};
use keyfold::types::Shard;
use keyfold::types::codec::{LongBe, Utf8};
use std::collections::BTreeMap;
use std::time::Duration;

const TTL_MS: i64 = 1000;

/// Lets the first item of a key through, and drops those that come within its time to live.
struct Dedup {
    seen: ValueState<i64>,
}

impl KeyedProcess<String, String> for Dedup {
    fn process(&mut self, item: String, context: &mut ProcessContext<'_, String>) -> Result<(), ProcessError> {
        if self.seen.get()?.is_none() {
            self.seen.set(context.timestamp())?;
            context.emit(item);
        }
        Ok(())
    }
}

fn dedup(ttl_ms: Option<i64>) -> impl Fn(&MemoryBroker) -> Result<Topology, TopologyError> {
    move |broker| {
        let job = Job::new("dedup");
        job.source("items", broker.source("in"), |r| {
            Ok(String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned())
        })
        .key_by_record_key("by-key")
        .process("dedup", move |scope: &mut StateScope| Dedup {
            seen: match ttl_ms {
                Some(ms) => scope.value_with_ttl("seen", LongBe, Duration::from_millis(ms as u64)),
                None => scope.value("seen", LongBe),
            },
        })
        .to("sink", broker.target("out"), Utf8);
        job.build()
    }
}

fn items(driver: &TestDriver, items: impl IntoIterator<Item = (&'static str, i64)>) {
    pipe(driver, items.into_iter().map(|(key, time)| record(key, time).at(time)));
}

/// One item for each partition, so that the watermark comes to `time`.
fn tick(driver: &TestDriver, time: i64) {
    let tick = |partition| TestRecord {
        partition,
        ..record(&format!("tick-{partition}"), "tick").at(time)
    };
    pipe(driver, (0..4).map(tick));
}

/// Outputs since the last call, without those of ticks.
fn passed(driver: &mut TestDriver) -> Vec<String> {
    let mut passed = sorted(&driver.outputs("out"));
    passed.retain(|text| !text.starts_with("tick"));
    passed
}

#[test]
fn a_key_that_is_seen_within_its_time_is_dropped_and_passes_again_after_it() {
    let mut driver = driver(dedup(Some(TTL_MS)));
    driver.start().expect("starts");
    // 900 is out of order: 1000 has been seen by then.
    items(
        &driver,
        [
            ("a", 0),
            ("a", 999),
            ("a", 1000),
            ("a", 900),
            ("b", 5),
            ("a", 1999),
            ("a", 2000),
        ],
    );
    driver.barrier().expect("an epoch");
    assert_eq!(passed(&mut driver), ["a=0", "a=1000", "a=2000", "b=5"]);
}

/// Entries in all shards of a factory; the copies are not open.
fn entries(factory: &dyn BackendFactory) -> usize {
    let mut entries = 0;
    for shard in 0..4 {
        let backend = factory.open(Shard(shard)).expect("opens");
        backend.scan(&mut |_, _| entries += 1).expect("reads");
    }
    entries
}

/// The folder of the local copies.
#[cfg(feature = "rocksdb")]
fn copies_of(driver: &TestDriver) -> std::path::PathBuf {
    let folders = std::fs::read_dir(driver.dir().join("state")).expect("a state directory");
    let paths = folders.map(|folder| folder.expect("readable").path());
    let holds_shards = |path: &std::path::PathBuf| path.join("shard-0").exists();
    paths.into_iter().find(holds_shards).expect("local copies")
}

#[cfg(feature = "rocksdb")]
fn on_disk(path: &std::path::Path) -> impl BackendFactory {
    use keyfold::state::backend::rocksdb::{RocksFactory, RocksSettings};
    RocksFactory::new(
        path,
        RocksSettings::of_budget(8 << 20, 4),
        keyfold::testing::Faults::none(),
    )
}

/// Each round has keys that never come again; those of two rounds are alive at any moment.
fn churn(driver: &mut TestDriver, rounds: std::ops::Range<i64>) {
    const KEYS: i64 = 400;
    for round in rounds {
        let key = |k: i64| record(&format!("{round}-{k}"), "x").at(round * TTL_MS / 2);
        pipe(driver, (0..KEYS).map(key));
        driver.barrier().expect("an epoch");
        let passed = passed(driver);
        assert_eq!(passed.len(), KEYS as usize, "round {round}");
    }
}

/// Keys that never came again stayed for ever: a state that deduplicates grew with every key there ever was.
#[test]
fn state_is_as_large_as_what_lives_and_not_as_what_has_ever_been() {
    let mut driver = driver(dedup(Some(TTL_MS)));
    driver.start().expect("starts");
    churn(&mut driver, 0..40);
    assert!(driver.metrics().expect("runs").state_expired() > 10_000);
    driver.stop().expect("ends well");
    // 16,000 keys, of which 800 are alive, and about as many wait to be removed.
    let copies: &MemoryFactory = driver.copies();
    assert!(entries(copies) < 4000, "{}", entries(copies));
    // A copy that is made from the chain does not hold what has ever been, either.
    driver.lose_copies();
    driver.start().expect("starts");
    driver.stop().expect("ends well");
    assert!(entries(driver.copies()) < 4000, "{}", entries(driver.copies()));
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_gives_back_what_has_expired() {
    let mut driver = driver(dedup(Some(TTL_MS)));
    driver.use_disk();
    driver.start().expect("starts");
    churn(&mut driver, 0..30);
    driver.stop().expect("ends well");
    let path = copies_of(&driver);
    let left = entries(&on_disk(&path));
    assert!(left < 4000, "{left}");
    driver.start().expect("starts");
    churn(&mut driver, 30..33);
}

/// What the job must let through, by key.
#[derive(Default)]
struct Model {
    seen: BTreeMap<String, i64>,
}

impl Model {
    fn pass(&mut self, key: &str, time: i64) -> bool {
        let passes = self.seen.get(key).is_none_or(|seen| seen + TTL_MS <= time);
        if passes {
            self.seen.insert(key.to_owned(), time);
        }
        passes
    }
}

/// Crashes at a step in each round, and at times loses its disk; outputs are those of the model, whatever had been removed from the copies.
fn crashes(disk: bool) {
    const POINTS: [&str; 11] = [
        "barrier_aligned",
        "object_built",
        "post_manifest",
        "txn_begun",
        "outputs_half_sent",
        "outputs_sent",
        "post_send_offsets",
        "post_commit",
        "pre_apply",
        "mid_apply",
        "post_apply",
    ];
    let mut driver = driver(dedup(Some(TTL_MS)));
    if disk {
        driver.use_disk();
    }
    driver.start().expect("starts");
    let mut model = Model::default();
    for (round, point) in (0i64..).zip(POINTS.iter().cycle().take(33)) {
        let mut expected = Vec::new();
        // Some come every round, some every few rounds, some once; their times go up.
        for k in 0..30 {
            let key = match k % 3 {
                0 => format!("often-{k}"),
                1 => format!("seldom-{}-{k}", round % 5),
                _ => format!("once-{round}-{k}"),
            };
            let time = round * 300 + k;
            pipe(&driver, [record(&key, time).at(time)]);
            if model.pass(&key, time) {
                expected.push(format!("{key}={time}"));
            }
        }
        driver.crash_at(point).expect("runs");
        assert!(driver.barrier().is_err(), "{point}");
        if round % 8 == 7 {
            driver.kill();
            driver.lose_copies();
        }
        driver.restart().expect("starts");
        driver.barrier().expect("an epoch");
        expected.sort();
        let mut found = passed(&mut driver);
        found.sort();
        assert_eq!(found, expected, "round {round}, after {point}");
    }
}

#[test]
fn ep_4_crashes_and_restores_at_any_step_give_the_same_outputs() {
    crashes(false);
}

#[cfg(feature = "rocksdb")]
#[test]
fn ep_4_crashes_and_restores_at_any_step_give_the_same_outputs_on_disk() {
    crashes(true);
}

/// Epochs in which nothing else happens, until the one entry that has expired was removed.
fn until_removed(driver: &mut TestDriver) {
    // A sweep passes some of the shard's 240 key groups with each.
    for time in 20_001..20_100 {
        tick(driver, time);
        driver.barrier().expect("an epoch");
        if driver.metrics().expect("runs").state_expired() > 0 {
            return;
        }
    }
    panic!("nothing was removed");
}

/// A record that is late finds its key's entry expired by the watermark of the last epoch. Whether the entry is still in the map, is in the
/// copy alone, has been removed, or came back with a restore: the outputs are the same. By the record's own time the entry would be alive, and
/// what it finds would depend on the sweep.
#[test]
fn ep_4_a_late_record_finds_the_same_whether_the_entry_was_removed_or_not() {
    type Between = fn(&mut TestDriver);
    let betweens: [(&str, Between); 5] = [
        ("at once", |_| ()),
        ("restarted", |d| d.restart().expect("starts")),
        ("removed", until_removed),
        ("removed and restarted", |d| {
            until_removed(d);
            d.restart().expect("starts");
        }),
        ("restored", |d| {
            d.kill();
            d.lose_copies();
            d.start().expect("starts");
        }),
    ];
    for (name, between) in betweens {
        let mut driver = driver(dedup(Some(TTL_MS)));
        driver.start().expect("starts");
        items(&driver, [("late", 0)]);
        driver.barrier().expect("an epoch");
        tick(&driver, 20_000);
        driver.barrier().expect("an epoch");
        assert_eq!(passed(&mut driver), ["late=0"]);
        between(&mut driver);
        // The first passes, and the second is one of the same time: what a late record changes lives from the watermark on.
        items(&driver, [("late", 500), ("late", 500)]);
        driver.barrier().expect("an epoch");
        assert_eq!(passed(&mut driver), ["late=500"], "{name}");
    }
}

/// The time to live is no part of the state's schema: it is turned on, changed and left out between starts, without a new state.
#[test]
fn a_time_to_live_may_be_set_changed_and_left_out_at_a_start() {
    let mut driver = driver(dedup(None));
    driver.start().expect("starts");
    items(&driver, [("a", 0), ("b", 0), ("a", 50_000)]);
    driver.barrier().expect("an epoch");
    assert_eq!(passed(&mut driver), ["a=0", "b=0"]);
    let mut next = |ttl, records: &[(&'static str, i64)]| {
        driver.stop().expect("ends well");
        driver.rebuild(dedup(ttl));
        driver.start().expect("the same state");
        items(&driver, records.iter().copied());
        driver.barrier().expect("an epoch");
        passed(&mut driver)
    };
    assert_eq!(next(Some(60_000), &[("a", 50_001)]), Vec::<String>::new());
    assert_eq!(next(Some(TTL_MS), &[("a", 50_002), ("a", 50_003)]), ["a=50002"]);
    assert_eq!(next(None, &[("a", 90_000), ("c", 90_000)]), ["c=90000"]);
}

#[test]
fn a_state_without_any_time_to_live_is_refused() {
    let broker = MemoryBroker::default();
    broker.create_topic("in", 1);
    let error = dedup(Some(0))(&broker).err().expect("refused");
    assert!(
        matches!(&error, TopologyError::NoLife { operator, name } if operator == "dedup" && name == "seen"),
        "{error}"
    );
}
