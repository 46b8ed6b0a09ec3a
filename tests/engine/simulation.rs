//! A seeded simulation: random input, lost acknowledgements, time-outs, crashes at the n-th call to log or store, and a second instance
//! that waits or takes over. Only log, store, clock and local copies are replaced; all else is the runtime's own.
//!
//! Faults and crash points come from the seed. The data plane's threads run as they like, so that a seed is no replay of every step, but
//! it makes the same kind of trouble. `KEYFOLD_SIM_SEED` runs one seed, `KEYFOLD_SIM_RUNS` so many.
use keyfold::checkpoint::object::{ObjectError, ObjectReader};
use keyfold::checkpoint::pointer::Pointer;
use keyfold::checkpoint::reach::Reach;
use keyfold::checkpoint::store::{Layout, MemoryStore, Store, StoreError};
use keyfold::config::Config;
use keyfold::operator::{KeyedProcess, ProcessContext, ProcessError, ValueState};
use keyfold::runtime::{ExitCode, Runtime, StopHandle};
use keyfold::sink::LogErrorKind;
use keyfold::state::backend::memory::MemoryFactory;
use keyfold::testing::{Call, Fault, Faults, MemoryBroker, Process, ProcessStore, RunEnd, TestRecord};
use keyfold::topology::{Job, Topology, TopologyError};
use keyfold::types::codec::{Postcard, Utf8};
use keyfold::types::{Clock, Sequence, Shard, SystemClock};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// splitmix64
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The machine's clock, so many times as fast.
#[derive(Default)]
struct FastClock(SystemClock);
const SPEED: u32 = 20;

impl Clock for FastClock {
    fn elapsed(&self) -> Duration {
        self.0.elapsed() * SPEED
    }
    fn now_ms(&self) -> i64 {
        self.0.now_ms()
    }
    fn sleep(&self, time: Duration) {
        self.0.sleep(time / SPEED);
    }
}

struct Fold {
    state: ValueState<(u64, i64)>,
}

impl KeyedProcess<i64, String> for Fold {
    fn process(&mut self, item: i64, context: &mut ProcessContext<'_, String>) -> Result<(), ProcessError> {
        let (count, sum) = self.state.get()?.unwrap_or_default();
        let now = (count + 1, sum + item);
        self.state.set(now)?;
        let origin = context.origin();
        context.emit(format!("{} {} {} {}", now.0, now.1, origin.partition, origin.offset));
        Ok(())
    }
}

fn job(broker: &MemoryBroker) -> Result<Topology, TopologyError> {
    let job = Job::new("sim");
    job.source("in", broker.source("in"), |r| {
        String::from_utf8_lossy(r.value.unwrap_or_default())
            .parse::<i64>()
            .map_err(|e| e.to_string())
    })
    .key_by_record_key("by-key")
    .process("fold", |scope| Fold {
        state: scope.value("sum", Postcard::new(1)),
    })
    .to("sink", broker.target("out"), Utf8);
    job.build()
}

const GROUP: &str = "sim.in";
/// A second of real time for what has to be done in a third of it.
const GRACE: Duration = Duration::from_secs(60);

struct Life {
    thread: JoinHandle<RunEnd>,
    stop: StopHandle,
    process: Process,
}

/// A machine: a state directory and a disk, on which processes come and go.
struct Machine {
    name: &'static str,
    dir: tempfile::TempDir,
    copies: MemoryFactory,
    life: Option<Life>,
}

struct World {
    rng: Rng,
    broker: MemoryBroker,
    store: MemoryStore,
    clock: Arc<FastClock>,
    machines: Vec<Machine>,
    model: BTreeMap<String, Vec<(i32, i64, i64)>>,
    records: usize,
    story: Vec<String>,
}

impl World {
    fn new(seed: u64) -> World {
        let clock: Arc<FastClock> = Arc::default();
        let broker = MemoryBroker::new(clock.clone());
        broker.create_topic("in", 4);
        broker.create_topic("out", 2);
        let machine = |name| Machine {
            name,
            dir: tempfile::tempdir().expect("a directory"),
            copies: MemoryFactory::with_crashes(Faults::none()),
            life: None,
        };
        World {
            rng: Rng(seed),
            broker,
            store: MemoryStore::new(7),
            clock,
            machines: vec![machine("a"), machine("b")],
            model: BTreeMap::new(),
            records: 0,
            story: Vec::new(),
        }
    }

    fn feed(&mut self, records: u64) {
        for _ in 0..records {
            let (key, value) = (format!("k{}", self.rng.below(40)), self.rng.below(100) as i64);
            let record = TestRecord::new(&key, value.to_string());
            let (partition, offset) = self.broker.produce("in", record).expect("taken");
            self.model.entry(key).or_default().push((partition, offset, value));
            self.records += 1;
        }
        if self.rng.one_in(4) {
            let partition = self.rng.below(4) as i32;
            self.broker.add_gap("in", partition);
        }
    }

