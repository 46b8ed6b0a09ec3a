//! Members of a scene's group: how they are started, and what they own.
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use keyfold_checker::pointer::Pointer;
use keyfold_e2e::{Worker, WorkerOptions};
use rdkafka::topic_partition_list::TopicPartitionList;

use crate::scene::{LONG, Scene};

/// So soon the others take over from a member that is dead. A member that is alive gets by with it on a busy machine.
pub const SESSION_MS: u64 = 3000;

/// A member of the group, called `who`, with a state directory of its own.
pub fn options(scene: &Scene, who: &str, faults: &str) -> WorkerOptions {
    let mut options = scene.options(who, faults);
    options.more = vec!["--group".into(), "--instance".into(), who.into()];
    set(&mut options, "--session-timeout-ms", SESSION_MS);
    set(&mut options, "--max-poll-interval-ms", 10_000);
    set(&mut options, "--transaction-timeout-ms", 10_000);
    options
}

/// Nobody waits for the end of such a session in a test.
pub const ENDLESS_MS: u64 = 300_000;

/// As [`options`], with a session and a poll interval that do not end.
pub fn patient(scene: &Scene, who: &str) -> WorkerOptions {
    let mut options = options(scene, who, "");
    set(&mut options, "--session-timeout-ms", ENDLESS_MS);
    set(&mut options, "--max-poll-interval-ms", ENDLESS_MS);
    options
}

pub fn set(options: &mut WorkerOptions, flag: &str, value: u64) {
    if let Some(at) = options.more.iter().position(|have| have == flag) {
        options.more.drain(at..at + 2);
    }
    options.more.extend([flag.to_owned(), value.to_string()]);
}

/// Starts a member that owns so many partitions when this returns.
pub fn start(scene: &Scene, who: &str, faults: &str, owns: usize) -> Worker {
    start_with(scene, who, &options(scene, who, faults), owns)
}

pub fn start_with(scene: &Scene, who: &str, options: &WorkerOptions, owns: usize) -> Worker {
    let worker = Worker::start(options).expect("worker");
    until_it_owns(scene, who, owns);
    worker
}

/// Waits until records flow for so many partitions of the member, and for all that it was given.
pub fn until_it_owns(scene: &Scene, who: &str, count: usize) {
    let wanted = Some(Owns {
        flowing: count,
        missing: 0,
    });
    wait(
        &format!("{who} owns {count}"),
        || scene.log(who),
        || owned(scene, who) == wanted,
    );
}

/// What a member owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owns {
    pub flowing: usize,
    pub missing: usize,
}

/// As the member has told last; none while it works on nothing.
pub fn owned(scene: &Scene, who: &str) -> Option<Owns> {
    let log = scene.log(who);
    let run = log.rsplit("--- pid ").next().unwrap_or_default();
    let told = |line: &&str| line.contains(": processing shards=") || line.contains(": assigned generation=");
    let last = run.lines().rfind(told)?;
    let number = |name: &str| last.split(name).nth(1)?.split(' ').next()?.trim().parse().ok();
    Some(Owns {
        flowing: number("processing shards=")?,
        missing: number("missing=")?,
    })
}

/// How often a member was given partitions, over all its runs.
pub fn assignments(scene: &Scene, who: &str) -> usize {
    scene.log(who).matches(": assigned generation=").count()
}

/// Waits until something holds.
pub fn wait(what: &str, why: impl Fn() -> String, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < LONG, "never {what}: {}", why());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// With a switch on, what the protection prevents has to happen.
pub fn assert_broken(scene: &Scene, members: &[&str]) {
    let logs = || members.iter().map(|who| scene.log(who)).collect::<Vec<_>>().join("\n");
    assert!(
        scene.wait_for_violation().is_some(),
        "the switch has broken nothing: {}",
        logs()
    );
}

/// A file at which a member waits, see `wait:<path>` of the fail points.
pub struct Gate(PathBuf);

impl Gate {
    pub fn new(scene: &Scene) -> Gate {
        Gate(scene.dir.path().join("gate"))
    }

    /// The k-th time at this point.
    pub fn at(&self, point: &str, k: u64) -> String {
        format!("{point}=wait:{}@{k}", self.0.display())
    }

    pub fn open(&self) {
        std::fs::write(&self.0, "").expect("written");
    }
}

/// The epoch of each partition's pointer.
pub fn epochs(list: &TopicPartitionList) -> BTreeMap<i32, String> {
    let epoch = |metadata: &str| {
        Pointer::parse(metadata)
            .map(|p| p.epoch.to_string())
            .unwrap_or_default()
    };
    let elements = list.elements();
    let named = elements.iter().map(|e| (e.partition(), epoch(e.metadata())));
    named.collect()
}

/// The epoch from which a member has resumed each partition, most recently.
pub fn resumed(scene: &Scene, who: &str) -> BTreeMap<i32, String> {
    let log = scene.log(who);
    let lines = log.lines().filter_map(|line| line.split(": resumed shard=").nth(1));
    let parsed = |rest: &str| {
        let (shard, epoch) = rest.split_once(" epoch=")?;
        Some((shard.parse().ok()?, epoch.trim().to_owned()))
    };
    lines.filter_map(parsed).collect()
}
