//! What gives float64.
use super::{Arithmetic, Eval, Float, Long, Node, Text, both, float_to_decimal, pow10};
use crate::expr::error::{At, Fault, What};
use crate::value::{Row, Type, write_decimal};

pub(in crate::expr) enum FloatOp {
    Arithmetic {
        op: Arithmetic,
        left: Node<Float>,
        right: Node<Float>,
        at: At,
    },
    Negate(Node<Float>),
    Absolute(Node<Float>),
    Floor(Node<Float>),
    Ceil(Node<Float>),
    /// A half away from zero, at so many digits behind the point; before it, if less than 0.
    Round(Node<Float>, i32),
    /// Of an int64 (scale 0) or a decimal.
    OfLong(Node<Long>, u8),
    OfText {
        of: Node<Text>,
        lenient: bool,
        at: At,
    },
}

impl FloatOp {
    pub fn eval(&self, row: &Row) -> Eval<f64> {
        match self {
            FloatOp::Arithmetic { op, left, right, at } => {
                let Some((left, right)) = both(left, right, row)? else {
                    return Ok(None);
                };
                if op.divides() && right == 0.0 {
                    return Err(Fault::of(What::DivisionByZero, *at));
                }
                match op.floats(left, right) {
                    Some(result) => Ok(Some(result)),
                    None => Err(Fault::of(What::Overflow(Type::Float), *at)),
                }
            }
            FloatOp::OfLong(of, scale) => Ok(of.eval(row)?.map(|value| of_decimal(value, *scale))),
            FloatOp::OfText { of, lenient, at } => {
                let Some(text) = of.eval(row)? else {
                    return Ok(None);
                };
                match parse(text.trim()) {
                    Some(value) => Ok(Some(value)),
                    None if *lenient => Ok(None),
                    None => Err(Fault::cast(&text, Type::Float, *at)),
                }
            }
            FloatOp::Negate(of) => Ok(of.eval(row)?.map(|value| -value)),
            FloatOp::Absolute(of) => Ok(of.eval(row)?.map(f64::abs)),
            FloatOp::Floor(of) => Ok(of.eval(row)?.map(f64::floor)),
            FloatOp::Ceil(of) => Ok(of.eval(row)?.map(f64::ceil)),
            FloatOp::Round(of, digits) => Ok(of.eval(row)?.map(|value| round(value, *digits))),
        }
    }
}

/// The float next to an unscaled value of this scale.
pub(in crate::expr) fn of_decimal(unscaled: i64, scale: u8) -> f64 {
    // Both are exact up to 2^53 and 10^22, so the quotient is rounded once.
    if unscaled.unsigned_abs() <= 1 << 53 {
        return unscaled as f64 / pow10(scale) as f64;
    }
    let mut text = Vec::with_capacity(24);
    write_decimal(unscaled, scale, &mut text);
    let text = std::str::from_utf8(&text).unwrap_or_default();
    text.parse().unwrap_or(f64::NAN)
}

/// A number, `Infinity`, `-Infinity` or `NaN`. None too for a number beyond the largest float: it would become an infinity that nobody wrote.
fn parse(text: &str) -> Option<f64> {
    let value: f64 = text.parse().ok()?;
    let digits = text.bytes().any(|b| b.is_ascii_digit());
    (value.is_finite() || !digits).then_some(value)
}

/// What the shortest text of the value gives when it is rounded: 1.005 to two digits is 1.01.
fn round(value: f64, digits: i32) -> f64 {
    if !value.is_finite() {
        return value;
    }
    match u8::try_from(digits) {
        Ok(0) => value.round(),
        // A shortest text has 17 digits at most. What does not fit into 19 has none to round here.
        Ok(digits @ 1..=17) => float_to_decimal(value, digits).map_or(value, |unscaled| of_decimal(unscaled, digits)),
        Err(_) if digits < 0 => {
            let power = 10_f64.powi(digits.saturating_neg());
            let rounded = (value / power).round() * power;
            match (power.is_finite(), rounded.is_finite()) {
                (false, _) => 0.0,
                (true, false) => value,
                (true, true) => rounded,
            }
        }
        _ => value,
    }
}

/// As JSON writes it; what JSON cannot write by name.
pub(in crate::expr) fn float_text(value: f64) -> String {
    match serde_json::Number::from_f64(value) {
        Some(number) => number.to_string(),
        None if value.is_nan() => "NaN".to_owned(),
        None if value > 0.0 => "Infinity".to_owned(),
        None => "-Infinity".to_owned(),
    }
}
