//! What gives int64, decimals (unscaled) and timestamps (milliseconds).
use super::decimal::{divide, float_to_decimal, pow10, quotient};
use super::time::{self, Interval, TimeField, TimeUnit};
use super::{Arithmetic, Bool, Bytes, Eval, Float, Long, Nested, Node, Rounding, Text, both, float_text};
use crate::expr::error::{At, Fault, What};
use crate::value::{Row, Type, Value};

pub(in crate::expr) enum LongOp {
    /// On int64.
    Arithmetic {
        op: Arithmetic,
        left: Node<Long>,
        right: Node<Long>,
        at: At,
    },
    Decimals(Decimals),
    Negate(Node<Long>, At),
    Absolute(Node<Long>, At),
    Scale(Scaling),
    OfBool(Node<Bool>),
    OfFloat {
        of: Node<Float>,
        to: Target,
    },
    OfText {
        of: Node<Text>,
        to: Target,
    },
    /// A timestamp moved by an interval.
    Shift {
        of: Node<Long>,
        by: Interval,
        at: At,
    },
    /// Milliseconds between two timestamps.
    Elapsed {
        left: Node<Long>,
        right: Node<Long>,
        at: At,
    },
    /// An int64 as a timestamp.
    Timestamp {
        of: Node<Long>,
        lenient: bool,
        at: At,
    },
    Truncate {
        of: Node<Long>,
        unit: TimeUnit,
        at: At,
    },
    Extract {
        of: Node<Long>,
        field: TimeField,
        at: At,
    },
    Characters(Node<Text>),
    Octets(Node<Bytes>),
    Elements(Node<Nested>),
}

/// The type of a result, and what becomes of a value that it has no room for.
pub(in crate::expr) struct Target {
    pub ty: Type,
    /// NULL instead of an error.
    pub lenient: bool,
    pub at: At,
}

impl Target {
    fn holds(&self, value: i64) -> bool {
        match self.ty {
            Type::Decimal { precision, .. } => value.unsigned_abs() < pow10(precision).unsigned_abs(),
            _ => true,
        }
    }

    fn scale(&self) -> u8 {
        match self.ty {
            Type::Decimal { scale, .. } => scale,
            _ => 0,
        }
    }

    fn or_fault(&self, value: Option<i64>, fault: impl FnOnce() -> Box<Fault>) -> Eval<i64> {
        match value.filter(|value| self.holds(*value)) {
            Some(value) => Ok(Some(value)),
            None if self.lenient => Ok(None),
            None => Err(fault()),
        }
    }

    fn fit(&self, value: i128) -> Eval<i64> {
        self.or_fault(i64::try_from(value).ok(), || {
            Fault::of(What::Overflow(self.ty.clone()), self.at)
        })
    }
}

/// Arithmetic on decimals, or on decimals and int64.
pub(in crate::expr) struct Decimals {
    pub op: Arithmetic,
    pub left: Node<Long>,
    pub right: Node<Long>,
    /// Powers of ten that bring the sides to one scale; for `/` what gives the quotient its scale.
    pub left_up: i128,
    pub right_up: i128,
    pub to: Target,
}

impl Decimals {
    fn eval(&self, row: &Row) -> Eval<i64> {
        let Some((left, right)) = both(&self.left, &self.right, row)? else {
            return Ok(None);
        };
        if self.op.divides() && right == 0 {
            return Err(Fault::of(What::DivisionByZero, self.to.at));
        }
        // At most 10^19 times 10^18: none overflows, but for the dividend, which may be scaled by 10^36.
        let right = i128::from(right) * self.right_up;
        let result = match (self.op, i128::from(left).checked_mul(self.left_up)) {
            (Arithmetic::Add, Some(left)) => Some(left + right),
            (Arithmetic::Subtract, Some(left)) => Some(left - right),
            (Arithmetic::Multiply, Some(left)) => left.checked_mul(right),
            (Arithmetic::Divide, Some(left)) => Some(quotient(left, right)),
            (Arithmetic::Remainder, Some(left)) => Some(left.wrapping_rem(right)),
            // A dividend beyond 10^38 over at most 10^19 has more digits than any decimal.
            (_, None) => None,
        };
        self.to.fit(result.unwrap_or(i128::MAX))
    }
}

