//! The last item of each key in an epoch.
use crate::support::{assert_cannot_go_on, driver, pipe, record, sorted, texts};
use keyfold::config::Guarantee;
use keyfold::testing::{MemoryBroker, TestDriver, TestRecord};
use keyfold::topology::{BadRecords, Job, KeyedStream, SourceOptions};
use keyfold::types::codec::{LongBe, Utf8};
use std::time::{Duration, Instant};

/// The latest text of each key, from lines that are keyed by their record's key; `build` adds what follows.
fn latest(build: impl Fn(&Job, KeyedStream<String>, &MemoryBroker) + 'static) -> TestDriver {
    let driver = driver(move |broker: &MemoryBroker| {
        let job = Job::new("latest");
        let letters = BadRecords::DeadLetter(job.dead_letters("letters", broker.target("letters")));
        let options = SourceOptions::bad_records(letters);
        let lines = job.source_with("lines", broker.source("in"), options, |r| {
            Ok(String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned())
        });
        let latest = lines.key_by_record_key("by-key").last_per_epoch("latest", String::len);
        build(&job, latest, broker);
        job.build()
    });
    driver.broker().create_topic("letters", 1);
    driver
}

fn to_sink(_: &Job, latest: KeyedStream<String>, broker: &MemoryBroker) {
    latest.to_with("sink", broker.target("out"), |text: &String, meta, out| {
        out.value = Some(text.clone().into_bytes());
        out.headers = meta.headers.to_vec();
        Ok(())
    });
}

/// All in one partition, so that their order is that of the topic.
fn lone(records: impl IntoIterator<Item = TestRecord>) -> Vec<TestRecord> {
    let lone = |r| TestRecord { partition: 0, ..r };
    records.into_iter().map(lone).collect()
}

#[test]
fn the_last_item_of_each_key_goes_on_at_the_barrier_with_its_record() {
    let mut driver = latest(to_sink);
    driver.start().expect("starts");
    let header = |r: TestRecord| {
        let value = r.value_text();
        r.with_header("h", value)
    };
    let records = [
        ("b", "1", 9),
        ("a", "2", 5),
        ("b", "3", 4),
        ("c", "4", 1),
        ("a", "5", 6),
    ];
    pipe(&driver, lone(records.map(|(k, v, t)| header(record(k, v).at(t)))));
    driver.barrier().expect("an epoch");
    let outputs = driver.outputs("out");
    assert_eq!(sorted(&outputs), ["a=5", "b=3", "c=4"]);
    for output in &outputs {
        assert_eq!(
            output.header("h"),
            Some(output.value_text()),
            "headers of another record"
        );
    }
    let mut times: Vec<i64> = outputs.iter().map(|r| r.timestamp).collect();
    times.sort_unstable();
    assert_eq!(times, [1, 4, 6]);
    // Nothing of it stays for the next epoch.
    pipe(&driver, lone([record("a", "6")]));
    driver.barrier().expect("an epoch");
    assert_eq!(texts(&driver.outputs("out")), ["a=6"]);
}

/// The order in which keys go on is seen behind another exchange.
#[test]
fn keys_go_on_in_the_order_of_their_first_items() {
    let mut driver = latest(|_, latest, broker| {
        let all = latest.unkeyed().key_by("all", Utf8, |_| "all".to_owned());
        let joined = all.fold("joined", Utf8, String::new, |all, text| all.push_str(&text));
        joined.to("sink", broker.target("out"), Utf8);
    });
    // One lane: keys on different lanes have no order.
    driver.configure(|c| c.keyed_lanes = 1);
    driver.start().expect("starts");
    let keys = ["d", "b", "d", "a", "c", "b", "a", "d"];
    pipe(&driver, lone(keys.map(|k| record(k, k.to_uppercase()))));
    driver.barrier().expect("an epoch");
    let outputs = driver.outputs("out");
    assert_eq!(outputs.last().map(TestRecord::value_text).as_deref(), Some("DBAC"));
}

/// What is held is lost with the process, before, during and after the commit of its epoch: the records are read again, and each key's last
/// item goes on once.
#[test]
fn a_crash_at_any_step_gives_the_same_outputs() {
    let points = [
        "barrier_aligned",
        "object_built",
        "post_manifest",
        "outputs_half_sent",
        "post_send_offsets",
        "post_commit",
        "mid_apply",
    ];
    let mut driver =
        latest(|job, latest, broker| to_sink(job, latest.count("epochs").map("text", |n| n.to_string()), broker));
    driver.start().expect("starts");
    for (round, point) in (1..).zip(points) {
        pipe(&driver, lone((0..30).map(|i| record(&format!("k{}", i % 5), i))));
        driver.crash_at(point).expect("runs");
        assert!(driver.barrier().is_err(), "{point}");
        driver.restart().expect("starts");
        driver.barrier().expect("an epoch");
        // Each key's items of an epoch are one for the state behind.
        let expected: Vec<String> = (0..5).map(|k| format!("k{k}={round}")).collect();
        assert_eq!(sorted(&driver.outputs("out")), expected, "{point}");
    }
    let state = driver.state("epochs", "value", &LongBe).expect("state");
    assert_eq!(state.values().collect::<Vec<&u64>>(), [&7; 5]);
}

