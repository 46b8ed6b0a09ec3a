//! Records flow: starts the lanes, asks for barriers, commits what they hand over.
use super::Runtime;
use super::cadence::{TICK, nap, next_due};
use super::commit::CommitDriver;
use super::eager::Eager;
use super::epoch::Standing;
use super::error::{RuntimeError, no_thread};
use super::lanes::{self, Event, Gate, Lanes, SourceStart, lane_error, panic_text};
use super::measure::Sampler;
use super::progress::Phase;
use super::start::expiry;
use super::turns::Turns;
use crate::barrier::Cut;
use crate::config::{Budget, Config, Guarantee};
use crate::operator::context::LaneGauges;
use crate::operator::states::StateIds;
use crate::operator::{LaneSetup, LaneShare};
use crate::sink::SpillDir;
use crate::source::{Source, SourceError};
use crate::state::ImageKind;
use crate::telemetry::{EpochPhase, Metrics, Trouble};
use crate::types::{Clock, Position, Sharding, Shards};
use crossbeam_channel::RecvTimeoutError;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// How often the clients' events are served.
const SERVE: Duration = Duration::from_millis(50);
/// Where there was a pause, outputs are waited for: the first barriers come sooner, until some have had records in them. Shorter would give
/// each of them few records, longer would be felt; and without an end, an idle job would have many barriers for nothing.
const SOON: Duration = Duration::from_millis(100);
const SOON_MAX: u32 = 10;
const SOON_WITH_RECORDS: u32 = 2;
/// Each local copy is flushed after so many epochs: it bounds the tail that a restart after a kill replays, and how long the memtable of a
/// shard in which little happens takes memory. They take turns, so that no epoch waits for all of them.
const EPOCHS_PER_FLUSH: usize = 64;
/// Outputs that one second of a transaction sends, on the slow side of the measured 1 to 3 us an output.
const OUTPUTS_PER_SECOND: u64 = 300_000;
/// Output bytes that one second of a transaction sends, on the slow side of what a broker across a 1 Gbit/s network takes.
const OUTPUT_BYTES_PER_SECOND: usize = 20_000_000;

/// The processing part of a run.
pub(super) struct Processing<'a> {
    pub driver: &'a mut CommitDriver,
    pub standing: &'a mut Standing,
    pub state_ids: Arc<StateIds>,
    /// Records flow until this says true, too: then the epoch at hand is the last.
    pub until: &'a dyn Fn() -> bool,
    /// There was a pause before.
    pub paused: bool,
    /// What local copies are.
    pub kind: ImageKind,
}

/// Marks that ask for a barrier before its time.
struct Marks {
    budget: Budget,
    outputs: u64,
    epoch_bytes: usize,
}

/// What can be sent in a quarter of the transaction's timeout, by bytes; at least the memory budget's part.
fn epoch_bytes(budget: &Budget, timeout: Duration) -> usize {
    let quarter = (timeout.as_millis() / 4).min(1 << 32) as usize;
    (OUTPUT_BYTES_PER_SECOND / 1000 * quarter).max(budget.outputs_bytes)
}

struct Loop<'a> {
    driver: &'a mut CommitDriver,
    standing: &'a mut Standing,
    until: &'a dyn Fn() -> bool,
    gate: &'a Gate,
    eager: Option<Eager>,
    applied: Arc<AtomicU64>,
    marks: Marks,
    interval: Duration,
    recommit: Duration,
    epoch: u64,
    /// Whose copy takes what has changed.
    turns: Turns,
    /// Whose turn to be flushed it is.
    turn: usize,
    /// Barriers left that come before their time.
    soon: u32,
    /// What local copies are.
    kind: ImageKind,
    /// A chain is too long.
    full: Trouble,
}

