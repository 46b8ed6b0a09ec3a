//! Instances that share the partitions join, leave and are refused at bad moments.
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use keyfold_checker::{Running, Watching};
use keyfold_e2e::worker::{EXIT_CANNOT_GO_ON, EXIT_FENCED, Told};
use keyfold_e2e::{Broker, Feed, Worker, WorkerOptions};

use crate::scene::{Scene, end_of, killed, stop, until, wait};

/// Records of one run at least.
const RECORDS: u64 = 4000;

/// A job in group mode: each instance with a name, local state and log of its own.
pub struct Shared<'a> {
    pub scene: Scene<'a>,
    checker: Running,
    watch: Watching,
    feed: Feed,
}

impl Shared<'_> {
    fn new(name: &str) -> Shared<'static> {
        Shared::on(Broker::shared(), name)
    }

    pub fn on<'a>(broker: &'a Broker, name: &str) -> Shared<'a> {
        Shared::over(Scene::new(broker, name, 4), 1000)
    }

    /// A job over this scene, with so many records a second.
    pub fn over(scene: Scene<'_>, rate: u64) -> Shared<'_> {
        let (checker, watch, feed) = (scene.checker(), scene.watch(), scene.feed(rate));
        Shared {
            scene,
            checker,
            watch,
            feed,
        }
    }

    fn options(&self, name: &str, faults: &str, more: &[&str]) -> WorkerOptions {
        let flags = [&["--group", "--instance", name], more].concat();
        let mut options = self.scene.options(faults, &flags);
        options.state_dir = self.scene.dir.path().join(name);
        options.log = self.scene.dir.path().join(format!("{name}.log"));
        options
    }

    pub fn start(&self, name: &str, faults: &str, more: &[&str]) -> Worker {
        Worker::start(&self.options(name, faults, more)).expect("worker")
    }

    /// An instance that leaves when it stops, and has committed something already.
    pub fn at_work(&self, name: &str) -> Worker {
        let mut worker = self.start(name, "", &["--leave"]);
        until(&mut worker, "a commit", |told| told.committed > 0);
        worker
    }

    fn log(&self, name: &str) -> String {
        let path = self.scene.dir.path().join(format!("{name}.log"));
        String::from_utf8_lossy(&std::fs::read(path).expect("a log")).into_owned()
    }

    /// Committed offsets by partition.
    fn offsets(&self) -> BTreeMap<i32, i64> {
        let committed = match self.scene.stable {
            true => self.scene.committed(),
            false => self.scene.committed_so_far(),
        };
        committed.iter().map(|c| (c.partition, c.offset)).collect()
    }

    /// Waits until every partition has got further than it is now.
    pub fn every_partition_goes_on(&self, what: &str) {
        let before = self.offsets();
        wait(&format!("{what}: progress of every partition"), || {
            let now = self.offsets();
            let further = |p: i32| now.get(&p) > before.get(&p);
            (0..4).all(further).then_some(())
        });
    }

    /// Everything is answered exactly once, the instances end in good order and no pointer has gone back.
    pub fn finish(self, workers: Vec<Worker>) -> Vec<Told> {
        let Shared {
            scene,
            checker,
            watch,
            feed,
        } = self;
        let told = scene.finish_all(feed, RECORDS, checker, workers);
        let watched = watch.finish();
        assert!(watched.ok(), "{watched:?}");
        told
    }
}

pub fn until_said(worker: &mut Worker, text: &str) {
    until(worker, text, |told| {
        told.last_lines.iter().any(|line| line.contains(text))
    });
}

/// An instance joins while the other one's epoch object is half written. With time for it the epoch is finished before the partitions are
/// given back; without, it is dropped and never sent.
fn joined_while_an_object_is_written(name: &str, budget_ms: &str) -> String {
    let shared = Shared::new(name);
    let faults = "object_staged=sleep:6000@6";
    let mut a = shared.start("a", faults, &["--leave", "--revoke-budget-ms", budget_ms]);
    until_said(&mut a, "fail point object_staged");
    let b = shared.at_work("b");
    shared.every_partition_goes_on("shared by two");
    let log = shared.log("a");
    shared.finish(vec![a, b]);
    log
}

