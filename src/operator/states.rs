//! The named states of a process operator.
use super::context::{LaneSetup, Meta};
use super::map_meter::observer;
use crate::state::{ChangeSet, Kept, KeyRef, MapLimits, StateError, StateId, Ttl, TypedMap, Waiting};
use crate::types::{Codec, KeyGroup, KeyGroups, Partitioner, Shards, TimestampMs};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A state that an operator declares: its name, unique in the operator, and its codec's schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDecl {
    /// The operator's id.
    pub operator: String,
    /// The state's name.
    pub name: String,
    /// Name and version of the codec.
    pub schema: String,
    /// How long an entry lives after its last change, by event time; None for ever. Not part of the schema: it may be set, changed and left out
    /// from start to start.
    pub ttl: Option<Duration>,
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

/// The key that state calls are about; set by the lane before each item.
#[derive(Debug, Default)]
struct Current {
    bytes: Vec<u8>,
    hash: u32,
    group: u16,
    timestamp: TimestampMs,
    /// See [`super::context::LaneContext::expiry_time`].
    now: TimestampMs,
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
    /// Whether its entries expire.
    expires: bool,
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
        Ok(cell
            .map
            .get(current.key(), current.now)?
            .map(|(value, _)| value.clone()))
    }

    /// Changes the value of the key at hand in place; None is absent.
    ///
    /// # Errors
    /// State that cannot be read.
    pub fn update<R>(&self, change: impl FnOnce(&mut Option<S>) -> R) -> Result<R, StateError> {
        let cell = &mut *self.cell.borrow_mut();
        let current = cell.current.borrow();
        // What is changed by a late record lives from the horizon on: else it would have expired already.
        let timestamp = if cell.expires { current.now } else { current.timestamp };
        cell.map
            .update_keeping(current.key(), timestamp, &mut cell.undo, change)
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
pub(super) trait StateCell {
    fn prefetch(&self, keys: &[KeyRef<'_>]) -> Result<(), StateError>;
    /// Returns the bytes of state that were read or changed.
    fn end_batch(&self, applied: u64) -> usize;
    fn encode_dirty(&self, epoch: u64, taking: Shards, out: &mut [ChangeSet]) -> Result<Waiting, StateError>;
    fn dirty_bytes(&self) -> usize;
    fn settle(&self, undo: bool) -> Result<(), StateError>;
}

impl<S: Clone> StateCell for RefCell<ValueCell<S>> {
    fn prefetch(&self, keys: &[KeyRef<'_>]) -> Result<(), StateError> {
        self.borrow_mut().map.prefetch(keys)
    }
    fn end_batch(&self, applied: u64) -> usize {
        let map = &mut self.borrow_mut().map;
        map.applied(applied);
        map.maintain();
        map.take_touched()
    }
    fn encode_dirty(&self, epoch: u64, taking: Shards, out: &mut [ChangeSet]) -> Result<Waiting, StateError> {
        self.borrow_mut().map.encode_dirty(epoch, taking, out)
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

    /// The key of the item that comes next, and the time that decides what has expired.
    pub(super) fn set_current(&self, meta: &Meta<'_>, now: TimestampMs) {
        let mut current = self.current.borrow_mut();
        current.bytes.clear();
        current.bytes.extend_from_slice(meta.key.unwrap_or_default());
        current.hash = meta.hash;
        current.group = meta.group.0;
        current.timestamp = meta.timestamp;
        current.now = now;
    }

    /// What was handed out.
    pub(super) fn cells(&self) -> &[Rc<dyn StateCell>] {
        &self.cells
    }

    /// A value state. Names are stable: they find the state again after a restart.
    pub fn value<S: Clone + 'static>(&mut self, name: &str, codec: impl Codec<S> + 'static) -> ValueState<S> {
        self.add(name, Arc::new(codec), None)
    }

    /// A value state whose entries expire: an entry is absent for a record that is `ttl` or more, by event time, behind the entry's last change
    /// ([`ValueState::get`] is none), and is removed some time after the watermark has passed its end.
    ///
    /// A record that is late by more than that finds what a record at the watermark of the last epoch would find, and what it changes lives
    /// from that watermark on. `ttl` may be set, changed and left out from start to start; what has expired and is not removed yet comes
    /// back to life when it gets longer.
    ///
    /// ```
    /// # use keyfold::operator::{KeyedProcess, ProcessContext, ProcessError, StateScope, ValueState};
    /// # use keyfold::topology::KeyedStream;
    /// # use keyfold::types::codec::LongBe;
    /// # use std::time::Duration;
    /// /// Lets the first of the items of a key through, and the next one after an hour.
    /// struct Dedup {
    ///     seen: ValueState<i64>,
    /// }
    ///
    /// impl KeyedProcess<String, String> for Dedup {
    ///     fn process(&mut self, item: String, context: &mut ProcessContext<'_, String>) -> Result<(), ProcessError> {
    ///         if self.seen.get()?.is_none() {
    ///             self.seen.set(context.timestamp())?;
    ///             context.emit(item);
    ///         }
    ///         Ok(())
    ///     }
    /// }
    ///
    /// # fn build(keyed: KeyedStream<String>) {
    /// let hour = Duration::from_secs(3600);
    /// let firsts = keyed.process("dedup", move |scope: &mut StateScope| Dedup {
    ///     seen: scope.value_with_ttl("seen", LongBe, hour),
    /// });
    /// # drop::<KeyedStream<String>>(firsts);
    /// # }
    /// ```
    pub fn value_with_ttl<S: Clone + 'static>(
        &mut self,
        name: &str,
        codec: impl Codec<S> + 'static,
        ttl: Duration,
    ) -> ValueState<S> {
        self.add(name, Arc::new(codec), Some(ttl))
    }

    fn add<S: Clone + 'static>(
        &mut self,
        name: &str,
        codec: Arc<dyn Codec<S>>,
        ttl: Option<Duration>,
    ) -> ValueState<S> {
        self.decls.push(StateDecl {
            operator: self.operator.clone(),
            name: name.to_owned(),
            schema: codec.schema(),
            ttl,
        });
        let map = match &self.setup {
            Some(setup) => lane_map(setup, &self.operator, name, codec),
            None => {
                let groups = KeyGroups {
                    max_parallelism: 1,
                    shards: 1,
                    partitioner: Partitioner::Murmur2,
                };
                TypedMap::new(StateId(0), name, codec, groups, Vec::new(), MapLimits { bytes_max: 0 })
            }
        };
        let map = match ttl {
            Some(ttl) => map.with_ttl(Ttl::new(ttl)),
            None => map,
        };
        let cell = Rc::new(RefCell::new(ValueCell {
            map,
            expires: ttl.is_some(),
            current: Rc::clone(&self.current),
            undo: None,
        }));
        self.cells.push(Rc::clone(&cell) as Rc<dyn StateCell>);
        ValueState { cell }
    }
}
