//! The program in group mode: two processes of one pipeline, and what is left of it in single mode.
use crate::service::{Service, eventually};
use crate::topics::Topics;
use keyfold_e2e::Broker;
use std::collections::BTreeMap;

fn pipeline(topics: &Topics) -> String {
    format!(
        "job: {job}
sources: {{ orders: {{ connector: kafka, topic: {orders}, key: string, value: long }} }}
steps:
  - {{ id: good, map: {{ amount: value + 1, _key: _key }} }}
  - {{ id: totals, key_by: _key, aggregate: {{ orders: count(), total: sum(amount) }}, emit: record }}
sinks: {{ totals: {{ connector: kafka, topic: {totals}, value: json }} }}
",
        job = topics.job,
        orders = topics.orders,
        totals = topics.totals,
    )
}

const KEYS: usize = 20;

/// Orders `from..to`: of each key the amounts 0, 1, 2 and so on.
fn orders(from: usize, to: usize) -> Vec<(String, Vec<u8>)> {
    let order = |n: usize| (format!("k{}", n % KEYS), ((n / KEYS) as i64).to_be_bytes().to_vec());
    (from..to).map(order).collect()
}

/// Two instances share a topic. One is killed while records come, and the other takes over what it had: every row of every key is there, in order and
/// once. Then a start in single mode is refused with the name of the mode
/// that the job is in.
#[test]
fn one_of_two_instances_is_killed_and_every_record_is_counted_once() {
    let topics = Topics::fresh(Broker::shared(), "group");
    let shared = tempfile::tempdir().expect("a directory");
    let checkpoints = shared.path().display().to_string();
    let start = |mode: &str, name: &str| {
        let variables = [
            ("KEYFOLD_CHECKPOINT_DIR", checkpoints.as_str()),
            ("KEYFOLD_MODE", mode),
            ("KEYFOLD_INSTANCE", name),
            ("KEYFOLD_PARTITIONER", "crc32"),
            ("KEYFOLD_LEAVE_GROUP", "true"),
            ("KEYFOLD_TAKE_OVER", "true"),
            ("KEYFOLD_EPOCH_INTERVAL", "100ms"),
            ("KEYFOLD_KAFKA_SESSION_TIMEOUT", "6s"),
        ];
        Service::start(&topics, &pipeline(&topics), &variables)
    };
    let (mut one, mut other) = (start("auto", "one"), start("group", "other"));
    for service in [&one, &other] {
        eventually("a partition for each", || {
            (service.metric("keyfold_shards_owned") == Some(1.0)).then_some(())
        });
    }
    topics.produce_all(&orders(0, 2000));
    for service in [&one, &other] {
        eventually("records of each", || {
            service.metric("keyfold_records_committed_total").filter(|n| *n > 0.0)
        });
    }
    topics.produce_all(&orders(2000, 3000));
    other.kill();
    topics.produce_all(&orders(3000, 4000));
    eventually("both partitions", || {
        (one.metric("keyfold_shards_owned") == Some(2.0)).then_some(())
    });
    let mut by_key: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in topics.totals(4000) {
        by_key.entry(key).or_default().push(value);
    }
    assert_eq!(by_key.len(), KEYS);
    for (key, rows) in by_key {
        // Of the amounts 0 to n - 1, each one more.
        let row = |n: usize| format!("{{\"orders\":{n},\"total\":{}}}", n * (n + 1) / 2);
        let expected: Vec<String> = (1..=4000 / KEYS).map(row).collect();
        assert_eq!(rows, expected, "{key}");
    }
    one.stop();
    let mut single = start("single", "one");
    assert_eq!(single.ended(), Some(13), "{}", single.log());
    let log = single.log();
    assert!(log.contains("group mode"), "{log}");
}

/// A job in single mode whose next start takes group mode by itself, since the pipeline allows it: the refusal spoke of max parallelism alone.
#[test]
fn a_start_that_takes_the_other_mode_is_told_the_one_that_goes_on() {
    let topics = Topics::fresh(Broker::shared(), "modes");
    let shared = tempfile::tempdir().expect("a directory");
    let checkpoints = shared.path().display().to_string();
    let start = |mode: &str| {
        let variables = [
            ("KEYFOLD_CHECKPOINT_DIR", checkpoints.as_str()),
            ("KEYFOLD_MODE", mode),
            ("KEYFOLD_PARTITIONER", "crc32"),
            ("KEYFOLD_TAKE_OVER", "true"),
        ];
        Service::start(&topics, &pipeline(&topics), &variables)
    };
    topics.produce_all(&orders(0, 40));
    let mut single = start("single");
    assert_eq!(topics.totals(40).len(), 40);
    single.stop();
    let mut group = start("auto");
    assert_eq!(group.ended(), Some(13), "{}", group.log());
    let log = group.log();
    assert!(
        log.contains("this start is in group mode") && log.contains("--mode single goes on with it"),
        "{log}"
    );
    let mut single = start("single");
    topics.produce_all(&orders(40, 80));
    assert_eq!(topics.totals(80).len(), 80);
    single.stop();
}
