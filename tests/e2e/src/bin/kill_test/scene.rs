//! Everything that runs beside the workers, and the judgement at the end.
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use keyfold_checker::{Checker, Counts, OwnerWatch, PointerWatch, Running, WatchOptions, Watching, WatchingOwners};
use keyfold_e2e::broker::free_port;
use keyfold_e2e::rng::Rng;
use keyfold_e2e::worker::Told;
use keyfold_e2e::{Broker, Feed, FeedOptions, Worker, WorkerOptions};

use crate::Args;
use crate::round::ensure_alive;

const INPUT: &str = "kill-in";
const OUTPUT: &str = "kill-out";
const JOB: &str = "kill-test";
pub const PARTITIONS: i32 = 4;
const KEYS: u64 = 20_000;

/// Seconds that a round takes, roughly; the input is paced by it, so that it flows during every round.
const ROUND_SECONDS: u64 = 9;

/// Handovers that 30 rounds in group mode have to show: one for each round that is about them, and fewer say that the rounds did
/// not do what they are for.
const HANDOVERS: usize = 8;

/// Marks the directory as ours to empty.
const MARK: &str = "keyfold-kill-test";

/// How long the last run may go without an output more.
const STALL: Duration = Duration::from_secs(60);

/// A base after so many epochs: several in every round. At four times as many a stage stands still, so it is not less.
const CHAIN_OBJECTS: u64 = 10;
/// Garbage is collected from half a minute on; what a round's outage of the broker delays for more than a third of it is written again.
const GRACE_MS: u64 = 30_000;
/// Of so many deaths one takes the local copies with it, so that the next start fetches bases.
const COPIES_LOST_OF: u64 = 3;
/// Rounds from which on bases, restores from them and collection must have been seen.
const UPKEEP_FROM: usize = 10;

/// What the workers have done for the checkpoint store, as far as they have told.
#[derive(Debug, Default)]
pub struct Upkept {
    bases: u64,
    fetched: u64,
    collected: u64,
    rewritten: u64,
}

impl Upkept {
    /// One more that has ended.
    pub fn add(&mut self, told: &Told) {
        self.bases += told.upkeep.bases;
        self.fetched += told.upkeep.fetched;
        self.collected += told.upkeep.collected;
        self.rewritten += told.upkeep.rewritten;
    }
}

/// The stage.
pub struct Scene {
    /// The settings.
    pub args: Args,
    /// For moments and counts.
    pub rng: Rng,
    /// The broker.
    pub broker: Broker,
    /// What the dead have done.
    pub upkeep: Upkept,
    dir: PathBuf,
    feed: Feed,
    checker: Running,
    watch: Watching,
    /// In group mode: who works on what.
    owners: Option<WatchingOwners>,
    interrupted: Arc<AtomicBool>,
    begin: Instant,
}

impl Scene {
    /// Starts everything but the worker.
    pub fn set(args: &Args, seed: u64, interrupted: Arc<AtomicBool>) -> Result<Scene> {
        let begin = Instant::now();
        let dir = empty_dir(&args.dir)?;
        let broker = Broker::start(&dir.join("broker"), free_port()?)?;
        for topic in [INPUT, OUTPUT] {
            broker.create_topic(topic, PARTITIONS, &[])?;
        }
        let brokers = broker.bootstrap();
        let rate = args.records() / (args.rounds.max(1) as u64 * ROUND_SECONDS) + 1;
        let (topic, keys) = (INPUT.to_owned(), KEYS);
        let feed = Feed::start(FeedOptions {
            brokers: brokers.clone(),
            topic,
            rate,
            keys,
            seed,
        })?;
        let checker = Checker::start(&brokers, INPUT, OUTPUT)?;
        let watched = WatchOptions {
            brokers,
            job: JOB.into(),
            stage: None,
            topics: vec![INPUT.into()],
            store: dir.join("store"),
            stable: false,
        };
        let owners = (!args.single).then(|| OwnerWatch::start(watched.clone())).transpose()?;
        let watch = PointerWatch::start(watched)?;
        println!(
            "kill-test: broker pid {:?}, {rate} records a second, {}",
            broker.pid(),
            dir.display()
        );
        let rng = Rng::new(seed ^ 1);
        Ok(Scene {
            args: args.clone(),
            rng,
            broker,
            upkeep: Upkept::default(),
            dir,
            feed,
            checker,
            watch,
            owners,
            interrupted,
            begin,
        })
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> u64 {
        self.begin.elapsed().as_secs()
    }

    /// Starts a worker, with a fail point or without. `name` is that of its local state and of its log.
    pub fn worker(&self, name: &str, more: Vec<String>, faults: Option<String>) -> Result<Worker> {
        let mut more = more;
        for (flag, value) in [("--chain-objects", CHAIN_OBJECTS), ("--grace-ms", GRACE_MS)] {
            more.extend([flag.to_owned(), value.to_string()]);
        }
        let both: Vec<String> = self.args.faults.iter().cloned().chain(faults).collect();
        Worker::start(&WorkerOptions {
            brokers: self.broker.bootstrap(),
            input: INPUT.into(),
            output: OUTPUT.into(),
            job: JOB.into(),
            state_dir: self.state_dir(name),
            store_dir: self.dir.join("store"),
            epoch_ms: self.args.epoch_ms,
            take_over: false,
            at_least_once: self.args.at_least_once,
            faults: (!both.is_empty()).then(|| both.join(";")),
            more,
            log: self.dir.join(format!("{name}.log")),
        })
    }

    /// A worker's local state is lost.
    pub fn lose_state(&self, name: &str) -> Result<()> {
        match fs::remove_dir_all(self.state_dir(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error).context("removing the state"),
            _ => Ok(()),
        }
    }

    /// The disk with the local copies is empty; what the instance knows of itself is kept.
    pub fn lose_copies(&self, name: &str) -> Result<()> {
        let Ok(entries) = fs::read_dir(self.state_dir(name)) else {
            return Ok(());
        };
        for entry in entries {
            let path = entry.context("listing the state")?.path();
            if path.is_dir() {
                fs::remove_dir_all(&path).context("removing the local copies")?;
            }
        }
        Ok(())
    }

    /// The same, for one death of some. Says so.
    pub fn lose_copies_now_and_then(&mut self, name: &str) -> Result<&'static str> {
        if self.rng.below(COPIES_LOST_OF) != 0 {
            return Ok("");
        }
        self.lose_copies(name)?;
        Ok(", local copies lost")
    }

