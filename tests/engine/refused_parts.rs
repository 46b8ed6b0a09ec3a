//! What a refusal takes with it, and what it leaves alone (EP-8).
use crate::support::{driver, record, texts};
use keyfold::operator::process::ProcessError;
use keyfold::operator::{KeyedProcess, ProcessContext, StateScope, ValueState};
use keyfold::runtime::ExitCode;
use keyfold::sink::{OutboxSink, SinkError};
use keyfold::source::{Flow, RecordSink, Source, SourceError, SourceReader};
use keyfold::testing::{DriverError, MemoryBroker, TestDriver, TestRecord};
use keyfold::topology::{BadRecords, Job, SourceOptions, Stream, Topology, TopologyError};
use keyfold::types::codec::{LongBe, Utf8};
use keyfold::types::output::{HEADER_KEY_MAX, decode_headers};
use keyfold::types::{Header, OutputRef, Position, RecordRef, Sequence, Shard, TopicInfo};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const DAY_MS: i64 = 86_400_000;

/// Texts from `in`; `build` adds what follows, with dead letters on `letters` or, without them, the policy `fail`.
fn job(letters: bool, build: impl Fn(&Stream<String>, &MemoryBroker) + 'static) -> TestDriver {
    let driver = driver(move |broker: &MemoryBroker| {
        let job = Job::new("parts");
        let bad_records = match letters {
            true => BadRecords::DeadLetter(job.dead_letters("letters", broker.target("letters"))),
            false => BadRecords::Fail,
        };
        build(&lines(&job, broker, bad_records), broker);
        job.build()
    });
    driver.broker().create_topic("letters", 1);
    driver.broker().create_topic("other", 1);
    driver
}

fn lines(job: &Job, broker: &MemoryBroker, bad_records: BadRecords) -> Stream<String> {
    let options = SourceOptions::bad_records(bad_records);
    job.source_with("lines", broker.source("in"), options, |r| {
        Ok(String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned())
    })
}

fn run(driver: &mut TestDriver, records: Vec<TestRecord>) {
    driver.start().expect("starts");
    for record in records {
        driver.pipe("in", record).expect("taken");
    }
    driver.barrier().expect("an epoch");
}

/// `step reason` of each dead letter.
fn reasons(driver: &mut TestDriver) -> Vec<String> {
    let header = |r: &TestRecord, name: &str| r.header(&format!("keyfold.{name}")).unwrap_or_default();
    let letters = driver.outputs("letters");
    let reason = |r: &TestRecord| format!("{} {}", header(r, "step"), header(r, "reason"));
    letters.iter().map(reason).collect()
}

fn ended(result: Result<(), DriverError>) -> String {
    match result {
        Err(DriverError::Ended(error)) => {
            assert_eq!(error.exit_code(), ExitCode::CannotGoOn, "{error}");
            error.to_string()
        }
        other => panic!("the run should have ended with an error: {other:?}"),
    }
}

fn branches(lines: &Stream<String>, broker: &MemoryBroker) {
    let words = lines.flat_map("words", |line: String, out: &mut dyn FnMut(String)| {
        line.split(' ').for_each(|w| out(w.to_owned()));
    });
    words
        .try_map("strict", |word| match word.as_str() {
            "bad" => Err("told to".to_owned()),
            _ => Ok(word),
        })
        .to("first", broker.target("out"), Utf8);
    words.to("second", broker.target("other"), Utf8);
}

/// A word that one branch refused was gone from the other branch too, and so were the words after it: lost, while the record counted as
/// one bad record.
#[test]
fn ep_8_a_refusal_concerns_one_item_in_one_branch() {
    let mut driver = job(true, branches);
    run(&mut driver, vec![record("k", "a bad b bad c")]);
    assert_eq!(texts(&driver.outputs("out")), ["k=a", "k=b", "k=c"]);
    assert_eq!(texts(&driver.outputs("other")), ["k=a", "k=bad", "k=b", "k=bad", "k=c"]);
    assert_eq!(reasons(&mut driver), ["strict user", "strict user"]);
    let mut driver = job(false, branches);
    driver.start().expect("starts");
    driver.pipe("in", record("k", "a bad b")).expect("taken");
    let message = ended(driver.barrier());
    assert!(message.contains("step strict: user: told to"), "{message}");
    assert!(driver.broker().records("other").is_empty());
}

/// Counts the records of a key, `clear` them, refuse after a change, or emit with a timestamp.
struct Emits {
    count: ValueState<i64>,
}

impl KeyedProcess<String, String> for Emits {
    fn process(&mut self, item: String, context: &mut ProcessContext<'_, String>) -> Result<(), ProcessError> {
        let count = self.count.get()?.unwrap_or(0) + 1;
        match item.as_str() {
            "refuse" => {
                self.count.clear()?;
                context.emit("never seen".to_owned());
                Err("told to".to_owned())?;
            }
            _ => self.count.set(count)?,
        }
        context.emit(format!("{item}{count}"));
        if item == "late" {
            context.emit_at("beyond".to_owned(), i64::MAX);
            context.emit_at("before".to_owned(), -2);
            context.emit_at("none".to_owned(), -1);
        }
        context.emit("after".to_owned());
        Ok(())
    }
}

