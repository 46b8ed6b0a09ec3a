//! What is read, what is refused and in which words, and what is written.
mod against_value;

use crate::format::tests::{decode, decoder, encode, encoder, schema, ty};
use crate::format::{Decoder, Encoder, Format, Limits};
use crate::value::{Field, Schema, Type, Value};

fn text(text: &str) -> Value {
    Value::String(text.into())
}

/// The values of a record of this schema.
fn read(columns: &str, json: &str) -> Result<Vec<Value>, String> {
    decode(&decoder(&Format::Json, &schema(columns)), json.as_bytes())
}

#[track_caller]
fn reads(ty: &str, json: &str, value: Value) {
    assert_eq!(
        read(&format!("{{ x: {ty} }}"), &format!("{{\"x\":{json}}}")),
        Ok(vec![value]),
        "{json} as {ty}"
    );
}

/// What a user is told of `{"x":<json>}`: `<json>` begins at byte 5.
#[track_caller]
fn refuses(ty: &str, json: &str, told: &str) {
    let result = read(&format!("{{ x: {ty} }}"), &format!("{{\"x\":{json}}}"));
    assert_eq!(result, Err(told.to_owned()), "{json} as {ty}");
}

/// The parser tells of `-0`, `-0.0` and `-1e-400` alike as of minus zero; all of them were read as the whole number 0.
#[test]
fn of_what_the_parser_takes_for_minus_zero_only_minus_zero_is_a_whole_number() {
    reads("int64", "-0", Value::Int(0));
    reads("timestamp", "-0", Value::Timestamp(0));
    reads(
        "[int64]",
        "[-0, 7, null]",
        Value::Array([Value::Int(0), Value::Int(7), Value::Null].into()),
    );
    for text in ["-0.0", "-0e0", "-1e-400"] {
        let told = format!(
            "x: expected int64, found number {text}: only whole numbers, without a point or an exponent (byte 5)"
        );
        refuses("int64", text, &told);
        refuses(
            "[int64]",
            &format!("[-0, {text}]"),
            &told.replace("x:", "x[1]:").replace("byte 5", "byte 10"),
        );
    }
    let told = "x[1]: expected int64, found string \"7\" (byte 10)";
    refuses("[int64]", "[-0, \"7\"]", told);
}

#[test]
fn each_type_is_read_from_what_the_documentation_lists() {
    reads("bool", "true", Value::Bool(true));
    reads("int64", "-9223372036854775808", Value::Int(i64::MIN));
    reads("int64", "9223372036854775807", Value::Int(i64::MAX));
    reads("float64", "0.1", Value::Float(0.1));
    reads("float64", "12", Value::Float(12.0));
    reads("float64", "-1.5E-3", Value::Float(-0.0015));
    reads("decimal(18,2)", "12.5", Value::Decimal(1250));
    reads("decimal(18,2)", "1.5e2", Value::Decimal(15000));
    reads("decimal(18,2)", "\"-12.50\"", Value::Decimal(-1250));
    reads("decimal(18,2)", "\"\\u0031.5\"", Value::Decimal(150));
    reads("string", "\"a\\u00e9\\n\\ud83d\\ude00\"", text("a\u{e9}\n\u{1F600}"));
    reads("bytes", "\"AAEC/w==\"", Value::Bytes([0, 1, 2, 255].into()));
    reads(
        "timestamp",
        "\"2024-05-06T07:08:09.123+02:00\"",
        Value::Timestamp(1_714_972_089_123),
    );
    reads("timestamp", "1714972089123", Value::Timestamp(1_714_972_089_123));
    reads(
        "[int64]",
        "[1, null, 3]",
        Value::Array([Value::Int(1), Value::Null, Value::Int(3)].into()),
    );
    reads("[int64]", "[]", Value::Array([].into()));
    reads(
        "{ a: int64, b: string }",
        "{\"b\":\"c\"}",
        Value::Struct([Value::Null, text("c")].into()),
    );
    for ty in [
        "bool",
        "int64",
        "float64",
        "decimal(9,2)",
        "string",
        "bytes",
        "timestamp",
        "[int64]",
        "{ a: bool }",
    ] {
        reads(ty, "null", Value::Null);
    }
}

