//! More than fits in memory, a log that does not commit, at-least-once, and sinks behind the outbox.
use crate::support::{driver, pipe, record, sorted, sums, texts};
use keyfold::checkpoint::store::StoreErrorKind;
use keyfold::config::Guarantee;
use keyfold::sink::{LogErrorKind, OutboxSink, SinkError};
use keyfold::testing::{Call, Fault, MemoryBroker, TestDriver};
use keyfold::topology::{Job, Topology, TopologyError};
use keyfold::types::codec::{LongBe, Utf8};
use keyfold::types::{Clock, OutputRef, Sequence, Shard};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn counts(broker: &MemoryBroker) -> Result<Topology, TopologyError> {
    let job = Job::new("counts");
    job.source("items", broker.source("in"), |_| Ok(()))
        .key_by_record_key("by-key")
        .count("n")
        .to("sink", broker.target("out"), LongBe);
    job.build()
}

fn totals(driver: &TestDriver) -> BTreeMap<String, Vec<u64>> {
    let mut out: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for r in driver.broker().records("out") {
        let value = r.value.and_then(|v| v.try_into().ok()).map(u64::from_be_bytes);
        let key = String::from_utf8_lossy(r.key.as_deref().unwrap_or_default()).into_owned();
        out.entry(key).or_default().push(value.expect("8 bytes"));
    }
    out
}

#[test]
fn state_that_is_larger_than_the_maps_is_evicted_and_read_back() {
    let mut driver = driver(counts);
    driver.use_disk();
    driver.configure(|c| c.memory_bytes = 2 << 20);
    driver.start().expect("starts");
    let padding = "x".repeat(60);
    for _ in 0..3 {
        pipe(&driver, (0..8000).map(|k| record(&format!("{padding}{k}"), "")));
        driver.barrier().expect("an epoch");
    }
    let totals = totals(&driver);
    assert_eq!(totals.len(), 8000);
    assert!(totals.values().all(|t| *t == [1, 2, 3]));
}

#[test]
fn outputs_beyond_the_limit_are_spilled_and_published_in_order_over_a_crash() {
    let mut driver = driver(|broker| {
        let job = Job::new("wide");
        job.source("items", broker.source("in"), |r| {
            Ok(String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned())
        })
        .flat_map("many", |item, out| {
            (0..3000).for_each(|i| out(format!("{item}{i:0>90}")))
        })
        .to("sink", broker.target("out"), Utf8);
        job.build()
    });
    driver.configure(|c| c.memory_bytes = 1 << 20);
    driver.start().expect("starts");
    pipe(&driver, [record("k", "a")]);
    driver.crash_at("outputs_half_sent").expect("runs");
    assert!(driver.barrier().is_err());
    assert!(driver.outputs("out").is_empty());
    let spilled = std::fs::read_dir(driver.dir().join("state").join("spill")).expect("a directory");
    drop(spilled);
    driver.restart().expect("starts");
    pipe(&driver, [record("k", "b")]);
    driver.barrier().expect("an epoch");
    let expected: Vec<String> = ["a", "b"]
        .iter()
        .flat_map(|p| (0..3000).map(move |i| format!("k={p}{i:0>90}")))
        .collect();
    assert_eq!(texts(&driver.outputs("out")), expected);
}

#[test]
fn a_log_that_does_not_commit_holds_the_sources_back_and_loses_nothing() {
    const RECORDS: usize = 60_000;
    let mut driver = driver(counts);
    driver.configure(|c| c.memory_bytes = 4 << 20);
    driver.start().expect("starts");
    let process = driver.process().expect("runs").clone();
    (1..=20).for_each(|k| process.fault(Call::Commit, k, Fault::Fail(LogErrorKind::Abortable)));
    pipe(
        &driver,
        (0..RECORDS).map(|k| record(&format!("a-rather-long-key-that-takes-room-{k}"), "")),
    );
    let read = |d: &TestDriver| (0..4).map(|p| d.broker().read_position("in", p)).sum::<i64>();
    // Until it is in the midst of failing commits.
    while process.calls(Call::Commit) < 12 && read(&driver) < RECORDS as i64 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let held = read(&driver);
    assert!(held < RECORDS as i64, "all of it was read while nothing was committed");
    driver.barrier().expect("epochs");
    let totals = totals(&driver);
    assert_eq!(totals.len(), RECORDS);
    assert!(totals.values().all(|t| *t == [1]));
}

