//! Key bytes: equal keys are equal bytes, and other programs can make them.
//!
//! One column: a string as UTF-8; int64, timestamp (milliseconds) and decimal (unscaled) as 8 bytes, big-endian, as Java's LongSerializer
//! writes them; bytes as they are; bool and float64 as their JSON text. Several columns: a compact JSON array.
use super::aggregate::without_spaces;
use super::refused;
use crate::value::{Row, Type, Value, write_decimal, write_timestamp};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use keyfold::operator::{BadReason, Refused};

/// Appends the key of a row; false when a part of it is NULL.
pub fn write(row: &Row, columns: &[(usize, Type)], out: &mut Vec<u8>) -> Result<bool, Refused> {
    match columns {
        [(index, ty)] => one(row.get(*index), ty, out),
        several => {
            for (i, (index, ty)) in several.iter().enumerate() {
                let value = row.get(*index);
                if value.is_null() {
                    return Ok(false);
                }
                out.push(if i == 0 { b'[' } else { b',' });
                json(value, ty, out)?;
            }
            out.push(b']');
            Ok(true)
        }
    }
}

fn one(value: &Value, ty: &Type, out: &mut Vec<u8>) -> Result<bool, Refused> {
    match value {
        Value::Null => return Ok(false),
        Value::String(text) => out.extend_from_slice(text.as_bytes()),
        Value::Bytes(bytes) => out.extend_from_slice(bytes),
        Value::Int(n) | Value::Timestamp(n) | Value::Decimal(n) => out.extend_from_slice(&n.to_be_bytes()),
        value => json(value, ty, out)?,
    }
    Ok(true)
}

/// Appends a value as JSON, as in a value that a sink writes.
fn json(value: &Value, ty: &Type, out: &mut Vec<u8>) -> Result<(), Refused> {
    let refuse = |e: serde_json::Error| refused(BadReason::Encode, format!("the key: {e}"));
    match value {
        Value::Bool(b) => serde_json::to_writer(out, b).map_err(refuse),
        Value::Int(n) => serde_json::to_writer(out, n).map_err(refuse),
        // The two zeros are equal.
        Value::Float(f) if f.is_finite() => serde_json::to_writer(out, &(f + 0.0)).map_err(refuse),
        Value::Float(f) => Err(refused(BadReason::Encode, format!("the key: {f} has no JSON text"))),
        Value::String(text) => serde_json::to_writer(out, &**text).map_err(refuse),
        Value::Bytes(bytes) => serde_json::to_writer(out, &STANDARD.encode(bytes)).map_err(refuse),
        Value::Decimal(n) => {
            let scale = if let Type::Decimal { scale, .. } = ty {
                *scale
            } else {
                0
            };
            write_decimal(*n, scale, out);
            Ok(())
        }
        Value::Timestamp(ms) => {
            out.push(b'"');
            if !write_timestamp(*ms, out) {
                return Err(refused(
                    BadReason::Encode,
                    format!("the key: the timestamp {ms} is not in the years 0 to 9999"),
                ));
            }
            out.push(b'"');
            Ok(())
        }
        Value::Null | Value::Array(_) | Value::Struct(_) => {
            Err(refused(BadReason::Encode, "the key: a value that is no key"))
        }
    }
}

/// What keys are made of and how they are written: kept with the job, so that a changed key is noticed. Under a key that means
/// something else there would be the state of another one.
pub fn schema(columns: &[(usize, Type)], made_of: &[String]) -> String {
    let part = |((_, ty), text): (&(usize, Type), &String)| format!("{} as {ty}", without_spaces(text));
    let parts: Vec<String> = columns.iter().zip(made_of).map(part).collect();
    format!("row-key/1 {}", parts.join(", "))
}
