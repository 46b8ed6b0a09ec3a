//! Streams that are split, keyed by bytes, and aggregated in place.
use crate::support::{driver, pipe, record, sorted, texts};
use keyfold::operator::{BadReason, Refused};
use keyfold::testing::TestRecord;
use keyfold::topology::{BadRecords, Job, SourceOptions};
use keyfold::types::RecordRef;
use keyfold::types::codec::{LongBe, Utf8};

fn number(r: &RecordRef<'_>) -> Result<i64, String> {
    let text = String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned();
    text.parse().map_err(|_| format!("{text} is no number"))
}

/// By size; what is below zero is refused.
fn size(n: &i64) -> Result<Option<usize>, String> {
    match *n {
        ..0 => Err("below zero".to_owned()),
        0 => Ok(None),
        1..100 => Ok(Some(0)),
        _ => Ok(Some(1)),
    }
}

/// Filters side by side would refuse the same item once each; a split asks once, and gives the item to one stream at most.
#[test]
fn a_split_gives_each_item_to_one_stream_and_refuses_it_once() {
    for keyed in [false, true] {
        let mut driver = driver(move |broker| {
            let job = Job::new("sizes");
            let options = SourceOptions::bad_records(BadRecords::Skip);
            let numbers = job.source_with("numbers", broker.source("in"), options, number);
            let text = |what: &'static str| move |n: i64| format!("{what} {n}");
            if keyed {
                let streams = numbers.key_by_record_key("by-key").try_split("sizes", 2, size);
                streams[0]
                    .map("small", text("small"))
                    .to("small-sink", broker.target("out"), Utf8);
                streams[1].count("large").map("text", |n| format!("large #{n}")).to(
                    "large-sink",
                    broker.target("out"),
                    Utf8,
                );
            } else {
                let streams = numbers.try_split("sizes", 2, size);
                streams[0]
                    .map("small", text("small"))
                    .to("small-sink", broker.target("out"), Utf8);
                streams[1]
                    .map("large", text("large #"))
                    .to("large-sink", broker.target("out"), Utf8);
            }
            job.build()
        });
        driver.start().expect("starts");
        pipe(&driver, [5, -1, 500, 0, 7].map(|n| record("k", n)));
        driver.barrier().expect("an epoch");
        let large = if keyed { "k=large #1" } else { "k=large # 500" };
        assert_eq!(texts(&driver.outputs("out")), ["k=small 5", large, "k=small 7"]);
        assert_eq!(driver.metrics().expect("runs").bad_records("user"), 1);
    }
}

#[test]
fn a_key_of_bytes_may_be_missing_or_refused() {
    let mut driver = driver(|broker| {
        let job = Job::new("bytes");
        let options = SourceOptions::bad_records(BadRecords::Skip);
        job.source_with("numbers", broker.source("in"), options, number)
            .try_key_by_bytes("by-parity", "parity/1", |n: &i64, out: &mut Vec<u8>| match n {
                0 => Ok(false),
                13 => Err(Refused {
                    reason: BadReason::Overflow,
                    message: "unlucky".to_owned(),
                }),
                n => {
                    out.extend_from_slice(if n % 2 == 0 { b"even" } else { b"odd" });
                    Ok(true)
                }
            })
            .count("counts")
            .map("text", |n| n.to_string())
            .to("sink", broker.target("out"), Utf8);
        job.build()
    });
    driver.start().expect("starts");
    pipe(&driver, [1, 0, 2, 13, 3].map(|n| record("k", n)));
    driver.barrier().expect("an epoch");
    assert_eq!(sorted(&driver.outputs("out")), ["even=1", "odd=1", "odd=2"]);
    let metrics = driver.metrics().expect("runs");
    assert_eq!(
        (metrics.bad_records("null_key"), metrics.bad_records("overflow")),
        (1, 1)
    );
}

/// An aggregate that refuses an item has not changed: not in memory, and not in what an epoch holds.
#[test]
fn an_update_that_refuses_changes_nothing() {
    let mut driver = driver(|broker| {
        let job = Job::new("balances");
        let options = SourceOptions::bad_records(BadRecords::Skip);
        job.source_with("numbers", broker.source("in"), options, number)
            .key_by_record_key("by-key")
            .try_update("balance", LongBe, |balance: &mut Option<i64>, n| {
                let next = balance.unwrap_or(100) + n;
                if next < 0 {
                    return Err("overdrawn");
                }
                *balance = (next != 0).then_some(next);
                Ok(format!("{next}"))
            })
            .to("sink", broker.target("out"), Utf8);
        job.build()
    });
    driver.start().expect("starts");
    pipe(
        &driver,
        [("a", -30), ("a", -71), ("b", -101), ("a", 5), ("c", -100)].map(|(k, n)| record(k, n).at(n + 200)),
    );
    driver.barrier().expect("an epoch");
    let outputs = driver.outputs("out");
    assert_eq!(sorted(&outputs), ["a=70", "a=75", "c=0"]);
    let times = outputs
        .iter()
        .filter(|r| r.key_text() == "a")
        .map(|r: &TestRecord| r.timestamp);
    assert_eq!(times.collect::<Vec<_>>(), [170, 205]);
    let state = driver.state("balance", "value", &LongBe).expect("state");
    assert_eq!(
        state.into_iter().collect::<Vec<(Vec<u8>, i64)>>(),
        [(b"a".to_vec(), 75)]
    );
    driver.restart().expect("starts");
    pipe(&driver, [record("a", -75), record("b", 1)]);
    driver.barrier().expect("an epoch");
    assert_eq!(sorted(&driver.outputs("out")), ["a=0", "b=101"]);
}
