//! What several modules need.
use keyfold::runtime::{ExitCode, RuntimeError};
use keyfold::testing::{DriverError, MemoryBroker, TestDriver, TestRecord};
use keyfold::topology::{Job, Topology, TopologyError};
use keyfold::types::codec::{LongBe, Utf8};
use std::collections::BTreeMap;

/// What a scenario came to: well, or what was wrong.
pub type Outcome = Result<(), String>;

/// The group, and transactional id, of [`sums`].
pub const SUMS: &str = "sums.orders";

/// A driver with input topic `in` of four partitions and output topic `out` of one.
pub fn driver(build: impl Fn(&MemoryBroker) -> Result<Topology, TopologyError> + 'static) -> TestDriver {
    let mut driver = TestDriver::new(build);
    driver.broker().create_topic("in", 4);
    driver.broker().create_topic("out", 1);
    driver.configure(|c| c.keyed_lanes = 2);
    driver
}

/// Emits each key's running sum.
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

/// [`texts`], in the order of the keys; order inside a key is kept.
pub fn sorted(records: &[TestRecord]) -> Vec<String> {
    let mut records = records.to_vec();
    records.sort_by_key(TestRecord::key_text);
    texts(&records)
}

pub fn pipe(driver: &TestDriver, records: impl IntoIterator<Item = TestRecord>) {
    for record in records {
        driver.pipe("in", record).expect("the topic takes it");
    }
}

/// The error that a run ended with.
pub fn ended_with(result: Result<(), DriverError>) -> RuntimeError {
    match result {
        Err(DriverError::Ended(error)) => error,
        other => panic!("the run should have ended with an error: {other:?}"),
    }
}

/// Exit 13, with all of these words in the message.
pub fn assert_cannot_go_on(result: Result<(), DriverError>, words: &[&str]) {
    let error = ended_with(result);
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn, "{error}");
    let message = error.to_string();
    words
        .iter()
        .for_each(|w| assert!(message.contains(w), "{w:?} is not in: {message}"));
}

/// [`sums`] in a driver, with a model of what it must emit.
pub struct Bench {
    pub driver: TestDriver,
    model: BTreeMap<String, Vec<i64>>,
}

impl Bench {
    pub fn new(faults: &str) -> Bench {
        let mut driver = driver(sums);
        driver.with_faults(faults);
        Bench {
            driver,
            model: BTreeMap::new(),
        }
    }

    /// Adds a record for each of many keys, so that every shard has some.
    pub fn add(&mut self, value: i64) {
        for key in 0..12 {
            self.add_one(&format!("key-{key}"), value + key);
        }
    }

    pub fn add_one(&mut self, key: &str, value: i64) {
        self.driver.pipe("in", record(key, value)).expect("the topic takes it");
        let sums = self.model.entry(key.to_owned()).or_default();
        sums.push(sums.last().copied().unwrap_or(0) + value);
    }

    /// Adds, and commits what is there.
    pub fn epoch(&mut self, value: i64) -> Outcome {
        self.add(value);
        self.barrier()
    }

    pub fn start(&mut self) -> Outcome {
        self.driver.start().map_err(|e| format!("start: {e}"))
    }
    pub fn restart(&mut self) -> Outcome {
        self.driver.restart().map_err(|e| format!("restart: {e}"))
    }
    pub fn barrier(&mut self) -> Outcome {
        self.driver.barrier().map_err(|e| format!("barrier: {e}"))
    }
    /// Cuts an epoch in which the run must crash, or have crashed.
    pub fn barrier_crashes(&mut self) -> Outcome {
        match self.driver.barrier() {
            Err(DriverError::Crashed(_)) => Ok(()),
            other => Err(format!("should have crashed: {other:?}")),
        }
    }

    /// Every output of the model is there; some may be there more than once.
    pub fn judge_at_least_once(&self) -> Outcome {
        let found = texts(&self.driver.broker().records("out"));
        let mut expected = self
            .model
            .iter()
            .flat_map(|(k, sums)| sums.iter().map(move |s| format!("{k}={s}")));
        match expected.find(|e| !found.contains(e)) {
            None => Ok(()),
            Some(missing) => Err(format!("{missing} is missing in {found:?}")),
        }
    }

    /// Outputs and state are those of the model, each output once and in order.
    pub fn judge(&self) -> Outcome {
        let mut found: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for r in self.driver.broker().records("out") {
            let value = r.value_text().parse().map_err(|e| format!("{r:?}: {e}"))?;
            found.entry(r.key_text()).or_default().push(value);
        }
        if found != self.model {
            return Err(format!("outputs {found:?}, expected {:?}", self.model));
        }
        let state = self
            .driver
            .state("totals", "value", &LongBe)
            .map_err(|e| e.to_string())?;
        let last = |(k, v): (&String, &Vec<i64>)| (k.clone().into_bytes(), v.last().copied().unwrap_or(0));
        let expected: BTreeMap<Vec<u8>, i64> = self.model.iter().map(last).collect();
        if state == expected {
            Ok(())
        } else {
            Err(format!("state {state:?}, expected {expected:?}"))
        }
    }
}

/// A scenario that holds with its protection, and not without it.
pub fn assert_protects(id: &str, scenario: impl Fn(&str) -> Outcome) {
    if let Err(why) = scenario("") {
        panic!("{id}: {why}");
    }
    match scenario(&format!("break:{id}")) {
        Ok(()) => panic!("{id}: the scenario does not notice that the protection is off"),
        Err(why) => println!("{id} off: {why}"),
    }
}