    fn state_dir(&self, name: &str) -> PathBuf {
        self.dir.join("state").join(name)
    }

    /// Who works on what, in group mode.
    pub fn owners(&self) -> Result<&WatchingOwners> {
        self.owners
            .as_ref()
            .context("invariant: owners are watched in group mode")
    }

    /// Fails as soon as anything is known to be wrong, or somebody wants the program to end.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.interrupted.load(Ordering::SeqCst), "interrupted");
        let wrong = [self.checker.violation(), self.watch.violation(), self.feed.failure()];
        match wrong.into_iter().flatten().next() {
            Some(wrong) => bail!("{wrong}"),
            None => Ok(()),
        }
    }

    /// Sleeps, with an eye on everything.
    pub fn pause(&self, time: Duration) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < time {
            self.check()?;
            std::thread::sleep(Duration::from_millis(20).min(time));
        }
        self.check()
    }

    /// As [`Scene::pause`], for a random time.
    pub fn pause_between(&mut self, low_ms: u64, high_ms: u64) -> Result<()> {
        let time = Duration::from_millis(self.rng.between(low_ms, high_ms));
        self.pause(time)
    }

    /// Committed outputs, as the checker has read them.
    pub fn outputs(&self) -> u64 {
        self.checker.counts().records_out
    }

    /// One line on how far all is.
    pub fn progress(&self) -> String {
        let counts = self.checker.counts();
        let handovers = self
            .owners
            .as_ref()
            .map(|o| format!(", handovers {}", o.handovers().len()));
        format!(
            "in {} out {} of {} sent{}",
            counts.records_in,
            counts.records_out,
            self.feed.sent(),
            handovers.unwrap_or_default()
        )
    }

    /// The last run of the workers and the verdict; the last line is printed in any case.
    pub fn judge(self, counted: usize, played: Result<Vec<Worker>>) -> bool {
        let rounds = self.args.rounds;
        let mut faults = Vec::new();
        if counted < rounds {
            faults.push(format!("only {counted} of {rounds} rounds counted"));
        }
        let mut counts = self.checker.counts();
        let mut handovers = self.owners.as_ref().map(|o| o.handovers().len());
        match played.and_then(|workers| self.end(workers, &mut faults)) {
            Ok((last, moved)) => (counts, handovers) = (last, moved),
            Err(error) => faults.insert(0, format!("{error:#}")),
        }
        let wanted = (rounds * HANDOVERS).div_ceil(30);
        if let Some(moved) = handovers.filter(|moved| *moved < wanted) {
            faults.push(format!("{moved} handovers, and {rounds} rounds have at least {wanted}"));
        }
        faults.iter().for_each(|fault| println!("kill-test: {fault}"));
        let ok = faults.is_empty() && counts.ok();
        println!("{}", last_line(counted, &counts, handovers, ok));
        ok
    }

    /// Everything is produced, processed and read to the end.
    fn end(self, mut workers: Vec<Worker>, faults: &mut Vec<String>) -> Result<(Counts, Option<usize>)> {
        let pids: Vec<u32> = workers.iter().map(Worker::pid).collect();
        println!("last run: pids {pids:?}, {}", self.progress());
        let interrupted = self.interrupted.clone();
        let Scene {
            mut upkeep,
            broker,
            feed,
            checker,
            watch,
            owners,
            args,
            begin,
            ..
        } = self;
        let produced = feed.finish(args.records(), Duration::from_secs(600))?;
        process_all(&mut workers, &checker, &watch, produced, &interrupted)?;
        faults.extend(stop_all(&mut workers)?);
        workers.iter().for_each(|worker| upkeep.add(&worker.told()));
        finish_upkeep(&upkeep, args.rounds, faults);
        let report = checker.finish(Duration::from_secs(120))?;
        faults.extend(report.offenders.iter().map(ToString::to_string));
        if report.counts.records_in != produced {
            faults.push(format!(
                "{produced} records were produced and {} read",
                report.counts.records_in
            ));
        }
        finish_watch(watch, faults);
        println!("kill-test: {} seconds", begin.elapsed().as_secs());
        let handovers = owners.map(|owners| owners.handovers());
        if let Some(handovers) = &handovers {
            let each: Vec<String> = handovers.iter().map(ToString::to_string).collect();
            println!("handovers: {}", each.join(" "));
        }
        drop(broker);
        Ok((report.counts, handovers.map(|h| h.len())))
    }
}

