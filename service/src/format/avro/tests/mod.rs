//! What is taken of a schema and of a datum, what is refused and in which words, and what is written.
mod against_crate;

use std::sync::Arc;

use super::AvroSchema;
use crate::format::tests::{decode, decoder, encode, encoder, schema};
use crate::format::{Decoder, Encoder, Format, Limits};
use crate::value::Value;

fn parse(text: &str) -> Result<Arc<AvroSchema>, String> {
    match AvroSchema::parse(text) {
        Ok(schema) => Ok(Arc::new(schema)),
        Err(error) => Err(format!("{} | {}", error.message, error.help.unwrap_or_default())),
    }
}

/// A record with these fields.
fn record(fields: &str) -> String {
    format!(r#"{{"type":"record","name":"Order","fields":[{fields}]}}"#)
}

/// A record with one field `x` of this type.
fn x(ty: &str) -> String {
    record(&format!(r#"{{"name":"x","type":{ty}}}"#))
}

fn avro(text: &str) -> Format {
    Format::Avro(parse(text).expect("a schema that can be read"))
}

/// What is read of the bytes of a field of this type.
fn read(ty: &str, bytes: &[u8]) -> Result<Value, String> {
    let format = avro(&x(ty));
    let row = decode(&decoder(&format, &format.schema().expect("columns")), bytes)?;
    assert_eq!(row.len(), 1);
    Ok(row[0].clone())
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}

const UUID: &str = "f81d4fae-7dec-11d0-A765-00a0c91e6bf6";

/// Types of a field: as Avro has it, as a column has it.
const TYPES: &[(&str, &str)] = &[
    (r#""boolean""#, "bool"),
    (r#""int""#, "int64"),
    (r#""long""#, "int64"),
    (r#""float""#, "float64"),
    (r#""double""#, "float64"),
    (r#""bytes""#, "bytes"),
    (r#""string""#, "string"),
    (r#"["null","string"]"#, "string"),
    (r#"["long","null"]"#, "int64"),
    (r#"{"type":"string","logicalType":"uuid"}"#, "string"),
    (r#"{"type":"string","logicalType":"unheard-of"}"#, "string"),
    (r#"{"type":"enum","name":"E","symbols":["A","B"]}"#, "string"),
    (r#"{"type":"fixed","name":"F","size":2}"#, "bytes"),
    (
        r#"{"type":"bytes","logicalType":"decimal","precision":9,"scale":2}"#,
        "decimal(9,2)",
    ),
    (
        r#"{"type":"fixed","name":"F","size":8,"logicalType":"decimal","precision":18}"#,
        "decimal(18,0)",
    ),
    (r#"{"type":"long","logicalType":"timestamp-millis"}"#, "timestamp"),
    (r#"{"type":"long","logicalType":"timestamp-micros"}"#, "timestamp"),
    (r#"{"type":"long","logicalType":"timestamp-nanos"}"#, "timestamp"),
    (r#"{"type":"int","logicalType":"date"}"#, "timestamp"),
    (r#"{"type":"array","items":"int"}"#, "array(int64)"),
    (r#"{"type":"array","items":["null","int"]}"#, "array(int64)"),
    (
        r#"{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}"#,
        "{ a: int64 }",
    ),
];

#[test]
fn each_avro_type_has_its_column_type() {
    for (theirs, ours) in TYPES {
        let schema = avro(&x(theirs)).schema().expect("columns");
        assert_eq!(schema.to_string(), format!("{{ x: {ours} }}"), "{theirs}");
    }
    assert_eq!(avro("\"long\"").schema(), Some(schema("{ value: int64 }")));
}

#[test]
fn named_types_are_found_where_they_are_used_again() {
    let fields = r#"{"name":"a","type":{"type":"record","name":"P","namespace":"n","fields":[{"name":"c","type":"int"}]}},
                    {"name":"b","type":["null","n.P"]},{"name":"l","type":{"type":"array","items":"n.P"}}"#;
    let schema = avro(&record(fields)).schema().expect("columns");
    assert_eq!(
        schema.to_string(),
        "{ a: { c: int64 }, b: { c: int64 }, l: array({ c: int64 }) }"
    );
}

#[test]
fn a_schema_that_rows_cannot_hold_is_refused_with_the_way_out() {
    for (ty, told) in [
        (
            r#""null""#,
            "is null, which holds nothing | leave the field out, or make it a union of null and a type",
        ),
        (
            r#"{"type":"map","values":"int"}"#,
            "is a map, which rows cannot hold | make it an array of records with the fields key and value",
        ),
        (
            r#"["null","int","string"]"#,
            "is a union of other types than null and one more | \
             a union may have null and one other type: make it a record with a nullable field for each",
        ),
        (
            r#"["int"]"#,
            "is a union of other types than null and one more | \
             a union may have null and one other type: make it a record with a nullable field for each",
        ),
        (
            r#"{"type":"bytes","logicalType":"decimal","precision":38,"scale":9}"#,
            "is decimal(38,9) | decimals have at most 18 digits; without the logical type it is bytes",
        ),
        (
            r#"{"type":"bytes","logicalType":"big-decimal"}"#,
            "is a big-decimal, whose scale differs from value to value | make it a decimal with a precision of at most 18",
        ),
        (
            r#"{"type":"int","logicalType":"time-millis"}"#,
            "is a time of day, which rows cannot hold | leave its logical type out: it is then an integer",
        ),
        (
            r#"{"type":"long","logicalType":"local-timestamp-micros"}"#,
            "is a local timestamp, which is no moment without a time zone | \
             make it timestamp-millis, or leave its logical type out: it is then an integer",
        ),
        (
            r#"{"type":"fixed","name":"D","size":12,"logicalType":"duration"}"#,
            "is a duration, which rows cannot hold | leave its logical type out: it is then bytes",
        ),
        (
            r#"{"type":"fixed","name":"D","size":16,"logicalType":"uuid"}"#,
            "is a uuid in bytes | make it a uuid in a string, or bytes without the logical type",
        ),
        (
            r#"{"type":"fixed","name":"D","size":0}"#,
            "is a fixed of 0 bytes, which holds nothing | leave it out",
        ),
        (
            r#"{"type":"record","name":"D","fields":[]}"#,
            "is a record without fields, which holds nothing | leave it out",
        ),
        (
            r#"["null","Order"]"#,
            "is a record inside of itself | \
             a row has no more levels than its schema: leave the field out, or give it as a string of JSON",
        ),
    ] {
        assert_eq!(
            parse(&x(ty)).expect_err(ty),
            format!("field x of the Avro schema {told}")
        );
    }
    let nested = x(
        r#"{"type":"record","name":"P","fields":[{"name":"geo","type":{"type":"array","items":{"type":"map","values":"int"}}}]}"#,
    );
    let told = parse(&nested).expect_err("a map");
    assert!(told.starts_with("field x.geo of the Avro schema is a map"), "{told}");
    for text in [
        "",
        "{",
        "{}",
        "\"strin\"",
        r#"{"type":"record","name":"A","fields":[{"name":"x","type":"B"}]}"#,
    ] {
        let told = parse(text).expect_err(text);
        assert!(told.starts_with("no Avro schema: "), "{told}");
    }
}

/// A schema of a few hundred bytes must not become a program of gigabytes.
#[test]
fn records_that_double_at_each_use_are_refused() {
    let mut ty = r#"{"type":"record","name":"R0","fields":[{"name":"x","type":"int"}]}"#.to_owned();
    for level in 1..40 {
        let before = level - 1;
        ty = format!(
            r#"{{"type":"record","name":"R{level}","fields":[{{"name":"a","type":{ty}}},{{"name":"b","type":"R{before}"}}]}}"#
        );
    }
    assert_eq!(
        parse(&ty).expect_err("2^40 fields"),
        "the Avro schema has more than 10000 fields | "
    );
}

#[test]
fn each_type_is_read_from_its_bytes() {
    for ((ty, _), bytes, value) in [
        (TYPES[0], &[1][..], Value::Bool(true)),
        (TYPES[1], &[0x7F], Value::Int(-64)),
        (
            TYPES[2],
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1],
            Value::Int(i64::MIN),
        ),
        (TYPES[3], &[0, 0, 0xC0, 0x3F], Value::Float(1.5)),
        (TYPES[4], &[0, 0, 0, 0, 0, 0, 0xF8, 0x3F], Value::Float(1.5)),
        (TYPES[5], &[4, 0, 255], Value::Bytes([0, 255].into())),
        (TYPES[6], &[4, b'a', b'b'], text("ab")),
        (TYPES[7], &[0], Value::Null),
        (TYPES[7], &[2, 2, b'a'], text("a")),
        (TYPES[8], &[2], Value::Null),
        (TYPES[8], &[0, 2], Value::Int(1)),
        (TYPES[11], &[2], text("B")),
        (TYPES[12], &[7, 8], Value::Bytes([7, 8].into())),
        (TYPES[13], &[4, 0xFF, 0x38], Value::Decimal(-200)),
        (TYPES[13], &[20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 200], Value::Decimal(200)),
        (
            TYPES[14],
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFE],
            Value::Decimal(-2),
        ),
        (TYPES[15], &[2], Value::Timestamp(1)),
        (TYPES[16], &[0xD1, 0x0F], Value::Timestamp(-2)),
        (TYPES[17], &[0], Value::Timestamp(0)),
        (TYPES[18], &[1], Value::Timestamp(-86_400_000)),
        (
            TYPES[19],
            &[4, 2, 4, 2, 6, 0],
            Value::Array([Value::Int(1), Value::Int(2), Value::Int(3)].into()),
        ),
        (
            TYPES[19],
            &[3, 4, 2, 4, 0],
            Value::Array([Value::Int(1), Value::Int(2)].into()),
        ),
        (
            TYPES[20],
            &[4, 0, 2, 4, 0],
            Value::Array([Value::Null, Value::Int(2)].into()),
        ),
        (TYPES[21], &[4], Value::Struct([Value::Int(2)].into())),
    ] {
        assert_eq!(read(ty, bytes), Ok(value), "{ty} of {bytes:?}");
    }
    let uuid = [&[72], UUID.as_bytes()].concat();
    assert_eq!(read(TYPES[9].0, &uuid), Ok(text(UUID)));
}

#[test]
fn bytes_that_are_no_datum_are_refused_by_path_and_place() {
    for ((ty, _), bytes, told) in [
        (TYPES[0], &[2][..], "x: a boolean of 2 (byte 0)"),
        (
            TYPES[0],
            &[],
            "x: the datum ends: 1 bytes are to come, 0 are left (byte 0)",
        ),
        (
            TYPES[1],
            &[0xFF, 0xFF, 0xFF, 0xFF, 0x1F],
            "x: -4294967296 is no int of 32 bits (byte 0)",
        ),
        (TYPES[2], &[0xFF; 11], "x: a number of more than 64 bits (byte 0)"),
        (
            TYPES[2],
            &[0x80],
            "x: the datum ends: 1 bytes are to come, 0 are left (byte 1)",
        ),
        (
            TYPES[4],
            &[1, 2],
            "x: the datum ends: 8 bytes are to come, 2 are left (byte 0)",
        ),
        (
            TYPES[6],
            &[8, b'a'],
            "x: a length of 4 bytes, where 1 are left (byte 0)",
        ),
        (
            TYPES[6],
            &[1, b'a'],
            "x: a length of -1 bytes, where 1 are left (byte 0)",
        ),
        (
            TYPES[6],
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1],
            "x: a length of 2199023255552 bytes, where 0 are left (byte 0)",
        ),
        (TYPES[6], &[4, b'a', 0xFF], "x: not UTF-8 (byte 2)"),
        (TYPES[7], &[4], "x: branch 2 of a union of 2 (byte 0)"),
        (TYPES[7], &[1], "x: branch -1 of a union of 2 (byte 0)"),
        (TYPES[9], &[2, b'a'], "x: no uuid: string \"a\" (byte 0)"),
        (TYPES[11], &[4], "x: symbol 2 of an enum of 2 (byte 0)"),
        (TYPES[11], &[1], "x: symbol -1 of an enum of 2 (byte 0)"),
        (TYPES[13], &[0], "x: a decimal of 0 bytes (byte 0)"),
        (
            TYPES[13],
            &[8, 0x3B, 0x9A, 0xCA, 0],
            "x: a decimal of more than 9 digits (byte 0)",
        ),
        (
            TYPES[13],
            &[18, 1, 0, 0, 0, 0, 0, 0, 0, 0],
            "x: a decimal of more than 9 digits (byte 0)",
        ),
        (
            TYPES[13],
            &[18, 0, 0x80, 0, 0, 0, 0, 0, 0, 0],
            "x: a decimal of more than 9 digits (byte 0)",
        ),
        (
            TYPES[15],
            &[0xFE, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1],
            "x: 9223372036854775807 as a timestamp lies before the year 0 or after 9999 (byte 0)",
        ),
        (
            TYPES[18],
            &[0xFE, 0xFF, 0xFF, 0xFF, 0x0F],
            "x: 2147483647 days lies before the year 0 or after 9999 (byte 0)",
        ),
        (
            TYPES[19],
            &[2, 0x80],
            "x[0]: the datum ends: 1 bytes are to come, 0 are left (byte 2)",
        ),
        (
            TYPES[19],
            &[4, 2, 0],
            "x: the datum ends: 1 bytes are to come, 0 are left (byte 3)",
        ),
        (
            TYPES[19],
            &[6, 2, 4],
            "x: a block of 3 elements, where 2 bytes are left (byte 0)",
        ),
        (
            TYPES[19],
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x20, 0],
            "x: a block of 1152921504606846976 elements, where 1 bytes are left (byte 0)",
        ),
        (
            TYPES[19],
            &[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1, 0],
            "x: a block of 9223372036854775808 elements, where 0 bytes are left (byte 0)",
        ),
        (
            TYPES[19],
            &[3, 5, 2, 4, 0],
            "x: a block of -3 bytes, where 3 are left (byte 0)",
        ),
        (
            TYPES[19],
            &[3, 40, 2, 4, 0],
            "x: a block of 20 bytes, where 3 are left (byte 0)",
        ),
        (
            TYPES[19],
            &[1, 4, 2, 4, 0],
            "x: a block that ends at byte 3, and said 4 (byte 3)",
        ),
        (
            TYPES[21],
            &[0x80],
            "x.a: the datum ends: 1 bytes are to come, 0 are left (byte 1)",
        ),
        (
            TYPES[1],
            &[2, 2],
            "1 bytes are left after the datum; is it of this schema? (byte 1)",
        ),
    ] {
        assert_eq!(read(ty, bytes), Err(told.to_owned()), "{ty} of {bytes:?}");
    }
}

#[test]
fn a_registry_header_is_recognised_and_refused() {
    let framed = [0, 0, 0, 1, 0, 4, b'a', b'b'];
    assert_eq!(
        read(r#""string""#, &framed),
        Err("7 bytes are left after the datum; is it of this schema? (byte 1). \
             It begins like the five-byte header of a schema registry (schema id 256): \
             records with that header cannot be read yet, only what follows it"
            .to_owned())
    );
    assert_eq!(read(r#""string""#, &framed[5..]), Ok(text("ab")));
    assert_eq!(read(r#"["null","string"]"#, &[0]), Ok(Value::Null));
}

/// One byte of the datum must not become more than a few values, whatever it claims.
#[test]
fn what_a_datum_holds_is_bounded_by_its_length_and_the_limits() {
    let limits = Limits {
        values_max: 6,
        ..Limits::default()
    };
    let format = avro(&x(
        r#"{"type":"array","items":{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int"}]}}"#,
    ));
    let decoder = Decoder::columns(&format, &format.schema().expect("columns"), [0], limits).expect("compiled");
    assert!(decode(&decoder, &[4, 0, 0, 0, 0, 0]).is_ok());
    assert_eq!(
        decode(&decoder, &[6, 0, 0, 0, 0, 0, 0, 0]),
        Err("x: more values in arrays and structs than one record may have (byte 5)".to_owned())
    );
    // An element has at least two bytes.
    assert_eq!(
        decode(&decoder, &[4, 0, 0, 0]),
        Err("x: a block of 2 elements, where 3 bytes are left (byte 0)".to_owned())
    );

    // Arrays in arrays, each of which claims all that is left: nothing is made room for before it is there.
    let nested = (0..60).fold(r#""int""#.to_owned(), |of, _| {
        format!(r#"{{"type":"array","items":{of}}}"#)
    });
    let mut bytes = Vec::new();
    for level in 0..60u32 {
        let left = (1_000_000 - bytes.len() as u32 - 60 + level) << 1;
        bytes.extend([left as u8 | 0x80, (left >> 7) as u8 | 0x80, (left >> 14) as u8]);
    }
    bytes.resize(1_000_000, 0xFF);
    assert!(read(&nested, &bytes).is_err());
}

#[test]
fn columns_that_are_not_wanted_are_skipped() {
    let fields = TYPES.iter().enumerate().map(|(index, (ty, _))| {
        let ty = ty.replace("\"name\":\"F\"", &format!("\"name\":\"F{index}\""));
        format!(r#"{{"name":"f{index}","type":{ty}}}"#)
    });
    let format = avro(&record(&fields.collect::<Vec<_>>().join(",")));
    let columns = format.schema().expect("columns");
    let row = [
        Value::Bool(true),
        Value::Int(-5),
        Value::Int(1 << 40),
        Value::Float(1.5),
        Value::Float(-0.1),
        Value::Bytes([1, 2].into()),
        text("a"),
        text("b"),
        Value::Null,
        text(UUID),
        text("c"),
        text("B"),
        Value::Bytes([3, 4].into()),
        Value::Decimal(-12345),
        Value::Decimal(999_999_999_999_999_999),
        Value::Timestamp(-1),
        Value::Timestamp(1_714_972_089_123),
        Value::Timestamp(1_714_972_089_123),
        Value::Timestamp(86_400_000),
        Value::Array([Value::Int(1), Value::Int(300)].into()),
        Value::Array([Value::Null, Value::Int(300)].into()),
        Value::Struct([Value::Int(7)].into()),
    ];
    let bytes = encode(&encoder(&format, &columns), &row).expect("written");
    assert_eq!(decode(&decoder(&format, &columns), &bytes).as_deref(), Ok(&row[..]));
    for wanted in 0..columns.len() {
        let decoder = Decoder::columns(&format, &columns, [wanted], Limits::default()).expect("compiled");
        let read = decode(&decoder, &bytes).expect("read");
        for (index, value) in read.iter().enumerate() {
            let expected = if index == wanted { &row[index] } else { &Value::Null };
            assert_eq!(value, expected, "column {index}, wanted {wanted}");
        }
        assert!(decode(&decoder, &bytes[..bytes.len() - 1]).is_err());
    }
    let whole = Decoder::datum(&format, &format.datum_type().expect("a record"), Limits::default()).expect("compiled");
    assert_eq!(decode(&whole, &bytes), Ok(vec![Value::Struct(row.into())]));
}

/// What a user is told who writes these columns with a schema of these fields.
fn compile(columns: &str, avro_schema: &str) -> Result<Encoder, String> {
    let schema = schema(columns);
    Encoder::columns(&avro(avro_schema), &schema, 0..schema.len())
        .map_err(|error| format!("{} | {}", error.message, error.help.unwrap_or_default()))
}

#[test]
fn columns_and_fields_that_differ_are_refused_before_any_record() {
    for (columns, ty, told) in [
        (
            "{ x: string }",
            r#""long""#,
            "column x is string, and the Avro schema says long",
        ),
        (
            "{ x: int64 }",
            r#""double""#,
            "column x is int64, and the Avro schema says double",
        ),
        (
            "{ x: timestamp }",
            r#""long""#,
            "column x is timestamp, and the Avro schema says long",
        ),
        (
            "{ x: int64 }",
            r#"["null","string"]"#,
            "column x is int64, and the Avro schema says string",
        ),
        (
            "{ x: decimal(18,2) }",
            r#"{"type":"bytes","logicalType":"decimal","precision":10,"scale":2}"#,
            "column x is decimal(18,2), and the Avro schema says decimal(10,2)",
        ),
        (
            "{ x: decimal(9,2) }",
            r#"{"type":"bytes","logicalType":"decimal","precision":9,"scale":3}"#,
            "column x is decimal(9,2), and the Avro schema says decimal(9,3)",
        ),
        (
            "{ x: [int64] }",
            r#""int""#,
            "column x is array(int64), and the Avro schema says int",
        ),
        (
            "{ x: [{ a: string }] }",
            r#"{"type":"array","items":{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}}"#,
            "column x.a is string, and the Avro schema says int",
        ),
    ] {
        let told = format!("{told} | use CAST in a map step, or change the schema");
        assert_eq!(compile(columns, &x(ty)).expect_err("it must be refused"), told);
    }
    assert_eq!(
        compile("{ x: int64, y: bool }", &x("\"long\"")).expect_err("y is too many"),
        "column y is bool, and the Avro schema has no such field | \
         add the field to the schema, or leave the column out with a map step"
    );
    assert_eq!(
        compile(
            "{ y: bool }",
            &record(r#"{"name":"x","type":"long"},{"name":"y","type":"boolean"}"#)
        )
        .expect_err("x is missing"),
        "field x of the Avro schema is long, and the rows have no such column | \
         add it with a map step, or take it out of the schema; the rows are { y: bool }"
    );
    assert_eq!(
        compile("{ a: int64, b: int64 }", "\"long\"").expect_err("one is too many"),
        "the Avro schema is long, which holds one column, and the rows are { a: int64, b: int64 } | \
         make it a record, or leave one column with a map step"
    );
}

#[test]
fn fields_are_written_by_name() {
    let fields = r#"{"name":"b","type":["string","null"]},{"name":"a","type":"int"}"#;
    let encoder = compile("{ a: int64, b: string }", &record(fields)).expect("they agree");
    assert_eq!(encode(&encoder, &[Value::Int(1), text("x")]), Ok(vec![0, 2, b'x', 2]));
    assert_eq!(encode(&encoder, &[Value::Int(1), Value::Null]), Ok(vec![2, 2]));
    let one = compile("{ a: int64 }", "\"long\"").expect("they agree");
    assert_eq!(encode(&one, &[Value::Int(-1)]), Ok(vec![1]));
}

#[test]
fn values_that_the_schema_cannot_hold_are_refused_by_path() {
    for (ty, columns, value, told) in [
        (
            "\"int\"",
            "int64",
            Value::Int(1 << 31),
            "x: 2147483648 is no int of 32 bits",
        ),
        (
            "\"int\"",
            "int64",
            Value::Null,
            "x: NULL, and the Avro schema does not allow null here: use coalesce, or a union with null",
        ),
        (
            "\"float\"",
            "float64",
            Value::Float(1e300),
            "x: 1e300 is beyond a float of 32 bits",
        ),
        (TYPES[9].0, "string", text("a"), "x: no uuid: string \"a\""),
        (
            TYPES[11].0,
            "string",
            text("C"),
            "x: no symbol of the enum: string \"C\"",
        ),
        (
            TYPES[12].0,
            "bytes",
            Value::Bytes([1].into()),
            "x: 1 bytes, and the Avro schema says 2",
        ),
        (
            r#"{"type":"fixed","name":"F","size":1,"logicalType":"decimal","precision":3}"#,
            "decimal(3,0)",
            Value::Decimal(128),
            "x: the unscaled decimal 128 does not fit into 1 bytes",
        ),
        (
            TYPES[17].0,
            "timestamp",
            Value::Timestamp(1 << 50),
            "x: the timestamp 1125899906842624 ms is beyond timestamp-nanos",
        ),
        (
            TYPES[18].0,
            "timestamp",
            Value::Timestamp(1),
            "x: the timestamp 1 ms is no date: use date_trunc to make it midnight, UTC",
        ),
        (
            TYPES[19].0,
            "[int64]",
            Value::Array([Value::Int(1), Value::Null].into()),
            "x[1]: NULL, and the Avro schema does not allow null here: use coalesce, or a union with null",
        ),
    ] {
        let encoder = compile(&format!("{{ x: {columns} }}"), &x(ty)).expect("they agree");
        assert_eq!(encode(&encoder, &[value]), Err(told.to_owned()), "{ty}");
    }
}