/// A value brought to another scale, or rounded at a digit: over `down`, rounded, times `up`.
pub(in crate::expr) struct Scaling {
    pub of: Node<Long>,
    pub up: i128,
    /// Above 0.
    pub down: i128,
    pub rounding: Rounding,
    pub to: Target,
}

impl Scaling {
    fn eval(&self, row: &Row) -> Eval<i64> {
        let Some(value) = self.of.eval(row)? else {
            return Ok(None);
        };
        let rounded = match self.down {
            1 => i128::from(value),
            down => divide(i128::from(value), down, self.rounding),
        };
        // At most 10^19 times 10^19.
        self.to.fit(rounded * self.up)
    }
}

impl LongOp {
    pub fn eval(&self, row: &Row) -> Eval<i64> {
        match self {
            LongOp::Arithmetic { op, left, right, at } => {
                let Some((left, right)) = both(left, right, row)? else {
                    return Ok(None);
                };
                if op.divides() && right == 0 {
                    return Err(Fault::of(What::DivisionByZero, *at));
                }
                int(op.longs(left, right), *at)
            }
            LongOp::Decimals(decimals) => decimals.eval(row),
            LongOp::Scale(scaling) => scaling.eval(row),
            LongOp::Negate(of, at) => match of.eval(row)? {
                Some(value) => int(value.checked_neg(), *at),
                None => Ok(None),
            },
            LongOp::Absolute(of, at) => match of.eval(row)? {
                Some(value) => int(value.checked_abs(), *at),
                None => Ok(None),
            },
            LongOp::Characters(of) => Ok(of.eval(row)?.map(|text| count(text.chars().count()))),
            LongOp::Octets(of) => Ok(of.eval(row)?.map(|bytes| count(bytes.len()))),
            LongOp::Elements(of) => Ok(of.eval(row)?.map(|value| match value.as_ref() {
                Value::Array(elements) => count(elements.len()),
                _ => 0,
            })),
            LongOp::OfBool(of) => Ok(of.eval(row)?.map(i64::from)),
            LongOp::OfFloat { of, to } => match of.eval(row)? {
                Some(value) => to.or_fault(float_to_decimal(value, to.scale()), || {
                    let (value, to_type) = (float_text(value), to.ty.clone());
                    Fault::of(What::Cast { value, to: to_type }, to.at)
                }),
                None => Ok(None),
            },
            LongOp::OfText { of, to } => match of.eval(row)? {
                Some(text) => to.or_fault(to.parse(&text), || Fault::cast(&text, to.ty.clone(), to.at)),
                None => Ok(None),
            },
            time => time.eval_time(row),
        }
    }

    fn eval_time(&self, row: &Row) -> Eval<i64> {
        let (of, at) = match self {
            LongOp::Elapsed { left, right, at } => {
                let Some((left, right)) = both(left, right, row)? else {
                    return Ok(None);
                };
                return int(left.checked_sub(right), *at);
            }
            LongOp::Shift { of, at, .. }
            | LongOp::Timestamp { of, at, .. }
            | LongOp::Truncate { of, at, .. }
            | LongOp::Extract { of, at, .. } => (of, *at),
            _ => return Ok(None),
        };
        let Some(value) = of.eval(row)? else {
            return Ok(None);
        };
        let result = match self {
            LongOp::Shift { by, .. } => time::shift(value, *by),
            LongOp::Truncate { unit, .. } => time::truncate(value, *unit),
            LongOp::Extract { field, .. } => time::extract(value, *field),
            _ => time::in_calendar(value),
        };
        match result {
            Some(result) => Ok(Some(result)),
            None if matches!(self, LongOp::Timestamp { lenient: true, .. }) => Ok(None),
            None => Err(Fault::of(What::Calendar, at)),
        }
    }
}

impl Target {
    /// What the text says, without the white space around it.
    fn parse(&self, text: &str) -> Option<i64> {
        let text = text.trim();
        match self.ty {
            Type::Decimal { precision, scale } => crate::value::parse_decimal(text, precision, scale).ok(),
            Type::Timestamp => time::parse(text),
            _ => text.parse().ok(),
        }
    }
}

fn int(value: Option<i64>, at: At) -> Eval<i64> {
    match value {
        Some(value) => Ok(Some(value)),
        None => Err(Fault::of(What::Overflow(Type::Int), at)),
    }
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}
