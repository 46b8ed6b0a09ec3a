//! Writing a datum: the columns of a schema into the fields of a record, by name.
use std::sync::Arc;

use super::AvroSchema;
use super::node::{Member, Node};
use super::read::is_uuid;
use crate::format::error::{EncodeError, FormatError, excerpt};
use crate::value::{DAY_MS, Schema, Type, Value};

/// Writes rows of one schema as datums of another.
#[derive(Debug)]
pub(in crate::format) struct AvroWriter(Root);

#[derive(Debug)]
enum Root {
    /// A record.
    Columns(Box<[Slot]>),
    /// A datum that is no record: the value of the one column.
    Column(usize, Form),
}

/// A field of a record, in the order of the Avro schema.
#[derive(Debug)]
struct Slot {
    name: Box<str>,
    /// Of its value in the row or the struct.
    index: usize,
    form: Form,
}

/// How a value is written.
#[derive(Debug)]
enum Form {
    Scalar(Node),
    Array(Box<Form>),
    Record(Box<[Slot]>),
    Nullable { null: u8, of: Box<Form> },
}

impl AvroWriter {
    /// # Errors
    /// Columns and fields differ, in names or in types.
    pub(in crate::format) fn compile(
        avro: &Arc<AvroSchema>,
        schema: &Schema,
        written: &[bool],
    ) -> Result<AvroWriter, FormatError> {
        if let Node::Record(members) = &avro.node {
            let slots = slots(members, schema, written, &mut Vec::new())?;
            return Ok(AvroWriter(Root::Columns(slots)));
        }
        let mut columns = schema.fields().iter().enumerate().filter(|(index, _)| written[*index]);
        let (Some((index, field)), None) = (columns.next(), columns.next()) else {
            let what = format!(
                "the Avro schema is {}, which holds one column, and the rows are {schema}",
                avro.node
            );
            return Err(FormatError::new(what).help("make it a record, or leave one column with a map step"));
        };
        let form = Form::compile(&avro.node, &field.ty, &mut vec![field.name.as_str()])?;
        Ok(AvroWriter(Root::Column(index, form)))
    }

    pub(in crate::format) fn write(&self, values: &[Value], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match &self.0 {
            Root::Columns(slots) => write_record(slots, values, out),
            Root::Column(index, form) => form.write(values.get(*index).unwrap_or(&Value::Null), out),
        }
    }
}

/// A slot for each field of a record.
fn slots<'s>(
    members: &'s [Member],
    schema: &'s Schema,
    written: &[bool],
    path: &mut Vec<&'s str>,
) -> Result<Box<[Slot]>, FormatError> {
    let named = |path: &[&str], name: &str| path.iter().copied().chain([name]).collect::<Vec<_>>().join(".");
    for (index, field) in schema.fields().iter().enumerate() {
        if written[index] && !members.iter().any(|member| *member.name == *field.name) {
            let name = named(path, &field.name);
            let error = FormatError::new(format!(
                "column {name} is {}, and the Avro schema has no such field",
                field.ty
            ));
            return Err(error.help("add the field to the schema, or leave the column out with a map step"));
        }
    }
    let mut slots = Vec::with_capacity(members.len());
    for member in members {
        let found = schema.find(&member.name).filter(|(index, _)| written[*index]);
        let Some((index, field)) = found else {
            let name = named(path, &member.name);
            let error = FormatError::new(format!(
                "field {name} of the Avro schema is {}, and the rows have no such column",
                member.node
            ));
            return Err(error.help(format!(
                "add it with a map step, or take it out of the schema; the rows are {schema}"
            )));
        };
        path.push(&member.name);
        let form = Form::compile(&member.node, &field.ty, path)?;
        path.pop();
        slots.push(Slot {
            name: member.name.clone(),
            index,
            form,
        });
    }
    Ok(slots.into())
}

impl Form {
    fn compile<'s>(node: &'s Node, ty: &'s Type, path: &mut Vec<&'s str>) -> Result<Form, FormatError> {
        let scalar = match (node, ty) {
            (Node::Nullable { null, of }, ty) => {
                let of = Box::new(Form::compile(of, ty, path)?);
                return Ok(Form::Nullable { null: *null, of });
            }
            (Node::Array { of, .. }, Type::Array(ty)) => {
                return Ok(Form::Array(Box::new(Form::compile(of, ty, path)?)));
            }
            (Node::Record(members), Type::Struct(schema)) => {
                let written = vec![true; schema.len()];
                return Ok(Form::Record(slots(members, schema, &written, path)?));
            }
            (Node::Bool, Type::Bool)
            | (Node::Int | Node::Long, Type::Int)
            | (Node::Float | Node::Double, Type::Float)
            | (Node::Bytes | Node::Fixed(_), Type::Bytes)
            | (Node::String | Node::Uuid | Node::Enum(_), Type::String)
            | (Node::Timestamp(_) | Node::Date, Type::Timestamp) => true,
            (
                Node::Decimal { precision, scale, .. },
                Type::Decimal {
                    precision: digits,
                    scale: behind,
                },
            ) => precision >= digits && scale == behind,
            _ => false,
        };
        if scalar {
            return Ok(Form::Scalar(node.clone()));
        }
        let name = path.join(".");
        let error = FormatError::new(format!("column {name} is {ty}, and the Avro schema says {node}"));
        Err(error.help("use CAST in a map step, or change the schema"))
    }

    fn write(&self, value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match (self, value) {
            (Form::Nullable { null, .. }, Value::Null) => write_long((*null).into(), out),
            (Form::Nullable { null, of }, value) => {
                write_long((1 - null).into(), out);
                return of.write(value, out);
            }
            (_, Value::Null) => {
                return Err(EncodeError::new(
                    "NULL, and the Avro schema does not allow null here: use coalesce, or a union with null",
                ));
            }
            (Form::Scalar(node), value) => return write_scalar(node, value, out),
            (Form::Array(of), Value::Array(items)) => return write_array(of, items, out),
            (Form::Record(slots), Value::Struct(values)) => return write_record(slots, values, out),
            _ => return Err(EncodeError::mistyped()),
        }
        Ok(())
    }
}