/// A revocation came while an epoch was being uploaded, and it was committed for partitions that another instance had by then.
#[test]
fn row_21_instance_joins_while_an_object_is_written_and_the_epoch_is_dropped() {
    let log = joined_while_an_object_is_written("row21-dropped", "500");
    assert!(log.contains("the assignment is dropped"), "{log}");
}

#[test]
fn row_21_instance_joins_while_an_object_is_written_and_waits_for_the_epoch() {
    let log = joined_while_an_object_is_written("row21-waits", "20000");
    assert!(!log.contains("the assignment is dropped"), "{log}");
    assert!(log.matches(": assigned ").count() >= 2, "nothing was taken back: {log}");
}

/// A rebalance during a recovery left partitions without a position: a crash loop, or records that were never read. Here two instances are
/// in the middle of restoring when a third one takes its share.
#[test]
fn row_22_instance_joins_while_shards_are_restored() {
    let shared = Shared::new("row22");
    let mut former = shared.start("former", "", &["--leave"]);
    until(&mut former, "something to restore", |told| told.committed > 3000);
    stop(former);
    let faults = "mid_restore=sleep:5000@3";
    let mut a = shared.start("a", faults, &["--leave"]);
    let mut b = shared.start("b", faults, &["--leave"]);
    until_said(&mut a, "fail point mid_restore");
    let c = shared.at_work("c");
    for worker in [&mut a, &mut b] {
        until(worker, "a commit", |told| told.committed > 0);
    }
    // One of its shards may flow already: what it was given next is told once the restore of the other has ended.
    until(&mut a, "given other partitions while it restored", |_| {
        let log = shared.log("a");
        let restoring = log.find("fail point mid_restore").expect("it slept");
        log[restoring..].contains(": assigned ")
    });
    shared.every_partition_goes_on("shared by three");
    shared.finish(vec![a, b, c]);
}

/// An instance of another version of the job, or of the same one with another store or topic, joined the group of those that run. It has
/// to go with the reason, and nothing of it may be folded or committed.
#[test]
fn row_53_another_topology_store_or_topic_in_the_group_is_refused_and_the_others_go_on() {
    let shared = Shared::new("row53");
    let a = shared.at_work("a");
    let mut other_topology = shared.options("topology", "", &["--leave", "--key-id", "renamed"]);
    other_topology.log = shared.scene.dir.path().join("topology.log");
    let mut other_store = shared.options("store", "", &["--leave"]);
    other_store.store_dir = shared.scene.dir.path().join("other-store");
    let mut other_topic = shared.options("topic", "", &["--leave"]);
    other_topic.input = shared.scene.broker.fresh_topic("row53-other", 4).expect("topic");
    for (options, names) in [
        (&other_topology, "topology"),
        (&other_store, "store"),
        (&other_topic, other_topic.input.as_str()),
    ] {
        let (code, message, told) = end_of(Worker::start(options).expect("worker"));
        assert_eq!(code, EXIT_CANNOT_GO_ON, "{names}: {message}");
        assert!(message.contains(names), "{names}: {message}");
        assert_eq!(told.committed, 0, "{names}");
        shared.every_partition_goes_on(names);
    }
    shared.finish(vec![a]);
}

/// Two modes of one job side by side: neither sees the other's fence by itself, and a classic group takes offsets of generation -1.
#[test]
fn row_19_single_mode_beside_group_mode_is_refused() {
    let shared = Shared::new("row19-group-first");
    let a = shared.at_work("a");
    for more in [&[][..], &["--take-over"]] {
        let mut single = shared.scene.options("", more);
        single.state_dir = shared.scene.dir.path().join("single");
        let (code, message, told) = end_of(Worker::start(&single).expect("worker"));
        assert_eq!(code, EXIT_CANNOT_GO_ON, "{message}");
        assert!(message.contains("has members"), "{message}");
        assert_eq!(told.committed, 0);
    }
    shared.every_partition_goes_on("the group");
    shared.finish(vec![a]);
}

