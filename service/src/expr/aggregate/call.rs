//! The aggregates one by one.
use std::cmp::Ordering;

use super::accumulator::{Accumulator, Change, Distinct, State, Step};
use super::codec;
use crate::expr::check::{Checked, Checker};
use crate::expr::error::{At, ExprError, Fault, What};
use crate::expr::node::{Arithmetic, Float, Kind, Long, Node, Ordered, Typed, decimal_digits, mean, pow10};
use crate::value::{DECIMAL_DIGITS_MAX, Row, Type, Value};

/// Most distinct values that `count_distinct` keeps for a key. They are the state of that key, written whole with every epoch in which it changes;
/// for more an exact count is the wrong tool.
pub const DISTINCT_MAX: usize = 10_000;

/// Most bytes of the distinct values of a key together, so that long texts stay within what an epoch can write often.
pub const DISTINCT_BYTES_MAX: usize = 1 << 20;

/// Digits behind the point of an average of decimals, if the digits before it leave room for them.
const AVERAGE_SCALE: u8 = 6;

/// A checked call.
pub(super) struct Call {
    pub fold: Fold,
    /// Type of the argument; of count() it is of no importance.
    pub argument: Type,
    at: At,
}

pub(super) enum Fold {
    /// Of all rows.
    Rows,
    /// Of those in which the argument is not NULL.
    Count(Typed),
    Sum(Node<Long>),
    FloatSum(Node<Float>),
    /// With digits behind the point that the average has more than the argument; None: it is a float.
    Mean(Node<Long>, Option<u8>),
    FloatMean(Node<Float>),
    /// The least or the largest.
    Extreme(Typed, Ordering),
    First(Typed),
    Last(Typed),
    Distinct(Typed),
}

impl Call {
    /// The call and the type of its values.
    pub fn new(
        checker: &Checker<'_>,
        name: &str,
        argument: Option<Checked>,
        at: At,
    ) -> Result<(Call, Type), ExprError> {
        let Some(argument) = argument else {
            let (fold, argument) = (Fold::Rows, Type::Bool);
            return Ok((Call { fold, argument, at }, Type::Int));
        };
        let argument_at = argument.at;
        let Some((node, ty)) = argument.typed else {
            let error = ExprError::new(argument_at, format!("{name} of NULL, which has no type"));
            return Err(error.help(format!("{name}(CAST(NULL AS int64))")));
        };
        let text = checker.text_of(argument_at);
        let wrong = |what: &str| ExprError::new(argument_at, format!("{name} takes {what}, but `{text}` is {ty}"));
        let nested = matches!(ty, Type::Array(_) | Type::Struct(_));
        let (fold, result) = match (name, node) {
            ("count", node) => (Fold::Count(node), Type::Int),
            ("first", node) => (Fold::First(node), ty.clone()),
            ("last", node) => (Fold::Last(node), ty.clone()),
            ("min" | "max" | "count_distinct", _) if nested => {
                return Err(wrong("what can be compared").help("take a part: tags[1], address.city"));
            }
            ("min", node) => (Fold::Extreme(node, Ordering::Less), ty.clone()),
            ("max", node) => (Fold::Extreme(node, Ordering::Greater), ty.clone()),
            ("count_distinct", node) => (Fold::Distinct(node), Type::Int),
            ("sum", Typed::Float(node)) => (Fold::FloatSum(node), Type::Float),
            ("avg", Typed::Float(node)) => (Fold::FloatMean(node), Type::Float),
            ("sum", Typed::Long(node)) if ty.is_numeric() => (Fold::Sum(node), sum_type(&ty)),
            ("avg", Typed::Long(node)) if ty.is_numeric() => {
                let result = mean_type(&ty);
                let more = match &result {
                    Type::Decimal { scale, .. } => Some(scale - decimal_digits(&ty).1),
                    _ => None,
                };
                (Fold::Mean(node, more), result)
            }
            _ if ty == Type::String => {
                return Err(wrong("numbers").help(format!("{name}(CAST({text} AS int64)), or a decimal")));
            }
            _ => return Err(wrong("numbers")),
        };
        let argument = ty;
        Ok((Call { fold, argument, at }, result))
    }

