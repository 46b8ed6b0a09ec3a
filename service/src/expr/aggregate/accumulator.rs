//! What an aggregate holds for a key.
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::value::Value;

/// What an aggregate holds for a key. Made, read and changed by its [`super::Aggregate`].
#[derive(Debug, Clone, PartialEq)]
pub struct Accumulator(pub(super) State);

#[derive(Debug, Clone, PartialEq)]
pub(super) enum State {
    Count(i64),
    /// A sum of int64 or decimals; None before the first.
    Sum(Option<i64>),
    FloatSum(Option<f64>),
    /// Of int64 or decimals. Wide enough for 2^63 of them.
    Mean {
        sum: i128,
        count: i64,
    },
    FloatMean {
        sum: f64,
        count: i64,
    },
    /// The least, the largest, the first or the last; NULL before the first.
    Kept(Value),
    Distinct(Distinct),
}

/// Distinct values, encoded and in the order of their bytes. A clone shares them until one of the two changes.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Distinct {
    pub values: Arc<BTreeSet<Box<[u8]>>>,
    /// Of all values together.
    pub bytes: usize,
}

/// What a row makes of an accumulator.
#[derive(Debug)]
pub struct Change(pub(super) Step);

#[derive(Debug)]
pub(super) enum Step {
    Nothing,
    Become(State),
    Insert(Box<[u8]>),
}

impl Accumulator {
    pub(super) fn apply(&mut self, change: Change) {
        match change.0 {
            Step::Nothing => {}
            Step::Become(state) => self.0 = state,
            Step::Insert(value) => {
                if let State::Distinct(distinct) = &mut self.0 {
                    distinct.insert(value);
                }
            }
        }
    }

    /// Bytes that it takes, about.
    #[must_use]
    pub fn weight(&self) -> usize {
        let heap = match &self.0 {
            State::Kept(value) => value.weight(),
            // A pointer, a length, the allocation's own, and the tree's nodes, which are half full at least.
            State::Distinct(distinct) => distinct.bytes + distinct.values.len() * 48,
            _ => 0,
        };
        heap + size_of::<Accumulator>()
    }
}

impl Distinct {
    pub fn insert(&mut self, value: Box<[u8]>) {
        let length = value.len();
        if Arc::make_mut(&mut self.values).insert(value) {
            self.bytes += length;
        }
    }
}
