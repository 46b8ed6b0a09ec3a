//! Every operator, through the driver.
use crate::support::{driver, pipe, record, sorted, sums, texts};
use keyfold::operator::{KeyedProcess, ProcessContext, ProcessError, ValueState};
use keyfold::testing::{TestDriver, TestRecord};
use keyfold::topology::{BadRecords, Job, SourceOptions};
use keyfold::types::codec::{LongBe, Postcard, Raw, Utf8};
use keyfold::types::{Header, RecordRef};

fn text(r: &RecordRef<'_>) -> Result<String, String> {
    Ok(String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned())
}

/// Starts, pipes in, cuts an epoch.
fn run(driver: &mut TestDriver, records: impl IntoIterator<Item = TestRecord>) -> Vec<TestRecord> {
    driver.start().expect("starts");
    pipe(driver, records);
    driver.barrier().expect("an epoch");
    driver.outputs("out")
}

#[test]
fn a_fold_emits_its_value_after_every_record_and_goes_on_after_a_restart() {
    let mut driver = driver(sums);
    let outputs = run(&mut driver, [1, 2, 3].map(|v| record("a", v)));
    assert_eq!(texts(&outputs), ["a=1", "a=3", "a=6"]);
    pipe(&driver, [record("a", 10)]);
    driver.stop().expect("ends well");
    let outputs = run(&mut driver, [record("a", 10)]);
    assert_eq!(texts(&outputs), ["a=16", "a=26"]);
    let state = driver.state("totals", "value", &LongBe).expect("state");
    assert_eq!(
        state.into_iter().collect::<Vec<(Vec<u8>, i64)>>(),
        [(b"a".to_vec(), 26)]
    );
}

#[test]
fn map_filter_and_flat_map_keep_key_and_order() {
    let mut driver = driver(|broker| {
        let job = Job::new("stateless");
        job.source("words", broker.source("in"), text)
            .flat_map("split", |line, out| line.split(' ').for_each(|w| out(w.to_owned())))
            .filter("short", |word| word.len() < 4)
            .map("upper", |word| word.to_uppercase())
            .to("sink", broker.target("out"), Utf8);
        job.build()
    });
    let outputs = run(&mut driver, [record("k", "a bc defg hi"), record("k", "longer")]);
    assert_eq!(texts(&outputs), ["k=A", "k=BC", "k=HI"]);
}

#[test]
fn reduce_count_and_keyed_map_and_filter() {
    let mut driver = driver(|broker| {
        let job = Job::new("aggregates");
        let keyed = job
            .source("values", broker.source("in"), |r| {
                text(r)?.parse::<i64>().map_err(|e| e.to_string())
            })
            .key_by_record_key("by-key");
        keyed
            .reduce("largest", LongBe, i64::max)
            .map("m", |n| format!("max {n}"))
            .to("max-sink", broker.target("out"), Utf8);
        keyed
            .count("counts")
            .filter("odd", |n| n % 2 == 1)
            .map("c", |n| format!("count {n}"))
            .to("count-sink", broker.target("out"), Utf8);
        job.build()
    });
    let outputs = run(&mut driver, [5, 3, 9].map(|v| record("a", v)));
    let expected = ["a=max 5", "a=count 1", "a=max 5", "a=max 9", "a=count 3"];
    assert_eq!(texts(&outputs), expected);
}

#[test]
fn a_try_fold_that_refuses_leaves_the_value_as_it_was() {
    let mut driver = driver(|broker| {
        let job = Job::new("refusing");
        let options = SourceOptions::bad_records(BadRecords::Skip);
        job.source_with("values", broker.source("in"), options, |r| {
            text(r)?.parse::<i64>().map_err(|e| e.to_string())
        })
        .key_by_record_key("by-key")
        .try_fold(
            "account",
            LongBe,
            || 0i64,
            |balance, value| {
                *balance += value;
                if *balance < 0 {
                    Err("overdrawn".to_owned())
                } else {
                    Ok(())
                }
            },
        )
        .map("text", |n| n.to_string())
        .to("sink", broker.target("out"), Utf8);
        job.build()
    });
    let outputs = run(&mut driver, [5, -9, 2].map(|v| record("a", v)));
    assert_eq!(texts(&outputs), ["a=5", "a=7"]);
    assert_eq!(driver.metrics().expect("runs").bad_records("user"), 1);
}

