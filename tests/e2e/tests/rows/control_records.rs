//! Transactions in the source: aborted records, markers, and ends without a record.
use keyfold_checker::Report;
use keyfold_e2e::Broker;

use crate::records::{Made, Transactional, ends, made, producer, send, transaction};
use crate::scene::{LONG, Scene, stop, until, wait};
use rdkafka::producer::Producer;

/// Records of one transaction; aborted ones have values that would show in every sum.
fn records(round: i64, aborted: bool) -> Vec<Made> {
    let value = |n: i64| if aborted { 1_000_000 + n } else { n };
    (0..50)
        .map(|n| made(&format!("k{}", (round * 50 + n) % 31), &value(n).to_string()))
        .collect()
}

/// As many transactions aborted as committed.
fn half_aborted(producer: &Transactional, topic: &str, rounds: i64) {
    for round in 0..rounds {
        transaction(producer, topic, &records(round, false), true);
        transaction(producer, topic, &records(round, true), false);
    }
}

/// Waits until the committed offsets have reached the end of every partition, its markers included.
fn caught_up(scene: &Scene<'_>) {
    let ends = ends(scene.broker, &scene.input, false);
    wait("offsets at the end", || {
        let committed = scene.committed();
        let reached = |(p, end): (usize, &i64)| committed.iter().any(|c| c.partition == p as i32 && c.offset == *end);
        ends.iter().enumerate().all(reached).then_some(())
    });
}

fn assert_ok(report: &Report, records: u64) {
    assert!(report.ok(), "{report}: {:?}", report.offenders);
    assert_eq!(report.counts.records_in, records, "{report}");
}

/// Half of the source's transactions were aborted, some in compressed batches, which a client may hand out by mistake: none of their
/// records was ever folded.
#[test]
fn row_45_aborted_transactions_in_the_source_are_never_folded() {
    let scene = Scene::new(Broker::shared(), "row45", 3);
    let (checker, watch) = (scene.checker(), scene.watch());
    let worker = scene.worker("", &[]);
    for compression in ["none", "lz4", "zstd"] {
        let id = format!("{}-{compression}", scene.job);
        half_aborted(&producer(scene.broker, Some(&id), compression), &scene.input, 8);
    }
    caught_up(&scene);
    stop(worker);
    assert_ok(&scene.judge(checker), 3 * 8 * 50);
    let watched = watch.finish();
    assert!(watched.ok(), "{watched:?}");
}

/// B33: a hundred megabytes of aborted records in a row. A client that gets nothing but these for a while tells of a message that is too large;
/// it was taken for the end of the source.
#[test]
fn row_45_a_hundred_megabytes_of_aborted_records_are_passed_over() {
    let scene = Scene::new(Broker::shared(), "row45-long", 1);
    let checker = scene.checker();
    let source = producer(scene.broker, Some(&scene.job), "none");
    transaction(&source, &scene.input, &records(0, false), true);
    let mut worker = scene.worker("", &[]);
    until(&mut worker, "all committed", |told| told.committed >= 50);
    source.begin_transaction().expect("begin");
    let large = made("k", &"1".repeat(10_000));
    for _ in 0..10 {
        (0..1000).for_each(|_| send(&source, &scene.input, &large));
        source.flush(LONG).expect("flush");
    }
    source.abort_transaction(LONG).expect("aborted");
    transaction(&source, &scene.input, &records(1, false), true);
    caught_up(&scene);
    stop(worker);
    assert_ok(&scene.judge(checker), 100);
}

/// The source ended in an aborted transaction, so that the last record's offset + 1 is never its end: the worker caught up all the same,
/// and so did one that was started again on nothing but markers and aborted records.
#[test]
fn row_47_topic_that_ends_in_control_records_is_caught_up_with() {
    let scene = Scene::new(Broker::shared(), "row47", 2);
    let checker = scene.checker();
    let source = producer(scene.broker, Some(&scene.job), "none");
    half_aborted(&source, &scene.input, 3);
    let worker = scene.worker("", &[]);
    caught_up(&scene);
    stop(worker);
    transaction(&source, &scene.input, &records(3, true), false);
    let worker = scene.worker("", &[]);
    caught_up(&scene);
    assert_eq!(lag(&scene), [0, 0]);
    transaction(&source, &scene.input, &records(4, false), true);
    caught_up(&scene);
    stop(worker);
    assert_ok(&scene.judge(checker), 4 * 50);
}

/// The column LAG of Kafka's own tool.
pub fn lag(scene: &Scene<'_>) -> Vec<i64> {
    let text = scene
        .broker
        .tool("consumer-groups.sh", &["--describe", "--group", &scene.group()])
        .expect("tool");
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let header = lines.iter().find(|line| line.contains(&"LAG")).expect("a header");
    let column = header.iter().position(|name| *name == "LAG").expect("the column");
    let of_topic = lines.iter().filter(|line| line.contains(&scene.input.as_str()));
    of_topic.map(|line| line[column].parse().unwrap_or(-1)).collect()
}

/// Aborted records were folded when the source was read uncommitted. The switch does this on purpose: then the oracle has to see it.
#[test]
fn ep_11_aborted_records_are_folded_only_when_the_protection_is_off() {
    for (faults, safe) in [("", true), ("break:EP-11", false)] {
        let scene = Scene::new(Broker::shared(), "ep11", 1);
        let checker = scene.checker();
        half_aborted(&producer(scene.broker, Some(&scene.job), "none"), &scene.input, 2);
        let mut worker = scene.worker(faults, &[]);
        until(&mut worker, "all committed", |told| told.committed >= 100);
        caught_up(&scene);
        stop(worker);
        let report = scene.judge(checker);
        assert_eq!(report.ok(), safe, "{faults}: {report}: {:?}", report.offenders);
        assert_eq!(report.counts.stale > 0, !safe, "{report}");
    }
}
