//! Group mode without a broker: several instances of one job in one process, over a coordinator in memory.
use crate::support::{SUMS, record, sums};
use keyfold::checkpoint::store::MemoryStore;
use keyfold::config::Config;
use keyfold::runtime::{Progress, Runtime, StopHandle};
use keyfold::state::backend::memory::MemoryFactory;
use keyfold::testing::{Faults, MemoryBroker, Process, ProcessStore, RunEnd, TestRecord};
use keyfold::types::SystemClock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// No wait takes that long on a machine that is not overloaded beyond use.
const LONG: Duration = Duration::from_secs(60);
const KEYS: i64 = 24;

struct Instance {
    name: String,
    stop: StopHandle,
    progress: Arc<Progress>,
    process: Process,
    thread: JoinHandle<RunEnd>,
}

/// Instances of the job `sums` that share the topic `in` of four partitions.
struct Cluster {
    broker: MemoryBroker,
    store: MemoryStore,
    dir: tempfile::TempDir,
    copies: BTreeMap<String, MemoryFactory>,
    model: BTreeMap<String, Vec<i64>>,
}

fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LONG, "never {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Cluster {
    fn new() -> Cluster {
        let broker = MemoryBroker::new(Arc::new(SystemClock::default()));
        broker.create_topic("in", 4);
        broker.create_topic("out", 1);
        Cluster {
            broker,
            store: MemoryStore::new(7),
            dir: tempfile::tempdir().expect("directory"),
            copies: BTreeMap::new(),
            model: BTreeMap::new(),
        }
    }

    fn start(&mut self, name: &str, faults: &str) -> Instance {
        let process = Process::new();
        let mut config = Config::new(self.dir.path().join(name));
        config.instance = Some(name.to_owned());
        config.epoch_interval = Duration::from_millis(20);
        config.keyed_lanes = 2;
        config.revoke_budget = Duration::from_millis(500);
        let faults = Faults::parse(if faults.is_empty() { "break:none" } else { faults }).expect("valid");
        let copies = self.copies.entry(name.to_owned()).or_default().clone();
        let store = Arc::new(ProcessStore::new(Arc::new(self.store.clone()), process.clone()));
        let log = self.broker.log(process.clone());
        let membership = self.broker.membership(process.clone());
        let runtime = Runtime::group(sums(&self.broker).expect("valid"), config, log, membership, store)
            .with_backends(Box::new(move |_| Ok(Arc::new(copies))))
            .with_faults(faults);
        let (stop, progress, of_thread) = (runtime.stop_handle(), runtime.progress(), process.clone());
        let thread = std::thread::spawn(move || of_thread.run(runtime));
        Instance {
            name: name.to_owned(),
            stop,
            progress,
            process,
            thread,
        }
    }

    /// Adds a record for each of many keys, so that every shard has some.
    fn add(&mut self, value: i64) {
        for key in 0..KEYS {
            let key = format!("key-{key}");
            self.broker.produce("in", record(&key, value)).expect("taken");
            let sums = self.model.entry(key).or_default();
            sums.push(sums.last().copied().unwrap_or(0) + value);
        }
    }

    /// Waits until every record has its output.
    fn until_answered(&self) {
        let wanted: usize = self.model.values().map(Vec::len).sum();
        eventually("all answered", || self.broker.records("out").len() >= wanted);
    }

    /// Waits until the group has settled on so many members that share the partitions evenly.
    fn until_shared_by(&self, members: usize) {
        eventually(&format!("shared by {members}"), || {
            let view = self.broker.group(SUMS);
            !view.rebalancing
                && view.members.len() == members
                && view.members.values().map(Vec::len).sum::<usize>() == 4
        });
    }

    /// Every key's outputs are its running sums, each once and in order.
    fn assert_exact(&self) {
        let mut outputs: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for record in self.broker.records("out") {
            let sums = outputs.entry(record.key_text()).or_default();
            sums.push(record.value_text().parse().expect("a number"));
        }
        assert_eq!(outputs, self.model);
    }

    fn stop(&self, instance: Instance) {
        instance.stop.stop();
        let end = instance.thread.join().expect("no panic");
        assert!(matches!(end, RunEnd::Stopped), "{}: {end:?}", instance.name);
    }

    /// Dies without a word; its session ends later.
    fn kill(&self, instance: Instance) {
        instance.process.kill();
        instance.stop.stop();
        let _ = instance.thread.join();
        self.copies[&instance.name].crash();
    }
}

fn outputs(records: &[TestRecord]) -> usize {
    records.len()
}

/// Two instances share the partitions, one goes, one comes: every record has exactly one output, and no shard's state is left behind.
#[test]
fn partitions_move_with_their_state_when_instances_come_and_go() {
    let mut cluster = Cluster::new();
    let first = cluster.start("a", "");
    cluster.add(1);
    cluster.until_answered();
    let second = cluster.start("b", "");
    cluster.until_shared_by(2);
    cluster.add(2);
    cluster.until_answered();
    cluster.kill(first);
    cluster.broker.expire_member(SUMS, "a");
    cluster.until_shared_by(1);
    cluster.add(3);
    cluster.until_answered();
    let third = cluster.start("a", "");
    cluster.until_shared_by(2);
    cluster.add(4);
    cluster.until_answered();
    cluster.assert_exact();
    assert!(third.progress.folded() > 0 && second.progress.folded() > 0);
    assert_eq!(outputs(&cluster.broker.records("out")), 4 * KEYS as usize);
    cluster.stop(second);
    cluster.stop(third);
}