#[test]
fn streams_are_merged_and_branched() {
    let mut driver = driver(|broker| {
        broker.create_topic("more", 2);
        let job = Job::new("merged");
        let left = job.source("left", broker.source("in"), text);
        let right = job.source("right", broker.source("more"), text);
        let both = left.map("l", |t| format!("l{t}")).merge("both", &right);
        both.to("all", broker.target("out"), Utf8);
        both.key_by_record_key("by-key")
            .count("n")
            .map("t", |n| format!("n{n}"))
            .to("counts", broker.target("out"), Utf8);
        job.build()
    });
    driver.start().expect("starts");
    pipe(&driver, [record("a", 1)]);
    driver.pipe("more", record("a", 2)).expect("taken");
    driver.barrier().expect("an epoch");
    let mut outputs = texts(&driver.outputs("out"));
    outputs.sort();
    assert_eq!(outputs, ["a=2", "a=l1", "a=n1", "a=n2"]);
}

/// Two exchanges: totals per order id, and of these the count per customer.
#[test]
fn a_job_that_keys_twice_is_exact_over_crashes() {
    let mut driver = driver(|broker| {
        let job = Job::new("twice");
        job.source("orders", broker.source("in"), text)
            .key_by("by-word", Utf8, |w| w.clone())
            .count("words")
            .map("mod", |n| (n % 3).to_string())
            .unkeyed()
            .key_by("by-rest", Utf8, |rest| rest.clone())
            .count("rests")
            .map("text", |n| n.to_string())
            .to("sink", broker.target("out"), Utf8);
        job.build()
    });
    driver.start().expect("starts");
    for point in ["barrier_aligned", "post_manifest", "post_send_offsets", "post_commit"] {
        let records = (0..30).map(|i| record(&i.to_string(), format!("w{}", i % 7)));
        pipe(&driver, records);
        driver.crash_at(point).expect("runs");
        assert!(driver.barrier().is_err());
        driver.restart().expect("starts");
        driver.barrier().expect("an epoch");
    }
    // 120 words; 0..7 in turn, so that counts per rest are known: each word's counts run 1..=n.
    let mut rests = [0u64; 3];
    for word in 0..7 {
        let n = 4 * (0..30).filter(|i| i % 7 == word).count() as u64;
        (1..=n).for_each(|c| rests[(c % 3) as usize] += 1);
    }
    let mut found: [Vec<u64>; 3] = Default::default();
    for r in driver.outputs("out") {
        let rest: usize = r.key_text().parse().expect("a digit");
        found[rest].push(r.value_text().parse().expect("a count"));
    }
    for (rest, n) in rests.iter().enumerate() {
        assert_eq!(found[rest], (1..=*n).collect::<Vec<_>>(), "rest {rest}");
    }
}

struct Dedup {
    last: ValueState<String>,
    seen: ValueState<u64>,
}

impl KeyedProcess<String, String> for Dedup {
    fn process(&mut self, item: String, context: &mut ProcessContext<'_, String>) -> Result<(), ProcessError> {
        let seen = self.seen.update(|n| {
            *n = Some(n.unwrap_or(0) + 1);
            n.unwrap_or(0)
        })?;
        let last = self.last.get()?;
        self.last.set(item.clone())?;
        match item.as_str() {
            "bad" => {
                context.emit("never".to_owned());
                return Err("bad".into());
            }
            "clear" => {
                self.last.clear()?;
                self.seen.clear()?;
            }
            _ if last.as_deref() == Some(item.as_str()) => {}
            _ => {
                let origin = context.origin();
                let headers: Vec<String> = context.headers().iter().map(|h| h.key.clone()).collect();
                context.emit(format!(
                    "{item}#{seen} {}-{}@{} t{} {}",
                    context.topic(),
                    origin.partition,
                    origin.offset,
                    context.timestamp(),
                    headers.join("+")
                ));
            }
        }
        Ok(())
    }
}

