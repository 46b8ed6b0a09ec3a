//! What a run counts, and what it leaves out because nobody can know it.
use crate::support::{driver, pipe, record};
use keyfold::testing::{MemoryBroker, TestDriver};
use keyfold::topology::{BadRecords, Job, SourceOptions, Topology, TopologyError};
use keyfold::types::codec::{LongBe, Utf8};
use std::time::{Duration, Instant};

fn sums(broker: &MemoryBroker) -> Result<Topology, TopologyError> {
    let job = Job::new("sums");
    let letters = BadRecords::DeadLetter(job.dead_letters("letters", broker.target("letters")));
    let letters = SourceOptions::bad_records(letters);
    job.source_with("orders", broker.source("in"), letters, |r| {
        let text = String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned();
        text.parse::<i64>().map_err(|e| format!("{text:?}: {e}"))
    })
    .key_by_record_key("by-key")
    .fold("totals", LongBe, || 0i64, |total, value| *total += value)
    .map("as-text", |total| total.to_string())
    .to("sink", broker.target("out"), Utf8);
    job.build()
}

fn started() -> TestDriver {
    let mut driver = driver(sums);
    driver.broker().create_topic("letters", 1);
    driver.configure(|c| c.keyed_lanes = 1);
    driver.use_disk();
    driver.start().expect("starts");
    driver
}

/// The value of a series, given as it is written.
fn value(driver: &TestDriver, series: &str) -> Option<f64> {
    let text = driver.metrics().expect("runs").text();
    let line = text.lines().find_map(|line| line.strip_prefix(series))?;
    line.trim().parse().ok()
}

/// The control thread looks at it every second or every five.
fn eventually(driver: &TestDriver, series: &str, is: impl Fn(f64) -> bool) {
    let until = Instant::now() + Duration::from_secs(30);
    while !value(driver, series).is_some_and(&is) {
        let text = driver.metrics().expect("runs").text();
        assert!(Instant::now() < until, "{series}: {:?}\n{text}", value(driver, series));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn records_bytes_epochs_and_lookups_are_counted() {
    let mut driver = started();
    pipe(
        &driver,
        [record("a", 1), record("a", 2), record("b", 3), record("b", "?")],
    );
    driver.barrier().expect("an epoch");
    for (series, expected) in [
        ("keyfold_source_records_total{source=\"orders\"}", 4.0),
        ("keyfold_source_bytes_total{source=\"orders\"}", 8.0),
        ("keyfold_sink_records_total{sink=\"sink\"}", 3.0),
        ("keyfold_bad_records_total{reason=\"decode\",step=\"orders\"}", 1.0),
        ("keyfold_dead_letters_total{reason=\"decode\",step=\"orders\"}", 1.0),
        ("keyfold_records_committed_total", 4.0),
        ("keyfold_epoch_changed_entries_total", 2.0),
        ("keyfold_lane_records_total{lane=\"orders-0\"}", 4.0),
        ("keyfold_lane_records_total{lane=\"by-key-0\"}", 3.0),
        ("keyfold_phase{phase=\"processing\"}", 1.0),
        ("keyfold_phase{phase=\"restoring\"}", 0.0),
        ("keyfold_shards_owned", 4.0),
        (
            "keyfold_stage_info{guarantee=\"exactly-once\",mode=\"single\",pipeline=\"sums\",stage=\"orders\"}",
            1.0,
        ),
        ("keyfold_retries_total{step=\"write\"}", 0.0),
    ] {
        assert_eq!(value(&driver, series), Some(expected), "{series}");
    }
    // The maps tell at the end of a batch, the lane after it has handed over the epoch.
    eventually(&driver, "keyfold_map_misses_total{state=\"totals/value\"}", |v| {
        v == 2.0
    });
    eventually(&driver, "keyfold_map_hits_total{state=\"totals/value\"}", |v| v == 1.0);
    eventually(&driver, "keyfold_map_entries{state=\"totals/value\"}", |v| v == 2.0);
    for phase in ["align", "encode", "write", "publish", "apply"] {
        // The first epoch begins the job; no barrier went through its lanes.
        let epochs = if phase == "align" || phase == "encode" {
            1.0
        } else {
            2.0
        };
        let series = format!("keyfold_epoch_seconds_count{{phase=\"{phase}\"}}");
        assert_eq!(value(&driver, &series), Some(epochs), "{series}");
    }
    assert_eq!(
        value(&driver, "keyfold_epoch_seconds_count{phase=\"deliver\"}"),
        Some(0.0)
    );
}

#[test]
fn lanes_tell_where_their_time_goes() {
    let driver = started();
    let waiting = "keyfold_lane_seconds_total{activity=\"waiting\",lane=\"by-key-0\"}";
    eventually(&driver, waiting, |v| v > 0.05);
    assert_eq!(
        value(
            &driver,
            "keyfold_lane_seconds_total{activity=\"blocked\",lane=\"by-key-0\"}"
        ),
        Some(0.0)
    );
}

/// EP-11's end, the last stable offset, against the committed position: what is read and not committed yet is lag.
#[test]
fn lag_is_counted_from_what_is_committed() {
    let mut driver = started();
    let (partition, _) = driver.broker().produce("in", record("a", 1)).expect("taken");
    pipe(&driver, [record("a", 2)]);
    let lag = format!("keyfold_lag_stable_offsets{{partition=\"{partition}\",topic=\"in\"}}");
    let end = format!("keyfold_lag_end_offsets{{partition=\"{partition}\",topic=\"in\"}}");
    eventually(&driver, &lag, |v| v == 2.0);
    driver.broker().add_gap("in", partition);
    driver.barrier().expect("an epoch");
    assert_eq!(value(&driver, &lag), Some(0.0));
    eventually(&driver, &end, |v| v <= 1.0);
}

#[test]
fn memory_and_local_copies_are_looked_at_and_what_is_not_known_is_absent() {
    let mut driver = started();
    pipe(&driver, [record("a", 1)]);
    driver.barrier().expect("an epoch");
    eventually(&driver, "keyfold_memory_used_bytes{part=\"maps\"}", |v| v > 0.0);
    assert_eq!(
        value(&driver, "keyfold_memory_limit_bytes{part=\"maps\"}"),
        Some(f64::from(128 << 20))
    );
    if cfg!(feature = "rocksdb") {
        eventually(&driver, "keyfold_rocksdb_memtables_bytes", |v| v > 0.0);
        eventually(&driver, "keyfold_rocksdb_write_stalls_total{kind=\"stop\"}", |v| {
            v == 0.0
        });
    } else {
        assert_eq!(value(&driver, "keyfold_memory_used_bytes{part=\"backend\"}"), None);
    }
    // The log in memory has no queue, and its source reads nothing ahead.
    for part in ["producer", "prefetch"] {
        let series = format!("keyfold_memory_used_bytes{{part=\"{part}\"}}");
        assert_eq!(value(&driver, &series), None, "{series}");
    }
    let metrics = driver.metrics().expect("runs").clone();
    driver.stop().expect("stops");
    let text = metrics.text();
    assert!(text.contains("keyfold_phase{phase=\"stopped\"} 1"), "{text}");
    for gone in ["keyfold_memory_used", "keyfold_rocksdb_memtables", "keyfold_lag_"] {
        assert!(!text.contains(gone), "{gone}: {text}");
    }
    assert!(text.contains("keyfold_shards_owned 0"), "{text}");
}
