//! The decoder of a format, a schema and the columns that are wanted of it.
use std::sync::Arc;

use super::avro::{AvroReader, AvroSchema};
use super::error::{DecodeError, FormatError};
use super::json::JsonReader;
use super::single::Single;
use super::{Format, Limits, check_depth};
use crate::value::{Schema, Type, Value};

/// Reads keys or values of one format. Compiled once, shared by lanes.
#[derive(Debug)]
pub struct Decoder {
    reader: Reader,
    limits: Limits,
}

#[derive(Debug)]
enum Reader {
    Json(JsonReader),
    Avro(AvroReader),
    Single(Single),
}

impl Decoder {
    /// Of a record's columns. Those that are not `wanted` are NULL and cost no more than being skipped; what they hold is then checked for its
    /// syntax only.
    ///
    /// # Errors
    /// The schema is not the format's: another one than [`Format::schema`] says, or too deep.
    pub fn columns(
        format: &Format,
        schema: &Schema,
        wanted: impl IntoIterator<Item = usize>,
        limits: Limits,
    ) -> Result<Decoder, FormatError> {
        for field in schema.fields() {
            check_depth(&field.ty, 1)?;
        }
        let mut flags = vec![false; schema.len()];
        for index in wanted {
            if let Some(flag) = flags.get_mut(index) {
                *flag = true;
            }
        }
        if let Some(expected) = format.schema()
            && *schema != expected
        {
            let name = format.name();
            return Err(FormatError::new(format!(
                "the format {name} has the columns {expected}, not {schema}"
            )));
        }
        let reader = Reader::of(
            format,
            || JsonReader::columns(schema, &flags),
            |schema| AvroReader::columns(schema, &flags),
        );
        Ok(Decoder { reader, limits })
    }

    /// Of a datum that is one value as a whole, like a record's key in the column `_key`. `ty` is [`Format::datum_type`]; for JSON it is any.
    ///
    /// # Errors
    /// The type is not the format's, or too deep.
    pub fn datum(format: &Format, ty: &Type, limits: Limits) -> Result<Decoder, FormatError> {
        check_depth(ty, 1)?;
        if let Some(expected) = format.datum_type()
            && *ty != expected
        {
            return Err(FormatError::new(format!(
                "the format {} reads {expected}, not {ty}",
                format.name()
            )));
        }
        let reader = Reader::of(format, || JsonReader::datum(ty), AvroReader::datum);
        Ok(Decoder { reader, limits })
    }

    /// Pushes a value per column. After an error `row` is as it was.
    ///
    /// # Errors
    /// The bytes are no datum of the schema, or beyond the limits; or there are none: what a tombstone means is for the caller to say, before.
    pub fn decode(&self, bytes: Option<&[u8]>, row: &mut Vec<Value>) -> Result<(), DecodeError> {
        let Some(bytes) = bytes else {
            return Err(DecodeError::new("there is no value (a tombstone)"));
        };
        let (length, most) = (bytes.len(), self.limits.bytes_max);
        if length > most {
            return Err(DecodeError::new(format!(
                "{length} bytes, more than the {most} that one may have"
            )));
        }
        let before = row.len();
        let result = match &self.reader {
            Reader::Json(reader) => reader.read(bytes, self.limits, row),
            Reader::Avro(reader) => reader.read(bytes, self.limits, row),
            Reader::Single(single) => single.read(bytes).map(|value| row.push(value)),
        };
        if result.is_err() {
            row.truncate(before);
        }
        result
    }
}

impl Reader {
    fn of(
        format: &Format,
        json: impl FnOnce() -> JsonReader,
        avro: impl FnOnce(Arc<AvroSchema>) -> AvroReader,
    ) -> Reader {
        match format {
            Format::Json => Reader::Json(json()),
            Format::Avro(schema) => Reader::Avro(avro(Arc::clone(schema))),
            Format::String => Reader::Single(Single::String),
            Format::Long => Reader::Single(Single::Long),
            Format::Double => Reader::Single(Single::Double),
            Format::Bytes => Reader::Single(Single::Bytes),
        }
    }
}