/// Row 31: a checkpoint store takes nothing for as long as it likes. The epoch waits as it is, at most 10 s from try to try; the sources stand still
/// when what waits has reached the limits, and nothing is lost.
#[test]
fn row_31_a_store_that_takes_nothing_holds_the_sources_back_and_loses_nothing() {
    const RECORDS: usize = 60_000;
    let mut driver = driver(counts);
    driver.configure(|c| c.memory_bytes = 4 << 20);
    driver.start().expect("starts");
    let tries = |d: &TestDriver| d.metrics().expect("runs").retries("write");
    driver.store().fail_next_puts(u32::MAX, StoreErrorKind::Retriable);
    pipe(
        &driver,
        (0..RECORDS).map(|k| record(&format!("a-rather-long-key-that-takes-room-{k}"), "")),
    );
    driver.clock().advance(Duration::from_secs(1));
    let read = |d: &TestDriver| (0..4).map(|p| d.broker().read_position("in", p)).sum::<i64>();
    while tries(&driver) < 50 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (begun, tried) = (driver.clock().elapsed(), tries(&driver));
    let (held, commits) = (read(&driver), driver.broker().records("out").len());
    while tries(&driver) < tried + 50 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let (waited, more) = (driver.clock().elapsed() - begun, tries(&driver) - tried);
    let longest = Duration::from_millis(12_500).saturating_mul(u32::try_from(more).expect("few") + 1);
    assert!(waited <= longest, "{waited:?} for {more} tries");
    assert!(
        held < RECORDS as i64 && read(&driver) == held,
        "{held}, then {}",
        read(&driver)
    );
    assert_eq!(
        (driver.broker().records("out").len(), commits),
        (0, 0),
        "nothing is out before it is durable"
    );
    driver.store().fail_next_puts(0, StoreErrorKind::Retriable);
    driver.barrier().expect("epochs");
    let totals = totals(&driver);
    assert_eq!(totals.len(), RECORDS);
    assert!(totals.values().all(|t| *t == [1]));
}

#[test]
fn at_least_once_shows_outputs_at_once_and_again_after_a_crash() {
    let mut driver = driver(sums);
    driver.configure(|c| c.guarantee = Guarantee::AtLeastOnce);
    driver.start().expect("starts");
    pipe(&driver, [record("a", 1)]);
    driver.barrier().expect("an epoch");
    assert_eq!(texts(&driver.outputs("out")), ["a=1"]);
    pipe(&driver, [record("a", 2)]);
    driver.crash_at("post_manifest").expect("runs");
    assert!(driver.barrier().is_err());
    assert_eq!(texts(&driver.outputs("out")), ["a=3"], "visible before the commit");
    driver.restart().expect("starts");
    pipe(&driver, [record("b", 5)]);
    driver.barrier().expect("an epoch");
    assert_eq!(
        sorted(&driver.outputs("out")),
        ["a=3", "b=5"],
        "once more, from the committed state"
    );
}

/// Every delivery that had an effect, and how often the sink was called for something that it had.
#[derive(Default)]
struct Delivered {
    taken: Vec<(Shard, Sequence, Vec<String>)>,
    again: usize,
    stored: BTreeMap<u32, Sequence>,
    fail: usize,
    panic: bool,
}

struct Outbox(Arc<Mutex<Delivered>>);

impl OutboxSink for Outbox {
    fn describe(&self) -> String {
        "test outbox".to_owned()
    }
    fn open(&mut self, _: &str) -> Result<(), SinkError> {
        Ok(())
    }
    fn deliver(
        &mut self,
        shard: Shard,
        sequence: Sequence,
        outputs: &mut dyn Iterator<Item = OutputRef<'_>>,
    ) -> Result<(), SinkError> {
        let mut state = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if state.panic {
            drop(state);
            panic!("the sink panics");
        }
        if state.fail > 0 {
            state.fail -= 1;
            return Err(SinkError::Retriable("busy".to_owned()));
        }
        if state.stored.get(&shard.0).is_some_and(|s| *s >= sequence) {
            state.again += 1;
            return Ok(());
        }
        let text = |b: Option<&[u8]>| String::from_utf8_lossy(b.unwrap_or_default()).into_owned();
        let outputs = outputs.map(|o| format!("{}={}", text(o.key), text(o.value))).collect();
        state.stored.insert(shard.0, sequence);
        state.taken.push((shard, sequence, outputs));
        Ok(())
    }
}