    pub fn start(&self) -> Accumulator {
        Accumulator(match &self.fold {
            Fold::Rows | Fold::Count(_) => State::Count(0),
            Fold::Sum(_) => State::Sum(None),
            Fold::FloatSum(_) => State::FloatSum(None),
            Fold::Mean(..) => State::Mean { sum: 0, count: 0 },
            Fold::FloatMean(_) => State::FloatMean { sum: 0.0, count: 0 },
            Fold::Extreme(..) | Fold::First(_) | Fold::Last(_) => State::Kept(Value::Null),
            Fold::Distinct(_) => State::Distinct(Distinct::default()),
        })
    }

    pub fn change(&self, accumulator: &Accumulator, row: &Row) -> Result<Change, Box<Fault>> {
        let state = match (&self.fold, &accumulator.0) {
            (Fold::Rows, State::Count(count)) => Some(State::Count(self.increment(*count)?)),
            (Fold::Count(node), State::Count(count)) => match node.is_null(row)? {
                true => None,
                false => Some(State::Count(self.increment(*count)?)),
            },
            (Fold::Sum(node), State::Sum(sum)) => match node.eval(row)? {
                None => None,
                Some(value) => Some(State::Sum(Some(self.sum(sum.unwrap_or(0), value)?))),
            },
            (Fold::FloatSum(node), State::FloatSum(sum)) => match node.eval(row)? {
                None => None,
                Some(value) => Some(State::FloatSum(Some(self.float_sum(sum.unwrap_or(0.0), value)?))),
            },
            (Fold::Mean(node, _), State::Mean { sum, count }) => match node.eval(row)? {
                None => None,
                Some(value) => {
                    let sum = sum.checked_add(i128::from(value)).ok_or_else(|| self.overflow())?;
                    let count = self.increment(*count)?;
                    Some(State::Mean { sum, count })
                }
            },
            (Fold::FloatMean(node), State::FloatMean { sum, count }) => match node.eval(row)? {
                None => None,
                Some(value) => {
                    let (sum, count) = (self.float_sum(*sum, value)?, self.increment(*count)?);
                    Some(State::FloatMean { sum, count })
                }
            },
            (Fold::Extreme(node, wanted), State::Kept(kept)) => {
                self.extreme(node, *wanted, kept, row)?.map(State::Kept)
            }
            // The argument is computed for every row: one that fails is refused wherever it stands.
            (Fold::First(node), State::Kept(kept)) => {
                let value = node.eval(row, &self.argument)?;
                (kept.is_null() && !value.is_null()).then_some(State::Kept(value))
            }
            (Fold::Last(node), State::Kept(_)) => {
                let value = node.eval(row, &self.argument)?;
                (!value.is_null()).then_some(State::Kept(value))
            }
            (Fold::Distinct(node), State::Distinct(distinct)) => return self.distinct(node, distinct, row),
            // An accumulator of another aggregate.
            _ => return Err(Fault::of(What::Mismatch, self.at)),
        };
        Ok(Change(state.map_or(Step::Nothing, Step::Become)))
    }

    fn overflow(&self) -> Box<Fault> {
        Fault::of(What::Overflow(sum_type(&self.argument)), self.at)
    }

    fn increment(&self, count: i64) -> Result<i64, Box<Fault>> {
        count
            .checked_add(1)
            .ok_or_else(|| Fault::of(What::Overflow(Type::Int), self.at))
    }

    fn sum(&self, sum: i64, value: i64) -> Result<i64, Box<Fault>> {
        let limit = match self.argument {
            Type::Decimal { .. } => pow10(DECIMAL_DIGITS_MAX).unsigned_abs(),
            _ => u64::MAX,
        };
        let sum = sum.checked_add(value).filter(|sum| sum.unsigned_abs() < limit);
        sum.ok_or_else(|| self.overflow())
    }

