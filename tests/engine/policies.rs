//! What happens to bad records (EP-8), rows 34 to 36 and 49 of the fault matrix.
use crate::support::{assert_cannot_go_on, driver, pipe, record, texts};
use keyfold::sink::LogErrorKind;
use keyfold::testing::{Call, Fault, MemoryBroker, TestDriver, TestRecord};
use keyfold::topology::{BadRecords, Job, SourceOptions, Topology, TopologyError};
use keyfold::types::Clock;
use keyfold::types::codec::Utf8;

fn policy(name: &'static str) -> impl Fn(&MemoryBroker) -> Result<Topology, TopologyError> {
    move |broker| {
        let job = Job::new("policies");
        let bad_records = match name {
            "skip" => BadRecords::Skip,
            "letters" => BadRecords::DeadLetter(job.dead_letters("letters", broker.target("letters"))),
            _ => BadRecords::Fail,
        };
        let options = SourceOptions::bad_records(bad_records);
        job.source_with("items", broker.source("in"), options, |r| {
            std::str::from_utf8(r.value.unwrap_or_default())
                .map(str::to_owned)
                .map_err(|e| e.to_string())
        })
        .key_by_record_key("by-key")
        .try_fold("join", Utf8, String::new, |all, item| {
            all.push_str(&item);
            if item == "refuse" {
                Err("told to".to_owned())
            } else {
                Ok(())
            }
        })
        .to("sink", broker.target("out"), Utf8);
        job.build()
    }
}

fn with(name: &'static str) -> TestDriver {
    let driver = driver(policy(name));
    driver.broker().create_topic("letters", 1);
    driver.broker().set_max_bytes("out", 60);
    driver
}

/// A record of each kind that is refused: the step that does, its label, the record.
fn bad_records() -> Vec<(&'static str, &'static str, TestRecord)> {
    let future = 1_767_225_600_000 + 3_600_000 * 2;
    vec![
        ("items", "decode", record("k", "").with_header("h", "1")).with_value(&[0xff, 0xfe]),
        ("by-key", "null_key", record("k", "x").without_key()),
        ("items", "timestamp", record("k", "x").at(-7)),
        ("items", "timestamp", record("k", "x").at(future)),
        ("items", "timestamp", record("k", "x").at(i64::MAX)),
        ("join", "user", record("k", "refuse")),
    ]
}

trait WithValue {
    fn with_value(self, value: &[u8]) -> Self;
}

impl WithValue for (&'static str, &'static str, TestRecord) {
    fn with_value(self, value: &[u8]) -> Self {
        let record = TestRecord {
            value: Some(value.to_vec()),
            ..self.2
        };
        (self.0, self.1, record)
    }
}

#[test]
fn fail_names_the_record_and_commits_nothing_of_the_epoch() {
    for (step, reason, bad) in bad_records() {
        let mut driver = with("fail");
        driver.start().expect("starts");
        pipe(&driver, [record("k", "a")]);
        driver.barrier().expect("an epoch");
        let before = driver.broker().offsets("policies.items");
        pipe(&driver, [record("k", "b")]);
        let (partition, offset) = driver.broker().produce("in", bad.clone()).expect("taken");
        pipe(&driver, [record("k", "c")]);
        let result = driver.barrier();
        assert_cannot_go_on(result, &[&format!("in-{partition} offset {offset}"), step, reason]);
        assert_eq!(driver.broker().offsets("policies.items"), before);
        assert_eq!(texts(&driver.outputs("out")), ["k=a"]);
        assert_eq!(driver.broker().open_transactions(), 0);
        // With another policy it goes on where it was.
        driver.rebuild(policy("skip"));
        driver.start().expect("starts");
        driver.barrier().expect("an epoch");
        assert_eq!(texts(&driver.outputs("out")), ["k=ab", "k=abc"], "{reason}");
        assert_eq!(driver.metrics().expect("runs").bad_records(reason), 1);
    }
}

#[test]
fn a_dead_letter_has_the_original_bytes_and_says_where_they_came_from() {
    let mut driver = with("letters");
    driver.start().expect("starts");
    for (step, reason, bad) in bad_records() {
        let place = driver.broker().produce("in", bad.clone()).expect("taken");
        // In the same epoch: neither before nor without the offsets.
        driver.crash_at("post_manifest").expect("runs");
        assert!(driver.barrier().is_err());
        assert!(
            driver
                .broker()
                .records("letters")
                .iter()
                .all(|r| r.header("keyfold.offset") != Some(place.1.to_string())
                    || r.header("keyfold.partition") != Some(place.0.to_string()))
        );
        driver.restart().expect("starts");
        driver.barrier().expect("an epoch");
        let letters = driver.outputs("letters");
        let [letter] = &letters[..] else {
            panic!("one letter: {letters:?}")
        };
        assert_eq!((&letter.key, &letter.value), (&bad.key, &bad.value));
        let header = |name: &str| letter.header(&format!("keyfold.{name}")).unwrap_or_default();
        assert_eq!(
            (header("topic"), header("step"), header("reason")),
            ("in".into(), step.into(), reason.into())
        );
        assert_eq!(
            (header("partition"), header("offset")),
            (place.0.to_string(), place.1.to_string())
        );
        assert!(!header("error").is_empty() && !header("time").is_empty());
        assert_eq!(letter.header("h"), bad.header("h"));
    }
    pipe(&driver, [record("k", "good")]);
    driver.barrier().expect("an epoch");
    assert_eq!(texts(&driver.outputs("out")), ["k=good"]);
}

