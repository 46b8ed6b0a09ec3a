//! Stateless steps that may refuse an item, on streams with keys and without.
use crate::support::{driver, pipe, record, texts};
use keyfold::testing::{MemoryBroker, TestDriver};
use keyfold::topology::{BadRecords, Job, KeyedStream, SourceOptions, Stream};
use keyfold::types::codec::Utf8;

fn number(text: &str) -> Result<i64, String> {
    text.parse().map_err(|e| format!("{text:?}: {e}"))
}

fn even(text: &str) -> Result<bool, String> {
    Ok(number(text)? % 2 == 0)
}

/// Gives out the numbers of a sum one by one: those before a part that is no number, too.
fn parts(text: String, out: &mut dyn FnMut(i64)) -> Result<(), String> {
    text.split('+').try_for_each(|part| {
        out(number(part)?);
        Ok(())
    })
}

fn lines(job: &Job, broker: &MemoryBroker) -> Stream<String> {
    let options = SourceOptions::bad_records(BadRecords::Skip);
    job.source_with("lines", broker.source("in"), options, |r| {
        Ok(String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned())
    })
}

/// Runs one step, whose result is text, over records of one key; returns the outputs, and how many items `step` refused.
fn run(
    step: impl Fn(Stream<String>, KeyedStream<String>) -> (Stream<String>, KeyedStream<String>) + 'static,
    values: &[&str],
) -> (Vec<String>, Vec<String>, usize) {
    let mut driver: TestDriver = driver(move |broker| {
        broker.create_topic("keyed", 1);
        let job = Job::new("stateless");
        let lines = lines(&job, broker);
        let (plain, keyed) = step(lines.clone(), lines.key_by_record_key("by-key"));
        plain.to("plain-sink", broker.target("out"), Utf8);
        keyed.to("keyed-sink", broker.target("keyed"), Utf8);
        job.build()
    });
    driver.start().expect("starts");
    pipe(&driver, values.iter().map(|value| record("k", value)));
    driver.barrier().expect("an epoch");
    let (plain, keyed) = (texts(&driver.outputs("out")), texts(&driver.outputs("keyed")));
    let metrics = driver.metrics().expect("runs").text();
    let of = |id: &str| format!("keyfold_bad_records_total{{reason=\"user\",step=\"{id}\"}} ");
    let count = |id: &str| {
        let line = metrics.lines().find_map(|line| line.strip_prefix(&of(id)));
        line.map_or(0, |n| n.parse().expect("a count"))
    };
    assert_eq!(count("plain"), count("keyed"));
    (plain, keyed, count("plain"))
}

#[test]
fn what_a_try_map_refuses_is_counted_under_its_id_and_the_others_go_on() {
    let double = |text: String| number(&text).map(|n| (2 * n).to_string());
    let step = move |plain: Stream<String>, keyed: KeyedStream<String>| {
        (plain.try_map("plain", double), keyed.try_map("keyed", double))
    };
    let (plain, keyed, refused) = run(step, &["1", "x", "3"]);
    assert_eq!((plain, refused), (vec!["k=2".to_owned(), "k=6".to_owned()], 1));
    assert_eq!(keyed, ["k=2", "k=6"]);
}

#[test]
fn what_a_try_filter_refuses_is_neither_kept_nor_dropped_without_a_trace() {
    let step = |plain: Stream<String>, keyed: KeyedStream<String>| {
        (
            plain.try_filter("plain", |text| even(text)),
            keyed.try_filter("keyed", |text| even(text)),
        )
    };
    let (plain, keyed, refused) = run(step, &["2", "x", "3", "4", "y"]);
    assert_eq!((plain, refused), (vec!["k=2".to_owned(), "k=4".to_owned()], 2));
    assert_eq!(keyed, ["k=2", "k=4"]);
}

/// An item that is refused half-way has given out something already: none of it goes on.
#[test]
fn a_try_flat_map_that_refuses_half_way_gives_out_nothing_of_the_item() {
    let step = |plain: Stream<String>, keyed: KeyedStream<String>| {
        let plain = plain.try_flat_map("plain", parts);
        let keyed = keyed.try_flat_map("keyed", parts);
        (
            plain.map("plain-text", |n| n.to_string()),
            keyed.map("keyed-text", |n| n.to_string()),
        )
    };
    let (plain, keyed, refused) = run(step, &["1+2", "3+x+4", "5"]);
    assert_eq!((plain, refused), (["k=1", "k=2", "k=5"].map(str::to_owned).to_vec(), 1));
    assert_eq!(keyed, ["k=1", "k=2", "k=5"]);
}

#[test]
fn a_keyed_flat_map_keeps_key_and_order() {
    let words = |line: String, out: &mut dyn FnMut(String)| line.split(' ').for_each(|w| out(w.to_owned()));
    let step = move |plain: Stream<String>, keyed: KeyedStream<String>| {
        (plain.flat_map("plain", words), keyed.flat_map("keyed", words))
    };
    let (plain, keyed, refused) = run(step, &["a b", "", "c"]);
    assert_eq!(
        (plain, refused),
        (["k=a", "k=b", "k=", "k=c"].map(str::to_owned).to_vec(), 0)
    );
    assert_eq!(keyed, ["k=a", "k=b", "k=", "k=c"]);
}