impl Processing<'_> {
    /// Runs until a stop, or until something ends it.
    pub fn run(self, runtime: &mut Runtime) -> Result<(), RuntimeError> {
        let Processing {
            driver,
            standing,
            state_ids,
            until,
            paused,
            kind,
        } = self;
        let config = runtime.config.clone();
        let budget = config.budget();
        let outputs = OUTPUTS_PER_SECOND * config.transaction_timeout.as_secs().max(4) / 4;
        let epoch_bytes = epoch_bytes(&budget, config.transaction_timeout);
        driver.expiry = expiry(
            driver.expected.groups,
            &runtime.topology.states,
            &driver.expected.states,
        );
        let spill = SpillDir::create(&config.state_dir.join("spill")).map_err(|e| RuntimeError::StateDir {
            path: e.path.clone(),
            reason: e.to_string(),
        })?;
        let eager = start_eager(driver, &config, &spill)?;
        let applied: Arc<AtomicU64> = Arc::default();
        let mut base = base_setup(runtime, driver, state_ids, &applied, (eager.as_ref(), spill))?;
        base.watermark = standing.watermark();
        base.horizons = standing.begin();
        let sources = open_sources(runtime, &base, &standing.all())?;
        let keyed = keyed_setups(runtime, &base);
        let gauges =
            |setups: &mut dyn Iterator<Item = &LaneSetup>| setups.map(|s| s.gauges.clone()).collect::<Vec<_>>();
        let of_sources = gauges(&mut sources.iter().map(|s| &s.setup));
        let of_keyed = gauges(&mut keyed.iter().flatten());
        let gate = Gate {
            lanes: of_sources.iter().chain(&of_keyed).cloned().collect(),
            in_flight_changes: AtomicUsize::new(0),
            in_flight_outputs: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            changes_max: budget.dirty_bytes,
            bytes_max: budget.dirty_bytes + budget.outputs_bytes,
            outputs_max: outputs * 2,
            epoch_bytes_max: epoch_bytes * 2,
            open: AtomicBool::new(false),
        };
        drop(base);
        runtime.progress.set_lanes(of_sources, of_keyed);
        let mut connectors = take_sources(runtime);
        let done = AtomicBool::new(false);
        runtime.enter(Phase::Processing);
        if runtime.group.signals().is_none() {
            runtime.metrics.shards(driver.backends.len(), 0);
        }
        runtime.metrics.positions(standing.all().iter());
        let mut sampler = Sampler::new(&runtime.metrics, &config, &gate, &driver.backends, driver.log.queue());
        let metrics = runtime.metrics.clone();
        let clock = runtime.clock.clone();
        let (result, connectors_result) = std::thread::scope(|scope| {
            let control = scope.spawn(|| serve(&mut connectors, &metrics, &mut sampler, (&done, clock.as_ref())));
            // Also when this thread unwinds: the scope waits for the control thread.
            let _ends = SetOnDrop(&done);
            let lanes = lanes::start(scope, &runtime.topology.segments, &gate, sources, keyed);
            let marks = Marks {
                budget,
                outputs,
                epoch_bytes,
            };
            let turns = Turns::new(standing.owned(), &config);
            let result = lanes.and_then(|lanes| {
                let mut main = Loop {
                    driver,
                    standing,
                    until,
                    gate: &gate,
                    eager,
                    applied,
                    marks,
                    interval: config.epoch_interval,
                    recommit: config.recommit_interval,
                    epoch: 0,
                    turns,
                    turn: 0,
                    soon: if paused { SOON_MAX } else { 0 },
                    kind,
                    full: Trouble::default(),
                };
                main.run(runtime, &lanes, &control)
            });
            done.store(true, Ordering::SeqCst);
            (result, control.join())
        });
        connectors.iter_mut().for_each(|(_, source)| source.close());
        give_back(runtime, connectors);
        match (result, connectors_result) {
            (Ok(()), Ok(Err(why))) => Err(RuntimeError::CannotGoOn(why)),
            (Ok(()), Err(panic)) => Err(RuntimeError::CannotGoOn(format!(
                "the control thread panicked: {}",
                panic_text(panic.as_ref())
            ))),
            (result, _) => result,
        }
    }
}

