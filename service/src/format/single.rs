//! The formats of single values: string, long, double, bytes.
use std::sync::Arc;

use super::error::{DecodeError, EncodeError};
use crate::value::Value;

/// One of these formats.
#[derive(Debug, Clone, Copy)]
pub(super) enum Single {
    String,
    Long,
    Double,
    Bytes,
}

impl Single {
    pub(super) fn read(self, bytes: &[u8]) -> Result<Value, DecodeError> {
        Ok(match self {
            Single::String => match std::str::from_utf8(bytes) {
                Ok(text) => Value::String(Arc::from(text)),
                Err(error) => return Err(not_utf8(error)),
            },
            Single::Long => Value::Int(i64::from_be_bytes(eight_bytes(bytes, "long")?)),
            Single::Double => Value::Float(f64::from_be_bytes(eight_bytes(bytes, "double")?)),
            Single::Bytes => Value::Bytes(Arc::from(bytes)),
        })
    }
}

pub(super) fn not_utf8(error: std::str::Utf8Error) -> DecodeError {
    DecodeError::new("not UTF-8").at(error.valid_up_to())
}

fn eight_bytes(bytes: &[u8], name: &str) -> Result<[u8; 8], DecodeError> {
    <[u8; 8]>::try_from(bytes).map_err(|_| DecodeError::new(format!("a {name} has 8 bytes, found {}", bytes.len())))
}

/// The bytes of a value of any of these formats: its type says which.
pub(super) fn write(value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    match value {
        Value::String(text) => out.extend_from_slice(text.as_bytes()),
        Value::Int(number) | Value::Timestamp(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Float(number) => out.extend_from_slice(&number.to_be_bytes()),
        Value::Bytes(bytes) => out.extend_from_slice(bytes),
        Value::Null => {
            return Err(EncodeError::new(
                "NULL, and the format has only values: filter it out, or use coalesce",
            ));
        }
        _ => return Err(EncodeError::mistyped()),
    }
    Ok(())
}
