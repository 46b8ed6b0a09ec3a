//! The threads of the data plane, and what they tell the driver.
use super::error::{RuntimeError, no_thread};
use crate::barrier::Cut;
use crate::exchange::LaneGone;
use crate::operator::context::LaneGauges;
use crate::operator::keyed_lane::LaneStep;
use crate::operator::source_lane::SourceLane;
use crate::operator::{LaneError, LaneSetup, LaneShare};
use crate::source::{Flow, RecordSink, SourceError, SourceReader};
use crate::state::StateError;
use crate::topology::{BuiltSegment, OpenSource};
use crate::types::{Position, RecordRef};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

/// What a lane tells the driver.
#[derive(Debug)]
pub(super) enum Event {
    /// The lane has been opened.
    Ready,
    /// The lane's part of an epoch.
    Share(Box<LaneShare>),
    /// The lane has failed.
    Failed(String, LaneError),
}

/// How long a lane waits for input before it looks at its commands: the least delay of a barrier on an idle lane.
const IDLE: Duration = Duration::from_millis(5);
const SOURCE_RETRY_MAX: Duration = Duration::from_secs(10);

/// Keeps sources from reading on while too much waits to be committed: back-pressure instead of growth.
#[derive(Debug)]
pub(super) struct Gate {
    /// Gauges of all lanes.
    pub lanes: Vec<Arc<LaneGauges>>,
    /// Bytes of changes of the epoch that is being committed.
    pub in_flight_changes: AtomicUsize,
    /// Bytes of changes that wait for the local copies to take them. They are not in the way of anything: clean entries are.
    pub waiting: AtomicUsize,
    /// Bytes of its outputs.
    pub in_flight_outputs: AtomicUsize,
    /// Hard limit of dirty state and changes in flight.
    pub changes_max: usize,
    /// Hard limit of dirty state, outputs and what is in flight.
    pub bytes_max: usize,
    /// Hard limit of outputs in an epoch.
    pub outputs_max: u64,
    /// Hard limit of an epoch's output bytes, wherever they lie: what is spilled must be sent in one transaction all the same.
    pub epoch_bytes_max: usize,
    /// Set when every lane has been opened: what a source sent before could fill a channel that nobody reads, if a later lane failed to open.
    pub open: AtomicBool,
}

/// The epoch so far, over all lanes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Bytes of dirty state.
    pub dirty: usize,
    /// Bytes of outputs in memory.
    pub outputs: usize,
    /// Bytes of outputs, in memory or not, and of what is to become some.
    pub epoch_bytes: usize,
    /// Number of them.
    pub count: u64,
}

impl Gate {
    /// Sums up the gauges.
    pub fn load(&self) -> Load {
        let sum = |f: &dyn Fn(&LaneGauges) -> &AtomicUsize| {
            let loads = self.lanes.iter().map(|g| f(g).load(Ordering::Relaxed));
            loads.sum::<usize>()
        };
        let count = |f: &dyn Fn(&LaneGauges) -> &AtomicU64| {
            let counts = self.lanes.iter().map(|g| f(g).load(Ordering::Relaxed));
            counts.sum::<u64>()
        };
        let outputs = sum(&|g| &g.output_bytes) + sum(&|g| &g.outbox_bytes);
        Load {
            dirty: sum(&|g| &g.dirty_bytes),
            outputs,
            epoch_bytes: outputs + sum(&|g| &g.spilled_bytes) + sum(&|g| &g.held_bytes),
            count: count(&|g| &g.outputs) + count(&|g| &g.held),
        }
    }

    /// Bytes of the epoch that is being committed.
    pub fn in_flight(&self) -> usize {
        self.in_flight_changes.load(Ordering::Relaxed) + self.in_flight_outputs.load(Ordering::Relaxed)
    }