    fn random_faults(&mut self, process: &Process) {
        use LogErrorKind::{Abortable, Retriable, SessionLost};
        let rng = &mut self.rng;
        if rng.one_in(2) {
            let (step, after) = (1 + rng.below(400), rng.one_in(2));
            process.crash_at_step(step, after);
            self.story.push(format!("crash at step {step} after: {after}"));
        }
        let faults = [
            (Call::Commit, Fault::Lost(SessionLost)),
            (Call::Commit, Fault::Fail(SessionLost)),
            (Call::Commit, Fault::Lost(Retriable)),
            (Call::Commit, Fault::Fail(Abortable)),
            (Call::Commit, Fault::Slow(Duration::from_millis(600))),
            (Call::Commit, Fault::CrashAfter),
            (Call::Commit, Fault::CrashBefore),
            (Call::Offsets, Fault::Fail(Retriable)),
            (Call::Offsets, Fault::Lost(Retriable)),
            (Call::Offsets, Fault::Fail(Abortable)),
            (Call::Offsets, Fault::CrashAfter),
            (Call::Send, Fault::Fail(Retriable)),
            (Call::Send, Fault::Lost(Abortable)),
            (Call::Drain, Fault::Fail(SessionLost)),
            (Call::Begin, Fault::Fail(Abortable)),
            (Call::Put, Fault::Fail(Retriable)),
            (Call::Put, Fault::Lost(Retriable)),
            (Call::Read, Fault::Fail(Retriable)),
            (Call::Session, Fault::Fail(Retriable)),
            (Call::Session, Fault::Lost(Retriable)),
            (Call::Committed, Fault::Fail(Retriable)),
        ];
        for _ in 0..rng.below(4) {
            let (call, fault) = faults[rng.below(faults.len() as u64) as usize];
            let k = 1 + rng.below(if call == Call::Send { 60 } else { 6 });
            process.fault(call, k, fault);
            self.story.push(format!("{k}. {call:?}: {fault:?}"));
        }
    }

    fn start(&mut self, machine: usize, faults: bool, take_over: bool) {
        let process = Process::new();
        self.story
            .push(format!("start {} take over: {take_over}", self.machines[machine].name));
        if faults {
            self.random_faults(&process);
        }
        let m = &mut self.machines[machine];
        let mut config = Config::new(m.dir.path());
        config.epoch_interval = Duration::from_millis(100);
        config.take_over = take_over;
        config.source_lanes = 2;
        config.keyed_lanes = 2;
        config.chain_objects_max = 6;
        // Half of the time the copies take turns, and lie behind what is committed.
        config.at_once_bytes *= usize::from(self.rng.one_in(2));
        config.grace = GRACE;
        let (store, copies) = (Arc::new(self.store.clone()), m.copies.clone());
        let topology = job(&self.broker).expect("valid");
        let store = Arc::new(ProcessStore::new(store, process.clone()));
        let runtime = Runtime::single(topology, config, self.broker.log(process.clone()), store)
            .with_backends(Box::new(move |_| Ok(Arc::new(copies))))
            .with_clock(self.clock.clone());
        let (stop, of_thread) = (runtime.stop_handle(), process.clone());
        let thread = std::thread::spawn(move || of_thread.run(runtime));
        m.life = Some(Life { thread, stop, process });
    }

    fn alive(&self, machine: usize) -> bool {
        self.machines[machine]
            .life
            .as_ref()
            .is_some_and(|l| !l.thread.is_finished())
    }

    /// Takes a run's end; whether it may end like that.
    fn bury(&mut self, machine: usize, kill: bool) -> Result<(), String> {
        let Some(life) = self.machines[machine].life.take() else {
            return Ok(());
        };
        if kill {
            life.process.kill();
            // What it still flushes reaches no disk.
            self.machines[machine].copies.crash();
        }
        life.stop.stop();
        let end = life.thread.join().map_err(|_| "a run panicked".to_owned())?;
        let m = &mut self.machines[machine];
        self.story.push(format!("end of {}: {end:?}", m.name));
        m.copies.crash();
        if self.rng.one_in(5) {
            m.copies = MemoryFactory::with_crashes(Faults::none());
            self.story.push(format!("{} loses its disk", m.name));
        }
        match end {
            RunEnd::Failed(e) if e.exit_code() == ExitCode::CannotGoOn => Err(format!("{}: exit 13: {e}", m.name)),
            _ => Ok(()),
        }
    }

    fn round(&mut self) -> Result<(), String> {
        for machine in 0..2 {
            let wanted = machine == 0 || self.rng.one_in(3);
            if wanted && !self.alive(machine) {
                self.bury(machine, false)?;
                let take_over = self.rng.one_in(2);
                self.start(machine, true, take_over);
            }
        }
        for _ in 0..3 + self.rng.below(8) {
            // The store's clock goes as it likes, also past the grace at once.
            let jump = if self.rng.one_in(20) {
                2 * GRACE.as_secs()
            } else {
                self.rng.below(5)
            };
            self.store.advance(Duration::from_secs(jump));
            let records = self.rng.below(40);
            self.feed(records);
            std::thread::sleep(Duration::from_millis(self.rng.below(12)));
            if self.rng.one_in(12) {
                self.story.push("the broker times the producer out".into());
                self.broker.time_out(GROUP);
            }
        }
        let victim = self.rng.below(2) as usize;
        match self.rng.below(4) {
            0 => self.bury(victim, true),
            1 => self.bury(victim, false),
            _ => Ok(()),
        }
    }