fn write_record(slots: &[Slot], values: &[Value], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    for slot in slots {
        let value = values.get(slot.index).unwrap_or(&Value::Null);
        slot.form
            .write(value, out)
            .map_err(|error| error.in_field(&slot.name))?;
    }
    Ok(())
}

fn write_array(of: &Form, items: &[Value], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    if !items.is_empty() {
        write_length(items.len(), out);
        for (index, item) in items.iter().enumerate() {
            of.write(item, out).map_err(|error| error.in_element(index))?;
        }
    }
    write_long(0, out);
    Ok(())
}

fn write_scalar(node: &Node, value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    match (node, value) {
        (Node::Bool, Value::Bool(value)) => out.push((*value).into()),
        (Node::Long, Value::Int(value)) => write_long(*value, out),
        (Node::Int, Value::Int(value)) => {
            let value = i32::try_from(*value).map_err(|_| EncodeError::new(format!("{value} is no int of 32 bits")))?;
            write_long(value.into(), out);
        }
        (Node::Double, Value::Float(value)) => out.extend_from_slice(&value.to_le_bytes()),
        (Node::Float, Value::Float(value)) => {
            let single = *value as f32;
            if single.is_infinite() && value.is_finite() {
                return Err(EncodeError::new(format!("{value:?} is beyond a float of 32 bits")));
            }
            out.extend_from_slice(&single.to_le_bytes());
        }
        (Node::Bytes, Value::Bytes(bytes)) => write_sized(bytes, out),
        (Node::Fixed(size), Value::Bytes(bytes)) if bytes.len() == *size => out.extend_from_slice(bytes),
        (Node::Fixed(size), Value::Bytes(bytes)) => {
            return Err(EncodeError::new(format!(
                "{} bytes, and the Avro schema says {size}",
                bytes.len()
            )));
        }
        (Node::String, Value::String(text)) => write_sized(text.as_bytes(), out),
        (Node::Uuid, Value::String(text)) if is_uuid(text) => write_sized(text.as_bytes(), out),
        (Node::Uuid, Value::String(text)) => {
            return Err(EncodeError::new(format!("no uuid: string \"{}\"", excerpt(text))));
        }
        (Node::Enum(symbols), Value::String(text)) => {
            let Some(index) = symbols.iter().position(|symbol| symbol == text) else {
                let what = format!("no symbol of the enum: string \"{}\"", excerpt(text));
                return Err(EncodeError::new(what));
            };
            write_length(index, out);
        }
        (Node::Decimal { fixed, .. }, Value::Decimal(unscaled)) => return write_decimal(*unscaled, *fixed, out),
        (Node::Timestamp(unit), Value::Timestamp(time)) => match time.checked_mul(unit.in_one_ms()) {
            Some(time) => write_long(time, out),
            None => return Err(EncodeError::new(format!("the timestamp {time} ms is beyond {node}"))),
        },
        (Node::Date, Value::Timestamp(time)) => return write_date(*time, out),
        _ => return Err(EncodeError::mistyped()),
    }
    Ok(())
}

/// Two's complement, big-endian: as short as it can be, or as long as it must.
fn write_decimal(unscaled: i64, fixed: Option<usize>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let bytes = unscaled.to_be_bytes();
    let sign = if unscaled < 0 { 0xFF } else { 0 };
    let spare = bytes
        .windows(2)
        .take_while(|pair| pair[0] == sign && (pair[1] ^ sign) < 0x80)
        .count();
    let short = &bytes[spare..];
    match fixed {
        None => write_sized(short, out),
        Some(size) if size >= short.len() => {
            out.extend(std::iter::repeat_n(sign, size - short.len()));
            out.extend_from_slice(short);
        }
        Some(size) => {
            return Err(EncodeError::new(format!(
                "the unscaled decimal {unscaled} does not fit into {size} bytes"
            )));
        }
    }
    Ok(())
}

fn write_date(time: i64, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    match i32::try_from(time / DAY_MS) {
        Ok(days) if time % DAY_MS == 0 => {
            write_long(days.into(), out);
            Ok(())
        }
        _ => Err(EncodeError::new(format!(
            "the timestamp {time} ms is no date: use date_trunc to make it midnight, UTC"
        ))),
    }
}

fn write_sized(bytes: &[u8], out: &mut Vec<u8>) {
    write_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    write_long(
        i64::try_from(length).expect("invariant: nothing in memory is longer"),
        out,
    );
}

/// Zigzag, of variable length.
fn write_long(value: i64, out: &mut Vec<u8>) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}
