//! Bad-record policies of steps, beside those of sources (EP-8).
use crate::support::{assert_cannot_go_on, driver, pipe, record, texts};
use keyfold::operator::process::ProcessError;
use keyfold::operator::{BadReason, KeyedProcess, ProcessContext, Refused};
use keyfold::testing::{MemoryBroker, TestDriver, TestRecord};
use keyfold::topology::{BadRecords, Job, SourceOptions, Stream, Topology, TopologyError};
use keyfold::types::codec::{LongBe, Utf8};

/// Says "no" to one text.
fn unless(bad: &'static str) -> impl Fn(String) -> Result<String, String> {
    move |text| {
        if text == bad {
            Err(format!("{bad:?} is told to be refused"))
        } else {
            Ok(text)
        }
    }
}

fn lines(job: &Job, broker: &MemoryBroker, id: &str, topic: &str, of_source: BadRecords) -> Stream<String> {
    let options = SourceOptions::bad_records(of_source);
    job.source_with(id, broker.source(topic), options, |r| {
        String::from_utf8(r.value.unwrap_or_default().to_vec()).map_err(|e| e.to_string())
    })
}

/// A policy, of what dead letters are.
type Policy = fn(&BadRecords) -> BadRecords;

/// `lines`, then `parse` on the source's lanes, then `keyed` behind an exchange by value, then `sink`, which takes 16 bytes; each refuses
/// something. `policies` gets what the letters are.
fn chain(of_source: Policy, policies: &'static [(&'static str, Policy)]) -> TestDriver {
    let driver = driver(move |broker: &MemoryBroker| -> Result<Topology, TopologyError> {
        let job = Job::new("steps");
        let letters = BadRecords::DeadLetter(job.dead_letters("letters", broker.target("letters")));
        for (step, policy) in policies {
            job.on_bad_records(step, policy(&letters));
        }
        lines(&job, broker, "lines", "in", of_source(&letters))
            .try_map("parse", unless("parse"))
            .key_by("by-value", Utf8, |_| "one-key".to_owned())
            .try_map("keyed", unless("keyed"))
            .to("sink", broker.target("out"), Utf8);
        job.build()
    });
    driver.broker().create_topic("letters", 1);
    driver.broker().set_max_bytes("out", 16);
    driver
}

const FAIL: Policy = |_| BadRecords::Fail;
const SKIP: Policy = |_| BadRecords::Skip;
const LETTERS: Policy = BadRecords::clone;
const LARGE: &str = "more than sixteen bytes";

/// One record for each step to refuse, and two good ones.
fn records() -> Vec<TestRecord> {
    let bytes = TestRecord {
        value: Some(vec![0xff]),
        ..record("k", "")
    };
    let mut records = ["a", "parse", "keyed", LARGE].map(|v| record("k", v)).to_vec();
    records.extend([bytes, record("k", "b")]);
    records.iter_mut().for_each(|r| r.partition = 0);
    records
}

/// `step reason key value` of each dead letter, sorted.
fn letters(driver: &mut TestDriver) -> Vec<String> {
    let text = |r: &TestRecord| {
        let header = |name: &str| r.header(&format!("keyfold.{name}")).unwrap_or_default();
        let (step, reason) = (header("step"), header("reason"));
        format!("{step} {reason} {} {}", r.key_text(), r.value_text())
    };
    let mut letters: Vec<String> = driver.outputs("letters").iter().map(text).collect();
    letters.sort();
    letters
}

/// With one policy for a whole source, a step whose refusals are of no interest made dead letters, or a step whose refusals must stop the job
/// could not be told from the others.
#[test]
fn ep_8_a_steps_policy_goes_before_that_of_the_source() {
    let mut driver = chain(
        FAIL,
        &[
            ("lines", SKIP),
            ("parse", LETTERS),
            ("keyed", LETTERS),
            ("sink", LETTERS),
        ],
    );
    driver.start().expect("starts");
    pipe(&driver, records());
    driver.barrier().expect("an epoch");
    assert_eq!(texts(&driver.outputs("out")), ["one-key=a", "one-key=b"]);
    // As they lay on the topic, behind the exchange too, where the key is another.
    let expected = [
        "keyed user k keyed",
        "parse user k parse",
        &format!("sink too_large k {LARGE}"),
    ];
    assert_eq!(letters(&mut driver), expected);
    let metrics = driver.metrics().expect("runs");
    assert_eq!((metrics.bad_records("decode"), metrics.bad_records("user")), (1, 2));
    assert_eq!(metrics.bad_records("too_large"), 1);
}