pub(super) struct SetOnDrop<'a>(pub &'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

type Connectors = Vec<(String, Box<dyn Source>)>;

fn take_sources(runtime: &mut Runtime) -> Connectors {
    let take = |s: &mut crate::topology::BuiltSource| {
        let placeholder: Box<dyn Source> = Box::new(Taken);
        (s.id.clone(), std::mem::replace(&mut s.source, placeholder))
    };
    runtime.topology.sources.iter_mut().map(take).collect()
}

fn give_back(runtime: &mut Runtime, connectors: Connectors) {
    for (built, (_, source)) in runtime.topology.sources.iter_mut().zip(connectors) {
        built.source = source;
    }
}

/// Stands in the topology for a source that the control thread serves.
struct Taken;

impl Source for Taken {
    fn describe(&self) -> String {
        "served by the control thread".to_owned()
    }
    fn topic(&self) -> String {
        String::new()
    }
    fn topic_info(&mut self) -> Result<crate::types::TopicInfo, SourceError> {
        Err(SourceError::Fatal(self.describe()))
    }
    fn start_positions(&mut self) -> Result<Vec<Position>, SourceError> {
        Err(SourceError::Fatal(self.describe()))
    }
    fn open(&mut self, _: &[Vec<Position>]) -> Result<Vec<Box<dyn crate::source::SourceReader>>, SourceError> {
        Err(SourceError::Fatal(self.describe()))
    }
    fn close(&mut self) {}
}

/// Serves the connectors' events until told to stop, or until one cannot go on; says then which one, and why.
fn serve(
    connectors: &mut Connectors,
    metrics: &Metrics,
    sampler: &mut Sampler<'_>,
    (done, clock): (&AtomicBool, &dyn Clock),
) -> Result<(), String> {
    let mut troubles: Vec<Trouble> = connectors.iter().map(|_| Trouble::default()).collect();
    while !done.load(Ordering::SeqCst) {
        for ((id, source), trouble) in connectors.iter_mut().zip(&mut troubles) {
            match catch_unwind(AssertUnwindSafe(|| source.serve())) {
                Ok(Ok(())) => {
                    if let Some(lasted) = trouble.calm(clock.elapsed()) {
                        tracing::info!(source = %id, lasted_ms = lasted.as_millis() as u64, "source, nothing fails any more");
                    }
                }
                Ok(Err(SourceError::Retriable(why))) => {
                    metrics.source_failed(id);
                    if let Some(unsaid) = trouble.failed(clock.elapsed()) {
                        tracing::warn!(source = %id, %why, unsaid, "source");
                    }
                }
                Ok(Err(SourceError::Fatal(why))) => return Err(format!("source {id}: {why}")),
                Err(panic) => {
                    let message = panic_text(panic.as_ref());
                    return Err(format!("source {id} panicked while it was served: {message}"));
                }
            }
        }
        sampler.look(connectors.iter_mut().map(|(_, source)| source));
        std::thread::sleep(SERVE);
    }
    Ok(())
}

fn start_eager(driver: &mut CommitDriver, config: &Config, spill: &SpillDir) -> Result<Option<Eager>, RuntimeError> {
    if config.guarantee == Guarantee::ExactlyOnce {
        return Ok(None);
    }
    let Some(sender) = driver.log.eager_sender()? else {
        return Ok(None);
    };
    let started = Eager::start(sender, spill.clone(), config.budget().outputs_bytes / 2)
        .map_err(|e| no_thread("the sender's", &e))?;
    Ok(Some(started))
}