    /// A last instance without faults brings everything to its end.
    fn finish(&mut self) -> Result<(), String> {
        for machine in 0..2 {
            self.bury(machine, true)?;
        }
        self.start(0, false, true);
        let until = Instant::now() + Duration::from_secs(30);
        while self.broker.records("out").len() < self.records && Instant::now() < until && self.alive(0) {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.bury(0, false)
    }

    fn judge(&self) -> Result<(), String> {
        let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for r in self.broker.records("out") {
            found.entry(r.key_text()).or_default().push(r.value_text());
        }
        for (key, inputs) in &self.model {
            let mut sum = 0;
            let fold = |(i, (partition, offset, value)): (usize, &(i32, i64, i64))| {
                sum += value;
                format!("{} {sum} {partition} {offset}", i + 1)
            };
            let expected: Vec<String> = inputs.iter().enumerate().map(fold).collect();
            let outputs = found.remove(key).unwrap_or_default();
            if outputs != expected {
                return Err(format!("{key}: outputs {outputs:?}, expected {expected:?}"));
            }
        }
        if !found.is_empty() {
            return Err(format!("outputs of nowhere: {found:?}"));
        }
        match self.broker.open_transactions() {
            0 => self.judge_commits(),
            n => Err(format!("{n} transactions are open")),
        }
    }

    /// What every commit named verifies, if it has not been collected since; sequences and positions only grow. What the last one leads to is
    /// all there.
    fn judge_commits(&self) -> Result<(), String> {
        let layout = Layout::new("sim", "in").map_err(|e| e.to_string())?;
        let mut sequences: BTreeMap<u32, Sequence> = BTreeMap::new();
        let mut positions: BTreeMap<i32, i64> = BTreeMap::new();
        let mut last = None;
        for commit in self.broker.commits(GROUP) {
            for entry in &commit.entries {
                let last = positions.entry(entry.position.partition).or_default();
                if entry.position.offset < *last {
                    return Err(format!("a position goes back from {last}: {commit:?}"));
                }
                *last = entry.position.offset;
            }
            let pointer = Pointer::parse(commit.entries[0].pointer.as_bytes()).map_err(|e| e.to_string())?;
            last = Some(pointer);
            let path = layout.epoch(pointer.epoch);
            let object = match ObjectReader::open(&self.store, &path, Some(pointer.footer)) {
                Err(ObjectError::Store(StoreError::NotFound { .. })) => continue,
                opened => opened.map_err(|e| e.to_string())?,
            };
            for shard in 0..4 {
                object.section(Shard(shard)).map_err(|e| e.to_string())?;
                let link = object
                    .link(Shard(shard))
                    .ok_or_else(|| format!("{path}: no link to shard {shard}"))?;
                let last = sequences.entry(shard).or_default();
                if link.sequence < *last {
                    return Err(format!("{path}: the sequence of shard {shard} goes back from {last}"));
                }
                *last = link.sequence;
            }
        }
        let last = last.ok_or("nothing was committed")?;
        let mut reach = Reach::default();
        let reached = reach.follow((&self.store, &layout), &last, None);
        reached.map_err(|e| e.to_string())?;
        let missing = reach.reached().iter().find(|path| self.store.size(path).is_err());
        missing.map_or(Ok(()), |path| Err(format!("{path} is missing")))
    }
}

fn simulate(seed: u64) -> Result<usize, String> {
    let mut world = World::new(seed);
    let mut run = || {
        for _ in 0..3 + world.rng.below(6) {
            world.round()?;
        }
        world.finish()?;
        world.judge()?;
        Ok(world.records)
    };
    run().map_err(|why: String| {
        let story = world.story.join("\n  ");
        // A run that is left over must not outlive its directory.
        for machine in 0..2 {
            let _ = world.bury(machine, true);
        }
        format!("{why}\nwhat happened:\n  {story}")
    })
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is not a number")))
}

/// About twenty seconds.
const RUNS: u64 = 60;

#[test]
fn simulation_of_the_commit_protocol() {
    let seeds: Vec<u64> = match setting("KEYFOLD_SIM_SEED") {
        Some(seed) => vec![seed],
        None => (1..=setting("KEYFOLD_SIM_RUNS").unwrap_or(RUNS)).collect(),
    };
    let mut records = 0;
    for seed in &seeds {
        match simulate(*seed) {
            Ok(n) => records += n,
            Err(why) => panic!("seed {seed} (KEYFOLD_SIM_SEED={seed} runs it again): {why}"),
        }
    }
    println!("{} runs, {records} records", seeds.len());
}
