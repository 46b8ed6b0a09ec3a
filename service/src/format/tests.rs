//! What the tests of the formats share: schemas as they stand in a pipeline file, short.
use super::{Decoder, Encoder, Format, Limits};
use crate::value::{Field, Schema, Type, Value};

/// `{ a: int64, b: [string], c: { d: decimal(18,2) } }`, as in a pipeline file.
pub(super) fn schema(text: &str) -> Schema {
    match ty(text) {
        Type::Struct(schema) => Schema::clone(&schema),
        other => panic!("{other} is no schema"),
    }
}

pub(super) fn ty(text: &str) -> Type {
    let mut rest = text;
    let ty = read_type(&mut rest);
    assert!(rest.trim().is_empty(), "{rest:?} is left of {text:?}");
    ty
}

fn read_type(rest: &mut &str) -> Type {
    match word(rest).as_str() {
        "bool" => Type::Bool,
        "int64" => Type::Int,
        "float64" => Type::Float,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "decimal" => {
            expect(rest, "(");
            let precision = word(rest).parse().expect("a precision");
            expect(rest, ",");
            let scale = word(rest).parse().expect("a scale");
            expect(rest, ")");
            Type::Decimal { precision, scale }
        }
        "" if accept(rest, "[") => {
            let of = read_type(rest);
            expect(rest, "]");
            Type::Array(of.into())
        }
        "" => {
            expect(rest, "{");
            let mut fields = Vec::new();
            while !accept(rest, "}") {
                let name = word(rest);
                expect(rest, ":");
                let ty = read_type(rest);
                fields.push(Field { name, ty });
                accept(rest, ",");
            }
            Type::Struct(Schema::new(fields).into())
        }
        other => panic!("no type {other}"),
    }
}

fn word(rest: &mut &str) -> String {
    let text = rest.trim_start();
    let end = text
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(text.len());
    *rest = &text[end..];
    text[..end].to_owned()
}

fn accept(rest: &mut &str, token: &str) -> bool {
    match rest.trim_start().strip_prefix(token) {
        Some(after) => {
            *rest = after;
            true
        }
        None => false,
    }
}

fn expect(rest: &mut &str, token: &str) {
    assert!(accept(rest, token), "{token} is missing before {rest:?}");
}

/// All columns.
pub(super) fn decoder(format: &Format, schema: &Schema) -> Decoder {
    Decoder::columns(format, schema, 0..schema.len(), Limits::default()).expect("the schema is the format's")
}

pub(super) fn encoder(format: &Format, schema: &Schema) -> Encoder {
    Encoder::columns(format, schema, 0..schema.len()).expect("the format can hold the schema")
}

/// The row, or what a user is told.
pub(super) fn decode(decoder: &Decoder, bytes: &[u8]) -> Result<Vec<Value>, String> {
    let mut row = Vec::new();
    match decoder.decode(Some(bytes), &mut row) {
        Ok(()) => Ok(row),
        Err(error) => {
            assert!(row.is_empty(), "{error} left {row:?}");
            Err(error.to_string())
        }
    }
}

pub(super) fn encode(encoder: &Encoder, values: &[Value]) -> Result<Vec<u8>, String> {
    let mut out = b"before".to_vec();
    let result = encoder.encode(values, &mut out);
    let written = out.split_off(6);
    assert_eq!(out, b"before");
    match result {
        Ok(()) => Ok(written),
        Err(error) => {
            assert!(written.is_empty(), "{error} left {written:?}");
            Err(error.to_string())
        }
    }
}

fn refused(result: Result<impl std::fmt::Debug, super::FormatError>) -> String {
    let error = result.expect_err("it must be refused");
    format!("{} | {}", error.message, error.help.unwrap_or_default())
}