fn base_setup(
    runtime: &Runtime,
    driver: &CommitDriver,
    state_ids: Arc<StateIds>,
    applied: &Arc<AtomicU64>,
    (eager, spill): (Option<&Eager>, SpillDir),
) -> Result<LaneSetup, RuntimeError> {
    let config = &runtime.config;
    let budget = config.budget();
    let topology = &runtime.topology;
    let segments = topology.segments.len().max(1);
    let lanes = config.keyed_lanes.max(1) as usize * segments + topology.sources.len() * config.source_lanes as usize;
    let maps = (topology.states.len() * config.keyed_lanes.max(1) as usize).max(1);
    Ok(LaneSetup {
        name: String::new(),
        index: 0,
        keyed_lanes: config.keyed_lanes.max(1),
        groups: driver.expected.groups,
        sharding: if runtime.group.signals().is_some() {
            Sharding::ByPartition
        } else {
            Sharding::ByKey
        },
        state_ids,
        backends: driver.backends.clone(),
        sources: topology.source_infos().into(),
        step_policies: Arc::new(topology.step_policies.clone()),
        sinks: topology.routes().into(),
        spill,
        output_bytes_max: (budget.outputs_bytes / lanes.max(1)).max(1 << 16),
        map_bytes_max: budget.maps_bytes / maps,
        guarantee: config.guarantee,
        eager: eager.map(|e| e.frames.clone()),
        applied: applied.clone(),
        gauges: Arc::default(),
        clock: runtime.clock.clone(),
        max_future: config.max_future,
        watermark: crate::types::Watermark::NONE,
        horizons: Arc::default(),
        metrics: runtime.metrics.clone(),
        faults: runtime.faults.clone(),
    })
}

fn named(base: &LaneSetup, name: &str, index: u32) -> LaneSetup {
    let gauges: Arc<LaneGauges> = Arc::default();
    LaneSetup {
        name: format!("{name}-{index}"),
        index,
        gauges,
        ..base.clone()
    }
}

fn keyed_setups(runtime: &Runtime, base: &LaneSetup) -> Vec<Vec<LaneSetup>> {
    let lanes = |id: &str| (0..base.keyed_lanes).map(|i| named(base, id, i)).collect();
    runtime.topology.segments.iter().map(|s| lanes(&s.id)).collect()
}

/// Spreads each source's partitions over its lanes and opens the readers.
fn open_sources(
    runtime: &mut Runtime,
    base: &LaneSetup,
    positions: &[Position],
) -> Result<Vec<SourceStart>, RuntimeError> {
    let lanes_max = runtime.config.source_lanes.max(1) as usize;
    let mut starts = Vec::new();
    for (index, built) in runtime.topology.sources.iter_mut().enumerate() {
        let topic = built.source.topic();
        let own: Vec<&Position> = positions.iter().filter(|p| p.topic == topic).collect();
        let lanes = lanes_max.min(own.len()).max(1);
        let of_lane = |lane: usize| own.iter().skip(lane).step_by(lanes).map(|p| (*p).clone()).collect();
        let split: Vec<Vec<Position>> = (0..lanes).map(of_lane).collect();
        let readers = built
            .source
            .open(&split)
            .map_err(|e| RuntimeError::CannotGoOn(e.to_string()))?;
        for (lane, (reader, positions)) in readers.into_iter().zip(split).enumerate() {
            let setup = named(base, &built.id, lane as u32);
            let (id, open) = (built.id.clone(), built.open.clone());
            starts.push(SourceStart {
                source: index as u16,
                id,
                open,
                reader,
                positions,
                setup,
            });
        }
    }
    Ok(starts)
}

/// The shards whose copies are flushed in one of [`EPOCHS_PER_FLUSH`] turns.
fn of_turn(turn: usize, shards: usize) -> std::ops::Range<usize> {
    let until = |turn: usize| turn * shards / EPOCHS_PER_FLUSH;
    until(turn)..until(turn + 1)
}

type Control<'scope> = std::thread::ScopedJoinHandle<'scope, Result<(), String>>;