    fn closed(&self) -> bool {
        if !self.open.load(Ordering::Acquire) {
            return true;
        }
        let load = self.load();
        let changes = load.dirty + self.in_flight_changes.load(Ordering::Relaxed);
        let outputs = load.outputs + self.in_flight_outputs.load(Ordering::Relaxed);
        changes > self.changes_max
            || changes + outputs > self.bytes_max
            || load.epoch_bytes > self.epoch_bytes_max
            || load.count > self.outputs_max
    }
}

/// The running lanes.
pub(super) struct Lanes<'scope> {
    /// Barrier requests, one channel per source lane.
    pub commands: Vec<Sender<Cut>>,
    pub events: Receiver<Event>,
    /// Source and keyed lanes.
    pub count: usize,
    handles: Vec<ScopedJoinHandle<'scope, ()>>,
}

/// One source lane to start.
pub(super) struct SourceStart {
    pub source: u16,
    pub id: String,
    pub open: OpenSource,
    pub reader: Box<dyn SourceReader>,
    pub positions: Vec<Position>,
    pub setup: LaneSetup,
}

impl Drop for Lanes<'_> {
    /// Ends all lanes: sources see their commands gone, the others their inputs.
    fn drop(&mut self) {
        self.commands.clear();
        // Shares that nobody takes any more must not keep a lane waiting.
        while self.handles.iter().any(|h| !h.is_finished()) {
            let _ = self.events.recv_timeout(IDLE);
        }
    }
}

pub(super) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a message".to_owned())
}

/// Runs a lane's body; its error, or a panic of a user's function, becomes an event.
fn guard(name: &str, events: &Sender<Event>, body: impl FnOnce() -> Result<(), LaneError>) {
    let error = match catch_unwind(AssertUnwindSafe(body)) {
        // The lane at the other end has told why.
        Ok(Ok(())) | Ok(Err(LaneError::Gone(LaneGone))) => return,
        Ok(Err(error)) => error,
        Err(panic) => LaneError::Panicked {
            lane: name.to_owned(),
            message: panic_text(panic.as_ref()),
        },
    };
    let _ = events.send(Event::Failed(name.to_owned(), error));
}

/// Starts the source lanes, then each keyed segment's lanes, upstream first: a segment's inputs are complete when it opens.
pub(super) fn start<'scope, 'env>(
    scope: &'scope std::thread::Scope<'scope, 'env>,
    segments: &'env [BuiltSegment],
    gate: &'env Gate,
    sources: Vec<SourceStart>,
    keyed: Vec<Vec<LaneSetup>>,
) -> Result<Lanes<'scope>, RuntimeError> {
    let count = sources.len() + keyed.iter().map(Vec::len).sum::<usize>();
    let (sender, events) = bounded(count * 4 + 4);
    let mut lanes = Lanes {
        commands: Vec::new(),
        events,
        count,
        handles: Vec::new(),
    };
    for start in sources {
        let (command, commands) = bounded(1);
        lanes.commands.push(command);
        let (events, name) = (sender.clone(), start.setup.name.clone());
        let body = move || guard(&name, &events, || source_lane(gate, start, &commands, &events));
        lanes.spawn(scope, body)?;
    }
    for (segment, setups) in segments.iter().zip(keyed) {
        for setup in setups {
            let (events, name) = (sender.clone(), setup.name.clone());
            let body = move || guard(&name, &events, || keyed_lane(segment, setup, &events));
            lanes.spawn(scope, body)?;
        }
    }
    gate.open.store(true, Ordering::Release);
    Ok(lanes)
}

/// A local copy that is damaged or cannot be read is restored or opened anew in place; anything else ends the run.
pub(super) fn lane_error(lane: String, error: LaneError) -> RuntimeError {
    match error {
        LaneError::State(local @ (StateError::Damaged { .. } | StateError::Io { .. })) => {
            RuntimeError::LocalCopy(local)
        }
        error => RuntimeError::Lane { lane, error },
    }
}

