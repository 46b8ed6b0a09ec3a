//! The encoder of a format, a schema and the columns that are written.
use super::avro::AvroWriter;
use super::error::{EncodeError, FormatError};
use super::json::JsonWriter;
use super::{Format, single};
use crate::value::{Schema, Type, Value};

/// Writes rows of one schema. Compiled once, shared by lanes.
#[derive(Debug)]
pub struct Encoder(Writer);

#[derive(Debug)]
enum Writer {
    Json(JsonWriter),
    Avro(AvroWriter),
    /// The only column that is written.
    Single(usize),
}

impl Encoder {
    /// Of the `written` columns of a schema, by index.
    ///
    /// # Errors
    /// The format cannot hold these columns: it has one value and they are several, or another type, or an Avro schema has other fields.
    pub fn columns(
        format: &Format,
        schema: &Schema,
        written: impl IntoIterator<Item = usize>,
    ) -> Result<Encoder, FormatError> {
        let mut flags = vec![false; schema.len()];
        for index in written {
            if let Some(flag) = flags.get_mut(index) {
                *flag = true;
            }
        }
        Ok(Encoder(match format {
            Format::Json => Writer::Json(JsonWriter::new(schema, &flags)),
            Format::Avro(avro) => Writer::Avro(AvroWriter::compile(avro, schema, &flags)?),
            Format::String => Writer::Single(only_column(format, schema, &flags, &[Type::String])?),
            Format::Long => Writer::Single(only_column(format, schema, &flags, &[Type::Int, Type::Timestamp])?),
            Format::Double => Writer::Single(only_column(format, schema, &flags, &[Type::Float])?),
            Format::Bytes => Writer::Single(only_column(format, schema, &flags, &[Type::Bytes])?),
        }))
    }

    /// Appends a row. After an error `out` is as it was.
    ///
    /// # Errors
    /// A value that the format cannot hold.
    pub fn encode(&self, values: &[Value], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let before = out.len();
        let result = match &self.0 {
            Writer::Json(writer) => writer.write(values, out),
            Writer::Avro(writer) => writer.write(values, out),
            Writer::Single(index) => single::write(values.get(*index).unwrap_or(&Value::Null), out),
        };
        if result.is_err() {
            out.truncate(before);
        }
        result
    }
}

/// Index of the one column that is written, which must be of one of these types.
fn only_column(format: &Format, schema: &Schema, written: &[bool], types: &[Type]) -> Result<usize, FormatError> {
    let name = format.name();
    let mut columns = schema
        .fields()
        .iter()
        .zip(written)
        .enumerate()
        .filter(|(_, (_, written))| **written);
    let (Some((index, (field, _))), None) = (columns.next(), columns.next()) else {
        let count = written.iter().filter(|written| **written).count();
        let error = FormatError::new(format!(
            "the format {name} holds one column, and the rows have {count}: {schema}"
        ));
        return Err(error.help("leave one with a map step, or write json"));
    };
    if types.contains(&field.ty) {
        return Ok(index);
    }
    let types: Vec<String> = types.iter().map(Type::to_string).collect();
    let types = types.join(" or ");
    let error = FormatError::new(format!(
        "the format {name} holds {types}, and the column {} is {}",
        field.name, field.ty
    ));
    Err(error.help(format!("use CAST in a map step to make it {types}")))
}
