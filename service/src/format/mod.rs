//! Formats: from the bytes of a record to a row of values, and back.
//!
//! ```text
//! (Format, Schema, wanted columns, Limits) -- compiled once --> Decoder: bytes -> values
//! (Format, Schema, written columns)        -- compiled once --> Encoder: values -> bytes
//! ```
//!
//! What users have to know of each format, its types, bounds and refusals is in `docs/formats.md`.
mod avro;
mod decoder;
mod encoder;
mod error;
mod json;
mod single;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use avro::AvroSchema;
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use error::{DecodeError, EncodeError, FormatError};

use crate::value::{Field, Schema, Type};

/// How the bytes of a key or a value are to be read.
#[derive(Debug, Clone)]
pub enum Format {
    /// An object with a member per column.
    Json,
    /// The binary datum, without any header.
    Avro(Arc<AvroSchema>),
    /// UTF-8.
    String,
    /// 8 bytes, big-endian two's complement, as Java's `LongSerializer`.
    Long,
    /// 8 bytes, big-endian IEEE 754, as Java's `DoubleSerializer`.
    Double,
    /// As they are.
    Bytes,
}

/// The names that a format goes by in a pipeline file, for messages and the nearest name.
pub const FORMAT_NAMES: &[&str] = &["json", "avro", "string", "long", "double", "bytes"];

/// The column that a format of single values has.
pub const VALUE_COLUMN: &str = "value";

impl Format {
    /// As in a pipeline file.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Avro(_) => "avro",
            Format::String => "string",
            Format::Long => "long",
            Format::Double => "double",
            Format::Bytes => "bytes",
        }
    }

    /// The type of a whole datum; None for JSON, whose types are the pipeline file's to say.
    #[must_use]
    pub fn datum_type(&self) -> Option<Type> {
        Some(match self {
            Format::Json => return None,
            Format::Avro(schema) => schema.ty().clone(),
            Format::String => Type::String,
            Format::Long => Type::Int,
            Format::Double => Type::Float,
            Format::Bytes => Type::Bytes,
        })
    }

    /// The columns of a record's value: the fields of an Avro record, else one column `value`. None for JSON.
    #[must_use]
    pub fn schema(&self) -> Option<Schema> {
        let ty = self.datum_type()?;
        if let Type::Struct(schema) = ty {
            return Some(Schema::clone(&schema));
        }
        let name = VALUE_COLUMN.to_owned();
        Some(Schema::new(vec![Field { name, ty }]))
    }
}

/// What one record may take. A record beyond it is refused before memory is taken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a record's key or value. The default is 1 MiB, the largest that a Kafka producer and a broker take unless both are
    /// told otherwise. Lower refuses what the topic was made for; higher lets one record take more of the memory budget.
    pub bytes_max: usize,
    /// Values inside of arrays and structs, all of one record together. Each takes 24 bytes and up to 32 more on the heap, however few bytes it has
    /// in the record (an element of a JSON array has 2), so the default of 131072 bounds a record to some 10 MB. It is more
    /// than a record of 1 MiB holds when elements take 8 bytes on average.
    pub values_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes_max: 1 << 20,
            values_max: 1 << 17,
        }
    }
}

/// Levels of arrays and structs in a schema. Reading recurses once a level; real schemas have a handful.
const DEPTH_MAX: usize = 64;

/// Refuses a type that is deeper than reading may recurse.
fn check_depth(ty: &Type, depth: usize) -> Result<(), FormatError> {
    if depth > DEPTH_MAX {
        return Err(FormatError::new(format!(
            "the schema nests deeper than {DEPTH_MAX} levels"
        )));
    }
    match ty {
        Type::Array(of) => check_depth(of, depth + 1),
        Type::Struct(schema) => schema
            .fields()
            .iter()
            .try_for_each(|field| check_depth(&field.ty, depth + 1)),
        _ => Ok(()),
    }
}

/// Of a record that holds more values than [`Limits::values_max`].
const TOO_MANY_VALUES: &str = "more values in arrays and structs than one record may have";