fn last_line(counted: usize, counts: &Counts, handovers: Option<usize>, ok: bool) -> String {
    let Counts {
        records_in,
        records_out,
        lost,
        duplicated,
        stale,
        ..
    } = counts;
    let handovers = handovers.map(|n| format!(" handovers={n}")).unwrap_or_default();
    let verdict = if ok { "OK" } else { "FAILED" };
    format!(
        "rounds={counted} in={records_in} out={records_out} lost={lost} duplicated={duplicated} stale={stale}{handovers} verdict={verdict}"
    )
}

fn finish_upkeep(upkeep: &Upkept, rounds: usize, faults: &mut Vec<String>) {
    let Upkept {
        bases,
        fetched,
        collected,
        rewritten,
    } = upkeep;
    println!("upkeep: bases={bases} fetched_bytes={fetched} collected={collected} rewritten={rewritten}");
    let seen = [
        ("bases", bases),
        ("bases fetched", fetched),
        ("objects collected", collected),
    ];
    for (what, _) in seen.iter().filter(|(_, count)| **count == 0 && rounds >= UPKEEP_FROM) {
        faults.push(format!("no {what} in {rounds} rounds"));
    }
}

fn finish_watch(watch: Watching, faults: &mut Vec<String>) {
    let watched = watch.finish();
    println!(
        "pointers: polls={} unanswered={} checks={} epochs={} objects={} bases={} violations={}",
        watched.polls,
        watched.unanswered,
        watched.checks,
        watched.epochs,
        watched.objects,
        watched.bases,
        watched.violations.len()
    );
    if !watched.ok() {
        faults.push("the watch has seen no pointer, or a wrong one".into());
    }
    faults.extend(watched.violations);
}

/// SIGTERM to all; what was wrong with how they ended.
fn stop_all(workers: &mut [Worker]) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for worker in workers.iter_mut() {
        worker.signal(libc::SIGTERM)?;
    }
    for worker in workers {
        match worker.wait(Duration::from_secs(60))? {
            Some(status) if status.success() => {}
            Some(status) => faults.push(format!("after SIGTERM the worker {} ended with {status}", worker.pid())),
            None => faults.push(format!(
                "the worker {} did not end within 60 s of SIGTERM",
                worker.pid()
            )),
        }
    }
    Ok(faults)
}

/// Waits until every record has an output; stops when nothing moves any more.
fn process_all(
    workers: &mut [Worker],
    checker: &Running,
    watch: &Watching,
    produced: u64,
    interrupted: &AtomicBool,
) -> Result<()> {
    let (mut last, mut moved) = (0, Instant::now());
    loop {
        let counts = checker.counts();
        if counts.records_in >= produced && counts.records_out >= counts.records_in {
            return Ok(());
        }
        if let Some(wrong) = checker.violation().or_else(|| watch.violation()) {
            bail!("{wrong}");
        }
        if counts.records_out != last {
            (last, moved) = (counts.records_out, Instant::now());
        }
        ensure!(!interrupted.load(Ordering::SeqCst), "interrupted");
        ensure!(
            moved.elapsed() < STALL,
            "{last} outputs of {produced}, and no more for {} s",
            STALL.as_secs()
        );
        workers.iter_mut().try_for_each(ensure_alive)?;
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Makes the directory, or empties it if it is one of ours.
fn empty_dir(dir: &Path) -> Result<PathBuf> {
    if dir.exists() {
        let ours = dir.join(MARK).is_file() || fs::read_dir(dir)?.next().is_none();
        ensure!(ours, "{} is not empty and was not made by this program", dir.display());
        fs::remove_dir_all(dir).with_context(|| format!("emptying {}", dir.display()))?;
    }
    for part in ["", "store", "state"] {
        fs::create_dir_all(dir.join(part)).with_context(|| format!("creating {}", dir.display()))?;
    }
    fs::write(dir.join(MARK), "")?;
    dir.canonicalize().context("the directory")
}