impl<'scope> Lanes<'scope> {
    /// Spawns a lane and waits until it has been opened.
    fn spawn<'env>(
        &mut self,
        scope: &'scope std::thread::Scope<'scope, 'env>,
        body: impl FnOnce() + Send + 'scope,
    ) -> Result<(), RuntimeError> {
        let handle = std::thread::Builder::new()
            .spawn_scoped(scope, body)
            .map_err(|e| no_thread("a lane's", &e))?;
        self.handles.push(handle);
        match self.events.recv() {
            Ok(Event::Failed(lane, error)) => Err(lane_error(lane, error)),
            _ => Ok(()),
        }
    }
}

/// Takes records until the gate closes: a poll may have thousands, and what each of them changes may be large.
struct Gated<'a> {
    lane: &'a mut SourceLane,
    gate: &'a Gate,
}

impl RecordSink for Gated<'_> {
    fn record(&mut self, record: &RecordRef<'_>) -> Flow {
        match self.lane.record(record) {
            Flow::Continue if self.lane.batch_sent() && self.gate.closed() => Flow::Stop,
            flow => flow,
        }
    }

    fn end_of_partition(&mut self, topic: &str, partition: i32, offset: i64, leader_epoch: i32) {
        self.lane.end_of_partition(topic, partition, offset, leader_epoch);
    }
}

/// A wait of nothing is none: the channel would give the processor away several times before it says that it is empty, at each poll.
fn next_command(commands: &Receiver<Cut>, wait: Duration) -> Result<Cut, RecvTimeoutError> {
    if !wait.is_zero() {
        return commands.recv_timeout(wait);
    }
    commands.try_recv().map_err(|e| match e {
        TryRecvError::Empty => RecvTimeoutError::Timeout,
        TryRecvError::Disconnected => RecvTimeoutError::Disconnected,
    })
}

fn source_lane(
    gate: &Gate,
    start: SourceStart,
    commands: &Receiver<Cut>,
    events: &Sender<Event>,
) -> Result<(), LaneError> {
    let SourceStart {
        source,
        id,
        open,
        mut reader,
        positions,
        setup,
    } = start;
    let chain = open(&setup);
    let mut lane = SourceLane::new(source, chain, setup, &positions);
    let _ = events.send(Event::Ready);
    let mut retry = IDLE;
    let mut paused = Duration::ZERO;
    loop {
        let closed = gate.closed();
        let wait = if closed { IDLE.max(paused) } else { paused };
        if closed {
            lane.held_back();
        }
        paused = Duration::ZERO;
        match next_command(commands, wait) {
            Ok(cut) => {
                let share = lane.barrier(cut)?;
                let _ = events.send(Event::Share(Box::new(share)));
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) if gate.closed() => continue,
            Err(RecvTimeoutError::Timeout) => {}
        }
        lane.start_poll();
        let polled = reader.poll(IDLE, &mut Gated { lane: &mut lane, gate });
        let worked = lane.end_poll()?;
        match polled {
            Ok(()) => retry = IDLE,
            Err(SourceError::Fatal(reason)) => {
                return Err(LaneError::Source { source_id: id, reason });
            }
            Err(SourceError::Retriable(reason)) if !worked => {
                lane.source_failed();
                tracing::warn!(source = %id, %reason, backoff_ms = retry.as_millis() as u64, "source, trying again");
                // Commands are answered meanwhile: barriers do not wait for a source that cannot be reached.
                paused = retry;
                retry = (retry * 2).min(SOURCE_RETRY_MAX);
            }
            Err(SourceError::Retriable(_)) => {}
        }
    }
}

fn keyed_lane(segment: &BuiltSegment, setup: LaneSetup, events: &Sender<Event>) -> Result<(), LaneError> {
    let mut lane = segment.segment.open(setup);
    let _ = events.send(Event::Ready);
    loop {
        match lane.step(IDLE)? {
            LaneStep::Share(share) => {
                let _ = events.send(Event::Share(share));
            }
            LaneStep::Ended => return Ok(()),
            LaneStep::Worked | LaneStep::Idle => {}
        }
    }
}
