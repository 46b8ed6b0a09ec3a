//! Group mode without a broker: several instances of one job in one process, over a coordinator in memory.
use crate::support::{SUMS, record};
use keyfold::checkpoint::store::MemoryStore;
use keyfold::config::Config;
use keyfold::runtime::{ExitCode, MembershipFactory, Phase, Progress, Runtime, RuntimeError, StopHandle};
use keyfold::sink::LogErrorKind;
use keyfold::state::backend::memory::MemoryFactory;
use keyfold::telemetry::Metrics;
use keyfold::testing::{Call, Fault, Faults, MemoryBroker, Process, ProcessStore, RunEnd};
use keyfold::topology::{Job, Topology, TopologyError};
use keyfold::types::SystemClock;
use keyfold::types::codec::{LongBe, Utf8};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// No wait takes that long on a machine that is not overloaded beyond use.
const LONG: Duration = Duration::from_secs(60);
const KEYS: i64 = 24;

pub struct Instance {
    pub name: String,
    pub stop: StopHandle,
    pub progress: Arc<Progress>,
    pub metrics: Metrics,
    /// While set, the user's function does not return.
    pub hangs: Arc<AtomicBool>,
    pub process: Process,
    pub thread: JoinHandle<RunEnd>,
}

/// Instances of the job `sums` that share the topic `in` of four partitions.
pub struct Cluster {
    pub broker: MemoryBroker,
    pub store: MemoryStore,
    pub dir: tempfile::TempDir,
    pub copies: BTreeMap<String, MemoryFactory>,
    pub model: BTreeMap<String, Vec<i64>>,
    /// Of every instance from its start on.
    pub configure: fn(&mut Config),
}

