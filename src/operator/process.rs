//! The keyed process operator: a user's type with any number of named value states.
use super::chain::Push;
use super::context::{LaneContext, LaneSetup, Meta};
use super::error::{LaneError, Refused, StepError};
use super::map_meter::observer;
use super::share::LaneShare;
use crate::barrier::Barrier;
use crate::state::{ChangeSet, Kept, KeyRef, MapLimits, StateError, StateId, TypedMap};
use crate::types::{Codec, Header, KeyGroup, Origin, TimestampMs};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

/// A state that an operator declares: its name, unique in the operator, and its codec's schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDecl {
    /// The operator's id.
    pub operator: String,
    /// The state's name.
    pub name: String,
    /// Name and version of the codec.
    pub schema: String,
}

/// Ids of states by (operator, name); given out once and kept in every epoch object.
pub type StateIds = HashMap<(String, String), StateId>;

/// Makes one lane's map of a state.
#[must_use]
pub fn lane_map<S>(setup: &LaneSetup, operator: &str, name: &str, codec: Arc<dyn Codec<S>>) -> TypedMap<S> {
    let id = setup
        .state_ids
        .get(&(operator.to_owned(), name.to_owned()))
        .copied()
        .unwrap_or(StateId(0));
    let limits = MapLimits {
        bytes_max: setup.map_bytes_max,
    };
    TypedMap::new(
        id,
        format!("{operator}/{name}"),
        codec,
        setup.groups,
        setup.backends.clone(),
        limits,
    )
    .observed_by(observer(&setup.metrics, operator, name))
}

/// A user's keyed operator; one instance per lane, made by the factory given to `process`.
pub trait KeyedProcess<T, U> {
    /// One item of the key at hand. Runs on the lane's thread.
    ///
    /// # Errors
    /// Refuses the record: its changes and emissions in this call are undone, and the bad-record policy decides.
    fn process(&mut self, item: T, context: &mut ProcessContext<'_, U>) -> Result<(), ProcessError>;
}

/// Why `process` failed.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The user refuses the record.
    #[error("{0}")]
    Refused(Refused),
    /// State could not be read; ends the lane.
    #[error(transparent)]
    State(#[from] StateError),
}

impl<R: Into<Refused>> From<R> for ProcessError {
    fn from(refused: R) -> Self {
        ProcessError::Refused(refused.into())
    }
}

/// The record at hand, and where to emit.
pub struct ProcessContext<'a, U> {
    meta: &'a Meta<'a>,
    topic: &'a str,
    watermark: TimestampMs,
    emitted: &'a mut Vec<(U, TimestampMs)>,
}

impl<U> ProcessContext<'_, U> {
    /// Emits an item with the record's timestamp.
    pub fn emit(&mut self, item: U) {
        let timestamp = self.meta.timestamp;
        self.emitted.push((item, timestamp));
    }
    /// Emits an item with another timestamp. One that no record may have (negative other than -1, or more than `max_future` ahead) refuses
    /// this item; the others and the changes of state stay.
    pub fn emit_at(&mut self, item: U, timestamp: TimestampMs) {
        self.emitted.push((item, timestamp));
    }
    /// The key bytes.
    #[must_use]
    pub fn key_bytes(&self) -> &[u8] {
        self.meta.key.unwrap_or_default()
    }
    /// The record's timestamp.
    #[must_use]
    pub fn timestamp(&self) -> TimestampMs {
        self.meta.timestamp
    }
    /// Topic, by way of the source that the record came from.
    #[must_use]
    pub fn topic(&self) -> &str {
        self.topic
    }
    /// Source, partition and offset.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.meta.origin
    }
    /// The record's headers.
    #[must_use]
    pub fn headers(&self) -> Vec<Header> {
        self.meta.headers.to_vec()
    }
    /// The lane's watermark; None before any.
    #[must_use]
    pub fn watermark(&self) -> Option<TimestampMs> {
        (self.watermark != i64::MIN).then_some(self.watermark)
    }
}

/// The key that state calls are about; set by the lane before each item.
#[derive(Debug, Default)]
struct Current {
    bytes: Vec<u8>,
    hash: u32,
    group: u16,
    timestamp: TimestampMs,
}

impl Current {
    fn key(&self) -> KeyRef<'_> {
        KeyRef {
            group: KeyGroup(self.group),
            hash: self.hash,
            bytes: &self.bytes,
        }
    }
}

