use super::*;
use std::collections::BTreeSet;

#[test]
fn refusals_are_counted_by_reason_and_step() {
    let metrics = Metrics::new();
    metrics.bad_record("decode", "orders");
    metrics.bad_record("decode", "totals");
    metrics.dead_letter("decode", "totals");
    assert_eq!(metrics.bad_records("decode"), 2);
    let text = metrics.text();
    assert!(text.contains("keyfold_bad_records_total{reason=\"decode\",step=\"orders\"} 1"));
    assert!(text.contains("keyfold_dead_letters_total{reason=\"decode\",step=\"totals\"} 1"));
}

/// Calls everything once, and finds every name of the enum: a name that nothing sets would be one too many.
#[test]
fn every_metric_of_the_enum_can_be_set_and_is_encoded() {
    let metrics = Metrics::new();
    metrics.stage("job", "orders", "single", "exactly-once");
    metrics.bad_record("decode", "orders");
    metrics.dead_letter("decode", "orders");
    metrics.stalled(false);
    metrics.shards(1, 0);
    metrics.source("orders").flush();
    metrics.set_sinks(&["totals"]);
    metrics.lane("orders-0").batch(1);
    drop(metrics.map("totals/value"));
    metrics.memory(MemoryPart::Maps, Some(1), Some(1));
    metrics.backend(Some(BackendSizes::default()));
    metrics.stalls(0, 0);
    metrics.chains(Some((1, 1)));
    metrics.fetched(1, 1, Some(1.0));
    metrics.committed_at(1);
    let position = crate::types::Position {
        topic: "in".to_owned(),
        partition: 0,
        offset: 1,
        leader_epoch: -1,
    };
    metrics.positions([position].iter());
    let end = PartitionEnd {
        partition: 0,
        stable: Some(1),
        end: Some(1),
    };
    metrics.ends("in", [end]);
    let text = metrics.text();
    let series = text.lines().filter(|line| !line.starts_with('#'));
    let found: BTreeSet<&str> = series
        .filter_map(|line| line.split(['{', ' ']).next())
        .filter_map(MetricName::of_series)
        .map(MetricName::as_str)
        .collect();
    let all: BTreeSet<&str> = MetricName::ALL.iter().map(|name| name.as_str()).collect();
    assert_eq!(found, all);
}

#[test]
fn what_is_not_known_is_absent() {
    let metrics = Metrics::new();
    let text = metrics.text();
    for name in [
        "keyfold_memory",
        "keyfold_rocksdb",
        "keyfold_last_commit",
        "keyfold_shards",
        "keyfold_lag",
    ] {
        assert!(!text.contains(name), "{name}: {text}");
    }
    metrics.memory(MemoryPart::Producer, Some(5), None);
    assert!(
        metrics
            .text()
            .contains("keyfold_memory_limit_bytes{part=\"producer\"} 5")
    );
    assert!(!metrics.text().contains("keyfold_memory_used_bytes"));
    metrics.flow_ended();
    assert!(!metrics.text().contains("keyfold_memory"));
}

#[test]
fn one_phase_is_on() {
    let metrics = Metrics::new();
    assert!(metrics.text().contains("keyfold_phase{phase=\"starting\"} 1"));
    metrics.phase("processing");
    let text = metrics.text();
    assert_eq!(text.matches("keyfold_phase{").count(), 5);
    assert!(
        text.contains("keyfold_phase{phase=\"processing\"} 1") && text.contains("keyfold_phase{phase=\"starting\"} 0")
    );
}