    fn float_sum(&self, sum: f64, value: f64) -> Result<f64, Box<Fault>> {
        Arithmetic::Add.floats(sum, value).ok_or_else(|| self.overflow())
    }

    /// The row's value, if it is the better one.
    fn extreme(&self, node: &Typed, wanted: Ordering, kept: &Value, row: &Row) -> Result<Option<Value>, Box<Fault>> {
        let ty = &self.argument;
        match node {
            Typed::Bool(node) => better(node, wanted, kept, row, ty),
            Typed::Long(node) => better(node, wanted, kept, row, ty),
            Typed::Float(node) => better(node, wanted, kept, row, ty),
            Typed::Text(node) => better(node, wanted, kept, row, ty),
            Typed::Bytes(node) => better(node, wanted, kept, row, ty),
            Typed::Nested(_) => Ok(None),
        }
    }

    fn distinct(&self, node: &Typed, distinct: &Distinct, row: &Row) -> Result<Change, Box<Fault>> {
        let value = node.eval(row, &self.argument)?;
        if value.is_null() {
            return Ok(Change(Step::Nothing));
        }
        let mut bytes = Vec::with_capacity(16);
        codec::encode_value(&codec::canonical(value), &self.argument, &mut bytes);
        if distinct.values.contains(bytes.as_slice()) {
            return Ok(Change(Step::Nothing));
        }
        let too_many = |what, max| Err(Fault::of(What::TooManyValues { what, max }, self.at));
        if distinct.values.len() >= DISTINCT_MAX {
            return too_many("distinct values", DISTINCT_MAX);
        }
        if distinct.bytes + bytes.len() > DISTINCT_BYTES_MAX {
            return too_many("bytes of distinct values", DISTINCT_BYTES_MAX);
        }
        Ok(Change(Step::Insert(bytes.into())))
    }

    pub fn value(&self, accumulator: &Accumulator) -> Value {
        match (&accumulator.0, &self.fold) {
            (State::Count(count), _) => Value::Int(*count),
            (State::Sum(sum), _) => sum.map_or(Value::Null, |sum| Long::value(sum, &sum_type(&self.argument))),
            (State::FloatSum(sum), _) => sum.map_or(Value::Null, Value::Float),
            (State::Mean { count: 0, .. } | State::FloatMean { count: 0, .. }, _) => Value::Null,
            (State::Mean { sum, count }, Fold::Mean(_, Some(more))) => {
                mean(*sum, *count, *more).map_or(Value::Null, Value::Decimal)
            }
            (State::Mean { sum, count }, _) => Value::Float(*sum as f64 / *count as f64),
            (State::FloatMean { sum, count }, _) => Value::Float(sum / *count as f64),
            (State::Kept(value), _) => value.clone(),
            (State::Distinct(distinct), _) => Value::Int(i64::try_from(distinct.values.len()).unwrap_or(i64::MAX)),
        }
    }
}

fn sum_type(argument: &Type) -> Type {
    match argument {
        Type::Decimal { scale, .. } => Type::Decimal {
            precision: DECIMAL_DIGITS_MAX,
            scale: *scale,
        },
        ty => ty.clone(),
    }
}

/// An average is no larger than the largest, so that digits behind the point can be given as far as those before it leave room.
fn mean_type(argument: &Type) -> Type {
    match argument {
        Type::Decimal { precision, scale } => {
            let room = DECIMAL_DIGITS_MAX - (precision - scale);
            Type::Decimal {
                precision: DECIMAL_DIGITS_MAX,
                scale: AVERAGE_SCALE.min(room).max(*scale),
            }
        }
        _ => Type::Float,
    }
}

fn better<K: Ordered>(
    node: &Node<K>,
    wanted: Ordering,
    kept: &Value,
    row: &Row,
    ty: &Type,
) -> Result<Option<Value>, Box<Fault>> {
    let Some(value) = node.eval(row)? else {
        return Ok(None);
    };
    let kept = K::read(kept);
    let better = kept.is_none_or(|kept| K::compare(&value, &kept) == wanted);
    Ok(better.then(|| K::value(value, ty)))
}