/// One value per key, under a name. Cheap to clone; clones are the same state.
pub struct ValueState<S> {
    cell: Rc<RefCell<ValueCell<S>>>,
}

impl<S> Clone for ValueState<S> {
    fn clone(&self) -> Self {
        ValueState {
            cell: Rc::clone(&self.cell),
        }
    }
}

struct ValueCell<S> {
    map: TypedMap<S>,
    current: Rc<RefCell<Current>>,
    /// The entry before the first change in this call.
    undo: Option<Kept<S>>,
}

impl<S: Clone + 'static> ValueState<S> {
    /// The value of the key at hand.
    ///
    /// # Errors
    /// State that cannot be read.
    pub fn get(&self) -> Result<Option<S>, StateError> {
        let cell = &mut *self.cell.borrow_mut();
        let current = cell.current.borrow();
        Ok(cell.map.get(current.key())?.map(|(value, _)| value.clone()))
    }

    /// Changes the value of the key at hand in place; None is absent.
    ///
    /// # Errors
    /// State that cannot be read.
    pub fn update<R>(&self, change: impl FnOnce(&mut Option<S>) -> R) -> Result<R, StateError> {
        let cell = &mut *self.cell.borrow_mut();
        let current = cell.current.borrow();
        cell.map
            .update_keeping(current.key(), current.timestamp, &mut cell.undo, change)
    }

    /// Sets the value of the key at hand.
    ///
    /// # Errors
    /// State that cannot be read.
    pub fn set(&self, value: S) -> Result<(), StateError> {
        self.update(|old| *old = Some(value))
    }

    /// Deletes the value of the key at hand.
    ///
    /// # Errors
    /// State that cannot be read.
    pub fn clear(&self) -> Result<(), StateError> {
        self.update(|old| *old = None)
    }
}

/// What the lane does with every state, whatever its type.
trait StateCell {
    fn prefetch(&self, keys: &mut dyn Iterator<Item = KeyRef<'_>>) -> Result<(), StateError>;
    fn end_batch(&self, applied: u64);
    fn encode_dirty(&self, epoch: u64, out: &mut [ChangeSet]) -> Result<(), StateError>;
    fn dirty_bytes(&self) -> usize;
    fn settle(&self, undo: bool) -> Result<(), StateError>;
}

impl<S: Clone> StateCell for RefCell<ValueCell<S>> {
    fn prefetch(&self, keys: &mut dyn Iterator<Item = KeyRef<'_>>) -> Result<(), StateError> {
        self.borrow_mut().map.prefetch(keys)
    }
    fn end_batch(&self, applied: u64) {
        let map = &mut self.borrow_mut().map;
        map.applied(applied);
        map.maintain();
    }
    fn encode_dirty(&self, epoch: u64, out: &mut [ChangeSet]) -> Result<(), StateError> {
        self.borrow_mut().map.encode_dirty(epoch, out)
    }
    fn dirty_bytes(&self) -> usize {
        self.borrow().map.dirty_bytes()
    }
    fn settle(&self, undo: bool) -> Result<(), StateError> {
        let cell = &mut *self.borrow_mut();
        if let Some(old) = cell.undo.take().filter(|_| undo) {
            let current = cell.current.borrow();
            cell.map.restore(current.key(), old)?;
        }
        Ok(())
    }
}

/// Hands out an operator's states. The factory runs once when the topology is built, to learn their names, and once per lane.
pub struct StateScope {
    operator: String,
    setup: Option<LaneSetup>,
    decls: Vec<StateDecl>,
    cells: Vec<Rc<dyn StateCell>>,
    current: Rc<RefCell<Current>>,
}

impl StateScope {
    /// For learning the names; its states hold nothing.
    #[must_use]
    pub fn declaring(operator: &str) -> StateScope {
        StateScope {
            operator: operator.to_owned(),
            setup: None,
            decls: Vec::new(),
            cells: Vec::new(),
            current: Rc::default(),
        }
    }

    /// For a lane.
    #[must_use]
    pub fn of_lane(operator: &str, setup: &LaneSetup) -> StateScope {
        StateScope {
            setup: Some(setup.clone()),
            ..StateScope::declaring(operator)
        }
    }

    /// What was declared.
    #[must_use]
    pub fn into_decls(self) -> Vec<StateDecl> {
        self.decls
    }

