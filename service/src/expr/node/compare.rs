//! Comparison of two values of one kind.
use std::cmp::Ordering;

use super::{Bool, Bytes, Eval, Float, Long, Node, Ordered, Text, both};
use crate::value::Row;

/// A comparison operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::expr) enum Cmp {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Cmp {
    #[inline]
    pub fn holds(self, ordering: Ordering) -> bool {
        match self {
            Cmp::Equal => ordering.is_eq(),
            Cmp::NotEqual => ordering.is_ne(),
            Cmp::Less => ordering.is_lt(),
            Cmp::LessOrEqual => ordering.is_le(),
            Cmp::Greater => ordering.is_gt(),
            Cmp::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// Two sides of one kind.
pub(in crate::expr) enum Compare {
    Bools(Node<Bool>, Node<Bool>),
    Longs(Node<Long>, Node<Long>),
    /// Decimals of different scales: each side times a power of ten.
    Wide(Wide, Wide),
    Floats(Node<Float>, Node<Float>),
    Texts(Node<Text>, Node<Text>),
    Bytes(Node<Bytes>, Node<Bytes>),
}

impl Compare {
    #[inline]
    pub fn eval(&self, row: &Row) -> Eval<Ordering> {
        match self {
            Compare::Longs(left, right) => compare(left, right, row),
            Compare::Texts(left, right) => compare(left, right, row),
            Compare::Floats(left, right) => compare(left, right, row),
            Compare::Bools(left, right) => compare(left, right, row),
            Compare::Bytes(left, right) => compare(left, right, row),
            Compare::Wide(left, right) => {
                let (left, right) = (left.eval(row)?, right.eval(row)?);
                Ok(left.zip(right).map(|(left, right)| left.cmp(&right)))
            }
        }
    }
}

#[inline]
fn compare<K: Ordered>(left: &Node<K>, right: &Node<K>, row: &Row) -> Eval<Ordering> {
    Ok(both(left, right, row)?.map(|(left, right)| K::compare(&left, &right)))
}

/// A whole number times a power of ten of at most 10^18, so that no product overflows.
pub(in crate::expr) struct Wide {
    pub of: Node<Long>,
    pub up: i128,
}

impl Wide {
    pub fn eval(&self, row: &Row) -> Eval<i128> {
        Ok(self.of.eval(row)?.map(|value| i128::from(value) * self.up))
    }
}

/// A total order, as PostgreSQL's: NaN is equal to itself and above all others; 0 and -0 are equal.
#[inline]
pub(in crate::expr) fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}
