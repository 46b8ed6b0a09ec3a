//! Writing: compact, members in the schema's order, NULL written as null.
use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::format::error::EncodeError;
use crate::value::{Field, Schema, Type, Value, write_decimal, write_timestamp};

/// Writes rows of one schema as objects.
#[derive(Debug)]
pub(in crate::format) struct JsonWriter(Object);

impl JsonWriter {
    /// `written`: the columns that get a member.
    pub(in crate::format) fn new(schema: &Schema, written: &[bool]) -> JsonWriter {
        JsonWriter(Object::of(schema, |index| written[index]))
    }

    pub(in crate::format) fn write(&self, values: &[Value], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        self.0.write(values, out)
    }
}

#[derive(Debug)]
struct Object(Box<[Member]>);

#[derive(Debug)]
struct Member {
    name: String,
    /// What comes before the value: `{"name":` or `,"name":`.
    lead: Box<[u8]>,
    /// Of the value in the row or the struct.
    index: usize,
    form: Form,
}

/// What a value alone does not say.
#[derive(Debug)]
enum Form {
    Plain,
    Decimal { scale: u8 },
    Array(Box<Form>),
    Struct(Object),
}

impl Object {
    fn of(schema: &Schema, written: impl Fn(usize) -> bool) -> Object {
        let fields = schema.fields().iter().enumerate().filter(|(index, _)| written(*index));
        let members = fields
            .enumerate()
            .map(|(place, (index, field))| Member::new(place, index, field));
        Object(members.collect())
    }

    fn write(&self, values: &[Value], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        if self.0.is_empty() {
            out.push(b'{');
        }
        for member in &self.0 {
            out.extend_from_slice(&member.lead);
            let value = values.get(member.index).unwrap_or(&Value::Null);
            member
                .form
                .write(value, out)
                .map_err(|error| error.in_field(&member.name))?;
        }
        out.push(b'}');
        Ok(())
    }
}

impl Member {
    fn new(place: usize, index: usize, field: &Field) -> Member {
        let mut lead = vec![if place == 0 { b'{' } else { b',' }];
        write_string(&field.name, &mut lead);
        lead.push(b':');
        Member {
            name: field.name.clone(),
            lead: lead.into(),
            index,
            form: Form::of(&field.ty),
        }
    }
}

impl Form {
    fn of(ty: &Type) -> Form {
        match ty {
            Type::Decimal { scale, .. } => Form::Decimal { scale: *scale },
            Type::Array(of) => Form::Array(Box::new(Form::of(of))),
            Type::Struct(schema) => Form::Struct(Object::of(schema, |_| true)),
            _ => Form::Plain,
        }
    }

    fn write(&self, value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match (self, value) {
            (_, Value::Null) => out.extend_from_slice(b"null"),
            (Form::Decimal { scale }, Value::Decimal(unscaled)) => write_decimal(*unscaled, *scale, out),
            (Form::Array(of), Value::Array(items)) => return write_array(of, items, out),
            (Form::Struct(object), Value::Struct(values)) => return object.write(values, out),
            (Form::Plain, value) => return write_plain(value, out),
            _ => return Err(EncodeError::mistyped()),
        }
        Ok(())
    }
}

fn write_array(of: &Form, items: &[Value], out: &mut Vec<u8>) -> Result<(), EncodeError> {
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        of.write(item, out).map_err(|error| error.in_element(index))?;
    }
    out.push(b']');
    Ok(())
}

fn write_plain(value: &Value, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    match value {
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(number) => write_number(number, out),
        Value::Float(number) if number.is_finite() => write_number(number, out),
        Value::Float(number) => {
            let sign = if *number < 0.0 { "-" } else { "" };
            let name = if number.is_nan() { "NaN" } else { "Infinity" };
            return Err(EncodeError::new(format!("{sign}{name} is no number in JSON")));
        }
        Value::String(text) => write_string(text, out),
        Value::Bytes(bytes) => {
            out.push(b'"');
            let start = out.len();
            out.resize(start + bytes.len().div_ceil(3) * 4, 0);
            BASE64_STANDARD
                .encode_slice(bytes, &mut out[start..])
                .expect("invariant: four characters for every three bytes begun");
            out.push(b'"');
        }
        Value::Timestamp(time) => {
            out.push(b'"');
            if !write_timestamp(*time, out) {
                let why = format!("the timestamp {time} ms lies before the year 0 or after 9999");
                return Err(EncodeError::new(why));
            }
            out.push(b'"');
        }
        _ => return Err(EncodeError::mistyped()),
    }
    Ok(())
}

/// A finite number, the shortest text that reads as itself.
fn write_number<N: serde::Serialize>(number: &N, out: &mut Vec<u8>) {
    serde_json::to_writer(out, number).expect("invariant: a vector takes everything");
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    serde_json::to_writer(out, text).expect("invariant: a vector takes everything");
}