    /// A value state. Names are stable: they find the state again after a restart.
    pub fn value<S: Clone + 'static>(&mut self, name: &str, codec: impl Codec<S> + 'static) -> ValueState<S> {
        let codec: Arc<dyn Codec<S>> = Arc::new(codec);
        self.decls.push(StateDecl {
            operator: self.operator.clone(),
            name: name.to_owned(),
            schema: codec.schema(),
        });
        let map = match &self.setup {
            Some(setup) => lane_map(setup, &self.operator, name, codec),
            None => {
                let groups = crate::types::KeyGroups {
                    max_parallelism: 1,
                    shards: 1,
                    partitioner: crate::types::Partitioner::Murmur2,
                };
                TypedMap::new(StateId(0), name, codec, groups, Vec::new(), MapLimits { bytes_max: 0 })
            }
        };
        let cell = Rc::new(RefCell::new(ValueCell {
            map,
            current: Rc::clone(&self.current),
            undo: None,
        }));
        self.cells.push(Rc::clone(&cell) as Rc<dyn StateCell>);
        ValueState { cell }
    }
}

/// One lane's instance of a process operator.
pub struct Process<P, U> {
    id: String,
    user: P,
    scope: StateScope,
    next: Box<dyn Push<U>>,
    emitted: Vec<(U, TimestampMs)>,
}

impl<P, U> Process<P, U> {
    /// `scope` is the one that `user` was made with.
    #[must_use]
    pub fn new(id: String, user: P, scope: StateScope, next: Box<dyn Push<U>>) -> Self {
        Process {
            id,
            user,
            scope,
            next,
            emitted: Vec::new(),
        }
    }

    fn set_current(&self, meta: &Meta<'_>) {
        let mut current = self.scope.current.borrow_mut();
        current.bytes.clear();
        current.bytes.extend_from_slice(meta.key.unwrap_or_default());
        current.hash = meta.hash;
        current.group = meta.group.0;
        current.timestamp = meta.timestamp;
    }
}

impl<T, U, P: KeyedProcess<T, U>> Push<T> for Process<P, U> {
    fn push(&mut self, item: T, meta: &Meta<'_>, lane: &mut LaneContext) -> Result<(), StepError> {
        self.set_current(meta);
        self.emitted.clear();
        let topic = lane
            .setup
            .sources
            .get(usize::from(meta.origin.source))
            .map_or("", |s| s.topic.as_str());
        let mut context = ProcessContext {
            meta,
            topic,
            watermark: lane.watermark.at,
            emitted: &mut self.emitted,
        };
        let result = self.user.process(item, &mut context);
        let undo = result.is_err();
        self.scope.cells.iter().try_for_each(|cell| cell.settle(undo))?;
        match result {
            Ok(()) => {}
            Err(ProcessError::State(e)) => return Err(e.into()),
            Err(ProcessError::Refused(refused)) => return Err(refused.at(&self.id)),
        }
        for (out, timestamp) in self.emitted.drain(..) {
            // Before it reaches state further on: an aggregate keeps the largest timestamp for good.
            let checked = if timestamp == meta.timestamp || lane.setup.faults.broken("EP-8") {
                Ok(())
            } else {
                lane.check_timestamp(timestamp, &self.id)
            };
            let pushed = checked.and_then(|()| self.next.push(out, &Meta { timestamp, ..*meta }, lane));
            lane.settle(pushed, meta)?;
        }
        Ok(())
    }
    fn prefetch(&mut self, keys: &mut dyn Iterator<Item = KeyRef<'_>>) -> Result<(), LaneError> {
        let keys: Vec<KeyRef<'_>> = keys.collect();
        for cell in &self.scope.cells {
            cell.prefetch(&mut keys.iter().copied())?;
        }
        self.next.prefetch(&mut keys.iter().copied())
    }
    fn end_batch(&mut self, applied: u64, lane: &mut LaneContext) -> Result<(), LaneError> {
        self.scope.cells.iter().for_each(|cell| cell.end_batch(applied));
        self.next.end_batch(applied, lane)
    }
    fn barrier(&mut self, barrier: Barrier, share: &mut LaneShare, lane: &mut LaneContext) -> Result<(), LaneError> {
        for cell in &self.scope.cells {
            cell.encode_dirty(barrier.epoch, &mut share.changes)?;
        }
        self.next.barrier(barrier, share, lane)
    }
    fn dirty_bytes(&self) -> usize {
        self.scope.cells.iter().map(|c| c.dirty_bytes()).sum::<usize>() + self.next.dirty_bytes()
    }
}
