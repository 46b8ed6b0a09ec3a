//! Accumulators as bytes, format 1: docs/format/accumulator.md. Big-endian.
//!
//! The state's schema names the aggregate and the type that the bytes depend on, so that the bytes themselves hold nothing but the values.
use std::sync::Arc;

use super::accumulator::{Accumulator, Distinct, State};
use super::call::{Call, Fold};
use crate::expr::node::pow10;
use crate::value::{DECIMAL_DIGITS_MAX, Field, Schema, Type, Value};

const VERSION: u32 = 1;

pub(super) fn schema(call: &Call) -> String {
    let name = match &call.fold {
        Fold::Rows | Fold::Count(_) => return format!("count/{VERSION}"),
        Fold::Sum(_) | Fold::FloatSum(_) => "sum",
        Fold::Mean(..) | Fold::FloatMean(_) => "avg",
        // A minimum is no maximum, though their bytes look alike.
        Fold::Extreme(_, wanted) if wanted.is_lt() => "min",
        Fold::Extreme(..) => "max",
        Fold::First(_) => "first",
        Fold::Last(_) => "last",
        Fold::Distinct(_) => "count_distinct",
    };
    format!("{name}({})/{VERSION}", stored(&call.argument))
}

/// The type as far as the bytes depend on it: a decimal may get more digits before the point, and fewer as long as what is kept has no more.
fn stored(ty: &Type) -> String {
    match ty {
        Type::Decimal { scale, .. } => format!("decimal:{scale}"),
        Type::Array(element) => format!("[{}]", stored(element)),
        Type::Struct(schema) => {
            let field = |field: &crate::value::Field| format!("{}: {}", field.name, stored(&field.ty));
            let fields: Vec<String> = schema.fields().iter().map(field).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        ty => ty.to_string(),
    }
}

pub(super) fn encode(call: &Call, accumulator: &Accumulator, out: &mut Vec<u8>) {
    match &accumulator.0 {
        State::Count(count) => out.extend_from_slice(&count.to_be_bytes()),
        State::Sum(sum) => {
            out.push(u8::from(sum.is_some()));
            out.extend(sum.iter().flat_map(|sum| sum.to_be_bytes()));
        }
        State::FloatSum(sum) => {
            out.push(u8::from(sum.is_some()));
            out.extend(sum.iter().flat_map(|sum| sum.to_be_bytes()));
        }
        State::Mean { sum, count } => {
            out.extend_from_slice(&sum.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
        }
        State::FloatMean { sum, count } => {
            out.extend_from_slice(&sum.to_be_bytes());
            out.extend_from_slice(&count.to_be_bytes());
        }
        State::Kept(value) => encode_value(value, &call.argument, out),
        State::Distinct(distinct) => {
            // DISTINCT_MAX is far below.
            let count = u32::try_from(distinct.values.len()).unwrap_or(u32::MAX);
            out.extend_from_slice(&count.to_be_bytes());
            distinct.values.iter().for_each(|value| out.extend_from_slice(value));
        }
    }
}

/// What is no encoding of such an accumulator, in words.
pub(super) fn decode(call: &Call, bytes: &mut &[u8]) -> Result<Accumulator, String> {
    let (ty, from) = (&call.argument, *bytes);
    if let Some(accumulator) = decode_as(call, ty, bytes) {
        return Ok(accumulator);
    }
    // Everything behind relies on the digits that a type has room for.
    Err(match decode_as(call, &widest(ty), &mut { from }) {
        Some(_) => {
            format!("a value that was kept has more digits than {ty}: give the column the precision that it had")
        }
        None => format!("no accumulator of {}", schema(call)),
    })
}

/// The type with as many digits as decimals can have.
fn widest(ty: &Type) -> Type {
    match ty {
        Type::Decimal { scale, .. } => Type::Decimal {
            precision: DECIMAL_DIGITS_MAX,
            scale: *scale,
        },
        Type::Array(element) => Type::Array(Arc::new(widest(element))),
        Type::Struct(schema) => {
            let field = |field: &Field| Field {
                name: field.name.clone(),
                ty: widest(&field.ty),
            };
            Type::Struct(Arc::new(Schema::new(schema.fields().iter().map(field).collect())))
        }
        ty => ty.clone(),
    }
}

fn decode_as(call: &Call, ty: &Type, bytes: &mut &[u8]) -> Option<Accumulator> {
    let state = match call.start().0 {
        State::Count(_) => State::Count(count(bytes)?),
        State::Sum(_) => State::Sum(match flag(bytes)? {
            true => Some(i64::from_be_bytes(take(bytes)?)),
            false => None,
        }),
        State::FloatSum(_) => State::FloatSum(match flag(bytes)? {
            true => Some(f64::from_be_bytes(take(bytes)?)),
            false => None,
        }),
        State::Mean { .. } => {
            let (sum, count) = (i128::from_be_bytes(take(bytes)?), count(bytes)?);
            // Of values that fit the column: no more than so many of the largest.
            if let Type::Decimal { precision, .. } = ty {
                let most = 10i128
                    .checked_pow(u32::from(*precision))?
                    .checked_mul(i128::from(count))?;
                if sum.checked_abs()? > most {
                    return None;
                }
            }
            State::Mean { sum, count }
        }
        State::FloatMean { .. } => State::FloatMean {
            sum: f64::from_be_bytes(take(bytes)?),
            count: count(bytes)?,
        },
        State::Kept(_) => State::Kept(decode_value(ty, bytes)?),
        State::Distinct(_) => State::Distinct(decode_distinct(ty, bytes)?),
    };
    Some(Accumulator(state))
}

fn decode_distinct(ty: &Type, bytes: &mut &[u8]) -> Option<Distinct> {
    let mut distinct = Distinct::default();
    let mut before: Option<&[u8]> = None;
    for _ in 0..u32::from_be_bytes(take(bytes)?) {
        let from = *bytes;
        decode_value(ty, bytes)?;
        let value = &from[..from.len() - bytes.len()];
        // In order, so that equal sets are equal bytes.
        if before.is_some_and(|before| before >= value) {
            return None;
        }
        before = Some(value);
        distinct.insert(value.into());
    }
    Some(distinct)
}

/// One value for all that are equal: -0 is 0, and there is one NaN.
pub(super) fn canonical(value: Value) -> Value {
    match value {
        Value::Float(value) if value.is_nan() => Value::Float(f64::NAN),
        Value::Float(value) => Value::Float(value + 0.0),
        value => value,
    }
}

pub(super) fn encode_value(value: &Value, ty: &Type, out: &mut Vec<u8>) {
    out.push(u8::from(!value.is_null()));
    match (value, ty) {
        (Value::Null, _) => {}
        (Value::Bool(value), _) => out.push(u8::from(*value)),
        (Value::Int(value) | Value::Decimal(value) | Value::Timestamp(value), _) => {
            out.extend_from_slice(&value.to_be_bytes());
        }
        (Value::Float(value), _) => out.extend_from_slice(&value.to_be_bytes()),
        (Value::String(text), _) => encode_bytes(text.as_bytes(), out),
        (Value::Bytes(bytes), _) => encode_bytes(bytes, out),
        (Value::Array(elements), Type::Array(ty)) => {
            encode_length(elements.len(), out);
            elements.iter().for_each(|element| encode_value(element, ty, out));
        }
        (Value::Struct(fields), Type::Struct(schema)) => {
            // As many as the schema has, whatever the value has.
            for (index, field) in schema.fields().iter().enumerate() {
                encode_value(fields.get(index).unwrap_or(&Value::Null), &field.ty, out);
            }
        }
        // invariant: a value is of its type.
        (Value::Array(_) | Value::Struct(_), _) => encode_length(0, out),
    }
}

fn encode_length(length: usize, out: &mut Vec<u8>) {
    // Records are bounded far below 4 GiB.
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    encode_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn decode_value(ty: &Type, bytes: &mut &[u8]) -> Option<Value> {
    if !flag(bytes)? {
        return Some(Value::Null);
    }
    Some(match ty {
        Type::Bool => Value::Bool(flag(bytes)?),
        Type::Int => Value::Int(i64::from_be_bytes(take(bytes)?)),
        Type::Decimal { precision, .. } => {
            let unscaled = i64::from_be_bytes(take(bytes)?);
            // The column may have had a larger precision when the value was kept.
            let fits = unscaled.unsigned_abs() < pow10(*precision).unsigned_abs();
            Value::Decimal(fits.then_some(unscaled)?)
        }
        Type::Timestamp => Value::Timestamp(i64::from_be_bytes(take(bytes)?)),
        Type::Float => Value::Float(f64::from_be_bytes(take(bytes)?)),
        Type::String => Value::String(Arc::from(std::str::from_utf8(decode_bytes(bytes)?).ok()?)),
        Type::Bytes => Value::Bytes(Arc::from(decode_bytes(bytes)?)),
        Type::Array(ty) => {
            let count = u32::from_be_bytes(take(bytes)?) as usize;
            // An element takes a byte at least: no length makes this allocate more than there is.
            let elements: Option<Vec<Value>> = match count <= bytes.len() {
                true => (0..count).map(|_| decode_value(ty, bytes)).collect(),
                false => None,
            };
            Value::Array(elements?.into())
        }
        Type::Struct(schema) => {
            let fields: Option<Vec<Value>> = schema
                .fields()
                .iter()
                .map(|field| decode_value(&field.ty, bytes))
                .collect();
            Value::Struct(fields?.into())
        }
    })
}

fn decode_bytes<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = u32::from_be_bytes(take(bytes)?) as usize;
    let (value, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(value)
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (value, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*value)
}

fn flag(bytes: &mut &[u8]) -> Option<bool> {
    match take::<1>(bytes)? {
        [0] => Some(false),
        [1] => Some(true),
        _ => None,
    }
}

fn count(bytes: &mut &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(take(bytes)?)).filter(|count| *count >= 0)
}
