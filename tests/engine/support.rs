//! What several modules need.
use keyfold::testing::{MemoryBroker, TestDriver, TestRecord};
use keyfold::topology::{Job, Topology, TopologyError};
use keyfold::types::codec::{LongBe, Utf8};

/// A driver with input topic `in` and output topic `out` of one partition.
pub fn driver(build: impl Fn(&MemoryBroker) -> Result<Topology, TopologyError> + 'static) -> TestDriver {
    let mut driver = TestDriver::new(build);
    driver.broker().create_topic("in", 4);
    driver.broker().create_topic("out", 1);
    driver.configure(|c| c.keyed_lanes = 2);
    driver
}

/// `key -> running sum` of the records' values, with the source offset of the last one: `sum@offset`.
pub fn sums(broker: &MemoryBroker) -> Result<Topology, TopologyError> {
    let job = Job::new("sums");
    job.source("orders", broker.source("in"), |r| {
        let text = String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned();
        text.parse::<i64>().map_err(|e| format!("{text:?}: {e}"))
    })
    .key_by_record_key("by-key")
    .fold("totals", LongBe, || 0i64, |total, value| *total += value)
    .map("as-text", |total| total.to_string())
    .to("sink", broker.target("out"), Utf8);
    job.build()
}

pub fn record(key: &str, value: impl ToString) -> TestRecord {
    TestRecord::new(key, value.to_string())
}

/// `key=value` of each record, in order.
pub fn texts(records: &[TestRecord]) -> Vec<String> {
    let text = |r: &TestRecord| format!("{}={}", r.key_text(), r.value_text());
    records.iter().map(text).collect()
}