#[test]
fn ep_8_a_step_that_must_not_refuse_stops_the_job_whatever_the_source_says() {
    for step in ["lines", "parse", "keyed", "sink"] {
        let policies: &'static [_] = match step {
            "lines" => &[("lines", FAIL)],
            "parse" => &[("parse", FAIL)],
            "keyed" => &[("keyed", FAIL)],
            _ => &[("sink", FAIL)],
        };
        let mut driver = chain(LETTERS, policies);
        driver.start().expect("starts");
        pipe(&driver, records());
        let step = format!("step {step}: ");
        assert_cannot_go_on(driver.barrier(), &[&step, "in-0 offset ", "the source's or the step's"]);
        assert!(letters(&mut driver).is_empty(), "nothing of the epoch is committed");
    }
}

#[test]
fn steps_without_a_policy_follow_that_of_the_source() {
    let mut driver = chain(LETTERS, &[("keyed", SKIP)]);
    driver.start().expect("starts");
    pipe(&driver, records());
    driver.barrier().expect("an epoch");
    let found = letters(&mut driver);
    let steps: Vec<&str> = found.iter().filter_map(|l| l.split(' ').next()).collect();
    assert_eq!(steps, ["lines", "parse", "sink"]);
}

/// Every source and every step had a sink of its own, of which each had a producer's buffer and an id.
#[test]
fn one_sink_takes_the_dead_letters_of_many() {
    let build = |broker: &MemoryBroker| {
        broker.create_topic("more", 4);
        let job = Job::new("shared");
        let letters = BadRecords::DeadLetter(job.dead_letters("letters", broker.target("letters")));
        job.on_bad_records("strict", letters.clone());
        let left = lines(&job, broker, "left", "in", letters.clone());
        let right = lines(&job, broker, "right", "more", letters);
        left.merge("both", &right)
            .try_map("strict", unless("bad"))
            .to("sink", broker.target("out"), Utf8);
        job.build()
    };
    let mut driver = driver(build);
    driver.broker().create_topic("letters", 1);
    driver.start().expect("starts");
    pipe(&driver, [record("l", "bad"), record("l", "good")]);
    let bytes = TestRecord {
        value: Some(vec![0xff]),
        ..record("r", "")
    };
    driver.pipe("more", bytes).expect("taken");
    driver.barrier().expect("an epoch");
    assert_eq!(texts(&driver.outputs("out")), ["l=good"]);
    assert_eq!(letters(&mut driver), ["right decode r \u{fffd}", "strict user l bad"]);
    let topology = build(driver.broker()).expect("builds");
    let sinks: Vec<&str> = topology.sinks.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(sinks, ["letters", "sink"]);
}

/// A record's key and value are copied over an exchange only for dead letters that can be made behind it.
#[test]
fn originals_come_along_only_where_a_dead_letter_may_need_them() {
    let kept = |of_source, steps: &[&str]| {
        let broker = MemoryBroker::default();
        broker.create_topic("in", 1);
        broker.create_topic("letters", 1);
        let job = Job::new("job");
        let letters = BadRecords::DeadLetter(job.dead_letters("letters", broker.target("letters")));
        let of_source = if of_source { letters.clone() } else { BadRecords::Fail };
        steps.iter().for_each(|step| job.on_bad_records(step, letters.clone()));
        let lines = lines(&job, &broker, "lines", "in", of_source);
        lines.to("copy", broker.target("out"), Utf8);
        lines
            .try_map("parse", unless("x"))
            .key_by_record_key("by-key")
            .count("count")
            .to("sink", broker.target("out"), LongBe);
        job.build().expect("builds").source_infos()[0].keep_originals
    };
    assert!(kept(true, &[]) && kept(false, &["count"]) && kept(false, &["sink"]));
    assert!(!kept(false, &[]) && !kept(false, &["lines", "parse", "by-key", "copy"]));
}