fn outbox() -> (TestDriver, Arc<Mutex<Delivered>>) {
    let delivered: Arc<Mutex<Delivered>> = Arc::default();
    let shared = delivered.clone();
    let driver = driver(move |broker| {
        let job = Job::new("boxed");
        job.source("items", broker.source("in"), |_| Ok(()))
            .key_by_record_key("by-key")
            .count("n")
            .map("text", |n| n.to_string())
            .to("sink", Outbox(shared.clone()), Utf8);
        job.build()
    });
    (driver, delivered)
}

fn taken(delivered: &Mutex<Delivered>) -> Vec<String> {
    let state = delivered.lock().expect("no panic");
    state.taken.iter().flat_map(|(_, _, outputs)| outputs.clone()).collect()
}

#[test]
fn outboxes_are_delivered_after_the_commit_and_after_a_crash_in_between() {
    let (mut driver, delivered) = outbox();
    driver.start().expect("starts");
    pipe(&driver, [record("a", "")]);
    driver.barrier().expect("an epoch");
    assert_eq!(taken(&delivered), ["a=1"]);
    for (point, after_restart) in [("post_manifest", "a=2"), ("post_commit", "a=3"), ("post_apply", "a=4")] {
        pipe(&driver, [record("a", "")]);
        driver.crash_at(point).expect("runs");
        assert!(driver.barrier().is_err());
        assert_ne!(
            taken(&delivered).last().map(String::as_str),
            Some(after_restart),
            "{point}"
        );
        driver.restart().expect("starts");
        driver.barrier().expect("an epoch");
        assert_eq!(
            taken(&delivered).last().map(String::as_str),
            Some(after_restart),
            "{point}"
        );
    }
    let state = delivered.lock().expect("no panic");
    let all: Vec<_> = state.taken.iter().flat_map(|(_, _, o)| o.clone()).collect();
    assert_eq!(all, ["a=1", "a=2", "a=3", "a=4"]);
}

/// A restart forgot what had been delivered: the next section said "nothing", and the restart after it delivered everything once more.
#[test]
fn what_was_delivered_is_remembered_over_restarts() {
    let (mut driver, delivered) = outbox();
    driver.start().expect("starts");
    for _ in 0..5 {
        pipe(&driver, [record("a", "")]);
        driver.barrier().expect("an epoch");
    }
    for _ in 0..3 {
        driver.stop().expect("ends");
        driver.start().expect("starts");
        pipe(&driver, [record("a", "")]);
        driver.barrier().expect("an epoch");
    }
    let state = delivered.lock().expect("no panic");
    // What the last section could not know: that it was delivered itself.
    assert!(state.again <= 3, "delivered again: {}", state.again);
    assert_eq!(state.taken.len(), 8);
}

#[test]
fn an_outbox_sink_that_is_busy_is_tried_again() {
    let (mut driver, delivered) = outbox();
    driver.start().expect("starts");
    delivered.lock().expect("no panic").fail = 5;
    pipe(&driver, [record("a", "")]);
    driver.barrier().expect("an epoch");
    assert_eq!(taken(&delivered), ["a=1"]);
    assert_eq!(driver.metrics().expect("runs").retries("deliver"), 5);
}

/// A panic on the driver's thread left the control thread running, which the scope waited for: the process hung instead of ending.
#[test]
fn a_panic_in_an_outbox_sink_ends_the_run() {
    let (mut driver, delivered) = outbox();
    driver.start().expect("starts");
    delivered.lock().expect("no panic").panic = true;
    pipe(&driver, [record("a", "")]);
    let panic = catch_unwind(AssertUnwindSafe(|| driver.barrier())).expect_err("it panics");
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the sink panics"));
    delivered.lock().expect("no panic").panic = false;
    driver.restart().expect("starts");
    driver.barrier().expect("an epoch");
    assert_eq!(taken(&delivered), ["a=1"]);
}