fn emits(lines: &Stream<String>, broker: &MemoryBroker) {
    lines
        .key_by_record_key("key")
        .process("emits", |states: &mut StateScope| Emits {
            count: states.value("count", LongBe),
        })
        .fold("joined", Utf8, String::new, |all, item| {
            all.push_str(&item);
            all.push(' ');
        })
        .to("sink", broker.target("out"), Utf8);
}

/// An item that was emitted with a timestamp from the far future went into the state of the aggregate behind, which keeps the largest one:
/// the broker refused every output of the key from then on, and the job stopped for good.
#[test]
fn ep_8_an_emission_with_a_bad_timestamp_is_refused_before_it_touches_state_and_the_others_go_on() {
    let mut driver = job(true, emits);
    let latest = 1_767_225_600_000 + DAY_MS;
    driver.broker().refuse_timestamps_after(latest);
    run(
        &mut driver,
        vec![
            record("k", "a").at(5),
            record("k", "late").at(6),
            record("k", "z").at(7),
        ],
    );
    let outputs = driver.outputs("out");
    let last = outputs.last().expect("an output");
    assert_eq!(last.value_text(), "a1 after late2 none after z3 after ");
    assert_eq!(last.timestamp, 7);
    assert_eq!(reasons(&mut driver), ["emits timestamp", "emits timestamp"]);
}

/// What a call did before it refused its record is undone, `clear` too.
#[test]
fn a_refused_record_leaves_state_as_it_was_and_emits_nothing() {
    let mut driver = job(true, emits);
    run(
        &mut driver,
        vec![
            record("k", "a").at(50),
            record("k", "refuse").at(90),
            record("k", "b").at(40),
        ],
    );
    let outputs = driver.outputs("out");
    let last = outputs.last().expect("an output");
    assert_eq!(last.value_text(), "a1 after b2 after ");
    assert_eq!(last.timestamp, 50, "that of the refused record is not the largest");
    assert_eq!(reasons(&mut driver), ["emits user"]);
}

fn odd_outputs(lines: &Stream<String>, broker: &MemoryBroker) {
    lines
        .key_by_record_key("key")
        .fold("joined", Utf8, String::new, |all, item| all.push_str(&item))
        .to_with("sink", broker.target("out"), |all: &String, _, out| {
            out.value = Some(all.clone().into_bytes());
            match all.as_str() {
                "a" => out.timestamp = i64::MAX,
                "ab" => out.timestamp = -2,
                "abc" => out.headers.push(Header {
                    key: "\u{20ac}".repeat(HEADER_KEY_MAX / 3 + 1),
                    value: None,
                }),
                _ => out.timestamp = -1,
            }
            Ok(())
        });
}

/// Outputs that no log takes, or that could not be read back, stopped the job for ever at the publisher, without a word about the record:
/// now they are refused when they are made. The records have been taken all the same, so the state has them.
#[test]
fn ep_8_an_output_that_is_refused_behind_an_aggregate_leaves_the_state_as_folded() {
    let mut driver = job(true, odd_outputs);
    driver.broker().refuse_timestamps_after(1_767_225_600_000 + DAY_MS);
    run(&mut driver, ["a", "b", "c", "d"].map(|v| record("k", v)).to_vec());
    assert_eq!(texts(&driver.outputs("out")), ["k=abcd"]);
    assert_eq!(
        reasons(&mut driver),
        ["sink timestamp", "sink timestamp", "sink encode"]
    );
    let mut driver = job(false, odd_outputs);
    driver.start().expect("starts");
    driver.pipe("in", record("k", "a")).expect("taken");
    let message = ended(driver.barrier());
    assert!(message.contains("offset 0: step sink: timestamp"), "{message}");
}

/// A dead letter with a header that cannot be written was cut inside a character, and stopped the job that it should have kept going.
#[test]
fn the_headers_of_a_dead_letter_are_cut_at_a_character() {
    let mut driver = job(true, |lines, broker| {
        lines
            .try_map("refuses", |_: String| Err::<String, _>("told to".to_owned()))
            .to("sink", broker.target("out"), Utf8);
    });
    let long = format!("x{}", "\u{20ac}".repeat(30_000));
    let bad = record("k", "v")
        .with_header("h", "1")
        .with_header(&long, "2")
        .with_header("keyfold.note", "x");
    run(&mut driver, vec![bad]);
    let letters = driver.outputs("letters");
    assert_eq!(texts(&letters), ["k=v"]);
    let keys: Vec<&str> = letters[0].headers.iter().map(|h| h.key.as_str()).collect();
    assert_eq!((keys[0], keys[2], keys[3]), ("h", "keyfold.note", "keyfold.topic"));
    assert!(long.starts_with(keys[1]) && (HEADER_KEY_MAX - 2..=HEADER_KEY_MAX).contains(&keys[1].len()));
}

/// Hands out a partition under another number.
struct Renumbering<S>(S);