#[test]
fn policies_for_steps_that_are_not_there_are_refused_with_the_nearest_id() {
    let build = |of: &dyn Fn(&Job, &MemoryBroker)| {
        let broker = MemoryBroker::default();
        broker.create_topic("in", 1);
        let job = Job::new("job");
        of(&job, &broker);
        lines(&job, &broker, "lines", "in", BadRecords::Fail)
            .try_map("parse-order", unless("x"))
            .to("sink", broker.target("out"), Utf8);
        job.build().err().expect("refused")
    };
    let error = build(&|job, _| job.on_bad_records("parse-orders", BadRecords::Skip));
    assert!(error.to_string().ends_with("did you mean parse-order?"), "{error}");
    let error = build(&|job, _| job.on_bad_records("zzz", BadRecords::Skip));
    assert!(
        matches!(error, TopologyError::UnknownStep { nearest: None, .. }),
        "{error}"
    );
    // Dead letters are no step: what they cannot take stops the job.
    let error = build(&|job, broker| {
        drop(job.dead_letters("letters", broker.target("letters")));
        job.on_bad_records("letters", BadRecords::Skip);
    });
    assert!(matches!(error, TopologyError::UnknownStep { .. }), "{error}");
    let error = build(&|job, _| {
        job.on_bad_records("sink", BadRecords::Skip);
        job.on_bad_records("sink", BadRecords::Fail);
    });
    assert_eq!(error, TopologyError::DuplicatePolicy("sink".to_owned()));
    let error = build(&|job, broker| {
        let other = Job::new("other").dead_letters("letters", broker.target("letters"));
        job.on_bad_records("sink", BadRecords::DeadLetter(other));
    });
    assert_eq!(error, TopologyError::ForeignDeadLetters("letters".to_owned()));
}

struct Divides;

impl KeyedProcess<i64, i64> for Divides {
    fn process(&mut self, item: i64, context: &mut ProcessContext<'_, i64>) -> Result<(), ProcessError> {
        let quotient = 100i64.checked_div(item).ok_or_else(|| Refused {
            reason: BadReason::DivisionByZero,
            message: "100 / 0".to_owned(),
        })?;
        context.emit(quotient);
        Ok(())
    }
}

/// What a user's function refuses is "user" unless it says which of the known reasons it is.
#[test]
fn a_refusal_may_say_its_reason() {
    let mut driver = driver(|broker: &MemoryBroker| {
        let job = Job::new("reasons");
        let letters = BadRecords::DeadLetter(job.dead_letters("letters", broker.target("letters")));
        let overflow = |message: &str| Refused {
            reason: BadReason::Overflow,
            message: message.to_owned(),
        };
        lines(&job, broker, "lines", "in", letters)
            .try_map("parse", |text| text.parse::<i64>().map_err(|e| e.to_string()))
            .key_by_record_key("by-key")
            .process("divide", |_| Divides)
            .try_fold(
                "total",
                LongBe,
                || i64::MAX - 60,
                move |total, n| {
                    *total = total.checked_add(n).ok_or_else(|| overflow("the total is too large"))?;
                    Ok::<(), Refused>(())
                },
            )
            .to("sink", broker.target("out"), LongBe);
        job.build()
    });
    driver.broker().create_topic("letters", 1);
    driver.start().expect("starts");
    pipe(&driver, ["x", "0", "2", "2"].map(|v| record("k", v)));
    driver.barrier().expect("an epoch");
    assert_eq!(driver.outputs("out").len(), 1);
    let expected = ["divide division_by_zero k 0", "parse user k x", "total overflow k 2"];
    assert_eq!(letters(&mut driver), expected);
    assert_eq!(driver.metrics().expect("runs").bad_records("overflow"), 1);
}