/// The items that were held go on at the barrier: what refuses one there says which record it came from, and has its bytes.
#[test]
fn ep_8_a_refusal_of_what_was_held_names_the_last_record_of_the_key() {
    let refusing = |fail: bool| {
        latest(move |job, latest, broker| {
            if fail {
                job.on_bad_records("strict", BadRecords::Fail);
            }
            let strict = latest.try_map("strict", |text| match text.as_str() {
                "bad" => Err("told to"),
                _ => Ok(text),
            });
            to_sink(job, strict, broker);
        })
    };
    let records = || {
        lone([
            record("a", "1"),
            record("b", "bad"),
            record("a", "bad"),
            record("b", "2"),
        ])
    };
    let mut driver = refusing(false);
    driver.start().expect("starts");
    pipe(&driver, records());
    driver.barrier().expect("an epoch");
    assert_eq!(texts(&driver.outputs("out")), ["b=2"]);
    let letters = driver.outputs("letters");
    assert_eq!(texts(&letters), ["a=bad"]);
    assert_eq!(letters[0].header("keyfold.offset").as_deref(), Some("2"));
    let mut driver = refusing(true);
    driver.start().expect("starts");
    pipe(&driver, records());
    assert_cannot_go_on(driver.barrier(), &["in-0 offset 2: step strict"]);
}

/// An exchange behind it gets the items before the barrier that they belong to.
#[test]
fn items_cross_an_exchange_in_the_epoch_that_they_belong_to() {
    let mut driver = latest(|_, latest, broker| {
        latest
            .unkeyed()
            .key_by("by-text", Utf8, String::clone)
            .count("texts")
            .to("sink", broker.target("out"), LongBe);
    });
    driver.start().expect("starts");
    let records = ["x", "y", "x"].into_iter().zip(["a", "b", "c"]);
    pipe(&driver, lone(records.map(|(value, key)| record(key, value))));
    driver.barrier().expect("an epoch");
    let state = driver.state("texts", "value", &LongBe).expect("state");
    let expected = [(b"x".to_vec(), 2), (b"y".to_vec(), 1)];
    assert_eq!(state.into_iter().collect::<Vec<(_, u64)>>(), expected);
    assert_eq!(driver.outputs("out").len(), 3);
}

#[test]
fn under_at_least_once_the_last_items_go_on_at_barriers_too() {
    let mut driver = latest(to_sink);
    driver.configure(|c| c.guarantee = Guarantee::AtLeastOnce);
    driver.start().expect("starts");
    pipe(&driver, lone([record("a", 1), record("a", 2), record("b", 3)]));
    driver.barrier().expect("an epoch");
    assert_eq!(sorted(&driver.outputs("out")), ["a=2", "b=3"]);
    driver.crash_at("post_manifest").expect("runs");
    pipe(&driver, lone([record("a", 4), record("a", 5)]));
    assert!(driver.barrier().is_err());
    driver.restart().expect("starts");
    driver.barrier().expect("an epoch");
    let outputs = texts(&driver.outputs("out"));
    assert!(!outputs.is_empty() && outputs.iter().all(|o| o == "a=5"), "{outputs:?}");
}

/// Without a bound, a key space that is larger than the memory would be held until the interval is over. The clock stands still here: every
/// epoch is cut because what is held asks for it.
#[test]
fn what_is_held_counts_as_dirty_and_asks_for_a_barrier() {
    const KEYS: usize = 3000;
    let mut driver = latest(|_, latest, broker| latest.to("sink", broker.target("out"), Utf8));
    driver.configure(|c| c.memory_bytes = 2 << 20);
    driver.start().expect("starts");
    let long = "x".repeat(500);
    pipe(&driver, (0..KEYS).map(|k| record(&format!("{k:06}"), &long)));
    let until = Instant::now() + Duration::from_secs(30);
    let committed = |d: &TestDriver| d.broker().records("out").len();
    // An eighth of the memory is 256 KiB, a barrier is asked for at half of it: all but the last 128 KiB.
    while committed(&driver) < KEYS - 300 {
        assert!(Instant::now() < until, "{} of {KEYS}", committed(&driver));
        std::thread::sleep(Duration::from_millis(1));
    }
    driver.barrier().expect("an epoch");
    let mut keys = sorted(&driver.broker().records("out"));
    keys.dedup();
    assert_eq!((keys.len(), committed(&driver)), (KEYS, KEYS));
}