/// Row 36: an output that is larger than its sink takes is refused by us, with the record that caused it.
#[test]
fn an_output_that_is_too_large_follows_the_policy() {
    let large = "x".repeat(80);
    let mut driver = with("fail");
    driver.start().expect("starts");
    pipe(&driver, [record("k", &large)]);
    assert_cannot_go_on(driver.barrier(), &["offset 0", "sink", "too_large", "60"]);
    assert!(driver.broker().records("out").is_empty());
    let mut driver = with("letters");
    driver.start().expect("starts");
    pipe(&driver, [record("k", &large), record("other", "fits")]);
    driver.barrier().expect("an epoch");
    let letters = driver.outputs("letters");
    assert_eq!(letters[0].header("keyfold.reason").as_deref(), Some("too_large"));
    assert_eq!(letters[0].value_text(), large);
    assert_eq!(texts(&driver.outputs("out")), ["other=fits"]);
}

/// Row 49: no timestamp (-1) is fine, and a bad one does not move the watermark.
#[test]
fn a_bad_timestamp_does_not_move_the_watermark() {
    let mut driver = with("skip");
    let now = driver.clock().now_ms();
    driver.start().expect("starts");
    let lone = |r: TestRecord| TestRecord { partition: 0, ..r };
    pipe(
        &driver,
        [
            lone(record("k", "a").at(-1)),
            lone(record("k", "b").at(now)),
            lone(record("k", "c").at(i64::MAX)),
        ],
    );
    driver.barrier().expect("an epoch");
    assert_eq!(texts(&driver.outputs("out")), ["k=a", "k=ab"]);
    assert!(
        watermarks(&driver).iter().all(|w| *w == Some(now)),
        "{:?}",
        watermarks(&driver)
    );
}

#[test]
fn the_watermark_is_kept_in_the_section_and_never_goes_back() {
    let mut driver = with("fail");
    driver.start().expect("starts");
    let mut last = None;
    for (time, restart) in [(1000, false), (500, true), (2000, false), (1, true), (3000, false)] {
        pipe(
            &driver,
            (0..4).map(|p| TestRecord {
                partition: p,
                ..record("k", "").at(time)
            }),
        );
        driver.barrier().expect("an epoch");
        let now = watermarks(&driver);
        assert!(now.iter().all(|w| *w >= last && w.is_some()), "{now:?} after {last:?}");
        last = now[0];
        if restart {
            driver.restart().expect("starts");
        }
    }
    assert_eq!(last, Some(3000));
}

fn watermarks(driver: &TestDriver) -> Vec<Option<i64>> {
    use keyfold::checkpoint::object::ObjectReader;
    use keyfold::checkpoint::pointer::Pointer;
    use keyfold::checkpoint::store::Layout;
    use keyfold::types::Shard;
    let layout = Layout::new("policies", "items").expect("valid");
    let committed = driver.broker().offsets("policies.items");
    let pointer = Pointer::parse(committed[0].metadata.as_deref().expect("a pointer")).expect("ours");
    let path = layout.epoch(pointer.epoch);
    let store = driver.store();
    let object = ObjectReader::open(store, &path, Some(pointer.footer)).expect("there");
    let of = |shard| {
        let link = object.link(Shard(shard)).expect("linked");
        let path = layout.epoch(link.epoch);
        let object = ObjectReader::open(store, &path, Some(link.footer)).expect("there");
        object.section(Shard(shard)).expect("whole").expect("has one").watermark
    };
    (0..4).map(of).collect()
}

/// Row 37: what the broker refuses for good does not become an abort loop.
#[test]
fn an_output_that_the_broker_refuses_stops_the_job_after_a_few_tries() {
    let mut driver = with("fail");
    driver.start().expect("starts");
    let process = driver.process().expect("runs").clone();
    (1..=4).for_each(|k| process.fault(Call::Send, k, Fault::Fail(LogErrorKind::OutputRefused)));
    pipe(&driver, [record("k", "a")]);
    assert_cannot_go_on(driver.barrier(), &["refused", "nothing of the epoch was committed"]);
    assert_eq!(process.calls(Call::Send), 4);
    assert!(driver.broker().records("out").is_empty());
    driver.restart().expect("starts");
    driver.barrier().expect("an epoch");
    assert_eq!(texts(&driver.outputs("out")), ["k=a"]);
}

/// A clock that was wrong refused every record, and the message had a number of milliseconds only: nobody saw that the record was right.
#[test]
fn a_refused_timestamp_is_named_with_its_place_in_words_and_with_the_way_out() {
    let mut driver = with("fail");
    driver.start().expect("starts");
    // 2026-07-01, half a year after the driver's clock.
    let bad = record("k", "x").at(1_782_864_000_123);
    let (partition, offset) = driver.broker().produce("in", bad).expect("taken");
    let place = format!("in-{partition} offset {offset}");
    let words = [
        place.as_str(),
        "1782864000123",
        "2026-07-01T00:00:00.123Z",
        "max_future = 3000 s",
        "2026-01-01T",
        "if the clock is behind, set it right",
        "skip or dead letter",
    ];
    assert_cannot_go_on(driver.barrier(), &words);
    let mut driver = with("fail");
    driver.start().expect("starts");
    pipe(&driver, [record("k", "x").at(-7)]);
    assert_cannot_go_on(driver.barrier(), &["timestamp -7 is negative", "none is -1"]);
}

/// A panic of a user's function ends the run with its message, and the run ends at all.
#[test]
fn a_panic_in_a_users_function_ends_the_run() {
    let mut driver = driver(|broker| {
        let job = Job::new("panics");
        job.source("items", broker.source("in"), |_| Ok(()))
            .map("boom", |()| -> String { panic!("as told") })
            .to("sink", broker.target("out"), Utf8);
        job.build()
    });
    driver.start().expect("starts");
    pipe(&driver, [record("k", "a")]);
    assert_cannot_go_on(driver.barrier(), &["panicked", "as told"]);
}