#[test]
fn a_process_operator_sees_provenance_and_its_changes_are_undone_when_it_refuses() {
    let mut driver = driver(|broker| {
        let job = Job::new("process");
        job.source_with(
            "items",
            broker.source("in"),
            SourceOptions::bad_records(BadRecords::Skip),
            text,
        )
        .key_by_record_key("by-key")
        .process("dedup", |scope| Dedup {
            last: scope.value("last", Utf8),
            seen: scope.value("seen", Postcard::<u64>::new(1)),
        })
        .to("sink", broker.target("out"), Utf8);
        job.build()
    });
    driver.start().expect("starts");
    let header = |r: TestRecord| r.with_header("h1", "x").with_header("h1", "y");
    let records = ["x", "x", "bad", "x", "y"].into_iter().zip(1..);
    pipe(
        &driver,
        records.map(|(v, t)| TestRecord {
            partition: 3,
            ..header(record("k", v)).at(t)
        }),
    );
    driver.barrier().expect("an epoch");
    let outputs = texts(&driver.outputs("out"));
    assert_eq!(outputs, ["k=x#1 in-3@0 t1 h1+h1", "k=y#4 in-3@4 t5 h1+h1"]);
    driver.restart().expect("starts");
    pipe(&driver, [record("k", "y"), record("k", "clear"), record("k", "y")]);
    driver.barrier().expect("an epoch");
    let outputs = texts(&driver.outputs("out"));
    assert_eq!(outputs.len(), 1, "{outputs:?}");
    assert!(outputs[0].starts_with("k=y#1 "), "{outputs:?}");
}

#[test]
fn a_sink_writes_headers_tombstones_partitions_and_timestamps() {
    let mut driver = driver(|broker| {
        broker.create_topic("wide", 3);
        let job = Job::new("sinks");
        job.source("items", broker.source("in"), text)
            .to_with("sink", broker.target("wide"), |item, meta, out| {
                out.headers = meta.headers.to_vec();
                out.headers.push(Header {
                    key: "null".to_owned(),
                    value: None,
                });
                out.partition = Some(2);
                if item == "gone" {
                    out.value = None;
                } else {
                    out.value = Some(item.clone().into_bytes());
                }
                Ok(())
            });
        job.build()
    });
    driver.start().expect("starts");
    pipe(
        &driver,
        [
            record("k", "v").with_header("a", "1").at(77),
            record("k", "gone").at(-1),
        ],
    );
    driver.barrier().expect("an epoch");
    let outputs = driver.outputs("wide");
    assert_eq!(outputs.len(), 2);
    assert_eq!(
        (outputs[0].partition, outputs[0].timestamp, outputs[0].value_text()),
        (2, 77, "v".to_owned())
    );
    assert_eq!(outputs[0].header("a").as_deref(), Some("1"));
    assert_eq!(outputs[0].headers[1].value, None);
    assert_eq!((outputs[1].value.clone(), outputs[1].timestamp), (None, -1));
}

/// Row 35: tombstones, empty values, duplicate headers; and a fold takes a tombstone for what it is.
#[test]
fn tombstones_and_empty_values_are_told_apart() {
    let mut driver = driver(|broker| {
        let job = Job::new("tombstones");
        job.source("items", broker.source("in"), |r| Ok(r.value.map(<[u8]>::to_vec)))
            .key_by_record_key("by-key")
            .fold("log", Raw, Vec::new, |log: &mut Vec<u8>, value| match value {
                None => log.push(b'-'),
                Some(v) if v.is_empty() => log.push(b'0'),
                Some(v) => log.extend_from_slice(&v),
            })
            .to("sink", broker.target("out"), Raw);
        job.build()
    });
    let records = [record("k", "a"), record("k", ""), record("k", "b").tombstone()];
    assert_eq!(texts(&run(&mut driver, records)), ["k=a", "k=a0", "k=a0-"]);
}