impl Source for Renumbering<Box<dyn Source>> {
    fn describe(&self) -> String {
        self.0.describe()
    }
    fn topic(&self) -> String {
        self.0.topic()
    }
    fn topic_info(&mut self) -> Result<TopicInfo, SourceError> {
        self.0.topic_info()
    }
    fn start_positions(&mut self) -> Result<Vec<Position>, SourceError> {
        self.0.start_positions()
    }
    fn open(&mut self, lanes: &[Vec<Position>]) -> Result<Vec<Box<dyn SourceReader>>, SourceError> {
        let readers = self.0.open(lanes)?.into_iter();
        Ok(readers
            .map(|r| Box::new(Renumbering(r)) as Box<dyn SourceReader>)
            .collect())
    }
    fn close(&mut self) {
        self.0.close();
    }
}

impl SourceReader for Renumbering<Box<dyn SourceReader>> {
    fn poll(&mut self, max_wait: Duration, out: &mut dyn RecordSink) -> Result<(), SourceError> {
        self.0.poll(max_wait, &mut Renumbering(out))
    }
}

impl RecordSink for Renumbering<&mut dyn RecordSink> {
    fn record(&mut self, record: &RecordRef<'_>) -> Flow {
        let partition = if record.value == Some(b"stray") {
            17
        } else {
            record.partition
        };
        // It does not stop when it is told to, either.
        self.0.record(&RecordRef { partition, ..*record });
        Flow::Continue
    }
    fn end_of_partition(&mut self, topic: &str, partition: i32, offset: i64, leader_epoch: i32) {
        self.0.end_of_partition(topic, partition, offset, leader_epoch);
    }
}

/// A record of a partition that is not the lane's own was dropped without a word, and the offsets moved on past it.
#[test]
fn a_record_of_a_partition_that_the_lane_does_not_own_ends_it() {
    let mut driver = driver(|broker: &MemoryBroker| {
        let job = Job::new("stray");
        let inner: Box<dyn Source> = broker.source("in");
        let source = Box::new(Renumbering(inner));
        let text = |r: &RecordRef<'_>| Ok(String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned());
        job.source("lines", source, text).to("sink", broker.target("out"), Utf8);
        job.build()
    });
    driver.start().expect("starts");
    for value in ["a", "stray", "b"] {
        driver.pipe("in", record("k", value)).expect("taken");
    }
    let message = ended(driver.barrier());
    assert!(
        message.contains("source lines: its reader handed out partition 17 offset 1"),
        "{message}"
    );
    assert!(driver.broker().records("out").is_empty());
}

/// Keeps what was delivered: key, value, headers.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<TestRecord>>>);

impl OutboxSink for Kept {
    fn describe(&self) -> String {
        "kept".to_owned()
    }
    fn open(&mut self, _owner: &str) -> Result<(), SinkError> {
        Ok(())
    }
    fn deliver(
        &mut self,
        _shard: Shard,
        _sequence: Sequence,
        outputs: &mut dyn Iterator<Item = OutputRef<'_>>,
    ) -> Result<(), SinkError> {
        let mut kept = self.0.lock().expect("no panic");
        for out in outputs {
            let mut record = TestRecord::new(out.key.unwrap_or_default(), out.value.unwrap_or_default());
            record.headers = decode_headers(out.headers).expect("headers");
            kept.push(record);
        }
        Ok(())
    }
}

/// Dead letters went to topics only: a job without Kafka had to stop at a bad record, or lose it.
#[test]
fn dead_letters_go_to_sinks_that_are_no_log_too() {
    let kept = Kept::default();
    let sink = kept.clone();
    let mut driver = driver(move |broker: &MemoryBroker| -> Result<Topology, TopologyError> {
        let job = Job::new("letters");
        let letters = job.dead_letters("letters", sink.clone());
        lines(&job, broker, BadRecords::DeadLetter(letters))
            .try_map("strict", |line| {
                if line == "bad" {
                    Err("told to".to_owned())
                } else {
                    Ok(line)
                }
            })
            .to("sink", broker.target("out"), Utf8);
        job.build()
    });
    run(&mut driver, ["a", "bad", "b"].map(|v| record("k", v)).to_vec());
    assert_eq!(texts(&driver.outputs("out")), ["k=a", "k=b"]);
    let letters = kept.0.lock().expect("no panic").clone();
    assert_eq!(texts(&letters), ["k=bad"]);
    assert_eq!(letters[0].header("keyfold.step").as_deref(), Some("strict"));
    assert_eq!(letters[0].header("keyfold.offset").as_deref(), Some("1"));
}

/// After `unkeyed` the record's own key is gone: `key_by_record_key` takes the key bytes of the keyed stream, as its documentation says.
#[test]
fn key_by_record_key_after_unkeyed_takes_the_key_of_the_keyed_stream() {
    let mut driver = job(false, |lines, broker| {
        lines
            .key_by("value", Utf8, |line| line.clone())
            .unkeyed()
            .key_by_record_key("again")
            .fold("joined", Utf8, String::new, |all, item| all.push_str(&item))
            .to("sink", broker.target("out"), Utf8);
    });
    run(&mut driver, vec![record("x", "v"), record("y", "v")]);
    assert_eq!(texts(&driver.outputs("out")), ["v=v", "v=vv"]);
}
