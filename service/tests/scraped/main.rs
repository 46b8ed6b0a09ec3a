//! The program as it is run: a pipeline with bad records in it, a real broker, and a real Prometheus that scrapes it. What the dashboard asks for
//! is answered, and dead letters are what is documented.
mod group;
mod prometheus;
#[path = "../around/promql.rs"]
mod promql;
mod service;
mod topics;

use keyfold_e2e::Broker;
use prometheus::Prometheus;
use service::{Service, eventually};
use std::collections::BTreeSet;
use topics::{Letter, Topics};

/// The pipeline: two steps refuse records, and what they refuse goes to a topic.
fn pipeline(topics: &Topics) -> String {
    format!(
        "job: {job}
sources:
  orders:
    connector: kafka
    topic: {orders}
    key: string
    value: {{ format: json, schema: {{ customer: string, amount: int64 }} }}
    on_error: {{ dead_letter: {letters} }}
steps:
  - {{ id: paid, filter: amount > 0 }}
  - {{ id: shares, map: {{ customer: customer, share: 100 / (amount - 7) }} }}
  - {{ id: totals, key_by: customer, aggregate: {{ orders: count(), total: sum(share) }}, emit: record }}
sinks:
  totals: {{ connector: kafka, topic: {totals}, value: json }}
",
        job = topics.job,
        orders = topics.orders,
        letters = topics.letters,
        totals = topics.totals,
    )
}

const GARBAGE: &str = "{\"customer\": \"ada\", \"amount\":";
const SEVEN: &str = "{\"customer\": \"ada\", \"amount\": 7}";

/// Orders of two customers, and among them one that is no JSON and one that is divided by zero.
fn produce(topics: &Topics) {
    for n in 0..40 {
        let customer = if n % 2 == 0 { "ada" } else { "bob" };
        topics.produce(
            customer,
            &format!("{{\"customer\": \"{customer}\", \"amount\": {}}}", 8 + n),
            &[],
        );
    }
    topics.produce("k-garbage", GARBAGE, &[("trace", "a7")]);
    topics.produce("k-seven", SEVEN, &[]);
    topics.produce("bob", "{\"customer\": \"bob\", \"amount\": 8}", &[]);
}

fn check_letter(letter: &Letter, topics: &Topics, (key, value): (&str, &str), (step, reason): (&str, &str)) {
    assert_eq!(
        (letter.key.as_str(), letter.value.as_str()),
        (key, value),
        "the original bytes"
    );
    let (partition, offset) = topics.place_of(key);
    for (header, expected) in [
        ("keyfold.topic", topics.orders.as_str()),
        ("keyfold.partition", &partition.to_string()),
        ("keyfold.offset", &offset.to_string()),
        ("keyfold.step", step),
        ("keyfold.reason", reason),
    ] {
        assert_eq!(letter.header(header), expected, "{header} of {letter:?}");
    }
    assert!(!letter.header("keyfold.error").is_empty(), "{letter:?}");
    let time: i64 = letter.header("keyfold.time").parse().expect("milliseconds");
    assert!((0..600_000).contains(&(topics::now_ms() - time)), "{time}");
}

/// Every metric of every panel is in what Prometheus has scraped, every expression of the dashboard is answered, every rule can be
/// evaluated, and the rule on dead letters fires.
#[test]
fn prometheus_finds_every_metric_of_every_panel_and_the_dead_letters() {
    let topics = Topics::fresh(Broker::shared(), "scraped");
    let mut service = Service::start(&topics, &pipeline(&topics), &[("KEYFOLD_EPOCH_INTERVAL", "200ms")]);
    service.until_processing();
    let prometheus = Prometheus::start(&service.address);
    produce(&topics);
    topics.until_committed(&topics.totals, 41);

    let expressions = prometheus::expressions_of_the_dashboard();
    let metrics: BTreeSet<String> = expressions.iter().flat_map(|e| promql::metrics(e)).collect();
    assert!(metrics.len() > 40, "{metrics:?}");
    for metric in &metrics {
        eventually(&format!("{metric} in Prometheus's answers"), || {
            (!prometheus.query(metric).is_empty()).then_some(())
        });
    }
    for expression in &expressions {
        // Those that leave out what is 0 may have nothing to say.
        if !expression.ends_with("> 0") {
            eventually(&format!("an answer to {expression}"), || {
                (!prometheus.query(expression).is_empty()).then_some(())
            });
        }
    }
    let counted = |name: &str, reason: &str, step: &str| {
        let series = format!("{name}{{reason=\"{reason}\",step=\"{step}\"}}");
        prometheus.query(&series).first().map(|(_, value)| *value)
    };
    for name in ["keyfold_bad_records_total", "keyfold_dead_letters_total"] {
        assert_eq!(counted(name, "decode", "orders"), Some(1.0), "{name}");
        assert_eq!(counted(name, "division_by_zero", "shares"), Some(1.0), "{name}");
    }
    assert_eq!(prometheus.rules_that_fail(), Vec::<String>::new());
    eventually("the alert on dead letters", || {
        prometheus.is_firing("KeyfoldDeadLetters").then_some(())
    });

    let letters = topics.letters();
    assert_eq!(letters.len(), 2, "{letters:?}");
    let of = |key: &str| letters.iter().find(|l| l.key == key).expect("a letter");
    check_letter(of("k-garbage"), &topics, ("k-garbage", GARBAGE), ("orders", "decode"));
    assert_eq!(of("k-garbage").header("trace"), "a7", "the record's own headers");
    check_letter(
        of("k-seven"),
        &topics,
        ("k-seven", SEVEN),
        ("shares", "division_by_zero"),
    );
    service.stop();
}

/// A dead letter is part of its epoch: nothing of it is in the topic, not even for readers of what is uncommitted, while the epoch is open, and
/// then it is there with the outputs and the positions.
#[test]
fn dead_letters_are_committed_with_their_epoch() {
    let topics = Topics::fresh(Broker::shared(), "epoch");
    let mut service = Service::start(&topics, &pipeline(&topics), &[("KEYFOLD_EPOCH_INTERVAL", "10m")]);
    service.until_processing();
    produce(&topics);
    for (series, expected) in [
        ("keyfold_dead_letters_total{reason=\"decode\",step=\"orders\"}", 1.0),
        (
            "keyfold_dead_letters_total{reason=\"division_by_zero\",step=\"shares\"}",
            1.0,
        ),
        ("keyfold_source_records_total{source=\"orders\"}", 43.0),
    ] {
        eventually(series, || (service.metric(series) == Some(expected)).then_some(()));
    }
    assert_eq!(topics.ends(&topics.letters), 0, "nothing is sent before the epoch ends");
    assert_eq!(topics.ends(&topics.totals), 0);
    assert_eq!(topics.committed(), 0, "no position has moved");
    service.stop();
    assert_eq!(topics.letters().len(), 2);
    topics.until_committed(&topics.totals, 41);
    assert_eq!(topics.committed(), 43, "the positions are behind the bad records, too");
}