#[test]
fn row_19_group_mode_beside_single_mode_fences_it_or_is_refused() {
    let shared = Shared::new("row19-single-first");
    let mut single = shared.scene.worker("", &[]);
    until(&mut single, "a commit", |told| told.committed > 0);
    let mut a = shared.start("a", "", &["--leave"]);
    wait("one of them ends", || {
        let ended = [&mut single, &mut a].map(|worker| worker.ended().expect("asked").is_some());
        ended.contains(&true).then_some(())
    });
    let (goes, stays, code) = match single.ended().expect("asked") {
        Some(_) => (single, a, EXIT_FENCED),
        None => (a, single, EXIT_CANNOT_GO_ON),
    };
    let (ended, message, _) = end_of(goes);
    assert_eq!(ended, code, "{message}");
    shared.every_partition_goes_on("the other");
    shared.finish(vec![stays]);
}

/// An instance in group mode fenced an owner in single mode and restored. The owner opened another session meanwhile, under which the group
/// took its offsets, and both committed on top of the same epoch: every output of that time was there twice.
#[test]
fn row_19_single_mode_owner_that_opens_its_session_again_finds_the_group_and_exits() {
    let shared = Shared::new("row19-again");
    let mut single = shared.scene.worker("", &["--transaction-timeout-ms", "2000"]);
    until(&mut single, "commits", |told| told.committed > 500);
    // Long enough for the fenced one to look at the pointer, find its own and believe that nobody has taken over.
    let mut a = shared.start("a", "mid_restore=sleep:15000@1", &["--leave"]);
    until_said(&mut a, "fail point mid_restore");
    let (ended, message, _) = end_of(single);
    assert_eq!(ended, EXIT_FENCED, "{message}");
    until(&mut a, "a commit", |told| told.committed > 0);
    shared.every_partition_goes_on("the group");
    shared.finish(vec![a]);
}

/// A process died between sending its offsets and the commit, again and again. With a transactional id of its own each time, the next one
/// would be stuck until the transaction times out (here 10 minutes), or begin from the start positions.
#[test]
fn row_6_kill_between_offsets_and_commit_in_group_mode_five_times_under_one_name() {
    let shared = Shared::new("row6-group");
    for number in 0..5 {
        let more = ["--transaction-timeout-ms", "600000"];
        killed(shared.start("a", "post_send_offsets=kill@3", &more));
        let committed = shared.scene.committed_so_far();
        let begin = Instant::now();
        let mut next = shared.start("a", "", &more);
        let told = until(&mut next, "a start", |told| told.started.is_some());
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(30), "start {number} took {took:?}");
        let resumed = |epoch: &String| committed.iter().any(|c| c.epoch == *epoch);
        assert!(
            told.started.as_ref().is_some_and(resumed),
            "start {number}: {committed:?}"
        );
        next.kill9().expect("killed");
    }
    let last = shared.start("a", "", &["--leave"]);
    shared.finish(vec![last]);
}

/// A partition that is taken away and given back had its new queue's wake-up removed with the old queue: it stood still, and nobody noticed.
#[test]
fn row_23_instances_join_and_leave_ten_times_and_every_partition_goes_on() {
    let shared = Shared::new("row23");
    let a = shared.at_work("a");
    for number in 0..10 {
        let name = ["0", "b"][number % 2];
        let b = shared.at_work(name);
        if number % 3 == 0 {
            shared.every_partition_goes_on("shared by two");
        }
        stop(b);
        shared.every_partition_goes_on("alone again");
    }
    shared.finish(vec![a]);
}