impl Loop<'_> {
    fn run(&mut self, runtime: &Runtime, lanes: &Lanes<'_>, control: &Control<'_>) -> Result<(), RuntimeError> {
        let clock = runtime.clock.clone();
        let mut due = clock.elapsed() + self.until_next();
        loop {
            self.driver.alive();
            let stopping = runtime.stop.asked() || (self.until)();
            self.driver.tend(self.kind)?;
            let due_now = stopping || clock.elapsed() >= due || self.over_mark();
            // One more section does no harm, and a stop, or whoever the shards go to, does not wait for a base.
            if stopping || due_now && !self.chain_is_full(clock.as_ref()) {
                let ordered = clock.elapsed();
                self.epoch(runtime, lanes, stopping)?;
                due = next_due(self.until_next(), ordered, clock.elapsed());
                // Last: who waits for it may move the clock to the next one.
                runtime.progress.add_barrier();
            } else if due_now {
                self.recommit(runtime)?;
            }
            if stopping && !runtime.stop.asked() {
                return Ok(());
            }
            if stopping {
                // What is committed is in the checkpoint store: without this the next start replays more of it, nothing else.
                if let Err(error) = self.driver.flush() {
                    tracing::warn!(%error, "the local copies could not be written at the end");
                }
                return Ok(());
            }
            // A source that cannot go on has ended the control thread.
            if control.is_finished() {
                return Ok(());
            }
            match lanes.events.recv_timeout(nap(due.saturating_sub(clock.elapsed()))) {
                Ok(Event::Failed(lane, error)) => return Err(lane_error(lane, error)),
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RuntimeError::CannotGoOn("all lanes ended".to_owned()));
                }
            }
        }
    }

    /// Epochs are not taken while a chain is far too long: a restore would take too long as well. It goes on when a base is there.
    fn chain_is_full(&mut self, clock: &dyn Clock) -> bool {
        match self.driver.upkeep.full() {
            Some(why) => {
                if let Some(unsaid) = self.full.failed(clock.elapsed()) {
                    tracing::error!(why, unsaid, "no epoch is taken");
                    self.driver.patience.metrics.retry("chain", TICK);
                }
                true
            }
            None => {
                if self.full.calm(clock.elapsed()).is_some() {
                    self.driver.patience.metrics.recovered();
                    tracing::info!("epochs are taken again");
                }
                false
            }
        }
    }

    fn until_next(&self) -> Duration {
        if self.soon > 0 {
            self.interval.min(SOON)
        } else {
            self.interval
        }
    }

    /// High-water marks lie at half of the limits at which the gate closes.
    fn over_mark(&self) -> bool {
        let load = self.gate.load();
        load.dirty > self.marks.budget.dirty_bytes / 2
            || load.outputs > self.marks.budget.outputs_bytes / 2
            || load.epoch_bytes > self.marks.epoch_bytes
            || load.count > self.marks.outputs
    }

    /// The shards whose copies take what has changed with the next epoch: all at the end, since whoever goes on from here begins with the copies
    /// alone; else those whose turn it is, and the one that a base is to be made of.
    fn taking(&mut self, last: bool) -> Shards {
        let wanted = self.driver.take_wanted();
        if last {
            return Shards::ALL;
        }
        self.turns.next(self.gate.load().dirty).and(wanted)
    }

    /// One epoch: barrier, shares, commit. Lanes go on with the next one meanwhile.
    fn epoch(&mut self, runtime: &Runtime, lanes: &Lanes<'_>, last: bool) -> Result<(), RuntimeError> {
        self.epoch += 1;
        let ordered = runtime.clock.elapsed();
        let cut = Cut {
            epoch: self.epoch,
            horizon: self.standing.horizon(),
            taking: self.taking(last),
        };
        for command in &lanes.commands {
            // A lane that is gone has reported why; the shares below find it.
            let _ = command.send(cut);
        }
        let shares = self.collect(lanes)?;
        let collected = runtime.clock.elapsed().saturating_sub(ordered);
        let encode = shares.iter().map(|s| s.encode).max().unwrap_or_default();
        self.in_flight(&shares);
        self.turns.handed_over(&shares, cut.taking);
        self.gate.waiting.store(self.turns.waiting_bytes(), Ordering::Relaxed);
        if let Some(eager) = &self.eager {
            eager.drain(self.driver)?;
        }
        let mut epoch = self.standing.advance(shares, cut.taking);
        for shard in self.driver.upkeep.waiting(runtime.clock.elapsed()) {
            self.standing.add_to(&mut epoch, shard, cut.taking);
        }
        self.soon = self.soon.saturating_sub(1);
        if !epoch.shards.is_empty() {
            self.soon = self.soon.min(SOON_WITH_RECORDS);
        }
        if !epoch.shards.is_empty() {
            let metrics = &runtime.metrics;
            metrics.epoch_phase(EpochPhase::Align, collected.saturating_sub(encode));
            metrics.epoch_phase(EpochPhase::Encode, encode);
            self.driver.commit(epoch)?;
            self.flush_in_turn()?;
        } else {
            self.recommit(runtime)?;
        }
        self.driver.took_all(cut.taking);
        self.applied.store(self.epoch, Ordering::Release);
        self.in_flight(&[]);
        Ok(())
    }

    /// Offsets do not expire while nothing is committed for long (EP-10).
    fn recommit(&mut self, runtime: &Runtime) -> Result<(), RuntimeError> {
        if self.driver.since_commit() >= self.recommit && !runtime.faults.broken("EP-10") {
            self.driver.recommit()?;
        }
        Ok(())
    }

    /// Notes what the epoch that is being committed takes.
    fn in_flight(&self, shares: &[LaneShare]) {
        let changes = |s: &LaneShare| s.changes.iter().map(crate::state::ChangeSet::bytes).sum::<usize>();
        let outputs = |s: &LaneShare| {
            let outputs: usize = s.outputs.iter().map(crate::sink::OutputBuffer::bytes).sum();
            outputs + s.outbox.iter().map(|o| o.bytes().len()).sum::<usize>()
        };
        let gate = self.gate;
        gate.in_flight_changes
            .store(shares.iter().map(changes).sum(), Ordering::Relaxed);
        gate.in_flight_outputs
            .store(shares.iter().map(outputs).sum(), Ordering::Relaxed);
    }

    fn flush_in_turn(&mut self) -> Result<(), RuntimeError> {
        self.turn = (self.turn + 1) % EPOCHS_PER_FLUSH;
        self.driver.flush_some(of_turn(self.turn, self.driver.backends.len()))
    }

    fn collect(&mut self, lanes: &Lanes<'_>) -> Result<Vec<LaneShare>, RuntimeError> {
        let mut shares: Vec<LaneShare> = Vec::with_capacity(lanes.count);
        while shares.len() < lanes.count {
            match lanes.events.recv_timeout(Duration::from_millis(100)) {
                Ok(Event::Share(share)) if share.epoch == self.epoch => shares.push(*share),
                Ok(Event::Share(old)) => tracing::debug!(epoch = old.epoch, "a share of an earlier barrier, dropped"),
                Ok(Event::Failed(lane, error)) => return Err(lane_error(lane, error)),
                Ok(Event::Ready) | Err(RecvTimeoutError::Timeout) => {
                    self.driver.patience.still_owned("before its barrier came through")?;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(RuntimeError::CannotGoOn("all lanes ended".to_owned()));
                }
            }
        }
        Ok(shares)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_is_flushed_once_in_a_round_of_turns() {
        for shards in [1, 4, 63, 64, 65, 256, 1000] {
            let all: Vec<usize> = (0..EPOCHS_PER_FLUSH).flat_map(|turn| of_turn(turn, shards)).collect();
            assert!(all.into_iter().eq(0..shards), "{shards} shards");
            let most = (0..EPOCHS_PER_FLUSH).map(|turn| of_turn(turn, shards).len()).max();
            assert!(most <= Some(shards.div_ceil(EPOCHS_PER_FLUSH)), "{shards} shards");
        }
    }
}