/// A tombstone deletes: the key's value is gone, from the local copies and after a restore too, and what comes next begins anew.
#[test]
fn a_tombstone_deletes_what_was_reduced() {
    let mut driver = driver(|broker| {
        let job = Job::new("latest");
        job.source("items", broker.source("in"), |r| Ok(r.value.map(<[u8]>::to_vec)))
            .key_by_record_key("by-key")
            .reduce_or_delete("latest", Raw, |old, new| [old, new].concat())
            .to_with("sink", broker.target("out"), |latest, _, output| {
                output.value.clone_from(latest);
                Ok(())
            });
        job.build()
    });
    let records = [
        record("k", "a"),
        record("k", "b"),
        record("k", "").tombstone(),
        record("l", "c"),
    ];
    let outputs = run(&mut driver, records);
    let values = |outputs: &[TestRecord]| {
        let of = |r: &TestRecord| (r.key_text(), r.value.clone().map(String::from_utf8));
        let mut all: Vec<_> = outputs.iter().map(of).collect();
        all.sort_by_key(|(key, _)| key.clone());
        all
    };
    let some = |key: &str, value: &str| (key.to_owned(), Some(Ok(value.to_owned())));
    let none = ("k".to_owned(), None);
    assert_eq!(
        values(&outputs),
        [some("k", "a"), some("k", "ab"), none.clone(), some("l", "c")]
    );
    for lost in [false, true] {
        let state = driver.state("latest", "value", &Raw).expect("read");
        assert_eq!(
            state.keys().collect::<Vec<_>>(),
            [b"l"],
            "deleted, and not kept as empty"
        );
        driver.kill();
        if lost {
            driver.lose_copies();
        }
        driver.restart().expect("starts");
        pipe(
            &driver,
            [
                record("k", "d"),
                record("k", "").tombstone(),
                record("k", "").tombstone(),
            ],
        );
        driver.barrier().expect("an epoch");
        let outputs = driver.outputs("out");
        assert_eq!(values(&outputs), [some("k", "d"), none.clone(), none.clone()]);
    }
}

#[test]
fn an_aggregates_output_carries_the_largest_timestamp_that_its_key_has_seen() {
    let mut driver = driver(sums);
    let records = [5, 3, 9, 1].map(|t| record("a", 1).at(t));
    let outputs = run(&mut driver, records);
    assert_eq!(outputs.iter().map(|r| r.timestamp).collect::<Vec<_>>(), [5, 5, 9, 9]);
    driver.restart().expect("starts");
    pipe(&driver, [record("a", 1).at(4), record("b", 1).at(2)]);
    driver.barrier().expect("an epoch");
    let mut outputs = driver.outputs("out");
    outputs.sort_by_key(TestRecord::key_text);
    assert_eq!(outputs.iter().map(|r| r.timestamp).collect::<Vec<_>>(), [9, 2]);
}

/// Rows 45 and 47: markers and aborted records take offsets, also at the end.
#[test]
fn gaps_in_the_offsets_do_not_hold_anything_up() {
    let mut driver = driver(sums);
    driver.start().expect("starts");
    for value in 0..5 {
        (0..4).for_each(|p| driver.broker().add_gap("in", p));
        pipe(&driver, [record("a", value), record("b", value)]);
        (0..4).for_each(|p| driver.broker().add_gap("in", p));
        driver.barrier().expect("an epoch");
    }
    let committed = driver.broker().offsets(crate::support::SUMS);
    assert!(
        committed.iter().all(|c| c.offset >= Some(10)),
        "the end of a partition of markers: {committed:?}"
    );
    driver.restart().expect("starts");
    driver.barrier().expect("an epoch");
    let expected = ["a=0", "a=1", "a=3", "a=6", "a=10", "b=0", "b=1", "b=3", "b=6", "b=10"];
    assert_eq!(sorted(&driver.outputs("out")), expected);
}
