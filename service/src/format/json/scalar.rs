//! The values that JSON has no type of its own for: exact numbers, timestamps, bytes.
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::shape::Shape;
use crate::value::{TIMESTAMP_MAX, TIMESTAMP_MIN, Value, parse_decimal, parse_timestamp};

/// Why a value is refused; empty if saying what was expected and what was found is enough.
pub(super) type Why = String;

/// A float or a decimal from a value's text.
pub(super) fn read_number(shape: &Shape, raw: &str) -> Result<Value, Why> {
    match (raw.as_bytes(), shape) {
        ([b'n', ..], _) => Ok(Value::Null),
        ([b'-' | b'0'..=b'9', ..], Shape::Decimal { precision, scale }) => decimal(raw, *precision, *scale),
        ([b'"', ..], Shape::Decimal { precision, scale }) => {
            let inside = &raw[1..raw.len() - 1];
            if !inside.contains('\\') {
                return decimal(inside, *precision, *scale);
            }
            let text: String = serde_json::from_str(raw).map_err(|_| "a broken escape".to_owned())?;
            decimal(&text, *precision, *scale)
        }
        ([b'-' | b'0'..=b'9', ..], _) => match raw.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(Value::Float(value)),
            _ => Err("beyond float64".to_owned()),
        },
        _ => Err(Why::new()),
    }
}

fn decimal(text: &str, precision: u8, scale: u8) -> Result<Value, Why> {
    parse_decimal(text, precision, scale)
        .map(Value::Decimal)
        .map_err(|error| error.to_string())
}

pub(super) fn timestamp_of_ms(ms: i64) -> Result<Value, Why> {
    if (TIMESTAMP_MIN..=TIMESTAMP_MAX).contains(&ms) {
        return Ok(Value::Timestamp(ms));
    }
    Err("beyond the year 9999 or before 0, as milliseconds; are these micro- or nanoseconds?".to_owned())
}

pub(super) fn timestamp_of_text(text: &str) -> Result<Value, Why> {
    parse_timestamp(text)
        .map(Value::Timestamp)
        .map_err(|error| error.to_string())
}

/// Base64 with the standard alphabet and padding.
pub(super) fn bytes_of_text(text: &str) -> Result<Value, Why> {
    match BASE64_STANDARD.decode(text) {
        Ok(bytes) => Ok(Value::Bytes(bytes.into())),
        Err(_) => Err("not base64 (standard alphabet, padded)".to_owned()),
    }
}

/// Why a number that is no integer of 64 bits is none.
pub(super) fn why_no_integer(value: f64) -> &'static str {
    if value.abs() >= i64::MAX as f64 {
        "beyond 64 bits"
    } else {
        "only whole numbers, without a point or an exponent"
    }
}