#[test]
fn a_float_is_the_nearest_to_its_text() {
    // Texts whose nearest float the parser's own conversion misses by the last bit.
    for number in [
        "31.245270191439438",
        "121.48791951161945",
        "100.78399658203125",
        "7.2057594037927933e16",
        "2.2250738585072014e-308",
    ] {
        reads("float64", number, Value::Float(number.parse().expect("a float")));
    }
}

#[test]
fn members_come_in_any_order_and_others_are_ignored() {
    let columns = "{ a: int64, b: int64, c: int64 }";
    let row = Ok(vec![Value::Int(1), Value::Int(2), Value::Null]);
    assert_eq!(read(columns, r#"{"a":1,"b":2}"#), row);
    assert_eq!(
        read(columns, r#" { "z" : [{"a":9}], "b" : 2 , "a" : 1, "c": null } "#),
        row
    );
    assert_eq!(read(columns, r#"{"\u0061":1,"b":2}"#), row);
    assert_eq!(read(columns, "{}"), Ok(vec![Value::Null; 3]));
}

/// Names are compared by their ends: of every length, one that differs in one byte must not be taken for another.
#[test]
fn names_that_differ_in_one_byte_are_different() {
    for length in 1..40 {
        let name = "a".repeat(length);
        let schema = Schema::new(vec![Field {
            name: name.clone(),
            ty: Type::Int,
        }]);
        let decoder = decoder(&Format::Json, &schema);
        let read = |name: &str| decode(&decoder, format!("{{\"{name}\":1}}").as_bytes());
        assert_eq!(read(&name), Ok(vec![Value::Int(1)]));
        for place in 0..length {
            let mut other = name.clone();
            other.replace_range(place..=place, "b");
            assert_eq!(read(&other), Ok(vec![Value::Null]), "{other}");
        }
        assert_eq!(read(&name[1..]), Ok(vec![Value::Null]));
    }
}

#[test]
fn of_many_members_each_is_found() {
    let names: Vec<String> = (0..200).map(|index| format!("f{index}")).collect();
    let columns: Vec<String> = names.iter().map(|name| format!("{name}: int64")).collect();
    let columns = format!("{{ {} }}", columns.join(", "));
    let members: Vec<String> = (0..200).rev().map(|index| format!("\"f{index}\":{index}")).collect();
    let json = format!("{{{}}}", members.join(","));
    assert_eq!(read(&columns, &json), Ok((0..200).map(Value::Int).collect()));
    let twice = format!("{{{},\"f150\":1}}", members.join(","));
    let told = read(&columns, &twice).expect_err("given twice");
    assert!(told.starts_with("f150: given twice (byte "), "{told}");
}

#[test]
fn columns_that_are_not_wanted_are_null_and_not_looked_at() {
    let schema = schema("{ a: int64, b: int64, c: [int64] }");
    let decoder = Decoder::columns(&Format::Json, &schema, [0], Limits::default()).expect("compiled");
    let row = Ok(vec![Value::Int(1), Value::Null, Value::Null]);
    assert_eq!(decode(&decoder, br#"{"a":1,"b":"no number","c":{}}"#), row);
    let told = decode(&decoder, br#"{"a":1,"b":[1,}"#).expect_err("no JSON");
    assert_eq!(told, "b: not JSON: expected value (byte 14)");
}

#[test]
fn a_datum_is_any_value() {
    let datum = |of: &str, json: &str| {
        let decoder = Decoder::datum(&Format::Json, &ty(of), Limits::default()).expect("compiled");
        decode(&decoder, json.as_bytes())
    };
    assert_eq!(datum("string", "\"k\""), Ok(vec![text("k")]));
    assert_eq!(datum("int64", " 12 "), Ok(vec![Value::Int(12)]));
    assert_eq!(
        datum("{ a: int64 }", "{\"a\":1}"),
        Ok(vec![Value::Struct([Value::Int(1)].into())])
    );
    assert_eq!(
        datum("int64", "\"k\""),
        Err("expected int64, found string \"k\" (byte 0)".to_owned())
    );
}

#[test]
fn values_of_another_type_are_refused_by_path_and_place() {
    refuses("string", "12", "x: expected string, found number 12 (byte 5)");
    refuses("string", "[1]", "x: expected string, found an array (byte 5)");
    refuses("string", "[ ]", "x: expected string, found an array (byte 5)");
    refuses("string", "{}", "x: expected string, found an object (byte 5)");
    refuses("string", "true", "x: expected string, found true (byte 5)");
    refuses("bool", "0", "x: expected bool, found number 0 (byte 5)");
    refuses(
        "bool",
        "\"a\\\\\\\"b\"",
        "x: expected bool, found string \"a\\\\\\\"b\" (byte 5)",
    );
    refuses(
        "int64",
        "1.0",
        "x: expected int64, found number 1.0: only whole numbers, without a point or an exponent (byte 5)",
    );
    refuses(
        "int64",
        "1e2",
        "x: expected int64, found number 1e2: only whole numbers, without a point or an exponent (byte 5)",
    );
    refuses(
        "int64",
        "9223372036854775808",
        "x: expected int64, found number 9223372036854775808: beyond 64 bits (byte 5)",
    );
    refuses("int64", "\"1\"", "x: expected int64, found string \"1\" (byte 5)");
    refuses(
        "float64",
        "\"1.5\"",
        "x: expected float64, found string \"1.5\" (byte 5)",
    );
    refuses(
        "float64",
        "1e999",
        "x: expected float64, found number 1e999: beyond float64 (byte 5)",
    );
    refuses("float64", " [1]", "x: expected float64, found an array (byte 6)");
    refuses(
        "decimal(18,2)",
        "1.234",
        "x: expected decimal(18,2), found number 1.234: more than 2 digits behind the point (byte 5)",
    );
    refuses(
        "decimal(4,2)",
        "100",
        "x: expected decimal(4,2), found number 100: more digits than the 4 of its type (byte 5)",
    );
    refuses(
        "decimal(4,0)",
        "\"1 \"",
        "x: expected decimal(4,0), found string \"1 \": not a number (byte 5)",
    );
    refuses("decimal(4,0)", "true", "x: expected decimal(4,0), found true (byte 5)");
    refuses(
        "bytes",
        "\"a-_b\"",
        "x: expected bytes in base64, found string \"a-_b\": not base64 (standard alphabet, padded) (byte 5)",
    );
    refuses(
        "timestamp",
        "\"2024-05-06\"",
        "x: expected timestamp, found string \"2024-05-06\": not as in 2024-05-06T07:08:09Z (byte 5)",
    );
    refuses(
        "timestamp",
        "\"2024-05-06T07:08:09\"",
        "x: expected timestamp, found string \"2024-05-06T07:08:09\": no offset from UTC at its end, like Z or +02:00 (byte 5)",
    );
    refuses(
        "timestamp",
        "1714972089123456",
        "x: expected timestamp, found number 1714972089123456: \
         beyond the year 9999 or before 0, as milliseconds; are these micro- or nanoseconds? (byte 5)",
    );
    refuses(
        "timestamp",
        "1.5",
        "x: expected timestamp, found number 1.5: only whole numbers, without a point or an exponent (byte 5)",
    );
    refuses(
        "[int64]",
        "[1, 2, \"a\"]",
        "x[2]: expected int64, found string \"a\" (byte 12)",
    );
    refuses(
        "[[int64]]",
        "[[],[1,{}]]",
        "x[1][1]: expected int64, found an object (byte 12)",
    );
    refuses("[int64]", "1", "x: expected an array, found number 1 (byte 5)");
    refuses("{ a: int64 }", "1", "x: expected an object, found number 1 (byte 5)");
    refuses(
        "{ city: string }",
        "{\"city\":12}",
        "x.city: expected string, found number 12 (byte 13)",
    );
    refuses(
        "[{ p: { q: bool } }]",
        "[{}, {\"p\":{\"q\":7}}]",
        "x[1].p.q: expected bool, found number 7 (byte 20)",
    );
    refuses("{ a: int64 }", "{\"a\":1,\"a\":2}", "x.a: given twice (byte 14)");
    refuses("{ a: int64 }", "{\"a\":null,\"a\":2}", "x.a: given twice (byte 17)");
}

#[test]
fn texts_that_are_no_object_are_refused() {
    let told =
        |json: &[u8]| decode(&decoder(&Format::Json, &schema("{ x: string }")), json).expect_err("it must be refused");
    assert_eq!(told(b""), "no JSON at all, but an empty value");
    assert_eq!(told(b" \n"), "no JSON at all, but an empty value");
    assert_eq!(told(b"null"), "expected an object, found null (byte 0)");
    assert_eq!(told(b" [1]"), "expected an object, found an array (byte 1)");
    assert_eq!(told(b"12"), "expected an object, found number 12 (byte 0)");
    assert_eq!(told(b"nul"), "not JSON: EOF while parsing a value (byte 2)");
    assert_eq!(told(b"{\"x\":\"a\"} {}"), "not JSON: trailing characters (byte 10)");
    assert_eq!(told(b"{\"x\":\"a\""), "not JSON: EOF while parsing an object (byte 7)");
    assert_eq!(told(b"{\"x\":\"a\",}"), "not JSON: trailing comma (byte 9)");
    assert_eq!(
        told(b"{\n\"x\":\n\"a\nb\"}"),
        "x: not JSON: control character (\\u0000-\\u001F) found while parsing a string (byte 9)"
    );
    assert_eq!(told(b"{x:1}"), "not JSON: key must be a string (byte 1)");
    assert_eq!(told(b"{\"x\":'a'}"), "x: not JSON: expected value (byte 5)");
    assert_eq!(
        told(b"{\"x\":\"\\ud800\"}"),
        "x: not JSON: unexpected end of hex escape (byte 12)"
    );
    assert_eq!(told(b"{\"x\":\"a\xFF\"}"), "not UTF-8 (byte 7)");
    assert_eq!(told(b"{\"y\":\"a\xFF\"}"), "not UTF-8 (byte 7)");
    assert_eq!(
        told(b"\xEF\xBB\xBF{\"x\":\"a\"}"),
        "begins with a byte order mark (BOM), which JSON must not have (byte 0)"
    );
    assert_eq!(
        told(b"\0\0\0\0*{\"x\":\"a\"}"),
        "not JSON: expected value (byte 0). It begins like the five-byte header of a schema registry (schema id 42): \
         records with that header cannot be read yet, only what follows it"
    );
}

#[test]
fn errors_hold_little_of_the_data() {
    let long = "\u{1}\u{e9}x".repeat(100_000);
    for json in [
        serde_json::to_string(&long).expect("text"),
        format!("1{}", "0".repeat(100_000)),
    ] {
        let told = read("{ x: bool }", &format!("{{\"x\":{json}}}")).expect_err("no bool");
        assert!(told.len() < 200, "{} bytes: {told}", told.len());
        let told = read("{ x: decimal(18,2) }", &format!("{{\"x\":{json}}}")).expect_err("no decimal");
        assert!(told.len() < 200, "{} bytes: {told}", told.len());
    }
}

#[test]
fn arrays_are_bounded_and_skipped_nesting_takes_no_stack() {
    let limits = Limits {
        values_max: 5,
        ..Limits::default()
    };
    let bounded = |columns: &str, json: &str| {
        let schema = schema(columns);
        let decoder = Decoder::columns(&Format::Json, &schema, 0..schema.len(), limits).expect("compiled");
        decode(&decoder, json.as_bytes()).map(|_| ())
    };
    assert_eq!(bounded("{ x: [[int64]] }", r#"{"x":[[1,2],[3]]}"#), Ok(()));
    assert_eq!(
        bounded("{ x: [[int64]] }", r#"{"x":[[1,2],[3,4]]}"#),
        Err("x: more values in arrays and structs than one record may have (byte 17)".to_owned())
    );
    // Members that are absent take their place too: an element of two bytes must not become a thousand values.
    assert!(bounded("{ x: [{ a: bool, b: bool }] }", r#"{"x":[{}]}"#).is_ok());
    assert!(bounded("{ x: [{ a: bool, b: bool }] }", r#"{"x":[{},{}]}"#).is_err());

    let deep = format!("{{\"other\":{}{}}}", "[".repeat(500_000), "]".repeat(500_000));
    assert_eq!(read("{ x: bool }", &deep), Ok(vec![Value::Null]));
    let open = format!("{{\"x\":{}", "[".repeat(1_000_000));
    assert_eq!(
        read("{ x: [bool] }", &open),
        Err("x[0]: expected bool, found an array (byte 6)".to_owned())
    );
}

#[test]
fn rows_are_written_compact_and_in_order() {
    let columns = schema("{ a: bool, b: int64 }");
    let json = encode(&encoder(&Format::Json, &columns), &[Value::Bool(true), Value::Int(-3)]);
    assert_eq!(json.as_deref(), Ok(&br#"{"a":true,"b":-3}"#[..]));

    let columns = schema(
        "{ f: float64, d: decimal(18,2), w: decimal(9,0), s: string, r: bytes, t: timestamp, l: [decimal(9,3)], o: { p: string, q: float64 } }",
    );
    let row = [
        Value::Float(1.0),
        Value::Decimal(-5),
        Value::Decimal(7),
        text("a\"\\\n\u{7f}\u{e9}"),
        Value::Bytes([0, 1, 2, 255].into()),
        Value::Timestamp(1_714_972_089_123),
        Value::Array([Value::Decimal(1500), Value::Null].into()),
        Value::Struct([Value::Null, Value::Float(1e300)].into()),
    ];
    let json = encode(&encoder(&Format::Json, &columns), &row).expect("written");
    assert_eq!(
        String::from_utf8(json).expect("UTF-8"),
        "{\"f\":1.0,\"d\":-0.05,\"w\":7,\"s\":\"a\\\"\\\\\\n\u{7f}\u{e9}\",\"r\":\"AAEC/w==\",\
         \"t\":\"2024-05-06T05:08:09.123Z\",\"l\":[1.500,null],\"o\":{\"p\":null,\"q\":1e+300}}"
    );
    let none = encode(&Encoder::columns(&Format::Json, &columns, []).expect("compiled"), &row);
    assert_eq!(none.as_deref(), Ok(&b"{}"[..]));
    let some = encode(
        &Encoder::columns(&Format::Json, &columns, [2, 1]).expect("compiled"),
        &row,
    );
    assert_eq!(some.as_deref(), Ok(&br#"{"d":-0.05,"w":7}"#[..]));
}

#[test]
fn what_json_cannot_hold_is_refused_by_path() {
    let write = |ty: &str, value: Value| {
        let encoder = encoder(&Format::Json, &schema(&format!("{{ x: {ty} }}")));
        encode(&encoder, &[value]).expect_err("it must be refused")
    };
    assert_eq!(write("float64", Value::Float(f64::NAN)), "x: NaN is no number in JSON");
    assert_eq!(
        write("float64", Value::Float(f64::NEG_INFINITY)),
        "x: -Infinity is no number in JSON"
    );
    let nested = Value::Struct([Value::Array([Value::Float(0.0), Value::Float(f64::INFINITY)].into())].into());
    assert_eq!(
        write("{ l: [float64] }", nested),
        "x.l[1]: Infinity is no number in JSON"
    );
    assert_eq!(
        write("timestamp", Value::Timestamp(i64::MAX)),
        "x: the timestamp 9223372036854775807 ms lies before the year 0 or after 9999"
    );
    assert!(write("decimal(9,2)", Value::Int(1)).contains("bug of Keyfold"));
}