pub fn eventually(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LONG, "never {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The job `sums`, whose function waits while it is told to hang.
fn sums_that_hang(broker: &MemoryBroker, hangs: Arc<AtomicBool>) -> Result<Topology, TopologyError> {
    let job = Job::new("sums");
    job.source("orders", broker.source("in"), |r| {
        let text = String::from_utf8_lossy(r.value.unwrap_or_default()).into_owned();
        text.parse::<i64>().map_err(|e| format!("{text:?}: {e}"))
    })
    .key_by_record_key("by-key")
    .fold(
        "totals",
        LongBe,
        || 0i64,
        move |total, value| {
            while hangs.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            *total += value;
        },
    )
    .map("as-text", |total| total.to_string())
    .to("sink", broker.target("out"), Utf8);
    job.build()
}

impl Cluster {
    pub fn new() -> Cluster {
        let broker = MemoryBroker::new(Arc::new(SystemClock::default()));
        broker.create_topic("in", 4);
        broker.create_topic("out", 1);
        Cluster {
            broker,
            store: MemoryStore::new(7),
            dir: tempfile::tempdir().expect("directory"),
            copies: BTreeMap::new(),
            model: BTreeMap::new(),
            configure: |_| (),
        }
    }

    pub fn start(&mut self, name: &str, faults: &str) -> Instance {
        self.start_as(name, name, faults)
    }

    /// Under this name, with the state directory and the local copies of `machine`.
    pub fn start_as(&mut self, name: &str, machine: &str, faults: &str) -> Instance {
        self.start_with(name, machine, faults, |membership| membership)
    }

    /// With the membership that `wrap` makes of its own.
    pub fn start_with(
        &mut self,
        name: &str,
        machine: &str,
        faults: &str,
        wrap: impl FnOnce(MembershipFactory) -> MembershipFactory,
    ) -> Instance {
        let process = Process::new();
        let mut config = Config::new(self.dir.path().join(machine));
        config.instance = Some(name.to_owned());
        config.epoch_interval = Duration::from_millis(20);
        config.keyed_lanes = 2;
        config.stall_after = Duration::from_secs(2);
        config.revoke_budget = Duration::from_millis(500);
        (self.configure)(&mut config);
        let faults = Faults::parse(if faults.is_empty() { "break:none" } else { faults }).expect("valid");
        let copies = self.copies.entry(machine.to_owned()).or_default().clone();
        let store = Arc::new(ProcessStore::new(Arc::new(self.store.clone()), process.clone()));
        let log = self.broker.log(process.clone());
        let membership = wrap(self.broker.membership(process.clone()));
        let hangs: Arc<AtomicBool> = Arc::default();
        let topology = sums_that_hang(&self.broker, hangs.clone()).expect("valid");
        let runtime = Runtime::group(topology, config, log, membership, store)
            .with_backends(Box::new(move |_| Ok(Arc::new(copies))))
            .with_faults(faults);
        let (stop, progress, metrics) = (runtime.stop_handle(), runtime.progress(), runtime.metrics());
        let of_thread = process.clone();
        let thread = std::thread::spawn(move || of_thread.run(runtime));
        Instance {
            name: name.to_owned(),
            stop,
            progress,
            metrics,
            hangs,
            process,
            thread,
        }
    }

    /// Adds a record for each of many keys, so that every shard has some.
    pub fn add(&mut self, value: i64) {
        (0..KEYS).for_each(|key| self.add_one(&format!("key-{key}"), value));
    }

    pub fn add_one(&mut self, key: &str, value: i64) {
        self.broker.produce("in", record(key, value)).expect("taken");
        let sums = self.model.entry(key.to_owned()).or_default();
        sums.push(sums.last().copied().unwrap_or(0) + value);
    }

    /// Records of one key, so of one shard.
    fn add_to_one_partition(&mut self, value: i64) {
        (0..3).for_each(|_| self.add_one("key-0", value));
    }

    /// Waits until every record has its output.
    pub fn until_answered(&self) {
        let wanted: usize = self.model.values().map(Vec::len).sum();
        eventually(
            &format!(
                "all {wanted} answered: {} {:?}",
                self.broker.records("out").len(),
                self.broker.group(SUMS)
            ),
            || self.broker.records("out").len() >= wanted,
        );
    }

    /// Waits until every record has its output; false when they do not come, or when it is in vain.
    pub fn answers_come(&self, in_vain: &dyn Fn() -> bool) -> bool {
        let wanted: usize = self.model.values().map(Vec::len).sum();
        let begin = Instant::now();
        while self.broker.records("out").len() < wanted {
            if in_vain() || begin.elapsed() > LONG {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        true
    }

    /// Waits until the group has settled on so many members that share the partitions evenly.
    pub fn until_shared_by(&self, members: usize) {
        eventually(&format!("shared by {members}"), || {
            let view = self.broker.group(SUMS);
            !view.rebalancing
                && view.members.len() == members
                && view.members.values().map(Vec::len).sum::<usize>() == 4
        });
    }

    pub fn outputs(&self) -> BTreeMap<String, Vec<i64>> {
        let mut outputs: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for record in self.broker.records("out") {
            let sums = outputs.entry(record.key_text()).or_default();
            sums.push(record.value_text().parse().expect("a number"));
        }
        outputs
    }

    /// Every key's outputs are its running sums, each once and in order.
    pub fn assert_exact(&self) {
        assert_eq!(self.outputs(), self.model);
    }

    pub fn stop(&self, instance: Instance) {
        instance.stop.stop();
        let end = instance.thread.join().expect("no panic");
        assert!(matches!(end, RunEnd::Stopped), "{}: {end:?}", instance.name);
    }

    /// Waits until it ends by itself, with an error.
    pub fn failed(instance: Instance) -> RuntimeError {
        eventually("ended", || instance.thread.is_finished());
        match instance.thread.join().expect("no panic") {
            RunEnd::Failed(error) => error,
            other => panic!("{} should have ended with an error: {other:?}", instance.name),
        }
    }

    /// The end of a scenario that may be wrong: whether every key's outputs are its running sums, each once and in order.
    fn ends_exact(self, instances: [Instance; 2]) -> bool {
        for instance in instances {
            instance.stop.stop();
            let _ = instance.thread.join();
        }
        self.outputs() == self.model
    }

    /// Dies without a word; its session ends later.
    pub fn kill(&self, instance: Instance) {
        instance.process.kill();
        instance.stop.stop();
        let _ = instance.thread.join();
        self.copies[&instance.name].crash();
    }
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
    cluster.stop(second);
    cluster.stop(third);
}

/// The store fails while an epoch waits for it, and meanwhile another instance joins and gets half of the shards. The epoch must be dropped
/// as a whole: the newcomer has gone on from what was committed.
fn taken_back_while_the_store_fails(faults: &str) -> bool {
    let mut cluster = Cluster::new();
    let first = cluster.start("a", faults);
    cluster.add(1);
    cluster.until_answered();
    for k in 1..=9 {
        first.process.fault(Call::Put, k, Fault::Fail(LogErrorKind::Retriable));
    }
    cluster.add(2);
    eventually("the store fails", || first.process.calls(Call::Put) > 4);
    let second = cluster.start("b", "");
    cluster.until_answered();
    cluster.add(3);
    cluster.until_answered();
    // What is wrong may come late.
    eventually("the first goes on", || first.progress.phase() == Phase::Processing);
    cluster.add(4);
    cluster.until_answered();
    cluster.ends_exact([first, second])
}

#[test]
fn ep_12_an_epoch_that_is_not_sent_in_time_is_dropped_with_the_assignment() {
    assert!(taken_back_while_the_store_fails(""));
    assert!(!taken_back_while_the_store_fails("break:EP-12"));
}

/// An instance is stopped in the middle of a publish, past its session; another takes over. It goes on and sends the offsets of its
/// transaction: the coordinator refuses them, because they carry the generation under which they were made.
fn woken_in_the_middle_of_a_publish(fenced: bool) -> bool {
    let mut cluster = Cluster::new();
    let first = cluster.start("a", "");
    cluster.add(1);
    cluster.until_answered();
    if !fenced {
        first.process.make_anonymous();
    }
    first.process.fault(Call::Offsets, 1, Fault::Freeze);
    cluster.add(2);
    eventually("stopped", || first.process.is_frozen());
    let second = cluster.start("b", "");
    cluster.broker.expire_member(SUMS, "a");
    let before = cluster.broker.commits(SUMS).len();
    // It has folded and committed what the first is about to commit.
    eventually("taken over", || cluster.broker.commits(SUMS).len() > before);
    first.process.thaw();
    cluster.add(3);
    cluster.until_answered();
    cluster.until_shared_by(2);
    cluster.add(4);
    cluster.until_answered();
    cluster.ends_exact([first, second])
}

#[test]
fn ep_7_a_zombie_that_wakes_in_the_middle_of_a_publish_commits_nothing() {
    assert!(woken_in_the_middle_of_a_publish(true));
    assert!(!woken_in_the_middle_of_a_publish(false));
}

/// Two processes under one name: the newcomer has it, the other one ends with 12 and does not fight.
#[test]
fn ep_7_a_twin_takes_the_name_and_the_other_ends_with_12() {
    let mut cluster = Cluster::new();
    let first = cluster.start("a", "");
    cluster.add(1);
    cluster.until_answered();
    // A state directory of its own, as on another machine.
    let twin = cluster.start_as("a", "twin", "");
    let error = Cluster::failed(first);
    assert_eq!(error.exit_code(), ExitCode::Fenced, "{error}");
    cluster.add(2);
    cluster.until_answered();
    cluster.assert_exact();
    cluster.stop(twin);
}

/// A request to join that an overloaded broker got late made an instance's former self the newcomer under its name: the instance was fenced and
/// ended with 12, although no other process had the name. It has to drop what it was about to commit and to join again.
#[test]
fn ep_7_who_is_fenced_by_its_own_former_self_goes_on() {
    let mut cluster = Cluster::new();
    let instance = cluster.start("a", "");
    cluster.add(1);
    cluster.until_answered();
    // The fence comes while an epoch waits for the store.
    for k in 1..=9 {
        instance
            .process
            .fault(Call::Put, k, Fault::Fail(LogErrorKind::Retriable));
    }
    cluster.add(2);
    eventually("the store fails", || instance.process.calls(Call::Put) > 4);
    let commits = cluster.broker.commits(SUMS).len();
    let rebalances = instance.metrics.rebalances();
    cluster.broker.join_late(SUMS, "a");
    eventually("fenced", || instance.metrics.rebalances() > rebalances);
    cluster.add(3);
    // As long as its former self is there it commits nothing.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(cluster.broker.commits(SUMS).len(), commits);
    cluster.broker.expire_member(SUMS, "a");
    cluster.until_answered();
    cluster.assert_exact();
    cluster.stop(instance);
}

/// The pointers of a shard that the store knows are gone: that is no fresh start, in group mode either.
#[test]
fn ep_6_a_shard_whose_pointer_is_lost_is_refused() {
    let mut cluster = Cluster::new();
    let first = cluster.start("a", "");
    cluster.add(1);
    cluster.until_answered();
    cluster.stop(first);
    cluster.broker.lose_offsets(SUMS);
    let again = cluster.start("a", "");
    let error = Cluster::failed(again);
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn, "{error}");
    assert!(error.to_string().contains("no offset is committed"), "{error}");
}

/// They are lost under an instance that runs, and it finds out with its next assignment.
#[test]
fn ep_6_a_shard_whose_pointer_is_lost_between_two_assignments_is_refused() {
    let mut cluster = Cluster::new();
    let instance = cluster.start("a", "");
    cluster.add(1);
    cluster.until_answered();
    cluster.broker.lose_offsets(SUMS);
    cluster.broker.expire_member(SUMS, "a");
    let error = Cluster::failed(instance);
    assert_eq!(error.exit_code(), ExitCode::CannotGoOn, "{error}");
    assert!(error.to_string().contains("no offset is committed"), "{error}");
    assert!(cluster.broker.group(SUMS).members.is_empty(), "it has left");
}

/// A user's function that does not return kept its shards for ever: calls of the client went on, so the group took the instance for
/// alive. Without a sign of life from the lanes the group is not polled any more, and others take over; records are not lost with it.
#[test]
fn an_instance_that_hangs_stops_polling_the_group_and_others_take_over() {
    let mut cluster = Cluster::new();
    let first = cluster.start("a", "");
    cluster.add(1);
    cluster.until_answered();
    first.hangs.store(true, Ordering::SeqCst);
    cluster.add(2);
    eventually("not progressing, and said", || first.metrics.is_stalled());
    // The client's max.poll.interval is over.
    cluster.broker.expire_member(SUMS, "a");
    let second = cluster.start("b", "");
    cluster.until_answered();
    first.hangs.store(false, Ordering::SeqCst);
    cluster.until_shared_by(2);
    cluster.add(3);
    cluster.until_answered();
    cluster.assert_exact();
    eventually("progressing again", || !first.metrics.is_stalled());
    assert!(first.metrics.rebalances() > 0);
    cluster.stop(first);
    cluster.stop(second);
}

/// The instance `a` dies with the offsets of one shard sent and not decided, and leaves the group; returns how many commits there were.
fn dies_undecided(cluster: &mut Cluster, instance: &Instance) -> usize {
    instance.process.fault(Call::Commit, 1, Fault::CrashBefore);
    cluster.add_to_one_partition(5);
    eventually("dead", || instance.thread.is_finished());
    let commits = cluster.broker.commits(SUMS).len();
    cluster.broker.expire_member(SUMS, "a");
    commits
}

/// A transaction that nobody ends holds the pointer of one shard undecided. The shard waits; the others of the same instance do not.
#[test]
fn ep_10_a_shard_whose_pointer_is_undecided_keeps_no_other_waiting() {
    let mut cluster = Cluster::new();
    let first = cluster.start("a", "");
    cluster.add(1);
    cluster.until_answered();
    let before = dies_undecided(&mut cluster, &first);
    cluster.copies["a"].crash();
    let second = cluster.start("b", "");
    // Its predecessor's transaction lasts a minute; what it does not name moves at once.
    cluster.add(2);
    eventually("other shards commit", || cluster.broker.commits(SUMS).len() > before);
    // A session that was opened anew used to read back all that was assigned, and all shards waited for the one.
    let sessions = second.process.calls(Call::Session);
    second.process.make_suspect();
    cluster.add(3);
    eventually("a new session", || second.process.calls(Call::Session) > sessions);
    let before = cluster.broker.commits(SUMS).len();
    cluster.add(4);
    eventually("they commit in it", || cluster.broker.commits(SUMS).len() > before);
    cluster.broker.time_out(&format!("{SUMS}.a"));
    cluster.until_answered();
    cluster.assert_exact();
    cluster.stop(second);
}

/// When a shard that was late comes in, the lanes end, and with them what waits for local copies to take it: the shards that went on meanwhile begin
/// again from their copies alone.
#[test]
fn ep_4_shards_whose_copies_take_turns_lose_nothing_when_another_is_let_in() {
    let mut cluster = Cluster::new();
    cluster.configure = |config| config.at_once_bytes = 0;
    let first = cluster.start("a", "");
    cluster.add(1);
    cluster.until_answered();
    let mut commits = dies_undecided(&mut cluster, &first);
    let second = cluster.start("b", "");
    // Enough epochs of the same keys that copies take turns of eight.
    for value in 2..40 {
        cluster.add(value);
        eventually("other shards commit", || cluster.broker.commits(SUMS).len() > commits);
        commits = cluster.broker.commits(SUMS).len();
    }
    cluster.broker.time_out(&format!("{SUMS}.a"));
    cluster.until_answered();
    cluster.add(40);
    cluster.until_answered();
    cluster.assert_exact();
    cluster.stop(second);
}