#[test]
fn single_values_are_as_java_writes_them() {
    for (format, value, bytes) in [
        (Format::String, Value::String("zo\u{eb}".into()), &b"zo\xC3\xAB"[..]),
        (
            Format::Long,
            Value::Int(-2),
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE],
        ),
        (Format::Double, Value::Float(1.5), &[0x3F, 0xF8, 0, 0, 0, 0, 0, 0]),
        (Format::Bytes, Value::Bytes([0, 255].into()), &[0, 255]),
        (Format::String, Value::String("".into()), &[]),
        (Format::Bytes, Value::Bytes([].into()), &[]),
    ] {
        let schema = format.schema().expect("it has one column");
        assert_eq!(schema.fields()[0].name, "value");
        assert_eq!(decode(&decoder(&format, &schema), bytes), Ok(vec![value.clone()]));
        assert_eq!(encode(&encoder(&format, &schema), &[value]).as_deref(), Ok(bytes));
        let datum = Decoder::datum(&format, &schema.fields()[0].ty, Limits::default());
        assert!(decode(&datum.expect("its own type"), bytes).is_ok());
    }
}

#[test]
fn single_values_that_are_none_are_refused() {
    let read = |format: Format, bytes: &[u8]| {
        let schema = format.schema().expect("it has one column");
        decode(&decoder(&format, &schema), bytes).expect_err("it must be refused")
    };
    assert_eq!(read(Format::Long, &[1, 2, 3]), "a long has 8 bytes, found 3");
    assert_eq!(read(Format::Double, &[]), "a double has 8 bytes, found 0");
    assert_eq!(read(Format::String, b"ab\xFFc"), "not UTF-8 (byte 2)");
    let bytes = decoder(&Format::Bytes, &schema("{ value: bytes }"));
    let none = bytes.decode(None, &mut Vec::new()).expect_err("no value");
    assert_eq!(none.to_string(), "there is no value (a tombstone)");
    let long = vec![0; Limits::default().bytes_max + 1];
    assert_eq!(
        decode(&bytes, &long),
        Err("1048577 bytes, more than the 1048576 that one may have".to_owned())
    );
    assert!(decode(&bytes, &long[1..]).is_ok());
}

#[test]
fn a_format_that_cannot_hold_the_columns_says_so_before_any_record() {
    let write = |format: Format, text: &str| {
        let schema = schema(text);
        refused(Encoder::columns(&format, &schema, 0..schema.len()))
    };
    assert_eq!(
        write(Format::String, "{ a: string, b: int64 }"),
        "the format string holds one column, and the rows have 2: { a: string, b: int64 } | leave one with a map step, or write json"
    );
    assert_eq!(
        write(Format::Long, "{ a: decimal(18,2) }"),
        "the format long holds int64 or timestamp, and the column a is decimal(18,2) | use CAST in a map step to make it int64 or timestamp"
    );
    let two = schema("{ key: bytes, at: timestamp }");
    let one = Encoder::columns(&Format::Long, &two, [1]).expect("the other column is not written");
    let row = [Value::Bytes([1].into()), Value::Timestamp(1)];
    assert_eq!(encode(&one, &row), Ok(vec![0, 0, 0, 0, 0, 0, 0, 1]));
    assert_eq!(
        encode(&one, &[Value::Null, Value::Null]),
        Err("NULL, and the format has only values: filter it out, or use coalesce".to_owned())
    );
    assert_eq!(
        refused(Decoder::columns(&Format::Long, &two, [], Limits::default())),
        "the format long has the columns { value: int64 }, not { key: bytes, at: timestamp } | "
    );
    assert_eq!(
        refused(Decoder::datum(&Format::String, &Type::Int, Limits::default())),
        "the format string reads string, not int64 | "
    );
}

#[test]
fn a_schema_that_would_be_read_too_deep_is_refused() {
    let nested = |levels: usize| (0..levels).fold(Type::Int, |ty, _| Type::Array(ty.into()));
    assert!(Decoder::datum(&Format::Json, &nested(63), Limits::default()).is_ok());
    assert_eq!(
        refused(Decoder::datum(&Format::Json, &nested(64), Limits::default())),
        "the schema nests deeper than 64 levels | "
    );
}
